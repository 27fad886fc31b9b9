"""What lanes of a warp do together: shuffles, votes, matches, reductions, their masks, and blocks of odd shapes."""

from __future__ import annotations

import numpy as np
import pytest

from harness.verdict import FindingKind as K
from tests.emulator_kit import run

pytestmark = pytest.mark.usefixtures("quick_compiler")

T = np.arange(32)
FIRST_LINE = 4  # of a kernel text: three #include lines stand before it


def _shuffled(mode: str, lane: int, value: int, width: int) -> int:
    """Source lane, as the CUDA programming guide says it; the own lane where that is outside of the segment."""
    low, high = lane // width * width, lane // width * width + width - 1
    source = {
        "idx": low + value % width,
        "up": lane - value if lane - value >= low else lane,
        "down": lane + value if lane + value <= high else lane,
        "xor": lane ^ value if lane ^ value <= high else lane,
    }[mode]
    return source


NAMES = {"idx": "__shfl_sync", "up": "__shfl_up_sync", "down": "__shfl_down_sync", "xor": "__shfl_xor_sync"}
SHUFFLES = [(mode, value, width) for mode in NAMES for value in (0, 1, 5, 16, 31) for width in (32, 16, 8, 2) if mode == "idx" or value < width]


def test_shuffles_by_constants() -> None:
    body = "".join(f"out[{32 * k} + t] = {NAMES[m]}(~0u, in[t], {v}, {w});\n" for k, (m, v, w) in enumerate(SHUFFLES))
    source = np.arange(100, 132, dtype=np.int32)
    ran = run(f"__global__ void k(const int* in, int* out) {{ int t = threadIdx.x; {body} }}", [source, np.zeros(32 * len(SHUFFLES), np.int32)])
    assert ran.findings == []
    for k, (m, v, w) in enumerate(SHUFFLES):
        np.testing.assert_array_equal(ran.arrays[1][32 * k : 32 * k + 32], [100 + _shuffled(m, t, v, w) for t in range(32)], err_msg=f"{m} {v} {w}")


@pytest.mark.parametrize("uniform", [True, False])
def test_shuffles_by_run_time_values(uniform: bool) -> None:
    """Lane, distance and width from memory: the same for all lanes, or another for each."""
    by = "by[0]" if uniform else "by[t]"
    widths = (32, 16, 4)
    body = "".join(f"out[{32 * (len(widths) * k + n)} + t] = {name}(~0u, t, {by}, {w});" for k, name in enumerate(NAMES.values()) for n, w in enumerate(widths))
    text = f"__global__ void k(const int* by, int* out) {{ int t = threadIdx.x; {body} }}"
    values = np.random.default_rng(1).integers(0, 4, 32).astype(np.int32)
    ran = run(text, [values, np.zeros(32 * 12, np.int32)])
    assert ran.findings == []
    for k, mode in enumerate(NAMES):
        for n, w in enumerate(widths):
            want = [_shuffled(mode, t, int(values[0 if uniform else t]), w) for t in range(32)]
            np.testing.assert_array_equal(ran.arrays[1][32 * (3 * k + n) :][:32], want, err_msg=f"{mode} {w}")


def test_shuffle_tells_whether_the_source_was_in_range() -> None:
    ran = run(
        """__global__ void k(int* out, int* ok) { int t = threadIdx.x, v, p;
        asm volatile("{ .reg .pred %p; shfl.sync.down.b32 %0|%p, %2, 3, 31, 0xffffffff; selp.b32 %1, 1, 0, %p; }" : "=r"(v), "=r"(p) : "r"(t * 10));
        out[t] = v; ok[t] = p; }""",
        [np.zeros(32, np.int32), np.zeros(32, np.int32)],
    )
    np.testing.assert_array_equal(ran.arrays[1], T + 3 < 32)
    np.testing.assert_array_equal(ran.arrays[0], np.where(T + 3 < 32, T + 3, T) * 10)


def test_shuffles_of_doubles_and_long_long() -> None:
    ran = run(
        "__global__ void k(double* d, long long* l) { int t = threadIdx.x; d[t] = __shfl_xor_sync(~0u, d[t], 3); l[t] = __shfl_sync(~0u, l[t], 31 - t); }",
        [T / 3, T.astype(np.int64) << 40],
    )
    np.testing.assert_array_equal(ran.arrays[0], (T ^ 3) / 3)
    np.testing.assert_array_equal(ran.arrays[1], (31 - T) << 40)


