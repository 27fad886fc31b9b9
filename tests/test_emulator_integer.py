"""Integer instructions of the emulator against plain Python, in every shape (tests/ptx_table.py)."""

from __future__ import annotations

import pytest

from tests.ptx_table import BITS, Bits, Model, Row, cells, check


def _signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def _clamp(value: int, kind: str) -> int:
    bits = BITS[kind]
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if kind[0] == "s" else (0, (1 << bits) - 1)
    return min(max(value, low), high)


def _quotient(a: int, b: int) -> int:
    """Towards zero; all ones for a division by zero, as the cards do."""
    if b == 0:
        return -1
    q = abs(a) // abs(b)
    return q if (a < 0) == (b < 0) else -q


def _remainder(a: int, b: int) -> int:
    """All ones for a division by zero, as the cards do."""
    return -1 if b == 0 else a - b * _quotient(a, b)


def _shift_left(bits: int) -> Model:
    return lambda a, n: 0 if n >= bits else a << n


def _shift_right(bits: int) -> Model:
    return lambda a, n: a >> min(n, bits)


def _leading_zeros(bits: int) -> Model:
    return lambda a: bits - a.bit_length()


def _highest(bits: int, amount: bool = False) -> Model:
    """bfind: place of the highest bit that differs from the sign; -1 where there is none."""

    def find(a: int) -> int:
        place = (~a if a < 0 else a).bit_length() - 1
        return bits - 1 - place if amount and place >= 0 else place

    return find


def _reverse(bits: int) -> Model:
    return lambda a: int(f"{a:0{bits}b}"[::-1], 2)


def _place(bits: int, value: int) -> int:
    """A position or length of bfe and bfi: of words the low byte counts, of 64 bits ptxas takes all of it."""
    return value & 255 if bits == 32 else min(value, 255)


def _extract(bits: int, signed: bool) -> Model:
    """bfe, bit by bit as the PTX ISA spells it."""

    def extract(a: int, start: int, length: int) -> int:
        start, length = _place(bits, start), _place(bits, length)
        pattern = a & ((1 << bits) - 1)
        top = bits - 1
        sign = 0 if not signed or length == 0 else pattern >> min(start + length - 1, top) & 1
        return sum((pattern >> (k + start) & 1 if k < length and k + start <= top else sign) << k for k in range(bits))

    return extract


def _insert(bits: int) -> Model:
    def insert(a: int, b: int, start: int, length: int) -> int:
        start, length = _place(bits, start), _place(bits, length)
        for k in range(length):
            if start + k < bits:
                b = b & ~(1 << (start + k)) | (a >> k & 1) << (start + k) if k < bits else b & ~(1 << (start + k))
        return b

    return insert


def _funnel(left: bool, clamp: bool) -> Model:
    def shift(a: int, b: int, n: int) -> int:
        n = min(n, 32) if clamp else n & 31
        return (b << n | a >> (32 - n)) if left else (b << (32 - n) | a >> n)

    return shift


def _funnel_by(left: bool, clamp: bool, n: int) -> Model:
    shift = _funnel(left, clamp)
    return lambda a, b: shift(a, b, n)


def _permute(mode: str = "") -> Model:
    def permute(a: int, b: int, c: int) -> int:
        pool = [(b << 32 | a) >> 8 * k & 255 for k in range(8)]
        n = c & 3
        picks = {
            "f4e": [n, n + 1, n + 2, n + 3], "b4e": [n, n - 1 & 7, n - 2 & 7, n - 3 & 7], "rc8": [n] * 4,
            "ecl": [max(k, n) for k in range(4)], "ecr": [min(k, n) for k in range(4)],
            "rc16": [2 * (n & 1), 2 * (n & 1) + 1] * 2,
        }.get(mode)  # fmt: skip
        if picks is None:
            picks = [c >> 4 * k & 15 for k in range(4)]
        found = [pool[p & 7] if p < 8 else 255 * (pool[p & 7] >> 7) for p in picks]
        return sum(byte << 8 * k for k, byte in enumerate(found))

    return permute


def _lookup(table: int) -> Model:
    return lambda a, b, c: sum((table >> ((a >> k & 1) << 2 | (b >> k & 1) << 1 | c >> k & 1) & 1) << k for k in range(32))


