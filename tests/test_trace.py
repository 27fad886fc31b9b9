"""Traces as counted by hand: lanes, sectors, passes, blocks of known access patterns; and their way to the report."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness import cards, pipeline, problem, submission, tracing
from harness.compile.build import compile_submission
from harness.devices.base import Argument, Program, RunLimits, RunResult
from harness.devices.cpu import EmulatorDevice, emulated
from harness.devices.traces import forms_of
from harness.emulator.inline import flatten
from harness.emulator.program import Program as EmulatedProgram
from harness.emulator.program import lower
from harness.emulator.uniform import Shape
from harness.events import Finished
from harness.report import json as json_report
from harness.report import reading
from harness.results import CaseResult, Report
from harness.sandbox import codec
from harness.sandbox.frames import FrameError
from harness.traces import BlockMap, CaseTrace, WarpRequest
from harness.traffic import AccessTraffic, CaseTraffic, TensorTraffic
from harness.verdict import Verdict

pytestmark = pytest.mark.usefixtures("quick_compiler")

ROOT = Path(__file__).resolve().parents[1]
FILE = "k.cu"
HEADER = "#include <cuda_runtime.h>\n"


def _run(kernel: str, launch: str, tensors: Sequence[np.ndarray], trace: bool = True, outputs: int = 1) -> RunResult:
    """Run `kernel` on tensors a, b, ... of which the first `outputs` are written; `launch` is solve()'s body."""
    names = "abcdef"[: len(tensors)]
    kinds = {"float32": "float", "int32": "int", "float16": "unsigned short"}
    parameters = ", ".join(
        f"{'' if k < outputs else 'const '}{kinds[str(t.dtype)]}* {name}"
        for k, (name, t) in enumerate(zip(names, tensors, strict=True))
    )
    declaration = f'extern "C" void solve({parameters});'
    source = f"{HEADER}{kernel}\nextern \"C\" void solve({parameters}) {{ {launch} }}"
    ptx = compile_submission(source, FILE, declaration, cards.get("H100")).ptx
    arguments = [
        Argument(name, t, "inout" if k < outputs else "in", "float")
        for k, (name, t) in enumerate(zip(names, tensors, strict=True))
    ]
    return EmulatorDevice().run(Program(FILE, ptx), arguments, RunLimits(trace=trace), 1)


def _trace(kernel: str, launch: str, *tensors: np.ndarray, outputs: int = 1) -> CaseTrace:
    result = _run(kernel, launch, tensors, outputs=outputs)
    assert result.trace is not None and not result.findings, result.findings
    return result.trace


def _requests(trace: CaseTrace, **wanted: object) -> list[WarpRequest]:
    return [r for r in trace.requests if all(getattr(r, name) == value for name, value in wanted.items())]


def _one(body: str, *, kind: str = "float", size: int = 32 * 1024, **wanted: object) -> WarpRequest:
    """The only request of its sort of one warp of lanes t that runs `body` on float* a."""
    kernel = f"__global__ void k({kind}* a) {{ int t = threadIdx.x; {body} }}"
    trace = _trace(kernel, f"k<<<1, 32>>>(({kind}*)a);", np.zeros(size, np.float32))
    (request,) = _requests(trace, **wanted)
    return request


GLOBAL = [  # body, type of the elements, sectors, ideal sectors, first four offsets
    ("a[t] = 1;", "float", 4, 4, (0, 4, 8, 12)),
    ("a[128 * t] = 1;", "float", 32, 4, (0, 512, 1024, 1536)),
    ("a[t] = make_float4(1, 2, 3, 4);", "float4", 16, 16, (0, 16, 32, 48)),
    ("a[32 * t] = make_float4(1, 2, 3, 4);", "float4", 32, 16, (0, 512, 1024, 1536)),
    ("a[t + 1] = 1;", "float", 5, 4, (4, 8, 12, 16)),
    ("a[31 - t] = 1;", "float", 4, 4, (124, 120, 116, 112)),
    ("a[7] = 1;", "float", 1, 1, (28, 28, 28, 28)),
    ("if (t & 1) a[t] = 1;", "float", 4, 2, (None, 4, None, 12)),
    ("a[t] = 1;", "unsigned char", 1, 1, (0, 1, 2, 3)),
]


