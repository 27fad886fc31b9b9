"""The block scheduler, as LLVM IR: it runs blocks to their end, warp by warp, without leaving native code.

    @run_blocks(ctx) -> i32
        take the next block number (shared by all workers) until none is left or `stop` is set; a seed may have shuffled
        their order, and that of the warps in a turn
        while warps of the block are running:
            call @kernel(ctx, warp) for each running warp; by what it returns:
                DONE     the warp has exited
                BARRIER  it arrived; the last one to arrive releases all that wait there
                YIELD    its slice of instructions is used up; the others get their turn
                FAULT    Context.fault_* says what; the run ends
                CALL     an external call (single-thread mode); the run returns to Python and is resumed
            if none ran in a whole turn, none ever will again: a deadlock, or a barrier that exited threads never reach
            if all that ran have given way, and blocks may wait for each other: return, and be called again later

A completed barrier orders what its warps did before it (access/clocks.py).
"""

from __future__ import annotations

from harness.emulator import layout as L
from harness.emulator.access import clocks
from harness.emulator.irtext import Fn
from harness.emulator.layout import Context, Warp

_IDLE_TURNS = 1000  # in vain, before waiting for an mbarrier counts as a deadlock
_NO_VOTES = (("red_popc", "0"), ("red_and", "1"), ("red_or", "0"))  # of a bar.red before anyone has arrived


def scheduler_ir() -> str:
    """IR of @run_blocks(ptr ctx) -> i32: DONE, FAULT, CALL or ASIDE. Needs @kernel(ptr, ptr) -> i32 in the module."""
    a = Fn()
    a("define i32 @run_blocks(ptr %ctx) {")
    a("entry:\n  %w = alloca i32\n  %i = alloca i32\n  %v = alloca i32\n  %ran = alloca i32\n  %out = alloca i32")
    a("  %progress = alloca i32\n  %busy = alloca i32")
    nw = a.get("%ctx", Context, "nwarps")
    warps = a.let(f"inttoptr i64 {a.get('%ctx', Context, 'warps')} to ptr")
    stride = a.get("%ctx", Context, "warp_stride")
    stop = a.let(f"inttoptr i64 {a.get('%ctx', Context, 'stop')} to ptr")
    nextp = a.let(f"inttoptr i64 {a.get('%ctx', Context, 'next_block')} to ptr")
    total = a.get("%ctx", Context, "nblocks")
    # Resuming after CALL or ASIDE: the block is still there.
    block = a.get("%ctx", Context, "block")
    a(f"  %resuming = icmp ne i64 {block}, -1\n  br i1 %resuming, label %turn, label %take")
    _take_block(a, stop, nextp, total, nw)
    _reset_warps(a, warps, stride, nw)
    _turn(a, warps, stride, nw, stop)
    _barrier(a, warps, stride, nw)
    _stuck(a, warps, stride, nw)
    a("}")
    return "\n".join(a.lines) + "\n"


def _take_block(a: Fn, stop: str, nextp: str, total: str, nw: str) -> None:
    a("take:")
    s = a.let(f"load atomic i32, ptr {stop} monotonic, align 4")
    a(f"  %stopped = icmp ne i32 {s}, 0\n  br i1 %stopped, label %finish, label %next")
    a("next:")
    n = a.let(f"atomicrmw add ptr {nextp}, i64 1 monotonic")
    a(f"  %more = icmp ult i64 {n}, {total}\n  br i1 %more, label %begin, label %finish")
    a("finish:")
    a.put("%ctx", Context, "block", "-1")
    a("  ret i32 0")
    a("begin:")
    scaled = a.let(f"mul i64 {n}, {a.get('%ctx', Context, 'order_step')}")
    moved = a.let(f"add i64 {scaled}, {a.get('%ctx', Context, 'order_first')}")
    n = a.let(f"urem i64 {moved}, {total}")
    a.put("%ctx", Context, "block", n)
    _enter_grid(a, n)
    nx = a.let(f"zext i32 {a.get('%ctx', Context, 'nctaid_x')} to i64")
    ny = a.let(f"zext i32 {a.get('%ctx', Context, 'nctaid_y')} to i64")
    x = a.let(f"urem i64 {n}, {nx}")
    yz = a.let(f"udiv i64 {n}, {nx}")
    for name, value in (
        ("ctaid_x", x),
        ("ctaid_y", a.let(f"urem i64 {yz}, {ny}")),
        ("ctaid_z", a.let(f"udiv i64 {yz}, {ny}")),
    ):
        a.put("%ctx", Context, name, a.let(f"trunc i64 {value} to i32"))
    _start_clock(a)
    a.put("%ctx", Context, "idle_turns", "0")
    for b in range(L.MAX_BARRIERS):
        for name, value in (("arrived", "0"), ("expected", "0"), ("only_arrived", "0"), *_NO_VOTES):
            a(f"  store i32 {value}, ptr {a.at('%ctx', Context, name, str(b))}")
    a("  store i32 0, ptr %w\n  br label %reset")


