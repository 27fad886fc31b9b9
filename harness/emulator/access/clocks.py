"""Vector clocks of warps: which accesses of other warps are ordered before one's own.

The block has one clock (Context.etag), a multiple of CLOCK_STEP, which grows with every synchronisation. An access is
tagged with the clock that its warp had, and the warp's number. Warp.vclock[v] is a bound for each warp v: accesses of v
with a clock below it happen before whatever this warp does next. Warp.floor is the least of these bounds, so that one
comparison settles nearly all cases; where __syncthreads() is the only synchronisation the bounds are all the same, and
nothing but the floor is kept.

    release  what the warp knows, and its own accesses so far, are joined into a clock kept elsewhere (a named
             barrier's, an mbarrier's, or that of an address); the warp's own clock then moves on
    acquire  the clock kept there is joined into the warp's
    fence    a strong write hands on what the warp knew at its last fence; what strong reads saw counts from the next
             fence on (PTX ISA, memory consistency model: release and acquire patterns)

Addresses are hashed into SYNC_SLOTS clocks; two that share one order more than they should, which can hide a race
but never invents one. The same holds for lanes: a fence, a named barrier or an arrival counts for the whole warp.
The clocks follow FastTrack (Flanagan and Freund, PLDI 2009).
"""

from __future__ import annotations

from harness.emulator import layout as L
from harness.emulator.access.base import Needs, need
from harness.emulator.access.vectors import iota, splat
from harness.emulator.irtext import Fn
from harness.emulator.layout import LANES, Context, Warp

VECTOR = f"<{LANES} x i32>"
CLOCK_BYTES = 4 * LANES
# As i32; of a block that synchronises 2^25 times. What comes later is not told apart.
CLOCK_CAP = L.SPECIAL - L.CLOCK_STEP


def read(f: Fn, p: str) -> str:
    return f.let(f"load {VECTOR}, ptr {p}, align 4")


def write(f: Fn, p: str, value: str) -> None:
    f(f"  store {VECTOR} {value}, ptr {p}, align 4")


def later(f: Fn, a: str, b: str) -> str:
    """The join of two clocks."""
    return f.let(f"call {VECTOR} @llvm.umax.v32i32({VECTOR} {a}, {VECTOR} {b})")


def join(f: Fn, p: str, value: str) -> None:
    write(f, p, later(f, read(f, p), value))


def named_barrier_clock(f: Fn, number: str) -> str:
    """Pointer to the clock of a named barrier."""
    base = f.get("%ctx", Context, "sync_clocks", pointer=True)
    return f.let(f"getelementptr [{CLOCK_BYTES} x i8], ptr {base}, i32 {number}")


def address_clock(f: Fn, address: str) -> str:
    """Pointer to the clock of a place in memory (an i64, generic)."""
    mixed = f.let(f"mul i64 {f.let(f'lshr i64 {address}, 2')}, 11400714819323198485")  # Fibonacci hashing
    slot = f.let(f"lshr i64 {mixed}, {64 - L.SYNC_SLOTS.bit_length() + 1}")
    base = f.get("%ctx", Context, "sync_clocks", pointer=True)
    return f.let(f"getelementptr [{CLOCK_BYTES} x i8], ptr {base}, i64 {f.let(f'add i64 {slot}, {L.MAX_BARRIERS}')}")


def reads_of(f: Fn, name: str, warp: str) -> str:
    """Pointer to what a warp has in a table of last reads (Context.rclock, rsite): an entry for each granule."""
    base = f.get("%ctx", Context, name, pointer=True, constant=True)
    size = f.get("%ctx", Context, "shadow_bytes", constant=True)
    offset = f.let(f"mul i64 {size}, {f.let(f'zext i32 {warp} to i64')}")
    return f.let(f"getelementptr i8, ptr {base}, i64 {offset}")


def tick(f: Fn) -> str:
    """Move the block's clock on; its new value."""
    now = f.let(f"add i32 {f.get('%ctx', Context, 'etag')}, {L.CLOCK_STEP}")
    now = f.let(f"call i32 @llvm.umin.i32(i32 {now}, i32 {CLOCK_CAP})")
    f.put("%ctx", Context, "etag", now)
    return now


def start_interval(f: Fn, warp: str, now: str) -> None:
    """The warp's accesses are tagged with the clock `now` from here on."""
    f.put(warp, Warp, "mine", f.let(f"or i32 {now}, {f.get(warp, Warp, 'number')}"))


