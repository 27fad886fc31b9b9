"""Loads, stores, address conversion, fences."""

from __future__ import annotations

from harness.emulator import access, ordering, traffic
from harness.emulator import layout as L
from harness.emulator.access import clocks, need
from harness.emulator.emitter import Emitter, handles
from harness.emulator.errors import UnsupportedPtx
from harness.emulator.irtext import Fn
from harness.emulator.layout import Context, Warp
from harness.emulator.ptx import SIZES, Addr, Imm, Ins, Operand, Reg, Sym, Vec
from harness.emulator.sharing import ORDERED, is_strong
from harness.emulator.types import BITS

SPACES = ("global", "shared", "local", "const", "param", "slot")
_WINDOW = {"shared": L.SHARED_WINDOW << L.WINDOW_BITS, "local": L.LOCAL_WINDOW << L.WINDOW_BITS}


def _space(i: Ins) -> str:
    for m in i.mods[1:]:
        head = m.split("::")[0]
        if head in SPACES:
            if m == "shared::cluster":
                raise UnsupportedPtx(f"instruction {i.op}", i.loc)
            return head
    return "generic"


def address_of(lo: Emitter, o: Operand, kind: str, vec: bool) -> str:
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


def result_buffer(lo: Emitter) -> str:
    """Where helpers out of line leave values: element k of lane l at (k * 32 + l) * its size."""
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
    if kind not in SIZES or _count(i) * SIZES[kind] > 16:
        raise UnsupportedPtx(f"instruction {i.op}", i.loc)
    if space == "slot":
        _load_slot(lo, i, kind)
        return
    nbytes, n = _elements(lo, kind, _count(i), i.args[0])
    bits = 8 * nbytes
    if space == "param":
        address = i.args[1]
        if not isinstance(address, Addr) or not isinstance(address.base, Sym):
            raise UnsupportedPtx(f"{i.op} through a register", i.loc)
        values = _load_param(lo, address, bits, n)
        vector = False
    else:
        values, vector = _load_memory(lo, i, space, nbytes, n)
        ordering.after(lo, i)
    signed = kind[0] == "s"
    if ORDERED & set(i.mods):
        _synchronises(lo, i, i.args[1], clocks.READS)
    if kind == "b128":
        values, bits = [_joined(lo, values, vector)], 128
    for d, v in zip(_parts(i.args[0]), values, strict=True):
        _put(lo, d, v, bits, vector, signed)


def _elements(lo: Emitter, kind: str, count: int, data: Operand) -> tuple[int, int]:
    """(bytes of an element, number of them) as memory is accessed: 128 bits are two words of 64."""
    if kind != "b128":
        return SIZES[kind], count
    if not isinstance(data, Reg) or lo.types.get(data.name) != "b128":
        raise UnsupportedPtx(f"instruction {lo.ins.op} of a register that is not of 128 bits", lo.ins.loc)
    return 8, 2


def _joined(lo: Emitter, values: list[str], vector: bool) -> str:
    """Two words of 64 bits as one of 128."""
    low, high = (lo.cast(v, "i64", "i128", vector) for v in values)
    t, amount = ("<32 x i128>", "splat (i128 64)") if vector else ("i128", "64")
    return lo.let(f"or {t} {low}, {lo.let(f'shl {t} {high}, {amount}')}")


