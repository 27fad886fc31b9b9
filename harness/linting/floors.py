"""Errors against the floors of a dtype alone, which no reference has a part in.

The limits of a case follow the honest models where these are beyond the floors of harness/check.py. A wrong expected()
makes every model look far off, widens the limits, and so passes right kernels and itself.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harness import check
from harness.linting.records import Check, KernelResult, Outcome, of_track
from harness.problem import Problem
from harness.results import ErrorStats

FAR = 20.0  # times the floors; models and kernels of problems/ stray 1.1 times at most, half of an answer 70 and more


def of_answer(found: np.ndarray, expected: np.ndarray, kind: str, dtype: str) -> float:
    """The worst error of an output over the floor; `kind` is its `check` in problem.yaml."""
    return check.measure(found, expected, check.limits_for(kind, expected, [], dtype)).ratio


def of_stats(error: ErrorStats, kind: str, dtype: str) -> float:
    """The same of an output that was measured before."""
    limits = check.limits_for(kind, np.zeros((1, 1)), [], dtype).abc
    found = (error.row_max, error.row_norm, error.total_norm)
    return max((figure / limit for figure, limit in zip(found, limits, strict=True) if limit), default=0.0)


def honest_kernels(track: Problem, honest: Sequence[KernelResult]) -> Check:
    """Whether honest kernels are accepted by the floors, or thanks to what honest() allows alone."""
    for kernel in honest:
        far = {name: ratio for name, ratio in kernel.strayed.items() if ratio > FAR}
        if 2 * len(far) > len(kernel.strayed):
            name = max(far, key=lambda name: far[name])
            message = (
                f"{kernel.file}: {far[name]:.3g} times beyond the floors of {track.dtype} in {name}, and far beyond "
                f"on {len(far)} of {len(kernel.strayed)} tests: accepted only since honest() widens the limits"
            )
            return of_track(track, "floors", Outcome.WARNING, message, {"worst": far[name]})
    worst = max((ratio for kernel in honest for ratio in kernel.strayed.values()), default=0.0)
    message = f"honest kernels reach {worst:.2g} times the floors of {track.dtype}"
    return of_track(track, "floors", Outcome.SOUND, message, {"worst": worst})
