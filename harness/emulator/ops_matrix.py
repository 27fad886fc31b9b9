"""Matrix instructions: mma, ldmatrix, stmatrix, movmatrix, and wmma as <mma.h> uses it.

All are done by a warp together: every one of its 32 threads must run them. The work is in helper functions, one for
each variant that a kernel uses: matrix_product.py multiplies, matrix_memory.py loads and stores.
"""

from __future__ import annotations

from harness.emulator import layout as L
from harness.emulator import matrix_memory as memory
from harness.emulator import traffic
from harness.emulator.access import need, values_type
from harness.emulator.emitter import Emitter, handles
from harness.emulator.errors import UnsupportedPtx
from harness.emulator.matrix_elements import register_type
from harness.emulator.matrix_layouts import FAMILY, MMA, WMMA, memory_order, mma_fragment, shape_of, wmma_fragment
from harness.emulator.matrix_product import Matrix, Product, product_helper
from harness.emulator.ptx import Addr, Ins, Operand, Vec

_MAJOR = {"row": False, "col": True}


def _unsupported(i: Ins) -> UnsupportedPtx:
    return UnsupportedPtx(f"instruction {i.op}", i.loc)


def _whole_warp(lo: Emitter, i: Ins) -> None:
    """All 32 threads must be here: the instruction says .sync.aligned, and without any it has no meaning."""
    if lo.shape.single or not {"sync", "aligned"} <= set(i.mods):
        raise _unsupported(i)
    if lo.mask != "-1":
        lo.fault_unless(lo.let(f"icmp eq i32 {lo.mask}, -1"), L.F_SHUFFLE, i)


def _space(i: Ins, mods: tuple[str, ...]) -> str:
    """State space named by the modifiers between shape and type."""
    known = {(): "generic", ("shared",): "shared", ("shared::cta",): "shared", ("global",): "global"}
    if mods not in known:
        raise _unsupported(i)
    return known[mods]


def _address(lo: Emitter, o: Operand, space: str, vec: bool) -> str:
    """The address as i64; of shared memory the offset, which has 32 bits."""
    if not isinstance(o, Addr):
        raise UnsupportedPtx(f"address of {lo.ins.op}", lo.ins.loc)
    kind = "i32" if space == "shared" else "i64"
    t = f"<32 x {kind}>" if vec else kind
    value = lo.get(o.base, kind, vec)
    if o.offset:
        value = lo.let(f"add {t} {value}, {f'splat ({kind} {o.offset})' if vec else o.offset}")
    return lo.cast(value, kind, "i64", vec)


def _first(lo: Emitter, o: Operand, kind: str) -> str:
    """A value that the ISA wants the same in all lanes."""
    if lo.is_uniform(o):
        return lo.get(o, kind, vec=False)
    return lo.let(f"extractelement <32 x {kind}> {lo.get(o, kind, vec=True)}, i32 0")


def _parts(i: Ins, o: Operand, count: int) -> tuple[Operand, ...]:
    parts = o.items if isinstance(o, Vec) else (o,)
    if len(parts) != count:
        raise UnsupportedPtx(f"instruction {i.op} with {len(parts)} registers where {count} belong", i.loc)
    return parts


def _values(lo: Emitter, i: Ins, o: Operand, kind: str, count: int) -> list[str]:
    """The registers of a fragment as typed operands of a call."""
    word = register_type(kind)
    return [f"<32 x {word}> {lo.get(part, word, vec=True)}" for part in _parts(i, o, count)]


def _put(lo: Emitter, i: Ins, o: Operand, kind: str, struct: str, struct_type: str, count: int) -> None:
    lo.vec = True
    for r, part in enumerate(_parts(i, o, count)):
        lo.put(part, lo.let(f"extractvalue {struct_type} {struct}, {r}"), register_type(kind))


def _scratch(lo: Emitter) -> str:
    lo.allocas.setdefault("res", f"[{memory.scratch_bytes() // 8} x i64], align 64")
    return "ptr %res"


# -- products


def _multiply(lo: Emitter, i: Ins, name: str, p: Product) -> None:
    d, a, b, c = i.args
    helper = need(lo, name, lambda m, own: product_helper(m, own, p))
    operands = [
        v for o, x in ((a, p.a), (b, p.b), (c, p.c)) for v in _values(lo, i, o, x.kind, x.fragment.registers)
    ]
    found = lo.let(f"call {p.result_type} @{helper}({', '.join(operands)})")
    _put(lo, i, d, p.d.kind, found, p.result_type, p.d.fragment.registers)