def _start_clock(a: Fn) -> None:
    """A new interval for the new block, and a shadow without a past where the clock might run out."""
    e = a.let(f"add i32 {a.get('%ctx', Context, 'etag')}, {L.CLOCK_STEP}")
    a.put("%ctx", Context, "etag", e)
    size = a.get("%ctx", Context, "shadow_bytes")

    def afresh() -> None:
        for name in ("wtag", "winsn", "rtag", "rinsn", "plain_wtag", "plain_winsn"):
            p = a.get("%ctx", Context, name, pointer=True)
            a(f"  call void @llvm.memset.p0.i64(ptr {p}, i8 0, i64 {size}, i1 false)")
        a.put("%ctx", Context, "etag", str(L.CLOCK_STEP))
        table, rows = a.get("%ctx", Context, "rclock", pointer=True), a.let(f"lshr i64 {size}, 2")
        every = a.let(f"mul i64 {rows}, {clocks.CLOCK_BYTES}")
        nbytes = a.let(f"select i1 {a.let(f'icmp eq ptr {table}, null')}, i64 0, i64 {every}")
        a(f"  call void @llvm.memset.p0.i64(ptr {table}, i8 0, i64 {nbytes}, i1 false)")

    a.when(a.let(f"icmp ugt i32 {e}, {L.CLOCK_LIMIT - (1 << 32)}"), afresh, likely=False)
    a.put("%ctx", Context, "start_tag", a.get("%ctx", Context, "etag"))
    lists = a.get("%ctx", Context, "deferred", pointer=True)

    def no_copies() -> None:
        # Copies and mbarriers that the last block left behind: their tags are not below any clock.
        p = a.get("%ctx", Context, "wtag", pointer=True)
        a(f"  call void @llvm.memset.p0.i64(ptr {p}, i8 0, i64 {size}, i1 false)")
        for name in ("ndeferred", "nbulk"):
            a.put("%ctx", Context, name, "0")

    a.when(a.let(f"icmp ne ptr {lists}, null"), no_copies)
    kept = a.get("%ctx", Context, "sync_clocks", pointer=True)
    nbytes = (L.MAX_BARRIERS + L.SYNC_SLOTS) * clocks.CLOCK_BYTES
    a.when(a.let(f"icmp ne ptr {kept}, null"),
           lambda: a(f"  call void @llvm.memset.p0.i64(ptr {kept}, i8 0, i64 {nbytes}, i1 false)"))  # fmt: skip
def _enter_grid(a: Fn, n: str) -> None:
    """What the block is to others: its tag, and what is ordered before it, which is all of the older launches."""
    number = a.let(f"trunc i64 {a.let(f'add i64 {n}, 1')} to i32")
    doubled = a.let(f"shl i32 {number}, 1")
    a.put("%ctx", Context, "block_tag", a.let(f"add i32 {a.get('%ctx', Context, 'race_base')}, {doubled}"))
    a.put("%ctx", Context, "seen_time", a.get("%ctx", Context, "start_time"))
    for name in ("pending_time", "fence_time"):
        a.put("%ctx", Context, name, "0")


def _warp(a: Fn, warps: str, stride: str, w: str) -> str:
    index = a.let(f"zext i32 {w} to i64")
    offset = a.let(f"mul i64 {stride}, {index}")
    return a.let(f"getelementptr i8, ptr {warps}, i64 {offset}")


