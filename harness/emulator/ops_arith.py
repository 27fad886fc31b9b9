"""Arithmetic, comparison, selection, bits and moves: mostly tables, one line an opcode.

Float contraction: PTX `mul`/`add`/`sub` without a rounding modifier may be fused. ptxas does; so does this, by one
rule: an add or sub of a mul in the same block whose only use it is becomes fma.
Approximate functions are polynomials of our own (approx.py), within the error that the PTX ISA documents.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from harness.emulator import approx, nans, rounding
from harness.emulator.emitter import Emitter, handles
from harness.emulator.errors import UnsupportedPtx
from harness.emulator.ops_limbs import with_carry
from harness.emulator.ops_packed import extreme, packed_integer
from harness.emulator.ptx import Imm, Ins, Operand, Pair, Reg, Sym, Vec
from harness.emulator.ssa import UNDEFINED
from harness.emulator.types import BITS, LL_TYPES

_FLOATS = ("f32", "f64")


def _kind(i: Ins) -> str:
    """LLVM type named by the last modifier."""
    kind = LL_TYPES.get(i.mods[-1])
    if kind is None or i.mods[-1] in ("f16", "bf16", "f16x2", "bf16x2", "b128"):
        raise UnsupportedPtx(f"instruction {i.op}", i.loc)
    return kind


def _directed(i: Ins) -> str:
    """.rm, .rp or .rz of a float operation; what else is not known is refused."""
    if {"relu", "xorsign", "rna"} & set(i.mods):
        raise UnsupportedPtx(f"instruction {i.op}", i.loc)
    return rounding.mode_of(i.mods)


def _operands(lo: Emitter, i: Ins, kind: str) -> list[str]:
    values = [lo.get(a, kind) for a in i.args[1:]]
    return [approx.flush(lo, v, kind) for v in values] if "ftz" in i.mods and kind == "float" else values


def _finish(lo: Emitter, i: Ins, value: str, kind: str, scaled: str = "") -> None:
    """Modifiers of the result, then define it. scaled: see _scaled."""
    if "ftz" in i.mods and kind == "float":
        value = approx.flush(lo, value, kind, scaled)
    if "sat" in i.mods and kind in ("float", "double"):
        value = approx.saturate(lo, value, kind)
    lo.put(i.args[0], value, kind)


def _scaled(lo: Emitter, i: Ins, kind: str, result: Callable[..., str], *factors: str) -> str:
    """The result of scaled factors, by which the card flushes (.ftz): it rounds to 24 bits as if exponents had no end,
    and flushes what is then below the least normal, though as a subnormal, with fewer bits, it would round up to that.
    Where a factor overflows by its scale, the result is far from subnormal."""
    if kind != "float" or "ftz" not in i.mods or {"approx", "full"} & set(i.mods):
        return ""
    scale = lo.constant(approx.SCALE, kind)
    return result(*(lo.let(f"fmul {lo.T(kind)} {f}, {scale}") for f in factors))


_FLOAT_BINARY = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}


@handles("add", "sub")
def add_sub(lo: Emitter, i: Ins) -> None:
    kind = _kind(i)
    if i.mods[-1] in _FLOATS:
        if mode := _directed(i):
            a, b = _operands(lo, i, kind)
            term = lo.let(f"fneg {lo.T(kind)} {b}") if i.base == "sub" else b
            value = rounding.fused(lo, mode, a, lo.constant(1.0, kind), term, kind)
            _finish(lo, i, nans.directed(lo, value, kind, a, b), kind)
            return
        if "rn" not in i.mods and (fused := _contract(lo, i, kind)):
            _finish(lo, i, fused, kind)
            return
        a, b = _operands(lo, i, kind)
        value = lo.let(f"{_FLOAT_BINARY[i.base]} {lo.T(kind)} {a}, {b}")
        _finish(lo, i, nans.operands(lo, value, kind, b), kind)
        return
    a, b = _operands(lo, i, kind)
    if "cc" in i.mods:
        with_carry(lo, i, kind, a, b)
        return
    if "sat" in i.mods:
        lo.put(i.args[0], lo.call(f"s{i.base}.sat", kind, a, b), kind)
        return
    lo.put(i.args[0], lo.let(f"{i.base} {lo.T(kind)} {a}, {b}"), kind)


def _contract(lo: Emitter, i: Ins, kind: str) -> str:
    """fma for a +- product; empty where neither operand is a product used only here."""
    for position in (2, 1):
        o = i.args[position]
        if not isinstance(o, Reg) or o.name not in lo.products or lo.use_count.get(o.name) != 1:
            continue
        x, y, wide = lo.products[o.name]
        if wide != lo.vec:
            continue
        other = lo.get(i.args[3 - position], kind)
        if i.base == "sub" and position == 2:
            x = lo.let(f"fneg {lo.T(kind)} {x}")
        elif i.base == "sub":
            other = lo.let(f"fneg {lo.T(kind)} {other}")
        lo.census.fuse(lo.block_number)
        return nans.operands(lo, lo.call("fma", kind, x, y, other), kind, other, y)
    return ""


@handles("mul", "mul24")
def mul(lo: Emitter, i: Ins) -> None:
    kind = _kind(i)
    if i.mods[-1] in _FLOATS:
        mode = _directed(i)
        a, b = _operands(lo, i, kind)

        def product(x: str) -> str:
            return rounding.product(lo, mode, x, b, kind) if mode else lo.let(f"fmul {lo.T(kind)} {x}, {b}")

        value = nans.directed(lo, product(a), kind, a, b) if mode else nans.operands(lo, product(a), kind, b)
        _finish(lo, i, value, kind, _scaled(lo, i, kind, product, a))
        loose = not mode and not {"rn", "sat", "ftz"} & set(i.mods)
        if loose and isinstance(i.args[0], Reg) and not i.pred:
            lo.products[i.args[0].name] = (a, b, lo.vec)
        return
    value, wide = _product(lo, i, kind)
    lo.put(i.args[0], value, wide)


def _product(lo: Emitter, i: Ins, kind: str) -> tuple[str, str]:
    """An integer product by .lo, .hi or .wide, and its type."""
    bits, signed = BITS[kind], i.mods[-1][0] == "s"
    a, b = lo.get(i.args[1], kind), lo.get(i.args[2], kind)
    if i.base.endswith("24"):
        shift = lo.constant(8, kind)
        a, b = (
            lo.let(f"{'ashr' if signed else 'lshr'} {lo.T(kind)} {lo.let(f'shl {lo.T(kind)} {v}, {shift}')}, {shift}")
            for v in (a, b)
        )
    if "wide" not in i.mods and "hi" not in i.mods:
        return lo.let(f"mul {lo.T(kind)} {a}, {b}"), kind
    wide = f"i{2 * bits}"
    extend = "sext" if signed else "zext"
    a, b = (lo.let(f"{extend} {lo.T(kind)} {v} to {lo.T(wide)}") for v in (a, b))
    value = lo.let(f"mul {lo.T(wide)} {a}, {b}")
    if "wide" in i.mods:
        return value, wide
    down = 16 if i.base.endswith("24") else bits
    high = lo.let(f"lshr {lo.T(wide)} {value}, {lo.constant(down, wide)}")
    return lo.let(f"trunc {lo.T(wide)} {high} to {lo.T(kind)}"), kind


@handles("mad", "mad24", "madc")
def mad(lo: Emitter, i: Ins) -> None:
    if i.mods[-1] in _FLOATS:
        fma(lo, i)
        return
    value, kind = _product(lo, i, _kind(i))
    c = lo.get(i.args[3], kind)
    if "cc" in i.mods or i.base == "madc":
        with_carry(lo, i, kind, value, c)
    elif "sat" in i.mods:
        lo.put(i.args[0], lo.call("sadd.sat", kind, value, c), kind)
    else:
        lo.put(i.args[0], lo.let(f"add {lo.T(kind)} {value}, {c}"), kind)


@handles("fma")
def fma(lo: Emitter, i: Ins) -> None:
    kind = _kind(i)
    mode = _directed(i)
    a, b, c = _operands(lo, i, kind)

    def fused(x: str, z: str) -> str:
        return rounding.fused(lo, mode, x, b, z, kind) if mode else lo.call("fma", kind, x, b, z)

    value = nans.directed(lo, fused(a, c), kind, a, c, b) if mode else nans.operands(lo, fused(a, c), kind, c, b)
    _finish(lo, i, value, kind, _scaled(lo, i, kind, fused, a, c))


@handles("div")
def div(lo: Emitter, i: Ins) -> None:
    kind = _kind(i)
    if i.mods[-1] in _FLOATS:
        mode = _directed(i)
        a, b = _operands(lo, i, kind)

        def quotient(x: str) -> str:
            return rounding.quotient(lo, mode, x, b, kind) if mode else lo.let(f"fdiv {lo.T(kind)} {x}, {b}")

        _finish(lo, i, quotient(a), kind, _scaled(lo, i, kind, quotient, a))
        return
    lo.put(i.args[0], _quotient(lo, i, kind), kind)


@handles("rem")
def rem(lo: Emitter, i: Ins) -> None:
    """By zero it gives all ones, as NVIDIA's cards do."""
    kind = _kind(i)
    a, b = lo.get(i.args[1], kind), lo.get(i.args[2], kind)
    product = lo.let(f"mul {lo.T(kind)} {_quotient(lo, i, kind)}, {b}")
    value = lo.let(f"sub {lo.T(kind)} {a}, {product}")
    if not isinstance(i.args[2], Imm) or i.args[2].value == 0:
        zero = lo.let(f"icmp eq {lo.T(kind)} {b}, {lo.constant(0, kind)}")
        value = lo.let(f"select {lo.T('i1')} {zero}, {lo.T(kind)} {lo.constant(-1, kind)}, {lo.T(kind)} {value}")
    lo.put(i.args[0], value, kind)


