"""Generic addresses: each one's window says which memory it means. Also the single-thread form for solve()."""

from __future__ import annotations

from harness.emulator import layout as L
from harness.emulator.access.base import Needs, fault, give, need, values_type, within
from harness.emulator.access.global_memory import global_u
from harness.emulator.access.slow import SLOW_OPERANDS, slow
from harness.emulator.irtext import Fn
from harness.emulator.layout import Context, Warp


def generic_s(m: Needs, nbytes: int, n: int, store: bool, ordered: bool) -> str:
    name = f"generic_{'st' if store else 'ld'}{'o' if ordered else ''}_s_{nbytes}x{n}"

    def build(m: Needs, name: str) -> str:
        f = Fn(f"define internal i1 @{name}({SLOW_OPERANDS.format(address='%a')}) noinline {{")
        f("entry:")
        window = f.let(f"lshr <32 x i64> %a, splat (i64 {L.WINDOW_BITS})")
        low = f.let(f"and <32 x i64> %a, splat (i64 {(1 << L.WINDOW_BITS) - 1})")
        rest = "%mask"
        for number, space in ((L.SHARED_WINDOW, "shared"), (L.LOCAL_WINDOW, "local"), (-1, "global")):
            part, address = rest, "%a"
            if number >= 0:
                hit = f.let(f"icmp eq <32 x i64> {window}, splat (i64 {number})")
                part = f.let(f"and i32 %mask, {f.let(f'bitcast <32 x i1> {hit} to i32')}")
                rest = f.let(f"xor i32 {rest}, {part}")
                address = low
            inner = slow(m, space, nbytes, n, store, ordered)

            def go(inner: str = inner, part: str = part, address: str = address) -> None:
                ok = f.let(
                    f"call i1 @{inner}(ptr %ctx, ptr %warp, <32 x i64> {address}, i32 {part}, i32 %insn, ptr %res)"
                )
                on = f.new_label()
                f(f"  br i1 {ok}, label %{on}, label %bad\n{on}:")

            f.when(f.let(f"icmp ne i32 {part}, 0"), go)
        f("  ret i1 true\nbad:\n  ret i1 false")
        return f.text()

    return need(m, name, build)


def single_u(m: Needs, name: str, nbytes: int, n: int, store: bool) -> str:
    bits, total = 8 * nbytes, nbytes * n
    kind = "i1" if store else values_type(bits, n, vector=False)
    operands = "".join(f", i{bits} %v{k}" for k in range(n)) if store else ""
    f = Fn(f"define internal {kind} @{name}(ptr %ctx, ptr %warp, i64 %a{operands}, i32 %mask, i32 %insn) {{")
    f("entry:")
    window = f.let(f"lshr i64 %a, {L.WINDOW_BITS}")
    f(f"  br i1 {f.let(f'icmp eq i64 {window}, {L.LOCAL_WINDOW}')}, label %local, label %elsewhere\nlocal:")
    offset = f.let(f"and i64 %a, {(1 << L.WINDOW_BITS) - 1}")
    ok = within(f, offset, total, f.get("%ctx", Context, "local_bytes"), total, offset)
    f(f"  br i1 {ok}, label %good, label %bad\nbad:")
    fault(m, f, "0", "%a", total)
    f(f"  ret {kind} zeroinitializer\ngood:" if not store else "  ret i1 false\ngood:")
    p = f.let(f"getelementptr i8, ptr {f.get('%warp', Warp, 'local', pointer=True)}, i64 {offset}")
    places = [f.let(f"getelementptr i8, ptr {p}, i64 {k * nbytes}") for k in range(n)]
    if store:
        for k, q in enumerate(places):
            f(f"  store i{bits} %v{k}, ptr {q}, align {nbytes}")
        f("  ret i1 true\nelsewhere:")
    else:
        give(f, kind, [f.let(f"load i{bits}, ptr {q}, align {nbytes}") for q in places], [f"i{bits}"] * n, "true")
        f("elsewhere:")
    values = "".join(f", i{bits} %v{k}" for k in range(n)) if store else ""
    inner = need(
        m, f"global_{'st' if store else 'ld'}_u_{nbytes}x{n}", lambda m, name: global_u(m, name, nbytes, n, store)
    )
    f(f"  ret {kind} {f.let(f'call {kind} @{inner}(ptr %ctx, ptr %warp, i64 %a{values}, i32 %mask, i32 %insn)')}")
    return f.text()
