"""Which element of which matrix each register of each lane holds, for `mma` and `wmma`.

Sources: PTX ISA 9.0, "Matrix fragments for mma.*"; every shape but m8n8k4 of halves is made of three tiles, whose
formulas are below. The ISA leaves the fragments of `wmma` open. Those of m16n16k16 and m16n16k8 are what cards from
sm_75 on do, as found by experiment (Ootomo's wmma_extension documents them): two tiles of n 8 side by side, and
multiplicands of halves, which have 16 elements a thread for historical reasons, hold everything several times. The
other two shapes are put together likewise, m8n32 with the parts of A and B exchanged; no source says what cards do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property

from harness.emulator.layout import LANES

Place = tuple[int, int]  # (row, column)
Formula = Callable[[int, int], Place]  # of (lane, element of the lane's fragment)

# kind of element -> (elements a register, kinds that may be mixed with it)
PER_REGISTER = {"f16": 2, "bf16": 2, "tf32": 1, "e4m3": 4, "e5m2": 4, "s8": 4, "u8": 4, "f32": 1, "s32": 1, "f64": 1}
BYTES = {kind: 8 if kind == "f64" else 4 // per for kind, per in PER_REGISTER.items()}
FAMILY = {"e4m3": "fp8", "e5m2": "fp8", "s8": "int8", "u8": "int8"}  # kinds that A and B may mix
HALVES_A_THREAD = 16  # of a wmma multiplicand of f16, whatever its shape


@dataclass(frozen=True)
class Fragment:
    """One matrix in the registers of a warp: places[e][lane] is the element that a lane's element e is; `per`
    elements are in each register, the first in its lowest bits."""

    per: int
    places: tuple[tuple[Place, ...], ...]

    @property
    def registers(self) -> int:
        return len(self.places) // self.per

    @cached_property
    def holders(self) -> dict[Place, tuple[int, int]]:
        """The first (element, lane) that holds each element of the matrix."""
        found: dict[Place, tuple[int, int]] = {}
        for e, lanes in enumerate(self.places):
            for lane, place in enumerate(lanes):
                found.setdefault(place, (e, lane))
        return found


def _fragment(kind: str, count: int, formula: Formula) -> Fragment:
    places = tuple(tuple(formula(lane, e) for lane in range(LANES)) for e in range(count))
    return Fragment(PER_REGISTER[kind], places)


# -- tiles: A is 16 x k or 8 x k, B is k x 8, C and D are 16 x 8 or 8 x 8; `per` consecutive k lie in a register


def _tile_a(per: int) -> Formula:
    return lambda lane, e: (lane // 4 + 8 * (e // per % 2), lane % 4 * per + e % per + 4 * per * (e // (2 * per)))


def _tile_b(per: int) -> Formula:
    return lambda lane, e: (lane % 4 * per + e % per + 4 * per * (e // per), lane // 4)


def _tile_c(lane: int, e: int) -> Place:
    return lane // 4 + 8 * (e // 2), lane % 4 * 2 + e % 2


def _side_by_side(formula: Formula, count: int, down: int = 0, right: int = 0) -> Formula:
    """Tiles of `count` elements a lane, each so many rows and columns from the one before."""

    def place(lane: int, e: int) -> Place:
        row, column = formula(lane, e % count)
        return row + down * (e // count), column + right * (e // count)

    return place


def _turned(formula: Formula) -> Formula:
    return lambda lane, e: formula(lane, e)[::-1]


# -- mma


@dataclass(frozen=True)
class Shape:
    """Of a product: A is m x k, B is k x n, C and D are m x n."""

    m: int
    n: int
    k: int

    def sizes(self, matrix: str) -> Place:
        """(rows, columns) of A, B, or C and D."""
        return {"a": (self.m, self.k), "b": (self.k, self.n)}.get(matrix, (self.m, self.n))


def shape_of(text: str) -> Shape:
    """The shape that a modifier such as m16n8k16 names."""
    m, _, rest = text[1:].partition("n")
    n, _, k = rest.partition("k")
    return Shape(int(m), int(n), int(k))


# (shape, kind or family of A and B) -> kinds of C and D. One line each.
MMA = {
    ("m8n8k4", "f16"): ("f16", "f32"),
    ("m16n8k8", "f16"): ("f16", "f32"),
    ("m16n8k16", "f16"): ("f16", "f32"),
    ("m16n8k8", "bf16"): ("f32",),
    ("m16n8k16", "bf16"): ("f32",),
    ("m16n8k4", "tf32"): ("f32",),
    ("m16n8k8", "tf32"): ("f32",),
    ("m16n8k16", "fp8"): ("f16", "f32"),
    ("m16n8k32", "fp8"): ("f16", "f32"),
    ("m8n8k16", "int8"): ("s32",),
    ("m16n8k16", "int8"): ("s32",),
    ("m16n8k32", "int8"): ("s32",),
    ("m8n8k4", "f64"): ("f64",),
    ("m16n8k4", "f64"): ("f64",),
    ("m16n8k8", "f64"): ("f64",),
    ("m16n8k16", "f64"): ("f64",),
}
WMMA = {
    ("m16n16k16", "f16"): ("f16", "f32"),
    ("m32n8k16", "f16"): ("f16", "f32"),
    ("m8n32k16", "f16"): ("f16", "f32"),
    ("m16n16k16", "bf16"): ("f32",),
    ("m32n8k16", "bf16"): ("f32",),
    ("m8n32k16", "bf16"): ("f32",),
    ("m16n16k8", "tf32"): ("f32",),
    ("m16n16k16", "int8"): ("s32",),
    ("m32n8k16", "int8"): ("s32",),
    ("m8n32k16", "int8"): ("s32",),
    ("m8n8k4", "f64"): ("f64",),
}


@cache
def mma_fragment(shape_text: str, matrix: str, kind: str, column_major: bool = False) -> Fragment:
    """How `mma` holds A, B, C or D ("a" to "d"). Only m8n8k4 of halves asks how A and B lie in memory; it multiplies
    four pairs of matrices, which stand here on the diagonal of one."""
    shape = shape_of(shape_text)
    if (shape_text, kind) in (("m8n8k4", "f16"), ("m8n8k4", "f32")):
        count, formula = _quad_pairs(matrix, kind, column_major)
        return _fragment(kind, count, formula)
    per = PER_REGISTER[kind]
    rows, columns = shape.sizes(matrix)
    formula = {"a": _tile_a(per), "b": _tile_b(per)}.get(matrix, _tile_c)
    return _fragment(kind, rows * columns // LANES, formula)


def _quad_pairs(matrix: str, kind: str, column_major: bool) -> tuple[int, Formula]:
    """(elements a lane, formula) of m8n8k4 with halves: lanes 4 q .. 4 q + 3 and 16 more hold product q."""

    def high(lane: int) -> int:
        return lane // 16 * 4

    def by_lane(lane: int, e: int) -> Place:
        return lane % 4 + high(lane), e

    def by_element(lane: int, e: int) -> Place:
        return e + high(lane), lane % 4

    def floats(lane: int, e: int) -> Place:
        return (lane & 1) + (e & 2) + high(lane), (e & 4) + (lane & 2) + (e & 1)

    if matrix == "a":
        return 4, _on_diagonal(by_element if column_major else by_lane, 8, 0)
    if matrix == "b":
        return 4, _on_diagonal(_turned(by_lane if column_major else by_element), 0, 8)
    return 8, _on_diagonal(by_lane if kind == "f16" else floats, 8, 8)


def _on_diagonal(formula: Formula, down: int, right: int) -> Formula:
    def place(lane: int, e: int) -> Place:
        row, column = formula(lane, e)
        q = lane % 16 // 4
        return row + down * q, column + right * q

    return place


# -- wmma


@cache
def wmma_fragment(shape_text: str, matrix: str, kind: str) -> Fragment:
    """How `wmma` holds A, B, C or D, the same for either layout in memory."""
    shape, per = shape_of(shape_text), PER_REGISTER[kind]
    rows, columns = shape.sizes(matrix)
    count = rows * columns // LANES
    wide_a, wide_b = _tile_a(per), _tile_b(per)
    tile = min(shape.m, 16) * shape.k // LANES  # elements a lane of one tile of A
    part = shape.k * 8 // LANES  # and of B
    if shape.m == 8 and shape.n == 32:
        turned = {"a": _turned(wide_b), "b": _side_by_side(_turned(wide_a), 16 * shape.k // LANES, right=16)}
        formula = turned.get(matrix) or _side_by_side(_turned(_tile_c), 4, right=16)
    else:
        straight = {"a": _side_by_side(wide_a, tile, down=16), "b": _side_by_side(wide_b, part, right=8)}
        to = {"down": 16} if shape.m == 32 else {"right": 8}
        formula = straight.get(matrix) or _side_by_side(_tile_c, 4, **to)
    if kind == "f16" and matrix in "ab":  # again and again
        return _fragment(kind, HALVES_A_THREAD, _side_by_side(formula, count))
    return _fragment(kind, count, formula)


def memory_order(shape_text: str, matrix: str, column_major: bool) -> tuple[int, int]:
    """(lines, elements a line) of a matrix in memory: its rows, or its columns."""
    rows, columns = shape_of(shape_text).sizes(matrix)
    return (columns, rows) if column_major else (rows, columns)
