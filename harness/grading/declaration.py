"""What a file must get: declared in its first comment, or in NAME.expect.yaml beside it.

    // judge: problem=paged_decode verdict=accepted score>=40          in NAME.cu

    problem: paged_decode                                              in NAME.expect.yaml
    verdict: accepted
    score: 40

Both know the keys of `Declaration`, and are read equally strictly: an unknown key is an error with its file and line.
tests/submissions/README.md says what the keys mean.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from harness import document
from harness.document import Section
from harness.errors import UsageError
from harness.grading import files
from harness.verdict import FindingKind, Verdict

SIDECAR = ".expect.yaml"
_VERDICTS = tuple(verdict.value for verdict in Verdict if verdict is not Verdict.JUDGE_ERROR)
_KINDS = tuple(kind.value for kind in FindingKind)
_DIRECTIVE = re.compile(r"\s*(?://+|/?\*+)\s*judge:(.*?)(?:\*/\s*)?$")
_WORD = re.compile(r"([a-z_]+)(>=|=)(.*)\Z", re.S)
_NOT_TEXT = ("score", "emulator_only")
_HEADER_BYTES = 1 << 16  # more than any first comment takes
_SIDECAR_BYTES = 1 << 16  # more than any declaration takes


@dataclass(frozen=True)
class Declaration:
    """What must come of a file, and how it is judged. Empty fields ask for nothing."""

    problem: str = ""  # an id or a problem directory; "": the folders above the file say
    verdict: Verdict = Verdict.ACCEPTED
    finding: str = ""  # a finding of this kind is among the findings
    line_contains: str = ""  # text of a line that a finding (of that kind) points at
    message_contains: tuple[str, ...] = ()  # each is said by a finding, or by the compiler
    cases: str = ""  # as of --cases
    dtype: str = ""
    variant: str = ""
    score: float | None = None  # the least that will do, where times are measured
    emulator_only: bool = False  # a GPU need not answer so
    why: str = ""
    source: str = ""  # a sidecar's: judge this file instead of NAME.cu
    where: str = ""  # "a.cu:1", "a.expect.yaml", both; "" where nothing is declared

    @property
    def given(self) -> bool:
        """Whether anything is declared; where nothing is, a file must be accepted."""
        return self != Declaration()


@dataclass(frozen=True)
class _Part:
    """What one place declares: only what stands there."""

    where: str
    values: dict[str, Any] = field(default_factory=dict)


def read(stem: Path, folder: Path | None = None) -> tuple[Path, Declaration]:
    """The file to judge, and what its first comment and its sidecar declare together. `stem` is the path of either
    without its ending; what leads out of `folder` (absent: the stem's) is not read. A file that must not be opened
    (files.fault) declares nothing. Raises UsageError where one is malformed or no small regular file, where they
    differ, and where there is no file."""
    sidecar = stem.with_name(stem.name + SIDECAR)
    folder = folder or stem.parent
    parts = [_beside(sidecar, folder)] if os.path.lexists(sidecar) else []
    named = parts[0].values.get("source", "") if parts else ""
    source = _named(sidecar, named) if named else stem.with_name(stem.name + ".cu")
    if parts and not os.path.lexists(source):
        raise UsageError(f"{sidecar}: there is no {source.name} beside it; add it, or name another file: source: ...")
    if not named and not files.fault(source, folder, ".cu"):
        parts += _header(source)  # what a file says that is judged in another's place is meant for itself
    values: dict[str, Any] = {}
    for part in parts:
        _check_agreement(values, part, parts[0])
        values |= part.values
    return source, Declaration(**values, where=" and ".join(part.where for part in parts))


def _beside(sidecar: Path, folder: Path) -> _Part:
    if fault := files.fault(sidecar, folder, SIDECAR):
        raise UsageError(f"{sidecar}: {fault}")
    return _Part(str(sidecar), _values(document.read(sidecar, _SIDECAR_BYTES), in_sidecar=True))


def _named(sidecar: Path, name: str) -> Path:
    """The file that a sidecar names: from its folder, or from one of those above it."""
    for folder in sidecar.absolute().parents:
        if os.path.isfile(folder / name):  # which answers to any name, however long
            return folder / name
    raise UsageError(f"{sidecar}: source: there is no file {name}, neither here nor from a folder above")


def _check_agreement(values: dict[str, Any], part: _Part, first: _Part) -> None:
    for key in values.keys() & part.values.keys():
        if values[key] != part.values[key]:
            found = f"{_said(values[key])} in {first.where}, {_said(part.values[key])} in {part.where}"
            raise UsageError(f"two declarations of {key} differ: {found}; remove one")


def _said(value: object) -> str:
    return str(value) if isinstance(value, (str, float)) else repr(value)


def _header(file: Path) -> list[_Part]:
    """What the directives of the first comment declare, in one part; none where there are none."""
    found = list(_directives(file))
    if not found:
        return []
    nodes = [pair for number, text in found for pair in _nodes(file, number, text)]
    mark = _mark(file, found[0][0])
    section = Section(file, yaml.MappingNode("tag:yaml.org,2002:map", nodes, mark, mark))
    return [_Part(f"{file}:{found[0][0]}", _values(section, in_sidecar=False))]


def _directives(file: Path) -> Iterator[tuple[int, str]]:
    """(line, what follows `judge:`) of the lines of the file's first comments; code ends them."""
    inside = False  # of /* */
    for number, line in enumerate(files.text(file, _HEADER_BYTES).split("\n"), 1):
        words = line.strip()
        if words and not inside and not words.startswith(("//", "/*")):
            return
        if found := _DIRECTIVE.match(line):
            yield number, found[1]
        inside = (inside or words.startswith("/*")) and "*/" not in words


def _nodes(file: Path, line: int, text: str) -> Iterator[tuple[yaml.Node, yaml.Node]]:
    """The words of a directive as the nodes that YAML would make of them, so that one reader serves both."""
    try:
        words = shlex.split(text)
    except ValueError:
        raise UsageError(f"{file}:{line}: a quotation mark is not closed") from None
    mark = _mark(file, line)
    for word in words:
        found = _WORD.match(word)
        if not found or (found[1] == "score") != (found[2] == ">="):
            raise UsageError(f"{file}:{line}: found {word!r}; a declaration is made of KEY=TEXT and score>=NUMBER")
        key, _, value = found.groups()
        tag = yaml.resolver.Resolver().resolve(yaml.ScalarNode, value, (True, False))
        text_tag = "tag:yaml.org,2002:str"
        yield (
            yaml.ScalarNode(text_tag, key, mark, mark),
            yaml.ScalarNode(tag if key in _NOT_TEXT else text_tag, value, mark, mark),
        )


def _mark(file: Path, line: int) -> yaml.Mark:
    return yaml.Mark(str(file), 0, line - 1, 0, None, 0)


def _values(section: Section, in_sidecar: bool) -> dict[str, Any]:
    """The keys that stand there, checked. Raises ProblemError with file and line."""
    values: dict[str, Any] = {
        key: section.take(key, str, "")
        for key in ("problem", "line_contains", "dtype", "variant", "why")
    }  # fmt: skip
    values["verdict"] = Verdict(section.choice("verdict", _VERDICTS, Verdict.ACCEPTED.value))
    values["finding"] = section.choice("finding", ("", *_KINDS), "")
    values["message_contains"] = _texts(section, "message_contains")
    values["cases"] = ",".join(_texts(section, "cases"))
    values["score"] = section.take_if_there("score", float)
    values["emulator_only"] = section.take("emulator_only", bool, False)
    if in_sidecar:
        values["source"] = section.take("source", str, "")
    section.finish()
    _check_score(section, values)
    return {key: value for key, value in values.items() if key in section}


def _texts(section: Section, key: str) -> tuple[str, ...]:
    """A list of texts, or one text alone."""
    value = section.value(key, ())
    return (value,) if isinstance(value, str) else section.words(key, []) if value != () else ()


def _check_score(section: Section, values: dict[str, Any]) -> None:
    least = values["score"]
    if least is None:
        return
    if not 0 < least <= 100:
        raise section.error(f"found {least:g}; a score is above 0, and at most 100", "score")
    if values["cases"] or values["verdict"] is not Verdict.ACCEPTED:
        raise section.error("a score takes all cases, and the verdict accepted: remove it, or `cases`", "score")
