"""Checked memory access: helper functions in LLVM IR, made on demand for one width.

Every access is checked for bounds, alignment, write permission and initialisation; shared memory also for races
between warps (layout.py: tags). A helper comes in up to three forms:

    u   one address for all lanes: scalar code, inlined
    v   an address a lane, inlined: the case of consecutive addresses is checked and moved as one vector;
        everything else goes to
    s   out of line: a gather where all is well, else lane by lane, which also finds the lane at fault

A helper returns its values and `ok`; where not ok, @fault has filled Context.fault_*. Hazards (uninitialised reads,
races) are recorded by @hazard and do not stop the run.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Protocol

from harness.emulator import layout as L
from harness.emulator.irtext import Fn
from harness.emulator.layout import BufferEntry, Context, Hazard, Warp

LANES = L.LANES


class Needs(Protocol):
    """What collects the helpers of one module."""

    helpers: dict[str, str]
    outline: bool


def need(m: Needs, name: str, build: Callable[[Needs, str], str]) -> str:
    """The helper's name, after making sure that it exists."""
    if name not in m.helpers:
        m.helpers[name] = ""  # reserve the place: helpers may need each other
        m.helpers[name] = build(m, name)
    return name


def inlined(m: Needs) -> str:
    return "noinline" if m.outline else "alwaysinline"


def iota(kind: str, step: int = 1, divide: int = 1, count: int = LANES) -> str:
    return "<" + ", ".join(f"{kind} {n // divide * step}" for n in range(count)) + ">"


def repeat(times: int) -> str:
    """Shuffle mask that repeats each of 32 lanes."""
    return f"<{LANES * times} x i32> <" + ", ".join(f"i32 {n // times}" for n in range(LANES * times)) + ">"


def every(n: int, k: int) -> str:
    """Shuffle mask that picks element k of each group of n."""
    return f"<{LANES} x i32> <" + ", ".join(f"i32 {lane * n + k}" for lane in range(LANES)) + ">"


# -- reporting


def fault_helper(m: Needs, name: str) -> str:
    f = Fn(f"define internal void @{name}(ptr %ctx, ptr %warp, i32 %insn, i32 %lane, i64 %address, i32 %bytes) noinline cold {{")
    f("entry:")
    f.put("%ctx", Context, "fault_kind", str(L.F_ACCESS))
    for field, value in (("insn", "%insn"), ("lane", "%lane"), ("bytes", "%bytes"), ("address", "%address")):
        f.put("%ctx", Context, f"fault_{field}", value)
    f.put("%ctx", Context, "fault_warp", f.get("%warp", Warp, "number"))
    f("  ret void")
    return f.text()


def hazard_helper(m: Needs, name: str) -> str:
    """Record a hazard once for each instruction and kind."""
    f = Fn(f"define internal void @{name}(ptr %ctx, ptr %warp, i32 %kind, i32 %insn, i32 %lane, i64 %address, i32 %tag, i32 %other) noinline cold {{")
    f("entry:")
    seen = f.get("%ctx", Context, "seen", pointer=True)
    p = f.let(f"getelementptr i8, ptr {seen}, i32 %insn")
    old = f.let(f"load i8, ptr {p}")
    bit = f.let(f"shl i8 1, {f.let('trunc i32 %kind to i8')}")
    fresh = f.let(f"icmp eq i8 {f.let(f'and i8 {old}, {bit}')}, 0")
    count = f.get("%ctx", Context, "nhazards")
    room = f.let(f"icmp ult i64 {count}, {f.get('%ctx', Context, 'max_hazards')}")

    def record() -> None:
        f(f"  store i8 {f.let(f'or i8 {old}, {bit}')}, ptr {p}")
        base = f.get("%ctx", Context, "hazards", pointer=True)
        row = f.let(f"getelementptr [{ctypes.sizeof(Hazard)} x i8], ptr {base}, i64 {count}")
        for field, value in (("kind", "%kind"), ("insn", "%insn"), ("lane", "%lane"), ("address", "%address"), ("tag", "%tag"), ("other", "%other")):
            f.put(row, Hazard, field, value)
        f.put(row, Hazard, "warp", f.get("%warp", Warp, "number"))
        f.put(row, Hazard, "block", f.get("%ctx", Context, "block"))
        f.put("%ctx", Context, "nhazards", f.let(f"add i64 {count}, 1"))

    f.when(f.let(f"and i1 {fresh}, {room}"), record)
    f("  ret void")
    return f.text()


def fault(m: Needs, f: Fn, lane: str, address: str, nbytes: int) -> None:
    f(f"  call void @{need(m, 'fault', fault_helper)}(ptr %ctx, ptr %warp, i32 %insn, i32 {lane}, i64 {address}, i32 {nbytes})")


def hazard(m: Needs, f: Fn, kind: str | int, lane: str, address: str, tag: str = "0", other: str = "0") -> None:
    f(f"  call void @{need(m, 'hazard', hazard_helper)}(ptr %ctx, ptr %warp, i32 {kind}, i32 %insn, i32 {lane}, i64 {address}, i32 {tag}, i32 {other})")


# -- shapes of signatures


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


# -- global memory


class Entry:
    """The buffer table's row for an address: null's (size 0) where the id is unknown."""

    def __init__(self, f: Fn, address: str, store: bool):
        table = f.get("%ctx", Context, "buffers", pointer=True, constant=True)
        number = f.let(f"lshr i64 {address}, {L.WINDOW_BITS}")
        known = f.let(f"icmp ult i64 {number}, {f.get('%ctx', Context, 'nbuffers', constant=True)}")
        safe = f.let(f"select i1 {known}, i64 {number}, i64 0")
        row = f.let(f"getelementptr [{ctypes.sizeof(BufferEntry)} x i8], ptr {table}, i64 {safe}")
        self.base = f.get(row, BufferEntry, "base", constant=True)
        self.size = f.get(row, BufferEntry, "writable" if store else "size", constant=True)
        self.host = f.get(row, BufferEntry, "host", pointer=True, constant=True)
        self.shadow = f.get(row, BufferEntry, "shadow", pointer=True, constant=True)
        self.tracked = f.let(f"icmp ne ptr {self.shadow}, null")


