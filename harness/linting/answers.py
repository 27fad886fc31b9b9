"""Whether the reference's own answers keep to the limits, and come out alike when a seed is drawn again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from harness import cases, check
from harness.case_list import CaseSpec
from harness.cases import Case
from harness.check import ErrorLimits
from harness.linting import floors
from harness.linting.case_store import CaseStore
from harness.linting.records import Check, Outcome, of_track
from harness.problem import Problem

_SLOW_SEEDS = 2  # for what calls the reference again
_NEAR = 0.8  # of a limit


def inputs_of(case: Case) -> dict[str, Any]:
    """What make_inputs() gave."""
    return {a.name: a.value for a in case.arguments if a.role != "out"}


def accepted_reference(track: Problem, store: CaseStore, seeds: Sequence[int]) -> Check:
    """The float64 answer, rounded to the outputs' types, passes on every test and seed."""
    worst, place = 0.0, ""
    for seed in seeds:
        for spec in track.tests:
            case = store.get(track, spec, seed)
            for name, expected in case.expected.items():
                ratio = error_ratio(_rounded(case, name), expected, case.limits[name])
                if not ratio <= worst:
                    worst, place = ratio, f"{name} of {case.name}, seed {seed}"
    tests = f"{len(track.tests)} tests x {len(seeds)} seeds"
    figures = {"worst": worst}
    if worst <= 1:
        message = f"rounded to the outputs' types, expected() keeps to the limits on {tests}: {worst:.2g} of them"
        return of_track(track, "reference", Outcome.SOUND, message, figures)
    file = track.directory / "reference.py"
    message = f"{file}: expected(), rounded to the outputs' types, is beyond the limits: {worst:.3g} times, at {place}"
    return of_track(track, "reference", Outcome.REFUSED, message, figures)


def accepted_models(track: Problem, store: CaseStore, seeds: Sequence[int]) -> Check:
    """Every honest() model passes, also against limits that are made from the others alone, and is not far beyond the
    floors of the dtype."""
    worst = {"worst": (0.0, ""), "left_out": (0.0, ""), "floors": (0.0, "")}
    for seed in seeds[:_SLOW_SEEDS]:
        for spec in track.tests:
            for name, ratios in _of_models(track, store, spec, seed):
                for figure, ratio in ratios.items():
                    if not ratio <= worst[figure][0]:
                        worst[figure] = ratio, f"{name} of test {spec.name}, seed {seed}"
    (reached, place), (alone, _), (far, far_place) = worst.values()
    figures = {figure: ratio for figure, (ratio, _) in worst.items()}
    file = track.directory / "reference.py"
    said = (
        f"honest() models reach {reached:.2f} of the limits, {alone:.2f} of limits made without them, {far:.2f} of the "
        f"floors"
    )
    if not reached <= 1:
        return of_track(track, "models", Outcome.REFUSED, f"{file}: {said}: {place}", figures)
    if not far <= floors.FAR:
        beyond = f"the models are {far:.3g} times beyond the floors of {track.dtype} in {far_place}"
        message = f"{file}: expected() or honest() is wrong: {beyond}"
        return of_track(track, "models", Outcome.REFUSED, message, figures)
    return of_track(track, "models", Outcome.SOUND if alone <= 1 else Outcome.WARNING, said, figures)


def _of_models(track: Problem, store: CaseStore, spec: CaseSpec, seed: int) -> Iterator[tuple[str, dict[str, float]]]:
    """For each output, the worst model against the limits of a test, those made without it, and the dtype's floors."""
    case = store.get(track, spec, seed)
    models = list(store.reference.honest(dict(inputs_of(case))))
    for name, expected in case.expected.items():
        answers = [model[name] for model in models]
        yield name, {
            "worst": max((error_ratio(answer, expected, case.limits[name]) for answer in answers), default=0.0),
            "left_out": _left_out(track, case, name, answers),
            "floors": max((_over_floors(track, case, name, answer) for answer in answers), default=0.0),
        }


def _over_floors(track: Problem, case: Case, name: str, answer: np.ndarray) -> float:
    with np.errstate(all="ignore"):
        return floors.of_answer(answer, case.expected[name], case.limits[name].kind, track.dtype)


def _left_out(track: Problem, case: Case, name: str, answers: list[np.ndarray]) -> float:
    """The worst model over limits that it had no part in."""
    kind, expected = case.limits[name].kind, case.expected[name]
    ratios = [0.0]
    for number, answer in enumerate(answers):
        others = answers[:number] + answers[number + 1 :]
        ratios.append(error_ratio(answer, expected, check.limits_for(kind, expected, others, track.dtype)))
    return max(ratios)


def repeatable(track: Problem, store: CaseStore, seed: int) -> Check:
    """The same seed gives the same case again, as a report's `repeat` line promises."""
    for spec in track.tests:
        first, again = store.get(track, spec, seed), cases.build_one(track, store.reference, spec, seed)
        pairs = [(a.name, a.value, b.value) for a, b in zip(first.arguments, again.arguments, strict=True)
                 if a.role != "out"]  # fmt: skip
        pairs += [(name, first.expected[name], again.expected[name]) for name in first.expected]
        for name, one, other in pairs:
            if np.asarray(one).tobytes() != np.asarray(other).tobytes():
                file = track.directory / "reference.py"
                message = f"{file}: {name} of {spec.name} differs when seed {seed} is drawn again: use `rng` alone"
                return of_track(track, "repeatable", Outcome.REFUSED, message)
    return of_track(track, "repeatable", Outcome.SOUND, "a seed gives the same inputs and answers again")


def _rounded(case: Case, name: str) -> np.ndarray:
    like = next(a.value for a in case.arguments if a.name == name)
    with np.errstate(all="ignore"):
        return np.asarray(case.expected[name].astype(np.asarray(like).dtype))


def error_ratio(found: np.ndarray, expected: np.ndarray, limits: ErrorLimits) -> float:
    """The worst error over its limit."""
    with np.errstate(all="ignore"):  # limits may be infinite where the models are far off
        return check.measure(found, expected, limits).ratio
