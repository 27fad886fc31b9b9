"""disguise() keeps the answer: expected() of the disguised inputs is the disguised expected()."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harness import cases
from harness.cases import Case
from harness.disguise import Disguise
from harness.linting.answers import inputs_of
from harness.linting.case_store import CaseStore
from harness.linting.records import Check, Outcome, of_track
from harness.problem import Problem

_CLOSE = 1e-9  # of float64 answers whose sums run in another order
_SEEDS = 2


def kept_answers(track: Problem, store: CaseStore, seeds: Sequence[int]) -> Check:
    """Every test, disguised once for each of the first seeds. Raises ProblemError for a disguise against the rules."""
    if not hasattr(store.reference, "disguise"):
        return of_track(track, "disguise", Outcome.SOUND, "reference.py has none")
    changed, total = 0, 0
    for seed in seeds[:_SEEDS]:
        for spec in track.tests:
            case = store.get(track, spec, seed)
            drawn = cases.draw_disguise(track, store.reference, inputs_of(case), np.random.default_rng(seed))
            wrong = _wrong_output(case, store, drawn)
            if wrong:
                file = track.directory / "reference.py"
                message = f"{file}: disguise() of {spec.name}, seed {seed}, changes the answer: {wrong} differs"
                return of_track(track, "disguise", Outcome.REFUSED, message)
            total += 1
            changed += any(np.asarray(value).tobytes() != np.asarray(drawn.applied(name, value)).tobytes()
                           for name, value in inputs_of(case).items() if isinstance(value, np.ndarray))  # fmt: skip
    message = f"disguised inputs have the disguised answer; {changed} of {total} differ from the plain ones"
    return of_track(track, "disguise", Outcome.SOUND, message, {"changed": changed, "total": total})


def _wrong_output(case: Case, store: CaseStore, drawn: Disguise) -> str:
    """The first output whose answer the disguise does not keep; "" where it keeps all."""
    inputs = {name: drawn.applied(name, value) if isinstance(value, np.ndarray) else value
              for name, value in inputs_of(case).items()}  # fmt: skip
    answer = store.reference.expected(inputs)
    for name, expected in case.expected.items():
        wanted = drawn.applied(name, expected)
        finite = wanted[np.isfinite(wanted)]
        size = float(np.sqrt(np.square(finite).mean())) if finite.size else 0.0
        if not np.allclose(answer[name], wanted, rtol=_CLOSE, atol=_CLOSE * size):
            return name
    return ""
