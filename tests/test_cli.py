"""The command line from outside: what it prints, where, and its exit code."""

from __future__ import annotations

import json
import os
import pty
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from harness import commandline
from harness.problem import Problem
from harness.verdict import Verdict

ROOT = Path(__file__).resolve().parents[1]
TRACKS = ROOT / "tests" / "problems" / "scaled_rows"
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
    repeat = re.search(r"repeat: \S+ judge.py (.*)", first)
    assert repeat and str(doubling.directory) in repeat[1]
    seed = repeat[1].split("--seed ")[1].split()[0]
    again = _judge(doubling, tmp_path, "@run wrong", "--seed", seed).stdout
    mismatches = [re.findall(r"expected \S+, found \S+", text) for text in (first, again)]
    assert mismatches[0] and mismatches[0] == mismatches[1]


@pytest.mark.parametrize("name", ["my.cu", "-dash.cu", "sp ace é'.cu"])
def test_the_command_that_is_shown_can_be_pasted(doubling: Problem, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("@run wrong")
    words = ["--seed", "0", "--cases", "t*", "--time-limit", "2.5", "--card", "RTX 4090", "--no-cache"]
    done = _run(*words, "--", doubling.directory, name, cwd=tmp_path, fakes=True)
    repeat = shlex.split(done.stdout.split("repeat: ")[1])
    assert repeat[:2] == [sys.executable, "judge.py"]
    again = _run(*repeat[2:], cwd=tmp_path, fakes=True)
    shown = [re.sub(r"[0-9.]+ s", "", text) for text in (done.stdout, again.stdout)]
    assert "two " in shown[0] and "seed 0\n" in shown[0] and shown[0] == shown[1]


def test_the_command_names_the_script_as_it_was_called() -> None:
    line = "import sys; sys.argv[0] = '../judge.py'; from harness import commandline as c"
    code = f"{line}; print(c.repeat(c.judge_parser().parse(['p', 'my.cu', '--cases=-x']), None))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.stdout == f"{sys.executable} ../judge.py p my.cu --cases=-x\n"


@pytest.mark.parametrize("place", ["make_inputs(case, rng):", "cost(case):", ""])
def test_what_a_reference_prints_stays_out_of_the_json(doubling: Problem, tmp_path: Path, place: str) -> None:
    directory = tmp_path / "doubling"
    shutil.copytree(doubling.directory, directory)
    reference = directory / "reference.py"
    text = reference.read_text()
    said = "import os, sys; print('printed'); sys.stdout.write('written\\n'); os.system('echo echoed')"
    reference.write_text(text.replace(f"def {place}\n", f"def {place}\n    {said}\n") if place else f"{said}\n{text}")
    (tmp_path / "my.cu").write_text("// fine")
    done = _run(directory, "my.cu", "--no-cache", "--device", "cpu", "--json", "-", cwd=tmp_path, fakes=True)
    assert json.loads(done.stdout)["verdict"] == "accepted"
    assert {"printed", "written", "echoed"} <= set(done.stderr.split())


@pytest.mark.parametrize("statement", ["raise SystemExit(5)", "raise KeyboardInterrupt", "exit()", "1 / 0"])
@pytest.mark.parametrize("function", ["", "make_inputs(case, rng)", "expected(inputs)", "honest(inputs)"])
def test_a_reference_cannot_end_the_judge(doubling: Problem, tmp_path: Path, statement: str, function: str) -> None:
    directory = tmp_path / "doubling"
    shutil.copytree(doubling.directory, directory)
    text = (directory / "reference.py").read_text()
    broken = text.replace(f"def {function}:\n", f"def {function}:\n    {statement}\n") if function else statement
    (directory / "reference.py").write_text(broken)
    (tmp_path / "my.cu").write_text("// fine")
    done = _run(directory, "my.cu", "--no-cache", "--device", "cpu", cwd=tmp_path, fakes=True)
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1
    assert re.search(r"/reference\.py:\d+: ", done.stderr) and function.split("(")[0] in done.stderr


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
        (["flash_attention", "x.cu", "--dtype", "half"], "flash_attention has no dtype 'half'; it has: float32"),
        (["flash_attention", "x.cu", "--variant", "paged"], "flash_attention has no variant 'paged'; it has: base"),
        (["show", "flash_attention", "--dtype", "int8"], "flash_attention has no dtype 'int8'; it has: float32"),
        ([str(TRACKS), "x.cu", "--dtypes", "float16"], "did you mean --dtype?"),
        (["start", str(TRACKS), "--dtype", "bfloat16"], "no starter for bfloat16; there is one for: float32, float16"),
        (["start", "flash_attention", "--variant", "gqa"], "has a starter for variant base, none for lse, gqa; "
         "`judge.py show flash_attention --dtype float32 --variant gqa` prints the signature"),
        (["start", "flash_attention", "--variant", "paged"], "flash_attention has no variant 'paged'; it has: base"),
        (["flash_attention", "x.cu", "--seed", "-1"], "--seed"),
        (["flash_attention", "x.cu", "--seed", "x"], "'x' is no whole number"),
        (["flash_attention", "x.cu", "--time-limit", "nan"], "'nan' is no number of seconds"),
        (["flash_attention", "x.cu", "--time-limit", "1e-300"], "'1e-300' is no number of seconds from 0.01"),
        (["flash_attention", "x.cu", "--json", ""], "argument --json: the name is empty"),
        (["", "x.cu"], "argument problem: the name is empty"),
        (["flash_attention", " "], "argument SOLUTION.cu: the name is empty"),
        (["show", ""], "argument problem: the name is empty"),
        (["flash_attention", "x.cu", "--json", "x.cu"], "cannot write the report to x.cu: it is the submission"),
        (["flash_attention", "x.cu", "--json", "./link"], "cannot write the report to link: it is the submission"),
        (["flash_attention", "x.cu", "--json", "notes.txt"], "notes.txt: a file that is no report is there"),
        (["flash_attention", "x.cu", "--json", "/proc/version"], "cannot write the report"),
        (["flash_attention", "x.cu", "--json", "n" * 300], "File name too long"),
        (["flash_attention", "x.cu", "--html", "x.cu"], "cannot write the report to x.cu: it is the submission"),
        (["flash_attention", "x.cu", "--html", "notes.txt"], "notes.txt: a file that is no report is there"),
        (["flash_attention", "x.cu", "--html", "page.html"], "page.html: a file that is no report is there"),
        (["flash_attention", "x.cu", "--html", "/absent/page.html"], "cannot write the report"),
        (["flash_attention", "x.cu", "--html", "."], "it is a directory"),
        (["flash_attention", "x.cu", "--html", "-"], "a page goes to a file"),
        (["flash_attention", "x.cu", "--html", ""], "argument --html: the name is empty"),
        (["flash_attention", "x.cu", "--html", "a", "--json", "./a"], "--json writes to the same file"),
        (["flash_attention", "x.cu", "--basline"], "did you mean --baseline?"),
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
    (tmp_path / "link").symlink_to("x.cu")
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "page.html").write_text("<!doctype html>\n<title>mine</title>")
    done = _run(*words, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert expected in done.stderr
    assert done.stderr.startswith("judge.py") and len(done.stderr.splitlines()) == 1
    assert ((tmp_path / "x.cu").read_text(), (tmp_path / "notes.txt").read_text()) == ("// x", "mine")
    assert (tmp_path / "page.html").read_text().endswith("<title>mine</title>")


@pytest.mark.parametrize("option", ["--json", "--html"])
@pytest.mark.parametrize("name", ["problem.yaml", "reference.py", "statement.md", "starter.cu"])
def test_a_report_never_replaces_a_file_of_the_problem(
    doubling: Problem, tmp_path: Path, name: str, option: str
) -> None:
    directory = tmp_path / "doubling"
    shutil.copytree(doubling.directory, directory)
    looks = {"--json": "{}", "--html": "<!doctype html>\n<!-- report of judge.py -->\n"}
    (directory / "statement.md").write_text(looks[option])  # might be a report
    before = (directory / name).read_text()
    done = _run(directory, directory / "starter.cu", option, directory / name, fakes=True)
    assert done.returncode == 2 and "cannot write the report" in done.stderr
    assert (directory / name).read_text() == before


def test_a_report_may_replace_a_report_and_go_to_a_device(doubling: Problem, tmp_path: Path) -> None:
    (tmp_path / "empty.json").touch()
    for target in ("report.json", "report.json", "empty.json", "/dev/null"):
        assert _judge(doubling, tmp_path, "// fine", "--json", target).returncode == 0
    assert json.loads((tmp_path / "empty.json").read_text())["verdict"] == "accepted"


@pytest.mark.parametrize(
    ("text", "verdict"), [("@run wrong", "wrong_answer"), ("@compile refuse", "compile_error"), ("", "compile_error")]
)
def test_the_page_is_written_and_replaces_an_earlier_one(
    doubling: Problem, tmp_path: Path, text: str, verdict: str
) -> None:
    (tmp_path / "page.html").touch()
    for seed in ("3", "4"):
        done = _judge(doubling, tmp_path, text, "--html", "page.html", "--json", "report.json", "--seed", seed)
        assert (done.returncode, done.stderr) == (1, "")
        page = (tmp_path / "page.html").read_text()
        assert f" {verdict}</p>" in page and f"--seed {seed}" in page
        assert re.search(r"repeat: (.*)", done.stdout)[1] in page  # type: ignore[index]
    assert json.loads((tmp_path / "report.json").read_text())["verdict"] == verdict


def test_the_command_that_is_shown_keeps_the_baselines() -> None:
    parsed = commandline.judge_parser().parse(["p", "my.cu", "--baseline", "--cases", "benchmarks", "--html", "x.html"])
    assert parsed.baseline and commandline.repeat(parsed, 1).endswith("p my.cu --seed 1 --cases benchmarks --baseline")
    assert "--baseline" not in commandline.repeat(commandline.judge_parser().parse(["p", "my.cu"]), 1)


def test_the_command_that_is_shown_keeps_the_track() -> None:
    parsed = commandline.judge_parser().parse(["p", "my.cu", "--dtype", "bfloat16", "--variant", "lse"])
    assert commandline.repeat(parsed, 1).endswith("p my.cu --seed 1 --dtype bfloat16 --variant lse")


def test_unknown_cases_name_the_known_ones(doubling: Problem, tmp_path: Path) -> None:
    done = _judge(doubling, tmp_path, "//", "--cases", "six")
    assert done.returncode == 2 and "one, two, five" in done.stderr


def test_list_and_show() -> None:
    listed = _run("list").stdout
    assert all(name in listed for name in ("flash_attention", "paged_decode", "split_k_merge"))
    shown = _run("show", "split_k_merge").stdout
    assert 'extern "C" void solve(const float* partial_out' in shown and "one_split" in shown
    assert "(NVIDIA H200, data sheet: 4.80 TB/s, 165 TFLOP/s in float32)" in shown
    assert "\nrows_65536_splits_32        bandwidth  1.12 GB   537 M        0.48          234 us  memory\n" in shown
    assert "\n  num_splits 8, rows 131072, head_dim 128, empty 0.4\n" in shown and "pass from 35, strong from" in shown


def test_show_has_the_track_that_is_asked_for() -> None:
    first, other = (_run("show", TRACKS, *words).stdout for words in ([], ["--dtype", "float16", "--variant", "sums"]))
    assert "dtypes: float32, float16, bfloat16, float8_e4m3; shown here: float32" in first
    assert "variant base (shown here): out = x * cache" in first and "variant sums: also the sum" in first
    assert "#include <cuda_fp16.h>" in other and "const __half* x" in other and "float* sum" in other
    assert "FLOP/s in float16)" in other and "many_rows" in other and "many_rows" not in first


def test_show_folds_hints_away_and_speaks_chinese() -> None:
    folded, unfolded, one = (
        _run("show", "split_k_merge", *words).stdout for words in ([], ["--unfold", "all"], ["--unfold", "2,3"])
    )
    assert "[+2] Rung 1: a block for each row" in folded and "Every thread goes over the splits" not in folded
    assert "[-2] **Rung 1: a block for each row" in unfolded and "Every thread goes over the splits" in unfolded
    assert "[+1] Answer" in one and "[-2] **Rung 1" in one and "[-3] **Rung 2" in one and "[+4] Rung 3" in one
    assert "--unfold N` opens it" in folded and "--unfold N" not in unfolded
    assert "<details>" not in folded + unfolded + one
    missing = _run("show", "split_k_merge", "--unfold", "99")
    assert missing.returncode == 2 and "--unfold 99: there are parts 1 to" in missing.stderr
    assert "## 内存布局" in _run("show", "split_k_merge", "--lang", "zh").stdout
    other = _run("show", TRACKS, "--lang", "zh")
    assert other.returncode == 2 and "no statement in 'zh': statement.zh.md is missing" in other.stderr


def test_start_takes_the_starter_of_a_dtype(tmp_path: Path) -> None:
    assert _run("start", TRACKS, "half.cu", "--dtype", "float16", cwd=tmp_path).returncode == 0
    assert (tmp_path / "half.cu").read_text() == (TRACKS / "starter.float16.cu").read_text()
    again = _run("start", TRACKS, "half.cu", "--dtype", "float16", "--variant", "base", cwd=tmp_path)
    assert again.returncode == 2 and f"judge.py start {TRACKS} other.cu --dtype float16" in again.stderr


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
    assert "pycuda" in subjects and "site" in subjects
    assert done.returncode == 0 and "this machine can judge" in done.stdout


def test_a_missing_package_is_one_line_with_the_command(tmp_path: Path) -> None:
    (tmp_path / "numpy.py").write_text("raise ModuleNotFoundError(\"No module named 'numpy'\", name='numpy')")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(_command("list"), capture_output=True, text=True, env=environment, timeout=60)
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1
    assert "'numpy' is missing" in done.stderr and "-m pip install -e" in done.stderr


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
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


@pytest.mark.parametrize("words", ["show paged_decode", "list", "--help", "split_k_merge empty.cu"])
def test_a_closed_pipe_is_silent(tmp_path: Path, words: str) -> None:
    (tmp_path / "empty.cu").touch()
    command = f"{sys.executable} {ROOT / 'judge.py'} {words} | true"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, cwd=tmp_path, timeout=60)
    assert done.stderr == ""


