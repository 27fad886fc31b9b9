"""The checks of one granule of shared memory, out of line: what the vector forms could not settle at a glance.

A granule is as large as the kernel's smallest access of shared memory (1, 2 or 4 bytes; Needs.granule), so that
neighbours in one word are told apart. For each the shadow keeps the tag of the last write and of the last read
(access/clocks.py), and where each was made: instruction << 5 | lane.

    ordered    its clock is below this warp's floor, or below the bound for the warp that made it; for this warp's own
               accesses: it was made before the warp's last synchronisation, or by the same lane
    race       a read and an unordered write, a write and an unordered read, two unordered writes of different values;
               strong accesses (atomics, volatile) do not race with each other

A strong write that takes the place of a weak one leaves its tag and site in plain_wtag and plain_winsn: the strong
accesses that follow do not race with the strong write, but with the weak one they may. Weak accesses need not look
there: a strong write in wtag was either reported or ordered behind the weak one, and they must be behind the strong
one.

Several readers: without vector clocks (Needs.exact) MANY_WARPS stands for them all, which is enough where every
synchronisation is one of the whole block; with them, each warp's last read is kept (Context.rclock, rsite).
"""

from __future__ import annotations

from harness.emulator import layout as L
from harness.emulator.access import clocks
from harness.emulator.access.base import Needs, hazard, need
from harness.emulator.irtext import Fn
from harness.emulator.layout import LANES, Context, Warp

# %lanes: the lane, or of several lanes that access one address (not %single) the first, and the last << 8
OPERANDS = "ptr %ctx, ptr %warp, i32 %insn, i32 %lanes, i1 %single, i32 %g"
_OWN = L.STRONG | (L.SEVERAL_LANES - 1)  # bits of a tag that say which warp, and that the access was weak


class Granule:
    """Pointers into the shadow of granule %g, and the tags of this warp."""

    def __init__(self, f: Fn, m: Needs):
        self.f, self.m = f, m
        self.wtag, self.winsn, self.rtag, self.rinsn = (
            self.of_context(name) for name in ("wtag", "winsn", "rtag", "rinsn")
        )
        self.mine, self.floor = f.get("%warp", Warp, "mine"), f.get("%warp", Warp, "floor")
        self.start = f.get("%ctx", Context, "start_tag")
        self.clock = f.let(f"and i32 {self.mine}, {-L.CLOCK_STEP}")
        f(f"  %lane = and i32 %lanes, {LANES - 1}")
        several = f.let(f"select i1 %single, i32 0, i32 {L.SEVERAL_LANES}")
        self.tag = f.let(f"or i32 {self.mine}, {several}")
        self.site = f.let(f"or i32 {f.let('shl i32 %insn, 5')}, %lane")

    def of_context(self, name: str) -> str:
        """Pointer to the granule's entry of one of the shadow's arrays."""
        return self.f.let(f"getelementptr i32, ptr {self.f.get('%ctx', Context, name, pointer=True)}, i32 %g")

    def load(self, p: str) -> str:
        return self.f.let(f"load i32, ptr {p}")

    def place(self) -> str:
        shift = self.m.granule.bit_length() - 1
        return self.f.let(f"zext i32 {self.f.let(f'shl i32 %g, {shift}')} to i64")

    def report(self, kind: int | str, tag: str, site: str) -> None:
        hazard(self.m, self.f, kind, self.reporter(tag, site), self.place(), tag, site)

    def reporter(self, tag: str, site: str) -> str:
        """Of several lanes one that is not the other party."""
        f = self.f
        last = f.let("lshr i32 %lanes, 8")
        same = f.let(f"icmp eq i32 {f.let(f'and i32 {site}, {LANES - 1}')}, %lane")
        other = f.let(f"and i1 {same}, {f.let('xor i1 %single, true')}")
        return f.let(f"select i1 {other}, i32 {last}, i32 %lane")

    def read_by(self, name: str, warp: str) -> str:
        """Pointer to what the tables of last reads have on a warp and this granule."""
        return self.f.let(f"getelementptr i32, ptr {clocks.reads_of(self.f, name, warp)}, i32 %g")


