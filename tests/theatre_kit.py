"""The online-softmax page alone, in a bare frame: what its tests render and browse."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jinja2
import uvicorn
from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse
from fastapi.staticfiles import StaticFiles

from web.theatre.routes import router

WEB = Path(__file__).resolve().parents[1] / "web"
_BASE = """<!doctype html><html lang="en" data-theme="auto"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">
<title>{% block title %}{% endblock %}</title><link rel="stylesheet" href="/static/site.css">
{% block head %}{% endblock %}</head><body><main>{% block content %}{% endblock %}</main></body></html>"""


class Frame:
    """Stands for the site's templates: the same loader behind a base.html that needs nothing of the site."""

    def __init__(self) -> None:
        base, files = jinja2.DictLoader({"base.html": _BASE}), jinja2.FileSystemLoader(WEB / "templates")
        self._environment = jinja2.Environment(
            loader=jinja2.ChoiceLoader([base, files]), autoescape=True, undefined=jinja2.StrictUndefined,
            extensions=["jinja2.ext.i18n"],
        )  # fmt: skip
        self._environment.install_null_translations(newstyle=True)  # type: ignore[attr-defined]

    def page(self, request: Request, name: str, status: int = 200, **context: Any) -> HTMLResponse:
        return HTMLResponse(self._environment.get_template(name).render(context), status)


def app() -> FastAPI:
    """Only the theatre, under the strictest policy that the site may have."""
    made = FastAPI()
    made.state.templates = Frame()
    made.mount("/static", StaticFiles(directory=WEB / "static"))
    made.include_router(router)

    @made.middleware("http")
    async def policy(request: Request, call_next: Any) -> Response:
        response: Response = await call_next(request)
        response.headers["Content-Security-Policy"] = "default-src 'self'; img-src 'self' data:"
        return response

    return made


@contextmanager
def served() -> Iterator[str]:
    """The address of the app on a free port, while in the block."""
    server = uvicorn.Server(uvicorn.Config(app(), port=0, log_level="error"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started and thread.is_alive():
            time.sleep(0.01)
        (socket,) = (s for listener in server.servers for s in listener.sockets)
        yield f"http://127.0.0.1:{socket.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
