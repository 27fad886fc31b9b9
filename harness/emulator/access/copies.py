"""Asynchronous copies into shared memory: cp.async, which carries its data along until a wait, and cp.async.bulk.

A copy may happen at any moment between its issue and the wait for it. It is carried out at the latest: when its thread
waits for its group, or when the phase of an mbarrier could not complete without it. Until then the target is marked
IN_FLIGHT, so that reading or overwriting it is an async hazard, and what a kernel computes from it is wrong in value
too. The source is read, with all checks of a load, when the copy is issued (a bulk copy's when it is carried out).

Lanes whose targets follow each other are marked, and their data written, as vectors; others one by one.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable

from harness.emulator import layout as L
from harness.emulator.access import shared_checks as checks
from harness.emulator.access.base import Needs, need, reject, within
from harness.emulator.access.clocks import VECTOR
from harness.emulator.access.shared_memory import Shared, line_settled, sites_of
from harness.emulator.access.shared_scattered import lane_settled, mark_lane
from harness.emulator.access.vectors import (
    consecutive_lanes,
    interleave,
    iota,
    lane_mask,
    load_where,
    span_of,
    splat,
    splat_n,
    store_where,
)
from harness.emulator.irtext import Fn
from harness.emulator.layout import LANES, CopyRecord, Warp


def record_at(f: Fn, warp: str, number: str) -> str:
    """The record of copy `number` of a warp."""
    base = f.get(warp, Warp, "copies", pointer=True)
    return f.let(f"getelementptr [{ctypes.sizeof(CopyRecord)} x i8], ptr {base}, i32 "
                 f"{f.let(f'and i32 {number}, {L.MAX_COPIES - 1}')}")  # fmt: skip


def issue(m: Needs, nbytes: int) -> str:
    """(ctx, warp, <32 x i32> targets, mask, insn, ptr data) -> i1 ok: start a copy of `nbytes` bytes a lane; word k of
    lane l is at data[k * 32 + l]. The record has the lanes' data side by side."""

    def build(m: Needs, name: str) -> str:
        f = Fn(
            f"define internal i1 @{name}(ptr %ctx, ptr %warp, {VECTOR} %targets, i32 %mask, i32 %insn, ptr %data) "
            "noinline {"
        )
        f("entry:")
        number = f.get("%warp", Warp, "next_copy")
        oldest = f.get("%warp", Warp, "first_copy")
        full = f.let(f"icmp uge i32 {f.let(f'sub i32 {number}, {oldest}')}, {L.MAX_COPIES}")
        upto = f.let(f"add i32 {oldest}, 1")
        mine = f.get("%warp", Warp, "mine")
        f.when(full, lambda: f(f"  call void @{finish(m)}(ptr %ctx, ptr %warp, i32 -1, {VECTOR} splat (i32 -1), "
                               f"i32 {upto}, i32 {mine})"), likely=False)  # fmt: skip
        r = record_at(f, "%warp", number)
        target = f.at(r, CopyRecord, "target")
        f(f"  store {VECTOR} %targets, ptr {target}, align 4")
        group = f.let(f"load {VECTOR}, ptr {f.at('%warp', Warp, 'group')}, align 4")
        f(f"  store {VECTOR} {group}, ptr {f.at(r, CopyRecord, 'group')}, align 4")
        words = nbytes // 4
        rows = [f.let(f"load {VECTOR}, ptr {f.let(f'getelementptr i8, ptr %data, i64 {128 * k}')}, align 4")
                for k in range(words)]  # fmt: skip
        data = interleave(f, rows, 32)
        f(f"  store <{LANES * words} x i32> {data}, ptr {f.at(r, CopyRecord, 'data')}, align 4")
        for field, value in (("mask", "%mask"), ("insn", "%insn"), ("words", str(nbytes // 4))):
            f.put(r, CopyRecord, field, value)
        s, lanes, on = Shared(f, m), f.new_label(), f.new_label()
        _claim_line(m, f, s, nbytes, lanes, on)
        f(f"{lanes}:")
        f.each_lane("%mask", lambda lane: _claim(m, f, s, lane, target, nbytes))
        f(f"  br label %{on}\n{on}:")
        f.put("%warp", Warp, "next_copy", f.let(f"add i32 {number}, 1"))
        f("  ret i1 true\nbad:\n  ret i1 false")
        return f.text()

    return need(m, f"copy_issue_{nbytes}", build)


def _claim_line(m: Needs, f: Fn, s: Shared, nbytes: int, lanes: str, on: str) -> None:
    """Mark the targets of all lanes and go to `on`, if they are consecutive, in bounds and nothing speaks against it;
    else go to `lanes`, with nothing done."""
    line, free, clear = (f.new_label() for _ in range(3))
    first, start, consecutive = consecutive_lanes(f, "%targets", "i32", nbytes)
    f(f"  br i1 {consecutive}, label %{line}, label %{lanes}, !prof !2\n{line}:")
    a = f.let(f"extractelement {VECTOR} %targets, i32 {first}")
    inside = within(f, a, span_of(f, first, nbytes, "i32"), s.size, nbytes, a, "i32")
    f(f"  br i1 {inside}, label %{free}, label %{lanes}, !prof !2\n{free}:")
    g, per_lane = s.granule_of(f, start), nbytes // m.granule
    settled = line_settled(f, s, g, per_lane, store=True)
    f(f"  br i1 {settled}, label %{clear}, label %{lanes}, !prof !2\n{clear}:")
    width = LANES * per_lane
    for base, value in ((s.wtag, f"splat (i32 {L.IN_FLIGHT})"), (s.winsn, sites_of(f, per_lane))):
        p = f.let(f"getelementptr i32, ptr {base}, i32 {g}")
        store_where(f, width, 32, value, p, 4, lane_mask(f, per_lane))
    f(f"  br label %{on}")


def _claim(m: Needs, f: Fn, s: Shared, lane: str, targets: str, nbytes: int) -> None:
    """Bounds and alignment of one lane's target, its check as a write, and its mark."""
    offset = f.let(f"load i32, ptr {f.let(f'getelementptr i32, ptr {targets}, i32 {lane}')}")
    wide = f.let(f"or i64 {f.let(f'zext i32 {offset} to i64')}, {L.SHARED_WINDOW << L.WINDOW_BITS}")
    reject(m, f, within(f, offset, nbytes, s.size, nbytes, offset, "i32"), lane, wide, nbytes)
    count, g = nbytes // m.granule, s.granule_of(f, offset)
    each, on = f.new_label(), f.new_label()
    at_once = f.new_label()
    settled = lane_settled(m, f, s, g, lane, count, store=True)
    f(f"  br i1 {settled}, label %{at_once}, label %{each}, !prof !2\n{at_once}:")
    mark_lane(f, s, g, lane, count, str(L.IN_FLIGHT))
    f(f"  br label %{on}\n{each}:")
    mark(m, f, s, offset, str(count), lane)
    f(f"  br label %{on}\n{on}:")


def mark(m: Needs, f: Fn, s: Shared, offset: str, granules: str, lane: str) -> None:
    """Check granules from a byte offset as a write by `lane`, and mark them as in flight."""
    site = splat(f, f.let(f"or i32 {f.let('shl i32 %insn, 5')}, {lane}"), "i32")

    def some(g: str, count: str, where: str) -> None:
        def load(base: str) -> str:
            return load_where(f, LANES, 32, f.let(f"getelementptr i32, ptr {base}, i32 {g}"), 4, where)

        latest = f.let(f"call {VECTOR} @llvm.umax.v32i32({VECTOR} {load(s.wtag)}, {VECTOR} {load(s.rtag)})")
        late = f.let(f"icmp uge {VECTOR} {latest}, {splat(f, s.floor, 'i32')}")
        settled = f.let(f"icmp eq i32 {f.let(f'bitcast <{LANES} x i1> {late} to i32')}, 0")
        unsettled = f.let(f"select i1 {settled}, i32 0, i32 {count}")
        f.repeat(unsettled, lambda k: _check(m, f, f.let(f"add i32 {g}, {k}"), lane))
        for base, value in ((s.wtag, f"splat (i32 {L.IN_FLIGHT})"), (s.winsn, site)):
            store_where(f, LANES, 32, value, f.let(f"getelementptr i32, ptr {base}, i32 {g}"), 4, where)

    _each_32(f, s.granule_of(f, offset), granules, some)


def _check(m: Needs, f: Fn, g: str, lane: str) -> None:
    f(f"  call void @{checks.write(m)}(ptr %ctx, ptr %warp, i32 %insn, i32 {lane}, i1 true, i32 {g}, i1 true)")


def land(f: Fn, wtag: str, winsn: str, first: str, granules: str, tag: str, site: str) -> None:
    """Granules from the first on have been written by the access `tag` at `site`."""
    values = ((wtag, splat(f, tag, "i32")), (winsn, splat(f, site, "i32")))

    def some(g: str, count: str, where: str) -> None:
        for base, value in values:
            store_where(f, LANES, 32, value, f.let(f"getelementptr i32, ptr {base}, i32 {g}"), 4, where)

    _each_32(f, first, granules, some)


def _each_32(f: Fn, first: str, granules: str, body: Callable[[str, str, str], None]) -> None:
    """Run body for up to 32 granules at a time, with the first, how many, and a mask of as many."""

    def turn(k: str) -> None:
        done = f.let(f"shl i32 {k}, 5")
        count = f.let(f"call i32 @llvm.umin.i32(i32 {f.let(f'sub i32 {granules}, {done}')}, i32 {LANES})")
        where = f.let(f"icmp ult {VECTOR} {iota('i32')}, {splat(f, count, 'i32')}")
        body(f.let(f"add i32 {first}, {done}"), count, where)

    f.repeat(f.let(f"lshr i32 {f.let(f'add i32 {granules}, {LANES - 1}')}, 5"), turn)


def finish(m: Needs) -> str:
    """(ctx, warp, mask, <32 x i32> bound, upto, tag): carry out the copies of these lanes that belong to groups below
    the bound and have numbers below `upto`; what they wrote is tagged with `tag`."""

    def build(m: Needs, name: str) -> str:
        f = Fn(
            f"define internal void @{name}(ptr %ctx, ptr %warp, i32 %mask, {VECTOR} %bound, i32 %upto, i32 %tag) "
            "noinline {"
        )
        f("entry:")
        s = Shared(f, m)
        first, last = f.get("%warp", Warp, "first_copy"), f.get("%warp", Warp, "next_copy")
        count = f.let(f"sub i32 {f.let(f'call i32 @llvm.umin.i32(i32 {last}, i32 %upto)')}, {first}")
        f.repeat(count, lambda k: _finish_one(m, f, s, f.let(f"add i32 {first}, {k}")))
        _forget_finished(f, first, last)
        f("  ret void")
        return f.text()

    return need(m, "copies_finish", build)


def _finish_one(m: Needs, f: Fn, s: Shared, number: str) -> None:
    r = record_at(f, "%warp", number)
    group = f.let(f"load {VECTOR}, ptr {f.at(r, CopyRecord, 'group')}, align 4")
    due = f.let(f"bitcast <{LANES} x i1> {f.let(f'icmp ult {VECTOR} {group}, %bound')} to i32")
    left = f.get(r, CopyRecord, "mask")
    lanes = f.let(f"and i32 {left}, {f.let(f'and i32 {due}, %mask')}")

    def carry_out() -> None:
        f.put(r, CopyRecord, "mask", f.let(f"xor i32 {left}, {lanes}"))
        words = f.get(r, CopyRecord, "words")
        start, consecutive = _line_of(f, r, lanes, words)
        yes, no, on = (f.new_label() for _ in range(3))
        f(f"  br i1 {consecutive}, label %{yes}, label %{no}\n{yes}:")
        _write_line(m, f, s, r, start, words, lanes)
        f(f"  br label %{on}\n{no}:")
        f.each_lane(lanes, lambda k: _write_lane(m, f, s, r, words, k))
        f(f"  br label %{on}\n{on}:")

    f.when(f.let(f"icmp ne i32 {lanes}, 0"), carry_out)


def _line_of(f: Fn, r: str, lanes: str, words: str) -> tuple[str, str]:
    """(target of lane 0, or where it would be, whether the targets of these lanes follow each other)"""
    targets = f.let(f"load {VECTOR}, ptr {f.at(r, CopyRecord, 'target')}, align 4")
    step = f.let(f"shl i32 {words}, 2")
    first = f.let(f"call i32 @llvm.cttz.i32(i32 {lanes}, i1 false)")
    a = f.let(f"extractelement {VECTOR} {targets}, i32 {first}")
    start = f.let(f"sub i32 {a}, {f.let(f'mul i32 {first}, {step}')}")
    steps = f.let(f"mul {VECTOR} {splat(f, step, 'i32')}, {iota('i32')}")
    apart = f.let(f"icmp ne {VECTOR} {targets}, {f.let(f'add {VECTOR} {steps}, ' + splat(f, start, 'i32'))}")
    off = f.let(f"and i32 {lanes}, {f.let(f'bitcast <{LANES} x i1> {apart} to i32')}")
    return start, f.let(f"icmp eq i32 {off}, 0")


def _write_line(m: Needs, f: Fn, s: Shared, r: str, start: str, words: str, lanes: str) -> None:
    """Write the data of these lanes, whose targets are consecutive, and tell the shadow."""
    log = f.let(f"call i32 @llvm.cttz.i32(i32 {words}, i1 true)")
    more = (4 // m.granule).bit_length() - 1
    site = splat(f, f.let(f"shl i32 {f.get(r, CopyRecord, 'insn')}, 5"), "i32")
    running = splat(f, lanes, "i32")

    def of_lanes(k: str, shift: str) -> tuple[str, str]:
        """(the lanes that the k-th 32 units belong to, which of the units are to be written)"""
        unit = f.let(f"add {VECTOR} {splat(f, f.let(f'shl i32 {k}, 5'), 'i32')}, {iota('i32')}")
        lane = f.let(f"lshr {VECTOR} {unit}, {splat(f, shift, 'i32')}")
        bit = f.let(f"trunc {VECTOR} {f.let(f'lshr {VECTOR} {running}, {lane}')} to <{LANES} x i1>")
        return lane, bit

    def data(k: str) -> None:
        _, where = of_lanes(k, log)
        place = f.let(f"shl i32 {k}, 5")
        value = f.let(f"load {VECTOR}, ptr {f.at(r, CopyRecord, 'data', place)}, align 4")
        to = f.let(f"getelementptr i32, ptr {f.let(f'getelementptr i8, ptr {s.memory}, i32 {start}')}, i32 {place}")
        store_where(f, LANES, 32, value, to, 4, where)

    def shadow(k: str) -> None:
        lane, where = of_lanes(k, f.let(f"add i32 {log}, {more}"))
        g = f.let(f"add i32 {s.granule_of(f, start)}, {f.let(f'shl i32 {k}, 5')}")
        for base, value in ((s.wtag, splat(f, "%tag", "i32")), (s.winsn, f.let(f"or {VECTOR} {site}, {lane}"))):
            store_where(f, LANES, 32, value, f.let(f"getelementptr i32, ptr {base}, i32 {g}"), 4, where)

    f.repeat(words, data)
    f.repeat(f.let(f"shl i32 {words}, {more}"), shadow)


def _write_lane(m: Needs, f: Fn, s: Shared, r: str, words: str, k: str) -> None:
    """Write the data of one lane, and tell the shadow."""
    offset = f.let(f"load i32, ptr {f.at(r, CopyRecord, 'target', k)}")
    first = f.let(f"mul i32 {k}, {words}")
    to, g = f.let(f"getelementptr i8, ptr {s.memory}, i32 {offset}"), s.granule_of(f, offset)
    site = f.let(f"or i32 {f.let('shl i32 ' + f.get(r, CopyRecord, 'insn') + ', 5')}, {k}")
    wide, word_by_word, on = (f.new_label() for _ in range(3))
    f(f"  br i1 {f.let(f'icmp eq i32 {words}, 4')}, label %{wide}, label %{word_by_word}\n{wide}:")
    value = f.let(f"load <4 x i32>, ptr {f.at(r, CopyRecord, 'data', first)}, align 4")
    f(f"  store <4 x i32> {value}, ptr {to}, align 4")
    count = 16 // m.granule
    for base, value in ((s.wtag, "%tag"), (s.winsn, site)):
        at = f.let(f"getelementptr i32, ptr {base}, i32 {g}")
        f(f"  store <{count} x i32> {splat_n(f, value, count)}, ptr {at}, align 4")
    f(f"  br label %{on}\n{word_by_word}:")

    def word(w: str) -> None:
        value = f.let(f"load i32, ptr {f.at(r, CopyRecord, 'data', f.let(f'add i32 {first}, {w}'))}")
        f(f"  store i32 {value}, ptr {f.let(f'getelementptr i32, ptr {to}, i32 {w}')}, align 4")

    f.repeat(words, word)
    land(f, s.wtag, s.winsn, g, f.let(f"mul i32 {words}, {4 // m.granule}"), "%tag", site)
    f(f"  br label %{on}\n{on}:")


def _forget_finished(f: Fn, first: str, last: str) -> None:
    """Move the ring's start behind copies that no lane waits for."""
    f.put("%warp", Warp, "first_copy", first)
    head, look, drop, on = (f.new_label() for _ in range(4))
    f(f"  br label %{head}\n{head}:")
    number = f.get("%warp", Warp, "first_copy")
    f(f"  br i1 {f.let(f'icmp eq i32 {number}, {last}')}, label %{on}, label %{look}\n{look}:")
    mask = f.get(record_at(f, "%warp", number), CopyRecord, "mask")
    f(f"  br i1 {f.let(f'icmp eq i32 {mask}, 0')}, label %{drop}, label %{on}\n{drop}:")
    f.put("%warp", Warp, "first_copy", f.let(f"add i32 {number}, 1"))
    f(f"  br label %{head}\n{on}:")


def commit(m: Needs) -> str:
    """(warp, mask): these lanes' open groups end."""

    def build(m: Needs, name: str) -> str:
        f = Fn(f"define internal void @{name}(ptr %warp, i32 %mask) noinline {{")
        f("entry:")
        p = f.at("%warp", Warp, "group")
        more = f.let(f"zext <{LANES} x i1> {f.let(f'bitcast i32 %mask to <{LANES} x i1>')} to {VECTOR}")
        group = f.let(f"load {VECTOR}, ptr {p}, align 4")
        f(f"  store {VECTOR} {f.let(f'add {VECTOR} {group}, {more}')}, ptr {p}, align 4")
        f("  ret void")
        return f.text()

    return need(m, "copies_commit", build)


def wait(m: Needs) -> str:
    """(ctx, warp, mask, i32 pending): all but the last `pending` groups of these lanes are done; -1: all copies,
    also those of open groups."""

    def build(m: Needs, name: str) -> str:
        f = Fn(f"define internal void @{name}(ptr %ctx, ptr %warp, i32 %mask, i32 %pending) noinline {{")
        f("entry:")
        keep = splat(f, "%pending", "i32")
        group = f.let(f"load {VECTOR}, ptr {f.at('%warp', Warp, 'group')}, align 4")
        bound = f.let(f"call {VECTOR} @llvm.usub.sat.v32i32({VECTOR} {group}, {VECTOR} {keep})")
        everything = f.let("icmp eq i32 %pending, -1")
        bound = f.let(f"select i1 {everything}, {VECTOR} splat (i32 -1), {VECTOR} {bound}")
        mine, upto = f.get("%warp", Warp, "mine"), f.get("%warp", Warp, "next_copy")
        f(f"  call void @{finish(m)}(ptr %ctx, ptr %warp, i32 %mask, {VECTOR} {bound}, i32 {upto}, i32 {mine})")
        f("  ret void")
        return f.text()

    return need(m, "copies_wait", build)