def _function(m: Needs, name: str, extra: str = "") -> tuple[Fn, Granule]:
    f = Fn(f"define internal void @{name}({OPERANDS}{extra}) noinline {{")
    f("entry:")
    return f, Granule(f, m)


def _ordered(f: Fn, g: Granule, tag: str, site: str) -> str:
    """Whether the tagged access happens before this one."""
    bound_of = f.let(f"and i32 {tag}, {L.SEVERAL_LANES - 1}")
    bound = f.let(f"load i32, ptr {f.at('%warp', Warp, 'vclock', bound_of)}") if g.m.exact else g.floor
    of_warp = f.let(f"icmp ult i32 {f.let(f'and i32 {tag}, {L.CLOCK_STEP - 1}')}, {L.STRONG + L.SEVERAL_LANES}")
    before = f.let(f"icmp ult i32 {tag}, {g.floor}")
    known = f.let(f"and i1 {of_warp}, {f.let(f'icmp ult i32 {tag}, {bound}')}")
    own = f.let(f"icmp eq i32 {bound_of}, {f.get('%warp', Warp, 'number')}")
    own = f.let(f"and i1 {own}, {of_warp}")
    # vclock's own entry is the largest: `known` must not be asked about this warp's accesses.
    known = f.let(f"and i1 {known}, {f.let(f'xor i1 {own}, true')}")
    earlier = f.let(f"icmp ult i32 {tag}, {g.clock}")
    by_lane = f.let(f"and i1 {_same_lane(f, tag, site)}, %single")
    own = f.let(f"and i1 {own}, {f.let(f'or i1 {earlier}, {by_lane}')}")
    return f.let(f"or i1 {before}, {f.let(f'or i1 {known}, {own}')}")


def _same_lane(f: Fn, tag: str, site: str) -> str:
    same = f.let(f"icmp eq i32 {f.let(f'and i32 {site}, 31')}, %lane")
    one = f.let(f"icmp eq i32 {f.let(f'and i32 {tag}, {L.SEVERAL_LANES}')}, 0")
    return f.let(f"and i1 {same}, {one}")


def _special(f: Fn, g: Granule, tag: str, site: str) -> str:
    """Report an access of an mbarrier object, or of bytes that an asynchronous copy is about to write; whether it
    is one."""
    special = f.let(f"icmp uge i32 {tag}, {L.SPECIAL}")

    def report() -> None:
        flying = f.let(f"icmp eq i32 {tag}, {L.IN_FLIGHT}")
        kind = f.let(f"select i1 {flying}, i32 {L.H_IN_FLIGHT}, i32 {L.H_BARRIER_OBJECT}")
        g.report(kind, tag, site)

    f.when(special, report, likely=False)
    return special


def read(m: Needs) -> str:
    """A weak read of granule %g: check it against the last write and note it."""

    def build(m: Needs, name: str) -> str:
        f, g = _function(m, name)
        tag, site = g.load(g.wtag), g.load(g.winsn)
        special = _special(f, g, tag, site)
        unset = f.let(f"icmp ult i32 {tag}, {g.start}")
        f.when(unset, lambda: g.report(L.H_UNINIT_SHARED, "0", "0"), likely=False)
        fine = f.let(f"or i1 {special}, {f.let(f'or i1 {unset}, {_ordered(f, g, tag, site)}')}")
        f.when(f.let(f"xor i1 {fine}, true"), lambda: g.report(L.H_RACE_WRITE, tag, site), likely=False)
        _note_reader(f, g)
        f("  ret void")
        return f.text()

    return need(m, "shared_read", build)


