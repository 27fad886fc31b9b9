"""Linting a problem: what is refused, what is said of it, and the command's exit codes."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from harness import problem as problems
from harness.errors import JudgeError, ProblemError, UsageError
from harness.linting.lint import LintOptions, lint
from harness.linting.records import Check, KernelResult, LintReport, Outcome
from harness.linting.table import render
from harness.problem import Problem
from tests.fake_toolchain import TOOLCHAIN

ROOT = Path(__file__).resolve().parents[1]
BAD = {
    "triples": "// Three times x.\n\n@run wrong\n",
    "nan": "// Nothing but NaN.\n\n@run nan\n",
    "unwritten": "// Nothing is written.\n\n@run nothing\n",
    "race": "// A race.\n\n@run data_race\n",
    "only_five": "// Wrong for n = 5 alone.\n\n@run wrong@5\n",
}
HONEST = {name: f"// Doubles, {name}.\n" for name in ("once", "twice", "thrice")}
FEW_BAD, FEW_HONEST = {"triples": BAD["triples"]}, {"once": HONEST["once"]}

Make = Callable[..., Problem]


@pytest.fixture
def make(doubling: Problem, tmp_path: Path) -> Make:
    """The doubling problem with standing kernels by name, and with texts replaced in its files."""

    def build(bad: dict[str, str] = FEW_BAD, honest: dict[str, str] = FEW_HONEST, **edits: tuple[str, str]) -> Problem:
        directory = tmp_path / "doubling"
        shutil.copytree(doubling.directory, directory, dirs_exist_ok=True)
        (directory / "starter.cu").write_text("// TODO\n@run wrong\n")
        for folder, kernels in (("bad", bad), ("honest", honest)):
            (directory / folder).mkdir(exist_ok=True)
            for name, text in kernels.items():
                (directory / folder / f"{name}.cu").write_text(text)
        for stem, (old, new) in edits.items():
            file = directory / {"problem": "problem.yaml", "reference": "reference.py", "starter": "starter.cu"}[stem]
            text = file.read_text()
            assert old in text
            file.write_text(text.replace(old, new))
        return problems.load_directory(directory)

    return build


def _lint(problem: Problem, **changes: object) -> LintReport:
    defaults = {"seeds": 3, "jobs": 1, "cache": False, "toolchain": TOOLCHAIN}
    return lint(problem, LintOptions(**{**defaults, **changes}))  # type: ignore[arg-type]


def _kernel(report: LintReport, name: str) -> KernelResult:
    return next(kernel for kernel in report.kernels if kernel.name == f"{name}.cu")


def _checks(report: LintReport, name: str) -> list[Check]:
    return [check for check in report.checks if check.name == name]


def _refused(report: LintReport) -> set[str]:
    return {check.name for check in report.checks if check.outcome is Outcome.REFUSED}


def test_a_sound_problem(make: Make, nothing_left: None) -> None:
    report = _lint(make(BAD, HONEST))
    assert report.sound, render(report)
    assert {kernel.passed for kernel in report.kernels} == {3}
    assert [kernel.kind for kernel in report.kernels] == ["starter", *["honest"] * 3, *["bad"] * 5]
    assert {check.outcome for check in report.checks if check.name != "bytes"} == {Outcome.SOUND}
    assert _kernel(report, "triples").about == "Three times x."


def test_a_rejection_tells_the_case_and_how_near_the_kernel_came(make: Make) -> None:
    report = _lint(make(BAD), only="only_five,nan,bad/race")
    assert [kernel.name for kernel in report.kernels] == ["nan.cu", "only_five.cu", "race.cu"]
    assert _kernel(report, "only_five").rejected_by == {"five": 3}
    margin = _kernel(report, "only_five").margin
    assert margin is not None and margin == pytest.approx(0.5 / 1e-5)  # half of the answer, over C's limit
    assert _kernel(report, "race").verdicts == {"data_race": 3}
    assert _kernel(report, "race").margin == float("inf")


def test_a_seed_begins_with_the_case_that_rejected_before(make: Make) -> None:
    bad = {"first_or_last": "// Wrong for n = 5, and for n = 1.\n\n@run wrong@5\n@run wrong@1\n"}
    assert _kernel(_lint(make(bad), only="first*"), "first_or_last").rejected_by == {"one": 3}


def test_a_bad_kernel_that_is_accepted_is_refused(make: Make) -> None:
    report = _lint(make({**FEW_BAD, "secretly_right": "// Called wrong.\n"}))
    found = _kernel(report, "secretly_right")
    assert (report.sound, found.outcome, found.passed) == (False, Outcome.REFUSED, 0)
    assert "accepted by all cases on seed 1, 2, 3" in found.reason
    assert found.file.endswith("bad/secretly_right.cu")


def test_an_honest_kernel_that_is_rejected_is_refused(make: Make) -> None:
    report = _lint(make(honest={**FEW_HONEST, "fails_on_two": "// Doubles, but for n = 2.\n\n@run wrong@2\n"}))
    found = _kernel(report, "fails_on_two")
    assert (report.sound, found.passed, found.rejected_by) == (False, 0, {"two": 3})
    assert "seed 1, 2, 3: case two: wrong_answer: " in found.reason and "elements of out differ" in found.reason


@pytest.mark.parametrize(
    ("order", "said"),
    [("@run unsupported", "unsupported"), ("@run refuse", "no wgmma here"), ("@compile refuse", "compile_error")],
)
def test_what_cannot_run_is_not_taken_for_rejected(make: Make, order: str, said: str) -> None:
    found = _kernel(_lint(make({"odd": f"// Odd.\n\n{order}\n"}), only="odd"), "odd")
    assert (found.outcome, found.passed) == (Outcome.REFUSED, 0)
    assert said in found.reason


def test_an_accepted_starter_is_refused(make: Make) -> None:
    report = _lint(make(starter=("@run wrong", "")))
    assert _kernel(report, "starter").outcome is Outcome.REFUSED


def test_the_judges_own_failure_is_nobodys_mistake(make: Make, nothing_left: None) -> None:
    with pytest.raises(JudgeError, match="lost its way"):
        _lint(make({"odd": "// Odd.\n\n@run judge_error\n"}))


def test_standing_kernels_are_required(make: Make) -> None:
    report = _lint(make(bad={}, honest={"once": "// Doubles.\n"}))
    assert [check.outcome for check in _checks(report, "bad kernels")] == [Outcome.REFUSED]
    assert [check.outcome for check in _checks(report, "honest kernels")] == [Outcome.WARNING]


_ANSWERS = """    return {"out": 2.0 * inputs["x"].astype(np.float64)}


