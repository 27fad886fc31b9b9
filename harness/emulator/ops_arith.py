"""Arithmetic, comparison, selection, bits and moves: mostly tables, one line an opcode.

Float contraction: PTX `mul`/`add`/`sub` without a rounding modifier may be fused. ptxas does; so does this, by one
rule: an add or sub of a mul in the same block whose only use it is becomes fma.
Approximate functions are polynomials of our own (approx.py), within the error that the PTX ISA documents.
"""

from __future__ import annotations

from dataclasses import replace

from harness.emulator import approx, rounding
from harness.emulator.emitter import Emitter, handles
from harness.emulator.errors import UnsupportedPtx
from harness.emulator.ops_limbs import with_carry
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


def _finish(lo: Emitter, i: Ins, value: str, kind: str) -> None:
    """Modifiers of the result, then define it."""
    if "ftz" in i.mods and kind == "float":
        value = approx.flush(lo, value, kind)
    if "sat" in i.mods and kind in ("float", "double"):
        value = approx.saturate(lo, value, kind)
    lo.put(i.args[0], value, kind)


_INT_BINARY = {"add": "add", "sub": "sub", "and": "and", "or": "or", "xor": "xor"}
_FLOAT_BINARY = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}


@handles("add", "sub")
def add_sub(lo: Emitter, i: Ins) -> None:
    kind = _kind(i)
    if i.mods[-1] in _FLOATS:
        if mode := _directed(i):
            a, b = _operands(lo, i, kind)
            b = lo.let(f"fneg {lo.T(kind)} {b}") if i.base == "sub" else b
            _finish(lo, i, rounding.fused(lo, mode, a, lo.constant(1.0, kind), b, kind), kind)
            return
        if "rn" not in i.mods and (fused := _contract(lo, i, kind)):
            _finish(lo, i, fused, kind)
            return
        a, b = _operands(lo, i, kind)
        _finish(lo, i, lo.let(f"{_FLOAT_BINARY[i.base]} {lo.T(kind)} {a}, {b}"), kind)
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
        return lo.call("fma", kind, x, y, other)
    return ""


@handles("mul", "mul24")
def mul(lo: Emitter, i: Ins) -> None:
    kind = _kind(i)
    if i.mods[-1] in _FLOATS:
        mode = _directed(i)
        a, b = _operands(lo, i, kind)
        if mode:
            _finish(lo, i, rounding.product(lo, mode, a, b, kind), kind)
            return
        value = lo.let(f"fmul {lo.T(kind)} {a}, {b}")
        _finish(lo, i, value, kind)
        if (
            "rn" not in i.mods
            and "sat" not in i.mods
            and "ftz" not in i.mods
            and isinstance(i.args[0], Reg)
            and not i.pred
        ):
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
    value = rounding.fused(lo, mode, a, b, c, kind) if mode else lo.call("fma", kind, a, b, c)
    _finish(lo, i, value, kind)


@handles("div")
def div(lo: Emitter, i: Ins) -> None:
    kind = _kind(i)
    if i.mods[-1] in _FLOATS:
        mode = _directed(i)
        a, b = _operands(lo, i, kind)
        _finish(lo, i, rounding.quotient(lo, mode, a, b, kind) if mode else lo.let(f"fdiv {lo.T(kind)} {a}, {b}"), kind)
        return
    lo.put(i.args[0], _quotient(lo, i, kind), kind)


@handles("rem")
def rem(lo: Emitter, i: Ins) -> None:
    kind = _kind(i)
    a, b = lo.get(i.args[1], kind), lo.get(i.args[2], kind)
    product = lo.let(f"mul {lo.T(kind)} {_quotient(lo, i, kind)}, {b}")
    value = lo.let(f"sub {lo.T(kind)} {a}, {product}")
    if not isinstance(i.args[2], Imm):  # x % 0 is x on the card; the quotient of -1s would give x + 0
        zero = lo.let(f"icmp eq {lo.T(kind)} {b}, {lo.constant(0, kind)}")
        value = lo.let(f"select {lo.T('i1')} {zero}, {lo.T(kind)} {a}, {lo.T(kind)} {value}")
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
        _finish(lo, i, lo.call("fabs", kind, a) if i.base == "abs" else lo.let(f"fneg {lo.T(kind)} {a}"), kind)
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
    kind = _kind(i)
    values = _operands(lo, i, kind)
    if i.mods[-1] in _FLOATS:
        _directed(i)
        # A NaN loses against a number (IEEE 754-2019 minimumNumber) unless .NaN asks for it; -0 < +0.
        name = {"min": "minimum", "max": "maximum"}[i.base] + ("" if "NaN" in i.mods else "num")
        value = values[0]
        for other in values[1:]:
            value = lo.call(name, kind, value, other)
        _finish(lo, i, value, kind)
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
    _finish(lo, i, value, kind)


