"""Tracks: which one a submission is for, what a problem's entries say of them, and judging in the narrow types."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from harness import cases, problem
from harness.compile.declarations import declared
from harness.errors import ProblemError, UsageError
from harness.events import Finished
from harness.pipeline import Options, judge
from harness.problem import Problem
from harness.report.console import Console
from harness.report.json import as_dict
from harness.report.terminal import print_report
from harness.results import Report
from harness.submission import from_bytes
from harness.tracks import Match, find, title
from harness.verdict import FindingKind, Verdict

PROBLEM = problem.load(Path(__file__).parent / "problems" / "scaled_rows")
NARROW = ("float16", "bfloat16", "float8_e4m3")
ALL = [(dtype, variant) for variant in ("base", "sums") for dtype in ("float32", *NARROW)]
KERNEL = """
__global__ void multiply(const ELEMENT* x, const CACHED* cache, const float* factor, ELEMENT* out, float* sum,
                         int columns) {
  int row = blockIdx.x, column = threadIdx.x;
  float product = float(x[row * columns + column]) * float(cache[row * columns + column]);
  if (factor) product *= factor[row];
  if (COLUMN_IS_WRITTEN) out[row * columns + column] = ELEMENT(product);
  if (sum && column == 0) {
    float total = 0.0f;
    for (int i = 0; i < columns; ++i)
      total += float(x[row * columns + i]) * float(cache[row * columns + i]) * (factor ? factor[row] : 1.0f);
    sum[row] = total;
  }
}
"""


def solution(dtype: str, variant: str = "base", written: str = "true", kernel: str = KERNEL) -> str:
    """A right solution; in a column for which `written` is false it writes nothing."""
    track = PROBLEM.track(dtype, variant)
    types = {p.name: p.type for p in track.signature}
    passed = [name if name in types else "nullptr" for name in ("x", "cache", "factor", "out", "sum")]
    head = track.declaration().split("\n")[-1].removesuffix(";")
    body = kernel.replace("ELEMENT", types["x"]).replace("CACHED", types["cache"])
    body = body.replace("COLUMN_IS_WRITTEN", written)
    return f"{body}{head} {{\n  multiply<<<rows, columns>>>({', '.join(passed)}, columns);\n}}\n"


def judged(text: str, **changes: object) -> Report:
    options = Options(**{"device": "cpu", "seed": 7, "resource_seconds": 0.0, **changes})  # type: ignore[arg-type]
    *_, last = judge(PROBLEM, from_bytes("my.cu", text.encode()), options)
    assert isinstance(last, Finished)
    return last.report


# -- which track


@pytest.mark.parametrize(("dtype", "variant"), ALL)
def test_a_submission_is_for_the_track_whose_types_it_has(dtype: str, variant: str) -> None:
    match = find(PROBLEM, solution(dtype, variant))
    assert (match.problem.dtype, match.problem.variant, match.exact) == (dtype, variant, True)
    assert match.note == ""


@pytest.mark.parametrize(
    "text",
    [
        'extern "C" void solve(const __nv_bfloat16* x, const __nv_bfloat16* cache, __nv_bfloat16* out, int r, int c) {',
        "void solve(const nv_bfloat16 *__restrict__ x, nv_bfloat16 const* __restrict__ k, nv_bfloat16*o,int r,int c)\n{",
        "using bf16 = __nv_bfloat16;\nvoid solve(const bf16* x, const bf16* k, bf16* out, const int r, const int c) {",
        "typedef __nv_bfloat16 T;\nvoid solve(const T x[], const T *k, T out[64], std::int32_t r, int32_t c) {",
        "typedef const __nv_bfloat16 *In;\nvoid solve(In x, In k, __nv_bfloat16* out, signed int r, int c) noexcept {",
        "#define T __nv_bfloat16\nvoid solve(const T* x, const T* k, T* out, int r, int c) {",
        "#  define T \\\n  nv_bfloat16\nvoid solve(const T* x, const T* k, T* out, int, int) {",
        "#define ARGS const nv_bfloat16* x, const nv_bfloat16* k, nv_bfloat16* out, int r, int c\nvoid solve(ARGS) {",
        "using a = nv_bfloat16; using b = a;\n#define T b\nvoid solve(const T* x, const T* k, T* out, int r, int c) {",
        "// void solve(const float* x, const float* k, float* out, int r, int c) {\n"
        "void solve(const nv_bfloat16* x, // float* x,\n  const nv_bfloat16* /* float */ k, nv_bfloat16* o, int r, int c) {",
        "void solve(const float* x, const float* k, float* out, int r, int c);\n"
        "void solve(const nv_bfloat16* x, const nv_bfloat16* k, nv_bfloat16* out, int r, int c) {\n"
        "  solve(reinterpret_cast<const float*>(x), nullptr, nullptr, r, c);",
        "void solve(const nv_bfloat16* x, const nv_bfloat16* k, nv_bfloat16* out, int r, int c = 64);",
    ],
)  # fmt: skip
def test_types_are_known_in_any_spelling(text: str) -> None:
    match = find(PROBLEM, f"#include <cuda_bf16.h>\n{text}")
    assert (match.problem.dtype, match.problem.variant, match.exact) == ("bfloat16", "base", True)


HALF = "extern \"C\" void solve(const half* x, const half* k, half* out, int r, int c)"
T = HALF.replace("half", "T")


@pytest.mark.parametrize(
    "text",
    [
        f'const char* note = "/* no comment"; {HALF} {{}}',
        f'const char* note = "http://x.y"; {HALF} {{}}',
        f'const char* note = R"x(\nvoid solve(float* q) {{ )" /*)x"; {HALF} {{}}',
        f"char quote = '\"'; int n = 1'000; {HALF} {{}} char last = '\"';",
        f"{HALF.replace('half', 'nv_half')} {{}}",
        f"{HALF.replace('half', '__nv_half')} {{}}",
        f"{HALF} {{}}\nvoid solve(int a) {{}}",
        f"{HALF} {{}}\nstruct S {{ void solve(int a) {{}} }};\nvoid S::solve(float* q) {{}}",
        f"{HALF} {{}}\n{HALF.replace('half', 'float')};",
        f"extern \"C\" {{ {HALF} {{}} }}\nvoid solve(int a) {{}}",
        f"{HALF} noexcept(true) {{}}\nnamespace n {{ {HALF.replace('half', 'float')} {{}} }}",
        f"using T = half; struct S {{ using T = float; }}; {T} {{}}",
        f"typedef half T; {T} {{}}\nusing T = float;",
        f"#define T half\n{T} {{}}\n#undef T\n#define T float\n",
        f"#if 0\n{HALF.replace('half', 'float')} {{}}\n#else\n{HALF} {{}}\n#endif",
        f"{HALF} {{}}\n#if 0\n#ifdef A\n#else\n{HALF.replace('half', 'float')} {{}}\n#endif\n#endif",
        f"#ifndef USE_FLOAT\n#define T half\n#else\n#define T float\n#endif\n{T} {{}}",
        f"#define BITS 16\n#if BITS == 32\n#define T float\n#elif BITS == 16\n#define T half\n#endif\n{T} {{}}",
        f"#if defined(A) || !defined(B)\n#define T half\n#else\n#define T float\n#endif\n{T} {{}}",
        f"#if __CUDACC_VER_MAJOR__ < 9\n#define T int\n#else\n#define T half\n#endif\n{T} {{}}",
        f"#if CUDART_VERSION > 9\n#define T half\n#else\n#define T int\n#endif\n{T} {{}}",
        HALF.replace("int c", "[[maybe_unused]] int c = (1, 0)").replace("solve", "so\\\nlve") + " {}",
    ],
)  # fmt: skip
def test_what_is_not_meant_does_not_mislead(text: str) -> None:
    """Literals, helpers of the same name, names in other scopes, dead branches."""
    match = find(PROBLEM, f"#include <cuda_fp16.h>\n{text}")
    assert (title(match.problem), match.exact) == ("float16", True)


def test_another_solve_is_named_for_when_the_text_does_not_compile() -> None:
    match = find(PROBLEM, f"#if __A\n{HALF} {{}}\n#else\n{HALF.replace('half', 'float')} {{}}\n#endif")
    assert title(match.problem) == "float16" and match.note.endswith("judge it with --dtype float32")
    assert find(PROBLEM, f"{HALF} {{}}\n{HALF.replace('half', 'float')} {{}}").note == ""


def test_half_and_eight_bits() -> None:
    half = "void solve(const half* x, const half* cache, half* out, int rows, int columns) {"
    assert find(PROBLEM, half).problem.dtype == "float16"
    eight = "void solve(const nv_bfloat16* x, const __nv_fp8_e4m3* c, const float* f, nv_bfloat16* o, int r, int n) {"
    assert find(PROBLEM, eight).problem.dtype == "float8_e4m3"


def test_what_the_text_does_not_show() -> None:
    assert declared("int main() {}") == []
    assert [each.types for text in ("void solve() {", "void solve(void) {") for each in declared(text)] == [(), ()]
    assert declared("#define T T\n#define U V\n#define V U\nvoid solve(T* x, U n) {")  # no endless loop


@pytest.mark.parametrize(
    "text",
    [
        "typedef int " * 20000,
        "using a = b\n" * 20000,
        "solve(" * 40000,
        "/*" * 100000,
        "\n".join(f"#define a{n} " + f"a{n + 1}, " * 300 for n in range(60)) + "\nvoid solve(a0) {",
        "void solve(" + "int, " * 50000 + "int) {",
        "typedef" + " " * (1 << 18),
        "typedef" + "\n" * (1 << 18),
        ("typedef" + "\n" * 300) * 850,
        "\n" * (1 << 18),
        'R"(' * 80000,
        "#if __A\n" * 20000 + "void solve(int);",
        "using a = b;\n" * 10000 + "void solve(a);\n" * 8000,
    ],
    ids=lambda text: text[:12],
)
def test_no_text_takes_long_to_read(text: str) -> None:
    assert title(find(PROBLEM, text).problem) in {title(track) for track in PROBLEM.tracks()}


def test_the_nearest_track_is_taken_and_the_others_are_named() -> None:
    """One type is wrong: float16 with sums is nearest, and the list that the compiler shows is that."""
    match = find(PROBLEM, "void solve(const half* x, const half* cache, half* out, float* sum, int rows, long n) {")
    assert not match.exact and title(match.problem) == "float16, sums"
    assert match.note.startswith(
        "solve() was taken to be for float16, sums, the nearest: its parameters are those of no track; "
        "other tracks: float32; float16; bfloat16; "
    )
    assert match.note.endswith("`judge.py show scaled_rows --dtype DTYPE --variant VARIANT` shows the parameters of each")


def test_a_list_of_the_right_length_is_nearest() -> None:
    """Not the longer one that has a float* where the list has one too many."""
    match = find(PROBLEM, "void solve(const half* x, const half* cache, float* out, int rows, int columns) {")
    assert (title(match.problem), match.exact) == ("float16", False)


def test_without_solve_it_is_the_first_track() -> None:
    match = find(PROBLEM, "__global__ void kernel(const half* x) {}")
    assert not match.exact and title(match.problem) == "float32"


def test_a_track_can_be_demanded() -> None:
    text = solution("bfloat16")
    assert find(PROBLEM, text, dtype="bfloat16").exact and find(PROBLEM, text, variant="base").exact
    match = find(PROBLEM, text, dtype="float16")
    assert not match.exact and title(match.problem) == "float16"
    assert match.note == (
        "solve() has the parameters of bfloat16, but this was judged in float16: judge it with --dtype bfloat16"
    )
    sums = find(PROBLEM, solution("bfloat16", "sums"), variant="base")
    assert sums.note.endswith("judged in bfloat16: judge it with --dtype bfloat16 --variant sums")
    assert title(find(PROBLEM, text, variant="sums").problem) == "bfloat16, sums"


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({"dtype": "float64"}, "scaled_rows has no dtype 'float64'; it has: float32, float16, bfloat16, float8_e4m3"),
        ({"variant": "gqa"}, "scaled_rows has no variant 'gqa'; it has: base, sums"),
    ],
)
def test_a_track_that_the_problem_lacks(wanted: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        find(PROBLEM, "", **wanted)
    assert str(caught.value) == message
    with pytest.raises(UsageError, match=r"has no (dtype|variant)"):
        PROBLEM.track(**wanted)


def test_a_problem_with_one_track_says_nothing_of_others(doubling: Problem) -> None:
    assert find(doubling, "void solve(int n) {") == Match(doubling, False, "")


# -- what a problem has in each track


def test_entries_belong_to_their_tracks() -> None:
    half, eight = PROBLEM.track("float16"), PROBLEM.track("float8_e4m3", "sums")
    assert [t.type for t in half.tensors] == ["__half", "__half", "__half"]
    assert [t.type for t in eight.tensors] == ["__nv_bfloat16", "__nv_fp8_e4m3", "float", "__nv_bfloat16", "float"]
    assert [t.name for t in eight.outputs] == ["out", "sum"]
    assert [case.name for case in half.tests] == ["one_row", "three_columns", "many_rows"]
    assert [case.name for case in eight.tests] == ["one_row", "three_columns", "sums_only"]
    assert eight.track("float32", "base") == PROBLEM
    assert [(track.dtype, track.variant) for track in PROBLEM.tracks()] == ALL


def test_the_declaration_brings_the_headers_that_its_types_need() -> None:
    assert PROBLEM.declaration().startswith('extern "C"')
    assert PROBLEM.track("float16").declaration().startswith('#include <cuda_fp16.h>\nextern "C"')
    lines = PROBLEM.track("float8_e4m3").declaration().split("\n")
    assert lines[:2] == ["#include <cuda_bf16.h>", "#include <cuda_fp8.h>"] and len(lines) == 3


def test_starters_by_dtype() -> None:
    assert "float32" in PROBLEM.starter_for("float32") and "float16" in PROBLEM.starter_for("float16")
    with pytest.raises(UsageError, match="no starter for bfloat16; there is one for: float32, float16"):
        PROBLEM.starter_for("bfloat16")
    with pytest.raises(UsageError, match="has no dtype 'int8'"):
        PROBLEM.starter_for("int8")


def test_cases_are_drawn_from_one_stream_and_stored_in_the_dtype() -> None:
    """The same numbers in every track, rounded; and the reference hears which track it is."""
    drawn = {dtype: next(cases.build(PROBLEM.track(dtype), "one_row", 7)) for dtype in PROBLEM.dtypes}
    x = {dtype: case.arguments[0].value for dtype, case in drawn.items()}
    for dtype in NARROW:
        np.testing.assert_array_equal(x[dtype], x["float32"].astype(x[dtype].dtype))  # type: ignore[union-attr]
    assert [drawn[dtype].cost.bytes for dtype in PROBLEM.dtypes] == [64 * 12, 64 * 6, 64 * 6, 64 * 5 + 4]
    assert set(drawn["float32"].expected) == {"out"}
    assert set(next(cases.build(PROBLEM.track(variant="sums"), "one_row", 7)).expected) == {"out", "sum"}


@pytest.mark.parametrize(
    ("track", "name", "where"),
    [
        (("float16", "base"), "sums_only", " in float16, base; that case is of variant sums"),
        (("float32", "base"), "many_rows", " in float32, base; that case is of dtype float16 or bfloat16"),
        (("bfloat16", "base"), "no_such", ""),
    ],
)
def test_a_case_of_another_track_is_said_to_be_there(track: tuple[str, str], name: str, where: str) -> None:
    with pytest.raises(UsageError) as caught:
        cases.select(PROBLEM.track(*track), name)
    assert str(caught.value).startswith(f"scaled_rows has no case {name!r}{where}; tests, samples, benchmarks, or of these: ")


def test_a_disguise_may_name_tensors_of_other_tracks() -> None:
    track = PROBLEM.track("bfloat16")
    reference = cases.load_reference(track)
    case = next(cases.build(track, "many_rows", 7))
    inputs = {a.name: a.value for a in case.arguments if a.role != "out"}
    drawn = cases.draw_disguise(track, reference, inputs, np.random.default_rng(1))
    assert set(drawn.gather) == {"x", "cache", "out"} and set(drawn.scale) == {"x", "out"}
    out = reference.expected(inputs)["out"]
    changed = {name: drawn.applied(name, value) for name, value in inputs.items() if isinstance(value, np.ndarray)}
    np.testing.assert_array_equal(reference.expected(changed)["out"], drawn.applied("out", out))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("dtypes: [float8_e4m3]}", "dtypes: [float8]}", r"signature\[2\]\.dtypes: found 'float8', the problem has: flo"),
        ("variants: [sums]}\n  - {name: rows", "variants: [lse]}\n  - {name: rows", r"variants: found 'lse', the prob"),
        ("dtypes: [float16, bfloat16]}", "dtypes: []}", r"tests\[2\]\.dtypes: an empty list: the entry would exist in"),
        ("dtypes: [float32, float16,", "dtypes: [float32, float32,", r"dtypes: the name 'float32' stands here 2 times"),
        ("{name: base, about", "{name: usual, about", r"variants: the first variant is the default and must be called"),
        ("{name: sums, about", "{name: Sums, about", r"variants\[1\]\.name: found 'Sums'; must be of small letters"),
        ("{name: sums, about", "{name: base, about", r"variants: the name 'base' stands here 2 times"),
        ("{name: sums, about", "{name: sums, abuot", r"variants\[1\]\.abuot: unknown key; allowed: name, about"),
        ("role: out, shape: [rows, columns]}", "role: out, shape: [rows, columns], variants: [sums]}",
         r"signature: no tensor has role out or inout in float32, base: nothing could be checked"),
        ("check: elements, variants: [sums]}", "check: elements, dtypes: [float16]}",
         r"the types in float32, sums are those in float32, base: submissions could not be told apart"),
        ("{name: factor, type", "{name: x, type", r"signature: the name 'x' stands here 2 times"),
        ("rows: 1, columns: 64}", "rows: 1, columns: 64, dtypes: [float16]}", ""),
        ("{name: three_columns,", "{name: sums_only,", r"tests: the name 'sums_only' stands here 2 times"),
        ("  - {name: many_rows", "  - {name: many_rows, rows: 1, columns: 2, dtypes: [float32]}\n  - {name: many_rows", ""),
        ("type: element, role: out", "type: kv_element, role: out", r"allowed: element, float"),
        ("  columns: {type: int, min: 1}", "  columns: {type: int, min: 1}\n  dtype: {type: int, default: 1}",
         r"case_parameters\.dtype: the judge itself gives this to make_inputs"),
    ],
)  # fmt: skip
def test_entries_that_make_no_sense(tmp_path: Path, old: str, new: str, message: str) -> None:
    text = (PROBLEM.directory / "problem.yaml").read_text()
    assert text.count(old) == 1
    directory = copy_of_the_problem(tmp_path, text.replace(old, new))
    if not message:
        problem.load(directory)
        return
    with pytest.raises(ProblemError, match=message):
        problem.load(directory)


def test_every_track_has_a_test(tmp_path: Path) -> None:
    text = (PROBLEM.directory / "problem.yaml").read_text()
    for case in ("one_row, rows: 1, columns: 64", "three_columns, rows: 7, columns: 3"):
        text = text.replace(case, f"{case}, dtypes: [float16, float32]")
    with pytest.raises(ProblemError, match="a problem has at least one test; bfloat16, base has none"):
        problem.load(copy_of_the_problem(tmp_path, text.replace("dtypes: [float16, bfloat16]", "dtypes: [float16]")))


def copy_of_the_problem(folder: Path, text: str) -> Path:
    directory = folder / PROBLEM.id
    directory.mkdir()
    for file in PROBLEM.directory.glob("*.*"):
        (directory / file.name).write_text(text if file.name == "problem.yaml" else file.read_text())
    return directory


# -- judging


@pytest.mark.parametrize(("dtype", "variant"), [*((dtype, "base") for dtype in NARROW), ("bfloat16", "sums")])
def test_a_right_solution_is_accepted(dtype: str, variant: str) -> None:
    report = judged(solution(dtype, variant))
    assert (report.verdict, report.dtype, report.variant) == (Verdict.ACCEPTED, dtype, variant)
    assert len(report.cases) == len(PROBLEM.track(dtype, variant).tests)


@pytest.mark.parametrize("dtype", NARROW)
def test_a_wrong_element_is_named(dtype: str) -> None:
    wrong = KERNEL.replace("ELEMENT(product)", "ELEMENT(row == 4 && column == 2 ? 3.0f : product)")
    report = judged(solution(dtype, kernel=wrong), cases="three_columns")
    assert report.verdict is Verdict.WRONG_ANSWER
    (finding,) = report.cases[0].findings
    assert (finding.kind, finding.tensor, finding.index) == (FindingKind.MISMATCH, "out", (4, 2))
    assert "1 of 21 elements of out differs" in finding.message and "found 3 " in finding.message


@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize(("written", "first", "count"), [("column % 2 == 0", (0, 1), 7), ("row != 6", (6, 0), 3)])
def test_elements_that_nobody_wrote_are_counted(
    dtype: str, written: str, first: tuple[int, int], count: int
) -> None:
    """Also when the other half of their word was written; the tensor has an odd number of elements."""
    report = judged(solution(dtype, written=written), cases="three_columns")
    (finding,) = report.cases[0].findings
    assert (finding.kind, finding.tensor, finding.index) == (FindingKind.UNWRITTEN_OUTPUT, "out", first)
    assert finding.message.startswith(f"{count} of 21 elements of out were never written")


def test_a_solution_that_launches_nothing_wrote_nothing() -> None:
    head = PROBLEM.track("bfloat16").declaration().removesuffix(";").split("\n")[-1]
    (finding,) = judged(f"{head} {{}}\n", cases="one_row").cases[0].findings
    assert finding.kind is FindingKind.UNWRITTEN_OUTPUT and "64 of 64 elements" in finding.message


def test_benchmarks_are_modelled_against_the_rate_of_the_dtype() -> None:
    report = judged(solution("bfloat16"), cases="benchmarks")
    (case,) = [case for case in report.cases if case.benchmark]
    assert report.verdict is Verdict.ACCEPTED and report.score and case.benchmark
    assert case.benchmark.bytes == 64 * 64 * 6


def test_errors_keep_the_lines_of_the_users_file() -> None:
    report = judged("\n\n" + solution("bfloat16").replace("float total = 0.0f;", "float total = nothing;"))
    assert report.verdict is Verdict.COMPILE_ERROR and "my.cu(11): error" in report.compile.log


def test_wrong_parameters_show_the_list_of_the_nearest_track_and_name_the_others() -> None:
    report = judged(solution("bfloat16").replace("int rows, int columns)", "int rows, long columns)"))
    assert report.verdict is Verdict.COMPILE_ERROR and report.dtype == "bfloat16"
    said = "\n".join(finding.message for finding in report.findings)
    assert "expected (const __nv_bfloat16* x, const __nv_bfloat16* cache, __nv_bfloat16* out," in said
    assert "found    (const __nv_bfloat16* x," in said
    assert "its parameters are those of no track; other tracks: float32; " in said


def test_the_report_says_which_track(capsys: pytest.CaptureFixture[str]) -> None:
    for dtype, variant, shown in (("float32", "base", ""), ("float32", "sums", ", float32, sums"),
                                  ("bfloat16", "base", ", bfloat16")):  # fmt: skip
        report = judged(solution(dtype, variant), cases="one_row")
        fields = as_dict(report)
        assert (fields["dtype"], fields["variant"]) == (dtype, variant)
        print_report(Console(width=200), report, "", "")
        line = next(line for line in capsys.readouterr().out.splitlines() if "cases passed" in line)
        assert f"1 of 1 cases passed  on {report.device}{shown}  in" in line