def _split(lo: Emitter, value: str, vector: bool) -> list[str]:
    """128 bits as two words of 64."""
    t, amount = ("<32 x i128>", "splat (i128 64)") if vector else ("i128", "64")
    return [lo.cast(v, "i128", "i64", vector) for v in (value, lo.let(f"lshr {t} {value}, {amount}"))]


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
    ordered = bool(ORDERED & set(i.mods)) or i.args[1] in lo.compared
    strong = lo.communicates and (is_strong(i) or i.args[1] in lo.compared)
    uniform = lo.is_uniform(i.args[1])
    suffix = f"{nbytes}x{n}"
    scalar, vector = access.values_type(bits, n, vector=False), access.values_type(bits, n, vector=True)
    common = f"i32 {lo.mask}, i32 {insn}"
    traffic.note_access(lo, i, space, "read", nbytes * n, uniform)
    _trace(lo, i, i.args[1], space, nbytes * n, store=False)
    if lo.shape.single:
        a = _single_address(lo, i.args[1], space)
        h = need(lo, f"single_ld_{suffix}", lambda m, name: access.single_u(m, name, nbytes, n, store=False))
        return _values(lo, lo.let(f"call {scalar} @{h}(ptr %ctx, ptr %warp, i64 {a}, {common})"), scalar, n), False
    if space in ("global", "const") and uniform:
        a = address_of(lo, i.args[1], "i64", vec=False)
        h = need(lo, f"global_ld{'o' * strong}_u_{suffix}",
                 lambda m, name: access.global_u(m, name, nbytes, n, store=False, ordered=strong))  # fmt: skip
        return _values(lo, lo.let(f"call {scalar} @{h}(ptr %ctx, ptr %warp, i64 {a}, {common})"), scalar, n), False
    if space == "shared" and uniform:
        a = address_of(lo, i.args[1], "i32", vec=False)
        h = need(lo, f"shared_ld{'o' * ordered}_u_{suffix}",
                 lambda m, name: access.shared_u(m, name, nbytes, n, store=False, ordered=ordered))  # fmt: skip
        return _values(lo, lo.let(f"call {scalar} @{h}(ptr %ctx, ptr %warp, i32 {a}, {common})"), scalar, n), False
    if space == "local" and uniform:
        a = address_of(lo, i.args[1], "i64", vec=False)
        h = need(lo, f"local_ld_u_{suffix}", lambda m, name: access.local_u(m, name, nbytes, n, store=False))
        return _values(lo, lo.let(f"call {vector} @{h}(ptr %ctx, ptr %warp, i64 {a}, {common})"), vector, n), True
    res = result_buffer(lo)
    if space == "shared":
        a = address_of(lo, i.args[1], "i32", vec=True)
        traffic.count_shared(lo, i, a, nbytes * n)
        h = need(lo, f"shared_ld{'o' * ordered}_v_{suffix}",
                 lambda m, name: access.shared_v(m, name, nbytes, n, store=False, ordered=ordered))  # fmt: skip
        return _values(
            lo, lo.let(f"call {vector} @{h}(ptr %ctx, ptr %warp, <32 x i32> {a}, {common}, ptr {res})"), vector, n
        ), True
    a = address_of(lo, i.args[1], "i64", vec=True)
    if space in ("global", "const") and not strong:
        h = need(lo, f"global_ld_v_{suffix}", lambda m, name: access.global_v(m, name, nbytes, n, store=False))
        return _values(
            lo, lo.let(f"call {vector} @{h}(ptr %ctx, ptr %warp, <32 x i64> {a}, {common}, ptr {res})"), vector, n
        ), True
    if space == "generic":
        traffic.count_generic(lo, i, a, nbytes * n)
    h = (
        access.slow(lo, space, nbytes, n, store=False, ordered=strong)
        if space in ("local", "global")
        else access.generic_s(lo, nbytes, n, False, ordered)
    )
    lo.go_on_if(lo.let(f"call i1 @{h}(ptr %ctx, ptr %warp, <32 x i64> {a}, {common}, ptr {res})"))
    return _read_results(lo, bits, n), True


def _trace(lo: Emitter, i: Ins, address: Operand, space: str, nbytes: int, store: bool) -> None:
    """Have a traced kernel keep the request; local memory is each thread's own and not drawn."""
    if lo.traced and space == "shared":
        traffic.trace_shared(lo, i, address_of(lo, address, "i32", vec=True), nbytes, store)
    elif lo.traced and space in ("global", "const", "generic"):
        traffic.trace(lo, i, address_of(lo, address, "i64", vec=True), nbytes, store)