def _product(kind: str, part: str) -> Model:
    bits = BITS[kind]
    return {"lo": lambda a, b, c=0: a * b + c, "hi": lambda a, b, c=0: (a * b >> bits) + c, "wide": lambda a, b, c=0: a * b + c}[part]


def _low24(value: int, signed: bool) -> int:
    return _signed(value, 24) if signed else value & 0xFFFFFF


def _product24(signed: bool, high: bool) -> Model:
    return lambda a, b, c=0: (_low24(a, signed) * _low24(b, signed) >> (16 if high else 0)) + c


def _dot(kind_a: str, kind_b: str) -> Model:
    """dp4a: four products of bytes."""

    def byte(value: int, k: int, kind: str) -> int:
        part = value >> 8 * k & 255
        return _signed(part, 8) if kind[0] == "s" else part

    return lambda a, b, c: c + sum(byte(a, k, kind_a) * byte(b, k, kind_b) for k in range(4))


def _dot2(kind_a: str, kind_b: str, high: bool) -> Model:
    def part(value: int, k: int, bits: int, kind: str) -> int:
        field = value >> bits * k & ((1 << bits) - 1)
        return _signed(field, bits) if kind[0] == "s" else field

    return lambda a, b, c: c + sum(part(a, k, 16, kind_a) * part(b, k + 2 * high, 8, kind_b) for k in range(2))


def _mask(clamp: bool) -> Model:
    """bmsk: which bits are at or above a, and below a + b."""

    def mask(a: int, b: int) -> int:
        a, b = (a, b) if clamp else (a & 31, b & 31)
        return sum(1 << k for k in range(32) if a <= k < a + b)

    return mask


def _extend(signed: bool, clamp: bool) -> Model:
    def extend(a: int, n: int) -> int:
        if clamp and n >= 32:
            return a
        n &= 31
        return _signed(a & ((1 << n) - 1), n) if signed and n else a & ((1 << n) - 1)

    return extend


def _nth_bit(mask: int, base: int, n: int) -> int:
    """fns, as the PTX ISA spells it; for the least n, of which it has no absolute value, what the cards give."""
    base &= 31
    if n == -(1 << 31):
        return 0
    if n == 0:
        return base if mask >> base & 1 else -1
    count, step = abs(n), 1 if n > 0 else -1
    while 0 <= base < 32:
        count -= mask >> base & 1
        if count == 0:
            return base
        base += step
    return -1


def _lookup_some(table: int, either: bool) -> Model:
    def some(a: int, b: int, c: int) -> int:
        value: int = _lookup(table)(a, b, c)
        return value + 1 if ((value != 0) or (a < b) if either else (value != 0) and (a < b)) else value

    return some


def _packed(op: str, kind: str) -> Model:
    """An operation on each half of a word."""
    models: dict[str, Model] = {"add": lambda a, b: a + b, "min": min, "max": max, "min.relu": lambda a, b: max(min(a, b), 0),
                                "max.relu": lambda a, b: max(a, b, 0)}  # fmt: skip
    f = models[op]

    def model(a: int, b: int) -> int:
        parts = [[_signed(v >> s, 16) if kind == "s16x2" else v >> s & 0xFFFF for v in (a, b)] for s in (0, 16)]
        return sum((f(*part) & 0xFFFF) << 16 * k for k, part in enumerate(parts))

    return model


THREE = ("b32",) * 3


