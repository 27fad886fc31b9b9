"""problem.yaml is read strictly, and the three problems are what they promise."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from harness import cases, problem
from harness.errors import ProblemError, UsageError
from harness.expressions import ExpressionError, evaluate, names_in
from harness.parameters import in_short

DECLARATIONS = {
    "flash_attention": 'extern "C" void solve(const float* q, const float* k, const float* v, float* out, '
    "int batch_heads, int seq_len, int head_dim, float scale, int causal);",
    "paged_decode": 'extern "C" void solve(const float* q, const float* k_cache, const float* v_cache, '
    "const int* block_table, const int* context_lens, float* out, int num_seqs, int num_heads, int num_kv_heads, "
    "int head_dim, int page_size, int max_blocks_per_seq, int max_context_len, float scale);",
    "split_k_merge": 'extern "C" void solve(const float* partial_out, const float* m, const float* l, float* out, '
    "float* lse, int num_splits, int rows, int head_dim);",
}
GOOD = """\
id: tiny
title: Tiny
difficulty: easy
tags: [test]
dtypes: [float32]
signature:
  - {name: x, type: element, role: in, shape: [n, 4]}
  - {name: y, type: element, role: out, shape: [n, 4]}
  - {name: n, type: int}
case_parameters:
  n: {type: int, min: 0}
  data: {type: str, choices: [plain, wide], default: plain}
tests:
  - {name: one, n: 1}
  - {name: two, n: 2, data: wide}
benchmarks: []
limits: {seconds: 1, memory_mib: 16}
"""
MORE = (
    GOOD.replace("benchmarks: []\n", """\
benchmarks:
  - {name: big, n: 100, sizes: [7, [4, 3], 9], kind: latency, modelled: {n: 3, sizes: [4, 9]}}
  - {name: other, n: 50, data: wide}
