"""What the emulator cannot do, said so that the user can act on it."""

from __future__ import annotations


class UnsupportedPtx(Exception):
    """An instruction, directive or construct that the emulator does not know. Never a wrong answer."""

    def __init__(self, what: str, loc: object = None):
        super().__init__(what)
        self.what = what
        self.loc = loc  # harness.emulator.ptx.Loc or None
