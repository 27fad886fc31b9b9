"""A table of PTX instructions with independent models, run through the emulator in every shape a value can have.

A row names an instruction, the types of its result and operands, and a function of plain Python that says what the
PTX ISA says. All rows of a table become one PTX kernel per shape:

    varying    each lane has operands of its own
    uniform    all lanes of a warp have the same operands, which the emulator keeps as scalars
    branch     under a divergent branch: lanes that do not take it must keep what they had
    guard      the instruction itself has a guard
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from tests.emulator_kit import Ran, run

LANES = 32
BLOCKS = 8
COUNT = LANES * BLOCKS  # operand tuples of every row
SHAPES = ("varying", "uniform", "branch", "guard")
KEPT = 0x5A5A5A5A5A5A5A5A  # what a destination holds before an instruction that a lane does not run

BITS = {"pred": 1, "b8": 8, "s8": 8, "u8": 8, "b16": 16, "s16": 16, "u16": 16, "f16": 16, "b32": 32, "s32": 32, "u32": 32,
        "f32": 32, "b64": 64, "s64": 64, "u64": 64, "f64": 64}  # fmt: skip


Model = Callable[..., Any]


@dataclass(frozen=True)
class Row:
    """`text` is an opcode, or a whole instruction with {d}, {a}, {b}, {c} in it. The model takes the operands as ints
    (signed where the type is), bools or floats, and returns an int, a bool, a float or, where `d` is a float and the
    result is wanted bit by bit, `Bits`."""

    text: str
    d: str
    operands: tuple[str, ...]
    model: Model

    def instruction(self, d: str, names: Sequence[str]) -> str:
        if "{" not in self.text:
            return f"{self.text} {', '.join([d, *names])};"
        text = self.text + ("" if self.text.startswith("{") else ";")
        for letter, name in (("d", d), ("a", names[0]), ("b", names[min(1, len(names) - 1)]), ("c", names[-1])):
            text = text.replace(f"{{{letter}}}", name)
        return text


@dataclass(frozen=True)
class Bits:
    """A result given as bits."""

    value: int


def _integers(bits: int, rng: np.random.Generator) -> np.ndarray:
    """Edges, small numbers, single bits and random patterns."""
    top = 1 << (bits - 1)
    edges = [0, 1, 2, 3, 5, 7, 31, 32, 33, 63, 64, 65, 127, 128, 255, 256, top - 1, top, top + 1, 2 * top - 1, 2 * top - 2]
    small = rng.integers(0, 80, COUNT, dtype=np.uint64)
    negative = np.uint64(0) - small
    wide = rng.integers(0, 1 << 64, COUNT, dtype=np.uint64)
    sparse = wide & rng.integers(0, 1 << 64, COUNT, dtype=np.uint64) & rng.integers(0, 1 << 64, COUNT, dtype=np.uint64)
    short = wide >> rng.integers(0, 64, COUNT, dtype=np.uint64)
    edge = np.array(edges, np.uint64)[rng.integers(0, len(edges), COUNT)]
    table = np.stack([small, negative, wide, sparse, short, edge, edge, wide])
    return table[rng.integers(0, len(table), COUNT), np.arange(COUNT)] & np.uint64(2 * top - 1)


def _floats(bits: int, rng: np.random.Generator) -> np.ndarray:
    """Specials, ties, subnormals, small integers and random patterns, as bit patterns."""
    fraction, width = {16: (10, 5), 32: (23, 8), 64: (52, 11)}[bits]
    kind, word = {16: (np.float16, np.uint16), 32: (np.float32, np.uint32), 64: (np.float64, np.uint64)}[bits]
    bias = (1 << (width - 1)) - 1
    infinity = ((1 << width) - 1) << fraction
    sign = 1 << (bits - 1)
    whole = [0, 1, 1.5, 2, 2.5, 3, 0.5, 0.25, 0.75, 255.5, 256, 127.5, 128, 32767.5, 65535.5, 100, 1e4, 0.1, 1 / 3, 3.5]
    if bits > 16:
        whole += [2.0**31, 2.0**32, 2.0**31 - 128, 2.0**63, 2.0**64, 1e9, 4294967040.0, 2147483520.0, 16777216.0, 16777217.0]
    if bits == 16:
        whole = [v for v in whole if v < 65520]
    values = [int(np.array(v, kind).view(word)) for v in whole]
    values += [infinity, infinity | 1 << (fraction - 1), 1, 2, 3, (1 << fraction) - 1, 1 << fraction, infinity - 1,
               ((bias + 1) << fraction) - 1, (bias << fraction) + 1, infinity | 5]  # fmt: skip
    edge = np.array(values, np.uint64)[rng.integers(0, len(values), COUNT)]
    wild = rng.integers(0, 1 << 64, COUNT, dtype=np.uint64) & np.uint64(sign - 1)
    near = rng.normal(0, 30, COUNT).astype(kind).view(word).astype(np.uint64)
    halves = (rng.integers(-200, 200, COUNT) / 4).astype(kind).view(word).astype(np.uint64)
    table = np.stack([edge, edge, wild, near, halves])
    picked = table[rng.integers(0, len(table), COUNT), np.arange(COUNT)]
    signs = rng.integers(0, 2, COUNT, dtype=np.uint64) * np.uint64(sign)
    signed: np.ndarray = picked ^ signs
    return signed


def _bank(kind: str, position: int) -> np.ndarray:
    """The bits of operand number `position` of a type, one per tuple."""
    family = "f" if kind[0] == "f" else "i"
    rng = np.random.default_rng([position, BITS[kind], ord(family)])
    if kind == "pred":
        return rng.integers(0, 2, COUNT, dtype=np.uint64)
    values = _floats(BITS[kind], rng) if family == "f" else _integers(BITS[kind], rng)
    if position == 1:  # equal operands are an edge of their own
        values[:: 7] = _bank(kind, 0)[:: 7]
    return values


_FLOAT_FORMAT = {"f16": ("<H", "<e"), "f32": ("<I", "<f"), "f64": ("<Q", "<d")}


def decode(bits: int, kind: str) -> Any:
    """Bits of a register as the model wants them."""
    if kind == "pred":
        return bool(bits)
    if kind in _FLOAT_FORMAT:
        word, number = _FLOAT_FORMAT[kind]
        return struct.unpack(number, struct.pack(word, bits))[0]
    return bits - (1 << BITS[kind]) if kind[0] == "s" and bits >> (BITS[kind] - 1) else bits


def encode(value: Any, kind: str) -> int:
    """What a model returned, as bits of the destination."""
    if isinstance(value, Bits):
        return value.value
    if kind in _FLOAT_FORMAT:
        word, number = _FLOAT_FORMAT[kind]
        try:
            return int(struct.unpack(word, struct.pack(number, value))[0])
        except OverflowError:
            return int(struct.unpack(word, struct.pack(number, math.copysign(math.inf, value)))[0])
    return int(value) & ((1 << BITS[kind]) - 1)


CANONICAL = 0x7FFFFFFF  # what the cards' arithmetic makes of every NaN of type f32


def same_nan(got: int, want: int, kind: str) -> bool:
    """Whether both are NaNs that need not be told apart: of f32 the one that the cards compute, or the same pattern, which
    passing through Python may have made quiet; of others any."""
    both = kind[0] == "f" and math.isnan(decode(got, kind)) and math.isnan(decode(want, kind))
    return both and (kind != "f32" or got == CANONICAL or got | 1 << 22 == want | 1 << 22)


def _register(kind: str) -> str:
    """Type of the register that holds an operand."""
    return "pred" if kind == "pred" else kind if kind[0] == "f" and kind != "f16" else f"b{max(BITS[kind], 16)}"


def kernel_text(rows: Sequence[Row], shape: str, count: int = COUNT) -> str:
    """PTX of one kernel `k(const u64* operands, u64* results)` that runs every row on `count` operand tuples."""
    banks = sorted({(kind, k) for row in rows for k, kind in enumerate(row.operands)})
    names = {bank: f"%{bank[0]}_{bank[1]}" for bank in banks}
    out = [".version 9.0", ".target sm_90", ".address_size 64", ".visible .entry k(.param .u64 k_in, .param .u64 k_out)", "{"]
    out += [f".reg .{_register(kind)} {names[kind, k]};" for kind, k in banks]
    out += [f".reg .{_register(row.d)} %d{n};" for n, row in enumerate(rows)]
    out += [".reg .pred %skip;", ".reg .b32 %i, %t, %z;", ".reg .b64 %in, %out, %off, %w;"]
    out += ["ld.param.u64 %in, [k_in];", "ld.param.u64 %out, [k_out];", "mov.u32 %i, %ctaid.x;", "mov.u32 %t, %tid.x;"]
    if shape != "uniform":
        out += [f"mad.lo.s32 %i, %i, {LANES}, %t;"]
    out += ["mul.wide.u32 %off, %i, 8;", "add.s64 %in, %in, %off;", "add.s64 %out, %out, %off;"]
    for n, (kind, k) in enumerate(banks):
        out += [f"ld.global.u64 %w, [%in+{8 * count * n}];", _narrow(names[kind, k], kind)]
    out += [f"{_keep(f'%d{n}', row.d)}" for n, row in enumerate(rows)] if shape in ("branch", "guard") else []
    out += ["and.b32 %t, %t, 5;", "setp.eq.s32 %skip, %t, 1;"] if shape in ("branch", "guard") else []
    out += ["@%skip bra DONE;"] if shape == "branch" else []
    for n, row in enumerate(rows):
        text = row.instruction(f"%d{n}", [names[kind, k] for k, kind in enumerate(row.operands)])
        out += [f".loc 1 {n + 1} 0", ("@!%skip " if shape == "guard" else "") + text]
    out += ["DONE:"]
    for n, row in enumerate(rows):
        out += [*_widen(f"%d{n}", row.d), f"st.global.u64 [%out+{8 * count * n}], %w;"]
    return "\n".join([*out, "ret;", "}"])


def _narrow(name: str, kind: str) -> str:
    if kind == "pred":
        return f"setp.ne.s64 {name}, %w, 0;"
    if kind == "f32":
        return "cvt.u32.u64 %z, %w; mov.b32 " + name + ", %z;"
    if kind == "f64":
        return f"mov.b64 {name}, %w;"
    return f"cvt.u{max(BITS[kind], 16)}.u64 {name}, %w;" if BITS[kind] < 64 else f"mov.b64 {name}, %w;"


def _keep(name: str, kind: str) -> str:
    if kind == "pred":
        return f"setp.ne.s32 {name}, 0, 1;"
    register = _register(kind)
    return f"mov.b64 %w, {KEPT}; " + _narrow(name, kind) if register != "b64" else f"mov.b64 {name}, {KEPT};"


def _widen(name: str, kind: str) -> list[str]:
    if kind == "pred":
        return [f"selp.u64 %w, 1, 0, {name};"]
    if kind == "f32":
        return [f"mov.b32 %z, {name};", "cvt.u64.u32 %w, %z;"]
    if BITS[kind] == 64:
        return [f"mov.b64 %w, {name};"]
    return [f"cvt.u64.u{max(BITS[kind], 16)} %w, {name};"]


def results(rows: Sequence[Row], shape: str) -> tuple[np.ndarray, Ran]:
    """(rows, COUNT) bits of every row's result."""
    banks = sorted({(kind, k) for row in rows for k, kind in enumerate(row.operands)})
    operands = np.stack([_bank(kind, k) for kind, k in banks])
    out = np.zeros((len(rows), COUNT), np.uint64)
    ran = run(kernel_text(rows, shape), [operands, out], grid=COUNT if shape == "uniform" else BLOCKS, block=LANES)
    return ran.arrays[1], ran


