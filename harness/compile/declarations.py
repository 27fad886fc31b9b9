"""What a submission's text declares as solve(): parameters, their C types, lines. Read, not compiled: macros without
arguments are replaced, names of types are followed through `using` and `typedef` where they can be seen.

The text may be hostile: nothing here takes longer than its length allows, which is what all the limits are for.
"""

from __future__ import annotations

import itertools
import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from harness.compile import preprocessed

Types = tuple[str, ...]  # of the parameters in order, as "float*" and "int"

_SCAN = re.compile(
    r"""^[^\S\n]*+\#[^\S\n]*(?P<directive>define|undef)[^\S\n]+(?P<macro>\w+)(?P<text>[^\n]*)
    | ^[^\S\n]*+\#[^\n]*
    | (?P<block>\bextern\s*"C"\s*\{)
    | (?P<brace>[{}])
    | \busing\s+(?P<alias>\w+)\s*=\s*(?P<type>[^;{}()]{1,200}+);
    | \btypedef\b(?P<typedef>[^;{}()]{1,400}+);
    | \bsolve\s*\((?P<parameters>(?:[^(){};]|\([^(){};]*+\))*+)\)
      \s*+(?:noexcept\s*+(?:\(\w*\)\s*+)?)?(?:->\s*void\s*+)?(?P<end>[{;])""",
    re.M | re.X,
)
_PARAMETER = re.compile(r"(?:[^,()]++|\([^()]*+\))++")
_TOKEN = re.compile(r"\w+|[*&]|\[\s*\w*\s*\]")
_ATTRIBUTE = re.compile(r"\[\[[^\[\]]*\]\]")
_QUALIFIERS = frozenset({"const", "volatile", "__restrict__", "__restrict", "restrict", "struct", "typename", "std",
                         "cuda", "signed"})  # fmt: skip
_SAME = {  # other names of the types that signatures have; those of half are cuda_fp16.h's, of bfloat16 cuda_bf16.h's
    "half": "__half", "nv_half": "__half", "__nv_half": "__half", "nv_bfloat16": "__nv_bfloat16", "int32_t": "int",
}  # fmt: skip
_TYPES = frozenset({"void", "bool", "char", "short", "int", "long", "unsigned", "float", "double", "size_t", "__half",
                    "__nv_bfloat16", "__nv_fp8_e4m3", "__nv_fp8_e5m2"})  # fmt: skip
_DEEPEST = 8  # names that stand for names
_LONGEST = 1 << 12  # characters of a list of parameters
_MOST = 64  # parameters
_CANDIDATES = 16  # declarations of solve() of one text


@dataclass(frozen=True)
class Declaration:
    """One declaration of solve(). `parameters` as they are written, `constant` whether each points at what is const."""

    parameters: tuple[str, ...]
    types: Types
    constant: tuple[bool, ...]
    line: int
    defined: bool
    external: bool  # as extern "C"


@dataclass(frozen=True)
class _Seen:
    """A declaration of solve() in a reading of the text."""

    position: int
    parameters: str
    defined: bool
    external: bool
    free: bool  # in no namespace, type or function


@dataclass
class _Names:
    """What names stand for, each where it is said: position, text (None: no longer anything), outside of all braces."""

    said: dict[str, list[tuple[int, str | None, bool]]] = field(default_factory=dict)

    def add(self, position: int, name: str, text: str | None, outside: bool) -> None:
        self.said.setdefault(name, []).append((position, text, outside))

    def before(self, position: int, inner: bool) -> Mapping[str, str]:
        """What holds there: the nearest before, those inside of braces only where `inner`."""
        found = {}
        for name, every in self.said.items():
            last = bisect_left(every, position, key=lambda each: each[0])
            text = next((text for _, text, outside in reversed(every[:last]) if outside or inner), None)
            if text is not None:
                found[name] = text
        return found


def declared(text: str) -> list[Declaration]:
    """Every declaration of a solve() that a submission can mean, the likeliest first: free functions before others,
    definitions before declarations, those as extern "C" before others, and the later before the earlier."""
    return list(itertools.chain.from_iterable(map(_in_reading, preprocessed.readings(text))))


def defined_twice(text: str) -> tuple[int, int] | None:
    """The lines of two definitions of solve() that exclude each other: both as extern "C", or with the same types."""
    own = [each for each in _in_reading(next(preprocessed.readings(text))) if each.defined]
    own.sort(key=lambda each: each.line)
    pairs = itertools.combinations(own, 2)
    return next(((a.line, b.line) for a, b in pairs if (a.external and b.external) or a.types == b.types), None)


def _in_reading(text: str) -> list[Declaration]:
    names = _Names()
    seen = list(_scan(text, names))
    seen = [each for each in seen if each.free] or seen
    seen.sort(key=lambda each: (each.defined, each.external, each.position), reverse=True)
    return [_declaration(text, each, names.before(each.position, not each.free)) for each in seen[:_CANDIDATES]]


def _scan(text: str, names: _Names) -> Iterator[_Seen]:
    """The declarations of solve() in order; `names` gets what is said of names."""
    braces: list[bool] = []  # of each open one: whether it opens a scope
    depth = 0
    for found in _SCAN.finditer(text):
        opened = found["block"] or found["brace"] == "{"
        if found["macro"]:
            _add_macro(found, names)
        elif found["alias"]:
            names.add(found.start(), found["alias"], found["type"].strip(), not depth)
        elif found["typedef"]:
            _add_typedef(found, names, not depth)
        elif found["end"]:
            head = re.split(r"[;{}]", text[max(0, found.start() - 200) : found.start()])[-1]
            if not re.search(r"(::|\.|->)\s*$", head):
                external = '"C"' in head or (bool(braces) and not depth)
                yield _Seen(found.start(), found["parameters"], found["end"] == "{", external, not depth)
            opened = found["end"] == "{"
        if opened:
            braces.append(not found["block"])
            depth += braces[-1]
        elif found["brace"] and braces:
            depth -= braces.pop()


def _add_macro(found: re.Match[str], names: _Names) -> None:
    if found["directive"] == "undef":
        names.add(found.start(), found["macro"], None, True)
    elif not found["text"].startswith("("):
        names.add(found.start(), found["macro"], found["text"][:2000].strip(), True)


def _add_typedef(found: re.Match[str], names: _Names, outside: bool) -> None:
    said = re.fullmatch(r"(.*\W)(\w+)\s*", found["typedef"], re.S)
    if said:
        names.add(found.start(), said[2], said[1].strip(), outside)


def _declaration(text: str, seen: _Seen, names: Mapping[str, str]) -> Declaration:
    written = _split(seen.parameters)
    meant = _split(_replaced(_ATTRIBUTE.sub(" ", seen.parameters), names))
    types = tuple(_type(each, names) for each in meant)
    constant = tuple({"const", "*"} <= set(_TOKEN.findall(each)) for each in meant)
    line = preprocessed.line_at(text, seen.position)
    return Declaration(tuple(written), types, constant, line, seen.defined, seen.external)


def _split(parameters: str) -> list[str]:
    every = [" ".join(each.split()) for each in _PARAMETER.findall(parameters[:_LONGEST]) if each.strip()][:_MOST]
    return [] if every == ["void"] else every


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

