"""Shared memory by scattered addresses: what each of the ways to settle it finds, and lets pass."""

from __future__ import annotations

import numpy as np
import pytest

from harness.verdict import FindingKind as K
from tests.emulator_kit import run

pytestmark = pytest.mark.usefixtures("quick_compiler")

THREADS = 128
LINE = 5  # of the first statement
# The second one makes the emulator keep vector clocks.
BARRIERS = {"whole block": "__syncthreads();", "named": 'asm volatile("bar.sync 1, 128;" ::: "memory");'}
# Reads by a warp of one word, of two, of 32 in any order, and of 16 bytes a lane.
READS = {
    "one word": "s[3 + (in[t] & 0)]",
    "two words": "s[t & 16 ? 7 : 3]",
    "words in any order": "s[(t * 7 + 3) & 127]",
    "short rows": "((int2*)s)[(t * 5) & 63].x",
    "rows": "((int4*)s)[(t * 5) & 31].w",
    "rows of halves": "((short4*)s)[(t * 5) & 31].y",
}


def _run(body: str, barrier: str, shared: str = "__shared__ __align__(16) int s[1024];"):  # type: ignore[no-untyped-def]
    head = f"__global__ void k(const int* in, int* out) {{ int t = threadIdx.x, w = t / 32; {shared}\n"
    text = head + body.replace("BARRIER", BARRIERS[barrier]) + "\n}"
    return run(text, [np.arange(1024, dtype=np.int32), np.zeros(THREADS, np.int32)], block=THREADS, read_only=(0,))


def _only(ran, later: int, first: int) -> None:  # type: ignore[no-untyped-def]
    assert {f.kind for f in ran.findings} == {K.DATA_RACE}, ran.findings
    pairs = {(f.line - LINE, f.other.line - LINE) for f in ran.findings}
    assert (later, first) in pairs and pairs <= {(later, first), (first, later)}, ran.findings


@pytest.mark.parametrize("barrier", BARRIERS)
@pytest.mark.parametrize("read", READS)
def test_a_word_overwritten_too_early(read: str, barrier: str) -> None:
    body = f"for (int i = t; i < 1024; i += 128) s[i] = i; BARRIER\nint v = {READS[read]};\nif (w == 3)\ns[t - 96] = v;\nout[t] = v;"
    _only(_run(body, barrier), 3, 1)


@pytest.mark.parametrize("barrier", BARRIERS)
@pytest.mark.parametrize("read", READS)
def test_a_word_read_too_early(read: str, barrier: str) -> None:
    body = f"for (int i = t; i < 1024; i += 128) s[i] = i; BARRIER\nif (w == 0) s[t] = in[t] + 1;\nif (w == 1)\nout[t] = {READS[read]};"
    _only(_run(body, barrier), 3, 1)


@pytest.mark.parametrize("barrier", BARRIERS)
@pytest.mark.parametrize("read", [r for r in READS if r != "one word"])
def test_lanes_of_one_warp(read: str, barrier: str) -> None:
    """A warp whose lanes overwrite what other lanes have read, without __syncwarp() and with it."""
    body = f"""for (int i = t; i < 1024; i += 128) s[i] = i; BARRIER int v = 0;
if (w == 0) v = {READS[read]};
SYNC if (w == 0)
s[t] = v;
out[t] = v;"""
    _only(_run(body.replace("SYNC", ""), barrier), 3, 1)
    assert _run(body.replace("SYNC", "__syncwarp();"), barrier).findings == []


@pytest.mark.parametrize("barrier", BARRIERS)
@pytest.mark.parametrize("read", READS)
def test_barriers_on_both_sides(read: str, barrier: str) -> None:
    """Values, and no alarm; a lane may read its words again and again."""
    body = f"""for (int i = t; i < 1024; i += 128) s[i] = i; BARRIER
int v = 0; for (int turn = 0; turn < 3; ++turn) {{ v += {READS[read]}; v += {READS[read]}; BARRIER s[(t * 3) & 127] += 1; BARRIER }} out[t] = v;"""
    ran = _run(body, barrier)
    assert ran.findings == []
    s, t, total = np.arange(1024, dtype=np.int32), np.arange(THREADS), np.zeros(THREADS, int)
    for _ in range(3):
        total += 2 * _expected(read, s, t)
        s[:128] += 1
    assert ran.arrays[1].tolist() == total.tolist()


def _expected(read: str, s: np.ndarray, t: np.ndarray) -> np.ndarray:
    index = {"one word": 3 + 0 * t, "two words": np.where(t & 16, 7, 3), "words in any order": (t * 7 + 3) & 127,
             "short rows": 2 * ((t * 5) & 63), "rows": 4 * ((t * 5) & 31) + 3}  # fmt: skip
    halves = s.view(np.int16)[4 * ((t * 5) & 31) + 1]
    found: np.ndarray = s[index[read]] if read in index else halves.astype(int)
    return found


@pytest.mark.parametrize("barrier", BARRIERS)
@pytest.mark.parametrize("words", ["int2", "int4"])
def test_rows_are_written(words: str, barrier: str) -> None:
    """Rows written in any order: too early for other warps, for another lane's overlapping row, and in time."""
    fill = f"(({words}*)s)[(t * 5) & 127].x = t; (({words}*)s)[(t * 5) & 127].y = t;"
    n = {"int2": 2, "int4": 4}[words]
    store = f"(({words}*)s)[(t * 5) & 127] = make_{words}({', '.join(['t'] * n)});"
    read = f"out[t] = s[{n} * t + 1];"
    _only(_run(f"BARRIER\n{store}\n{read}", barrier), 2, 1)
    ran = _run(f"{store} BARRIER {read}", barrier)
    assert ran.findings == []
    assert all(ran.arrays[1][(5 * t) & 127] == t for t in range(THREADS))
    _only(_run(f"{fill} BARRIER\nint v = s[{n} * t];\n{store}\nout[t] = v;", barrier), 2, 1)


@pytest.mark.parametrize("barrier", BARRIERS)
def test_words_that_nobody_wrote(barrier: str) -> None:
    for read in READS.values():
        ran = _run(f"BARRIER if (t == 64) s[in[600]] = 1; BARRIER\nout[t] = {read};", barrier)
        assert {f.kind for f in ran.findings} == {K.UNINITIALIZED_READ}, ran.findings
