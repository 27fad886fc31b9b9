"""What all access helpers share: making them on demand, reporting faults and hazards, signatures."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Protocol

from harness.emulator import layout as L
from harness.emulator.irtext import Fn
from harness.emulator.layout import LANES, BufferEntry, Context, Hazard, Warp


class Needs(Protocol):
    """What collects the helpers of one module."""

    helpers: dict[str, str]
    outline: bool
    granule: int  # bytes of shared memory that the shadow tells apart: the kernel's smallest access
    exact: bool  # whether the kernel synchronises by other means than __syncthreads() and __syncwarp()
    restarts: bool  # whether a warp's interval may change while its function runs
    communicates: bool  # whether blocks can wait for each other (sharing.py)
    unit: int  # bytes that one entry of the shadow of global memory stands for
    alone: bool  # one thread without blocks: solve()
    counted: bool  # whether its memory traffic is counted
    traced: bool  # whether single requests are kept, to be drawn


def need(m: Needs, name: str, build: Callable[[Needs, str], str]) -> str:
    """The helper's name, after making sure that it exists."""
    if name not in m.helpers:
        m.helpers[name] = ""  # reserve the place: helpers may need each other
        m.helpers[name] = build(m, name)
    return name


def inlined(m: Needs) -> str:
    return "noinline" if m.outline else "alwaysinline"


def fault_helper(m: Needs, name: str) -> str:
    f = Fn(
        f"define internal void @{name}(ptr %ctx, ptr %warp, i32 %insn, i32 %lane, i64 %address, i32 %bytes) "
        "noinline cold {"
    )
    f("entry:")
    f.put("%ctx", Context, "fault_kind", str(L.F_ACCESS))
    for field, value in (("insn", "%insn"), ("lane", "%lane"), ("bytes", "%bytes"), ("address", "%address")):
        f.put("%ctx", Context, f"fault_{field}", value)
    f.put("%ctx", Context, "fault_warp", f.get("%warp", Warp, "number"))
    f("  ret void")
    return f.text()


def hazard_helper(m: Needs, name: str) -> str:
    """Record a hazard once for each instruction and kind; races between the lanes of one warp apart from others."""
    f = Fn(
        f"define internal void @{name}(ptr %ctx, ptr %warp, i32 %kind, i32 %insn, i32 %lane, i64 %address, "
        "i32 %tag, i32 %other) noinline cold {"
    )
    f("entry:")
    seen = f.get("%ctx", Context, "seen", pointer=True)
    p = f.let(f"getelementptr i32, ptr {seen}, i32 %insn")
    old = f.let(f"load i32, ptr {p}")
    bit = f.let(f"shl i32 1, {_distinct_kind(f)}")
    fresh = f.let(f"icmp eq i32 {f.let(f'and i32 {old}, {bit}')}, 0")
    count = f.get("%ctx", Context, "nhazards")
    room = f.let(f"icmp ult i64 {count}, {f.get('%ctx', Context, 'max_hazards')}")

    def record() -> None:
        f(f"  store i32 {f.let(f'or i32 {old}, {bit}')}, ptr {p}")
        base = f.get("%ctx", Context, "hazards", pointer=True)
        row = f.let(f"getelementptr [{ctypes.sizeof(Hazard)} x i8], ptr {base}, i64 {count}")
        for field, value in (
            ("kind", "%kind"),
            ("insn", "%insn"),
            ("lane", "%lane"),
            ("address", "%address"),
            ("tag", "%tag"),
            ("other", "%other"),
        ):
            f.put(row, Hazard, field, value)
        f.put(row, Hazard, "warp", f.get("%warp", Warp, "number"))
        f.put(row, Hazard, "block", f.get("%ctx", Context, "block"))
        f.put("%ctx", Context, "nhazards", f.let(f"add i64 {count}, 1"))

    f.when(f.let(f"and i1 {fresh}, {room}"), record)
    f("  ret void")
    return f.text()


