"""Benchmarks for a person at a terminal: a table with a row for each case and its baselines, and what it ran on.

    benchmarks
                                       time                        of its  speed of
    case                             median  GB/s  TFLOP/s        ceiling     light  score
    heads_32_seq_4096_d64  6.42 ms +- 0.4 %  20.9     21.4   35 % compute   2.24 ms   34.9  NOISY
      torch SDPA, math              8.10 ms  16.6     17.0  0.79x as fast

Where the terminal is too narrow for that, names stand on lines of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.text import Text

from harness.measure.records import Baseline, Benchmark
from harness.report import figures, measurement
from harness.report.excerpt import printable
from harness.results import Report

# Both lines of a head, and its one line where the upper says that the figure is modelled.
_HEADS = (
    ("time", "median", "time"),
    ("", "GB/s", "GB/s"),
    ("", "TFLOP/s", "TFLOP/s"),
    ("of its", "ceiling", "of ceiling"),
    ("speed of", "light", "speed of light"),
    ("", "score", "score"),
)
_HEAD = "bold"
_MODELLED = "modelled"
_AGAINST = 3  # columns from here on rest on the ceilings, too
_GAP = "  "


@dataclass(frozen=True)
class _Row:
    name: str
    cells: tuple[str, ...]  # right-aligned, in the columns of _HEADS; the row may end early
    end: str = ""  # behind the last cell
    style: str = ""


def parts(report: Report, columns: int) -> Iterator[Text]:
    """What the terminal shows; nothing where no benchmark has figures."""
    found = measurement.benchmarks(report)
    if not found:
        return
    heads = _heads(measurement.modelled(report), measurement.unmeasured_ceilings(report))
    rows = [_Row("", heads[0], style=_HEAD), _Row("case", heads[1], style=_HEAD)]
    for case, benchmark in found:
        rows += _rows(case.name, benchmark, report.dtype)
    yield Text(f"\n{'modelled ' if measurement.unmeasured_ceilings(report) else ''}benchmarks", style="bold")
    yield from _aligned(rows, columns)
    if any(benchmark.timing and benchmark.timing.noisy for _, benchmark in found):
        yield Text(measurement.NOISY, style="yellow", overflow="fold")
    yield from _ran_on(report, columns)


def _heads(times: bool, ceilings: bool) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Both lines of the heads; a column that nothing was measured for says so."""
    heads = [
        (_MODELLED, short) if times or (ceilings and number >= _AGAINST) else (upper, lower)
        for number, (upper, lower, short) in enumerate(_HEADS)
    ]
    return tuple(upper for upper, _ in heads), tuple(lower for _, lower in heads)


def _rows(name: str, benchmark: Benchmark, dtype: str) -> Iterator[_Row]:
    noisy = bool(benchmark.timing and benchmark.timing.noisy)
    cells = (
        measurement.time(benchmark), figures.gigabytes(benchmark.bandwidth), figures.teraflops(benchmark.rate),
        measurement.share(benchmark), figures.seconds(benchmark.sol_seconds), figures.score(benchmark.score),
    )  # fmt: skip
    yield _Row(printable(name), cells, "NOISY" if noisy else "", "yellow" if noisy else "")
    if text := measurement.emulated(benchmark):
        yield _Row(f"  {printable(text)}", ())
    for baseline in benchmark.baselines:
        yield _baseline(baseline, benchmark, dtype)


def _baseline(baseline: Baseline, benchmark: Benchmark, dtype: str) -> _Row:
    """Its bandwidth is left out where its tensors are of another type, since it moves other bytes."""
    same = baseline.dtype in ("", dtype)
    name = f"  {printable(measurement.baseline(baseline, dtype))}"
    if not baseline.seconds > 0:
        return _Row(f"{name}: {printable(baseline.note or 'did not run')}", ())
    bandwidth = figures.gigabytes(benchmark.bytes / baseline.seconds) if same else figures.NOTHING
    rate = figures.teraflops(benchmark.flops / baseline.seconds)
    speed = f"{figures.times(benchmark.seconds / baseline.seconds)} as fast"
    note = f"({printable(baseline.note)})" if baseline.note else ""
    return _Row(name, (figures.seconds(baseline.seconds), bandwidth, rate, speed), note)


def _aligned(rows: Sequence[_Row], columns: int) -> Iterator[Text]:
    widths = [max(cell_len(row.cells[n]) for row in rows if n < len(row.cells)) for n in range(len(_HEADS))]
    name = max(cell_len(row.name) for row in rows if row.cells)
    one_line = name + sum(widths) + len(_GAP) * len(widths) + len(f"{_GAP}NOISY") <= columns
    for row in rows:
        cells = _GAP.join(" " * (width - cell_len(cell)) + cell for cell, width in zip(row.cells, widths, strict=False))
        cells = f"{cells}{_GAP}{row.end}".rstrip()
        if one_line and row.cells:
            yield _text(f"{row.name}{' ' * (name - cell_len(row.name))}{_GAP}{cells}", row.style)
        else:
            if row.style != _HEAD:
                yield _text(row.name, row.style)
            if row.cells:
                yield _text(f"{_GAP}{cells}", row.style)


def _text(line: str, style: str) -> Text:
    return Text(line, style=style, overflow="fold")


def _ran_on(report: Report, columns: int) -> Iterator[Text]:
    """The card with its ceilings and clocks, broken between figures and never within one."""
    if not report.ceilings:
        return
    peaks = measurement.peaks(report.ceilings)
    conditions = [text for text in (measurement.set_against(report), *measurement.conditions(report)) if text]
    pieces = [f"{measurement.card(report.ceilings)}:", *(f"{peak}," for peak in peaks[:-1])]
    pieces += [f"{peaks[-1]};" if conditions else peaks[-1]] if peaks else []
    pieces += [f"{condition}," for condition in conditions[:-1]] + conditions[-1:]
    line = ""
    for piece in map(printable, pieces):
        if line and cell_len(line) + 1 + cell_len(piece) > columns:
            yield Text(line, overflow="fold")
            line = " "
        line = f"{line} {piece}" if line else piece
    yield Text(line, overflow="fold")
