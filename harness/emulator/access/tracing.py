"""Keeping single requests of warps, so that they can be drawn: what a kernel that is compiled to be traced calls.

Of each instruction, and of each kind of memory, two requests are kept (layout.TracedRequest): the first of those with
the most lanes, which is typical, and the first of those that cost most beyond the ideal. Which blocks touched which
part of a buffer is kept in coarse maps (layout.TraceMap), a bit for every block and cell, so that the order of the
blocks does not matter. A traced launch runs on one host thread.

What a request costs is counted as access/traffic.py counts it. Kernels that are not traced contain none of this.
"""

from __future__ import annotations

import ctypes

from harness.emulator import layout as L
from harness.emulator.access.base import Needs, need
from harness.emulator.access.traffic import _bits, _busiest_bank, _count_ones, _distinct, groups_of
from harness.emulator.irtext import Fn
from harness.emulator.layout import LANES, SECTOR, Context, Trace, TracedRequest, TraceMap, Warp
from harness.plan import BUFFER_BITS, address

_SHIFT = SECTOR.bit_length() - 1


def traced_request(m: Needs, total: int) -> str:
    """Name of (ptr ctx, ptr warp, <32 x i64> generic addresses, i32 mask, i32 insn, i1 store): keep a request of
    `total` bytes a lane. Lanes in local memory are left out."""

    def build(m: Needs, name: str) -> str:
        operands = "ptr %ctx, ptr %warp, <32 x i64> %a, i32 %mask, i32 %insn, i1 %store"
        f = Fn(f"define internal void @{name}({operands}) noinline {{")
        f("entry:")
        trace = f.get("%ctx", Context, "trace", pointer=True)
        f(f"  br i1 {f.let(f'icmp eq ptr {trace}, null')}, label %out, label %go\ngo:")
        window = f.let(f"lshr <32 x i64> %a, splat (i64 {L.WINDOW_BITS})")
        shared = _lanes(f, f"icmp eq <32 x i64> {window}, splat (i64 {L.SHARED_WINDOW})")
        rest = _lanes(f, f"icmp ugt <32 x i64> {window}, splat (i64 {L.LOCAL_WINDOW})")
        slot = f.let(f"mul i32 %insn, {L.TRACED_SLOTS}")
        f.when(f.let(f"icmp ne i32 {shared}, 0"), lambda: _in_shared(m, f, total, trace, slot, shared))
        f.when(f.let(f"icmp ne i32 {rest}, 0"), lambda: _in_global(m, f, total, trace, slot, rest))
        f("  br label %out\nout:\n  ret void")
        return f.text()

    return need(m, f"trace_request_{total}", build)


def trace_lanes(m: Needs, f: Fn, addresses: str, mask: int, total: int, store: bool) -> None:
    """Keep a request from within a helper that has %ctx, %warp and %insn."""
    how = f"i32 {mask if mask < 1 << 31 else -1}, i32 %insn, i1 {'true' if store else 'false'}"
    f(f"  call void @{traced_request(m, total)}(ptr %ctx, ptr %warp, <32 x i64> {addresses}, {how})")


def touch_range(m: Needs, f: Fn, start: str, size: str) -> None:
    """Map the reading of `size` bytes (i32) from a global address (i64) on: a bulk copy, which no lanes share."""
    trace = f.get("%ctx", Context, "trace", pointer=True)
    touch = need(m, "trace_touch", lambda m, name: _touch(name))

    def sector(k: str) -> None:
        step = f.let(f"shl i64 {f.let(f'zext i32 {k} to i64')}, {_SHIFT}")
        f(f"  call void @{touch}(ptr %ctx, ptr {trace}, i64 {f.let(f'add i64 {start}, {step}')}, i1 false)")

    def all_sectors() -> None:
        f.repeat(f.let(f"lshr i32 {f.let(f'add i32 {size}, {SECTOR - 1}')}, {_SHIFT}"), sector)

    f.when(f.let(f"icmp ne ptr {trace}, null"), all_sectors)


def _lanes(f: Fn, test: str) -> str:
    return f.let(f"and i32 %mask, {_bits(f, f.let(test))}")