def _quotient(lo: Emitter, i: Ins, kind: str) -> str:
    """Integer division; by zero it gives all ones, as NVIDIA's cards do. Vectors of up to 32 bits divide as doubles,
    which is exact for them; powers of two and other constants are left to LLVM."""
    signed = i.mods[-1][0] == "s"
    a, b, t = lo.get(i.args[1], kind), lo.get(i.args[2], kind), lo.T(kind)
    op = "sdiv" if signed else "udiv"
    if isinstance(i.args[2], Imm) and i.args[2].value not in (0, -1):
        return lo.let(f"{op} {t} {a}, {b}")
    bad = lo.let(f"icmp eq {t} {b}, {lo.constant(0, kind)}")
    if signed:  # the one quotient that overflows: divide by 1 instead, which leaves INT_MIN as it is
        least = lo.let(f"icmp eq {t} {a}, {lo.constant(-(1 << (BITS[kind] - 1)), kind)}")
        minus = lo.let(f"icmp eq {t} {b}, {lo.constant(-1, kind)}")
        overflow = lo.let(f"and {lo.T('i1')} {least}, {minus}")
        unsafe = lo.let(f"or {lo.T('i1')} {bad}, {overflow}")
    else:
        unsafe = bad
    safe = lo.let(f"select {lo.T('i1')} {unsafe}, {t} {lo.constant(1, kind)}, {t} {b}")
    if lo.vec and BITS[kind] <= 32:
        to, back = ("sitofp", "fptosi") if signed else ("uitofp", "fptoui")
        x, y = (lo.let(f"{to} {t} {v} to <32 x double>") for v in (a, safe))
        q = lo.let(f"{back} <32 x double> {lo.let(f'fdiv <32 x double> {x}, {y}')} to {t}")
    else:
        q = lo.let(f"{op} {t} {a}, {safe}")
    return lo.let(f"select {lo.T('i1')} {bad}, {t} {lo.constant(-1, kind)}, {t} {q}")