tiers: {pass: 40, strong: 70.5}
policy: {device_state_bytes: 64}
""").replace("case_parameters:\n", "case_parameters:\n  sizes: {type: ints, min: 1, default: [1]}\n")
)  # fmt: skip


def _write(root: Path, yaml: str | bytes) -> Path:
    directory = root / "tiny"
    directory.mkdir()
    (directory / "problem.yaml").write_bytes(yaml if isinstance(yaml, bytes) else yaml.encode())
    for name in ("reference.py", "statement.md", "starter.cu"):
        (directory / name).write_text("text\n")
    return directory


@pytest.mark.parametrize("problem_id", sorted(DECLARATIONS))
def test_the_three_problems_load(problem_id: str) -> None:
    loaded = problem.load(problem_id)
    assert loaded.declaration() == DECLARATIONS[problem_id]
    assert loaded.statement.startswith("# ") and len(loaded.tests) >= 10 and loaded.benchmarks
    assert 'extern "C" void solve(' in loaded.starter


@pytest.mark.parametrize("problem_id", sorted(DECLARATIONS))
def test_the_statement_shows_the_signature(problem_id: str) -> None:
    """Statement and starter declare solve() exactly as the judge does."""
    loaded = problem.load(problem_id)
    head = loaded.declaration().removesuffix(";")
    for text in (loaded.statement, loaded.starter):
        assert head in " ".join(text.split())


def test_list_problems() -> None:
    assert [p.id for p in problem.list_problems()] == sorted(DECLARATIONS)


def test_a_problem_may_live_anywhere(tmp_path: Path) -> None:
    directory = _write(tmp_path, GOOD)
    for loaded in (problem.load(directory), problem.load("tiny", root=tmp_path)):
        assert loaded.tests[0].parameters == {"n": 1, "data": "plain"}
        assert loaded.tensors[1].shape == ("n", "4")
        assert loaded.limits.seconds == 1.0


def test_unknown_problem_names_a_close_one(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="did you mean 'paged_decode'"):
        problem.load("paged_decod")
    with pytest.raises(ProblemError, match=r"no problem\.yaml in this directory"):
        problem.load(tmp_path)
    for empty in ("", " "):  # a shell's unset variable is not the current directory
        with pytest.raises(UsageError, match="the problem's name is empty; ids: flash_attention"):
            problem.load(empty)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("title: Tiny\n", "title: Tiny\ncolour: red\n", r"problem\.yaml:3: colour: unknown key; allowed: .*title"),
        ("title: Tiny\n", "", r"the key 'title' is missing"),
        ("title: Tiny\n", "title: 3\n", r":2: title: must be a text, found 3"),
        ("title: Tiny\n", "title: Tiny\ntitle: Two\n", r":3: title: the key stands here twice"),
        ("title: Tiny\n", "title:\tTiny\n", r":2: a tab; use spaces"),
        ("title: Tiny\n", "title: [Tiny\n", r"not valid YAML"),
        ("id: tiny", "id: other", r"must be the directory's name"),
        ("difficulty: easy", "difficulty: hardest", r"found 'hardest', allowed: easy, medium, hard"),
        ("dtypes: [float32]", "dtypes: [float31]", r"dtypes: found \['float31'\], allowed: float32"),
        ("role: out, shape: [n, 4]", "role: output, shape: [n, 4]", r"signature\[1\]\.role: .*allowed: in, out, inout"),
        ("role: out, shape: [n, 4]", "role: in, shape: [n, 4]", r"nothing could be checked"),
        ("role: out, shape: [n, 4]", "role: out, shape: []", r"at least one dimension"),
        ("role: out, shape: [n, 4]", "role: out, shape: [n, m]", r"'m' is not known; known: n"),
        ("role: out, shape: [n, 4]", "role: out, shape: [n, n()]", r"is not allowed|is not known|n\(\)"),
        ("role: out, shape: [n, 4]", "role: out, shape: ['n ** 2']", r"'n \*\* 2' is not allowed"),
        ("name: y", "name: x", r"the name 'x' stands here 2 times"),
        ("name: y", "name: 1y", r"'1y' is no C identifier"),
        ("type: element, role: out", "type: int, role: out", r"allowed: element, float"),
        ("{name: two,", "{name: one,", r"tests: the name 'one' stands here 2 times"),
        ("{name: two,", "{name: Two!,", r"found 'Two!'; must be of small letters"),
        ("n: 2,", "n: 0,", r"tests\[1\]: dimension 'n' of x is 0, must be at least 1"),
        ("n: 2,", "n: -1,", r"tests\[1\]\.n: found -1, must be at least 0"),
        ("n: 2,", "n: true,", r"tests\[1\]\.n: must be a whole number, found True"),
        ("n: 2,", "", r"tests\[1\]: the key 'n' is missing"),
        ("data: wide}", "data: narrow}", r"data: found 'narrow', allowed: plain, wide"),
        ("data: wide}", "dat: wide}", r"tests\[1\]\.dat: unknown key; allowed: name, n, data"),
        ("seconds: 1,", "seconds: 1e-3,", r"seconds: must be a number, found '1e-3'; YAML wants a dot"),
        ("seconds: 1,", "seconds: 0,", r"limits: must be greater than 0"),
        ("min: 0}", "min: 0, max: 3}", r"case_parameters\.n\.max: unknown key"),
        ("default: plain", "default: thick", r"default: found 'thick', allowed: plain, wide"),
    ],
)
def test_a_broken_file_is_explained(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in GOOD
    directory = _write(tmp_path, GOOD.replace(old, new, 1))
    with pytest.raises(ProblemError, match=message) as caught:
        problem.load(directory)
    assert str(directory / "problem.yaml") in str(caught.value)


def test_benchmarks_tiers_and_policy(tmp_path: Path) -> None:
    loaded = problem.load(_write(tmp_path, MORE))
    big, other = loaded.benchmarks
    assert (big.kind, other.kind, loaded.tests[0].kind) == ("latency", "bandwidth", "")
    assert big.parameters == {"n": 100, "sizes": [7, 4, 4, 4, 9], "data": "plain"}
    assert big.modelled is not None and big.modelled.name == "big"
    assert big.modelled.parameters == {"n": 3, "sizes": [4, 9], "data": "plain"}
    assert big.modelled_differs == "sizes 4 + 9 of 7 + 3 x 4 + 9, n 3 of 100"
    assert other.modelled is None and other.modelled_differs == ""
    assert list(loaded.tiers.items()) == [("pass", 40.0), ("strong", 70.5)]
    assert loaded.policy.device_state_bytes == 64


def test_tiers_may_differ_between_tracks(tmp_path: Path) -> None:
    own = "tiers:\n  - {pass: 30, dtypes: [bfloat16]}\n  - {pass: 40, strong: 70.5}"
    text = MORE.replace("dtypes: [float32]", "dtypes: [float32, bfloat16]").replace("tiers: {pass: 40, strong: 70.5}", own)
    directory = _write(tmp_path, text)
    loaded = problem.load(directory)
    assert loaded.tiers == {"pass": 40.0, "strong": 70.5} and loaded.track("bfloat16").tiers == {"pass": 30.0}
    (directory / "problem.yaml").write_text(text.replace("dtypes: [bfloat16]}", "dtypes: [float16]}"))
    with pytest.raises(ProblemError, match=r"tiers\[0\]\.dtypes: found 'float16', the problem has"):
        problem.load(directory)


def test_without_them_there_are_no_tiers_and_no_device_state(tmp_path: Path) -> None:
    loaded = problem.load(_write(tmp_path, GOOD))
    assert loaded.tiers == {} and loaded.policy.device_state_bytes == 0


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("kind: latency", "kind: speed", r"benchmarks\[0\]\.kind: found 'speed', allowed: bandwidth, compute, latency"),
        ("{name: one, n: 1}", "{name: one, n: 1, kind: latency}", r"tests\[0\]\.kind: unknown key"),
        ("modelled: {n: 3,", "modelled: {m: 3,", r"benchmarks\[0\]\.modelled\.m: unknown key; allowed: sizes, n, data"),
        ("modelled: {n: 3,", "modelled: {n: 0,", r"modelled: dimension 'n' of x is 0"),
        ("modelled: {n: 3,", "modelled: {n: x,", r"modelled\.n: must be a whole number"),
        ("[4, 3], 9]", "[4, 0], 9]", r"sizes: must be a list of at least one whole number or \[number, count\]"),
        ("[4, 3], 9]", "[4, 3, 2], 9]", r"sizes: must be a list of at least one whole number"),
        ("[4, 3], 9]", "[0, 3], 9]", r"sizes: found .*, must be at least 1"),
        ("strong: 70.5", "strong: 30", r"tiers: .*must name scores above 0, up to 100, the least first"),
        ("strong: 70.5", "strong: 101", r"tiers: "),
        ("pass: 40", "pass: 0", r"tiers: "),
        ("{pass: 40, strong: 70.5}", "{}", r"tiers: "),
        ("strong: 70.5", "strong: high", r"tiers\.strong: must be a number, found 'high'"),
        ("device_state_bytes: 64", "device_state_bytes: -1", r"policy\.device_state_bytes: must be at least 0"),
        ("device_state_bytes: 64", "state: 64", r"policy\.state: unknown key; allowed: device_state_bytes"),
    ],
)  # fmt: skip
def test_a_broken_benchmark_is_explained(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert MORE.count(old) == 1
    with pytest.raises(ProblemError, match=message):
        problem.load(_write(tmp_path, MORE.replace(old, new)))


@pytest.mark.parametrize("problem_id", sorted(DECLARATIONS))
def test_bandwidths_are_measured_beyond_the_caches(problem_id: str) -> None:
    """Of several times the largest L2, but for what latency is about; and each benchmark has its model in the emulator,
    small enough for it."""
    loaded = problem.load(problem_id)
    reference = cases.load_reference(loaded)
    assert 8 <= len(loaded.benchmarks) <= 10 and len(loaded.tiers) == 3
    assert "latency" in {spec.kind for spec in loaded.benchmarks}
    for spec in loaded.benchmarks:
        cost = cases.cost(loaded, reference, spec)
        modelled = cases.cost(loaded, reference, spec.modelled or spec)
        assert (cost.bytes > 200e6) if spec.kind == "bandwidth" else (cost.flops > 60e9) == (spec.kind == "compute")
        assert modelled.bytes < 100e6 and modelled.flops < 1e10 and (spec.modelled is None or modelled != cost)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3, "3"), (0.5, "0.5"), ("wide", "wide"), ([4096], "4096"), ([1, 17, 17], "1 + 2 x 17"),
        (list(range(1, 66, 2)), "33 (1 to 65)"),
    ],
)  # fmt: skip
def test_values_in_short(value: object, text: str) -> None:
    assert in_short(value) == text


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty"),
        (b"- 1\n", "must be a mapping"),
        (b"\xef\xbb\xbf" + GOOD.encode(), "byte order mark"),
        (GOOD.encode() + b"# \xff\n", "is not UTF-8"),
        (GOOD.encode() + b"--- \n", "not valid YAML"),
        (b"a: !!python/object/apply:os.getcwd []\n", "not valid YAML"),
        (b"\ntitle: &a [*a]\n", r"problem\.yaml:2: this anchor holds an alias of itself"),
        (b"id: tiny\na: &a {b: [*a]}\n", r"problem\.yaml:2: this anchor holds an alias of itself"),
        (b"a: 1\nb: 2001-99-99\n", r"problem\.yaml:2: not valid YAML: month must be"),
        (b"a: 1\nb: {[x]: 1}\n", r"problem\.yaml:2: b: |problem\.yaml:2: not valid YAML"),
        (b"a: 1\nb: " + b"9" * 5000, r"problem\.yaml:2: a number of 5000 characters, allowed: 400"),
        (b"a: " + b"[" * 5000, r"problem\.yaml: not valid YAML: nested too deeply"),
        (b"# " + b"x" * (1 << 20), r"problem\.yaml: larger than 1024 KiB"),
    ],
)
def test_what_is_no_problem_file(tmp_path: Path, content: bytes, message: str) -> None:
    with pytest.raises(ProblemError, match=message):
        problem.load(_write(tmp_path, content))


def test_aliases_stand_for_no_more_than_a_file_could_hold(tmp_path: Path) -> None:
    directory = _write(tmp_path, GOOD.replace("tags: [test]", "tags: [&a test, *a]"))
    assert problem.load(directory).tags == ("test", "test")
    levels = "".join(f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]\n" for n in range(1, 10))
    (directory / "problem.yaml").write_text(f"l0: &l0 [x]\n{levels}{GOOD}")
    with pytest.raises(ProblemError, match=r"problem\.yaml:\d: its aliases stand for more than 1048576 characters"):
        problem.load(directory)


def test_long_values_are_shown_cut(tmp_path: Path) -> None:
    for old, new in (("easy", "x" * 999), ("easy", f"[{'x, ' * 999}]"), ("[test]", f"[[{'x, ' * 999}]]")):
        with pytest.raises(ProblemError, match=r"found .*\.\.\.") as caught:
            problem.load(_write(tmp_path, GOOD.replace(old, new)))
        assert len(str(caught.value)) < 250 + len(str(tmp_path))
        shutil.rmtree(tmp_path / "tiny")


@pytest.mark.parametrize("name", ["problem.yaml", "statement.md"])
def test_only_regular_files_are_read(tmp_path: Path, name: str) -> None:
    directory = _write(tmp_path, GOOD)
    (directory / name).unlink()
    os.mkfifo(directory / name)
    with pytest.raises(ProblemError, match=f"{name}: (cannot read it: a pipe|the file is missing)"):
        problem.load_directory(directory)


def test_texts_are_not_endless(tmp_path: Path) -> None:
    directory = _write(tmp_path, GOOD)
    (directory / "statement.md").write_text("x" * ((4 << 20) + 1))
    with pytest.raises(ProblemError, match=r"statement\.md: larger than 4096 KiB"):
        problem.load(directory)


@pytest.mark.parametrize("tiers", ["{pass: .nan}", "{pass: .inf}", "{pass: -.inf}", "{pass: 10, strong: .nan}"])
def test_tiers_are_scores(tmp_path: Path, tiers: str) -> None:
    with pytest.raises(ProblemError, match=r"tiers: found .*; must name scores above 0, up to 100, the least first"):
        problem.load(_write(tmp_path, f"{GOOD}tiers: {tiers}\n"))


@pytest.mark.parametrize("name", ["reference.py", "statement.md", "starter.cu"])
def test_a_missing_file_is_named(tmp_path: Path, name: str) -> None:
    directory = _write(tmp_path, GOOD)
    (directory / name).unlink()
    with pytest.raises(ProblemError, match=f"{name}: the file is missing"):
        problem.load(directory)


def test_a_copied_directory_is_not_the_same_problem_twice(tmp_path: Path) -> None:
    shutil.copytree(_write(tmp_path, GOOD), tmp_path / "copy")
    with pytest.raises(ProblemError, match="must be the directory's name"):
        problem.list_problems(tmp_path)


def test_expressions() -> None:
    names = {"n": 10, "page": 16}
    assert evaluate("ceil_div(n, page) * 4 - -1", names) == 5
    assert evaluate("max(n, page) // min(3, 4) + 1", names) == 6
    assert names_in("ceil_div(n, page) + min(a, 3)") == {"n", "page", "a"}


@pytest.mark.parametrize(
    "text",
    ["", "n +", "n / 2", "n ** 2", "True", "1.5", "'a'", "m", "n // 0", "abs(n)", "min(key=n)", "ceil_div(n)", "n.real",
     "n[0]", "(lambda: 1)()", "__import__('os')", "1" * 300, "n if n else 1", "ceil_div(n, 0)"],
)  # fmt: skip
def test_expressions_that_are_none(text: str) -> None:
    with pytest.raises(ExpressionError):
        evaluate(text, {"n": 10})