def _in_shared(m: Needs, f: Fn, total: int, trace: str, slot: str, mask: str) -> None:
    size, groups = max(total, 4), groups_of(total)
    lanes = LANES // groups
    unit = f.let(f"lshr <32 x i64> %a, splat (i64 {size.bit_length() - 1})")
    unit = f.let(f"trunc <32 x i64> {unit} to <32 x i32>")
    group = need(m, f"traffic_group_{lanes}", lambda m, name: _busiest_bank(name, lanes))
    cost = "0"
    for g in range(groups):
        part = f.let(f"and i32 {mask}, {((1 << lanes) - 1) << g * lanes}")
        passes = f.let(f"call i32 @{group}(<32 x i32> {unit}, i32 {part})")
        cost = f.let(f"add i32 {cost}, {f.let(f'call i32 @llvm.usub.sat.i32(i32 {passes}, i32 1)')}")
    _keep(m, f, trace, f.let(f"add i32 {slot}, 2"), mask, cost)


def _in_global(m: Needs, f: Fn, total: int, trace: str, slot: str, mask: str) -> None:
    distinct = need(m, "traffic_distinct", lambda m, name: _distinct(name))
    sector = f.let(f"lshr <32 x i64> %a, splat (i64 {_SHIFT})")
    once, sectors = (f.let(f"call i32 @{distinct}(<32 x i64> {v}, i32 {mask})") for v in ("%a", sector))
    asked = f.let(f"mul i32 {once}, {total}")
    ideal = f.let(f"lshr i32 {f.let(f'add i32 {asked}, {SECTOR - 1}')}, {_SHIFT}")
    _keep(m, f, trace, slot, mask, f.let(f"call i32 @llvm.usub.sat.i32(i32 {sectors}, i32 {ideal})"))
    name = need(m, "trace_touch_lanes", _touch_lanes)
    f(f"  call void @{name}(ptr %ctx, ptr {trace}, <32 x i64> %a, i32 {mask}, i1 %store)")


def _keep(m: Needs, f: Fn, trace: str, slot: str, mask: str, cost: str) -> None:
    name = need(m, "trace_keep", lambda m, name: _keeper(name))
    operands = f"ptr {trace}, <32 x i64> %a, i32 {mask}, i32 {slot}, i32 {cost}"
    f(f"  call void @{name}(ptr %ctx, ptr %warp, {operands})")


def _keeper(name: str) -> str:
    """Put a request into the first of two slots where it has more lanes than what is there, into the second where it
    costs more."""
    operands = "ptr %ctx, ptr %warp, ptr %trace, <32 x i64> %a, i32 %mask, i32 %slot, i32 %cost"
    f = Fn(f"define internal void @{name}({operands}) noinline {{")
    f("entry:")
    size = ctypes.sizeof(TracedRequest)
    base = f.get("%trace", Trace, "requests", pointer=True)
    first = f.let(f"getelementptr [{size} x i8], ptr {base}, i32 %slot")
    second = f.let(f"getelementptr i8, ptr {first}, i32 {size}")
    lanes = _count_ones(f, "%mask")

    def fill(slot: str) -> None:
        values = {"warp": f.get("%warp", Warp, "number"), "block": f.get("%ctx", Context, "block")}
        for field, value in {**values, "mask": "%mask", "lanes": lanes, "cost": "%cost"}.items():
            f.put(slot, TracedRequest, field, value)
        f(f"  store <32 x i64> %a, ptr {f.at(slot, TracedRequest, 'address')}, align 8")

    more = f.let(f"icmp ugt i32 {lanes}, {f.get(first, TracedRequest, 'lanes')}")
    f.when(more, lambda: fill(first), likely=False)
    worse = f.let(f"icmp ugt i32 %cost, {f.get(second, TracedRequest, 'cost')}")
    f.when(worse, lambda: fill(second), likely=False)
    f("  ret void")
    return f.text()


