"""Races between blocks on global memory: what must be found, with both sides, and what must not be."""

from __future__ import annotations

import numpy as np
import pytest

from harness.emulator.block_shadow import MAX_BYTES, BlockShadows
from harness.emulator.launch import Launcher, shape_of
from harness.emulator.layout import BlockShadow
from harness.emulator.memory import Memory
from harness.plan import FIRST_TENSOR_ID, Buffer, address
from harness.verdict import FindingKind as K
from tests.emulator_kit import Ran, program_of, ptx_of, run

pytestmark = pytest.mark.usefixtures("quick_compiler")

LINE = 6  # of the first statement
BLOCKS, THREADS = 6, 64
HEAD = "#include <cuda_fp16.h>\n"


def _run(body: str, threads: int = 1, level: str = "mid") -> Ran:
    """a: unwritten scratch, c: zeros. t, b, n: thread, block, number of blocks."""
    text = f"__global__ void k(float* a, int* c) {{ int t = threadIdx.x, b = blockIdx.x, n = gridDim.x;\n{body}\n}}"
    arrays = [np.ma.masked_all(4096, np.float32), np.zeros(1024, np.int32)]
    return run(HEAD + text, arrays, BLOCKS, THREADS, threads=threads, level=level, budget=100_000_000)


TICKET = "{last}\n__shared__ bool last; __syncthreads();\nif (t == 0) last = {take}; __syncthreads();\nif (!last) return;\n"
# body, line that was seen second, line that came first, whether the first one wrote
RACES = {
    "rows that overlap": ("a[b * 48 + t] = b;", 0, 0, True),
    "rows of float4 that overlap": ("((float4*)a)[b * 60 + t] = make_float4(b, 1, 2, t);", 0, 0, True),
    "halves that overlap": ("__half* h = (__half*)a;\nh[b * 63 + t] = __float2half(b);", 1, 1, True),
    "halves under words": ("if (b == 0)\n((__half*)a)[2 * t + 1] = __float2half(7);\nelse if (b == 1)\na[t] = 3;", 3, 1, True),
    "every thread of every block": ("a[0] = b * 64 + t;", 0, 0, True),
    "scattered": ("a[(b * 48 + t) * 3 % 1024] = b;", 0, 0, True),
    "one thread of each": ("if (t == 0)\na[5] = b;", 1, 1, True),
    "+= in place of atomicAdd": ("c[t] += b + 1;", 0, 0, True),
    "write after another block's read": ("int v = c[(b * 64 + t + 64) % (64 * n)];\nc[b * 64 + t] = v + 1 + t;", 1, 0, False),
    "partials of others without waiting": ("a[b] = b;\nif (b == n - 1)\na[64 + t] = a[t % n];", 2, 0, True),
    "atomic against plain": ("if (b == 1)\nc[t] = 5;\nif (b == 2)\natomicAdd(c + t, 1);", 3, 1, True),
    "cleared, then added to by all": ("if (b == 0 && t == 0)\nc[0] = 5;\n__syncthreads();\natomicAdd(c, 1);", 3, 1, True),
    "read, then added to by all": ("int v = 0; if (b == 0)\nv = c[0];\n__syncthreads(); a[b * 64 + t] = v;\natomicAdd(c, 1);", 3, 1, False),
    "an ordered block's atomic comes between": ("""if (t == 0) { if (b == 0) {
c[64] = 5;
__threadfence(); atomicExch(c, 1); } if (b == 1) { while (!atomicAdd(c, 0)); __threadfence(); atomicAdd(c + 64, 1); atomicExch(c + 1, 1); }
if (b == 2) { while (!atomicAdd(c + 1, 0)); atomicAdd(c + 64, 1); } }""", 3, 1, True),
    "plain against atomic": ("if (b == 1)\natomicAdd(c + t, 1);\nif (b == 2)\na[t] = c[t];", 3, 1, True),
    "a plain flag": ("if (b == 0 && t == 0)\nc[0] = 1;\nif (b == 1 && t == 0) while (*(volatile int*)c == 0)\n;\n", 2, 1, True),
    "no fence before the ticket": ("a[b * 64 + t] = t;" + TICKET.format(last="", take="atomicAdd(c, 1) == n - 1") + "__threadfence(); float s = 0; for (int i = 0; i < n; ++i)\ns += a[i * 64 + t];\na[2048 + t] = s;", 5, 0, True),
    "a fence of the block only": ("a[b * 64 + t] = t;" + TICKET.format(last="__threadfence_block();", take="atomicAdd(c, 1) == n - 1") + "__threadfence(); float s = 0; for (int i = 0; i < n; ++i)\ns += a[i * 64 + t];\na[2048 + t] = s;", 5, 0, True),
    "a fence too early": ("__threadfence(); a[b * 64 + t] = t;" + TICKET.format(last="", take="atomicAdd(c, 1) == n - 1") + "__threadfence(); float s = 0; for (int i = 0; i < n; ++i)\ns += a[i * 64 + t];\na[2048 + t] = s;", 5, 0, True),
    "no fence behind the ticket": ("a[b * 64 + t] = t;" + TICKET.format(last="__threadfence();", take="atomicAdd(c, 1) == n - 1") + "float s = 0; for (int i = 0; i < n; ++i)\ns += a[i * 64 + t];\na[2048 + t] = s;", 5, 0, True),
    "a ticket that is not atomic": ("a[b * 64 + t] = t;" + TICKET.format(last="__threadfence();", take="c[0]++ == n - 1") + "a[2048 + t] = 1;", 2, 2, True),
    "a lock that releases without a fence": ("if (t == 0) { while (atomicCAS(c, 0, 1)) ; __threadfence();\nc[64] += 1;\natomicExch(c, 0); }", 1, 1, True),
    "a lock that takes without a fence": ("if (t == 0) { while (atomicCAS(c, 0, 1)) ;\nc[64] += 1;\n__threadfence(); atomicExch(c, 0); }", 1, 1, True),
    "written beside the lock": ("if (t == 0) { while (atomicCAS(c, 0, 1)) ; __threadfence(); c[65] = b; __threadfence(); atomicExch(c, 0);\nc[64] += 1; }", 1, 1, True),
}  # fmt: skip


