"""Blocks per multiprocessor by NVIDIA's rules: the expected numbers are what cuda_occupancy.h of CUDA 13.0 computes."""

from __future__ import annotations

import pytest

from harness import cards
from harness.occupancy import occupancy, waves

KIB = 1024


@pytest.mark.parametrize(
    ("card", "threads", "registers", "shared", "barriers", "blocks"),
    [
        ("T4", 128, 40, 0, 1, 8),
        ("T4", 256, 64, 16 * KIB, 1, 4),
        ("T4", 64, 255, 100, 1, 4),
        ("T4", 1024, 64, 0, 1, 1),
        ("T4", 1024, 65, 0, 1, 0),
        ("T4", 32, 20, 0, 1, 16),
        ("T4", 96, 33, 8000, 1, 8),
        ("A100", 128, 32, 0, 1, 16),
        ("A100", 256, 128, 48 * KIB, 1, 2),
        ("A100", 160, 72, 1000, 2, 5),
        ("A100", 512, 168, 0, 1, 0),
        ("A100", 128, 40, 16512, 1, 9),
        ("A100", 33, 24, 0, 1, 32),
        ("A100", 32, 255, 163 * KIB, 1, 1),
        ("L4", 128, 32, 0, 1, 12),
        ("L4", 256, 96, 24 * KIB, 1, 2),
        ("L4", 1024, 32, 0, 1, 1),
        ("L4", 64, 40, 4097, 16, 19),
        ("RTX 4090", 128, 168, 40 * KIB, 1, 2),
        ("H100", 128, 36, 536, 1, 12),
        ("H100", 128, 225, 16 * KIB, 1, 2),
        ("H100", 128, 255, 32 * KIB, 1, 2),
        ("H100", 64, 16, 0, 16, 4),
        ("H100", 384, 168, 227 * KIB, 4, 1),
        ("H100", 1024, 64, 100, 1, 1),
        ("H100", 736, 80, 0, 1, 1),
        ("H100", 736, 88, 0, 1, 0),  # 65536 registers hold 23 such warps, their four partitions 20
        ("H100", 96, 40, 0, 1, 16),  # 51 warps would fit, were the registers not those of four partitions
        ("H200", 128, 56, 35430, 1, 6),
    ],
)
def test_blocks_as_the_toolkit_computes_them(
    card: str, threads: int, registers: int, shared: int, barriers: int, blocks: int
) -> None:
    held = occupancy(cards.get(card), threads, registers, shared, barriers)
    assert held.blocks == blocks
    assert held.warps == blocks * -(-threads // 32)
    assert held.fraction == held.warps * 32 / cards.get(card).threads_per_sm


@pytest.mark.parametrize(
    ("threads", "registers", "shared", "barriers", "limits"),
    [
        (1024, 32, 0, 1, ("warps", "registers")),
        (128, 64, 0, 1, ("registers",)),
        (128, 16, 40 * KIB, 1, ("shared memory",)),
        (32, 16, 0, 1, ("blocks",)),
        (32, 16, 0, 16, ("barriers",)),
        (1024, 65, 0, 1, ("registers",)),  # 65 x 1024 registers are more than there are
    ],
)
def test_the_limit_is_named(threads: int, registers: int, shared: int, barriers: int, limits: tuple[str, ...]) -> None:
    assert occupancy(cards.get("H100"), threads, registers, shared, barriers).limits == limits


def test_a_register_more_can_cost_a_quarter() -> None:
    """The documented staircase: registers are handed out to a warp in units of 256, 8 a thread."""
    by_registers = [occupancy(cards.get("A100"), 256, n, 0).fraction for n in (32, 33, 40, 41, 48, 49, 56, 57, 64)]
    assert by_registers == [1, 0.75, 0.75, 0.625, 0.625, 0.5, 0.5, 0.5, 0.5]


def test_waves_count_blocks_against_all_that_fit() -> None:
    card = cards.get("H100")
    assert waves(card, 17 * 32, 12) == pytest.approx(0.3434, abs=1e-4)
    assert waves(card, 132 * 12, 12) == 1
    assert waves(card, 1, 0) == 0
