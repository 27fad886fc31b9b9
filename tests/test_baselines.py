"""Baselines: figures only for right answers, a row with a reason for everything else, and nothing takes others along."""

from __future__ import annotations

import dataclasses
import os
import textwrap
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from harness import cases, problem
from harness.cases import Case
from harness.errors import ProblemError, UsageError
from harness.measure import baselines as supervisor
from harness.measure.baselines import Baselines, measure_baselines
from harness.measure.candidates import distance, load_libraries
from harness.measure.records import Baseline
from harness.problem import Problem
from harness.reference import load_reference
from tests.fake_bench import SECONDS

BENCH = "tests.fake_bench:FakeBench"
INFINITY = float("inf")
pytestmark = pytest.mark.usefixtures("nothing_left")
_FILE = """
import os, signal, time
import numpy as np
from harness.measure.candidates import Candidate, Prepared

def doubled(inputs, error=0.0, **flags):
    assert inputs["n"] == len(inputs["x"]) and "out" not in inputs
    return {"out": 2 * inputs["x"] * (1 + error), **flags}

def ok(inputs, np, name="twice", dtype="float32", note="", **flags):
    return Candidate(name, dtype, lambda: Prepared(lambda: doubled(inputs, **flags), lambda out: out), note)

def bad(name, prepare):
    return Candidate(name, "float32", prepare)
"""
Run = Callable[..., tuple[Baseline, ...]]


@pytest.fixture
def case(doubling: Problem) -> Case:
    return cases.build_one(doubling, load_reference(doubling), doubling.tests[1], 7)


@pytest.fixture
def written(doubling: Problem, tmp_path: Path) -> Callable[[str], Problem]:
    """The problem with this baselines.py."""

    def write(text: str) -> Problem:
        (tmp_path / "baselines.py").write_text(_FILE + textwrap.dedent(text))
        return dataclasses.replace(doubling, directory=tmp_path)

    return write


@pytest.fixture
def run(written: Callable[[str], Problem], case: Case) -> Run:
    """What baselines say when the library "json" yields these candidates."""

    def measure(candidates: str, **options: object) -> tuple[Baseline, ...]:
        found = written(f"def library(inputs, np):\n    {candidates}\nLIBRARIES = {{'json': library}}")
        return measure_baselines(found, [case], **{"bench": BENCH, **options})[case.name]  # type: ignore[arg-type]

    return measure


def test_a_right_answer_gets_a_time_and_keeps_its_remarks(run: Run) -> None:
    both = "yield ok(inputs, np); yield ok(inputs, np, 'rounded', 'bfloat16', 'cache rounded', error=2e-3)"
    assert run(both) == (
        Baseline("twice", SECONDS, "float32"),
        Baseline("rounded", SECONDS, "bfloat16", "cache rounded"),
    )


def test_launch_gaps_and_another_card_are_said(run: Run) -> None:
    (found,) = run("yield ok(inputs, np, note='dense', slow=True)", device="Fake 200")
    assert found == Baseline("twice", 2 * SECONDS, "float32", "dense; includes launch gaps; on Fake 100")
    (found,) = run("yield ok(inputs, np)", device="Fake 100")
    assert found.note == ""


def test_less_precision_than_the_judge_accepts_is_said_in_the_same_type_only(run: Run) -> None:
    same, other = run("yield ok(inputs, np, error=1e-4); yield ok(inputs, np, 'f16', 'float16', error=1e-4)")
    assert (same.seconds, same.note) == (SECONDS, "its error, 1e-04, would not be accepted")
    assert (other.seconds, other.note) == (SECONDS, "")


