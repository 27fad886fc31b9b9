"""Variables that are used before they were given a value: which uses are found, and which are none.

JUDGE_FUZZ=<first>:<last> runs other random kernels than the usual ones.
"""

from __future__ import annotations

import os
import re

import numpy as np
import pytest

from harness.emulator import worker
from harness.emulator.errors import UnsupportedPtx
from harness.emulator.inline import flatten
from harness.emulator.ptx import parse
from harness.results import Finding
from harness.verdict import FindingKind as K
from tests.emulator_kit import ptx_of, run
from tests.random_kernels import expect, module, program

pytestmark = pytest.mark.usefixtures("quick_compiler")

LINE = 5  # of the first statement
WORDS = {"used": "used before", "address": "used as an address", "condition": "used as a condition"}


def _run(body: str, n: int, level: str = "mid", blocks: int = 1, threads: int = 32) -> list[Finding]:
    """Findings of a kernel on 128 floats `a`, all 3, and n."""
    text = f"__global__ void k(float* a, int n) {{ const int t = threadIdx.x;\n{body}\n}}"
    return run(text, [np.full(128, 3, np.float32), n], blocks, threads, level=level).findings


# body, n, the line that uses it, the first thread
FOUND = {
    "one arm of an if": ("float x; if (t < n) x = a[t + 32];\na[t] = x;", 5, 1, 5),
    "a sum that starts nowhere": ("float s; for (int i = 0; i < n; ++i) s += a[i];\na[t] = s;", 4, 1, 0),
    "a loop of no turns": ("float x; for (int i = 0; i < n; ++i) x = a[i];\na[t] = x;", 0, 1, 0),
    "a maximum that starts nowhere": ("float m; for (int i = 0; i < n; ++i) m = fmaxf(m, a[i]);\na[t] = m;", 4, 1, 0),
    "a switch without default": ("float x; switch (n) { case 0: x = a[33]; break; case 1: x = a[34]; break; case 2: x = a[40]; }\na[t] = x;", 7, 1, 0),
    "loaded into shared memory": ("__shared__ float s[32]; float x; if (t < n) x = a[t + 32];\ns[t] = x;\n__syncthreads(); a[t] = s[31 - t];", 9, 1, 9),
    "across a barrier": ("float x; if (t < n) x = a[t + 32];\n__syncthreads(); a[t + 32] = 1; __syncthreads();\na[t] = x;", 5, 2, 5),
    "given by a shuffle": ("float x; if (t < n) x = a[t + 32];\nx += __shfl_xor_sync(~0u, x, 16);\na[t] = x;", 16, 2, 0),
    "an index": ("int best; float m = 5; for (int i = t; i < n; i += 32) if (a[i] > m) { m = a[i]; best = i; }\na[t] = best;", 30, 1, 0),
    "an atomic": ("float x; if (t < n) x = a[t + 32];\natomicAdd(a, x);", 5, 1, 5),
    "lanes that left a loop early": ("float x; for (int i = 0; i < 9; ++i) { if (i + t > n) break; x = a[i]; }\na[t] = x;", 5, 1, 6),
    "called": ("struct F { static __device__ __noinline__ float f(float x, float y) { return x * y; } };\nfloat x; if (t < n) x = a[t + 32];\nx = F::f(x, 2);\na[t] = x;", 5, 3, 5),
}  # fmt: skip


@pytest.mark.parametrize("level", ["mid", "full"])
@pytest.mark.parametrize("name", FOUND)
def test_what_is_found(name: str, level: str) -> None:
    body, n, line, thread = FOUND[name]
    (finding,) = _run(body, n, level)
    assert finding.kind is K.UNINITIALIZED_READ
    assert (finding.line - LINE, finding.thread) == (line, (thread, 0, 0))
    assert finding.message == "A variable is used before it was given a value on this path."


@pytest.mark.parametrize("level", ["mid", "full"])
@pytest.mark.parametrize("name", [n for n, (_, count, _, _) in FOUND.items() if count > 0 and "nowhere" not in n and "default" not in n])
def test_the_same_with_a_value_for_everyone(name: str, level: str) -> None:
    assert _run(re.sub(r"a\[i\] > m", "a[i] < m", FOUND[name][0]), 40, level) == []