@pytest.mark.parametrize("level", ["mid", "full"])
@pytest.mark.parametrize("name", RACES)
def test_races_between_blocks_are_found_with_both_sides(name: str, level: str) -> None:
    body, later, first, wrote = RACES[name]
    ran = _run(body, level=level)
    races = [f for f in ran.findings if f.kind is K.DATA_RACE]
    assert races, ran.findings
    assert {f.kind for f in ran.findings} == {K.DATA_RACE}
    ends = {(f.line - LINE, f.other.line - LINE, f.other.write) for f in races if f.other}
    assert (later, first, wrote) in ends, ends
    match = next(f for f in races if f.other and (f.line - LINE, f.other.line - LINE) == (later, first))
    assert match.other is not None
    assert match.other.block is not None
    assert match.block != match.other.block
    assert match.thread is not None
    assert match.other.thread is not None
    assert match.tensor in ("a0", "a1")
    assert match.index


SPLIT = "float s = 0; for (int i = 0; i < n; ++i) s += a[i * 64 + t]; a[2048 + t] = s;"
CLEAN = {
    "rows of their own": "for (int i = t; i < 100; i += 64) a[b * 100 + i] = i; for (int i = t; i < 100; i += 64) a[b * 100 + i] += 1;",
    "halves of one word": "__half* h = (__half*)a; if (t < 33) h[b * 33 + t] = __float2half(b); if (t < 33) h[b * 33 + t] = __float2half(t);",
    "bytes of one word": "char* h = (char*)c; if (t < 5) h[b * 5 + t] = b + 1;",
    "half2 and float4": "__half2* h = (__half2*)a; h[b * 64 + t] = __float2half2_rn(b); ((float4*)(a + 1024))[b * 16 + t % 16] = make_float4(1, 2, 3, t % 16);",
    "the same value": "a[t] = 3; c[0] = 1;",
    "a table that every block makes for itself": "c[t] = t * t; __syncthreads(); a[b * 64 + t] = c[63 - t];",
    "reads of what an older launch left": "a[b * 64 + t] = c[t] + c[(t * 7) % 64];",
    "all read and nobody writes": "float v = 0; for (int i = 0; i < 64; ++i) v += c[i]; a[b * 64 + t] = v;",
    "atomics": "atomicAdd(c + t, b); atomicMax(c + 64, t); atomicExch(c + 65, b); atomicAdd((float*)c + 100, 1.f);",
    "compare-and-swap loops": "float* p = (float*)c; int* q = c; int old = *q, as; do { as = old; old = atomicCAS(q, as, __float_as_int(fmaxf(__int_as_float(as), t))); } while (as != old);",
    "volatile against volatile": "volatile int* v = c; v[t] = b; a[b * 64 + t] = v[(t + 1) % 64];",
    "the last block adds up": "a[b * 64 + t] = t;" + TICKET.format(last="__threadfence();", take="atomicAdd(c, 1) == n - 1") + "__threadfence();" + SPLIT,
    "one thread's fence covers the block's writes": "a[b * 64 + t] = t; __syncthreads();" + TICKET.format(last="if (t == 0) __threadfence();", take="atomicAdd(c, 1) == n - 1") + "__threadfence();" + SPLIT,
    "cleared and added to before a flag": """if (t == 0) { if (b == 0) { c[64] = 5; atomicAdd(c + 64, 1); __threadfence(); atomicExch(c, 1); }
        else { while (!atomicAdd(c, 0)); __threadfence(); } } __syncthreads(); atomicAdd(c + 64, 1);""",
    "the last block resets the ticket": "a[b * 64 + t] = t;" + TICKET.format(last="__threadfence();", take="atomicInc((unsigned*)c, n) == n - 1") + "__threadfence();" + SPLIT + " if (t == 0) c[0] = 0;",
    "something else behind the fence": "a[b * 64 + t] = t; __threadfence(); a[3000 + b * 64 + t] = 1;" + TICKET.format(last="", take="atomicAdd(c, 1) == n - 1") + "__threadfence();" + SPLIT,
    "volatile partials need no second fence": "volatile float* v = a; v[b * 64 + t] = t;" + TICKET.format(last="__threadfence();", take="atomicAdd(c, 1) == n - 1") + "float s = 0; for (int i = 0; i < n; ++i) s += v[i * 64 + t]; a[2048 + t] = s;",
    "release and acquire": """a[b * 64 + t] = t; __syncthreads(); __shared__ int last; if (t == 0) {
        int old; asm volatile("atom.add.acq_rel.gpu.s32 %0, [%1], 1;" : "=r"(old) : "l"(c) : "memory"); last = old == n - 1; }
        __syncthreads(); if (!last) return;""" + SPLIT,
    "a lock": "if (t == 0) { while (atomicCAS(c, 0, 1)) ; __threadfence(); c[64] += 1; __threadfence(); atomicExch(c, 0); }",
    "a lock that is left by a volatile store": "if (t == 0) { while (atomicCAS(c, 0, 1)) ; __threadfence(); c[64] += 1; __threadfence(); *(volatile int*)c = 0; }",
    "a flag": "if (b == 0) { a[t] = t; __threadfence(); __syncthreads(); if (t == 0) *(volatile int*)c = 1; } else { if (t == 0) while (*(volatile int*)c == 0) ; __syncthreads(); __threadfence(); a[b * 64 + t] = a[t]; }",
    "a flag that its reader clears": "if (b == 0 && t == 0) { *(volatile int*)c = 1; } else if (b == 1 && t == 0) { while (*(volatile int*)c == 0) ; c[0] = 0; }",
    "in turn by a counter": "if (t == 0) { while (atomicAdd(c, 0) != b) ; __threadfence(); c[64] = c[64] * 2 + b; __threadfence(); atomicAdd(c, 1); }",
    "decoupled look-back": """if (t == 0) { volatile int* f = c + 128; c[64 + b] = b + 1; __threadfence(); f[b] = 1; int sum = 0;
        for (int i = b - 1; i >= 0; --i) { while (f[i] == 0) ; __threadfence(); sum += c[64 + i]; } a[b] = sum; }""",
}  # fmt: skip


