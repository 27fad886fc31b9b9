"""What expressions are made of: one line an operation, `result operand... : C expression`.

{0}, {1}, {2} stand for the operands. `asm OPCODE` is one PTX instruction with the operands in their order: for what C
has no operator, and where C leaves undefined what PTX defines (shifts beyond the width, division by zero). Expressions
may follow, separated by ";", that it takes instead of the operands: where ptxas 13.0 makes of constants, or of two
instructions, what is not what PTX says. It takes a constant length of bfi.b32 modulo 32, makes one product of the
saturating sum of a product and itself, and one conversion of two (_OPAQUE).
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.random_ptx.types import BITS, FLOATS, C, constraint

MODES = ("rn", "rz", "ru", "rd")
_PTX_MODE = {"rn": "rn", "rz": "rz", "ru": "rp", "rd": "rm"}


@dataclass(frozen=True)
class Operation:
    """`text` is a C expression with {0}.. in it."""

    result: str
    operands: tuple[str, ...]
    text: str
    helper: str = ""  # the C function that the expression calls, where it is one PTX instruction

    def __call__(self, *operands: str) -> str:
        return self.text.format(*operands)


def _operation(line: str) -> Operation:
    left, right = (part.strip() for part in line.split(":", 1))
    result, *operands = left.split()
    if not right.startswith("asm "):
        return Operation(result, tuple(operands), right)
    opcode, *instead = right[4:].split(" ", 1)
    name = "asm_" + opcode.replace(".", "_")
    places = ", ".join(instead[0].split("; ") if instead else (f"{{{k}}}" for k in range(len(operands))))
    return Operation(result, tuple(operands), f"{name}({places})", _helper(name, opcode, result, operands))


def _helper(name: str, opcode: str, result: str, operands: list[str]) -> str:
    """A C function around one instruction."""
    letters = "abcd"[: len(operands)]
    parameters = ", ".join(f"{C[k]} {n}" for k, n in zip(operands, letters, strict=True))
    inputs = ", ".join(f'"{constraint(k)}"({_passed(k, n)})' for k, n in zip(operands, letters, strict=True))
    places = ", ".join(f"%{k + 1}" for k in range(len(operands)))
    head = f"__device__ __forceinline__ {C[result]} {name}({parameters})"
    if result == "p":
        return f'{head} {{ unsigned result; asm("{{ .reg .pred q; {opcode} q, {places}; selp.u32 %0, 1, 0, q; }}" : "=r"(result) : {inputs}); return result; }}'
    plain = result in ("f32", "f64")
    word = C[result] if plain else {"h": "unsigned short", "r": "unsigned", "l": "unsigned long long"}[constraint(result)]
    back = "result" if plain else f"as_{result}(({C['u8'] if BITS[result] == 8 else word})result)"
    return f'{head} {{ {word} result; asm("{opcode} %0, {places};" : "={constraint(result)}"(result) : {inputs}); return {back}; }}'


def _passed(kind: str, name: str) -> str:
    if kind in ("s8", "u8"):
        return f"({'short' if kind == 's8' else 'unsigned short'}){name}"
    return f"raw({name})" if kind in FLOATS and kind not in ("f32", "f64") else name


def table(text: str) -> tuple[Operation, ...]:
    return tuple(_operation(line) for line in text.splitlines() if line.strip())


def each(text: str, **choices: tuple[str, ...]) -> str:
    """The lines, once for every choice of one name in <angle brackets>."""
    for name, values in choices.items():
        text = "\n".join(text.replace(f"<{name}>", value) for value in values)
    return text


def _ring(kind: str) -> str:
    """Sums, products, bits, comparisons of one integer type; wrapping, so computed as unsigned."""
    bits, name = BITS[kind], C[kind]
    wide = "unsigned long long" if bits == 64 else "unsigned"
    cast = f"({name})(({wide})"
    shifts = f"""
    T T u32: asm shl.b{bits}
    T T u32: asm shr.{kind}""" if bits > 8 else ""  # fmt: skip
    return f"""
    T T T: {cast}{{0}} + ({wide}){{1}})
    T T T: {cast}{{0}} - ({wide}){{1}})
    T T T: {cast}{{0}} * ({wide}){{1}})
    T T T: ({name})({{0}} & {{1}})
    T T T: ({name})({{0}} | {{1}})
    T T T: ({name})({{0}} ^ {{1}})
    T T: ({name})~{{0}}
    T T T: ({{0}} < {{1}} ? {{0}} : {{1}})
    T T T: ({{0}} < {{1}} ? {{1}} : {{0}})
    T p T T: ({{0}} ? {{1}} : {{2}})
    p T T: ({{0}} < {{1}})
    p T T: ({{0}} >= {{1}})
    p T T: ({{0}} == {{1}})
    p T: (({{0}} & 3) == 1){shifts}
    """.replace("T", kind)


_INTEGERS = "".join(_ring(k) for k in ("u32", "s32", "u64", "s64", "u16", "s16", "u8")) + """
    p p p: ({0} && {1})
    p p p: ({0} || {1})
    p p: !{0}
    u32 u32 u32: asm div.u32
    u32 u32 u32: asm rem.u32
    u32 u32 u32: ({0} / ({1} | 1u))
    u32 u32 u32: ({0} % (({1} & 63u) + 1u))
    u32 u32: ({0} / 7u)
    s32 s32 s32: asm div.s32
    s32 s32 s32: asm rem.s32
    s32 s32: ({0} / 10)
    s32 s32: ({0} % 12)
    u64 u64 u64: asm div.u64
    u64 u64 u64: asm rem.u64
    s64 s64 s64: asm div.s64
    s64 s64 s64: asm rem.s64
    u16 u16 u16: (unsigned short)({0} / ({1} | 1))
    s16 s16: (short)({0} % 9)
    u32 u32 u32: __umulhi({0}, {1})
    s32 s32 s32: __mulhi({0}, {1})
    u64 u64 u64: __umul64hi({0}, {1})
    s64 s64 s64: __mul64hi({0}, {1})
    u64 u32 u32: asm mul.wide.u32
    s64 s32 s32: asm mul.wide.s32
    u64 u32 u32 u64: asm mad.wide.u32
    s64 s32 s32 s64: asm mad.wide.s32
    u32 u32 u32 u32: asm mad.lo.u32
    s32 s32 s32 s32: asm mad.hi.s32
    u32 u16 u16: asm mul.wide.u16
    s32 s16 s16: asm mul.wide.s16
    u32 u32 u32 u32: asm sad.u32
    s32 s32 s32: asm add.sat.s32 {0}; ({1} ^ 21)
    s32 s32 s32: asm sub.sat.s32 {0}; ({1} ^ 21)
    s32 s32: asm abs.s32
    s64 s64: asm abs.s64
    s32 s32: asm neg.s32
    u32 u32: (unsigned)__popc({0})
    u32 u64: (unsigned)__popcll({0})
    u32 u32: (unsigned)__clz((int){0})
    u32 u64: (unsigned)__clzll((long long){0})
    u32 u32: (unsigned)__ffs((int){0})
    u32 u64: (unsigned)__ffsll((long long){0})
    u32 u32: __brev({0})
    u64 u64: __brevll({0})
    u32 u32: asm bfind.u32
    u32 s32: asm bfind.s32
    u32 u64: asm bfind.shiftamt.u64
    u32 u32 u32 u32: asm bfe.u32
    s32 s32 u32 u32: asm bfe.s32
    u64 u64 u32 u32: asm bfe.u64
    u32 u32 u32 u32 u32: asm bfi.b32 {0}; {1}; {2}; ({3} & 31u)
    u64 u64 u64 u32 u32: asm bfi.b64
    u32 u32 u32 u32: __byte_perm({0}, {1}, {2})
    u32 u32 u32 u32: asm prmt.b32.rc16
    u32 u32 u32 u32: __funnelshift_l({0}, {1}, {2})
    u32 u32 u32 u32: __funnelshift_r({0}, {1}, {2})
    u32 u32 u32 u32: __funnelshift_lc({0}, {1}, {2})
    u32 u32 u32 u32: __funnelshift_rc({0}, {1}, {2})
    u32 u32 u32 u32: __dp4a({0}, {1}, {2})
    s32 s32 s32 s32: __dp4a({0}, {1}, {2})
    u32 u32 u32 u32: __dp2a_lo({0}, {1}, {2})
    s32 s32 s32 s32: __dp2a_hi({0}, {1}, {2})
    u32 u32 u32: __umul24({0}, {1})
    s32 s32 s32: __mul24({0}, {1})
    u32 u32 u32: __vadd4({0}, {1})
    u32 u32 u32: __vmaxs2({0}, {1})
    u32 u32 u32: __vabsdiffu4({0}, {1})
    u32 u32 u32: __vcmpgtu4({0}, {1})
    u32 u32 u32: (unsigned)__hadd((int){0}, (int){1})
    u32 u32 u32: __uhadd({0}, {1})
    u32 s32: (unsigned){0}
    s32 u32: (int){0}
    u32 u64: (unsigned){0}
    u32 u64: (unsigned)({0} >> 32)
    u64 u32: (unsigned long long){0}
    u64 u32 u32: ((unsigned long long){0} << 32 | {1})
    u64 s32: (unsigned long long)(long long){0}
    s64 s32: (long long){0}
    s64 u64: (long long){0}
    u64 s64: (unsigned long long){0}
    u16 u32: (unsigned short){0}
    s16 u32: (short){0}
    u32 u16: (unsigned){0}
    s32 s16: (int){0}
    u32 s16: (unsigned){0}
    s64 s16: (long long){0}
    u8 u32: (unsigned char){0}
    u32 u8: (unsigned){0}
    s32 u8: (int)(signed char){0}
    u16 s16: (unsigned short){0}
