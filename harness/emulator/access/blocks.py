"""Races between the blocks of one launch on global memory.

Every buffer that kernels may write has a shadow (layout.BlockShadow): for each unit who wrote it last and who read it
last. An access conflicts where the other side is another block of this launch, one of the two is a write, one of the
two is plain, and nothing orders them. A block's number in the case is its tag, so that whatever older launches did has
a smaller tag and counts as ordered.

Order between blocks, in kernels that communicate (sharing.py; they run on one host thread). A launch-wide time ticks at
every fence. An access remembers the time; a strong write leaves the time of its block's last fence at its address; a
strong read collects what it finds there, and a fence behind it turns that into `seen_time`: whatever was done before
that time is ordered before what the block does from now on. This is the release and acquire pattern of the PTX memory
model ("Release and Acquire Patterns", "Causality Order"), with a block in place of each of its threads and with all
blocks' accesses before a fence in place of those that the fence is cumulative over: it may take too much for ordered,
never too little.

Two blocks that write the same value do not harm each other and are not reported.
"""

from __future__ import annotations

from harness.emulator import layout as L
from harness.emulator.access.base import Needs, hazard, need
from harness.emulator.access.vectors import iota, load_where, store_where
from harness.emulator.irtext import Fn
from harness.emulator.layout import BlockShadow, Context, Order, Warp

_CHUNK, _BULK = 8, 32  # units that are checked at once
_STRIPE_BITS = 10  # of a unit's index: a lock's units


class _View:
    """The fields that one helper works on; vectors of `count` units, or scalars where it is 1."""

    def __init__(self, f: Fn, timed: bool, count: int = 1):
        self.f, self.timed, self.count = f, timed, count
        self.kind = "i32" if count == 1 else f"<{count} x i32>"
        self.truth = "i1" if count == 1 else f"<{count} x i1>"
        tag, base = f.get("%ctx", Context, "block_tag"), f.get("%ctx", Context, "race_base")
        self.first, self.scalar_tag = base, tag
        self.mine, self.base = self.spread(tag), self.spread(f.let(f"or i32 {base}, {L.TAG_STRONG}"))
        blocks = f.let(f"trunc i64 {f.get('%ctx', Context, 'nblocks')} to i32")
        beyond = f.let(f"shl i32 {f.let(f'add i32 {blocks}, 1')}, 1")
        self.many = self.spread(f.let(f"add i32 {base}, {beyond}"))  # in place of a block's tag: several blocks
        if timed:
            self.seen = self.spread(f.get("%ctx", Context, "seen_time"))
            self.now = self.spread(f.get(f.get("%ctx", Context, "order", pointer=True), Order, "time"))

    def spread(self, value: str) -> str:
        """A value for every unit."""
        if self.count == 1:
            return value
        one = self.f.let(f"insertelement {self.kind} poison, i32 {value}, i32 0")
        return self.f.let(f"shufflevector {self.kind} {one}, {self.kind} poison, {self.kind} zeroinitializer")

    def op(self, name: str, a: str, b: str) -> str:
        return self.f.let(f"{name} {self.kind} {a}, {b}")

    def both(self, a: str, b: str) -> str:
        return self.f.let(f"and {self.truth} {a}, {b}")

    def either(self, a: str, b: str) -> str:
        return self.f.let(f"or {self.truth} {a}, {b}")

    def opposite(self, a: str) -> str:
        return self.f.let(f"xor {self.truth} {a}, {'true' if self.count == 1 else 'splat (i1 true)'}")

    def constant(self, value: int) -> str:
        return str(value) if self.count == 1 else f"splat (i32 {value})"

    def choose(self, condition: str, a: str, b: str) -> str:
        return self.f.let(f"select {self.truth} {condition}, {self.kind} {a}, {self.kind} {b}")

    def old(self, tag: str) -> str:
        """Of an earlier launch."""
        return self.op("icmp ule", tag, self.base)

    def own(self, tag: str) -> str:
        return self.op("icmp ult", self.op("xor", tag, self.mine), self.constant(2))

    def strong(self, tag: str) -> str:
        return self.op("icmp ne", self.op("and", tag, self.constant(L.TAG_STRONG)), self.constant(0))

    def before(self, time: str) -> str:
        return self.op("icmp ult", time, self.seen)

    def latest(self, a: str, b: str) -> str:
        return self.choose(self.op("icmp ugt", a, b), a, b)


