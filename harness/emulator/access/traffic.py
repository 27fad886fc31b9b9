"""Counting memory traffic: what the access helpers call for each request of a warp.

A request is one instruction of one warp. In global memory it costs as many 32-byte sectors as its lanes touch; in
shared memory as many passes as the busiest of the 32 banks has distinct words (CUDA C++ Best Practices Guide, sections
"Coalesced Access to Global Memory" and "Shared Memory and Memory Banks"; 8-byte accesses go by half warps, 16-byte
ones by quarter warps).

The common request costs one increment: 32 lanes that want consecutive whole sectors, or one address. What it moved
follows from the instruction's width (harness/emulator/counters.py). Everything else is counted out of line and exactly.
A request of shared memory without conflicts costs nothing here: how often it ran is what its block's counter says.

Which bytes were touched at all is kept in maps, to which the buffer table points: one bit for every 4 bytes, and one
for every line of 128 that full requests cover, since the map of lines fits into a cache. Several host threads may share
a map of words: whole bytes of it are only ever set to all ones, single bits atomically. A map of lines is one thread's.
"""

from __future__ import annotations

from harness.emulator import layout as L
from harness.emulator.access.base import Needs, buffer_row, first_lane, need
from harness.emulator.access.vectors import gather_where, iota, missing, splat
from harness.emulator.irtext import Fn
from harness.emulator.layout import BANKS, LANES, LINE, SECTOR, BufferEntry, Context

_LINE_SHIFT = 7  # log2 of LINE
_SHIFT = 5  # log2 of SECTOR; also of the bytes of data that a byte of the map stands for
_FORWARD = "<32 x i32> <i32 0, " + ", ".join(f"i32 {n}" for n in range(LANES - 1)) + ">"  # each lane's predecessor
_CELL_BYTES = 8


class Row:
    """The counters of an instruction on the buffer at `row` of the table, and the buffer's map for this direction."""

    def __init__(self, f: Fn, row: str, store: bool):
        counts = f.get(row, BufferEntry, "counts", pointer=True, constant=True)
        self.cells = cells_of(f, counts)
        self.bits = f.get(row, BufferEntry, "bits_written" if store else "bits_read", pointer=True, constant=True)


def cells_of(f: Fn, counts: str) -> str:
    """Where the counters of instruction %insn are."""
    return f.let(f"getelementptr [{L.TRAFFIC_CELLS * _CELL_BYTES} x i8], ptr {counts}, i32 %insn")


def add(f: Fn, cells: str, cell: int, amount: str | int = 1) -> None:
    """Add an i64 to one counter."""
    p = f.let(f"getelementptr i64, ptr {cells}, i32 {cell}") if cell else cells
    before = f.let(f"load i64, ptr {p}")
    f(f"  store i64 {f.let(f'add i64 {before}, {amount}')}, ptr {p}")


def _wide(f: Fn, value: str) -> str:
    return f.let(f"zext i32 {value} to i64")


def _count_ones(f: Fn, value: str) -> str:
    return f.let(f"call i32 @llvm.ctpop.i32(i32 {value})")


def _bits(f: Fn, vector: str) -> str:
    return f.let(f"bitcast <32 x i1> {vector} to i32")


