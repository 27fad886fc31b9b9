"""What tests of the site's API and of its guard share: a site without a queue, and clients of three kinds."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Iterable, Mapping
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.testclient import TestClient
from sqlalchemy import Engine
from starlette.types import Message, Scope

from web.app import create_app
from web.queue.base import NoQueue
from web.settings import Bounds, Settings
from web.store import engine as database
from web.store import migrate

URL = "http://localhost:8000"
PROGRAM = {"X-Judge-Client": "tests"}
KERNEL = 'extern "C" void solve() {}\n'


@dataclasses.dataclass
class Site:
    """An application on a fresh store, and a program that talks to it."""

    app: FastAPI
    engine: Engine
    program: TestClient

    def browser(self) -> tuple[TestClient, str]:
        """A client with a cookie, and the token of the page that it was shown."""
        client = TestClient(self.app, base_url=URL)
        page = client.get("/").text
        return client, page.partition('<meta name="csrf-token" content="')[2].partition('"')[0]

    def send(self, **fields: Any) -> Any:
        """Post a submission; the response."""
        return self.program.post("/api/submissions", json=new(**fields))


class StateOfQueue(NoQueue):
    """Judges nothing, and says of itself what a test wants."""

    def __init__(self, trouble: str = "", starting: bool = False, card: bool = False):
        self._trouble, self._starting, self._card = trouble, starting, card

    def starting(self) -> bool:
        return self._starting

    def trouble(self) -> str:
        return self._trouble

    def has_card(self) -> bool:
        return self._card


def site(folder: Path, bounds: Bounds | None = None, **options: Any) -> Site:
    """A site whose store is in `folder`."""
    settings = Settings(folder=folder, bounds=bounds or Bounds(per_minute=100_000, queued=100_000), **options)
    engine = database.connect(settings.url)
    migrate.upgrade(engine)
    app = create_app(settings, engine, NoQueue())
    return Site(app, engine, TestClient(app, base_url=URL, headers=PROGRAM))


def new(**fields: Any) -> dict[str, Any]:
    """A submission to post."""
    return {"problem": "split_k_merge", "source": KERNEL, "kind": "run"} | fields


async def chunks(parts: Iterable[bytes]) -> AsyncIterator[Message]:
    """A body that arrives in parts."""
    for part in parts:
        yield {"type": "http.request", "body": part, "more_body": True}
    yield {"type": "http.request", "body": b"", "more_body": False}


async def never_ending() -> AsyncIterator[Message]:
    """A body that begins, and then nothing comes."""
    yield {"type": "http.request", "body": b"{", "more_body": True}
    await asyncio.Event().wait()


def raw(
    app: Any, method: str, path: str, headers: Mapping[str, str], messages: AsyncIterator[Message]
) -> tuple[int, bytes]:
    """A request as a server hands it on, byte for byte: status and body of the answer."""

    async def run() -> list[Message]:
        sent: list[Message] = []

        async def receive() -> Message:
            return await anext(messages)

        async def send(message: Message) -> None:
            sent.append(message)

        await app(_scope(method, path, headers), receive, send)
        return sent

    sent = asyncio.run(run())
    return sent[0]["status"], b"".join(message.get("body", b"") for message in sent[1:])


def _scope(method: str, path: str, headers: Mapping[str, str]) -> Scope:
    return {
        "type": "http", "asgi": {"version": "3.0", "spec_version": "2.3"}, "http_version": "1.1", "method": method,
        "scheme": "http", "path": path, "raw_path": path.encode(), "query_string": b"", "root_path": "",
        "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in headers.items()],
        "client": ("127.0.0.1", 5000), "server": ("127.0.0.1", 8000), "state": {},
    }  # fmt: skip