@handles("abs", "neg")
def abs_neg(lo: Emitter, i: Ins) -> None:
    kind = _kind(i)
    (a,) = _operands(lo, i, kind)
    if i.mods[-1] in _FLOATS:
        value = lo.call("fabs", kind, a) if i.base == "abs" else lo.let(f"fneg {lo.T(kind)} {a}")
        _finish(lo, i, nans.operands(lo, value, kind, a), kind)
        return
    negative = lo.let(f"sub {lo.T(kind)} {lo.constant(0, kind)}, {a}")
    if i.base == "abs":
        less = lo.let(f"icmp slt {lo.T(kind)} {a}, {lo.constant(0, kind)}")
        negative = lo.let(f"select {lo.T('i1')} {less}, {lo.T(kind)} {negative}, {lo.T(kind)} {a}")
    lo.put(i.args[0], negative, kind)


@handles("min", "max")
def min_max(lo: Emitter, i: Ins) -> None:
    if i.mods[-1] == "relu":  # min.s32.relu and min.relu.s32 are both in use
        i = replace(i, mods=(i.base, "relu", i.mods[-2]))
    if i.mods[-1].endswith("x2"):
        packed_integer(lo, i)
        return
    kind = _kind(i)
    values = _operands(lo, i, kind)
    if i.mods[-1] in _FLOATS:
        _finish(lo, i, nans.instead(lo, extreme(lo, i, values, kind), kind, values[-1]), kind)
        return
    name = ("s" if i.mods[-1][0] == "s" else "u") + i.base
    value = values[0]
    for other in values[1:]:
        value = lo.call(name, kind, value, other)
    if "relu" in i.mods:
        value = lo.call("smax", kind, value, lo.constant(0, kind))
    lo.put(i.args[0], value, kind)


