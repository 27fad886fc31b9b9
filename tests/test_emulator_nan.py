"""NaNs of type f32: what is computed has the cards' one pattern wherever it can be seen, what is moved keeps its own."""

from __future__ import annotations

import numpy as np
import pytest

from tests.emulator_kit import run

pytestmark = pytest.mark.usefixtures("quick_compiler")

COMPUTED = 0x7FFFFFFF
PAYLOAD = 0xFFA12345  # a signalling NaN of our own

KERNEL = """__global__ void k(const float* in, float* out, unsigned* bits, double* pairs, int n) {
    int t = threadIdx.x; float x = in[t], y = in[t ^ 1]; __shared__ float s[32];
    float sum = x + y;                                             // inf - inf, or a NaN of the input
    out[t] = x;                                                    // only moved
    out[32 + t] = sum;
    out[64 + t] = t < 16 ? x : sum;                                // moved or computed
    out[96 + t] = __shfl_xor_sync(0xffffffffu, t & 1 ? sum : x, 1);
    out[128 + t] = __shfl_down_sync(0xffffffffu, sum, 3);
    s[t] = sum; __syncthreads(); out[160 + t] = s[31 - t];
    float acc = -INFINITY; for (int i = 0; i < n; ++i) acc = acc + in[t + i & 31]; out[192 + t] = acc;
    float last = x; for (int i = 0; i < n; ++i) { if ((t + i) % 5 == 0) last = last * y; } out[224 + t] = last;
    bits[t] = __float_as_uint(sum); bits[32 + t] = __float_as_uint(x) ^ 1u; bits[64 + t] = __float_as_uint(sqrtf(-fabsf(x)) + sum) >> 3;
    pairs[t] = __hiloint2double(__float_as_int(sum), __float_as_int(x)); }"""


@pytest.mark.parametrize("level", ["mid", "full"])
def test_computed_nans_are_canonical_and_moved_ones_are_kept(level: str) -> None:
    words = np.full(32, 0x3F800000, np.uint32)
    words[[0, 1]] = 0x7F800000, 0xFF800000
    words[[4, 9, 18, 27]] = PAYLOAD, 0x7FC00000, 0xFFC00001, PAYLOAD
    x = words.view(np.float32)
    n = 3
    ran = run(KERNEL, [words.copy(), np.zeros(256, np.uint32), np.zeros(96, np.uint32), np.zeros(32, np.float64), n], level=level)
    assert ran.findings == []

    def computed(values: np.ndarray) -> np.ndarray:
        return np.where(np.isnan(values), np.uint32(COMPUTED), values.astype(np.float32).view(np.uint32))

    t = np.arange(32)
    with np.errstate(all="ignore"):
        total = x + x[t ^ 1]
        sums = computed(total)
        acc = np.full(32, -np.inf, np.float32)
        last, changed = x.copy(), np.zeros(32, bool)
        for i in range(n):
            acc = acc + x[(t + i) & 31]
            now = (t + i) % 5 == 0
            last, changed = np.where(now, last * x[t ^ 1], last), changed | now
        roots = np.sqrt(-np.abs(x)) + total
    out, bits = ran.arrays[1].reshape(8, 32), ran.arrays[2].reshape(3, 32)
    np.testing.assert_array_equal(out[0], words)
    np.testing.assert_array_equal(out[1], sums)
    np.testing.assert_array_equal(out[2], np.where(t < 16, words, sums))
    np.testing.assert_array_equal(out[3], np.where(t & 1, sums, words)[t ^ 1])
    np.testing.assert_array_equal(out[4], np.where(t < 29, sums[(t + 3) & 31], sums))
    np.testing.assert_array_equal(out[5], sums[::-1])
    np.testing.assert_array_equal(out[6], computed(acc))
    np.testing.assert_array_equal(out[7], np.where(changed, computed(last), words))
    np.testing.assert_array_equal(bits[0], sums)
    np.testing.assert_array_equal(bits[1], words ^ 1)
    np.testing.assert_array_equal(bits[2], computed(roots) >> 3)
    np.testing.assert_array_equal(ran.arrays[3].view(np.uint32).reshape(32, 2), np.stack([words, sums], 1))


def test_a_computed_nan_becomes_the_widened_canonical_one_and_a_moved_one_keeps_its_payload() -> None:
    text = """__global__ void k(const float* in, double* out) {
        int t = threadIdx.x; float x = in[t], sum = __fadd_rn(x, 1.0f); out[2 * t] = (double)x; out[2 * t + 1] = (double)sum; }"""
    words = np.full(32, 0x3F800000, np.uint32)
    words[3], words[8] = 0x7FC12345, 0xFFC00000
    out = run(text, [words, np.zeros(64, np.uint64)]).arrays[1].reshape(32, 2)
    assert [hex(v) for v in out[3]] == ["0x7ff82468a0000000", "0x7fffffffe0000000"]
    assert [hex(v) for v in out[8]] == ["0xfff8000000000000", "0x7fffffffe0000000"]
    assert [hex(v) for v in out[0]] == ["0x3ff0000000000000", "0x4000000000000000"]
