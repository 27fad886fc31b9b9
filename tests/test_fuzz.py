"""Hostile input: PTX that no compiler wrote, and runtime calls that no sane solve() makes.

Whatever comes in, nothing but UnsupportedPtx comes out of the parser and the lowering, and nothing but PlanFault or
UnsupportedPtx out of the planner: no other exception, no endless loop, no allocation out of proportion.

Hypothesis draws the same few inputs in every usual run. JUDGE_FUZZ=<first>:<last> draws so many others for each test,
from `first` as the seed.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache

import numpy as np
import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from harness import cards, planner
from harness.compile.build import compile_submission
from harness.devices.base import Argument, Program, RunLimits
from harness.emulator import inline
from harness.emulator.errors import UnsupportedPtx
from harness.emulator.host import HostFault
from harness.emulator.inline import flatten
from harness.emulator.launch import shape_of
from harness.emulator.program import Program as Emulated
from harness.emulator.program import lower
from harness.emulator.ptx import parse, parsed
from harness.plan import LaunchPlan
from harness.planner import PlanFault, make_plan
from harness.planning.printf import render
from harness.planning.signatures import PARAMETERS
from harness.planning.table import HANDLERS
from tests import ptx_table, test_emulator_control, test_emulator_integer
from tests.emulator_kit import ptx_of
from tests.fuzz_host import Call, play, scripts
from tests.fuzzing import TOKEN, damaged, edits

Test = Callable[..., None]
_RANGE = [int(number) for number in os.environ.get("JUDGE_FUZZ", "").split(":") if number]


def _some(usual: int) -> Callable[[Test], Test]:
    """Draw so many inputs, the same ones each time, or those that JUDGE_FUZZ asks for."""
    count = _RANGE[-1] - _RANGE[0] if _RANGE else usual
    chosen = settings(
        max_examples=count, derandomize=not _RANGE, deadline=None, database=None, suppress_health_check=list(HealthCheck)
    )
    return lambda test: seed(_RANGE[0])(chosen(test)) if _RANGE else chosen(test)


# The parser and the lowering

KERNEL = """
__constant__ float table[4] = {1, 2, 3, 4};
struct Pair { float a; int b; };
__device__ __noinline__ float fold(Pair p, float* x) { return p.b > 3 ? p.a + *x : table[p.b & 3]; }
__global__ void __launch_bounds__(128) k(float* x, int n) {
  __shared__ float tile[64];
  extern __shared__ int more[];
  const int lane = threadIdx.x & 31;
  tile[threadIdx.x & 63] = x[lane];
  more[lane] = n;
  __syncthreads();
  float sum = 0;
  for (int i = 0; i < n; ++i) {
    if (i % 3 == lane % 3) continue;
    sum += fold(Pair{tile[i & 63], i}, x + i) + __shfl_xor_sync(~0u, sum, 1);
  }
  float4 v = reinterpret_cast<float4*>(x)[lane];
  if (__any_sync(~0u, v.x > sum)) atomicAdd(x + more[lane], v.y);
  switch (n) {
    case 0: sum = sqrtf(sum); break;
    case 1: sum = __expf(sum); break;
    case 2: printf("%f %d", sum, n); break;
    default: assert(n < 100);
  }
  x[lane] = sum;
}
"""


@lru_cache
def _texts() -> list[str]:
    rows = test_emulator_integer.TABLES["moves"] + test_emulator_integer.TABLES["carry"]
    return [test_emulator_control.BRANCH_TABLE, ptx_table.kernel_text(rows, "branch"), ptx_of(KERNEL)]


@lru_cache
def _pool() -> list[str]:
    return sorted({token for text in _texts() for token in TOKEN.findall(text)})


def _all_stages(text: str) -> None:
    module = parse(text)
    program = Emulated(module)
    for name in module.kernels:
        f = flatten(module, name)
        lower(module, f, program._layout(name, f)[0], shape_of((32, 1, 1)))


def test_the_texts_are_sound_before_they_are_damaged() -> None:
    for text in _texts():
        _all_stages(text)


@_some(200)
@given(st.data())
def test_damaged_ptx_is_unsupported_or_lowered(data: st.DataObject) -> None:
    text = damaged(data.draw(st.sampled_from(_texts())), data.draw(edits(_pool())))
    try:
        _all_stages(text)
    except UnsupportedPtx as known:
        assert known.what


@_some(25)
@given(st.data())
@pytest.mark.usefixtures("quick_compiler")
def test_what_damaged_ptx_is_lowered_to_is_compiled_or_unsupported(data: st.DataObject) -> None:
    """Through LLVM's verifier and its code generator; mild damage, so that most of it gets there."""
    mild = edits(_pool(), ("replace", "swap", "modifiers", "double", "drop"), 2)
    text = damaged(data.draw(st.sampled_from(_texts())), data.draw(mild))
    try:
        program = Emulated(parse(text))
        for name in program.kernel_addresses:
            program.kernel(name, shape_of((32, 1, 1)))
    except UnsupportedPtx as known:
        assert known.what


