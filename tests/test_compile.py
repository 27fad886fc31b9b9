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
    assert not any(file.startswith("/") for file in files)


@pytest.mark.parametrize(("card", "target"), [("T4", "sm_75"), ("A100", "sm_80"), ("L4", "sm_89"), ("H100", "sm_90a")])
def test_the_card_decides_the_target(card: str, target: str) -> None:
    assert f".target {target}" in build(GOOD, card=card).ptx


def test_an_error_has_the_users_file_and_line() -> None:
    error = refusal("// one\n" + solve("  int a = missing;"), name="my file (2).cu")
    assert str(error) == 'my file (2).cu(4): error: identifier "missing" is undefined'
    assert "/" not in error.log.replace("//", "")


def test_a_quote_in_the_file_name_is_no_way_into_the_source() -> None:
    assert '"a_.cu"' in build(GOOD, name='a".cu').ptx


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
        ("\n#include <vector>\n" + GOOD, 2, "<vector> is not available to solve()"),
        ("\n#include <cublas_v2.h>\n" + GOOD, 2, "no header cublas_v2.h"),
    ],
)
def test_what_is_not_offered_is_named(text: str, line: int, said: str) -> None:
    error = refusal(text)
    assert said in str(error)
    assert error.findings[0].line == line


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


def test_text_of_other_files_is_not_shown(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("hunter2 is no declaration\n")
    error = refusal(f'#include "{secret}"\n' + GOOD)
    assert "hunter2" not in error.log
    assert str(tmp_path) not in error.log
    assert "hunter2" not in refusal(f'#line 1 "{secret}"\n#error x\n').log


def test_errors_in_a_toolkit_header_name_it_without_a_path() -> None:
    error = refusal("#include <cub/cub.cuh>\n" + GOOD)
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
