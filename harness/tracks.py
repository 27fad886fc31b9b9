"""Which track of a problem a submission is for: its solve() tells by the C types of its parameters.

The text is read, not compiled (harness/compile/declarations.py). What is written in a way that this does not see
through (a list of parameters that a macro with arguments makes, for example) can still be judged when the track is
named.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

from harness.compile.declarations import Types, declared, defined_twice
from harness.problem import BASE, Problem
from harness.signature import Parameter, Tensor


@dataclass(frozen=True)
class Match:
    """The problem in the track that a submission is for. `exact`: solve() has its types; otherwise it is the nearest,
    and `note` says which others there are. It also names the track of another solve() in the text, if there is one, for
    when the text does not compile."""

    problem: Problem
    exact: bool
    note: str = ""


def find(problem: Problem, text: str, dtype: str | None = None, variant: str | None = None) -> Match:
    """The track of a submission's `text`; of those with that dtype and that variant, where they are given. Raises
    UsageError for a dtype or variant that the problem does not have."""
    problem.track(dtype, variant)
    every = list(problem.tracks())
    allowed = [t for t in every if dtype in (None, t.dtype) and variant in (None, t.variant)]
    found = [each.types for each in declared(text)]
    fits = [track for types in found for track in every if types_of(track) == types]
    exact = next((track for track in fits if track in allowed), None)
    if exact:  # of two definitions neither compiles, in whichever track
        return Match(exact, True, "" if len(fits) < 2 or defined_twice(text) else _advice(exact, fits))
    kin, first = (fits[0].dtype, types_of(fits[0])) if fits else ("", found[0] if found else ())
    nearest = max(allowed, key=lambda track: (track.dtype == kin, *_likeness(types_of(track), first)))
    return Match(nearest, False, _advice(nearest, fits) or _note(nearest, every, bool(found)))


def types_of(problem: Problem) -> Types:
    """The types that solve() takes in a track."""
    return tuple(map(_written, problem.signature))


def _written(parameter: Parameter) -> str:
    return f"{parameter.type}*" if isinstance(parameter, Tensor) else parameter.type


def _likeness(expected: Types, found: Types) -> tuple[bool, float]:
    """The number of parameters comes first: a wrong type among them is likelier than one too few."""
    return len(expected) == len(found), difflib.SequenceMatcher(None, expected, found, autojunk=False).ratio()


def _advice(judged: Problem, fits: Sequence[Problem]) -> str:
    """How to judge a solve() of the text that is for another track; "" where there is none."""
    other = next((track for track in fits if track != judged), None)
    if other is None:
        return ""
    which = "another solve()" if judged in fits else "solve()"
    variant = f" --variant {other.variant}" * (other.variant != BASE or judged.variant != BASE)
    return (
        f"{which} has the parameters of {title(other)}, but this was judged in {title(judged)}: "
        f"judge it with --dtype {other.dtype}{variant}"
    )


def _note(nearest: Problem, every: Sequence[Problem], declares: bool) -> str:
    """Why this track, and which others there are; "" for a problem with one track."""
    others = [title(track) for track in every if track != nearest]
    if not others:
        return ""
    why = "its parameters are those of no track" if declares else "its parameters could not be read"
    return (
        f"solve() was taken to be for {title(nearest)}, the nearest: {why}; other tracks: {'; '.join(others)}: "
        f"`judge.py show {nearest.id} --dtype DTYPE --variant VARIANT` shows the parameters of each"
    )


def title(problem: Problem) -> str:
    """A track's name: "bfloat16", and with a variant that is not the first "bfloat16, lse"."""
    return problem.dtype if problem.variant == problem.variants[0].name else f"{problem.dtype}, {problem.variant}"
