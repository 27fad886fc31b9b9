"""Loads, stores, atomics, address conversion, fences."""

from __future__ import annotations

from harness.emulator import access, traffic
from harness.emulator import layout as L
from harness.emulator.access import Entry, Shared, need
from harness.emulator.emitter import Emitter, handles
from harness.emulator.errors import UnsupportedPtx
from harness.emulator.irtext import Fn
from harness.emulator.layout import Context, Warp
from harness.emulator.ptx import SIZES, Addr, Imm, Ins, Operand, Reg, Sym, Vec
from harness.emulator.types import BITS, LL_TYPES

SPACES = ("global", "shared", "local", "const", "param", "slot")
_ORDERED = {"volatile", "relaxed", "acquire", "release", "acq_rel", "mmio"}
_WINDOW = {"shared": L.SHARED_WINDOW << L.WINDOW_BITS, "local": L.LOCAL_WINDOW << L.WINDOW_BITS}


def _space(i: Ins) -> str:
    for m in i.mods[1:]:
        head = m.split("::")[0]
        if head in SPACES:
            if m == "shared::cluster":
                raise UnsupportedPtx(f"instruction {i.op}", i.loc)
            return head
    return "generic"


def _address(lo: Emitter, o: Operand, kind: str, vec: bool) -> str:
    """base + offset as i32 or i64."""
    if not isinstance(o, Addr):
        raise UnsupportedPtx(f"address of {lo.ins.op}", lo.ins.loc)
    if isinstance(o.base, Sym | Imm):
        value = o.base.value if isinstance(o.base, Imm) else lo.symbol(o.base.name) + o.base.offset
        text = str(value + o.offset)
        return lo.splat(text, kind) if vec else text
    base = lo.get(o.base, kind, vec)
    if o.offset == 0:
        return base
    t = f"<32 x {kind}>" if vec else kind
    return lo.let(f"add {t} {base}, {f'splat ({kind} {o.offset})' if vec else o.offset}")


def _res(lo: Emitter) -> str:
    lo.allocas.setdefault("res", "[128 x i64], align 64")
    return "%res"


def _parts(o: Operand) -> tuple[Operand, ...]:
    return o.items if isinstance(o, Vec) else (o,)


def _count(i: Ins) -> int:
    for m in i.mods:
        if m in ("v2", "v4", "v8"):
            return int(m[1])
    return 1


@handles("ld", "ldu", guarded_by_branch=True)
def load(lo: Emitter, i: Ins) -> None:
    space = _space(i)
    kind = i.mods[-1]
    if kind not in SIZES or kind == "b128" or _count(i) * SIZES[kind] > 16:
        raise UnsupportedPtx(f"instruction {i.op}", i.loc)
    if space == "slot":
        _load_slot(lo, i, kind)
        return
    nbytes, n, bits = SIZES[kind], _count(i), 8 * SIZES[kind]
    if space == "param":
        address = i.args[1]
        if not isinstance(address, Addr) or not isinstance(address.base, Sym):
            raise UnsupportedPtx(f"{i.op} through a register", i.loc)
        values = _load_param(lo, address, bits, n)
        vector = False
    else:
        values, vector = _load_memory(lo, i, space, nbytes, n)
    signed = kind[0] == "s"
    for d, v in zip(_parts(i.args[0]), values, strict=True):
        _put(lo, d, v, bits, vector, signed)


def _put(lo: Emitter, d: Operand, value: str, bits: int, vector: bool, signed: bool) -> None:
    """Define one destination from bits as they lie in memory."""
    if isinstance(d, Sym) and d.name == "_":
        return
    if not isinstance(d, Reg):
        raise UnsupportedPtx(f"destination of {lo.ins.op}", lo.ins.loc)
    own = lo.ll(d.name)
    value = lo.cast(value, f"i{bits}", f"i{BITS[own]}", vector, signed)
    outer, lo.vec = lo.vec, vector
    lo.put(d, value, f"i{BITS[own]}", scalar=not vector)
    lo.vec = outer


def _load_param(lo: Emitter, address: Addr, bits: int, n: int) -> list[str]:
    assert isinstance(address.base, Sym)
    offset = next((p.offset for p in lo.f.params if p.name == address.base.name), None)
    if offset is None:
        raise UnsupportedPtx(f"parameter {address.base.name}", lo.ins.loc)
    base = lo.context("params", pointer=True)
    values = []
    for k in range(n):
        p = lo.let(f"getelementptr i8, ptr {base}, i64 {offset + address.offset + k * bits // 8}")
        values.append(lo.let(f"load i{bits}, ptr {p}, align 1, !invariant.load !1"))
    return values


