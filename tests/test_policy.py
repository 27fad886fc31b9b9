"""What compiled code may hold: device variables that kernels write, in every spelling, in PTX and in cubins."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import pytest

from harness import cards, events, pipeline, policy, problem, submission
from harness.compile import build
from harness.compile.cubin import inspect
from harness.compile.nvrtc import nvrtc
from harness.emulator.ptx import parse
from harness.errors import JudgeError, SubmissionError
from harness.results import Finding
from harness.verdict import FindingKind, Verdict
from harness.written_variables import written

DECLARATION = 'extern "C" void solve(float* out, int n);'
SOLVE = 'extern "C" void solve(float* out, int n) { k<<<1, 32>>>(out, n); }\n'
CARD = cards.get("H100")
ROOT = Path(__file__).resolve().parents[1]


@lru_cache(maxsize=4)
def compiled(text: str) -> str:
    return build.compile_submission(text, "my.cu", DECLARATION, CARD).ptx


@lru_cache(maxsize=8)
def cubin_of(kernels: str) -> bytes:
    """The cubin of kernels alone, of the whole program as nvcc makes it."""
    flags = ["--extensible-whole-program", *build.options(nvrtc(), CARD, "full")]
    flags.remove("-rdc=true")
    unit = f"#include <cuda_runtime.h>\n{kernels}"
    output = nvrtc().compile(unit, "my.cu", build.shim_headers(), flags, cubin=True)
    assert output.ok, output.log
    return output.cubin


def kernel(declaration: str, body: str) -> str:
    """A file with its declaration in line 1 and the kernel in line 3."""
    return f"{declaration}\n\n__global__ void k(float* out, int n) {{ {body} }}\n"


def found(text: str, cubin: bytes = b"", allowed_bytes: int = 0) -> list[Finding]:
    """Findings of a file, the kernels of which `kernel` made."""
    source = text + SOLVE
    return list(policy.check(compiled(source), cubin, source, "my.cu", allowed_bytes))


STATE = {
    "plain": ("__device__ float x;", "x = n;"),
    "initialised": ("__device__ float x[4] = {1, 2, 3, 4};", "x[n & 3] += 1;"),
    "static": ("static __device__ int x;", "x++;"),
    "namespace": ("namespace a { namespace b { __device__ int x; } }", "a::b::x = n;"),
    "anonymous namespace": ("namespace { __device__ int x; }", "x = n;"),
    "template": ("template <class T> __device__ T x;", "x<float> = n;"),
    "macro": ("#define KEEP __device__\nKEEP int x;", "x = n;"),
    "atomic": ("__device__ unsigned int x;", "if (atomicAdd(&x, 1u) > 3) out[0] = 1;"),
    "compare and swap": ("__device__ unsigned long long x;", "atomicCAS(&x, 0ull, 1ull);"),
    "volatile": ("volatile __device__ int x;", "x = n;"),
    "struct": ("struct S { int count; float last[8]; }; __device__ S x;", "x.last[n & 7] = out[n];"),
    "pointer": ("__device__ float x[64];", "float* p = x; for (int i = 0; i < n; ++i) *p++ = i;"),
    "either of two": ("__device__ float x[64];", "float* p = n & 1 ? out : x; p[n] = 1;"),
    "pointer in local memory": ("__device__ float x[64];", "float* p[2] = {out, x}; p[n & 1][n] = 1;"),
    "pointer in shared memory": ("__device__ float x[64];", "__shared__ float* p; p = x; __syncthreads(); p[n] = 1;"),
    "integer arithmetic": ("__device__ float x[64];", "*(float*)(((size_t)x | 4) + 4 * (size_t)n) = 1;"),
    "function": ("__device__ float x; __device__ __noinline__ void put(float* p, float v) { *p = v; }", "put(&x, n);"),
    "function's result": ("__device__ float x[8]; __device__ __noinline__ float* at(int i) { return x + i; }", "*at(n) = 1;"),
    "memcpy": ("__device__ float x[64];", "memcpy(x, out, sizeof x);"),
    "inline assembly": ("__device__ int x;", 'asm volatile("st.global.u32 [%0], %1;" :: "l"(&x), "r"(n));'),
    "asynchronous copy": (
        "__device__ float x[64];",
        '__shared__ float s[64]; asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 64;" :: "l"(x), '
        '"r"((unsigned)__cvta_generic_to_shared(s)));',
    ),
}  # fmt: skip


@pytest.mark.parametrize("spelling", STATE)
def test_a_variable_that_a_kernel_writes_is_state_in_every_spelling(spelling: str) -> None:
    declaration, body = STATE[spelling]
    (finding,) = found(kernel(declaration, body))
    assert (finding.kind, finding.tensor, finding.file) == (FindingKind.DEVICE_STATE, "x", "my.cu")
    assert finding.line == (2 if spelling == "macro" else 1)
    assert "writes to x" in finding.message and "cudaMalloc" in finding.message


def test_a_variable_of_the_kernel_itself_and_one_of_assembly_are_found_at_their_line() -> None:
    own = "static __device__ int calls;"
    asm = 'asm volatile("{ .global .u32 hidden; red.global.add.u32 [hidden], 1; }");'
    text = kernel("", f"\n{own}\nif (calls++ > 3) return;\n{asm}\nout[n] = 1;")
    assert [(f.line, f.tensor) for f in found(text)] == [(4, "calls"), (6, "hidden")]


def test_the_line_is_of_the_variable_not_of_a_parameter_of_its_name() -> None:
    text = kernel("__device__ float f(float x) { return x; }  // x\n__device__ float x;", "x = f(n);")
    assert [f.line for f in found(text)] == [2]


def test_the_message_names_kernel_and_line_of_the_write() -> None:
    (finding,) = found(kernel("__device__ int x;", "\n\n  x = n;"))
    assert finding.message.startswith("k(), at line 5, writes to x, which outlives the launch")
    assert finding.kernel == "k"


CLEAN = {
    "no variable": ("", "out[n] = 1;"),
    "table": ("__device__ const float x[4] = {1, 2, 3, 4};", "out[n] = x[n & 3];"),
    "table that is not const": ("__device__ float x[4] = {1, 2, 3, 4};", "out[n] = x[n & 3];"),
    "table through a pointer": (
        "__device__ float x[4] = {1, 2, 3, 4}, y[4] = {5, 6, 7, 8};",
        "const float* p = n & 1 ? x : y; out[n] = p[n & 3] + __ldg(x);",
    ),
    "table in a function": (
        "__device__ float x[64] = {1}; __device__ __noinline__ float at(const float* p, int i) { return p[i]; }",
        "out[n] = at(x, n);",
    ),
    "difference of pointers": ("__device__ float x[64] = {1};", "const float* p = x + n; out[p - x] = *p;"),
    "constant memory": ("__constant__ float x[64];", "out[n] = x[n];"),
    "static shared": ("", "static __shared__ int calls; calls = n; __syncthreads(); out[n] = calls;"),
    "local table": ("", "const float x[8] = {1, 2, 3, 4, 5, 6, 7, 8}; out[n] = x[n];"),
    "printf and assert": (
        "#include <cstdio>\n#include <cassert>",
        'assert(n < 9); const char* w[2] = {"a", "b"}; float* p[2] = {out, out + 1}; p[n & 1][0] = 1;'
        ' printf("%s %s %d\\n", __func__, w[n & 1], n);',
    ),
    "source of a copy": (
        "__device__ float x[64] = {1};",
        '__shared__ float s[64]; asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" :: '
        '"r"((unsigned)__cvta_generic_to_shared(s)), "l"(x)); __syncthreads(); out[n] = s[n];',
    ),
    "cooperative groups": (
        "#include <cooperative_groups.h>\n#include <cooperative_groups/reduce.h>\n#include <cuda/std/span>",
        "namespace cg = cooperative_groups; auto t = cg::tiled_partition<32>(cg::this_thread_block());"
        "out[n] = cg::reduce(t, n, cg::plus<int>());",
    ),
    "barriers of libcu++": (
        "#include <cuda/barrier>",
        "__shared__ cuda::barrier<cuda::thread_scope_block> b; if (!threadIdx.x) init(&b, 32); __syncthreads();"
        "b.arrive_and_wait(); out[n] = 1;",
    ),
    "trigonometry": ("", "out[n] = sinf(out[n]) + cosf(out[n + 1]);"),
}


@pytest.mark.parametrize("use", CLEAN)
def test_what_no_kernel_writes_is_nobodys_state(use: str) -> None:
    text = kernel(*CLEAN[use])
    assert found(text) == []
    assert found(text, cubin_of(text)) == []


def test_solve_may_fill_a_variable() -> None:
    text = kernel("__device__ float x[64];", "out[n] = x[n];") + (
        'extern "C" void solve(float* out, int n) { float h[64] = {1}; cudaMemcpyToSymbol(x, h, sizeof h);'
        " k<<<1, 32>>>(out, n); }\n"
    )
    assert policy.check(compiled(text), b"", text, "my.cu") == ()


def test_functions_that_no_kernel_reaches_may_write() -> None:
    """A host function is compiled for the device, too."""
    text = kernel("__device__ int x;\nvoid unused() { x = 1; }", "out[n] = x;")
    assert found(text) == []


def test_a_problem_may_allow_so_many_bytes() -> None:
    text = kernel("__device__ float x[4]; __device__ int y;", "x[n] = y++;")
    assert found(text, allowed_bytes=20) == []
    assert [f.tensor for f in found(text, allowed_bytes=19)] == ["x", "y"]


def test_answers_do_not_fit_into_initial_values() -> None:
    large = kernel("__device__ const int x[16000] = {1};", "out[n] = x[n];")
    assert found(large) == []
    (finding,) = found(large.replace("16000", "16384"))  # beside some bytes of the compiler's
    assert (finding.kind, finding.line, finding.tensor) == (FindingKind.DEVICE_STATE, 1, "x")
    assert "65,536 are allowed" in finding.message


def test_initial_values_count_in_the_cubin_too() -> None:
    honest, hidden = kernel("", "out[n] = 1;"), kernel("__device__ const int x[16385] = {1};", "out[n] = x[n];")
    findings = policy.check(compiled(honest + SOLVE), cubin_of(hidden), "", "my.cu")
    assert [f.kind for f in findings] == [FindingKind.DEVICE_STATE]


def test_a_variable_that_only_the_other_compiler_sees_is_state() -> None:
    honest = kernel("", "out[n] = 1;")
    for declaration in ("__device__ int x;", "__device__ int x = 3;"):
        hidden = kernel(declaration, "if (x++) return; out[n] = 1;")
        source = f"#ifndef __CUDACC_RTC__\n{hidden}#else\n{honest}#endif\n"
        (finding,) = policy.check(compiled(honest + SOLVE), cubin_of(hidden), source, "my.cu")
        assert (finding.kind, finding.tensor, finding.line) == (FindingKind.DEVICE_STATE, "x", 2)


def test_a_constant_that_only_the_other_compiler_keeps_is_not() -> None:
    honest = kernel("", "out[n] = 1;")
    kept = kernel("__device__ constexpr int x[3] = {1, 2, 3};", "out[n] = x[n];")
    assert policy.check(compiled(honest + SOLVE), cubin_of(kept), kept, "my.cu") == ()


def test_a_variable_of_assembly_is_one_variable_in_both() -> None:
    text = kernel("", 'asm volatile("{ .global .u32 hidden; red.global.add.u32 [hidden], 1; }"); out[n] = 1;')
    assert [f.tensor for f in found(text, cubin_of(text))] == ["hidden"]


def test_the_cubin_tells_sections_and_sizes_of_variables() -> None:
    text = kernel("__device__ int x[3]; __device__ int y[5] = {1}; __constant__ int z;", "x[n] = y[n] + z;")
    info = inspect(cubin_of(text))
    objects = {each.name: (each.section, each.nbytes) for each in info.objects if each.name in "xyz"}
    assert objects == {"x": (".nv.global", 12), "y": (".nv.global.init", 20), "z": (".nv.constant3", 4)}
    assert info.sections[".nv.global"] >= 12


def test_a_damaged_cubin_is_our_fault() -> None:
    with pytest.raises(JudgeError, match="damaged"):
        policy.check("", b"\x7fELF", "", "my.cu")


def test_the_verdict_is_a_violation_of_policy() -> None:
    source = kernel("__device__ int x;", "x = n;") + SOLVE
    with pytest.raises(SubmissionError) as caught:
        policy.require(compiled(source), b"", source, "my.cu")
    assert caught.value.verdict is Verdict.POLICY_VIOLATION
    assert [f.tensor for f in caught.value.findings] == ["x"]


HEAD = ".version 9.0\n.target sm_90\n.address_size 64\n.visible .global .align 4 .b8 x[64];\n"
ENTRY = ".visible .entry k(.param .u64 p)\n{{\n.reg .b64 %rd<9>;\n.reg .b32 %r<9>;\n.reg .pred %p<3>;\n{body}\nret;\n}}\n"


def writes(body: str, before: str = "") -> set[str]:
    return set(written(parse(HEAD + before + ENTRY.format(body=body), lenient=True)))


@pytest.mark.parametrize(
    "body",
    [
        "mov.u64 %rd1, x; st.u32 [%rd1+4], %r1;",
        "mov.u64 %rd1, x; mov.b64 {%r1, %r2}, %rd1; mov.b64 %rd2, {%r1, %r2}; st.global.u32 [%rd2], 0;",
        "st.global.u32 [x+8], %r1;",
        "mov.u64 %rd1, x; discard.global.L2 [%rd1], 128;",
        "mov.u64 %rd1, x; cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%rd1], [%r1], 16;",
        "mov.u64 %rd1, x; cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [%rd1, {%r1}], [%r2];",
        "mov.u64 %rd1, x; some.new.instruction [%rd1], %r1;",
        "mov.u64 %rd2, x; st.local.v2.u64 [%rd1], {%rd1, %rd2}; ld.local.u64 %rd3, [%rd1]; st.u32 [%rd3], 0;",
    ],
)  # fmt: skip
def test_what_writes(body: str) -> None:
    assert writes(body) == {"x"}


@pytest.mark.parametrize(
    "body",
    [
        "mov.u64 %rd1, x; ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%rd1]; st.shared.u32 [%r5], %r1;",
        "mov.u64 %rd1, x; setp.eq.u64 %p1, %rd1, %rd2; selp.b64 %rd3, %rd4, %rd5, %p1; st.u32 [%rd3], 0;",
        "mov.u64 %rd1, x; sub.s64 %rd2, %rd3, %rd1; add.s64 %rd4, %rd5, %rd2; st.u32 [%rd4], 0;",
        "mov.u64 %rd1, x; cp.async.bulk.prefetch.L2.global [%rd1], 64;",
        "mov.u64 %rd1, x; cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1], 64, [%r2];",
        "ld.param.u64 %rd1, [p]; cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
        "[%r1], [%rd1, {%r2, %r3}], [%r4];",
    ],
)  # fmt: skip
def test_what_does_not_write(body: str) -> None:
    assert writes(body) == set()


def test_an_address_in_another_variable_is_followed() -> None:
    pointer = ".visible .global .align 8 .u64 held = generic(x);\n"
    assert writes("ld.global.u64 %rd1, [held]; st.u32 [%rd1], 0;", pointer) == {"x"}
    assert writes("ld.global.u64 %rd1, [held]; ld.u32 %r1, [%rd1];", pointer) == set()


def test_what_an_unknown_function_gets_it_may_write() -> None:
    call = "mov.u64 %rd1, x; {{ .param .b64 a; st.param.b64 [a], %rd1; call.uni {name}, (a); }}"
    declared = ".extern .func {name} (.param .b64 a);\n"
    for name, expected in (("elsewhere", {"x"}), ("__assertfail", set())):
        assert writes(call.format(name=name), declared.format(name=name)) == expected


def test_a_call_through_a_pointer_may_mean_any_function_that_fits() -> None:
    put = ".func put(.param .b64 a)\n{\n.reg .b64 %rd<2>;\nld.param.u64 %rd1, [a];\nst.u32 [%rd1], 0;\nret;\n}\n"
    call = "mov.u64 %rd1, x; mov.u64 %rd2, put; { .param .b64 b; st.param.b64 [b], %rd1; call %rd2, (b), proto; }"
    assert writes(call, put) == {"x"}


def test_what_cannot_be_read_is_no_accusation() -> None:
    (finding,) = policy.check(HEAD + "strange", b"", "", "my.cu")
    assert finding.kind is FindingKind.UNSUPPORTED


@pytest.mark.parametrize(
    ("symbol", "name"),
    [("x", "x"), ("_ZN2ns4openE", "open"), ("_Z4manyIfE", "many"), ("_ZZ1kPfiE7counter", "counter"),
     ("_ZZ1kPfiE7counter_0", "counter"), ("$__mine___170$1", "mine_"), ("_ZL6hidden", "hidden"),
     ("_ZZN2ns4tileILi64EEEvPfE5cache", "cache")],
)  # fmt: skip
def test_the_name_that_a_symbol_ends_in(symbol: str, name: str) -> None:
    assert policy.own_name(symbol) == name


def test_a_submission_with_state_runs_no_case_also_from_the_cache(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    loaded = submission.load(ROOT / "tests/submissions/general/state_in_device_variable.cu")
    for cached in (False, True):
        said = list(pipeline.judge(problem.load("split_k_merge"), loaded, pipeline.Options(device="cpu")))
        assert not any(isinstance(event, events.CaseStarted) for event in said)
        last = said[-1]
        assert isinstance(last, events.Finished)
        assert last.report.verdict is Verdict.POLICY_VIOLATION
        assert (last.report.compile.ok, last.report.compile.cached, last.report.cases) == (True, cached, ())
        assert [(f.kind, f.tensor) for f in last.report.findings] == [(FindingKind.DEVICE_STATE, "launches")]
