"""Barriers, shuffles, votes and the like: what lanes of a warp, or warps of a block, do together."""

from __future__ import annotations

from harness.emulator import access, jit
from harness.emulator import layout as L
from harness.emulator.access import clocks
from harness.emulator.emitter import Emitter, handles
from harness.emulator.errors import UnsupportedPtx
from harness.emulator.irtext import Fn
from harness.emulator.layout import Context
from harness.emulator.ptx import Imm, Ins, Not, Operand, Pair
from harness.emulator.types import IOTA


@handles("bar", "barrier", guarded_by_branch=True)
def barrier(lo: Emitter, i: Ins) -> None:
    """Arrive; the caller then suspends the warp, or for bar.warp.sync only checks the mask."""
    if "warp" in i.mods:
        _check_members(lo, i, i.args[0])
        if not lo.shape.single:
            lo.emit(f"call void @{clocks.syncwarp(lo)}(ptr %ctx, ptr %warp)")
        return
    if "cluster" in i.mods or i.pred:
        raise UnsupportedPtx(f"instruction {i.op}" + (" under a guard" if i.pred else ""), i.loc)
    lo.ins = i
    lo.vec = False
    args = list(i.args[1:] if "red" in i.mods else i.args)
    predicate = args.pop() if "red" in i.mods else None
    _require_whole_warp(lo, i)
    number = _uniform(lo, args[0], i)
    threads = _uniform(lo, args[1], i) if len(args) > 1 else "0"
    arrive = int("arrive" in i.mods)
    inside = lo.let(f"icmp ult i32 {number}, {L.MAX_BARRIERS}")
    whole = lo.let(f"icmp eq i32 {lo.let(f'and i32 {threads}, 31')}, 0")
    lo.fault_unless(lo.let(f"and i1 {inside}, {whole}"), L.F_BARRIER_NUMBER, i)
    for name, value in (
        ("barrier", number),
        ("barrier_threads", threads),
        ("barrier_insn", str(lo.number(i))),
        ("barrier_arrive", str(arrive)),
    ):
        lo.emit(f"store i32 {value}, ptr {lo.field_pointer('%ctx', Context, name, lo.lines)}")
    if predicate is not None:
        _contribute(lo, predicate, number)


def _uniform(lo: Emitter, o: Operand, i: Ins) -> str:
    """A barrier's number or count: one value for the warp (the first lane's where the analysis cannot tell)."""
    if lo.is_uniform(o):
        return lo.get(o, "i32", vec=False)
    return lo.let(f"extractelement <32 x i32> {lo.get(o, 'i32', vec=True)}, i32 0")


def _require_whole_warp(lo: Emitter, i: Ins) -> None:
    everyone = "-1" if lo.shape.full_warps else lo.warp_value("initial")
    if lo.mask != everyone:
        lo.fault_unless(lo.let(f"icmp eq i32 {lo.mask}, {everyone}"), L.F_BARRIER_MASK, i)


def _contribute(lo: Emitter, predicate: Operand, number: str) -> None:
    """Add this warp's votes to those of a barrier."""
    bits = lo.let(f"and i32 {lo.lane_bits(predicate)}, {lo.mask}")
    for name, op, value in (
        ("red_popc", "add", lo.let(f"call i32 @llvm.ctpop.i32(i32 {bits})")),
        ("red_and", "and", lo.let(f"zext i1 {lo.let(f'icmp eq i32 {bits}, {lo.mask}')} to i32")),
        ("red_or", "or", lo.let(f"zext i1 {lo.let(f'icmp ne i32 {bits}, 0')} to i32")),
    ):
        p = lo.let(f"getelementptr i32, ptr {lo.field_pointer('%ctx', Context, name, lo.lines)}, i32 {number}")
        before = lo.let(f"load i32, ptr {p}")
        lo.emit(f"store i32 {lo.let(f'{op} i32 {before}, {value}')}, ptr {p}")
    lo.declare("declare i32 @llvm.ctpop.i32(i32)")


