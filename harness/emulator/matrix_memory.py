"""Matrices between memory and registers: what ldmatrix, stmatrix, movmatrix and wmma's loads and stores do, in IR.

Memory is reached through the checked helpers alone (access/), in pieces of at most 16 bytes, one a lane: a row of an
8x8 matrix for ldmatrix and stmatrix, a part of a row or column for wmma. So each piece is checked for bounds and
alignment, and for what else an access of its lane is. The helpers leave word w of lane l's piece at
(w * 32 + l) * 4 of a scratch area; from there it goes to the registers that hold it.
"""

from __future__ import annotations

from dataclasses import dataclass

from harness.emulator import access
from harness.emulator import layout as L
from harness.emulator.access import Needs
from harness.emulator.access.vectors import gather_where, scatter_where, splat
from harness.emulator.irtext import Fn
from harness.emulator.layout import LANES, Context
from harness.emulator.matrix_elements import I16, I32, register_type
from harness.emulator.matrix_layouts import BYTES, Fragment

PIECE = 16  # bytes that one lane reads or writes at most
GROUP = LANES * PIECE  # bytes of scratch that 32 lanes fill
_ALL = "splat (i1 true)"


def scratch_bytes() -> int:
    """Of the largest matrix: 32x8 floats, or 32x16 halves."""
    return 2 * GROUP


def _moved(m: Needs, f: Fn, space: str, words: int, store: bool, address: str, lanes: int, place: str) -> str:
    """Whether the first `lanes` lanes' pieces of so many words could be moved between memory and the scratch area."""
    if space == "generic":
        name = access.generic_s(m, 4, words, store, ordered=False)
    else:
        name = access.slow(m, space, 4, words, store)
    mask = -1 if lanes == LANES else (1 << lanes) - 1
    operands = f"ptr %ctx, ptr %warp, <32 x i64> {address}, i32 {mask}, i32 %insn, ptr {place}"
    return f.let(f"call i1 @{name}({operands})")


def _at(f: Fn, offset: int) -> str:
    return f.let(f"getelementptr i8, ptr %res, i64 {offset}") if offset else "%res"


# -- 8x8 matrices of 16-bit elements: lane l holds elements 2 (l % 4) and the next of row l / 4


def _rows_moved(m: Needs, f: Fn, space: str, store: bool, count: int) -> str:
    """Whether the rows of so many matrices could be moved. Their generic addresses must be of shared memory."""
    if space == "shared":
        return _moved(m, f, "shared", 4, store, "%a", 8 * count, "%res")
    window = L.SHARED_WINDOW << L.WINDOW_BITS
    offset = f.let(f"sub <32 x i64> %a, splat (i64 {window})")
    ok = _moved(m, f, "shared", 4, store, offset, 8 * count, "%res")

    def generic_again() -> None:
        address = f.get("%ctx", Context, "fault_address")
        f.put("%ctx", Context, "fault_address", f.let(f"add i64 {address}, {window}"))

    f.when(f.let(f"xor i1 {ok}, true"), generic_again, likely=False)
    return ok


def ldmatrix_helper(m: Needs, name: str, space: str, count: int, transposed: bool) -> str:
    """(addresses) -> { a register for each matrix, ok }. Lane 8 j + r has the address of row r of matrix j."""
    kind = access.values_type(32, count, vector=True)
    f = Fn(f"define internal {kind} @{name}(ptr %ctx, ptr %warp, <32 x i64> %a, i32 %insn, ptr %res) noinline {{")
    f("entry:")
    ok = _rows_moved(m, f, space, False, count)
    result = "poison"
    for j in range(count):
        value = _matrix_from_rows(f, j)
        value = transpose(f, value) if transposed else value
        result = f.let(f"insertvalue {kind} {result}, {I32} {value}, {j}")
    f(f"  ret {kind} {f.let(f'insertvalue {kind} {result}, i1 {ok}, {count}')}")
    return f.text()


def stmatrix_helper(m: Needs, name: str, space: str, count: int, transposed: bool) -> str:
    """(addresses, a register for each matrix) -> ok"""
    values = "".join(f", {I32} %v{j}" for j in range(count))
    f = Fn(f"define internal i1 @{name}(ptr %ctx, ptr %warp, <32 x i64> %a{values}, i32 %insn, ptr %res) noinline {{")
    f("entry:")
    for j in range(count):
        value = transpose(f, f"%v{j}") if transposed else f"%v{j}"
        for word in range(4):
            order = ", ".join(f"i32 {4 * row + word}" for row in range(8))
            rows = f.let(f"shufflevector {I32} {value}, {I32} poison, <8 x i32> <{order}>")
            f(f"  store <8 x i32> {rows}, ptr {_at(f, 4 * (LANES * word + 8 * j))}, align 4")
    f(f"  ret i1 {_rows_moved(m, f, space, True, count)}")
    return f.text()