VOTES = """__global__ void k(const int* in, unsigned* out) {
    int t = threadIdx.x, v = in[t], agreed;
    out[t] = __ballot_sync(~0u, v > 3);
    out[32 + t] = __any_sync(~0u, v == 9) + 2 * __all_sync(~0u, v < 10) + 4 * __any_sync(~0u, v > 9) + 8 * __all_sync(~0u, v > 3);
    out[64 + t] = __match_any_sync(~0u, v);
    out[96 + t] = __match_all_sync(~0u, v, &agreed) + agreed;
    out[128 + t] = __match_all_sync(~0u, v * 0 + 7, &agreed) + agreed;
    out[160 + t] = __match_any_sync(~0u, (long long)v << 35);
    out[192 + t] = __reduce_add_sync(~0u, v) + __reduce_min_sync(~0u, v) * 1000 + __reduce_max_sync(~0u, (unsigned)v) * 100000;
    out[224 + t] = __reduce_and_sync(~0u, v | 16) + 256 * __reduce_or_sync(~0u, v) + 65536 * __reduce_xor_sync(~0u, v);
    out[256 + t] = __activemask();
    if (t % 3 == 0) {
        out[288 + t] = __ballot_sync(0x49249249, v > 3);
        out[320 + t] = __match_any_sync(0x49249249, v) + __reduce_add_sync(0x49249249, v) * 0;
        out[352 + t] = __reduce_add_sync(0x49249249, v);
        out[384 + t] = __shfl_sync(0x49249249, v, 9) + __all_sync(0x49249249, v < 10);
    }
}"""


def _bits(flags: np.ndarray) -> int:
    return sum(1 << int(k) for k in np.flatnonzero(flags))


def test_votes_matches_and_reductions() -> None:
    v = np.random.default_rng(2).integers(0, 10, 32).astype(np.int32)
    v[4] = 9
    out = run(VOTES, [v, np.zeros(416, np.uint32)]).arrays[1].reshape(13, 32).astype(np.int64)
    matches = [_bits(v == x) for x in v]
    np.testing.assert_array_equal(out[0], _bits(v > 3))
    np.testing.assert_array_equal(out[1], 3 + 8 * (v > 3).all())
    np.testing.assert_array_equal(out[2], matches)
    np.testing.assert_array_equal(out[3], 0)
    np.testing.assert_array_equal(out[4], 0)  # all ones + 1
    np.testing.assert_array_equal(out[5], matches)
    np.testing.assert_array_equal(out[6], v.sum() + 1000 * v.min() + 100000 * v.max())
    np.testing.assert_array_equal(out[7], np.bitwise_and.reduce(v | 16) + 256 * np.bitwise_or.reduce(v) + 65536 * np.bitwise_xor.reduce(v))
    np.testing.assert_array_equal(out[8], 0xFFFFFFFF)
    third = T % 3 == 0
    np.testing.assert_array_equal(out[9][third], _bits((v > 3) & third))
    np.testing.assert_array_equal(out[10][third], [_bits((v == x) & third) for x in v[third]])
    np.testing.assert_array_equal(out[11][third], v[third].sum())
    np.testing.assert_array_equal(out[12][third], v[9] + 1)
    assert not out[9:, ~third].any()


SPECIALS = """__global__ void k(unsigned* out) {
    int t = threadIdx.x; unsigned v;
    #define READ(n, name) asm volatile("mov.u32 %0, " name ";" : "=r"(v)); out[n * 32 + t] = v;
    READ(0, "%laneid") READ(1, "%lanemask_eq") READ(2, "%lanemask_lt") READ(3, "%lanemask_le") READ(4, "%lanemask_gt") READ(5, "%lanemask_ge")
    READ(6, "%warpid") READ(7, "%nwarpid")
    unsigned leader;
    asm volatile("{ .reg .pred %p; elect.sync %0|%p, 0xffffffff; selp.u32 %1, 1, 0, %p; }" : "=r"(v), "=r"(leader));
    out[8 * 32 + t] = v + 100 * leader + warpSize * 1000;
}"""


