"""Atomics (atom, red): lane by lane, in lane order, each element of a vector for itself.

What LLVM's atomicrmw has is one instruction; the sums of narrow floats, and of f32, which global memory flushes, are
loops around a compare-and-swap. Scopes and orders are all the strongest: a warp is never interrupted inside of one.
"""

from __future__ import annotations

from dataclasses import dataclass

from harness.emulator import access, approx, formats, ordering, traffic
from harness.emulator import layout as L
from harness.emulator.access import Entry, clocks, need
from harness.emulator.emitter import Emitter, handles
from harness.emulator.errors import UnsupportedPtx
from harness.emulator.irtext import Fn, Scalar
from harness.emulator.ops_memory import (
    _bits_of,
    _count,
    _parts,
    _put,
    _releases,
    _space,
    _synchronises,
    address_of,
    result_buffer,
)
from harness.emulator.ptx import SIZES, Ins

_RMW = {
    ("add", "i"): "add", ("and", "i"): "and", ("or", "i"): "or", ("xor", "i"): "xor",
    ("exch", "i"): "xchg", ("min", "s"): "min", ("max", "s"): "max", ("min", "u"): "umin", ("max", "u"): "umax",
    ("inc", "u"): "uinc_wrap", ("dec", "u"): "udec_wrap", ("cas", "i"): "cas",
}  # fmt: skip
_ATOMIC_OPS = {"add", "and", "or", "xor", "exch", "min", "max", "inc", "dec", "cas"}
_WORDS = {"b32", "u32", "s32", "f32", "b64", "u64", "s64", "f64"}
_ODD = {("cas", "b16"), ("cas", "b128"), ("exch", "b128")}  # the only operations of these widths
_HALVES = {"f16", "bf16"}


@dataclass(frozen=True)
class Update:
    """What one lane does to memory: `count` elements of a type, each updated by `op`."""

    op: str  # of atomicrmw, cas, or add, min, max of floats
    kind: str  # PTX type of an element
    count: int = 1
    packed: int = 1  # elements of a register

    @property
    def nbytes(self) -> int:
        """Of an element."""
        return SIZES[self.kind]

    @property
    def word(self) -> str:
        return f"i{8 * self.nbytes}"

    @property
    def name(self) -> str:
        return f"atomic_{self.op}_{self.kind if self.floats else self.word}x{self.count}p{self.packed}"

    @property
    def floats(self) -> bool:
        return self.kind in _HALVES or self.kind in ("f32", "f64")

    @property
    def register_bytes(self) -> int:
        return self.nbytes * self.packed


def _update(i: Ins) -> Update:
    """What an instruction asks for. Raises UnsupportedPtx."""
    kind = next((m for m in reversed(i.mods) if m in SIZES), "")
    op = next((m for m in i.mods[1:] if m in _ATOMIC_OPS), "")
    count = _count(i)
    element = kind.removesuffix("x2")
    if element in _HALVES:
        known = "noftz" in i.mods and (op == "add" or (count > 1 and op in ("min", "max")))
        packed = 2 if kind != element else 1
        update = Update(op, element, count * packed, packed)
    elif kind in ("f32", "f64"):
        known = (op == "add" and (count == 1 or kind == "f32")) or (op == "exch" and count == 1)
        update = Update(op if op == "add" else "xchg", kind if op == "add" else f"b{kind[1:]}", count)
    else:
        rmw = _RMW.get((op, kind[:1])) or _RMW.get((op, "i"), "")
        known = bool(rmw) and count == 1 and (kind in _WORDS or (op, kind) in _ODD)
        update = Update(rmw, kind)
    if not known or update.count * update.nbytes > 16:
        raise UnsupportedPtx(f"instruction {i.op}", i.loc)
    return update


