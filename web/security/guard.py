"""The checks in their order, around the whole application: Host, Origin, the body, the token. Then the answer's
headers.

The guard stands outside of the framework's own outermost layer, so that the headers are on the answer to a failure,
too. Failures have been logged and answered when they arrive here (web/failures.py).
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

from fastapi import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from web import failures
from web.errors import SiteError
from web.security import body, csrf, headers, hosts

_WITHOUT_COOKIE = (*headers.STATIC, "/api/")


@dataclass(frozen=True)
class Guard:
    """An ASGI application around another one. `request.state.csrf_token` is what pages carry."""

    app: ASGIApp
    hosts: frozenset[str]
    secret: bytes
    body_bytes: int
    body_seconds: float = 30.0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request = Request(scope)
        path = scope["path"]
        known = csrf.value_of(request)
        value = known or csrf.new_value()
        request.state.csrf_token = csrf.token(self.secret, value)
        wants_cookie = not known and request.method == "GET" and not path.startswith(_WITHOUT_COOKIE)
        try:
            content = await self._checked(request, receive)
        except SiteError as error:
            response = failures.respond(request, error)
            response.headers["Connection"] = "close"  # the body may not have been read
            await response(scope, receive, headers.adding(path, send))
        except body.ClientGone:
            pass
        else:
            cookie = csrf.set_cookie(value) if wants_cookie else ""
            with contextlib.suppress(Exception):  # it has been logged and answered by then, and is raised once more
                await self.app(scope, body.replay(content, receive), headers.adding(path, send, cookie))

    async def _checked(self, request: Request, receive: Receive) -> bytes:
        """The body of a request that may pass."""
        hosts.check_host(request, self.hosts)
        hosts.check_origin(request)
        content = await body.read(request, receive, self.body_bytes, self.body_seconds)
        csrf.check(request, content, self.secret)
        return content