@pytest.mark.parametrize(
    ("candidate", "note"),
    [
        ("ok(inputs, np, error=0.01)", "wrong: its error is 1e-02 of the answer"),
        ("ok(inputs, np, error=np.nan)", "wrong: its answer is not finite"),
        ("ok(inputs, np, dtype='bfloat16', error=0.05)", "wrong: its error is 5e-02"),
        ("bad('shape', lambda: Prepared(lambda: 2 * inputs['x'][:1]))", "wrong: its answer is not finite, or not of"),
        ("bad('other', lambda: Prepared(lambda: 0, lambda x: {'lse': x}))", "ValueError: gives no output out"),
        ("bad('prepare', lambda: 1 / 0)", "ZeroDivisionError: division by zero"),
        ("bad('path', lambda: open('/nowhere/at/all'))", "FileNotFoundError: [Errno 2] No such file or directory: 'all'"),
        ("ok(inputs, np, dtype='float8')", "KeyError: 'float8'"),
    ],
)
def test_what_is_wrong_or_fails_has_no_time_and_those_behind_it_have(run: Run, candidate: str, note: str) -> None:
    failed, good = run(f"yield {candidate}; yield ok(inputs, np, 'good')")
    assert failed.seconds == 0 and failed.note.startswith(note)
    assert good == Baseline("good", SECONDS, "float32")


def test_one_wrong_row_of_a_thousand_is_wrong(written: Callable[[str], Problem], doubling: Problem) -> None:
    found = written("""
        def library(inputs, np):
            for error in (0.005, 0.02):
                each = np.where(np.arange(1000) == 7, error, 0)[:, None]
                yield ok(inputs, np, str(error), error=each)
        LIBRARIES = {"json": library}
    """)
    big = cases.build_one(doubling, load_reference(doubling), doubling.benchmarks[0], 7)
    right, wrong = measure_baselines(found, [big], bench=BENCH)["big"]
    assert right.seconds == SECONDS
    assert wrong.seconds == 0 and wrong.note.endswith("2e-02 in a row")


@pytest.mark.parametrize(
    ("misdeed", "note"),
    [
        ("os.kill(os.getpid(), signal.SIGSEGV)", "killed by SIGSEGV"),
        ("os._exit(0)", "exit status 0"),
        ("os.abort()", "killed by SIGABRT"),
        ("{'out': 2 * inputs['x'], 'fault': True}", "RuntimeError: an illegal memory access was encountered"),
        ("time.sleep(60)", "no answer within 1 s"),
    ],
)
def test_one_that_takes_its_process_along_costs_its_own_row(
    run: Run, monkeypatch: pytest.MonkeyPatch, misdeed: str, note: str
) -> None:
    monkeypatch.setattr(supervisor, "_CANDIDATE_SECONDS", 1.0)
    prepare = f"lambda: Prepared(lambda: {misdeed}, lambda out: out)"
    found = run(f"yield ok(inputs, np, 'before'); yield bad('bad', {prepare}); yield ok(inputs, np, 'behind')")
    assert [(row.name, row.seconds) for row in found] == [("before", SECONDS), ("bad", 0), ("behind", SECONDS)]
    assert found[1].note == note


def test_a_baselines_file_that_fails_midway_keeps_what_came_before(run: Run) -> None:
    good, failed = run("yield ok(inputs, np); yield inputs['y']")
    assert good.seconds == SECONDS
    assert failed == Baseline("json", 0, "", "baselines.py failed: KeyError: 'y'")


def test_libraries_have_children_of_their_own_that_serve_all_cases(
    written: Callable[[str], Problem], doubling: Problem, case: Case
) -> None:
    found = written("""
        def library(inputs, np):
            yield ok(inputs, np, str(os.getpid()))
        LIBRARIES = {"json": library, "csv": library}
    """)
    other = cases.build_one(doubling, load_reference(doubling), doubling.tests[2], 7)
    by_case = measure_baselines(found, [case, other], bench=BENCH)
    first, second = ([row.name for row in by_case[name]] for name in (case.name, other.name))
    assert first == second and len(set(first)) == 2 and str(os.getpid()) not in first