class _Places:
    """Where the entries of one unit, or of a chunk of units, lie; under a mask where that is given."""

    def __init__(self, v: _View, at: str, mask: str = ""):
        self.v, self.at, self.mask = v, at, mask

    def _pointer(self, name: str) -> str:
        base = self.v.f.get("%shadow", BlockShadow, name, pointer=True)
        return self.v.f.let(f"getelementptr i32, ptr {base}, i64 {self.at}")

    def load(self, name: str, other: str = "zeroinitializer") -> str:
        if not self.mask:
            return self.v.f.let(f"load {self.v.kind}, ptr {self._pointer(name)}, align 4")
        return load_where(self.v.f, self.v.count, 32, self._pointer(name), 4, self.mask, other)

    def store(self, name: str, value: str, mask: str = "") -> None:
        if mask or self.mask:
            store_where(self.v.f, self.v.count, 32, value, self._pointer(name), 4, mask or self.mask)
        else:
            self.v.f(f"  store {self.v.kind} {value}, ptr {self._pointer(name)}, align 4")


# -- consecutive units of a warp


def line(m: Needs, f: Fn, shadow: str, offset: str, span: str, first: str, total: int, store: bool) -> str:
    """Check and note the accesses of consecutive lanes, if they are free of conflicts: i1, or false with nothing said.

    offset, span: bytes (i64) of all running lanes; first: the first of them; total: bytes of each, at least a unit."""
    assert total >= m.unit  # smaller accesses go lane by lane
    shift = (total // m.unit).bit_length() - 1
    bits = m.unit.bit_length() - 1
    name = need(m, f"blocks_{'st' if store else 'ld'}_line", lambda m, name: _line_helper(m, name, store))
    index, count = f.let(f"lshr i64 {offset}, {bits}"), f.let(f"lshr i64 {span}, {bits}")
    place = _here(f, first)
    run = f.let(f"lshr i32 %mask, {first}")
    gaps = f.let(f"and i32 {run}, {f.let(f'add i32 {run}, 1')}")
    whole = f.let(f"icmp eq i32 {gaps}, 0")
    end = f.let(f"select i1 {whole}, i64 {count}, i64 -1")
    return f.let(f"call i1 @{name}(ptr %ctx, ptr {shadow}, i64 {index}, i64 {end}, i32 {place}, i32 {shift})")


def _line_helper(m: Needs, name: str, store: bool) -> str:
    """As many units as possible in bulk, the others in chunks that never cross a lock's units. What is noted before
    another unit conflicts does no harm: it is noted again."""
    f = Fn(
        f"define internal i1 @{name}(ptr %ctx, ptr %shadow, i64 %index, i64 %count, i32 %place, i32 %shift) noinline {{"
    )
    f("entry:\n  %j = alloca i64\n  store i64 0, ptr %j")
    searched = f.let(f"icmp ne i64 {f.get('%shadow', BlockShadow, 'wtag')}, 0")
    f(f"  br i1 {searched}, label %search, label %fine\nsearch:")
    f("  %regular = icmp sge i64 %count, 0\n  br i1 %regular, label %go, label %conflict\ngo:")
    alone = f.let(f"icmp eq i64 {f.get('%ctx', Context, 'locks')}, 0")
    v = _View(f, m.communicates, _BULK)
    f(f"  br i1 {alone}, label %bulk, label %rest\nbulk:")
    j = f.let("load i64, ptr %j")
    more = f.let(f"icmp ule i64 {f.let(f'add i64 {j}, {_BULK}')}, %count")
    f(f"  br i1 {more}, label %many, label %rest\nmany:")
    good = _chunk(v, store, _Places(v, f.let(f"add i64 %index, {j}")), f.let(f"trunc i64 {j} to i32"))
    f(f"  store i64 {f.let(f'add i64 {j}, {_BULK}')}, ptr %j\n  br i1 {good}, label %bulk, label %conflict\nrest:")
    _line_rest(f, _View(f, m.communicates, _CHUNK), store)
    f("conflict:\n  ret i1 false\nfine:\n  ret i1 true")
    return f.text()


def _line_rest(f: Fn, v: _View, store: bool) -> None:
    """What the bulk has left, from the multiple of a chunk at or before it: under a mask, and a lock where needed."""
    done = f.let("load i64, ptr %j")
    first = f.let(f"add i64 %index, {done}")
    start = f.let(f"and i64 {first}, {-_CHUNK}")
    end = f.let("add i64 %index, %count")
    f(f"  store i64 {start}, ptr %j\n  br label %head\nhead:")
    at = f.let("load i64, ptr %j")
    f(f"  br i1 {f.let(f'icmp ult i64 {at}, {end}')}, label %chunk, label %fine\nchunk:")
    from_start = f.let(f"trunc i64 {f.let(f'sub i64 {at}, %index')} to i32")
    unit = v.op("add", v.spread(from_start), iota("i32", count=_CHUNK))
    low, high = (v.spread(f.let(f"trunc i64 {x} to i32")) for x in (done, "%count"))
    inside = v.both(v.op("icmp sge", unit, low), v.op("icmp slt", unit, high))
    _lock(f, at)
    good = _chunk(v, store, _Places(v, at, inside), from_start)
    _unlock(f, at)
    f(f"  store i64 {f.let(f'add i64 {at}, {_CHUNK}')}, ptr %j\n  br i1 {good}, label %head, label %conflict")


def _chunk(v: _View, store: bool, p: _Places, unit: str) -> str:
    """Check and note units from number `unit` of the line on: whether they are free of conflicts."""
    numbers = v.op("add", v.spread(unit), iota("i32", count=v.count))
    place = v.op("add", v.spread("%place"), v.op("lshr", numbers, v.spread("%shift")))
    return (_store_chunk if store else _load_chunk)(v, p, place)


def _all(v: _View, fine: str) -> str:
    return v.f.let(f"icmp eq i{v.count} {v.f.let(f'bitcast {v.truth} {fine} to i{v.count}')}, -1")


def _ordered_writer(v: _View, p: _Places, tag: str) -> str:
    fine = v.either(v.old(tag), v.own(tag))
    return v.either(fine, v.before(p.load("wtime"))) if v.timed else fine


def _store_chunk(v: _View, p: _Places, place: str) -> str:
    f = v.f
    writer, reader = p.load("wtag", v.mine), p.load("rtag", v.mine)
    fine = v.either(v.old(reader), v.own(reader))
    if v.timed:
        fine = v.either(fine, v.before(p.load("rtime")))
        fine = v.both(fine, v.before(p.load("others")))
    good = _all(v, v.both(_ordered_writer(v, p, writer), fine))

    def note() -> None:
        p.store("wtag", v.mine)
        p.store("wplace", place)
        if v.timed:
            p.store("wtime", v.now)

    f.when(good, note, likely=True)
    return good


def _load_chunk(v: _View, p: _Places, place: str) -> str:
    f = v.f
    good = _all(v, _ordered_writer(v, p, p.load("wtag", v.mine)))
    reader = p.load("rtag", v.mine)
    own = v.own(reader)

    def note() -> None:
        fresh = v.either(v.old(reader), own)
        if v.timed:
            time, others = p.load("rtime"), p.load("others")
            p.store("others", v.choose(own, others, v.latest(others, time)))
            p.store("rtime", v.now)
            fresh = v.either(fresh, v.before(time))
        p.store("rtag", v.choose(own, reader, v.mine if v.timed else v.choose(fresh, v.mine, v.many)))
        p.store("rplace", v.choose(fresh, place, p.load("rplace")))

    news = f.let(f"xor i1 {_all(v, own)}, true") if not v.timed else "true"
    f.when(f.let(f"and i1 {good}, {news}"), note)
    return good


def _lock(f: Fn, at: str) -> None:
    """Only where several workers run. A loop around an exchange: what is done under a lock takes some nanoseconds."""
    locks = f.get("%ctx", Context, "locks", pointer=True)
    spin, on = f.new_label(), f.new_label()
    p = _stripe(f, locks, at)
    f(f"  br i1 {f.let(f'icmp eq ptr {locks}, null')}, label %{on}, label %{spin}\n{spin}:")
    taken = f.let(f"atomicrmw xchg ptr {p}, i32 1 acquire")
    f(f"  br i1 {f.let(f'icmp eq i32 {taken}, 0')}, label %{on}, label %{spin}\n{on}:")


def _unlock(f: Fn, at: str) -> None:
    locks = f.get("%ctx", Context, "locks", pointer=True)
    p = _stripe(f, locks, at)
    f.when(f.let(f"icmp ne ptr {locks}, null"), lambda: f(f"  store atomic i32 0, ptr {p} release, align 4"))


def _stripe(f: Fn, locks: str, at: str) -> str:
    number = f.let(f"and i64 {f.let(f'lshr i64 {at}, {_STRIPE_BITS}')}, {L.LOCK_STRIPES - 1}")
    return f.let(f"getelementptr i32, ptr {locks}, i64 {number}")


# -- units one by one


def words(m: Needs, f: Fn, shadow: str, offset: str, nbytes: int, lane: str, address: str, what: str,
          new: str = "null", old: str = "null") -> None:  # fmt: skip
    """Check and note one thread's access to nbytes at a byte offset; conflicts are recorded.

    what: "ld", "st", or the same of a strong access, "strong_ld" and "strong_st". A plain store is only told of where
    it changes something: from the bytes at `old` to those at `new`."""
    name = need(m, f"blocks_{what}", lambda m, name: _words_helper(m, name, what))
    index = f.let(f"lshr i64 {offset}, {m.unit.bit_length() - 1}")
    operands = f"i64 {index}, i32 {max(1, nbytes // m.unit)}, i32 %insn, i32 {lane}, i64 {address}"
    f(f"  call void @{name}(ptr %ctx, ptr %warp, ptr {shadow}, {operands}, ptr {new}, ptr {old})")


def _words_helper(m: Needs, name: str, what: str) -> str:
    f = Fn(
        f"define internal void @{name}(ptr %ctx, ptr %warp, ptr %shadow, i64 %index, i32 %count, i32 %insn, i32 %lane, "
        "i64 %address, ptr %new, ptr %old) noinline {"
    )
    f("entry:\n  %k = alloca i32")
    searched = f.let(f"icmp ne i64 {f.get('%shadow', BlockShadow, 'wtag')}, 0")
    f(f"  store i32 0, ptr %k\n  br i1 {searched}, label %head, label %done\nhead:")
    k = f.let("load i32, ptr %k")
    f(f"  br i1 {f.let(f'icmp ult i32 {k}, %count')}, label %unit, label %done\nunit:")
    wide = f.let(f"zext i32 {k} to i64")
    at = f.let(f"add i64 %index, {wide}")
    offset = f.let(f"mul i64 {wide}, {m.unit}")
    v = _View(f, m.communicates)
    p = _Places(v, at)
    _lock(f, at)
    _unit(m, v, p, what, offset)
    _unlock(f, at)
    f(f"  store i32 {f.let(f'add i32 {k}, 1')}, ptr %k\n  br label %head\ndone:\n  ret void")
    return f.text()


def _unit(m: Needs, v: _View, p: _Places, what: str, offset: str) -> None:
    f, strong, store = v.f, what.startswith("strong"), what.endswith("st")
    writer, reader = p.load("wtag"), p.load("rtag")
    if strong:
        _meet_plain_writer(m, v, p, writer, store, offset)
    else:
        clash = v.opposite(_ordered_writer(v, p, writer))
        # A plain access does not race behind a strong read of what a strong write wrote.
        read = v.both(v.strong(reader), v.either(v.own(reader), _is_many(v, reader)))
        clash = v.both(clash, v.opposite(v.both(v.strong(writer), read)))
        if store:
            changed = _changed(m, f, offset)
            clash = v.both(clash, changed)
        _report(m, v, clash, L.H_BLOCK_WRITE, writer, p.load("wplace"), offset)
    if not store:
        (_note_strong_reader if strong else _note_reader)(v, p, reader)
        return
    fine = v.either(v.either(v.old(reader), v.own(reader)), v.strong(reader))
    culprit = reader
    if v.timed:
        known = v.before(p.load("others"))
        culprit = v.choose(v.either(known, v.opposite(fine)), reader, v.many)
        fine = v.both(v.either(fine, v.before(p.load("rtime"))), known)
    clash = v.opposite(fine)
    if what == "st":
        clash = v.both(clash, changed)
    _report(m, v, clash, L.H_BLOCK_READ, culprit, p.load("rplace"), offset)
    p.store("wtag", v.op("or", v.mine, str(int(strong))))
    p.store("wplace", _here(f))
    if v.timed:
        p.store("wtime", v.now)


def _meet_plain_writer(m: Needs, v: _View, p: _Places, writer: str, store: bool, offset: str) -> None:
    """Check a strong access against the last plain write, whatever strong ones came after it: those take its place as
    the last writer, and are no race. A strong store keeps what it takes the place of. Plain accesses need not look
    there: the strong write was reported or is ordered behind the plain one, and they must be behind the strong one."""
    hidden = v.strong(writer)
    tag, place, time = (v.choose(hidden, p.load(f"plain_{name}"), p.load(name)) for name in ("wtag", "wplace", "wtime"))
    fine = v.either(v.either(v.old(tag), v.own(tag)), v.before(time))
    _report(m, v, v.opposite(fine), L.H_BLOCK_WRITE, tag, place, offset)

    def keep() -> None:
        for name, value in (("wtag", tag), ("wplace", place), ("wtime", time)):
            p.store(f"plain_{name}", value)

    if store:
        v.f.when(v.opposite(hidden), keep)


def _changed(m: Needs, f: Fn, offset: str) -> str:
    """Whether the store gives the unit another value. Where other workers run, what is there may be on its way: then
    every conflict counts, and the run in order says which of them are real."""
    bits = 8 * m.unit
    new, old = (
        f.let(f"load i{bits}, ptr {f.let(f'getelementptr i8, ptr {base}, i64 {offset}')}, align 1")
        for base in ("%new", "%old")
    )
    crowded = f.let(f"icmp ne i64 {f.get('%ctx', Context, 'locks')}, 0")
    return f.let(f"or i1 {crowded}, {f.let(f'icmp ne i{bits} {new}, {old}')}")


def _here(f: Fn, lane: str = "%lane") -> str:
    """Instruction, warp and lane in one word."""
    warp = f.let(f"shl i32 {f.get('%warp', Warp, 'number')}, 5")
    insn = f.let(f"shl i32 %insn, {L.PLACE_BITS}")
    return f.let(f"or i32 {f.let(f'or i32 {insn}, {warp}')}, {lane}")


def _is_many(v: _View, tag: str) -> str:
    return v.op("icmp eq", v.op("or", tag, "1"), v.op("or", v.many, "1"))


def _report(m: Needs, v: _View, clash: str, kind: int, tag: str, place: str, offset: str) -> None:
    """The hazard's tag is the other block's linear index, or the number of blocks for several."""
    f = v.f

    def body() -> None:
        number = f.let(f"lshr i32 {v.op('sub', tag, v.first)}, 1")
        block = f.let(f"sub i32 {number}, 1")
        address = f.let(f"add i64 %address, {offset}")
        hazard(m, f, kind, "%lane", address, block, place)

    f.when(clash, body, likely=False)


def _note_reader(v: _View, p: _Places, reader: str) -> None:
    own = v.own(reader)
    fresh = v.either(v.old(reader), own)
    if v.timed:
        time, others = p.load("rtime"), p.load("others")
        p.store("others", v.choose(own, others, v.latest(others, time)))
        p.store("rtime", v.now)
        fresh = v.either(fresh, v.before(time))
    keep = v.either(own, v.both(v.strong(reader), _is_many(v, reader)))
    p.store("rtag", v.choose(keep, reader, v.mine if v.timed else v.choose(fresh, v.mine, v.many)))
    v.f.when(fresh, lambda: p.store("rplace", _here(v.f)))


def _note_strong_reader(v: _View, p: _Places, reader: str) -> None:
    """Remembered for its own plain accesses that follow; it says nothing of plain reads before it."""
    alone = v.either(v.old(reader), v.own(reader))
    tag = v.op("or", v.choose(alone, v.mine, v.many), str(L.TAG_STRONG))
    v.f.when(v.either(alone, v.strong(reader)), lambda: p.store("rtag", tag))


# -- release and acquire


def strong_access(m: Needs, f: Fn, address: str, write: bool) -> None:
    """Collect what was released at this address; a write releases what its block did before its last fence."""
    name = need(m, f"blocks_meet_{'st' if write else 'ld'}", lambda m, name: _meet_helper(name, write))
    f(f"  call void @{name}(ptr %ctx, i64 {address})")


def _meet_helper(name: str, write: bool) -> str:
    f = Fn(f"define internal void @{name}(ptr %ctx, i64 %address) noinline {{")
    f("entry:")
    v = _View(f, timed=False)
    word = f.let(f"trunc i64 {f.let('lshr i64 %address, 2')} to i32")
    mixed = f.let(f"mul i32 {word}, {0x9E3779B1 - (1 << 32)}")  # Knuth's multiplicative hash
    slot = f.let(f"lshr i32 {mixed}, {32 - (L.RELEASE_SLOTS - 1).bit_length()}")
    p = f.at(f.get("%ctx", Context, "order", pointer=True), Order, "released", slot)
    released = f.let(f"load i32, ptr {p}")
    f.put("%ctx", Context, "pending_time", v.latest(f.get("%ctx", Context, "pending_time"), released))
    if write:
        f(f"  store i32 {v.latest(f.get('%ctx', Context, 'fence_time'), released)}, ptr {p}")
    f("  ret void")
    return f.text()


def fence(m: Needs, acquire: bool, release: bool) -> str:
    """Name of the helper (ctx) for a fence, or for one half of it."""
    name = f"blocks_fence_{int(acquire)}{int(release)}"

    def build(m: Needs, name: str) -> str:
        f = Fn(f"define internal void @{name}(ptr %ctx) noinline {{")
        f("entry:")
        if release:
            order = f.get("%ctx", Context, "order", pointer=True)
            now = f.let(f"add i32 {f.get(order, Order, 'time')}, 1")
            f.put(order, Order, "time", now)
            f.put("%ctx", Context, "fence_time", now)
        if acquire:
            v = _View(f, timed=False)
            seen, found = (f.get("%ctx", Context, field) for field in ("seen_time", "pending_time"))
            f.put("%ctx", Context, "seen_time", v.latest(seen, found))
        f("  ret void")
        return f.text()

    return need(m, name, build)
