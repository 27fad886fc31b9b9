"""cudaDeviceGetAttribute: the cudaDeviceAttr numbers that a launch configuration may depend on."""

from __future__ import annotations

from harness.cards import KIB, Card


def attributes(card: Card) -> dict[int, int]:
    """cudaDeviceAttr -> value for this card; bytes, threads, kHz. An attribute that is missing here is refused."""
    return {
        1: card.threads_per_block,
        **dict(zip((2, 3, 4), card.max_block, strict=True)),
        **dict(zip((5, 6, 7), card.max_grid, strict=True)),
        8: card.shared_per_block,
        9: 64 * KIB,  # constant memory
        10: 32,  # warp size
        12: card.registers_per_sm,  # a block
        13: card.clock_khz,
        16: card.sms,
        17: 0,  # kernel time-out
        18: 0,  # integrated
        19: 1,  # can map host memory
        20: 0,  # compute mode
        31: 1,  # concurrent kernels
        32: 1,  # ECC
        36: _memory_clock_khz(card),
        37: card.memory_bus_bits,
        38: card.l2_bytes,
        39: card.threads_per_sm,
        40: 2,  # copy engines
        41: 1,  # unified addressing
        **dict(zip((75, 76), card.cc, strict=True)),
        78: 1,  # stream priorities
        81: card.shared_per_sm,
        82: card.registers_per_sm,
        83: 0,  # managed memory: not offered to solve()
        87: 2 if card.cc in ((8, 0), (9, 0)) else 64 if card.cc == (8, 9) else 32,  # FP32 : FP64 rate
        95: 1,  # cooperative launch
        97: card.shared_per_block_optin,
        106: card.blocks_per_sm,
        111: card.shared_reserved,
        115: 1,  # cudaMallocAsync
        120: int(card.cc >= (9, 0)),  # clusters
    }


def _memory_clock_khz(card: Card) -> int:
    """Two transfers a clock."""
    return round(card.bandwidth * 8 / card.memory_bus_bits / 2 / 1000)
