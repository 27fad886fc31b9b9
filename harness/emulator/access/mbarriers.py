"""mbarrier objects: 64 bits in shared memory, which only mbarrier instructions may touch.

    bits 0..19   arrivals still missing in this phase        bits 40..60  bytes of bulk copies still expected (signed)
    bits 20..39  arrivals that each phase expects            bit 62       parity of this phase

A phase completes when neither arrivals nor bytes are missing. Arrivals release and a successful test acquires
(clocks.py). Copies that arrive by themselves (cp.async.mbarrier.arrive, cp.async.bulk) are carried out when a test
finds that nothing else is missing. Misuse is a fault: Context.fault_bytes says which (layout.py: M_*).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable

from harness.emulator import layout as L
from harness.emulator.access import clocks, copies
from harness.emulator.access import shared_checks as checks
from harness.emulator.access.base import Needs, need, reject, within
from harness.emulator.access.shared_memory import Shared
from harness.emulator.access.vectors import splat, store_where
from harness.emulator.irtext import Fn
from harness.emulator.layout import LANES, BulkCopy, Context, DeferredArrival, Warp

COUNT_MAX = (1 << 20) - 1
_TX_SHIFT, _TX_BITS, PHASE = 40, 21, 62
OBJECT_BYTES = 8
LANE_OPERANDS = "ptr %ctx, ptr %warp, <32 x i64> %a, i32 %mask, i32 %insn"


def _start(name: str, result: str, extra: str = "") -> Fn:
    f = Fn(f"define internal {result} @{name}({LANE_OPERANDS}{extra}) noinline {{")
    f("entry:\n  %as = alloca <32 x i64>\n  store <32 x i64> %a, ptr %as")
    return f


def _place(m: Needs, f: Fn, s: Shared, lane: str) -> str:
    """Byte offset (i32) of a lane's mbarrier, in bounds and aligned."""
    a = f.let(f"load i64, ptr {f.let(f'getelementptr i64, ptr %as, i32 {lane}')}")
    offset = f.let(f"and i64 {a}, {(1 << L.WINDOW_BITS) - 1}")
    window = f.let(f"lshr i64 {a}, {L.WINDOW_BITS}")
    shared = f.let(f"icmp ule i64 {window}, {L.SHARED_WINDOW}")  # 0: an address in the shared space itself
    size = f.let(f"zext i32 {s.size} to i64")
    inside = within(f, offset, OBJECT_BYTES, size, OBJECT_BYTES, offset)
    reject(m, f, f.let(f"and i1 {shared}, {inside}"), lane, a, OBJECT_BYTES)
    return f.let(f"trunc i64 {offset} to i32")


def _refuse(m: Needs, f: Fn, ok: str, lane: str, offset: str, what: int) -> None:
    """Fault with a misuse unless ok."""
    bad, good = f.new_label(), f.new_label()
    f(f"  br i1 {ok}, label %{good}, label %{bad}, !prof !2\n{bad}:")
    for field, value in (
        ("kind", str(L.F_MBARRIER)), ("insn", "%insn"), ("lane", lane), ("bytes", str(what)),
        ("address", f.let(f"zext i32 {offset} to i64")), ("warp", f.get("%warp", Warp, "number")),
    ):  # fmt: skip
        f.put("%ctx", Context, f"fault_{field}", value)
    f(f"  br label %bad\n{good}:")


def _is_object(f: Fn, s: Shared, offset: str) -> str:
    tag = f.let(f"load i32, ptr {f.let(f'getelementptr i32, ptr {s.wtag}, i32 {s.granule_of(f, offset)}')}")
    return f.let(f"icmp eq i32 {tag}, {L.BARRIER_OBJECT}")


