"""Races on shared memory: what must be found, with both lines and threads, and what must not be."""

from __future__ import annotations

import numpy as np
import pytest

from harness.verdict import FindingKind as K
from tests.emulator_kit import run

pytestmark = pytest.mark.usefixtures("quick_compiler")

THREADS = 128
LINE = 5  # of the first statement


def _run(body: str, threads: int = THREADS, shared: str = "__shared__ int s[1024];", **more: object):  # type: ignore[no-untyped-def]
    text = f"__global__ void k(int* out) {{ int t = threadIdx.x, w = t / 32; {shared}\n{body}\n}}"
    return run(text, [np.zeros(threads, np.int32)], block=threads, **more)  # type: ignore[arg-type]


# body, line that comes later, line that came first, whether the first one wrote
RACES = {
    "read after write": ("s[t] = t;\nout[t] = s[(t + 32) % 128];", 1, 0, True),
    "write after read": ("s[t] = t; __syncthreads();\nint v = s[(t + 32) % 128];\ns[t] = v + 1;", 2, 1, False),
    "write after write": ("if (w == 0)\ns[t] = 1;\nif (w == 1)\ns[t - 32] = 2;\n__syncthreads(); out[t] = s[t & 31];", 3, 1, True),
    "the barrier stands too early": ("__syncthreads();\ns[t] = t;\nout[t] = s[t ^ 64];", 2, 1, True),
    "second turn of a loop": ("for (int i = 0; i < 2; ++i) {\ns[t] = i;\n__syncthreads();\nout[t] += s[t ^ 32]; }", 1, 3, False),
    "one word by all": ("s[0] = t;\n__syncthreads(); out[t] = s[0];", 0, 0, True),
    "float4 against float": ("if (w == 0)\n((int4*)s)[t] = make_int4(1, 2, 3, t);\nif (w == 1)\nout[t] = s[t];", 3, 1, True),
    "syncwarp is not enough": ("s[t] = t;\n__syncwarp();\nout[t] = s[t ^ 32];", 2, 0, True),
    "uniform address": ("if (w == 3)\ns[5] = t;\nif (w == 1)\nout[t] = s[5];", 1, 3, False),
    "atomic against plain": ("if (t < 4) s[t] = 0; __syncthreads();\natomicAdd(s + (t & 3), 1);\nout[t] = s[t & 3];", 2, 1, True),
    # An atomic of the plain access's own warp comes between.
    "cleared, then counted by all": ("if (t == 0)\ns[0] = 0;\nif (t == 0 || w > 0)\natomicAdd(s, 1);", 3, 1, True),
    "cleared, a syncwarp, then counted by all": ("if (t == 0)\ns[0] = 0;\n__syncwarp();\natomicAdd(s, 1);", 3, 1, True),
    "cleared and counted by lane 0": ("if (t == 0)\ns[0] = 0;\natomicAdd(s, 1);", 2, 1, True),
    "cleared and volatile": ("volatile int* v = s; if (t == 0) {\ns[0] = 1;\n*v = 2; } if (w == 2)\nout[t] = *v;", 3, 1, True),
    "read, then counted by all": ("if (t == 0) s[0] = 0; __syncthreads();\nif (w == 0)\nout[t] = s[0];\n__syncwarp();\natomicAdd(s, 1);", 4, 2, False),
    "an ordered warp's atomic comes between": ("""if (w == 0)
s[0] = 1;
if (w < 2) { asm volatile("bar.sync 1, 64;" ::: "memory"); if (w == 1) atomicAdd(s, 1); } else
atomicAdd(s, 1);""", 3, 1, True),
    # Lanes of one warp.
    "neighbour in the warp": ("s[t] = t;\nout[t] = s[t ^ 1];", 1, 0, True),
    "warp-synchronous reduction": ("s[t] = t; __syncthreads();\nif (t < 16)\ns[t] += s[t + 8];\n__syncthreads(); out[t] = s[t];", 2, 2, False),
    "lane 0 tells the warp": ("if (t % 32 == 0)\ns[w] = t;\nout[t] = s[w];", 2, 1, True),
    "a shuffle orders nothing": ("s[t] = t;\nint v = __shfl_xor_sync(~0u, t, 1);\nout[t] = s[t ^ 1] + v;", 2, 0, True),
    "the warp's broadcast is overwritten": ("if (t % 32 == 0) s[w] = 1; __syncwarp();\nint v = s[w];\nif (t % 32 == 0) s[w] = 2;\nout[t] = v;", 2, 1, False),
    "one lane read": ("s[t] = t; __syncthreads();\nint v = t == 5 ? s[40] : 0;\nif (t == 7)\ns[40] = v + 1;\nout[t] = v;", 3, 1, False),
    "two lanes, one word, one store": ("s[t & ~1] = t;\n__syncthreads(); out[t] = s[t & ~1];", 0, 0, True),
    # Parts of a word.
    "a short too far": ("short* h = (short*)s;\nh[t] = t;\nout[t] = h[t ^ 1];", 2, 1, True),
    "a word over shorts": ("short* h = (short*)s; h[t] = t; h[t + 128] = 1;\n__syncthreads(); int v = h[t];\nif (t < 8)\ns[t + 4] = 7;\nout[t] = v;", 3, 1, False),
    # Other ways to synchronise.
    "the wrong named barrier": ("""s[t] = t;
if (w < 2) asm volatile("bar.sync 1, 64;" ::: "memory"); else asm volatile("bar.sync 2, 64;" ::: "memory");
out[t] = s[t ^ 64];""", 2, 0, True),
    "behind bar.arrive": ("""if (w < 2) { s[t] = 1; asm volatile("bar.arrive 1, 128;" ::: "memory");
s[t] = 2;
} else { asm volatile("bar.sync 1, 128;" ::: "memory");
out[t] = s[t - 64]; }""", 3, 1, True),
    "who arrives does not wait": ("""if (w < 2) { asm volatile("bar.arrive 1, 128;" ::: "memory");
out[t] = s[t + 64]; } else {
s[t] = 1; asm volatile("bar.sync 1, 128;" ::: "memory"); }""", 1, 2, True),
    "a flag without a fence": ("""__shared__ volatile int flag; s[t] = t; if (t == 0) flag = 0; __syncthreads();
if (t == 0) { s[5] = 1;
flag = 1; } if (w == 2) { while (!flag); __threadfence_block();
out[t] = s[5]; }""", 3, 1, True),
    "a plain flag": ("""volatile int* v = s; if (t == 0) s[0] = 0; __syncthreads(); if (t == 0)
s[0] = 1;
if (w == 1)
out[t] = *v;""", 3, 1, True),
}