def _matrix_from_rows(f: Fn, j: int) -> str:
    """Matrix j, of which lanes 8 j to 8 j + 7 have read a row each, spread over all lanes."""
    words = [f.let(f"load <8 x i32>, ptr {_at(f, 4 * (LANES * w + 8 * j))}, align 4") for w in range(4)]
    zip_ = ", ".join(f"i32 {8 * (n % 2) + n // 2}" for n in range(16))
    left, right = (
        f.let(f"shufflevector <8 x i32> {a}, <8 x i32> {b}, <16 x i32> <{zip_}>") for a, b in (words[:2], words[2:])
    )
    order = ", ".join(f"i32 {16 * (n % 4 // 2) + n // 4 * 2 + n % 2}" for n in range(LANES))
    return f.let(f"shufflevector <16 x i32> {left}, <16 x i32> {right}, <32 x i32> <{order}>")


def transpose(f: Fn, value: str) -> str:
    """An 8x8 matrix turned around."""
    bits = f.let(f"bitcast {I32} {value} to <64 x i16>")
    order = ", ".join(f"i32 {8 * (n % 8) + n // 8}" for n in range(64))
    turned = f.let(f"shufflevector <64 x i16> {bits}, <64 x i16> poison, <64 x i32> <{order}>")
    return f.let(f"bitcast <64 x i16> {turned} to {I32}")


def transpose_helper(m: Needs, name: str) -> str:
    f = Fn(f"define internal {I32} @{name}({I32} %v) noinline {{\nentry:")
    f(f"  ret {I32} {transpose(f, '%v')}")
    return f.text()


# -- fragments of wmma


