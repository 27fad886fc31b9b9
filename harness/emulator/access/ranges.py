"""Counting the memory traffic of bulk copies: a range of bytes that one thread asks for, not 32 lanes side by side.

Each copy is a request of its own, also where several lanes of a warp start one: the hardware's copy engine takes them
one after the other. It costs the sectors that its range touches; at best it fills them. Out of line, since a copy of
kilobytes costs more to carry out than to count.
"""

from __future__ import annotations

from harness.emulator import layout as L
from harness.emulator.access.base import Needs, need
from harness.emulator.access.traffic import Row, add
from harness.emulator.irtext import Fn
from harness.emulator.layout import SECTOR

_SHIFT = SECTOR.bit_length() - 1
_MAP_BYTE = 32  # bytes of data that a byte of the map of words stands for, 4 each bit: as many as in a sector


def count_read(m: Needs, f: Fn, row: str, address: str, relative: str, size: str) -> None:
    """A read of `size` bytes (i64) from `address` on, `relative` bytes behind the start of the buffer at `row`. All
    three are multiples of 16, and the range is in bounds; the helper that counts has %insn."""
    if not m.counted:
        return
    r = Row(f, row, store=False)
    name = need(m, "traffic_range", lambda m, name: _range(name))
    f(f"  call void @{name}(ptr {r.cells}, ptr {r.bits}, i64 {address}, i64 {relative}, i64 {size})")


def _range(name: str) -> str:
    f = Fn(f"define internal void @{name}(ptr %cells, ptr %map, i64 %a, i64 %first, i64 %size) noinline {{")
    f("entry:")
    add(f, "%cells", L.T_REQUESTS)
    f(f"  br i1 {f.let('icmp eq i64 %size, 0')}, label %done, label %some\nsome:")
    into = f.let(f"and i64 %a, {SECTOR - 1}")
    add(f, "%cells", L.T_BYTES, "%size")
    add(f, "%cells", L.T_DISTINCT, "%size")
    add(f, "%cells", L.T_SECTORS, _sectors(f, f.let(f"add i64 {into}, %size")))
    add(f, "%cells", L.T_IDEAL, _sectors(f, "%size"))
    _mark(f)
    f("  br label %done\ndone:\n  ret void")
    return f.text()


def _sectors(f: Fn, nbytes: str) -> str:
    return f.let(f"lshr i64 {f.let(f'add i64 {nbytes}, {SECTOR - 1}')}, {_SHIFT}")


def _mark(f: Fn) -> None:
    """Set the bits of the range's words. Its ends may share a byte of the map with others' data, for which other host
    threads may set bits; of the bytes between all bits are set."""
    end = f.let("add i64 %first, %size")
    starts, ends = (f.let(f"trunc i64 {f.let(f'lshr i64 {v}, {_SHIFT - 1}')} to i1") for v in ("%first", end))
    f.when(starts, lambda: _set(f, "%first", 0xF0))
    f.when(ends, lambda: _set(f, end, 0x0F))
    whole = f.let(f"lshr i64 {f.let(f'add i64 %first, {_MAP_BYTE - 1}')}, {_SHIFT}")
    between = f.let(f"sub i64 {f.let(f'lshr i64 {end}, {_SHIFT}')}, {whole}")
    p = f.let(f"getelementptr i8, ptr %map, i64 {whole}")
    f(f"  call void @llvm.memset.p0.i64(ptr {p}, i8 -1, i64 {between}, i1 false)")


def _set(f: Fn, offset: str, bits: int) -> None:
    p = f.let(f"getelementptr i8, ptr %map, i64 {f.let(f'lshr i64 {offset}, {_SHIFT}')}")
    f.let(f"atomicrmw or ptr {p}, i8 {bits} monotonic")