def _arithmetic(kind: str) -> list[Row]:
    bits, two = BITS[kind], (kind, kind)
    wide = kind[0] + str(2 * bits)
    rows = [
        Row(f"add.{kind}", kind, two, lambda a, b: a + b),
        Row(f"sub.{kind}", kind, two, lambda a, b: a - b),
        Row(f"mul.lo.{kind}", kind, two, _product(kind, "lo")),
        Row(f"mul.hi.{kind}", kind, two, _product(kind, "hi")),
        Row(f"mad.lo.{kind}", kind, (kind,) * 3, _product(kind, "lo")),
        Row(f"mad.hi.{kind}", kind, (kind,) * 3, _product(kind, "hi")),
        Row(f"div.{kind}", kind, two, _quotient),
        Row(f"rem.{kind}", kind, two, _remainder),
        Row(f"min.{kind}", kind, two, min),
        Row(f"max.{kind}", kind, two, max),
        Row(f"sad.{kind}", kind, (kind,) * 3, lambda a, b, c: c + abs(a - b)),
        Row(f"shr.{kind}", kind, (kind, "u32"), _shift_right(bits)),
    ]
    for constant in (1, 2, 3, 7, 8, -3, -1, 0):
        if kind[0] == "s" or constant >= 0:
            rows.append(Row(f"div.{kind} {{d}}, {{a}}, {constant}", kind, (kind,), lambda a, k=constant: _quotient(a, k)))
            rows.append(Row(f"rem.{kind} {{d}}, {{a}}, {constant}", kind, (kind,), lambda a, k=constant: _remainder(a, k)))
    for constant in (0, 1, bits - 1, bits, bits + 1, 255):
        rows += [Row(f"shr.{kind} {{d}}, {{a}}, {constant}", kind, (kind,), lambda a, k=constant: a >> min(k, bits))]
    if bits < 64:
        rows += [
            Row(f"mul.wide.{kind}", wide, two, _product(kind, "wide")),
            Row(f"mad.wide.{kind}", wide, (kind, kind, wide), _product(kind, "wide")),
        ]
    if kind[0] == "s":
        rows += [Row(f"neg.{kind}", kind, (kind,), lambda a: -a), Row(f"abs.{kind}", kind, (kind,), abs)]
    return rows


def _bitwise(bits: int) -> list[Row]:
    b, u, s = f"b{bits}", f"u{bits}", f"s{bits}"
    rows = [
        Row(f"and.{b}", b, (b, b), lambda a, c: a & c),
        Row(f"or.{b}", b, (b, b), lambda a, c: a | c),
        Row(f"xor.{b}", b, (b, b), lambda a, c: a ^ c),
        Row(f"not.{b}", b, (b,), lambda a: ~a),
        Row(f"cnot.{b}", b, (b,), lambda a: a == 0),
        Row(f"shl.{b}", b, (b, "u32"), _shift_left(bits)),
        Row(f"shr.{b}", b, (b, "u32"), _shift_right(bits)),
        Row(f"mov.{b}", b, (b,), lambda a: a),
        Row(f"selp.{b}", b, (b, b, "pred"), lambda a, c, p: a if p else c),
        Row(f"selp.{b} {{d}}, {{a}}, -2, {{c}}", b, (b, "pred"), lambda a, p: a if p else -2),
        Row(f"selp.{b} {{d}}, 5, {{a}}, {{c}}", b, (b, "pred"), lambda a, p: 5 if p else a),
        Row(f"slct.{b}.s32", b, (b, b, "s32"), lambda a, c, s: a if s >= 0 else c),
        Row(f"slct.{b}.f32", b, (b, b, "f32"), lambda a, c, f: a if f >= 0 else c),
    ]
    for constant in (0, 1, bits - 1, bits, 2 * bits, 255):
        rows += [Row(f"shl.{b} {{d}}, {{a}}, {constant}", b, (b,), lambda a, k=constant: 0 if k >= bits else a << k)]
    if bits > 16:
        rows += [
            Row(f"popc.{b}", "u32", (b,), lambda a: a.bit_count()),
            Row(f"clz.{b}", "u32", (b,), _leading_zeros(bits)),
            Row(f"brev.{b}", b, (b,), _reverse(bits)),
            Row(f"bfind.{u}", "u32", (u,), _highest(bits)),
            Row(f"bfind.{s}", "u32", (s,), _highest(bits)),
            Row(f"bfind.shiftamt.{u}", "u32", (u,), _highest(bits, True)),
            Row(f"bfind.shiftamt.{s}", "u32", (s,), _highest(bits, True)),
            Row(f"bfe.{u}", u, (u, "u32", "u32"), _extract(bits, False)),
            Row(f"bfe.{s}", s, (s, "u32", "u32"), _extract(bits, True)),
            Row(f"bfe.{u} {{d}}, {{a}}, 8, 8", u, (u,), lambda a: a >> 8 & 255),
            Row(f"bfe.{s} {{d}}, {{a}}, 24, 8", s, (s,), lambda a: _signed(a >> 24, 8)),
            Row(f"bfi.{b}", b, (b, b, "u32", "u32"), _insert(bits)),
        ]
    return rows


