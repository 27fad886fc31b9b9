"""The solution ladders: solutions/<problem>/NN_idea.cu, rung by rung, with what solutions/RESULTS.yaml measured.

A solution opens with a comment: a line that says which rung it is, perhaps a line of what it needs, and paragraphs that
each begin with a word at the margin (Idea, Cost, Gain, Measured, ...), two blanks, and go on indented.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from harness import problem, tracks
from web import catalogue

ROOT = problem.ROOT.parent / "solutions"
_FILE = re.compile(r"(\d{2})_([a-z0-9_]+)\.cu\Z")
_PARAGRAPH = re.compile(r"([A-Z][a-z]+) {2,}(.*)")
_TITLE = re.compile(r".*?, rung \d+: (.+?)\.?\Z")


@dataclass(frozen=True)
class Rung:
    """One solution. `paragraphs` are those of its header, by their first word; `needs` what it runs on only."""

    number: int
    name: str  # of the file, without .cu
    title: str
    needs: str
    dtype: str  # of the track that its solve() is for
    variant: str
    paragraphs: dict[str, str]
    source: str
    code: str  # the source without its header

    @property
    def key(self) -> str:
        """What addresses call it: "04"."""
        return f"{self.number:02}"


@dataclass(frozen=True)
class Result:
    """What was measured of a rung on the card of `Measured`. `score` None: it has none, and `said` says why."""

    score: float | None
    tier: str
    said: str
    cases: dict[str, dict[str, float]]  # by benchmark: us, half_width_percent, gb_per_s, tflop_per_s, score, ...


@dataclass(frozen=True)
class Measured:
    """The results of one problem's ladder."""

    card: str
    date: str
    results: dict[str, Result]  # by the rung's name

    @property
    def best(self) -> float:
        return max((result.score for result in self.results.values() if result.score is not None), default=0.0)


def files(problem_id: str) -> list[Path]:
    """Those of a problem's ladder, in order; none for a problem without one."""
    return sorted(file for file in (ROOT / problem_id).glob("*.cu") if _FILE.match(file.name))


def ladder(problem_id: str) -> list[Rung]:
    """All rungs of a problem, the first one first."""
    return [_read(problem_id, file, file.stat().st_mtime_ns) for file in files(problem_id)]


def measured(problem_id: str) -> Measured | None:
    """What RESULTS.yaml says of a problem's ladder; None where it says nothing."""
    file = ROOT / "RESULTS.yaml"
    table = _results(file, file.stat().st_mtime_ns) if file.is_file() else {}
    found = {
        name.split("/")[1]: _result(entry)
        for name, entry in table.get("solutions", {}).items() if name.startswith(f"{problem_id}/")
    }  # fmt: skip
    return Measured(table["card"]["name"], str(table["date"]), found) if found else None


def _result(entry: dict[str, Any]) -> Result:
    score = entry.get("score")
    said = "" if score is not None else str(entry.get("said") or entry.get("verdict", ""))
    return Result(score, entry.get("tier", ""), said, entry.get("cases", {}))


@lru_cache(maxsize=8)
def _results(file: Path, _: int) -> dict[str, Any]:
    found: dict[str, Any] = yaml.load(file.read_text(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return found


@lru_cache(maxsize=256)
def _read(problem_id: str, file: Path, _: int) -> Rung:
    source = file.read_text()
    number, name = _FILE.match(file.name).groups()  # type: ignore[union-attr]
    lines = source.split("\n")
    end = next((n for n, line in enumerate(lines) if not line.startswith("//")), len(lines))
    head = [line[2:].removeprefix(" ") for line in lines[:end]]
    paragraphs, before = _paragraphs(head)
    first = _TITLE.match(before[0]) if before else None
    title = _capitalised(first[1] if first else name.replace("_", " "))
    track = tracks.find(catalogue.find(problem_id), source).problem
    return Rung(
        int(number), file.stem, title, " ".join(before[1:]), track.dtype, track.variant, paragraphs, source,
        "\n".join(lines[end:]),
    )  # fmt: skip


def _capitalised(title: str) -> str:
    """Like the beginning of a sentence, unless it begins with a name such as bfloat16."""
    return title if any(map(str.isdigit, title.split()[0])) else title[:1].upper() + title[1:]


def _paragraphs(head: list[str]) -> tuple[dict[str, str], list[str]]:
    """The paragraphs of a header by their words, each in one line, and the lines before the first of them."""
    found: dict[str, str] = {}
    before: list[str] = []
    word = ""
    for line in filter(None, map(str.rstrip, head)):
        if start := _PARAGRAPH.match(line):
            word, found[start[1]] = start[1], start[2]
        elif word:
            found[word] += f" {line.strip()}"
        else:
            before.append(line)
    return found, before
