"""How many blocks of a kernel one multiprocessor holds at once, and what limits them.

The rules are those of NVIDIA's occupancy calculator (cuda_occupancy.h of the CUDA toolkit, and the table "Technical
Specifications per Compute Capability" of the CUDA C++ Programming Guide) for compute capabilities 7.5 to 9.0. A block
goes to one multiprocessor whole, so each resource is divided by what a block takes of it, rounded up to the units in
which the hardware hands it out:

    warps        at most threads_per_sm / 32
    registers    to warps, in units of 256; a multiprocessor's registers belong to its four partitions, and a warp
                 lives in one of them
    shared       static, dynamic and the system's own part together, in units of `Card.shared_unit`
    blocks       blocks_per_sm
    barriers     from compute capability 9.0 on: two for each of the blocks_per_sm

The preferred split of L1 and shared memory is taken to be the largest for shared memory, as cudaOccupancy* does.
"""

from __future__ import annotations

from harness.cards import Card
from harness.results import Occupancy

WARP = 32
_PARTITIONS = 4
_REGISTER_UNIT = 256  # registers that are handed to a warp at once
_MAX_REGISTERS = 255  # of a thread
_UNLIMITED = 1 << 30


def occupancy(card: Card, threads: int, registers: int, shared_bytes: int, barriers: int = 0) -> Occupancy:
    """For blocks of `threads` threads with `registers` a thread and `shared_bytes` of shared memory, static and
    dynamic; `barriers` as the assembler counts them."""
    warps = -(-threads // WARP)
    most = card.threads_per_sm // WARP
    by = {
        "warps": most // warps,
        "registers": _by_registers(card, warps, registers),
        "shared memory": _by_shared(card, shared_bytes),
        "blocks": card.blocks_per_sm,
        "barriers": 2 * card.blocks_per_sm // barriers if barriers and card.cc >= (9, 0) else _UNLIMITED,
    }
    blocks = min(by.values())
    limits = tuple(name for name, limit in by.items() if limit == blocks)
    return Occupancy(blocks, blocks * warps, blocks * warps / most, limits)


def _by_registers(card: Card, warps: int, registers: int) -> int:
    if not registers:
        return _UNLIMITED
    if registers > _MAX_REGISTERS:
        return 0
    unit = _round_up(registers * WARP, _REGISTER_UNIT)
    return card.registers_per_sm // _PARTITIONS // unit * _PARTITIONS // warps


def _by_shared(card: Card, shared_bytes: int) -> int:
    taken = _round_up(shared_bytes + card.shared_reserved, card.shared_unit)
    return card.shared_per_sm // taken if taken else _UNLIMITED


def waves(card: Card, blocks: int, blocks_per_sm: int) -> float:
    """How often the card is filled by a grid of `blocks` blocks; the last wave counts by the part that it fills."""
    return blocks / (card.sms * blocks_per_sm) if blocks_per_sm else 0.0


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
