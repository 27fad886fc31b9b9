"""A compiler and a device without CUDA: the source itself says what they do.

Each line `@compile WORD` or `@run WORD` is an order; without any, the device doubles `x` into `out`, as the problem in
conftest.py asks. Children import this module by name, hence no pytest here.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from harness.devices.base import Argument, Program, RunLimits, RunResult
from harness.emulator.objects import STORE
from harness.errors import JudgeError, SubmissionError, UsageError
from harness.results import Access, Finding, KernelResources, LaunchShape
from harness.sandbox.supervisor import Toolchain
from harness.verdict import FindingKind, Verdict

TOOLCHAIN = Toolchain(
    compiler="tests.fake_toolchain:compile_submission",
    meter="tests.fake_toolchain:measure",
    cpu="tests.fake_toolchain:FakeDevice",
    gpu="tests.fake_toolchain:NoDevice",
)
OBJECT = b"\x7fELF\2\1\1" + bytes(9) + b"\1\0" + bytes(100)  # looks like an object file


@dataclass(frozen=True)
class Compiled:
    """As the real compiler's."""

    ptx: str
    log: str
    seconds: float


def orders(text: str, stage: str) -> list[str]:
    """The orders for one stage, in their order."""
    words = [line.strip().split() for line in text.splitlines()]
    return [word[1] for word in words if len(word) == 2 and word[0] == f"@{stage}"]


def compile_submission(text: str, name: str, declaration: str, card: object) -> Compiled:
    """The PTX is the text."""
    log = ""
    for order in orders(text, "compile"):
        if order == "refuse":
            raise SubmissionError(Verdict.COMPILE_ERROR, "refused", log=f"{name}(1): error: no\n")
        if order == "usage":
            raise UsageError("no compiler here")
        if order == "warn":
            log += f"{name}(1): warning: hm\n"
        if order == "environment":
            log += "\n".join(f"{key}={value}" for key, value in os.environ.items())
        MISDEEDS.get(order, lambda: None)()
    return Compiled(text, log, 0.5)


def measure(text: str, name: str, declaration: str, card: object) -> tuple[KernelResources, ...]:
    """Two kernels, of which the device launches the first."""
    for order in orders(text, "measure"):
        if order == "refuse":
            raise SubmissionError(Verdict.COMPILE_ERROR, "refused at full optimisation")
        MISDEEDS.get(order, lambda: None)()
    return (KernelResources("_Z6doublePf", "double", 40, 16, 24, 32, 2048), KernelResources("_Z5otherPf", "other", 255))


class FakeDevice:
    """Doubles, and misbehaves as told."""

    name = "fake"

    def __init__(self) -> None:
        self.broken = False
        self.runs = 0

    def run(self, program: Program, arguments: list[Argument], limits: RunLimits, seed: int) -> RunResult:
        """out = 2 x"""
        self.runs += 1
        values = {argument.name: argument.value for argument in arguments}
        x, n = values["x"], values["n"]
        assert isinstance(x, np.ndarray)
        out, findings, said, unwritten = 2 * x, [], "", 0
        launches: list[LaunchShape] = []
        for order in orders(program.ptx, "run"):
            said += f"run {self.runs} of {os.getpid()}\n" if order == "say" else ""
            order, _, size = order.partition("@")
            if size and int(size) != n:
                continue
            if order == "wrong":
                out = 3 * x
            elif order == "nan":
                out = np.full_like(x, np.nan)
            elif order == "nothing":
                out, unwritten = np.full_like(x, np.nan), x.size
            elif order == "short":
                out = out[:-1]
            elif order == "double":
                out = out.astype(np.float64)
            elif order == "judge_error":
                raise JudgeError("the emulator lost its way")
            elif order == "secret":
                raise JudgeError("no file at /home/me/notes.txt in here")
            elif order == "refuse":
                raise SubmissionError(Verdict.UNSUPPORTED, "no wgmma here")
            elif order == "broken":
                self.broken = True
            elif order == "launch":
                launches.append(LaunchShape("_Z6doublePf", (int(n), 4, 1), (128, 1, 1), 1024))
            elif order == "compile":  # what a kernel's native code would do to the store of objects
                STORE.add("a" * 64, OBJECT)
            elif order == "compile_rubbish":
                STORE.take_fresh = lambda: {"../../rubbish": OBJECT}  # type: ignore[method-assign]
            elif order == "know":
                said += f"known: {STORE.get('a' * 64) == OBJECT}\n"
            elif order in FINDINGS:
                findings.append(FINDINGS[order])
            elif order in list(FindingKind):
                findings.append(Finding(FindingKind(order), f"Seen: {order}."))
            MISDEEDS.get(order, lambda: None)()
        return RunResult({"out": out}, tuple(findings), said, 0.25, {"out": unwritten}, tuple(launches))


class NoDevice:
    """A GPU that is not there."""

    name = "none"

    def __init__(self) -> None:
        raise JudgeError("no CUDA driver")


FINDINGS = {
    "race": Finding(
        FindingKind.DATA_RACE,
        "Two threads write s[0].",
        "my.cu",
        1,
        "s",
        (0,),
        (0, 0, 0),
        (1, 0, 0),
        Access(2, (0, 0, 0), (2, 0, 0), True, "my.cu"),
        "double_it",
        ("my.cu:3",),
    ),
    "note": Finding(FindingKind.NOTE, "Worth saying."),
    "time": Finding(FindingKind.TIME_LIMIT, "Over the instruction budget.", "my.cu", 2),
    "unsupported": Finding(FindingKind.UNSUPPORTED, "No such instruction."),
}


def _flood(stream: int) -> None:
    block = b"x" * 4096
    while True:
        os.write(stream, block)


def _eat_memory() -> None:
    kept = []
    while True:
        kept.append(np.ones(1 << 23))


def _fork_and_sleep() -> None:
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"])
    time.sleep(300)


def _garbage() -> None:
    """Write bytes that are no frame where the answer would go, on every socket this process has."""
    for descriptor in _sockets():
        os.write(descriptor, b"HTTP/1.1 200 OK\r\n\r\nlook, I was accepted")
    time.sleep(300)


def _hang_up() -> None:
    for descriptor in _sockets():
        os.close(descriptor)
    time.sleep(300)


def _sockets() -> list[int]:
    entries = [int(name) for name in os.listdir("/proc/self/fd")]
    return [descriptor for descriptor in entries if descriptor > 2 and _is_socket(descriptor)]


def _is_socket(descriptor: int) -> bool:
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}").startswith("socket:")
    except OSError:
        return False


MISDEEDS: dict[str, Callable[[], object]] = {
    "sleep": lambda: time.sleep(300),
    "stop": lambda: os.kill(os.getpid(), signal.SIGSTOP),
    "flood": lambda: _flood(1),
    "flood_stderr": lambda: _flood(2),
    "print": lambda: print("hello from the submission"),
    "eat_memory": _eat_memory,
    "fork": _fork_and_sleep,
    "garbage": _garbage,
    "hang_up": _hang_up,
    "exit": lambda: os._exit(0),
    "raise": lambda: 1 / 0,
    "crash": lambda: os.kill(os.getpid(), signal.SIGSEGV),
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "bad_alloc": lambda: (os.write(2, b"terminate called: std::bad_alloc\n"), os.abort()),
    "write_file": lambda: Path("left_behind").touch(),
    "write_pid": lambda: Path(f"pid-{os.getpid()}").touch(),
}
