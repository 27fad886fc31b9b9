"""A cache never changes a verdict: what is damaged, foreign or absent is compiled again."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness.compile import cache

PAYLOAD = b"compiled"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return cache.directory()


def key(**changes: str) -> str:
    fields = {"text": "int a;", "name": "a.cu", "declaration": "void solve();", "card": "H100", "arch": ""}
    return cache.key(*(fields | changes).values())


def test_a_payload_comes_back(folder: Path) -> None:
    assert cache.get(key()) is None
    cache.put(key(), PAYLOAD)
    assert cache.get(key()) == PAYLOAD
    assert [path.name for path in folder.iterdir()] == [key()]


@pytest.mark.parametrize("field", ["text", "name", "declaration", "card", "arch"])
def test_the_key_covers_every_input(field: str) -> None:
    assert key(**{field: "other"}) != key()


def test_parts_of_the_key_cannot_slide_into_each_other() -> None:
    assert key(text="ab", name="c") != key(text="a", name="bc")


@pytest.mark.parametrize("damage", [b"", b"x" * 10, b"x" * 100])
def test_a_damaged_entry_is_a_miss(folder: Path, damage: bytes) -> None:
    cache.put(key(), PAYLOAD)
    (folder / key()).write_bytes(damage)
    assert cache.get(key()) is None


def test_a_truncated_entry_is_a_miss(folder: Path) -> None:
    cache.put(key(), PAYLOAD)
    whole = (folder / key()).read_bytes()
    (folder / key()).write_bytes(whole[:-1])
    assert cache.get(key()) is None


def test_the_least_recently_used_go_first(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "MAX_BYTES", 2 * (len(PAYLOAD) + 32))
    for age, name in enumerate(("first", "second")):
        cache.put(name, PAYLOAD)
        os.utime(folder / name, (age, age))
    cache.get("first")
    cache.put("third", PAYLOAD)
    assert sorted(path.name for path in folder.iterdir()) == ["first", "third"]


def test_a_cache_that_cannot_be_written_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    cache.put(key(), PAYLOAD)
    assert cache.get(key()) is None


def test_a_relative_cache_home_is_ignored(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "here")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache.directory() == tmp_path / ".cache" / "cuda-attention-judge" / "compile"


def test_what_others_may_write_to_is_not_read(folder: Path) -> None:
    cache.put(key(), PAYLOAD)
    for path, mode in ((folder, 0o770), (folder, 0o707), (folder / key(), 0o620), (folder / key(), 0o602)):
        before = path.stat().st_mode
        path.chmod(mode)
        assert cache.get(key()) is None
        path.chmod(before)
    assert cache.get(key()) == PAYLOAD


def test_a_link_or_a_pipe_is_no_entry(folder: Path, tmp_path: Path) -> None:
    cache.put("other", PAYLOAD)
    (folder / key()).symlink_to(folder / "other")
    assert cache.get(key()) is None
    (folder / key()).unlink()
    os.mkfifo(folder / key(), 0o600)
    assert cache.get(key()) is None
