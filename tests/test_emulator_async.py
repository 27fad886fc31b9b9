"""Asynchronous copies and mbarriers: what they do, what is found where a wait is missing, and misuse."""

from __future__ import annotations

import numpy as np
import pytest

from harness.verdict import FindingKind as K
from tests.emulator_kit import run

pytestmark = pytest.mark.usefixtures("quick_compiler")

HEADER = """
__device__ unsigned at(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
template <int N> __device__ void copy(void* to, const void* from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" :: "r"(at(to)), "l"(from), "n"(N) : "memory"); }
__device__ void copy_some(void* to, const void* from, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(at(to)), "l"(from), "r"(bytes) : "memory"); }
__device__ void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N> __device__ void wait() { asm volatile("cp.async.wait_group %0;" :: "n"(N) : "memory"); }
__device__ void wait_all() { asm volatile("cp.async.wait_all;" ::: "memory"); }
typedef unsigned long long Bar;
__device__ void init(Bar* b, int n) { asm volatile("mbarrier.init.shared.b64 [%0], %1;" :: "r"(at(b)), "r"(n) : "memory"); }
__device__ void inval(Bar* b) { asm volatile("mbarrier.inval.shared.b64 [%0];" :: "r"(at(b)) : "memory"); }
__device__ Bar arrive(Bar* b) { Bar s; asm volatile("mbarrier.arrive.shared.b64 %0, [%1];" : "=l"(s) : "r"(at(b)) : "memory"); return s; }
__device__ Bar expect(Bar* b, int n) { Bar s;
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 %0, [%1], %2;" : "=l"(s) : "r"(at(b)), "r"(n) : "memory"); return s; }
__device__ bool test(Bar* b, int parity) { int ok;
  asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.s32 %0, 1, 0, p; }" : "=r"(ok) : "r"(at(b)), "r"(parity) : "memory"); return ok; }
__device__ bool tested(Bar* b, Bar state) { int ok;
  asm volatile("{ .reg .pred p; mbarrier.test_wait.shared.b64 p, [%1], %2; selp.s32 %0, 1, 0, p; }" : "=r"(ok) : "r"(at(b)), "l"(state) : "memory"); return ok; }
__device__ void pass(Bar* b, int parity) { while (!test(b, parity)); }
__device__ void bulk(void* to, const void* from, int n, Bar* b) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" :: "r"(at(to)), "l"(from), "r"(n), "r"(at(b)) : "memory"); }
__device__ void later(Bar* b) { asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" :: "r"(at(b)) : "memory"); }
"""
FIRST = HEADER.count("\n") + 5  # line of the body's first statement, in the file


def _run(body: str, threads: int = 64, **more: object):  # type: ignore[no-untyped-def]
    text = HEADER + f"__global__ void k(const int* in, int* out) {{ int t = threadIdx.x; __shared__ __align__(16) int s[1024]; __shared__ Bar bar, bar2;\n{body}\n}}"
    data = np.arange(4096, dtype=np.int32) + 1
    return run(text, [data, np.zeros(1024, np.int32)], block=threads, read_only=(0,), **more)  # type: ignore[arg-type]


