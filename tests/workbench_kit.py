"""A problem page around the workbench with a judge behind it that answers what a test tells it to."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jinja2
import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse, Response, StreamingResponse
from fastapi.staticfiles import StaticFiles

from harness import problem as problems

WEB = Path(__file__).resolve().parents[1] / "web"
POLICY = "default-src 'self'"  # no inline script, no inline style: the strictest that the site could have
TOKEN = "token-of-the-page"
MAX_BYTES = 256 << 10
_PAGE = """<!doctype html>
<html lang="en"{% if theme %} data-theme="{{ theme }}"{% endif %}>
<head><meta charset="utf-8"><title>Problem</title><meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="csrf-token" content="{{ csrf_token }}"><link rel="stylesheet" href="/page.css">
<link rel="stylesheet" href="/static/workbench.css"></head>
<body><main><a href="#workbench">Before</a><h1>{{ problem.title }}</h1>{% include "_workbench.html" %}</main></body></html>"""
_LIGHT = (
    "--paper:#fff;--panel:#f3f5f8;--ink:#1b1f24;--muted:#535c66;--rule:#cfd5dc;--accent:#1553b0;--good:#14662a;"
    "--warn:#7d4b00;--bad:#a81f18;"
)
_DARK = (
    "--paper:#14171a;--panel:#1f2429;--ink:#e7eaed;--muted:#a9b2bc;--rule:#3b434b;--accent:#86b9ff;--good:#74d18d;"
    "--warn:#f0b95f;--bad:#ff9a90;"
)
_CSS = (
    f":root{{{_LIGHT}}} :root[data-theme=dark]{{{_DARK} color-scheme:dark}} *{{box-sizing:border-box}}"
    "html{background:var(--paper);color:var(--ink);font:16px/1.5 system-ui,sans-serif} body{margin:0}"
    "main{max-width:60rem;margin:auto;padding:1rem}"
)


@dataclass
class FakeJudge:
    """What the judge was sent, and what it answers. Events are seen by the page as soon as they are emitted."""

    bundle: Path | None = None
    refusal: tuple[int, dict[str, str], str] | None = None  # status, headers, code: of every POST of a submission
    play: list[dict[str, Any]] = field(default_factory=list)  # events that a new submission has at once
    events: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    bodies: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)
    advice: dict[str, str] | None = None  # on whatever does not compile
    broken: bool = False  # streams end and are refused
    refused: int = 0  # streams
    url: str = ""

    def emit(self, type: str, **values: Any) -> None:
        """To the newest submission, which the page may be about to send."""
        deadline = time.monotonic() + 10
        while not self.events and time.monotonic() < deadline:
            time.sleep(0.01)
        events = list(self.events.values())[-1]
        events.append({**values, "seq": len(events) + 1, "type": type})

    def app(self) -> FastAPI:
        app = FastAPI()
        app.mount("/static", StaticFiles(directory=WEB / "static"))
        app.get("/problems/{name}")(self._page)
        app.get("/page.css")(lambda: Response(_CSS, media_type="text/css"))
        app.get("/favicon.ico")(lambda: Response(status_code=204))
        app.get("/editor/editor.js")(self._bundle)
        app.post("/api/submissions")(self._submit)
        app.get("/submissions/{name}/advice")(lambda: JSONResponse(self.advice))
        app.get("/api/submissions/{name}")(self._submission)
        app.get("/api/submissions/{name}/events")(self._events)
        app.post("/api/submissions/{name}/cancel")(self._cancel)
        return app

    def _page(
        self, name: str, dtype: str | None = None, variant: str | None = None, theme: str = "", source: str = ""
    ) -> Response:
        problem = problems.load(name).track(dtype, variant)
        environment = jinja2.Environment(
            loader=jinja2.FileSystemLoader(WEB / "templates"), autoescape=True, undefined=jinja2.StrictUndefined,
            trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.i18n"],
        )  # fmt: skip
        environment.install_null_translations(newstyle=True)  # type: ignore[attr-defined]
        starter = f"// {problem.dtype}, {problem.variant}\n" + problem.starter
        page = environment.from_string(_PAGE).render(
            problem=problem, starter=starter, text=source, text_name="earlier.cu" if source else "", csrf_token=TOKEN,
            devices=["auto", "cpu", "gpu"], max_bytes=MAX_BYTES, theme=theme,
            editor_url="/editor/editor.js" if self.bundle else "",
        )  # fmt: skip
        return HTMLResponse(page, headers={"Content-Security-Policy": POLICY})

    def _bundle(self) -> Response:
        return FileResponse(self.bundle, media_type="text/javascript") if self.bundle else Response(status_code=404)

    async def _submit(self, request: Request) -> Response:
        self.headers.append(dict(request.headers))
        if self.refusal:
            status, headers, code = self.refusal
            return JSONResponse({"error": {"code": code, "message": f"because {code}.", "hint": ""}}, status, headers)
        self.bodies.append(await request.json())
        name = f"s{len(self.bodies)}"
        self.events[name] = []
        for event in self.play:
            self.emit(**event)
        api = f"/api/submissions/{name}"
        return JSONResponse({"id": name, "url": api, "events_url": f"{api}/events", "state": "queued"}, 201)

    def _submission(self, name: str) -> Response:
        return JSONResponse({"id": name}, 200 if name in self.events else 404)

    def _events(self, name: str, request: Request) -> Response:
        if self.broken or name not in self.events:
            self.refused += 1
            return Response(status_code=503 if self.broken else 404)
        start = int(request.headers.get("last-event-id", 0))
        return StreamingResponse(self._stream(name, start), media_type="text/event-stream")

    async def _stream(self, name: str, sent: int) -> AsyncIterator[str]:
        yield "retry: 100\n\n"  # ms until the browser comes back
        while not self.broken:
            for event in self.events[name][sent:]:
                sent = event["seq"]
                yield f"id: {sent}\nevent: {event['type']}\ndata: {json.dumps(event)}\n\n"
                if event["type"] in ("finished", "cancelled"):
                    return
            await asyncio.sleep(0.02)

    def _cancel(self, name: str) -> Response:
        self.cancelled.append(name)
        self.emit("cancelled")
        return JSONResponse({}, 202)


@contextmanager
def serving(fake: FakeJudge) -> Iterator[FakeJudge]:
    """The page and its judge on a free port of the loopback."""
    config = uvicorn.Config(
        fake.app(), port=0, log_level="error", ws="none", lifespan="off", timeout_graceful_shutdown=1
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    fake.url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    try:
        yield fake
    finally:
        fake.broken = True
        server.should_exit = True
        thread.join()


def finding(kind: str = "out_of_bounds", line: int = 5, **values: Any) -> dict[str, Any]:
    """One of the API's."""
    usual = {
        "message": f"{kind} at line {line}.", "file": "", "tensor": "", "index": [], "block": [0, 0, 0],
        "thread": [3, 0, 0], "kernel": "attend<64>", "other": None,
    }  # fmt: skip
    return {"kind": kind, "line": line, **usual, **values}
