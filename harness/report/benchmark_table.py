"""A problem's benchmarks before anything ran: the least work of each, and what it takes at the speed of light."""

from __future__ import annotations

from dataclasses import dataclass

from harness import cases
from harness.cards import Card
from harness.cases import Cost
from harness.measure import ceilings
from harness.parameters import in_short
from harness.problem import CaseSpec, Problem
from harness.reference import load_reference

_HEADINGS = ("benchmark", "kind", "bytes", "FLOPs", "FLOPs/byte", "speed of light", "bound by")
_LEFT = ("benchmark", "kind", "bound by")
_PREFIXES = ("", "k", "M", "G", "T", "P")


@dataclass(frozen=True)
class Row:
    """One benchmark, every figure with its unit. `parameters`: "num_splits 32, rows 32", those that are not left at
    their defaults."""

    name: str
    kind: str
    bytes: str
    flops: str
    intensity: str  # FLOPs over bytes
    speed_of_light: str
    bound: str  # "memory" or "arithmetic": what takes that long
    parameters: str


def rows(problem: Problem, card: Card) -> list[Row]:
    """All benchmarks of a track, on a card. Raises ProblemError."""
    reference = load_reference(problem)
    peaks = _ceilings(problem, card)
    return [
        Row(spec.name, spec.kind, *_figures(cases.cost(problem, reference, spec), *peaks), parameters(problem, spec))
        for spec in problem.benchmarks
    ]


def benchmark_lines(problem: Problem, card: Card) -> list[str]:
    """A heading, and for each benchmark a line of figures and one with its parameters. Raises ProblemError."""
    found = rows(problem, card)
    cells = [(r.name, r.kind, r.bytes, r.flops, r.intensity, r.speed_of_light, r.bound) for r in found]
    heading, *lines = _aligned([_HEADINGS, *cells])
    for row, line in zip(found, lines, strict=True):
        heading += f"\n{line}\n  {row.parameters}"
    return heading.split("\n")


def basis(problem: Problem, card: Card) -> str:
    """What the speed of light is taken from."""
    bandwidth, rate = _ceilings(problem, card)
    dtype = "bfloat16, of which q is" if problem.dtype == "float8_e4m3" else problem.dtype
    return f"{card.full_name}, data sheet: {_scaled(bandwidth)}B/s, {_scaled(rate)}FLOP/s in {dtype}"


def _ceilings(problem: Problem, card: Card) -> tuple[float, float]:
    """Bytes/s and FLOP/s of the data sheet, chosen as for scores."""
    found = ceilings.datasheet(card)
    return found.bandwidth, ceilings.rate_for(found, problem.dtype)


def parameters(problem: Problem, spec: CaseSpec) -> str:
    """"num_splits 32, rows 32": the parameters that are not left at their defaults."""
    defaults = {parameter.name: parameter.default for parameter in problem.case_parameters}
    given = [(name, value) for name, value in spec.parameters.items() if value != defaults[name]]
    return ", ".join(f"{name} {in_short(value)}" for name, value in given)


def _figures(cost: Cost, bandwidth: float, rate: float) -> tuple[str, str, str, str, str]:
    moving, computing = cost.bytes / bandwidth, cost.flops / rate
    intensity = f"{cost.flops / cost.bytes:.{0 if cost.flops > 10 * cost.bytes else 2}f}" if cost.bytes else "-"
    bound = "memory" if moving >= computing else "arithmetic"
    return f"{_scaled(cost.bytes)}B", _scaled(cost.flops).strip(), intensity, _seconds(max(moving, computing)), bound


def _aligned(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    sides = ["<" if heading in _LEFT else ">" for heading in _HEADINGS]
    return ["  ".join(f"{c:{s}{w}}" for c, s, w in zip(row, sides, widths, strict=True)).rstrip() for row in rows]


def _scaled(amount: float) -> str:
    """Three digits and a prefix: "134 M"."""
    step = 0
    while amount >= 999.5 and step < len(_PREFIXES) - 1:
        amount, step = amount / 1000, step + 1
    return f"{_three_digits(amount)} {_PREFIXES[step]}"


def _seconds(seconds: float) -> str:
    factor, unit = (1e6, "us") if seconds < 1e-3 else (1e3, "ms")
    return f"{_three_digits(seconds * factor)} {unit}"


def _three_digits(amount: float) -> str:
    return f"{amount:.{2 if amount < 9.995 else 1 if amount < 99.95 else 0}f}"
