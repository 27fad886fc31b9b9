"""Loads that NVVM moves ahead of the condition under which the program makes them: no alarm where the value is dropped,
and the load's own line where it is used."""

from __future__ import annotations

import numpy as np
import pytest

from harness.results import Finding
from harness.verdict import FindingKind as K
from tests.emulator_kit import Ran, run

pytestmark = pytest.mark.usefixtures("quick_compiler")

LINE = 6  # of the first statement
LEVELS = pytest.mark.parametrize("level", ["mid", "full"])
_FILLED = "__shared__ float s; if (n && t == 0) s = a[0];\n__syncthreads();\n"
_TWO = "__shared__ float s, r; if (n && t == 0) { s = a[0]; if (n > 1) r = a[1]; }\n__syncthreads();\n"


def _run(body: str, n: int, level: str, blocks: int = 1) -> Ran:
    """A kernel of 64 threads on 160 floats `a`, all 3, and n; `v` is a variable of the module, 2."""
    text = f"__device__ float v = 2;\n__global__ void k(float* a, int n) {{ const int t = threadIdx.x;\n{body}\n}}"
    return run(text, [np.full(160, 3, np.float32), n], blocks, 64, level=level)


def _places(findings: list[Finding]) -> set[tuple[K, int]]:
    return {(f.kind, f.line - LINE) for f in findings}


# What is read has a value where n > 0 (`r`: where n > 1).
CLEAN = {
    "conjunction": _FILLED + "float x = a[t]; if (n && s > x) x = 1;\na[t] = x;",
    "disjunction": _FILLED + "float x = a[t]; if (n == 0 || s > x) a[t] = x + 1;",
    "choice": _FILLED + "float x = n ? s : 0; __syncthreads(); a[t] = x;",
    "choice of a result": _FILLED + "float x = n ? s * 2 + 1 : 0; __syncthreads(); a[t] = x;",
    "sum under if": _FILLED + "float x = a[t]; if (n) x += s; __syncthreads(); a[t] = x;",
    "either stored": _FILLED + "if (n) a[t] = s; else a[t] = 0;",
    "an index": "__shared__ int s; if (n && t == 0) s = n;\n__syncthreads();\nint j = n ? s : t; if (t == 0) a[j] = 1;",
    "bits of a word": "__shared__ int f; if (n && t == 0) f = n; __syncthreads(); if (n && f & 4) a[t] = 1;",
    "two in turn": _TWO + "float x = a[t]; if (n && s > 0 && n > 1 && r > x) a[t] = x + 1;",
    "two in another turn": _TWO + "float x = a[t]; if (n > 1 && r > x && s > 0) a[t] = x + 1;",
    "one or the other": "__shared__ float s, r; if (t == 0) { if (n) s = a[0]; else r = a[1]; }\n__syncthreads();\na[t] = n ? s : r;",
    "a flag beside it": "__shared__ struct { float v; int have; } s; if (t == 0) { s.have = n; if (n) s.v = a[0]; }\n__syncthreads();\nif (s.have && s.v > 1) a[t] = 5;",
    "a flag beside it, chosen": "__shared__ struct { float v; int have; } s; if (t == 0) { s.have = n; if (n) s.v = a[0]; }\n__syncthreads();\na[t] = s.have ? s.v : 5;",
    "the n-th or none": "__shared__ float s[4]; if (t < n) s[t] = a[t];\n__syncthreads();\na[t] = n > 3 ? s[3] : n > 2 ? s[2] : n > 1 ? s[1] : n > 0 ? s[0] : 0;",
    "a maximum of those there are": "__shared__ float s[4]; if (t < n) s[t] = a[t];\n__syncthreads();\nfloat m = 0; for (int i = 0; i < 4; ++i) m = i < n ? fmaxf(m, s[i]) : m; a[t] = m;",
    "a loop that wants it now and then": _FILLED + "float x = 0; for (int i = 0; i < 32; ++i) if (a[i + 64] > 5) x += s;\na[t] = x;",
    "a loop that asks first": _FILLED + "float x = 0; for (int i = 0; i < 32; ++i) { float y = a[i + 64]; if (y > 5 && y > s) x += y; }\na[t] = x;",
    "neighbours that are joined": "float b[4]; for (int i = 0; i < n; ++i) b[i & 3] = a[i];\nfloat x = n > 1 ? b[1] : 0; if (n > 0) x += b[0]; a[t] = x;",
    "the best two": "float b[2]; int c = 0; for (int i = 0; i < n + 1; ++i) { float x = a[i] + i * (t % 3); if (c == 2 && x <= b[1]) continue;\nif (c > 0 && x > b[0]) { b[1] = b[0]; b[0] = x; } else b[c > 0] = x; c = min(c + 1, 2); }\na[t] = c == 2 ? b[t & 1] : b[0];",
    "its writer alone": "__shared__ float s; if (t == 0) s = 0; for (int i = 0; i < 4; ++i) { float x = a[t + i];\nif (t == 0 && x > s) s = x; }\n__syncthreads(); a[t] = s;",
    "swapped by one": "__shared__ float s[2]; if (t < 2) s[t] = a[t] - t;\n__syncthreads();\nif (n == 2 && s[0] > s[1] && t == 0) { float x = s[0]; s[0] = s[1]; s[1] = x; }\n__syncthreads(); a[t] = s[0];",
}  # fmt: skip


