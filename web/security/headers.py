"""What every answer tells the browser: what a page may load, who may embed it, what it may be kept for."""

from __future__ import annotations

from starlette.datastructures import MutableHeaders
from starlette.types import Message, Send

# No inline script or style: what a submission or its name smuggles into a page is not run (Content Security Policy
# Level 3, https://www.w3.org/TR/CSP3/).
POLICY = "; ".join((
    "default-src 'self'", "script-src 'self'", "style-src 'self'", "img-src 'self' data:", "object-src 'none'",
    "base-uri 'none'", "form-action 'self'", "frame-ancestors 'none'",
))  # fmt: skip
_ALWAYS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
STATIC = ("/static/", "/editor/")
_CHECKED_AGAIN = "no-cache"  # kept, and asked for again with its ETag
_NOT_KEPT = "no-store"  # pages carry the browser's token, the rest changes at any time


def adding(path: str, send: Send, cookie: str = "") -> Send:
    """A `send` that adds the headers to the answer of a request for `path`."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _ALWAYS.items():
                headers[name] = value
            headers.setdefault("Cache-Control", _CHECKED_AGAIN if path.startswith(STATIC) else _NOT_KEPT)
            if cookie:
                headers.append("Set-Cookie", cookie)
        await send(message)

    return sending