"""

_FLOATS = each("""
    f32 f32 f32: __fadd_<mode>({0}, {1})
    f32 f32 f32: __fsub_<mode>({0}, {1})
    f32 f32 f32: __fmul_<mode>({0}, {1})
    f32 f32 f32 f32: __fmaf_<mode>({0}, {1}, {2})
    f32 f32 f32: __fdiv_<mode>({0}, {1})
    f32 f32: __frcp_<mode>({0})
    f32 f32: __fsqrt_<mode>({0})
    f64 f64 f64: __dadd_<mode>({0}, {1})
    f64 f64 f64: __dsub_<mode>({0}, {1})
    f64 f64 f64: __dmul_<mode>({0}, {1})
    f64 f64 f64 f64: __fma_<mode>({0}, {1}, {2})
    f64 f64 f64: __ddiv_<mode>({0}, {1})
    f64 f64: __drcp_<mode>({0})
    f64 f64: __dsqrt_<mode>({0})
    f32 f64: __double2float_<mode>({0})
""", mode=MODES) + """
    f32 f32 f32: __fadd_rn({0}, {1})
    f32 f32 f32: __fmul_rn({0}, {1})
    f32 f32 f32 f32: __fmaf_rn({0}, {1}, {2})
    f32 f32 f32: asm add.rn.ftz.f32
    f32 f32 f32: asm mul.rn.ftz.f32
    f32 f32 f32 f32: asm fma.rn.ftz.f32
    f32 f32 f32: asm add.rn.sat.f32
    f32 f32 f32 f32: asm fma.rn.ftz.sat.f32
    f32 f32 f32: asm div.rn.ftz.f32
    f32 f32: asm sqrt.rn.ftz.f32
    f32 f32 f32: asm min.ftz.f32
    f32 f32 f32: asm min.NaN.f32
    f32 f32 f32: asm max.NaN.f32
    f32 u32: __fmul_rn(__int2float_rn((int)({0} % 4001u) - 2000), 0.25f)
    f64 u32: __dmul_rn(__int2double_rn((int)({0} % 4001u) - 2000), 0.25)
    f32 u32: __uint_as_float({0})
    u32 f32: bits({0})
    f64 f32: (double){0}
    u64 f64: bits({0})
    f32 f32: __saturatef({0})
    f32 f32 f32: copysignf({0}, as_f32(bits({1})))
    f64 f64 f64: copysign({0}, as_f64(bits({1})))
    s32 f32: __float2int_rz({0})
    u32 f64: __double2uint_rn({0})
    p f32: isnan({0})
    p f32: isinf({0})
    p f64: isfinite({0})
