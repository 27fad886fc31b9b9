"""What the table objects to; needs no card."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.attacks.fixtures import Attack, Expected, attacks
from tests.gpu.attack_table import Row, build
from tests.gpu.verdict_table import NOT_RUN, Outcome

HONEST = Expected("large", ("accepted",))
ATTACK = Attack("s18_evict_last", Path("s18_evict_last.cu"), "merge", "S18", "reset", HONEST, HONEST)
TIMED = {"score": 80.0, "seconds": 2e-5, "floor_seconds": 1e-5}
REFUSED = Expected("large", ("policy_violation",), "device_state", ("outlives",))


@pytest.mark.parametrize(
    ("expected", "outcome", "objection"),
    [
        (HONEST, Outcome("accepted", benchmarks=(TIMED,)), ""),
        (HONEST, Outcome("wrong_answer"), "verdict wrong_answer"),
        (HONEST, Outcome("accepted"), "nothing was timed"),
        (HONEST, Outcome("accepted", benchmarks=(TIMED, TIMED | {"score": 106.0})), "scores 106.0, more than 105"),
        (HONEST, Outcome("accepted", benchmarks=(TIMED | {"seconds": 9e-6},)), "faster than the floor"),
        (REFUSED, Outcome("policy_violation", ("device_state",), messages=("kept outlives it",)), ""),
        (REFUSED, Outcome("policy_violation", ("too_fast",), messages=("kept outlives it",)), "no finding device_state"),
        (REFUSED, Outcome("policy_violation", ("device_state",), messages=("too fast",)), "no message has 'outlives'"),
    ],
)  # fmt: skip
def test_a_row_objects_to_what_was_not_declared(expected: Expected, outcome: Outcome, objection: str) -> None:
    row = Row(replace(ATTACK, gpu=expected), outcome)
    found = "; ".join(row.objections())
    assert objection in found and bool(found) == bool(objection)
    assert ("DIFFERS" in row.text()) == bool(objection)


def test_what_does_not_fit_into_the_time_is_not_run() -> None:
    (row,) = build([ATTACK], each=60, total=0)
    assert row.outcome.verdict == NOT_RUN and list(row.objections())


def test_keys_of_a_device_go_before_those_beside_it(tmp_path: Path) -> None:
    text = (
        "class: S4\nproblem: merge\nwhy: it does\nverdict: wrong_answer\nfinding: mismatch\n"
        "cpu: {cases: small, verdict: [runtime_error, accepted], finding: uninitialized_read}\n"
        "gpu: {cases: large, score_at_most: 90}\n"
    )
    (tmp_path / "s04_x.expect.yaml").write_text(text)
    (attack,) = attacks(tmp_path)
    assert attack.source == tmp_path / "s04_x.cu"
    assert attack.cpu == Expected("small", ("runtime_error", "accepted"), "uninitialized_read")
    assert attack.gpu == Expected("large", ("wrong_answer",), "mismatch", (), 90.0)