def _check_members(lo: Emitter, i: Ins, o: Operand) -> str:
    """Check that the running lanes are in the member mask and that every thread it names is running. Returns the
    lanes of each lane's group where lanes have masks of their own, else nothing."""
    if isinstance(o, Imm) and o.value & 0xFFFFFFFF == 0xFFFFFFFF and lo.mask == "-1":
        return ""
    if not lo.is_uniform(o):
        return _check_groups(lo, i, o)
    members = lo.get(o, "i32", vec=False)
    everyone = "-1" if lo.shape.full_warps else lo.warp_value("initial")
    named = lo.let(f"and i32 {members}, {everyone}")
    # A full mask in a warp that has fewer than 32 threads is what everyone writes: absent threads do not count.
    lo.fault_unless(lo.let(f"icmp eq i32 {named}, {lo.mask}"), L.F_SHUFFLE, i)
    return ""


def _check_groups(lo: Emitter, i: Ins, o: Operand) -> str:
    """Masks of lanes' own (tiles of a warp): those who name a mask must be all that it names.
    Returns it for each lane."""
    masks = lo.get(o, "i32", vec=True)
    everyone = lo.splat("-1" if lo.shape.full_warps else lo.warp_value("initial"), "i32")
    named = lo.let(f"and <32 x i32> {masks}, {everyone}")
    groups = _equal_lanes(lo, masks, "i32")
    same = lo.let(f"icmp eq <32 x i32> {groups}, {named}")
    bits = lo.let(f"and i32 {lo.let(f'bitcast <32 x i1> {same} to i32')}, {lo.mask}")
    lo.fault_unless(lo.let(f"icmp eq i32 {bits}, {lo.mask}"), L.F_SHUFFLE, i)
    return groups


def _equal_lanes(lo: Emitter, value: str, kind: str) -> str:
    """For each running lane the running lanes with its value."""
    lo.allocas.setdefault("res", "[128 x i64], align 64")
    h = access.need(lo, f"match_{kind}", lambda m, name: _match_helper(m, name, kind))
    lo.emit(f"call void @{h}(<32 x {kind}> {value}, i32 {lo.mask}, ptr %res)")
    return lo.let("load <32 x i32>, ptr %res, align 4")


# -- shuffle


@handles("shfl", guarded_by_branch=True)
def shfl(lo: Emitter, i: Ins) -> None:
    mode = next(m for m in i.mods if m in ("up", "down", "bfly", "idx"))
    if "sync" not in i.mods:
        raise UnsupportedPtx(f"instruction {i.op}", i.loc)
    d, a, b, c, members = i.args
    groups = _check_members(lo, i, members)
    lo.vec = True
    value = lo.get(a, "i32")
    if isinstance(b, Imm) and isinstance(c, Imm):
        source = [_source_lane(mode, lane, b.value, c.value) for lane in range(L.LANES)]
        order = ", ".join(f"i32 {s if valid else lane}" for lane, (s, valid) in enumerate(source))
        result = lo.let(f"shufflevector <32 x i32> {value}, <32 x i32> poison, <32 x i32> <{order}>")
        lanes = "<" + ", ".join(f"i32 {s if valid else lane}" for lane, (s, valid) in enumerate(source)) + ">"
        valid = "<" + ", ".join(f"i1 {'true' if v else 'false'}" for _, v in source) + ">"
    else:
        lanes, valid = _source_lanes(lo, mode, lo.get(b, "i32"), lo.get(c, "i32"))
        result = _permute(lo, value, lanes)
    if lo.mask != "-1" or groups:
        _check_sources(lo, i, lanes, groups or lo.splat(lo.mask, "i32"))
    target = d.first if isinstance(d, Pair) else d
    lo.put(target, result, "i32")
    if isinstance(d, Pair):
        lo.put(d.second, valid, "i1")


