"""D = A B + C of fragments: one function of IR for each shape, layout and choice of types.

Everything stays in the layout in which the registers hold the accumulator: for each element of D that a lane holds, and
each k, the lanes' elements of A and B come by one shuffle of a fragment, and vector operations multiply and add.

Numerics: those of an H200, bit for bit. Which machine instructions an opcode becomes on sm_90 was read from the
assembler's output (ptxas 13.0), what they compute was found on a card (matrix_fused.py):

    f16, bf16, tf32   one HMMA, whose products and accumulator are one fused sum; wmma's m16n16k8 of tf32 is two, k 0 to
                      3 and 4 to 7; an f16 result of a float accumulator is rounded once more
    fp8               turned into halves; one HMMA of the k with k % 4 < 2, another, onto its result, of the others; C
                      is added to that last, by an ordinary FADD or HADD2
    f16 of m8n8k4     no HMMA: FFMA for k = 0 to 3 and FADD of C; with all f16 C + (k 0, 1) + (k 2, 3) in f32
    f64               a chain of fused multiply-adds for k = 0, 1, 2, ...: not probed on a card
    integers          exact; added to C with wrap-around, or with saturation

On an H200 every figure and every count of differing results that the probe takes of 14 shapes of f16, bf16, tf32 and
fp8, of 290 048 results, is the same as with this code in the card's place. Not probed there yet: subnormal factors,
zeros beside large numbers and overflow (which follow literature, see matrix_fused.py), m8n8k4, f64 and wmma.

A fused sum of k products is off by less than (k + 1) * 2^(E - 25) + 2^-23 |D|, where E, the largest exponent, is at
most log2 of the largest |a b| or |c| unless a factor is subnormal. After cancellation that is much, and a small term
beside large ones that cancel is lost: a chain of float multiply-adds may differ in either direction.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from harness.emulator.access import Needs
from harness.emulator.irtext import Fn
from harness.emulator.layout import LANES
from harness.emulator.matrix_elements import FLOAT, I32, pack, register_type, unpack, value_type
from harness.emulator.matrix_fused import fused_sum, split
from harness.emulator.matrix_layouts import FAMILY, Fragment, Place
from harness.emulator.matrix_rounding import I16, nearest_half
from harness.emulator.matrix_usual import factor_field, largest_product, unusual, usual_sum

Places = tuple[Place, ...]  # one for each lane


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
    """What one instruction multiplies: A, B, the accumulator it reads and the one it writes. `parts`: machine
    instructions that share k among them, if it does not follow from the types."""

    a: Matrix
    b: Matrix
    c: Matrix
    d: Matrix
    k: int
    saturate: bool = False
    parts: int = 1

    @property
    def fused(self) -> bool:
        """Whether tensor cores add floats: of m8n8k4 with halves they do not on sm_90."""
        return self.d.kind in ("f32", "f16") and not (self.a.kind == "f16" and self.k == 4)

    @property
    def narrow(self) -> bool:
        """Whether the factors are halves when they are multiplied."""
        return self.a.kind not in ("bf16", "tf32")

    @property
    def fp8(self) -> bool:
        return FAMILY.get(self.a.kind) == "fp8"

    @property
    def blocks(self) -> list[list[int]]:
        """The k of each fused sum, in their order."""
        if self.fp8:
            return [[k for k in range(self.k) if k % 4 // 2 == part] for part in (0, 1)]
        size = self.k // self.parts
        return [list(range(start, start + size)) for start in range(0, self.k, size)]

    @property
    def sum_kind(self) -> str:
        """Format of a fused sum's result."""
        return "f32" if "f32" in (self.c.kind, self.d.kind) else "f16"

    @property
    def operands(self) -> str:
        """Parameters, or arguments, of a function of this product."""
        given = {"a": self.a, "b": self.b, "c": self.c}
        return ", ".join(f"{m.register_type} %{x}{r}" for x, m in given.items() for r in range(m.fragment.registers))

    @property
    def result_type(self) -> str:
        return "{ " + ", ".join([self.d.register_type] * self.d.fragment.registers) + " }"


Adder = Callable[[Fn, Product, list[str], list[str], list[str]], list[str]]  # elements of A, B and C -> those of D


def product_helper(m: Needs, name: str, p: Product) -> str:
    """(registers of A, of B, of C) -> { registers of D }; the sums of matrix_usual.py where they serve, and a second
    function with those of matrix_fused.py for the rest."""
    if not p.fused:
        return _function(p, name, _in_floats if p.a.kind == "f16" else _chained)
    rest = f"{name}_rest"
    return _function(p, rest, _fused) + _function(p, name, partial(_usual, rest))


def _function(p: Product, name: str, add: Adder) -> str:
    names = {x: [f"%{x}{r}" for r in range(getattr(p, x).fragment.registers)] for x in "abc"}
    f = Fn(f"define internal {p.result_type} @{name}({p.operands}) noinline {{")
    f("entry:")
    a, b, c = (unpack(f, getattr(p, x).kind, names[x]) for x in "abc")
    result = "poison"
    for r, value in enumerate(pack(f, p.d.kind, add(f, p, a, b, _moved(f, p, c)))):
        result = f.let(f"insertvalue {p.result_type} {result}, {p.d.register_type} {value}, {r}")
    f(f"  ret {p.result_type} {result}")
    return f.text()


def _moved(f: Fn, p: Product, c: list[str]) -> list[str]:
    """The elements of C where D has them; m8n8k4 keeps floats and halves in different places."""
    if p.c.fragment.places == p.d.fragment.places:
        return c
    shuffles = _Shuffles(f, FLOAT)
    return [shuffles.pick(c, p.c.fragment, lanes) for lanes in p.d.fragment.places]