@pytest.mark.parametrize("words", ["show paged_decode", "list", "--help", "split_k_merge empty.cu", "doctor"])
def test_a_full_disk_is_one_line(tmp_path: Path, words: str) -> None:
    (tmp_path / "empty.cu").touch()
    with open("/dev/full", "w") as full:
        done = subprocess.run(_command(*words.split()), stdout=full, stderr=subprocess.PIPE, text=True, cwd=tmp_path)
    if words == "--help":  # argparse does not mind
        assert done.returncode in (0, 3) and "Traceback" not in done.stderr
    else:
        assert (done.returncode, done.stderr) == (3, "judge.py: cannot write the output: No space left on device\n")


def test_closed_and_full_streams_leave_the_exit_code(tmp_path: Path) -> None:
    (tmp_path / "empty.cu").touch()
    command = shlex.join(_command("split_k_merge", "empty.cu"))
    for redirection, code in (
        (">&- 2>&-", 1),
        (">&-", 1),
        (">/dev/full 2>/dev/full", 3),
        (">/dev/null 2>/dev/full", 1),
    ):
        done = subprocess.run(f"{command} {redirection}", shell=True, capture_output=True, cwd=tmp_path, timeout=60)
        assert (done.returncode, done.stderr) == (code, b""), redirection


def test_a_narrow_encoding_is_no_error(doubling: Problem, tmp_path: Path) -> None:
    (tmp_path / "é.cu").write_text("@run wrong")
    command = _command(doubling.directory, "é.cu", "--no-cache", "--device", "cpu", fakes=True)
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(command, capture_output=True, cwd=tmp_path, env=environment, timeout=60)
    assert done.returncode == 1 and b"\\xe9.cu" in done.stdout


