"""The seven families of random kernels."""

from __future__ import annotations

from tests.random_ptx.operations import CONVERTING, FLOATING, HALVES, INTEGERS
from tests.random_ptx.writer import Family

FAMILIES = {
    f.name: f
    for f in (
        Family("integer", ("u32", "u32", "s32", "u64", "s64", "u16", "s16", "u8"), INTEGERS, {"load": 1}),
        Family("warp", ("u32", "u32", "s32", "u64", "u32"), INTEGERS,
               {"shuffle": 5, "vote": 3, "masked": 3, "tile": 3, "match": 2, "redux": 3, "warpwide": 3, "warpshared": 2}),
        Family("shared", ("u32", "u32", "u64", "s32", "u16", "u8"), INTEGERS,
               {"exchange": 4, "mixed": 4, "warpshared": 2, "count": 2, "shuffle": 1, "gathered": 1, "atomic": 1}, True),
        Family("float", ("f32", "f32", "f32", "f64", "f64", "u32", "s32", "u64"), FLOATING,
               {"shuffle": 1, "exchange": 1, "load": 2, "vector": 1, "floatatomic": 1}),
        Family("half", ("f16", "f16", "bf16", "bf16", "f16x2", "bf16x2", "f32", "u32", "u16", "s32"), HALVES,
               {"shuffle": 1, "exchange": 1, "load": 2, "warpshared": 1}, drops=(("bf16", "bf16x2"), ("f16", "f16x2"))),
        Family("conversion", ("f32", "f64", "f16", "bf16", "u32", "s32", "u64", "s64", "u16", "s16", "s8", "u8"), CONVERTING,
               {"load": 2}, drops=(("bf16",), ("bf16", "f16"), ("bf16", "f16", "s8", "u8"), ("f64", "u64", "s64"))),
        Family("memory", ("u32", "u32", "u64", "s32", "u16", "u8"), INTEGERS,
               {"atomic": 4, "own": 4, "load": 2, "vector": 2, "store": 4, "reload": 4, "gathered": 2, "exchange": 1}, True),
    )
}  # fmt: skip
