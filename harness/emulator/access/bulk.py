"""cp.async.bulk from global to shared memory: one copy of any length, which counts its bytes down at an mbarrier."""

from __future__ import annotations

from harness.emulator import layout as L
from harness.emulator.access import clocks, copies, mbarriers, ranges, tracing
from harness.emulator.access.base import Needs, need, reject, within
from harness.emulator.access.global_memory import Entry
from harness.emulator.access.shared_memory import Shared
from harness.emulator.irtext import Fn
from harness.emulator.layout import BulkCopy, Warp

ALIGNMENT = 16  # of both addresses and of the size (PTX ISA, cp.async.bulk)


def issue(m: Needs) -> str:
    """(lanes... with the mbarriers' addresses, <32 x i32> targets, <32 x i64> sources, <32 x i32> bytes) -> i1 ok"""

    def build(m: Needs, name: str) -> str:
        f = Fn(f"define internal i1 @{name}({mbarriers.LANE_OPERANDS}, {clocks.VECTOR} %targets, <32 x i64> %sources, "
               f"{clocks.VECTOR} %sizes) noinline {{")  # fmt: skip
        f("entry:\n  %as = alloca <32 x i64>\n  store <32 x i64> %a, ptr %as")
        f(f"  %ts = alloca {clocks.VECTOR}\n  store {clocks.VECTOR} %targets, ptr %ts")
        f(f"  %ns = alloca {clocks.VECTOR}\n  store {clocks.VECTOR} %sizes, ptr %ns")
        f("  %ss = alloca <32 x i64>\n  store <32 x i64> %sources, ptr %ss")
        s = Shared(f, m)
        known, tag = clocks.own_knowledge(f, "%warp"), f.get("%warp", Warp, "mine")
        f.each_lane("%mask", lambda k: _one(m, f, s, k, known, tag))
        clocks.start_interval(f, "%warp", clocks.tick(f))
        f("  ret i1 true\nbad:\n  ret i1 false")
        return f.text()

    return need(m, "bulk_issue", build)


def _one(m: Needs, f: Fn, s: Shared, k: str, known: str, tag: str) -> None:
    place, _ = mbarriers.known_object(m, f, s, k)
    clocks.join(f, mbarriers.clock_of(f, place), known)
    target, size = (f.let(f"load i32, ptr {f.let(f'getelementptr i32, ptr {p}, i32 {k}')}") for p in ("%ts", "%ns"))
    address = f.let(f"load i64, ptr {f.let(f'getelementptr i64, ptr %ss, i32 {k}')}")
    wide, size64 = (f.let(f"zext i32 {v} to i64") for v in (target, size))
    e = Entry(f, address, store=False)
    rel = f.let(f"sub i64 {address}, {e.base}")
    low = f.let(f"and i32 {size}, {ALIGNMENT - 1}")
    whole = f.let(f"icmp eq i32 {low}, 0")
    fits = within(f, rel, size64, e.size, ALIGNMENT, address)
    reject(m, f, f.let(f"and i1 {fits}, {whole}"), k, address, ALIGNMENT)
    reject(m, f, within(f, target, size, s.size, ALIGNMENT, target, "i32"), k,
           f.let(f"or i64 {wide}, {L.SHARED_WINDOW << L.WINDOW_BITS}"), ALIGNMENT)  # fmt: skip
    copies.mark(m, f, s, target, f.let(f"lshr i32 {size}, {s.shift}"), k)
    ranges.count_read(m, f, e.row, address, rel, size64)
    if m.traced:
        tracing.touch_range(m, f, address, size)
    row = mbarriers.next_row(m, f, "bulk", BulkCopy)
    source = f.let(f"ptrtoint ptr {f.let(f'getelementptr i8, ptr {e.host}, i64 {rel}')} to i64")
    site = f.let(f"or i32 {f.let('shl i32 %insn, 5')}, {k}")
    for field, value in (("source", source), ("target", target), ("nbytes", size), ("place", place), ("tag", tag),
                         ("site", site)):  # fmt: skip
        f.put(row, BulkCopy, field, value)