@LEVELS
@pytest.mark.parametrize("name", CLEAN)
def test_no_alarm_where_the_value_is_dropped(name: str, level: str) -> None:
    for n in (0, 1, 2, 4):
        assert _run(CLEAN[name], n, level).findings == []


@LEVELS
def test_no_alarm_between_blocks(level: str) -> None:
    body = "if (blockIdx.x == 0 && t == 0 && v > 1) v = 0;"
    assert _run(body, 0, level, blocks=3).findings == []


# body, what is found where n is 0, and the line of the load
FOUND = {
    "conjunction": (_FILLED + "float x = a[t];\nif (n == 0 && s > x) x = 1;\na[t] = x;", K.UNINITIALIZED_READ, 3),
    "choice": (_FILLED + "float x = n ? 0 : s;\n__syncthreads();\na[t] = x;", K.UNINITIALIZED_READ, 2),
    "sum under if": (_FILLED + "float x = a[t];\nif (t > 40) x += s;\n__syncthreads(); a[t] = x;", K.UNINITIALIZED_READ, 3),
    "a loop that wants it now and then": (_FILLED + "float x = 0; for (int i = 0; i < 32; ++i) if (a[i + 64] > i) x += s;\na[t] = x;", K.UNINITIALIZED_READ, 2),
    "a loop that asks first": (_FILLED + "float x = 0; for (int i = 0; i < 32; ++i) { float y = a[i + 64]; if (y > i && y > s) x += y; }\na[t] = x;", K.UNINITIALIZED_READ, 2),
    "the second of two": (_TWO + "float x = a[t]; if (n == 0 && t > 3 &&\nr > x) a[t] = x + 1;", K.UNINITIALIZED_READ, 3),
    "local": ("float b[4]; for (int i = 0; i < n; ++i) b[i & 3] = a[i];\nfloat x = a[t]; if (t > 5 &&\nb[1] > x) x += 1; a[t] = x;", K.UNINITIALIZED_READ, 2),
    "read while it is written": ("__shared__ float s; if (t == 0) s = a[1] + n; float x = a[t];\n__syncwarp();\nif (t >= 60 &&\ns > x) a[t] = 1;", K.DATA_RACE, 3),
    "written while it is read": ("__shared__ float s; if (t == 63) s = 0;\n__syncthreads(); float x = a[t];\nif (t < 3 &&\ns > x) x = 1;\nif (t == 63)\ns = x + 2; a[t] = x;", K.DATA_RACE, 5),
}  # fmt: skip


@LEVELS
@pytest.mark.parametrize("name", FOUND)
def test_a_value_that_is_used_is_found(name: str, level: str) -> None:
    body, kind, line = FOUND[name]
    assert _places(_run(body, 0, level).findings) == {(kind, line)}


