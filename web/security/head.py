"""HEAD: the answer to the same GET without its body (RFC 9110, section 9.3.2), whatever the address."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.types import ASGIApp, Message, Receive, Scope, Send


@dataclass(frozen=True)
class Heads:
    """An ASGI application around another one, which sees GET. A stream without end is told that its client has gone."""

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self.app(scope, receive, send)
            return
        started = ended = False

        async def receive_until_started() -> Message:
            return {"type": "http.disconnect"} if started else await receive()

        async def send_head(message: Message) -> None:
            nonlocal started, ended
            if message["type"] == "http.response.start":
                started = True
                await send(message)
            elif not ended:
                ended = True
                await send({"type": "http.response.body", "body": b"", "more_body": False})

        await self.app({**scope, "method": "GET"}, receive_until_started, send_head)
