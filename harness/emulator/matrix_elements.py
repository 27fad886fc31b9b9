"""Elements of matrices in registers, as IR: unpacked into one <32 x float> (or double) an element, and packed again.

Multiplicands of every kind but f64 are exact as floats: halves, bfloat16, both fp8 formats and 8-bit integers. Of a
tf32 register the low 13 bits do not take part (PTX ISA, "Alternate floating-point data formats").
"""

from __future__ import annotations

from collections.abc import Callable

from harness.emulator.irtext import Fn
from harness.emulator.matrix_layouts import PER_REGISTER

I32, I16, FLOAT, HALF = "<32 x i32>", "<32 x i16>", "<32 x float>", "<32 x half>"
CANONICAL_NAN = {"f32": 0x7FFFFFFF, "f16": 0x7FFF}  # what the cards write for any NaN


def register_type(kind: str) -> str:
    """LLVM type of one lane's register of a fragment."""
    return "i64" if kind == "f64" else "i32"


def value_type(kind: str) -> str:
    """LLVM type in which products with this accumulator are summed."""
    return "double" if kind == "f64" else "float"


def _shifted(f: Fn, word: str, op: str, amount: int) -> str:
    return f.let(f"{op} {I32} {word}, splat (i32 {amount})") if amount else word


def _half_float(f: Fn, word: str) -> str:
    """The low 16 bits of each word, a half, as a float."""
    short = f.let(f"trunc {I32} {word} to {I16}")
    return f.let(f"fpext {HALF} {f.let(f'bitcast {I16} {short} to {HALF}')} to {FLOAT}")


def _f16(f: Fn, word: str, e: int) -> str:
    return _half_float(f, _shifted(f, word, "lshr", 16 * e))


def _bf16(f: Fn, word: str, e: int) -> str:
    bits = _shifted(f, word, "shl", 16) if e == 0 else f.let(f"and {I32} {word}, splat (i32 {-1 << 16})")
    return f.let(f"bitcast {I32} {bits} to {FLOAT}")


def _tf32(f: Fn, word: str, e: int) -> str:
    return f.let(f"bitcast {I32} {f.let(f'and {I32} {word}, splat (i32 {-1 << 13})')} to {FLOAT}")


def _byte_high(f: Fn, word: str, e: int) -> str:
    """Byte e of each word in bits 8 to 15, the bits around it zero."""
    moved = _shifted(f, word, "shl", 8) if e == 0 else _shifted(f, word, "lshr", 8 * (e - 1))
    return f.let(f"and {I32} {moved}, splat (i32 65280)")


def _e5m2(f: Fn, word: str, e: int) -> str:
    """The format is the upper byte of a half."""
    return _half_float(f, _byte_high(f, word, e))


def _e4m3(f: Fn, word: str, e: int) -> str:
    """Exponent and fraction one place lower are a half's with a bias 8 too small. All ones is NaN, nothing infinite."""
    high = _byte_high(f, word, e)
    sign = f.let(f"and {I32} {high}, splat (i32 32768)")
    rest = f.let(f"and {I32} {high}, splat (i32 32512)")
    half = f.let(f"or {I32} {sign}, {_shifted(f, rest, 'lshr', 1)}")
    value = f.let(f"fmul {FLOAT} {_half_float(f, half)}, splat (float 256.0)")
    nan = f.let(f"icmp eq {I32} {rest}, splat (i32 32512)")
    return f.let(f"select <32 x i1> {nan}, {FLOAT} splat (float 0x7FF8000000000000), {FLOAT} {value}")


def _s8(f: Fn, word: str, e: int) -> str:
    top = _shifted(f, word, "shl", 24 - 8 * e)
    return f.let(f"sitofp {I32} {_shifted(f, top, 'ashr', 24)} to {FLOAT}")


def _u8(f: Fn, word: str, e: int) -> str:
    byte = f.let(f"and {I32} {_shifted(f, word, 'lshr', 8 * e)}, splat (i32 255)")
    return f.let(f"sitofp {I32} {byte} to {FLOAT}")


def _f32(f: Fn, word: str, e: int) -> str:
    return f.let(f"bitcast {I32} {word} to {FLOAT}")


def _f64(f: Fn, word: str, e: int) -> str:
    return f.let(f"bitcast <32 x i64> {word} to <32 x double>")


_UNPACK: dict[str, Callable[[Fn, str, int], str]] = {
    "f16": _f16, "bf16": _bf16, "tf32": _tf32, "e4m3": _e4m3, "e5m2": _e5m2, "s8": _s8, "u8": _u8,
    "f32": _f32, "f64": _f64,
}  # fmt: skip


def unpack(f: Fn, kind: str, registers: list[str]) -> list[str]:
    """Every element of a fragment, a vector over the lanes each. Integer accumulators stay as they are."""
    if kind == "s32":
        return registers
    return [_UNPACK[kind](f, word, e) for word in registers for e in range(PER_REGISTER[kind])]


def pack(f: Fn, kind: str, values: list[str]) -> list[str]:
    """Registers of a result; f16 is rounded here, once, to nearest."""
    if kind == "f16":
        halves = [_half_bits(f, v) for v in values]
        return [
            f.let(f"or {I32} {low}, {_shifted(f, high, 'shl', 16)}")
            for low, high in zip(halves[::2], halves[1::2], strict=True)
        ]
    if kind == "f32":
        return [_canonical(f, v, f.let(f"bitcast {FLOAT} {v} to {I32}"), kind) for v in values]
    if kind == "f64":
        return [f.let(f"bitcast <32 x double> {v} to <32 x i64>") for v in values]
    return values


def _half_bits(f: Fn, value: str) -> str:
    half = f.let(f"fptrunc {FLOAT} {value} to {HALF}")
    bits = f.let(f"bitcast {HALF} {half} to {I16}")
    return _canonical(f, value, f.let(f"zext {I16} {bits} to {I32}"), "f16")


def _canonical(f: Fn, value: str, bits: str, kind: str) -> str:
    nan = f.let(f"fcmp uno {FLOAT} {value}, {value}")
    return f.let(f"select <32 x i1> {nan}, {I32} splat (i32 {CANONICAL_NAN[kind]}), {I32} {bits}")
