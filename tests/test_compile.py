"""What the compile step promises: diagnostics in the user's file and lines, a kind word about solve(), bounded logs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness import cards
from harness.compile import diagnostics, nvrtc
from harness.compile.build import Compiled, compile_submission
from harness.errors import SubmissionError, UsageError
from harness.verdict import Verdict

DECLARATION = 'extern "C" void solve(const float* q, float* out, int n);'
KERNEL = "__global__ void scale(const float* q, float* out, int n) { out[0] = q[0] * n; }\n"
GOOD = KERNEL + 'extern "C" void solve(const float* q, float* out, int n) { scale<<<1, 32>>>(q, out, n); }\n'


def build(text: str, name: str = "my.cu", card: str = "H100") -> Compiled:
    return compile_submission(text, name, DECLARATION, cards.get(card))


def refusal(text: str, verdict: Verdict = Verdict.COMPILE_ERROR, name: str = "my.cu") -> SubmissionError:
    with pytest.raises(SubmissionError) as caught:
        build(text, name)
    assert caught.value.verdict == verdict
    return caught.value


def solve(body: str, device: str = KERNEL) -> str:
    """A submission with this body of solve(), which begins on the line after `device`."""
    return device + 'extern "C" void solve(const float* q, float* out, int n) {\n' + body + "\n}\n"


def in_kernel(body: str, before: str = "") -> str:
    """A submission whose kernel has this body on the line after `before` and the head of the kernel."""
    head = "__global__ void work(const float* q, float* out, int n) {\n"
    return (
        before
        + head
        + body
        + '\n}\nextern "C" void solve(const float* q, float* out, int n) {\n work<<<1, 1>>>(q, out, n); }\n'
    )


def test_kernels_and_solve_become_ptx_with_lines() -> None:
    compiled = build(GOOD)
    assert re.search(r"\.entry _Z5scalePKfPfi\(", compiled.ptx)
    assert ".func solve(" in compiled.ptx
    assert "__cudaCDP2LaunchDeviceV2" in compiled.ptx
    assert re.search(r'\.file\s+\d+ "my\.cu"', compiled.ptx)
    assert compiled.log == ""


def test_the_same_source_gives_the_same_ptx() -> None:
    assert build(GOOD).ptx == build(GOOD).ptx


def test_the_ptx_names_no_place_on_this_machine() -> None:
    text = "#include <cooperative_groups.h>\n" + in_kernel("cooperative_groups::this_thread_block().sync();")
    files = re.findall(r'\.file\s+\d+ "([^"]*)"', build(text + "void f(int n) { n = std::min(n, 3); }\n").ptx)
    assert {"<cooperative_groups.h>", "<algorithm>", "my.cu"} <= set(files)
    assert not any("/" in file and not file.startswith("<") for file in files)


def test_the_ptx_is_the_same_wherever_the_judge_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "#include <cooperative_groups.h>\n" + in_kernel("cooperative_groups::this_thread_block().sync();")
    ptx = build(text).ptx
    headers = nvrtc.find_toolkit().include[0]
    for folder in (headers, headers.parents[2]):  # as where the wheels lie below the working directory
        monkeypatch.chdir(folder)
        assert build(text).ptx == ptx


@pytest.mark.parametrize(("card", "target"), [("T4", "sm_75"), ("A100", "sm_80"), ("L4", "sm_89"), ("H100", "sm_90a")])
def test_the_card_decides_the_target(card: str, target: str) -> None:
    assert f".target {target}" in build(GOOD, card=card).ptx


def test_an_error_has_the_users_file_and_line() -> None:
    error = refusal("// one\n" + solve("  int a = missing;"), name="my file (2).cu")
    assert str(error) == 'my file (2).cu(4): error: identifier "missing" is undefined'
    assert "/" not in error.log.replace("//", "")


def test_a_quote_in_the_file_name_is_no_way_into_the_source() -> None:
    assert '"a_.cu"' in build(GOOD, name='a".cu').ptx


@pytest.mark.parametrize("name", ["-dash.cu", "--help", "@file.cu", " x.cu ", "\u202ea.cu", "a\udcff.cu", "é (1).cu"])
def test_any_file_name_compiles(name: str) -> None:
    assert build(GOOD, name=name).log == ""
    assert "(3): warning" in build(solve("  int unused;"), name=name).log


def test_warnings_are_kept() -> None:
    assert "my.cu(3): warning" in build(solve("  int unused;")).log


@pytest.mark.parametrize(
    ("definition", "found"),
    [
        ('extern "C" void solve(const float* q, float* out)', "const float* q, float* out"),
        ('extern "C" void solve(float* q, float* out, int n)', "float* q, float* out, int n"),
        ('extern "C" void solve(const float* q, int n, float* out)', "const float* q, int n, float* out"),
        ('extern "C" void solve(const float* q, float* out, long n)', "const float* q, float* out, long n"),
        ('extern "C" void solve()', ""),
        ("void solve(const float* q, float* out)", "const float* q, float* out"),
    ],
)
def test_wrong_parameters_show_both_lists(definition: str, found: str) -> None:
    error = refusal(KERNEL + definition + " {}\n")
    assert str(error) == (
        f"solve() has the wrong parameters:\n  expected (const float* q, float* out, int n)\n  found    ({found})"
    )
    assert error.findings[0].line == 2
    assert str(error) in error.log


def test_both_lists_come_before_the_compilers_words_on_the_judges_prototype() -> None:
    log = refusal(KERNEL + 'extern "C" void solve(float* q, float* out, int n) {}\n').log
    assert log.startswith("my.cu(2): solve() has the wrong parameters:\n  expected (") and '"C" linkage' in log


@pytest.mark.parametrize("second", ["const float* q, float* out, int n", "const float* q, float* out, long n"])
def test_two_definitions_are_named_by_their_lines(second: str) -> None:
    good = 'extern "C" void solve(const float* q, float* out, int n) {}'
    error = refusal(f'{KERNEL}{good} // "\n/* {good}\n*/\nextern "C" void solve({second}) {{}}\n')
    assert str(error).startswith("solve() is defined twice, lines 2 and 5; keep one: extern")


def test_other_parameter_names_are_fine() -> None:
    assert build(
        KERNEL + 'extern "C" void solve(const float *a, float *__restrict__ b, const int c) { (void)a; }\n'
    ).ptx


@pytest.mark.parametrize(
    ("definition", "said"),
    [
        ("", "defines no host entry point"),
        ('extern "C" int solve(const float* q, float* out, int n) { return 0; }', "must be declared exactly as"),
        ('extern "C" __global__ void solve(const float* q, float* out, int n) {}', "must be declared exactly as"),
        ("static void solve(const float* q, float* out, int n) {}", "must be visible"),
        ("namespace mine { void solve(const float* q, float* out, int n) {} }", "must be visible"),
    ],
)
def test_a_solve_of_the_wrong_kind_is_explained(definition: str, said: str) -> None:
    error = refusal(KERNEL + definition + "\n")
    assert said in str(error)
    assert 'extern "C" void solve(const float* q, float* out, int n)' in str(error)


def test_a_solve_without_extern_c_is_found() -> None:
    assert build(KERNEL + "void solve(const float* q, float* out, int n) { scale<<<1, 1>>>(q, out, n); }\n").ptx


def test_main_may_be_there() -> None:
    assert build(GOOD + "int main() { solve(nullptr, nullptr, 0); return 0; }\n").ptx


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        (solve("  cudaGraphCreate(0, 0);"), 3, "cudaGraphCreate is not among the CUDA functions"),
        (solve("  cudaStreamBeginCapture(0, cudaStreamCaptureModeGlobal);"), 3, "launch the kernels one by one"),
        (solve("  cudaLaunchKernelExC(nullptr, (void*)scale, nullptr);"), 3, "launch it with <<<>>>"),
        ("\n#include <vector>\n" + GOOD, 2, "<vector> is not available to solve()"),
        ("\n#include <string>\n" + GOOD, 2, "<string> is not available to solve()"),
        ("\n#include <array>\n" + GOOD, 2, "<array> is not available to solve()"),
        ("\n#include <thrust/sort.h>\n" + GOOD, 2, "<thrust/sort.h> is not available to solve(): write the step as"),
        ("\n#include <cub/cub.cuh>\n" + GOOD, 2, "as <cub/block/block_reduce.cuh>"),
    ],
)
def test_what_nvcc_would_take_is_unsupported_at_the_users_line(text: str, line: int, said: str) -> None:
    error = refusal(text, Verdict.UNSUPPORTED)
    assert said in str(error)
    assert error.findings[0].line == line
    assert f"my.cu({line}): " in error.log and str(error) in error.log


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("\n#include <cublas_v2.h>\n" + GOOD, 2, "no header cublas_v2.h"),
        (solve("  cudaMaloc(0, 0);"), 3, "cudaMaloc is not among the CUDA functions"),
        (solve("  int x = missing; cudaGraphCreate(0, 0);"), 3, "cudaGraphCreate is not among the CUDA functions"),
        (solve("  scale<<n, 32>>>(q, out, n);"), 3, "here a '<' is missing"),
        (solve("  scale<<<n, 32>>(q, out, n);"), 3, "here a '>' is missing"),
        ("__constant__ int table[1 << 20];\n" + in_kernel("out[0] = table[n];"), 0, "4194304 bytes, 65536 at most"),
    ],
)
def test_what_the_user_can_mend_is_said_in_plain_words(text: str, line: int, said: str) -> None:
    error = refusal(text)
    assert said in str(error)
    assert error.findings[0].line == line


def test_parts_of_cub_that_kernels_use_are_there() -> None:
    assert build("#include <cub/block/block_reduce.cuh>\n#include <cub/warp/warp_reduce.cuh>\n" + GOOD).ptx


@pytest.mark.parametrize(
    ("before", "body", "said"),
    [
        ("float twice(float x) { return 2 * x; }\n", "out[0] = twice(q[0]);", '"twice"'),
        ("template <class T> T twice(T x) { return 2 * x; }\n", "out[0] = twice(q[0]);", '"twice"'),
        ("struct S { float v; float twice() { return 2 * v; } };\n", "S s{q[0]}; out[0] = s.twice();", '"twice"'),
        ("__host__ float twice(float x) { return 2 * x; }\n", "out[0] = twice(q[0]);", '"twice"'),
        ("", "out[0] = std::min(n, 3);", '"std::min"'),
        ("", "out[0] = sqrt(n);", "a mathematical function of an integer"),
        ("", "cudaDeviceSynchronize();", "of the CUDA runtime"),
        ("", 'fprintf(stderr, "x");', '"fprintf"'),
    ],
)
def test_host_code_in_a_kernel_is_an_error_as_under_nvcc(before: str, body: str, said: str) -> None:
    error = refusal(in_kernel(body, before))
    line = before.count("\n") + 2
    assert str(error).startswith(f"my.cu({line}): error: calling a __host__ function ({said}")


def test_a_host_call_is_found_through_a_device_function() -> None:
    helper = "__device__ __noinline__ float helper(int n) {\n  return std::max(n, 2);\n}\n"
    assert str(refusal(in_kernel("out[0] = helper(n);", helper))).startswith("my.cu(2): error: calling a __host__")


def test_a_host_variable_in_a_kernel_is_an_error_as_under_nvcc() -> None:
    error = refusal(in_kernel("out[0] = factor;", "float factor = 2;\n"))
    assert 'my.cu(3): error: identifier "factor" is undefined in device code' in str(error)


@pytest.mark.parametrize(
    "before",
    [
        "#define BOTH __host__ __device__ __forceinline__\nBOTH float twice(float x) { return 2 * x; }\n",
        "float twice(int x) { return x; }\n__device__ float twice(float x) { return 2 * x; }\n",
        "__device__ float twice(float x);\n__device__ float twice(float x) { return 2 * x; }\n",
        "struct Twice { __device__ float operator()(float x) const { return 2 * x; } };\n__device__ Twice twice;\n",
        "const float two = 2;\n__device__ float twice(float x) { return two * x; }\n",
    ],
)
def test_device_code_is_not_taken_for_host_code(before: str) -> None:
    assert build(in_kernel("out[0] = twice(q[0]);", before)).ptx


def test_a_launch_from_device_code_is_unsupported() -> None:
    error = refusal(in_kernel("scale<<<1, 1>>>(q, out, n);", KERNEL), Verdict.UNSUPPORTED)
    assert error.findings[0].line == 3
    assert "launch it from solve()" in str(error)


def test_inline_assembly_is_assembled() -> None:
    error = refusal(in_kernel('asm("foo.bar.b32 %0;" ::"f"(q[0]));'))
    assert str(error).startswith("my.cu(2): error: ")
    assert "ptx input" not in str(error)


def test_too_much_static_shared_memory_is_an_error_as_under_nvcc() -> None:
    body = "__shared__ float tile[6000], more[6289];\n tile[n] = more[n + 1] = q[0]; out[0] = tile[n + 1] + more[n];"
    assert "49156 bytes, 49152 at most" in str(refusal(in_kernel(body)))
    assert build(in_kernel(body.replace("6289", "6288"))).ptx


def test_an_undefined_device_function_is_an_error() -> None:
    assert "my.cu(3): error: function twice is not defined" in str(
        refusal(in_kernel("out[0] = twice(q[0]);", "__device__ float twice(float);\n"))
    )


SECRET = "hunter2 is no declaration\n"


ABSOLUTE = [
    '#include "{}"', "#include <{}>", '%:include "{}"', '#include /* it */ "{}"', '#in\\\nclude "{}"',
    '#include_next "{}"', '#define PLACE "{}"\n#include PLACE', '#line 1 "{}"\n#include __FILE__',
    '#li\\\nne 1 "{}"\n#include __FILE__',
]  # fmt: skip


@pytest.mark.parametrize(
    ("form", "include"),
    [
        *(("absolute", include) for include in ABSOLUTE),
        ("upwards", '#include "{}"'),
        ("here", '#include "{}"'),
        ("from a toolkit folder", "#include <{}>"),
    ],
)
def test_no_other_file_can_be_included(
    form: str, include: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "secret").write_text(SECRET)
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path if form == "here" else tmp_path / "below")
    up = "../" * (len(nvrtc.find_toolkit().include[0].parts) - 1)
    place = {"absolute": f"{tmp_path}/secret", "upwards": "../secret", "here": "secret"}
    log = refusal(include.format(place.get(form, f"{up}{str(tmp_path)[1:]}/secret")) + "\n" + GOOD).log
    assert "hunter2" not in log
    assert "there is no header" in log or "includes itself" in log


def test_an_include_that_is_computed_is_refused(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(SECRET)
    error = refusal(f"#define TEXT(x) #x\n#include TEXT({tmp_path}/secret)\n" + GOOD)
    assert str(error).startswith("my.cu(2): error: #include needs the header itself")
    assert build('#define HALF "cuda_fp16.h"\n#include HALF\n// #include ANY\n' + GOOD).ptx


def test_a_header_that_is_not_reached_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(SECRET)
    assert build(f'#ifdef LOCAL\n#include "{tmp_path}/secret"\n#endif\n' + GOOD).ptx


def test_messages_about_other_files_lose_text_and_place() -> None:
    log = (
        'etc/secret(1): warning #1-D: hm\n  hunter2\n  ^\n\n/etc/secret(2): error: expected a ";"\n  hunter2\n  ^\n\n'
        '/t/../etc/secret(2): error: no\n  hunter2\n  ^\n\nmy.cu(3): error: "f" (declared at line 2 of "/etc/secret")\n'
        "  kept\n  ^\n          detected during instantiation at line 7 of /etc/secret\n\n<cuda.h>(3): error: no\n  kept\n"
    )
    cleaned = diagnostics.clean(log, "my.cu", [Path("/t")])
    assert "hunter2" not in cleaned and "secret" not in cleaned
    assert cleaned.count("in a file that is not part of the submission") == 1
    assert cleaned.count("  kept\n") == 2


@pytest.mark.parametrize("directive", ['#line 7 "/etc/passwd"', '# 7 "x.h"', "%:line 7", '#/**/line 7 "my.h"'])
def test_line_directives_do_not_move_messages(directive: str) -> None:
    log = build(f"{directive}\n" + solve("  int unused;")).log
    assert log.startswith("my.cu(4): warning") and "int unused;" in log
    assert "not part of the submission" not in log


def test_stray_bytes_of_the_compiler_stay_out_of_the_log() -> None:
    assert build(solve("  float host[64] = {0};\n  scale<<<1, 1>>>(host, out, n);")).log == ""
    stray = (
        "my.cu(4) : Warning: A pointer to local memory was stored into the parameter buffer obtained at\x01\nEU\ufffd"
    )
    assert diagnostics.clean(stray + "\nmy.cu(5): error: x\ufffd\n", "my.cu", ()) == "my.cu(5): error: x\n"


def test_errors_in_a_toolkit_header_name_it_without_a_path() -> None:
    error = refusal("#include <cub/cub.cuh>\n" + GOOD, Verdict.UNSUPPORTED)
    assert "site-packages" not in error.log
    assert "<cub/" in error.log


def test_control_bytes_do_not_reach_the_terminal() -> None:
    log = build('#warning "\x1b[31mred\x07"\n' + GOOD).log
    assert "[31mred" in log
    assert "\x1b" not in log and "\x07" not in log


def test_a_flood_of_warnings_keeps_head_and_tail() -> None:
    unused = "".join(f"static int unused{index};\n" for index in range(3000))
    log = build(unused + GOOD).log
    assert len(log) <= diagnostics.MAX_LOG
    assert "unused0" in log and "unused2999" in log and "characters left out" in log


def test_a_file_that_includes_itself_ends() -> None:
    assert "includes itself" in refusal("#include __FILE__\n#include __FILE__\n").log


def test_without_a_compiler_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvrtc, "_roots", lambda: iter([Path("/nowhere")]))
    with pytest.raises(UsageError, match=r"looked in: /nowhere.*pip install 'nvidia-cuda-nvrtc"):
        nvrtc.find_toolkit()


def _toolkit_folder(root: Path, *headers: str) -> Path:
    for name in ("lib/libnvrtc.so.13", *(f"include/{header}" for header in headers)):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    return root


def test_library_headers_come_from_elsewhere_where_a_compiler_lacks_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """PyTorch's packages have the compiler without <nv/target>, which cuda_pipeline.h includes."""
    bare = _toolkit_folder(tmp_path / "bare", "cuda_pipeline.h")
    full = _toolkit_folder(tmp_path / "full", "cccl/nv/target")
    monkeypatch.setattr(nvrtc, "_roots", lambda: iter([bare, full]))
    assert nvrtc.find_toolkit().include == (bare / "include", full / "include/cccl")
    monkeypatch.setattr(nvrtc, "_roots", lambda: iter([full, bare]))
    assert nvrtc.find_toolkit().include == (full / "include", full / "include/cccl")
    monkeypatch.setattr(nvrtc, "_roots", lambda: iter([bare]))
    assert nvrtc.find_toolkit().include == (bare / "include",)
