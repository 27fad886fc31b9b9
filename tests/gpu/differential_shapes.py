"""The dense mma instructions that the probe knows: shapes, types, and which lane holds which element.

All layouts follow one rule (PTX ISA, "Matrix Fragments for mma"): with e elements in a 32-bit register, lane = 4 g + t
holds in register r of A the row g + 8 (r & 1) and the columns t e + 4 e (r >> 1) .. + e, in register r of B the rows
t e + 4 e r .. + e of column g, and in C and D two neighbouring columns of the rows g and g + 8.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tests.random_ptx.types import FORMATS

ROWS, COLUMNS, LANES = 16, 8, 32
BITS = {"f16": 16, "bf16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8}
FORMATS.setdefault("tf32", (8, 10))


@dataclass(frozen=True)
class Shape:
    """m16n8k`k` of A's type `a`, B's type `b`, accumulator and result `c` (f32, f16 or s32)."""

    k: int
    a: str
    b: str
    c: str

    @property
    def opcode(self) -> str:
        return f"mma.sync.aligned.m16n8k{self.k}.row.col.{self.c}.{self.a}.{self.b}.{self.c}"

    @property
    def each(self) -> int:
        """Elements in a register of A or B."""
        return 32 // BITS[self.a]

    @property
    def counts(self) -> tuple[int, int, int]:
        """Registers of a lane: A, B, C."""
        b = self.k // (4 * self.each)
        return 2 * b, b, 2 if self.c == "f16" else 4


SHAPES = [
    *(Shape(k, "f16", "f16", c) for k in (8, 16) for c in ("f32", "f16")),
    *(Shape(k, "bf16", "bf16", "f32") for k in (8, 16)),
    *(Shape(k, "tf32", "tf32", "f32") for k in (4, 8)),
    *(Shape(32, a, b, "f32") for a, b in (("e4m3", "e4m3"), ("e5m2", "e5m2"), ("e4m3", "e5m2"))),
    *(Shape(k, "e4m3", "e4m3", "f32") for k in (16,)),
    *(Shape(k, "e4m3", "e4m3", "f16") for k in (16, 32)),
    *(Shape(k, a, b, "s32") for k in (16, 32) for a, b in (("s8", "s8"), ("u8", "u8"), ("s8", "u8"))),
]


def fragments(shape: Shape, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Registers (tiles, registers, lanes) of bit patterns A (tiles, 16, k), B (tiles, k, 8), C (tiles, 16, 8)."""
    na, nb, _ = shape.counts
    g, t, e = np.arange(LANES) // 4, np.arange(LANES) % 4, shape.each
    regs_a = [_packed(shape, [a[:, g + 8 * (r & 1), t * e + 4 * e * (r >> 1) + j] for j in range(e)]) for r in range(na)]
    regs_b = [_packed(shape, [b[:, t * e + 4 * e * r + j, g] for j in range(e)]) for r in range(nb)]
    if shape.c == "f16":
        regs_c = [c[:, g + 8 * r, 2 * t] | c[:, g + 8 * r, 2 * t + 1] << np.uint32(16) for r in range(2)]
    else:
        regs_c = [c[:, g + 8 * (r >> 1), 2 * t + (r & 1)] for r in range(4)]
    return tuple(np.ascontiguousarray(np.stack(regs, 1).astype(np.uint32)) for regs in (regs_a, regs_b, regs_c))  # type: ignore[return-value]


def _packed(shape: Shape, elements: list[np.ndarray]) -> np.ndarray:
    word = np.zeros(elements[0].shape, np.uint32)
    for j, element in enumerate(elements):
        word |= element.astype(np.uint32) << np.uint32(j * BITS[shape.a])
    return word


def result(shape: Shape, d: np.ndarray) -> np.ndarray:
    """Bit patterns D (tiles, 16, 8) of its registers (tiles, registers, lanes)."""
    out = np.zeros((len(d), ROWS, COLUMNS), np.uint32)
    g, t = np.arange(LANES) // 4, np.arange(LANES) % 4
    for r in range(shape.counts[2]):
        if shape.c == "f16":
            out[:, g + 8 * r, 2 * t], out[:, g + 8 * r, 2 * t + 1] = d[:, r] & np.uint32(0xFFFF), d[:, r] >> np.uint32(16)
        else:
            out[:, g + 8 * (r >> 1), 2 * t + (r & 1)] = d[:, r]
    return out