@pytest.mark.parametrize("level", ["mid", "full"])
@pytest.mark.parametrize("name", RACES)
def test_races_are_found_with_both_sides(name: str, level: str) -> None:
    body, later, first, wrote = RACES[name]
    ran = _run(body, level=level)
    races = [f for f in ran.findings if f.kind is K.DATA_RACE]
    assert races, ran.findings
    assert {f.kind for f in ran.findings} == {K.DATA_RACE}
    ends = {(f.line - LINE, f.other.line - LINE) for f in races if f.other}
    assert (later, first) in ends or (first, later) in ends, ends
    match = next(f for f in races if f.other and {f.line - LINE, f.other.line - LINE} == {later, first})
    assert match.tensor == "s"
    assert match.thread is not None
    if match.other is not None and match.other.thread is not None:
        assert match.thread != match.other.thread
    if (match.line - LINE, match.other.line - LINE if match.other else 0) == (later, first) and later != first:
        assert match.other is not None
        assert match.other.write == wrote


CLEAN = {
    "double buffer": """s[t] = t; __syncthreads();
        for (int i = 0; i < 6; ++i) { int* from = s + (i & 1) * 512, *to = s + (1 - (i & 1)) * 512; to[t] = from[(t + 33) % 128] + 1; __syncthreads(); }
        out[t] = s[t];""",
    "reduction in halves": """s[t] = t; __syncthreads();
        for (int d = 64; d; d >>= 1) { if (t < d) s[t] += s[t + d]; __syncthreads(); } out[t] = s[0];""",
    "reduction whose tail is one warp": """s[t] = t; __syncthreads();
        for (int d = 64; d > 16; d >>= 1) { if (t < d) s[t] += s[t + d]; __syncthreads(); }
        if (t < 32) for (int d = 16; d; d >>= 1) { int v = s[t + d]; __syncwarp(); s[t] += v; __syncwarp(); }
        if (t == 0) out[0] = s[0];""",
    "one writer, all read": "if (t == 77) s[3] = 9; __syncthreads(); out[t] = s[3]; __syncthreads(); if (t == 0) s[3] = 1;",
    "warps by themselves": "s[t] = t; __syncwarp(); out[t] = s[t ^ 5]; __syncwarp(); s[t ^ 7] = 1;",
    "many readers": "s[t] = t; __syncthreads(); int v = 0; for (int i = 0; i < 128; ++i) v += s[i]; out[t] = v; __syncthreads(); if (t < 32) s[t] = 1;",
    "atomics": "if (t < 8) s[t] = 0; __syncthreads(); atomicAdd(s + (t & 7), t); atomicMax(s + (t & 7), 3); __syncthreads(); out[t] = s[t & 7];",
    "bytes of one word by different warps": """unsigned char* c = (unsigned char*)s; if (t < 32) s[t] = 0; __syncthreads();
        c[(t & 31) * 4 + w] = t; __syncthreads(); out[t] = c[t];""",
    "flags of different warps": "bool* flag = (bool*)s; if ((t & 31) == 0) flag[w] = t > 40; __syncthreads(); out[t] = flag[0] + flag[1] + flag[2] + flag[3];",
    "shorts": "short* h = (short*)s; h[t] = t; __syncthreads(); out[t] = h[127 - t];",
    "named barrier": """s[t] = t; asm volatile("bar.sync 3, 128;" ::: "memory"); out[t] = s[t ^ 96];""",
    "volatile flags": """volatile int* v = s; if (t == 0) *v = 0; __syncthreads(); if (t == 0) { *v = 1; } else if (w == 2) { while (*v == 0) ; } out[t] = 1;""",
    "rows of a matrix": """for (int r = w; r < 8; r += 4) s[r * 33 + (t & 31)] = t; __syncthreads(); for (int r = w; r < 8; r += 4) out[t] += s[(t & 7) * 33 + r];""",
    "vectors": "((int4*)s)[t] = make_int4(t, 1, 2, 3); __syncthreads(); int2 v = ((int2*)s)[(t * 2 + 5) % 256]; out[t] = v.x + v.y;",
    "flag with fences": """__shared__ volatile int flag; if (t == 0) flag = 0; __syncthreads();
        if (t == 0) { s[5] = 1; __threadfence_block(); flag = 1; } if (w == 2) { while (!flag); __threadfence_block(); out[t] = s[5]; }""",
    "fences pass on what was seen": """__shared__ volatile int f1, f2; if (t == 0) { f1 = 0; f2 = 0; } __syncthreads();
        if (t == 0) { s[5] = 1; __threadfence_block(); f1 = 1; }
        if (t == 32) { while (!f1); __threadfence_block(); f2 = 1; }
        if (t == 64) { while (!f2); __threadfence_block(); out[t] = s[5]; }""",
    "flag in global memory": """if (t == 96) { s[5] = 1; __threadfence(); atomicExch(out, 7); } if (t == 0) { while (atomicAdd(out, 0) != 7); __threadfence(); out[1] = s[5]; }""",
    "ping pong of named barriers": """for (int i = 0; i < 4; ++i) {
        if (w < 2) { if (i) asm volatile("bar.sync 2, 128;" ::: "memory"); s[t] = i; asm volatile("bar.arrive 1, 128;" ::: "memory"); }
        else { asm volatile("bar.sync 1, 128;" ::: "memory"); out[t] += s[(t * 5) & 63]; if (i < 3) asm volatile("bar.arrive 2, 128;" ::: "memory"); } }""",
    "two pairs of warps": """if (w < 2) { s[t] = t; asm volatile("bar.sync 1, 64;" ::: "memory"); out[t] = s[t ^ 32]; }
        else { s[t] = t; asm volatile("bar.sync 2, 64;" ::: "memory"); out[t] = s[t ^ 32]; }""",
    "cleared, then counted": "if (t == 0) s[0] = 0; __syncthreads(); atomicAdd(s, 1); __syncwarp(); atomicAdd(s, 1);",
    "cleared and counted in one warp": "if (t == 0) s[0] = 0; __syncwarp(); if (w == 0) { atomicAdd(s, 1); __syncwarp(); if (t == 7) s[0] += 1; __syncwarp(); atomicAdd(s, 1); }",
    "cleared and counted behind a named barrier": """if (t == 0) s[0] = 0; if (w < 2) { if (t == 0) atomicAdd(s, 1);
        asm volatile("bar.sync 1, 64;" ::: "memory"); atomicAdd(s, 1); }""",
    "a histogram that is cleared again": """for (int i = 0; i < 3; ++i) { if (t < 8) s[t] = 0; __syncthreads(); atomicAdd(s + (t & 7), 1); atomicAdd(s + (t & 3), 1);
        __syncthreads(); out[t] += s[t & 7]; __syncthreads(); }""",
    "the same lane again": "s[t] = t; s[t] += 1; out[t] = s[t]; s[t] = 5; if (t == 3) { s[200] = 1; s[200] += s[200]; out[t] = s[200]; }",
    "the warp's broadcast": "if (t % 32 == 0) s[w] = t; __syncwarp(); out[t] = s[w]; __syncwarp(); if (t % 32 == 1) s[w] = 1;",
    "halves of one word": "short* h = (short*)s; h[t] = t; h[t] += 1; out[t] = h[t]; __syncthreads(); out[t] = h[t ^ 1];",
    "shorts, then words": "short* h = (short*)s; h[t] = t; __syncthreads(); out[t] = s[t / 2]; __syncthreads(); s[t / 2 + 64] = 3;",
    "count": "s[t] = t; out[t] = __syncthreads_count(t & 1); out[t] += s[127 - t];",
}