def note_reader(m: Needs) -> str:
    """A weak read of granule %g whose write is known to be in order: only note it."""

    def build(m: Needs, name: str) -> str:
        f, g = _function(m, name)
        _note_reader(f, g)
        f("  ret void")
        return f.text()

    return need(m, "shared_note_reader", build)


def _note_reader(f: Fn, g: Granule) -> None:
    old, site = g.load(g.rtag), g.load(g.rinsn)
    fresh = f.let(f"icmp ult i32 {old}, {g.floor}")
    new, replaces = _own_read(f, g, old, site)
    difference = f.let(f"xor i32 {old}, {g.mine}")
    own = f.let(f"icmp eq i32 {f.let(f'and i32 {difference}, {_OWN}')}, 0")
    many = f.let(f"or i32 {f.get('%ctx', Context, 'etag')}, {L.MANY_WARPS}")
    kept = f.let(f"select i1 {own}, i32 {new}, i32 {many}")
    f(f"  store i32 {f.let(f'select i1 {fresh}, i32 {g.tag}, i32 {kept}')}, ptr {g.rtag}")
    first = f.let(f"or i1 {fresh}, {f.let(f'and i1 {own}, {replaces}')}")
    f.when(first, lambda: f(f"  store i32 {g.site}, ptr {g.rinsn}"))
    if g.m.exact:
        _note_in_table(f, g)


def _own_read(f: Fn, g: Granule, old: str, site: str) -> tuple[str, str]:
    """The tag after another read by this warp, and whether it stands for this read alone."""
    again = f.let(f"icmp uge i32 {old}, {g.clock}")
    alone = f.let(f"and i1 {_same_lane(f, old, site)}, %single")
    mixed = f.let(f"and i1 {again}, {f.let(f'xor i1 {alone}, true')}")
    several = f.let(f"or i32 {g.mine}, {L.SEVERAL_LANES}")
    return f.let(f"select i1 {mixed}, i32 {several}, i32 {g.tag}"), f.let(f"xor i1 {mixed}, true")


def _note_in_table(f: Fn, g: Granule) -> None:
    number = f.get("%warp", Warp, "number")
    for name, value in (("rclock", g.mine), ("rsite", g.site)):
        f(f"  store i32 {value}, ptr {g.read_by(name, number)}")


def write(m: Needs) -> str:
    """A weak write of granule %g; %differs: it changes the value."""

    def build(m: Needs, name: str) -> str:
        f, g = _function(m, name, ", i1 %differs")
        tag, site = g.load(g.wtag), g.load(g.winsn)
        special = _special(f, g, tag, site)
        fine = f.let(f"or i1 {special}, {_ordered(f, g, tag, site)}")
        clash = f.let(f"and i1 {f.let(f'xor i1 {fine}, true')}, %differs")
        f.when(clash, lambda: g.report(L.H_RACE_WRITE, tag, site), likely=False)
        _check_readers(f, g)
        f(f"  store i32 {g.tag}, ptr {g.wtag}\n  store i32 {g.site}, ptr {g.winsn}")
        f("  ret void")
        return f.text()

    return need(m, "shared_write", build)


def _check_readers(f: Fn, g: Granule) -> None:
    tag = g.load(g.rtag)
    late = f.let(f"icmp uge i32 {tag}, {g.floor}")
    f.when(late, lambda: _late_readers(f, g, tag))