def _read_results(lo: Emitter, bits: int, n: int) -> list[str]:
    values = []
    for k in range(n):
        p = lo.let(f"getelementptr i8, ptr %res, i64 {k * L.LANES * bits // 8}")
        values.append(lo.let(f"load <32 x i{bits}>, ptr {p}, align 4"))
    return values


def _single_address(lo: Emitter, o: Operand, space: str) -> str:
    a = address_of(lo, o, "i64", vec=False)
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
    if kind not in SIZES or _count(i) * SIZES[kind] > 16:
        raise UnsupportedPtx(f"instruction {i.op}", i.loc)
    if space == "param":
        raise UnsupportedPtx(f"{i.op} to the kernel's own parameters", i.loc)
    _releases(lo, i)
    ordering.before(lo, i)
    _store_memory(lo, i, space, *_elements(lo, kind, _count(i), i.args[1]))
    if ORDERED & set(i.mods):
        _synchronises(lo, i, i.args[0], clocks.WRITES)


def _store_memory(lo: Emitter, i: Ins, space: str, nbytes: int, n: int) -> None:
    bits, insn = 8 * nbytes, lo.number(i)
    parts = _parts(i.args[1])
    ordered = bool(ORDERED & set(i.mods))
    strong = lo.communicates and is_strong(i)
    same_place = lo.is_uniform(i.args[0])
    uniform = same_place and all(lo.is_uniform(p) for p in parts)
    suffix = f"{nbytes}x{n}"
    common = f"i32 {lo.mask}, i32 {insn}"
    vec = not (lo.shape.single or (uniform and space in ("global", "shared")))
    if i.mods[-1] == "b128":
        values = _split(lo, _bits_of(lo, parts[0], 128, vec), vec)
    else:
        values = [_bits_of(lo, p, bits, vec) for p in parts]
    traffic.note_access(lo, i, space, "write", nbytes * n, uniform)
    _trace(lo, i, i.args[0], space, nbytes * n, store=True)
    if lo.shape.single:
        a = _single_address(lo, i.args[0], space)
        h = need(lo, f"single_st_{suffix}", lambda m, name: access.single_u(m, name, nbytes, n, store=True))
        call = f"@{h}(ptr %ctx, ptr %warp, i64 {a}{_list(values, f'i{bits}')}, {common})"
    elif not vec and space == "global":
        a = address_of(lo, i.args[0], "i64", vec=False)
        h = need(lo, f"global_st{'o' * strong}_u_{suffix}",
                 lambda m, name: access.global_u(m, name, nbytes, n, store=True, ordered=strong))  # fmt: skip
        call = f"@{h}(ptr %ctx, ptr %warp, i64 {a}{_list(values, f'i{bits}')}, {common})"
    elif not vec:
        a = address_of(lo, i.args[0], "i32", vec=False)
        h = need(lo, f"shared_st{'o' * ordered}_u_{suffix}",
                 lambda m, name: access.shared_u(m, name, nbytes, n, store=True, ordered=ordered))  # fmt: skip
        call = f"@{h}(ptr %ctx, ptr %warp, i32 {a}{_list(values, f'i{bits}')}, {common})"
    elif space == "local" and same_place:
        a = address_of(lo, i.args[0], "i64", vec=False)
        h = need(lo, f"local_st_u_{suffix}", lambda m, name: access.local_u(m, name, nbytes, n, store=True))
        call = f"@{h}(ptr %ctx, ptr %warp, i64 {a}{_list(values, f'<32 x i{bits}>')}, {common})"
    elif space == "shared":
        a = address_of(lo, i.args[0], "i32", vec=True)
        traffic.count_shared(lo, i, a, nbytes * n)
        h = need(lo, f"shared_st{'o' * ordered}_v_{suffix}",
                 lambda m, name: access.shared_v(m, name, nbytes, n, store=True, ordered=ordered))  # fmt: skip
        operands = f"<32 x i32> {a}{_list(values, f'<32 x i{bits}>')}, {common}, ptr {result_buffer(lo)}"
        call = f"@{h}(ptr %ctx, ptr %warp, {operands})"
    elif space in ("global", "const") and not strong:
        a = address_of(lo, i.args[0], "i64", vec=True)
        h = need(lo, f"global_st_v_{suffix}", lambda m, name: access.global_v(m, name, nbytes, n, store=True))
        operands = f"<32 x i64> {a}{_list(values, f'<32 x i{bits}>')}, {common}, ptr {result_buffer(lo)}"
        call = f"@{h}(ptr %ctx, ptr %warp, {operands})"
    else:
        a = address_of(lo, i.args[0], "i64", vec=True)
        res = result_buffer(lo)
        if space == "generic":
            traffic.count_generic(lo, i, a, nbytes * n)
        for k, v in enumerate(values):
            p = lo.let(f"getelementptr i8, ptr {res}, i64 {k * L.LANES * nbytes}")
            lo.emit(f"store <32 x i{bits}> {v}, ptr {p}, align 4")
        h = (
            access.slow(lo, space, nbytes, n, True, ordered=strong)
            if space in ("local", "global")
            else access.generic_s(lo, nbytes, n, True, ordered)
        )
        call = f"@{h}(ptr %ctx, ptr %warp, <32 x i64> {a}, {common}, ptr {res})"
    lo.go_on_if(lo.let(f"call i1 {call}"))