@handles("atom", "red", guarded_by_branch=True)
def atomic(lo: Emitter, i: Ins) -> None:
    update = _update(i)
    if lo.shape.single:
        raise UnsupportedPtx(f"{i.op} in solve()", i.loc)
    has_result = i.base == "atom"
    address, *operands = i.args[1:] if has_result else i.args
    a = address_of(lo, address, "i64", vec=True)
    if _space(i) == "shared":
        a = lo.let(f"or <32 x i64> {a}, splat (i64 {L.SHARED_WINDOW << L.WINDOW_BITS})")
    _releases(lo, i)
    traffic.note_access(lo, i, "generic", "atomic", update.nbytes * update.count)
    traffic.count_generic(lo, i, a, update.nbytes * update.count, atomic=True)
    traffic.trace(lo, i, a, update.nbytes * update.count, store=True)
    data = operands[: 2 if update.op == "cas" else 1]  # a cache policy may follow
    bits = 8 * update.register_bytes
    registers = [part for operand in data for part in _parts(operand)]
    if len(registers) * update.packed != update.count * (2 if update.op == "cas" else 1):
        raise UnsupportedPtx(f"instruction {i.op} with these operands", i.loc)
    for k, o in enumerate(registers):
        lo.emit(f"store <32 x i{bits}> {_bits_of(lo, o, bits, vec=True)}, ptr {_row(lo, k, bits)}, align 4")
    ordering.before(lo, i)
    h = need(lo, update.name, lambda m, name: _atomic_helper(m, name, update))
    call = f"@{h}(ptr %ctx, ptr %warp, <32 x i64> {a}, i32 {lo.mask}, i32 {lo.number(i)}, ptr {result_buffer(lo)})"
    lo.go_on_if(lo.let(f"call i1 {call}"))
    _synchronises(lo, i, address, clocks.READS | clocks.WRITES)
    ordering.after(lo, i)
    if has_result:
        for k, d in enumerate(_parts(i.args[0])):
            value = lo.let(f"load <32 x i{bits}>, ptr {_row(lo, k, bits)}, align 4")
            _put(lo, d, value, bits, vector=True, signed=False)


def _row(lo: Emitter, k: int, bits: int) -> str:
    """Where register k of all lanes lies for the helper."""
    return lo.let(f"getelementptr i8, ptr {result_buffer(lo)}, i64 {k * L.LANES * bits // 8}")


def _atomic_helper(m: access.Needs, name: str, u: Update) -> str:
    """(ctx, warp, addresses, mask, insn, ptr values) -> ok. Register r of lane l is at (r * 32 + l) * its bytes of the
    values; the old values are left in the place of the operands."""
    f = Scalar(
        f"define internal i1 @{name}(ptr %ctx, ptr %warp, <32 x i64> %a, i32 %mask, i32 %insn, ptr %res) noinline {{"
    )
    f("entry:\n  %as = alloca <32 x i64>\n  store <32 x i64> %a, ptr %as")
    f(f"  %place = alloca ptr\n  %flush = alloca i1\n  %seen = alloca {u.word}")

    def lane(k: str) -> None:
        a = f.let(f"load i64, ptr {f.let(f'getelementptr i64, ptr %as, i32 {k}')}")
        window = f.let(f"lshr i64 {a}, {L.WINDOW_BITS}")
        shared, elsewhere, both = f.new_label(), f.new_label(), f.new_label()
        hit = f.let(f"icmp eq i64 {window}, {L.SHARED_WINDOW}")
        f(f"  br i1 {hit}, label %{shared}, label %{elsewhere}\n{shared}:\n  store i1 false, ptr %flush")
        access.shared_atomic(m, f, a, k, u.nbytes * u.count)
        f(f"  br label %{both}\n{elsewhere}:\n  store i1 true, ptr %flush")
        _atomic_global(m, f, a, k, u.nbytes * u.count, reads=u.op != "xchg")
        f(f"  br label %{both}\n{both}:")
        for e in range(u.count):
            _element(f, u, k, e)

    f.each_lane("%mask", lane)
    f("  ret i1 true\nbad:\n  ret i1 false")
    return f.text()


def _element(f: Scalar, u: Update, lane: str, e: int) -> None:
    """Update element e of the lane's place, and leave its old value with the operands."""
    p = f.let("load ptr, ptr %place")
    p = f.let(f"getelementptr i8, ptr {p}, i64 {e * u.nbytes}") if e else p
    q = _operand(f, u, lane, e)
    b = f.let(f"load {u.word}, ptr {q}, align 2")
    if u.op == "cas":
        c = f.let(f"load {u.word}, ptr {_operand(f, u, lane, u.count + e)}, align 2")
        old = _compare_and_swap(f, u, p, b, c)[0]
    elif u.kind == "f64":
        value = f.let(f"bitcast i64 {b} to double")
        before = f.let(f"atomicrmw fadd ptr {p}, double {value} seq_cst, align 8")
        old = f.let(f"bitcast double {before} to i64")
    elif u.floats:
        old = _loop(f, u, p, b)
    else:
        old = f.let(f"atomicrmw {u.op} ptr {p}, {u.word} {b} seq_cst, align {u.nbytes}")
    f(f"  store {u.word} {old}, ptr {q}, align 2")