@handles("copysign")
def copysign(lo: Emitter, i: Ins) -> None:
    kind = _kind(i)
    sign, magnitude = _operands(lo, i, kind)
    lo.put(i.args[0], lo.call("copysign", kind, magnitude, sign), kind)


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
    lo.put(i.args[0], lo.let(f"and {lo.T('i1')} {below}, {bound}"), "i1")


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


# -- bits


@handles("and", "or", "xor")
def logic(lo: Emitter, i: Ins) -> None:
    kind = _kind(i)
    a, b = lo.get(i.args[1], kind), lo.get(i.args[2], kind)
    lo.put(i.args[0], lo.let(f"{i.base} {lo.T(kind)} {a}, {b}"), kind)


@handles("not")
def bit_not(lo: Emitter, i: Ins) -> None:
    kind = _kind(i)
    ones = lo.constant("true" if kind == "i1" else -1, kind)
    lo.put(i.args[0], lo.let(f"xor {lo.T(kind)} {lo.get(i.args[1], kind)}, {ones}"), kind)


@handles("cnot")
def cnot(lo: Emitter, i: Ins) -> None:
    kind = _kind(i)
    zero = lo.let(f"icmp eq {lo.T(kind)} {lo.get(i.args[1], kind)}, {lo.constant(0, kind)}")
    lo.put(i.args[0], lo.let(f"zext {lo.T('i1')} {zero} to {lo.T(kind)}"), kind)


@handles("shl", "shr")
def shift(lo: Emitter, i: Ins) -> None:
    """Amounts beyond the width are clamped to it (PTX), where LLVM's are undefined."""
    kind = _kind(i)
    bits, t = BITS[kind], lo.T(kind)
    signed = i.mods[-1][0] == "s"
    op = "shl" if i.base == "shl" else "ashr" if signed else "lshr"
    a = lo.get(i.args[1], kind)
    if isinstance(i.args[2], Imm):
        amount = i.args[2].value & 0xFFFFFFFF
        if amount >= bits:
            if op != "ashr":
                lo.put(i.args[0], lo.constant(0, kind), kind)
                return
            amount = bits - 1
        lo.put(i.args[0], lo.let(f"{op} {t} {a}, {lo.constant(amount, kind)}"), kind)
        return
    raw = lo.get(i.args[2], "i32")
    over = lo.let(f"icmp uge {lo.T('i32')} {raw}, {lo.constant(bits, 'i32')}")
    capped = lo.call("umin", "i32", raw, lo.constant(bits - 1, "i32"))
    value = lo.let(f"{op} {t} {a}, {lo.cast(capped, 'i32', kind, lo.vec)}")
    if op != "ashr":
        value = lo.let(f"select {lo.T('i1')} {over}, {t} {lo.constant(0, kind)}, {t} {value}")
    lo.put(i.args[0], value, kind)


@handles("shf")
def funnel_shift(lo: Emitter, i: Ins) -> None:
    a, b, c = (lo.get(x, "i32") for x in i.args[1:])
    if "clamp" in i.mods:
        over = lo.let(f"icmp uge {lo.T('i32')} {c}, {lo.constant(32, 'i32')}")
        shifted = lo.call("fshl" if "l" in i.mods else "fshr", "i32", b, a, c)
        whole = a if "l" in i.mods else b
        lo.put(i.args[0], lo.let(f"select {lo.T('i1')} {over}, {lo.T('i32')} {whole}, {lo.T('i32')} {shifted}"), "i32")
        return
    lo.put(i.args[0], lo.call("fshl" if "l" in i.mods else "fshr", "i32", b, a, c), "i32")


@handles("lop3")
def lop3(lo: Emitter, i: Ins) -> None:
    """Any function of three bits: bit k of the table is the result for the inputs that k spells."""
    if "BoolOp" in i.op or isinstance(i.args[0], Pair) or i.mods[1] != "b32":
        raise UnsupportedPtx(f"instruction {i.op}", i.loc)
    inputs = [lo.get(x, "i32") for x in i.args[1:4]]
    table = i.args[4]
    assert isinstance(table, Imm)
    t, ones = lo.T("i32"), lo.constant(-1, "i32")
    inverted = [lo.let(f"xor {t} {v}, {ones}") for v in inputs]
    value = lo.constant(0, "i32")
    for k in range(8):
        if table.value >> k & 1:
            terms = [inputs[n] if k >> (2 - n) & 1 else inverted[n] for n in range(3)]
            both = lo.let(f"and {t} {terms[0]}, {terms[1]}")
            value = lo.let(f"or {t} {value}, {lo.let(f'and {t} {both}, {terms[2]}')}")
    lo.put(i.args[0], value, "i32")