def _within(f: Fn, offset: str, span: str | int, size: str, aligned_to: int, address: str, wide: str = "i64") -> str:
    """offset .. offset+span lies in size, and the address is aligned."""
    inside = f.let(f"icmp ult {wide} {offset}, {size}")
    end = f.let(f"add {wide} {offset}, {span}")
    ok = f.let(f"and i1 {inside}, {f.let(f'icmp ule {wide} {end}, {size}')}")
    if aligned_to > 1:
        low = f.let(f"and {wide} {address}, {aligned_to - 1}")
        ok = f.let(f"and i1 {ok}, {f.let(f'icmp eq {wide} {low}, 0')}")
    return ok


def global_u(m: Needs, name: str, nbytes: int, n: int, store: bool) -> str:
    bits, total = 8 * nbytes, nbytes * n
    kind = "i1" if store else values_type(bits, n, vector=False)
    operands = "".join(f", i{bits} %v{k}" for k in range(n)) if store else ""
    f = Fn(f"define internal {kind} @{name}(ptr %ctx, ptr %warp, i64 %a{operands}, i32 %mask, i32 %insn) {inlined(m)} {{")
    f("entry:")
    e = Entry(f, "%a", store)
    rel = f.let(f"sub i64 %a, {e.base}")
    ok = _within(f, rel, total, e.size, total, "%a")
    f(f"  br i1 {ok}, label %good, label %bad, !prof !2\nbad:")
    fault(m, f, first_lane(f), "%a", total)
    f(f"  ret {kind} zeroinitializer\ngood:" if not store else "  ret i1 false\ngood:")
    p = f.let(f"getelementptr i8, ptr {e.host}, i64 {rel}")
    word = f.let(f"getelementptr i8, ptr {e.shadow}, i64 {f.let(f'lshr i64 {rel}, 2')}")
    words = max(1, total // 4)
    ones = int.from_bytes(b"\1" * words, "little")
    places = [p] + [f.let(f"getelementptr i8, ptr {p}, i64 {k * nbytes}") for k in range(1, n)]
    if store:
        for k, q in enumerate(places):
            f(f"  store i{bits} %v{k}, ptr {q}, align {nbytes}")
        f.when(e.tracked, lambda: f(f"  store i{8 * words} {ones}, ptr {word}, align 1"))
        f("  ret i1 true")
        return f.text()
    values = [f.let(f"load i{bits}, ptr {q}, align {nbytes}") for q in places]

    def check() -> None:
        state = f.let(f"load i{8 * words}, ptr {word}, align 1")
        bad = f.let(f"icmp ne i{8 * words} {state}, {ones}")
        f.when(bad, lambda: hazard(m, f, L.H_UNINIT_GLOBAL, first_lane(f), "%a"), likely=False)

    f.when(e.tracked, check)
    give(f, kind, values, [f"i{bits}"] * n, "true")
    return f.text()


def _lead(f: Fn, a: str, wide: str, total: int) -> tuple[str, str, str]:
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


def _span(f: Fn, first: str, total: int, wide: str) -> str:
    """Bytes from the first to the last running lane's element."""
    zeros = f.let("call i32 @llvm.ctlz.i32(i32 %mask, i1 false)")
    lanes = f.let(f"sub i32 {f.let(f'sub i32 32, {zeros}')}, {first}")
    span = f.let(f"mul i32 {lanes}, {total}")
    return span if wide == "i32" else f.let(f"zext i32 {span} to i64")


def _lane_mask(f: Fn, times: int) -> str:
    v = f.let("bitcast i32 %mask to <32 x i1>")
    return v if times == 1 else f.let(f"shufflevector <32 x i1> {v}, <32 x i1> poison, {repeat(times)}")


def _masked_load(f: Fn, p: str, bits: int, n: int, align: int) -> list[str]:
    """n values a lane from consecutive memory."""
    t = f"<{LANES * n} x i{bits}>"
    v = f.let(f"call {t} @llvm.masked.load.v{LANES * n}i{bits}.p0(ptr {p}, i32 {align}, <{LANES * n} x i1> {_lane_mask(f, n)}, {t} zeroinitializer)")
    if n == 1:
        return [v]
    return [f.let(f"shufflevector {t} {v}, {t} poison, {every(n, k)}") for k in range(n)]


def _masked_store(f: Fn, p: str, values: list[str], bits: int, align: int) -> None:
    n = len(values)
    v = _interleave(f, values, bits)
    t = f"<{LANES * n} x i{bits}>"
    f(f"  call void @llvm.masked.store.v{LANES * n}i{bits}.p0({t} {v}, ptr {p}, i32 {align}, <{LANES * n} x i1> {_lane_mask(f, n)})")


def _interleave(f: Fn, values: list[str], bits: int) -> str:
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


def global_v(m: Needs, name: str, nbytes: int, n: int, store: bool) -> str:
    bits, total = 8 * nbytes, nbytes * n
    vt = f"<{LANES} x i{bits}>"
    kind = "i1" if store else values_type(bits, n, vector=True)
    operands = "".join(f", {vt} %v{k}" for k in range(n)) if store else ""
    f = Fn(f"define internal {kind} @{name}(ptr %ctx, ptr %warp, <32 x i64> %a{operands}, i32 %mask, i32 %insn, ptr %res) {inlined(m)} {{")
    f("entry:")
    first, start, consecutive = _lead(f, "%a", "i64", total)
    f(f"  br i1 {consecutive}, label %line, label %slow, !prof !2\nline:")
    a0 = f.let(f"extractelement <32 x i64> %a, i32 {first}")
    e = Entry(f, a0, store)
    rel = f.let(f"sub i64 {a0}, {e.base}")
    ok = _within(f, rel, _span(f, first, total, "i64"), e.size, total, a0)
    if total < 4:  # the shadow counts words; part-words go the slow way
        ok = f.let(f"and i1 {ok}, {f.let(f'icmp eq ptr {e.shadow}, null')}")
    f(f"  br i1 {ok}, label %good, label %slow, !prof !2\ngood:")
    lead = f.let(f"sub i64 {start}, {e.base}")
    p = f.let(f"getelementptr i8, ptr {e.host}, i64 {lead}")
    words = max(1, total // 4)
    values = [f"%v{k}" for k in range(n)]
    if store:
        _masked_store(f, p, values, bits, total)
        if total >= 4:
            f.when(e.tracked, lambda: _mark_line(f, e, lead, words))
        f("  ret i1 true\nslow:")
        for k in range(n):
            f(f"  store {vt} %v{k}, ptr {f.let(f'getelementptr i8, ptr %res, i64 {k * LANES * nbytes}')}, align 4")
        done = f.let(f"call i1 @{slow(m, 'global', nbytes, n, store)}(ptr %ctx, ptr %warp, <32 x i64> %a, i32 %mask, i32 %insn, ptr %res)")
        f(f"  ret i1 {done}")
        return f.text()
    _prefetch(f, p)
    values = _masked_load(f, p, bits, n, total)
    if total >= 4:
        f.when(e.tracked, lambda: _check_line(m, f, e, lead, words))
    give(f, kind, values, [vt] * n, "true")
    f("slow:")
    done = f.let(f"call i1 @{slow(m, 'global', nbytes, n, store)}(ptr %ctx, ptr %warp, <32 x i64> %a, i32 %mask, i32 %insn, ptr %res)")
    give(f, kind, _results(f, bits, n), [vt] * n, done)
    return f.text()


def _prefetch(f: Fn, p: str) -> None:
    """Fetch what this instruction will want four loads from now, if it goes on as it did in the last four. A cache that
    is read with a large stride (one head of a paged KV cache) would otherwise wait for every line."""
    row = f.let(f"getelementptr [32 x i8], ptr {f.get('%ctx', Context, 'history', pointer=True, constant=True)}, i32 %insn")
    last = f.let(f"load <4 x i64>, ptr {row}, align 16")
    now = f.let(f"ptrtoint ptr {p} to i64")
    step = f.let(f"sub i64 {now}, {f.let(f'extractelement <4 x i64> {last}, i32 3')}")
    moved = f.let(f"shufflevector <4 x i64> {last}, <4 x i64> poison, <4 x i32> <i32 0, i32 0, i32 1, i32 2>")
    f(f"  store <4 x i64> {f.let(f'insertelement <4 x i64> {moved}, i64 {now}, i32 0')}, ptr {row}, align 16")
    ahead = f.let(f"getelementptr i8, ptr {p}, i64 {step}")
    for line in (0, 64):
        q = f.let(f"getelementptr i8, ptr {ahead}, i64 {line}")
        f(f"  call void @llvm.prefetch.p0(ptr {q}, i32 0, i32 3, i32 1)")


def _results(f: Fn, bits: int, n: int) -> list[str]:
    step = LANES * bits // 8
    return [f.let(f"load <{LANES} x i{bits}>, ptr {f.let(f'getelementptr i8, ptr %res, i64 {k * step}')}, align 4") for k in range(n)]


def _mark_line(f: Fn, e: Entry, lead: str, words: int) -> None:
    q = f.let(f"getelementptr i8, ptr {e.shadow}, i64 {f.let(f'ashr i64 {lead}, 2')}")
    t = f"<{LANES * words} x i8>"
    f(f"  call void @llvm.masked.store.v{LANES * words}i8.p0({t} splat (i8 1), ptr {q}, i32 1, <{LANES * words} x i1> {_lane_mask(f, words)})")


def _check_line(m: Needs, f: Fn, e: Entry, lead: str, words: int) -> None:
    q = f.let(f"getelementptr i8, ptr {e.shadow}, i64 {f.let(f'ashr i64 {lead}, 2')}")
    t = f"<{LANES * words} x i8>"
    state = f.let(f"call {t} @llvm.masked.load.v{LANES * words}i8.p0(ptr {q}, i32 1, <{LANES * words} x i1> {_lane_mask(f, words)}, {t} splat (i8 1))")
    zero = f.let(f"icmp eq {t} {state}, zeroinitializer")
    bits = f.let(f"bitcast <{LANES * words} x i1> {zero} to i{LANES * words}")
    some = f.let(f"icmp ne i{LANES * words} {bits}, 0")

    def report() -> None:
        at = f.let(f"call i{LANES * words} @llvm.cttz.i{LANES * words}(i{LANES * words} {bits}, i1 true)")
        at = at if LANES * words == 32 else f.let(f"trunc i{LANES * words} {at} to i32")
        lane = f.let(f"udiv i32 {at}, {words}")
        hazard(m, f, L.H_UNINIT_GLOBAL, lane, f.let(f"extractelement <32 x i64> %a, i32 {lane}"))

    f.when(some, report, likely=False)


def slow(m: Needs, space: str, nbytes: int, n: int, store: bool, ordered: bool = False) -> str:
    """Name of the out-of-line form: (ctx, warp, <32 x i64> addresses, mask, insn, ptr values) -> ok. Values of a
    store are read from, of a load written to, `values`: element k of lane l at (k * 32 + l) * nbytes."""
    body = {"global": _global_lane, "shared": _shared_lane, "local": _local_lane}[space]
    name = f"{space}_{'st' if store else 'ld'}{'o' if ordered else ''}_s_{nbytes}x{n}"

    def build(m: Needs, name: str) -> str:
        f = Fn(f"define internal i1 @{name}(ptr %ctx, ptr %warp, <32 x i64> %a, i32 %mask, i32 %insn, ptr %res) noinline {{")
        f("entry:\n  %addresses = alloca <32 x i64>")
        if n == 1 and not store and nbytes in (4, 8) and space == "global":
            _gather_global(m, f, nbytes)
        if n == 1 and nbytes == 4 and space == "shared" and not ordered:
            _shared_gather(m, f, store)
        f("  store <32 x i64> %a, ptr %addresses")

        def one(lane: str) -> None:
            a = f.let(f"load i64, ptr {f.let(f'getelementptr i64, ptr %addresses, i32 {lane}')}")
            places = []
            for k in range(n):
                at = lane if k == 0 else f.let(f"add i32 {lane}, {k * LANES}")
                places.append(f.let(f"getelementptr i{8 * nbytes}, ptr %res, i32 {at}"))
            body(m, f, lane, a, places, nbytes, store, ordered)

        f.each_lane("%mask", one)
        f("  ret i1 true\nbad:\n  ret i1 false")
        return f.text()

    return need(m, name, build)


def _reject(m: Needs, f: Fn, ok: str, lane: str, address: str, total: int) -> None:
    bad, good = f.new_label(), f.new_label()
    f(f"  br i1 {ok}, label %{good}, label %{bad}, !prof !2\n{bad}:")
    fault(m, f, lane, address, total)
    f(f"  br label %bad\n{good}:")


def _copy(f: Fn, p: str, places: list[str], nbytes: int, store: bool) -> None:
    bits = 8 * nbytes
    for k, place in enumerate(places):
        q = p if k == 0 else f.let(f"getelementptr i8, ptr {p}, i64 {k * nbytes}")
        source, target = (place, q) if store else (q, place)
        f(f"  store i{bits} {f.let(f'load i{bits}, ptr {source}, align {nbytes}')}, ptr {target}, align {nbytes}")


def _global_lane(m: Needs, f: Fn, lane: str, a: str, places: list[str], nbytes: int, store: bool, ordered: bool) -> None:
    total = nbytes * len(places)
    e = Entry(f, a, store)
    rel = f.let(f"sub i64 {a}, {e.base}")
    _reject(m, f, _within(f, rel, total, e.size, total, a), lane, a, total)
    _copy(f, f.let(f"getelementptr i8, ptr {e.host}, i64 {rel}"), places, nbytes, store)

    def shadow() -> None:
        first = f.let(f"getelementptr i8, ptr {e.shadow}, i64 {f.let(f'lshr i64 {rel}, 2')}")
        for w in range(max(1, total // 4)):
            q = f.let(f"getelementptr i8, ptr {first}, i64 {w}")
            if store:
                f(f"  store i8 1, ptr {q}")
            else:
                unset = f.let(f"icmp eq i8 {f.let(f'load i8, ptr {q}')}, 0")
                f.when(unset, lambda: hazard(m, f, L.H_UNINIT_GLOBAL, lane, a), likely=False)

    f.when(e.tracked, shadow)


def _gather_global(m: Needs, f: Fn, nbytes: int) -> None:
    """All running lanes read one initialised buffer, in bounds and aligned: one gather."""
    bits = 8 * nbytes
    first = first_lane(f)
    a0 = f.let(f"extractelement <32 x i64> %a, i32 {first}")
    e = Entry(f, a0, store=False)
    roomy = f.let(f"icmp uge i64 {e.size}, {nbytes}")
    plain = f.let(f"and i1 {roomy}, {f.let(f'icmp eq ptr {e.shadow}, null')}")
    gather, check, lanes = f.new_label(), f.new_label(), f.new_label()
    f(f"  br i1 {plain}, label %{check}, label %{lanes}\n{check}:")
    base = _splat(f, e.base, "i64")
    rel = f.let(f"sub <32 x i64> %a, {base}")
    limit = _splat(f, f.let(f"sub i64 {e.size}, {nbytes - 1}"), "i64")
    inside = f.let(f"icmp ult <32 x i64> {rel}, {limit}")
    low = f.let(f"and <32 x i64> %a, splat (i64 {nbytes - 1})")
    fine = f.let(f"and <32 x i1> {inside}, {f.let(f'icmp eq <32 x i64> {low}, zeroinitializer')}")
    bad = _missing(f, fine)
    f(f"  br i1 {f.let(f'icmp eq i32 {bad}, 0')}, label %{gather}, label %{lanes}\n{gather}:")
    pointers = f.let(f"getelementptr i8, ptr {e.host}, <32 x i64> {rel}")
    mask = f.let("bitcast i32 %mask to <32 x i1>")
    v = f.let(f"call <32 x i{bits}> @llvm.masked.gather.v32i{bits}.v32p0(<32 x ptr> {pointers}, i32 {nbytes}, <32 x i1> {mask}, <32 x i{bits}> zeroinitializer)")
    f(f"  call void @llvm.masked.store.v32i{bits}.p0(<32 x i{bits}> {v}, ptr %res, i32 4, <32 x i1> {mask})")
    f(f"  ret i1 true\n{lanes}:")


def _missing(f: Fn, fine: str) -> str:
    """Running lanes for which `fine` (<32 x i1>) does not hold."""
    bits = f.let(f"bitcast <32 x i1> {fine} to i32")
    return f.let(f"and i32 %mask, {f.let(f'xor i32 {bits}, -1')}")


def _splat(f: Fn, value: str, kind: str) -> str:
    one = f.let(f"insertelement <32 x {kind}> poison, {kind} {value}, i32 0")
    return f.let(f"shufflevector <32 x {kind}> {one}, <32 x {kind}> poison, <32 x i32> zeroinitializer")


# -- shared memory


class Shared:
    """The block's shared memory, its shadow arrays and the current tags."""

    def __init__(self, f: Fn):
        def pointer(name: str) -> str:
            return f.get("%ctx", Context, name, pointer=True, constant=True)

        self.memory, self.wtag, self.winsn = pointer("shared"), pointer("wtag"), pointer("winsn")
        self.rtag, self.rinsn = pointer("rtag"), pointer("rinsn")
        self.size = f.let(f"trunc i64 {f.get('%ctx', Context, 'shared_bytes', constant=True)} to i32")
        self.epoch = f.get("%ctx", Context, "etag", constant=True)
        self.start = f.get("%ctx", Context, "start_tag", constant=True)
        self.mine = f.let(f"add i32 {self.epoch}, {f.get('%warp', Warp, 'number', constant=True)}")
        self.many = f.let(f"add i32 {self.epoch}, {L.TAG_MANY}")


def _ordered_tag(f: Fn, s: Shared, tag: str, width: int = 0) -> str:
    """Whether the tagged access is ordered before this one: an earlier epoch, or this warp."""
    t = f"<{width} x i32>" if width else "i32"
    epoch = s.epoch if not width else _splat_n(f, s.epoch, width)
    mine = s.mine if not width else _splat_n(f, s.mine, width)
    b = f"<{width} x i1>" if width else "i1"
    return f.let(f"or {b} {f.let(f'icmp ult {t} {tag}, {epoch}')}, {f.let(f'icmp eq {t} {tag}, {mine}')}")


def _splat_n(f: Fn, value: str, count: int) -> str:
    one = f.let(f"insertelement <{count} x i32> poison, i32 {value}, i32 0")
    return f.let(f"shufflevector <{count} x i32> {one}, <{count} x i32> poison, <{count} x i32> zeroinitializer")


def shared_u(m: Needs, name: str, nbytes: int, n: int, store: bool, ordered: bool) -> str:
    bits, total = 8 * nbytes, nbytes * n
    kind = "i1" if store else values_type(bits, n, vector=False)
    operands = "".join(f", i{bits} %v{k}" for k in range(n)) if store else ""
    f = Fn(f"define internal {kind} @{name}(ptr %ctx, ptr %warp, i32 %a{operands}, i32 %mask, i32 %insn) {inlined(m)} {{")
    f("entry:")
    s = Shared(f)
    ok = _within(f, "%a", total, s.size, total, "%a", "i32")
    f(f"  br i1 {ok}, label %good, label %bad, !prof !2\nbad:")
    fault(m, f, first_lane(f), f.let("zext i32 %a to i64"), total)
    f(f"  ret {kind} zeroinitializer\ngood:" if not store else "  ret i1 false\ngood:")
    p = f.let(f"getelementptr i8, ptr {s.memory}, i32 %a")
    places = [p] + [f.let(f"getelementptr i8, ptr {p}, i64 {k * nbytes}") for k in range(1, n)]
    if store:
        for w in range(max(1, total // 4)):
            _shared_word(m, f, s, "%a", w, None, lambda w=w: _word_of(f, bits, w), total < 4, ordered)  # type: ignore[misc]
        for k, q in enumerate(places):
            f(f"  store i{bits} %v{k}, ptr {q}, align {nbytes}")
        f("  ret i1 true")
        return f.text()
    values = [f.let(f"load i{bits}, ptr {q}, align {nbytes}") for q in places]
    for w in range(max(1, total // 4)):
        _shared_word(m, f, s, "%a", w, None, None, total < 4, ordered)
    give(f, kind, values, [f"i{bits}"] * n, "true")
    return f.text()


def _shared_word(m: Needs, f: Fn, s: Shared, offset: str, w: int, lane: str | None, new: Callable[[], str] | None,
                 part: bool, ordered: bool) -> None:  # fmt: skip
    """Check and update the shadow of one word at byte offset + 4 w; `new` gives the word to be stored, None for a load.

    Part-word accesses and ordered (volatile, atomic) ones take no part in the search for races, since a word's tag
    cannot tell its bytes apart. Two warps that store the same value are not reported: the result is the same."""
    store = new is not None
    index = f.let(f"lshr i32 {offset}, 2")
    if w:
        index = f.let(f"add i32 {index}, {w}")
    wp = f.let(f"getelementptr i32, ptr {s.wtag}, i32 {index}")
    rp = f.let(f"getelementptr i32, ptr {s.rtag}, i32 {index}")
    writer = f.let(f"load i32, ptr {wp}")

    def who() -> str:
        return lane if lane is not None else first_lane(f)

    def place() -> str:
        return f.let(f"zext i32 {f.let(f'shl i32 {index}, 2')} to i64")

    def other(base: str) -> str:
        return f.let(f"load i32, ptr {f.let(f'getelementptr i32, ptr {base}, i32 {index}')}")

    def stamp() -> str:
        return f.let(f"or i32 {f.let('shl i32 %insn, 5')}, {who()}")

    if part or ordered:
        unset = f.let(f"icmp ult i32 {writer}, {s.start}")
        if store:
            f(f"  store i32 {f.let(f'select i1 {unset}, i32 {s.start}, i32 {writer}')}, ptr {wp}")
        else:
            f.when(unset, lambda: hazard(m, f, L.H_UNINIT_SHARED, who(), place()), likely=False)
        return
    reader = f.let(f"load i32, ptr {rp}")
    w_ok, r_ok = _ordered_tag(f, s, writer), None
    if store:
        r_ok = _ordered_tag(f, s, reader)
        assert new is not None
        word, old = new(), f.let(f"load i32, ptr {f.let(f'getelementptr i32, ptr {s.memory}, i32 {index}')}, align 4")
        clash = f.let(f"and i1 {f.let(f'xor i1 {w_ok}, true')}, {f.let(f'icmp ne i32 {word}, {old}')}")
        f.when(clash, lambda: hazard(m, f, L.H_RACE_WRITE, who(), place(), writer, other(s.winsn)), likely=False)
        f.when(f.let(f"xor i1 {r_ok}, true"), lambda: hazard(m, f, L.H_RACE_READ, who(), place(), reader, other(s.rinsn)), likely=False)
        f(f"  store i32 {s.mine}, ptr {wp}")
        f(f"  store i32 {stamp()}, ptr {f.let(f'getelementptr i32, ptr {s.winsn}, i32 {index}')}")
        return
    unset = f.let(f"icmp ult i32 {writer}, {s.start}")
    bad = f.let(f"or i1 {unset}, {f.let(f'xor i1 {w_ok}, true')}")

    def report() -> None:
        kind = f.let(f"select i1 {unset}, i32 {L.H_UNINIT_SHARED}, i32 {L.H_RACE_WRITE}")
        hazard(m, f, kind, who(), place(), writer, other(s.winsn))

    f.when(bad, report, likely=False)

    def note_reader() -> None:
        old = f.let(f"icmp ult i32 {reader}, {s.epoch}")
        f(f"  store i32 {f.let(f'select i1 {old}, i32 {s.mine}, i32 {s.many}')}, ptr {rp}")
        rip = f.let(f"getelementptr i32, ptr {s.rinsn}, i32 {index}")
        f.when(old, lambda: f(f"  store i32 {stamp()}, ptr {rip}"))

    f.when(f.let(f"icmp ne i32 {reader}, {s.mine}"), note_reader)


def _word_of(f: Fn, bits: int, w: int) -> str:
    """Word w of the scalar values %v0, %v1, ... of `bits` bits each."""
    if bits == 32:
        return f"%v{w}"
    value = f"%v{w // 2}"
    if w % 2:
        value = f.let(f"lshr i64 {value}, 32")
    return f.let(f"trunc i64 {value} to i32")


def shared_v(m: Needs, name: str, nbytes: int, n: int, store: bool, ordered: bool) -> str:
    bits, total = 8 * nbytes, nbytes * n
    vt = f"<{LANES} x i{bits}>"
    kind = "i1" if store else values_type(bits, n, vector=True)
    operands = "".join(f", {vt} %v{k}" for k in range(n)) if store else ""
    f = Fn(f"define internal {kind} @{name}(ptr %ctx, ptr %warp, <32 x i32> %a{operands}, i32 %mask, i32 %insn, ptr %res) {inlined(m)} {{")
    f("entry:")
    if total >= 4 and not ordered:
        first, start, consecutive = _lead(f, "%a", "i32", total)
        f(f"  br i1 {consecutive}, label %line, label %slow, !prof !2\nline:")
        s = Shared(f)
        a0 = f.let(f"extractelement <32 x i32> %a, i32 {first}")
        ok = _within(f, a0, _span(f, first, total, "i32"), s.size, total, a0, "i32")
        f(f"  br i1 {ok}, label %inside, label %slow, !prof !2\ninside:")
        clean = _shared_line(f, s, start, total // 4, store)
        f(f"  br i1 {clean}, label %good, label %slow, !prof !2\ngood:")
        p = f.let(f"getelementptr i8, ptr {s.memory}, i32 {start}")
        if store:
            _masked_store(f, p, [f"%v{k}" for k in range(n)], bits, total)
            f("  ret i1 true\nslow:")
        else:
            give(f, kind, _masked_load(f, p, bits, n, total), [vt] * n, "true")
            f("slow:")
    wide = f.let("zext <32 x i32> %a to <32 x i64>")
    if store:
        for k in range(n):
            f(f"  store {vt} %v{k}, ptr {f.let(f'getelementptr i8, ptr %res, i64 {k * LANES * nbytes}')}, align 4")
    done = f.let(f"call i1 @{slow(m, 'shared', nbytes, n, store, ordered)}(ptr %ctx, ptr %warp, <32 x i64> {wide}, i32 %mask, i32 %insn, ptr %res)")
    if store:
        f(f"  ret i1 {done}")
    else:
        give(f, kind, _results(f, bits, n), [vt] * n, done)
    return f.text()


def _shared_line(f: Fn, s: Shared, start: str, words: int, store: bool) -> str:
    """Shadow of consecutive words: whether all is well; updated if so."""
    width = LANES * words
    t = f"<{width} x i32>"
    mask = _lane_mask(f, words)
    word = f.let(f"ashr i32 {start}, 2")

    def at(base: str) -> str:
        return f.let(f"getelementptr i32, ptr {base}, i32 {word}")

    def load(p: str) -> str:
        return f.let(f"call {t} @llvm.masked.load.v{width}i32.p0(ptr {p}, i32 4, <{width} x i1> {mask}, {t} {_splat_n(f, s.mine, width)})")

    def save(p: str, value: str, where: str) -> None:
        f(f"  call void @llvm.masked.store.v{width}i32.p0({t} {value}, ptr {p}, i32 4, <{width} x i1> {where})")

    def stamp() -> str:
        insn = _splat_n(f, f.let("shl i32 %insn, 5"), width)
        return f.let(f"or {t} {insn}, {iota('i32', 1, words, width)}")

    writer, reader = load(at(s.wtag)), load(at(s.rtag))
    fine = _ordered_tag(f, s, writer, width)
    if store:
        fine = f.let(f"and <{width} x i1> {fine}, {_ordered_tag(f, s, reader, width)}")
    else:
        fine = f.let(f"and <{width} x i1> {fine}, {f.let(f'icmp uge {t} {writer}, {_splat_n(f, s.start, width)}')}")
    clean = f.let(f"icmp eq i{width} {f.let(f'bitcast <{width} x i1> {fine} to i{width}')}, -1")

    def update() -> None:
        if store:
            save(at(s.wtag), _splat_n(f, s.mine, width), mask)
            save(at(s.winsn), stamp(), mask)
            return
        fresh = f.let(f"icmp ult {t} {reader}, {_splat_n(f, s.epoch, width)}")
        ours = f.let(f"or <{width} x i1> {fresh}, {f.let(f'icmp eq {t} {reader}, {_splat_n(f, s.mine, width)}')}")
        save(at(s.rtag), f.let(f"select <{width} x i1> {ours}, {t} {_splat_n(f, s.mine, width)}, {t} {_splat_n(f, s.many, width)}"), mask)
        save(at(s.rinsn), stamp(), f.let(f"and <{width} x i1> {mask}, {fresh}"))

    f.when(clean, update, likely=True)
    return clean


def _shared_gather(m: Needs, f: Fn, store: bool) -> None:
    """Scattered words, in bounds, aligned and without hazard: gathers (and scatters for a store)."""
    s = Shared(f)
    offset = f.let("trunc <32 x i64> %a to <32 x i32>")
    roomy = f.let(f"icmp uge i32 {s.size}, 4")
    check, tags, go, lanes = (f.new_label() for _ in range(4))
    f(f"  br i1 {roomy}, label %{check}, label %{lanes}\n{check}:")
    limit = _splat(f, f.let(f"sub i32 {s.size}, 3"), "i32")
    inside = f.let(f"icmp ult <32 x i32> {offset}, {limit}")
    low = f.let(f"and <32 x i32> {offset}, splat (i32 3)")
    fine = f.let(f"and <32 x i1> {inside}, {f.let(f'icmp eq <32 x i32> {low}, zeroinitializer')}")
    f(f"  br i1 {f.let(f'icmp eq i32 {_missing(f, fine)}, 0')}, label %{tags}, label %{lanes}\n{tags}:")
    mask = f.let("bitcast i32 %mask to <32 x i1>")
    word = f.let(f"lshr <32 x i32> {offset}, splat (i32 2)")

    def pointers(base: str) -> str:
        return f.let(f"getelementptr i32, ptr {base}, <32 x i32> {word}")

    def gather(base: str) -> str:
        return f.let(f"call <32 x i32> @llvm.masked.gather.v32i32.v32p0(<32 x ptr> {pointers(base)}, i32 4, <32 x i1> {mask}, <32 x i32> {_splat(f, s.mine, 'i32')})")

    def scatter(base: str, value: str, where: str) -> None:
        f(f"  call void @llvm.masked.scatter.v32i32.v32p0(<32 x i32> {value}, <32 x ptr> {pointers(base)}, i32 4, <32 x i1> {where})")

    def stamp() -> str:
        return f.let(f"or <32 x i32> {_splat(f, f.let('shl i32 %insn, 5'), 'i32')}, {iota('i32')}")

    writer, reader = gather(s.wtag), gather(s.rtag)
    fine = _ordered_tag(f, s, writer, LANES)
    if store:
        fine = f.let(f"and <32 x i1> {fine}, {_ordered_tag(f, s, reader, LANES)}")
    else:
        fine = _and_set(f, s, fine, writer)
    f(f"  br i1 {f.let(f'icmp eq i32 {_missing(f, fine)}, 0')}, label %{go}, label %{lanes}\n{go}:")
    if store:
        scatter(s.wtag, _splat(f, s.mine, "i32"), mask)
        scatter(s.winsn, stamp(), mask)
        scatter(s.memory, f.let("load <32 x i32>, ptr %res, align 4"), mask)
    else:
        f(f"  call void @llvm.masked.store.v32i32.p0(<32 x i32> {gather(s.memory)}, ptr %res, i32 4, <32 x i1> {mask})")
        same = f.let(f"icmp eq <32 x i32> {reader}, {_splat(f, s.mine, 'i32')}")
        news = _missing(f, same)

        def update() -> None:
            fresh = f.let(f"icmp ult <32 x i32> {reader}, {_splat(f, s.epoch, 'i32')}")
            ours = f.let(f"or <32 x i1> {fresh}, {same}")
            scatter(s.rtag, f.let(f"select <32 x i1> {ours}, <32 x i32> {_splat(f, s.mine, 'i32')}, <32 x i32> {_splat(f, s.many, 'i32')}"), mask)
            scatter(s.rinsn, stamp(), f.let(f"and <32 x i1> {mask}, {fresh}"))

        f.when(f.let(f"icmp ne i32 {news}, 0"), update)
    f(f"  ret i1 true\n{lanes}:")


def _and_set(f: Fn, s: Shared, fine: str, writer: str) -> str:
    start = _splat(f, s.start, "i32")
    return f.let(f"and <32 x i1> {fine}, {f.let(f'icmp uge <32 x i32> {writer}, {start}')}")


def _shared_lane(m: Needs, f: Fn, lane: str, a: str, places: list[str], nbytes: int, store: bool, ordered: bool) -> None:
    total = nbytes * len(places)
    s = Shared(f)
    size = f.let(f"zext i32 {s.size} to i64")
    _reject(m, f, _within(f, a, total, size, total, a), lane, a, total)
    offset = f.let(f"trunc i64 {a} to i32")
    for w in range(max(1, total // 4)):
        source = places[w * 4 // nbytes]
        if nbytes == 8 and w % 2:
            source = f.let(f"getelementptr i8, ptr {source}, i64 4")
        new = (lambda source=source: f.let(f"load i32, ptr {source}, align 4")) if store else None  # type: ignore[misc]
        _shared_word(m, f, s, offset, w, lane, new, total < 4, ordered)
    _copy(f, f.let(f"getelementptr i8, ptr {s.memory}, i64 {a}"), places, nbytes, store)


# -- local memory: 32 lanes interleaved word by word, so that one address for all lanes is one vector


def local_u(m: Needs, name: str, nbytes: int, n: int, store: bool) -> str:
    bits, total = 8 * nbytes, nbytes * n
    vt = f"<{LANES} x i{bits}>"
    kind = "i1" if store else values_type(bits, n, vector=True)
    operands = "".join(f", {vt} %v{k}" for k in range(n)) if store else ""
    f = Fn(f"define internal {kind} @{name}(ptr %ctx, ptr %warp, i64 %a{operands}, i32 %mask, i32 %insn) {inlined(m)} {{")
    f("entry:")
    ok = _within(f, "%a", total, f.get("%ctx", Context, "local_bytes", constant=True), total, "%a")
    f(f"  br i1 {ok}, label %good, label %bad, !prof !2\nbad:")
    fault(m, f, first_lane(f), "%a", total)
    f(f"  ret {kind} zeroinitializer\ngood:" if not store else "  ret i1 false\ngood:")
    memory = f.get("%warp", Warp, "local", pointer=True, constant=True)
    shadow = f.get("%warp", Warp, "local_shadow", pointer=True, constant=True)
    word = f.let("lshr i64 %a, 2")
    for w in range(max(1, total // 4)):
        q = f.let(f"getelementptr i32, ptr {shadow}, i64 {f.let(f'add i64 {word}, {w}')}")
        state = f.let(f"load i32, ptr {q}")
        if store:
            f(f"  store i32 {f.let(f'or i32 {state}, %mask')}, ptr {q}")
        else:
            unset = f.let(f"and i32 %mask, {f.let(f'xor i32 {state}, -1')}")
            f.when(f.let(f"icmp ne i32 {unset}, 0"),
                   lambda unset=unset: hazard(m, f, L.H_UNINIT_LOCAL, first_lane(f, unset), "%a"), likely=False)  # type: ignore[misc]
    mask = f.let("bitcast i32 %mask to <32 x i1>")
    row = f.let(f"getelementptr [128 x i8], ptr {memory}, i64 {word}")
    values = []
    for k in range(n):
        if nbytes < 4:
            values.append(_local_part(f, row, mask, bits, f"%v{k}" if store else ""))
        elif nbytes == 4:
            q = f.let(f"getelementptr i8, ptr {row}, i64 {128 * k}")
            values.append(_local_word(f, q, mask, f"%v{k}" if store else ""))
        else:
            values.append(_local_double(f, row, k, mask, f"%v{k}" if store else ""))
    if store:
        f("  ret i1 true")
    else:
        give(f, kind, values, [vt] * n, "true")
    return f.text()


def _local_word(f: Fn, q: str, mask: str, value: str) -> str:
    if not value:
        return f.let(f"load <32 x i32>, ptr {q}, align 64")
    f(f"  call void @llvm.masked.store.v32i32.p0(<32 x i32> {value}, ptr {q}, i32 64, <32 x i1> {mask})")
    return ""


def _local_double(f: Fn, row: str, k: int, mask: str, value: str) -> str:
    halves = [f.let(f"getelementptr i8, ptr {row}, i64 {128 * (2 * k + h)}") for h in (0, 1)]
    if value:
        _local_word(f, halves[0], mask, f.let(f"trunc <32 x i64> {value} to <32 x i32>"))
        high = f.let(f"lshr <32 x i64> {value}, splat (i64 32)")
        _local_word(f, halves[1], mask, f.let(f"trunc <32 x i64> {high} to <32 x i32>"))
        return ""
    low, high = (f.let(f"zext <32 x i32> {_local_word(f, q, mask, '')} to <32 x i64>") for q in halves)
    return f.let(f"or <32 x i64> {low}, {f.let(f'shl <32 x i64> {high}, splat (i64 32)')}")


def _local_part(f: Fn, row: str, mask: str, bits: int, value: str) -> str:
    shift = _bit_offset(f)
    shifts = _splat(f, shift, "i32")
    old = f.let(f"load <32 x i32>, ptr {row}, align 64")
    if not value:
        return f.let(f"trunc <32 x i32> {f.let(f'lshr <32 x i32> {old}, {shifts}')} to <32 x i{bits}>")
    new = f.let(f"shl <32 x i32> {f.let(f'zext <32 x i{bits}> {value} to <32 x i32>')}, {shifts}")
    field = f.let(f"shl <32 x i32> splat (i32 {(1 << bits) - 1}), {shifts}")
    keep = f.let(f"and <32 x i32> {old}, {f.let(f'xor <32 x i32> {field}, splat (i32 -1)')}")
    _local_word(f, row, mask, f.let(f"or <32 x i32> {keep}, {new}"))
    return ""


def _bit_offset(f: Fn) -> str:
    low = f.let("and i64 %a, 3")
    return f.let(f"trunc i64 {f.let(f'shl i64 {low}, 3')} to i32")


def _local_lane(m: Needs, f: Fn, lane: str, a: str, places: list[str], nbytes: int, store: bool, ordered: bool) -> None:
    total = nbytes * len(places)
    _reject(m, f, _within(f, a, total, f.get("%ctx", Context, "local_bytes"), total, a), lane, a, total)
    memory = f.get("%warp", Warp, "local", pointer=True)
    shadow = f.get("%warp", Warp, "local_shadow", pointer=True)
    bit = f.let(f"shl i32 1, {lane}")
    step = min(nbytes, 4)
    for k in range(total // step):
        at = f.let(f"add i64 {a}, {k * step}")
        word = f.let(f"lshr i64 {at}, 2")
        row = f.let(f"shl i64 {word}, 5")
        cell = _cell(f, row, lane)
        byte = f.let(f"add i64 {cell}, {f.let(f'and i64 {at}, 3')}")
        p = f.let(f"getelementptr i8, ptr {memory}, i64 {byte}")
        q = f.let(f"getelementptr i32, ptr {shadow}, i64 {word}")
        state = f.let(f"load i32, ptr {q}")
        if store:
            f(f"  store i32 {f.let(f'or i32 {state}, {bit}')}, ptr {q}")
        else:
            unset = f.let(f"icmp eq i32 {f.let(f'and i32 {state}, {bit}')}, 0")
            f.when(unset, lambda: hazard(m, f, L.H_UNINIT_LOCAL, lane, a), likely=False)
        value_at = places[k * step // nbytes]
        if nbytes == 8 and k % 2:
            value_at = f.let(f"getelementptr i8, ptr {value_at}, i64 4")
        source, target = (value_at, p) if store else (p, value_at)
        f(f"  store i{8 * step} {f.let(f'load i{8 * step}, ptr {source}')}, ptr {target}")


def _cell(f: Fn, row: str, lane: str) -> str:
    wide = f.let(f"zext i32 {lane} to i64")
    return f.let(f"shl i64 {f.let(f'add i64 {row}, {wide}')}, 2")


# -- generic addresses: each lane's window says which memory it means


def generic_s(m: Needs, nbytes: int, n: int, store: bool, ordered: bool) -> str:
    name = f"generic_{'st' if store else 'ld'}{'o' if ordered else ''}_s_{nbytes}x{n}"

    def build(m: Needs, name: str) -> str:
        f = Fn(f"define internal i1 @{name}(ptr %ctx, ptr %warp, <32 x i64> %a, i32 %mask, i32 %insn, ptr %res) noinline {{")
        f("entry:")
        window = f.let(f"lshr <32 x i64> %a, splat (i64 {L.WINDOW_BITS})")
        low = f.let(f"and <32 x i64> %a, splat (i64 {(1 << L.WINDOW_BITS) - 1})")
        rest = "%mask"
        for number, space in ((L.SHARED_WINDOW, "shared"), (L.LOCAL_WINDOW, "local"), (-1, "global")):
            part, address = rest, "%a"
            if number >= 0:
                hit = f.let(f"icmp eq <32 x i64> {window}, splat (i64 {number})")
                part = f.let(f"and i32 %mask, {f.let(f'bitcast <32 x i1> {hit} to i32')}")
                rest = f.let(f"xor i32 {rest}, {part}")
                address = low
            inner = slow(m, space, nbytes, n, store, ordered)

            def go(inner: str = inner, part: str = part, address: str = address) -> None:
                ok = f.let(f"call i1 @{inner}(ptr %ctx, ptr %warp, <32 x i64> {address}, i32 {part}, i32 %insn, ptr %res)")
                on = f.new_label()
                f(f"  br i1 {ok}, label %{on}, label %bad\n{on}:")

            f.when(f.let(f"icmp ne i32 {part}, 0"), go)
        f("  ret i1 true\nbad:\n  ret i1 false")
        return f.text()

    return need(m, name, build)


# -- one thread (solve() itself): local memory is linear, generic addresses reach it and the module's variables


def single_u(m: Needs, name: str, nbytes: int, n: int, store: bool) -> str:
    bits, total = 8 * nbytes, nbytes * n
    kind = "i1" if store else values_type(bits, n, vector=False)
    operands = "".join(f", i{bits} %v{k}" for k in range(n)) if store else ""
    f = Fn(f"define internal {kind} @{name}(ptr %ctx, ptr %warp, i64 %a{operands}, i32 %mask, i32 %insn) {{")
    f("entry:")
    window = f.let(f"lshr i64 %a, {L.WINDOW_BITS}")
    f(f"  br i1 {f.let(f'icmp eq i64 {window}, {L.LOCAL_WINDOW}')}, label %local, label %elsewhere\nlocal:")
    offset = f.let(f"and i64 %a, {(1 << L.WINDOW_BITS) - 1}")
    ok = _within(f, offset, total, f.get("%ctx", Context, "local_bytes"), total, offset)
    f(f"  br i1 {ok}, label %good, label %bad\nbad:")
    fault(m, f, "0", "%a", total)
    f(f"  ret {kind} zeroinitializer\ngood:" if not store else "  ret i1 false\ngood:")
    p = f.let(f"getelementptr i8, ptr {f.get('%warp', Warp, 'local', pointer=True)}, i64 {offset}")
    places = [f.let(f"getelementptr i8, ptr {p}, i64 {k * nbytes}") for k in range(n)]
    if store:
        for k, q in enumerate(places):
            f(f"  store i{bits} %v{k}, ptr {q}, align {nbytes}")
        f("  ret i1 true\nelsewhere:")
    else:
        give(f, kind, [f.let(f"load i{bits}, ptr {q}, align {nbytes}") for q in places], [f"i{bits}"] * n, "true")
        f("elsewhere:")
    values = "".join(f", i{bits} %v{k}" for k in range(n)) if store else ""
    inner = need(m, f"global_{'st' if store else 'ld'}_u_{nbytes}x{n}", lambda m, name: global_u(m, name, nbytes, n, store))
    f(f"  ret {kind} {f.let(f'call {kind} @{inner}(ptr %ctx, ptr %warp, i64 %a{values}, i32 %mask, i32 %insn)')}")
    return f.text()