def _words(total: int) -> int:
    """A run of ones: the words of an access of `total` bytes."""
    return (1 << max(1, total // 4)) - 1


# -- global memory


def count_line(m: Needs, f: Fn, row: str, address: str, relative: str, total: int, store: bool) -> None:
    """The running lanes have consecutive addresses, the first of them `address`, which is `relative` bytes behind the
    start of the buffer; the helper's operands are %a, %mask, %insn. One increment where they are all the warp's lanes
    and cover whole lines, or whole sectors where they are less than a line."""
    if not m.counted:
        return
    r = Row(f, row, store)
    aligned = f.let(f"icmp eq i64 {f.let(f'and i64 {address}, {min(total * LANES, LINE) - 1}')}, 0")
    whole = f.let(f"and i1 {aligned}, {f.let('icmp eq i32 %mask, -1')}")
    fast, other, on = f.new_label(), f.new_label(), f.new_label()
    f(f"  br i1 {whole}, label %{fast}, label %{other}, !prof !2\n{fast}:")
    add(f, r.cells, L.T_LINES)
    if total < 4:
        q = f.let(f"getelementptr i8, ptr {r.bits}, i64 {f.let(f'lshr i64 {relative}, {_SHIFT}')}")
        f(f"  store i{8 * total} -1, ptr {q}, align 1")
    else:
        _mark_lines(f, f.get(row, BufferEntry, "lines_written" if store else "lines_read", True, True), relative, total)
    f(f"  br label %{on}\n{other}:")
    count_global(m, f, total, store)
    f(f"  br label %{on}\n{on}:")


def _mark_lines(f: Fn, lines: str, relative: str, total: int) -> None:
    """Set the bits of the one, two or four lines that a full request of `total` bytes a lane covers."""
    kind = "i8" if total == 4 else "i16"  # bits of several lines may go on in the next byte
    line = f.let(f"lshr i64 {relative}, {_LINE_SHIFT}")
    q = f.let(f"getelementptr i8, ptr {lines}, i64 {f.let(f'lshr i64 {line}, 3')}")
    place = f.let(f"trunc i64 {f.let(f'and i64 {line}, 7')} to {kind}")
    marks = f.let(f"shl {kind} {_words(total)}, {place}")
    before = f.let(f"load {kind}, ptr {q}, align 1")
    f(f"  store {kind} {f.let(f'or {kind} {before}, {marks}')}, ptr {q}, align 1")


def count_uniform(m: Needs, f: Fn, row: str, relative: str, total: int, store: bool) -> None:
    """The running lanes all want one address, `relative` bytes behind the start of the buffer."""
    if not m.counted:
        return
    r = Row(f, row, store)
    q = f.let(f"getelementptr i8, ptr {r.bits}, i64 {f.let(f'lshr i64 {relative}, {_SHIFT}')}")
    word = f.let(f"lshr i64 {relative}, 2")
    place = f.let(f"trunc i64 {f.let(f'and i64 {word}, 7')} to i8")
    wanted = f.let(f"shl i8 {_words(total)}, {place}")
    have = f.let(f"load i8, ptr {q}")
    known = f.let(f"icmp eq i8 {f.let(f'and i8 {have}, {wanted}')}, {wanted}")
    usual = f.let(f"and i1 {known}, {f.let('icmp eq i32 %mask, -1')}")
    fast, other, on = f.new_label(), f.new_label(), f.new_label()
    f(f"  br i1 {usual}, label %{fast}, label %{other}, !prof !2\n{fast}:")
    add(f, r.cells, L.T_UNIFORM)
    f(f"  br label %{on}\n{other}:")
    name = need(m, "traffic_one", lambda m, name: _one_address(name))
    f(f"  call void @{name}(ptr {r.cells}, ptr {q}, i8 {wanted}, i32 %mask, i32 {total})\n  br label %{on}\n{on}:")


# Out of line, the bytes of an access and its direction are operands: a kernel pays for compiling one function, not for
# one a width.


def _one_address(name: str) -> str:
    f = Fn(f"define internal void @{name}(ptr %cells, ptr %map, i8 %wanted, i32 %mask, i32 %total) noinline {{")
    f("entry:")
    f.let("atomicrmw or ptr %map, i8 %wanted monotonic")
    _add_request(f, "%cells", "1", "1")
    f("  ret void")
    return f.text()


def _add_request(f: Fn, cells: str, distinct: str, sectors: str) -> None:
    """Count a request of %total bytes a lane whose lanes have so many distinct addresses and sectors (i32)."""
    asked = _wide(f, f.let(f"mul i32 {_count_ones(f, '%mask')}, %total"))
    once = _wide(f, f.let(f"mul i32 {distinct}, %total"))
    ideal = f.let(f"lshr i64 {f.let(f'add i64 {once}, {SECTOR - 1}')}, {_SHIFT}")
    add(f, cells, L.T_REQUESTS)
    add(f, cells, L.T_BYTES, asked)
    add(f, cells, L.T_DISTINCT, once)
    add(f, cells, L.T_SECTORS, _wide(f, sectors))
    add(f, cells, L.T_IDEAL, ideal)


def count_global(m: Needs, f: Fn, total: int, store: bool, mask: str = "%mask", address: str = "%a") -> None:
    """Any request: exactly, out of line. Lanes out of bounds, about to fault, count as well but mark nothing."""
    if not m.counted:
        return
    name = need(m, "traffic_global", _global)
    how = f"i32 {total}, i1 {'true' if store else 'false'}"
    f(f"  call void @{name}(ptr %ctx, <32 x i64> {address}, i32 {mask}, i32 %insn, {how})")


def _global(m: Needs, name: str) -> str:
    """A whole warp with rising addresses in one buffer is counted by comparing neighbours, everything else by taking
    out equal addresses, one after the other, buffer by buffer."""
    operands = "ptr %ctx, <32 x i64> %a, i32 %mask, i32 %insn, i32 %total, i1 %store"
    f = Fn(f"define internal void @{name}({operands}) noinline {{")
    f("entry:\n  %rest = alloca i32")
    record = need(m, "traffic_buffer", lambda m, name: _record(name))
    before = f.let(f"shufflevector <32 x i64> %a, <32 x i64> poison, {_FORWARD}")
    sector = f.let(f"lshr <32 x i64> %a, splat (i64 {_SHIFT})")
    number = f.let(f"lshr <32 x i64> %a, splat (i64 {L.WINDOW_BITS})")
    falling = _bits(f, f.let(f"icmp ult <32 x i64> %a, {before}"))
    first, last = (f.let(f"extractelement <32 x i64> {number}, i32 {lane}") for lane in (0, LANES - 1))
    usual = f.let(f"and i1 {f.let(f'icmp eq i32 {falling}, 0')}, {f.let(f'icmp eq i64 {first}, {last}')}")
    usual = f.let(f"and i1 {usual}, {f.let('icmp eq i32 %mask, -1')}")
    f(f"  br i1 {usual}, label %rising, label %any\nrising:")
    steps = []
    for v in ("%a", sector):
        back = f.let(f"shufflevector <32 x i64> {v}, <32 x i64> poison, {_FORWARD}")
        steps.append(f.let(f"add i32 {_count_ones(f, _bits(f, f.let(f'icmp ne <32 x i64> {v}, {back}')))}, 1"))
    how = "i32 %total, i1 %store"
    f(f"  call void @{record}(ptr %ctx, <32 x i64> %a, i32 -1, i32 %insn, {how}, i32 {steps[0]}, i32 {steps[1]})")
    f("  ret void")
    f("any:\n  store i32 %mask, ptr %rest\n  br label %buffer\nbuffer:")
    left = f.let("load i32, ptr %rest")
    f(f"  br i1 {f.let(f'icmp eq i32 {left}, 0')}, label %done, label %go\ngo:")
    here = f.let(f"extractelement <32 x i64> {number}, i32 {first_lane(f, left)}")
    same = f.let(f"icmp eq <32 x i64> {number}, {splat(f, here, 'i64')}")
    part = f.let(f"and i32 {left}, {_bits(f, same)}")
    f(f"  store i32 {f.let(f'xor i32 {left}, {part}')}, ptr %rest")
    distinct = need(m, "traffic_distinct", lambda m, name: _distinct(name))
    counts = [f.let(f"call i32 @{distinct}(<32 x i64> {v}, i32 {part})") for v in ("%a", sector)]
    f(f"  call void @{record}(ptr %ctx, <32 x i64> %a, i32 {part}, i32 %insn, {how}, i32 {counts[0]}, i32 {counts[1]})")
    f("  br label %buffer\ndone:\n  ret void")
    return f.text()


def _distinct(name: str) -> str:
    """How many different values the lanes of the mask hold."""
    f = Fn(f"define internal i32 @{name}(<32 x i64> %v, i32 %mask) noinline {{")
    f("entry:\n  %values = alloca <32 x i64>\n  store <32 x i64> %v, ptr %values\n  br label %next\nnext:")
    f("  %rest = phi i32 [ %mask, %entry ], [ %less, %take ]\n  %count = phi i32 [ 0, %entry ], [ %more, %take ]")
    f(f"  br i1 {f.let('icmp eq i32 %rest, 0')}, label %done, label %take\ntake:")
    p = f.let(f"getelementptr i64, ptr %values, i32 {first_lane(f, '%rest')}")
    same = _bits(f, f.let(f"icmp eq <32 x i64> %v, {splat(f, f.let(f'load i64, ptr {p}'), 'i64')}"))
    f(f"  %less = and i32 %rest, {f.let(f'xor i32 {same}, -1')}\n  %more = add i32 %count, 1\n  br label %next")
    f("done:\n  ret i32 %count")
    return f.text()


def _record(name: str) -> str:
    """Count the part of a request that lies in one buffer, and mark what it touches. The map is read with one gather:
    most data is touched more than once."""
    operands = "ptr %ctx, <32 x i64> %a, i32 %mask, i32 %insn, i32 %total, i1 %store, i32 %distinct, i32 %sectors"
    f = Fn(f"define internal void @{name}({operands}) noinline {{")
    f("entry:\n  %places = alloca <32 x ptr>\n  %all = alloca <32 x i32>")
    a0 = f.let(f"extractelement <32 x i64> %a, i32 {first_lane(f)}")
    row = buffer_row(f, a0)
    read, written = Row(f, row, False), Row(f, row, True)
    bits = f.let(f"select i1 %store, ptr {written.bits}, ptr {read.bits}")
    f(f"  br i1 {f.let(f'icmp eq ptr {bits}, null')}, label %out, label %known\nknown:")
    _add_request(f, read.cells, "%distinct", "%sectors")
    words = f.let(f"call i32 @llvm.umax.i32(i32 {f.let('lshr i32 %total, 2')}, i32 1)")
    run = splat(f, f.let(f"sub i32 {f.let(f'shl i32 1, {words}')}, 1"), "i32")
    relative = f.let(f"sub <32 x i64> %a, {splat(f, f.get(row, BufferEntry, 'base'), 'i64')}")
    inside = f.let(f"icmp ult <32 x i64> {relative}, {splat(f, f.get(row, BufferEntry, 'size'), 'i64')}")
    valid = f.let(f"and <32 x i1> {inside}, {f.let('bitcast i32 %mask to <32 x i1>')}")
    unit = f.let(f"shl <32 x i64> {f.let(f'lshr <32 x i64> {relative}, splat (i64 {_SHIFT + 2})')}, splat (i64 2)")
    word = f.let(f"and <32 x i64> {f.let(f'lshr <32 x i64> {relative}, splat (i64 2)')}, splat (i64 31)")
    wanted = f.let(f"shl <32 x i32> {run}, {f.let(f'trunc <32 x i64> {word} to <32 x i32>')}")
    places = f.let(f"getelementptr i8, ptr {bits}, <32 x i64> {unit}")
    have = f.let(f"and <32 x i32> {gather_where(f, 32, places, valid)}, {wanted}")
    fresh = f.let(f"and i32 {missing(f, f.let(f'icmp eq <32 x i32> {have}, {wanted}'))}, {_bits(f, valid)}")
    f(f"  store <32 x ptr> {places}, ptr %places\n  store <32 x i32> {wanted}, ptr %all")

    def mark(lane: str) -> None:
        p = f.let(f"load ptr, ptr {f.let(f'getelementptr ptr, ptr %places, i32 {lane}')}")
        bits = f.let(f"load i32, ptr {f.let(f'getelementptr i32, ptr %all, i32 {lane}')}")
        f.let(f"atomicrmw or ptr {p}, i32 {bits} monotonic")

    f.each_lane(fresh, mark)
    f("  br label %out\nout:\n  ret void")
    return f.text()


# -- shared memory


def groups_of(total: int) -> int:
    """Groups of lanes in which the banks serve accesses of so many bytes: the passes of a full, ideal request."""
    return max(total, 4) // 4


def shared_traffic(m: Needs, total: int) -> str:
    """Name of (ptr cells, <32 x i32> offsets, i32 mask): the bank conflicts of one request. Inlined: the test for
    consecutive addresses is the one that the access itself makes."""

    def build(m: Needs, name: str) -> str:
        kind = "noinline" if m.outline else "alwaysinline"
        f = Fn(f"define internal void @{name}(ptr %cells, <32 x i32> %a, i32 %mask) {kind} {{")
        f("entry:")
        first = first_lane(f)
        a0 = f.let(f"extractelement <32 x i32> %a, i32 {first}")
        start = f.let(f"sub i32 {a0}, {f.let(f'mul i32 {first}, {total}')}")
        line = f.let(f"add <32 x i32> {splat(f, start, 'i32')}, {iota('i32', total)}")
        clean = f.let(f"icmp eq i32 {missing(f, f.let(f'icmp eq <32 x i32> %a, {line}'))}, 0")
        if total > 4:  # idle groups of lanes save passes
            clean = f.let(f"and i1 {clean}, {f.let('icmp eq i32 %mask, -1')}")
        f(f"  br i1 {clean}, label %done, label %count, !prof !2\ncount:")
        exact = need(m, f"traffic_banks_{total}", lambda m, name: _banks(m, name, total))
        f(f"  call void @{exact}(ptr %cells, <32 x i32> %a, i32 %mask)\n  br label %done\ndone:\n  ret void")
        return f.text()

    return need(m, f"traffic_shared_{total}", build)


def _banks(m: Needs, name: str, total: int) -> str:
    """Passes of a request: 1 where all lanes want the same, else the sum over the groups of lanes. An arithmetic
    progression of stride s over n banks meets gcd(s, n) different words a bank. Of any other request the answer is
    kept: the next one of the instruction is mostly the same, shifted, and a shift only renames the banks."""
    size, groups = max(total, 4), groups_of(total)
    banks = lanes = LANES // groups
    f = Fn(f"define internal void @{name}(ptr %cells, <32 x i32> %a, i32 %mask) noinline {{")
    f("entry:")
    unit = f.let(f"lshr <32 x i32> %a, splat (i32 {size.bit_length() - 1})")
    u0 = f.let(f"extractelement <32 x i32> {unit}, i32 {first_lane(f)}")
    same = missing(f, f.let(f"icmp eq <32 x i32> {unit}, {splat(f, u0, 'i32')}"))
    f(f"  br i1 {f.let(f'icmp eq i32 {same}, 0')}, label %same, label %differ\nsame:")
    if groups > 1:
        add(f, "%cells", L.S_SAVED, groups - 1)
    f("  ret void\ndiffer:")
    step = f.let(f"sub i32 {f.let(f'extractelement <32 x i32> {unit}, i32 1')}, {u0}")
    line = f.let(f"mul <32 x i32> {splat(f, step, 'i32')}, {iota('i32')}")
    line = f.let(f"add <32 x i32> {line}, {splat(f, u0, 'i32')}")
    odd = missing(f, f.let(f"icmp eq <32 x i32> {unit}, {line}"))
    regular = f.let(f"and i1 {f.let(f'icmp eq i32 {odd}, 0')}, {f.let('icmp eq i32 %mask, -1')}")
    f(f"  br i1 {regular}, label %regular, label %any\nregular:")
    shared = f.let(f"call i32 @llvm.cttz.i32(i32 {f.let(f'or i32 {step}, {banks}')}, i1 true)")
    degree = f.let(f"shl i32 1, {shared}")
    excess = f.let(f"mul i32 {f.let(f'sub i32 {degree}, 1')}, {groups}")
    f.when(f.let(f"icmp ne i32 {excess}, 0"), lambda: add(f, "%cells", L.S_EXCESS, _wide(f, excess)))
    f("  ret void\nany:")
    kept = f.let(f"load ptr, ptr {f.let(f'getelementptr i64, ptr %cells, i32 {L.S_PATTERN}')}")
    shape = f.let(f"sub <32 x i32> {unit}, {splat(f, u0, 'i32')}")
    other = missing(f, f.let(f"icmp eq <32 x i32> {shape}, {f.let(f'load <32 x i32>, ptr {kept}, align 4')}"))
    mask, beyond, saved = (f.let(f"getelementptr i32, ptr {kept}, i32 {n}") for n in (L.P_MASK, L.P_EXCESS, L.P_SAVED))
    again = f.let(f"icmp eq i32 {f.let(f'load i32, ptr {mask}')}, %mask")
    again = f.let(f"and i1 {again}, {f.let(f'icmp eq i32 {other}, 0')}")
    f(f"  br i1 {again}, label %known, label %new, !prof !2\nnew:")
    f(f"  store <32 x i32> {shape}, ptr {kept}, align 4\n  store i32 %mask, ptr {mask}")
    group = need(m, f"traffic_group_{banks}", lambda m, name: _busiest_bank(name, banks))
    excess = idle = "0"
    for g in range(groups):
        part = f.let(f"and i32 %mask, {((1 << lanes) - 1) << g * lanes}")
        passes = f.let(f"call i32 @{group}(<32 x i32> {unit}, i32 {part})")
        none = f.let(f"zext i1 {f.let(f'icmp eq i32 {passes}, 0')} to i32")
        idle = f.let(f"add i32 {idle}, {none}")
        beyond_one = f.let(f"sub i32 {f.let(f'add i32 {passes}, {none}')}, 1")
        excess = f.let(f"add i32 {excess}, {beyond_one}")
    f(f"  store i32 {excess}, ptr {beyond}\n  store i32 {idle}, ptr {saved}\n  br label %known\nknown:")
    add(f, "%cells", L.S_EXCESS, _wide(f, f.let(f"load i32, ptr {beyond}")))
    if groups > 1:
        add(f, "%cells", L.S_SAVED, _wide(f, f.let(f"load i32, ptr {saved}")))
    f("  ret void")
    return f.text()


def _busiest_bank(name: str, banks: int) -> str:
    """The most distinct units that the lanes of the mask want from one bank."""
    f = Fn(f"define internal i32 @{name}(<32 x i32> %unit, i32 %mask) noinline {{")
    f(f"entry:\n  %units = alloca <32 x i32>\n  %load = alloca [{BANKS} x i8]")
    f(f"  store <32 x i32> %unit, ptr %units\n  store [{BANKS} x i8] zeroinitializer, ptr %load")
    f("  br label %next\nnext:")
    f("  %rest = phi i32 [ %mask, %entry ], [ %less, %take ]\n  %most = phi i32 [ 0, %entry ], [ %more, %take ]")
    f(f"  br i1 {f.let('icmp eq i32 %rest, 0')}, label %done, label %take\ntake:")
    lane = first_lane(f, "%rest")
    u = f.let(f"load i32, ptr {f.let(f'getelementptr i32, ptr %units, i32 {lane}')}")
    same = _bits(f, f.let(f"icmp eq <32 x i32> %unit, {splat(f, u, 'i32')}"))
    f(f"  %less = and i32 %rest, {f.let(f'xor i32 {same}, -1')}")
    p = f.let(f"getelementptr i8, ptr %load, i32 {f.let(f'and i32 {u}, {banks - 1}')}")
    n = f.let(f"add i8 {f.let(f'load i8, ptr {p}')}, 1")
    f(f"  store i8 {n}, ptr {p}")
    n = f.let(f"zext i8 {n} to i32")
    f(f"  %more = call i32 @llvm.umax.i32(i32 %most, i32 {n})\n  br label %next\ndone:\n  ret i32 %most")
    return f.text()


# -- generic addresses and atomics


def generic_traffic(m: Needs, total: int, atomic: bool) -> str:
    """Name of (ptr ctx, <32 x i64> addresses, i32 mask, i32 insn): the lanes in shared memory; for atomics also those
    in global memory, which other generic accesses count where they get there."""

    def build(m: Needs, name: str) -> str:
        f = Fn(f"define internal void @{name}(ptr %ctx, <32 x i64> %a, i32 %mask, i32 %insn) noinline {{")
        f("entry:")
        window = f.let(f"lshr <32 x i64> %a, splat (i64 {L.WINDOW_BITS})")

        def lanes(comparison: str, number: int) -> str:
            hit = _bits(f, f.let(f"icmp {comparison} <32 x i64> {window}, splat (i64 {number})"))
            return f.let(f"and i32 %mask, {hit}")

        part = lanes("eq", L.SHARED_WINDOW)

        def in_shared() -> None:
            cells = cells_of(f, f.get("%ctx", Context, "counts", pointer=True, constant=True))
            add(f, cells, L.S_REQUESTS)
            offset = f.let("trunc <32 x i64> %a to <32 x i32>")
            banks = need(m, f"traffic_banks_{total}", lambda m, name: _banks(m, name, total))
            f(f"  call void @{banks}(ptr {cells}, <32 x i32> {offset}, i32 {part})")

        f.when(f.let(f"icmp ne i32 {part}, 0"), in_shared)
        if atomic:
            rest = lanes("ugt", L.LOCAL_WINDOW)
            f.when(f.let(f"icmp ne i32 {rest}, 0"), lambda: count_global(m, f, total, True, rest))
        f("  ret void")
        return f.text()

    return need(m, f"traffic_{'atomic' if atomic else 'generic'}_{total}", build)