def test_special_registers_and_elect() -> None:
    out = run(SPECIALS, [np.zeros(288, np.uint32)]).arrays[0].reshape(9, 32).astype(np.int64)
    one = 1 << T.astype(np.int64)
    np.testing.assert_array_equal(out[:8], [T, one, one - 1, 2 * one - 1, 0xFFFFFFFF - (2 * one - 1), 0x100000000 - one, 0 * T, 0 * T + 1])
    np.testing.assert_array_equal(out[8], 32000 + 100 * (T == 0))


BAD = {
    "a lane that is not there": "if (t < 16) out[t] = __shfl_sync(0xffffffff, t, 0);",
    "a caller that is not named": "out[t] = __shfl_sync(0x0000ffff, t, 0);",
    "a source that is not running": "if (t < 16) out[t] = __shfl_sync(0x0000ffff, t, 20);",
    "a varying source that is not running": "if (t < 16) out[t] = __shfl_sync(0x0000ffff, t, t + in[0]);",
    "a vote": "if (t & 1) out[t] = __ballot_sync(0xffffffff, t);",
    "a reduction": "if (t & 1) out[t] = __reduce_add_sync(0xffffffff, t);",
    "a match": "if (t & 1) out[t] = __match_any_sync(0xffffffff, t);",
    "syncwarp": "if (t & 1) __syncwarp();",
    "tiles that overlap": "out[t] = __shfl_xor_sync(t < 12 ? 0xffffu : 0xffff0000u, t, 1);",
    "a source in another tile": "out[t] = __shfl_xor_sync(0xffffu << (t & 16), t, 16);",
    "masks that differ": "out[t] = __shfl_sync(t < 16 ? 0xffff : 0xffffffff, t, 0);",
    "lanes that have returned": "if (t > 20) return; \n out[t] = __any_sync(0xffffffff, t);",
    "lanes that left the loop": "for (int i = 0; i < t; ++i) \n out[t] += __shfl_xor_sync(0xffffffff, t, 1);",
}


@pytest.mark.parametrize("name", BAD)
def test_invalid_masks_are_found_on_their_line(name: str) -> None:
    text = f"__global__ void k(const int* in, int* out) {{\n int t = threadIdx.x;\n {BAD[name]}\n}}"
    ran = run(text, [np.full(1, 8, np.int32), np.zeros(32, np.int32)])
    assert [f.kind for f in ran.findings] == [K.INVALID_SHUFFLE]
    assert ran.findings[0].line == FIRST_LINE + 2 + BAD[name].count("\n")


GOOD = {
    "activemask": "if (t & 1) out[t] = __shfl_sync(__activemask(), t, 3);",
    "ballot mask": "unsigned m = __ballot_sync(~0u, t > 11); if (t > 11) out[t] = __reduce_add_sync(m, 1);",
    "groups of 8": "unsigned m = 255u << (t & 24); out[t] = __shfl_xor_sync(m, t, 4, 8);",
    "halves": "if (t < 16) out[t] = __shfl_down_sync(0x0000ffff, t, 1, 16); else out[t] = __shfl_down_sync(0xffff0000, t, 1, 16);",
    "match groups": "unsigned m = __match_any_sync(~0u, t % 5); out[t] = __popc(m);",
}


@pytest.mark.parametrize("name", GOOD)
def test_masks_that_name_who_is_there_are_fine(name: str) -> None:
    text = f"__global__ void k(int* out) {{ int t = threadIdx.x; {GOOD[name]} }}"
    assert run(text, [np.zeros(32, np.int32)]).findings == []


TILES = """__global__ void k(const int* in, unsigned* out) {
    int t = threadIdx.x, v = in[t], agreed;
    unsigned m = 0xffu << (t & 24);
    out[t] = __shfl_sync(m, v, t + 3, 8);
    out[32 + t] = __ballot_sync(m, v > 4) + (__any_sync(m, v > 8) << 1) + __all_sync(m, v > 0);
    out[64 + t] = __reduce_add_sync(m, v);
    out[96 + t] = __match_any_sync(m, v);
    out[128 + t] = __match_all_sync(m, v * 0 + (t >> 3), &agreed);
    __syncwarp(m);
    out[160 + t] = __reduce_max_sync(m, v) - __reduce_min_sync(m, v);
}"""