""" + each("""
    <t> <t> <t>: fmin<s>({0}, {1})
    <t> <t> <t>: fmax<s>({0}, {1})
    <t> <t>: fabs<s>({0})
    <t> <t>: (-{0})
    <t> <t>: floor<s>({0})
    <t> <t>: ceil<s>({0})
    <t> <t>: trunc<s>({0})
    <t> <t>: rint<s>({0})
    <t> p <t> <t>: ({0} ? {1} : {2})
    p <t> <t>: ({0} < {1})
    p <t> <t>: !({0} < {1})
    p <t> <t>: ({0} <= {1})
    p <t> <t>: ({0} == {1})
    p <t> <t>: ({0} != {1})
""", t=("f32", "f64")).replace("f32>", "f32")  # fmt: skip


def _suffixed(text: str) -> str:
    """fminf for float, fmin for double."""
    return "\n".join(line.replace("<s>", "f" if line.split(":")[0].count("f32") else "") for line in text.splitlines())


_HALVES = each("""
    <h> <h> <h>: __hadd_rn({0}, {1})
    <h> <h> <h>: __hsub_rn({0}, {1})
    <h> <h> <h>: __hmul_rn({0}, {1})
    <h> <h> <h> <h>: __hfma({0}, {1}, {2})
    <h> <h> <h>: __hadd_sat({0}, {1})
    <h> <h> <h> <h>: __hfma_sat({0}, {1}, {2})
    <h> <h> <h> <h>: __hfma_relu({0}, {1}, {2})
    <h> <h> <h>: __hmin({0}, {1})
    <h> <h> <h>: __hmax({0}, {1})
    <h> <h> <h>: __hmin_nan({0}, {1})
    <h> <h> <h>: __hmax_nan({0}, {1})
    <h> <h>: __habs({0})
    <h> <h>: __hneg({0})
    <h> <h>: hfloor({0})
    <h> <h>: hrint({0})
    <h> p <h> <h>: ({0} ? {1} : {2})
    p <h> <h>: __hlt({0}, {1})
    p <h> <h>: __hge({0}, {1})
    p <h> <h>: __hgeu({0}, {1})
    p <h> <h>: __heq({0}, {1})
    p <h> <h>: __hne({0}, {1})
    p <h>: __hisnan({0})
    <h>x2 <h>x2 <h>x2: __hadd2_rn({0}, {1})
    <h>x2 <h>x2 <h>x2: __hsub2_rn({0}, {1})
    <h>x2 <h>x2 <h>x2: __hmul2_rn({0}, {1})
    <h>x2 <h>x2 <h>x2 <h>x2: __hfma2({0}, {1}, {2})
    <h>x2 <h>x2 <h>x2: __hmin2({0}, {1})
    <h>x2 <h>x2 <h>x2: __hmax2({0}, {1})
    <h>x2 <h>x2: __habs2({0})
    <h>x2 <h>x2: __hneg2({0})
    <h>x2 <h>x2 <h>x2: __hgt2({0}, {1})
    u32 <h>x2 <h>x2: __hle2_mask({0}, {1})
    p <h>x2 <h>x2: __hbne2({0}, {1})
    u16 <h>: bits({0})
    u32 <h>x2: bits({0})
    <h> u32: as_<h>((unsigned short){0})
    <h>x2 u32: as_<h>x2({0})
    <h>x2 p <h>x2 <h>x2: ({0} ? {1} : {2})
    s32 <h>: as_s32(bits({0}))