@_some(100)
@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=200), st.booleans())
def test_text_that_is_no_ptx_is_unsupported(text: str, inside: bool) -> None:
    try:
        _all_stages(f".version 9.0\n.target sm_90\n.visible .entry k(.param .u64 a)\n{{\n{text}\nret;\n}}\n" if inside else text)
    except UnsupportedPtx as known:
        assert known.what


BODIES = {
    "a number of 5000 digits": "mov.u32 %r1, " + "9" * 5000 + ";",
    "a number of 5000 digits in an address": "ld.global.u32 %r1, [%rd1+" + "9" * 5000 + "];",
    "a register of 5000 digits": "mov.u32 %r1, %r" + "9" * 5000 + ";",
    "a scoped range of 5000 digits": "{ .reg .b32 %x<" + "9" * 5000 + ">; }",
    "a position of 5000 digits": ".loc 1 " + "9" * 5000 + " 1",
    "a leading zero in an offset": "ld.global.u32 %r1, [%rd1+010];",
    "three destinations": "setp.eq.u32 %p1|%p2|%p3, %r1, %r2;",
    "brackets without end": "mov.u32 %r1, " + "(" * 20_000 + ";",
    "braces without end": "mov.b64 " + "{" * 20_000 + ";",
    "nested vectors": "mov.b64 " + "{" * 3000 + "%r1" + "}" * 3000 + ", %rd1;",
    "negations without end": "mov.u32 %r1, " + "!" * 20_000 + "%p1;",
    "bars without end": "mov.u32 " + "%r1|" * 5000 + "%r1, 0;",
    "an alignment of 0": ".local .align 0 .b8 x[8]; st.local.u32 [x], %r1;",
    "an alignment of 3": ".shared .align 3 .b8 x[8]; st.shared.u32 [x], %r1;",
    "a guard and nothing": "@%p1 ;",
    "a call of nothing": "call;",
    "a call of a number": "call 5, (x);",
    "scopes without end": "{" * 50_000,
    "an unterminated comment": "/* mov.u32 %r1, 0;",
    "an unterminated vector": "ld.global.v2.u32 {%r1, %r2, [%rd1];",
}


def _entry(body: str, declarations: str = "", params: str = ".param .u64 a") -> str:
    head = f".version 9.0\n.target sm_90\n.address_size 64\n{declarations}\n.visible .entry k({params})\n{{\n"
    return f"{head}.reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %rd<4>;\n{body}\nret;\n}}\n"


@pytest.mark.parametrize("name", BODIES)
def test_a_damage_that_once_broke_the_parser_is_unsupported(name: str) -> None:
    with pytest.raises(UnsupportedPtx):
        _all_stages(_entry(BODIES[name]))


@pytest.mark.parametrize(
    "declaration",
    [
        ".global .align 1 .b8 x[99999999999999] = {1};",
        ".global .align 0 .b8 x[4];",
        ".shared .align 6 .b8 x[4];",
        ".global .b8 x[" + "9" * 5000 + "];",
        ".global .align " + "9" * 5000 + " .b8 x[4];",
        ".global .align 1 .b8 x = {y};",
        ".global .align 4 .u32 x[2] = {1, 2, 3};",
        ".global .align 8 .u64 x[1] = {y+" + "9" * 5000 + "};",
        '.file 1 "a.cu"\n.file ' + "9" * 5000 + ' "b.cu"',
    ],
)
def test_a_declaration_that_once_broke_the_parser_is_unsupported(declaration: str) -> None:
    with pytest.raises(UnsupportedPtx):
        _all_stages(_entry("", declaration))


def test_a_parameter_aligned_to_nothing_is_unsupported() -> None:
    with pytest.raises(UnsupportedPtx):
        _all_stages(_entry("", params=".param .align 0 .b8 a[8]"))


def test_positions_inlined_into_each_other_without_end() -> None:
    chain = "\n".join(
        f".loc 1 {n + 1} 1, function_name $L__info_string0, inlined_at 1 {n} 1\nadd.u32 %r1, %r1, 1;" for n in range(1, 3000)
    )
    _all_stages(_entry(f'.loc 1 1 1\nmov.u32 %r1, 0;\n{chain}\nst.global.u32 [%rd1], %r1;', '.file 1 "a.cu"'))


