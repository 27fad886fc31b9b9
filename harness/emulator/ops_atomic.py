"""Atomics: lane by lane, in lane order."""

from __future__ import annotations

from harness.emulator import access
from harness.emulator import layout as L
from harness.emulator.access import Entry, Shared, need
from harness.emulator.emitter import Emitter, handles
from harness.emulator.errors import UnsupportedPtx
from harness.emulator.irtext import Fn
from harness.emulator.ops_memory import _address, _res, _space
from harness.emulator.ptx import SIZES, Ins, Vec
from harness.emulator.types import BITS, LL_TYPES

_RMW = {
    ("add", "i"): "add", ("add", "f"): "fadd", ("and", "i"): "and", ("or", "i"): "or", ("xor", "i"): "xor",
    ("exch", "i"): "xchg", ("min", "s"): "min", ("max", "s"): "max", ("min", "u"): "umin", ("max", "u"): "umax",
    ("inc", "u"): "uinc_wrap", ("dec", "u"): "udec_wrap", ("cas", "i"): "cas",
}  # fmt: skip
_ATOMIC_OPS = {"add", "and", "or", "xor", "exch", "min", "max", "inc", "dec", "cas"}


@handles("atom", "red", guarded_by_branch=True)
def atomic(lo: Emitter, i: Ins) -> None:
    kind = i.mods[-1]
    op = next((m for m in i.mods[1:] if m in _ATOMIC_OPS), "")
    family = "f" if kind in ("f32", "f64") else kind[0] if kind[0] in "su" else "i"
    rmw = _RMW.get((op, family)) or (_RMW.get((op, "i")) if family in "su" else None)
    if rmw is None or SIZES.get(kind) not in (4, 8) or any(isinstance(a, Vec) for a in i.args) or kind.endswith("x2"):
        raise UnsupportedPtx(f"instruction {i.op}", i.loc)
    space, has_result = _space(i), i.base == "atom"
    ll = LL_TYPES[kind]
    address, *operands = i.args[1:] if has_result else i.args
    if lo.shape.single:
        raise UnsupportedPtx(f"{i.op} in solve()", i.loc)
    a = _address(lo, address, "i64", vec=True)
    if space == "shared":
        a = lo.let(f"or <32 x i64> {a}, splat (i64 {L.SHARED_WINDOW << L.WINDOW_BITS})")
    values = [lo.get(o, ll, vec=True) for o in operands]
    while len(values) < 2:
        values.append(f"splat ({ll} {'0.0' if family == 'f' else '0'})")
    res = _res(lo)
    h = need(lo, f"atomic_{rmw}_{ll}", lambda m, name: _atomic_helper(m, name, rmw, ll))
    args = f"<32 x i64> {a}, <32 x {ll}> {values[0]}, <32 x {ll}> {values[1]}"
    args += f", i32 {lo.mask}, i32 {lo.number(i)}, ptr {res}"
    lo.go_on_if(lo.let(f"call i1 @{h}(ptr %ctx, ptr %warp, {args})"))
    if has_result:
        outer, lo.vec = lo.vec, True
        lo.put(i.args[0], lo.let(f"load <32 x {ll}>, ptr {res}, align 4"), ll)
        lo.vec = outer