def _load_slot(lo: Emitter, i: Ins, kind: str) -> None:
    source = i.args[1]
    assert isinstance(source, Reg)
    vec = not lo.is_uniform(source)
    own = lo.ll(source.name)
    value = lo.get(source, own, vec)
    if len(i.args) > 2 and isinstance(i.args[2], Imm) and i.args[2].value:
        t = f"<32 x {own}>" if vec else own
        amount = f"splat ({own} {i.args[2].value})" if vec else str(i.args[2].value)
        value = lo.let(f"lshr {t} {value}, {amount}")
    value = lo.cast(value, own, f"i{8 * SIZES[kind]}", vec)
    _put(lo, i.args[0], value, 8 * SIZES[kind], vec, kind[0] == "s")


def _values(lo: Emitter, struct: str, kind: str, n: int) -> list[str]:
    """Fields of a helper's answer, after leaving if it is not ok."""
    ok = lo.let(f"extractvalue {kind} {struct}, {n}")
    values = [lo.let(f"extractvalue {kind} {struct}, {k}") for k in range(n)]
    lo.go_on_if(ok)
    return values


def _load_memory(lo: Emitter, i: Ins, space: str, nbytes: int, n: int) -> tuple[list[str], bool]:
    """n values and whether they are vectors."""
    bits, insn = 8 * nbytes, lo.number(i)
    ordered = bool(_ORDERED & set(i.mods)) or i.args[1] in lo.compared
    uniform = lo.is_uniform(i.args[1])
    suffix = f"{nbytes}x{n}"
    scalar, vector = access.values_type(bits, n, vector=False), access.values_type(bits, n, vector=True)
    common = f"i32 {lo.mask}, i32 {insn}"
    traffic.note_access(lo, i, space, "read", nbytes * n, uniform)
    if lo.shape.single:
        a = _single_address(lo, i.args[1], space)
        h = need(lo, f"single_ld_{suffix}", lambda m, name: access.single_u(m, name, nbytes, n, store=False))
        return _values(lo, lo.let(f"call {scalar} @{h}(ptr %ctx, ptr %warp, i64 {a}, {common})"), scalar, n), False
    if space in ("global", "const") and uniform:
        a = _address(lo, i.args[1], "i64", vec=False)
        h = need(lo, f"global_ld_u_{suffix}", lambda m, name: access.global_u(m, name, nbytes, n, store=False))
        return _values(lo, lo.let(f"call {scalar} @{h}(ptr %ctx, ptr %warp, i64 {a}, {common})"), scalar, n), False
    if space == "shared" and uniform:
        a = _address(lo, i.args[1], "i32", vec=False)
        h = need(lo, f"shared_ld{'o' * ordered}_u_{suffix}",
                 lambda m, name: access.shared_u(m, name, nbytes, n, store=False, ordered=ordered))  # fmt: skip
        return _values(lo, lo.let(f"call {scalar} @{h}(ptr %ctx, ptr %warp, i32 {a}, {common})"), scalar, n), False
    if space == "local" and uniform:
        a = _address(lo, i.args[1], "i64", vec=False)
        h = need(lo, f"local_ld_u_{suffix}", lambda m, name: access.local_u(m, name, nbytes, n, store=False))
        return _values(lo, lo.let(f"call {vector} @{h}(ptr %ctx, ptr %warp, i64 {a}, {common})"), vector, n), True
    res = _res(lo)
    if space == "shared":
        a = _address(lo, i.args[1], "i32", vec=True)
        traffic.count_shared(lo, i, a, nbytes * n)
        h = need(lo, f"shared_ld{'o' * ordered}_v_{suffix}",
                 lambda m, name: access.shared_v(m, name, nbytes, n, store=False, ordered=ordered))  # fmt: skip
        return _values(
            lo, lo.let(f"call {vector} @{h}(ptr %ctx, ptr %warp, <32 x i32> {a}, {common}, ptr {res})"), vector, n
        ), True
    a = _address(lo, i.args[1], "i64", vec=True)
    if space in ("global", "const"):
        h = need(lo, f"global_ld_v_{suffix}", lambda m, name: access.global_v(m, name, nbytes, n, store=False))
        return _values(
            lo, lo.let(f"call {vector} @{h}(ptr %ctx, ptr %warp, <32 x i64> {a}, {common}, ptr {res})"), vector, n
        ), True
    if space == "generic":
        traffic.count_generic(lo, i, a, nbytes * n)
    h = (
        access.slow(lo, "local", nbytes, n, store=False)
        if space == "local"
        else access.generic_s(lo, nbytes, n, False, ordered)
    )
    lo.go_on_if(lo.let(f"call i1 @{h}(ptr %ctx, ptr %warp, <32 x i64> {a}, {common}, ptr {res})"))
    return _read_results(lo, bits, n), True


