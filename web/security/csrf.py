"""Proof that a request which changes something was made by a page of this site, or by a program.

A browser has a random value in a cookie, and pages carry its HMAC under the site's secret; a request brings the HMAC
back in the header X-CSRF-Token or in a form's field `csrf_token` (a signed double-submit cookie, as the OWASP
cheat sheet on cross-site request forgery describes it). The cookie alone would not do: cookies do not know ports, so
every other server on this machine sees it, and could set it.

A program has no cookie, hence nothing that another page could misuse. It says X-Judge-Client: NAME. A page of another
origin cannot: a header of its own choice makes the browser ask first (a CORS preflight), and the answer is never yes.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import urllib.parse

from fastapi import Request

from web.errors import SiteError
from web.security.hosts import SAFE_METHODS

COOKIE, HEADER, FIELD, PROGRAM = "judge_csrf", "x-csrf-token", "csrf_token", "x-judge-client"
SECRET_BYTES = 32
_VALUE = re.compile(r"[A-Za-z0-9_-]{32}\Z")
_VALUE_BYTES = 24
_FORM = "application/x-www-form-urlencoded"
_MOST_FIELDS = 100


def value_of(request: Request) -> str | None:
    """The browser's random value; None for one that has none yet."""
    found = request.cookies.get(COOKIE, "")
    return found if _VALUE.match(found) else None


def new_value() -> str:
    """For a browser that has none."""
    return secrets.token_urlsafe(_VALUE_BYTES)


def token(secret: bytes, value: str) -> str:
    """What pages carry for the browser with this value."""
    return hmac.new(secret, value.encode(), hashlib.sha256).hexdigest()


def set_cookie(value: str) -> str:
    """The header that gives a browser its value. `Lax`, since with `Strict` a link from elsewhere would come without
    the cookie, get another one, and make the tokens of all open pages stale."""
    return f"{COOKIE}={value}; Path=/; HttpOnly; SameSite=Lax"


def check(request: Request, body: bytes, secret: bytes) -> None:
    """Raises SiteError 403 for a request that changes something without the proof."""
    if request.method in SAFE_METHODS or request.headers.get(PROGRAM, "").strip():
        return
    value, brought = value_of(request), request.headers.get(HEADER) or _field(request, body)
    if value is None or not hmac.compare_digest(token(secret, value).encode(), brought.encode()):
        message = "this request lacks the token of a page of this site, or the page is too old"
        hint = "reload the page and send it again; a program sends the header X-Judge-Client: NAME"
        raise SiteError(403, "stale_token", message, hint)


def _field(request: Request, body: bytes) -> str:
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _FORM:
        return ""
    try:
        fields = urllib.parse.parse_qs(body.decode("ascii"), max_num_fields=_MOST_FIELDS)
    except ValueError:  # no ASCII, hence no form; or too many fields
        return ""
    return fields.get(FIELD, [""])[0]
