"""create_app(): the site as one ASGI application, from the parts that do the work."""

from __future__ import annotations

import secrets
from pathlib import Path

from fastapi import FastAPI
from fastapi.staticfiles import StaticFiles
from sqlalchemy import Engine
from starlette.types import ASGIApp

from harness import __version__
from web import editor_bundle, failures
from web.api import routes
from web.api.streams import Streams
from web.pages import (
    comparison,
    error_page,
    history,
    home,
    ladder,
    leaderboard,
    pictures,
    preferences,
    problem_page,
    submission_page,
    templating,
)
from web.queue.base import Queue
from web.security import csrf, hosts
from web.security.guard import Guard
from web.security.head import Heads
from web.security.rate import Bucket
from web.settings import Settings
from web.theatre import routes as theatre

_HERE = Path(__file__).parent


class Site(FastAPI):
    """The application behind its guard."""

    def build_middleware_stack(self) -> ASGIApp:
        """The framework's own layers, and the guard around all of them."""
        settings: Settings = self.state.settings
        names = hosts.allowed(settings.host, settings.port)
        return Guard(Heads(super().build_middleware_stack()), names, self.state.secret, settings.bounds.body_bytes)


def create_app(settings: Settings, engine: Engine, queue: Queue, secret: bytes = b"") -> FastAPI:
    """`engine` is that of a store of the newest schema (web/store/migrate.py). `secret` signs what pages carry, at
    least csrf.SECRET_BYTES long; without one, pages are stale when the site starts again."""
    app = Site(
        title="CUDA attention judge", version=__version__, description=routes.ABOUT, openapi_url="/api/openapi.json",
        docs_url=None, redoc_url=None,
    )  # fmt: skip
    app.state.settings, app.state.engine, app.state.queue = settings, engine, queue
    app.state.secret = secret or secrets.token_bytes(csrf.SECRET_BYTES)
    app.state.rate, app.state.streams = Bucket(settings.bounds.per_minute), Streams()
    app.state.editor = editor_bundle.EditorBundle()
    app.state.templates = templating.Templates(_HERE / "templates")
    app.state.error_page = error_page.show
    failures.install(app)
    app.include_router(pictures.router)  # before the folder of static files: one of them is made by the harness
    app.mount("/static", StaticFiles(directory=_HERE / "static"), name="static")
    for part in (
        routes, editor_bundle, home, preferences, problem_page, ladder, leaderboard, history, comparison,
        submission_page, theatre,
    ):  # fmt: skip
        app.include_router(part.router)
    return app
