"""The kernels that ceilings are measured with do what they are timed for, as far as the emulator knows their
instructions; those of warpgroups are checked on the card, tile by tile."""

from __future__ import annotations

import re

import numpy as np
import pytest

from harness.measure import tiles
from harness.measure.ceiling_bench import KERNELS
from tests.emulator_kit import run
from tests.fake_ceilings import encoded

PAIRS, STEPS = 8, 16


def source(name: str) -> str:
    def included(found: re.Match[str]) -> str:
        return (KERNELS / found[1]).read_text().replace("#pragma once", "")

    return re.sub(r'#include "(.*)"', included, (KERNELS / name).read_text())


def wide(value: int) -> tuple[int, int]:
    """A 64-bit parameter as two of 32 bits."""
    return value & 0xFFFFFFFF, value >> 32


def random_bits(counter: np.ndarray) -> np.ndarray:
    """splitmix64's finaliser, as the kernels have it."""
    x: np.ndarray = counter.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(0xD1B54A32D192ED03)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(x ^ (x >> np.uint64(31)))


def normal(counter: np.ndarray) -> np.ndarray:
    words = np.stack([random_bits(2 * counter), random_bits(2 * counter + 1)], -1)
    sums: np.ndarray = words.view(np.uint16).reshape(len(counter), 8).astype(np.int64).sum(-1) - 4 * 65535
    return np.asarray(sums.astype(np.float32) * np.float32(1 / 53510))


def bits(nbytes: int) -> np.ndarray:
    return np.random.default_rng(1).integers(0, 256, nbytes, dtype=np.uint8)


def test_copies_copy() -> None:
    data = bits(3 * 64 * 4 * 16)
    ran = run(source("ceilings.cu"), [data, np.zeros_like(data), *wide(data.size // 16)], 2, 64, kernel="copy")
    assert not ran.findings and (ran.arrays[1] == data).all()


def test_bulk_reads_stay_within_the_buffer_and_end() -> None:
    data = bits(17 * 16384)
    ran = run(source("ceilings.cu"), [data, np.zeros(4, np.uint8), *wide(17)], 2, 32, 6 * 16384, kernel="read_bulk")
    assert not ran.findings


def test_reads_read_everything() -> None:
    data = bits(3 * 64 * 8 * 16)
    ran = run(source("ceilings.cu"), [data, np.zeros(4, np.uint32), *wide(data.size // 16)], 2, 64, kernel="read")
    assert not ran.findings
    assert ran.arrays[1][0] == data.view(np.uint32).sum(dtype=np.uint32)


def test_multiply_adds_neither_grow_nor_settle() -> None:
    rounds, threads = 3, 64
    ran = run(source("ceilings.cu"), [np.zeros(threads, np.float32), rounds, 0, *wide(7)], 1, threads, kernel="multiply_add")
    thread = np.arange(threads)
    turn = 0.25 + (random_bits(7 + thread) >> np.uint64(40)).astype(np.float64) * 2.0**-25
    words = random_bits((7 + (thread[:, None] + 1) * PAIRS + np.arange(PAIRS)).ravel()).view(np.int32).reshape(-1, PAIRS, 2)
    u, v = words[..., 0] * 2.0**-31, words[..., 1] * 2.0**-31
    for _ in range(rounds * STEPS):
        u = u - turn[:, None] * v
        v = v + turn[:, None] * u
    assert not ran.findings
    np.testing.assert_allclose(ran.arrays[0], (u + v).sum(-1), atol=1e-4)
    assert np.abs(u).max() < 3 and np.abs(u).std() > 0.2


@pytest.mark.parametrize("unit", ["f16", "bf16", "tf32", "e4m3"])
def test_operands_are_normal(unit: str) -> None:
    per = 32 // tiles.BITS[unit]
    ran = run(source("ceilings.cu"), [np.zeros(2048, np.uint32), *wide(2048), *wide(5)], 4, 64, kernel=f"fill_{unit}")
    values = tiles.decoded(ran.arrays[0].view(np.uint8), unit)
    exact = normal(5 + np.arange(2048 * per))
    bits_kept = {"f16": 11, "bf16": 8, "tf32": 11, "e4m3": 4}[unit]
    np.testing.assert_allclose(values, exact, rtol=2.0**-bits_kept, atol=2.0**-10)
    assert abs(exact.mean()) < 0.1 and 0.9 < exact.std() < 1.1 and np.abs(exact).max() > 2.5


@pytest.mark.parametrize("unit", ["f16", "bf16", "tf32", "e4m3"])
def test_products_of_warps_are_those_of_numpy(unit: str) -> None:
    nbytes = 6 * 128 * 32
    raw = encoded(np.random.default_rng(2), 2 * nbytes, unit)
    a, b = (tiles.slabs(half, 128, unit).astype(np.float64) for half in np.split(raw, 2))
    ran = run(source("matrix.cu"), [raw, np.zeros(128 * 128, np.float32), 2], 1, 256, kernel=f"resident_{unit}")
    assert not ran.findings
    np.testing.assert_allclose(ran.arrays[1].reshape(128, 128), 2 * a @ b.T, atol=1e-3)