def _usual(rest: str, f: Fn, p: Product, a: list[str], b: list[str], c: list[str]) -> list[str]:
    """The blocks' sums, or what the function `rest` returns."""
    fields_a, fields_b = ([factor_field(f, x, p.narrow) for x in values] for values in (a, b))
    fields, values = _Shuffles(f, I16), _Shuffles(f, FLOAT)
    largest = {
        (e, n): largest_product(f, [fields.factors(p, fields_a, fields_b, e, k) for k in block])
        for e in range(len(c))
        for n, block in enumerate(p.blocks)
    }
    _return_if(f, p, unusual(f, [*a, *b], c, list(largest.values()), p.narrow), rest)
    found = []
    for e, start in enumerate(c):
        total = "zeroinitializer" if p.fp8 else start
        for n, block in enumerate(p.blocks):
            factors = [values.factors(p, a, b, e, k) for k in block]
            total = usual_sum(f, factors, largest[e, n], total, p.narrow, p.sum_kind)
        found.append(_with_start(f, p, total, start) if p.fp8 else total)
    return found


def _return_if(f: Fn, p: Product, condition: str, function: str) -> None:
    yes, on = f.new_label(), f.new_label()
    f(f"  br i1 {condition}, label %{yes}, label %{on}, !prof !0\n{yes}:")
    f(f"  ret {p.result_type} {f.let(f'call {p.result_type} @{function}({p.operands})')}\n{on}:")


def _fused(f: Fn, p: Product, a: list[str], b: list[str], c: list[str]) -> list[str]:
    """The blocks' sums, each the accumulator of the next."""
    numbers_a, numbers_b = ([split(f, x, p.narrow) for x in values] for values in (a, b))
    a, b = ([n.significand for n in numbers] for numbers in (numbers_a, numbers_b))
    of_a, of_b = ([n.exponent for n in numbers] for numbers in (numbers_a, numbers_b))
    significands, exponents = _Shuffles(f, FLOAT), _Shuffles(f, I32)
    found = []
    for e, start in enumerate(c):
        total = "zeroinitializer" if p.fp8 else start
        for block in p.blocks:
            products = [(significands.factors(p, a, b, e, k), exponents.factors(p, of_a, of_b, e, k)) for k in block]
            total = fused_sum(f, products, total, p.narrow, p.sum_kind)
        found.append(_with_start(f, p, total, start) if p.fp8 else total)
    return found


def _with_start(f: Fn, p: Product, total: str, c: str) -> str:
    value = f.let(f"fadd {FLOAT} {total}, {c}")
    return nearest_half(f, value) if p.sum_kind == "f16" else value


def _chained(f: Fn, p: Product, a: list[str], b: list[str], c: list[str]) -> list[str]:
    """Multiply-adds, each rounded to nearest, from C on; those of integers, which are exact, from 0 on."""
    kind = value_type(p.d.kind)
    t = f"<{LANES} x {kind}>"
    shuffles = _Shuffles(f, t)
    integer = p.d.kind == "s32"
    sums = ["zeroinitializer"] * len(c) if integer else list(c)
    for k in range(p.k):
        for e in range(len(c)):
            sums[e] = _multiply_add(f, t, *shuffles.factors(p, a, b, e, k), sums[e])
    return [_add_integers(f, p, s, x) for s, x in zip(sums, c, strict=True)] if integer else sums


def _in_floats(f: Fn, p: Product, a: list[str], b: list[str], c: list[str]) -> list[str]:
    """The sum of k = 0 to 3 and C; with halves alone C and the sums of two k each. All rounded to nearest."""
    shuffles, found = _Shuffles(f, FLOAT), []
    chains = [range(4)] if p.sum_kind == "f32" else [range(2), range(2, 4)]
    for e, total in enumerate(c):
        for chain in chains:
            part = "zeroinitializer" if p.sum_kind == "f32" else "splat (float -0.0)"  # the first is a product alone
            for k in chain:
                part = _multiply_add(f, FLOAT, *shuffles.factors(p, a, b, e, k), part)
            total = f.let(f"fadd {FLOAT} {total}, {part}")
        found.append(total)
    return found


def _multiply_add(f: Fn, t: str, x: str, y: str, z: str) -> str:
    short = "f64" if "double" in t else "f32"
    return f.let(f"call {t} @llvm.fma.v{LANES}{short}({t} {x}, {t} {y}, {t} {z})")


def _add_integers(f: Fn, p: Product, total: str, c: str) -> str:
    whole = f.let(f"fptosi <{LANES} x float> {total} to {I32}")
    if p.saturate:
        return f.let(f"call {I32} @llvm.sadd.sat.v{LANES}i32({I32} {whole}, {I32} {c})")
    return f.let(f"add {I32} {whole}, {c}")


class _Shuffles:
    """Elements of a fragment moved between lanes, each combination once."""

    def __init__(self, f: Fn, vector_type: str):
        self._f, self._t = f, vector_type
        self._made: dict[tuple[str, Places], str] = {}

    def factors(self, p: Product, a: list[str], b: list[str], e: int, k: int) -> tuple[str, str]:
        """The factors of product k of each lane's element e of D."""
        lanes = p.d.fragment.places[e]
        x = self.pick(a, p.a.fragment, tuple((row, k) for row, _ in lanes))
        return x, self.pick(b, p.b.fragment, tuple((k, column) for _, column in lanes))

    def pick(self, values: list[str], fragment: Fragment, places: Places) -> str:
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
