"""What is accepted, what is not, and what the learner is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from harness import cases, check
from harness.check import ErrorLimits, compare, limits_for
from harness.devices.base import Argument
from harness.errors import ProblemError
from harness.results import ErrorStats, Finding
from harness.verdict import FindingKind

ROWS = ErrorLimits("rows", check.FLOORS["float32"])
ELEMENTS = ErrorLimits("elements", (1.0, 0.0, 0.0))


def _case(expected: np.ndarray, limits: ErrorLimits = ROWS) -> cases.Case:
    axes = ("num_seqs", "num_heads", "head_dim")[-expected.ndim :]
    return cases.Case(
        name="case",
        parameters={},
        arguments=[Argument("out", np.empty(expected.shape, np.float32), "out", "float")],
        expected={"out": expected},
        limits={"out": limits},
        axes={"out": axes},
        cost=cases.Cost(1, 1),
    )


def _expected(*shape: int) -> np.ndarray:
    return np.random.default_rng(3).standard_normal(shape or (4, 6, 64))


def _judge(
    expected: np.ndarray,
    change: Callable[[np.ndarray], Any] = lambda out: None,
    limits: ErrorLimits = ROWS,
    **more: Any,
) -> tuple[ErrorStats, list[Finding]]:
    """Compare the right answer after `change` was done to it (in place, or by what it returns)."""
    found = expected.astype(np.float32)
    changed = change(found)
    stats, findings, _ = compare(_case(expected, limits), {"out": found if changed is None else changed}, **more)
    return stats[0], findings


def _set(index: Any, value: float) -> Callable[[np.ndarray], None]:
    def change(out: np.ndarray) -> None:
        out[index] = value

    return change


def test_the_right_answer_is_accepted() -> None:
    stats, findings = _judge(_expected())
    assert not findings and stats.ratio < 0.1 and stats.nan_count == 0
    assert stats.limits == check.FLOORS["float32"]


def test_one_wrong_element_is_named() -> None:
    expected = _expected()
    stats, (finding,) = _judge(expected, _set((3, 5, 17), 7.5))
    assert finding.kind is FindingKind.MISMATCH and finding.tensor == "out" and finding.index == (3, 5, 17)
    assert "1 of 1,536 elements of out differs" in finding.message
    assert f"out[3, 5, 17]: expected {expected[3, 5, 17]:.6g}, found 7.5 (error " in finding.message
    assert "worst row: out[3, 5, :]" in finding.message
    assert stats.worst_row == (3, 5) and stats.ratio > 1000


def test_five_elements_are_shown_of_many() -> None:
    _, (finding,) = _judge(_expected(), _set((0, slice(0, 2)), 9.0))
    assert "128 of 1,536 elements" in finding.message
    assert finding.message.count("expected ") == 5


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_fails(value: float) -> None:
    stats, (finding,) = _judge(_expected(), _set((1, 2, 3), value))
    assert stats.nan_count == 1 and not stats.ratio <= 1 and finding.index == (1, 2, 3)
    assert ("1 NaN" in finding.message) == np.isnan(value)
    assert ("1 infinite" in finding.message) == np.isinf(value)
    assert np.isfinite(stats.max_abs)


def test_all_nan_fails() -> None:
    stats, findings = _judge(_expected(), lambda out: out * np.nan)
    assert findings and stats.nan_count == 1536 and stats.max_abs == 0


@pytest.mark.parametrize(("figure", "size"), [("A", 2.2e-4), ("B", 5.5e-5), ("C", 1.1e-5)])
def test_each_figure_has_its_limit(figure: str, size: float) -> None:
    """Just beyond one limit is refused, just below it accepted, while the other two figures are within theirs."""
    expected = np.sign(_expected(40, 64))

    def stray(factor: float) -> Callable[[np.ndarray], np.ndarray]:
        where = {"A": (0, slice(0, 1)), "B": (0, slice(0, 64)), "C": (slice(0, 40), slice(0, 64))}[figure]
        error = np.zeros_like(expected)
        error[where] = factor * size
        return lambda out: (expected + error).astype(np.float32)

    assert not _judge(expected, stray(0.85))[1]
    stats, (finding,) = _judge(expected, stray(1))
    if figure == "A":
        assert "differs from the float64 reference" in finding.message
    else:
        assert f"as a whole, though each element alone is near: {figure}, " in finding.message
        assert finding.message.count(figure + ", ") == 1 and finding.message.count("expected ") == 5
    assert 1 < stats.ratio < 1.3


def test_small_rows_beside_large_ones_have_a_floor() -> None:
    expected = _expected(64, 64)
    expected[5] = 0
    assert not _judge(expected, _set((5, 0), 1e-9))[1]
    assert _judge(expected, _set((5, 0), 1e-4))[1]


def test_zero_throughout_must_be_zero() -> None:
    assert not _judge(np.zeros((3, 64)))[1]
    assert _judge(np.zeros((3, 64)), _set((1, 1), 1e-30))[1]


def test_lse_is_compared_element_by_element() -> None:
    expected = np.array([0.0, 80.0, -np.inf, -80.0])
    assert not _judge(expected, _set(1, 80 + 8e-5), limits=ELEMENTS)[1]
    for change in (
        _set(1, 80 + 1.3e-4),
        _set(0, 2e-5),
        _set(2, -3e38),
        _set(2, np.nan),
        _set(2, np.inf),
        _set(3, -np.inf),
    ):
        stats, findings = _judge(expected, change, limits=ELEMENTS)
        assert len(findings) == 1 and stats.ratio > 1


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (np.zeros((4, 6, 63), np.float32), r"out is float32 (4, 6, 63), expected float32 (4, 6, 64)"),
        (np.zeros((4, 6, 64), np.float64), "out is float64"),
        (None, "out is missing"),
    ],
)
def test_form_is_exact(found: np.ndarray | None, message: str) -> None:
    stats, (finding,), _ = compare(_case(_expected()), {} if found is None else {"out": found})
    assert not stats and message in finding.message


def test_unwritten_elements_are_counted_and_placed() -> None:
    def leave(out: np.ndarray) -> None:
        out[2, 3, 60:] = np.nan

    _, findings = _judge(_expected(), leave, unwritten={"out": 4})
    assert [f.kind for f in findings] == [FindingKind.UNWRITTEN_OUTPUT]
    assert findings[0].message == "4 of 1,536 elements of out were never written, the first is out[2, 3, 60]"
    assert findings[0].index == (2, 3, 60)


@pytest.mark.parametrize("value", [9.0, np.nan, np.inf])
def test_what_was_written_wrong_is_told_apart_from_what_was_not_written(value: float) -> None:
    def spoil(out: np.ndarray) -> None:
        out[2, 3, 60:] = np.array([0xFFF5A5A5], np.uint32).view(np.float32)[0]
        out[0, 1, 5] = value

    stats, findings = _judge(_expected(), spoil, unwritten={"out": 4})
    assert [f.kind for f in findings] == [FindingKind.MISMATCH, FindingKind.UNWRITTEN_OUTPUT]
    assert findings[0].message.startswith("1 of 1,536 elements of out differs") and findings[0].index == (0, 1, 5)
    assert "out[2, 3" not in findings[0].message
    assert ("inf times" in findings[0].message) == (not np.isfinite(value))
    assert findings[1].index == (2, 3, 60)
    assert stats.nan_count == 4 + (not np.isfinite(value))


def test_an_unwritten_lse_of_an_empty_row_has_a_place() -> None:
    _, (finding,) = _judge(np.array([0.0, -np.inf]), _set(1, np.nan), limits=ELEMENTS, unwritten={"out": 1})
    assert (finding.kind, finding.index) == (FindingKind.UNWRITTEN_OUTPUT, (1,))


def test_unwritten_but_right_is_still_reported() -> None:
    _, findings = _judge(_expected(), unwritten={"out": 1})
    assert [f.kind for f in findings] == [FindingKind.UNWRITTEN_OUTPUT]
    assert findings[0].message == "1 of 1,536 elements of out was never written"


@pytest.mark.parametrize(
    ("change", "note"),
    [
        (lambda out: out * np.float32(8), "out is about 8 times what it should be throughout"),
        (lambda out: out * np.float32(0), "every element of out is 0"),
        (_set((slice(None), slice(2, 4)), 0.0), "on the axis num_heads of 6, wrong only at 2..3"),
        (_set((slice(None), [0, 2, 5]), 0.0), "on the axis num_heads of 6, wrong only at 0, 2, 5"),
        (_set((..., slice(32, 64)), 0.0), "on the axis head_dim of 64, wrong only at 32..63"),
        (
            _set((..., slice(0, 64, 2)), 9.0),
            "on the axis head_dim of 64, wrong only at 0, 2, ..., 62",
        ),
    ],
)
def test_notes_say_what_wrong_elements_share(change: Callable[[np.ndarray], Any], note: str) -> None:
    _, (finding,) = _judge(_expected(), change)
    assert f"  note: {note}" in finding.message


def test_a_note_about_nan_where_nothing_is_averaged() -> None:
    expected = _expected()
    expected[1] = 0
    _, (finding,) = _judge(expected, _set(1, np.nan))
    assert "every NaN stands where there is nothing to average" in finding.message
    assert "on the axis num_seqs of 4, wrong only at 1" in finding.message


def test_no_note_without_a_pattern() -> None:
    _, (finding,) = _judge(_expected(), lambda out: np.random.default_rng(1).permuted(out))
    assert "note:" not in finding.message


def test_limits_follow_honest_kernels() -> None:
    expected = np.sign(_expected(40, 64))
    honest = [(expected * (1 + error)).astype(np.float32) for error in (1e-6, -4e-5)]
    kind, (la, lb, lc) = (limits := limits_for("rows", expected, honest, "float32")).kind, limits.abc
    assert kind == "rows" and la == check.FLOORS["float32"][0]
    assert lb == pytest.approx(8e-5, rel=0.01) and lc == pytest.approx(6e-5, rel=0.01)
    assert limits_for("rows", expected, [], "float32").abc == check.FLOORS["float32"]
    assert limits_for("elements", expected, [], "float32") == ELEMENTS


@pytest.mark.parametrize("dtype", sorted(check.FLOORS))
def test_every_dtype_has_floors_of_its_own(dtype: str) -> None:
    expected = _expected()
    assert limits_for("rows", expected, [], dtype).abc == check.FLOORS[dtype]
    far = [(expected * (1 + 0.03)).astype(np.float32)]
    assert limits_for("rows", expected, far, dtype).abc[2] == pytest.approx(0.045, rel=1e-3)


def test_a_log_sum_exp_of_narrow_inputs_may_stray_as_far_as_rounded_weights() -> None:
    expected = np.array([0.0, 80.0, -np.inf, -80.0])
    narrow = limits_for("log_sum_exp", expected, [], "float16")
    assert not _judge(expected, _set(1, 80 + 2.2e-3), limits=narrow)[1]
    for change in (_set(1, 80 + 2.3e-3), _set(0, 2.6e-4), _set(2, -3e38), _set(2, np.nan), _set(3, np.inf)):
        stats, (finding,) = _judge(expected, change, limits=narrow)
        assert stats.ratio > 1 and finding.message.startswith("1 of 4 elements")
    strayed = [np.array([5e-4, 80.0, -np.inf, -80.0], np.float32)]
    assert limits_for("log_sum_exp", expected, strayed, "float16").abc[0] == pytest.approx(100, rel=1e-3)
    assert limits_for("elements", expected, [], "float16").abc[0] == limits_for("log_sum_exp", expected, [], "float32").abc[0] == 1


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_no_limit_follows_from_a_model_that_is_not_finite(value: float) -> None:
    model = _expected().astype(np.float32)
    model[0, 0, 0] = value
    with pytest.raises(ProblemError, match="a model is not finite where the reference is"):
        limits_for("rows", _expected(), [model], "float16")