_FAILING = (
    "import harness.pipeline; harness.pipeline.judge = lambda *_: 1 / 0; import judge; judge.sys.exit(judge.main())"
)


@pytest.mark.parametrize("debug", [False, True])
def test_a_failure_of_the_judge_shows_its_place_on_demand_only(tmp_path: Path, debug: bool) -> None:
    (tmp_path / "x.cu").write_text("// x")
    command = [sys.executable, "-c", _FAILING, "split_k_merge", "x.cu", *["--debug"] * debug]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment, timeout=60)
    assert (done.returncode, done.stdout) == (3, "") and "judge itself failed (ZeroDivisionError)" in done.stderr
    assert (len(done.stderr.splitlines()) == 1, "Traceback" in done.stderr) == (not debug, debug)


@pytest.mark.parametrize("debug", [False, True])
def test_a_failure_of_the_run_child_shows_its_place_on_demand_only(
    doubling: Problem, tmp_path: Path, debug: bool
) -> None:
    done = _judge(doubling, tmp_path, "@run raise", *["--debug"] * debug)
    assert "(ZeroDivisionError)" in done.stdout and "Traceback" not in done.stdout
    assert ("Traceback" in done.stderr) == debug and bool(done.stderr) == debug


def test_an_old_python_is_told_so() -> None:
    first = (ROOT / "judge.py").read_text().split("import contextlib")[0]
    program = f"import sys\nsys.version_info = (3, 10)\n{first.replace('from __future__ import annotations', '')}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "needs Python 3.11 or newer" in done.stderr


@pytest.mark.parametrize("word", [*Verdict, "--json", "--seed", "--device", "--cases", "doctor", "pytest"])
def test_the_readme_mentions_it(word: str) -> None:
    assert word in (ROOT / "README.md").read_text()
