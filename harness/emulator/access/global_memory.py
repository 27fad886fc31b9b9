"""Global and constant memory: the buffer table, bounds, the shadows of what was written and by which block."""

from __future__ import annotations

from harness.emulator import layout as L
from harness.emulator.access import blocks
from harness.emulator.access.base import (
    Needs,
    buffer_row,
    copy_elements,
    fault,
    first_lane,
    give,
    hazard,
    inlined,
    reject,
    values_type,
    within,
)
from harness.emulator.access.slow import SLOW_OPERANDS, Space, register, slow
from harness.emulator.access.traffic import count_line, count_uniform
from harness.emulator.access.vectors import (
    consecutive_lanes,
    gather_where,
    lane_mask,
    load_where,
    masked_load,
    masked_store,
    missing,
    results,
    span_of,
    splat,
    store_where,
)
from harness.emulator.irtext import Fn
from harness.emulator.layout import LANES, BufferEntry, Context


class Entry:
    """The buffer table's row for an address: null's (size 0) where the id is unknown."""

    def __init__(self, f: Fn, address: str, store: bool):
        self.row = row = buffer_row(f, address)
        self.base = f.get(row, BufferEntry, "base", constant=True)
        self.size = f.get(row, BufferEntry, "writable" if store else "size", constant=True)
        self.host = f.get(row, BufferEntry, "host", pointer=True, constant=True)
        self.shadow = f.get(row, BufferEntry, "shadow", pointer=True, constant=True)
        self.tracked = f.let(f"icmp ne ptr {self.shadow}, null")
        self.watch = f.get(row, BufferEntry, "watch", pointer=True, constant=True)
        self.watched = f.let(f"icmp ne ptr {self.watch}, null")  # tracked, or searched for races, or both