def _read_results(lo: Emitter, bits: int, n: int) -> list[str]:
    values = []
    for k in range(n):
        p = lo.let(f"getelementptr i8, ptr %res, i64 {k * L.LANES * bits // 8}")
        values.append(lo.let(f"load <32 x i{bits}>, ptr {p}, align 4"))
    return values


def _single_address(lo: Emitter, o: Operand, space: str) -> str:
    a = _address(lo, o, "i64", vec=False)
    return lo.let(f"add i64 {a}, {_WINDOW[space]}") if space in _WINDOW else a


@handles("st", guarded_by_branch=True)
def store(lo: Emitter, i: Ins) -> None:
    space = _space(i)
    kind = i.mods[-1]
    if space == "slot":
        lo.vec = not lo.shape.single and not lo.is_uniform(i.args[0])
        target = i.args[0]
        assert isinstance(target, Reg)
        lo.put(target, lo.get(i.args[1], lo.ll(target.name)), lo.ll(target.name))
        return
    if kind not in SIZES or kind == "b128" or _count(i) * SIZES[kind] > 16:
        raise UnsupportedPtx(f"instruction {i.op}", i.loc)
    if space == "param":
        raise UnsupportedPtx(f"{i.op} to the kernel's own parameters", i.loc)
    _store_memory(lo, i, space, SIZES[kind], _count(i))


def _store_memory(lo: Emitter, i: Ins, space: str, nbytes: int, n: int) -> None:
    bits, insn = 8 * nbytes, lo.number(i)
    parts = _parts(i.args[1])
    ordered = bool(_ORDERED & set(i.mods))
    same_place = lo.is_uniform(i.args[0])
    uniform = same_place and all(lo.is_uniform(p) for p in parts)
    suffix = f"{nbytes}x{n}"
    common = f"i32 {lo.mask}, i32 {insn}"
    vec = not (lo.shape.single or (uniform and space in ("global", "shared")))
    values = [_bits_of(lo, p, bits, vec) for p in parts]
    traffic.note_access(lo, i, space, "write", nbytes * n, uniform)
    if lo.shape.single:
        a = _single_address(lo, i.args[0], space)
        h = need(lo, f"single_st_{suffix}", lambda m, name: access.single_u(m, name, nbytes, n, store=True))
        call = f"@{h}(ptr %ctx, ptr %warp, i64 {a}{_list(values, f'i{bits}')}, {common})"
    elif not vec and space == "global":
        a = _address(lo, i.args[0], "i64", vec=False)
        h = need(lo, f"global_st_u_{suffix}", lambda m, name: access.global_u(m, name, nbytes, n, store=True))
        call = f"@{h}(ptr %ctx, ptr %warp, i64 {a}{_list(values, f'i{bits}')}, {common})"
    elif not vec:
        a = _address(lo, i.args[0], "i32", vec=False)
        h = need(lo, f"shared_st{'o' * ordered}_u_{suffix}",
                 lambda m, name: access.shared_u(m, name, nbytes, n, store=True, ordered=ordered))  # fmt: skip
        call = f"@{h}(ptr %ctx, ptr %warp, i32 {a}{_list(values, f'i{bits}')}, {common})"
    elif space == "local" and same_place:
        a = _address(lo, i.args[0], "i64", vec=False)
        h = need(lo, f"local_st_u_{suffix}", lambda m, name: access.local_u(m, name, nbytes, n, store=True))
        call = f"@{h}(ptr %ctx, ptr %warp, i64 {a}{_list(values, f'<32 x i{bits}>')}, {common})"
    elif space == "shared":
        a = _address(lo, i.args[0], "i32", vec=True)
        traffic.count_shared(lo, i, a, nbytes * n)
        h = need(lo, f"shared_st{'o' * ordered}_v_{suffix}",
                 lambda m, name: access.shared_v(m, name, nbytes, n, store=True, ordered=ordered))  # fmt: skip
        call = f"@{h}(ptr %ctx, ptr %warp, <32 x i32> {a}{_list(values, f'<32 x i{bits}>')}, {common}, ptr {_res(lo)})"
    elif space in ("global", "const"):
        a = _address(lo, i.args[0], "i64", vec=True)
        h = need(lo, f"global_st_v_{suffix}", lambda m, name: access.global_v(m, name, nbytes, n, store=True))
        call = f"@{h}(ptr %ctx, ptr %warp, <32 x i64> {a}{_list(values, f'<32 x i{bits}>')}, {common}, ptr {_res(lo)})"
    else:
        a = _address(lo, i.args[0], "i64", vec=True)
        res = _res(lo)
        if space == "generic":
            traffic.count_generic(lo, i, a, nbytes * n)
        for k, v in enumerate(values):
            p = lo.let(f"getelementptr i8, ptr {res}, i64 {k * L.LANES * nbytes}")
            lo.emit(f"store <32 x i{bits}> {v}, ptr {p}, align 4")
        h = (
            access.slow(lo, "local", nbytes, n, True)
            if space == "local"
            else access.generic_s(lo, nbytes, n, True, ordered)
        )
        call = f"@{h}(ptr %ctx, ptr %warp, <32 x i64> {a}, {common}, ptr {res})"
    lo.go_on_if(lo.let(f"call i1 {call}"))