def test_a_library_finds_the_users_cache(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (found,) = run("yield ok(inputs, np, os.environ['HOME'])")
    assert found.name == str(tmp_path)


def test_what_is_not_installed_is_said_library_by_library(written: Callable[[str], Problem], case: Case) -> None:
    found = written("LIBRARIES = {'nowhere_to_be_found': ok, 'json': lambda inputs, np: [ok(inputs, np)]}")
    with Baselines(found, bench=BENCH) as baselines:
        assert baselines.versions == {}
        assert baselines.measure(case) == (
            Baseline("twice", SECONDS, "float32"),
            Baseline("nowhere_to_be_found", 0, "float32", "nowhere_to_be_found is not installed"),
        )
        assert baselines.versions == {"json": "1.0"}


def test_without_torch_there_is_one_row(
    written: Callable[[str], Problem], case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "find_spec", lambda name: None)
    with Baselines(written("LIBRARIES = {'torch': ok, 'flashinfer': ok}")) as baselines:
        assert baselines.measure(case) == (Baseline("torch", 0, "float32", "torch is not installed"),)


def test_a_library_that_does_not_load_says_why(run: Run) -> None:
    (found,) = run("yield ok(inputs, np)", bench="tests.fake_bench:without_library")
    assert found.note == "json cannot be used: ImportError: libcudart.so: cannot open shared object file"


def test_no_gpu_is_a_usage_error(run: Run) -> None:
    with pytest.raises(UsageError, match="no GPU"):
        run("yield ok(inputs, np)", bench="tests.fake_bench:without_gpu")


def test_no_time_left_is_said_before_anything_starts(run: Run) -> None:
    assert run("yield ok(inputs, np)", seconds=0.0) == (Baseline("json", 0, "", "no time was left for it"),)


def test_time_that_runs_out_ends_the_case(run: Run) -> None:
    forever = "bad('bad', lambda: Prepared(lambda: time.sleep(60)))"
    found = run(f"yield {forever}; yield ok(inputs, np)", seconds=2.5)
    assert [(row.seconds, row.note) for row in found] == [(0, "no time was left for it")]


def test_a_problem_without_baselines_has_none(doubling: Problem, case: Case) -> None:
    assert measure_baselines(doubling, [case], bench=BENCH) == {case.name: ()}


@pytest.mark.parametrize(("text", "words"), [("1 / 0", "ZeroDivisionError"), ("x = 1", "no dict LIBRARIES")])
def test_a_broken_file_is_the_problems_fault(written: Callable[[str], Problem], text: str, words: str) -> None:
    with pytest.raises(ProblemError, match=rf"baselines\.py: {words}"):
        Baselines(written(text), bench=BENCH)


def test_every_problem_is_compared_and_needs_no_library_for_saying_with_what() -> None:
    for each in problem.list_problems():
        assert list(load_libraries(each.directory)) == ["torch", "flashinfer"], each.id


@pytest.mark.parametrize(
    ("found", "expected", "total", "row"),
    [
        ([[1, 1], [2, 2]], [[1, 1], [2, 2]], 0, 0),
        ([[1, 1], [2, 2]], [[1, 0], [2, 2]], 1 / 3, 1),  # the first row's error is as large as the row
        ([[np.nan, 1], [2, 2]], [[1, 1], [2, 2]], INFINITY, INFINITY),
        ([1, -np.inf], [1, -np.inf], 0, 0),  # a log-sum-exp of nothing
        ([1, 0], [1, -np.inf], INFINITY, INFINITY),
        ([1, np.inf], [1, -np.inf], INFINITY, INFINITY),
        ([0, 0], [0, 0], 0, 0),
        ([[1, 1]], [1, 1], INFINITY, INFINITY),  # another shape
    ],
)
def test_distance_is_over_the_tensor_and_the_worst_row(
    found: object, expected: object, total: float, row: float
) -> None:
    assert distance(np, np.array(found), np.array(expected)) == pytest.approx((total, row), rel=1e-6)