def _late_readers(f: Fn, g: Granule, tag: str) -> None:
    """Reads that the floor does not cover: which of them are not ordered?"""
    site = g.load(g.rinsn)
    bad = f.let(f"xor i1 {_ordered(f, g, tag, site)}, true")
    if g.m.exact:  # the table knows of other warps, the tag of this one's lanes
        mine = f.let(f"icmp eq i32 {f.let(f'xor i32 {tag}, {g.mine}')}, 0")
        several = f.let(f"icmp eq i32 {f.let(f'xor i32 {tag}, {g.mine}')}, {L.SEVERAL_LANES}")
        bad = f.let(f"and i1 {bad}, {f.let(f'or i1 {mine}, {several}')}")
    f.when(bad, lambda: g.report(L.H_RACE_READ, tag, site), likely=False)
    if not g.m.exact:
        return

    def other(warp: str) -> None:
        tag = g.load(g.read_by("rclock", warp))
        late = f.let(f"icmp uge i32 {tag}, {g.load(f.at('%warp', Warp, 'vclock', warp))}")
        fresh = f.let(f"icmp eq i32 {g.load('%found')}, -1")

        def note() -> None:
            f(f"  store i32 {warp}, ptr %found")

        f.when(f.let(f"and i1 {late}, {fresh}"), note, likely=False)

    f.lines.insert(2, "  %found = alloca i32")
    f("  store i32 -1, ptr %found")
    f.repeat(f.get("%ctx", Context, "nwarps"), other)
    which = g.load("%found")
    f.when(f.let(f"icmp ne i32 {which}, -1"), lambda: g.report(L.H_RACE_READ, *_table_entry(f, g, which)), likely=False)


def _table_entry(f: Fn, g: Granule, warp: str) -> tuple[str, str]:
    """(tag, site) of a warp's last read."""
    tag, site = (g.load(g.read_by(name, warp)) for name in ("rclock", "rsite"))
    return tag, site


def strong(m: Needs) -> str:
    """A strong access of granule %g: it races with weak ones only. %writes, %reads: what it does."""

    def build(m: Needs, name: str) -> str:
        f, g = _function(m, name, ", i1 %writes, i1 %reads")
        last, site = g.load(g.wtag), g.load(g.winsn)
        special = _special(f, g, last, site)
        unset = f.let(f"icmp ult i32 {last}, {g.start}")
        unset_read = f.let(f"and i1 {unset}, %reads")
        f.when(unset_read, lambda: g.report(L.H_UNINIT_SHARED, "0", "0"), likely=False)
        weak = f.let(f"icmp eq i32 {f.let(f'and i32 {last}, {L.STRONG}')}, 0")
        # The last weak write, whatever strong ones came after it.
        plain_tag, plain_site = (g.of_context(name) for name in ("plain_wtag", "plain_winsn"))
        tag = f.let(f"select i1 {weak}, i32 {last}, i32 {g.load(plain_tag)}")
        site = f.let(f"select i1 {weak}, i32 {site}, i32 {g.load(plain_site)}")
        fine = f.let(f"or i1 {special}, {f.let(f'or i1 {unset}, {_ordered(f, g, tag, site)}')}")
        f.when(f.let(f"xor i1 {fine}, true"), lambda: g.report(L.H_RACE_ATOMIC, tag, site), likely=False)

        def update() -> None:
            _check_readers(f, g)
            f.when(weak, lambda: f(f"  store i32 {tag}, ptr {plain_tag}\n  store i32 {site}, ptr {plain_site}"))
            strong_tag = f.let(f"or i32 {g.tag}, {L.STRONG}")
            f(f"  store i32 {strong_tag}, ptr {g.wtag}\n  store i32 {g.site}, ptr {g.winsn}")

        f.when("%writes", update)
        f("  ret void")
        return f.text()

    return need(m, "shared_strong", build)


def barrier_object(m: Needs) -> str:
    """A use of the mbarrier that granule %g belongs to: it must have been initialised before."""

    def build(m: Needs, name: str) -> str:
        f, g = _function(m, name)
        tag, site = g.load(g.rtag), g.load(g.rinsn)  # who initialised it (mbarriers.py)
        fine = _ordered(f, g, tag, site)
        f.when(f.let(f"xor i1 {fine}, true"), lambda: g.report(L.H_RACE_WRITE, tag, site), likely=False)
        f("  ret void")
        return f.text()

    return need(m, "shared_barrier_object", build)