def known_object(m: Needs, f: Fn, s: Shared, lane: str, group: str = "") -> tuple[str, str]:
    """(byte offset, pointer) of a lane's mbarrier, which has been initialised, and in order before this use. `group`:
    lanes that use it with this one, their first."""
    offset = _place(m, f, s, lane)
    _refuse(m, f, _is_object(f, s, offset), lane, offset, L.M_NOT_INITIALISED)
    g, lanes, single = s.granule_of(f, offset), lane, "true"
    if group:
        last = f.let(f"sub i32 31, {f.let(f'call i32 @llvm.ctlz.i32(i32 {group}, i1 true)')}")
        lanes, single = f.let(f"or i32 {lane}, {f.let(f'shl i32 {last}, 8')}"), f.let(f"icmp eq i32 {lane}, {last}")
    f(f"  call void @{checks.barrier_object(m)}(ptr %ctx, ptr %warp, i32 %insn, i32 {lanes}, i1 {single}, i32 {g})")
    return offset, f.let(f"getelementptr i8, ptr {s.memory}, i32 {offset}")


def _each_object(f: Fn, body: Callable[[str, str], None]) -> None:
    """Run body for each address that running lanes have, with its first lane and all of its lanes."""

    def turn(left: str, lane: str) -> str:
        a = f.let(f"load i64, ptr {f.let(f'getelementptr i64, ptr %as, i32 {lane}')}")
        same = f.let(f"bitcast <32 x i1> {f.let('icmp eq <32 x i64> %a, ' + splat(f, a, 'i64'))} to i32")
        group = f.let(f"and i32 {left}, {same}")
        rest = f.let(f"xor i32 {left}, {group}")
        body(lane, group)
        return rest

    f.while_lanes("%mask", turn)


def _bits(f: Fn, test: str) -> str:
    """The running lanes (i32) for which a vector test holds."""
    return f.let(f"and i32 %mask, {f.let(f'bitcast <32 x i1> {f.let(test)} to i32')}")


def clock_of(f: Fn, offset: str) -> str:
    """Pointer to the vector clock of an mbarrier."""
    wide = f.let(f"or i64 {f.let(f'zext i32 {offset} to i64')}, {L.SHARED_WINDOW << L.WINDOW_BITS}")
    return clocks.address_clock(f, wide)


def _pending(f: Fn, word: str) -> str:
    return f.let(f"trunc i64 {f.let(f'and i64 {word}, {COUNT_MAX}')} to i32")


def _store_word(f: Fn, p: str, word: str) -> None:
    """Store an object's word; if nothing is missing the phase completes."""
    missing = f.let(f"and i64 {word}, {COUNT_MAX | ((1 << _TX_BITS) - 1) << _TX_SHIFT}")
    complete = f.let(f"icmp eq i64 {missing}, 0")
    expected = f.let(f"and i64 {f.let(f'lshr i64 {word}, 20')}, {COUNT_MAX}")
    fresh = f.let(f"or i64 {f.let(f'xor i64 {word}, {1 << PHASE}')}, {expected}")
    f(f"  store i64 {f.let(f'select i1 {complete}, i64 {fresh}, i64 {word}')}, ptr {p}, align 8")
    f.put("%ctx", Context, "progress", f.let(f"add i32 {f.get('%ctx', Context, 'progress')}, 1"))


def _with_bytes(f: Fn, word: str, change: str) -> str:
    """The word with `change` (i32) more bytes expected."""
    shifted = f.let(f"shl i64 {f.let(f'zext i32 {change} to i64')}, {64 - _TX_BITS}")
    shifted = f.let(f"lshr i64 {shifted}, {64 - _TX_BITS - _TX_SHIFT}")
    field = ((1 << _TX_BITS) - 1) << _TX_SHIFT
    summed = f.let(f"and i64 {f.let(f'add i64 {word}, {shifted}')}, {field}")
    return f.let(f"or i64 {f.let(f'and i64 {word}, {~field}')}, {summed}")


