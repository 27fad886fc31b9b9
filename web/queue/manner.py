"""How a site judges; travels to its workers once, in the place of an argument of every judging."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy import Engine

from harness.sandbox.supervisor import Toolchain
from web.settings import Settings


@dataclass(frozen=True)
class Manner:
    """Everything but what the store says of a submission."""

    database: str  # an SQLAlchemy URL, with its password
    device: str = "auto"  # of submissions that ask for "auto"
    card: str = "H100"  # that the emulator plays
    attempts: int = 3  # that may die with their worker
    cache: bool = True  # of compilations
    problems: Path | None = None  # the folder; None: the judge's own, wherever the worker has it
    toolchain: Toolchain = field(default_factory=Toolchain)


def of_site(settings: Settings, engine: Engine) -> Manner:
    """How a site with these settings judges."""
    url = engine.url.render_as_string(hide_password=False)
    return Manner(url, settings.device, settings.card, settings.bounds.attempts)
