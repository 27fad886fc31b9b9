"""The command line from outside: what it prints, where, and its exit code."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from harness.problem import Problem
from harness.verdict import Verdict

ROOT = Path(__file__).resolve().parents[1]
# Runs judge.py with the fake toolchain in place of the real one.
_WITH_FAKES = """
import sys
sys.path.insert(0, {root!r})
import harness.sandbox.supervisor as supervisor
from tests.fake_toolchain import TOOLCHAIN
supervisor.Toolchain = lambda: TOOLCHAIN
import judge
sys.exit(judge.main())
"""


def _command(*words: str | Path, fakes: bool = False) -> list[str]:
    start = ["-c", _WITH_FAKES.format(root=str(ROOT))] if fakes else [str(ROOT / "judge.py")]
    return [sys.executable, *start, *map(str, words)]


def _run(*words: str | Path, cwd: Path | None = None, fakes: bool = False) -> subprocess.CompletedProcess[str]:
    return subprocess.run(_command(*words, fakes=fakes), capture_output=True, text=True, cwd=cwd, timeout=60)


def _judge(doubling: Problem, path: Path, text: str, *words: str) -> subprocess.CompletedProcess[str]:
    (path / "my.cu").write_text(text)
    return _run(doubling.directory, "my.cu", "--no-cache", "--device", "cpu", *words, cwd=path, fakes=True)


@pytest.mark.parametrize(
    ("text", "code", "verdict"),
    [
        ("// fine", 0, "accepted"),
        ("@run wrong", 1, "wrong_answer"),
        ("@compile refuse", 1, "compile_error"),
        ("@run raise", 3, "judge_error"),
        ("@run unsupported", 4, "unsupported"),
        ("", 1, "compile_error"),
        ("\0", 1, "compile_error"),
    ],
)
def test_exit_codes(doubling: Problem, tmp_path: Path, text: str, code: int, verdict: str) -> None:
    done = _judge(doubling, tmp_path, text, "--json", "report.json")
    assert (done.returncode, done.stderr) == (code, "")
    assert f"\n{verdict}  " in done.stdout
    assert json.loads((tmp_path / "report.json").read_text())["verdict"] == verdict


def test_the_seed_that_is_shown_repeats_the_run(doubling: Problem, tmp_path: Path) -> None:
    first = _judge(doubling, tmp_path, "@run wrong").stdout
    repeat = re.search(r"repeat: python judge.py (.*)", first)
    assert repeat and str(doubling.directory) in repeat[1]
    seed = repeat[1].split("--seed ")[1].split()[0]
    again = _judge(doubling, tmp_path, "@run wrong", "--seed", seed).stdout
    mismatches = [re.findall(r"expected \S+, found \S+", text) for text in (first, again)]
    assert mismatches[0] and mismatches[0] == mismatches[1]


def test_json_to_standard_output_is_alone_there(doubling: Problem, tmp_path: Path) -> None:
    done = _judge(doubling, tmp_path, "// fine", "--json", "-", "--cases", "t*", "--seed", "3")
    report = json.loads(done.stdout)
    assert ([case["name"] for case in report["cases"]], report["seed"]) == (["two"], 3)
    assert "accepted" in done.stderr


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], "name a problem and a file"),
        (["flash_atention", "x.cu"], "flash_attention"),
        (["flash_attention"], "judge.py start flash_attention"),
        (["my.cu", "flash_attention"], "the problem comes first"),
        (["flash_attention", "absent.cu"], "absent.cu"),
        (["flash_attention", "x.cu", "--devise", "cpu"], "did you mean --device?"),
        (["flash_attention", "x.cu", "--device", "tpu"], "tpu"),
        (["flash_attention", "x.cu", "--seed", "-1"], "--seed"),
        (["flash_attention", "x.cu", "--seed", "x"], "'x' is no whole number"),
        (["flash_attention", "x.cu", "--time-limit", "nan"], "'nan' is no number of seconds"),
        (["flash_attention", "x.cu", "--threads", "0"], "'0' is no whole number"),
        (["flash_attention", "x.cu", "--card", "H1000"], "H100"),
        (["flash_attention", "x.cu", "--json", "/absent/report.json"], "cannot write the report"),
        (["flash_attention", "x.cu", "y.cu"], "unknown argument 'y.cu'"),
        (["docter"], "doctor"),
        (["show", "nothing"], "no problem 'nothing'"),
        (["list", "--long"], "unknown argument '--long'"),
    ],
)
def test_wrong_usage_is_one_line_with_a_way_out(tmp_path: Path, words: list[str], expected: str) -> None:
    (tmp_path / "x.cu").write_text("// x")
    done = _run(*words, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert expected in done.stderr
    assert done.stderr.startswith("judge.py") and len(done.stderr.splitlines()) == 1


def test_unknown_cases_name_the_known_ones(doubling: Problem, tmp_path: Path) -> None:
    done = _judge(doubling, tmp_path, "//", "--cases", "six")
    assert done.returncode == 2 and "one, two, five" in done.stderr


def test_list_and_show() -> None:
    listed = _run("list").stdout
    assert all(name in listed for name in ("flash_attention", "paged_decode", "split_k_merge"))
    shown = _run("show", "split_k_merge").stdout
    assert 'extern "C" void solve(const float* partial_out' in shown and "one_split" in shown


def test_start_writes_the_starter_and_never_overwrites(tmp_path: Path) -> None:
    assert _run("start", "flash_attention", cwd=tmp_path).returncode == 0
    starter = (ROOT / "problems/flash_attention/starter.cu").read_text()
    assert (tmp_path / "flash_attention.cu").read_text() == starter
    (tmp_path / "flash_attention.cu").write_text("my work")
    again = _run("start", "flash_attention", cwd=tmp_path)
    assert again.returncode == 2 and "exists and is left as it is" in again.stderr
    assert (tmp_path / "flash_attention.cu").read_text() == "my work"
    assert _run("start", "flash_attention", "absent/x.cu", cwd=tmp_path).returncode == 2


def test_doctor_says_what_is_there() -> None:
    done = _run("doctor")
    subjects = {line.split()[1]: line.split()[0] for line in done.stdout.splitlines() if len(line.split()) > 2}
    assert subjects["python"] == subjects["numpy"] == subjects["compiler"] == subjects["emulator"] == "ok"
    assert "pycuda" in subjects
    assert done.returncode == 0 and "this machine can judge" in done.stdout


def test_a_missing_package_is_one_line_with_the_command(tmp_path: Path) -> None:
    (tmp_path / "numpy.py").write_text("raise ModuleNotFoundError(\"No module named 'numpy'\", name='numpy')")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(_command("list"), capture_output=True, text=True, env=environment, timeout=60)
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1
    assert "'numpy' is missing" in done.stderr and "-m pip install -e" in done.stderr


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupt_ends_at_once_and_leaves_nothing(
    doubling: Problem, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    (tmp_path / "my.cu").write_text("@run sleep")
    command = _command(doubling.directory, "my.cu", "--no-cache", "--device", "cpu", "--time-limit", "300", fakes=True)
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True, env=environment) as process:
        _wait_for_child(tmp_path)
        process.send_signal(number)
        _, error = process.communicate(timeout=30)
    assert process.returncode == code
    assert "Traceback" not in error
    assert not list(tmp_path.glob("judge-*"))


def _wait_for_child(directory: Path) -> None:
    deadline = time.monotonic() + 30
    while not list(directory.glob("judge-*")):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    time.sleep(0.5)


def test_progress_only_on_a_terminal(doubling: Problem, tmp_path: Path) -> None:
    (tmp_path / "my.cu").write_text("// fine")
    leader, follower = pty.openpty()
    command = _command(doubling.directory, "my.cu", "--no-cache", "--device", "cpu", fakes=True)
    done = subprocess.run(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=follower, timeout=60)
    os.close(follower)
    shown = os.read(leader, 65536)
    os.close(leader)
    assert b"compiling my.cu" in shown or b"case" in shown or b"starting" in shown
    assert done.returncode == 0 and b"\x1b" not in done.stdout


def test_a_closed_pipe_is_no_traceback() -> None:
    done = subprocess.run(f"{sys.executable} {ROOT / 'judge.py'} show paged_decode | head -1 >/dev/null",
                          shell=True, capture_output=True, text=True, timeout=60)  # fmt: skip
    assert "Traceback" not in done.stderr


def test_an_old_python_is_told_so() -> None:
    first = (ROOT / "judge.py").read_text().split("import contextlib")[0]
    program = f"import sys\nsys.version_info = (3, 10)\n{first.replace('from __future__ import annotations', '')}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "needs Python 3.11 or newer" in done.stderr


@pytest.mark.parametrize("word", [*Verdict, "--json", "--seed", "--device", "--cases", "doctor", "pytest"])
def test_the_readme_mentions_it(word: str) -> None:
    assert word in (ROOT / "README.md").read_text()
