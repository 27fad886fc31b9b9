"""What whoever runs the site sees in the terminal: a line for each thing worth one. Where in the code a failure
happened stands in a file beside the store, under the number that the page gave."""

from __future__ import annotations

import logging
import logging.handlers
import sys
from pathlib import Path

from harness.report.excerpt import printable

_MOST_BYTES = 1 << 20  # of the file, and as much again of the one before
_LOGGERS = ("web", "uvicorn.error")


class _Harmless(logging.Formatter):
    """Messages and traces quote what others sent."""

    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record))


class _OneLine(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = printable(record.getMessage()).replace("\n", " ")
        return f"{self.formatTime(record, '%H:%M:%S')} {line}"


class _File(logging.handlers.RotatingFileHandler):
    """Says nothing where its disk is full: the terminal has had the line."""

    def handleError(self, record: logging.LogRecord) -> None:
        """Not a trace for each line that is lost."""


def to_terminal_and_file(path: Path, debug: bool) -> None:
    """Let the site's loggers write to standard error, and what went wrong to a file, too. `debug`: also the traces to
    standard error."""
    terminal = logging.StreamHandler(sys.stderr)
    terminal.setFormatter(_Harmless("%(asctime)s %(message)s", "%H:%M:%S") if debug else _OneLine())
    file = _File(path, maxBytes=_MOST_BYTES, backupCount=1, encoding="utf-8", delay=True)
    file.setFormatter(_Harmless("%(asctime)s %(message)s"))
    file.setLevel(logging.WARNING)
    for name in _LOGGERS:
        logger = logging.getLogger(name)
        logger.setLevel(logging.INFO if name == "web" else logging.WARNING)
        logger.propagate = False
        logger.handlers = [terminal, file]
