"""Every row of the emulator's instruction tables on a card: all triples of 16 edges, all pairs of 24, random operands.

The rows are those of tests/test_emulator_*.py, and some for which there is no model in Python; what counts here is that
both sides give the same bits. A row that the assembler or the emulator refuses is listed, the others go on without it.
"""

from __future__ import annotations

import importlib
import json
import random
import sys
import threading
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import numpy as np

import tests
from tests.gpu.differential_children import RAN, REFUSED, Assemble, Child, Reply, Run
from tests.random_ptx.compare import both_nan
from tests.random_ptx.types import FORMATS, float_bits, integer_bits

try:
    import pytest  # noqa: F401
except ImportError:
    sys.modules["pytest"] = MagicMock()  # the tables stand in test modules; a machine with a card may have no pytest

from tests.ptx_table import BITS, LANES, Row, kernel_text

TRIPLES, PAIRS = 16, 24  # edges of which all triples, or pairs, are taken
_EXACT = TRIPLES**3 + -(-(PAIRS**2) // LANES) * LANES
COUNT = _EXACT + 3520  # operand tuples of every row
GROUP = 24  # rows of a kernel
_SECONDS = 120.0
_FIRST_FLOATS = {
    "f16": (0, 0x8000, 0x3C00, 0xBC00, 1, 0x8001, 0x3FF, 0x400, 0x7BFF, 0xFBFF, 0x7C00, 0xFC00, 0x7E00, 0xFE01, 0x3C01, 0x6400,
            0x3800, 0x3E00, 0x4248, 0x7C01, 0x57F8, 0x5BF8, 0x6800, 0xB801),
    "f32": (0, 0x80000000, 0x3F800000, 0xBF800000, 1, 0x80000001, 0x7FFFFF, 0x800000, 0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000, 0xFF800000,
            0x7FC00000, 0xFFC00001, 0x3F800001, 0x4B800001, 0x3F000000, 0x3FC00000, 0x4F000000, 0x7F800001, 0x5F000000, 0x43FF8000,
            0x4F7FFFFF, 0xBF7FFFFF),
    "f64": (0, 1 << 63, 0x3FF << 52, 0xBFF << 52, 1, 1 << 63 | 1, (1 << 52) - 1, 1 << 52, 0x7FEFFFFFFFFFFFFF, 0xFFEFFFFFFFFFFFFF,
            0x7FF << 52, 0xFFF << 52, 0x7FF8 << 48, 0xFFF8000000000001, 0x3FF0000000000001, 0x433 << 52 | 1, 0x3FE << 52, 0x3FF8 << 48,
            0x41E << 52, 0x7FF0000000000001, 0x43E << 52, 0x36A << 52, 0x380FFFFFF0000000, 0xBFEFFFFFFFFFFFFF),
}  # fmt: skip


@dataclass
class Result:
    """Of one row: rows of a card's results that differ from the emulator's."""

    table: str
    text: str
    verdict: str
    count: int = 0
    payloads: int = 0
    example: str = ""
    note: str = ""


@dataclass
class Tables:
    """What came out so far."""

    results: list[Result] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, result: Result) -> None:
        with self.lock:
            self.results.append(result)


def tables() -> dict[str, list[Row]]:
    """All rows, by test module and table."""
    found: dict[str, list[Row]] = {}
    for path in sorted(Path(tests.__file__ or "").parent.glob("test_emulator_*.py")):
        if "\nTABLES = {" in path.read_text():
            known = importlib.import_module(f"tests.{path.stem}").TABLES
            found |= {f"{path.stem[14:]} {name}": list(rows) for name, rows in known.items()}
    return found | {"half as it is": _bare_halves(), "more": _more()}


def _row(text: str, d: str, *operands: str) -> Row:
    return Row(text, d, operands, lambda *v: 0)


def _bare_halves() -> list[Row]:
    """The half instructions with the NaN that they give."""
    rows = []
    for kind in ("f16", "bf16"):
        for width, suffix in (("b16", kind), ("b32", f"{kind}x2")):
            for op, count in (("add.rn", 2), ("sub.rn", 2), ("mul.rn", 2), ("fma.rn", 3), ("fma.rn.relu", 3), ("min", 2), ("max", 2),
                              ("min.NaN", 2), ("max.NaN", 2), ("neg", 1), ("abs", 1)):  # fmt: skip
                rows.append(_row(f"{op}.{suffix}", width, *(width,) * count))
    for op in ("add.rn.sat", "mul.rn.sat", "add.rn.ftz", "mul.rn.ftz", "fma.rn.ftz", "fma.rn.sat", "fma.rn.ftz.sat"):
        rows.append(_row(f"{op}.f16", "b16", *("b16",) * (3 if "fma" in op else 2)))
    return rows


