"""What differs between two runs of one program, bit for bit; a NaN for another NaN is a class of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tests.random_ptx.program import BLOCKS, MINE_WORDS, THREADS, Program
from tests.random_ptx.types import BITS, FLOATS, FORMATS

EQUAL, PAYLOAD, DIFFERENT = "equal", "NaN payload", "different"


@dataclass(frozen=True)
class Difference:
    """The first of `count` differing words: of which array, which thread and variable, both bit patterns. thread: of the
    grid, whose input words decide; -1 for cells that threads have in common."""

    kind: str  # DIFFERENT, or PAYLOAD where all that differs are patterns of NaNs
    array: str
    where: str
    first: int
    second: int
    count: int
    thread: int = -1

    def __str__(self) -> str:
        return f"{self.array} {self.where}: {self.first:#x} and {self.second:#x} ({self.count} words {self.kind})"


def difference(p: Program, first: Sequence[np.ndarray], second: Sequence[np.ndarray]) -> Difference | None:
    """`first` and `second`: out, mine and total after each run."""
    found = []
    for n, array in enumerate(("out", "mine", "total")):
        a, b = first[n], second[n]
        apart = np.flatnonzero(a != b)
        harmless = np.array([both_nan(_kind(p, array, int(i)), int(a[i]), int(b[i])) for i in apart], bool)
        for kind, places in ((DIFFERENT, apart[~harmless]), (PAYLOAD, apart[harmless])):
            if places.size:
                i = int(places[0])
                where, thread = _where(p, array, i), _thread(p, array, i)
                found.append(Difference(kind, array, where, int(a[i]), int(b[i]), int(places.size), thread))
    return min(found, key=lambda d: d.kind == PAYLOAD) if found else None


def _kind(p: Program, array: str, i: int) -> str:
    """Type of a word of an array."""
    if array == "out":
        return p.kinds[i % len(p.kinds)] if i < len(p.kinds) * BLOCKS * THREADS else "u64"
    return "f32" if array == "mine" and p.family == "float" else "u64"


def _where(p: Program, array: str, i: int) -> str:
    if array == "out" and i < len(p.kinds) * BLOCKS * THREADS:
        thread, n = divmod(i, len(p.kinds))
        return f"[{i}]: thread {thread % THREADS} of block {thread // THREADS}, {p.kinds[n]}_{p.kinds[:n].count(p.kinds[n])}"
    return f"[{i}]"


def _thread(p: Program, array: str, i: int) -> int:
    each = {"out": len(p.kinds), "mine": MINE_WORDS}.get(array, 0)
    return i // each if each and i < each * BLOCKS * THREADS else -1


def both_nan(kind: str, a: int, b: int) -> bool:
    """Whether two values differ in nothing but what NaNs look like."""
    if kind not in FLOATS:
        return False
    scalar, bits = kind.removesuffix("x2"), BITS[kind.removesuffix("x2")]
    parts = [(a >> s & (1 << bits) - 1, b >> s & (1 << bits) - 1) for s in range(0, BITS[kind], bits)]
    return all(x == y or (is_nan(scalar, x) and is_nan(scalar, y)) for x, y in parts)


def is_nan(kind: str, pattern: int) -> bool:
    width, fraction = FORMATS[kind]
    return pattern & (1 << width + fraction) - 1 > (1 << width) - 1 << fraction