def _operand(f: Fn, u: Update, lane: str, e: int) -> str:
    """Where element e of the lane's operands is."""
    register, part = divmod(e, u.packed)
    row = f.let(f"add i32 {lane}, {register * L.LANES}")
    at = f.let(f"add i32 {f.let(f'mul i32 {row}, {u.register_bytes}')}, {part * u.nbytes}")
    return f.let(f"getelementptr i8, ptr %res, i32 {at}")


def _compare_and_swap(f: Fn, u: Update, p: str, expected: str, new: str) -> tuple[str, str]:
    """(the old value, whether it was the expected one)."""
    pair = f.let(f"cmpxchg ptr {p}, {u.word} {expected}, {u.word} {new} seq_cst seq_cst, align {u.nbytes}")
    return tuple(f.let(f"extractvalue {{ {u.word}, i1 }} {pair}, {k}") for k in (0, 1))  # type: ignore[return-value]


def _loop(f: Scalar, u: Update, p: str, b: str) -> str:
    """Compute the new value from the old one until nobody came between; the old value."""
    again, done = f.new_label(), f.new_label()
    f(f"  store {u.word} {f.let(f'load atomic {u.word}, ptr {p} monotonic, align {u.nbytes}')}, ptr %seen")
    f(f"  br label %{again}\n{again}:")
    old = f.let(f"load {u.word}, ptr %seen")
    before, hit = _compare_and_swap(f, u, p, old, _new_value(f, u, old, b))
    f(f"  store {u.word} {before}, ptr %seen\n  br i1 {hit}, label %{done}, label %{again}\n{done}:")
    return old


def _new_value(f: Scalar, u: Update, old: str, b: str) -> str:
    """Pattern of the sum, the least or the largest of two floats' patterns."""
    x, y = (_float(f, u, v) for v in (old, b))
    if u.op != "add":
        return formats.from_float(f, f.call({"min": "minimumnum", "max": "maximumnum"}[u.op], "float", x, y), u.kind)
    total = f.let(f"fadd float {x}, {y}")
    if u.kind != "f32":
        return formats.from_float(f, total, u.kind)
    flush = f.let("load i1, ptr %flush")
    total = f.let(f"select i1 {flush}, float {approx.flush(f, total, 'float')}, float {total}")
    bits = f.let(f"bitcast float {total} to i32")
    return f.let(f"select i1 {formats.is_nan(f, total)}, i32 {0x7FFFFFFF}, i32 {bits}")


def _float(f: Scalar, u: Update, pattern: str) -> str:
    """A pattern as a float. Global memory takes subnormals of f32 for zeros (PTX ISA, atom), shared memory does not."""
    if u.kind != "f32":
        return formats.to_float(f, pattern, u.kind)
    value = f.let(f"bitcast i32 {pattern} to float")
    flush = f.let("load i1, ptr %flush")
    return f.let(f"select i1 {flush}, float {approx.flush(f, value, 'float')}, float {value}")


def _atomic_global(m: access.Needs, f: Fn, a: str, lane: str, nbytes: int, reads: bool) -> None:
    """Bounds and shadow of an atomic on global memory. `reads`: what was there matters."""
    e = Entry(f, a, store=True)
    rel = f.let(f"sub i64 {a}, {e.base}")
    access.reject(m, f, access.within(f, rel, nbytes, e.size, nbytes, a), lane, a, nbytes)
    f(f"  store ptr {f.let(f'getelementptr i8, ptr {e.host}, i64 {rel}')}, ptr %place")

    def shadow() -> None:
        q = f.let(f"getelementptr i8, ptr {e.shadow}, i64 {f.let(f'lshr i64 {rel}, 2')}")
        for w in range(max(1, nbytes // 4)):
            at = f.let(f"getelementptr i8, ptr {q}, i64 {w}")
            unset = f.let(f"icmp eq i8 {f.let(f'load i8, ptr {at}')}, 0")
            if reads:
                f.when(unset, lambda: access.hazard(m, f, L.H_UNINIT_GLOBAL, lane, a), likely=False)
            f(f"  store i8 1, ptr {at}")

    f.when(e.tracked, shadow)
    f.when(e.watched, lambda: access.meet(m, f, e, rel, nbytes, lane, a, store=True, ordered=True))
