"""The out-of-line form of an access: a gather where all is well, else lane by lane."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from harness.emulator.access.base import Needs, need
from harness.emulator.access.traffic import count_global
from harness.emulator.irtext import Fn
from harness.emulator.layout import LANES

SLOW_OPERANDS = "ptr %ctx, ptr %warp, <32 x i64> {address}, i32 %mask, i32 %insn, ptr %res"


@dataclass(frozen=True)
class Space:
    """How one state space is accessed out of line."""

    lane: Callable[..., None]  # (m, f, lane, address, places, nbytes, store, ordered): one lane's access
    gather: Callable[..., None]  # (m, f, nbytes, store, ordered): all lanes at once, or falls through


_SPACES: dict[str, Space] = {}


def register(name: str, space: Space) -> None:
    """Make a state space known to `slow`."""
    _SPACES[name] = space


def slow(m: Needs, space: str, nbytes: int, n: int, store: bool, ordered: bool = False) -> str:
    """Name of the out-of-line form: (ctx, warp, <32 x i64> addresses, mask, insn, ptr values) -> ok. Values of a
    store are read from, of a load written to, `values`: element k of lane l at (k * 32 + l) * nbytes."""
    kind = _SPACES[space]
    name = f"{space}_{'st' if store else 'ld'}{'o' if ordered else ''}_s_{nbytes}x{n}"

    def build(m: Needs, name: str) -> str:
        f = Fn(f"define internal i1 @{name}({SLOW_OPERANDS.format(address='%a')}) noinline {{")
        f("entry:\n  %addresses = alloca <32 x i64>")
        if space == "global":
            count_global(m, f, nbytes * n, store)
        if n == 1:
            kind.gather(m, f, nbytes, store, ordered)
        f("  store <32 x i64> %a, ptr %addresses")

        def one(lane: str) -> None:
            a = f.let(f"load i64, ptr {f.let(f'getelementptr i64, ptr %addresses, i32 {lane}')}")
            places = []
            for k in range(n):
                at = lane if k == 0 else f.let(f"add i32 {lane}, {k * LANES}")
                places.append(f.let(f"getelementptr i{8 * nbytes}, ptr %res, i32 {at}"))
            kind.lane(m, f, lane, a, places, nbytes, store, ordered)

        f.each_lane("%mask", one)
        f("  ret i1 true\nbad:\n  ret i1 false")
        return f.text()

    return need(m, name, build)