def init(m: Needs) -> str:
    """(lanes..., <32 x i32> counts) -> i1 ok"""

    def build(m: Needs, name: str) -> str:
        f = _start(name, "i1", f", {clocks.VECTOR} %counts")
        f(f"  %cs = alloca {clocks.VECTOR}\n  store {clocks.VECTOR} %counts, ptr %cs")
        s = Shared(f, m)

        def lane(k: str) -> None:
            offset = _place(m, f, s, k)
            known = f.let(f"xor i1 {_is_object(f, s, offset)}, true")
            _refuse(m, f, known, k, offset, L.M_INITIALISED_TWICE)
            count = f.let(f"load i32, ptr {f.let(f'getelementptr i32, ptr %cs, i32 {k}')}")
            valid = f.let(f"icmp ult i32 {f.let(f'sub i32 {count}, 1')}, {COUNT_MAX}")
            _refuse(m, f, valid, k, offset, L.M_COUNT)
            wide = f.let(f"zext i32 {count} to i64")
            word = f.let(f"or i64 {wide}, {f.let(f'shl i64 {wide}, 20')}")
            f(f"  store i64 {word}, ptr {f.let(f'getelementptr i8, ptr {s.memory}, i32 {offset}')}, align 8")
            _stamp(m, f, s, offset, k, str(L.BARRIER_OBJECT), check=True)

        f.each_lane("%mask", lane)
        f("  ret i1 true\nbad:\n  ret i1 false")
        return f.text()

    return need(m, "mbarrier_init", build)


