"""The types of a random kernel: their C names, literals with many edges, and how values go to memory as bits."""

from __future__ import annotations

import random

C = {
    "u8": "unsigned char", "s8": "signed char", "u16": "unsigned short", "s16": "short", "u32": "unsigned", "s32": "int",
    "u64": "unsigned long long", "s64": "long long", "f32": "float", "f64": "double", "f16": "__half",
    "bf16": "__nv_bfloat16", "f16x2": "__half2", "bf16x2": "__nv_bfloat162", "p": "bool",
}  # fmt: skip
BITS = {"u8": 8, "s8": 8, "u16": 16, "s16": 16, "u32": 32, "s32": 32, "u64": 64, "s64": 64, "f32": 32, "f64": 64, "f16": 16,
        "bf16": 16, "f16x2": 32, "bf16x2": 32}  # fmt: skip
FLOATS = ("f32", "f64", "f16", "bf16", "f16x2", "bf16x2")
WORD = {8: "u8", 16: "u16", 32: "u32", 64: "u64"}
FORMATS = {"f32": (8, 23), "f64": (11, 52), "f16": (5, 10), "bf16": (8, 7)}  # bits of exponent and of fraction
_CONSTRAINT = {"f32": "f", "f64": "d"}


def constraint(kind: str) -> str:
    """The letter that inline assembly has for a type."""
    return _CONSTRAINT.get(kind) or {8: "h", 16: "h", 32: "r", 64: "l"}[BITS[kind]]


def integer_bits(bits: int, rng: random.Random) -> int:
    """Edges, small numbers, their complements, random patterns."""
    top = 1 << bits - 1
    edge = [0, 1, 2, 3, 5, 7, bits - 1, bits, bits + 1, top - 1, top, top + 1, 2 * top - 1, 2 * top - 2, 255 & 2 * top - 1]
    pick = rng.random()
    if pick < 0.5:
        return rng.choice(edge)
    return rng.getrandbits(bits) if pick < 0.8 else -rng.randrange(100) % (2 * top)


def float_bits(kind: str, rng: random.Random) -> int:
    """Specials, subnormals, ties, ordinary numbers."""
    width, fraction = FORMATS[kind]
    bias, top = (1 << width - 1) - 1, (1 << width) - 1
    sign = rng.getrandbits(1) << width + fraction
    one = bias << fraction
    special = [0, 1, (1 << fraction) - 1, 1 << fraction, top << fraction, (top << fraction) - 1, top << fraction | 1 << fraction - 1,
               one, one + 1, one - 1, one | 1 << fraction - 1, one + (1 << fraction)]  # fmt: skip
    pick = rng.random()
    if pick < 0.35:
        return sign | rng.choice(special)
    if pick < 0.85:
        return sign | (bias + rng.randint(-6, 8)) << fraction | rng.getrandbits(fraction)
    return sign | rng.randrange(top << fraction)


def literal(kind: str, rng: random.Random) -> str:
    """A constant of a type, in C."""
    if kind == "p":
        return rng.choice(["true", "false"])
    if kind in ("f16x2", "bf16x2"):
        halves = [float_bits(kind[:-2], rng) for _ in range(2)]
        return f"as_{kind}({halves[0] << 16 | halves[1]:#x}u)"
    if kind in FLOATS:
        return f"as_{kind}({float_bits(kind, rng):#x}{'ull' if kind == 'f64' else 'u'})"
    value = integer_bits(BITS[kind], rng)
    return f"({C[kind]}){value:#x}{'ull' if BITS[kind] == 64 else 'u'}"