def _reset_warps(a: Fn, warps: str, stride: str, nw: str) -> None:
    a("reset:")
    w = a.let("load i32, ptr %w")
    p = _warp(a, warps, stride, w)
    a.put(p, Warp, "pc", "0")
    a.put(p, Warp, "state", str(L.RUN))
    a.put(p, Warp, "live", a.get(p, Warp, "initial"))
    _meet(a, p, w, nw, a.get("%ctx", Context, "start_tag"))
    for name in ("first_copy", "next_copy", "resting"):
        a.put(p, Warp, name, "0")
    for name in ("fence_clock", "seen_clock", "group"):
        clocks.write(a, a.at(p, Warp, name), "zeroinitializer")
    shadow = a.let(f"inttoptr i64 {a.get(p, Warp, 'local_shadow')} to ptr")
    a(f"  call void @llvm.memset.p0.i64(ptr {shadow}, i8 0, i64 {a.get('%ctx', Context, 'local_bytes')}, i1 false)")
    w2 = a.let(f"add i32 {w}, 1")
    a(
        f"  store i32 {w2}, ptr %w\n  %reset_more = icmp ult i32 {w2}, {nw}\n"
        "  br i1 %reset_more, label %reset, label %turn"
    )


def _meet(a: Fn, p: str, w: str, nw: str, now: str) -> None:
    """Warp w knows of everything that any warp of the block did before the clock `now`."""
    a.put(p, Warp, "mine", a.let(f"or i32 {now}, {w}"))
    a.put(p, Warp, "floor", now)
    clocks.write(a, a.at(p, Warp, "vclock"), clocks.initial(a, w, nw, now))


def _turn(a: Fn, warps: str, stride: str, nw: str, stop: str) -> None:
    a("turn:\n  store i32 0, ptr %i\n  store i32 0, ptr %ran\n  store i32 0, ptr %out")
    a.put("%ctx", Context, "moved", "0")
    a(f"  store i32 {a.get('%ctx', Context, 'progress')}, ptr %progress\n  store i32 0, ptr %busy")
    a("  br label %each\neach:")
    step = a.let(f"mul i32 {a.let('load i32, ptr %i')}, {a.get('%ctx', Context, 'warp_step')}")
    place = a.let(f"add i32 {step}, {a.get('%ctx', Context, 'warp_first')}")
    w = a.let(f"urem i32 {place}, {nw}")
    a(f"  store i32 {w}, ptr %w")
    p = _warp(a, warps, stride, w)
    state = a.get(p, Warp, "state")
    a(f"  %is_running = icmp eq i32 {state}, {L.RUN}\n  br i1 %is_running, label %go, label %idle")
    a("idle:")
    # count the exited ones
    x = a.let(f"icmp eq i32 {state}, {L.EXITED}")
    out = a.let("load i32, ptr %out")
    one = a.let(f"zext i1 {x} to i32")
    a(f"  store i32 {a.let(f'add i32 {out}, {one}')}, ptr %out\n  br label %advance")
    a("go:\n  store i32 1, ptr %ran")
    a(f"  %rc = call i32 @kernel(ptr %ctx, ptr {p})")
    spent = a.let(f"sub i64 {a.get('%ctx', Context, 'fuel_slice')}, {a.get('%ctx', Context, 'fuel_left')}")
    used = a.let(f"add i64 {a.get('%ctx', Context, 'used')}, {spent}")
    a.put("%ctx", Context, "used", used)
    over = a.let(f"icmp sgt i64 {used}, {a.get('%ctx', Context, 'budget')}")
    s = a.let(f"load atomic i32, ptr {stop} monotonic, align 4")
    halted = a.let(f"icmp ne i32 {s}, 0")
    acted = a.let(f"zext i1 {a.let(f'icmp ne i32 %rc, {L.YIELD}')} to i32")
    a.put("%ctx", Context, "moved", a.let(f"or i32 {acted}, {a.get('%ctx', Context, 'moved')}"))
    a(f"  switch i32 %rc, label %fault [i32 {L.DONE}, label %done i32 {L.BARRIER}, label %arrive "
      f"i32 {L.YIELD}, label %yielded i32 {L.CALL}, label %call]")  # fmt: skip
    a("fault:\n  ret i32 3\ncall:\n  ret i32 4")
    a("done:")
    a.put(p, Warp, "state", str(L.EXITED))
    a("  br label %advance")
    a("yielded:")
    waits = a.let(f"icmp ne i32 {a.get(p, Warp, 'resting')}, 0")
    busy = a.let(f"select i1 {waits}, i32 {a.let('load i32, ptr %busy')}, i32 1")
    a(f"  store i32 {busy}, ptr %busy\n  br i1 {halted}, label %halt, label %check_budget")
    a(f"check_budget:\n  br i1 {over}, label %exhausted, label %advance")
    for label, kind in (("exhausted", L.F_BUDGET), ("halt", L.F_STOPPED)):
        a(f"{label}:")
        a.put("%ctx", Context, "fault_kind", str(kind))
        a.put("%ctx", Context, "fault_warp", w)
        a("  ret i32 3")
    a("advance:")
    w1 = a.let("load i32, ptr %i")
    w2 = a.let(f"add i32 {w1}, 1")
    a(
        f"  store i32 {w2}, ptr %i\n  %each_more = icmp ult i32 {w2}, {nw}\n"
        "  br i1 %each_more, label %each, label %after"
    )
    a("after:\n  %any = load i32, ptr %ran\n  %anyb = icmp ne i32 %any, 0")
    a("  br i1 %anyb, label %next_turn, label %all_out\nnext_turn:")
    _count_idle_turn(a)
    aside = a.let(f"icmp eq i32 {a.get('%ctx', Context, 'moved')}, 0")
    may = a.let(f"icmp ne i32 {a.get('%ctx', Context, 'sets_aside')}, 0")
    a(f"  br i1 {a.let(f'and i1 {aside}, {may}')}, label %aside, label %turn\naside:\n  ret i32 {L.ASIDE}")
    a(
        f"all_out:\n  %outs = load i32, ptr %out\n  %all = icmp eq i32 %outs, {nw}\n"
        "  br i1 %all, label %take, label %stuck"
    )