def _stamp(m: Needs, f: Fn, s: Shared, offset: str, lane: str, tag: str, check: bool) -> None:
    """Tag an object's bytes. Who initialised it is kept where other places keep their last reader."""
    first = s.granule_of(f, offset)
    site = f.let(f"or i32 {f.let('shl i32 %insn, 5')}, {lane}")
    mine = f.get("%warp", Warp, "mine")

    def one(k: str) -> None:
        g = f.let(f"add i32 {first}, {k}")
        if check:
            f(f"  call void @{checks.write(m)}(ptr %ctx, ptr %warp, i32 %insn, i32 {lane}, i1 true, i32 {g}, i1 true)")
        for base, value in ((s.wtag, tag), (s.winsn, site), (s.rtag, mine), (s.rinsn, site)):
            f(f"  store i32 {value}, ptr {f.let(f'getelementptr i32, ptr {base}, i32 {g}')}")

    f.repeat(str(OBJECT_BYTES // m.granule), one)


def inval(m: Needs) -> str:
    """(lanes...) -> i1 ok"""

    def build(m: Needs, name: str) -> str:
        f = _start(name, "i1")
        s = Shared(f, m)

        def lane(k: str) -> None:
            offset, _ = known_object(m, f, s, k)
            _stamp(m, f, s, offset, k, f.get("%warp", Warp, "mine"), check=False)

        f.each_lane("%mask", lane)
        f("  ret i1 true\nbad:\n  ret i1 false")
        return f.text()

    return need(m, "mbarrier_inval", build)


def arrive(m: Needs) -> str:
    """(lanes..., <32 x i32> counts, <32 x i32> bytes, i1 drop, ptr states) -> i1 ok: expect more bytes, then arrive.
    The object's word before it goes to states[lane]. A count of 0 only changes the bytes."""

    def build(m: Needs, name: str) -> str:
        f = _start(name, "i1", f", {clocks.VECTOR} %counts, {clocks.VECTOR} %bytes, i1 %drop, ptr %states")
        f(f"  %cs = alloca {clocks.VECTOR}\n  store {clocks.VECTOR} %counts, ptr %cs")
        f(f"  %bs = alloca {clocks.VECTOR}\n  store {clocks.VECTOR} %bytes, ptr %bs")
        s = Shared(f, m)
        known = clocks.own_knowledge(f, "%warp")
        ones = _bits(f, f"icmp eq {clocks.VECTOR} %counts, splat (i32 1)")
        plain = f.let(f"and i32 {ones}, {_bits(f, f'icmp eq {clocks.VECTOR} %bytes, zeroinitializer')}")
        plain = f.let(f"select i1 %drop, i32 0, i32 {plain}")

        def each(first: str, group: str) -> None:
            offset, p = known_object(m, f, s, first, group)
            clocks.join(f, clock_of(f, offset), known)
            word = f.let(f"load i64, ptr {p}, align 8")
            number = f.let(f"call i32 @llvm.ctpop.i32(i32 {group})")
            fits = f.let(f"icmp ule i32 {number}, {_pending(f, word)}")
            all_plain = f.let(f"icmp eq i32 {f.let(f'and i32 {group}, {plain}')}, {group}")
            together, one_by_one, on = (f.new_label() for _ in range(3))
            f(f"  br i1 {f.let(f'and i1 {fits}, {all_plain}')}, label %{together}, label %{one_by_one}\n{together}:")
            _arrive_together(f, p, word, group, number)
            f(f"  br label %{on}\n{one_by_one}:")
            f.each_lane(group, lambda k: one(k, offset, p))
            f(f"  br label %{on}\n{on}:")

        def one(k: str, offset: str, p: str) -> None:
            count, change = (
                f.let(f"load i32, ptr {f.let(f'getelementptr i32, ptr %{base}, i32 {k}')}") for base in ("cs", "bs")
            )
            word = f.let(f"load i64, ptr {p}, align 8")
            f(f"  store i64 {word}, ptr {f.let(f'getelementptr i64, ptr %states, i32 {k}')}")
            enough = f.let(f"icmp ule i32 {count}, {_pending(f, word)}")
            _refuse(m, f, enough, k, offset, L.M_ARRIVALS)
            wide = f.let(f"zext i32 {count} to i64")
            dropped = f.let(f"select i1 %drop, i64 {f.let(f'shl i64 {wide}, 20')}, i64 0")
            less = f.let(f"sub i64 {f.let(f'sub i64 {word}, {wide}')}, {dropped}")
            _store_word(f, p, _with_bytes(f, less, change))

        _each_object(f, each)
        clocks.start_interval(f, "%warp", clocks.tick(f))
        f("  ret i1 true\nbad:\n  ret i1 false")
        return f.text()

    return need(m, "mbarrier_arrive", build)


def _arrive_together(f: Fn, p: str, word: str, group: str, number: str) -> None:
    """Lanes arrive once each, and no phase completes before the last of them. They see the word in their order."""
    below = f.let(f"and {clocks.VECTOR} {splat(f, group, 'i32')}, <" + ", ".join(
        f"i32 {(1 << n) - 1}" for n in range(LANES)) + ">")  # fmt: skip
    rank = f.let(f"zext {clocks.VECTOR} {f.let(f'call {clocks.VECTOR} @llvm.ctpop.v32i32({clocks.VECTOR} {below})')} "
                 "to <32 x i64>")  # fmt: skip
    states = f.let(f"sub <32 x i64> {splat(f, word, 'i64')}, {rank}")
    store_where(f, LANES, 64, states, "%states", 8, f.let(f"bitcast i32 {group} to <32 x i1>"))
    _store_word(f, p, f.let(f"sub i64 {word}, {f.let(f'zext i32 {number} to i64')}"))


def test(m: Needs) -> str:
    """(lanes..., <32 x i32> parities) -> { i32 lanes whose phase has completed, i1 ok }"""

    def build(m: Needs, name: str) -> str:
        kind = "{ i32, i1 }"
        f = _start(name, kind, f", {clocks.VECTOR} %parities")
        f(f"  %seen = alloca {clocks.VECTOR}\n  store {clocks.VECTOR} zeroinitializer, ptr %seen")
        f("  %done = alloca i32\n  store i32 0, ptr %done")
        s = Shared(f, m)
        odd = f.let(f"trunc {clocks.VECTOR} %parities to <32 x i1>")
        asked = f.let(f"bitcast <32 x i1> {odd} to i32")

        def each(lane: str, group: str) -> None:
            offset, p = known_object(m, f, s, lane, group)
            f(f"  call void @{settle(m)}(ptr %ctx, i32 {offset})")
            word = f.let(f"load i64, ptr {p}, align 8")
            now = f.let(f"trunc i64 {f.let(f'lshr i64 {word}, {PHASE}')} to i1")
            differ = f.let(f"and i32 {group}, {f.let(f'xor i32 {asked}, ' + f.let(f'sext i1 {now} to i32'))}")

            def passed() -> None:
                clocks.join(f, "%seen", clocks.read(f, clock_of(f, offset)))
                f(f"  store i32 {f.let(f'or i32 {differ}, ' + f.let('load i32, ptr %done'))}, ptr %done")

            f.when(f.let(f"icmp ne i32 {differ}, 0"), passed)

        _each_object(f, each)
        done = f.let("load i32, ptr %done")
        f.when(f.let(f"icmp ne i32 {done}, 0"),
               lambda: clocks.learn(f, "%warp", clocks.read(f, "%seen"), clocks.tick(f)))  # fmt: skip
        waits = f.let(f"icmp eq i32 {done}, 0")
        f.put("%warp", Warp, "resting", f.let(f"select i1 {waits}, i32 {f.let('add i32 %insn, 1')}, i32 0"))
        answer = f.let(f"insertvalue {kind} {{ i32 poison, i1 true }}, i32 {done}, 0")
        f(f"  ret {kind} {answer}\nbad:\n  ret {kind} zeroinitializer")
        return f.text()

    return need(m, "mbarrier_test", build)


# -- copies that arrive by themselves


def defer(m: Needs) -> str:
    """(lanes..., i1 noinc) -> i1 ok: these lanes arrive when their copies so far are done."""

    def build(m: Needs, name: str) -> str:
        f = _start(name, "i1", ", i1 %noinc")
        s = Shared(f, m)
        known = clocks.own_knowledge(f, "%warp")
        tag, upto = f.get("%warp", Warp, "mine"), f.get("%warp", Warp, "next_copy")

        def lane(k: str) -> None:
            offset, p = known_object(m, f, s, k)
            word = f.let(f"load i64, ptr {p}, align 8")
            more = f.let("select i1 %noinc, i64 0, i64 1")
            f(f"  store i64 {f.let(f'add i64 {word}, {more}')}, ptr {p}, align 8")
            clocks.join(f, clock_of(f, offset), known)
            row = next_row(m, f, "deferred", DeferredArrival)
            address = f.let("ptrtoint ptr %warp to i64")
            for field, value in (("warp", address), ("place", offset), ("mask", f.let(f"shl i32 1, {k}")),
                                 ("upto", upto), ("tag", tag)):  # fmt: skip
                f.put(row, DeferredArrival, field, value)

        f.each_lane("%mask", lane)
        clocks.start_interval(f, "%warp", clocks.tick(f))
        f("  ret i1 true\nbad:\n  ret i1 false")
        return f.text()

    return need(m, "mbarrier_defer", build)


def next_row(m: Needs, f: Fn, name: str, structure: type[ctypes.Structure]) -> str:
    """A new row of one of the block's lists."""
    full = f.let(f"icmp uge i32 {f.get('%ctx', Context, 'n' + name)}, {L.MAX_DEFERRED}")
    f.when(full, lambda: _carry_out_everything(m, f), likely=False)
    count = f.get("%ctx", Context, "n" + name)
    f.put("%ctx", Context, "n" + name, f.let(f"add i32 {count}, 1"))
    base = f.get("%ctx", Context, name, pointer=True)
    return f.let(f"getelementptr [{ctypes.sizeof(structure)} x i8], ptr {base}, i32 {count}")


def _carry_out_everything(m: Needs, f: Fn) -> None:
    """The lists are full: everything in them happens now."""
    _each_row(f, "deferred", DeferredArrival, lambda row: f(f"  call void @{_arrive_late(m)}(ptr %ctx, ptr {row})"))
    _each_row(f, "bulk", BulkCopy, lambda row: f(f"  call void @{_copy_bulk(m)}(ptr %ctx, ptr {row})"))
    f.put("%ctx", Context, "ndeferred", "0")
    f.put("%ctx", Context, "nbulk", "0")


def _each_row(f: Fn, name: str, structure: type[ctypes.Structure], body: Callable[[str], None]) -> None:
    base, count = f.get("%ctx", Context, name, pointer=True), f.get("%ctx", Context, "n" + name)
    f.repeat(count, lambda k: body(f.let(f"getelementptr [{ctypes.sizeof(structure)} x i8], ptr {base}, i32 {k}")))


def settle(m: Needs) -> str:
    """(ctx, i32 offset): if only copies are missing from the phase of this mbarrier, carry them out."""

    def build(m: Needs, name: str) -> str:
        f = Fn(f"define internal void @{name}(ptr %ctx, i32 %place) noinline {{")
        f("entry:\n  %sum = alloca i32\n  store i32 0, ptr %sum")
        p = f.let(f"getelementptr i8, ptr {f.get('%ctx', Context, 'shared', pointer=True)}, i32 %place")

        def count(row: str) -> None:
            lanes = f.let(f"call i32 @llvm.ctpop.i32(i32 {f.get(row, DeferredArrival, 'mask')})")
            here = f.let(f"icmp eq i32 {f.get(row, DeferredArrival, 'place')}, %place")
            more = f.let(f"select i1 {here}, i32 {lanes}, i32 0")
            before = f.let("load i32, ptr %sum")
            f(f"  store i32 {f.let(f'add i32 {before}, {more}')}, ptr %sum")

        _each_row(f, "deferred", DeferredArrival, count)
        pending = _pending(f, f.let(f"load i64, ptr {p}, align 8"))
        due = f.let(f"icmp ule i32 {pending}, {f.let('load i32, ptr %sum')}")
        f.when(due, lambda: _settle_now(m, f, p))
        f("  ret void")
        return f.text()

    return need(m, "mbarrier_settle", build)


def _settle_now(m: Needs, f: Fn, p: str) -> None:
    def phase() -> str:
        return f.let(f"lshr i64 {f.let(f'load i64, ptr {p}, align 8')}, {PHASE}")

    before = phase()

    def arrive_late(row: str) -> None:
        here = f.let(f"icmp eq i32 {f.get(row, DeferredArrival, 'place')}, %place")
        lanes = f.get(row, DeferredArrival, "mask")
        waits = f.let(f"and i1 {here}, {f.let(f'icmp ne i32 {lanes}, 0')}")
        some = f.let(f"icmp eq i64 {phase()}, {before}")  # those behind belong to the next phase
        f.when(f.let(f"and i1 {waits}, {some}"), lambda: f(f"  call void @{_arrive_late(m)}(ptr %ctx, ptr {row})"))

    def copy(row: str) -> None:
        here = f.let(f"icmp eq i32 {f.get(row, BulkCopy, 'place')}, %place")
        f.when(here, lambda: f(f"  call void @{_copy_bulk(m)}(ptr %ctx, ptr {row})"))

    f("  store i32 0, ptr %sum")
    _each_row(f, "deferred", DeferredArrival, arrive_late)
    _each_row(f, "bulk", BulkCopy, copy)
    _drop_done(f, "deferred", DeferredArrival, "mask")
    _drop_done(f, "bulk", BulkCopy, "nbytes")


def _drop_done(f: Fn, name: str, structure: type[ctypes.Structure], left: str) -> None:
    """Keep the rows whose field `left` is not 0."""
    size = ctypes.sizeof(structure)
    base = f.get("%ctx", Context, name, pointer=True)
    f("  store i32 0, ptr %sum")

    def keep(row: str) -> None:
        kept = f.let("load i32, ptr %sum")
        to = f.let(f"getelementptr [{size} x i8], ptr {base}, i32 {kept}")
        f(f"  call void @llvm.memmove.p0.p0.i64(ptr {to}, ptr {row}, i64 {size}, i1 false)")
        one = f.let(f"zext i1 {f.let(f'icmp ne i32 {f.get(to, structure, left)}, 0')} to i32")
        f(f"  store i32 {f.let(f'add i32 {kept}, {one}')}, ptr %sum")

    _each_row(f, name, structure, keep)
    f.put("%ctx", Context, "n" + name, f.let("load i32, ptr %sum"))


def _arrive_late(m: Needs) -> str:
    """(ctx, row): the copies before a deferred arrival are carried out, and it arrives."""

    def build(m: Needs, name: str) -> str:
        f = Fn(f"define internal void @{name}(ptr %ctx, ptr %row) noinline {{")
        f("entry:")
        warp, mask = f.get("%row", DeferredArrival, "warp", pointer=True), f.get("%row", DeferredArrival, "mask")
        f.put("%row", DeferredArrival, "mask", "0")
        upto, tag = f.get("%row", DeferredArrival, "upto"), f.get("%row", DeferredArrival, "tag")
        f(f"  call void @{copies.finish(m)}(ptr %ctx, ptr {warp}, i32 {mask}, {clocks.VECTOR} splat (i32 -1), "
          f"i32 {upto}, i32 {tag})")  # fmt: skip
        base = f.get("%ctx", Context, "shared", pointer=True)
        p = f.let(f"getelementptr i8, ptr {base}, i32 {f.get('%row', DeferredArrival, 'place')}")
        count = f.let(f"zext i32 {f.let(f'call i32 @llvm.ctpop.i32(i32 {mask})')} to i64")
        _store_word(f, p, f.let(f"sub i64 {f.let(f'load i64, ptr {p}, align 8')}, {count}"))
        f("  ret void")
        return f.text()

    return need(m, "mbarrier_arrive_late", build)


def _copy_bulk(m: Needs) -> str:
    """(ctx, row): a bulk copy is carried out, and its bytes are no longer expected."""

    def build(m: Needs, name: str) -> str:
        f = Fn(f"define internal void @{name}(ptr %ctx, ptr %row) noinline {{")
        f("entry:")
        memory, wtag, winsn = (f.get("%ctx", Context, n, pointer=True) for n in ("shared", "wtag", "winsn"))
        source, size = f.get("%row", BulkCopy, "source", pointer=True), f.get("%row", BulkCopy, "nbytes")
        target = f.get("%row", BulkCopy, "target")
        f.put("%row", BulkCopy, "nbytes", "0")
        to = f.let(f"getelementptr i8, ptr {memory}, i32 {target}")
        nbytes = f.let(f"zext i32 {size} to i64")
        f(f"  call void @llvm.memcpy.p0.p0.i64(ptr {to}, ptr {source}, i64 {nbytes}, i1 false)")
        shift = m.granule.bit_length() - 1
        first, count = f.let(f"lshr i32 {target}, {shift}"), f.let(f"lshr i32 {size}, {shift}")
        tag, site = f.get("%row", BulkCopy, "tag"), f.get("%row", BulkCopy, "site")
        copies.land(f, wtag, winsn, first, count, tag, site)
        p = f.let(f"getelementptr i8, ptr {memory}, i32 {f.get('%row', BulkCopy, 'place')}")
        less = f.let(f"sub i32 0, {size}")
        _store_word(f, p, _with_bytes(f, f.let(f"load i64, ptr {p}, align 8"), less))
        f("  ret void")
        return f.text()

    return need(m, "bulk_copy", build)
