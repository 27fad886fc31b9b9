"""Kernels of one matrix instruction, in PTX, and what NumPy needs to model them: formats and layouts.

The layouts here are the formulas of the PTX ISA 9.0, "Matrix fragments for mma.*", written down as they stand there.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.emulator_kit import Ran, run
from tests.gpu import differential_mma_model as model
from tests.gpu.differential_shapes import Shape

LANES = 32
REGISTER = {"f32": "f32", "f64": "f64"}  # PTX type of a register of a fragment; .b32 for all other kinds
PER_REGISTER = {"f16": 2, "bf16": 2, "e4m3": 4, "e5m2": 4, "s8": 4, "u8": 4}
Formula = Callable[[int, int], tuple[int, int]]


# -- formats


def e4m3(bits: np.ndarray) -> np.ndarray:
    """Values of the fp8 format with 4 bits of exponent: OCP 8-bit floating point specification."""
    sign, exponent, fraction = bits >> 7, (bits >> 3 & 15).astype(int), (bits & 7).astype(float)
    value = np.where(exponent == 0, fraction / 8 * 2.0**-6, (1 + fraction / 8) * 2.0 ** (exponent - 7.0))
    return np.where(bits & 127 == 127, np.nan, np.where(sign == 1, -value, value))


def e5m2(bits: np.ndarray) -> np.ndarray:
    sign, exponent, fraction = bits >> 7, (bits >> 2 & 31).astype(int), (bits & 3).astype(float)
    value = np.where(exponent == 0, fraction / 4 * 2.0**-14, (1 + fraction / 4) * 2.0 ** (exponent - 15.0))
    value = np.where(exponent == 31, np.where(fraction == 0, np.inf, np.nan), value)
    return np.where(sign == 1, -value, value)


DECODE: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "f16": lambda bits: bits.astype(np.uint16).view(np.float16).astype(float),
    "bf16": lambda bits: (bits.astype(np.uint32) << 16).view(np.float32).astype(float),
    "tf32": lambda bits: (bits.astype(np.uint32) & 0xFFFFE000).view(np.float32).astype(float),
    "f32": lambda bits: bits.astype(np.uint32).view(np.float32).astype(float),
    "f64": lambda bits: bits.astype(np.uint64).view(float),
    "e4m3": e4m3,
    "e5m2": e5m2,
    "s8": lambda bits: bits.astype(np.uint8).view(np.int8).astype(float),
    "u8": lambda bits: bits.astype(float),
    "s32": lambda bits: bits.astype(np.uint32).view(np.int32).astype(float),
}


def random_bits(kind: str, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Normal numbers of moderate size, some zeros, some subnormals; for integers and fp8 every finite pattern."""
    if kind in ("s8", "u8", "s32", "e4m3", "e5m2"):
        bits = rng.integers(0, 256 if kind != "s32" else 1 << 32, shape, dtype=np.uint64)
        return np.where(np.isfinite(DECODE[kind](bits)), bits, 1).astype(np.uint64)
    values = rng.standard_normal(shape) * rng.choice([0, 1, 1, 1, 4], shape)
    word = {"f64": np.float64, "f16": np.float16}.get(kind, np.float32)
    bits = values.astype(word).view(f"u{np.dtype(word).itemsize}").astype(np.uint64)
    if kind == "f16":
        bits = np.where(rng.random(shape) < 0.05, rng.integers(0, 1 << 10, shape, dtype=np.uint64), bits)
    shifted: np.ndarray = bits >> np.uint64(16 if kind == "bf16" else 0)
    return shifted


def on_h200(kinds: tuple[str, ...], a: np.ndarray, b: np.ndarray, c: np.ndarray, parts: int = 1) -> np.ndarray:
    """A B + C (m, n) as an H200's tensor cores give it, of values of the kinds of A, B, C and D. `parts`: machine
    instructions that share k among them."""
    sums = "f32" if "f32" in kinds[2:] else "f16"
    rows, columns, found = np.repeat(a, b.shape[1], 0), np.tile(b.T, (len(a), 1)), c.reshape(-1)
    for part in np.split(np.arange(a.shape[1]), parts):
        found = model.h200(Shape(len(part), kinds[0], kinds[1], sums), rows[:, part], columns[:, part], found)
    return model.rounded(found, kinds[3], "rn").reshape(c.shape)