@pytest.mark.parametrize("level", ["mid", "full"])
@pytest.mark.parametrize("name", CLEAN)
def test_blocks_that_keep_apart_or_in_order_raise_no_alarm(name: str, level: str) -> None:
    ran = _run(CLEAN[name], level=level)
    assert ran.outcome.fault is None
    assert ran.findings == []


@pytest.mark.parametrize("fence", ["", "__threadfence();"])
def test_a_write_after_reads_of_several_blocks_and_its_own(fence: str) -> None:
    (finding,) = _run(f"int v = c[t]; a[b * 64 + t] = v; {fence} if (b == n - 1)\nc[t] = v + 1 + t;").findings
    assert (finding.kind, finding.line) == (K.DATA_RACE, LINE + 1)
    assert finding.other is not None
    assert (finding.other.block, finding.other.line, finding.other.write) == (None, LINE, False)
    assert f"while other blocks read it at line {LINE}" in finding.message


def test_several_workers_see_every_conflict() -> None:
    """Whichever host thread is faster: each conflict is seen by one of the two sides."""
    for _ in range(10):
        for name in ("rows that overlap", "halves that overlap", "write after another block's read", "scattered"):
            ran = _run(RACES[name][0], threads=4)
            assert ran.outcome.workers == 4
            assert K.DATA_RACE in {f.kind for f in ran.findings}, name


