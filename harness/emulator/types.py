"""Types of values: PTX register types in LLVM, immediates in LLVM's spelling, lane constants."""

from __future__ import annotations

import struct
from typing import Protocol

from harness.emulator import layout as L

LL_TYPES = {"pred": "i1", "b8": "i8", "u8": "i8", "s8": "i8", "b16": "i16", "u16": "i16", "s16": "i16", "f16": "i16",
            "bf16": "i16", "b32": "i32", "u32": "i32", "s32": "i32", "f32": "float", "f16x2": "i32", "bf16x2": "i32",
            "b64": "i64", "u64": "i64", "s64": "i64", "f64": "double", "b128": "i128"}  # fmt: skip
BITS = {"i1": 1, "i8": 8, "i16": 16, "half": 16, "i32": 32, "float": 32, "i64": 64, "double": 64, "i128": 128}
IOTA = "<" + ", ".join(f"i32 {n}" for n in range(L.LANES)) + ">"

LANE_MASKS = {
    name: "<" + ", ".join(f"i32 {formula(n)}" for n in range(L.LANES)) + ">"
    for name, formula in {
        "eq": lambda n: 1 << n,
        "lt": lambda n: (1 << n) - 1,
        "le": lambda n: (2 << n) - 1,
        "gt": lambda n: 0xFFFFFFFF ^ ((2 << n) - 1),
        "ge": lambda n: 0xFFFFFFFF ^ ((1 << n) - 1),
    }.items()
}


class Writer(Protocol):
    """What writes arithmetic in one width: scalars, or vectors of a value a lane. The Emitter of a function is one, and
    so is the code of a helper that works lane by lane (irtext.Scalar)."""

    vec: bool

    def let(self, text: str) -> str:
        """Name a result."""

    def T(self, kind: str) -> str:
        """The type of a value of LLVM's scalar type `kind`."""

    def constant(self, value: int | float | str, kind: str) -> str:
        """An integer, or a float given by value."""

    def call(self, name: str, kind: str, *args: str) -> str:
        """Call an intrinsic whose operands and result have one type."""

    def declare(self, text: str) -> None:
        """A declaration that the module needs once."""


def float_text(value: float) -> str:
    """LLVM spells any float as the hexadecimal bits of the double of the same value."""
    return f"0x{struct.unpack('>Q', struct.pack('>d', value))[0]:016X}"


def immediate_text(value: int, bits: int, kind: str) -> str:
    if kind == "i1":
        return "true" if value else "false"
    if kind.startswith("i"):
        return str(value)
    if kind == "float":
        number = value if bits == 32 else struct.unpack(">I", struct.pack(">f", _as_float(value, bits)))[0]
        return _float_bits_text(number)
    return f"0x{value:016X}" if bits == 64 else float_text(_as_float(value, bits))


def _as_float(value: int, bits: int) -> float:
    if bits == 64:
        return float(struct.unpack(">d", value.to_bytes(8, "big"))[0])
    if bits == 32:
        return float(struct.unpack(">f", value.to_bytes(4, "big"))[0])
    return float(value)


def _float_bits_text(bits: int) -> str:
    """The double whose rounding to float has exactly these bits (NaN payloads included)."""
    exponent, fraction = bits >> 23 & 255, bits & 0x7FFFFF
    if exponent == 255:
        return f"0x{(bits >> 31 << 63) | (0x7FF << 52) | fraction << 29:016X}"
    return float_text(_as_float(bits, 32))
