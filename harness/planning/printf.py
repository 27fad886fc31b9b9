"""printf of solve(): the C format, with arguments packed as the device compiler packs them for vprintf."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable

_SPEC = re.compile(r"%([-+ #0]*)(\*|[0-9]+)?(?:\.(\*|-?[0-9]*))?(hh|h|ll|l|z|j|t|L)?([diouxXcsfFeEgGaAp%])")
_LONG = ("ll", "l", "z", "j", "t")
_MAX_FIELD = 1 << 17  # characters of one field; more than the judge takes of a whole case's output
_MAX_TEXT = 1 << 20  # of one printf
_MAX_DIGITS = 9  # of a width or precision


def render(template: str, read: Callable[[int, int], bytes], cstring: Callable[[int], str]) -> str:
    """The printed text. `read(offset, nbytes)` reads the argument buffer, `cstring(address)` a %s argument.

    Each argument is aligned to its own size: 4 bytes for int, 8 for everything else (float arrives as double).
    """
    offset, room = 0, _MAX_TEXT

    def take(nbytes: int) -> bytes:
        nonlocal offset
        offset = -(-offset // nbytes) * nbytes
        data = read(offset, nbytes)
        offset += nbytes
        return data

    def number(field: str) -> int:
        digits = field[:_MAX_DIGITS] if field.strip("-") else "0"
        value: int = struct.unpack("<i", take(4))[0] if field == "*" else int(digits)
        return max(-_MAX_FIELD, min(value, _MAX_FIELD))

    def one(match: re.Match[str]) -> str:
        nonlocal room
        flags, width, precision, length, letter = match.groups()
        if letter == "%":
            return "%"
        wide = str(number(width)) if width else ""
        digits = -1 if precision is None else number(precision)
        dot = f".{digits}" if digits >= 0 else ""  # a negative one counts as none
        text = _format(f"%{flags}{wide}{dot}", letter, length in _LONG, take, cstring) if room > 0 else ""
        room -= len(text)
        return text

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