def test_blocks_that_communicate_run_on_one_host_thread() -> None:
    assert _run(CLEAN["atomics"], threads=4).outcome.workers == 1
    assert _run("if (t == 0) __threadfence();", threads=4).outcome.workers == 1
    assert _run("if (t == 0) __threadfence_block(); a[b * 64 + t] = 1;", threads=4).outcome.workers == 4


@pytest.mark.parametrize("fence", ["", "__threadfence();"])
def test_launches_are_ordered(fence: str) -> None:
    """Each launch reads and overwrites what other blocks wrote and read in the one before."""
    text = f"""__global__ void k(int* to, const int* from) {{ int i = blockIdx.x * 64 + threadIdx.x;
        to[i] = from[(i + 64) % (64 * gridDim.x)] + 1; {fence} }}"""
    program, memory, arrays = program_of(ptx_of(text)), Memory(), (FIRST_TENSOR_ID, FIRST_TENSOR_ID + 1)
    for number in arrays:
        memory.add(Buffer(number, "a", 4096), np.zeros(1024, np.int32))
    launcher, kernel = Launcher(memory, 1), program.kernel(next(iter(program.kernel_addresses)), shape_of((64, 1, 1)))
    for to, source in (arrays, arrays[::-1], arrays, arrays[::-1]):
        args = address(to).to_bytes(8, "little") + address(source).to_bytes(8, "little")
        assert launcher.launch(kernel, (16, 1, 1), (64, 1, 1), 0, args, 10**6, 20.0).hazards == []
    same = address(arrays[0]).to_bytes(8, "little") * 2
    assert launcher.launch(kernel, (16, 1, 1), (64, 1, 1), 0, same, 10**6, 20.0).hazards
    assert memory.regions[arrays[0]].data.view(np.int32)[100] >= 4


def test_tags_start_afresh_before_they_run_out() -> None:
    shadows, view = BlockShadows(), BlockShadow()
    shadows.begin([(1, 64, view)], 4, False, 1000)
    assert shadows.base == 0
    shadows.begin([(1, 64, view)], 4, False, 1 << 30)
    assert shadows.base == 2 * 1001
    first = view.wtag
    shadows.begin([(1, 64, view)], 4, False, 1 << 30)
    assert shadows.base == 0
    assert view.wtag
    assert first
    shadows.begin([(1, 64, view)], 4, False, 1 << 31)  # more blocks than there are tags: no search
    assert view.wtag == 0


def test_buffers_that_are_too_large_are_not_searched() -> None:
    shadows, large, small = BlockShadows(), BlockShadow(), BlockShadow()
    shadows.begin([(1, MAX_BYTES, large), (2, 400, small)], 4, True, 10)
    assert (large.wtag, large.others) == (0, 0)
    assert small.wtag
    assert small.others


def test_the_message_says_who_and_where() -> None:
    (finding,) = _run(RACES["rows that overlap"][0]).findings
    assert finding.message == (
        "Race on a0[48] between blocks: thread (0, 0, 0) of block (1, 0, 0) writes it here while thread (48, 0, 0) of "
        "block (0, 0, 0) wrote it at line 6, in the same launch and with nothing to order the two: give each block "
        "elements of its own, or add up with atomicAdd()."
    )