def global_u(m: Needs, name: str, nbytes: int, n: int, store: bool, ordered: bool = False) -> str:
    """ordered: a strong access (volatile, relaxed, acquire, release)."""
    bits, total = 8 * nbytes, nbytes * n
    kind = "i1" if store else values_type(bits, n, vector=False)
    operands = "".join(f", i{bits} %v{k}" for k in range(n)) if store else ""
    f = Fn(
        f"define internal {kind} @{name}(ptr %ctx, ptr %warp, i64 %a{operands}, i32 %mask, i32 %insn) {inlined(m)} {{"
    )
    f("entry:")
    if store:
        f("  %new = alloca [16 x i8]")
    e = Entry(f, "%a", store)
    rel = f.let(f"sub i64 %a, {e.base}")
    ok = within(f, rel, total, e.size, total, "%a")
    f(f"  br i1 {ok}, label %good, label %bad, !prof !2\nbad:")
    fault(m, f, first_lane(f), "%a", total)
    f(f"  ret {kind} zeroinitializer\ngood:" if not store else "  ret i1 false\ngood:")
    count_uniform(m, f, e.row, rel, total, store)
    p = f.let(f"getelementptr i8, ptr {e.host}, i64 {rel}")
    word = f.let(f"getelementptr i8, ptr {e.shadow}, i64 {f.let(f'lshr i64 {rel}, 2')}")
    words = max(1, total // 4)
    ones = int.from_bytes(b"\1" * words, "little")
    places = [p] + [f.let(f"getelementptr i8, ptr {p}, i64 {k * nbytes}") for k in range(1, n)]
    if store:

        def note() -> None:
            f.when(e.tracked, lambda: f(f"  store i{8 * words} {ones}, ptr {word}, align 1"))
            for k in range(n):
                q = f.let(f"getelementptr i8, ptr %new, i64 {k * nbytes}")
                f(f"  store i{bits} %v{k}, ptr {q}, align 1")
            meet(m, f, e, rel, total, first_lane(f), "%a", store, ordered, ("%new", p))

        f.when(e.watched, note)
        for k, q in enumerate(places):
            f(f"  store i{bits} %v{k}, ptr {q}, align {nbytes}")
        f("  ret i1 true")
        return f.text()
    values = [f.let(f"load i{bits}, ptr {q}, align {nbytes}") for q in places]

    def check() -> None:
        meet(m, f, e, rel, total, first_lane(f), "%a", store, ordered)
        f.when(e.tracked, check_written)

    def check_written() -> None:
        state = f.let(f"load i{8 * words}, ptr {word}, align 1")
        bad = f.let(f"icmp ne i{8 * words} {state}, {ones}")
        f.when(bad, lambda: hazard(m, f, L.H_UNINIT_GLOBAL, first_lane(f), "%a"), likely=False)

    f.when(e.watched, check)
    give(f, kind, values, [f"i{bits}"] * n, "true")
    return f.text()


def meet(m: Needs, f: Fn, e: Entry, offset: str, nbytes: int, lane: str, address: str, store: bool, ordered: bool,
          data: tuple[str, str] = ("null", "null")) -> None:  # fmt: skip
    """One thread's access, as other blocks see it. `data`: pointers to the new bytes of a store and to the old ones."""
    if m.alone:
        return
    strong = ordered and m.communicates
    what = f"{'strong_' if strong else ''}{'st' if store else 'ld'}"
    blocks.words(m, f, e.watch, offset, nbytes, lane, address, what, *data)
    if strong:
        blocks.strong_access(m, f, address, store)


def global_v(m: Needs, name: str, nbytes: int, n: int, store: bool) -> str:
    bits, total = 8 * nbytes, nbytes * n
    vt = f"<{LANES} x i{bits}>"
    kind = "i1" if store else values_type(bits, n, vector=True)
    operands = "".join(f", {vt} %v{k}" for k in range(n)) if store else ""
    f = Fn(
        f"define internal {kind} @{name}(ptr %ctx, ptr %warp, <32 x i64> %a{operands}, "
        f"i32 %mask, i32 %insn, ptr %res) {inlined(m)} {{"
    )
    f("entry:")
    first, start, consecutive = consecutive_lanes(f, "%a", "i64", total)
    f(f"  br i1 {consecutive}, label %line, label %slow, !prof !2\nline:")
    a0 = f.let(f"extractelement <32 x i64> %a, i32 {first}")
    e = Entry(f, a0, store)
    rel = f.let(f"sub i64 {a0}, {e.base}")
    ok = within(f, rel, span_of(f, first, total, "i64"), e.size, total, a0)
    if total < 4:  # the shadow counts words; part-words go the slow way
        ok = f.let(f"and i1 {ok}, {f.let(f'icmp eq ptr {e.watch}, null')}")
    f(f"  br i1 {ok}, label %good, label %slow, !prof !2\ngood:")
    lead = f.let(f"sub i64 {start}, {e.base}")
    p = f.let(f"getelementptr i8, ptr {e.host}, i64 {lead}")
    words = max(1, total // 4)
    values = [f"%v{k}" for k in range(n)]
    if total >= 4:
        f(f"  br i1 {e.watched}, label %watched, label %move\nwatched:")
        if not m.alone:
            free = blocks.line(m, f, e.watch, rel, span_of(f, first, total, "i64"), first, total, store)
            f(f"  br i1 {free}, label %free, label %slow\nfree:")
        f.when(e.tracked, lambda: _mark_line(f, e, lead, words) if store else _check_line(m, f, e, lead, words))
        f("  br label %move\nmove:")
    count_line(m, f, e.row, a0, rel, total, store)  # what goes the slow way is counted there
    if store:
        masked_store(f, p, values, bits, total)
        f("  ret i1 true\nslow:")
        for k in range(n):
            f(f"  store {vt} %v{k}, ptr {f.let(f'getelementptr i8, ptr %res, i64 {k * LANES * nbytes}')}, align 4")
        done = f.let(f"call i1 @{slow(m, 'global', nbytes, n, store)}({SLOW_OPERANDS.format(address='%a')})")
        f(f"  ret i1 {done}")
        return f.text()
    _prefetch(f, p)
    values = masked_load(f, p, bits, n, total)
    give(f, kind, values, [vt] * n, "true")
    f("slow:")
    done = f.let(f"call i1 @{slow(m, 'global', nbytes, n, store)}({SLOW_OPERANDS.format(address='%a')})")
    give(f, kind, results(f, bits, n), [vt] * n, done)
    return f.text()


def _prefetch(f: Fn, p: str) -> None:
    """Fetch what this instruction will want four loads from now, if it goes on as it did in the last four. A cache that
    is read with a large stride (one head of a paged KV cache) would otherwise wait for every line."""
    row = f.let(
        f"getelementptr [32 x i8], ptr {f.get('%ctx', Context, 'history', pointer=True, constant=True)}, i32 %insn"
    )
    last = f.let(f"load <4 x i64>, ptr {row}, align 16")
    now = f.let(f"ptrtoint ptr {p} to i64")
    step = f.let(f"sub i64 {now}, {f.let(f'extractelement <4 x i64> {last}, i32 3')}")
    moved = f.let(f"shufflevector <4 x i64> {last}, <4 x i64> poison, <4 x i32> <i32 0, i32 0, i32 1, i32 2>")
    f(f"  store <4 x i64> {f.let(f'insertelement <4 x i64> {moved}, i64 {now}, i32 0')}, ptr {row}, align 16")
    ahead = f.let(f"getelementptr i8, ptr {p}, i64 {step}")
    for line in (0, 64):
        q = f.let(f"getelementptr i8, ptr {ahead}, i64 {line}")
        f(f"  call void @llvm.prefetch.p0(ptr {q}, i32 0, i32 3, i32 1)")


def _mark_line(f: Fn, e: Entry, lead: str, words: int) -> None:
    q = f.let(f"getelementptr i8, ptr {e.shadow}, i64 {f.let(f'ashr i64 {lead}, 2')}")
    store_where(f, LANES * words, 8, "splat (i8 1)", q, 1, lane_mask(f, words))


def _check_line(m: Needs, f: Fn, e: Entry, lead: str, words: int) -> None:
    q = f.let(f"getelementptr i8, ptr {e.shadow}, i64 {f.let(f'ashr i64 {lead}, 2')}")
    t = f"<{LANES * words} x i8>"
    state = load_where(f, LANES * words, 8, q, 1, lane_mask(f, words), "splat (i8 1)")
    zero = f.let(f"icmp eq {t} {state}, zeroinitializer")
    bits = f.let(f"bitcast <{LANES * words} x i1> {zero} to i{LANES * words}")
    some = f.let(f"icmp ne i{LANES * words} {bits}, 0")

    def report() -> None:
        at = f.let(f"call i{LANES * words} @llvm.cttz.i{LANES * words}(i{LANES * words} {bits}, i1 true)")
        at = at if LANES * words == 32 else f.let(f"trunc i{LANES * words} {at} to i32")
        lane = f.let(f"udiv i32 {at}, {words}")
        hazard(m, f, L.H_UNINIT_GLOBAL, lane, f.let(f"extractelement <32 x i64> %a, i32 {lane}"))

    f.when(some, report, likely=False)


def _global_lane(
    m: Needs, f: Fn, lane: str, a: str, places: list[str], nbytes: int, store: bool, ordered: bool
) -> None:
    total = nbytes * len(places)
    e = Entry(f, a, store)
    rel = f.let(f"sub i64 {a}, {e.base}")
    reject(m, f, within(f, rel, total, e.size, total, a), lane, a, total)
    here = f.let(f"getelementptr i8, ptr {e.host}, i64 {rel}")

    def note() -> None:
        for k, place in enumerate(places):
            offset, address, old = rel, a, here
            if k:
                offset, address = (f.let(f"add i64 {x}, {k * nbytes}") for x in (rel, a))
                old = f.let(f"getelementptr i8, ptr {here}, i64 {k * nbytes}")
            meet(m, f, e, offset, nbytes, lane, address, store, ordered, (place, old))
        f.when(e.tracked, shadow)

    def shadow() -> None:
        first = f.let(f"getelementptr i8, ptr {e.shadow}, i64 {f.let(f'lshr i64 {rel}, 2')}")
        for w in range(max(1, total // 4)):
            q = f.let(f"getelementptr i8, ptr {first}, i64 {w}")
            if store:
                f(f"  store i8 1, ptr {q}")
            else:
                unset = f.let(f"icmp eq i8 {f.let(f'load i8, ptr {q}')}, 0")
                f.when(unset, lambda: hazard(m, f, L.H_UNINIT_GLOBAL, lane, a), likely=False)

    f.when(e.watched, note)
    copy_elements(f, here, places, nbytes, store)


def _global_gather(m: Needs, f: Fn, nbytes: int, store: bool, ordered: bool) -> None:
    """All running lanes read one input, in bounds and aligned: one gather."""
    if store or ordered or nbytes not in (4, 8):
        return
    bits = 8 * nbytes
    first = first_lane(f)
    a0 = f.let(f"extractelement <32 x i64> %a, i32 {first}")
    e = Entry(f, a0, store=False)
    roomy = f.let(f"icmp uge i64 {e.size}, {nbytes}")
    plain = f.let(f"and i1 {roomy}, {f.let(f'icmp eq ptr {e.watch}, null')}")
    gather, check, lanes = f.new_label(), f.new_label(), f.new_label()
    f(f"  br i1 {plain}, label %{check}, label %{lanes}\n{check}:")
    base = splat(f, e.base, "i64")
    rel = f.let(f"sub <32 x i64> %a, {base}")
    limit = splat(f, f.let(f"sub i64 {e.size}, {nbytes - 1}"), "i64")
    inside = f.let(f"icmp ult <32 x i64> {rel}, {limit}")
    low = f.let(f"and <32 x i64> %a, splat (i64 {nbytes - 1})")
    fine = f.let(f"and <32 x i1> {inside}, {f.let(f'icmp eq <32 x i64> {low}, zeroinitializer')}")
    bad = missing(f, fine)
    f(f"  br i1 {f.let(f'icmp eq i32 {bad}, 0')}, label %{gather}, label %{lanes}\n{gather}:")
    pointers = f.let(f"getelementptr i8, ptr {e.host}, <32 x i64> {rel}")
    mask = f.let("bitcast i32 %mask to <32 x i1>")
    store_where(f, LANES, bits, gather_where(f, bits, pointers, mask), "%res", 4, mask)
    f(f"  ret i1 true\n{lanes}:")


register("global", Space(_global_lane, _global_gather))
