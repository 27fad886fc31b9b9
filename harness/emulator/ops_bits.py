"""Bits: logic, shifts, fields, permutations of bytes, counting and finding."""

from __future__ import annotations

from harness.emulator.emitter import Emitter, handles
from harness.emulator.errors import UnsupportedPtx
from harness.emulator.ptx import Imm, Ins, Operand, Pair
from harness.emulator.types import BITS, LL_TYPES


def _kind(i: Ins) -> str:
    """LLVM type named by the last modifier."""
    kind = LL_TYPES.get(i.mods[-1], "")
    if kind[:1] != "i" or i.mods[-1] in ("f16", "bf16", "f16x2", "bf16x2", "b128"):
        raise UnsupportedPtx(f"instruction {i.op}", i.loc)
    return kind


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
    """Any function of three bits: bit k of the table is the result for the inputs that k spells. With .and or .or also
    whether any bit of it is set, combined with a predicate."""
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
    if i.mods[1] == "b32":
        lo.put(i.args[0], value, "i32")
        return
    target = i.args[0]
    if i.mods[1] not in ("and", "or") or not isinstance(target, Pair):
        raise UnsupportedPtx(f"instruction {i.op}", i.loc)
    some = lo.let(f"icmp ne {t} {value}, {lo.constant(0, 'i32')}")
    lo.put(target.first, value, "i32")
    lo.put(target.second, lo.let(f"{i.mods[1]} {lo.T('i1')} {some}, {lo.get(i.args[5], 'i1')}"), "i1")


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
    start, length = (_position(lo, o, kind) for o in i.args[2:4])
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


def _position(lo: Emitter, o: Operand, kind: str) -> str:
    """A 32-bit operand as `kind`, at most its bits. Words have an instruction that takes the operand's low byte; for 64
    bits ptxas makes shifts of it, which take all of it."""
    value, bits = lo.get(o, "i32"), BITS[kind]
    value = lo.let(f"and {lo.T('i32')} {value}, {lo.constant(255, 'i32')}") if bits == 32 else value
    return lo.cast(lo.call("umin", "i32", value, lo.constant(bits, "i32")), "i32", kind, lo.vec)


@handles("bfi")
def bfi(lo: Emitter, i: Ins) -> None:
    kind = _kind(i)
    bits = BITS[kind]
    wide, tw = f"i{2 * bits}", lo.T(f"i{2 * bits}")
    a, b = (lo.let(f"zext {lo.T(kind)} {lo.get(o, kind)} to {tw}") for o in i.args[1:3])
    start, length = (
        lo.let(f"zext {lo.T(kind)} {_position(lo, o, kind)} to {tw}") for o in i.args[3:5]
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


def _op(lo: Emitter, name: str, x: str, y: str | int) -> str:
    """A binary operation of words."""
    return lo.let(f"{name} {lo.T('i32')} {x}, {lo.constant(y, 'i32') if isinstance(y, int) else y}")


def _select(lo: Emitter, condition: str, yes: str | int, no: str | int) -> str:
    x, y = (lo.constant(v, "i32") if isinstance(v, int) else v for v in (yes, no))
    return lo.let(f"select {lo.T('i1')} {condition}, {lo.T('i32')} {x}, {lo.T('i32')} {y}")


@handles("bmsk")
def bit_mask(lo: Emitter, i: Ins) -> None:
    """Ones from bit a on, b of them, none beyond bit 31. Modulo 32 (.wrap), or as they are (.clamp)."""
    start, length = (lo.get(o, "i32") for o in i.args[1:3])
    if "wrap" in i.mods:
        start, length = (_op(lo, "and", v, 31) for v in (start, length))
    wide, t = "i64", lo.T("i64")
    start, length = (lo.let(f"zext {lo.T('i32')} {lo.call('umin', 'i32', v, lo.constant(32, _WORD))} to {t}")
                     for v in (start, length))  # fmt: skip
    ones = lo.let(f"sub {t} {lo.let(f'shl {t} {lo.constant(1, wide)}, {length}')}, {lo.constant(1, wide)}")
    lo.put(i.args[0], lo.let(f"trunc {t} {lo.let(f'shl {t} {ones}, {start}')} to {lo.T('i32')}"), "i32")


_WORD = "i32"


@handles("szext")
def extend_bits(lo: Emitter, i: Ins) -> None:
    """The low b bits of a, extended by their sign or by zeros; all of a where b is 32 or more (.clamp)."""
    a, count = (lo.get(o, "i32") for o in i.args[1:3])
    short = _op(lo, "and", count, 31)
    rest = _op(lo, "and", lo.let(f"sub {lo.T('i32')} {lo.constant(32, 'i32')}, {short}"), 31)
    value = _op(lo, "ashr" if i.mods[-1] == "s32" else "lshr", _op(lo, "shl", a, rest), rest)
    value = _select(lo, _op(lo, "icmp eq", short, 0), 0, value)
    lo.put(i.args[0], _select(lo, _op(lo, "icmp uge", count, 32), a, value) if "clamp" in i.mods else value, "i32")


@handles("fns")
def find_set_bit(lo: Emitter, i: Ins) -> None:
    """The place of the |n|-th set bit from bit `base` on, upwards, or downwards where n is negative; that of `base`
    itself where n is 0 and it is set; else -1. Downwards is upwards in the mask turned around. The least n, whose size
    overflows, gives 0 on the cards."""
    mask, base, n = (lo.get(o, "i32") for o in i.args[1:4])
    down, here = _op(lo, "icmp slt", n, 0), _op(lo, "icmp eq", n, 0)
    mask = _select(lo, down, lo.call("bitreverse", "i32", mask), mask)
    base = _op(lo, "and", _select(lo, down, _op(lo, "xor", base, 31), base), 31)
    from_base = _op(lo, "shl", _select(lo, here, 1, -1), base)
    mask = _op(lo, "and", mask, from_base)
    size = _select(lo, down, _op(lo, "sub", lo.constant(0, "i32"), n), n)
    left = _select(lo, here, 0, _op(lo, "sub", size, 1))  # set bits to pass over
    place = lo.constant(0, "i32")
    for width in (16, 8, 4, 2, 1):
        part = _op(lo, "and", _op(lo, "lshr", mask, place), (1 << width) - 1)
        count = lo.call("ctpop", "i32", part)
        beyond = _op(lo, "icmp uge", left, count)
        place = _select(lo, beyond, _op(lo, "add", place, width), place)
        left = _select(lo, beyond, _op(lo, "sub", left, count), left)
    # Passed over everything: bit 31 is the one, or there is none.
    bit = _op(lo, "and", _op(lo, "lshr", mask, place), 1)
    found = lo.let(f"and {lo.T('i1')} {_op(lo, 'icmp ne', bit, 0)}, {_op(lo, 'icmp eq', left, 0)}")
    value = _select(lo, found, _select(lo, down, _op(lo, "xor", place, 31), place), -1)
    lo.put(i.args[0], _select(lo, _op(lo, "icmp eq", n, -(1 << 31)), 0, value), "i32")
