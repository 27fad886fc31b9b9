"""The GPUs that can be asked for: limits and ceilings, from NVIDIA's data sheets and compute capability tables."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.errors import UsageError

KIB = 1024


@dataclass(frozen=True)
class Card:
    """What a submission may rely on and can query. Shared memory in bytes, bandwidth in bytes/s, rates in FLOP/s."""

    name: str
    full_name: str  # as cudaDeviceProp.name says it
    cc: tuple[int, int]
    arch: str  # after "sm_": "90a" has the Hopper instructions that later cards lack
    sms: int
    shared_per_block_optin: int
    shared_per_sm: int
    threads_per_sm: int
    blocks_per_sm: int
    memory_bytes: int
    memory_bus_bits: int
    l2_bytes: int
    bandwidth: float
    fp32_rate: float
    clock_khz: int  # boost
    shared_per_block: int = 48 * KIB  # without cudaFuncSetAttribute
    shared_reserved: int = KIB  # of every block, taken by the system; none before compute capability 8.0
    shared_unit: int = 128  # in which a block's shared memory is handed out; 256 before compute capability 8.0
    threads_per_block: int = 1024
    registers_per_sm: int = 65536
    max_block: tuple[int, int, int] = (1024, 1024, 64)
    max_grid: tuple[int, int, int] = (2**31 - 1, 65535, 65535)
    # Dense products of matrices, by type of the operands, accumulated in float32; what a card lacks is absent.
    matrix_rates: Mapping[str, float] = field(default_factory=dict, hash=False)


def _gib(n: int) -> int:
    return n << 30


def _mib(n: int) -> int:
    return n << 20


def _rates(f16: float, bf16: float = 0.0, tf32: float = 0.0, e4m3: float = 0.0) -> dict[str, float]:
    rates = {"f16": f16, "bf16": bf16, "tf32": tf32, "e4m3": e4m3}
    return {unit: rate for unit, rate in rates.items() if rate}


_HOPPER = _rates(989.4e12, 989.4e12, 494.7e12, 1978.9e12)
# fmt: off
_CARDS = {
    card.name: card
    for card in (
        Card("T4", "Tesla T4", (7, 5), "75", 40, 64 * KIB, 64 * KIB, 1024, 16, _gib(16), 256, _mib(4),
             320e9, 8.1e12, 1_590_000, shared_reserved=0, shared_unit=256,
             matrix_rates=_rates(65e12)),
        Card("A100", "NVIDIA A100-SXM4-80GB", (8, 0), "80", 108, 163 * KIB, 164 * KIB, 2048, 32, _gib(80), 5120,
             _mib(40), 2039e9, 19.5e12, 1_410_000, matrix_rates=_rates(312e12, 312e12, 156e12)),
        Card("L4", "NVIDIA L4", (8, 9), "89", 58, 99 * KIB, 100 * KIB, 1536, 24, _gib(24), 192, _mib(48),
             300e9, 30.3e12, 2_040_000, matrix_rates=_rates(121e12, 121e12, 60e12, 242.5e12)),
        Card("RTX 4090", "NVIDIA GeForce RTX 4090", (8, 9), "89", 128, 99 * KIB, 100 * KIB, 1536, 24, _gib(24), 384,
             _mib(72), 1008e9, 82.6e12, 2_520_000, matrix_rates=_rates(165.2e12, 165.2e12, 82.6e12, 330.3e12)),
        Card("H100", "NVIDIA H100 80GB HBM3", (9, 0), "90a", 132, 227 * KIB, 228 * KIB, 2048, 32, _gib(80), 5120,
             _mib(50), 3350e9, 66.9e12, 1_980_000, matrix_rates=_HOPPER),
        Card("H200", "NVIDIA H200", (9, 0), "90a", 132, 227 * KIB, 228 * KIB, 2048, 32, _gib(141), 6144, _mib(50),
             4800e9, 66.9e12, 1_980_000, matrix_rates=_HOPPER),
    )
}
# fmt: on
DEFAULT = "H100"


def names() -> tuple[str, ...]:
    """The names that `get` knows, oldest card first."""
    return tuple(_CARDS)


def get(name: str) -> Card:
    """The card of that name; case, spaces, '-' and '_' do not matter. Raises UsageError, which lists the names."""
    by_key = {_key(known): card for known, card in _CARDS.items()}
    if _key(name) in by_key:
        return by_key[_key(name)]
    close = difflib.get_close_matches(_key(name), by_key, n=1)
    guess = f"; did you mean {by_key[close[0]].name}?" if close else ""
    raise UsageError(f"no card is called {name!r}{guess} (known: {', '.join(_CARDS)})")


def named_in(full_name: str) -> Card | None:
    """The card that a driver calls by this name, "NVIDIA H100 PCIe" for one; None for a card that is not known here."""
    return next((card for name, card in _CARDS.items() if name in full_name), None)


def _key(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())