CLEAN = {
    "read under the same condition": "float x; if (t < n) x = a[t] * 2;\n__syncthreads(); if (t < n) a[t] = x;",
    "chosen under the same condition": "float x; if (t < n) x = a[t] * 2;\nfloat y = t < n ? x + 1 : 0; a[t] = y;",
    "a flag says so": "float last; bool have = false;\nfor (int i = 0; i < n; ++i) { float v = a[i + t]; if (have && last > v) a[t] += 1; if (v > -1) { last = v * 2; have = true; } }",
    "the first turn writes": "float last; for (int i = 0; i < n; ++i) { if (i) a[t] += last; last = a[i + 32]; }",
    "a condition that a loop repeats": "float x; if (n > 0) x = a[40];\nfor (int i = 0; i < n; ++i) { if (x > 0) a[t] += a[i + 1]; else a[t] *= 3; }",
    "fetched ahead": "float next[4]; if (n > 0) for (int j = 0; j < 4; ++j) next[j] = a[j + 32];\nfor (int i = 0; i < n; ++i) { float now[4]; for (int j = 0; j < 4; ++j) now[j] = next[j]; if (i + 1 < n) for (int j = 0; j < 4; ++j) next[j] = a[(i + j & 31) + 32]; for (int j = 0; j < 4; ++j) a[t] += now[j]; }",
    "a part of a vector": "float4 r; r.x = t; r.y = a[60]; if (n > 3) r.z = a[61]; r.w = 0; __syncthreads(); ((float4*)a)[t & 7] = r;",
    "bits of a word": "struct { unsigned a : 4, b : 4, c : 24; } s; s.a = n; if (n & 1) s.b = 3; s.c = 2; a[t] = s.a + s.c;",
    "lanes that returned": "float x; if (t < n) x = a[t + 32]; if (t >= n) return; a[t] = x;",
    "shuffled but not looked at": "float x; if (t < 16) x = a[t + 32];\nfloat y = __shfl_down_sync(~0u, x, 8); if (t < 8) a[t] = y + x;",
    "a sum of those that have one": "float x; if (t < n) x = a[t + 32];\nunsigned m = __ballot_sync(~0u, t < n); float s = 0; for (int i = 0; i < 32; ++i) { float y = __shfl_sync(~0u, x, i); if (m >> i & 1) s += y; } a[t] = s;",
}  # fmt: skip


@pytest.mark.parametrize("level", ["mid", "full"])
@pytest.mark.parametrize("name", CLEAN)
def test_what_is_no_use(name: str, level: str) -> None:
    for n in (0, 1, 5, 32):
        assert _run(CLEAN[name], n, level) == []


def test_a_warp_that_yields_remembers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "FUEL_SLICE", 40)
    body = "float x; if (t % 32 < n) x = a[t];\nfor (int i = 0; i < 50; ++i) a[t] += i;\na[t] = x;"
    (finding,) = _run(body, 5, threads=128)
    assert (finding.line - LINE, finding.thread) == (2, (5, 0, 0))
    assert _run(body, 32, threads=128) == []


# -- single instructions: %r2 is defined in lanes 0 to 7 (where %p1 holds), %p2 is made from it