CLEAN = {
    "each its own": ("copy<4>(s + t, in + t); commit(); wait<0>(); out[t] = s[t];", lambda t: t + 1),
    "wait for all": ("copy<8>(s + 2 * t, in + 2 * t); wait_all(); out[t] = s[2 * t + 1];", lambda t: 2 * t + 2),
    "shared by the block": ("copy<16>(s + 4 * t, in + 4 * t); commit(); wait<0>(); __syncthreads(); out[t] = s[255 - t];", lambda t: 256 - t),
    "two stages": ("""int sum = 0; copy<4>(s + t, in + t); commit();
        for (int i = 1; i < 6; ++i) { copy<4>(s + 64 * (i & 1) + t, in + 64 * i + t); commit(); wait<1>(); __syncthreads();
          sum += s[64 * ((i - 1) & 1) + (63 - t)]; __syncthreads(); }
        wait<0>(); __syncthreads(); sum += s[64 + 63 - t]; out[t] = sum;""", lambda t: sum(64 * i + 64 - t for i in range(6))),
    "zeros behind the source": ("copy_some(s + 4 * t, in + 4 * t, t == 0 ? 16 : t == 1 ? 6 : t == 2 ? 4 : 0); commit(); wait<0>(); __syncthreads(); out[t] = s[t];",
                                lambda t: [1, 2, 3, 4, 5, 6, 0, 0, 9][t] if t < 9 else 0),
    "mbarrier of all threads": ("""if (t == 0) init(&bar, 64); __syncthreads();
        for (int i = 0; i < 3; ++i) { s[t] = t + i; arrive(&bar); pass(&bar, 0); out[t] += s[63 - t]; arrive(&bar); pass(&bar, 1); }""",
        lambda t: sum(63 - t + i for i in range(3))),
    "state tokens": ("""if (t == 0) init(&bar, 64); __syncthreads(); s[t] = t; Bar b = arrive(&bar); while (!tested(&bar, b)); out[t] = s[63 - t];""", lambda t: 63 - t),
    "producer and consumer": ("""if (t == 0) { init(&bar, 32); init(&bar2, 32); } __syncthreads();
        for (int i = 0; i < 4; ++i) {
          if (t < 32) { if (i) pass(&bar2, (i - 1) & 1); s[t] = 10 * i + t; arrive(&bar); }
          else { pass(&bar, i & 1); out[t] += s[63 - t]; arrive(&bar2); } }""", lambda t: 0 if t < 32 else sum(10 * i + 63 - t for i in range(4))),
    "bulk copy": ("""if (t == 0) { init(&bar, 1); asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); } __syncthreads();
        if (t == 0) { expect(&bar, 256); bulk(s, in, 128, &bar); bulk(s + 32, in + 100, 128, &bar); }
        pass(&bar, 0); out[t] = s[t];""", lambda t: t + 1 if t < 32 else t + 69),
    "copies arrive by themselves": ("""if (t == 0) init(&bar, 64); __syncthreads(); copy<4>(s + t, in + t); later(&bar); pass(&bar, 0); out[t] = s[63 - t];""", lambda t: 64 - t),
    "initialised again": ("""if (t == 0) init(&bar, 64); __syncthreads(); arrive(&bar); pass(&bar, 0); __syncthreads(); if (t == 0) { inval(&bar); init(&bar, 32); } __syncthreads();
        if (t < 32) arrive(&bar); pass(&bar, 0); out[t] = t;""", lambda t: t),
}


@pytest.mark.parametrize("level", ["mid", "full"])
@pytest.mark.parametrize("name", CLEAN)
def test_values(name: str, level: str) -> None:
    body, expected = CLEAN[name]
    ran = _run(body, level=level)
    assert ran.findings == []
    assert ran.arrays[1][:64].tolist() == [expected(t) for t in range(64)]


