"""How the card's matrix instructions round: bits kept, truncation, blocks, subnormals, and the model that fits them all.

Test vectors put one dot product into element (0, 0) of a tile, after Fasi et al. (PeerJ CS 2021): two products that
cancel, and a small third term whose survival shows what is kept beside them. Works on the card alone; the emulator is
compared bit for bit for the instructions that it has.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tests.gpu import differential_mma_model as model
from tests.gpu.differential_children import RAN, Assemble, Child, Reply, Run
from tests.gpu.differential_shapes import (
    COLUMNS,
    LANES,
    ROWS,
    SHAPES,
    Shape,
    decode,
    encode,
    fragments,
    kernel_text,
    result,
)

Array = np.ndarray
_SECONDS = 60.0
_LEAST = {"f16": -24, "bf16": -133, "tf32": -136, "e4m3": -9, "e5m2": -16}  # exponent of the least subnormal
_NORMAL = {"f16": -14, "bf16": -126, "tf32": -126, "e4m3": -6, "e5m2": -14}  # of the least normal number
_TOP = {"f16": 15, "bf16": 60, "tf32": 60, "e4m3": 8, "e5m2": 15}  # of the largest power of two that is used
_WIDE = ("bf16", "tf32")  # with the exponents of a float
# Exponents of a factor of the least subnormal, and of a product that counts beside these two if the exponent of the
# subnormal is that of its value, and does not if it is that of the least normal number
_SUBNORMAL = {"f16": (15, -28), "bf16": (120, -35), "tf32": (120, -35), "e4m3": (8, -12), "e5m2": (15, -28)}
# (bits, of them fraction) of a pattern
_WORDS = {"f16": (16, 10), "bf16": (16, 7), "tf32": (32, 23), "f32": (32, 23), "e4m3": (8, 3), "e5m2": (8, 2)}
_TILES = 8


@dataclass
class Sides:
    """One shape's kernel on the card and, where it knows the instruction, in the emulator."""

    shape: Shape
    emulator: Child
    other: Child
    stem: Path
    refused: str = ""  # the emulator's words
    compared: int = 0
    unequal: int = 0
    example: str = ""
    built: bool = field(default=False)

    def tiles(self, a: Array, b: Array, c: Array) -> Array:
        """Bit patterns of D on the card (tiles, 16, 8), of patterns A (tiles, 16, k), B (tiles, k, 8), C (tiles, 16, 8)."""
        if not self.built:
            self.stem.with_suffix(".ptx").write_text(kernel_text(self.shape))
            _must(self.emulator.call(Assemble(self.stem), _SECONDS))
            self.built = True
        registers = fragments(self.shape, a, b, c)
        request = Run(self.stem, "k", (*registers, np.zeros_like(registers[2])), len(a), LANES)
        card = result(self.shape, _must(self.other.call(request, _SECONDS)).arrays[3])
        self._compare(request, card)
        return card

    def _compare(self, request: Run, card: Array) -> None:
        if self.refused:
            return
        reply = self.emulator.call(request, _SECONDS)
        if reply.status != RAN:
            self.refused = f"{reply.status} {reply.note.splitlines()[-1] if reply.note else ''}"
            return
        ours = result(self.shape, reply.arrays[3])
        apart = np.argwhere(ours != card)
        self.compared += card.size
        self.unequal += len(apart)
        if len(apart) and not self.example:
            at = tuple(int(v) for v in apart[0])
            self.example = f"tile, row, column {at}: emulator {int(ours[at]):#x}, card {int(card[at]):#x}"

    def dots(self, vectors: Sequence[tuple[dict[int, tuple[float, float]], float]]) -> Array:
        """Results, as float64, of dot products given as ({position: (a, b)}, c), each in a tile of its own."""
        return decode(self.patterns(vectors), self.shape.c)

    def patterns(self, vectors: Sequence[tuple[dict[int, tuple[float, float]], float]]) -> Array:
        """The same as bit patterns."""
        s, n = self.shape, len(vectors)
        a, b, c = np.zeros((n, ROWS, s.k)), np.zeros((n, s.k, COLUMNS)), np.zeros((n, ROWS, COLUMNS))
        for tile, (pairs, start) in enumerate(vectors):
            c[tile, 0, 0] = start
            for k, (x, y) in pairs.items():
                a[tile, 0, k], b[tile, k, 0] = x, y
        return self.tiles(encode(a, s.a), encode(b, s.b), encode(c, s.c))[:, 0, 0]


def _must(reply: Reply) -> Reply:
    if reply.status != RAN:
        raise RuntimeError(f"{reply.status}: {reply.note}")
    return reply