def kernel_text(shape: Shape) -> str:
    """PTX of k(A, B, C, D), a warp a tile; registers as in `fragments`."""
    na, nb, nc = shape.counts
    names = {"a": na, "b": nb, "c": nc, "d": nc}
    kind = "f32" if shape.c == "f32" else "b32"
    lines = [".version 9.0", ".target sm_90", ".address_size 64",
             ".visible .entry k(.param .u64 p_a, .param .u64 p_b, .param .u64 p_c, .param .u64 p_d) {",
             f".reg .b32 %a<{na}>, %b<{nb}>, %i, %t, %j; .reg .{kind} %c<{nc}>, %d<{nc}>; .reg .b64 %p, %o;",
             "mov.u32 %i, %ctaid.x; mov.u32 %t, %tid.x;"]  # fmt: skip
    groups = {n: ", ".join(f"%{n}{r}" for r in range(count)) for n, count in names.items()}
    place = "ld.param.u64 %p, [p_{n}]; mad.lo.u32 %j, %i, {size}, %t; mul.wide.u32 %o, %j, 4; add.s64 %p, %p, %o;"
    for n in "abc":
        lines.append(place.format(n=n, size=32 * names[n]))
        lines += [f"ld.global.{kind if n == 'c' else 'b32'} %{n}{r}, [%p+{128 * r}];" for r in range(names[n])]
    lines.append(f"{shape.opcode} {{{groups['d']}}}, {{{groups['a']}}}, {{{groups['b']}}}, {{{groups['c']}}};")
    lines.append(place.format(n="d", size=32 * nc))
    lines += [f"st.global.{kind} [%p+{128 * r}], %d{r};" for r in range(nc)]
    return "\n".join([*lines, "ret;", "}"])


def encode(value: np.ndarray | float, kind: str) -> np.ndarray:
    """Bit patterns of numbers that the format has."""
    v = np.asarray(value, np.float64)
    if kind in ("s8", "u8"):
        return (v.astype(np.int64) & 0xFF).astype(np.uint32)
    if kind == "s32":
        return (v.astype(np.int64) & 0xFFFFFFFF).astype(np.uint32)
    if kind == "f16":
        return v.astype(np.float16).view(np.uint16).astype(np.uint32)
    if kind in ("f32", "tf32", "bf16"):
        return v.astype(np.float32).view(np.uint32) >> np.uint32(16 if kind == "bf16" else 0)
    table = _eight_bits(kind)
    order = np.argsort(table)
    found = order[np.clip(np.searchsorted(table[order], v), 0, len(order) - 1)]
    return np.where(v == 0, 0, found).astype(np.uint32)


def decode(bits: np.ndarray, kind: str) -> np.ndarray:
    """Bit patterns as float64."""
    b = np.asarray(bits, np.uint32)
    if kind == "s8":
        return b.astype(np.uint8).view(np.int8).astype(np.float64)
    if kind == "u8":
        return b.astype(np.float64)
    if kind == "s32":
        return b.view(np.int32).astype(np.float64)
    if kind == "f16":
        return b.astype(np.uint16).view(np.float16).astype(np.float64)
    if kind in ("f32", "tf32", "bf16"):
        return (b << np.uint32(16 if kind == "bf16" else 0)).astype(np.uint32).view(np.float32).astype(np.float64)
    exponent_bits = 4 if kind == "e4m3" else 5
    fraction = 7 - exponent_bits
    bias = (1 << exponent_bits - 1) - 1
    e, f = (b >> np.uint32(fraction)) & np.uint32((1 << exponent_bits) - 1), b & np.uint32((1 << fraction) - 1)
    size = np.where(e > 0, 1 + f / (1 << fraction), f / (1 << fraction)) * np.exp2(np.maximum(e.astype(np.float64), 1) - bias)
    value: np.ndarray = np.where(b & np.uint32(128), -size, size)
    return value


def _eight_bits(kind: str) -> np.ndarray:
    """Values of all patterns of an 8-bit format; those of NaN and infinity as NaN, which sort last."""
    values = decode(np.arange(256, dtype=np.uint32), kind)
    odd = [0x7F, 0xFF] if kind == "e4m3" else [*range(0x7C, 0x80), *range(0xFC, 0x100)]
    values[odd] = np.nan
    values[0x80] = np.nan  # -0 is never wanted
    return values
