"""Children that sleep, fork, flood, eat, lie and die: nothing hangs, nothing is left, and each gets its verdict."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from harness.devices.base import Argument
from harness.errors import JudgeError, SubmissionError, UsageError
from harness.report import json
from harness.results import Report
from harness.sandbox import codec, frames
from harness.sandbox.death import Cause, ChildDied, cause_of_exit
from harness.sandbox.frames import Decoder, Frame, FrameError
from harness.sandbox.limits import MIB
from harness.sandbox.supervisor import Artefacts, Source, compile_source
from harness.verdict import FindingKind, Verdict
from tests.fake_toolchain import FINDINGS, TOOLCHAIN

Judge = Callable[..., Report]
pytestmark = pytest.mark.usefixtures("nothing_left")


@pytest.mark.parametrize(
    ("misdeed", "verdict", "kind"),
    [
        ("sleep", Verdict.TIME_LIMIT, FindingKind.TIME_LIMIT),
        ("stop", Verdict.TIME_LIMIT, FindingKind.TIME_LIMIT),
        ("fork", Verdict.TIME_LIMIT, FindingKind.TIME_LIMIT),
        ("flood", Verdict.OUTPUT_LIMIT, FindingKind.OUTPUT_LIMIT),
        ("flood_stderr", Verdict.OUTPUT_LIMIT, FindingKind.OUTPUT_LIMIT),
        ("bad_alloc", Verdict.MEMORY_LIMIT, FindingKind.MEMORY_LIMIT),
        ("garbage", Verdict.JUDGE_ERROR, FindingKind.NOTE),
        ("hang_up", Verdict.JUDGE_ERROR, FindingKind.NOTE),
        ("exit", Verdict.JUDGE_ERROR, FindingKind.NOTE),
        ("raise", Verdict.JUDGE_ERROR, FindingKind.NOTE),
        ("crash", Verdict.JUDGE_ERROR, FindingKind.NOTE),
        ("kill", Verdict.JUDGE_ERROR, FindingKind.NOTE),
        ("short", Verdict.JUDGE_ERROR, FindingKind.NOTE),
        ("double", Verdict.JUDGE_ERROR, FindingKind.NOTE),
        ("judge_error", Verdict.JUDGE_ERROR, FindingKind.NOTE),
    ],
)
def test_each_death_of_the_run_child_has_its_verdict(
    report_of: Judge, monkeypatch: pytest.MonkeyPatch, misdeed: str, verdict: Verdict, kind: FindingKind
) -> None:
    monkeypatch.setattr("harness.sandbox.supervisor.RUN_GRACE", 0.2)
    report = report_of(f"@run {misdeed}", cases="one", seconds=0.2)
    (case,) = report.cases
    assert (case.verdict, [finding.kind for finding in case.findings]) == (verdict, [kind])
    assert report.verdict is verdict


@pytest.mark.parametrize(
    ("misdeed", "reason"),
    [("raise", "ZeroDivisionError"), ("crash", "killed by SIGSEGV"), ("exit", "exit status 0"),
     ("judge_error", "the emulator lost its way"), ("secret", "no file at notes.txt in here")],
)  # fmt: skip
def test_the_judges_own_failure_is_named_without_traceback_and_paths(
    report_of: Judge, caplog: pytest.LogCaptureFixture, misdeed: str, reason: str
) -> None:
    with caplog.at_level("DEBUG", logger="harness"):
        report = report_of(f"@run {misdeed}", cases="one")
    text = json.render(report)
    assert f"The judge's own run process failed ({reason}). This is not the submission's fault." in text
    assert "Traceback" not in text and "File " not in text and "/" not in text
    assert ("1 / 0" in caplog.text) == (misdeed == "raise")


@pytest.mark.parametrize("misdeed", ["raise", "eat_memory", "bad_alloc"])
def test_a_failed_compile_child_shows_no_traceback(misdeed: str) -> None:
    with pytest.raises((JudgeError, SubmissionError)) as caught:
        _compile(f"@compile {misdeed}")
    text = str(caught.value) + getattr(caught.value, "log", "")
    assert "Traceback" not in text and "/" not in text
    assert ("ZeroDivisionError" in text) == (misdeed == "raise")


def test_the_last_exception_of_a_chain_is_the_one_named() -> None:
    stderr = (
        'Traceback (most recent call last):\n  File "/a/b.py", line 1, in f\n    1 / 0\n    ~~^~~\nZeroDivisionError: no\n\n'
        'During handling of the above exception, another exception occurred:\n\nTraceback (most recent call last):\n'
        '  File "/a/b.py", line 3, in f\n    g()\nllvmlite.binding.Bad: one\nTwo: three\n'
    )  # fmt: skip
    assert ChildDied(Cause.EXIT, "exit status 1", "", stderr).reason == "Bad"
    assert ChildDied(Cause.EXIT, "exit status 1", "", "no traceback: here").reason == "exit status 1"


def test_memory_beyond_the_limit_is_a_memory_limit(report_of: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.pipeline._EMULATOR_BYTES", 256 * MIB)
    assert report_of("@run eat_memory", cases="one").verdict is Verdict.MEMORY_LIMIT


@pytest.mark.parametrize("misdeed", ["sleep", "flood", "flood_stderr", "fork", "crash", "bad_alloc"])
def test_compiling_beyond_a_limit_is_a_compile_error_that_names_it(misdeed: str) -> None:
    with pytest.raises(SubmissionError) as caught:
        _compile(f"@compile {misdeed}")
    assert caught.value.verdict is Verdict.COMPILE_ERROR
    assert "limit was reached" in str(caught.value) or "compiler crashed" in str(caught.value)


@pytest.mark.parametrize("misdeed", ["garbage", "hang_up", "exit", "raise", "kill"])
def test_a_compile_child_that_fails_otherwise_is_the_judges_fault(misdeed: str) -> None:
    with pytest.raises(JudgeError):
        _compile(f"@compile {misdeed}")


def test_what_the_compiler_reports_reaches_the_supervisor() -> None:
    assert _compile("@compile warn").log == "my.cu(1): warning: hm\n"
    with pytest.raises(UsageError, match="no compiler here"):
        _compile("@compile usage")
    with pytest.raises(SubmissionError) as caught:
        _compile("@compile refuse")
    assert caught.value.log == "my.cu(1): error: no\n"


def test_children_see_none_of_the_supervisors_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_SECRET", "canary-7261")
    monkeypatch.setenv("NVCC_APPEND_FLAGS", "--canary-7262")
    log = _compile("@compile environment").log
    assert "PATH=" in log and "canary" not in log


def test_files_of_a_child_go_with_it(report_of: Judge) -> None:
    assert report_of("@run write_file", cases="one").verdict is Verdict.ACCEPTED


def test_children_die_with_a_killed_supervisor(tmp_path: Path) -> None:
    program = (
        "from harness.sandbox.supervisor import Source, compile_source\n"
        "from tests.fake_toolchain import TOOLCHAIN\n"
        "compile_source(Source('@compile write_pid\\n@compile sleep', 'my.cu', '', 'H100'), TOOLCHAIN, 60)\n"
    )
    directory = tmp_path / "supervisor"
    directory.mkdir()
    environment = {**os.environ, "TMPDIR": str(directory)}
    root = Path(__file__).resolve().parents[1]
    with subprocess.Popen([sys.executable, "-c", program], cwd=root, env=environment) as supervisor:
        _wait_until(lambda: list(directory.glob("judge-*/pid-*")))
        (mark,) = directory.glob("judge-*/pid-*")
        supervisor.kill()
    _wait_until(lambda: not _runs(int(mark.name.removeprefix("pid-"))))


def _runs(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False


def _wait_until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline, "the condition never came true"
        time.sleep(0.01)


def _compile(text: str) -> Artefacts:
    return compile_source(Source(text, "my.cu", "void solve();", "H100"), TOOLCHAIN, 1.0)


@pytest.mark.parametrize(
    ("status", "stderr", "resident", "cause"),
    [
        (-signal.SIGSEGV, "", 0, Cause.CRASH),
        (-signal.SIGSEGV, "", 90, Cause.MEMORY),
        (-signal.SIGABRT, "LLVM ERROR: out of memory", 0, Cause.MEMORY),
        (1, "numpy: _ArrayMemoryError: Unable to allocate", 0, Cause.MEMORY),
        (-signal.SIGXCPU, "", 0, Cause.DEADLINE),
        (-signal.SIGKILL, "", 0, Cause.EXIT),
        (-signal.SIGKILL, "", 95, Cause.MEMORY),
        (0, "out of memory", 95, Cause.EXIT),
    ],
)
def test_the_cause_of_an_end(status: int, stderr: str, resident: int, cause: Cause) -> None:
    assert cause_of_exit(status, stderr, resident, 100)[0] is cause


def test_frames_carry_fields_and_arrays() -> None:
    arrays: dict[str, np.ndarray] = {
        "a": np.arange(6, dtype=np.float32).reshape(2, 3),
        "empty": np.empty((0, 4), np.int32),
        "strided": np.arange(10)[::2],
        "scalar": np.array(2.5),
        "narrow": np.linspace(-3, 3, 15, dtype=np.float32).reshape(3, 5).astype(ml_dtypes.bfloat16),
        "eight bits": np.array([[-448, 0, 0.0078125]], ml_dtypes.float8_e4m3fn),
    }
    sent = Frame("kind", {"text": "\N{SNOWMAN}", "list": [1, None]}, arrays)
    got = _through_a_socket(sent)
    assert (got.kind, got.fields) == (sent.kind, sent.fields)
    for name, array in arrays.items():
        np.testing.assert_array_equal(got.arrays[name], array)
        assert got.arrays[name].dtype == array.dtype


def _through_a_socket(frame: Frame) -> Frame:
    left, right = socket.socketpair()
    with left, right:
        sender = threading.Thread(target=frames.send, args=(left, frame))
        sender.start()
        received = frames.receive(right, 1 << 20)
        sender.join()
    assert received
    return received


def _feed(data: bytes, max_payload: int = 1 << 16) -> Frame | None:
    decoder = Decoder(max_payload)
    frame = None
    while data and frame is None:
        wanted = decoder.wanted()
        count = min(len(wanted), len(data))
        wanted[:count] = data[:count]
        data = data[count:]
        frame = decoder.advance(count)
    return frame


def _bytes_of(frame: Frame) -> bytes:
    return b"".join(bytes(part) for part in frames.encode(frame))


def test_a_payload_above_what_is_due_is_refused_before_it_is_read() -> None:
    whole = _bytes_of(Frame("k", {}, {"a": np.zeros(100)}))
    with pytest.raises(FrameError, match="at most 64 are due"):
        _feed(whole[:16], max_payload=64)


@pytest.mark.parametrize(
    "arrays",
    [
        [{"name": "a", "dtype": "float32", "shape": [100]}],
        [{"name": "a", "dtype": "float32", "shape": [-1]}],
        [{"name": "a", "dtype": "float32", "shape": [1 << 40, 1 << 40]}],
        [{"name": "a", "dtype": "object", "shape": [1]}],
        [{"name": "a", "dtype": "float32", "shape": "x"}],
        [{"name": "a", "dtype": "float32", "shape": [True]}],
        [{"name": "a", "dtype": "uint8", "shape": [1]}, {"name": "a", "dtype": "uint8", "shape": [1]}],
        ["a"],
        [{}],
    ],
)
def test_array_declarations_that_do_not_add_up_are_refused(arrays: object) -> None:
    with pytest.raises(FrameError):
        frames._assemble({"kind": "k", "fields": {}, "arrays": arrays}, np.zeros(64, np.uint8))


def test_damaged_frames_are_refused_and_never_crash() -> None:
    rng = np.random.default_rng(1)
    arguments = [Argument("out", np.zeros((4, 4), np.float32), "out", "float")]
    result = codec.RunResult({"out": np.ones((4, 4), np.float32)}, (FINDINGS["race"],), "hi", 0.1, {"out": 0})
    whole = _bytes_of(codec.result_frame(result))
    assert codec.read_result(_feed(whole), arguments).findings == result.findings  # type: ignore[arg-type]
    for _ in range(3000):
        damaged = bytearray(whole)
        for _ in range(rng.integers(1, 4)):
            damaged[rng.integers(len(damaged))] = rng.integers(256)
        try:
            frame = _feed(bytes(damaged[: rng.integers(1, len(damaged) + 1)]))
            if frame:
                codec.read_result(codec.check(frame, "result"), arguments)
        except JudgeError:
            pass
