"""Every solution and fixture gets the verdict that it declares, through the whole pipeline on the emulator.

tests/submissions/README.md documents the declarations. Fixtures that a GPU judges otherwise say so (`emulator_only`);
tests/gpu/ runs the others there.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import pipeline
from harness.grading import discovery, judging
from harness.grading.discovery import Entry
from harness.grading.graded import Graded, Status
from harness.verdict import Verdict

ROOT = Path(__file__).resolve().parents[1]
SECONDS = 30.0  # of a case
ENDLESS_SECONDS = 3.0  # of one that is expected not to end


def _entries(folder: str) -> dict[str, Entry]:
    """By path from `folder`."""
    return {str(Path(e.name).relative_to(ROOT / folder)): e for e in discovery.find([ROOT / folder])}


FIXTURES = _entries("tests/submissions")
SOLUTIONS = _entries("solutions")


def _grade(entry: Entry) -> Graded:
    seconds = ENDLESS_SECONDS if entry.declared.verdict is Verdict.TIME_LIMIT else SECONDS
    options = pipeline.Options(device="cpu", seconds=seconds, seed=7, cache=False)
    return judging.grade(entry, judging.Settings(options), lambda step: None)


@pytest.mark.parametrize("name", FIXTURES)
def test_fixture_gets_its_verdict(name: str) -> None:
    graded = _grade(FIXTURES[name])
    assert graded.status is Status.OK, (graded.reasons, graded.findings[:5], graded.log)


@pytest.mark.parametrize("name", SOLUTIONS)
def test_solution_is_accepted_on_every_test_case(name: str) -> None:
    graded = _grade(SOLUTIONS[name])
    assert graded.verdict is Verdict.ACCEPTED, (graded.reasons, graded.findings[:3], graded.log)


def test_every_fixture_is_declared() -> None:
    """A file without a declaration would count as one that must be accepted."""
    assert [name for name, entry in FIXTURES.items() if not entry.declared.where] == []


def test_every_problem_has_good_and_wrong_fixtures() -> None:
    """A good one, the starter, and at least eight that learners get wrong."""
    for directory in sorted((ROOT / "problems").iterdir()):
        declared = [entry for name, entry in FIXTURES.items() if Path(name).parent.name == directory.name]
        assert any(entry.declared.verdict is Verdict.ACCEPTED for entry in declared), directory.name
        assert any(entry.source == directory / "starter.cu" for entry in declared), directory.name
        assert sum(entry.declared.verdict is not Verdict.ACCEPTED for entry in declared) >= 9, directory.name