def honest(inputs):
    yield {"out": 2 * inputs["x"]}
"""
# Problems with a fault, and the check that must refuse them.
FAULTS = {
    "no contrast": ("contrast", (_ANSWERS, _ANSWERS.replace("2", "0"))),
    "the same answer for all seeds": ("contrast", ('rng.standard_normal((case["n"], 4), dtype=np.float32)',
                                                   'np.arange(4 * case["n"], dtype=np.float32).reshape(-1, 4)')),
    "limits that let zeros in": ("contrast", ('yield {"out": 2 * inputs["x"]}', 'yield {"out": 0 * inputs["x"]}')),
    "an answer that its limits reject": ("reference", ('inputs["x"].astype(np.float64)}', 'inputs["x"].astype(np.float64) * 1e300}')),
    "a drawing of its own": ("repeatable", ("rng.standard_normal((", "np.random.default_rng().standard_normal((")),
    "no flops": ("flops", ('4 * case["n"]}', "0}")),
    "too large a benchmark": ("memory", ('"bytes": 32 * case["n"]', '"bytes": 32 * case["n"] ** 3')),
    "a disguise that changes the answer": ("disguise", ("def cost", '''def disguise(inputs, rng):
    return {"scale": {"x": {1: np.full(4, 2, np.float32)}}}


def cost''')),
}  # fmt: skip


@pytest.mark.parametrize("factor", ["4.0", "2.2", "-2.0"])
def test_an_answer_that_honest_models_are_far_from_is_refused(make: Make, factor: str) -> None:
    report = _lint(make(reference=('return {"out": 2.0 *', f'return {{"out": {factor} *')), seeds=2)
    models = _checks(report, "models")[0]
    assert models.outcome is Outcome.REFUSED, render(report)
    assert "reference.py: expected() or honest() is wrong: the models are" in models.message
    assert "times beyond the floors of float32 in out of test " in models.message
    floors = _checks(report, "floors")[0]
    assert (floors.outcome, "honest/once.cu: " in floors.message) == (Outcome.WARNING, True)
    assert "accepted only since honest() widens the limits" in floors.message


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.filterwarnings("ignore:overflow")
def test_a_faulty_reference_is_refused(make: Make, fault: str) -> None:
    check, edit = FAULTS[fault]
    report = _lint(make(reference=edit), seeds=2)
    assert check in _refused(report), render(report)
    assert not report.sound


@pytest.mark.parametrize("only", [None, "once"])  # built by the main thread, and by one that runs kernels
def test_a_reference_without_end_is_named(make: Make, nothing_left: None, only: str | None) -> None:
    endless = ('    return {"out": 2.0', '    while inputs["n"] == 2:\n        pass\n    return {"out": 2.0')
    said: list[str] = []
    options = LintOptions(seeds=1, cache=False, toolchain=TOOLCHAIN, build_seconds=0.2, only=only)
    with pytest.raises(ProblemError, match=r"reference\.py:1\d: expected\(\) on case two: .*may take 0.2 s to build"):
        lint(make(reference=endless), options, said.append)
    assert "float32: building test two, seed 1, takes long" in said


def test_an_input_without_effect_is_refused(make: Make) -> None:
    problem = make(
        problem=("  - {name: out,", "  - {name: idle, type: float, role: in, shape: [n]}\n  - {name: out,"),
        reference=('"n": case["n"]}', '"n": case["n"], "idle": rng.standard_normal(case["n"], dtype=np.float32)}'),
    )
    report = _lint(problem, seeds=2)
    assert _refused(report) == {"effect"}
    assert "idle" in _checks(report, "effect")[0].message


def test_a_test_without_contrast_is_named(make: Make) -> None:
    answers = _ANSWERS.replace("{\"out\": 2", "{\"out\": (inputs[\"n\"] > 1) * 2")
    report = _lint(make(reference=(_ANSWERS, answers)), seeds=2)
    zeros = next(check for check in _checks(report, "contrast") if "zeros" in check.message)
    assert zeros.outcome is Outcome.SOUND and zeros.figures["share"] == 2 / 3
    assert zeros.message.endswith("on 2 of 3 tests, within on one")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("#include <cuda_runtime.h>\n", "the first line must be a // comment"),
        ("// Wrong.\n// dtypes: float33\n", "'float33' is none of the problem's"),
        ("// Wrong.\n// variants: lse\n", "'lse' is none of the problem's"),
        ("// Wrong.\n// dtypes:\n", "allowed: float32"),
    ],
)
def test_headers_are_checked(make: Make, text: str, message: str) -> None:
    with pytest.raises(ProblemError, match=message) as caught:
        _lint(make({"odd": text}))
    assert "bad/odd.cu" in str(caught.value)


def test_tracks_and_kernels_that_do_not_exist(make: Make) -> None:
    problem = make()
    with pytest.raises(UsageError, match="float16"):
        _lint(problem, dtype="float16")
    with pytest.raises(UsageError, match="no kernel of these tracks matches 'nonesuch'"):
        _lint(problem, only="nonesuch")


def _command(problem: Problem, *words: str) -> subprocess.CompletedProcess[str]:
    script = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
        "import harness.sandbox.supervisor as supervisor\n"
        "from tests.fake_toolchain import TOOLCHAIN\n"
        "supervisor.Toolchain = lambda: TOOLCHAIN\n"
        "import judge\nsys.exit(judge.main())"
    )
    words = ("lint", str(problem.directory), "--no-cache", "--quick", *words)
    return subprocess.run([sys.executable, "-c", script, *words], capture_output=True, text=True, timeout=60)


def test_the_command(make: Make, tmp_path: Path) -> None:
    problem, file = make(BAD, HONEST), tmp_path / "lint.json"
    done = _command(problem, "--json", str(file))
    assert (done.returncode, "sound  doubling: 9 trials" in done.stdout) == (0, True), done.stdout + done.stderr
    assert "9 of 9: " in done.stderr  # progress
    report = json.loads(file.read_text())
    assert (report["sound"], report["seeds"], len(report["kernels"])) == (True, 2, 9)
    (problem.directory / "bad" / "right.cu").write_text("// Called wrong.\n")
    done = _command(problem)
    assert done.returncode == 1
    assert "bad/right.cu (float32): accepted by all cases on seed 1, 2" in done.stdout
    (problem.directory / "bad" / "right.cu").write_text("")
    done = _command(problem)
    assert (done.returncode, "right.cu" in done.stderr) == (2, True)
    (problem.directory / "bad" / "right.cu").write_text("// Odd.\n\n@run judge_error\n")
    assert _command(problem).returncode == 3
