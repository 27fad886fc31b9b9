"""Imports point inward: the site and the command line know the judge, the judge knows neither."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
HARNESS = sorted((ROOT / "harness").rglob("*.py"))
_BY_NAME = re.compile(r"import_module\(\"(\w+)")


@functools.cache
def imported(file: Path) -> frozenset[str]:
    """Top-level packages that a file imports, wherever in it."""
    return frozenset(_imported(file.read_text()))


def _imported(text: str) -> Iterator[str]:
    yield from _BY_NAME.findall(text)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (name.name.split(".")[0] for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield (node.module or "").split(".")[0]


@pytest.mark.parametrize("outer", ["web", "judge", "problems", "solutions", "tests"])
def test_the_judge_knows_nothing_of(outer: str) -> None:
    assert [file for file in HARNESS if outer in imported(file)] == []


@pytest.mark.parametrize(("package", "places"), [
    ("llvmlite", {"harness/emulator"}), ("pycuda", {"harness/devices", "harness/compile"}),
])  # fmt: skip
def test_few_places_alone_use(package: str, places: set[str]) -> None:
    assert {str(file.parent.relative_to(ROOT)) for file in HARNESS if package in imported(file)} == places


def test_no_site_package_is_needed_to_judge() -> None:
    """The extra [web] is for the site alone."""
    extra = {"fastapi", "starlette", "sqlalchemy", "alembic", "distributed", "uvicorn", "httpx2", "pygments", "babel"}
    files = [*HARNESS, ROOT / "judge.py"]
    assert [(file, found) for file in files if (found := extra & imported(file))] == []