def own_knowledge(f: Fn, warp: str) -> str:
    """What a release hands on: the warp's clock with its own accesses so far."""
    after = f.let(f"and i32 {f.get(warp, Warp, 'mine')}, {-L.CLOCK_STEP}")
    after = f.let(f"add i32 {after}, {L.CLOCK_STEP}")
    known = read(f, f.at(warp, Warp, "vclock"))
    return f.let(f"insertelement {VECTOR} {known}, i32 {after}, i32 {f.get(warp, Warp, 'number')}")


def learn(f: Fn, warp: str, clock: str, now: str) -> None:
    """Join a clock into the warp's, whose new interval has the clock `now`. The warp's own entry, and those of warps
    that the block does not have, are always the largest."""
    known = later(f, read(f, f.at(warp, Warp, "vclock")), clock)
    write(f, f.at(warp, Warp, "vclock"), known)
    least = f.let(f"call i32 @llvm.vector.reduce.umin.v32i32({VECTOR} {known})")
    f.put(warp, Warp, "floor", f.let(f"call i32 @llvm.umin.i32(i32 {least}, i32 {now})"))
    start_interval(f, warp, now)


def initial(f: Fn, number: str, count: str, now: str) -> str:
    """The clock of warp `number` of `count` warps when a block begins, or when all its warps have met."""
    every = splat(f, now, "i32")
    for name, value in (("eq", number), ("uge", count)):
        hit = f.let(f"icmp {name} {VECTOR} {iota('i32')}, {splat(f, value, 'i32')}")
        every = f.let(f"select <{LANES} x i1> {hit}, {VECTOR} splat (i32 -1), {VECTOR} {every}")
    return every


# -- what generated code calls


def syncwarp(m: Needs) -> str:
    """(ctx, warp): the lanes of the warp have met."""

    def build(m: Needs, name: str) -> str:
        f = Fn(f"define internal void @{name}(ptr %ctx, ptr %warp) alwaysinline {{")
        f("entry:")
        now = tick(f)
        start_interval(f, "%warp", now)
        alone = f.let(f"icmp eq i32 {f.get('%ctx', Context, 'nwarps', constant=True)}, 1")
        before = f.get("%warp", Warp, "floor")
        f.put("%warp", Warp, "floor", f.let(f"select i1 {alone}, i32 {now}, i32 {before}"))
        f("  ret void")
        return f.text()

    return need(m, "clock_syncwarp", build)


def fence(m: Needs) -> str:
    """(ctx, warp): a fence: what was done before it can be released, what was seen before it is acquired."""

    def build(m: Needs, name: str) -> str:
        f = Fn(f"define internal void @{name}(ptr %ctx, ptr %warp) noinline {{")
        f("entry:")
        seen = read(f, f.at("%warp", Warp, "seen_clock"))
        write(f, f.at("%warp", Warp, "fence_clock"), later(f, own_knowledge(f, "%warp"), seen))
        learn(f, "%warp", seen, tick(f))
        f("  ret void")
        return f.text()

    return need(m, "clock_fence", build)


READS, WRITES = 1, 2  # flags of `strong`


def strong(m: Needs) -> str:
    """(ctx, warp, <32 x i64> generic addresses, i32 lanes, i32 READS | WRITES): strong accesses of places by which
    warps may synchronise."""

    def build(m: Needs, name: str) -> str:
        f = Fn(f"define internal void @{name}(ptr %ctx, ptr %warp, <32 x i64> %a, i32 %mask, i32 %how) noinline {{")
        f("entry:\n  %as = alloca <32 x i64>\n  store <32 x i64> %a, ptr %as")

        def lane(k: str) -> None:
            place = address_clock(f, f.let(f"load i64, ptr {f.let(f'getelementptr i64, ptr %as, i32 {k}')}"))
            reads = f.let(f"icmp ne i32 {f.let(f'and i32 %how, {READS}')}, 0")
            writes = f.let(f"icmp ne i32 {f.let(f'and i32 %how, {WRITES}')}, 0")
            f.when(reads, lambda: join(f, f.at("%warp", Warp, "seen_clock"), read(f, place)))
            f.when(writes, lambda: join(f, place, read(f, f.at("%warp", Warp, "fence_clock"))))

        f.each_lane("%mask", lane)
        f("  ret void")
        return f.text()

    return need(m, "clock_strong", build)
