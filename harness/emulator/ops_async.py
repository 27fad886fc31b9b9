"""Asynchronous copies and mbarriers: cp.async, cp.async.bulk (global to shared), mbarrier."""

from __future__ import annotations

from harness.emulator import access, traffic
from harness.emulator.access import bulk, copies, mbarriers, need
from harness.emulator.emitter import Emitter, handles
from harness.emulator.errors import UnsupportedPtx
from harness.emulator.ops_memory import address_of, result_buffer
from harness.emulator.ptx import Addr, Imm, Ins, Operand, Reg, Sym

_HINTS = {"ca", "cg", "L2::cache_hint", "L2::64B", "L2::128B", "L2::256B", "shared", "shared::cta", "global"}
_BULK = {"cp", "async", "bulk", "shared::cluster", "shared::cta", "global", "mbarrier::complete_tx::bytes",
         "L2::cache_hint"}  # fmt: skip
_MBARRIER = {"shared", "shared::cta", "b64", "release", "acquire", "relaxed", "cta", "cluster", "parity", "noComplete",
             "expect_tx"}  # fmt: skip


@handles("cp", guarded_by_branch=True)
def cp(lo: Emitter, i: Ins) -> None:
    known = {"commit_group": _commit, "wait_group": _wait, "wait_all": _wait, "mbarrier": _arrive_when_done}
    if lo.shape.single or i.mods[1:2] != ("async",):
        raise UnsupportedPtx(f"instruction {i.op}", i.loc)
    if i.mods[2] == "bulk":
        _bulk(lo, i)
    elif handler := known.get(i.mods[2]):
        handler(lo, i)
    else:
        _copy(lo, i)


def _copy(lo: Emitter, i: Ins) -> None:
    """cp.async [dst], [src], size {, src-size | ignore-src} {, cache-policy}"""
    if not set(i.mods[2:]) <= _HINTS or not isinstance(i.args[2], Imm) or i.args[2].value not in (4, 8, 16):
        raise UnsupportedPtx(f"instruction {i.op}", i.loc)
    nbytes, words = i.args[2].value, i.args[2].value // 4
    more = list(i.args[3:])
    if "L2::cache_hint" in i.mods:
        more.pop()
    data = _scratch(lo, "copied", "[128 x i32]")
    for k in range(words):
        lo.emit(f"store <32 x i32> zeroinitializer, ptr {_row(lo, data, 128 * k)}, align 64")
    source = address_of(lo, i.args[1], "i64", vec=True)
    traffic.note_access(lo, i, "copy", "read", nbytes)
    lanes = lo.mask
    if more and isinstance(more[0], Reg) and lo.ll(more[0].name) == "i1":
        lanes = lo.let(f"and i32 {lanes}, {lo.lane_bits(more[0], negated=True)}")
    elif more and not (isinstance(more[0], Imm) and more[0].value == nbytes):
        size = lo.get(more[0], "i32", vec=True)
        lanes = _lanes_with(lo, lanes, f"icmp uge <32 x i32> {size}, splat (i32 {nbytes})")
        part = lo.let(f"and i32 {lo.mask}, {lo.let(f'xor i32 {lanes}, -1')}")
        for byte in range(nbytes - 1):
            short = _lanes_with(lo, part, f"icmp ugt <32 x i32> {size}, splat (i32 {byte})")
            _read(lo, i, source, short, data, byte, 1, 1)
    traffic.trace(lo, i, source, nbytes, store=False, mask=lanes)
    _read(lo, i, source, lanes, data, 0, 4, words)
    target = address_of(lo, i.args[0], "i32", vec=True)
    traffic.count_shared(lo, i, target, nbytes)
    traffic.trace_shared(lo, i, target, nbytes, store=True)
    call = f"@{copies.issue(lo, nbytes)}(ptr %ctx, ptr %warp, <32 x i32> {target}, i32 {lo.mask}, i32 {lo.number(i)}"
    lo.go_on_if(lo.let(f"call i1 {call}, ptr {data})"))


def _lanes_with(lo: Emitter, lanes: str, test: str) -> str:
    return lo.let(f"and i32 {lanes}, {lo.let(f'bitcast <32 x i1> {lo.let(test)} to i32')}")


def _scratch(lo: Emitter, name: str, kind: str) -> str:
    lo.allocas.setdefault(name, f"{kind}, align 64")
    return f"%{name}"


def _row(lo: Emitter, base: str, offset: int) -> str:
    return lo.let(f"getelementptr i8, ptr {base}, i64 {offset}") if offset else base