def _power(shape: Shape, exponent: int, factor: float = 1.0) -> tuple[float, float]:
    """Two factors whose product is factor * 2^exponent."""
    first = min(max(exponent // 2, _NORMAL[shape.a]), _TOP[shape.a])
    return factor * 2.0**first, 2.0 ** (exponent - first)


def _big(shape: Shape) -> int:
    """Exponent of a product that is large and leaves room below it."""
    top = 2 * min(_TOP[shape.a], _TOP[shape.b])
    return min(top, 14 if shape.c == "f16" else 40)


def _small(shape: Shape) -> int:
    """The least exponent of a product of normal numbers that the result can have."""
    return max(_NORMAL[shape.a] + _NORMAL[shape.b], -24 if shape.c == "f16" else -120)


def kept(sides: Sides) -> dict[str, Any]:
    """How far below a large term a small one still counts; what becomes of what does not."""
    s, big = sides.shape, _big(sides.shape)
    distances = list(range(1, min(46, big - _small(s))))
    plus, minus = _power(s, big), (-_power(s, big)[0], _power(s, big)[1])
    tests = {
        "product beside products": [({0: plus, 1: minus, 2: _power(s, big - j)}, 0.0) for j in distances],
        "accumulator beside products": [({0: plus, 1: minus}, 2.0 ** (big - j)) for j in distances],
        "product beside the accumulator": [({0: minus, 1: _power(s, big - j)}, 2.0**big) for j in distances],
    }
    found: dict[str, Any] = {}
    for name, vectors in tests.items():
        results = sides.dots(vectors)
        exact = [j for j, d in zip(distances, results, strict=True) if d == 2.0 ** (big - j)]
        found[name] = max(exact) if exact else 0
        if found[name] == distances[-1]:
            found[name] = f">= {found[name]}"
    return found


def alignment(sides: Sides, bits: int) -> str:
    """What becomes of three quarters of the last bit that is kept, with either sign."""
    s, big = sides.shape, _big(sides.shape)
    plus, minus = _power(s, big), (-_power(s, big)[0], _power(s, big)[1])
    last = big - bits
    if last - 1 < _small(s):
        return "not reached"
    up, down = sides.dots([({0: plus, 1: minus, 2: _power(s, last - 1, f * 1.5)}, 0.0) for f in (1, -1)])
    pattern = (up / 2.0**last, down / 2.0**last)
    names = {(0.0, 0.0): "towards zero", (1.0, -1.0): "to nearest", (0.0, -1.0): "down", (1.0, 0.0): "up"}
    return names.get(pattern, f"{pattern} units")


def final_rounding(sides: Sides) -> dict[str, str]:
    """The sum 1 + x ulp, for x around a tie, of either sign, in last places."""
    s = sides.shape
    ulp = -10 if s.c == "f16" else -23
    found = {}
    for x in (0.5, 0.75, 1.5, 1.25, -0.25):
        exponent, factor = (ulp - 1, x * 2) if abs(x) >= 0.5 else (ulp - 2, x * 4)
        if exponent < _small(s) or exponent - 2 < 2 * _LEAST[s.a]:
            return {"1 + x ulp": "not reached"}
        results = sides.dots([({0: _power(s, exponent, factor)}, 1.0), ({0: _power(s, exponent, -factor)}, -1.0)])
        found[f"{x:+}"] = ", ".join(f"{(abs(float(d)) - 1) / 2.0**ulp:+g}" for d in results)
    return found


def blocks(sides: Sides, bits: int) -> dict[str, Any]:
    """Positions at which a term just too small to count beside two that cancel is lost: those summed with them."""
    s, big = sides.shape, _big(sides.shape)
    tiny = big - bits - 1
    if tiny < _small(s):
        return {"lost beside 0, 1": "not reached"}
    plus, minus = _power(s, big), (-_power(s, big)[0], _power(s, big)[1])
    found: dict[str, Any] = {}
    for first, second in ((0, 1), (s.k - 2, s.k - 1)):
        places = [t for t in range(s.k) if t not in (first, second)]
        results = sides.dots([({first: plus, second: minus, t: _power(s, tiny)}, 0.0) for t in places])
        found[f"lost beside {first}, {second}"] = [t for t, d in zip(places, results, strict=True) if d == 0]
    return found


def subnormals(sides: Sides) -> dict[str, str]:
    """Subnormal inputs, results and accumulators, and what overflows."""
    s = sides.shape
    least = 2.0 ** _LEAST[s.a]
    small_c = 2.0 ** (-24 if s.c == "f16" else -149)
    low = {"f32": -140, "f16": -20}[s.c]
    low_pair = _power(s, low) if low >= 2 * _NORMAL[s.a] else (0.0, 0.0)
    top = 2.0 ** _TOP[s.a]
    large, small = _SUBNORMAL[s.a]
    small_pair = _power(s, small)
    huge = (60000.0, 60000.0) if s.c == "f16" else (3e38, 3e38)
    tests = {
        "least input * 1": (({0: (least, 1.0)}, 0.0), least),
        "least accumulator": (({}, small_c), small_c),
        "subnormal result of normal factors": (({0: low_pair}, 0.0), low_pair[0] * low_pair[1]),
        "largest accumulator + large products": ((dict.fromkeys(range(4), (top, top)), huge[0]), np.inf),
        "overflow of four products": ((dict.fromkeys(range(4), (2.0**63, 2.0**63)) if s.a in _WIDE else {}, 0.0), np.inf),
        "0 * large + small": (({0: (0.0, 2.0**large), 1: small_pair}, 0.0), 2.0**small),
        "small beside subnormals * large": (({0: (least, 2.0**large), 1: (-least, 2.0**large), 2: small_pair}, 0.0), 2.0**small),
        "inf accumulator": (({0: (1.0, 1.0)}, np.inf), np.inf),
        "inf - inf": (({0: (np.inf, 1.0), 1: (-np.inf, 1.0)} if s.a in ("f16", "bf16", "tf32") else {}, 0.0), np.nan),
    }
    results = sides.patterns([v for v, _ in tests.values()])
    return {
        name: f"{float(decode(np.array([d]), s.c)[0]):.6g} {int(d):#x} ({want:.6g} exactly)"
        for (name, (_, want)), d in zip(tests.items(), results, strict=True)
    }


def data(shape: Shape) -> tuple[Array, Array, Array]:
    """Values of A, B, C (tiles, ...) of three kinds: ordinary, of many exponents, and sums that nearly cancel."""
    rng = np.random.default_rng(shape.k)
    k = shape.k
    sizes = ((_TILES, ROWS, k), (_TILES, k, COLUMNS), (_TILES, ROWS, COLUMNS))
    spread = 3 if shape.a in ("e4m3", "e5m2") else 6
    plain = [rng.normal(size=n) for n in sizes]
    wide = [rng.normal(size=n) * np.exp2(rng.integers(-spread, spread, n)) for n in sizes]
    close = [rng.normal(size=n) for n in sizes[:2]]
    values = []
    for a, b, *rest in (plain, wide, close):
        a, b = _as(a, shape.a), _as(b, shape.b)
        values.append((a, b, _as(rest[0] if rest else -(a @ b), shape.c)))
    return tuple(np.concatenate(parts) for parts in zip(*values, strict=True))  # type: ignore[return-value]


def _as(values: Array, kind: str) -> Array:
    """The nearest values of a format, or near enough."""
    if kind == "tf32":
        bits = values.astype(np.float32).view(np.uint32) & np.uint32(0xFFFFE000)
        return bits.view(np.float32).astype(np.float64)
    return decode(encode(values, kind), kind)


def random_data(sides: Sides) -> dict[str, Any]:
    """Errors in units of 2^-24 sum |a| |b| beside those of a chain of float multiply-adds, and the models that fit."""
    s = sides.shape
    a, b, c = data(s)
    d = decode(sides.tiles(encode(a, s.a), encode(b, s.b), encode(c, s.c)), s.c)
    rows, columns, start = products(a, b, c)
    found = d.reshape(-1)
    unit = 2.0**-24 * ((np.abs(rows) * np.abs(columns)).sum(1) + np.abs(start))
    exact = (rows * columns).sum(1) + start
    chain = model.fma_chain(rows, columns, start)
    fits = model.search(s, rows, columns, start, found)
    return {
        "largest error": float((np.abs(found - exact) / unit).max()),
        "largest error of a chain": float((np.abs(chain - exact) / unit).max()),
        "largest difference from a chain": float((np.abs(found - chain) / unit).max()),
        "models": fits[:6],
        "exact models": [f["text"] for f in fits if f["equal"] == 1.0],
    }


def patterns(shape: Shape, tiles: int, seed: int = 5) -> tuple[Array, Array, Array]:
    """Bit patterns of A, B, C (tiles, ...): every third matrix of A and B of any numbers, the next with many zeros and
    subnormals, the last of them and of large numbers; a sixteenth of C is zero."""
    rng, k = np.random.default_rng(seed), shape.k
    sizes = ((tiles, ROWS, k), (tiles, k, COLUMNS), (tiles, ROWS, COLUMNS))
    found = []
    for kind, size in zip((shape.a, shape.b, shape.c), sizes, strict=True):
        bits, fraction = _WORDS[kind]
        any_pattern = rng.integers(0, 1 << bits, size, dtype=np.uint64)
        sign = any_pattern >> np.uint64(bits - 1) << np.uint64(bits - 1)
        small = sign | any_pattern & np.uint64((1 << fraction) - 1)
        few = np.where(rng.random(size) < 0.3, sign, np.where(rng.random(size) < 0.5, small, any_pattern))
        turn = (np.arange(tiles) % 3)[:, None, None]
        mixed = np.where(turn == 0, any_pattern, np.where((turn == 1) | (rng.random(size) < 0.7), few, small))
        if kind == shape.c:
            mixed = np.where(rng.random(size) < 1 / 16, 0, np.where(turn == 0, any_pattern, few))
        found.append(_finite(mixed.astype(np.uint32), kind) & np.uint32(0xFFFFE000 if kind == "tf32" else 0xFFFFFFFF))
    return tuple(found)  # type: ignore[return-value]


def _finite(bits: Array, kind: str) -> Array:
    """One exponent less for what is infinite or NaN."""
    width, fraction = _WORDS[kind]
    field = np.uint32(((1 << width - 1) - 1) >> fraction << fraction)
    wrong = (bits & field) == field if kind != "e4m3" else (bits & np.uint32(127)) == 127
    return np.where(wrong, bits ^ np.uint32(1 << fraction), bits)


def any_patterns(sides: Sides) -> str:
    """How many results are those of the model of an H200, and the first that is not."""
    s = sides.shape
    bits = patterns(s, 3 * _TILES)
    a, b, c = (decode(x, kind) for x, kind in zip(bits, (s.a, s.b, s.c), strict=True))
    rows, columns, start = products(a, b, c)
    with np.errstate(all="ignore"):
        want = encode(model.h200(s, rows, columns, start), s.c)
    found = sides.tiles(*bits).reshape(-1)
    want = np.where(np.isnan(decode(want, s.c)), found | np.uint32(0), want)
    apart = np.flatnonzero(found != want)
    first = f", the first: card {int(found[apart[0]]):#x}, model {int(want[apart[0]]):#x}" if len(apart) else ""
    return f"{len(apart)} of {len(found)} are not the model's{first}"


def products(a: Array, b: Array, c: Array) -> tuple[Array, Array, Array]:
    """The factors (n, k) and (n, k), and the accumulators (n,), of every element of tiles."""
    k = a.shape[-1]
    rows = np.repeat(a[:, :, None, :], COLUMNS, 2).reshape(-1, k)
    columns = np.repeat(np.swapaxes(b, 1, 2)[:, None], ROWS, 1).reshape(-1, k)
    return rows, columns, c.reshape(-1)


def integers(sides: Sides) -> dict[str, Any]:
    """Sums of integers, which wrap: compared with exact ones."""
    s, rng = sides.shape, np.random.default_rng(3)
    a, b = (rng.integers(0, 256, n).astype(np.uint32) for n in ((_TILES, ROWS, s.k), (_TILES, s.k, COLUMNS)))
    c = rng.integers(0, 1 << 32, (_TILES, ROWS, COLUMNS)).astype(np.uint32)
    d = sides.tiles(a, b, c)
    exact = decode(a, s.a).astype(np.int64) @ decode(b, s.b).astype(np.int64) + c.view(np.int32)
    return {"wrong": int((d != (exact & 0xFFFFFFFF)).sum())}


def _probe(sides: Sides) -> dict[str, Any]:
    if sides.shape.c == "s32":
        return integers(sides)
    found: dict[str, Any] = {"kept": kept(sides)}
    first = found["kept"]["product beside products"]
    if isinstance(first, int):
        found["alignment"] = alignment(sides, first)
        found["blocks"] = blocks(sides, first)
    found["final rounding"] = final_rounding(sides)
    found["subnormals"] = subnormals(sides)
    found["any bit patterns"] = any_patterns(sides)
    return found | random_data(sides)


def probe(emulator: Child, other: Child, folder: Path, out: Path) -> bool:
    """Print what is found for each shape; whether an emulator that has the instruction differs."""
    report: dict[str, Any] = {}
    differs = False
    for n, shape in enumerate(SHAPES):
        sides = Sides(shape, emulator, other, folder / f"mma_{n}")
        try:
            found = _probe(sides)
        except RuntimeError as error:
            found = {"lost": str(error)}
        found["emulator"] = sides.refused or f"{sides.unequal} of {sides.compared} unequal {sides.example}"
        differs |= sides.unequal > 0
        report[shape.opcode] = found
        _print(shape.opcode, found)
    (out / "mma.json").write_text(json.dumps(report, indent=1, default=str))
    return differs


def _print(opcode: str, found: dict[str, Any]) -> None:
    print(opcode)
    for name, value in found.items():
        if name == "models":
            value = "; ".join(f"{f['equal']:.2%} {f['text']}" for f in value[:2])
        print(f"   {name:32}{value}")