def _list(values: list[str], kind: str) -> str:
    return "".join(f", {kind} {v}" for v in values)


def _bits_of(lo: Emitter, o: Operand, bits: int, vec: bool) -> str:
    """An operand's low `bits` bits as an integer."""
    if isinstance(o, Reg) and o.name in lo.types:
        own = lo.ll(o.name)
        return lo.cast(lo.get(o, own, vec), own, f"i{bits}", vec)
    return lo.get(o, f"i{bits}", vec)


# -- address conversion


@handles("cvta")
def cvta(lo: Emitter, i: Ins) -> None:
    space = _space(i)
    window = _WINDOW.get(space, 0)
    if i.mods[1] == "to":
        window = -window
    value = lo.get(i.args[1], "i64")
    lo.put(i.args[0], lo.let(f"add {lo.T('i64')} {value}, {lo.constant(window, 'i64')}"), "i64")


@handles("isspacep")
def isspacep(lo: Emitter, i: Ins) -> None:
    window = lo.let(f"lshr {lo.T('i64')} {lo.get(i.args[1], 'i64')}, {lo.constant(L.WINDOW_BITS, 'i64')}")
    space = i.mods[1].split("::")[0]
    if space in ("shared", "local"):
        number = L.SHARED_WINDOW if space == "shared" else L.LOCAL_WINDOW
        result = lo.let(f"icmp eq {lo.T('i64')} {window}, {lo.constant(number, 'i64')}")
    else:
        result = lo.let(f"icmp ugt {lo.T('i64')} {window}, {lo.constant(L.LOCAL_WINDOW, 'i64')}")
    lo.put(i.args[0], result, "i1")


# -- nothing to do in a memory that is always consistent


@handles(
    "prefetch", "prefetchu", "discard", "applypriority", "nanosleep", "pmevent", "griddepcontrol"
)
def nothing(lo: Emitter, i: Ins) -> None:
    """Memory is consistent and time does not matter here."""


@handles("membar", "fence", guarded_by_branch=True)
def fence(lo: Emitter, i: Ins) -> None:
    """Memory is consistent. For the search for races a fence starts a new epoch: warps that synchronise by fences and
    flags or atomics, which the search does not follow, are then not accused."""
    p = lo.field_pointer("%ctx", Context, "etag", lo.lines)
    tag = lo.let(f"load i32, ptr {p}")
    lo.emit(f"store i32 {lo.let(f'add i32 {tag}, {L.EPOCH_STEP}')}, ptr {p}")


# -- atomics: lane by lane, in lane order

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
    traffic.note_access(lo, i, "generic", "atomic", SIZES[kind])
    traffic.count_generic(lo, i, a, SIZES[kind], atomic=True)
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


@handles("call", guarded_by_branch=True)
def call(lo: Emitter, i: Ins) -> None:
    """Device runtime calls of a kernel: vprintf and __assertfail."""
    target = i.args[0]
    assert isinstance(target, Sym)
    if target.name == "vprintf":
        _printf(lo, i)
    elif target.name == "__assertfail":
        _assert_failed(lo, i)
    else:
        raise UnsupportedPtx(f"call of {target.name}", i.loc)


def _argument(lo: Emitter, o: Operand, kind: str) -> str:
    assert isinstance(o, Vec)
    return lo.get(o.items[0], kind, vec=True)


