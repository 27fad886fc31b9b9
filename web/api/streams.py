"""The events of one judging as server-sent events (WHATWG HTML, section 9.2), read from the store as they appear there.

The worker that judges is another process, so the store is asked again and again; several times a second while events
come, less often when they do not. Whoever was cut off goes on behind the last number that it has seen.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

import anyio
import anyio.to_thread
from fastapi import Request
from fastapi.responses import StreamingResponse
from sqlalchemy import Engine
from sqlalchemy.exc import OperationalError
from starlette.types import Receive, Scope, Send

from web.errors import later
from web.store import judgings, submissions
from web.store.records import State, StoredEvent

FINAL = (State.FINISHED.value, State.CANCELLED.value)  # types of the events that end a judging
HEARTBEAT_SECONDS = 15.0  # of silence, after which a comment shows that somebody is there
PLACE_SECONDS = 2.0  # between two looks at the place in the queue
_MOST = 32
_FULL_SECONDS = 10.0
_BUSY_SECONDS, _IDLE_SECONDS, _IDLE_AFTER = 0.1, 0.4, 10.0
_THREADS = 4  # that ask the store for all streams together, so that pages are not kept waiting
_RETRY = "retry: 2000\n\n"  # milliseconds until a browser that was cut off comes again


class Streams:
    """All streams that are open. `close()`: they end within half a second, and no new one starts."""

    def __init__(self, most: int = _MOST):
        self._most = most
        self.open = 0
        self.closing = False
        self.limiter = anyio.CapacityLimiter(_THREADS)

    @contextlib.contextmanager
    def slot(self) -> Iterator[None]:
        """Around one stream. Raises SiteError 503 where there is none left."""
        if self.closing or self.open >= self._most:
            raise later(503, "too_many_streams", f"{self._most} streams are open already", _FULL_SECONDS)
        self.open += 1
        try:
            yield
        finally:
            self.open -= 1

    def close(self) -> None:
        """At the end of the site."""
        self.closing = True


@dataclass
class Follower:
    """One client that follows one judging, from behind event number `seq`."""

    request: Request
    engine: Engine
    streams: Streams
    submission_id: str
    run_id: int
    seq: int
    _waits: bool = True  # until a step says otherwise
    _told_place: int | None = None
    _next_place: float = 0.0  # of the monotonic clock

    async def lines(self) -> AsyncIterator[str]:
        """What goes over the wire, until the judging ends, the client or the site."""
        yield _RETRY
        told = asked = time.monotonic()
        while not self.streams.closing and not await self.request.is_disconnected():
            events = await self._events()
            if events is None:
                return  # the store does not answer; the client comes again, and is told so
            now = time.monotonic()
            for event in events:
                yield as_text(event)
                self.seq, told = event.seq, now
                if event.type in FINAL:
                    return
            if line := await self._place(events, now):
                yield line
            if now - max(told, asked) >= HEARTBEAT_SECONDS:
                if await self._ended():
                    return
                yield ":\n\n"
                asked = now
            await anyio.sleep(_BUSY_SECONDS if now - told < _IDLE_AFTER else _IDLE_SECONDS)

    async def _events(self) -> list[StoredEvent] | None:
        try:
            return await anyio.to_thread.run_sync(
                judgings.events_after, self.engine, self.run_id, self.seq, limiter=self.streams.limiter
            )
        except OperationalError:
            return None

    async def _place(self, events: list[StoredEvent], now: float) -> str:
        """The place in the queue, where it is another than the client has heard of last; else ""."""
        for event in events:
            self._waits, self._told_place = event.type in ("queued", "restarted"), event.data.get("position")
        if not self._waits or now < self._next_place:
            return ""
        self._next_place = now + PLACE_SECONDS
        place = await self._ask_place()
        if place is None or place == self._told_place:
            return ""
        self._told_place = place
        data = json.dumps({"seq": self.seq, "type": "position", "position": place})
        return f"event: position\ndata: {data}\n\n"

    async def _ask_place(self) -> int | None:
        with contextlib.suppress(OperationalError):
            return await anyio.to_thread.run_sync(
                judgings.position, self.engine, self.run_id, limiter=self.streams.limiter
            )
        return None

    async def _ended(self) -> bool:
        """Whether nothing will come any more: a client that asks from behind the last event."""
        found = await anyio.to_thread.run_sync(
            submissions.get, self.engine, self.submission_id, limiter=self.streams.limiter
        )
        return found is None or found.state.final


def as_text(event: StoredEvent) -> str:
    """An event on the wire; JSON has no line breaks."""
    data = json.dumps({"seq": event.seq, "type": event.type} | event.data, allow_nan=False)
    return f"id: {event.seq}\nevent: {event.type}\ndata: {data}\n\n"


class EventStream(StreamingResponse):
    """The answer to a follower: it holds a slot as long as it lasts."""

    media_type = "text/event-stream"

    def __init__(self, follower: Follower):
        super().__init__(follower.lines(), headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        self._streams = follower.streams

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._streams.slot():
            await super().__call__(scope, receive, send)
