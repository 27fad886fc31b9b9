"""D = A B + C of fragments: one function of IR for each shape, layout and choice of types.

Everything stays in the layout in which the registers hold the accumulator: for each element of D that a lane holds, and
each k, the lanes' elements of A and B come by one shuffle of a fragment, and one vector operation multiplies and adds.

Numerics. Products of the multiplicands are exact in the float that they are added in. `accumulate` alone says in which
order they are added. With one rounding a step, for kinds that accumulate in f32

    |D - exact| <= k * 2^-24 * (|C| + sum |a| |b|)        up to terms of the order of 2^-48, if nothing overflows

and for f16 another 2^-11 * |D| (or half of the least subnormal) of the one rounding at the end; f64 is the same with
2^-53. 8-bit integers are exact: their sums need 22 bits, and are added to C with wrap-around, or with saturation.
"""

from __future__ import annotations

from dataclasses import dataclass

from harness.emulator.access import Needs
from harness.emulator.irtext import Fn
from harness.emulator.layout import LANES
from harness.emulator.matrix_elements import I32, pack, register_type, unpack, value_type
from harness.emulator.matrix_layouts import Fragment


@dataclass(frozen=True)
class Matrix:
    """One operand of a product."""

    kind: str
    fragment: Fragment

    @property
    def register_type(self) -> str:
        return f"<{LANES} x {register_type(self.kind)}>"


@dataclass(frozen=True)
class Product:
    """What one instruction multiplies: A, B, the accumulator it reads and the one it writes."""

    a: Matrix
    b: Matrix
    c: Matrix
    d: Matrix
    k: int
    saturate: bool = False

    @property
    def result_type(self) -> str:
        return "{ " + ", ".join([self.d.register_type] * self.d.fragment.registers) + " }"


def product_helper(m: Needs, name: str, p: Product) -> str:
    """(registers of A, of B, of C) -> { registers of D }"""
    names = {x: [f"%{x}{r}" for r in range(getattr(p, x).fragment.registers)] for x in "abc"}
    operands = ", ".join(f"{getattr(p, x).register_type} {r}" for x in "abc" for r in names[x])
    f = Fn(f"define internal {p.result_type} @{name}({operands}) noinline {{")
    f("entry:")
    a, b, c = (unpack(f, getattr(p, x).kind, names[x]) for x in "abc")
    shuffles = _Shuffles(f, value_type(p.d.kind))
    found = accumulate(f, p, shuffles, a, b, _moved(p, c, shuffles))
    result = "poison"
    for r, value in enumerate(pack(f, p.d.kind, found)):
        result = f.let(f"insertvalue {p.result_type} {result}, {p.d.register_type} {value}, {r}")
    f(f"  ret {p.result_type} {result}")
    return f.text()


def _moved(p: Product, c: list[str], shuffles: _Shuffles) -> list[str]:
    """The elements of C where D has them; m8n8k4 keeps floats and halves in different places."""
    if p.c.fragment.places == p.d.fragment.places:
        return c
    return [shuffles.pick(c, p.c.fragment, lanes) for lanes in p.d.fragment.places]


def accumulate(f: Fn, p: Product, shuffles: _Shuffles, a: list[str], b: list[str], c: list[str]) -> list[str]:
    """The elements of D: C, then the products for k = 0, 1, 2, ... one after the other, each fused and rounded to
    nearest. Cards add several products at once in a wider sum and cut it off; which, and how wide, differs by card."""
    kind = value_type(p.d.kind)
    t, short = f"<{LANES} x {kind}>", {"float": "f32", "double": "f64"}[kind]
    integer = p.d.kind == "s32"
    sums = ["zeroinitializer"] * len(c) if integer else list(c)
    for k in range(p.k):
        for e, lanes in enumerate(p.d.fragment.places):
            x = shuffles.pick(a, p.a.fragment, tuple((row, k) for row, _ in lanes))
            y = shuffles.pick(b, p.b.fragment, tuple((k, column) for _, column in lanes))
            sums[e] = f.let(f"call {t} @llvm.fma.v{LANES}{short}({t} {x}, {t} {y}, {t} {sums[e]})")
    return [_add_integers(f, p, s, x) for s, x in zip(sums, c, strict=True)] if integer else sums


def _add_integers(f: Fn, p: Product, total: str, c: str) -> str:
    whole = f.let(f"fptosi <{LANES} x float> {total} to {I32}")
    if p.saturate:
        return f.let(f"call {I32} @llvm.sadd.sat.v{LANES}i32({I32} {whole}, {I32} {c})")
    return f.let(f"add {I32} {whole}, {c}")


class _Shuffles:
    """Elements of a fragment moved between lanes, each combination once."""

    def __init__(self, f: Fn, kind: str):
        self._f, self._t = f, f"<{LANES} x {kind}>"
        self._made: dict[tuple[str, tuple[tuple[int, int], ...]], str] = {}

    def pick(self, values: list[str], fragment: Fragment, places: tuple[tuple[int, int], ...]) -> str:
        """For each lane the element of the matrix at that lane's (row, column)."""
        key = (values[0], places)
        if key not in self._made:
            self._made[key] = self._shuffle(values, [fragment.holders[place] for place in places])
        return self._made[key]

    def _shuffle(self, values: list[str], sources: list[tuple[int, int]]) -> str:
        """For each lane element e of another lane. Nearly always e is the same for all."""
        elements = sorted({e for e, _ in sources})
        result = values[elements[0]]
        order = [lane if e == elements[0] else -1 for e, lane in sources]
        if order != list(range(LANES)):
            result = self._shuffled(result, "poison", order)
        for other in elements[1:]:
            order = [LANES + lane if e == other else n for n, (e, lane) in enumerate(sources)]
            result = self._shuffled(result, values[other], order)
        return result

    def _shuffled(self, first: str, second: str, order: list[int]) -> str:
        lanes = ", ".join("i32 poison" if n < 0 else f"i32 {n}" for n in order)
        return self._f.let(f"shufflevector {self._t} {first}, {self._t} {second}, <{LANES} x i32> <{lanes}>")