@handles("rcp", "sqrt", "rsqrt", "ex2", "lg2", "sin", "cos", "tanh")
def unary_float(lo: Emitter, i: Ins) -> None:
    kind = _kind(i)
    mode = _directed(i)
    (a,) = _operands(lo, i, kind)
    short = "ftz" in i.mods and kind == "double"
    a = approx.upper_word(lo, a) if short else a
    t, one = lo.T(kind), lo.constant(1.0, kind)
    match i.base:
        case "rcp" if mode:
            value = rounding.quotient(lo, mode, one, a, kind)
        case "sqrt" if mode:
            value = rounding.root(lo, mode, a, kind)
        case "rcp":
            value = lo.let(f"fdiv {t} {one}, {a}")
        case "sqrt":
            value = lo.call("sqrt", kind, a)
        case "rsqrt" if kind == "double":
            value = lo.let(f"fdiv {t} {one}, {lo.call('sqrt', kind, a)}")
        case _ if kind == "float":
            value = getattr(approx, i.base)(lo, a)
        case _:
            raise UnsupportedPtx(f"instruction {i.op}", i.loc)
    _finish(lo, i, approx.upper_word(lo, value) if short else value, kind)


@handles("copysign")
def copysign(lo: Emitter, i: Ins) -> None:
    """Bits are put together, a NaN's too."""
    word = f"i{BITS[_kind(i)]}"
    t, top = lo.T(word), -1 << BITS[word] - 1
    sign = lo.let(f"and {t} {lo.get(i.args[1], word)}, {lo.constant(top, word)}")
    magnitude = lo.let(f"and {t} {lo.get(i.args[2], word)}, {lo.constant(~top, word)}")
    lo.put(i.args[0], lo.let(f"or {t} {sign}, {magnitude}"), word)


@handles("testp")
def testp(lo: Emitter, i: Ins) -> None:
    kind = _kind(i)
    value = lo.call("fabs", kind, lo.get(i.args[1], kind))
    t, infinity = lo.T(kind), lo.constant(float("inf"), kind)
    least = lo.constant(2.0**-126 if kind == "float" else 2.0**-1022, kind)
    test = i.mods[1]
    if test in ("finite", "infinite", "number", "notanumber"):
        comparison = {"finite": "olt", "infinite": "oeq", "number": "ord", "notanumber": "uno"}[test]
        lo.put(i.args[0], lo.let(f"fcmp {comparison} {t} {value}, {infinity}"), "i1")
        return
    below = lo.let(f"fcmp {'olt' if test == 'subnormal' else 'oge'} {t} {value}, {least}")
    bound = lo.let(
        f"fcmp one {t} {value}, {lo.constant(0.0, kind)}"
        if test == "subnormal"
        else f"fcmp olt {t} {value}, {infinity}"
    )
    found = lo.let(f"and {lo.T('i1')} {below}, {bound}")
    if test == "normal":  # PTX ISA, testp: zeros count as normal numbers
        zero = lo.let(f"fcmp oeq {t} {value}, {lo.constant(0.0, kind)}")
        found = lo.let(f"or {lo.T('i1')} {found}, {zero}")
    lo.put(i.args[0], found, "i1")


# -- comparison and selection

_FLOAT_COMPARE = {"eq": "oeq", "ne": "one", "lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge", "equ": "ueq",
                  "neu": "une",
                  "ltu": "ult", "leu": "ule", "gtu": "ugt", "geu": "uge", "num": "ord", "nan": "uno"}  # fmt: skip
_INT_COMPARE = {"eq": "eq", "ne": "ne", "lt": "lt", "le": "le", "gt": "gt", "ge": "ge", "lo": "ult", "ls": "ule",
                "hi": "ugt", "hs": "uge"}  # fmt: skip


def _compare(lo: Emitter, i: Ins, kind: str) -> str:
    name = i.mods[1]
    a, b = lo.get(i.args[1], kind), lo.get(i.args[2], kind)
    if kind in ("float", "double"):
        if "ftz" in i.mods:
            a, b = approx.flush(lo, a, kind), approx.flush(lo, b, kind)
        return lo.let(f"fcmp {_FLOAT_COMPARE[name]} {lo.T(kind)} {a}, {b}")
    code = _INT_COMPARE[name]
    if code in ("lt", "le", "gt", "ge"):
        code = ("s" if i.mods[-1][0] == "s" else "u") + code
    return lo.let(f"icmp {code} {lo.T(kind)} {a}, {b}")


