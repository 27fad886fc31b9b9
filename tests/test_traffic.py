"""Traffic as counted by hand: sectors, distinct bytes, bank conflicts, FLOPs; and the way of the counts to the report."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from harness import cards, pipeline, problem, submission, traffic
from harness.compile.build import compile_submission
from harness.devices.base import Argument, Program, RunLimits, RunResult
from harness.devices.cpu import EmulatorDevice
from harness.emulator import counters
from harness.emulator.census import class_of, flops_of
from harness.emulator.counters import BankRequests, LaunchCounts, Requests
from harness.emulator.ptx import Ins
from harness.events import Finished
from harness.plan import FIRST_TENSOR_ID
from harness.report import json as json_report
from harness.report import terminal
from harness.results import CaseResult, CompileResult, Report
from harness.sandbox import codec
from harness.sandbox.frames import FrameError
from harness.traffic import CaseTraffic, LaunchTraffic, TensorTraffic
from harness.verdict import FindingKind as K
from harness.verdict import Verdict
from tests.emulator_kit import run

pytestmark = pytest.mark.usefixtures("quick_compiler")

ROOT = Path(__file__).resolve().parents[1]
FIRST = FIRST_TENSOR_ID
A = np.arange(4096, dtype=np.float32)


def _counts(body: str, *arrays: np.ndarray, block: int = 32, grid: int = 1, threads: int = 1, n: int = 0,
            prelude: str = "") -> LaunchCounts:  # fmt: skip
    """Counts of a kernel whose threads t run `body` with float *a and int *idx as asked; it must be free of findings."""
    data = list(arrays) or [A.copy()]
    kinds = {"float32": "float", "int32": "int", "uint32": "unsigned", "uint16": "unsigned short", "uint8": "unsigned char",
             "float64": "double"}  # fmt: skip
    names = "abcdefgh"
    parameters = ", ".join(f"{kinds[str(x.dtype)]}* {name}" for x, name in zip(data, names, strict=False))
    source = f"{prelude}\n__global__ void k({parameters}, int n) {{ int t = threadIdx.x; {body} }}"
    ran = run(source, [*data, n], grid, block, threads=threads)
    # Blocks that write to one place are a race, and counted like others.
    assert {f.kind for f in ran.findings} <= {K.DATA_RACE}, ran.findings
    return ran.outcome.counts


def _of(counts: LaunchCounts, buffer: int = 0) -> Requests:
    """The sums over all instructions that access one buffer."""
    found = [r for (_, number), r in counts.buffers.items() if number == FIRST + buffer]
    names = ("requests", "nbytes", "distinct", "sectors", "ideal")
    return Requests(*(sum(getattr(r, name) for r in found) for name in names))


# -- global memory

STORES = [  # body; requests, lane bytes, bytes once a request, sectors, ideal; distinct bytes
    ("a[t] = 1;", (1, 128, 128, 4, 4), 128),
    ("a[2 * t] = 1;", (1, 128, 128, 8, 4), 128),
    ("a[8 * t] = 1;", (1, 128, 128, 32, 4), 128),
    ("a[64 * t] = 1;", (1, 128, 128, 32, 4), 128),
    ("a[31 - t] = 1;", (1, 128, 128, 4, 4), 128),
    ("a[t + 1] = 1;", (1, 128, 128, 5, 4), 128),
    ("a[t + 8] = 1;", (1, 128, 128, 4, 4), 128),
    ("a[t / 2] = 1;", (1, 128, 64, 2, 2), 64),
    ("a[t % 3] = 1;", (1, 128, 12, 1, 1), 12),
    ("a[5] = 1;", (1, 128, 4, 1, 1), 4),
    ("if (t == 7) a[5] = t;", (1, 4, 4, 1, 1), 4),
    ("if (t < 5) a[t] = 1;", (1, 20, 20, 1, 1), 20),
    ("if (t & 1) a[t] = 1;", (1, 64, 64, 4, 2), 64),
    ("a[t & 1 ? t : t + 32] = 1;", (1, 128, 128, 8, 4), 128),
    ("((float4*)a)[t] = make_float4(1, 2, 3, 4);", (1, 512, 512, 16, 16), 512),
    ("((float4*)(a + 4))[t] = make_float4(1, 2, 3, 4);", (1, 512, 512, 17, 16), 512),
    ("((float4*)(a + 32))[t] = make_float4(1, 2, 3, 4);", (1, 512, 512, 16, 16), 512),
    ("((float4*)a)[2 * t] = make_float4(1, 2, 3, 4);", (1, 512, 512, 32, 16), 512),
    ("((float4*)a)[3] = make_float4(1, 2, 3, 4);", (1, 512, 16, 1, 1), 16),
    ("((float2*)a)[t] = make_float2(1, 2);", (1, 256, 256, 8, 8), 256),
    ("((short*)a)[t] = 1;", (1, 64, 64, 2, 2), 64),
    ("((short*)a)[t + 1] = 1;", (1, 64, 64, 3, 2), 68),  # distinct bytes are whole words
    ("((short*)a)[4 * t] = 1;", (1, 64, 64, 8, 2), 128),
    ("((char*)a)[t] = 1;", (1, 32, 32, 1, 1), 32),
    ("for (int i = 0; i < 3; ++i) a[t + 32 * i] = 1;", (3, 384, 384, 12, 12), 384),
    ("for (int i = 0; i < 3; ++i) ((volatile float*)a)[t] = i;", (3, 384, 384, 12, 12), 128),
    ("atomicAdd(a + t % 4, 1.f);", (1, 128, 16, 1, 1), 16),
    ("if (t < 3) atomicAdd((int*)a + 8 * t, 1);", (1, 12, 12, 3, 1), 12),
]  # fmt: skip


def _kernels(bodies: Sequence[str]) -> str:
    """A kernel k<n>_ for each body, compiled together."""
    return "\n".join(f"__global__ void k{n}_(float* a, int n) {{ int t = threadIdx.x; {b} }}" for n, b in enumerate(bodies))


@pytest.mark.parametrize("number", range(len(STORES)), ids=[body for body, *_ in STORES])
def test_writes_are_what_a_hand_counts(number: int) -> None:
    _, requests, distinct = STORES[number]
    ran = run(_kernels([body for body, *_ in STORES]), [A.copy(), 0], kernel=f"k{number}_")
    counts = ran.outcome.counts
    assert not ran.findings
    assert _of(counts) == Requests(*requests)
    assert counts.touched == {FIRST: (0, distinct)}


@pytest.mark.parametrize(
    ("load", "requests", "distinct"),
    [
        ("a[t]", (1, 128, 128, 4, 4), 128),
        ("a[t + 1]", (1, 128, 128, 5, 4), 128),
        ("a[8 * t]", (1, 128, 128, 32, 4), 128),
        ("a[0]", (1, 128, 4, 1, 1), 4),
        ("((double*)a)[2]", (1, 256, 8, 1, 1), 8),
        ("((double*)a)[t]", (1, 256, 256, 8, 8), 256),
        ("a[(int)a[0] + t % 2]", (2, 256, 12, 2, 2), 8),
        ("t < 9 ? a[3 * t] : 0.f", (1, 36, 36, 4, 2), 36),
    ],
)
def test_reads_are_counted_apart_from_writes(load: str, requests: tuple[int, ...], distinct: int) -> None:
    counts = _counts(f"b[t] = {load};", np.zeros(512, np.float32), np.zeros(32, np.float32))
    assert _of(counts, 0) == Requests(*requests)
    assert _of(counts, 1) == Requests(1, 128, 128, 4, 4)
    assert counts.touched == {FIRST: (distinct, 0), FIRST + 1: (0, 128)}


def test_one_request_may_reach_two_buffers() -> None:
    counts = _counts("float* p = t < 10 ? a : b; p[t] = 1;", A.copy(), A.copy())
    assert _of(counts, 0) == Requests(1, 40, 40, 2, 2) and _of(counts, 1) == Requests(1, 88, 88, 3, 3)


def test_a_line_read_by_many_blocks_is_distinct_once() -> None:
    counts = _counts("a[t] = blockIdx.x + a[32 + t];", grid=5)
    assert _of(counts) == Requests(10, 1280, 1280, 40, 40)
    assert counts.touched == {FIRST: (128, 128)}


def _model(addresses: np.ndarray, nbytes: int) -> np.ndarray:
    """Requests, lane bytes, bytes once, sectors, ideal of one request."""
    distinct = len(np.unique(addresses)) * nbytes
    return np.array([1, len(addresses) * nbytes, distinct, len(np.unique(addresses // 32)), -(-distinct // 32)])


def _passes(addresses: np.ndarray, lanes: np.ndarray, nbytes: int) -> tuple[int, int]:
    """Passes and ideal passes of one request of shared memory."""
    if len(np.unique(addresses // max(nbytes, 4))) == 1:
        return 1, 1
    groups = max(nbytes, 4) // 4
    per, passes, ideal = 32 // groups, 0, 0
    for g in range(groups):
        chosen = addresses[lanes // per == g]
        words = np.unique((chosen[:, None] + np.arange(0, nbytes, 4)) // 4)
        if len(words):
            passes, ideal = passes + int(np.bincount(words % 32).max()), ideal + 1
    return passes, ideal


@pytest.mark.parametrize("nbytes", [1, 2, 4, 8, 16])
def test_random_patterns_agree_with_a_model(nbytes: int) -> None:
    """In global and in shared memory, with random lanes and from narrow to wide ranges of addresses."""
    kind = {1: "unsigned char", 2: "unsigned short", 4: "unsigned", 8: "uint2", 16: "uint4"}[nbytes]
    rng = np.random.default_rng(nbytes)
    blocks, space = 60, 8192 // nbytes
    ranges = rng.integers(1, space, blocks)[:, None] >> rng.integers(0, 10, blocks)[:, None]
    index = (rng.integers(0, 1 << 30, (blocks, 32)) % np.maximum(ranges, 1)).astype(np.int32)
    index[::7] = np.sort(index[::7], axis=1)
    masks = rng.integers(1, 1 << 32, blocks, np.uint64).astype(np.uint32)
    masks[::3] = 0xFFFFFFFF
    zero = {1: "0", 2: "0", 4: "0u", 8: "make_uint2(0, 0)", 16: "make_uint4(0, 0, 0, 0)"}[nbytes]
    counts = _counts(
        f"""__shared__ {kind} s[{space}];
        int i = b[blockIdx.x * 32 + t];
        if (c[blockIdx.x] >> t & 1) {{ (({kind}*)a)[i] = {zero}; ((volatile unsigned char*)&s[i])[0] = 0; s[i] = {zero}; }}""",
        np.zeros(8192, np.uint8), index.reshape(-1), masks,
        grid=blocks,
    )  # fmt: skip
    expected, touched = np.zeros(5, np.int64), set()
    passes, ideal = 0, 0
    for row, mask in zip(index, masks, strict=True):
        lanes = np.flatnonzero(int(mask) >> np.arange(32) & 1)
        addresses = row[lanes].astype(np.int64) * nbytes
        expected += _model(addresses, nbytes)
        touched |= {int(w) for a in addresses for w in range(a // 4, (a + nbytes + 3) // 4)}
        p, i = _passes(addresses, lanes, nbytes)
        passes, ideal = passes + p, ideal + i
    assert _of(counts) == Requests(*expected.tolist())
    assert counts.touched[FIRST] == (0, 4 * len(touched))
    last = counts.shared[max(counts.shared)]
    assert last == BankRequests(blocks, passes, ideal)


# -- shared memory

KEEP = 'asm volatile("" :: "l"(s) : "memory");'  # or the compiler drops stores that nobody reads
BANKS = [  # type, index; passes, ideal
    ("float", "t", 1, 1), ("float", "2 * t", 2, 1), ("float", "3 * t", 1, 1), ("float", "4 * t", 4, 1),
    ("float", "32 * t", 32, 1), ("float", "64 * t", 32, 1), ("float", "33 * t", 1, 1), ("float", "31 - t", 1, 1), ("float", "t / 2", 1, 1),
    ("float", "t % 2 * 32", 2, 1), ("float", "(t ^ 5) * 2", 2, 1), ("float", "n", 1, 1), ("float", "t + 3", 1, 1),
    ("double", "t", 2, 2), ("double", "2 * t", 4, 2), ("double", "16 * t", 32, 2), ("double", "17 * t", 2, 2),
    ("float4", "t", 4, 4), ("float4", "2 * t", 8, 4), ("float4", "8 * t", 32, 4), ("float4", "9 * t", 4, 4),
    ("short", "t", 1, 1), ("short", "2 * t", 1, 1), ("short", "4 * t", 2, 1), ("char", "t", 1, 1),
]  # fmt: skip


def _shared_store(kind: str, index: str) -> str:
    zero = "make_float4(0, 0, 0, 0)" if kind == "float4" else "0"
    size = {"float4": 288, "double": 560}.get(kind, 2048)
    return f"__shared__ {kind} s[{size}]; s[{index}] = {zero}; {KEEP}"


@pytest.mark.parametrize("number", range(len(BANKS)), ids=[f"{k} {i}" for k, i, *_ in BANKS])
def test_bank_conflicts(number: int) -> None:
    *_, passes, ideal = BANKS[number]
    ran = run(_kernels([_shared_store(kind, index) for kind, index, *_ in BANKS]), [A.copy(), 0], kernel=f"k{number}_")
    (found,) = ran.outcome.counts.shared.values()
    assert not ran.findings and found == BankRequests(1, passes, ideal)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("s[t] = t; __syncwarp(); a[t] = s[0];", [(1, 1, 1), (1, 1, 1)]),  # one address: a broadcast
        ("s[t] = t; if (t < 9) s[t + 32] = 1;", [(1, 1, 1), (1, 1, 1)]),
        ("for (int i = 0; i < n; ++i) ((volatile float*)s)[t * 32] = i;", [(5, 160, 5)]),
        ("if (n > 7) s[t] = 1;", []),
        ("for (int i = 0; i < n; ++i) ((volatile float*)s)[(t ^ 5) * 2 + i] = i;", [(5, 10, 5)]),
        ("for (int i = 0; i < n; ++i) ((volatile float*)s)[(t ^ i) << (i & 1)] = i;", [(5, 7, 5)]),  # i = 1, 3 conflict
        ("float* p = (float*)(n > 3 ? (void*)s : (void*)a); p[2 * t] = 1;", [(1, 2, 1)]),  # a generic address
    ],
)
def test_shared_requests(body: str, expected: list[tuple[int, ...]]) -> None:
    counts = _counts(f"__shared__ float s[1024]; {body} {KEEP}", n=5)
    assert [x for _, x in sorted(counts.shared.items())] == [BankRequests(*x) for x in expected]


GUARDED = """//ptx
.version 9.0
.target sm_90
.address_size 64
.shared .align 16 .b8 buffer[1024];
.visible .entry k(.param .u64 a, .param .u32 bound) {
  .local .align 8 .b8 own[64];
  .reg .pred %p; .reg .b64 %a; .reg .b32 %t, %n, %i, %s;
  ld.param.u64 %a, [a]; ld.param.u32 %n, [bound]; mov.u32 %t, %tid.x; mov.u32 %i, 0; mov.u32 %s, buffer;
  mad.lo.u32 %s, %t, 8, %s;
$again:
  add.u32 %i, %i, 1; setp.lt.u32 %p, %t, %n;
  @%p st.shared.u32 [%s], %t;
  @%p st.local.u32 [own], %t;
  @%p st.global.u32 [%a], %t;
  add.u32 %n, %n, -3; setp.lt.u32 %p, %i, 5;
  @%p bra $again;
  ret;
}"""


def test_a_guard_decides_what_is_a_request() -> None:
    counts = run(GUARDED, [A.copy(), 9]).outcome.counts  # guards hold for 9, 6, 3, 0 lanes, then for all
    assert list(counts.shared.values()) == [BankRequests(4, 5, 4)] and list(counts.local.values()) == [4]
    assert _of(counts) == Requests(4, 50 * 4, 4 * 4, 4, 4)


def test_atomics_on_shared_memory_are_requests_with_conflicts() -> None:
    counts = _counts("__shared__ int s[64]; s[t] = s[t + 32] = 0; __syncwarp(); atomicAdd(s + 2 * t, 1);")
    assert counts.shared[max(counts.shared)] == BankRequests(1, 2, 1)


def test_local_memory_is_counted_by_request() -> None:
    counts = _counts("float x[8]; for (int i = 0; i < 8; ++i) x[i] = t; a[t] = x[n & 7];", grid=3)
    writes, read = (x for _, x in sorted(counts.local.items())[:2])
    assert (writes, read) == (24, 3) and not counts.shared


# -- instructions


def test_flops_of_a_loop() -> None:
    counts = _counts(
        "float x = a[t], y = 0; for (int i = 0; i < 10; ++i) y = fmaf(x, y, x); a[t] = __fadd_rn(y, x) * __expf(x);"
    )
    assert counts.flops == {"fma": 32 * 10 * 2, "add_mul": 32 * 3, "special": 32}  # __expf multiplies, too


def test_lanes_that_are_not_there_compute_nothing() -> None:
    assert _counts("a[t] = __fadd_rn(a[t], 1.f);", block=40, grid=2).flops == {"add_mul": 80}
    assert _counts("if (t < 7) a[t] = __fadd_rn(a[t], 1.f);", block=40).flops == {"add_mul": 7}


def test_a_product_that_is_only_added_counts_as_a_multiply_add() -> None:
    assert _counts("a[t] = a[t] * 3.f + 1.f;").flops == {"fma": 64}


@pytest.mark.parametrize(
    ("op", "name", "flops"),
    [
        ("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", "tensor", ("tensor", 4096)),
        ("wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32", "tensor", ("tensor", 8192)),
        ("wmma.load.a.sync.aligned.m16n16k16.row.f16", "memory", ("", 0)),
        ("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16", "tensor", ("tensor", 65536)),
        ("ldmatrix.sync.aligned.m8n8.x4.shared.b16", "memory", ("", 0)),
        ("fma.rn.f16x2", "arithmetic", ("fma", 4)),
        ("mad.lo.s32", "integer", ("", 0)),
        ("add.s64", "integer", ("", 0)),
        ("setp.lt.f32", "integer", ("", 0)),
        ("max.f32", "arithmetic", ("", 0)),
        ("div.rn.f32", "special", ("special", 1)),
        ("div.s32", "integer", ("", 0)),
        ("ld.param.u64", "convert", ("", 0)),
        ("bra.uni", "control", ("", 0)),
        ("bar.sync", "synchronisation", ("", 0)),
    ],
)
def test_classes_and_flops_of_instructions(op: str, name: str, flops: tuple[str, int]) -> None:
    assert (class_of(Ins(op, ())), flops_of(Ins(op, ()))) == (name, flops)


# -- the same counts whatever the host


MIXED = """__shared__ float s[128];
s[t] = a[blockIdx.x % 3 * 128 + t]; __syncthreads();
if (t % 3) b[(blockIdx.x * 128 + t * 5) % 4096] = s[t * 2 % 128] + a[blockIdx.x] + a[t + 1];
atomicAdd(c + blockIdx.x % 7, 1);"""


def _mixed(threads: int) -> LaunchCounts:
    source = f"__global__ void k(const float* a, float* b, int* c) {{ int t = threadIdx.x; {MIXED} }}"
    return run(source, [A.copy(), A.copy(), np.zeros(7, np.int32)], 64, 128, threads=threads).outcome.counts


def test_counts_do_not_depend_on_the_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    one = _mixed(1)
    assert one.buffers and one.shared and one.touched and one.flops
    assert _mixed(4) == one
    monkeypatch.setattr(counters, "MAP_BYTES", 0)  # all threads share one map
    assert _mixed(4) == one


def test_buffers_beyond_the_rows_are_counted_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counters, "MAX_ROWS", 2)
    counts = _counts("a[t] = 1; b[t] = 2; c[t] = 3;", A.copy(), A.copy(), A.copy())
    sums: dict[int, int] = {}
    for (_, number), r in counts.buffers.items():
        sums[number] = sums.get(number, 0) + r.requests
    assert sums == {FIRST: 1, 0: 2}
    assert counts.touched == {FIRST + k: (0, 128) for k in range(3)}


# -- cases


def _case(source: str, *arguments: Argument) -> CaseTraffic:
    compiled = compile_submission(source, "my.cu", 'extern "C" void solve(const float* a, float* out);', cards.get("H100"))
    result = EmulatorDevice().run(Program("my.cu", compiled.ptx), list(arguments), RunLimits(), 0)
    assert not result.findings and result.traffic is not None
    return result.traffic


TWO_LAUNCHES = """#include <cuda_runtime.h>
__global__ void half(const float* a, float* out) {
  __shared__ float s[64];
  s[2 * threadIdx.x] = a[threadIdx.x];
  __syncwarp();
  out[threadIdx.x] = s[2 * threadIdx.x];
}
extern "C" void solve(const float* a, float* out) {
  half<<<1, 32>>>(a, out);
  half<<<2, 32>>>(a + 32, out + 32);
}
"""


@pytest.fixture(scope="module")
def case() -> CaseTraffic:
    out = np.empty(64, np.float32)
    return _case(TWO_LAUNCHES, Argument("a", A[:64].copy(), "in", "float"), Argument("out", out, "out", "float"))


def test_a_case_lists_launches_and_adds_them_up(case: CaseTraffic) -> None:
    first, second = case.launches
    assert (first.kernel, first.line, first.grid, first.block) == ("half", 9, (1, 1, 1), (32, 1, 1))
    assert (second.blocks, second.warps, second.complete) == (2, 2, True)
    assert {t.tensor: (t.read.bytes, t.read.distinct_bytes) for t in second.tensors} == {"a": (256, 128), "out": (0, 0)}
    a = next(t for t in case.tensors if t.tensor == "a")
    assert (a.nbytes, a.read.bytes, a.read.distinct_bytes, a.read.amplification) == (256, 384, 256, 1.5)
    assert case.sector_bytes == 768
    assert [(x.file, x.line, x.tensor, x.kind, x.requests, x.sectors) for x in first.lines] == [
        ("my.cu", 4, "a", "read", 1, 4), ("my.cu", 6, "out", "write", 1, 4),
    ]  # fmt: skip
    assert [(x.line, x.kind, x.requests, x.passes, x.ideal_passes) for x in second.shared] == [
        (4, "write", 2, 4, 2), (6, "read", 2, 4, 2),
    ]  # fmt: skip


def test_many_launches_are_counted_but_not_all_listed() -> None:
    source = TWO_LAUNCHES.replace("half<<<1, 32>>>(a, out);", "for (int i = 0; i < 40; ++i) half<<<1, 32>>>(a, out);")
    out = np.empty(96, np.float32)
    traffic = _case(source, Argument("a", A[:96].copy(), "in", "float"), Argument("out", out, "out", "float"))
    assert (len(traffic.launches), traffic.launches_left_out) == (32, 9)
    assert [t.read.requests for t in traffic.tensors if t.tensor == "a"] == [42]


def test_the_score_is_the_fewest_bytes_over_those_moved(case: CaseTraffic) -> None:
    assert case.scored(384, accepted=True).score_modelled == 50
    assert case.scored(384, accepted=False).score_modelled is None
    assert case.scored(10_000, accepted=True).score_modelled == 100


@pytest.mark.parametrize(("solution", "times"), [("01_block_per_head", 4.0), ("03_gqa_group", 1.0)])
def test_grouped_queries_read_the_cache_once_or_once_a_query_head(solution: str, times: float) -> None:
    loaded = submission.load(ROOT / f"solutions/paged_decode/{solution}.cu")
    options = pipeline.Options(device="cpu", cases="chapter", seed=1)
    *_, last = pipeline.judge(problem.load("paged_decode"), loaded, options)
    assert isinstance(last, Finished)
    (result,) = last.report.cases
    assert result.verdict is Verdict.ACCEPTED and result.traffic is not None
    tensors = {t.tensor: t for t in result.traffic.tensors}
    cache = 5114 * 8 * 128 * 4  # bytes of the tokens in use
    for name in ("k_cache", "v_cache"):
        read = tensors[name].read
        assert (read.amplification, read.distinct_bytes, read.sectors_per_request) == (times, cache, 4)
        assert tensors[name].write.requests == 0
    assert tensors["out"].write.distinct_bytes == tensors["out"].nbytes
    score = result.traffic.score_modelled
    assert score is not None and (20 < score < 25 if times == 4 else 95 < score <= 100)
    (shown,) = json.loads(json_report.render(last.report))["cases"]
    assert shown["traffic"]["modelled"] is True
    cached = next(t for t in shown["traffic"]["tensors"] if t["tensor"] == "k_cache")
    assert (cached["read"]["amplification"], cached["read"]["ideal_sectors_per_request"]) == (times, 4)


# -- on the way to the report


def test_traffic_comes_back_from_a_child_as_it_was(case: CaseTraffic) -> None:
    result = RunResult({}, traffic=case)
    frame = codec.result_frame(result)
    frame = replace(frame, fields=json.loads(json.dumps(frame.fields)))
    assert codec.read_result(frame, []).traffic == case
    assert codec.read_result(codec.result_frame(RunResult({})), []).traffic is None


@pytest.mark.parametrize(
    "damage",
    [
        {"launches": 3}, {"launches_left_out": -1}, {"launches_left_out": True}, {"tensors": [{}]}, {"more": 1},
        {"score_modelled": "NaN"}, {"tensors": [[]] * 5000}, {"fewest_bytes": 1 << 70},
    ],
)  # fmt: skip
def test_what_is_no_traffic_is_refused(case: CaseTraffic, damage: dict[str, object]) -> None:
    frame = codec.result_frame(RunResult({}, traffic=case))
    frame.fields["traffic"] |= damage
    with pytest.raises(FrameError):
        codec.read_result(frame, [])


def _printed(traffics: dict[str, CaseTraffic | None], all_traffic: bool = False, width: int = 100) -> str:
    cases = tuple(CaseResult(name, Verdict.ACCEPTED, traffic=traffic) for name, traffic in traffics.items())
    report = Report("doubling", "my.cu", "cpu", "float32", 7, Verdict.ACCEPTED, CompileResult(True), cases)
    out = io.StringIO()
    terminal.print_report(Console(file=out, width=width), report, "", "python judge.py ...", all_traffic)
    return out.getvalue()


def test_the_terminal_shows_the_case_that_moved_most(case: CaseTraffic) -> None:
    small = CaseTraffic(case.launches[:1], 0, case.launches[0].tensors)
    text = _printed({"small": small, "large": case.scored(384, True), "nothing": None})
    assert text.index("accepted  3 of 3") < text.index("traffic  of large, modelled from the PTX")
    assert "  a    read     384 B for 256 B  1.5x  4 sectors/request (ideal 4)\n" in text
    assert "  out  written  384 B for 256 B  1.5x  4 sectors/request (ideal 4)\n" in text
    assert "shared memory: 50 % of its passes are bank conflicts, most at my.cu:4: 2 passes/write, not 1\n" in text
    assert "traffic score (modelled) 50.0 of 100: 768 B moved, 384 B would do" in text
    assert "small, modelled" not in text and "traffic" not in _printed({"nothing": None})


def test_the_terminal_names_the_line_that_wastes_most() -> None:
    source = TWO_LAUNCHES.replace("out[threadIdx.x]", "out[8 * threadIdx.x]").replace("out + 32", "out + 256")
    out = np.empty(1024, np.float32)
    arguments = [Argument("a", A[:96].copy(), "in", "float"), Argument("out", out, "out", "float")]
    compiled = compile_submission(source, "my.cu", 'extern "C" void solve(const float* a, float* out);', cards.get("H100"))
    result = EmulatorDevice().run(Program("my.cu", compiled.ptx), arguments, RunLimits(), 0)
    text = _printed({"one": result.traffic})
    assert "least coalesced: my.cu:6 writes out in 32 sectors/request, not 4" in text
    assert "32 sectors/request (ideal 4)" in text


def test_the_terminal_shows_every_launch_when_asked(case: CaseTraffic) -> None:
    text = _printed({"one": case, "two": case}, all_traffic=True)
    assert text.count("half<<<2x1x1, 32x1x1>>>  2 blocks, 2 warps") == 2
    assert "  my.cu:4        read   a           2             4      4\n" in text
    assert "  my.cu:4        write         2            2      1\n" in text


@pytest.mark.parametrize("width", [20, 40, 100])
@pytest.mark.parametrize("all_traffic", [False, True])
def test_no_line_is_wider_than_the_terminal(case: CaseTraffic, width: int, all_traffic: bool) -> None:
    long = TensorTraffic("t\x1b" * 60, 4, case.tensors[0].read)
    text = _printed({"one": replace(case, tensors=(long, *case.tensors))}, all_traffic, width)
    assert max(len(line) for line in text.splitlines() if not line.startswith("repeat")) <= width
    assert "\x1b" not in text


def test_a_run_that_ended_early_says_so() -> None:
    launch = LaunchTraffic("k", 3, (1, 1, 1), (32, 1, 1), 0, 1, 1, complete=False, tensors=(TensorTraffic("a", 4, traffic.AccessTraffic(1, 0, 4, 4, 1, 1, 4)),))
    text = _printed({"one": CaseTraffic((launch,), 0, launch.tensors)})
    assert "up to where the run ended" in text


ROWS = """
__device__ unsigned at(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
"""


@pytest.mark.parametrize(("pitch", "passes"), [(8, 4), (16, 8), (64, 32), (72, 4)])
def test_rows_of_ldmatrix_conflict_where_their_banks_do(pitch: int, passes: int) -> None:
    """Four matrices of eight rows of 16 bytes: one pass each where the rows of one lie in different banks."""
    body = f"""__shared__ __align__(16) unsigned short s[32 * {pitch}]; for (int i = t; i < 32 * {pitch}; i += 32) s[i] = i; __syncthreads();
        unsigned x, y, z, w; asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{%0, %1, %2, %3}}, [%4];" :
          "=r"(x), "=r"(y), "=r"(z), "=r"(w) : "r"(at(s + t * {pitch}))); a[t] = x + y + z + w;"""
    counts = _counts(body, A.copy(), prelude=ROWS)
    reads = [r for r in counts.shared.values() if r.ideal == 4]
    assert [(r.requests, r.passes) for r in reads] == [(1, passes)]


def test_global_reads_of_cp_async_are_counted() -> None:
    body = """__shared__ __align__(16) float s[128]; asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(at(s + 4 * t)), "l"(a + 4 * t) : "memory");
        asm volatile("cp.async.wait_all;" ::: "memory"); a[t] = s[4 * t];"""
    counts = _counts(body, A.copy(), prelude=ROWS)
    assert Requests(1, 512, 512, 16, 16) in counts.buffers.values()


ASYNC = """
__device__ void copy(float* to, const float* from) {
  unsigned at = (unsigned)__cvta_generic_to_shared(to);
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(at), "l"(from) : "memory");
}
__device__ void wait() { asm volatile("cp.async.wait_all;" ::: "memory"); }
"""


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("for (int i = 0; i < n; ++i) copy(s + 32 * t + i, a + t); wait();", (5, 160, 5)),
        ("if (t < 9) copy(s + 2 * 32 * t, a + t); wait();", (1, 9, 1)),
        ("copy(s + t, a + 2 * t); wait();", (1, 1, 1)),
    ],
)
def test_writes_of_cp_async_conflict_where_their_banks_do(body: str, expected: tuple[int, ...]) -> None:
    counts = _counts(f"__shared__ float s[1100]; {body}", A.copy(), n=5, prelude=ASYNC)
    assert [*counts.shared.values()] == [BankRequests(*expected)]


def test_a_copy_is_a_read_of_its_tensor_and_a_write_to_shared_memory() -> None:
    source = ASYNC + """
__global__ void k(const float* a) { __shared__ float s[1024]; copy(s + 32 * threadIdx.x, a + threadIdx.x); wait(); }
extern "C" void solve(const float* a, float* out) { k<<<1, 32>>>(a); }"""
    a, out = Argument("a", A.copy(), "in", "float"), Argument("out", A.copy(), "out", "float")
    (launch,) = _case(source, a, out).launches
    assert [(x.kind, x.requests, x.passes, x.ideal_passes) for x in launch.shared] == [("write", 1, 32, 1)]
    assert [(x.tensor, x.kind, x.requests) for x in launch.lines] == [("a", "read", 1)]