def test_functions_that_double_at_every_level_are_unsupported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inline, "MAX_INSTRUCTIONS", 20_000)
    levels = "".join(
        f".func f{n}()\n{{\n.reg .b32 %r<3>;\nmov.u32 %r1, {n};\ncall f{n + 1}, ();\ncall f{n + 1}, ();\nret;\n}}\n"
        for n in range(30)
    )
    with pytest.raises(UnsupportedPtx, match=r"grows beyond|recursive"):
        _all_stages(_entry("call f0, ();", f"{levels}.func f30()\n{{\nret;\n}}\n"))


# The planner

DECLARATION = 'extern "C" void solve(const float* q, float* out, int n, float scale);'
SOLVE = """#include <cstdio>
#include <cstdlib>
__constant__ int table[4];
template <int D> __global__ void work(const float* q, float* out, int n, float scale) { out[0] = q[0] * n * scale * D; }
extern "C" void solve(const float* q, float* out, int n, float scale) {
  float* scratch = nullptr;
  if (cudaMalloc(&scratch, n * sizeof(float)) != cudaSuccess) printf("%s\\n", cudaGetErrorString(cudaGetLastError()));
  int sizes[4] = {n, 2 * n, 3, 4};
  cudaMemcpyToSymbol(table, sizes, sizeof(sizes));
  cudaMemset(scratch, 0, n * sizeof(float));
  for (int i = 0; i < n; ++i)
    if (i % 2) work<64><<<dim3(i, 1), 64, 128>>>(q, scratch, sizes[i & 3], scale);
  char* text = (char*)malloc(16);
  text[0] = n > 3 ? 'a' : 0;
  text[1] = 0;
  printf("%d %s %f %5.2f\\n", n, text, scale, scale * n);
  free(text);
  cudaMemcpy(out, scratch, 16, cudaMemcpyDeviceToDevice);
  cudaFree(scratch);
}
"""
ARGUMENTS = [
    Argument("q", np.zeros(64, np.float32), "in", "float"),
    Argument("out", np.zeros(64, np.float32), "out", "float"),
    Argument("n", 5, "scalar", "int"),
    Argument("scale", 0.5, "scalar", "float"),
]


@lru_cache
def _solve() -> str:
    text = compile_submission(SOLVE, "my.cu", DECLARATION, cards.get("H100")).ptx
    return text[: text.find(".section")] if ".section" in text else text


@contextmanager
def _short_evaluation() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planner, "HOST_SECONDS", 0.5)
        patch.setattr(planner, "HOST_INSTRUCTIONS", 300_000)
        yield


def _planned(ptx: str) -> LaunchPlan | None:
    with _short_evaluation():
        try:
            return make_plan(Program("my.cu", ptx), ARGUMENTS, cards.get("H100"), RunLimits())
        except (PlanFault, UnsupportedPtx) as fault:
            assert str(fault)
            return None
        finally:
            parsed.cache_clear()


def test_solve_is_sound_before_it_is_damaged() -> None:
    plan = _planned(_solve())
    assert plan is not None and plan.stdout == "5 a 0.500000  2.50\n" and len(plan.steps) == 5


def test_ptx_without_solve_is_a_fault() -> None:
    assert _planned(".version 9.0\n.target sm_90\n") is None


@_some(25)
@given(st.data())
def test_a_damaged_solve_is_a_plan_or_a_fault(data: st.DataObject) -> None:
    text = _solve()
    pool = sorted(set(TOKEN.findall(text)))
    at = text.index(".func") if ".func" in text else 0
    _planned(text[:at] + damaged(text[at:], data.draw(edits(pool))))


@_some(400)
@given(scripts())
def test_hostile_runtime_calls_are_a_plan_or_a_fault(script: list[Call]) -> None:
    try:
        play(script)
    except (PlanFault, HostFault) as fault:  # a HostFault becomes a finding in make_plan
        assert str(fault)


@pytest.mark.parametrize(
    "script",
    [
        [Call("__cudaCDP2LaunchDeviceV2", (0x300, 0))],
        [Call("__cudaCDP2LaunchDeviceV2", (0, 0)), Call("__cudaCDP2LaunchDeviceV2", (0, 0))],
        [Call("__cudaCDP2Malloc", (8,))],
        [Call("__cudaCDP2Malloc", (0x100, 64, 8))],
        [Call("judge_launch_kernel", ())],
        [Call("vprintf", ())],
        [Call("judge_set_device", ())],
    ],
)
def test_calls_that_once_broke_the_planner_are_faults(script: list[Call]) -> None:
    with pytest.raises(PlanFault):
        play(script)


def test_an_argument_that_is_not_passed_whole_reads_as_zero() -> None:
    with pytest.raises(PlanFault, match=r"exit\(0\)"):
        play([Call("judge_exit", (7,), cut=4)])