def _touch_lanes(m: Needs, name: str) -> str:
    """Map the lanes' addresses; neighbours in one sector once, since no cell ends within a sector."""
    f = Fn(f"define internal void @{name}(ptr %ctx, ptr %trace, <32 x i64> %a, i32 %mask, i1 %store) noinline {{")
    f("entry:\n  %as = alloca <32 x i64>\n  %last = alloca i64")
    f("  store <32 x i64> %a, ptr %as\n  store i64 -1, ptr %last")
    touch = need(m, "trace_touch", lambda m, name: _touch(name))

    def lane(k: str) -> None:
        a = f.let(f"load i64, ptr {f.let(f'getelementptr i64, ptr %as, i32 {k}')}")
        sector = f.let(f"lshr i64 {a}, {_SHIFT}")
        other = f.let(f"icmp ne i64 {sector}, {f.let('load i64, ptr %last')}")
        f(f"  store i64 {sector}, ptr %last")
        f.when(other, lambda: f(f"  call void @{touch}(ptr %ctx, ptr %trace, i64 {a}, i1 %store)"))

    f.each_lane("%mask", lane)
    f("  ret void")
    return f.text()


def _touch(name: str) -> str:
    """Set the block's bit of the cell that holds an address, in each map of the buffer; addresses out of bounds are in
    none."""
    f = Fn(f"define internal void @{name}(ptr %ctx, ptr %trace, i64 %a, i1 %store) noinline {{")
    f("entry:\n  %map = alloca ptr")
    number = f.let(f"lshr i64 %a, {BUFFER_BITS}")
    known = f.let(f"icmp ult i64 {number}, {f.get('%trace', Trace, 'nmaps')}")
    f(f"  br i1 {known}, label %known, label %out\nknown:")
    table = f.get("%trace", Trace, "maps", pointer=True)
    row = f.let(f"getelementptr [{ctypes.sizeof(TraceMap)} x i8], ptr {table}, i64 {number}")
    offset = f.let(f"sub i64 {f.let(f'and i64 %a, {(1 << BUFFER_BITS) - 1}')}, {address(0)}")
    inside = f.let(f"icmp ult i64 {offset}, {f.get(row, TraceMap, 'size')}")
    f(f"  store ptr {row}, ptr %map\n  br i1 {inside}, label %next, label %out\nnext:")
    row = f.let("load ptr, ptr %map")
    written, read = (f.get(row, TraceMap, which, pointer=True) for which in ("written", "read"))
    bits = f.let(f"select i1 %store, ptr {written}, ptr {read}")
    f.when(f.let(f"icmp ne ptr {bits}, null"), lambda: _mark(f, row, bits, offset))
    following = f.get(row, TraceMap, "next", pointer=True)
    f(f"  store ptr {following}, ptr %map")
    f(f"  br i1 {f.let(f'icmp eq ptr {following}, null')}, label %out, label %next\nout:\n  ret void")
    return f.text()


def _mark(f: Fn, row: str, bits: str, offset: str) -> None:
    width = f.get(row, TraceMap, "row_bytes")
    line = f.let(f"udiv i64 {offset}, {width}")
    byte = f.let(f"sub i64 {offset}, {f.let(f'mul i64 {line}, {width}')}")
    down = f.let(f"lshr i64 {line}, {f.get(row, TraceMap, 'row_shift')}")
    right = f.let(f"lshr i64 {byte}, {f.get(row, TraceMap, 'byte_shift')}")
    before = f.let(f"mul i64 {down}, {f.get(row, TraceMap, 'columns')}")
    at = f.let(f"mul i64 {f.let(f'add i64 {before}, {right}')}, {f.get(row, TraceMap, 'stride')}")
    block = f.get("%ctx", Context, "block")
    at = f.let(f"add i64 {at}, {f.let(f'lshr i64 {block}, 3')}")
    low = f.let(f"and i64 {block}, 7")
    bit = f.let(f"shl i8 1, {f.let(f'trunc i64 {low} to i8')}")
    p = f.let(f"getelementptr i8, ptr {bits}, i64 {at}")
    have = f.let(f"load i8, ptr {p}")
    f(f"  store i8 {f.let(f'or i8 {have}, {bit}')}, ptr {p}")

