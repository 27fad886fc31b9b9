"""In which language and in which colours somebody reads: the address, then a cookie, then what the browser asks for."""

from __future__ import annotations

import re
from urllib.parse import parse_qsl, urlencode, urlsplit

from fastapi import APIRouter, Form, Request
from fastapi.responses import RedirectResponse

LANGUAGES = {"en": "English", "zh": "中文"}  # by their own names
TAGS = {"en": "en", "zh": "zh-Hans"}
THEMES = ("light", "dark", "auto")
_LONGEST = 500  # of a header that is looked at
_YEAR = 365 * 24 * 3600
_LOCAL = re.compile(r"/(?![/\\])[\x21-\x7e]*\Z")  # a browser takes //host and /\host for other sites

router = APIRouter(include_in_schema=False)


def language(request: Request) -> str:
    """One of LANGUAGES."""
    for asked in (request.query_params.get("lang"), request.cookies.get("lang")):
        if asked in LANGUAGES:
            return asked
    return _accepted(request.headers.get("accept-language", ""))


def theme(request: Request) -> str:
    """One of THEMES."""
    asked = request.cookies.get("theme", "")
    return asked if asked in THEMES else "auto"


def address(request: Request) -> str:
    """Of this page, without the language in it: where the reader is after choosing one."""
    query = [(name, value) for name, value in parse_qsl(request.url.query) if name != "lang"]
    return request.url.path + (f"?{urlencode(query)}" if query else "")


def _accepted(header: str) -> str:
    """The language of an Accept-Language header that is wanted most; English where it names none of ours."""
    weights: dict[str, float] = {}
    for part in header[:_LONGEST].split(","):
        name, _, weight = part.strip().partition(";")
        found = re.fullmatch(r"\s*q=([01](?:\.\d{0,3})?)\s*", weight)
        primary = name.strip().lower().split("-")[0]
        if primary in LANGUAGES and (found or not weight):
            weights.setdefault(primary, float(found[1]) if found else 1.0)
    best = max(weights, key=weights.__getitem__, default="en")
    return best if weights.get(best) else "en"


@router.post("/preferences")
def choose(lang: str = Form(""), theme: str = Form(""), back: str = Form("/")) -> RedirectResponse:
    """Keep a choice for a year and go back to where it was made; what is no choice changes nothing."""
    answer = RedirectResponse(_local(back), 303)
    for name, value, known in (("lang", lang, LANGUAGES), ("theme", theme, THEMES)):
        if value in known:
            answer.set_cookie(name, value, max_age=_YEAR, samesite="lax", httponly=True)
    return answer


def _local(back: str) -> str:
    """An address of this site; the first page instead of any other."""
    parts = urlsplit(back) if _LOCAL.match(back) else None
    return back if parts and not parts.scheme and not parts.netloc else "/"