@handles("popc", "brev")
def popc_brev(lo: Emitter, i: Ins) -> None:
    kind = _kind(i)
    value = lo.call("ctpop" if i.base == "popc" else "bitreverse", kind, lo.get(i.args[1], kind))
    lo.put(i.args[0], value, kind)


@handles("clz")
def clz(lo: Emitter, i: Ins) -> None:
    kind = _kind(i)
    lo.put(i.args[0], _zeros(lo, lo.get(i.args[1], kind), kind), kind)


def _zeros(lo: Emitter, value: str, kind: str) -> str:
    """Leading zeros; the width for 0."""
    name = f"@llvm.ctlz.{'v32' if lo.vec else ''}{kind}"
    lo.declare(f"declare {lo.T(kind)} {name}({lo.T(kind)}, i1)")
    return lo.let(f"call {lo.T(kind)} {name}({lo.T(kind)} {value}, i1 false)")


@handles("bfind")
def bfind(lo: Emitter, i: Ins) -> None:
    kind = _kind(i)
    bits, t = BITS[kind], lo.T(kind)
    a = lo.get(i.args[1], kind)
    if i.mods[-1][0] == "s":
        a = lo.let(f"xor {t} {a}, {lo.let(f'ashr {t} {a}, {lo.constant(bits - 1, kind)}')}")
    zeros = _zeros(lo, a, kind)
    none = lo.let(f"icmp eq {t} {zeros}, {lo.constant(bits, kind)}")
    place = zeros if "shiftamt" in i.mods else lo.let(f"sub {t} {lo.constant(bits - 1, kind)}, {zeros}")
    value = lo.let(f"select {lo.T('i1')} {none}, {t} {lo.constant(-1, kind)}, {t} {place}")
    lo.put(i.args[0], lo.cast(value, kind, "i32", lo.vec), "i32")


@handles("bfe")
def bfe(lo: Emitter, i: Ins) -> None:
    kind = _kind(i)
    bits, t, signed = BITS[kind], lo.T(kind), i.mods[-1][0] == "s"
    a = lo.get(i.args[1], kind)
    start, length = (_byte(lo, o, kind) for o in i.args[2:4])
    start, length = (lo.call("umin", kind, v, lo.constant(bits, kind)) for v in (start, length))
    # In double width nothing is shifted out of range: extend, move the field to the top, and back down.
    wide = f"i{2 * bits}"
    tw = lo.T(wide)
    extended = lo.let(f"{'sext' if signed else 'zext'} {t} {a} to {tw}")
    s, n = (lo.let(f"zext {t} {v} to {tw}") for v in (start, length))
    moved = lo.let(f"{'ashr' if signed else 'lshr'} {tw} {extended}, {s}")
    narrow = lo.let(f"sub {tw} {lo.constant(2 * bits, wide)}, {n}")
    empty = lo.let(f"icmp eq {t} {length}, {lo.constant(0, kind)}")
    safe = lo.let(f"select {lo.T('i1')} {empty}, {tw} {lo.constant(0, wide)}, {tw} {narrow}")
    field = lo.let(f"{'ashr' if signed else 'lshr'} {tw} {lo.let(f'shl {tw} {moved}, {safe}')}, {safe}")
    value = lo.let(f"trunc {tw} {field} to {t}")
    lo.put(i.args[0], lo.let(f"select {lo.T('i1')} {empty}, {t} {lo.constant(0, kind)}, {t} {value}"), kind)


def _byte(lo: Emitter, o: Operand, kind: str) -> str:
    """The low byte of a 32-bit operand, as `kind`."""
    raw = lo.let(f"and {lo.T('i32')} {lo.get(o, 'i32')}, {lo.constant(255, 'i32')}")
    return lo.cast(raw, "i32", kind, lo.vec)


@handles("bfi")
def bfi(lo: Emitter, i: Ins) -> None:
    kind = _kind(i)
    bits = BITS[kind]
    wide, tw = f"i{2 * bits}", lo.T(f"i{2 * bits}")
    a, b = (lo.let(f"zext {lo.T(kind)} {lo.get(o, kind)} to {tw}") for o in i.args[1:3])
    start, length = (
        lo.let(f"zext {lo.T(kind)} {lo.call('umin', kind, _byte(lo, o, kind), lo.constant(bits, kind))} to {tw}")
        for o in i.args[3:5]
    )
    one = lo.constant(1, wide)
    field = lo.let(f"sub {tw} {lo.let(f'shl {tw} {one}, {length}')}, {one}")
    field = lo.let(f"shl {tw} {field}, {start}")
    new = lo.let(f"and {tw} {lo.let(f'shl {tw} {a}, {start}')}, {field}")
    keep = lo.let(f"and {tw} {b}, {lo.let(f'xor {tw} {field}, {lo.constant(-1, wide)}')}")
    lo.put(i.args[0], lo.let(f"trunc {tw} {lo.let(f'or {tw} {new}, {keep}')} to {lo.T(kind)}"), kind)


