"""Control flow of the emulator: random structured kernels against the same kernels run thread by thread in Python.

JUDGE_FUZZ=<first>:<last> runs other seeds than the usual ones.
"""

from __future__ import annotations

import os

import numpy as np
import pytest

from harness.emulator import worker
from harness.emulator.inline import flatten
from harness.emulator.ptx import Module, parse
from tests.emulator_kit import ptx_of, run
from tests.random_kernels import Program, expect, module, program

THREADS, BLOCKS, BATCH = 64, 2, 20
FIRST, LAST = (int(n) for n in os.environ.get("JUDGE_FUZZ", "0:20").split(":"))
MOST_INSTRUCTIONS = 700  # longer kernels are left out: they take LLVM seconds and show nothing new


pytestmark = pytest.mark.usefixtures("quick_compiler")


def _wrong(p: Program, source: str, level: str) -> str:
    """What is wrong with one kernel; empty where nothing is."""
    rng = np.random.default_rng(int(p.name[1:-1]))
    for small in (False, True):
        data = rng.integers(0, 8 if small else 1 << 32, THREADS * BLOCKS, dtype=np.uint64).astype(np.uint32)
        u0, u1 = int(rng.integers(0, 1 << 31)), int(rng.integers(0, 9))
        ran = run(source, [data, np.zeros_like(data), u0, u1], BLOCKS, THREADS, kernel=p.name, level=level)
        if ran.findings:
            return f"{p.name}: {ran.findings[0]}"
        different = np.flatnonzero(ran.arrays[1] != expect(p, data, u0, u1, BLOCKS, THREADS))
        if different.size:
            return f"{p.name}: threads {different[:8]} differ\n{p.cuda}"
    return ""


