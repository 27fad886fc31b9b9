"""Vector idioms in IR text: one value for each of 32 lanes, lane masks, consecutive memory."""

from __future__ import annotations

from harness.emulator.access.base import first_lane
from harness.emulator.irtext import Fn
from harness.emulator.layout import LANES


def iota(kind: str, step: int = 1, divide: int = 1, count: int = LANES) -> str:
    return "<" + ", ".join(f"{kind} {n // divide * step}" for n in range(count)) + ">"


def repeat(times: int) -> str:
    """Shuffle mask that repeats each of 32 lanes."""
    return f"<{LANES * times} x i32> <" + ", ".join(f"i32 {n // times}" for n in range(LANES * times)) + ">"


def every(n: int, k: int) -> str:
    """Shuffle mask that picks element k of each group of n."""
    return f"<{LANES} x i32> <" + ", ".join(f"i32 {lane * n + k}" for lane in range(LANES)) + ">"


def lane_mask(f: Fn, times: int) -> str:
    v = f.let("bitcast i32 %mask to <32 x i1>")
    return v if times == 1 else f.let(f"shufflevector <32 x i1> {v}, <32 x i1> poison, {repeat(times)}")


def load_where(f: Fn, count: int, bits: int, p: str, align: int, mask: str, other: str = "zeroinitializer") -> str:
    """Consecutive elements where the mask holds, `other` elsewhere; nothing is touched there."""
    t = f"<{count} x i{bits}>"
    name = f"@llvm.masked.load.v{count}i{bits}.p0"
    return f.let(f"call {t} {name}(ptr {p}, i32 {align}, <{count} x i1> {mask}, {t} {other})")


def store_where(f: Fn, count: int, bits: int, value: str, p: str, align: int, mask: str) -> None:
    """Store consecutive elements where the mask holds."""
    name = f"@llvm.masked.store.v{count}i{bits}.p0"
    f(f"  call void {name}(<{count} x i{bits}> {value}, ptr {p}, i32 {align}, <{count} x i1> {mask})")


def gather_where(f: Fn, bits: int, pointers: str, mask: str, other: str = "zeroinitializer",
                 width: int = LANES) -> str:  # fmt: skip
    """Elements from scattered addresses, one a lane or `width` of them."""
    t = f"<{width} x i{bits}>"
    name = f"@llvm.masked.gather.v{width}i{bits}.v{width}p0"
    return f.let(f"call {t} {name}(<{width} x ptr> {pointers}, i32 {bits // 8}, <{width} x i1> {mask}, {t} {other})")


def scatter_where(f: Fn, bits: int, value: str, pointers: str, mask: str, width: int = LANES) -> None:
    """Elements to scattered addresses, one a lane or `width` of them, the highest last."""
    name = f"@llvm.masked.scatter.v{width}i{bits}.v{width}p0"
    operands = f"<{width} x i{bits}> {value}, <{width} x ptr> {pointers}, i32 {bits // 8}"
    f(f"  call void {name}({operands}, <{width} x i1> {mask})")


def masked_load(f: Fn, p: str, bits: int, n: int, align: int) -> list[str]:
    """n values a lane from consecutive memory."""
    t = f"<{LANES * n} x i{bits}>"
    v = load_where(f, LANES * n, bits, p, align, lane_mask(f, n))
    if n == 1:
        return [v]
    return [f.let(f"shufflevector {t} {v}, {t} poison, {every(n, k)}") for k in range(n)]


def masked_store(f: Fn, p: str, values: list[str], bits: int, align: int) -> None:
    n = len(values)
    v = interleave(f, values, bits)
    store_where(f, LANES * n, bits, v, p, align, lane_mask(f, n))


def interleave(f: Fn, values: list[str], bits: int) -> str:
    """The values of each lane side by side."""
    n = len(values)
    if n == 1:
        return values[0]
    t = f"<{LANES} x i{bits}>"
    halves = [_join(f, values[k], values[k + 1], t, 2 * LANES, bits) for k in range(0, n, 2)]
    v = halves[0] if n == 2 else _join(f, halves[0], halves[1], f"<{2 * LANES} x i{bits}>", 4 * LANES, bits)
    order = ", ".join(f"i32 {k * LANES + lane}" for lane in range(LANES) for k in range(n))
    full = f"<{n * LANES} x i{bits}>"
    return f.let(f"shufflevector {full} {v}, {full} poison, <{n * LANES} x i32> <{order}>")


def _join(f: Fn, a: str, b: str, t: str, count: int, bits: int) -> str:
    order = ", ".join(f"i32 {k}" for k in range(count))
    return f.let(f"shufflevector {t} {a}, {t} {b}, <{count} x i32> <{order}>")


def results(f: Fn, bits: int, n: int) -> list[str]:
    step = LANES * bits // 8
    return [
        f.let(f"load <{LANES} x i{bits}>, ptr {f.let(f'getelementptr i8, ptr %res, i64 {k * step}')}, align 4")
        for k in range(n)
    ]


def splat(f: Fn, value: str, kind: str) -> str:
    one = f.let(f"insertelement <32 x {kind}> poison, {kind} {value}, i32 0")
    return f.let(f"shufflevector <32 x {kind}> {one}, <32 x {kind}> poison, <32 x i32> zeroinitializer")


def splat_n(f: Fn, value: str, count: int) -> str:
    one = f.let(f"insertelement <{count} x i32> poison, i32 {value}, i32 0")
    return f.let(f"shufflevector <{count} x i32> {one}, <{count} x i32> poison, <{count} x i32> zeroinitializer")


def missing(f: Fn, fine: str) -> str:
    """Running lanes for which `fine` (<32 x i1>) does not hold."""
    bits = f.let(f"bitcast <32 x i1> {fine} to i32")
    return f.let(f"and i32 %mask, {f.let(f'xor i32 {bits}, -1')}")


def consecutive_lanes(f: Fn, a: str, wide: str, total: int) -> tuple[str, str, str]:
    """(first running lane, its address, whether all running lanes have consecutive addresses)."""
    first = first_lane(f)
    a0 = f.let(f"extractelement <32 x {wide}> {a}, i32 {first}")
    back = f.let(f"mul i32 {first}, {total}")
    back = back if wide == "i32" else f.let(f"zext i32 {back} to i64")
    start = f.let(f"sub {wide} {a0}, {back}")
    one = f.let(f"insertelement <32 x {wide}> poison, {wide} {start}, i32 0")
    all_ = f.let(f"shufflevector <32 x {wide}> {one}, <32 x {wide}> poison, <32 x i32> zeroinitializer")
    line = f.let(f"add <32 x {wide}> {all_}, {iota(wide, total)}")
    same = f.let(f"bitcast <32 x i1> {f.let(f'icmp eq <32 x {wide}> {a}, {line}')} to i32")
    off = f.let(f"and i32 {f.let(f'xor i32 {same}, -1')}, %mask")
    return first, start, f.let(f"icmp eq i32 {off}, 0")


def span_of(f: Fn, first: str, total: int, wide: str) -> str:
    """Bytes from the first to the last running lane's element."""
    zeros = f.let("call i32 @llvm.ctlz.i32(i32 %mask, i1 false)")
    lanes = f.let(f"sub i32 {f.let(f'sub i32 32, {zeros}')}, {first}")
    span = f.let(f"mul i32 {lanes}, {total}")
    return span if wide == "i32" else f.let(f"zext i32 {span} to i64")
