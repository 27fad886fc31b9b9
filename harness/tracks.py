"""Which track of a problem a submission is for: its solve() tells by the C types of its parameters.

The text is read, not compiled: comments go, macros without arguments are replaced, names of types are followed through
`using` and `typedef`. What is written in a way that this does not see through (a list of parameters that a macro with
arguments makes, for example) can still be judged when the track is named.

The text may be hostile: nothing here takes longer than its length allows, which is what all the limits are for.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.problem import Problem
from harness.signature import Parameter, Tensor

Types = tuple[str, ...]  # of the parameters in order, as "float*" and "int"

_SPACE = re.compile(r"\\[ \t]*\n|//[^\n]*|/\*.*?(?:\*/|\Z)", re.S)
_MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+([^\n]{1,2000})$", re.M)
_USING = re.compile(r"\busing\s+(\w+)\s*=\s*([^;{}()]{1,200});")
_TYPEDEF = re.compile(r"\btypedef\s+([^;{}()]{1,200}?)\b(\w{1,200})\s*;")
_SOLVE = re.compile(r"\bsolve\s*\(([^(){};]*)\)\s*(?:noexcept\s*)?(\{|;)")
_TOKEN = re.compile(r"\w+|[*&]|\[\s*\w*\s*\]")
_QUALIFIERS = frozenset({"const", "volatile", "__restrict__", "__restrict", "restrict", "struct", "typename", "std",
                         "signed"})  # fmt: skip
_SAME = {  # other names of the types that signatures have
    "half": "__half", "nv_bfloat16": "__nv_bfloat16", "int32_t": "int",
}  # fmt: skip
_TYPES = frozenset({"void", "bool", "char", "short", "int", "long", "unsigned", "float", "double", "size_t", "__half",
                    "__nv_bfloat16", "__nv_fp8_e4m3", "__nv_fp8_e5m2"})  # fmt: skip
_DEEPEST = 8  # names that stand for names
_LONGEST = 1 << 14  # characters of a list of parameters
_MOST = 64  # parameters


@dataclass(frozen=True)
class Match:
    """The problem in the track that a submission is for. `exact`: solve() has its types; otherwise it is the nearest,
    and `note` says which others there are."""

    problem: Problem
    exact: bool
    note: str = ""


def find(problem: Problem, text: str, dtype: str | None = None, variant: str | None = None) -> Match:
    """The track of a submission's `text`; of those with that dtype and that variant, where they are given. Raises
    UsageError for a dtype or variant that the problem does not have."""
    problem.track(dtype, variant)
    every = list(problem.tracks())
    allowed = [t for t in every if dtype in (None, t.dtype) and variant in (None, t.variant)]
    found = parameter_types(text)
    exact = next((track for track in allowed if types_of(track) == found), None)
    if exact:
        return Match(exact, True)
    nearest = max(allowed, key=lambda track: _likeness(types_of(track), found or ()))
    fits = next((track for track in every if types_of(track) == found), None)
    return Match(nearest, False, _note(nearest, every, fits))


def types_of(problem: Problem) -> Types:
    """The types that solve() takes in a track."""
    return tuple(map(_written, problem.signature))


def _written(parameter: Parameter) -> str:
    return f"{parameter.type}*" if isinstance(parameter, Tensor) else parameter.type


def _likeness(expected: Types, found: Types) -> float:
    return difflib.SequenceMatcher(None, expected, found, autojunk=False).ratio()


def _note(nearest: Problem, every: Sequence[Problem], fits: Problem | None) -> str:
    """What else solve() could look like; "" for a problem with one track."""
    others = [title(track) for track in every if track != nearest]
    if not others:
        return ""
    if fits:
        return f"solve() has the parameters of {title(fits)}, but was to be judged in {title(nearest)}"
    return (
        f"solve() was taken to be for {title(nearest)}; its parameters would also be right for {'; '.join(others)}: "
        f"`judge.py show {nearest.id} --dtype DTYPE --variant VARIANT` shows them"
    )


def title(problem: Problem) -> str:
    """A track's name: "bfloat16", and with a variant that is not the first "bfloat16, lse"."""
    return problem.dtype if problem.variant == problem.variants[0].name else f"{problem.dtype}, {problem.variant}"


def parameter_types(text: str) -> Types | None:
    """The types of the last definition of solve(), of the last declaration where nothing defines it; None where
    nothing declares it either."""
    plain = _SPACE.sub(lambda found: "" if found[0].startswith("\\") else " ", text)
    names = dict(_names(plain))
    lists = _SOLVE.findall(plain)
    chosen = [body for body, end in lists if end == "{"] or [body for body, _ in lists]
    if not chosen:
        return None
    parameters = [each for each in _replaced(chosen[-1], names).split(",") if each.strip()][:_MOST]
    return () if [each.strip() for each in parameters] == ["void"] else tuple(_type(each, names) for each in parameters)


def _names(text: str) -> Iterator[tuple[str, str]]:
    """(name, what it stands for) of macros and types."""
    yield from ((name, body.strip()) for name, body in _MACRO.findall(text))
    yield from ((name, body.strip()) for name, body in _USING.findall(text))
    yield from ((name, body.strip()) for body, name in _TYPEDEF.findall(text))


def _replaced(text: str, names: Mapping[str, str]) -> str:
    """With every name replaced that stands for something else, and again in what came of that."""
    for _ in range(_DEEPEST):
        text = text[:_LONGEST]
        after = re.sub(r"\w+", lambda found: names.get(found[0], found[0]), text)
        if after == text:
            break
        text = after
    return text


def _type(parameter: str, names: Mapping[str, str]) -> str:
    """`const half *__restrict__ q` -> "__half*"."""
    tokens = [token for token in _TOKEN.findall(parameter.split("=")[0]) if token not in _QUALIFIERS]
    words = [_SAME.get(token, token) for token in tokens if token[0] not in "*&["]
    marks = "".join("*" if token[0] == "[" else token for token in tokens if token[0] in "*&[")
    if len(words) > 1 and words[-1] not in _TYPES:
        words.pop()  # the parameter's own name
    return " ".join(words) + marks