# raw(x): the bits; bits(x): the bits, with one pattern for every NaN, so that payloads do not become numbers; as_T: back.
CONVERSIONS = """
typedef unsigned long long u64_t;
__device__ __forceinline__ unsigned raw(float x) { return __float_as_uint(x); }
__device__ __forceinline__ u64_t raw(double x) { return (u64_t)__double_as_longlong(x); }
__device__ __forceinline__ unsigned short raw(__half x) { return __half_as_ushort(x); }
__device__ __forceinline__ unsigned short raw(__nv_bfloat16 x) { return __bfloat16_as_ushort(x); }
__device__ __forceinline__ unsigned raw(__half2 x) { return __half_as_ushort(x.x) | (unsigned)__half_as_ushort(x.y) << 16; }
__device__ __forceinline__ unsigned raw(__nv_bfloat162 x) { return __bfloat16_as_ushort(x.x) | (unsigned)__bfloat16_as_ushort(x.y) << 16; }
__device__ __forceinline__ unsigned char raw(unsigned char x) { return x; }
__device__ __forceinline__ unsigned char raw(signed char x) { return (unsigned char)x; }
__device__ __forceinline__ unsigned short raw(unsigned short x) { return x; }
__device__ __forceinline__ unsigned short raw(short x) { return (unsigned short)x; }
__device__ __forceinline__ unsigned raw(unsigned x) { return x; }
__device__ __forceinline__ unsigned raw(int x) { return (unsigned)x; }
__device__ __forceinline__ u64_t raw(u64_t x) { return x; }
__device__ __forceinline__ u64_t raw(long long x) { return (u64_t)x; }
__device__ __forceinline__ float as_f32(unsigned x) { return __uint_as_float(x); }
__device__ __forceinline__ double as_f64(u64_t x) { return __longlong_as_double((long long)x); }
__device__ __forceinline__ __half as_f16(unsigned short x) { return __ushort_as_half(x); }
__device__ __forceinline__ __nv_bfloat16 as_bf16(unsigned short x) { return __ushort_as_bfloat16(x); }
__device__ __forceinline__ __half2 as_f16x2(unsigned x) { return __halves2half2(as_f16((unsigned short)x), as_f16((unsigned short)(x >> 16))); }
__device__ __forceinline__ __nv_bfloat162 as_bf16x2(unsigned x) { return __halves2bfloat162(as_bf16((unsigned short)x), as_bf16((unsigned short)(x >> 16))); }
__device__ __forceinline__ unsigned char as_u8(unsigned char x) { return x; }
__device__ __forceinline__ signed char as_s8(unsigned char x) { return (signed char)x; }
__device__ __forceinline__ unsigned short as_u16(unsigned short x) { return x; }
__device__ __forceinline__ short as_s16(unsigned short x) { return (short)x; }
__device__ __forceinline__ unsigned as_u32(unsigned x) { return x; }
__device__ __forceinline__ int as_s32(unsigned x) { return (int)x; }
__device__ __forceinline__ u64_t as_u64(u64_t x) { return x; }
__device__ __forceinline__ long long as_s64(u64_t x) { return (long long)x; }
__device__ __forceinline__ unsigned short canonical16(unsigned short x, unsigned infinity) { return (x & 0x7fffu) > infinity ? (unsigned short)0x7fffu : x; }
__device__ __forceinline__ unsigned bits(float x) { unsigned b = raw(x); return (b & 0x7fffffffu) > 0x7f800000u ? 0x7fffffffu : b; }
__device__ __forceinline__ u64_t bits(double x) { u64_t b = raw(x); return (b & 0x7fffffffffffffffull) > 0x7ff0000000000000ull ? 0x7fffffffffffffffull : b; }
__device__ __forceinline__ unsigned short bits(__half x) { return canonical16(raw(x), 0x7c00u); }
__device__ __forceinline__ unsigned short bits(__nv_bfloat16 x) { return canonical16(raw(x), 0x7f80u); }
__device__ __forceinline__ unsigned bits(__half2 x) { return bits(x.x) | (unsigned)bits(x.y) << 16; }
__device__ __forceinline__ unsigned bits(__nv_bfloat162 x) { return bits(x.x) | (unsigned)bits(x.y) << 16; }
"""