_SHORT = [
    *(Row(f"shf.{side}.{mode}.b32", "b32", ("b32", "b32", "u32"), _funnel(side == "l", mode == "clamp"))
      for side in "lr" for mode in ("wrap", "clamp")),
    *(Row(f"shf.{side}.{mode}.b32 {{d}}, {{a}}, {{b}}, {n}", "b32", ("b32", "b32"), _funnel_by(side == "l", mode == "clamp", n))
      for side in "lr" for mode in ("wrap", "clamp") for n in (0, 7, 31, 32, 33)),
    *(Row(f"lop3.b32 {{d}}, {{a}}, {{b}}, {{c}}, {table}", "b32", THREE, _lookup(table)) for table in (0, 0x80, 0x96, 0xCA, 0xE8, 0x1B, 0xFE, 0xFF)),
    Row("prmt.b32", "b32", THREE, _permute()),
    Row("prmt.b32 {d}, {a}, {b}, 0x5410", "b32", ("b32", "b32"), lambda a, b: _permute()(a, b, 0x5410)),
    Row("prmt.b32 {d}, {a}, {b}, 0x9A73", "b32", ("b32", "b32"), lambda a, b: _permute()(a, b, 0x9A73)),
    *(Row(f"prmt.b32.{mode}", "b32", THREE, _permute(mode)) for mode in ("f4e", "b4e", "rc8", "ecl", "ecr", "rc16")),
    *(Row(f"mul24.{part}.{k}32", f"{k}32", (f"{k}32",) * 2, _product24(k == "s", part == "hi")) for part in ("lo", "hi") for k in "su"),
    *(Row(f"mad24.{part}.{k}32", f"{k}32", (f"{k}32",) * 3, _product24(k == "s", part == "hi")) for part in ("lo", "hi") for k in "su"),
    *(Row(f"dp4a.{a}.{b}", "b32", (a, b, "s32"), _dot(a, b)) for a in ("s32", "u32") for b in ("s32", "u32")),
    *(Row(f"dp2a.{part}.{a}.{b}", "b32", (a, b, "s32"), _dot2(a, b, part == "hi"))
      for part in ("lo", "hi") for a in ("s32", "u32") for b in ("s32", "u32")),
    Row("add.sat.s32", "s32", ("s32", "s32"), lambda a, b: _clamp(a + b, "s32")),
    Row("sub.sat.s32", "s32", ("s32", "s32"), lambda a, b: _clamp(a - b, "s32")),
    Row("mad.hi.sat.s32", "s32", ("s32",) * 3, lambda a, b, c: _clamp((a * b >> 32) + c, "s32")),
    *(Row(f"bmsk.{mode}.b32", "b32", ("u32", "u32"), _mask(mode == "clamp")) for mode in ("clamp", "wrap")),
    *(Row(f"szext.{mode}.{k}", "b32", ("b32", "u32"), _extend(k == "s32", mode == "clamp")) for mode in ("clamp", "wrap") for k in ("s32", "u32")),
    Row("{ .reg .b32 %m; and.b32 %m, {b}, 31; fns.b32 {d}, {a}, %m, {c}; }", "b32", ("b32", "u32", "s32"), _nth_bit),
    *(Row(f"{{ .reg .b32 %m; and.b32 %m, {{b}}, 31; fns.b32 {{d}}, {{a}}, %m, {n}; }}", "b32", ("b32", "u32"), lambda a, b, n=n: _nth_bit(a, b, n))
      for n in (0, 1, -1, 2, -2, 5, -7, 16)),
    *(Row(f"{{ .reg .pred %p, %q; setp.lt.u32 %q, {{a}}, {{b}}; lop3.{op}.b32 {{d}}|%p, {{a}}, {{b}}, {{c}}, {table}, %q; "
          "@%p add.u32 {d}, {d}, 1; }", "b32", ("u32",) * 3, _lookup_some(table, op == "or")) for op in ("or", "and") for table in (0, 0x80, 0x96)),
    *(Row(f"{op}.relu.s16x2", "b32", ("b32", "b32"), _packed(f"{op}.relu", "s16x2")) for op in ("min", "max")),
    *(Row(f"{op}.s16x2.relu", "b32", ("b32", "b32"), _packed(f"{op}.relu", "s16x2")) for op in ("min", "max")),
    *(Row(f"{op}.{k}", "b32", ("b32", "b32"), _packed(op, k)) for op in ("add", "min", "max") for k in ("s16x2", "u16x2")),
    Row("max.s32.relu", "s32", ("s32", "s32"), lambda a, b: max(a, b, 0)),
    Row("max.relu.s32", "s32", ("s32", "s32"), lambda a, b: max(a, b, 0)),
    Row("min.relu.s32", "s32", ("s32", "s32"), lambda a, b: max(min(a, b), 0)),
]  # fmt: skip