# body, kind, line of the finding
FAULTS = {
    "no wait": ("copy<4>(s + t, in + t);\ncommit();\nout[t] = s[t];", K.ASYNC_HAZARD, 2),
    "waits for the older group only": ("copy<4>(s + t, in + t); commit();\ncopy<4>(s + 64 + t, in + 64 + t); commit(); wait<1>();\nout[t] = s[64 + t];", K.ASYNC_HAZARD, 2),
    "stage overwritten": ("copy<4>(s + t, in + t); commit();\ns[t] = 3; wait<0>(); out[t] = s[t];", K.ASYNC_HAZARD, 1),
    "copied twice": ("copy<4>(s + t, in + t); commit();\ncopy<4>(s + t, in + t); wait_all(); out[t] = s[t];", K.ASYNC_HAZARD, 1),
    "others' copies without a barrier": ("copy<4>(s + t, in + t); commit(); wait<0>();\nout[t] = s[63 - t];", K.DATA_RACE, 1),
    "barrier before the wait": ("copy<4>(s + t, in + t); commit(); __syncthreads(); wait<0>();\nout[t] = s[63 - t];", K.DATA_RACE, 1),
    "copy into what is still read": ("s[t] = t; __syncthreads();\nint v = s[63 - t];\ncopy<4>(s + t, in + t); wait_all(); out[t] = v;", K.DATA_RACE, 2),
    "bulk copy not waited for": ("if (t == 0) { init(&bar, 1); } __syncthreads(); if (t == 0) { expect(&bar, 256);\nbulk(s, in, 256, &bar); } __syncthreads();\nout[t] = s[t];", K.ASYNC_HAZARD, 2),
    "mbarrier as data": ("if (t == 0) init(&bar, 64); __syncthreads();\nout[t] = (int)bar;", K.INVALID_BARRIER, 1),
    "overwritten mbarrier": ("if (t == 0) init(&bar, 64); __syncthreads(); if (t == 3)\nbar = 0;\nout[t] = 1;", K.INVALID_BARRIER, 1),
    "never initialised": ("arrive(&bar);\nout[t] = 1;", K.INVALID_BARRIER, None),
    "too many arrivals": ("""if (t == 0) init(&bar, 48); __syncthreads();
if (t == 0) asm volatile("mbarrier.arrive.shared.b64 _, [%0], %1;" :: "r"(at(&bar)), "r"(in[48]) : "memory"); out[t] = 1;""", K.INVALID_BARRIER, 1),
    "initialised twice": ("if (t == 0) { init(&bar, 64);\ninit(&bar, 64); } out[t] = 1;", K.INVALID_BARRIER, None),
    "initialised without a barrier": ("if (t == 0) init(&bar, 64);\narrive(&bar); pass(&bar, 0); out[t] = 1;", K.DATA_RACE, None),
    "count of zero": ("if (t == 0) init(&bar, in[0] - 1); out[t] = 1;", K.INVALID_BARRIER, None),
    "wait without a phase": ("if (t == 0) init(&bar, 65); __syncthreads(); arrive(&bar);\npass(&bar, 0); out[t] = 1;", K.DEADLOCK, None),
    "misaligned": ("copy<16>(s + t, in + 4 * t); wait_all(); out[t] = 1;", K.MISALIGNED, None),
    "source out of bounds": ("copy<16>(s + 4 * t, in + 4096 + 4 * t); wait_all(); out[t] = 1;", K.OUT_OF_BOUNDS, None),
    "target out of bounds": ("copy<16>(s + 4 * (t + 300), in); wait_all(); out[t] = 1;", K.OUT_OF_BOUNDS, None),
}


@pytest.mark.parametrize("name", FAULTS)
def test_faults(name: str) -> None:
    body, kind, line = FAULTS[name]
    ran = _run(body, budget=3_000_000)
    assert kind in {f.kind for f in ran.findings}, ran.findings
    assert {f.kind for f in ran.findings} <= {kind, K.ASYNC_HAZARD, K.DATA_RACE}, ran.findings
    if line is not None:
        stacks = [(f.line, *(int(call.split(":")[1]) for call in f.call_stack)) for f in ran.findings if f.kind is kind]
        assert any(FIRST + line in stack for stack in stacks), ran.findings


CCCL = """
#include <cuda/barrier>
__global__ void k(int* out) { __shared__ cuda::barrier<cuda::thread_scope_block> b; if (threadIdx.x == 0) init(&b, 65); __syncthreads();
b.arrive_and_wait();
out[threadIdx.x] = 1; }"""


def test_a_barrier_of_the_library_that_never_completes_is_a_deadlock() -> None:
    ran = run(CCCL, [np.zeros(64, np.int32)], block=64, budget=50_000_000)
    assert [f.kind for f in ran.findings] == [K.DEADLOCK]
    assert ran.findings[0].line == 7
