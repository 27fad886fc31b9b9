"""Shared memory and its shadow: who wrote and who read each granule, and when (clocks.py: tags).

The forms here settle what is plainly in order: accesses to granules whose last write, and for a store last read, lies
below the warp's floor. Consecutive and scattered accesses of a warp then ask once more, out of line, whether what is
left was done by the same lane; the rest goes granule by granule through shared_checks.py, which also reports.
A granule never written by this block has a tag below Context.start_tag.
"""

from __future__ import annotations

from collections.abc import Callable

from harness.emulator import layout as L
from harness.emulator.access import clocks
from harness.emulator.access import shared_checks as checks
from harness.emulator.access.base import Needs, fault, first_lane, give, inlined, need, values_type, within
from harness.emulator.access.slow import SLOW_OPERANDS, slow
from harness.emulator.access.vectors import (
    consecutive_lanes,
    gather_where,
    iota,
    lane_mask,
    load_where,
    masked_load,
    masked_store,
    results,
    span_of,
    splat_n,
    store_where,
)
from harness.emulator.irtext import Fn
from harness.emulator.layout import LANES, Context, Warp


class Shared:
    """The block's shared memory, its shadow arrays and this warp's tags."""

    def __init__(self, f: Fn, m: Needs):
        def pointer(name: str) -> str:
            return f.get("%ctx", Context, name, pointer=True, constant=True)

        self.memory, self.wtag, self.winsn = pointer("shared"), pointer("wtag"), pointer("winsn")
        self.rtag, self.rinsn = pointer("rtag"), pointer("rinsn")
        self.size = f.let(f"trunc i64 {f.get('%ctx', Context, 'shared_bytes', constant=True)} to i32")
        self.start = f.get("%ctx", Context, "start_tag", constant=True)
        self.mine = f.get("%warp", Warp, "mine", constant=not m.restarts)
        self.floor = f.get("%warp", Warp, "floor", constant=not m.restarts)
        self.shift = m.granule.bit_length() - 1

    def granule_of(self, f: Fn, offset: str) -> str:
        """Index of the granule at a byte offset (i32)."""
        return f.let(f"ashr i32 {offset}, {self.shift}") if self.shift else offset


