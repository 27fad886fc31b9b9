"""create_app(): the site as one ASGI application, from the parts that do the work."""

from __future__ import annotations

from pathlib import Path

from fastapi import FastAPI
from fastapi.staticfiles import StaticFiles
from sqlalchemy import Engine

from harness import __version__
from web.pages import home, templating
from web.queue.base import Queue
from web.settings import Settings

_HERE = Path(__file__).parent


def create_app(settings: Settings, engine: Engine, queue: Queue) -> FastAPI:
    """`engine` is that of a store of the newest schema (web/store/migrate.py)."""
    app = FastAPI(
        title="CUDA attention judge", version=__version__, openapi_url="/api/openapi.json", docs_url=None,
        redoc_url=None,
    )  # fmt: skip
    app.state.settings, app.state.engine, app.state.queue = settings, engine, queue
    app.state.templates = templating.Templates(_HERE / "templates")
    app.mount("/static", StaticFiles(directory=_HERE / "static"), name="static")
    app.include_router(home.router)
    return app
