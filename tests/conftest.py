"""What several test files share: a tiny problem, and a way to judge with the fake toolchain."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from harness import problem as problems
from harness.emulator import jit
from harness.events import Event, Finished
from harness.pipeline import Options, judge
from harness.problem import Problem
from harness.results import Report
from harness.submission import from_bytes
from tests.fake_toolchain import TOOLCHAIN

if TYPE_CHECKING:
    from playwright.sync_api import Browser

_YAML = """
id: doubling
title: Doubling
difficulty: easy
tags: [test]
dtypes: [float32]
signature:
  - {name: x, type: element, role: in, shape: [n, "4"]}
  - {name: out, type: element, role: out, shape: [n, "4"]}
  - {name: n, type: int}
case_parameters:
  n: {type: int, min: 1}
tests:
  - {name: one, n: 1}
  - {name: two, n: 2}
  - {name: five, n: 5}
benchmarks:
  - {name: big, n: 1000}
limits: {seconds: 2.0, memory_mib: 64}
"""
_REFERENCE = """
import numpy as np


def make_inputs(case, rng):
    return {"x": rng.standard_normal((case["n"], 4), dtype=np.float32), "n": case["n"]}


def expected(inputs):
    return {"out": 2.0 * inputs["x"].astype(np.float64)}


def honest(inputs):
    yield {"out": 2 * inputs["x"]}


def cost(case):
    return {"bytes": 32 * case["n"], "flops": 4 * case["n"]}
"""


@pytest.fixture(autouse=True)
def own_signals() -> Iterator[None]:
    """The command line, called within a test, changes what signals do in this process: only until that test's end."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    yield
    for number, handler in before.items():
        if signal.getsignal(number) is not handler:
            signal.signal(number, handler)


@pytest.fixture
def quick_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels of the emulator without LLVM's optimiser, for tests of what it does not touch: they compile much faster."""
    compile_ir: Callable[..., jit.Native] = jit.compile_ir
    monkeypatch.setattr(jit, "compile_ir", lambda text, **levels: compile_ir(text, passes=0, codegen=0))


@pytest.fixture(scope="session")
def doubling(tmp_path_factory: pytest.TempPathFactory) -> Problem:
    """A problem of three cases, n = 1, 2 and 5: out [n, 4] is twice x [n, 4]."""
    directory = tmp_path_factory.mktemp("problems") / "doubling"
    directory.mkdir()
    texts = {
        "problem.yaml": _YAML,
        "reference.py": _REFERENCE,
        "statement.md": "# Double x\n",
        "starter.cu": "// TODO\n",
    }
    for name, text in texts.items():
        (directory / name).write_text(text)
    return problems.load_directory(directory)


@pytest.fixture
def events_of(doubling: Problem) -> Callable[..., list[Event]]:
    """Judge a text with the fake toolchain, as fast as its limits allow; keywords as of Options."""

    def run(text: str, **changes: object) -> list[Event]:
        defaults = {"seed": 7, "cache": False, "toolchain": TOOLCHAIN, "device": "cpu"}
        return list(judge(doubling, from_bytes("my.cu", text.encode()), Options(**{**defaults, **changes})))  # type: ignore[arg-type]

    return run


@pytest.fixture
def report_of(events_of: Callable[..., list[Event]]) -> Callable[..., Report]:
    """The report of such a judging."""

    def run(text: str, **changes: object) -> Report:
        last = events_of(text, **changes)[-1]
        assert isinstance(last, Finished)
        return last.report

    return run


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A Chromium for the tests of one file. Not of the whole session: as long as one is there, an event loop counts as
    running in this thread, and tests that run a loop of their own would fail."""
    from tests.browser import chromium  # only who browses needs Playwright

    with chromium() as started:
        yield started


@pytest.fixture
def nothing_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fails when the test leaves a child process or a temporary directory behind."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    yield
    deadline = time.monotonic() + 5  # a killed grandchild is gone only when the system has got round to it
    while (left := _processes_under(tmp_path)) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert left == [], "child processes are left running"
    assert [entry.name for entry in tmp_path.iterdir() if entry.name.startswith("judge-")] == []


def _processes_under(directory: Path) -> list[int]:
    """Process ids of children, and of whatever they started, whose own directory was made in this one."""
    mark = f"TMPDIR={directory}/judge-".encode()
    return [
        int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit() and mark in _environment(entry)
    ]


def _environment(process: Path) -> bytes:
    try:
        return (process / "environ").read_bytes()
    except OSError:
        return b""
