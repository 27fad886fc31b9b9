"""Every solution and fixture gets the verdict that it declares, through the whole pipeline on the emulator.

tests/submissions/README.md documents the declarations. Fixtures that a GPU judges otherwise say so (`emulator_only`);
tests/gpu/ runs the others there.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness import events, pipeline, problem, submission
from harness.errors import SubmissionError
from harness.results import Finding

ROOT = Path(__file__).resolve().parents[1]
SECONDS = 30.0  # of a case
ENDLESS_SECONDS = 3.0  # of one that is expected not to end


@dataclass(frozen=True)
class Declared:
    """One file and what is expected of it."""

    problem: str
    source: Path
    expected: dict[str, Any]


def _fixture(path: Path) -> Declared:
    expected = yaml.safe_load(path.read_text())
    source = (
        ROOT / expected["source"] if "source" in expected else path.with_name(path.name.replace(".expect.yaml", ".cu"))
    )
    return Declared(expected.get("problem", path.parent.name), source, expected)


FIXTURES = {
    str(p.relative_to(ROOT / "tests/submissions")): p
    for p in sorted((ROOT / "tests/submissions").glob("*/*.expect.yaml"))
}
SOLUTIONS = {str(p.relative_to(ROOT)): p for p in sorted((ROOT / "solutions").glob("*/*.cu"))}


def _judge(declared: Declared) -> tuple[str, list[Finding], str]:
    """(verdict, findings of all cases, compiler's log)"""
    endless = declared.expected.get("verdict") == "time_limit"
    seconds, chosen = ENDLESS_SECONDS if endless else SECONDS, declared.expected.get("cases")
    options = pipeline.Options(
        device="cpu", cases=chosen, seconds=seconds, seed=7, cache=False, resource_seconds=0
    )
    try:
        loaded = submission.load(declared.source)
    except SubmissionError as error:
        return error.verdict, list(error.findings), error.log
    *_, last = pipeline.judge(problem.load(declared.problem), loaded, options)
    assert isinstance(last, events.Finished)
    report = last.report
    return report.verdict, [*report.findings, *(f for c in report.cases for f in c.findings)], report.compile.log


@pytest.mark.parametrize("name", FIXTURES)
def test_fixture_gets_its_verdict(name: str) -> None:
    declared = _fixture(FIXTURES[name])
    want = declared.expected
    verdict, findings, log = _judge(declared)
    said = [f"{f.kind} at line {f.line}: {f.message}" for f in findings[:5]]
    assert verdict == want["verdict"], said or log
    if kind := want.get("finding"):
        findings = [f for f in findings if f.kind == kind]
        assert findings, said
    if text := want.get("line_contains"):
        assert _points_at(text, declared.source, findings, log), said or log
    for text in want.get("message_contains", ()):
        assert any(text in f.message for f in findings) or text in log, said or log


def _points_at(text: str, source: Path, findings: list[Finding], log: str) -> bool:
    """Whether a finding, or the compiler's first error, stands at a line that has the text."""
    lines = source.read_text(errors="replace").splitlines()
    if any(0 < f.line <= len(lines) and text in lines[f.line - 1] for f in findings):
        return True
    errors = [row for row in log.splitlines() if "): error:" in row]
    return bool(errors) and text in lines[int(errors[0].split("(", 1)[1].split(")", 1)[0]) - 1]


@pytest.mark.parametrize("name", SOLUTIONS)
def test_solution_is_accepted_on_every_test_case(name: str) -> None:
    verdict, findings, log = _judge(Declared(SOLUTIONS[name].parent.name, SOLUTIONS[name], {}))
    assert verdict == "accepted", [f.message for f in findings[:3]] or log


def test_every_problem_has_good_and_wrong_fixtures() -> None:
    """A good one, the starter, and at least eight that learners get wrong."""
    for directory in sorted((ROOT / "problems").iterdir()):
        declared = [_fixture(p) for p in FIXTURES.values() if p.parent.name == directory.name]
        assert any(d.expected["verdict"] == "accepted" for d in declared), directory.name
        assert any(d.source == directory / "starter.cu" for d in declared), directory.name
        assert sum(d.expected["verdict"] != "accepted" for d in declared) >= 9, directory.name