@handles("setp", "set")
def setp(lo: Emitter, i: Ins) -> None:
    if i.mods[-1] not in LL_TYPES or i.mods[-1] in ("f16", "f16x2", "bf16", "bf16x2"):
        raise UnsupportedPtx(f"instruction {i.op}", i.loc)
    kind = LL_TYPES[i.mods[-1]]
    result = _compare(lo, i, kind)
    boolean = lo.T("i1")
    extra = next((m for m in i.mods if m in ("and", "or", "xor")), "")
    true = lo.constant("true", "i1")
    opposite = lo.let(f"xor {boolean} {result}, {true}")
    if extra:
        c = lo.get(i.args[3], "i1")
        result, opposite = (lo.let(f"{extra} {boolean} {v}, {c}") for v in (result, opposite))
    if i.base == "set":
        target = i.mods[-2]
        if target == "f32":
            lo.put(i.args[0], lo.let(f"uitofp {boolean} {result} to {lo.T('float')}"), "float")
        else:
            wide = LL_TYPES[target]
            lo.put(i.args[0], lo.let(f"sext {boolean} {result} to {lo.T(wide)}"), wide)
        return
    if isinstance(i.args[0], Pair):
        lo.put(i.args[0].first, result, "i1")
        lo.put(i.args[0].second, opposite, "i1")
    else:
        lo.put(i.args[0], result, "i1")


@handles("selp")
def selp(lo: Emitter, i: Ins) -> None:
    kind = _kind(i)
    a, b, c = lo.get(i.args[1], kind), lo.get(i.args[2], kind), lo.get(i.args[3], "i1")
    lo.put(i.args[0], lo.let(f"select {lo.T('i1')} {c}, {lo.T(kind)} {a}, {lo.T(kind)} {b}"), kind)


@handles("slct")
def slct(lo: Emitter, i: Ins) -> None:
    kind = LL_TYPES[i.mods[-2]]
    by = LL_TYPES[i.mods[-1]]
    c = lo.get(i.args[3], by)
    if "ftz" in i.mods:
        c = approx.flush(lo, c, by)
    compare = "fcmp oge" if by == "float" else "icmp sge"
    chosen = lo.let(f"{compare} {lo.T(by)} {c}, {lo.constant(0.0 if by == 'float' else 0, by)}")
    a, b = lo.get(i.args[1], kind), lo.get(i.args[2], kind)
    lo.put(i.args[0], lo.let(f"select {lo.T('i1')} {chosen}, {lo.T(kind)} {a}, {lo.T(kind)} {b}"), kind)


# -- moves


@handles("mov")
def mov(lo: Emitter, i: Ins) -> None:
    target, source = i.args
    if isinstance(target, Vec):
        _unpack(lo, i, target, source)
    elif isinstance(source, Vec):
        _pack(lo, i, target, source)
    else:
        kind = LL_TYPES.get(i.mods[-1])
        if kind is None:
            raise UnsupportedPtx(f"instruction {i.op}", i.loc)
        if isinstance(target, Reg):
            kind = lo.ll(target.name)
        if isinstance(source, Imm) and not source.bits and i.mods[-1] not in _FLOATS and kind in ("float", "double"):
            kind = f"i{BITS[kind]}"  # an integer literal moved as bits
        lo.put(target, lo.get(source, kind), kind)


def _unpack(lo: Emitter, i: Ins, target: Vec, source: Operand) -> None:
    whole = LL_TYPES[i.mods[-1]]
    part = BITS[whole] // len(target.items)
    value = lo.get(source, whole)
    for k, item in enumerate(target.items):
        if isinstance(item, Sym) or (isinstance(item, Reg) and item.name == UNDEFINED):
            continue
        moved = value if k == 0 else lo.let(f"lshr {lo.T(whole)} {value}, {lo.constant(k * part, whole)}")
        lo.put(item, lo.let(f"trunc {lo.T(whole)} {moved} to {lo.T(f'i{part}')}"), f"i{part}")


def _pack(lo: Emitter, i: Ins, target: Operand, source: Vec) -> None:
    whole = LL_TYPES[i.mods[-1]]
    part = BITS[whole] // len(source.items)
    value = lo.constant(0, whole)
    for k, item in enumerate(source.items):
        own = f"i{BITS[lo.ll(item.name)]}" if isinstance(item, Reg) and item.name in lo.types else f"i{part}"
        bits = lo.cast(lo.get(item, own), own, f"i{part}", lo.vec)
        wide = lo.let(f"zext {lo.T(f'i{part}')} {bits} to {lo.T(whole)}")
        if k:
            wide = lo.let(f"shl {lo.T(whole)} {wide}, {lo.constant(k * part, whole)}")
        value = lo.let(f"or {lo.T(whole)} {value}, {wide}")
    lo.put(target, value, whole)
