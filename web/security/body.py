"""The body of a request, read whole before anybody looks at it: bounded in bytes and in time, and never decompressed.

A few kilobytes of gzip can be gigabytes of text, and no client of this site compresses what it sends.
"""

from __future__ import annotations

import asyncio

from fastapi import Request
from starlette.types import Message, Receive

from web.errors import SiteError

MIB = 1 << 20
_DRAINED = 16 * MIB  # of a body that is too long: many clients read the answer only when they have sent everything


class ClientGone(Exception):
    """It hung up before the whole body was here."""


async def read(request: Request, receive: Receive, most: int, seconds: float) -> bytes:
    """The body, of at most `most` bytes, within `seconds`. Raises SiteError 408, 413 or 415, and ClientGone."""
    encodings = request.headers.get("content-encoding", "identity").strip().lower()
    if encodings != "identity":
        hint = "send it as it is, without Content-Encoding"
        raise SiteError(415, "compressed", "this site takes no compressed bodies", hint)
    try:
        async with asyncio.timeout(seconds):
            return await _read(receive, most)
    except TimeoutError:
        raise SiteError(408, "too_slow", f"the body did not arrive within {seconds:g} s", "send it again") from None


async def _read(receive: Receive, most: int) -> bytes:
    parts: list[bytes] = []
    length, more = 0, True
    while more and length <= most + _DRAINED:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        part = message.get("body", b"")
        length += len(part)
        if length <= most:
            parts.append(part)
        more = message.get("more_body", False)
    if length > most:
        hint = "a submission is one file of source; leave out what is not needed"
        raise SiteError(413, "body_too_long", f"the request has over {most} bytes, more than the site takes", hint)
    return b"".join(parts)


def replay(body: bytes, receive: Receive) -> Receive:
    """A `receive` that gives this body, and then what comes after it: the client hangs up."""
    given = False

    async def again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again