def granules_of(m: Needs, nbytes: int) -> int:
    return max(1, nbytes // m.granule)


# -- one address for all lanes


def shared_u(m: Needs, name: str, nbytes: int, n: int, store: bool, ordered: bool) -> str:
    bits, total = 8 * nbytes, nbytes * n
    kind = "i1" if store else values_type(bits, n, vector=False)
    operands = "".join(f", i{bits} %v{k}" for k in range(n)) if store else ""
    f = Fn(
        f"define internal {kind} @{name}(ptr %ctx, ptr %warp, i32 %a{operands}, i32 %mask, i32 %insn) {inlined(m)} {{"
    )
    f("entry:")
    s = Shared(f, m)
    ok = within(f, "%a", total, s.size, total, "%a", "i32")
    f(f"  br i1 {ok}, label %good, label %bad, !prof !2\nbad:")
    fault(m, f, first_lane(f), f.let("zext i32 %a to i64"), total)
    f(f"  ret {kind} zeroinitializer\ngood:" if not store else "  ret i1 false\ngood:")
    p = f.let(f"getelementptr i8, ptr {s.memory}, i32 %a")
    places = [p] + [f.let(f"getelementptr i8, ptr {p}, i64 {k * nbytes}") for k in range(1, n)]
    values = [f"%v{k}" for k in range(n)] if store else []
    first = s.granule_of(f, "%a")
    for k in range(granules_of(m, total)):
        g = f.let(f"add i32 {first}, {k}") if k else first
        if ordered:
            _call_check(m, f, checks.strong(m), g, f", i1 {str(store).lower()}, i1 {str(not store).lower()}")
        elif store:
            _uniform_store(m, f, s, g, _differs(m, f, p, values, k, bits))
        else:
            uniform_load(m, f, s, g)
    if store:
        for v, q in zip(values, places, strict=True):
            f(f"  store i{bits} {v}, ptr {q}, align {nbytes}")
        f("  ret i1 true")
    else:
        loaded = [f.let(f"load i{bits}, ptr {q}, align {nbytes}") for q in places]
        give(f, kind, loaded, [f"i{bits}"] * n, "true")
    return f.text()


def _call_check(m: Needs, f: Fn, name: str, g: str, more: str = "") -> None:
    """Check one granule for the running lanes together."""
    last = f.let(f"sub i32 31, {f.let('call i32 @llvm.ctlz.i32(i32 %mask, i1 false)')}")
    lanes = f.let(f"or i32 {first_lane(f)}, {f.let(f'shl i32 {last}, 8')}")
    f(f"  call void @{name}(ptr %ctx, ptr %warp, i32 %insn, i32 {lanes}, i1 {_single(f)}, i32 {g}{more})")


def _single(f: Fn) -> str:
    """Whether one lane only is running."""
    rest = f.let(f"and i32 %mask, {f.let('sub i32 %mask, 1')}")
    return f.let(f"icmp eq i32 {rest}, 0")


def _differs(m: Needs, f: Fn, p: str, values: list[str], k: int, bits: int) -> str:
    """Whether granule k of the values differs from what memory has."""
    unit = 8 * m.granule
    value, low = values[k * unit // bits], k * unit % bits
    value = f.let(f"lshr i{bits} {value}, {low}") if low else value
    value = f.let(f"trunc i{bits} {value} to i{unit}") if bits > unit else value
    at = f.let(f"getelementptr i8, ptr {p}, i64 {k * m.granule}") if k else p
    old = f.let(f"load i{unit}, ptr {at}, align {m.granule}")
    return f.let(f"icmp ne i{unit} {value}, {old}")


def uniform_load(m: Needs, f: Fn, s: Shared, g: str) -> None:
    writer = f.let(f"load i32, ptr {f.let(f'getelementptr i32, ptr {s.wtag}, i32 {g}')}")
    past = f.let(f"icmp uge i32 {f.let(f'sub i32 {writer}, {s.start}')}, {f.let(f'sub i32 {s.floor}, {s.start}')}")
    settled, check, note = f.new_label(), f.new_label(), f.new_label()
    f(f"  br i1 {past}, label %{check}, label %{note}, !prof !0\n{check}:")
    _call_check(m, f, checks.read(m), g)
    f(f"  br label %{settled}\n{note}:")
    _note_uniform_reader(m, f, s, g)
    if m.exact:
        _note_in_table(f, g)
    f(f"  br label %{settled}\n{settled}:")


def _note_uniform_reader(m: Needs, f: Fn, s: Shared, g: str) -> None:
    """Lanes of this warp have read the granule: one alone is noted out of line, several here."""
    one, several, on = f.new_label(), f.new_label(), f.new_label()
    f(f"  br i1 {_single(f)}, label %{one}, label %{several}\n{one}:")
    _call_check(m, f, checks.note_reader(m), g)
    f(f"  br label %{on}\n{several}:")
    rp = f.let(f"getelementptr i32, ptr {s.rtag}, i32 {g}")
    reader = f.let(f"load i32, ptr {rp}")
    tag = f.let(f"or i32 {s.mine}, {L.SEVERAL_LANES}")

    def note() -> None:
        fresh = f.let(f"icmp ult i32 {reader}, {s.floor}")
        difference = f.let(f"xor i32 {reader}, {s.mine}")
        own = f.let(f"icmp eq i32 {f.let(f'and i32 {difference}, {L.STRONG | (L.SEVERAL_LANES - 1)}')}, 0")
        many = f.let(f"or i32 {f.get('%ctx', Context, 'etag')}, {L.MANY_WARPS}")
        ours = f.let(f"or i1 {fresh}, {own}")
        f(f"  store i32 {f.let(f'select i1 {ours}, i32 {tag}, i32 {many}')}, ptr {rp}")
        site = f.let(f"or i32 {f.let('shl i32 %insn, 5')}, {first_lane(f)}")
        f.when(fresh, lambda: f(f"  store i32 {site}, ptr {f.let(f'getelementptr i32, ptr {s.rinsn}, i32 {g}')}"))

    f.when(f.let(f"icmp ne i32 {reader}, {tag}"), note)
    f(f"  br label %{on}\n{on}:")


def _note_in_table(f: Fn, g: str) -> None:
    """With vector clocks: this warp's last read of the granule."""
    number = f.get("%warp", Warp, "number", constant=True)
    site = f.let(f"or i32 {f.let('shl i32 %insn, 5')}, {first_lane(f)}")
    for name, value in (("rclock", f.get("%warp", Warp, "mine")), ("rsite", site)):
        base = clocks.reads_of(f, name, number)
        f(f"  store i32 {value}, ptr {f.let(f'getelementptr i32, ptr {base}, i32 {g}')}")


def _uniform_store(m: Needs, f: Fn, s: Shared, g: str, differs: str) -> None:
    _call_check(m, f, checks.write(m), g, f", i1 {differs}")


# -- an address a lane


def shared_v(m: Needs, name: str, nbytes: int, n: int, store: bool, ordered: bool) -> str:
    bits, total = 8 * nbytes, nbytes * n
    vt = f"<{LANES} x i{bits}>"
    kind = "i1" if store else values_type(bits, n, vector=True)
    operands = "".join(f", {vt} %v{k}" for k in range(n)) if store else ""
    f = Fn(
        f"define internal {kind} @{name}(ptr %ctx, ptr %warp, <32 x i32> %a{operands}, "
        f"i32 %mask, i32 %insn, ptr %res) {inlined(m)} {{"
    )
    f("entry:")
    if not ordered and (total >= 4 or n == 1):
        first, start, consecutive = consecutive_lanes(f, "%a", "i32", total)
        if total < 4:  # masked vectors of such small elements are slow on many processors
            consecutive = f.let(f"and i1 {consecutive}, {f.let('icmp eq i32 %mask, -1')}")
        f(f"  br i1 {consecutive}, label %line, label %slow, !prof !2\nline:")
        s = Shared(f, m)
        a0 = f.let(f"extractelement <32 x i32> %a, i32 {first}")
        ok = within(f, a0, span_of(f, first, total, "i32"), s.size, total, a0, "i32")
        f(f"  br i1 {ok}, label %inside, label %slow, !prof !2\ninside:")
        clean = _line(m, f, s, start, granules_of(m, total), store)
        f(f"  br i1 {clean}, label %good, label %slow, !prof !2\ngood:")
        p = f.let(f"getelementptr i8, ptr {s.memory}, i32 {start}")
        if store and total < 4:
            f(f"  store {vt} %v0, ptr {p}, align {total}\n  ret i1 true\nslow:")
        elif store:
            masked_store(f, p, [f"%v{k}" for k in range(n)], bits, total)
            f("  ret i1 true\nslow:")
        else:
            whole = [f.let(f"load {vt}, ptr {p}, align {total}")] if total < 4 else masked_load(f, p, bits, n, total)
            give(f, kind, whole, [vt] * n, "true")
            f("slow:")
    wide = f.let("zext <32 x i32> %a to <32 x i64>")
    if store:
        for k in range(n):
            f(f"  store {vt} %v{k}, ptr {f.let(f'getelementptr i8, ptr %res, i64 {k * LANES * nbytes}')}, align 4")
    done = f.let(f"call i1 @{slow(m, 'shared', nbytes, n, store, ordered)}({SLOW_OPERANDS.format(address=wide)})")
    if store:
        f(f"  ret i1 {done}")
    else:
        give(f, kind, results(f, bits, n), [vt] * n, done)
    return f.text()


def _line(m: Needs, f: Fn, s: Shared, start: str, per_lane: int, store: bool) -> str:
    """Shadow of consecutive granules: whether all is well; updated if so."""
    width = LANES * per_lane
    mask = lane_mask(f, per_lane)
    g = s.granule_of(f, start)

    def at(base: str) -> str:
        return f.let(f"getelementptr i32, ptr {base}, i32 {g}")

    settled = line_settled(f, s, g, per_lane, store)
    ask, go = f.new_label(), f.new_label()
    here = f.new_label()
    f(f"  br label %{here}\n{here}:\n  br i1 {settled}, label %{go}, label %{ask}, !prof !2\n{ask}:")
    second = f.let(f"call i1 @{_second(m, per_lane, store)}(ptr %ctx, ptr %warp, i32 {g}, i32 %mask, i32 %insn)")
    f(f"  br label %{go}\n{go}:")
    clean = f.let(f"phi i1 [ true, %{here} ], [ {second}, %{ask} ]")

    def update() -> None:
        if store:
            store_where(f, width, 32, splat_n(f, s.mine, width), at(s.wtag), 4, mask)
            store_where(f, width, 32, sites_of(f, per_lane), at(s.winsn), 4, mask)
        else:
            _note_line(m, f, s, g, per_lane, mask)

    f.when(clean, update, likely=True)
    return clean


def line_settled(f: Fn, s: Shared, g: str, per_lane: int, store: bool) -> str:
    """Whether the floor settles an access of consecutive granules from g on by the running lanes."""
    width = LANES * per_lane
    t, b = f"<{width} x i32>", f"<{width} x i1>"
    mask = lane_mask(f, per_lane)
    tags = [s.wtag, s.rtag] if store else [s.wtag]
    loaded = [load_where(f, width, 32, f.let(f"getelementptr i32, ptr {base}, i32 {g}"), 4, mask) for base in tags]
    if store:
        last = f.let(f"call {t} @llvm.umax.v{width}i32({t} {loaded[0]}, {t} {loaded[1]})")
        late = f.let(f"icmp uge {t} {last}, {splat_n(f, s.floor, width)}")
    else:
        since = f.let(f"sub {t} {loaded[0]}, {splat_n(f, s.start, width)}")
        late = f.let(f"icmp uge {t} {since}, {splat_n(f, f.let(f'sub i32 {s.floor}, {s.start}'), width)}")
        late = f.let(f"and {b} {late}, {mask}")
    return f.let(f"icmp eq i{width} {f.let(f'bitcast {b} {late} to i{width}')}, 0")


def sites_of(f: Fn, per_lane: int) -> str:
    """instruction << 5 | lane for each granule of consecutive accesses."""
    width = LANES * per_lane
    insn = splat_n(f, f.let("shl i32 %insn, 5"), width)
    return f.let(f"or <{width} x i32> {insn}, {iota('i32', 1, per_lane, width)}")


def _note_line(m: Needs, f: Fn, s: Shared, g: str, per_lane: int, mask: str) -> None:
    """Note the readers of consecutive granules: at once where earlier reads are ordered before this one."""
    width = LANES * per_lane
    t = f"<{width} x i32>"

    def at(base: str) -> str:
        return f.let(f"getelementptr i32, ptr {base}, i32 {g}")

    others = f"call void @{_readers(m, per_lane)}(ptr %ctx, ptr %warp, i32 {g}, i32 %mask, i32 %insn)"
    if m.exact:
        _note_line_in_table(f, s, g, per_lane, mask)
    reader = load_where(f, width, 32, at(s.rtag), 4, mask)
    late = f.let(f"icmp uge {t} {reader}, {splat_n(f, s.floor, width)}")
    some = f.let(f"icmp ne i{width} {f.let(f'bitcast <{width} x i1> {late} to i{width}')}, 0")
    again, fresh, on = f.new_label(), f.new_label(), f.new_label()
    f(f"  br i1 {some}, label %{again}, label %{fresh}\n{again}:\n  {others}\n  br label %{on}\n{fresh}:")
    store_where(f, width, 32, splat_n(f, s.mine, width), at(s.rtag), 4, mask)
    store_where(f, width, 32, sites_of(f, per_lane), at(s.rinsn), 4, mask)
    f(f"  br label %{on}\n{on}:")


def _note_line_in_table(f: Fn, s: Shared, g: str, per_lane: int, mask: str) -> None:
    """With vector clocks: this warp's last read of consecutive granules."""
    width, number = LANES * per_lane, f.get("%warp", Warp, "number", constant=True)
    for name, value in (("rclock", splat_n(f, s.mine, width)), ("rsite", sites_of(f, per_lane))):
        base = clocks.reads_of(f, name, number)
        store_where(f, width, 32, value, f.let(f"getelementptr i32, ptr {base}, i32 {g}"), 4, mask)


class Asked:
    """Tags and sites of some granules, one or more a lane, and what they say beside this warp's floor."""

    def __init__(self, f: Fn, s: Shared, per_lane: int, exact: bool, lane: str = ""):
        """lane: the only one that is asked about, or all 32."""
        self.exact = exact
        self.f, self.s, self.width = f, s, per_lane if lane else LANES * per_lane
        self.t, self.b = f"<{self.width} x i32>", f"<{self.width} x i1>"
        self.lanes = self.splat(lane) if lane else iota("i32", 1, per_lane, self.width)
        self.clock = f.let(f"and i32 {s.mine}, {-L.CLOCK_STEP}")

    def splat(self, value: str) -> str:
        return splat_n(self.f, value, self.width)

    def some(self, which: str) -> str:
        """Whether any of them holds."""
        bits = self.f.let(f"bitcast {self.b} {which} to i{self.width}")
        return self.f.let(f"icmp ne i{self.width} {bits}, 0")

    def late(self, store: bool, load: Callable[[str], str]) -> str:
        """Which granules the floor does not settle."""
        writer = load(self.s.wtag)
        if store:
            operands = f"{self.t} {writer}, {self.t} {load(self.s.rtag)}"
            last = self.f.let(f"call {self.t} @llvm.umax.v{self.width}i32({operands})")
            return self.test("uge", last, self.splat(self.s.floor))
        since = self.f.let(f"sub {self.t} {writer}, {self.splat(self.s.start)}")
        return self.test("uge", since, self.splat(self.f.let(f"sub i32 {self.s.floor}, {self.s.start}")))

    def test(self, op: str, x: str, y: str) -> str:
        return self.f.let(f"icmp {op} {self.t} {x}, {y}")

    def both(self, x: str, y: str, op: str = "and") -> str:
        return self.f.let(f"{op} {self.b} {x}, {y}")

    def own(self, tag: str) -> str:
        """Weak accesses of this warp."""
        difference = self.f.let(f"xor {self.t} {tag}, {self.splat(self.s.mine)}")
        which = self.f.let(f"and {self.t} {difference}, splat (i32 {L.STRONG | (L.SEVERAL_LANES - 1)})")
        return self.test("eq", which, "zeroinitializer")

    def same_lane(self, tag: str, site: str) -> str:
        lane = self.f.let(f"and {self.t} {site}, splat (i32 31)")
        several = self.f.let(f"and {self.t} {tag}, splat (i32 {L.SEVERAL_LANES})")
        return self.both(self.test("eq", lane, self.lanes), self.test("eq", several, "zeroinitializer"))

    def ordered(self, tag: str, site: str) -> str:
        """Below the floor, or by this warp: in an earlier interval or by the same lane."""
        before = self.test("ult", tag, self.splat(self.s.floor))
        earlier = self.test("ult", tag, self.splat(self.clock))
        own = self.own(tag)
        mine = self.both(own, self.both(earlier, self.same_lane(tag, site), "or"))
        fine = self.both(before, mine, "or")
        if self.exact:
            fine = self.both(fine, self.both(self._known(tag), self.both(own, "splat (i1 true)", "xor")), "or")
        return fine

    def _known(self, tag: str) -> str:
        """Below the bound for the warp that made it (this warp's own bound says nothing)."""
        who = self.f.let(f"and {self.t} {tag}, splat (i32 {L.CLOCK_STEP - 1})")
        of_warp = self.test("ult", who, f"splat (i32 {L.STRONG + L.SEVERAL_LANES})")
        warp = self.f.let(f"and {self.t} {tag}, splat (i32 {L.SEVERAL_LANES - 1})")
        bounds = self.f.at("%warp", Warp, "vclock")
        pointers = self.f.let(f"getelementptr i32, ptr {bounds}, {self.t} {warp}")
        of_other = self.test("ne", warp, self.splat(self.f.get("%warp", Warp, "number", constant=True)))
        known = self.test("ult", tag, gather_where(self.f, 32, pointers, "splat (i1 true)", width=self.width))
        return self.both(known, self.both(of_warp, of_other))

    def read_again(self, reader: str, site: str) -> tuple[str, str]:
        """(tags after another read, where the site is to be replaced: where reads of other lanes are not mixed in)."""
        fresh = self.test("ult", reader, self.splat(self.s.floor))
        own = self.own(reader)
        now = self.both(own, self.test("uge", reader, self.splat(self.clock)))
        not_alone = self.both(self.same_lane(reader, site), "splat (i1 true)", "xor")
        mixed = self.both(self.both(now, not_alone), self.both(fresh, "splat (i1 true)", "xor"))
        many = self.splat(self.f.let(f"or i32 {self.f.get('%ctx', Context, 'etag')}, {L.MANY_WARPS}"))
        mine = self.splat(self.s.mine)
        several = self.f.let(f"or {self.t} {mine}, splat (i32 {L.SEVERAL_LANES})")
        kept = self.f.let(f"select {self.b} {mixed}, {self.t} {several}, {self.t} {mine}")
        ours = self.both(fresh, own, "or")
        tags = self.f.let(f"select {self.b} {ours}, {self.t} {kept}, {self.t} {many}")
        return tags, self.both(ours, self.both(mixed, "splat (i1 true)", "xor"))


_LINE_OPERANDS = "ptr %ctx, ptr %warp, i32 %g, i32 %mask, i32 %insn"


def _second(m: Needs, per_lane: int, store: bool) -> str:
    """Consecutive granules that the floor does not settle: whether all is well with the rest."""

    def build(m: Needs, name: str) -> str:
        f = Fn(f"define internal i1 @{name}({_LINE_OPERANDS}) noinline {{")
        f("entry:")
        s = Shared(f, m)
        q = Asked(f, s, per_lane, m.exact)
        mask = lane_mask(f, per_lane)
        def load(base: str) -> str:
            return load_where(f, q.width, 32, f.let(f"getelementptr i32, ptr {base}, i32 %g"), 4, mask)

        fine = second_look(q, s, store, load)
        if store and m.exact:
            def row(base: str) -> str:
                return load_where(f, q.width, 32, f.let(f"getelementptr i32, ptr {base}, i32 %g"), 4, mask)

            fine = q.both(fine, read_by_others(f, q, row))
        bad = q.both(q.both(fine, "splat (i1 true)", "xor"), mask)
        bits = f.let(f"bitcast {q.b} {bad} to i{q.width}")
        f(f"  ret i1 {f.let(f'icmp eq i{q.width} {bits}, 0')}")
        return f.text()

    return need(m, f"shared_second_{'st' if store else 'ld'}_{per_lane}", build)


def second_look(q: Asked, s: Shared, store: bool, load: Callable[[str], str]) -> str:
    """Which granules are in order. With vector clocks `read_by_others` decides on reads by other warps."""
    writer = load(s.wtag)
    fine = q.ordered(writer, load(s.winsn))
    if not store:
        return q.both(fine, q.test("uge", writer, q.splat(s.start)))
    reader = load(s.rtag)
    read = q.ordered(reader, load(s.rinsn))
    if q.exact:
        read = q.both(read, q.both(q.own(reader), "splat (i1 true)", "xor"), "or")
    return q.both(fine, read)


def read_by_others(f: Fn, q: Asked, load: Callable[[str], str]) -> str:
    """Which granules every warp's last read of is ordered before this write; `load` reads from a warp's table."""
    f.n += 1
    any_late = f"%late{f.n}"
    f.lines.insert(2, f"  {any_late} = alloca {q.t}")
    f(f"  store {q.t} zeroinitializer, ptr {any_late}")

    def warp(k: str) -> None:
        bound = f.let(f"load i32, ptr {f.at('%warp', Warp, 'vclock', k)}")
        late = f.let(f"zext {q.b} {q.test('uge', load(clocks.reads_of(f, 'rclock', k)), q.splat(bound))} to {q.t}")
        f(f"  store {q.t} {f.let(f'or {q.t} {late}, ' + f.let(f'load {q.t}, ptr {any_late}'))}, ptr {any_late}")

    f.repeat(f.get("%ctx", Context, "nwarps", constant=True), warp)
    return q.test("eq", f.let(f"load {q.t}, ptr {any_late}"), "zeroinitializer")


def _readers(m: Needs, per_lane: int) -> str:
    """Note the readers of consecutive granules."""

    def build(m: Needs, name: str) -> str:
        f = Fn(f"define internal void @{name}({_LINE_OPERANDS}) noinline {{")
        f("entry:")
        s = Shared(f, m)
        q = Asked(f, s, per_lane, m.exact)
        mask = lane_mask(f, per_lane)
        tag_at, site_at = (f.let(f"getelementptr i32, ptr {base}, i32 %g") for base in (s.rtag, s.rinsn))
        tags, where = q.read_again(*(load_where(f, q.width, 32, p, 4, mask) for p in (tag_at, site_at)))
        store_where(f, q.width, 32, tags, tag_at, 4, mask)
        store_where(f, q.width, 32, sites_of(f, per_lane), site_at, 4, q.both(where, mask))
        f("  ret void")
        return f.text()

    return need(m, f"shared_readers_{per_lane}", build)
