"""Whether the reference's own answers keep to the limits, and whether the limits keep out answers that are none.

A test tells kernels apart only where answers differ by more than the limits allow. So on most tests zeros, the mean of
all rows, a copy of an input and the answer to another seed's inputs must be out of limits, and each input tensor must
matter: the answer changes where another seed's takes its place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from harness import cases, check
from harness.cases import Case
from harness.check import ErrorLimits
from harness.linting.case_store import CaseStore
from harness.linting.records import Check, Outcome
from harness.problem import Problem

_SLOW_SEEDS = 2  # for what calls the reference again
_WANTED_SHARE = 0.5  # of the tests that keep a cheap answer out
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
                ratio = _ratio(_rounded(case, name), expected, case.limits[name])
                if not ratio <= worst:
                    worst, place = ratio, f"{name} of {case.name}, seed {seed}"
    tests = f"{len(track.tests)} tests x {len(seeds)} seeds"
    figures = {"worst": worst}
    if worst <= 1:
        message = f"rounded to the outputs' types, expected() keeps to the limits on {tests}: {worst:.2g} of them"
        return _check(track, "reference", Outcome.SOUND, message, figures)
    file = track.directory / "reference.py"
    message = f"{file}: expected(), rounded to the outputs' types, is beyond the limits: {worst:.3g} times, at {place}"
    return _check(track, "reference", Outcome.REFUSED, message, figures)


def accepted_models(track: Problem, store: CaseStore, seeds: Sequence[int]) -> Check:
    """Every honest() model passes, also against limits that are made from the others alone."""
    worst, alone, place = 0.0, 0.0, ""
    for seed in seeds[:_SLOW_SEEDS]:
        for spec in track.tests:
            case = store.get(track, spec, seed)
            models = list(store.reference.honest(dict(inputs_of(case))))
            for name, expected in case.expected.items():
                answers = [model[name] for model in models]
                ratio = max((_ratio(answer, expected, case.limits[name]) for answer in answers), default=0.0)
                if not ratio <= worst:
                    worst, place = ratio, f"{name} of {case.name}, seed {seed}"
                alone = max(alone, _left_out(track, case, name, answers))
    figures = {"worst": worst, "left_out": alone}
    said = f"honest() models reach {worst:.2f} of the limits, {alone:.2f} of limits made without them"
    if not worst <= 1:
        file = track.directory / "reference.py"
        return _check(track, "models", Outcome.REFUSED, f"{file}: {said}: {place}", figures)
    return _check(track, "models", Outcome.SOUND if alone <= 1 else Outcome.WARNING, said, figures)


def _left_out(track: Problem, case: Case, name: str, answers: list[np.ndarray]) -> float:
    """The worst model over limits that it had no part in."""
    kind = next(tensor.check for tensor in track.outputs if tensor.name == name)
    expected = case.expected[name]
    ratios = [0.0]
    for number, answer in enumerate(answers):
        others = answers[:number] + answers[number + 1 :]
        ratios.append(_ratio(answer, expected, check.limits_for(kind, expected, others, track.dtype)))
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
                return _check(track, "repeatable", Outcome.REFUSED, message)
    return _check(track, "repeatable", Outcome.SOUND, "a seed gives the same inputs and answers again")


def contrast(track: Problem, store: CaseStore, seeds: Sequence[int]) -> Iterator[Check]:
    """Cheap answers against the limits, output by output: on how many tests they are kept out."""
    other = seeds[1] if len(seeds) > 1 else seeds[0] + 1
    kept_out: dict[tuple[str, str], list[str]] = {}
    let_in: dict[tuple[str, str], list[str]] = {}
    for spec in track.tests:
        case, second = (store.get(track, spec, seed) for seed in (seeds[0], other))
        for name, expected in case.expected.items():
            for cheat, answer in _cheap_answers(case, second, name):
                out = not _ratio(answer, expected, case.limits[name]) <= 1
                (kept_out if out else let_in).setdefault((name, cheat), []).append(spec.name)
    for name, cheat in {**kept_out, **let_in}:
        yield _contrast(track, name, cheat, kept_out.get((name, cheat), []), let_in.get((name, cheat), []))


def _contrast(track: Problem, name: str, cheat: str, out: list[str], let_in: list[str]) -> Check:
    share = len(out) / (len(out) + len(let_in))
    outcome = Outcome.SOUND if share >= _WANTED_SHARE else Outcome.WARNING if out else Outcome.REFUSED
    message = f"{cheat} for {name}: out of limits on {len(out)} of {len(out) + len(let_in)} tests"
    if let_in:
        message += f", within on {', '.join(let_in[:4])}{' ...' if len(let_in) > 4 else ''}"
    return _check(track, "contrast", outcome, message, {"share": share})


def _cheap_answers(case: Case, second: Case, name: str) -> Iterator[tuple[str, np.ndarray]]:
    expected = case.expected[name]
    yield "zeros", np.zeros_like(expected)
    if case.limits[name].kind == "rows":
        rows = expected.reshape(-1, expected.shape[-1])
        if len(rows) > 1:
            yield "the mean of all rows", np.broadcast_to(rows.mean(axis=0), expected.shape)
    if second.expected[name].shape == expected.shape:
        yield "the answer to another seed", second.expected[name]
    for a in case.arguments:
        if a.role == "in" and isinstance(a.value, np.ndarray) and a.value.shape == expected.shape:
            yield f"a copy of {a.name}", a.value.astype(np.float64)


def effects(track: Problem, store: CaseStore, seeds: Sequence[int]) -> Check:
    """Whether each input tensor has an effect on some output of some test."""
    other = seeds[1] if len(seeds) > 1 else seeds[0] + 1
    names = [tensor.name for tensor in track.tensors if tensor.role == "in"]
    idle, same = set(names), set(names)
    for spec in track.tests:
        case, second = (store.get(track, spec, seed) for seed in (seeds[0], other))
        for name in sorted(idle):
            mine, theirs = inputs_of(case)[name], inputs_of(second)[name]
            if mine.shape != theirs.shape or mine.tobytes() == theirs.tobytes():
                continue
            same.discard(name)
            if _changes(case, store, name, theirs):
                idle.discard(name)
    if dead := sorted(idle - same):
        message = f"another seed's {', '.join(dead)} changes no test's answer by more than its limits"
        return _check(track, "effect", Outcome.REFUSED, message)
    untold = f" (not told of {', '.join(sorted(same))}, equal for all seeds)" if same else ""
    return _check(track, "effect", Outcome.SOUND, f"each input tensor changes the answer{untold}")


def _changes(case: Case, store: CaseStore, name: str, array: np.ndarray) -> bool:
    try:
        with np.errstate(all="ignore"):
            answer = store.reference.expected({**inputs_of(case), name: array})
    except Exception:  # another seed's table of indices need not fit these inputs
        return False
    return any(not _ratio(answer[output], expected, case.limits[output]) <= 1
               for output, expected in case.expected.items())  # fmt: skip


def _rounded(case: Case, name: str) -> np.ndarray:
    like = next(a.value for a in case.arguments if a.name == name)
    with np.errstate(all="ignore"):
        return np.asarray(case.expected[name].astype(np.asarray(like).dtype))


def _ratio(found: np.ndarray, expected: np.ndarray, limits: ErrorLimits) -> float:
    with np.errstate(all="ignore"):  # limits may be infinite where the models are far off
        return check.measure(found, expected, limits).ratio


def _check(
    track: Problem, name: str, outcome: Outcome, message: str, figures: Mapping[str, float] | None = None
) -> Check:
    return Check(name, outcome, message, track.dtype, track.variant, figures or {})
