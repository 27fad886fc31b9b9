"""The console that reports are printed on."""

from __future__ import annotations

import rich.console


class Console(rich.console.Console):
    """rich's, which would end the program with exit code 1 when the reader has gone away; this one passes it on."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError
