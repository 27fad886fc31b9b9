"""Which files a command line means, for which problem; and all complaints before anything is judged."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from harness.errors import UsageError
from harness.grading.declaration import Declaration
from harness.grading.discovery import find
from harness.problem import Problem


def _write(root: Path, **texts: str) -> None:
    """Files by path, with __ for / and a name's ending after the last _."""
    for name, text in texts.items():
        path = root / name.replace("__", "/").replace("_cu", ".cu").replace("_yaml", ".expect.yaml")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_a_folder_is_searched_in_the_order_of_names(doubling: Problem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    _write(Path(), b_cu="x", a__z_cu="x", a__y_cu="x", a__y_yaml="verdict: data_race", notes_txt="x")
    _write(Path(".git"), hidden_cu="x")
    found = find([Path(".")], str(doubling.directory))
    assert [entry.name for entry in found] == ["a/y.cu", "a/z.cu", "b.cu"]
    assert [entry.declared.verdict for entry in found] == ["data_race", "accepted", "accepted"]


def test_paths_keep_their_order_and_a_file_is_judged_once(doubling: Problem, tmp_path: Path) -> None:
    _write(tmp_path, a_cu="x", b_cu="x", b_yaml="verdict: data_race")
    paths = [tmp_path / "b.expect.yaml", tmp_path, tmp_path / "a.cu"]
    assert [Path(entry.name).name for entry in find(paths, str(doubling.directory))] == ["b.cu", "a.cu"]


def test_the_nearest_folder_that_is_named_after_a_problem_counts(tmp_path: Path) -> None:
    _write(tmp_path, paged_decode__split_k_merge__anna__a_cu="x", split_k_merge__paged_decode__b_cu="x")
    found = find([tmp_path])
    assert {Path(entry.name).name: entry.problem.id for entry in found} == {"a.cu": "split_k_merge", "b.cu": "paged_decode"}


def test_a_declared_problem_goes_before_the_folder(tmp_path: Path) -> None:
    _write(tmp_path, paged_decode__a_cu="// judge: problem=flash_attention")
    assert find([tmp_path])[0].problem.id == "flash_attention"


def test_a_problem_of_ones_own_is_found_around_and_beside_the_file(doubling: Problem, tmp_path: Path) -> None:
    shutil.copytree(doubling.directory, tmp_path / "doubling")
    _write(tmp_path, doubling__bad__a_cu="x", class__b_cu="// judge: problem=../doubling")
    found = find([tmp_path / "doubling" / "bad", tmp_path / "class"])
    assert [entry.problem.directory.name for entry in found] == ["doubling", "doubling"]


def test_a_sidecar_that_names_a_file_is_an_entry_of_its_own(doubling: Problem, tmp_path: Path) -> None:
    _write(tmp_path, a_cu="x", b_yaml="source: a.cu\nverdict: data_race")
    found = find([tmp_path], str(doubling.directory))
    assert [(Path(entry.name).name, entry.source.name) for entry in found] == [("a.cu", "a.cu"), ("b.expect.yaml", "a.cu")]


def test_files_of_others_have_no_say(doubling: Problem, tmp_path: Path) -> None:
    """Nor can they stop the grading of all the rest by a malformed declaration."""
    _write(tmp_path, a_cu="// judge: verdict=wrong_answer cases=one", b_cu="// judge: nonsense", c_yaml="source: /etc/passwd")
    found = find([tmp_path], str(doubling.directory), trusted=False)
    assert [(Path(entry.name).name, entry.declared) for entry in found] == [("a.cu", Declaration()), ("b.cu", Declaration())]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("absent", r"there is no file or folder .*absent"),
        ("empty", r"empty: there is no \.cu file in this folder"),
        ("empty/notes.txt", r"notes\.txt: a file to grade ends in \.cu or in \.expect\.yaml"),
        ("lost.cu", r"lost\.cu: for which problem is it\?.*flash_attention.*--problem ID"),
        ("unknown.cu", r"unknown\.cu:1: problem: no problem 'paged_decod': did you mean 'paged_decode'\?"),
        ("case.cu", r"case\.cu:1: paged_decode has no case 'nope'"),
        ("dtype.cu", r"dtype\.cu:1: paged_decode has no dtype 'int4'; it has: float32"),
        ("pipe.cu", r"pipe\.cu: not a regular file"),
    ],
)
def test_complaints(tmp_path: Path, given: str, message: str) -> None:
    texts = {"unknown_cu": "// judge: problem=paged_decod", "case_cu": "// judge: problem=paged_decode cases=nope"}
    _write(tmp_path, empty__notes_txt="", lost_cu="x", dtype_cu="// judge: problem=paged_decode dtype=int4", **texts)
    (tmp_path / "empty" / "notes_txt").rename(tmp_path / "empty" / "notes.txt")
    os.mkfifo(tmp_path / "pipe.cu")
    with pytest.raises(UsageError, match=message):
        find([tmp_path / given])


def test_all_complaints_come_at_once(tmp_path: Path) -> None:
    for number in range(12):
        (tmp_path / f"{number:02}.cu").write_text("// judge: nonsense")
    with pytest.raises(UsageError, match=r"since 13 things are wrong:\n  there is no.*(\n.*){9}\n  and 3 more\Z"):
        find([tmp_path / "absent", tmp_path])
