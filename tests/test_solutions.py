"""The ladder of solutions: every rung says what it is about, and compiles for the oldest card that can run it.

That each is accepted on every test, without findings, is in tests/test_submissions.py.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests import ladder

ROOT = Path(__file__).resolve().parents[1]
SOLUTIONS = {str(p.relative_to(ROOT)): p for p in sorted((ROOT / "solutions").glob("*/*.cu"))}
OLDEST = 75  # sm_75, which is what a file runs on where it names nothing newer
_NEEDS = re.compile(r"^// Needs sm_(\d+)\b", re.MULTILINE)
_NAME = re.compile(r"(\d\d)_[a-z0-9_]+\.cu")


def least_architecture(source: str) -> int:
    """75 for sm_75, unless the file's header says `// Needs sm_NN`."""
    needs = _NEEDS.search(source)
    return int(needs[1]) if needs else OLDEST


@pytest.mark.parametrize("name", SOLUTIONS)
def test_a_rung_says_its_idea_its_cost_and_what_it_gained(name: str) -> None:
    header = SOLUTIONS[name].read_text().split("#include")[0]
    assert all(line.startswith("//") for line in header.splitlines())
    for word in ("Idea", "Cost", "Gain", "Measured", "Modelled"):
        assert re.search(rf"^// {word}\b", header, re.MULTILINE), word


@pytest.mark.parametrize("name", SOLUTIONS)
def test_a_rung_quotes_what_was_measured(name: str) -> None:
    """`python -m tests.ladder` writes the line."""
    key = name.removeprefix("solutions/").removesuffix(".cu")
    assert ladder.header(SOLUTIONS[name].read_text()) == ladder.measured(key, ladder.results())


def test_the_rungs_of_a_problem_are_numbered_without_a_gap() -> None:
    for directory in sorted((ROOT / "solutions").iterdir()):
        names = [_NAME.fullmatch(p.name) for p in sorted(directory.glob("*.cu"))]
        assert [int(n[1]) if n else 0 for n in names] == list(range(1, len(names) + 1)), directory.name


@pytest.mark.skipif(not shutil.which("nvcc"), reason="no nvcc: it comes with a CUDA toolkit")
@pytest.mark.parametrize("name", SOLUTIONS)
def test_a_rung_compiles_for_its_oldest_card_without_a_warning(name: str, tmp_path: Path) -> None:
    """As a user would: whole, host code included."""
    arch = least_architecture(SOLUTIONS[name].read_text())
    command = ["nvcc", f"-arch=sm_{arch}", "-Werror", "all-warnings", "-c", "-o", str(tmp_path / "rung.o")]
    run = subprocess.run([*command, str(SOLUTIONS[name])], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