@pytest.mark.parametrize(("body", "kind", "sectors", "ideal", "offsets"), GLOBAL)
def test_a_request_is_kept_with_its_lanes_and_costs_what_it_costs(
    body: str, kind: str, sectors: int, ideal: int, offsets: tuple[int | None, ...]
) -> None:
    r = _one(body, kind=kind, space="global")
    assert (r.tensor, r.operation, r.block, r.warp, r.file, r.line) == ("a", "write", (0, 0, 0), 0, FILE, 2)
    assert (r.units, r.ideal_units, r.offsets[:4]) == (sectors, ideal, offsets)


SHARED = [  # index that lane t reads of a float s[2048], passes, ideal passes
    ("t", 1, 1),
    ("2 * t", 2, 1),
    ("32 * t", 32, 1),
    ("33 * t", 1, 1),
    ("5", 1, 1),
    ("t ^ 1", 1, 1),
    ("(t % 8) * 32 + t / 8", 8, 1),  # transposed 8 x 4
]


@pytest.mark.parametrize(("index", "passes", "ideal"), SHARED)
def test_a_request_of_shared_memory_takes_a_pass_for_each_word_of_its_busiest_bank(
    index: str, passes: int, ideal: int
) -> None:
    body = f"""__shared__ float s[2048];
        for (int k = t; k < 2048; k += 32) s[k] = k;
        __syncthreads();
        a[t] = s[{index}];"""
    r = _one(body, space="shared", operation="read")
    assert (r.tensor, r.lane_bytes, r.start, r.line) == ("s", 4, 0, 5)
    assert (r.units, r.ideal_units) == (passes, ideal)


@pytest.mark.parametrize(("step", "passes"), [(1, 4), (2, 8), (17, 4), (0, 1)])
def test_quarters_of_a_warp_share_the_passes_of_16_byte_accesses(step: int, passes: int) -> None:
    body = f"""__shared__ float4 s[640];
        for (int k = t; k < 640; k += 32) s[k] = make_float4(k, k, k, k);
        __syncthreads();
        float4 v = s[{step} * t]; a[t] = v.x + v.y + v.z + v.w;"""
    r = _one(body, space="shared", operation="read")
    assert (r.lane_bytes, r.units, r.ideal_units) == (16, passes, min(passes, 4))


def test_bank_conflicts_depend_on_where_the_variable_starts_and_offsets_do_not() -> None:
    body = """__shared__ float first[3], second[64];
        if (t < 3) first[t] = t;
        second[t] = t; second[t + 32] = t; __syncthreads();
        a[t] = second[2 * t] + first[t % 3];"""
    r = _one(body, space="shared", operation="read", tensor="second")
    assert r.start % 4 == 0 and r.offsets[:3] == (0, 8, 16) and r.units == 2


def test_the_costliest_request_of_a_line_is_kept_beside_a_typical_one() -> None:
    kernel = """__global__ void k(float* a) { int t = threadIdx.x;
        for (int step = 1; step <= 64; step *= 8)
            a[step * t] = 1;
    }"""
    trace = _trace(kernel, "k<<<1, 32>>>(a);", np.zeros(4096, np.float32))
    found = [(r.line, r.costliest, r.units, r.offsets[1]) for r in _requests(trace, space="global")]
    assert found == [(4, False, 4, 4), (4, True, 32, 32)]


def test_the_typical_request_is_the_first_of_those_with_most_lanes() -> None:
    kernel = """__global__ void k(float* a) {
        int i = blockIdx.x * 64 + threadIdx.x;
        if (i >= 20) a[i] = 1;
    }"""
    (r,) = _trace(kernel, "k<<<3, 64>>>(a);", np.zeros(192, np.float32)).requests
    assert (r.block, r.warp, r.lanes, r.offsets[0]) == ((0, 0, 0), 1, 32, 128)


def test_an_asynchronous_copy_is_a_request_of_both_memories() -> None:
    kernel = """#include <cuda_pipeline.h>
    __global__ void k(float* a, const float* b) { int t = threadIdx.x; __shared__ float4 s[32];
        __pipeline_memcpy_async(&s[t], b + 4 * t, 16);
        __pipeline_commit(); __pipeline_wait_prior(0); __syncthreads();
        a[t] = s[31 - t].x;
    }"""
    trace = _trace(kernel, "k<<<1, 32>>>(a, b);", np.zeros(32, np.float32), np.zeros(128, np.float32))
    copies = [(r.space, r.tensor, r.lane_bytes, r.units, r.ideal_units) for r in _requests(trace, operation="copy")]
    assert copies == [("global", "b", 16, 16, 16), ("shared", "s", 16, 4, 4)]


