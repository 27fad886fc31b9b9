"""Mangled kernel names for people: `_ZN12_GLOBAL__N_14tileILi64EEEvPf` -> `tile`."""

from __future__ import annotations

import re

_IDENTIFIER = re.compile(r"(\d{1,4})(?!\d)")  # longer numbers are no lengths, whatever the source calls its kernels


def readable(mangled: str) -> str:
    """The name as written in the source, with namespaces, without template arguments and parameters. What is no
    mangled name comes back as it is."""
    if not mangled.startswith("_Z"):
        return mangled
    nested = mangled.startswith("_ZN")
    position, parts = (3 if nested else 2), []
    while found := _IDENTIFIER.match(mangled, position):
        start = found.end()
        position = start + int(found[1])
        parts.append(mangled[start:position])
        if not nested:
            break
    named = [part for part in parts if not part.startswith("_GLOBAL__N_")]
    return "::".join(named) or mangled


_TYPES = {
    "v": "void", "b": "bool", "c": "char", "a": "signed char", "h": "unsigned char", "s": "short",
    "t": "unsigned short", "i": "int", "j": "unsigned", "l": "long", "m": "unsigned long",
    "x": "long long", "y": "unsigned long long", "f": "float", "d": "double",
}  # fmt: skip
_LITERAL = re.compile(r"L([a-z])(n?)(\d+)E")


def with_arguments(mangled: str) -> str:
    """As `readable`, with the last name's template arguments where they are numbers and named types, `attend<128>`, so
    that instances can be told apart; other arguments are left out. Follows the Itanium C++ ABI, 5.1 (mangling)."""
    name = readable(mangled)
    last = name.rpartition("::")[2]
    start = mangled.find(f"{len(last)}{last}I")
    arguments = _arguments(mangled, start + len(f"{len(last)}{last}I")) if start > 0 else None
    return f"{name}<{', '.join(arguments)}>" if arguments else name


def _arguments(mangled: str, position: int) -> list[str] | None:
    """The arguments from there to the closing E; None where one of them is of another kind."""
    found = []
    while mangled[position : position + 1] != "E":
        argument, position = _argument(mangled, position)
        if not argument:
            return None
        found.append(argument)
    return found


def _argument(mangled: str, position: int) -> tuple[str, int]:
    """One argument, empty where it is of another kind, and where it ends."""
    if literal := _LITERAL.match(mangled, position):
        kind, minus, digits = literal.groups()
        value = ("false", "true")[digits != "0"] if kind == "b" else f"{'-' * bool(minus)}{digits}"
        return value, literal.end()
    if named := _IDENTIFIER.match(mangled, position):
        end = named.end() + int(named[1])
        return mangled[named.end() : end], end
    return _TYPES.get(mangled[position : position + 1], ""), position + 1
