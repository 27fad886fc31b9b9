"""printf of solve(): the C format, with arguments packed as the device compiler packs them for vprintf."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable

_SPEC = re.compile(r"%([-+ #0]*)(\*|\d+)?(?:\.(\*|\d+))?(hh|h|ll|l|z|j|t|L)?([diouxXcsfFeEgGaAp%])")
_LONG = ("ll", "l", "z", "j", "t")


def render(template: str, read: Callable[[int, int], bytes], cstring: Callable[[int], str]) -> str:
    """The printed text. `read(offset, nbytes)` reads the argument buffer, `cstring(address)` a %s argument.

    Each argument is aligned to its own size: 4 bytes for int, 8 for everything else (float arrives as double).
    """
    offset = 0

    def take(nbytes: int) -> bytes:
        nonlocal offset
        offset = -(-offset // nbytes) * nbytes
        data = read(offset, nbytes)
        offset += nbytes
        return data

    def star(field: str | None) -> str:
        return str(struct.unpack("<i", take(4))[0]) if field == "*" else field or ""

    def one(match: re.Match[str]) -> str:
        flags, width, precision, length, letter = match.groups()
        if letter == "%":
            return "%"
        width, dot = star(width), "" if precision is None else "." + star(precision)
        return _format(f"%{flags}{width}{dot}", letter, length in _LONG, take, cstring)

    return _SPEC.sub(one, template)


def _format(start: str, letter: str, is_long: bool, take: Callable[[int], bytes], cstring: Callable[[int], str]) -> str:
    if letter == "s":
        return (start + "s") % cstring(int.from_bytes(take(8), "little"))
    if letter == "p":
        return hex(int.from_bytes(take(8), "little"))
    if letter == "c":
        return (start + "c") % chr(take(4)[0])
    if letter in "aAfFeEgG":
        value: float = struct.unpack("<d", take(8))[0]
        return value.hex() if letter in "aA" else (start + letter) % value
    number = int.from_bytes(take(8 if is_long else 4), "little", signed=letter in "di")
    return (start + ("d" if letter in "iu" else letter)) % number
