"""What a site is started with: made once, at the command line or in a test, and handed on."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

KIB, MIB = 1 << 10, 1 << 20
_FOLDER = "cuda-attention-judge"


def data_folder() -> Path:
    """Where the store lies: $XDG_DATA_HOME, or ~/.local/share, as of the XDG base directory specification."""
    return _base("XDG_DATA_HOME", ".local/share") / _FOLDER


def cache_folder() -> Path:
    """Where what can be built again lies: $XDG_CACHE_HOME, or ~/.cache."""
    return _base("XDG_CACHE_HOME", ".cache") / _FOLDER


def _base(variable: str, usual: str) -> Path:
    given = Path(os.environ.get(variable, ""))
    return given if given.is_absolute() else Path.home() / usual


@dataclass(frozen=True)
class Bounds:
    """How much the site takes on, so that nobody fills it up."""

    source_bytes: int = 256 * KIB  # of one submission; over it: 413
    body_bytes: int = 2 * MIB  # of a request as it arrives: JSON may write a byte of a source as six
    queued: int = 100  # submissions that wait; over it: 503 with Retry-After
    per_minute: int = 60  # submissions; over it: 429 with Retry-After
    attempts: int = 3  # judgings that die with their worker or fail there, before the judge says so


@dataclass(frozen=True)
class Settings:
    """How one site runs."""

    folder: Path = field(default_factory=data_folder)
    database: str = ""  # an SQLAlchemy URL; "": SQLite in `folder`
    host: str = "127.0.0.1"
    port: int = 8000
    device: str = "auto"  # "auto", "cpu", "gpu": of judgings that name none
    card: str = "H100"  # that the emulator plays
    jobs: int = 2  # judgings at once
    scheduler: str = ""  # address of a Dask scheduler; "": a LocalCluster of our own
    editor: bool = True  # build the editor's bundle where it is missing
    bounds: Bounds = Bounds()

    @property
    def url(self) -> str:
        """Of the store."""
        from sqlalchemy import URL  # --help needs these settings, and none of what the extra brings

        if self.database:
            return self.database
        return URL.create("sqlite", database=str(self.folder / "judge.sqlite3")).render_as_string()
