"""Outputs against the float64 reference: how far off, where, and whether that is too far.

Theory of operation. Attention outputs differ in size from row to row by orders of magnitude, so an absolute tolerance
passes nonsense and an element-wise relative one fails honest kernels near zero. A *row* is the last axis (one head's
output vector). With e = found - expected and r the expected row, three figures must each keep to a limit:

    A  max |e| / rms(r)           every row      one wrong element shows
    B  |e| / |r|                  every row      a wrong row shows
    C  |e| / |expected|           whole tensor   lost precision everywhere shows

rms(r) has a floor of 2^-14 of the tensor's rms, so that rows which are zero must come out zero up to that. The limits
of a case are the table below, or a multiple of what honest kernels of the dtype stray on that very case, whichever is
larger. The table lies above what honest kernels of a dtype stray on hostile data (tiles and splits of any size, weights
rounded to the type of the inputs, answers to that of the outputs, 2^x with an error of 2^-20), and below the nearest
cheats: sums in the type of the inputs, scores in bfloat16, a cache rounded to something narrower.

Outputs declared `check: elements` must keep to |e| <= F (1e-5 + 1e-6 |expected|) element by element. F is 1, or twice
what honest kernels stray. For `check: log_sum_exp`, of scores that come from the tensors of the track's dtype, F is at
least u / 1e-5, where u is what rounding to the dtype of the weights may change, 2^-9 in bfloat16 and 2^-12 in float16:
libraries (FlashInfer's m16k16_rowsum among them) add weights up on tensor cores, after they were rounded, which is as
good for the answer. Tensor cores' own sums, which cut off at 2^-25 of the largest term, always towards zero and alike
for all keys of a row, need less than F = 1 for scores near 100.

NaN fails: every comparison asks whether the figure is within its limit, never whether it is beyond, since NaN answers
false to both. Infinities must match exactly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from harness import explain, mismatch_map
from harness.errors import ProblemError
from harness.results import ErrorStats, Finding, MismatchMap
from harness.verdict import FindingKind

if TYPE_CHECKING:
    from harness.cases import Case

FLOORS = {  # LA, LB, LC by dtype
    "float32": (2e-4, 5e-5, 1e-5),
    "float16": (6e-3, 8.5e-4, 4.3e-4),
    "bfloat16": (4.2e-2, 6.8e-3, 3.4e-3),
    "float8_e4m3": (5e-2, 7e-3, 3.5e-3),  # of the cache alone: weights keep 8 bits at least, answers are bfloat16
}
_OVER_HONEST = (2.0, 2.0, 1.5)
_ROW_FLOOR = 2.0**-14
_ABSOLUTE, _RELATIVE = 1e-5, 1e-6  # of `elements`
LOG_SUM_EXP_FLOORS = {"float32": 1.0, "float16": 25.0, "bfloat16": 200.0, "float8_e4m3": 200.0}  # F
_NO_LIMIT = (1.0, 1.0, 1.0)  # to measure by


@dataclass(frozen=True)
class ErrorLimits:
    """How far one output may stray. For `elements`, A is the worst |e| over 1e-5 + 1e-6 |expected|, LA the factor F; LB
    and LC are unused."""

    kind: str  # "rows" or "elements"
    abc: tuple[float, float, float]


@dataclass(frozen=True)
class Errors:
    """One output's distance from its reference, element by element and in the three figures."""

    distance: np.ndarray  # |e| in the output's shape; inf where only one side is finite, or both differ in infinity
    allowed: np.ndarray  # the limit on each element's |e|, broadcastable to the same shape
    per_row: np.ndarray  # [rows, 2]: A and B; for `elements` [elements, 2]: A and 0
    total: float  # C
    limits: ErrorLimits

    @property
    def row_ratios(self) -> np.ndarray:
        """[rows]: the worse of A and B over its limit."""
        ratios: np.ndarray = (self.per_row / np.maximum(self.limits.abc[:2], 1e-300)).max(axis=1)
        return ratios

    @property
    def ratio(self) -> float:
        """The worst figure over its limit; at most 1 when accepted."""
        return max(float(self.row_ratios.max()), self.total / max(self.limits.abc[2], 1e-300))


class Comparison(NamedTuple):
    """All outputs of a case: of each how far it is off, and of those that are wrong what is said and shown of it."""

    errors: list[ErrorStats]
    findings: list[Finding]
    mismatches: list[MismatchMap]


def limits_for(kind: str, expected: np.ndarray, honest: Sequence[np.ndarray], dtype: str) -> ErrorLimits:
    """Limits of one output of one case of a dtype track; `kind` is its `check` in problem.yaml. `expected` float64;
    `honest`: the same output from honest kernels of that dtype, as float32 or as stored. Raises ProblemError where one
    of them has NaN or an infinity that the reference has not."""
    floors = _floors(kind, dtype)
    kind = "rows" if kind == "rows" else "elements"
    worst = np.zeros(3)
    for model in honest:
        errors = measure(model, expected, ErrorLimits(kind, _NO_LIMIT))
        if not np.isfinite(errors.distance).all():
            raise ProblemError("honest(): a model is not finite where the reference is; no limit follows from it")
        worst = np.maximum(worst, (*errors.per_row.max(axis=0), errors.total))
    strayed = np.multiply(_OVER_HONEST, worst)
    la, lb, lc = (float(limit) for limit in np.maximum(floors, strayed))
    return ErrorLimits(kind, (la, lb, lc))


