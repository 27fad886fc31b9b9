"""What a file declares: in its first comment, beside it, or not at all; and every way to get that wrong."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.errors import UsageError
from harness.grading.declaration import Declaration, read
from harness.verdict import Verdict

CODE = "__global__ void k() {}\n"


def _declared(folder: Path, header: str = CODE, sidecar: str | None = None) -> Declaration:
    (folder / "a.cu").write_text(header)
    if sidecar is not None:
        (folder / "a.expect.yaml").write_text(sidecar)
    source, declared = read(folder / "a")
    assert source == folder / "a.cu"
    return declared


def test_what_declares_nothing_must_be_accepted(tmp_path: Path) -> None:
    assert _declared(tmp_path) == Declaration(verdict=Verdict.ACCEPTED, where="")


def test_a_header_knows_every_key(tmp_path: Path) -> None:
    header = """
/* A title.
 * judge: problem=p verdict=data_race finding=data_race
 */
// judge: line_contains="x[i] = \\"y\\"" message_contains='Two threads' cases=one,t*
// judge: dtype=float16 variant=lse emulator_only=true why="it need not bite"
"""
    assert _declared(tmp_path, header + CODE) == Declaration(
        problem="p", verdict=Verdict.DATA_RACE, finding="data_race", line_contains='x[i] = "y"',
        message_contains=("Two threads",), cases="one,t*", dtype="float16", variant="lse", emulator_only=True,
        why="it need not bite", where=f"{tmp_path}/a.cu:3",
    )  # fmt: skip


@pytest.mark.parametrize(
    "header",
    ["// judge: score>=40.5", "\ufeff//judge: score>=40.5\r", "/* judge: score>=40.5 */", "\n// title\n\n///  judge: score>=40.5"],
)
def test_a_directive_is_found_in_any_first_comment(tmp_path: Path, header: str) -> None:
    assert _declared(tmp_path, f"{header}\n{CODE}").score == 40.5


@pytest.mark.parametrize("text", [f"{CODE}// judge: verdict=data_race\n", 'char s[] = "// judge: verdict=x";', "// judges: none"])
def test_only_first_comments_declare(tmp_path: Path, text: str) -> None:
    assert _declared(tmp_path, text) == Declaration()


def test_a_file_that_is_no_text_declares_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.cu").write_bytes(b"\xff\xfe\x00//")
    assert read(tmp_path / "a")[1] == Declaration()


def test_a_sidecar_knows_the_same_keys(tmp_path: Path) -> None:
    sidecar = "verdict: accepted\nscore: 40\ncases: []\nmessage_contains: [a, b]\nwhy: so\n"
    assert _declared(tmp_path, sidecar=sidecar) == Declaration(
        score=40.0, message_contains=("a", "b"), why="so", where=f"{tmp_path}/a.expect.yaml"
    )


def test_header_and_sidecar_complete_each_other(tmp_path: Path) -> None:
    declared = _declared(tmp_path, "// judge: verdict=data_race cases=one\n", "verdict: data_race\nfinding: data_race\n")
    assert (declared.verdict, declared.cases, declared.finding) == ("data_race", "one", "data_race")
    assert declared.where == f"{tmp_path}/a.expect.yaml and {tmp_path}/a.cu:1"


def test_a_sidecar_may_name_a_file_from_a_folder_above(tmp_path: Path) -> None:
    below = tmp_path / "x" / "y"
    below.mkdir(parents=True)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "b.cu").write_text("// judge: verdict=time_limit\n")  # meant for itself alone
    (below / "a.expect.yaml").write_text("source: other/b.cu\nverdict: data_race\n")
    source, declared = read(below / "a")
    assert (source, declared.verdict) == (tmp_path / "other" / "b.cu", "data_race")


@pytest.mark.parametrize(
    ("header", "sidecar", "message"),
    [
        ("// judge: verdict=acceptd", None, r"a\.cu:1: verdict: found 'acceptd', allowed: accepted, "),
        ("\n// judge: verdict=judge_error", None, r"a\.cu:2: verdict: found 'judge_error', allowed"),
        ("// judge: finding=races", None, r"a\.cu:1: finding: found 'races', allowed: .*data_race"),
        ("// judge: accepted", None, r"a\.cu:1: found 'accepted'; a declaration is made of KEY=TEXT and score>=NUMBER"),
        ("// judge: score=40", None, r"a\.cu:1: found 'score=40'"),
        ("// judge: verdict>=accepted", None, r"a\.cu:1: found 'verdict>=accepted'"),
        ("// judge: score>=many", None, r"a\.cu:1: score: must be a number, found 'many'"),
        ("// judge: score>=0", None, r"a\.cu:1: score: found 0; a score is above 0"),
        ("// judge: score>=nan", None, r"a\.cu:1: score: must be a number, found 'nan'"),
        ("// judge: score>=40 cases=one", None, r"a\.cu:1: score: a score takes all cases"),
        ("// judge: score>=40 verdict=data_race", None, r"a\.cu:1: score: .* the verdict accepted"),
        ("// judge: emulator_only=yep", None, r"a\.cu:1: emulator_only: must be true or false, found 'yep'"),
        ('// judge: why="no end', None, r"a\.cu:1: a quotation mark is not closed"),
        ("// judge: why=a\n// judge: why=b", None, r"a\.cu:2: why: the key stands here twice"),
        ("// judge: source=b.cu", None, r"a\.cu:1: source: unknown key; allowed: problem, "),
        ("", "verdict: accepted\nfindin: x\n", r"a\.expect\.yaml:2: findin: unknown key; allowed: .*finding"),
        ("", "verdict: [", r"a\.expect\.yaml:1: not valid YAML"),
        ("", "", r"a\.expect\.yaml:1: the file is empty"),
        ("", "- verdict", r"a\.expect\.yaml:1: the file: must be a mapping"),
        ("", "why: so\nverdict: 3\n", r"a\.expect\.yaml:2: verdict: must be a text, found 3"),
        ("", "message_contains: [1.5]\n", r"a\.expect\.yaml:1: message_contains: must be a list of texts"),
        ("", "source: b.cu\n", r"a\.expect\.yaml: source: there is no file b\.cu"),
        ("// judge: verdict=data_race", "verdict: time_limit", r"declarations of verdict differ: time_limit in .*yaml, data_race in .*cu:1"),
        ("// judge: score>=40", "score: 50", r"declarations of score differ: 50.0 in "),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_its_place(tmp_path: Path, header: str, sidecar: str | None, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        _declared(tmp_path, header, sidecar)


def test_a_sidecar_is_a_small_regular_file_of_the_folder(tmp_path: Path) -> None:
    folder, sidecar = tmp_path / "class", tmp_path / "class" / "a.expect.yaml"
    folder.mkdir()
    (folder / "a.cu").write_text(CODE)
    (tmp_path / "b.expect.yaml").write_text("verdict: data_race\n")
    reasons: list[tuple[Callable[[], object], str]] = [
        (lambda: os.mkfifo(sidecar), "not a regular file"),
        (lambda: sidecar.symlink_to("/dev/zero"), "leads out of the folder"),
        (lambda: sidecar.symlink_to("../b.expect.yaml"), "leads out of the folder"),
        (lambda: sidecar.symlink_to("nowhere"), "a link to a file that is not there"),
        (lambda: sidecar.write_text("why: " + "x" * 65536), "larger than 64 KiB"),
    ]
    for make, reason in reasons:
        make()
        with pytest.raises(UsageError, match=rf"a\.expect\.yaml: .*{reason}"):
            read(folder / "a")
        sidecar.unlink()


def test_a_sidecar_alone_needs_a_file(tmp_path: Path) -> None:
    (tmp_path / "a.expect.yaml").write_text("verdict: accepted\n")
    with pytest.raises(UsageError, match=r"a\.expect\.yaml: there is no a\.cu beside it"):
        read(tmp_path / "a")