def _more() -> list[Row]:
    """Conversions of bf16, tf32 and fp8, and what else has no model."""
    rows = [_row(f"cvt.{m}.bf16.f32", "b16", "f32") for m in ("rn", "rz")]
    rows += [_row(f"cvt.rn.relu.{k}.f32", "b16", "f32") for k in ("bf16", "f16")]
    rows += [_row(f"cvt.{m}.tf32.f32", "b32", "f32") for m in ("rna", "rn", "rz")]
    rows += [_row(f"cvt.{m}{relu}.{k}x2.f32", "b32", "f32", "f32") for m in ("rn", "rz") for relu in ("", ".relu") for k in ("f16", "bf16")]
    for f in ("e4m3x2", "e5m2x2"):
        rows += [_row(f"cvt.rn.satfinite.{f}.f32", "b16", "f32", "f32"), _row(f"cvt.rn.satfinite.relu.{f}.f32", "b16", "f32", "f32"),
                 _row(f"cvt.rn.satfinite.{f}.f16x2", "b16", "b32"), _row(f"cvt.rn.f16x2.{f}", "b32", "b16")]  # fmt: skip
    for kind in ("s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64"):
        register = "b16" if BITS[kind] == 8 else kind
        rows += [_row(f"cvt.{m}.f16.{kind}", "b16", register) for m in ("rz", "rm", "rp")]
        if BITS[kind] > 8:
            rows += [_row(f"cvt.{m}i.{kind}.bf16", register, "b16") for m in ("rn", "rz", "rm", "rp")]
            rows += [_row(f"cvt.{m}.bf16.{kind}", "b16", register) for m in ("rn", "rz", "rm", "rp")]
    rows += [_row(f"{op}.xorsign.abs.f32", "f32", "f32", "f32") for op in ("min", "max")]
    rows += [_row(f"cvt.{m}.bf16.bf16", "b16", "b16") for m in ("rni", "rzi", "rmi", "rpi")]
    return rows


def operands(kind: str, position: int) -> np.ndarray:
    """Bits of operand number `position` of a type in every tuple."""
    edges, rng = _edges(kind), np.random.default_rng([position, BITS[kind], kind[0] == "f"])
    n = np.arange(COUNT)
    picked = rng.integers(0, len(edges), COUNT)
    if position < 3:
        picked[: TRIPLES**3] = n[: TRIPLES**3] // TRIPLES**position % TRIPLES
    if position < 2:
        picked[TRIPLES**3 : _EXACT] = n[: _EXACT - TRIPLES**3] // PAIRS**position % PAIRS
    values = edges[picked]
    values[_EXACT:] = _random(kind, position)
    return values


@cache
def _edges(kind: str) -> np.ndarray:
    bits = BITS[kind]
    if kind in _FIRST_FLOATS:
        return np.array(_FIRST_FLOATS[kind], np.uint64)
    if kind == "pred":
        return np.arange(PAIRS, dtype=np.uint64) % np.uint64(2)
    if kind == "b16":  # halves of both formats as well
        bfloats = [0x3F80, 0xBF80, 1, 0x80, 0x7F80, 0xFF80, 0x7FC0, 0x3F81]
        return np.array([*_FIRST_FLOATS["f16"][:12], 0x7E00, 0x3F80, 0x7F80, 0x3C01, *bfloats], np.uint64)
    top = 1 << bits - 1
    values = [0, 1, 2, 3, 7, 8, 31, 32, bits - 1, bits, 255, top - 1, top, top + 1, 2 * top - 1, 2 * top - 2, 5, 33, 63, 64, 65, 127, 128, 10]
    if kind == "b32":  # packed halves of both formats
        values[16:] = [0x3C003C00, 0x7E00FC00, 0x00018001, 0x7BFF7BFF, 0x3F803F80, 0x7F80FF80, 0x7FC00001, 0x3C00BF80]
    return np.array(values, np.uint64) & np.uint64(2 * top - 1)


@cache
def _random(kind: str, position: int) -> np.ndarray:
    rng = random.Random(f"{kind} {position}")
    float_kind = kind if kind in FORMATS else {"b16": rng.choice(["f16", "bf16"])}.get(kind)
    values = [rng.getrandbits(1) if kind == "pred" else float_bits(float_kind, rng) if float_kind and rng.random() < 0.7
              else integer_bits(BITS[kind], rng) for _ in range(COUNT - _EXACT)]  # fmt: skip
    return np.array(values, np.uint64)


def compare(emulators: Sequence[Child], other: Child, folder: Path, out: Path) -> bool:
    """Print a line a table and every row that differs; whether one does."""
    found, turn = Tables(), threading.Lock()
    groups = [(name, rows[k : k + GROUP]) for name, rows in tables().items() for k in range(0, len(rows), GROUP)]
    free = list(emulators)

    def one(numbered: tuple[int, tuple[str, list[Row]]]) -> None:
        n, (name, rows) = numbered
        with found.lock:
            child = free.pop()
        try:
            _Group(name, child, other, turn, folder / f"table_{n}", found).run(rows)
        finally:
            with found.lock:
                free.append(child)

    with ThreadPoolExecutor(len(emulators)) as pool:
        list(pool.map(one, enumerate(groups)))
    _print(found.results)
    (out / "tables.json").write_text(json.dumps([vars(r) for r in found.results if r.verdict != "equal"], indent=1))
    return any(r.verdict in ("different", "lost") for r in found.results)