def _atomic_helper(m: access.Needs, name: str, rmw: str, ll: str) -> str:
    nbytes = BITS[ll] // 8
    f = Fn(
        f"define internal i1 @{name}(ptr %ctx, ptr %warp, <32 x i64> %a, <32 x {ll}> %b, <32 x {ll}> %c, "
        "i32 %mask, i32 %insn, ptr %res) noinline {"
    )
    f(f"entry:\n  %as = alloca <32 x i64>\n  %bs = alloca <32 x {ll}>\n  %cs = alloca <32 x {ll}>")
    f(f"  store <32 x i64> %a, ptr %as\n  store <32 x {ll}> %b, ptr %bs\n  store <32 x {ll}> %c, ptr %cs")
    f("  %place = alloca ptr")

    def lane(k: str) -> None:
        def pick(base: str, kind: str) -> str:
            return f.let(f"load {kind}, ptr {f.let(f'getelementptr {kind}, ptr {base}, i32 {k}')}")

        a, b, c = pick("%as", "i64"), pick("%bs", ll), pick("%cs", ll)
        window = f.let(f"lshr i64 {a}, {L.WINDOW_BITS}")
        shared, elsewhere, both = f.new_label(), f.new_label(), f.new_label()
        f(
            f"  br i1 {f.let(f'icmp eq i64 {window}, {L.SHARED_WINDOW}')}, "
            f"label %{shared}, label %{elsewhere}\n{shared}:"
        )
        _atomic_shared(m, f, a, k, nbytes)
        f(f"  br label %{both}\n{elsewhere}:")
        e = Entry(f, a, store=True)
        rel = f.let(f"sub i64 {a}, {e.base}")
        access.reject(m, f, access.within(f, rel, nbytes, e.size, nbytes, a), k, a, nbytes)
        f(f"  store ptr {f.let(f'getelementptr i8, ptr {e.host}, i64 {rel}')}, ptr %place")

        def shadow() -> None:
            q = f.let(f"getelementptr i8, ptr {e.shadow}, i64 {f.let(f'lshr i64 {rel}, 2')}")
            unset = f.let(f"icmp eq i8 {f.let(f'load i8, ptr {q}')}, 0")
            if rmw != "xchg":
                f.when(unset, lambda: access.hazard(m, f, L.H_UNINIT_GLOBAL, k, a), likely=False)
            for w in range(nbytes // 4):
                f(f"  store i8 1, ptr {f.let(f'getelementptr i8, ptr {q}, i64 {w}')}")

        f.when(e.tracked, shadow)
        f(f"  br label %{both}\n{both}:")
        p = f.let("load ptr, ptr %place")
        if rmw == "cas":
            pair = f.let(f"cmpxchg ptr {p}, {ll} {b}, {ll} {c} seq_cst seq_cst, align {nbytes}")
            old = f.let(f"extractvalue {{ {ll}, i1 }} {pair}, 0")
        else:
            old = f.let(f"atomicrmw {rmw} ptr {p}, {ll} {b} seq_cst, align {nbytes}")
        f(f"  store {ll} {old}, ptr {f.let(f'getelementptr {ll}, ptr %res, i32 {k}')}, align {nbytes}")

    f.each_lane("%mask", lane)
    f("  ret i1 true\nbad:\n  ret i1 false")
    return f.text()


def _atomic_shared(m: access.Needs, f: Fn, a: str, lane: str, nbytes: int) -> None:
    """Bounds and shadow of an atomic on shared memory: atomics do not race with each other."""
    s = Shared(f, m)
    offset64 = f.let(f"and i64 {a}, {(1 << L.WINDOW_BITS) - 1}")
    size = f.let(f"zext i32 {s.size} to i64")
    access.reject(m, f, access.within(f, offset64, nbytes, size, nbytes, offset64), lane, offset64, nbytes)
    f(f"  store ptr {f.let(f'getelementptr i8, ptr {s.memory}, i64 {offset64}')}, ptr %place")
    atomic_tag = f.let(f"add i32 {s.epoch}, {L.TAG_ATOMIC}")
    for w in range(nbytes // 4):
        index = f.let(f"trunc i64 {f.let(f'lshr i64 {offset64}, 2')} to i32")
        index = f.let(f"add i32 {index}, {w}") if w else index
        wp = f.let(f"getelementptr i32, ptr {s.wtag}, i32 {index}")
        ip = f.let(f"getelementptr i32, ptr {s.winsn}, i32 {index}")
        writer = f.let(f"load i32, ptr {wp}")
        unset = f.let(f"icmp ult i32 {writer}, {s.start}")
        f.when(unset, lambda: access.hazard(m, f, L.H_UNINIT_SHARED, lane, offset64), likely=False)
        mine = access.ordered_tag(f, s, writer)
        fine = f.let(f"or i1 {mine}, {f.let(f'icmp eq i32 {writer}, {atomic_tag}')}")
        other = f.let(f"load i32, ptr {ip}")
        _report_race(m, f, fine, lane, offset64, writer, other)
        f(f"  store i32 {atomic_tag}, ptr {wp}")
        _stamp(f, ip, lane)


def _report_race(m: access.Needs, f: Fn, fine: str, lane: str, place: str, writer: str, other: str) -> None:
    """A hazard where the last write is neither ordered nor atomic."""
    bad = f.let(f"xor i1 {fine}, true")
    f.when(bad, lambda: access.hazard(m, f, L.H_RACE_ATOMIC, lane, place, writer, other), likely=False)


def _stamp(f: Fn, place: str, lane: str) -> None:
    insn = f.let("shl i32 %insn, 5")
    f(f"  store i32 {f.let(f'or i32 {insn}, {lane}')}, ptr {place}")
