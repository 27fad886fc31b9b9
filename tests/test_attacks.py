"""Attempts on the score get the verdict that they declare, in the emulator; tests/attacks/scoring/README.md says more.

`python -m tests.gpu.attack_table` judges them on a card, where launches are timed.
"""

from __future__ import annotations

import pytest

from harness import events, pipeline, problem, submission
from harness.results import Finding
from harness.verdict import Verdict
from tests.attacks.fixtures import SCORING, Attack, attacks

ATTACKS = list(attacks())
SECONDS = 30.0  # of a case
ENDLESS_SECONDS = 3.0  # of one that is expected not to end
FEWEST_CLASSES = 20


def _judge(attack: Attack) -> tuple[str, list[Finding], str]:
    """(verdict, findings of all cases, compiler's log)"""
    seconds = ENDLESS_SECONDS if "time_limit" in attack.cpu.verdicts else SECONDS
    options = pipeline.Options(
        device="cpu", cases=attack.cpu.cases, seconds=seconds, seed=7, cache=False, resource_seconds=0
    )
    *_, last = pipeline.judge(problem.load(attack.problem), submission.load(attack.source), options)
    assert isinstance(last, events.Finished)
    report = last.report
    return report.verdict, [*report.findings, *(f for c in report.cases for f in c.findings)], report.compile.log


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_attack_gets_its_verdict_in_the_emulator(attack: Attack) -> None:
    verdict, findings, log = _judge(attack)
    said = [f"{f.kind} at line {f.line}: {f.message}" for f in findings[:5]]
    assert verdict in attack.cpu.verdicts, said or log
    assert not attack.cpu.finding or any(f.kind == attack.cpu.finding for f in findings), said
    for text in attack.cpu.message_contains:
        assert any(text in f.message for f in findings), said


def test_declarations_are_complete_and_cover_the_catalogue() -> None:
    """Every file has a declaration that says why, verdicts exist, and cases are the problem's."""
    assert {a.source.name for a in ATTACKS} == {p.name for p in SCORING.glob("*.cu")}
    assert len({a.attack_class for a in ATTACKS if a.attack_class.startswith("S")}) >= FEWEST_CLASSES
    for attack in ATTACKS:
        known = problem.load(attack.problem)
        names = {case.name for case in (*known.tests, *known.benchmarks)}
        assert attack.why, attack.name
        for expected in (attack.cpu, attack.gpu):
            assert set(expected.verdicts) <= set(Verdict), attack.name
            assert set(expected.cases.split(",")) <= names, attack.name
