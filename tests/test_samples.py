"""Which tests are a problem's samples, in each track, and that a judging can be of them alone."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from harness import cases, commandline, problem
from harness.cards import get
from harness.errors import ProblemError, UsageError
from harness.events import Finished
from harness.pipeline import Options, judge
from harness.problem import Problem
from harness.report import catalogue
from harness.submission import from_bytes
from harness.verdict import Verdict
from tests.fake_toolchain import TOOLCHAIN

_TRACKS = Path(__file__).parent / "problems" / "scaled_rows"


def _with_samples(folder: Path, line: str) -> Problem:
    directory = folder / "scaled_rows"
    shutil.copytree(_TRACKS, directory)
    with (directory / "problem.yaml").open("a") as file:
        file.write(line)
    return problem.load_directory(directory)


def test_without_a_word_the_first_three_tests_of_a_track_are_its_samples() -> None:
    loaded = problem.load_directory(_TRACKS)
    assert loaded.samples == ("one_row", "three_columns")
    assert loaded.track("float16", "sums").samples == ("one_row", "three_columns", "many_rows")


def test_named_samples_come_in_the_order_of_the_tests_and_only_those_of_the_track(tmp_path: Path) -> None:
    loaded = _with_samples(tmp_path, "samples: [sums_only, many_rows, three_columns]\n")
    assert loaded.samples == ("three_columns",)
    assert loaded.track("float16").samples == ("three_columns", "many_rows")
    assert loaded.track("float16", "sums").samples == ("three_columns", "many_rows", "sums_only")


def test_a_track_that_lacks_all_named_samples_still_has_some(tmp_path: Path) -> None:
    loaded = _with_samples(tmp_path, "samples: [sums_only]\n")
    assert loaded.samples == ("one_row", "three_columns")
    assert loaded.track(variant="sums").samples == ("sums_only",)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("samples: [one_row, one_rwo]", r"problem\.yaml:33: samples: no test is called 'one_rwo'; did you mean 'one_row'\?"),
        ("samples: [large]", r"problem\.yaml:33: samples: no test is called 'large'$"),
        ("samples: [one_row, one_row]", r"problem\.yaml:33: samples: the name 'one_row' stands here 2 times"),
        ("samples: one_row", r"problem\.yaml:33: samples: must be a list, found 'one_row'"),
        ("samples: [{name: one_row}]", r"problem\.yaml:33: samples: must be a list of texts"),
    ],
)
def test_a_sample_must_be_a_test(tmp_path: Path, line: str, words: str) -> None:
    with pytest.raises(ProblemError, match=words):
        _with_samples(tmp_path, line)


def test_samples_are_selected_like_benchmarks() -> None:
    loaded = problem.load("paged_decode")
    assert tuple(case.name for case in cases.select(loaded, "samples")) == loaded.samples
    with pytest.raises(UsageError, match="tests, samples, benchmarks, or of these: "):
        cases.select(loaded, "sample")


def test_a_judging_of_samples_runs_nothing_else_and_has_no_score(doubling: Problem) -> None:
    chosen = replace(doubling, entries=replace(doubling.entries, samples=("five", "one")))
    options = Options(device="cpu", cases="samples", cache=False, toolchain=TOOLCHAIN)
    *_, last = judge(chosen, from_bytes("my.cu", b"// fine"), options)
    assert isinstance(last, Finished)
    assert (last.report.verdict, [case.name for case in last.report.cases]) == (Verdict.ACCEPTED, ["one", "five"])
    assert (last.report.score, last.report.findings) == (None, ())


def test_the_command_line_knows_samples(capsys: pytest.CaptureFixture[str]) -> None:
    assert commandline.judge_parser().parse(["p", "my.cu", "--cases", "samples"]).cases == "samples"
    catalogue.print_problem(problem.load("split_k_merge"), get("H200"))
    assert "\nsamples, for a first run with --cases samples: two_splits, spread_80, empty_splits\n" in capsys.readouterr().out


@pytest.mark.parametrize("loaded", problem.list_problems(), ids=lambda loaded: loaded.id)
def test_every_track_of_the_problems_has_named_samples_of_several_kinds(loaded: Problem) -> None:
    for track in loaded.tracks():
        assert len(track.samples) >= 3 and set(track.samples) <= set(loaded.entries.samples)