""", h=("f16", "bf16")) + """
    f16 f16: asm cvt.rpi.f16.f16
    f16x2 f16 f16: __halves2half2({0}, {1})
    bf16x2 bf16 bf16: __halves2bfloat162({0}, {1})
    f16 f16x2: __low2half({0})
    f16 f16x2: __high2half({0})
    bf16 bf16x2: __low2bfloat16({0})
    bf16 bf16x2: __high2bfloat16({0})
    f16x2 f16x2: __lowhigh2highlow({0})
    f16 u32: __int2half_rn((int)({0} % 401u) - 200)
    bf16 u32: __int2bfloat16_rn((int)({0} % 401u) - 200)
    f32 f16: __half2float({0})
    f32 bf16: __bfloat162float({0})
    f16 f32: __float2half_rn({0})
    bf16 f32: __float2bfloat16_rn({0})
    f16x2 f32 f32: __floats2half2_rn({0}, {1})
    bf16x2 f32 f32: __floats2bfloat162_rn({0}, {1})
    f32 f32 f32: __fadd_rn({0}, {1})
    f32 f32 f32: __fmul_rn({0}, {1})
    p f32 f32: ({0} < {1})
    u32 u32 u32: ({0} + {1})
    u32 u32 u32: ({0} ^ {1})
    u32 u32: ({0} * 2654435761u)
    p u32 u32: ({0} < {1})
    p u32: (({0} & 3u) == 1u)
    u16 u16 u16: (unsigned short)({0} ^ {1})
    u32 u16: (unsigned){0}
    u32 s32: (unsigned){0}