def cells(tables: dict[str, list[Row]]) -> list[tuple[str, str]]:
    """Every (table, shape) that has rows. A guard belongs to one instruction: rows of several have none."""
    return [(t, s) for t in tables for s in SHAPES if s != "guard" or any(row.text[0] != "{" for row in tables[t])]


def check(rows: Sequence[Row], shape: str, request: pytest.FixtureRequest) -> None:
    """Run the rows and compare with their models, bit by bit, but for NaNs (`same_nan`). Two shapes go through LLVM's
    optimiser and two, in less time, around it."""
    if shape in ("branch", "guard"):
        request.getfixturevalue("quick_compiler")
    if shape == "guard":
        rows = [row for row in rows if row.text[0] != "{"]
    found, ran = results(rows, shape)
    assert ran.findings == []
    wrong = []
    for n, row in enumerate(rows):
        mask = (1 << BITS[_register(row.d)]) - 1
        banks = [_bank(kind, k) for k, kind in enumerate(row.operands)]
        for i in range(COUNT):
            values = [decode(int(bank[i]), kind) for bank, kind in zip(banks, row.operands, strict=True)]
            want, got = encode(row.model(*values), row.d), int(found[n, i])
            if shape in ("branch", "guard") and i % LANES & 5 == 1:
                want = 1 if row.d == "pred" else KEPT
            got, want = got & mask, want & mask
            if got != want and not same_nan(got, want, row.d):
                wrong.append(f"{row.text} {values} = {decode(want, row.d)!r} ({want:#x}), not {decode(got, row.d)!r} ({got:#x})")
                break
    assert not wrong, "\n".join(wrong)