def _distinct_kind(f: Fn) -> str:
    """The kind, or another number where a race on shared memory is with a lane of the same warp."""
    number = f.get("%warp", Warp, "number")
    difference = f.let(f"xor i32 %tag, {number}")
    same = f.let(f"icmp eq i32 {f.let(f'and i32 {difference}, {L.SEVERAL_LANES - 1}')}, 0")
    of_warp = f.let(f"icmp ult i32 {f.let(f'and i32 %tag, {L.CLOCK_STEP - 1}')}, {L.STRONG + L.SEVERAL_LANES}")
    races = sum(1 << kind for kind in L.SHARED_RACES)
    race = f.let(f"trunc i32 {f.let(f'lshr i32 {races}, %kind')} to i1")
    within = f.let(f"and i1 {race}, {f.let(f'and i1 {same}, {of_warp}')}")
    return f.let(f"add i32 %kind, {f.let(f'select i1 {within}, i32 16, i32 0')}")


def fault(m: Needs, f: Fn, lane: str, address: str, nbytes: int) -> None:
    name = need(m, "fault", fault_helper)
    f(f"  call void @{name}(ptr %ctx, ptr %warp, i32 %insn, i32 {lane}, i64 {address}, i32 {nbytes})")


def hazard(m: Needs, f: Fn, kind: str | int, lane: str, address: str, tag: str = "0", other: str = "0") -> None:
    name = need(m, "hazard", hazard_helper)
    operands = f"i32 {kind}, i32 %insn, i32 {lane}, i64 {address}, i32 {tag}, i32 {other}"
    f(f"  call void @{name}(ptr %ctx, ptr %warp, {operands})")


def buffer_row(f: Fn, address: str) -> str:
    """The buffer table's row for an address: null's (size 0) where the id is unknown."""
    table = f.get("%ctx", Context, "buffers", pointer=True, constant=True)
    number = f.let(f"lshr i64 {address}, {L.WINDOW_BITS}")
    known = f.let(f"icmp ult i64 {number}, {f.get('%ctx', Context, 'nbuffers', constant=True)}")
    safe = f.let(f"select i1 {known}, i64 {number}, i64 0")
    return f.let(f"getelementptr [{ctypes.sizeof(BufferEntry)} x i8], ptr {table}, i64 {safe}")


def values_type(bits: int, n: int, vector: bool) -> str:
    one = f"<{LANES} x i{bits}>" if vector else f"i{bits}"
    return "{ " + ", ".join([one] * n + ["i1"]) + " }"


def give(f: Fn, kind: str, values: list[str], types: list[str], ok: str) -> None:
    """ret { values..., i1 ok }"""
    result = "poison"
    for k, (v, t) in enumerate(zip(values, types, strict=True)):
        result = f.let(f"insertvalue {kind} {result}, {t} {v}, {k}")
    result = f.let(f"insertvalue {kind} {result}, i1 {ok}, {len(values)}")
    f(f"  ret {kind} {result}")


def first_lane(f: Fn, mask: str = "%mask") -> str:
    return f.let(f"call i32 @llvm.cttz.i32(i32 {mask}, i1 false)")


def within(f: Fn, offset: str, span: str | int, size: str, aligned_to: int, address: str, wide: str = "i64") -> str:
    """offset .. offset+span lies in size, and the address is aligned."""
    inside = f.let(f"icmp ult {wide} {offset}, {size}")
    end = f.let(f"add {wide} {offset}, {span}")
    ok = f.let(f"and i1 {inside}, {f.let(f'icmp ule {wide} {end}, {size}')}")
    if aligned_to > 1:
        low = f.let(f"and {wide} {address}, {aligned_to - 1}")
        ok = f.let(f"and i1 {ok}, {f.let(f'icmp eq {wide} {low}, 0')}")
    return ok


def reject(m: Needs, f: Fn, ok: str, lane: str, address: str, total: int) -> None:
    bad, good = f.new_label(), f.new_label()
    f(f"  br i1 {ok}, label %{good}, label %{bad}, !prof !2\n{bad}:")
    fault(m, f, lane, address, total)
    f(f"  br label %bad\n{good}:")


def copy_elements(f: Fn, p: str, places: list[str], nbytes: int, store: bool) -> None:
    bits = 8 * nbytes
    for k, place in enumerate(places):
        q = p if k == 0 else f.let(f"getelementptr i8, ptr {p}, i64 {k * nbytes}")
        source, target = (place, q) if store else (q, place)
        f(f"  store i{bits} {f.let(f'load i{bits}, ptr {source}, align {nbytes}')}, ptr {target}, align {nbytes}")
