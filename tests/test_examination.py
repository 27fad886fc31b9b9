"""What `judge.py doctor` says of the site: each line says what is there, or what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from web import examination
from web.editor import build


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folders of a user who never used the site."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def _said(*packages: str) -> dict[str, tuple[bool, str]]:
    found = list(examination.look(packages, "pip install THIS"))
    assert not any(finding.needed for finding in found)  # one can judge without the site
    return {finding.subject: (finding.ok, finding.words) for finding in found}


def test_packages_that_are_missing_are_named_with_the_command() -> None:
    assert _said("json", "nobodys_module")["site"] == (False, "without nobodys_module; to install all: pip install THIS")
    assert _said("json")["site"] == (True, "python judge.py serve")


def test_the_editor_is_there_once_it_is_built(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ok, words = _said()["site editor"]
    assert not ok and "judge.py editor" in words
    monkeypatch.setattr(build, "bundle", lambda: home / "editor.js")
    assert _said()["site editor"] == (True, str(home / "editor.js"))


def test_the_folder_need_not_be_there_and_is_not_made(home: Path) -> None:
    assert _said()["site folder"] == (True, str(home / "data" / "cuda-attention-judge"))
    assert not (home / "data").exists()


def test_a_folder_that_takes_no_files_is_told(home: Path) -> None:
    (home / "data").write_text("in the way")
    ok, words = _said()["site folder"]
    assert not ok and str(home / "data") in words and "--folder" in words