def without_tensor_cores(kinds: tuple[str, ...], a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """The same for m8n8k4 with halves, on sm_90 a function of ordinary instructions: A (m, 4) and B (4, n)."""
    terms = [np.multiply.outer(a[:, k], b[k]) for k in range(4)]
    if kinds[3] == "f16":
        found = _add(_add(c, _add(terms[0], terms[1])), _add(terms[2], terms[3]))
        return model.rounded(found, "f16", "rn")
    return _add(c, _add(_add(_add(terms[0], terms[1]), terms[2]), terms[3]))


def _add(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """A float's sum. Products of halves are exact in it, and the sum of one and a float is in double precision, nearly."""
    total: np.ndarray = (x + y).astype(np.float32).astype(float)
    return total


def allowed(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """How far a double may be from the exact A B + C."""
    k = a.shape[1]
    bound: np.ndarray = k * 2.0**-53 * (np.abs(c) + np.abs(a) @ np.abs(b)) * (1 + k * 2.0**-53)
    return bound


# -- layouts


def isa_layout(shape: str, matrix: str, kind: str, major: str = "row") -> tuple[int, Formula]:
    """(elements a lane, formula (lane, i) -> (row, column)) of one matrix of an mma."""
    if shape == "m8n8k4" and kind in ("f16", "f32"):
        return _m8n8k4(matrix, kind, major)

    def group(lane: int) -> int:
        return lane >> 2

    def in_group(lane: int) -> int:
        return lane % 4

    def upper(condition: bool) -> int:
        return 0 if condition else 8

    if matrix in "cd":
        count = 2 if shape.startswith("m8") else 4
        return count, lambda lane, i: (group(lane) + upper(i < 2), in_group(lane) * 2 + (i & 1))
    k = int(shape.partition("k")[2])
    table: dict[tuple[str, int, str], tuple[int, Formula]] = {
        ("8 bits", 16, "a"): (8, lambda t, i: (group(t) + upper(i < 4), in_group(t) * 4 + (i & 3))),
        ("8 bits", 16, "b"): (4, lambda t, i: (in_group(t) * 4 + i, group(t))),
        ("8 bits", 32, "a"): (16, lambda t, i: (group(t) + upper(i < 4 or 8 <= i < 12), in_group(t) * 4 + (i & 3) + (16 if i >= 8 else 0))),
        ("8 bits", 32, "b"): (8, lambda t, i: (in_group(t) * 4 + (i & 3) + (16 if i >= 4 else 0), group(t))),
        ("16 bits", 8, "a"): (4, lambda t, i: (group(t) + upper(i < 2), in_group(t) * 2 + (i & 1))),
        ("16 bits", 8, "b"): (2, lambda t, i: (in_group(t) * 2 + i, group(t))),
        ("16 bits", 16, "a"): (8, lambda t, i: (group(t) + upper(i < 2 or 4 <= i < 6), in_group(t) * 2 + (i & 1) + (8 if i >= 4 else 0))),
        ("16 bits", 16, "b"): (4, lambda t, i: (in_group(t) * 2 + (i & 1) + (8 if i >= 2 else 0), group(t))),
        ("words", 4, "a"): (2, lambda t, i: (group(t) + upper(i == 0), in_group(t))),
        ("words", 4, "b"): (1, lambda t, i: (in_group(t), group(t))),
        ("words", 8, "a"): (4, lambda t, i: (group(t) + upper(i in (0, 2)), in_group(t) + (4 if i >= 2 else 0))),
        ("words", 8, "b"): (2, lambda t, i: (in_group(t) + (4 if i == 1 else 0), group(t))),
        ("words", 16, "a"): (8, lambda t, i: (group(t) + upper(i % 2 == 0), (i * 2 if i % 2 == 0 else i * 2 - 2) + in_group(t))),
        ("words", 16, "b"): (4, lambda t, i: (in_group(t) + i * 4, group(t))),
    }
    if shape == "m8n8k16":
        return 4, {"a": lambda t, i: (group(t), in_group(t) * 4 + i), "b": lambda t, i: (in_group(t) * 4 + i, group(t))}[matrix]
    if shape == "m8n8k4":
        return 1, {"a": lambda t, i: (group(t), in_group(t)), "b": lambda t, i: (in_group(t), group(t))}[matrix]
    width = {1: "words", 2: "16 bits", 4: "8 bits"}[PER_REGISTER.get(kind, 1)]
    return table[width, k, matrix]


def _m8n8k4(matrix: str, kind: str, major: str) -> tuple[int, Formula]:
    """Four products at once: that of lanes 4 q.. and 16 + 4 q.. has rows and columns 8 q to 8 q + 7 here."""

    def high(lane: int) -> int:
        return 0 if lane < 16 else 4

    def x(lane: int, i: int) -> int:
        return (lane & 0b1) + (i & 0b10)

    count, plain = {
        ("a", "row"): (4, lambda t, i: (t % 4 + high(t), i)),
        ("a", "col"): (4, lambda t, i: (i % 4 + high(t), t % 4)),
        ("b", "row"): (4, lambda t, i: (t % 4, i + high(t))),
        ("b", "col"): (4, lambda t, i: (i, t % 4 + high(t))),
        ("f16", ""): (8, lambda t, i: (t % 4 + high(t), i)),
        ("f32", ""): (8, lambda t, i: (x(t, i) + high(t), (i & 0b100) + (t & 0b10) + (i & 0b1))),
    }[(matrix, major) if matrix in "ab" else (kind, "")]

    def place(lane: int, i: int) -> tuple[int, int]:
        row, column = plain(lane, i)
        q = lane % 16 // 4
        return row + 8 * q * (matrix != "b"), column + 8 * q * (matrix != "a")

    return count, place


# -- registers


def to_registers(bits: np.ndarray, kind: str, count: int, place: Formula) -> np.ndarray:
    """A matrix of bit patterns -> (registers, 32) words."""
    per = PER_REGISTER.get(kind, 1)
    word = np.uint64 if kind == "f64" else np.uint32
    out = np.zeros((count // per, LANES), word)
    for e in range(count):
        for lane in range(LANES):
            out[e // per, lane] |= word(int(bits[place(lane, e)]) << (32 // per * (e % per)))
    return out


def from_registers(words: np.ndarray, kind: str, size: tuple[int, int], place: Formula) -> np.ndarray:
    """(registers, 32) words -> a matrix of bit patterns."""
    per = PER_REGISTER.get(kind, 1)
    out = np.zeros(size, np.uint64)
    for e in range(len(words) * per):
        for lane in range(LANES):
            out[place(lane, e)] = int(words[e // per, lane]) >> (32 // per * (e % per)) & ((1 << (64 if kind == "f64" else 32 // per)) - 1)
    return out


def instruction_kernel(op: str, result: tuple[str, int], operands: list[tuple[str, int]]) -> str:
    """PTX of `k(results, operands...)`: one instruction on registers of each lane. Fragments are (kind, registers)."""
    fragments = {"d": result} | {chr(ord("a") + n): o for n, o in enumerate(operands) if n < 3}
    params = ", ".join(f".param .u64 p{x}" for x in fragments)
    out = [".version 9.0", ".target sm_90a", ".address_size 64", f".visible .entry k({params})", "{"]
    out += [".reg .b32 %t;", ".reg .b64 %p, %o;", "mov.u32 %t, %tid.x;"]
    for x, (kind, count) in fragments.items():
        out.append(f".reg .{REGISTER.get(kind, 'b32')} %{x}<{count}>;")
    for x, (kind, count) in fragments.items():
        if x != "d":
            out += _moves(x, kind, count, load=True)
    groups = ["{" + ", ".join(f"%{x}{n}" for n in range(count)) + "}" for x, (_, count) in fragments.items()]
    out += [".loc 1 1 0", f"{op} {', '.join(groups)};"]
    out += _moves("d", *result, load=False)
    return "\n".join([*out, "ret;", "}"])


def _moves(x: str, kind: str, count: int, load: bool) -> list[str]:
    size = 8 if kind == "f64" else 4
    out = [f"ld.param.u64 %p, [p{x}];", f"mul.wide.u32 %o, %t, {size};", "add.s64 %p, %p, %o;"]
    for n in range(count):
        place, register = f"[%p+{LANES * size * n}]", f"%{x}{n}"
        t = REGISTER.get(kind, "b32")
        out.append(f"ld.global.{t} {register}, {place};" if load else f"st.global.{t} {place}, {register};")
    return out


def run_instruction(op: str, result: tuple[str, int], operands: list[tuple[str, np.ndarray]]) -> tuple[np.ndarray, Ran]:
    """(registers, 32) words of the result. Operands are (kind, (registers, 32) words)."""
    text = instruction_kernel(op, result, [(kind, len(words)) for kind, words in operands])
    out = np.zeros((result[1], LANES), np.uint64 if result[0] == "f64" else np.uint32)
    ran = run(text, [out, *(words for _, words in operands)])
    return ran.arrays[0], ran