def test_tiles_with_masks_of_their_own() -> None:
    """One instruction run by four groups of eight lanes, each with its own mask."""
    v = np.random.default_rng(4).integers(0, 10, 32).astype(np.int32)
    ran = run(TILES, [v, np.zeros(192, np.uint32)])
    assert ran.findings == []
    out = ran.arrays[1].reshape(6, 32).astype(np.int64)
    tile, group = v.reshape(4, 8), 0xFF << (T & 24).astype(np.int64)
    each = lambda values: np.repeat(values, 8)  # noqa: E731
    np.testing.assert_array_equal(out[0], v[(T & 24) | (T + 3 & 7)])
    np.testing.assert_array_equal(out[1], (_bits(v > 4) & group) + 2 * each((tile > 8).any(1)) + each((tile > 0).all(1)))
    np.testing.assert_array_equal(out[2], each(tile.sum(1)))
    np.testing.assert_array_equal(out[3], [_bits((v == v[t]) & (t // 8 == T // 8)) for t in T])
    np.testing.assert_array_equal(out[4], group)
    np.testing.assert_array_equal(out[5], each(tile.max(1) - tile.min(1)))


@pytest.mark.parametrize("threads", [1, 7, 31, 33, 50, 95])
def test_blocks_that_are_no_multiple_of_a_warp(threads: int) -> None:
    """Absent lanes take no part: a full mask is allowed, ballots have no bits of theirs."""
    text = """__global__ void k(int* out, unsigned* votes) {
        int t = threadIdx.x, sum = 1;
        for (int d = 16; d; d /= 2) { int other = __shfl_down_sync(0xffffffff, sum, d); if ((t & 31) + d < 32 && t + d < blockDim.x) sum += other; }
        votes[t] = __ballot_sync(0xffffffff, 1); __syncwarp(); out[t] = sum;
    }"""
    ran = run(text, [np.zeros(threads, np.int32), np.zeros(threads, np.uint32)], block=threads)
    kinds = [f.kind for f in ran.findings]
    assert kinds in ([], [K.INVALID_SHUFFLE])  # reading an absent lane's value is undefined, and said
    if not kinds:
        for w in range(0, threads, 32):
            count = min(32, threads - w)
            assert ran.arrays[0][w] == count
            assert (ran.arrays[1][w : w + count] == (1 << count) - 1).all()


def _where(block: tuple[int, int, int]) -> np.ndarray:
    x, y, z = np.meshgrid(*(np.arange(n) for n in block), indexing="ij")
    order = np.argsort((x + block[0] * (y + block[1] * z)).ravel())
    return np.stack([x.ravel(), y.ravel(), z.ravel()])[:, order]


@pytest.mark.parametrize("block", [(16, 4, 1), (8, 8, 2), (5, 3, 4), (32, 2, 2), (64, 2, 1), (1, 1, 64), (3, 7, 5), (1, 32, 1), (96, 1, 2)])
def test_blocks_of_two_and_three_dimensions(block: tuple[int, int, int]) -> None:
    """Warps are 32 consecutive threads, x first, whatever the rows; conditions on y and z may part a warp."""
    text = """__global__ void k(int* out) {
        int n = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z), v = 0;
        if (threadIdx.y & 1) v = 1000 + threadIdx.z; else v = threadIdx.x * 7;
        for (int i = 0; i < threadIdx.z; ++i) v += i;
        out[n] = v * 100 + (__ballot_sync(0xffffffff, threadIdx.y & 1) >> (n & 31) & 1);
    }"""
    x, y, z = _where(block)
    ran = run(text, [np.zeros(x.size, np.int32)], block=block)
    assert ran.findings == []
    np.testing.assert_array_equal(ran.arrays[0], (np.where(y & 1, 1000 + z, x * 7) + z * (z - 1) // 2) * 100 + (y & 1))



def test_grids_of_three_dimensions() -> None:
    text = """__global__ void k(int* out) {
        int b = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
        out[b * 32 + threadIdx.x] = blockIdx.x + 10 * blockIdx.y + 100 * blockIdx.z + 1000 * gridDim.z;
    }"""
    ran = run(text, [np.zeros(32 * 24, np.int32)], grid=(4, 3, 2), threads=2)
    x, y, z = _where((4, 3, 2))
    np.testing.assert_array_equal(ran.arrays[0].reshape(24, 32), np.repeat((x + 10 * y + 100 * z + 2000)[:, None], 32, 1))