def _count_idle_turn(a: Fn) -> None:
    """A turn in which all that ran was waiting for an mbarrier in vain; after many of them nobody will ever arrive.
    (Not after the first: a loop may give up waiting, or wait for another block as well.)"""
    nothing = a.let(f"or i32 {a.get('%ctx', Context, 'moved')}, {a.let('load i32, ptr %busy')}")
    before = a.let("load i32, ptr %progress")
    same = a.let(f"icmp eq i32 {before}, {a.get('%ctx', Context, 'progress')}")
    idle = a.let(f"and i1 {same}, {a.let(f'icmp eq i32 {nothing}, 0')}")
    turns = a.let(f"add i32 {a.get('%ctx', Context, 'idle_turns')}, 1")
    turns = a.let(f"select i1 {idle}, i32 {turns}, i32 0")
    a.put("%ctx", Context, "idle_turns", turns)
    a(f"  br i1 {a.let(f'icmp ugt i32 {turns}, {_IDLE_TURNS}')}, label %stuck, label %goes_on\ngoes_on:")


def _warps_of(a: Fn, threads: str, nw: str) -> str:
    """Warps that a barrier waits for: all of the block where it names no number of threads."""
    rounded = a.let(f"add i32 {threads}, 31")
    want = a.let(f"lshr i32 {rounded}, 5")
    whole = a.let(f"icmp eq i32 {want}, 0")
    return a.let(f"select i1 {whole}, i32 {nw}, i32 {want}")