_LIMBS = [
    Row("{ .reg .b32 %l; add.cc.u32 %l, {a}, {b}; addc.u32 {d}, {c}, 7; }", "u32", ("u32",) * 3, lambda a, b, c: c + 7 + (a + b >> 32)),
    Row("{ .reg .b32 %l; sub.cc.u32 %l, {a}, {b}; subc.u32 {d}, {c}, 7; }", "u32", ("u32",) * 3, lambda a, b, c: c - 7 - (a < b)),
    Row("{ .reg .b64 %l; add.cc.s64 %l, {a}, {b}; addc.s64 {d}, {c}, -1; }", "u64", ("u64",) * 3, lambda a, b, c: c - 1 + (a + b >> 64)),
    Row("{ .reg .b64 %l; sub.cc.u64 %l, {a}, {b}; subc.u64 {d}, {c}, {a}; }", "u64", ("u64",) * 3, lambda a, b, c: c - a - (a < b)),
    # A carry that a middle limb passes on: 96-bit sums.
    Row("{ .reg .b32 %l; add.cc.u32 %l, {a}, {b}; addc.cc.u32 %l, {c}, -1; addc.u32 {d}, 0, 0; }", "u32", ("u32",) * 3,
        lambda a, b, c: (c + 0xFFFFFFFF + (a + b >> 32)) >> 32),
    Row("{ .reg .b32 %l; sub.cc.u32 %l, {a}, {b}; subc.cc.u32 %l, 0, {c}; subc.u32 {d}, 0, 0; }", "u32", ("u32",) * 3,
        lambda a, b, c: -(c + (a < b) > 0)),
    Row("{ .reg .b32 %l; mad.lo.cc.u32 %l, {a}, {b}, {c}; madc.hi.u32 {d}, {a}, {b}, 3; }", "u32", ("u32",) * 3,
        lambda a, b, c: 3 + (a * b >> 32) + ((a * b & 0xFFFFFFFF) + c >> 32)),
    Row("{ .reg .b32 %l; add.cc.u32 %l, {a}, {b}; madc.lo.cc.u32 %l, {a}, {b}, {c}; addc.u32 {d}, 0, 0; }", "u32", ("u32",) * 3,
        lambda a, b, c: (a * b & 0xFFFFFFFF) + c + (a + b >> 32) >> 32),
    Row("{ .reg .b64 %l; mad.lo.cc.u64 %l, {a}, {b}, {c}; madc.hi.u64 {d}, {a}, {b}, 0; }", "u64", ("u64",) * 3,
        lambda a, b, c: (a * b >> 64) + ((a * b & (1 << 64) - 1) + c >> 64)),
]  # fmt: skip

_SIGNED = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_UNSIGNED = {"lo": "<", "ls": "<=", "hi": ">", "hs": ">="}


def _compare(symbol: str) -> Model:
    model: Model = eval(f"lambda a, b: a {symbol} b")
    return model