@dataclass
class _Group:
    """Rows of one table that go through both sides as one kernel; halved where a side does not take them."""

    table: str
    child: Child
    other: Child
    turn: threading.Lock
    stem: Path
    found: Tables

    def run(self, rows: list[Row]) -> None:
        replies, note = self._sides(rows)
        if replies:
            self._judge(rows, *replies)
        elif len(rows) > 1:
            half = len(rows) // 2
            for suffix, part in (("a", rows[:half]), ("b", rows[half:])):
                _Group(self.table, self.child, self.other, self.turn, self.stem.with_name(self.stem.name + suffix), self.found).run(part)
        else:
            self.found.add(Result(self.table, rows[0].text, REFUSED if "refused" in note else "lost", note=note))

    def _sides(self, rows: list[Row]) -> tuple[list[Reply], str]:
        """The emulator's results with varying and with uniform operands, and the other side's; or why there are none."""
        replies = []
        for shape, grid in (("varying", COUNT // LANES), ("uniform", COUNT)):
            stem = self.stem.with_name(f"{self.stem.name}_{shape}")
            text = kernel_text(rows, shape, COUNT)
            stem.with_suffix(".ptx").write_text("\n".join(line for line in text.splitlines() if not line.startswith(".loc")))
            request = Run(stem, "k", (bank_of(rows), np.zeros((len(rows), COUNT), np.uint64)), grid, LANES, optimise=False)
            if shape == "varying":
                built = self.child.call(Assemble(stem), _SECONDS)
                if built.status != RAN:
                    return [], f"refused by the assembler: {built.note}"
                with self.turn:
                    there = self.other.call(request, _SECONDS)
                if there.status != RAN:
                    return [], f"the other side: {there.status} {there.note}"
            here = self.child.call(request, _SECONDS)
            if here.status != RAN:
                return [], f"the emulator: {here.status} {here.note}"
            replies.append(here)
        return [*replies, there], ""

    def _judge(self, rows: list[Row], varying: Reply, uniform: Reply, there: Reply) -> None:
        for n, row in enumerate(rows):
            results = [_row_result(self.table, row, n, here, there) for here in (varying, uniform)]
            self.found.add(max(results, key=lambda r: (r.count, r.payloads)))


def bank_of(rows: Sequence[Row]) -> np.ndarray:
    """Operands in the order of tests.ptx_table.kernel_text."""
    return np.stack([operands(kind, k) for kind, k in sorted({(kind, k) for row in rows for k, kind in enumerate(row.operands)})])


def _row_result(table: str, row: Row, n: int, here: Reply, there: Reply) -> Result:
    ours, card = here.arrays[1][n], there.arrays[1][n]
    apart = np.flatnonzero(ours != card)
    nans = np.array([both_nan(_nan_kind(row), int(ours[i]), int(card[i])) for i in apart], bool)
    real = apart[~nans]
    verdict = "different" if real.size else "NaN payload" if apart.size else "equal"
    example = ""
    if apart.size:
        i = int(real[0] if real.size else apart[0])
        values = ", ".join(f"{int(operands(kind, k)[i]):#x}" for k, kind in enumerate(row.operands))
        example = f"({values}): emulator {int(ours[i]):#x}, other side {int(card[i]):#x}"
    return Result(table, row.text, verdict, int(real.size), int(nans.sum()), example)


def _nan_kind(row: Row) -> str:
    """In which format a result may be a NaN: of the destination, or of halves in untyped registers."""
    if row.d in FORMATS or "{" in row.text:
        return row.d
    parts = row.text.split(".")
    kind = parts[-2] if parts[0] == "cvt" else parts[-1]
    return "f32" if kind == "tf32" else kind


def _print(results: list[Result]) -> None:
    counts: dict[str, Counter[str]] = {}
    for r in results:
        counts.setdefault(r.table, Counter())[r.verdict] += 1
    verdicts = ("equal", "NaN payload", "different", REFUSED, "lost")
    print(f"{'table':26}{'rows':>6}" + "".join(f"{v:>13}" for v in verdicts) + f"   ({COUNT} operand tuples a row)")
    for name, c in sorted(counts.items()):
        print(f"{name:26}{sum(c.values()):6}" + "".join(f"{c[v]:13}" for v in verdicts))
    for r in sorted(results, key=lambda r: r.table):
        if r.verdict in ("different", "lost"):
            print(f"   {r.verdict} [{r.count}] {_short(r.text)} {r.example or r.note}")
    refused = [_short(r.text) + (" (by the assembler)" if "assembler" in r.note else "") for r in results if r.verdict == REFUSED]
    print(f"   refused: {', '.join(refused)[:1500]}" if refused else "   none refused")
    _print_common([r for r in results if r.verdict == "NaN payload"])


def _print_common(payloads: list[Result]) -> None:
    """NaN patterns, one example a table."""
    seen: dict[str, Any] = {}
    for r in payloads:
        seen.setdefault(r.table, r)
    for r in seen.values():
        print(f"   NaN payload, e.g. {_short(r.text)} {r.example}")


def _short(text: str) -> str:
    return text if len(text) < 90 else text[:87] + "..."