EVERY_CALL = """#include <cassert>
#include <cstdio>
#include <cstdlib>
__constant__ int table[4];
__global__ void work(float* out) { *out = table[0]; }
extern "C" void solve(const float* q, float* out, int n, float scale) {
  void *a, *args[] = {&out};
  float ms;
  int i;
  size_t size;
  cudaStream_t stream;
  cudaEvent_t event;
  cudaFuncAttributes of_work;
  cudaDeviceProp properties;
  cudaMalloc(&a, 64), cudaMemsetAsync(a, 0, 64), cudaMemset(a, 0, 4), cudaFree(a), cudaMallocManaged(&a, 64);
  cudaMemcpy(out, a, 4, cudaMemcpyDeviceToDevice), cudaMemcpyAsync(out, a, 4, cudaMemcpyDeviceToDevice, 0);
  cudaMallocHost(&a, 64), cudaFreeHost(a), a = malloc(64), free(a), a = calloc(4, 4), *(char*)a = n;
  cudaFuncSetAttribute(work, cudaFuncAttributeMaxDynamicSharedMemorySize, 1000), cudaFuncGetAttributes(&of_work, work);
  cudaOccupancyMaxActiveBlocksPerMultiprocessor(&i, work, 32, 0), cudaOccupancyMaxPotentialBlockSize(&i, &n, work, 0, 0);
  cudaStreamCreate(&stream), cudaStreamDestroy(stream), cudaEventCreate(&event), cudaEventRecord(event, stream);
  cudaStreamWaitEvent(stream, event, 0), cudaEventDestroy(event), cudaEventElapsedTime(&ms, event, event);
  cudaDeviceSynchronize(), cudaGetDeviceProperties(&properties, 0), cudaGetDevice(&i), cudaGetDeviceCount(&i);
  cudaSetDevice(i), cudaRuntimeGetVersion(&i), cudaDeviceGetAttribute(&i, cudaDevAttrMultiProcessorCount, 0);
  cudaMemGetInfo(&size, &size), cudaGetErrorName(cudaSuccess), cudaPeekAtLastError();
  work<<<1, 1>>>(out), cudaLaunchKernel((void*)work, dim3(1), dim3(32), args, 0, 0);
  cudaLaunchCooperativeKernel((void*)work, dim3(1), dim3(32), args, 0, 0);
  printf("%s", cudaGetErrorString(cudaGetLastError())), assert(n > 5);
  if (n == 77) exit(1);
}
"""
_EXTERN = re.compile(r"\.extern \.func\s*(?:\([^)]*\))?\s*([\w$]+)\s*\(([^)]*)\)")


def test_the_parameters_of_every_function_are_those_that_the_compiler_passes() -> None:
    assert PARAMETERS.keys() == HANDLERS.keys()
    ptx = compile_submission(EVERY_CALL, "my.cu", DECLARATION, cards.get("H100")).ptx
    passed = {name: re.findall(r"\.b(\d+) \w+(?:\[(\d+)\])?", parameters) for name, parameters in _EXTERN.findall(ptx)}
    assert set(PARAMETERS) - set(passed) == {"__cudaCDP2EventRecordWithFlags"}
    for name, parameters in passed.items():
        assert PARAMETERS[name] == tuple(int(bits) // 8 * int(count or 1) for bits, count in parameters), name


ARGUMENT_BYTES = struct.pack("<iiqd", 7, -3, 1 << 40, 0.5) + bytes(512)


def _render(template: str) -> str:
    return render(template, lambda at, n: ARGUMENT_BYTES[at : at + n].ljust(n, b"\0"), lambda at: "text" * 20_000)


@_some(400)
@given(st.lists(st.sampled_from(["%", "%%", "*", ".", "-", "+", "#", "0", " ", "9" * 9, "9" * 5000, "5", "٣", "h", "l", "ll", "z", "L",
                                 *"diouxXcsfFeEgGaApn"]), max_size=30))  # fmt: skip
def test_any_format_of_printf_is_printed_within_bounds(parts: list[str]) -> None:
    assert len(_render("".join(parts))) < 1 << 22


@pytest.mark.parametrize(
    ("template", "printed"),
    [
        ("%*d|", "     -3|"),
        ("%-*d|%d", "-3     |0"),
        ("%2147483647d" * 3, None),
        ("%.2147483647f" * 3, None),
        ("%" + "9" * 5000 + "d", None),
        ("%٣d", "%٣d"),
        ("%", "%"),
        ("%.3d", "007"),
        ("%.s|", "|"),
    ],
)
def test_formats_that_once_broke_printf(template: str, printed: str | None) -> None:
    text = _render(template)
    assert len(text) < 1 << 20
    assert printed in (None, text)


def test_a_negative_precision_counts_as_none() -> None:
    data = struct.pack("<i4xd", -1, 0.5)
    assert render("%.*f", lambda at, n: data[at : at + n], lambda at: "") == "0.500000"