"""  # fmt: skip

_INTEGER_NAMES = {"s32": "int", "u32": "uint", "s64": "ll", "u64": "ull"}
_SHORT_NAMES = {"s16": "short", "u16": "ushort"}
# ptxas makes one conversion of a float's to an integer and a saturation to a narrower one, even of u32 to s16: NaNs and
# negative numbers come out otherwise. It does not look through this.
_OPAQUE = "({0} ^ 21)"


def _conversions() -> str:
    lines = []
    for m in MODES:
        for kind, name in _INTEGER_NAMES.items():
            lines += [f"{kind} f32: __float2{name}_{m}({{0}})", f"f32 {kind}: __{name}2float_{m}({{0}})", f"{kind} f64: __double2{name}_{m}({{0}})"]
            if m == "rn" or BITS[kind] == 64:
                lines.append(f"f64 {kind}: __{name}2double_{m}({{0}})")
        for kind, name in (_INTEGER_NAMES | _SHORT_NAMES).items():
            lines += [f"{kind} f16: __half2{name}_{m}({{0}})", f"f16 {kind}: __{name}2half_{m}({{0}})",
                      f"{kind} bf16: __bfloat162{name}_{m}({{0}})", f"bf16 {kind}: __{name}2bfloat16_{m}({{0}})"]  # fmt: skip
        lines += [f"f32 f64: __double2float_{m}({{0}})", f"f16 f32: __float2half_{m}({{0}})", f"bf16 f32: __float2bfloat16_{m}({{0}})"]
        lines += [f"{t} {t}: asm cvt.{i}.{t}.{t}" for t in ("f32", "f64", "f16") for i in (_PTX_MODE[m] + "i",)]
    for target in ("s8", "u8", "s16", "u16"):
        lines += [f"{target} {source}: asm cvt.rzi.{target}.{source}" for source in ("f32", "f64", "f16")]
        lines += [f"f32 {target}: asm cvt.rn.f32.{target}"]
        lines += [f"{target} {source}: asm cvt.sat.{target}.{source} {_OPAQUE}" for source in ("s32", "u32", "s64")]
    lines += [f"{a} {b}: asm cvt.sat.{a}.{b} {_OPAQUE}" for a, b in (("s32", "u32"), ("u32", "s32"), ("s32", "s64"), ("u32", "s64"), ("s32", "u64"), ("u64", "s64"), ("s64", "u64"))]
    lines += [f"{a} {b}: ({C[a]}){{0}}" for a in ("s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64") for b in ("s8", "u16", "s16", "u32", "s64") if a != b]
    return "\n".join(lines) + """
    f64 f32: (double){0}
    f32 f16: __half2float({0})
    f32 bf16: __bfloat162float({0})
    f16 f64: __double2half({0})
    bf16 f64: __double2bfloat16({0})
    f32 f32: asm cvt.sat.f32.f32
    f32 f64: asm cvt.rn.sat.f32.f64
    f32 f64: asm cvt.rn.ftz.f32.f64
    s32 f32: asm cvt.rni.ftz.s32.f32
    u32 f32: bits({0})
    u64 f64: bits({0})
    f32 u32: __uint_as_float({0})
    f64 u64: as_f64({0})
    f16 u32: as_f16((unsigned short){0})
    bf16 u32: as_bf16((unsigned short){0})
    f32 f32 f32: __fmul_rn({0}, {1})
    f64 f64 f64: __dmul_rn({0}, {1})
    u32 u32 u32: ({0} + {1})
    u32 u32 u32: ({0} ^ {1})
    u64 u64 u32: ({0} << ({1} & 63u))
    s64 u64 u32: ((long long){0} >> ({1} & 63u))
    f32 s32: __fmul_rn(__int2float_rn({0} % 4001), 0.125f)
    p u32 u32: ({0} < {1})
    p f32 f32: ({0} < {1})
    p s64 s64: ({0} < {1})
    p u32: (({0} & 3u) == 1u)
    """


INTEGERS = table(_INTEGERS)
FLOATING = table(_suffixed(_FLOATS))
HALVES = table(_HALVES)
CONVERTING = table(_conversions())
_PLAIN = ("u32", "p")
UNIFORM = tuple(o for o in INTEGERS if o.result in _PLAIN and set(o.operands) <= set(_PLAIN))


def helpers() -> str:
    """The C functions that the operations call."""
    every = (*INTEGERS, *FLOATING, *HALVES, *CONVERTING)
    return "\n".join(sorted({o.helper for o in every if o.helper}))