def _read(lo: Emitter, i: Ins, source: str, lanes: str, data: str, byte: int, nbytes: int, n: int) -> None:
    """Load from global memory, for these lanes, into their places in `data` from `byte` on."""
    do, on = lo.new_label(), lo.new_label()
    lo.emit(f"br i1 {lo.let(f'icmp ne i32 {lanes}, 0')}, label %{do}, label %{on}")
    lo.label(do)
    a = lo.let(f"add <32 x i64> {source}, splat (i64 {byte})") if byte else source
    values = _values(lo, i, a, lanes, nbytes, n)
    where = lo.let(f"bitcast i32 {lanes} to <32 x i1>")
    for k, new in enumerate(values):
        p = _row(lo, data, 128 * (k + byte // 4))
        old = lo.let(f"load <32 x i32>, ptr {p}, align 64")
        if nbytes == 1:
            new = lo.let(f"shl <32 x i32> {lo.let(f'zext <32 x i8> {new} to <32 x i32>')}, splat (i32 {byte % 4 * 8})")
            new = lo.let(f"or <32 x i32> {old}, {new}")
        value = lo.let(f"select <32 x i1> {where}, <32 x i32> {new}, <32 x i32> {old}")
        lo.emit(f"store <32 x i32> {value}, ptr {p}, align 64")
    lo.emit(f"br label %{on}")
    lo.label(on)


def _values(lo: Emitter, i: Ins, a: str, lanes: str, nbytes: int, n: int) -> list[str]:
    """n values a lane from global memory; single bytes are read out of line."""
    res, kind = result_buffer(lo), access.values_type(8 * nbytes, n, vector=True)
    operands = f"ptr %ctx, ptr %warp, <32 x i64> {a}, i32 {lanes}, i32 {lo.number(i)}, ptr {res}"
    if nbytes < 4:
        h = access.slow(lo, "global", nbytes, n, store=False)
        lo.go_on_if(lo.let(f"call i1 @{h}({operands})"))
        rows = (_row(lo, res, 32 * nbytes * k) for k in range(n))
        return [lo.let(f"load <32 x i{8 * nbytes}>, ptr {row}, align 4") for row in rows]
    h = need(lo, f"global_ld_v_{nbytes}x{n}", lambda m, name: access.global_v(m, name, nbytes, n, store=False))
    found = lo.let(f"call {kind} @{h}({operands})")
    lo.go_on_if(lo.let(f"extractvalue {kind} {found}, {n}"))
    return [lo.let(f"extractvalue {kind} {found}, {k}") for k in range(n)]


def _commit(lo: Emitter, i: Ins) -> None:
    lo.emit(f"call void @{copies.commit(lo)}(ptr %warp, i32 {lo.mask})")


def _wait(lo: Emitter, i: Ins) -> None:
    pending = i.args[0] if i.mods[2] == "wait_group" else Imm(-1)
    if not isinstance(pending, Imm):
        raise UnsupportedPtx(f"instruction {i.op}", i.loc)
    lo.emit(f"call void @{copies.wait(lo)}(ptr %ctx, ptr %warp, i32 {lo.mask}, i32 {pending.value})")


def _arrive_when_done(lo: Emitter, i: Ins) -> None:
    """cp.async.mbarrier.arrive{.noinc}"""
    _call(lo, i, mbarriers.defer(lo), i.args[0], f", i1 {str('noinc' in i.mods).lower()}")


def _bulk(lo: Emitter, i: Ins) -> None:
    """cp.async.bulk.shared.global [dst], [src], size, [mbarrier]"""
    if "prefetch" in i.mods:
        return
    if not set(i.mods) <= _BULK or i.mods[3] == "global" or len(i.args) < 4:
        raise UnsupportedPtx(f"instruction {i.op}", i.loc)
    target, barrier = (address_of(lo, i.args[k], "i32", vec=True) for k in (0, 3))
    source = address_of(lo, i.args[1], "i64", vec=True)
    size = lo.get(i.args[2], "i32", vec=True)
    traffic.note_access(lo, i, "global", "read", bulk.ALIGNMENT)
    wide = lo.let(f"zext <32 x i32> {barrier} to <32 x i64>")
    more = f", <32 x i32> {target}, <32 x i64> {source}, <32 x i32> {size}"
    _call_at(lo, i, bulk.issue(lo), wide, more)


# -- mbarrier


def _call(lo: Emitter, i: Ins, name: str, address: Operand, more: str = "") -> None:
    """Call a helper that answers ok, with the lanes' addresses of the object."""
    _call_at(lo, i, name, _object_address(lo, i, address), more)


def _call_at(lo: Emitter, i: Ins, name: str, address: str, more: str) -> None:
    operands = f"ptr %ctx, ptr %warp, <32 x i64> {address}, i32 {lo.mask}, i32 {lo.number(i)}{more}"
    lo.go_on_if(lo.let(f"call i1 @{name}({operands})"))


def _object_address(lo: Emitter, i: Ins, o: Operand) -> str:
    """Generic addresses, or offsets in shared memory."""
    if any(m.startswith("shared") for m in i.mods):
        offset = address_of(lo, o, "i32", vec=True)
        return lo.let(f"zext <32 x i32> {offset} to <32 x i64>")
    return address_of(lo, o, "i64", vec=True)


@handles("mbarrier", guarded_by_branch=True)
def mbarrier(lo: Emitter, i: Ins) -> None:
    handler = _HANDLERS.get(i.mods[1])
    if handler is None or lo.shape.single or not set(i.mods[2:]) <= _MBARRIER:
        raise UnsupportedPtx(f"instruction {i.op}", i.loc)
    handler(lo, i)


def _init(lo: Emitter, i: Ins) -> None:
    _call(lo, i, mbarriers.init(lo), i.args[0], f", <32 x i32> {lo.get(i.args[1], 'i32', vec=True)}")


def _inval(lo: Emitter, i: Ins) -> None:
    _call(lo, i, mbarriers.inval(lo), i.args[0])


def _arrive(lo: Emitter, i: Ins) -> None:
    state, address, *rest = i.args
    expects = "expect_tx" in i.mods
    tx = lo.get(rest[0], "i32", vec=True) if expects else "zeroinitializer"
    count = lo.get(rest[0], "i32", vec=True) if rest and not expects else "splat (i32 1)"
    _change(lo, i, address, count, tx, drop=i.mods[1] == "arrive_drop")
    if not (isinstance(state, Sym) and state.name == "_"):
        lo.vec = True
        lo.put(state, lo.let(f"load <32 x i64>, ptr {result_buffer(lo)}, align 8"), "i64")


def _change(lo: Emitter, i: Ins, address: Operand, count: str, tx: str, drop: bool) -> None:
    more = f", <32 x i32> {count}, <32 x i32> {tx}, i1 {str(drop).lower()}, ptr {result_buffer(lo)}"
    _call(lo, i, mbarriers.arrive(lo), address, more)


def _expect(lo: Emitter, i: Ins) -> None:
    tx = lo.get(i.args[1], "i32", vec=True)
    if i.mods[1] == "complete_tx":
        tx = lo.let(f"sub <32 x i32> zeroinitializer, {tx}")
    _change(lo, i, i.args[0], "zeroinitializer", tx, drop=False)


def _test(lo: Emitter, i: Ins) -> None:
    """test_wait and try_wait: whether a phase has completed. A warp that has to wait gives way."""
    target, address, phase = i.args[:3]
    if not isinstance(address, Addr):
        raise UnsupportedPtx(f"instruction {i.op}", i.loc)
    if "parity" in i.mods:
        parity = lo.get(phase, "i32", vec=True)
    else:
        state = lo.get(phase, "i64", vec=True)
        bit = lo.let(f"lshr <32 x i64> {state}, splat (i64 {mbarriers.PHASE})")
        parity = lo.let(f"trunc <32 x i64> {bit} to <32 x i32>")
    a = _object_address(lo, i, address)
    kind = "{ i32, i1 }"
    operands = f"ptr %ctx, ptr %warp, <32 x i64> {a}, i32 {lo.mask}, i32 {lo.number(i)}, <32 x i32> {parity}"
    answer = lo.let(f"call {kind} @{mbarriers.test(lo)}({operands})")
    lo.go_on_if(lo.let(f"extractvalue {kind} {answer}, 1"))
    done = lo.let(f"extractvalue {kind} {answer}, 0")
    _give_way(lo, done)
    if isinstance(target, Reg) and target.name in lo.flow.varying:
        lo.vec = True
        lo.put(target, lo.let(f"bitcast i32 {done} to <32 x i1>"), "i1")
    else:
        lo.put(target, lo.let(f"icmp ne i32 {done}, 0"), "i1", scalar=True)


def _give_way(lo: Emitter, done: str) -> None:
    """Yield at the next loop header if no lane may go on."""
    wait, on = lo.new_label(), lo.new_label()
    lo.emit(f"br i1 {lo.let(f'icmp eq i32 {done}, 0')}, label %{wait}, label %{on}")
    lo.label(wait)
    lo.rest()
    lo.emit(f"br label %{on}")
    lo.label(on)


def _pending_count(lo: Emitter, i: Ins) -> None:
    lo.vec = True
    count = lo.let(f"and <32 x i64> {lo.get(i.args[1], 'i64', vec=True)}, splat (i64 {mbarriers.COUNT_MAX})")
    lo.put(i.args[0], lo.let(f"trunc <32 x i64> {count} to <32 x i32>"), "i32")


_HANDLERS = {"init": _init, "inval": _inval, "arrive": _arrive, "arrive_drop": _arrive, "expect_tx": _expect,
             "complete_tx": _expect, "test_wait": _test, "try_wait": _test,
             "pending_count": _pending_count}  # fmt: skip
