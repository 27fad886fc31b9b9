"""Whether the limits keep out answers that are none.

A test tells kernels apart only where answers differ by more than the limits allow. So on most tests zeros, the mean of
all rows, a copy of an input and the answer to another seed's inputs must be out of limits, and each input tensor must
matter: the answer changes where another seed's takes its place.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from harness.cases import Case
from harness.linting.answers import error_ratio, inputs_of
from harness.linting.case_store import CaseStore
from harness.linting.records import Check, Outcome, of_track
from harness.problem import Problem

_WANTED_SHARE = 0.5  # of the tests that keep a cheap answer out


def cheap_answers(track: Problem, store: CaseStore, seeds: Sequence[int]) -> Iterator[Check]:
    """Cheap answers against the limits, output by output: on how many tests they are kept out."""
    kept_out: dict[tuple[str, str], list[str]] = {}
    let_in: dict[tuple[str, str], list[str]] = {}
    for spec in track.tests:
        case, second = (store.get(track, spec, seed) for seed in _two(seeds))
        for name, expected in case.expected.items():
            for cheat, answer in _cheap_answers(case, second, name):
                out = not error_ratio(answer, expected, case.limits[name]) <= 1
                (kept_out if out else let_in).setdefault((name, cheat), []).append(spec.name)
    for name, cheat in {**kept_out, **let_in}:
        yield _contrast(track, name, cheat, kept_out.get((name, cheat), []), let_in.get((name, cheat), []))


def _two(seeds: Sequence[int]) -> tuple[int, int]:
    """The first two seeds; after a single one the next number."""
    return seeds[0], seeds[1] if len(seeds) > 1 else seeds[0] + 1


def _contrast(track: Problem, name: str, cheat: str, out: list[str], let_in: list[str]) -> Check:
    share = len(out) / (len(out) + len(let_in))
    outcome = Outcome.SOUND if share >= _WANTED_SHARE else Outcome.WARNING if out else Outcome.REFUSED
    message = f"{cheat} for {name}: out of limits on {len(out)} of {len(out) + len(let_in)} tests"
    if let_in:
        message += f", within on {', '.join(let_in[:4])}{' ...' if len(let_in) > 4 else ''}"
    return of_track(track, "contrast", outcome, message, {"share": share})


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
    names = [tensor.name for tensor in track.tensors if tensor.role == "in"]
    idle, same = set(names), set(names)
    for spec in track.tests:
        case, second = (store.get(track, spec, seed) for seed in _two(seeds))
        for name in sorted(idle):
            mine, theirs = inputs_of(case)[name], inputs_of(second)[name]
            if mine.shape != theirs.shape or mine.tobytes() == theirs.tobytes():
                continue
            same.discard(name)
            if _changes(case, store, name, theirs):
                idle.discard(name)
    if dead := sorted(idle - same):
        message = f"another seed's {', '.join(dead)} changes no test's answer by more than its limits"
        return of_track(track, "effect", Outcome.REFUSED, message)
    untold = f" (not told of {', '.join(sorted(same))}, equal for all seeds)" if same else ""
    return of_track(track, "effect", Outcome.SOUND, f"each input tensor changes the answer{untold}")


def _changes(case: Case, store: CaseStore, name: str, array: np.ndarray) -> bool:
    try:
        with np.errstate(all="ignore"):
            answer = store.reference.expected({**inputs_of(case), name: array})
    except Exception:  # another seed's table of indices need not fit these inputs
        return False
    return any(not error_ratio(answer[output], expected, case.limits[output]) <= 1
               for output, expected in case.expected.items())  # fmt: skip