def _permute(lo: Emitter, value: str, lanes: str) -> str:
    """value[lanes[k]] for each lane k; lanes are in 0..31."""
    if jit.has_feature("avx512f"):
        name = "@llvm.x86.avx512.vpermi2var.d.512"
        t = "<16 x i32>"
        lo.declare(f"declare {t} {name}({t}, {t}, {t})")
        low, high = ("<16 x i32> <" + ", ".join(f"i32 {n}" for n in range(s, s + 16)) + ">" for s in (0, 16))

        def half(v: str, which: str) -> str:
            return lo.let(f"shufflevector <32 x i32> {v}, <32 x i32> poison, {which}")

        a, b = half(value, low), half(value, high)
        parts = [lo.let(f"call {t} {name}({t} {a}, {t} {half(lanes, h)}, {t} {b})") for h in (low, high)]
        both = "<32 x i32> <" + ", ".join(f"i32 {n}" for n in range(32)) + ">"
        return lo.let(f"shufflevector {t} {parts[0]}, {t} {parts[1]}, {both}")
    lo.allocas.setdefault("res", "[128 x i64], align 64")
    lo.emit(f"store <32 x i32> {value}, ptr %res, align 64")
    pointers = lo.let(f"getelementptr i32, ptr %res, <32 x i32> {lanes}")
    name = "@llvm.masked.gather.v32i32.v32p0"
    return lo.let(f"call <32 x i32> {name}(<32 x ptr> {pointers}, i32 4, <32 x i1> splat (i1 true), <32 x i32> poison)")


def _source_lane(mode: str, lane: int, b: int, c: int) -> tuple[int, bool]:
    """PTX ISA, shfl.sync: source lane and whether it is in range."""
    b, clamp, segment = b & 31, c & 31, c >> 8 & 31
    high = (lane & segment) | (clamp & ~segment & 31)
    low = lane & segment
    match mode:
        case "up":
            return lane - b, lane - b >= high
        case "down":
            return lane + b, lane + b <= high
        case "bfly":
            return lane ^ b, lane ^ b <= high
    j = low | (b & ~segment & 31)
    return j, j <= high


def _source_lanes(lo: Emitter, mode: str, b: str, c: str) -> tuple[str, str]:
    """The same for operands known only at run time: lane numbers (always valid ones) and the in-range flags."""
    t = "<32 x i32>"

    def op(name: str, x: str, y: str) -> str:
        return lo.let(f"{name} {t} {x}, {y}")

    def const(n: int) -> str:
        return f"splat (i32 {n})"

    b = op("and", b, const(31))
    clamp = op("and", c, const(31))
    segment = op("and", op("lshr", c, const(8)), const(31))
    outside = op("and", op("xor", segment, const(-1)), const(31))
    low = op("and", IOTA, segment)
    high = op("or", low, op("and", clamp, outside))
    if mode == "up":
        j = op("sub", IOTA, b)
        valid = lo.let(f"icmp sge {t} {j}, {high}")
    else:
        j = {"down": lambda: op("add", IOTA, b), "bfly": lambda: op("xor", IOTA, b),
             "idx": lambda: op("or", low, op("and", b, outside))}[mode]()  # fmt: skip
        valid = lo.let(f"icmp sle {t} {j}, {high}")
    return lo.let(f"select <32 x i1> {valid}, {t} {j}, {t} {IOTA}"), valid


def _check_sources(lo: Emitter, i: Ins, lanes: str, running: str) -> None:
    """Every running lane must read from a running lane of its group; a value from any other is undefined."""
    one = lo.let(f"shl <32 x i32> splat (i32 1), {lanes}")
    hit = lo.let(f"icmp ne <32 x i32> {lo.let(f'and <32 x i32> {one}, {running}')}, zeroinitializer")
    bits = lo.let(f"bitcast <32 x i1> {hit} to i32")
    ok = lo.let(f"icmp eq i32 {lo.let(f'and i32 {bits}, {lo.mask}')}, {lo.mask}")
    lo.fault_unless(ok, L.F_SHUFFLE, i)