def test_atomics_and_a_launch_after_the_first_of_its_kernel() -> None:
    kernel = "__global__ void k(float* a, int step) { atomicAdd(&a[step * threadIdx.x], 1.0f); }"
    (r,) = _trace(kernel, "k<<<1, 32>>>(a, 1); k<<<1, 32>>>(a, 8);", np.zeros(512, np.float32)).requests
    assert (r.operation, r.units) == ("atomic", 4)  # the second launch, of 32 sectors, is not traced


def test_fragments_of_tensor_cores_are_requests_too() -> None:
    kernel = """#include <mma.h>
    #include <cuda_fp16.h>
    __global__ void k(float* a, const unsigned short* b) { using namespace nvcuda;
        __shared__ __half s[16 * 16];
        for (int i = threadIdx.x; i < 256; i += 32) s[i] = ((const __half*)b)[i];
        __syncthreads();
        wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> x;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::col_major> y;
        wmma::fragment<wmma::accumulator, 16, 16, 16, float> z;
        wmma::load_matrix_sync(x, (const __half*)b, 16);
        wmma::load_matrix_sync(y, s, 16);
        wmma::fill_fragment(z, 0.0f);
        wmma::mma_sync(z, x, y, z);
        wmma::store_matrix_sync(a, z, 16, wmma::mem_row_major);
    }"""
    trace = _trace(kernel, "k<<<1, 32>>>(a, b);", np.zeros(256, np.float32), np.zeros(256, np.float16))
    pieces = _requests(trace, lane_bytes=16)
    assert {(r.space, r.tensor, r.operation) for r in pieces} == {
        ("global", "a", "write"), ("global", "b", "read"), ("shared", "s", "read"),
    }  # fmt: skip
    assert {(m.tensor, m.operation) for m in trace.maps} == {("a", "write"), ("b", "read")}


# -- which block touched what


def _map(trace: CaseTrace, tensor: str, operation: str) -> BlockMap:
    (found,) = [m for m in trace.maps if (m.tensor, m.operation) == (tensor, operation)]
    return found


def test_a_map_says_which_block_wrote_and_read_each_cell() -> None:
    kernel = """__global__ void k(float* a, const float* b) {
        int head = blockIdx.x, row = blockIdx.y, t = threadIdx.x;
        a[(row * 4 + head) * 32 + t] = b[row * 32 + t];
    }"""
    a, b = np.zeros((3, 4, 32), np.float32), np.zeros((5, 32), np.float32)
    trace = _trace(kernel, "k<<<dim3(4, 3), 32>>>(a, b);", a, b)
    wrote, read = _map(trace, "a", "write"), _map(trace, "b", "read")
    assert (wrote.grid, wrote.shape) == ((4, 3, 1), a.shape)
    assert (wrote.row_bytes, wrote.cell_rows, wrote.cell_bytes) == (512, 1, 32)
    assert wrote.first == tuple(block + 1 for block in range(12) for _ in range(4)) and set(wrote.blocks) == {1}
    assert wrote.block(wrote.first[-1] - 1) == (3, 2, 0)
    assert (read.rows, read.columns) == (5, 4)
    assert read.first == (1,) * 4 + (5,) * 4 + (9,) * 4 + (0,) * 8 and read.blocks == (4,) * 12 + (0,) * 8
    assert [m.operation for m in trace.maps] == ["write", "read"]


@pytest.mark.parametrize(
    ("shape", "cells"),
    [
        ((4, 32, 128), (4, 32, 512)),  # 128 rows of 512 bytes are more than 64 cells; four longer rows hold a block a cell
        ((1, 48, 16), (48, 2, 32)),  # one row of 3072 bytes would have cells of 128, of two blocks
    ],
)
def test_cells_are_cut_so_that_the_fewest_blocks_share_one(shape: tuple[int, ...], cells: tuple[int, ...]) -> None:
    kernel = "__global__ void k(float* a) { a[blockIdx.x * blockDim.x + threadIdx.x] = 1; }"
    launch = f"k<<<{shape[0] * shape[1]}, {shape[2]}>>>(a);"
    wrote = _map(_trace(kernel, launch, np.zeros(shape, np.float32)), "a", "write")
    assert set(wrote.blocks) == {1} and (wrote.rows, wrote.columns, wrote.cell_bytes) == cells