def _floors(kind: str, dtype: str) -> tuple[float, float, float]:
    if kind == "rows":
        return FLOORS[dtype]
    return (LOG_SUM_EXP_FLOORS[dtype] if kind == "log_sum_exp" else 1.0, 0.0, 0.0)


def measure(found: np.ndarray, expected: np.ndarray, limits: ErrorLimits) -> Errors:
    """Distances of one output [..., row] from its float64 reference of the same shape."""
    distance = _distance(found, expected)
    if limits.kind == "elements":
        unit = _ABSOLUTE + _RELATIVE * np.abs(np.where(np.isfinite(expected), expected, 0))
        ratio = (distance / unit).reshape(-1, 1)
        return Errors(distance, limits.abc[0] * unit, np.hstack([ratio, np.zeros_like(ratio)]), 0.0, limits)
    rms = row_rms(expected)
    e = distance.reshape(-1, distance.shape[-1])
    a = _over(e.max(axis=1), rms)
    b = _over(np.sqrt(np.square(e).mean(axis=1)), rms)
    total = float(_over(np.sqrt(np.square(e).sum()), np.sqrt(np.square(expected).sum())))
    allowed = (limits.abc[0] * rms).reshape(*distance.shape[:-1], 1)
    return Errors(distance, allowed, np.stack([a, b], axis=1), total, limits)


def _distance(found: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """|found - expected|; 0 where both are the same infinity, inf where found is not finite or a finite was wanted."""
    with np.errstate(invalid="ignore"):
        distance: np.ndarray = np.abs(found.astype(np.float64) - expected)
    distance[~np.isfinite(distance)] = np.inf
    distance[found == expected] = 0
    return distance


def row_rms(expected: np.ndarray) -> np.ndarray:
    """[rows]: rms of each row of [..., row], at least 2^-14 of the tensor's."""
    rows = expected.reshape(-1, expected.shape[-1])
    rms: np.ndarray = np.sqrt(np.square(rows).mean(axis=1))
    return np.asarray(np.maximum(rms, _ROW_FLOOR * np.sqrt(np.square(rows).mean())))


def _over(error: np.ndarray, size: np.ndarray) -> np.ndarray:
    """error / size; 0 / 0 is 0 (a tensor that is zero throughout came out zero), anything else over 0 is inf."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(error == 0, 0.0, error / size))


def compare(case: Case, outputs: Mapping[str, np.ndarray], unwritten: Mapping[str, int] | None = None) -> Comparison:
    """Check every output of a case.

    `outputs`: name -> array as the device left it; `unwritten`: name -> elements that no thread ever wrote. The
    findings are empty exactly when the outputs are accepted. Elements never written are one finding and no mismatch.
    """
    stats: list[ErrorStats] = []
    findings: list[Finding] = []
    maps: list[MismatchMap] = []
    for name, expected in case.expected.items():
        found = outputs.get(name)
        wrong_form = _wrong_form(name, found, next(a.value for a in case.arguments if a.name == name))
        if wrong_form or found is None:
            findings.append(Finding(FindingKind.MISMATCH, wrong_form, tensor=name))
            continue
        errors = measure(found, expected, case.limits[name])
        stats.append(_stats(name, found, expected, errors))
        missing = (unwritten or {}).get(name, 0)
        absent = _never_written(found, missing)
        if absent.any():  # what was written is judged by itself
            found = np.where(absent, expected, found)
            errors = measure(found, expected, case.limits[name])
        if not errors.ratio <= 1:  # so written that NaN fails
            findings.append(explain.mismatch(name, found, expected, errors, case.axes[name]))
        if missing:
            findings.append(explain.unwritten(name, absent, missing))
        if absent.any() or not errors.ratio <= 1:
            maps.append(mismatch_map.draw(name, found, expected, errors, absent, case.axes[name]))
    return Comparison(stats, findings, maps)


def _never_written(found: np.ndarray, count: int) -> np.ndarray:
    """Where the device's poison still stands: of NaN with one and the same payload there are `count`. False throughout
    where that is not to be told."""
    nan: np.ndarray = np.isnan(found) & (count > 0)
    if nan.sum() == count:
        return nan
    bits = np.ascontiguousarray(found).view(f"u{found.itemsize}")
    payloads, counts = np.unique(bits[nan], return_counts=True)
    poison = payloads[counts == count]
    return np.asarray(nan & (bits == poison[0])) if len(poison) else np.zeros_like(nan)


def _wrong_form(name: str, found: np.ndarray | None, like: object) -> str:
    assert isinstance(like, np.ndarray)
    if found is None:
        return f"{name} is missing from the run's results"
    if found.shape != like.shape or found.dtype != like.dtype:
        return f"{name} is {found.dtype} {found.shape}, expected {like.dtype} {like.shape}"
    return ""


def _stats(name: str, found: np.ndarray, expected: np.ndarray, errors: Errors) -> ErrorStats:
    finite = np.isfinite(errors.distance)
    rows_shape = found.shape if errors.limits.kind == "elements" else found.shape[:-1]
    worst = np.unravel_index(int(errors.row_ratios.argmax()), rows_shape) if rows_shape else ()
    a, b = errors.per_row.max(axis=0)
    return ErrorStats(
        tensor=name,
        max_abs=float(errors.distance[finite].max(initial=0)),
        worst_row=tuple(int(i) for i in worst),
        row_max=float(a),
        row_norm=float(b),
        total_norm=errors.total,
        limits=errors.limits.abc,
        nan_count=int((~np.isfinite(found) & np.isfinite(expected)).sum()),
        ratio=errors.ratio,
    )
