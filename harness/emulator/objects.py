"""Native object code by the digest of what it was made from, on its way into this process and out of it.

The supervisor sends what an earlier run of the same PTX has stored (`known`) and asks at the end for what was compiled
anew (`fresh`). The digest is of the IR text, the levels, LLVM and the processor (jit.py): an object under another name
than that of the IR at hand is never looked at.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

MAX_BYTES = 32 << 20  # of all objects of one program
_ELF = struct.Struct("<4sBBB9xHH")  # magic, class, byte order, version, padding; type, machine
_RELOCATABLE = 1


def plausible(data: bytes) -> bool:
    """Whether this looks like a relocatable ELF file of 64 bits; LLVM's loader is not written for anything else."""
    if len(data) < 64:
        return False
    magic, bits, order, version, kind, _ = _ELF.unpack_from(data)
    return (magic, bits, order, version, kind) == (b"\x7fELF", 2, 1, 1, _RELOCATABLE)


class ObjectStore:
    """The objects of this process."""

    def __init__(self) -> None:
        self._known: dict[str, bytes] = {}
        self._fresh: dict[str, bytes] = {}

    def learn(self, objects: Mapping[str, bytes]) -> None:
        """Take over what was stored earlier."""
        self._known.update(objects)

    def get(self, name: str) -> bytes | None:
        """The object of this name, if there is one that looks like one."""
        data = self._known.get(name)
        return data if data is not None and plausible(data) else None

    def add(self, name: str, data: bytes) -> None:
        """Note a new object; what is over MAX_BYTES is not worth keeping."""
        if plausible(data) and sum(map(len, self._fresh.values())) + len(data) <= MAX_BYTES:
            self._fresh[name] = data

    def take_fresh(self) -> dict[str, bytes]:
        """What was compiled since the last call."""
        fresh, self._fresh = self._fresh, {}
        return fresh


STORE = ObjectStore()  # of this process: it serves one program