def _comparisons(kind: str) -> list[Row]:
    names = _SIGNED | (_UNSIGNED if kind[0] == "u" else {})
    names = {n: s for n, s in names.items() if kind[0] != "b" or n in ("eq", "ne")}
    rows = [Row(f"setp.{n}.{kind}", "pred", (kind, kind), _compare(s)) for n, s in names.items()]
    if kind[0] == "b":
        return rows
    less = (kind, kind, "pred")
    both = "{{ .reg .pred %p, %q; setp.lt.{op}.{kind} %p|%q, {{a}}, {{b}}, {{c}}; selp.u32 {{d}}, 1, 0, %p; @%q add.u32 {{d}}, {{d}}, 2; }}"
    return [
        *rows,
        Row(f"set.gt.u32.{kind}", "u32", (kind, kind), lambda a, b: -(a > b)),
        Row(f"set.le.f32.{kind}", "f32", (kind, kind), lambda a, b: float(a <= b)),
        Row(f"set.ne.xor.s32.{kind}", "s32", less, lambda a, b, c: -((a != b) ^ c)),
        Row(f"setp.ge.or.{kind} {{d}}, {{a}}, {{b}}, !{{c}}", "pred", less, lambda a, b, c: a >= b or not c),
        Row(both.format(op="and", kind=kind), "u32", less, lambda a, b, c: (a < b and c) + 2 * (a >= b and c)),
        Row(both.format(op="xor", kind=kind), "u32", less, lambda a, b, c: ((a < b) ^ c) + 2 * ((a >= b) ^ c)),
    ]


_PREDICATES = [
    Row("and.pred", "pred", ("pred", "pred"), lambda a, b: a and b),
    Row("or.pred", "pred", ("pred", "pred"), lambda a, b: a or b),
    Row("xor.pred", "pred", ("pred", "pred"), lambda a, b: a ^ b),
    Row("not.pred", "pred", ("pred",), lambda a: not a),
    Row("mov.pred", "pred", ("pred",), lambda a: a),
    Row("and.pred {d}, {a}, !{b}", "pred", ("pred", "pred"), lambda a, b: a and not b),
    Row("xor.pred {d}, {a}, 1", "pred", ("pred",), lambda a: not a),
]
_MOVES = [
    Row("mov.b64 {d}, {{a}, {b}}", "b64", ("b32", "b32"), lambda a, b: b << 32 | a),
    Row("mov.b32 {d}, {{a}, {b}}", "b32", ("b16", "b16"), lambda a, b: b << 16 | a),
    Row("mov.b64 {d}, {{a}, {b}, {b}, {a}}", "b64", ("b16", "b16"), lambda a, b: a << 48 | b << 32 | b << 16 | a),
    Row("{ .reg .b32 %l; mov.b64 {%l, {d}}, {a}; }", "b32", ("b64",), lambda a: a >> 32),
    Row("{ .reg .b32 %l; mov.b64 {{d}, _}, {a}; }", "b32", ("b64",), lambda a: a),
    Row("{ .reg .b16 %l; mov.b32 {%l, {d}}, {a}; }", "b16", ("b32",), lambda a: a >> 16),
    Row("{ .reg .b16 %l<3>; mov.b64 {%l0, %l1, {d}, %l2}, {a}; }", "b16", ("b64",), lambda a: a >> 32),
    Row("mov.b32 {d}, {a}", "f32", ("b32",), Bits),
    Row("mov.b32 {d}, 0x3f800000", "f32", ("b32",), lambda a: 1.0),
    Row("mov.f32 {d}, 0f40490fdb", "f32", ("b32",), lambda a: 3.1415927),
    Row("mov.f64 {d}, 0d3FF0000000000001", "f64", ("b32",), lambda a: 1.0000000000000002),
    Row("mov.b64 {d}, 0x8000000000000001", "f64", ("b32",), lambda a: -5e-324),
    Row("mov.u32 {d}, 4294967295", "u32", ("b32",), lambda a: -1),
    Row("mov.u64 {d}, 0xFFFFFFFFFFFFFFFFU", "u64", ("b32",), lambda a: -1),
    Row("mov.b16 {d}, -2", "b16", ("b32",), lambda a: -2),
    Row("and.b16 {d}, {a}, 0xFFF0", "b16", ("b16",), lambda a: a & 0xFFF0),
]

TABLES = {
    **{kind: _arithmetic(kind) for kind in ("s32", "u32", "s64", "u64", "s16", "u16")},
    **{f"b{bits}": _bitwise(bits) for bits in (16, 32, 64)},
    "short": _SHORT,
    "carry": _LIMBS,
    "compare": [r for k in ("s32", "u32", "s64", "u64", "s16", "u16", "b16", "b32", "b64") for r in _comparisons(k)],
    "moves": _PREDICATES + _MOVES,
}


@pytest.mark.parametrize(("table", "shape"), cells(TABLES))
def test_integer_instructions(table: str, shape: str, request: pytest.FixtureRequest) -> None:
    check(TABLES[table], shape, request)
