"""What the lowering emits to count: executions of blocks, and the requests of shared, local and generic accesses.

Global memory is counted inside of its access helpers (access/traffic.py), which know the buffer.
"""

from __future__ import annotations

from harness.emulator import access
from harness.emulator import layout as L
from harness.emulator.census import Site
from harness.emulator.emitter import Emitter
from harness.emulator.ptx import Ins

ROW_BYTES = 16  # of an 8x8 matrix of halves


def count_block(lo: Emitter, number: int) -> None:
    """One more execution of the current block, and its lanes where they vary."""
    cells = lo.let(f"getelementptr i64, ptr {lo.context('block_counts', pointer=True)}, i64 {2 * number}")
    _add(lo, cells, "1")
    if lo.mask != "-1":
        lanes = lo.let(f"zext i32 {lo.let(f'call i32 @llvm.ctpop.i32(i32 {lo.mask})')} to i64")
        _add(lo, lo.let(f"getelementptr i64, ptr {cells}, i64 1"), lanes)


def note_access(lo: Emitter, i: Ins, space: str, kind: str, nbytes: int, uniform: bool = False) -> None:
    """Enter an instruction into the census. Under a guard its requests are not those of its block."""
    if not lo.counted:
        return
    number = lo.number(i)
    lo.census.sites[number] = Site(space, kind, nbytes, -1 if lo.guarded else lo.block_number, uniform)
    if lo.guarded and space in ("shared", "local", "copy"):
        _add(lo, _cells(lo, number), "1")


def count_shared(lo: Emitter, i: Ins, offsets: str, nbytes: int) -> None:
    """Bank conflicts of a shared access at offsets (<32 x i32>) of `nbytes` a lane; `note_access` comes first."""
    if lo.counted:
        helper = access.shared_traffic(lo, nbytes)
        cells = _cells(lo, lo.number(i))
        lo.emit(f"call void @{helper}(ptr {cells}, <32 x i32> {offsets}, i32 {lo.mask})")


def count_generic(lo: Emitter, i: Ins, addresses: str, nbytes: int, atomic: bool = False) -> None:
    """The lanes of a generic access (<32 x i64>) that are in shared memory; of an atomic also the others."""
    if lo.counted:
        helper = access.generic_traffic(lo, nbytes, atomic)
        lo.emit(f"call void @{helper}(ptr %ctx, <32 x i64> {addresses}, i32 {lo.mask}, i32 {lo.number(i)})")


def count_rows(lo: Emitter, i: Ins, addresses: str, rows: int, kind: str) -> None:
    """Rows of 16 bytes of shared memory that the first lanes of a warp address (<32 x i64>): ldmatrix, stmatrix."""
    note_access(lo, i, "generic", kind, ROW_BYTES)
    if lo.counted:
        window = L.SHARED_WINDOW << L.WINDOW_BITS
        places = lo.let(f"or <32 x i64> {addresses}, splat (i64 {window})")
        helper = access.generic_traffic(lo, ROW_BYTES, False)
        lanes = (1 << rows) - 1 if rows < L.LANES else -1
        lo.emit(f"call void @{helper}(ptr %ctx, <32 x i64> {places}, i32 {lanes}, i32 {lo.number(i)})")
        trace(lo, i, places, ROW_BYTES, kind == "write", str(lanes))


def trace(lo: Emitter, i: Ins, addresses: str, nbytes: int, store: bool, mask: str = "") -> None:
    """Have a traced kernel keep a request of `nbytes` a lane at generic addresses (<32 x i64>)."""
    if lo.traced:
        helper = access.traced_request(lo, nbytes)
        how = f"i32 {mask or lo.mask}, i32 {lo.number(i)}, i1 {'true' if store else 'false'}"
        lo.emit(f"call void @{helper}(ptr %ctx, ptr %warp, <32 x i64> {addresses}, {how})")


def trace_shared(lo: Emitter, i: Ins, offsets: str, nbytes: int, store: bool) -> None:
    """The same at offsets in shared memory (<32 x i32>)."""
    if lo.traced:
        wide = lo.let(f"zext <32 x i32> {offsets} to <32 x i64>")
        window = L.SHARED_WINDOW << L.WINDOW_BITS
        trace(lo, i, lo.let(f"or <32 x i64> {wide}, splat (i64 {window})"), nbytes, store)


def _cells(lo: Emitter, number: int) -> str:
    counts = lo.context("counts", pointer=True)
    return lo.let(f"getelementptr i64, ptr {counts}, i64 {number * L.TRAFFIC_CELLS}")


def _add(lo: Emitter, cell: str, amount: str) -> None:
    before = lo.let(f"load i64, ptr {cell}")
    lo.emit(f"store i64 {lo.let(f'add i64 {before}, {amount}')}, ptr {cell}")