BULK = """__device__ unsigned at(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
    __global__ void k(float* a, const float* b) { int t = threadIdx.x;
        __shared__ __align__(16) float s[64]; __shared__ unsigned long long bar;
        const float* from = b + 256 * blockIdx.x;
        if (t == 0) {
            asm volatile("mbarrier.init.shared.b64 [%0], 1;" :: "r"(at(&bar)) : "memory");
            asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
            asm volatile("{ .reg .b64 s; mbarrier.arrive.expect_tx.shared.b64 s, [%0], 256; }" :: "r"(at(&bar)) : "memory");
            asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 256, [%2];"
                         :: "r"(at(s)), "l"(from), "r"(at(&bar)) : "memory");
        }
        __syncthreads();
        int done = 0;
        while (!done) asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], 0; selp.s32 %0, 1, 0, p; }"
                                   : "=r"(done) : "r"(at(&bar)) : "memory");
        a[64 * blockIdx.x + t] = s[t];
    }"""  # fmt: skip


def test_a_bulk_copy_is_in_the_map_of_what_it_reads() -> None:
    """It has no lanes, so it is no request."""
    trace = _trace(BULK, "k<<<2, 64>>>(a, b);", np.zeros(128, np.float32), np.ones((2, 256), np.float32))
    read = _map(trace, "b", "read")
    half = read.columns // 2 if read.rows == 1 else read.columns
    assert read.first == ((1,) * (half // 4) + (0,) * (half - half // 4) + (2,) * (half // 4) + (0,) * (half - half // 4))
    assert not _requests(trace, tensor="b")


@pytest.mark.parametrize("shape", [(1,), (7,), (100_000,), (3, 5), (64, 1), (330, 16, 8, 128), (1, 1, 1), (5000, 33, 8)])
def test_cells_cover_a_tensor_and_are_not_too_many(shape: tuple[int, ...]) -> None:
    nbytes = 4 * int(np.prod(shape))
    for most in (2048, 5):
        for form in forms_of(shape, 4, nbytes, most):
            assert form.row_bytes % 32 == 0 and form.cell_bytes % 32 == 0
            assert form.rows * form.columns <= max(most, 1)
            assert form.rows * form.cell_rows * form.row_bytes >= nbytes
            assert form.columns * form.cell_bytes >= form.row_bytes


# -- off


def _ir(source: str, traced: bool) -> str:
    ptx = compile_submission(HEADER + source + '\nextern "C" void solve(int) {}', FILE, 'extern "C" void solve(int);',
                             cards.get("H100")).ptx  # fmt: skip
    program: EmulatedProgram = emulated(ptx, traced)
    (name,) = program.kernel_addresses
    f = flatten(program.module, name)
    return lower(program.module, f, program._layout(name, f)[0], Shape(True, True), traced).ir


def test_code_that_is_not_traced_contains_nothing_of_it() -> None:
    source = """__global__ void k(float* a) { __shared__ float s[32]; s[threadIdx.x] = a[threadIdx.x]; __syncthreads();
        atomicAdd(a, s[31 - threadIdx.x]); }"""
    assert "trace" in _ir(source, traced=True)
    assert "trace" not in _ir(source, traced=False)


def test_a_traced_run_computes_and_finds_the_same() -> None:
    kernel = """__global__ void k(float* a, const float* b) { __shared__ float s[64]; int t = threadIdx.x;
        s[t] = b[t]; a[t] = s[63 - t]; }"""
    tensors = np.zeros(64, np.float32), np.arange(64, dtype=np.float32)
    plain, traced = (_run(kernel, "k<<<1, 64>>>(a, b);", tensors, trace=trace) for trace in (False, True))
    assert plain.trace is None and traced.trace is not None
    assert plain.outputs["a"].tobytes() == traced.outputs["a"].tobytes()
    assert plain.findings == traced.findings and plain.findings and plain.traffic == traced.traffic


def test_a_run_that_ends_early_is_traced_up_to_there() -> None:
    kernel = "__global__ void k(float* a) { a[threadIdx.x] = 1; a[threadIdx.x + 8 * blockDim.x] = 2; }"
    result = _run(kernel, "k<<<1, 32>>>(a);", [np.zeros(64, np.float32)])
    assert result.findings and result.trace is not None and not result.trace.complete
    assert _requests(result.trace, space="global")[0].units == 4


# -- to the report


REQUEST = WarpRequest("k", FILE, 3, "a", "global", "read", 4, (0, 1, 0), 2, (None, *range(0, 124, 4)))
MAP = BlockMap("k", "out", "write", (2, 1, 1), (2, 8), 64, 32, 1, 32, 1, (1, 2), (1, 1))
TRACE = CaseTrace((REQUEST, replace(REQUEST, costliest=True)), (MAP,))


def _sent(change: Any = None) -> CaseTrace | None:
    frame = codec.result_frame(RunResult({}, trace=TRACE))
    fields = json.loads(json.dumps(frame.fields))
    if change:
        change(fields["trace"])
    return codec.read_result(replace(frame, fields=fields), []).trace


def test_a_trace_comes_back_from_the_child_as_it_was() -> None:
    assert _sent() == TRACE


HOSTILE = [
    lambda t: t["requests"][0].update(offsets=[0] * 31),
    lambda t: t["requests"][0].update(offsets=[None] * 32),
    lambda t: t["requests"][0].update(offsets=[-1] * 32),
    lambda t: t["requests"][0].update(offsets=["<svg>"] * 32),
    lambda t: t["requests"][0].update(lane_bytes=0),
    lambda t: t["requests"][0].update(lane_bytes=1 << 40),
    lambda t: t["requests"][0].update(space="heap"),
    lambda t: t["requests"][0].update(operation="<script>"),
    lambda t: t["requests"][0].update(kernel="k" * 5000),
    lambda t: t["requests"][0].pop("warp"),
    lambda t: t["requests"].extend(t["requests"] * 100),
    lambda t: t["maps"][0].update(columns=0),
    lambda t: t["maps"][0].update(columns=3),
    lambda t: t["maps"][0].update(cell_rows=0),
    lambda t: t["maps"][0].update(shape=[1] * 9),
    lambda t: t["maps"][0].update(first=[1]),
    lambda t: t["maps"][0].update(first=[]),
    lambda t: t["maps"][0].update(first=[1, 3]),
    lambda t: t["maps"][0].update(blocks=[1, 3]),
    lambda t: t["maps"][0].update(grid=[0, 1, 1]),
    lambda t: t["maps"][0].update(first=[1] * 4000, blocks=[1] * 4000),
    lambda t: t["maps"].extend(t["maps"] * 20),
    lambda t: t.update(complete="yes"),
    lambda t: t.update(more=1),
]


@pytest.mark.parametrize("change", HOSTILE)
def test_a_trace_that_no_device_could_have_made_is_refused(change: Any) -> None:
    with pytest.raises(FrameError):
        _sent(change)


def _case(name: str, sectors: int, verdict: Verdict = Verdict.ACCEPTED) -> CaseResult:
    tensor = TensorTraffic("a", 1 << 20, AccessTraffic(requests=1, sectors=sectors))
    return CaseResult(name, verdict, traffic=CaseTraffic(tensors=(tensor,)) if sectors else None)


@pytest.mark.parametrize(
    ("cases", "chosen"),
    [
        ([], None),
        ([_case("a", 0)], None),
        ([_case("a", 10), _case("b", 30), _case("c", 20)], 1),
        ([_case("a", 10), _case("b", 20), _case("c", 9000)], 1),  # the largest by far
        ([_case("a", 10), _case("b", 2, Verdict.WRONG_ANSWER), _case("c", 3, Verdict.DATA_RACE)], 1),
        ([_case("a", 10), _case("b", 90, Verdict.TIME_LIMIT)], 0),
        ([_case("a", 0, Verdict.MEMORY_LIMIT)], None),
    ],
)
def test_the_case_that_tells_most_is_traced(cases: list[CaseResult], chosen: int | None) -> None:
    assert tracing.representative(cases) == chosen


def _judged(source: str, trace: bool) -> Report:
    options = pipeline.Options(device="cpu", cases="one_row,two_splits", seed=1, trace=trace, resource_seconds=0)
    loaded = submission.load(ROOT / source)
    for event in pipeline.judge(problem.load("split_k_merge"), loaded, options):
        if isinstance(event, Finished):
            return event.report
    raise AssertionError("no report")


def test_a_judging_traces_one_case_and_only_if_asked() -> None:
    plain, traced = (_judged("solutions/split_k_merge/01_naive.cu", trace) for trace in (False, True))
    assert plain.verdict is traced.verdict is Verdict.ACCEPTED
    assert [case.trace for case in plain.cases] == [None, None]
    assert sum(case.trace is not None for case in traced.cases) == 1
    fields = json.loads(json_report.render(traced))["cases"]
    (shown,) = [case["trace"] for case in fields if case["trace"]]
    (trace,) = [case.trace for case in traced.cases if case.trace]
    assert shown == json.loads(json.dumps(dataclasses.asdict(trace)))
    assert {r.tensor for r in trace.requests} >= {"partial_out", "m", "l", "out"}
    assert reading.read(json_report.render(traced)) == traced
