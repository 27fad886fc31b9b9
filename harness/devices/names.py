"""Mangled kernel names for people: `_ZN12_GLOBAL__N_14tileILi64EEEvPf` -> `tile`."""

from __future__ import annotations

import re

_IDENTIFIER = re.compile(r"(\d+)")


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
