"""Approximate instructions on both sides: the largest error against float64, beside the bound that the PTX ISA states.

The bounds are those of the PTX ISA 9.1, sections 9.7.3 (ex2, lg2, sin, cos, tanh, rcp, rsqrt, sqrt, div) and 9.7.4 (the
halves): in units in the last place, or relative, or absolute, over a range of inputs. Two ulp of ex2 are meant from the
correctly rounded result, which itself is half an ulp off. Results that are exactly zero, infinite or NaN, and subnormal
results that .ftz flushes, are not measured: `special` counts those in which the two sides do not agree.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from tests.gpu.differential_children import RAN, Assemble, Child, Reply, Run

Array = np.ndarray
_TINY = 2.0**-126
_SECONDS = 120.0
_WIDTH = {"f32": 32, "f64": 64, "f16": 16, "bf16": 16}
_FRACTION = {"f32": 23, "f64": 52, "f16": 10, "bf16": 7}
_LEAST = {"f32": -126, "f64": -1022, "f16": -14, "bf16": -126}


@dataclass(frozen=True)
class Function:
    """`measure`: "ulp", "relative" or "absolute"; `bound` in it; `within`: the inputs for which the bound is stated."""

    opcode: str
    kind: str
    exact: Callable[..., Array]
    measure: str
    bound: float
    within: Callable[..., Array] = lambda *x: np.ones(len(x[0]), bool)
    operands: int = 1

    @property
    def flushes(self) -> bool:
        return "ftz" in self.opcode


def _near_one(x: Array) -> Array:
    near: Array = (x > 0.5) & (x < 2)
    return near


def _turns(count: float) -> Callable[..., Array]:
    return lambda x: np.abs(x) <= 2 * np.pi * count


def _divisor(a: Array, b: Array) -> Array:
    inside: Array = (np.abs(b) >= 2.0**-126) & (np.abs(b) <= 2.0**126) & (np.abs(a) >= _TINY)
    return inside


def _functions() -> list[Function]:
    made = []
    for ftz in ("", ".ftz"):
        made += [
            Function(f"ex2.approx{ftz}.f32", "f32", np.exp2, "ulp", 2.5),
            Function(f"lg2.approx{ftz}.f32", "f32", np.log2, "absolute", 2.0**-22, _near_one),
            Function(f"lg2.approx{ftz}.f32", "f32", np.log2, "relative", 2.0**-22, lambda x: (x > 0) & ~_near_one(x)),
            Function(f"sin.approx{ftz}.f32", "f32", np.sin, "absolute", 2.0**-20.5, _turns(1)),
            Function(f"cos.approx{ftz}.f32", "f32", np.cos, "absolute", 2.0**-20.5, _turns(1)),
            Function(f"sin.approx{ftz}.f32", "f32", np.sin, "absolute", 2.0**-14.7, _turns(50)),
            Function(f"cos.approx{ftz}.f32", "f32", np.cos, "absolute", 2.0**-14.7, _turns(50)),
            Function(f"rcp.approx{ftz}.f32", "f32", lambda x: 1 / x, "ulp", 1),
            Function(f"rsqrt.approx{ftz}.f32", "f32", lambda x: 1 / np.sqrt(x), "relative", 2.0**-22.9),
            Function(f"sqrt.approx{ftz}.f32", "f32", np.sqrt, "relative", 2.0**-23),
            Function(f"div.approx{ftz}.f32", "f32", np.divide, "ulp", 2, _divisor, 2),
            Function(f"div.full{ftz}.f32", "f32", np.divide, "ulp", 2, operands=2),
        ]
    return [
        *made,
        Function("tanh.approx.f32", "f32", np.tanh, "relative", 2.0**-11),
        Function("tanh.approx.f16", "f16", np.tanh, "absolute", 2.0**-10.987),
        Function("tanh.approx.bf16", "bf16", np.tanh, "absolute", 2.0**-8),
        Function("ex2.approx.f16", "f16", np.exp2, "relative", 2.0**-9.9),
        Function("ex2.approx.ftz.bf16", "bf16", np.exp2, "relative", 2.0**-7),
        Function("rcp.approx.ftz.f64", "f64", lambda x: 1 / x, "relative", np.inf),  # no bound is stated, both only read
        Function("rsqrt.approx.ftz.f64", "f64", lambda x: 1 / np.sqrt(x), "relative", np.inf),  # and give 32 bits
    ]


def _inputs(kind: str, number: int) -> Array:
    """Bits of many operands: patterns, ranges where a function changes, edges. A multiple of 32 of them."""
    rng = np.random.default_rng(number)
    if _WIDTH[kind] == 16:
        return np.arange(1 << 16, dtype=np.uint64)
    values = np.concatenate([
        rng.uniform(-151, 129, 16384), rng.uniform(-np.pi, np.pi, 16384), rng.uniform(0.5, 2, 16384), rng.uniform(-0.1, 0.1, 8192),
        1 + rng.uniform(-1e-4, 1e-4, 4096), rng.uniform(-10, 10, 8192), rng.uniform(-330, 330, 16384), np.exp2(rng.uniform(-149, 128, 32768)) * rng.choice([-1, 1], 32768),
        [0.0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 2, 0.5, 0.25, 4, _TINY, -_TINY, 2.0**-149, 128, 127.99999, -126, -149, -150, 3.4e38, 1e-38],
    ])  # fmt: skip
    if kind == "f64":
        patterns = rng.integers(0, 1 << 64, 16384, dtype=np.uint64)
        bits = np.concatenate([values.view(np.uint64), patterns])
    else:
        patterns = rng.integers(0, 1 << 32, 16384, dtype=np.uint64)
        bits = np.concatenate([values.astype(np.float32).view(np.uint32).astype(np.uint64), patterns])
    bits = rng.permutation(bits)
    return bits[: len(bits) // 32 * 32]


def _decoded(bits: Array, kind: str) -> Array:
    """Bits as float64 values."""
    if kind == "f64":
        return bits.view(np.float64)
    if kind == "f16":
        return bits.astype(np.uint16).view(np.float16).astype(np.float64)
    words = (bits.astype(np.uint32) << np.uint32(16 if kind == "bf16" else 0)).astype(np.uint32)
    with np.errstate(invalid="ignore"):  # signalling NaNs
        return words.view(np.float32).astype(np.float64)


def _text(functions: Sequence[Function], count: int) -> str:
    """PTX of k(operands, results): u64 words, a row an operand or a function."""
    kind = functions[0].kind
    register = {16: "b16", 32: "f32", 64: "f64"}[_WIDTH[kind]]
    integer = f"b{_WIDTH[kind]}"
    load = {16: "cvt.u16.u64 {r}, %w;", 32: "cvt.u32.u64 %z, %w; mov.b32 {r}, %z;", 64: "mov.b64 {r}, %w;"}[_WIDTH[kind]]
    keep = {16: "cvt.u64.u16 %w, %y;", 32: "mov.b32 %z, %y; cvt.u64.u32 %w, %z;", 64: "mov.b64 %w, %y;"}[_WIDTH[kind]]
    body = []
    for n, f in enumerate(functions):
        body.append(f"{f.opcode} %y, {', '.join(('%a', '%b')[: f.operands])}; {keep} st.global.u64 [%out+{8 * count * n}], %w;")
    return f""".version 9.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 k_in, .param .u64 k_out) {{
.reg .{register} %a, %b, %y; .reg .{integer} %unused; .reg .b32 %i, %t, %z; .reg .b64 %in, %out, %o, %w;
ld.param.u64 %in, [k_in]; ld.param.u64 %out, [k_out]; mov.u32 %i, %ctaid.x; mov.u32 %t, %tid.x; mad.lo.u32 %i, %i, 32, %t;
mul.wide.u32 %o, %i, 8; add.s64 %in, %in, %o; add.s64 %out, %out, %o;
ld.global.u64 %w, [%in]; {load.format(r="%a")} ld.global.u64 %w, [%in+{8 * count}]; {load.format(r="%b")}
{chr(10).join(body)}
ret; }}"""


@dataclass
class Line:
    """Of one function: the largest error of each side, its bound, how many results have equal bits."""

    opcode: str
    measure: str
    bound: float
    card: float
    card_at: str
    emulator: float
    emulator_at: str
    equal: float  # share of all inputs
    special: int


def compare(child: Child, other: Child, folder: Path, out: Path) -> bool:
    """Print a line a function; whether the emulator or the card misses a bound."""
    lines: list[Line] = []
    refused: list[str] = []
    for kind in ("f32", "f16", "bf16", "f64"):
        functions = [f for f in _functions() if f.kind == kind]
        _group(functions, child, other, folder / f"approx_{kind}", lines, refused)
    print(f"{'instruction':24}{'measure':>10}{'bound':>12}{'card':>12}{'emulator':>12}{'same bits':>11}{'special':>9}")
    for line in lines:
        print(f"{line.opcode:24}{line.measure:>10}{line.bound:12.4g}{line.card:12.4g}{line.emulator:12.4g}{line.equal:11.2%}{line.special:9}")
    for text in refused:
        print(f"   refused: {text}")
    (out / "approx.json").write_text(json.dumps({"functions": [asdict(line) for line in lines], "refused": refused}, indent=1))
    return any(line.emulator > line.bound or line.card > line.bound for line in lines)


def _group(functions: list[Function], child: Child, other: Child, stem: Path, lines: list[Line], refused: list[str]) -> None:
    """All functions of a type as one kernel; apart where a side does not take it."""
    kind = functions[0].kind
    operands = np.stack([_inputs(kind, 1), np.roll(_inputs(kind, 2), 5)])
    count = operands.shape[1]
    stem.with_suffix(".ptx").write_text(_text(functions, count))
    request = Run(stem, "k", (operands, np.zeros((len(functions), count), np.uint64)), count // 32, 32)
    built = child.call(Assemble(stem), _SECONDS)
    replies = [side.call(request, _SECONDS) if built.status == RAN else built for side in (child, other)]
    if all(r.status == RAN for r in replies):
        lines += [_line(f, operands, *(r.arrays[1][n] for r in replies)) for n, f in enumerate(functions)]
    elif len(functions) == 1:
        refused.append(f"{functions[0].opcode}: {_why(replies)}")
    else:
        half = len(functions) // 2
        for suffix, part in (("a", functions[:half]), ("b", functions[half:])):
            _group(part, child, other, stem.with_name(stem.name + suffix), lines, refused)


def _why(replies: Sequence[Reply]) -> str:
    return "; ".join(f"{side} {r.status} {r.note[:120]}" for side, r in zip(("emulator", "other side"), replies, strict=True) if r.status != RAN)


def _line(f: Function, operands: Array, ours: Array, card: Array) -> Line:
    values = [_decoded(o, f.kind) for o in operands[: f.operands]]
    if f.flushes:
        values = [np.where(np.abs(v) < 2.0 ** _LEAST[f.kind], np.copysign(0.0, v), v) for v in values]
    with np.errstate(all="ignore"):
        exact = f.exact(*values)
        largest = float(_decoded(np.array([_largest(f.kind)], np.uint64), f.kind)[0])
        measured = np.isfinite(exact) & (exact != 0) & (np.abs(exact) <= largest) & f.within(*values)
        if f.flushes or f.measure == "relative":
            measured &= np.abs(exact) >= 1.0001 * 2.0 ** _LEAST[f.kind]
        errors = [_error(f, _decoded(bits, f.kind), exact, measured) for bits in (card, ours)]
        plain = np.isfinite(exact) & (exact != 0)
    places = [", ".join(f"{v[int(np.argmax(e))]:.9g}" for v in values) for e in errors]
    a, b = _decoded(ours, f.kind), _decoded(card, f.kind)
    odd = ~plain & ~((a == b) & (np.signbit(a) == np.signbit(b)) | np.isnan(a) & np.isnan(b))
    return Line(f.opcode, f.measure, f.bound, float(errors[0].max()), places[0], float(errors[1].max()), places[1],
                float(np.mean(ours == card)), int(odd.sum()))  # fmt: skip


def _largest(kind: str) -> int:
    return {"f32": 0x7F7FFFFF, "f64": 0x7FEFFFFFFFFFFFFF, "f16": 0x7BFF, "bf16": 0x7F7F}[kind]


def _error(f: Function, found: Array, exact: Array, measured: Array) -> Array:
    """In the function's measure; 0 where it is not measured."""
    apart = np.where(measured, np.abs(found - exact), 0.0)
    if f.measure == "relative":
        apart = apart / np.where(measured, np.abs(exact), 1.0)
    if f.measure == "ulp":
        exponent = np.maximum(np.frexp(np.where(measured, exact, 1.0))[1] - 1, _LEAST[f.kind]) - _FRACTION[f.kind]
        apart = apart / np.exp2(exponent.astype(np.float64))
    return np.where(np.isnan(apart), np.inf, apart)
