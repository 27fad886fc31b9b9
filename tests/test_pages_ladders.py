"""Solution ladders and leaderboards: what the files of solutions/ say, and how pages show it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness import problem as problems
from tests import ladder, site_kit
from tests.site_kit import Filled
from web.pages import rungs
from web.pages.ladder import gains
from web.pages.rungs import Result

PROBLEMS = [problem.id for problem in problems.list_problems()]


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Filled:
    return site_kit.filled(tmp_path_factory.mktemp("site"))


@pytest.mark.parametrize("problem", PROBLEMS)
def test_every_solution_is_a_rung(problem: str) -> None:
    found = rungs.ladder(problem)
    assert [rung.number for rung in found] == list(range(1, len(found) + 1))
    for rung in found:
        assert rung.title and {"Idea", "Cost", "Measured"} <= set(rung.paragraphs), rung.name
        assert not any("//" in text or "\n" in text for text in rung.paragraphs.values())
        assert rung.source.endswith(rung.code) and rung.code.startswith("#include")
    written = {name.partition("/")[2] for name in ladder.results()["solutions"] if name.startswith(f"{problem}/")}
    assert written == {rung.name for rung in found}


@pytest.mark.parametrize("problem", PROBLEMS)
def test_results_are_those_of_the_file(problem: str) -> None:
    measured = rungs.measured(problem)
    assert measured and measured.card == "NVIDIA H200"
    for name, result in measured.results.items():
        entry = ladder.results()["solutions"][f"{problem}/{name}"]
        assert result.score == entry.get("score") and result.cases == entry.get("cases", {})
        assert (result.score is None) == bool(result.said)


def test_a_header_is_read_paragraph_by_paragraph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "split_k_merge"
    folder.mkdir()
    starter = problems.load("split_k_merge").starter_for("float16")
    (folder / "07_odd.cu").write_text(f"// Merge, rung 7: half as much.\n// Needs sm_80.\n//\n// Idea   One\n//        two.\n// Trap   None.\n#include <x>\n{starter}")
    (folder / "08_bare.cu").write_text("int x;\n")
    (folder / "notes.cu").write_text("")
    monkeypatch.setattr(rungs, "ROOT", tmp_path)
    odd, bare = rungs.ladder("split_k_merge")
    assert (odd.number, odd.key, odd.title, odd.needs) == (7, "07", "Half as much", "Needs sm_80.")
    assert odd.paragraphs == {"Idea": "One two.", "Trap": "None."} and odd.dtype == "float16"
    assert (bare.title, bare.paragraphs, bare.code) == ("Bare", {}, "int x;\n")
    assert rungs.measured("split_k_merge") is None


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("language", ["en", "zh"])
def test_ladders_read_from_end_to_end(filled: Filled, problem: str, language: str) -> None:
    page = filled.page(f"/problems/{problem}/ladder", lang=language)
    assert 'class="code' not in page and "<details open" not in page  # answers are folded
    for rung in rungs.ladder(problem):
        assert f'/problems/{problem}/ladder?rung={rung.key}"' in page
        shown = filled.page(f"/problems/{problem}/ladder", lang=language, rung=rung.key)
        assert 'id="L1"' in shown and ('class="line removed"' in shown) == (rung.number > 1)


def test_a_rung_is_set_against_the_one_before(filled: Filled) -> None:
    page = filled.page("/problems/split_k_merge/ladder?rung=2")
    assert "times as fast as rung 1" in page and 'rel="prev"' in page and 'rel="next"' in page
    assert 'rel="prev"' not in filled.page("/problems/split_k_merge/ladder?rung=01")
    fast, slow = (Result(1.0, "", "", {"x": {"us": us}, name: {"us": 1.0}}) for us, name in ((2.0, "y"), (5.0, "z")))
    assert gains(slow, fast) == {"x": 2.5} and gains(None, fast) == {}


def test_measured_modelled_and_reference_stand_apart(filled: Filled) -> None:
    page = filled.page("/problems/split_k_merge/leaderboard")
    parts = re.split(r'<h2 id="(measured|modelled|reference)">', page)
    measured, modelled, reference = parts[2], parts[4], parts[6]
    assert "measured.cu" in measured and "modelled.cu" not in measured + reference
    assert "modelled.cu" in modelled and "measured.cu" not in modelled
    assert "hold no rank" in reference and "/submissions/" not in reference.partition("</main>")[0]
    names = [int(number) for number in re.findall(r"ladder\?rung=(\d+)", reference)]
    scores = [float(score) for score in re.findall(r'<td class="right">([\d.]+)</td>', reference)]
    assert len(names) == len(scores) >= 2 and scores == sorted(scores, reverse=True)


def test_a_track_that_nobody_entered(filled: Filled) -> None:
    page = filled.page("/problems/split_k_merge/leaderboard", dtype="bfloat16")
    assert "Nothing yet in this track" in page and "No rung is for this track" in page
    assert "39.6" in filled.page("/problems/paged_decode/leaderboard", dtype="float8_e4m3")