@handles("prmt")
def prmt(lo: Emitter, i: Ins) -> None:
    """Four bytes out of eight: nibble k of the selector names the byte, its top bit asks for the sign instead."""
    a, b, c = (lo.get(x, "i32") for x in i.args[1:])
    t64, t32 = lo.T("i64"), lo.T("i32")
    if i.mods[-1] != "b32":
        c = _selector(lo, i, c)
    low, high = (lo.let(f"zext {t32} {v} to {t64}") for v in (a, b))
    pool = _pool(lo, low, high)
    result = lo.constant(0, "i32")
    for k in range(4):
        nibble = lo.let(f"lshr {t32} {c}, {lo.constant(4 * k, 'i32')}")
        select = lo.let(f"and {t32} {nibble}, {lo.constant(7, 'i32')}")
        amount = _times8(lo, select)
        byte = lo.let(f"trunc {t64} {lo.let(f'lshr {t64} {pool}, {amount}')} to {lo.T('i8')}")
        sign = lo.let(f"ashr {lo.T('i8')} {byte}, {lo.constant(7, 'i8')}")
        wants = lo.let(f"and {t32} {nibble}, {lo.constant(8, 'i32')}")
        flag = lo.let(f"icmp ne {t32} {wants}, {lo.constant(0, 'i32')}")
        chosen = lo.let(f"select {lo.T('i1')} {flag}, {lo.T('i8')} {sign}, {lo.T('i8')} {byte}")
        wide = lo.let(f"zext {lo.T('i8')} {chosen} to {t32}")
        result = _place(lo, result, wide, k)
    lo.put(i.args[0], result, "i32")


_PERMUTATIONS = {  # selector for each value of the two low bits of c
    "f4e": (0x3210, 0x4321, 0x5432, 0x6543), "b4e": (0x5670, 0x6701, 0x7012, 0x0123),
    "rc8": (0x0000, 0x1111, 0x2222, 0x3333),
    "ecl": (0x3210, 0x3211, 0x3222, 0x3333), "ecr": (0x0000, 0x1110, 0x2210, 0x3210),
    "rc16": (0x1010, 0x3232, 0x1010, 0x3232),
}  # fmt: skip


def _selector(lo: Emitter, i: Ins, c: str) -> str:
    """The selector that a named mode of prmt stands for."""
    t, table = lo.T("i32"), _PERMUTATIONS[i.mods[-1]]
    low = lo.let(f"and {t} {c}, {lo.constant(3, 'i32')}")
    value = lo.constant(table[0], "i32")
    for k in (1, 2, 3):
        hit = lo.let(f"icmp eq {t} {low}, {lo.constant(k, 'i32')}")
        value = lo.let(f"select {lo.T('i1')} {hit}, {t} {lo.constant(table[k], 'i32')}, {t} {value}")
    return value


def _pool(lo: Emitter, low: str, high: str) -> str:
    shifted = lo.let(f"shl {lo.T('i64')} {high}, {lo.constant(32, 'i64')}")
    return lo.let(f"or {lo.T('i64')} {low}, {shifted}")


def _times8(lo: Emitter, select: str) -> str:
    bits = lo.let(f"shl {lo.T('i32')} {select}, {lo.constant(3, 'i32')}")
    return lo.let(f"zext {lo.T('i32')} {bits} to {lo.T('i64')}")


def _place(lo: Emitter, result: str, byte: str, k: int) -> str:
    shifted = lo.let(f"shl {lo.T('i32')} {byte}, {lo.constant(8 * k, 'i32')}")
    return lo.let(f"or {lo.T('i32')} {result}, {shifted}")


@handles("sad")
def sad(lo: Emitter, i: Ins) -> None:
    kind = _kind(i)
    a, b, c = (lo.get(x, kind) for x in i.args[1:])
    sign = "s" if i.mods[-1][0] == "s" else "u"
    difference = lo.let(f"sub {lo.T(kind)} {lo.call(sign + 'max', kind, a, b)}, {lo.call(sign + 'min', kind, a, b)}")
    lo.put(i.args[0], lo.let(f"add {lo.T(kind)} {difference}, {c}"), kind)


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
        own = lo.ll(item.name) if isinstance(item, Reg) and item.name in lo.types else f"i{part}"
        bits = lo.cast(lo.get(item, own), own, f"i{part}", lo.vec)
        wide = lo.let(f"zext {lo.T(f'i{part}')} {bits} to {lo.T(whole)}")
        if k:
            wide = lo.let(f"shl {lo.T(whole)} {wide}, {lo.constant(k * part, whole)}")
        value = lo.let(f"or {lo.T(whole)} {value}, {wide}")
    lo.put(target, value, whole)
