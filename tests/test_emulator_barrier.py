"""Barriers of the emulator: named ones, votes over a block, divergence, deadlock, and how far others get meanwhile."""

from __future__ import annotations

import numpy as np
import pytest

from harness.results import Finding
from harness.verdict import FindingKind as K
from tests.emulator_kit import Ran, run

pytestmark = pytest.mark.usefixtures("quick_compiler")

FIRST_LINE = 4  # of a kernel text: three #include lines stand before it


def _kernel(body: str, threads: int = 128, **more: object) -> Ran:
    """Run `body` with t, w (warp), out[threads] and shared s[1024]; each statement on a line of its own, from line 5 on."""
    text = "__global__ void k(int* out, int n) { int t = threadIdx.x, w = t / 32; __shared__ int s[1024];\n" + body + "\n}"
    return run(text, [np.zeros(threads, np.int32), 5], block=threads, **more)  # type: ignore[arg-type]


def _only(ran: Ran) -> Finding:
    assert len(ran.findings) == 1, ran.findings
    return ran.findings[0]


def test_block_votes() -> None:
    body = "out[t] = __syncthreads_count(t % 3 == 0) + 1000 * __syncthreads_and(t >= 0) + 2000 * __syncthreads_or(t == 77) + 4000 * __syncthreads_and(t != 77);"
    ran = _kernel(body)
    assert ran.findings == []
    assert (ran.arrays[0] == 43 + 3000).all()


def test_votes_of_consecutive_barriers_do_not_mix() -> None:
    ran = _kernel("int sum = 0; for (int i = 0; i < 5; ++i) sum = sum * 10 + __syncthreads_count(t < i); out[t] = sum;", 96)
    assert (ran.arrays[0] == 1234).all()


NAMED = """if (w < 2) { s[t] = t * 3; asm volatile("bar.sync 1, 64;" ::: "memory"); out[t] = s[t ^ 32]; }
else { s[t] = t * 5; asm volatile("bar.sync 2, 64;" ::: "memory"); out[t] = s[t ^ 32]; }"""


def test_named_barriers_of_parts_of_a_block() -> None:
    ran = _kernel(NAMED)
    assert ran.findings == []
    t = np.arange(128)
    np.testing.assert_array_equal(ran.arrays[0], np.where(t < 64, (t ^ 32) * 3, (t ^ 32) * 5))


PRODUCER = """if (w == 0) for (int i = 0; i < 4; ++i) {
    asm volatile("bar.sync 2, 64;" ::: "memory"); s[t] = i * 100 + t; asm volatile("bar.arrive 1, 64;" ::: "memory"); }
else for (int i = 0; i < 4; ++i) {
    asm volatile("bar.arrive 2, 64;" ::: "memory"); asm volatile("bar.sync 1, 64;" ::: "memory"); out[t] += s[t - 32]; }"""


def test_producer_and_consumer_by_arrive_and_sync() -> None:
    ran = _kernel(PRODUCER, 64)
    assert [f.kind for f in ran.findings] == []
    np.testing.assert_array_equal(ran.arrays[0][32:], 4 * np.arange(32) + 600)


@pytest.mark.parametrize("count", ["33", "t"])
def test_a_thread_count_that_is_no_multiple_of_a_warp(count: str) -> None:
    ran = _kernel(f'asm volatile("bar.sync 1, %0;" :: "r"({count} | 1));', 64)
    assert _only(ran).kind is K.BARRIER_DIVERGENCE


def test_a_barrier_in_a_divergent_branch_is_found_on_its_line() -> None:
    found = _only(_kernel("out[t] = 1;\nif (t & 1)\n__syncthreads();\nout[t] = 2;"))
    assert (found.kind, found.line) == (K.BARRIER_DIVERGENCE, FIRST_LINE + 3)
    assert found.thread is not None


def test_a_barrier_that_some_warps_skip() -> None:
    """They return; the others wait for ever. Both are named."""
    found = _only(_kernel("if (w < 2)\n__syncthreads();"))
    assert (found.kind, found.line) == (K.BARRIER_DIVERGENCE, FIRST_LINE + 2)
    assert "0-1" in found.message
    assert "2-3" in found.message


def test_a_return_before_a_barrier() -> None:
    found = _only(_kernel("if (t > 100) return;\n__syncthreads();\nout[t] = 1;"))
    assert (found.kind, found.line) == (K.BARRIER_DIVERGENCE, FIRST_LINE + 2)


def test_whole_warps_may_return_where_nobody_waits_for_them() -> None:
    ran = _kernel('if (w > 1) return;\nasm volatile("bar.sync 1, 64;");\nout[t] = 1;')
    assert ran.findings == []
    assert ran.arrays[0].sum() == 64


def test_warps_at_different_barriers_deadlock() -> None:
    found = _only(_kernel('if (w == 0) { asm volatile("bar.sync 1, 64;"); }\nelse\n{ asm volatile("bar.sync 2, 64;"); }', 64))
    assert found.kind is K.DEADLOCK
    assert f"line {FIRST_LINE + 1}" in found.message
    assert f"line {FIRST_LINE + 3}" in found.message


def test_loops_with_different_numbers_of_barriers() -> None:
    found = _only(_kernel("for (int i = 0; i < 3 + (w == 2); ++i)\n__syncthreads();"))
    assert (found.kind, found.line) == (K.BARRIER_DIVERGENCE, FIRST_LINE + 2)