@dataclass(frozen=True)
class Stored:
    """A matrix in memory and in registers: `lines` rows or columns, each of `length` elements side by side."""

    fragment: Fragment
    kind: str
    lines: int
    length: int
    column_major: bool

    @property
    def piece(self) -> int:
        return min(PIECE, self.length * BYTES[self.kind])

    @property
    def pieces(self) -> int:
        return self.lines * self.length * BYTES[self.kind] // self.piece

    @property
    def register_type(self) -> str:
        return f"<{LANES} x {register_type(self.kind)}>"

    def scratch(self, row: int, column: int) -> int:
        """Where the element is in the scratch area."""
        line, position = (column, row) if self.column_major else (row, column)
        byte = (line * self.length + position) * BYTES[self.kind]
        number, inside = divmod(byte, self.piece)
        group, lane = divmod(number, LANES)
        return GROUP * group + 4 * (LANES * (inside // 4) + lane) + inside % 4


def wmma_load_helper(m: Needs, name: str, space: str, s: Stored) -> str:
    """(address, stride in elements) -> { registers, ok }"""
    kind = "{ " + ", ".join([s.register_type] * s.fragment.registers + ["i1"]) + " }"
    f = Fn(
        f"define internal {kind} @{name}(ptr %ctx, ptr %warp, i64 %base, i64 %stride, i32 %insn, ptr %res) noinline {{"
    )
    f("entry:")
    _move_pieces(m, f, space, s, store=False)
    result = "poison"
    for r in range(s.fragment.registers):
        value = _register(f, s, s.fragment.places[r * s.fragment.per : (r + 1) * s.fragment.per])
        result = f.let(f"insertvalue {kind} {result}, {s.register_type} {value}, {r}")
    f(f"  ret {kind} {f.let(f'insertvalue {kind} {result}, i1 true, {s.fragment.registers}')}")
    f(f"bad:\n  ret {kind} zeroinitializer")
    return f.text()


def wmma_store_helper(m: Needs, name: str, space: str, s: Stored) -> str:
    """(address, stride in elements, registers) -> ok"""
    values = "".join(f", {s.register_type} %v{r}" for r in range(s.fragment.registers))
    f = Fn(
        f"define internal i1 @{name}(ptr %ctx, ptr %warp, i64 %base, i64 %stride{values}, i32 %insn, ptr %res) "
        "noinline {"
    )
    f("entry:")
    for r in range(s.fragment.registers):
        _spread(f, s, f"%v{r}", s.fragment.places[r * s.fragment.per : (r + 1) * s.fragment.per])
    _move_pieces(m, f, space, s, store=True)
    f("  ret i1 true\nbad:\n  ret i1 false")
    return f.text()


def _move_pieces(m: Needs, f: Fn, space: str, s: Stored, store: bool) -> None:
    """Move the whole matrix between memory and the scratch area, 32 pieces at a time; to %bad if one is refused."""
    line_bytes = s.length * BYTES[s.kind]
    base, pitch = splat(f, "%base", "i64"), splat(f, f.let(f"mul i64 %stride, {BYTES[s.kind]}"), "i64")
    for start in range(0, s.pieces, LANES):
        numbers = [min(n, s.pieces - 1) for n in range(start, start + LANES)]
        lines, offsets = zip(*(divmod(n * s.piece, line_bytes) for n in numbers), strict=True)
        down = f.let(f"mul <32 x i64> {pitch}, {_constant(lines)}")
        address = f.let(f"add <32 x i64> {f.let(f'add <32 x i64> {base}, {down}')}, {_constant(offsets)}")
        count, place = min(LANES, s.pieces - start), _at(f, GROUP * (start // LANES))
        if m.traced:
            window = L.SHARED_WINDOW << L.WINDOW_BITS if space == "shared" else 0
            whole = f.let(f"or <32 x i64> {address}, splat (i64 {window})")
            access.trace_lanes(m, f, whole, (1 << count) - 1, s.piece, store)
        ok, on = _moved(m, f, space, s.piece // 4, store, address, count, place), f.new_label()
        f(f"  br i1 {ok}, label %{on}, label %bad, !prof !2\n{on}:")


def _constant(numbers: tuple[int, ...], kind: str = "i64") -> str:
    return "<" + ", ".join(f"{kind} {n}" for n in numbers) + ">"


def _places(s: Stored, lanes: tuple[tuple[int, int], ...]) -> tuple[int, ...]:
    return tuple(s.scratch(row, column) for row, column in lanes)


def _whole_words(s: Stored, elements: list[tuple[int, ...]]) -> bool:
    """Whether the elements of a register lie side by side in one word of the scratch area, for every lane."""
    size = BYTES[s.kind]
    return all(
        place % 4 == 0 and all(at[lane] == place + e * size for e, at in enumerate(elements))
        for lane, place in enumerate(elements[0])
    )


def _pointers(f: Fn, places: tuple[int, ...]) -> str:
    return f.let(f"getelementptr i8, ptr %res, <32 x i32> {_constant(places, 'i32')}")


def _gather(f: Fn, places: tuple[int, ...]) -> str:
    return gather_where(f, 32, _pointers(f, places), _ALL)


def _register(f: Fn, s: Stored, elements: tuple[tuple[tuple[int, int], ...], ...]) -> str:
    """One register of every lane, out of the scratch area."""
    places = [_places(s, lanes) for lanes in elements]
    if s.kind == "f64":
        low, high = (_gather(f, tuple(p + more for p in places[0])) for more in (0, 4 * LANES))
        low, high = (f.let(f"zext {I32} {v} to <32 x i64>") for v in (low, high))
        return f.let(f"or <32 x i64> {low}, {f.let(f'shl <32 x i64> {high}, splat (i64 32)')}")
    if _whole_words(s, places):
        return _gather(f, places[0])
    bits = 8 * BYTES[s.kind]
    result = ""
    for e, at in enumerate(places):
        word = _gather(f, tuple(p & ~3 for p in at))
        value = f.let(f"lshr {I32} {word}, {_constant(tuple(8 * (p & 3) for p in at), 'i32')}")
        value = f.let(f"and {I32} {value}, splat (i32 {(1 << bits) - 1})")
        value = f.let(f"shl {I32} {value}, splat (i32 {bits * e})") if e else value
        result = f.let(f"or {I32} {result}, {value}") if result else value
    return result


def _spread(f: Fn, s: Stored, value: str, elements: tuple[tuple[tuple[int, int], ...], ...]) -> None:
    """One register of every lane, into the scratch area."""
    places = [_places(s, lanes) for lanes in elements]
    if s.kind == "f64":
        high = f.let(f"lshr <32 x i64> {value}, splat (i64 32)")
        for part, more in ((value, 0), (high, 4 * LANES)):
            word = f.let(f"trunc <32 x i64> {part} to {I32}")
            scatter_where(f, 32, word, _pointers(f, tuple(p + more for p in places[0])), _ALL)
    elif _whole_words(s, places):
        scatter_where(f, 32, value, _pointers(f, places[0]), _ALL)
    else:  # halves, each on its own
        for e, at in enumerate(places):
            half = f.let(f"lshr {I32} {value}, splat (i32 16)") if e else value
            scatter_where(f, 16, f.let(f"trunc {I32} {half} to {I16}"), _pointers(f, at), _ALL)