_PTX = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 a) {{
  .reg .pred %p<9>; .reg .b16 %rs<9>; .reg .b32 %r<19>; .reg .b64 %rd<9>; .reg .f32 %f<9>;
  .shared .align 4 .b8 s[128];
  .local .align 4 .b8 l[128];
  ld.param.u64 %rd1, [a]; cvta.to.global.u64 %rd2, %rd1;
  mov.u32 %r1, {lane}; mul.wide.u32 %rd3, %r1, 4; add.s64 %rd4, %rd2, %rd3;
  setp.lt.u32 %p1, %r1, 8; not.pred %p8, %p1;
  @%p1 mov.u32 %r2, 5;
  setp.lt.s32 %p2, %r2, 9;
  {body}
  ret;
}}
"""
_STORE = "st.global.u32 [%rd4], "
INSTRUCTIONS = {
    "stored": (_STORE + "%r2;", "used"),
    "copied": ("mov.b32 %r3, %r2;" + _STORE + "%r3;", "used"),
    "added": ("add.s32 %r3, %r1, %r2;" + _STORE + "%r3;", "used"),
    "added under its guard": ("@%p1 add.s32 %r3, %r1, %r2; @%p1 " + _STORE + "%r3;", ""),
    "stored under its guard": ("@%p1 " + _STORE + "%r2;", ""),
    "stored under the opposite guard": ("@!%p1 " + _STORE + "%r2;", "used"),
    "a guard": ("@%p2 " + _STORE + "%r1;", "condition"),
    "a guard of arithmetic": ("mov.u32 %r3, 1; @%p2 mov.u32 %r3, 2; " + _STORE + "%r3;", "used"),
    "a guarded load": ("@%p1 ld.global.u32 %r3, [%rd4]; " + _STORE + "%r3;", "used"),
    "a guarded load of all": ("mov.u32 %r3, %r2; @%p8 ld.global.u32 %r3, [%rd4]; " + _STORE + "%r3;", ""),
    "a branch": ("@%p2 bra YES; bra.uni ON; YES: " + _STORE + "%r1; ON:", "condition"),
    "a table": ("brx.idx %r2, T; T: .branchtargets A, A, A, A, A, B; A: " + _STORE + "%r1; B:", "condition"),
    "an address of a load": ("mul.wide.s32 %rd5, %r2, 0; add.s64 %rd6, %rd4, %rd5; ld.global.u32 %r4, [%rd6];", "address"),
    "an address of a store": ("and.b32 %r3, %r2, %r2; cvt.s64.s32 %rd5, %r3; mul.lo.s64 %rd5, %rd5, 0; add.s64 %rd6, %rd4, %rd5; st.global.u32 [%rd6], 1;", "address"),
    "an address in shared memory": ("mul.lo.s32 %r3, %r2, 0; mov.u32 %r4, s; add.s32 %r4, %r4, %r3; st.shared.u32 [%r4], 0;", "address"),
    "a prefetch": ("cvt.s64.s32 %rd5, %r2; prefetch.global.L2 [%rd5];", ""),
    "selected where it has a value": ("selp.b32 %r3, %r2, 7, %p1;" + _STORE + "%r3;", ""),
    "selected where it has none": ("selp.b32 %r3, 7, %r2, %p1;" + _STORE + "%r3;", "used"),
    "selected by": ("selp.b32 %r3, 7, 8, %p2;" + _STORE + "%r3;", "used"),
    "a conjunction that is false": ("and.pred %p3, %p1, %p2; @%p3 " + _STORE + "%r1;", ""),
    "a conjunction that it decides": ("and.pred %p3, %p8, %p2; @%p3 " + _STORE + "%r1;", "condition"),
    "a disjunction that is true": ("or.pred %p3, %p2, %p8; @%p3 " + _STORE + "%r1;", ""),
    "a disjunction that it decides": ("or.pred %p3, %p2, %p1; @%p3 " + _STORE + "%r1;", "condition"),
    "an exclusive or": ("xor.pred %p3, %p2, %p1; @%p3 " + _STORE + "%r1;", "condition"),
    "its opposite": ("not.pred %p3, %p2; @%p3 " + _STORE + "%r1;", "condition"),
    "a comparison in a conjunction": ("setp.lt.and.s32 %p3, %r2, 9, %p1; @%p3 " + _STORE + "%r1;", ""),
    "a comparison in a disjunction": ("setp.lt.or.s32 %p3, %r2, 9, %p1; @%p3 " + _STORE + "%r1;", "condition"),
    "a comparison in a true disjunction": ("setp.lt.or.s32 %p3, %r2, 9, !%p1; @%p3 " + _STORE + "%r1;", ""),
    "bits that are cut out": ("and.b32 %r3, %r2, 255; or.b32 %r4, %r3, 256;" + _STORE + "%r4;", ""),
    "bits that are cut out under a guard": ("mov.u32 %r3, 1; @%p8 and.b32 %r3, %r2, 255;" + _STORE + "%r3;", ""),
    "a pair, half of it": ("cvt.u16.u32 %rs1, %r2; mov.b32 %r3, {%rs1, %rs2}; mov.u16 %rs3, 1; mov.b32 %r4, {%rs3, %rs1};" + _STORE + "%r4;", ""),
    "a pair": ("cvt.u16.u32 %rs1, %r2; mov.b32 %r3, {%rs1, %rs1}; mov.b32 {%rs3, %rs4}, %r3; cvt.u32.u16 %r4, %rs4;" + _STORE + "%r4;", "used"),
    "a pair of halves, one of them": ("cvt.rn.f32.s32 %f1, %r2; cvt.rn.f32.s32 %f2, %r1; cvt.rn.f16x2.f32 %r3, %f1, %f2;" + _STORE + "%r3;", ""),
    "a pair of halves": ("cvt.rn.f32.s32 %f1, %r2; cvt.rn.f16x2.f32 %r3, %f1, %f1;" + _STORE + "%r3;", "used"),
    "a vector, half of it": ("and.b32 %r3, %r1, 14; mul.wide.u32 %rd5, %r3, 4; add.s64 %rd6, %rd2, %rd5; st.global.v2.u32 [%rd6], {%r2, %r1};", ""),
    "a vector": ("and.b32 %r3, %r1, 14; mul.wide.u32 %rd5, %r3, 4; add.s64 %rd6, %rd2, %rd5; st.global.v2.u32 [%rd6], {%r2, %r2};", "used"),
    "an atomic": ("atom.global.add.u32 %r3, [%rd4], %r2;", "used"),
    "a reduction": ("red.global.add.u32 [%rd4], %r2;", "used"),
    "local memory": ("mov.u64 %rd5, l; st.local.u32 [%rd5], %r2;", ""),
    "a vote": ("vote.sync.ballot.b32 %r3, %p2, -1;" + _STORE + "%r3;", ""),
    "a barrier's vote": ("bar.red.popc.u32 %r3, 0, %p2;", "used"),
    "behind a barrier": ("bar.sync 0;" + _STORE + "%r2;", "used"),
    "written to shared memory": ("shl.b32 %r3, %r1, 2; mov.u32 %r4, s; add.s32 %r4, %r4, %r3; st.shared.u32 [%r4], %r2;", "used"),
    "put together, one part at a time": ("@%p8 mov.u32 %r3, 6; or.b32 %r4, %r2, %r3;" + _STORE + "%r4;", ""),
    "a value of the turn in which lanes left": (
        "mov.u32 %r5, 0; and.b32 %r6, %r1, 3; L: setp.eq.s32 %p3, %r5, 0; selp.b32 %r3, %r2, 7, %p3; setp.ge.u32 %p4, %r5, %r6; "
        "add.s32 %r5, %r5, 1; @%p4 bra OUT; bra.uni L; OUT: " + _STORE + "%r3;", "used"),
    "given back": ("@!%p1 mov.u32 %r2, 6;" + _STORE + "%r2;", ""),
}  # fmt: skip


@pytest.mark.parametrize("name", INSTRUCTIONS)
def test_instructions(name: str) -> None:
    body, use = INSTRUCTIONS[name]
    found = run(_PTX.format(lane="%tid.x", body=body), [np.zeros(64, np.uint32)]).findings
    assert [(f.kind, f.thread) for f in found] == ([(K.UNINITIALIZED_READ, (8, 0, 0))] if use else [])
    assert not use or WORDS[use] in found[0].message


@pytest.mark.parametrize("name", [n for n in INSTRUCTIONS if n != "a table"])
def test_values_that_a_whole_warp_shares(name: str) -> None:
    """The same with the block's number in the place of the lane's: blocks from 8 on are without a value."""
    body, use = INSTRUCTIONS[name]
    found = run(_PTX.format(lane="%ctaid.x", body=body), [np.zeros(64, np.uint32)], grid=16).findings
    found = [f for f in found if f.kind is not K.DATA_RACE]  # all blocks write to one place
    assert {(f.kind, f.block) for f in found} <= ({(K.UNINITIALIZED_READ, (8, 0, 0))} if use else set())
    assert bool(found) == bool(use)


@pytest.mark.parametrize("text", ["st.global.u32 [%rd4];", "mov.b32;", "and.b32 %r2;", "selp.b32 %r3, %r2;", "atom.add.u32;", "red;"])
def test_half_an_instruction_is_unsupported(text: str) -> None:
    with pytest.raises(UnsupportedPtx):
        run(_PTX.format(lane="%tid.x", body=text + _STORE + "%r2;"), [np.zeros(64, np.uint32)])


@pytest.mark.parametrize(
    ("mode", "lane", "guard", "found"),
    [
        ("bfly", 16, "%p1", 0),  # lanes 0 to 7 read lanes 16 to 23
        ("bfly", 1, "%p1", -1),
        ("down", 1, "%p1", 7),
        ("up", 8, "%p8", 16),  # lanes 8 to 15 read lanes 0 to 7
        ("idx", 3, "%p8", -1),  # all read lane 3
        ("idx", 9, "%p1", 0),
    ],
)
@pytest.mark.parametrize("known", [True, False])
def test_a_shuffle_passes_on_what_it_reads(mode: str, lane: int, guard: str, found: int, known: bool) -> None:
    clamp = 0 if mode == "up" else 31
    which = str(lane) if known else "%r5"
    body = f"ld.global.u32 %r5, [%rd2]; shfl.sync.{mode}.b32 %r3, %r2, {which}, {clamp}, -1; @{guard} {_STORE}%r3;"
    findings = run(_PTX.format(lane="%tid.x", body=body), [np.full(64, lane, np.uint32)]).findings
    assert [f.thread for f in findings] == ([(found, 0, 0)] if found >= 0 else [])


# -- random kernels that read a variable only once it has a value

FIRST, LAST = (int(n) for n in os.environ.get("JUDGE_FUZZ", "0:10").split(":"))
BATCH = 10
MOST_INSTRUCTIONS = 900
_FIRST_VALUES = ("in[at]", "(in[at] >> 3)", "t", "7u")
_DECLARED = "v0 = in[at], v1 = in[at] >> 3, v2 = t, v3 = 7,"
_FLAGS = " bool h0 = false, h1 = false, h2 = false, h3 = false;"


def _late(cuda: str) -> str:
    """The same kernel with variables that start without a value, and a flag beside each that says whether it has one:
    without, its first value stands in for it. What the optimiser does with that is what this test is about."""
    head, entry, body = cuda.partition('extern "C" __global__')

    def read(text: str) -> str:
        return re.sub(r"\bv([0-3])\b", lambda m: f"(h{m[1]} ? @{m[1]} : {_FIRST_VALUES[int(m[1])]})", text)

    def statement(text: str) -> str:
        m = re.match(r"(\s*)v([0-3]) (\+?=) (.*);\s*$", text)
        if not m:
            return read(text)
        space, k, operator, value = m.groups()
        value = read(f"v{k} + ({value})" if operator == "+=" else value)
        return f"{space}{{ @{k} = {value}; h{k} = true; }}"

    lines = []
    for line in body.split("\n"):
        if _DECLARED in line:
            lines.append(line.replace(_DECLARED, "v0, v1, v2, v3,") + _FLAGS)
        else:
            lines.append(" ".join(statement(s) for s in (re.split(r"(?<=;)\s", line) if "__sync" in line else [line])))
    return head + entry + "\n".join(lines).replace("@", "v")


@pytest.mark.parametrize("level", ["mid", "full"])
@pytest.mark.parametrize("first", range(FIRST, LAST, BATCH))
def test_no_false_alarm_in_random_kernels(first: int, level: str) -> None:
    programs = [program(seed) for seed in range(first, first + BATCH)]
    source = "#define T 64\n" + "\n".join(_late(p.cuda) for p in programs)
    assert "h0 ?" in source and source != module(programs, 64)
    parsed = parse(ptx_of(source, level))
    for p in programs:
        if len(flatten(parsed, p.name).body) > MOST_INSTRUCTIONS:
            continue
        data = np.random.default_rng(first).integers(0, 8, 128, dtype=np.uint64).astype(np.uint32)
        ran = run(source, [data, np.zeros_like(data), 5, 3], 2, 64, kernel=p.name, level=level)
        assert ran.findings == []
        np.testing.assert_array_equal(ran.arrays[1], expect(p, data, 5, 3, 2, 64))