def test_barriers_in_uniform_loops_and_branches() -> None:
    body = """for (int i = 0; i < n; ++i) { if (i % 2 == 0) { s[t] = i + t; __syncthreads(); out[t] += s[127 - t]; __syncthreads(); } else __syncthreads(); }"""
    ran = _kernel(body)
    assert ran.findings == []
    np.testing.assert_array_equal(ran.arrays[0], 3 * (127 - np.arange(128)) + 6)


def test_values_survive_a_barrier() -> None:
    """Registers of every type, predicates and local arrays, in full and in partial warps."""
    body = """float f = t * 0.5f; double d = t / 3.0; long long l = (long long)t << 40; bool b = t % 3 == 1; unsigned char c = t; int a[4] = {t, t + 1, t + 2, t + 3};
    s[t] = t; __syncthreads(); int v = s[(t + 1) % blockDim.x]; __syncthreads();
    out[t] = f * 2 == t && d * 3 == t && l >> 40 == t && b == (t % 3 == 1) && c == (t & 255) && a[v & 3] == t + (v & 3);"""
    for threads in (128, 70):
        ran = _kernel(body, threads)
        assert ran.findings == []
        assert (ran.arrays[0] == [abs(x / 3.0 * 3 - x) == 0 for x in range(threads)]).all()


SPIN = """volatile int* flag = s + 1000;
if (t == 0) *flag = 0;
__syncthreads();
if (w == 0) { while (*flag == 0) ; out[t] = 7; }
else if (t == 127) { for (int i = 0; i < 50000; ++i) out[1] += i & 1; *flag = 1; }"""


def test_spinning_on_a_flag_of_another_warp_makes_progress() -> None:
    ran = _kernel(SPIN, budget=100_000_000)
    assert [f.kind for f in ran.findings] == []
    assert (ran.arrays[0][2:32] == 7).all()


def test_spinning_on_a_flag_that_nobody_sets_runs_out_of_budget_on_its_line() -> None:
    found = _only(_kernel("volatile int* flag = s;\nif (t == 0) *flag = 0;\n__syncthreads();\nwhile (*flag == 0)\n;", budget=100_000))
    assert found.kind is K.TIME_LIMIT
    assert found.line in (FIRST_LINE + 4, FIRST_LINE + 5)


def test_an_endless_loop_stops_at_its_line() -> None:
    found = _only(_kernel("int i = 0;\nwhile (out[t] == 0)\ni += 2;\nout[t] = i;", budget=50_000))
    assert (found.kind, found.line in (FIRST_LINE + 2, FIRST_LINE + 3)) == (K.TIME_LIMIT, True)


def test_an_endless_loop_stops_at_the_time_limit() -> None:
    found = _only(_kernel("int i = 0;\nwhile (out[t] == 0)\ni += 2;\nout[t] = i;", budget=1 << 50, seconds=0.3))
    assert found.kind is K.TIME_LIMIT


@pytest.mark.parametrize("threads", [1, 2])
def test_a_thousand_threads_and_many_blocks(threads: int) -> None:
    text = """__global__ void k(int* out) { __shared__ int s[1024]; int t = threadIdx.x; s[t] = t + blockIdx.x; __syncthreads();
        for (int d = 512; d; d /= 2) { if (t < d) s[t] += s[t + d]; __syncthreads(); } if (t == 0) out[blockIdx.x] = s[0]; }"""
    ran = run(text, [np.zeros(20, np.int32)], 20, 1024, threads=threads)
    assert ran.findings == []
    np.testing.assert_array_equal(ran.arrays[0], 1023 * 512 + 1024 * np.arange(20))


def test_a_hundred_thousand_tiny_blocks() -> None:
    ran = run("__global__ void k(unsigned char* out) { out[blockIdx.x] = blockIdx.x; }", [np.zeros(100_000, np.uint8)], 100_000, 1, threads=2)
    assert ran.findings == []
    np.testing.assert_array_equal(ran.arrays[0], np.arange(100_000).astype(np.uint8))


# body, line of the barrier or shuffle, line at which those are that it waits for (counted from the body's first)
APART = {
    "half of a warp skips it": ("if (t < 40)\n__syncthreads();\nout[t] = s[t];", 1, 2),
    "half of a warp has returned": ("if (t < 16) return;\ns[t] = 1;\n__syncthreads();\nout[t] = s[t];", 2, 0),
    "a warp has returned": ("if (t < 32) return;\ns[t] = 1;\n__syncthreads();\nout[t] = s[t];", 2, 0),
    "two barriers": ("if (t & 1) {\n__syncthreads(); } else {\nout[0] = 1;\n__syncthreads(); }\nout[t] = 1;", 1, 3),
    "shuffle in a branch": ("if (t & 1) {\nout[t] = __shfl_xor_sync(~0u, t, 1);\n} else {\nout[t] = 3; }", 1, 4),
    "vote behind a break": ("for (int i = 0; i < 8; ++i) {\nif (i == t) break;\nout[t] = __any_sync(~0u, t > i); }\ns[t] = 1;", 2, None),
}


@pytest.mark.parametrize("name", APART)
def test_what_a_barrier_waits_for_is_named_with_its_line(name: str) -> None:
    body, line, other = APART[name]
    text = f"__global__ void k(int* out) {{ __shared__ int s[64]; int t = threadIdx.x; s[t] = 0;\n{body}\n}}"
    ran = run(text, [np.zeros(64, np.int32)], 1, 64)
    (found,) = ran.findings
    assert found.kind in (K.BARRIER_DIVERGENCE, K.INVALID_SHUFFLE)
    first = 5
    assert found.other is not None
    assert found.other.missing
    assert other is None or {found.line - first, found.other.line - first} == {line, other}, found.message
    assert f"line {found.other.line}" in found.message