@pytest.mark.parametrize("level", ["mid", "full"])
@pytest.mark.parametrize("name", CLEAN)
def test_clean_kernels_raise_no_alarm(name: str, level: str) -> None:
    assert _run(CLEAN[name], level=level, budget=100_000_000).findings == []


def test_the_next_block_starts_afresh() -> None:
    """What one block left in shared memory is neither a race nor initialised for the next."""
    text = """__global__ void k(int* out) { __shared__ int s[64]; int t = threadIdx.x;
        if (blockIdx.x == 0) s[t] = t;
        else
        out[t] = s[t]; }"""
    ran = run(text, [np.zeros(64, np.int32)], 2, 64)
    assert [(f.kind, f.line) for f in ran.findings] == [(K.UNINITIALIZED_READ, 7)]
    assert ran.findings[0].block == (1, 0, 0)


@pytest.mark.parametrize(
    "body",
    ["out[t] = s[t];", "out[t] = ((char*)s)[t];", "out[t] = ((int2*)s)[t].y;", "if (t < 64) s[t] = 1;\n__syncthreads();\nout[t] = s[t];", "out[t] = s[(t * 7) & 127];"],
)
def test_shared_memory_that_nobody_wrote(body: str) -> None:
    ran = _run(body)
    assert [(f.kind, f.line) for f in ran.findings] == [(K.UNINITIALIZED_READ, LINE + body.count("\n"))]
    assert ran.findings[0].tensor == "s"


def test_local_arrays_that_were_not_filled() -> None:
    ran = _run("int a[8];\nfor (int i = 0; i < 7; ++i) a[i] = i;\nout[t] =\na[t & 7];")
    assert [(f.kind, f.line) for f in ran.findings] == [(K.UNINITIALIZED_READ, LINE + 3)]
    assert ran.findings[0].thread == (7, 0, 0)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_race_is_found_whatever_the_number_of_workers(threads: int) -> None:
    text = "__global__ void k(int* out) { __shared__ int s[64]; int t = threadIdx.x; s[t] = t;\nout[t] = s[t ^ 32]; }"
    ran = run(text, [np.zeros(64, np.int32)], 50, 64, threads=threads)
    assert {f.kind for f in ran.findings} == {K.DATA_RACE}
    assert 5 in {f.line for f in ran.findings}