def _barrier(a: Fn, warps: str, stride: str, nw: str) -> None:
    """A warp has arrived: count it, and release everyone if it was the last."""
    a("arrive:")
    w = a.let("load i32, ptr %w")
    p = _warp(a, warps, stride, w)
    number = a.get("%ctx", Context, "barrier")
    threads = a.get("%ctx", Context, "barrier_threads")
    insn = a.get("%ctx", Context, "barrier_insn")
    arrived = a.at("%ctx", Context, "arrived", number)
    expected = a.at("%ctx", Context, "expected", number)
    site = a.at("%ctx", Context, "site", number)
    before = a.let(f"load i32, ptr {arrived}")
    count = a.let(f"add i32 {before}, 1")
    a(f"  store i32 {count}, ptr {arrived}")
    first = a.let(f"icmp eq i32 {count}, 1")
    a(f"  br i1 {first}, label %first_here, label %counted")
    a(f"first_here:\n  store i32 {insn}, ptr {site}\n  store i32 {threads}, ptr {expected}\n  br label %counted")
    a("counted:")
    arrive_only = a.let(f"icmp ne i32 {a.get('%ctx', Context, 'barrier_arrive')}, 0")
    state = a.let(f"select i1 {arrive_only}, i32 {L.RUN}, i32 {L.WAIT}")
    a.put(p, Warp, "state", state)
    a.put(p, Warp, "waits_at", number)
    a.put(p, Warp, "wait_insn", insn)
    wanted = a.let(f"load i32, ptr {expected}")
    need, mine = _warps_of(a, wanted, nw), _warps_of(a, threads, nw)
    a(f"  br i1 {a.let(f'icmp eq i32 {need}, {mine}')}, label %agreed, label %disagreed\ndisagreed:")
    first = a.let(f"zext i32 {need} to i64")
    second = a.let(f"shl i64 {a.let(f'zext i32 {mine} to i64')}, 32")
    a.put("%ctx", Context, "fault_kind", str(L.F_BARRIER_COUNT))
    a.put("%ctx", Context, "fault_insn", insn)
    a.put("%ctx", Context, "fault_warp", w)
    a.put("%ctx", Context, "fault_address", a.let(f"or i64 {first}, {second}"))
    a("  ret i32 3\nagreed:")
    _tell_barrier(a, p, number, arrive_only)
    full = a.let(f"icmp uge i32 {count}, {need}")
    a(f"  br i1 {full}, label %release, label %advance")
    a("release:")
    a(f"  store i32 0, ptr {arrived}")
    now = clocks.tick(a)
    gone = a.at("%ctx", Context, "only_arrived", number)
    nobody_went_on = a.let(f"icmp eq i32 {a.let(f'load i32, ptr {gone}')}, 0")
    together = a.let(f"and i1 {a.let(f'icmp uge i32 {need}, {nw}')}, {nobody_went_on}")
    a(f"  store i32 0, ptr {gone}")
    results = []
    for name, value in _NO_VOTES:
        votes = a.at("%ctx", Context, name, number)
        results.append(a.let(f"load i32, ptr {votes}"))
        a(f"  store i32 {value}, ptr {votes}")
    a("  store i32 0, ptr %v\n  br label %wake")
    a("wake:")
    v = a.let("load i32, ptr %v")
    q = _warp(a, warps, stride, v)
    waits = a.let(f"icmp eq i32 {a.get(q, Warp, 'state')}, {L.WAIT}")
    here = a.let(f"icmp eq i32 {a.get(q, Warp, 'waits_at')}, {number}")
    both = a.let(f"and i1 {waits}, {here}")
    a(f"  br i1 {both}, label %woken, label %wake_next")
    a("woken:")
    a.put(q, Warp, "state", str(L.RUN))
    for n, r in enumerate(results):
        a(f"  store i32 {r}, ptr {a.at(q, Warp, 'red', str(n))}")
    a(f"  br i1 {together}, label %all_met, label %some_met\nall_met:")
    _meet(a, q, v, nw, now)
    a("  br label %wake_next\nsome_met:")
    clocks.learn(a, q, clocks.read(a, clocks.named_barrier_clock(a, number)), now)
    a("  br label %wake_next")
    a("wake_next:")
    v2 = a.let(f"add i32 {v}, 1")
    a(f"  store i32 {v2}, ptr %v\n  %wake_more = icmp ult i32 {v2}, {nw}")
    a("  br i1 %wake_more, label %wake, label %all_woken\nall_woken:")
    _forget_barrier(a, number)
    a("  br label %advance")


def _tell_barrier(a: Fn, p: str, number: str, arrive_only: str) -> None:
    """A warp that arrives hands on what it knows; one that does not wait for the others starts a new interval."""
    kept = a.get("%ctx", Context, "sync_clocks", pointer=True)

    def hand_on() -> None:
        clocks.join(a, clocks.named_barrier_clock(a, number), clocks.own_knowledge(a, p))
        a.when(arrive_only, lambda: clocks.start_interval(a, p, clocks.tick(a)))

    a.when(a.let(f"icmp ne ptr {kept}, null"), hand_on)
    gone = a.at("%ctx", Context, "only_arrived", number)
    one = a.let(f"zext i1 {arrive_only} to i32")
    before = a.let(f"load i32, ptr {gone}")
    a(f"  store i32 {a.let(f'add i32 {before}, {one}')}, ptr {gone}")


def _forget_barrier(a: Fn, number: str) -> None:
    kept = a.get("%ctx", Context, "sync_clocks", pointer=True)
    a.when(a.let(f"icmp ne ptr {kept}, null"),
           lambda: clocks.write(a, clocks.named_barrier_clock(a, number), "zeroinitializer"))  # fmt: skip


def _stuck(a: Fn, warps: str, stride: str, nw: str) -> None:
    a("stuck:")
    exited = a.let(f"icmp ne i32 {a.let('load i32, ptr %out')}, 0")
    a.put("%ctx", Context, "fault_kind", a.let(f"select i1 {exited}, i32 {L.F_BARRIER_EXITED}, i32 {L.F_DEADLOCK}"))
    a("  ret i32 3")