def _printf(lo: Emitter, i: Ins) -> None:
    """Append a record per lane to the print buffer: format address, position, and the argument bytes."""
    fmt, args = (_argument(lo, a, "i64") for a in i.args[1:3])
    h = need(lo, "printf_s", _printf_helper)
    lo.emit(f"call void @{h}(ptr %ctx, ptr %warp, <32 x i64> {fmt}, <32 x i64> {args}, i32 {lo.mask})")
    if i.returns:
        lo.vec = True
        lo.put(Reg(i.returns[0]), "splat (i32 1)", "i32")


PRINT_RECORD = 256  # bytes: format address, block, warp and lane, then up to 240 bytes of arguments


def _printf_helper(m: access.Needs, name: str) -> str:
    f = Fn(
        f"define internal void @{name}(ptr %ctx, ptr %warp, <32 x i64> %fmt, <32 x i64> %args, i32 %mask) noinline {{"
    )
    f("entry:\n  %fs = alloca <32 x i64>\n  %as = alloca <32 x i64>\n  %n = alloca i64")
    f("  store <32 x i64> %fmt, ptr %fs\n  store <32 x i64> %args, ptr %as")
    local = f.get("%warp", Warp, "local", pointer=True)
    limit = f.get("%ctx", Context, "local_bytes")

    def lane(k: str) -> None:
        used = f.get("%ctx", Context, "print_used")
        f.put("%ctx", Context, "print_used", f.let(f"add i64 {used}, {PRINT_RECORD}"))
        end = f.let(f"add i64 {used}, {PRINT_RECORD}")

        def write() -> None:
            base = f.get("%ctx", Context, "print_buffer", pointer=True)
            row = f.let(f"getelementptr i8, ptr {base}, i64 {used}")
            address = f.let(f"load i64, ptr {f.let(f'getelementptr i64, ptr %fs, i32 {k}')}")
            f(f"  store i64 {address}, ptr {row}")
            who = f.let(f"getelementptr i8, ptr {row}, i64 8")
            f(f"  store i32 {k}, ptr {who}")
            at = f.let(f"load i64, ptr {f.let(f'getelementptr i64, ptr %as, i32 {k}')}")
            start = f.let(f"and i64 {at}, {(1 << L.WINDOW_BITS) - 1}")
            window = f.let(f"lshr i64 {at}, {L.WINDOW_BITS}")
            head, body, done = f.new_label(), f.new_label(), f.new_label()
            f(f"  store i64 0, ptr %n\n  br label %{head}\n{head}:")
            n = f.let("load i64, ptr %n")
            off = f.let(f"add i64 {start}, {n}")
            more = f.let(
                f"and i1 {f.let(f'icmp ult i64 {n}, {PRINT_RECORD - 16}')}, {f.let(f'icmp ult i64 {off}, {limit}')}"
            )
            more = f.let(f"and i1 {more}, {f.let(f'icmp eq i64 {window}, {L.LOCAL_WINDOW}')}")
            f(f"  br i1 {more}, label %{body}, label %{done}\n{body}:")
            word = f.let(f"shl i64 {f.let(f'lshr i64 {off}, 2')}, 5")
            cell = f.let(f"add i64 {word}, {f.let(f'zext i32 {k} to i64')}")
            v = f.let(f"load i32, ptr {f.let(f'getelementptr i32, ptr {local}, i64 {cell}')}")
            q = f.let(f"getelementptr i8, ptr {row}, i64 {f.let(f'add i64 {n}, 16')}")
            f(f"  store i32 {v}, ptr {q}\n  store i64 {f.let(f'add i64 {n}, 4')}, ptr %n\n  br label %{head}\n{done}:")

        f.when(f.let(f"icmp ule i64 {end}, {f.get('%ctx', Context, 'print_size')}"), write)

    f.each_lane("%mask", lane)
    f("  ret void")
    return f.text()


def _assert_failed(lo: Emitter, i: Ins) -> None:
    """Keep the address of the message for the report, then stop."""
    message = _argument(lo, i.args[1], "i64")
    first = lo.let(f"call i32 @llvm.cttz.i32(i32 {lo.mask}, i1 false)")
    value = lo.let(f"extractelement <32 x i64> {message}, i32 {first}")
    lo.emit(f"store i64 {value}, ptr {lo.field_pointer('%ctx', Context, 'fault_address', lo.lines)}")
    lo.fault(L.F_ASSERT, i)
    lo.label(lo.new_label())