def _list(values: list[str], kind: str) -> str:
    return "".join(f", {kind} {v}" for v in values)


def _bits_of(lo: Emitter, o: Operand, bits: int, vec: bool) -> str:
    """An operand's low `bits` bits as an integer."""
    if isinstance(o, Reg) and o.name in lo.types:
        own = f"i{BITS[lo.ll(o.name)]}"
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


@handles("prefetch", "prefetchu", "discard", "applypriority", "pmevent", "griddepcontrol")
def nothing(lo: Emitter, i: Ins) -> None:
    """Memory is consistent and time does not matter here."""


@handles("createpolicy")
def cache_policy(lo: Emitter, i: Ins) -> None:
    """A hint to a cache: loads and stores take it and pay no heed."""
    lo.put(i.args[0], lo.constant(0, "i64"), "i64")


@handles("nanosleep")
def nanosleep(lo: Emitter, i: Ins) -> None:
    """Time does not matter, but a warp that sleeps waits for another one: let it come to its turn."""
    lo.rest()


@handles("membar", "fence", guarded_by_branch=True)
def fence(lo: Emitter, i: Ins) -> None:
    """Memory is consistent: a fence matters to the search for races only."""
    if not lo.shape.single and "proxy" not in i.mods:
        lo.emit(f"call void @{clocks.fence(lo)}(ptr %ctx, ptr %warp)")
    ordering.fence(lo, i)


def _releases(lo: Emitter, i: Ins) -> None:
    """The fence that .release implies before an access."""
    if {"release", "acq_rel"} & set(i.mods) and not lo.shape.single:
        fence(lo, i)


def _synchronises(lo: Emitter, i: Ins, address: Operand, how: int) -> None:
    """Tell the search for races of a strong access, and of the fence that .acquire implies behind it."""
    if not lo.publishes or lo.shape.single:
        return
    space = _space(i)
    a = address_of(lo, address, "i64", vec=True)
    if space == "shared":
        a = lo.let(f"or <32 x i64> {a}, splat (i64 {L.SHARED_WINDOW << L.WINDOW_BITS})")
    if space in ("shared", "global", "generic"):
        lo.emit(f"call void @{clocks.strong(lo)}(ptr %ctx, ptr %warp, <32 x i64> {a}, i32 {lo.mask}, i32 {how})")
    if {"acquire", "acq_rel"} & set(i.mods):
        fence(lo, i)


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