# -- votes


@handles("vote", guarded_by_branch=True)
def vote(lo: Emitter, i: Ins) -> None:
    if "sync" not in i.mods:
        raise UnsupportedPtx(f"instruction {i.op}", i.loc)
    d, predicate, members = i.args
    groups = _check_members(lo, i, members)
    negated = isinstance(predicate, Not)
    bits = lo.lane_bits(predicate.reg if isinstance(predicate, Not) else predicate, negated)
    bits = lo.let(f"and i32 {bits}, {lo.mask}")
    if groups:
        _group_vote(lo, i, bits, groups)
        return
    if "ballot" in i.mods:
        lo.put(d, bits, "i32", scalar=True)
        return
    every = lo.let(f"icmp eq i32 {bits}, {lo.mask}")
    none = lo.let(f"icmp eq i32 {bits}, 0")
    mode = next(m for m in i.mods if m in ("all", "any", "uni"))
    value = {
        "all": lambda: every,
        "any": lambda: lo.let(f"xor i1 {none}, true"),
        "uni": lambda: lo.let(f"or i1 {every}, {none}"),
    }[mode]()
    lo.put(d, value, "i1", scalar=True)


def _group_vote(lo: Emitter, i: Ins, bits: str, groups: str) -> None:
    """The vote of each lane's group."""
    t, lo.vec = "<32 x i32>", True
    own = lo.let(f"and {t} {lo.splat(bits, 'i32')}, {groups}")
    every, none = lo.let(f"icmp eq {t} {own}, {groups}"), lo.let(f"icmp eq {t} {own}, zeroinitializer")
    if "ballot" in i.mods:
        lo.put(i.args[0], own, "i32")
    elif "all" in i.mods:
        lo.put(i.args[0], every, "i1")
    elif "any" in i.mods:
        lo.put(i.args[0], lo.let(f"xor <32 x i1> {none}, splat (i1 true)"), "i1")
    else:
        lo.put(i.args[0], lo.let(f"or <32 x i1> {every}, {none}"), "i1")


@handles("activemask")
def activemask(lo: Emitter, i: Ins) -> None:
    lo.put(i.args[0], lo.let(f"or i32 {lo.mask}, 0"), "i32", scalar=True)


@handles("elect", guarded_by_branch=True)
def elect(lo: Emitter, i: Ins) -> None:
    """The lowest running lane."""
    d, members = i.args
    if _check_members(lo, i, members) or not isinstance(d, Pair):
        raise UnsupportedPtx(f"instruction {i.op} with masks of lanes' own, or without a predicate", i.loc)
    lo.vec = True
    first = lo.let(f"call i32 @llvm.cttz.i32(i32 {lo.mask}, i1 false)")
    lo.put(d.first, first, "i32", scalar=True)
    lo.put(d.second, lo.let(f"icmp eq <32 x i32> {IOTA}, {lo.splat(first, 'i32')}"), "i1")


@handles("redux", guarded_by_branch=True)
def redux(lo: Emitter, i: Ins) -> None:
    d, a, members = i.args
    op = i.mods[2]
    kind = i.mods[-1]
    if op not in ("add", "and", "or", "xor", "min", "max") or kind not in ("u32", "s32", "b32"):
        raise UnsupportedPtx(f"instruction {i.op}", i.loc)
    groups = _check_members(lo, i, members)
    sign = "s" if kind == "s32" else "u"
    name = sign + op if op in ("min", "max") else op
    neutral = {"add": 0, "or": 0, "xor": 0, "and": -1, "umin": -1, "umax": 0, "smin": 0x7FFFFFFF, "smax": -0x80000000}[
        name
    ]
    v = lo.get(a, "i32", vec=True)
    lo.declare(f"declare i32 @llvm.vector.reduce.{name}.v32i32(<32 x i32>)")
    if groups:
        h = access.need(lo, f"redux_{name}", lambda m, helper: _group_redux_helper(m, helper, name, neutral))
        lo.emit(f"call void @{h}(<32 x i32> {v}, <32 x i32> {groups}, i32 {lo.mask}, ptr %res)")
        lo.vec = True
        lo.put(d, lo.let("load <32 x i32>, ptr %res, align 4"), "i32")
        return
    v = lo.let(f"select <32 x i1> {lo.lane_vector(lo.mask)}, <32 x i32> {v}, <32 x i32> splat (i32 {neutral})")
    lo.put(d, lo.let(f"call i32 @llvm.vector.reduce.{name}.v32i32(<32 x i32> {v})"), "i32", scalar=True)