@pytest.mark.parametrize("level", ["mid", "full"])
@pytest.mark.parametrize("slice_", [worker.FUEL_SLICE, 40])
@pytest.mark.parametrize("first", range(FIRST, LAST, BATCH))
def test_random_kernels_agree_with_python(first: int, slice_: int, level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """`slice_`: instructions until a warp yields at a loop's header; with few of them, warps take turns all the time."""
    monkeypatch.setattr(worker, "FUEL_SLICE", slice_)
    programs = [program(seed) for seed in range(first, first + BATCH)]
    source = module(programs, THREADS)
    parsed: Module = parse(ptx_of(source, level))
    fitting = [p for p in programs if len(flatten(parsed, p.name).body) <= MOST_INSTRUCTIONS]
    assert len(fitting) > BATCH // 2
    wrong = [w for p in fitting if (w := _wrong(p, source, level))]
    assert not wrong, "\n\n".join(wrong)


def test_scalar_and_vector_instructions_keep_their_order() -> None:
    """A uniform loop counter that is bumped after a vector used it must be read before it is bumped."""
    ran = run(
        """__global__ void k(const int* in, int* out) {
            int t = threadIdx.x, i = 0, sum = 0;
            do { sum += in[i * 32 + t]; ++i; } while (i < 4);
            out[t] = sum;
        }""",
        [np.arange(128, dtype=np.int32), np.zeros(32, np.int32)],
    )
    assert ran.findings == []
    np.testing.assert_array_equal(ran.arrays[1], np.arange(128).reshape(4, 32).sum(0))


LEFT_BEHIND = """__global__ void k(int* out) {
    int t = threadIdx.x, kept = 0;
    for (int i = 0; i < 40; ++i) { kept = i * 3; if (i == t) break; }   // lanes leave in different turns
    out[t] = kept;
}"""


def test_a_uniform_value_is_kept_for_lanes_that_left_the_loop() -> None:
    ran = run(LEFT_BEHIND, [np.zeros(32, np.int32)])
    np.testing.assert_array_equal(ran.arrays[0], np.arange(32) * 3)


def test_lanes_meet_again_behind_a_divergent_loop() -> None:
    """Code behind the loop runs once, with all lanes: a full-mask shuffle is fine there."""
    ran = run(
        """__global__ void k(int* out) {
            int t = threadIdx.x, n = 0;
            while (n * n < t) ++n;
            out[t] = __shfl_xor_sync(0xffffffff, n, 1);
        }""",
        [np.zeros(32, np.int32)],
    )
    assert ran.findings == []
    roots = np.ceil(np.sqrt(np.arange(32))).astype(int)
    np.testing.assert_array_equal(ran.arrays[0], roots[np.arange(32) ^ 1])


TWO_WAYS_BACK = """.version 9.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 a) {
  .reg .pred %p<3>; .reg .b32 %t, %i, %v, %sum; .reg .b64 %d, %o;
  ld.param.u64 %d, [a]; mov.u32 %t, %tid.x; mul.wide.u32 %o, %t, 4; add.s64 %d, %d, %o;
  and.b32 %v, %t, 1; setp.ne.s32 %p1, %v, 0; mov.u32 %i, 0; mov.u32 %sum, 0;
TOP:
  add.u32 %v, %i, %t;
  shfl.sync.bfly.b32 %v, %v, 1, 31, 0xffffffff;
  add.u32 %sum, %sum, %v; add.u32 %i, %i, 1;
  setp.ge.u32 %p2, %i, 4; @%p2 bra END;
  @%p1 bra TOP;
  add.u32 %sum, %sum, 100;
  bra.uni TOP;
END:
  st.global.u32 [%d], %sum;
  ret;
}"""


def test_lanes_meet_again_at_a_loop_header() -> None:
    """Lanes that go back early wait for the others: a turn begins with all of them."""
    ran = run(TWO_WAYS_BACK, [np.zeros(32, np.int32)])
    assert ran.findings == []
    t = np.arange(32)
    np.testing.assert_array_equal(ran.arrays[0], 6 + 4 * (t ^ 1) + np.where(t & 1, 0, 300))


BRANCH_TABLE = """.version 9.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 a, .param .u32 n) {
  .reg .b32 %r<9>; .reg .b64 %d<9>;
  ld.param.u64 %d1, [a]; ld.param.u32 %r1, [n];
  mov.u32 %r2, %tid.x;
  mul.wide.u32 %d2, %r2, 4; add.s64 %d1, %d1, %d2;
  and.b32 %r3, %r2, %r1;
  mov.u32 %r4, 0;
  TABLE: .branchtargets ONE, TWO, ONE, FOUR;
  brx.idx %r3, TABLE;
ONE:
  add.u32 %r4, %r4, 1; bra.uni END;
TWO:
  add.u32 %r4, %r4, 20;
FOUR:
  add.u32 %r4, %r4, 400;
END:
  st.global.u32 [%d1], %r4;
  ret;
}"""


@pytest.mark.parametrize("mask", [3, 0])
def test_indexed_branches(mask: int) -> None:
    """brx.idx, divergent and uniform; one label stands in the table twice and one case falls through."""
    ran = run(BRANCH_TABLE, [np.zeros(32, np.int32), mask])
    np.testing.assert_array_equal(ran.arrays[0], np.array([1, 420, 1, 400])[np.arange(32) & mask])


def test_a_guarded_load_in_a_loop_leaves_the_lanes_alone_that_have_left_it() -> None:
    """Each lane reads its word in its last turn, under a guard; the value is used behind the loop."""
    text = """.version 9.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 data) {
  .reg .pred %p<3>; .reg .b32 %r<5>; .reg .b64 %rd<4>;
  ld.param.u64 %rd0, [data]; mov.u32 %r0, %tid.x; mov.u32 %r1, 0; mov.u32 %r2, 7;
  mul.wide.u32 %rd1, %r0, 4; add.s64 %rd2, %rd0, %rd1;
L: setp.ge.u32 %p0, %r1, %r0; mov.u32 %r2, 0; @%p0 ld.global.u32 %r2, [%rd2];
  add.u32 %r1, %r1, 1; @!%p0 bra L;
  add.u32 %r2, %r2, 1; st.global.u32 [%rd2], %r2; ret;
}
"""
    ran = run("//ptx\n" + text, [np.arange(32, dtype=np.uint32) * 10])
    assert ran.arrays[0].tolist() == [10 * n + 1 for n in range(32)]
