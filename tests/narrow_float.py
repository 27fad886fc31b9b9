"""The narrow float formats by definition: every number of a format as a double, and a double's nearest in it."""

from __future__ import annotations

import math
import struct
from bisect import bisect_left
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

from tests import exact_float as exact

exact.FORMATS["bf16"] = (8, -126, 127)
exact.FORMATS["tf32"] = (11, -126, 127)
NAN = 0x7FFF  # of f16 and bf16, as the cards write it
LARGEST = {"f16": 65504.0, "bf16": 3.3895313892515355e38, "tf32": struct.unpack("<f", struct.pack("<I", 0x7F7FE000))[0]}


@dataclass(frozen=True)
class Eight:
    """A format of 8 bits: OCP 8-bit floating point specification, 2023."""

    fraction: int
    bias: int
    finite: int  # patterns 0 .. finite - 1 are finite numbers


EIGHT = {"e4m3": Eight(3, 7, 0x7F), "e5m2": Eight(2, 15, 0x7C)}


@cache
def sizes(kind: str) -> tuple[float, ...]:
    """The non-negative finite numbers of an 8-bit format in order: the pattern is the index."""
    form = EIGHT[kind]
    found = []
    for pattern in range(form.finite):
        exponent, fraction = pattern >> form.fraction, pattern & ((1 << form.fraction) - 1)
        hidden = (1 << form.fraction) if exponent else 0
        found.append((hidden + fraction) * 2.0 ** (max(exponent, 1) - form.bias - form.fraction))
    return tuple(found)


def eight_value(pattern: int, kind: str) -> float:
    """The number of a pattern."""
    size, sign = pattern & 0x7F, -1.0 if pattern & 0x80 else 1.0
    if size < EIGHT[kind].finite:
        return sign * sizes(kind)[size]
    return sign * math.inf if kind == "e5m2" and size == 0x7C else math.nan


def eight_pattern(value: float, kind: str, relu: bool = False) -> int:
    """The nearest number's pattern, ties to the even one; what is too large becomes the largest."""
    if math.isnan(value):
        return 0x7F
    if relu and value <= 0:
        return 0
    sign = 0x80 if math.copysign(1, value) < 0 else 0
    table = sizes(kind)
    place = bisect_left(table, abs(value))
    if place == len(table):
        return sign | place - 1
    below, above = Fraction(abs(value)) - Fraction(table[max(place - 1, 0)]), Fraction(table[place]) - Fraction(abs(value))
    if place and (below < above or (below == above and place % 2)):
        place -= 1
    return sign | place


def half_value(pattern: int, kind: str) -> float:
    """The number of an f16 or bf16 pattern."""
    if kind == "bf16":
        return float(struct.unpack("<f", struct.pack("<I", (pattern & 0xFFFF) << 16))[0])
    return float(struct.unpack("<e", struct.pack("<H", pattern & 0xFFFF))[0])


def half_pattern(value: float | Fraction, kind: str, mode: str = "rn") -> int:
    """A number rounded once to f16 or bf16; an exact one may be given as a fraction."""
    if isinstance(value, Fraction):
        value = exact.rounded(value, kind, mode)
    elif math.isnan(value):
        return NAN
    elif math.isfinite(value):
        value = math.copysign(exact.rounded(Fraction(value), kind, mode), value)
    if kind == "bf16":
        return int(struct.unpack("<I", struct.pack("<f", value))[0]) >> 16
    return int(struct.unpack("<H", struct.pack("<e", value))[0])


def limited(value: float, kind: str, relu: bool = False, finite: bool = False) -> float:
    """.relu and .satfinite of a number on its way to a format."""
    if finite and abs(value) > LARGEST[kind]:
        value = math.copysign(LARGEST[kind], value)
    return 0.0 if relu and value <= 0 else value


def tf32_pattern(value: float, mode: str) -> int:
    """A float rounded to tf32, as the bits of a float; mode rn, rz or rna (ties away from zero, no NaN)."""
    if math.isnan(value):
        return 0x7FFFE000
    if math.isfinite(value) and value and mode == "rna":
        quantum = Fraction(2) ** (max(math.frexp(value)[1] - 1, -126) - 10)
        size = math.floor(abs(Fraction(value)) / quantum + Fraction(1, 2)) * quantum
        value = math.copysign(math.inf if size >= Fraction(2) ** 128 else float(size), value)
    elif math.isfinite(value):
        value = math.copysign(exact.rounded(Fraction(value), "tf32", mode), value)
    return int(struct.unpack("<I", struct.pack("<f", value))[0])
