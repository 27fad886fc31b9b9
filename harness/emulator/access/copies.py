"""Asynchronous copies into shared memory: cp.async, which carries its data along until a wait, and cp.async.bulk.

A copy may happen at any moment between its issue and the wait for it. It is carried out at the latest: when its thread
waits for its group, or when the phase of an mbarrier could not complete without it. Until then the target is marked
IN_FLIGHT, so that reading or overwriting it is an async hazard, and what a kernel computes from it is wrong in value
too. The source is read, with all checks of a load, when the copy is issued (a bulk copy's when it is carried out).
"""

from __future__ import annotations

import ctypes

from harness.emulator import layout as L
from harness.emulator.access import shared_checks as checks
from harness.emulator.access.base import Needs, need, reject, within
from harness.emulator.access.shared_memory import Shared
from harness.emulator.irtext import Fn
from harness.emulator.layout import LANES, CopyRecord, Warp

VECTOR = f"<{LANES} x i32>"


def record_at(f: Fn, warp: str, number: str) -> str:
    """The record of copy `number` of a warp."""
    base = f.get(warp, Warp, "copies", pointer=True)
    return f.let(f"getelementptr [{ctypes.sizeof(CopyRecord)} x i8], ptr {base}, i32 "
                 f"{f.let(f'and i32 {number}, {L.MAX_COPIES - 1}')}")  # fmt: skip


def issue(m: Needs, nbytes: int) -> str:
    """(ctx, warp, <32 x i32> targets, mask, insn, ptr data) -> i1 ok: start a copy of `nbytes` bytes a lane; word k of
    lane l is at data[k * 32 + l]."""

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
        for k in range(nbytes // 4):
            row = f.let(f"load {VECTOR}, ptr {f.let(f'getelementptr i8, ptr %data, i64 {128 * k}')}, align 4")
            at = f.let(f"getelementptr i8, ptr {f.at(r, CopyRecord, 'data')}, i64 {128 * k}")
            f(f"  store {VECTOR} {row}, ptr {at}, align 4")
        for field, value in (("mask", "%mask"), ("insn", "%insn"), ("words", str(nbytes // 4))):
            f.put(r, CopyRecord, field, value)
        f.each_lane("%mask", lambda lane: _claim(m, f, lane, target, nbytes))
        f.put("%warp", Warp, "next_copy", f.let(f"add i32 {number}, 1"))
        f("  ret i1 true\nbad:\n  ret i1 false")
        return f.text()

    return need(m, f"copy_issue_{nbytes}", build)


def _claim(m: Needs, f: Fn, lane: str, targets: str, nbytes: int) -> None:
    """Bounds and alignment of one lane's target, its check as a write, and its mark."""
    s = Shared(f, m)
    offset = f.let(f"load i32, ptr {f.let(f'getelementptr i32, ptr {targets}, i32 {lane}')}")
    wide = f.let(f"or i64 {f.let(f'zext i32 {offset} to i64')}, {L.SHARED_WINDOW << L.WINDOW_BITS}")
    reject(m, f, within(f, offset, nbytes, s.size, nbytes, offset, "i32"), lane, wide, nbytes)
    mark(m, f, s, offset, str(nbytes // m.granule), lane)


def mark(m: Needs, f: Fn, s: Shared, offset: str, granules: str, lane: str) -> None:
    """Check granules from a byte offset as a write by `lane`, and mark them as in flight."""
    first = s.granule_of(f, offset)

    def one(k: str) -> None:
        g = f.let(f"add i32 {first}, {k}")
        f(f"  call void @{checks.write(m)}(ptr %ctx, ptr %warp, i32 %insn, i32 {lane}, i1 true, i32 {g}, i1 true)")
        f(f"  store i32 {L.IN_FLIGHT}, ptr {f.let(f'getelementptr i32, ptr {s.wtag}, i32 {g}')}")

    f.repeat(granules, one)


def land(m: Needs, f: Fn, s: Shared, offset: str, granules: str, tag: str, site: str) -> None:
    """Granules from a byte offset have been written by the access `tag` at `site`."""
    first = s.granule_of(f, offset)

    def one(k: str) -> None:
        g = f.let(f"add i32 {first}, {k}")
        f(f"  store i32 {tag}, ptr {f.let(f'getelementptr i32, ptr {s.wtag}, i32 {g}')}")
        f(f"  store i32 {site}, ptr {f.let(f'getelementptr i32, ptr {s.winsn}, i32 {g}')}")

    f.repeat(granules, one)


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
    f.put(r, CopyRecord, "mask", f.let(f"xor i32 {left}, {lanes}"))
    words, insn = f.get(r, CopyRecord, "words"), f.get(r, CopyRecord, "insn")
    granules = f.let(f"mul i32 {words}, {4 // m.granule}")

    def lane(k: str) -> None:
        offset = f.let(f"load i32, ptr {f.at(r, CopyRecord, 'target', k)}")

        def word(w: str) -> None:
            place = f.let(f"add i32 {f.let(f'mul i32 {w}, {LANES}')}, {k}")
            value = f.let(f"load i32, ptr {f.at(r, CopyRecord, 'data', place)}")
            to = f.let(f"add i32 {offset}, {f.let(f'shl i32 {w}, 2')}")
            f(f"  store i32 {value}, ptr {f.let(f'getelementptr i8, ptr {s.memory}, i32 {to}')}, align 4")

        f.repeat(words, word)
        land(m, f, s, offset, granules, "%tag", f.let(f"or i32 {f.let(f'shl i32 {insn}, 5')}, {k}"))

    f.each_lane(lanes, lane)


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
        one = f.let(f"insertelement {VECTOR} poison, i32 %pending, i32 0")
        keep = f.let(f"shufflevector {VECTOR} {one}, {VECTOR} poison, {VECTOR} zeroinitializer")
        group = f.let(f"load {VECTOR}, ptr {f.at('%warp', Warp, 'group')}, align 4")
        bound = f.let(f"call {VECTOR} @llvm.usub.sat.v32i32({VECTOR} {group}, {VECTOR} {keep})")
        everything = f.let("icmp eq i32 %pending, -1")
        bound = f.let(f"select i1 {everything}, {VECTOR} splat (i32 -1), {VECTOR} {bound}")
        mine, upto = f.get("%warp", Warp, "mine"), f.get("%warp", Warp, "next_copy")
        f(f"  call void @{finish(m)}(ptr %ctx, ptr %warp, i32 %mask, {VECTOR} {bound}, i32 {upto}, i32 {mine})")
        f("  ret void")
        return f.text()

    return need(m, "copies_wait", build)