@LEVELS
def test_the_report_names_place_and_thread(level: str) -> None:
    (finding,) = _run(_FILLED + "float x = a[t]; if (t > 40 && s > x) x = 1;\na[t] = x;", 0, level).findings
    assert (finding.tensor, finding.index, finding.thread) == ("s", (0,), (41, 0, 0))


# -- single instructions: %p1 holds in lanes 0 to 7, %f1 is what lane 0 alone may have written (n is 0: nobody)

_PTX = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 a, .param .u32 n) {{
  .reg .pred %p<19>; .reg .b32 %r<19>; .reg .b64 %rd<9>; .reg .f32 %f<9>;
  .shared .align 16 .b8 s[16];
  ld.param.u64 %rd1, [a]; cvta.to.global.u64 %rd2, %rd1; ld.param.u32 %r9, [n];
  mov.u32 %r1, %tid.x; mul.wide.u32 %rd3, %r1, 4; add.s64 %rd4, %rd2, %rd3;
  setp.lt.u32 %p1, %r1, 8; setp.ne.s32 %p2, %r9, 0; mov.u32 %r2, 5; mov.u32 %r5, 0;
  @%p2 st.shared.u32 [s], %r2; @%p2 st.shared.u32 [s+4], %r2;
  bar.sync 0;
  {body}
  st.global.u32 [%rd4], %r4;
  ret;
}}
"""
_LOAD = "ld.shared.u32 %r3, [s]; "
# body, the lane that is named of those that use the value, or -1
INSTRUCTIONS = {
    "chosen": (_LOAD + "selp.b32 %r4, %r3, 7, %p1;", 7),
    "chosen by a later comparison": (_LOAD + "setp.gt.u32 %p3, %r1, 20; selp.b32 %r4, %r3, 7, %p3;", 21),
    "chosen by what is read later": (_LOAD + "ld.global.u32 %r6, [%rd4]; setp.eq.u32 %p3, %r6, 9; selp.b32 %r4, %r3, 7, %p3;", 9),
    "chosen by what is read behind a write": (_LOAD + "st.global.u32 [%rd4], 9; ld.global.u32 %r6, [%rd4]; setp.eq.u32 %p3, %r6, 9; selp.b32 %r4, %r3, 7, %p3;", 0),
    "chosen where it is not": (_LOAD + "setp.gt.u32 %p3, %r1, 99; selp.b32 %r4, %r3, 7, %p3;", -1),
    "the other one chosen": (_LOAD + "selp.b32 %r4, 7, %r3, %p1;", 8),
    "chosen twice": (_LOAD + "selp.b32 %r4, %r3, 7, %p1; setp.gt.u32 %p3, %r1, 3; selp.b32 %r4, %r4, 7, %p3;", 4),
    "chosen by either": (_LOAD + "setp.gt.u32 %p3, %r1, 29; selp.b32 %r4, %r3, 7, %p3; setp.eq.u32 %p4, %r1, 17; selp.b32 %r4, %r3, %r4, %p4;", 17),
    "compared": (_LOAD + "setp.eq.u32 %p3, %r3, 5; and.pred %p4, %p1, %p3; selp.b32 %r4, 1, 2, %p4;", 7),
    "compared the other way": (_LOAD + "setp.eq.u32 %p3, %r3, 5; or.pred %p4, %p1, %p3; selp.b32 %r4, 1, 2, %p4;", 8),
    "compared in a disjunction": (_LOAD + "setp.eq.or.u32 %p4, %r3, 5, %p1; selp.b32 %r4, 1, 2, %p4;", 8),
    "compared with the negation": (_LOAD + "setp.eq.u32 %p3, %r3, 5; not.pred %p5, %p1; and.pred %p4, %p3, %p5; selp.b32 %r4, 1, 2, %p4;", 8),
    "under a guard": (_LOAD + "mov.u32 %r4, 1; @!%p1 mov.u32 %r4, %r3;", 8),
    "behind a branch": (_LOAD + "mov.u32 %r4, 1; @!%p1 bra ON; mov.u32 %r4, %r3; ON:", 7),
    "a shuffle": (_LOAD + "shfl.sync.bfly.b32 %r4, %r3, 16, 31, -1; selp.b32 %r4, %r4, 7, %p1;", 31),
    "a vector, one of it": ("ld.shared.v2.u32 {%r3, %r6}, [s]; selp.b32 %r4, %r6, 7, %p1; setp.gt.u32 %p3, %r1, 3; selp.b32 %r4, %r4, 7, %p3;", 4),
    "the next turn chooses": (
        "mov.u32 %r3, 7; mov.u32 %r7, 0; L: setp.eq.u32 %p3, %r7, 1; selp.b32 %r4, %r3, 7, %p3; ld.shared.u32 %r3, [s]; "
        "add.u32 %r7, %r7, 1; setp.lt.u32 %p4, %r7, 2; @%p4 bra L;", 0),
    "a turn that lanes choose": (
        "mov.u32 %r4, 7; mov.u32 %r7, 0; L: ld.shared.u32 %r3, [s]; add.u32 %r7, %r7, 1; setp.eq.u32 %p3, %r7, %r1; "
        "selp.b32 %r4, %r3, %r4, %p3; setp.lt.u32 %p4, %r7, 6; @%p4 bra L;", 1),
    "read before a loop": (
        _LOAD + "mov.u32 %r4, 7; mov.u32 %r7, 0; L: add.u32 %r7, %r7, 1; setp.eq.u32 %p3, %r7, %r1; "
        "selp.b32 %r4, %r3, %r4, %p3; setp.lt.u32 %p4, %r7, 6; @%p4 bra L;", 1),
    "read before a barrier": (_LOAD + "bar.sync 0; setp.gt.u32 %p3, %r1, 4; selp.b32 %r4, %r3, 7, %p3;", 5),
}  # fmt: skip


def _instruction(name: str, n: int) -> Ran:
    return run(_PTX.format(body=INSTRUCTIONS[name][0]), [np.arange(32, dtype=np.uint32), n])


@pytest.mark.parametrize("name", INSTRUCTIONS)
def test_instructions(name: str) -> None:
    lane = INSTRUCTIONS[name][1]
    found = [(f.kind, f.thread, f.tensor) for f in _instruction(name, 0).findings]
    assert found == ([(K.UNINITIALIZED_READ, (lane, 0, 0), "s")] if lane >= 0 else [])


@pytest.mark.parametrize("name", INSTRUCTIONS)
def test_the_value_is_that_of_the_load(name: str) -> None:
    """Where it is used it is 5: what each instruction makes of that, lane by lane."""
    ran = _instruction(name, 1)
    assert ran.findings == []
    lanes = np.arange(32)
    np.testing.assert_array_equal(ran.arrays[0], VALUES[name](lanes))


VALUES = {
    "chosen": lambda t: np.where(t < 8, 5, 7),
    "chosen by a later comparison": lambda t: np.where(t > 20, 5, 7),
    "chosen by what is read later": lambda t: np.where(t == 9, 5, 7),
    "chosen by what is read behind a write": lambda t: np.full(32, 5),
    "chosen where it is not": lambda t: np.full(32, 7),
    "the other one chosen": lambda t: np.where(t < 8, 7, 5),
    "chosen twice": lambda t: np.where((t < 8) & (t > 3), 5, 7),
    "chosen by either": lambda t: np.where((t > 29) | (t == 17), 5, 7),
    "compared": lambda t: np.where(t < 8, 1, 2),
    "compared the other way": lambda t: np.full(32, 1),
    "compared in a disjunction": lambda t: np.full(32, 1),
    "compared with the negation": lambda t: np.where(t < 8, 2, 1),
    "under a guard": lambda t: np.where(t < 8, 1, 5),
    "behind a branch": lambda t: np.where(t < 8, 5, 1),
    "a shuffle": lambda t: np.where(t < 8, 5, 7),
    "a vector, one of it": lambda t: np.where((t < 8) & (t > 3), 5, 7),
    "the next turn chooses": lambda t: np.full(32, 5),
    "a turn that lanes choose": lambda t: np.where((t > 0) & (t < 7), 5, 7),
    "read before a loop": lambda t: np.where((t > 0) & (t < 7), 5, 7),
    "read before a barrier": lambda t: np.where(t > 4, 5, 7),
}
