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


def test_with_files_of_others_the_folder_nearest_to_the_given_one_counts(tmp_path: Path) -> None:
    _write(tmp_path, class__flash_attention__anna__split_k_merge__a_cu="x")
    root = tmp_path / "class"
    for given in (root, root / "flash_attention", root / "flash_attention" / "anna" / ".."):
        assert find([given], trusted=False)[0].problem.id == "flash_attention"
    assert find([root])[0].problem.id == "split_k_merge"


@pytest.mark.parametrize("trusted", [True, False])
def test_no_problem_is_taken_from_below_the_given_folder(doubling: Problem, tmp_path: Path, trusted: bool) -> None:
    """Its reference.py would be run, and a malformed one would stop the grading of all the rest."""
    root = tmp_path / "split_k_merge"
    shutil.copytree(doubling.directory, root / "anna")
    _write(root, anna__a_cu="x", bob__b_cu="x")
    (root / "bob" / "problem.yaml").write_text("hello")
    assert [entry.problem.id for entry in find([root], trusted=trusted) if entry.name.endswith(("a.cu", "b.cu"))] == ["split_k_merge"] * 2


def test_nor_where_the_outermost_folder_is_one(doubling: Problem, tmp_path: Path) -> None:
    shutil.copytree(doubling.directory, tmp_path / "anna")
    _write(tmp_path, anna__split_k_merge__a_cu="x")
    (tmp_path / "anna" / "starter.cu").unlink()
    assert find([tmp_path], trusted=False)[0].problem.id == "split_k_merge"


def test_nor_where_a_file_declares_it(doubling: Problem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(doubling.directory, "class/mine")
    shutil.copytree(doubling.directory, "class/paged_decode")
    _write(Path("class"), a_cu="// judge: problem=mine", b_cu="// judge: problem=class/mine")
    for name in ("a.cu", "b.cu"):
        with pytest.raises(UsageError, match=rf"{name}:1: problem: class/mine is below class.* --problem"):
            find([Path("class") / name])
    _write(Path("class"), a_cu="// judge: problem=paged_decode", b_cu="x")
    assert find([Path("class/a.cu")])[0].problem.directory != Path("class/paged_decode").resolve()


def test_a_named_file_of_others_brings_no_problem_with_it(doubling: Problem, tmp_path: Path) -> None:
    shutil.copytree(doubling.directory, tmp_path / "anna")
    _write(tmp_path, anna__a_cu="x")
    with pytest.raises(UsageError, match="for which problem is it"):
        find([tmp_path / "anna" / "a.cu"], trusted=False)


@pytest.mark.parametrize("trusted", [True, False])
def test_what_must_not_be_opened_is_told_of_that_file_alone(doubling: Problem, tmp_path: Path, trusted: bool) -> None:
    root = tmp_path / "class"
    _write(root, good_cu="x", link__good_cu="x")
    (root / ".token").write_text("secret")
    _write(root / ".git", kept_cu="secret")
    os.mkfifo(root / "pipe.cu")
    targets = {
        "away.cu": "/etc/passwd", "hidden.cu": ".git/kept.cu", "other.cu": ".token", "in.cu": "good.cu", "loop.cu": "loop.cu", "none.cu": "nowhere",
        "zero.cu": "/dev/zero",
    }  # fmt: skip
    for name, target in targets.items():
        (root / name).symlink_to(target)
    faults = {Path(entry.name).name: entry.fault for entry in find([root], str(doubling.directory), trusted)}
    assert (faults.pop("good.cu"), faults.pop("in.cu")) == ("", "")
    said = {
        "away.cu": "out of the folder", "hidden.cu": "hidden", "loop.cu": "back to itself", "none.cu": "not there",
        "other.cu": "does not end in .cu", "pipe.cu": "not a regular file", "zero.cu": "out of the folder",
    }  # fmt: skip
    assert {name: said[name] in fault for name, fault in faults.items()} == dict.fromkeys(said, True)
    assert find([root / "none.cu"], str(doubling.directory), trusted)[0].fault


def test_a_sidecar_names_no_file_outside_but_one_of_the_problem(doubling: Problem, tmp_path: Path) -> None:
    problem = tmp_path / "doubling"
    shutil.copytree(doubling.directory, problem)
    _write(tmp_path, secret_cu="x", class__a_yaml="source: secret.cu", class__b_yaml="source: doubling/starter.cu")
    _write(tmp_path, class__c_yaml=f"source: {tmp_path}/secret.cu", class__d_yaml="source: doubling/reference.py")
    faults = [entry.fault for entry in find([tmp_path / "class"], str(problem))]
    assert [fault.startswith("source: it leads out of the folder") for fault in faults] == [True, False, True, True]
    assert faults[1] == ""


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
    ],
)
def test_complaints(tmp_path: Path, given: str, message: str) -> None:
    texts = {"unknown_cu": "// judge: problem=paged_decod", "case_cu": "// judge: problem=paged_decode cases=nope"}
    _write(tmp_path, empty__notes_txt="", lost_cu="x", dtype_cu="// judge: problem=paged_decode dtype=int4", **texts)
    (tmp_path / "empty" / "notes_txt").rename(tmp_path / "empty" / "notes.txt")
    with pytest.raises(UsageError, match=message):
        find([tmp_path / given])


def test_names_that_no_file_can_have_are_complaints(tmp_path: Path) -> None:
    long = "x" * 5000
    _write(tmp_path, a_cu=f"// judge: problem={long}", b_yaml=f"source: {long}", c_yaml='source: "a\\0b"')
    with pytest.raises(UsageError, match=r"a\.cu:1: problem: (.*\n.*)*b\.expect\.yaml: source: (.*\n.*)*c\.expect\.yaml: source: "):
        find([tmp_path])


def test_a_name_with_line_breaks_is_one_line_of_a_complaint(tmp_path: Path) -> None:
    (tmp_path / "a\n::error::b.cu").write_text("x")
    with pytest.raises(UsageError, match=r"a\\x0a::error::b\.cu: for which problem") as caught:
        find([tmp_path])
    assert "\n" not in str(caught.value)


def test_all_complaints_come_at_once(tmp_path: Path) -> None:
    for number in range(12):
        (tmp_path / f"{number:02}.cu").write_text("// judge: nonsense")
    with pytest.raises(UsageError, match=r"since 13 things are wrong:\n  there is no.*(\n.*){9}\n  and 3 more\Z"):
        find([tmp_path / "absent", tmp_path])