def _group_redux_helper(m: access.Needs, name: str, op: str, neutral: int) -> str:
    """Each lane's group reduced: once for every lane, which is simple and rare."""
    f = Fn(f"define internal void @{name}(<32 x i32> %v, <32 x i32> %groups, i32 %mask, ptr %res) noinline {{")
    f("entry:\n  %gs = alloca <32 x i32>\n  store <32 x i32> %groups, ptr %gs")

    def lane(k: str) -> None:
        group = f.let(f"load i32, ptr {f.let(f'getelementptr i32, ptr %gs, i32 {k}')}")
        lanes = f.let(f"bitcast i32 {group} to <32 x i1>")
        own = f.let(f"select <32 x i1> {lanes}, <32 x i32> %v, <32 x i32> splat (i32 {neutral})")
        value = f.let(f"call i32 @llvm.vector.reduce.{op}.v32i32(<32 x i32> {own})")
        f(f"  store i32 {value}, ptr {f.let(f'getelementptr i32, ptr %res, i32 {k}')}")

    f.each_lane("%mask", lane)
    f("  ret void")
    return f.text()


@handles("match", guarded_by_branch=True)
def match(lo: Emitter, i: Ins) -> None:
    """match.any: lanes with this lane's value; match.all: all lanes if they agree, else none."""
    d, a, members = i.args
    kind = "i64" if i.mods[-1] == "b64" else "i32"
    groups = _check_members(lo, i, members) or lo.splat(lo.mask, "i32")
    v = lo.get(a, kind, vec=True)
    lo.vec = True
    found = lo.let(f"and <32 x i32> {_equal_lanes(lo, v, kind)}, {groups}")
    if "any" in i.mods:
        lo.put(d, found, "i32")
        return
    agree = lo.let(f"icmp eq <32 x i32> {found}, {groups}")
    target = d.first if isinstance(d, Pair) else d
    lo.put(target, lo.let(f"select <32 x i1> {agree}, <32 x i32> {found}, <32 x i32> zeroinitializer"), "i32")
    if isinstance(d, Pair):
        lo.put(d.second, agree, "i1")


def _match_helper(m: access.Needs, name: str, kind: str) -> str:
    f = Fn(f"define internal void @{name}(<32 x {kind}> %v, i32 %mask, ptr %res) noinline {{")
    f(f"entry:\n  %vs = alloca <32 x {kind}>\n  store <32 x {kind}> %v, ptr %vs")

    def lane(k: str) -> None:
        x = f.let(f"load {kind}, ptr {f.let(f'getelementptr {kind}, ptr %vs, i32 {k}')}")
        one = f.let(f"insertelement <32 x {kind}> poison, {kind} {x}, i32 0")
        all_ = f.let(f"shufflevector <32 x {kind}> {one}, <32 x {kind}> poison, <32 x i32> zeroinitializer")
        bits = f.let(f"bitcast <32 x i1> {f.let(f'icmp eq <32 x {kind}> %v, {all_}')} to i32")
        f(f"  store i32 {f.let(f'and i32 {bits}, %mask')}, ptr {f.let(f'getelementptr i32, ptr %res, i32 {k}')}")

    f.each_lane("%mask", lane)
    f("  ret void")
    return f.text()