def _split(i: Ins, mods: list[str]) -> tuple[tuple[str, ...], bool]:
    """(kinds of D, A, B and C, whether to saturate) from the modifiers behind the shape."""
    kinds = tuple(m for m in mods if m not in ("satfinite", "rn"))
    saturate = "satfinite" in mods
    if (saturate and kinds[0] != "s32") or ("rn" in mods and kinds[0] != "f64"):
        raise _unsupported(i)
    return kinds, saturate


def _checked_kinds(i: Ins, table: dict[tuple[str, str], tuple[str, ...]], shape: str, kinds: tuple[str, ...]) -> None:
    """Kinds of D, A, B and C must be a line of the table."""
    d, a, b, c = kinds
    family = FAMILY.get(a, a)
    if FAMILY.get(b, b) != family or not {c, d} <= set(table.get((shape, family), ())):
        raise _unsupported(i)


@handles("mma", guarded_by_branch=True)
def mma(lo: Emitter, i: Ins) -> None:
    _, _, _, shape, major_a, major_b, *rest = i.mods
    kinds, saturate = _split(i, rest)
    d, a, b, c = kinds
    _checked_kinds(i, MMA, shape, kinds)
    turned = (_MAJOR[major_a], _MAJOR[major_b])
    quad_pairs = (shape, a) == ("m8n8k4", "f16")  # which alone may widen, and lets the operands lie as they like
    if (not quad_pairs and (turned != (False, True) or c != d)) or (c, d) == ("f32", "f16"):
        raise _unsupported(i)
    _whole_warp(lo, i)
    x = Matrix(a, mma_fragment(shape, "a", a, turned[0]))
    y = Matrix(b, mma_fragment(shape, "b", b, turned[1]))
    z, result = (Matrix(kind, mma_fragment(shape, "c", kind)) for kind in (c, d))
    name = "_".join(["mma", shape, major_a, major_b, *rest])
    _multiply(lo, i, name, Product(x, y, z, result, shape_of(shape).k, saturate))


# -- wmma


@handles("wmma", guarded_by_branch=True)
def wmma(lo: Emitter, i: Ins) -> None:
    work = {"load": _wmma_load, "store": _wmma_store, "mma": _wmma_mma}.get(i.mods[1])
    if work is None:
        raise _unsupported(i)
    work(lo, i)


def _wmma_mma(lo: Emitter, i: Ins) -> None:
    """The layouts of A and B say how they were loaded; in registers they look the same."""
    _, _, _, _, _, _, shape, *rest = i.mods
    kinds, saturate = _split(i, rest)
    if len(kinds) == 2:  # of halves the instruction names only D and C
        kinds = (kinds[0], "f16", "f16", kinds[1])
    d, a, b, c = kinds
    _checked_kinds(i, WMMA, shape, kinds)
    _whole_warp(lo, i)
    x, y, z, result = (
        Matrix(kind, wmma_fragment(shape, matrix, kind)) for matrix, kind in zip("abcd", (a, b, c, d), strict=True)
    )
    name = "_".join(["wmma", shape, *kinds, *(["satfinite"] if saturate else [])])
    _multiply(lo, i, name, Product(x, y, z, result, shape_of(shape).k, saturate, parts=2 if a == "tf32" else 1))


def _stored(i: Ins) -> tuple[str, memory.Stored]:
    """(state space, matrix) of wmma.load.MATRIX.sync.aligned.LAYOUT.SHAPE{.SPACE}.KIND, or store."""
    _, _, matrix, _, _, major, shape, *space, kind = i.mods
    rows = [(shape, FAMILY.get(kind, kind))] if matrix in ("a", "b") else [row for row in WMMA if row[0] == shape]
    if matrix not in ("a", "b", "c", "d") or not any(matrix in "ab" or kind in WMMA[r] for r in rows if r in WMMA):
        raise _unsupported(i)
    lines, length = memory_order(shape, matrix, _MAJOR[major])
    fragment = wmma_fragment(shape, matrix, kind)
    return _space(i, tuple(space)), memory.Stored(fragment, kind, lines, length, _MAJOR[major])


def _place(lo: Emitter, i: Ins, space: str, s: memory.Stored, address: Operand) -> str:
    """Address and stride as operands of a call. Without a stride the lines lie one behind the other."""
    vec = not lo.is_uniform(address)
    base = _address(lo, address, space, vec)
    if vec:
        base = lo.let(f"extractelement <32 x i64> {base}, i32 0")
    stride = str(s.length)
    if len(i.args) > 2:
        stride = lo.cast(_first(lo, i.args[2], "i32"), "i32", "i64", vec=False)
    return f"ptr %ctx, ptr %warp, i64 {base}, i64 {stride}"


