"""Local memory: the 32 lanes lie interleaved word by word, so that one address for all lanes is one vector."""

from __future__ import annotations

from harness.emulator import layout as L
from harness.emulator.access.base import Needs, fault, first_lane, give, hazard, inlined, reject, values_type, within
from harness.emulator.access.slow import Space, register
from harness.emulator.access.vectors import splat
from harness.emulator.irtext import Fn
from harness.emulator.layout import LANES, Context, Warp


def local_u(m: Needs, name: str, nbytes: int, n: int, store: bool) -> str:
    bits, total = 8 * nbytes, nbytes * n
    vt = f"<{LANES} x i{bits}>"
    kind = "i1" if store else values_type(bits, n, vector=True)
    operands = "".join(f", {vt} %v{k}" for k in range(n)) if store else ""
    f = Fn(
        f"define internal {kind} @{name}(ptr %ctx, ptr %warp, i64 %a{operands}, i32 %mask, i32 %insn) {inlined(m)} {{"
    )
    f("entry:")
    ok = within(f, "%a", total, f.get("%ctx", Context, "local_bytes", constant=True), total, "%a")
    f(f"  br i1 {ok}, label %good, label %bad, !prof !2\nbad:")
    fault(m, f, first_lane(f), "%a", total)
    f(f"  ret {kind} zeroinitializer\ngood:" if not store else "  ret i1 false\ngood:")
    memory = f.get("%warp", Warp, "local", pointer=True, constant=True)
    shadow = f.get("%warp", Warp, "local_shadow", pointer=True, constant=True)
    word = f.let("lshr i64 %a, 2")
    for w in range(max(1, total // 4)):
        q = f.let(f"getelementptr i32, ptr {shadow}, i64 {f.let(f'add i64 {word}, {w}')}")
        state = f.let(f"load i32, ptr {q}")
        if store:
            f(f"  store i32 {f.let(f'or i32 {state}, %mask')}, ptr {q}")
        else:
            unset = f.let(f"and i32 %mask, {f.let(f'xor i32 {state}, -1')}")
            _report_unset(m, f, unset)
    mask = f.let("bitcast i32 %mask to <32 x i1>")
    row = f.let(f"getelementptr [128 x i8], ptr {memory}, i64 {word}")
    values = []
    for k in range(n):
        if nbytes < 4:
            values.append(_local_part(f, memory, mask, bits, k, f"%v{k}" if store else ""))
        elif nbytes == 4:
            q = f.let(f"getelementptr i8, ptr {row}, i64 {128 * k}")
            values.append(_local_word(f, q, mask, f"%v{k}" if store else ""))
        else:
            values.append(_local_double(f, row, k, mask, f"%v{k}" if store else ""))
    if store:
        f("  ret i1 true")
    else:
        give(f, kind, values, [vt] * n, "true")
    return f.text()


def _report_unset(m: Needs, f: Fn, unset: str) -> None:
    """A hazard for the first of the lanes that read a word before they wrote it."""
    some = f.let(f"icmp ne i32 {unset}, 0")
    f.when(some, lambda: hazard(m, f, L.H_UNINIT_LOCAL, first_lane(f, unset), "%a"), likely=False)


def _local_word(f: Fn, q: str, mask: str, value: str) -> str:
    if not value:
        return f.let(f"load <32 x i32>, ptr {q}, align 64")
    f(f"  call void @llvm.masked.store.v32i32.p0(<32 x i32> {value}, ptr {q}, i32 64, <32 x i1> {mask})")
    return ""


def _local_double(f: Fn, row: str, k: int, mask: str, value: str) -> str:
    halves = [f.let(f"getelementptr i8, ptr {row}, i64 {128 * (2 * k + h)}") for h in (0, 1)]
    if value:
        _local_word(f, halves[0], mask, f.let(f"trunc <32 x i64> {value} to <32 x i32>"))
        high = f.let(f"lshr <32 x i64> {value}, splat (i64 32)")
        _local_word(f, halves[1], mask, f.let(f"trunc <32 x i64> {high} to <32 x i32>"))
        return ""
    low, high = (f.let(f"zext <32 x i32> {_local_word(f, q, mask, '')} to <32 x i64>") for q in halves)
    return f.let(f"or <32 x i64> {low}, {f.let(f'shl <32 x i64> {high}, splat (i64 32)')}")


def _local_part(f: Fn, memory: str, mask: str, bits: int, k: int, value: str) -> str:
    """Element k of those that begin at %a: a part of a word, which may be another word than the first one's."""
    at = f.let(f"add i64 %a, {k * bits // 8}")
    row = f.let(f"getelementptr [128 x i8], ptr {memory}, i64 {f.let(f'lshr i64 {at}, 2')}")
    shifts = splat(f, _bit_offset(f, at), "i32")
    old = f.let(f"load <32 x i32>, ptr {row}, align 64")
    if not value:
        return f.let(f"trunc <32 x i32> {f.let(f'lshr <32 x i32> {old}, {shifts}')} to <32 x i{bits}>")
    new = f.let(f"shl <32 x i32> {f.let(f'zext <32 x i{bits}> {value} to <32 x i32>')}, {shifts}")
    field = f.let(f"shl <32 x i32> splat (i32 {(1 << bits) - 1}), {shifts}")
    keep = f.let(f"and <32 x i32> {old}, {f.let(f'xor <32 x i32> {field}, splat (i32 -1)')}")
    _local_word(f, row, mask, f.let(f"or <32 x i32> {keep}, {new}"))
    return ""


def _bit_offset(f: Fn, at: str) -> str:
    """Of the byte at an address in its word."""
    low = f.let(f"and i64 {at}, 3")
    return f.let(f"trunc i64 {f.let(f'shl i64 {low}, 3')} to i32")


def _local_lane(m: Needs, f: Fn, lane: str, a: str, places: list[str], nbytes: int, store: bool, ordered: bool) -> None:
    total = nbytes * len(places)
    reject(m, f, within(f, a, total, f.get("%ctx", Context, "local_bytes"), total, a), lane, a, total)
    memory = f.get("%warp", Warp, "local", pointer=True)
    shadow = f.get("%warp", Warp, "local_shadow", pointer=True)
    bit = f.let(f"shl i32 1, {lane}")
    step = min(nbytes, 4)
    for k in range(total // step):
        at = f.let(f"add i64 {a}, {k * step}")
        word = f.let(f"lshr i64 {at}, 2")
        row = f.let(f"shl i64 {word}, 5")
        cell = _cell(f, row, lane)
        byte = f.let(f"add i64 {cell}, {f.let(f'and i64 {at}, 3')}")
        p = f.let(f"getelementptr i8, ptr {memory}, i64 {byte}")
        q = f.let(f"getelementptr i32, ptr {shadow}, i64 {word}")
        state = f.let(f"load i32, ptr {q}")
        if store:
            f(f"  store i32 {f.let(f'or i32 {state}, {bit}')}, ptr {q}")
        else:
            unset = f.let(f"icmp eq i32 {f.let(f'and i32 {state}, {bit}')}, 0")
            f.when(unset, lambda: hazard(m, f, L.H_UNINIT_LOCAL, lane, a), likely=False)
        value_at = places[k * step // nbytes]
        if nbytes == 8 and k % 2:
            value_at = f.let(f"getelementptr i8, ptr {value_at}, i64 4")
        source, target = (value_at, p) if store else (p, value_at)
        f(f"  store i{8 * step} {f.let(f'load i{8 * step}, ptr {source}')}, ptr {target}")


def _cell(f: Fn, row: str, lane: str) -> str:
    wide = f.let(f"zext i32 {lane} to i64")
    return f.let(f"shl i64 {f.let(f'add i64 {row}, {wide}')}, 2")


register("local", Space(_local_lane, lambda *_: None))