def _variant(i: Ins, space: str) -> str:
    """Name of an instruction's helper."""
    return "_".join([space, *(m for m in i.mods if m.split("::")[0] not in ("shared", "global", "sync", "aligned"))])


def _wmma_load(lo: Emitter, i: Ins) -> None:
    space, s = _stored(i)
    if i.mods[2] == "d":
        raise _unsupported(i)
    _whole_warp(lo, i)
    traffic.note_access(lo, i, "generic", "read", traffic.ROW_BYTES)
    helper = need(lo, _variant(i, space), lambda m, name: memory.wmma_load_helper(m, name, space, s))
    count = s.fragment.registers
    kind = "{ " + ", ".join([s.register_type] * count + ["i1"]) + " }"
    operands = f"{_place(lo, i, space, s, i.args[1])}, i32 {lo.number(i)}, {_scratch(lo)}"
    found = lo.let(f"call {kind} @{helper}({operands})")
    lo.go_on_if(lo.let(f"extractvalue {kind} {found}, {count}"))
    _put(lo, i, i.args[0], s.kind, found, kind, count)


def _wmma_store(lo: Emitter, i: Ins) -> None:
    space, s = _stored(i)
    if i.mods[2] != "d":
        raise _unsupported(i)
    _whole_warp(lo, i)
    traffic.note_access(lo, i, "generic", "write", traffic.ROW_BYTES)
    helper = need(lo, _variant(i, space), lambda m, name: memory.wmma_store_helper(m, name, space, s))
    values = ", ".join(_values(lo, i, i.args[1], s.kind, s.fragment.registers))
    operands = f"{_place(lo, i, space, s, i.args[0])}, {values}, i32 {lo.number(i)}, {_scratch(lo)}"
    lo.go_on_if(lo.let(f"call i1 @{helper}({operands})"))


# -- 8x8 matrices


def _eights(i: Ins) -> tuple[int, bool, str]:
    """(number of matrices, transposed, state space) of ldmatrix.sync.aligned.m8n8.xN{.trans}{.SPACE}.b16."""
    _, _, _, shape, number, *rest, kind = i.mods
    transposed = rest[:1] == ["trans"]
    space = _space(i, tuple(rest[transposed:]))
    if shape != "m8n8" or kind != "b16" or number not in ("x1", "x2", "x4") or space == "global":
        raise _unsupported(i)
    return int(number[1]), transposed, space


@handles("ldmatrix", guarded_by_branch=True)
def ldmatrix(lo: Emitter, i: Ins) -> None:
    count, transposed, space = _eights(i)
    _whole_warp(lo, i)
    helper = need(lo, _variant(i, space),
                  lambda m, name: memory.ldmatrix_helper(m, name, space, count, transposed))  # fmt: skip
    kind, rows = values_type(32, count, vector=True), _address(lo, i.args[1], space, vec=True)
    traffic.count_rows(lo, i, rows, 8 * count, "read")
    operands = f"<32 x i64> {rows}, i32 {lo.number(i)}, {_scratch(lo)}"
    found = lo.let(f"call {kind} @{helper}(ptr %ctx, ptr %warp, {operands})")
    lo.go_on_if(lo.let(f"extractvalue {kind} {found}, {count}"))
    _put(lo, i, i.args[0], "b16", found, kind, count)


@handles("stmatrix", guarded_by_branch=True)
def stmatrix(lo: Emitter, i: Ins) -> None:
    count, transposed, space = _eights(i)
    _whole_warp(lo, i)
    helper = need(lo, _variant(i, space),
                  lambda m, name: memory.stmatrix_helper(m, name, space, count, transposed))  # fmt: skip
    values = ", ".join(_values(lo, i, i.args[1], "b16", count))
    address = _address(lo, i.args[0], space, vec=True)
    traffic.count_rows(lo, i, address, 8 * count, "write")
    operands = f"<32 x i64> {address}, {values}, i32 {lo.number(i)}, {_scratch(lo)}"
    lo.go_on_if(lo.let(f"call i1 @{helper}(ptr %ctx, ptr %warp, {operands})"))


@handles("movmatrix", guarded_by_branch=True)
def movmatrix(lo: Emitter, i: Ins) -> None:
    """An 8x8 matrix turned around between the lanes."""
    if i.mods[1:] != ("sync", "aligned", "m8n8", "trans", "b16"):
        raise _unsupported(i)
    _whole_warp(lo, i)
    helper = need(lo, "movmatrix", memory.transpose_helper)
    found = lo.let(f"call <32 x i32> @{helper}(<32 x i32> {lo.get(i.args[1], 'i32', vec=True)})")
    lo.vec = True
    lo.put(i.args[0], found, "i32")
