"""What a case moved and computed, as the emulator counts it: records for the terminal, the JSON report and pages.

All figures are modelled at the level of PTX: each instruction of a warp is a request, nothing is cached, and what the
assembler would merge or vectorise is not merged. Three things are counted in their own way:

* A bulk copy (cp.async.bulk) is an instruction of one thread and a request of its own, as large as its range of
  bytes: a warp whose 32 lanes start one each makes 32 requests. What it writes to shared memory, whole rows past the
  lanes' banks, is no request of shared memory. A prefetch moves nothing that a later access is not charged for.
* An atomic counts as a write, and not as a read of what was there.
* What solve() itself fills or copies (cudaMemset, cudaMemcpy) is in the case's sums with its bytes and sectors. It is
  no request of a warp and belongs to no launch.

    sector   32 bytes, the least that global memory moves
    ideal    the fewest sectors that could hold what a request's lanes ask for; of shared memory, the fewest passes
    bytes    asked for by warps: a word that several lanes of one request want is asked for once
    distinct of the buffer's bytes, those that were touched at all, in whole words of 4

`as_json` is the schema: the fields below, and where a division makes sense also `amplification` (bytes / distinct
bytes) and `sectors_per_request`.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field, replace
from typing import Any

SECTOR_BYTES = 32

Index3 = tuple[int, int, int]


@dataclass(frozen=True)
class AccessTraffic:
    """Reads, or writes, of one buffer."""

    requests: int = 0
    atomics: int = 0  # requests that were atomic; they count as writes
    bytes: int = 0
    lane_bytes: int = 0  # each lane's bytes added up, also where lanes want the same
    sectors: int = 0
    ideal_sectors: int = 0
    distinct_bytes: int = 0

    @property
    def amplification(self) -> float:
        """How many times each touched byte was asked for."""
        return self.bytes / self.distinct_bytes if self.distinct_bytes else 0.0

    @property
    def sectors_per_request(self) -> float:
        return self.sectors / self.requests if self.requests else 0.0

    @property
    def ideal_sectors_per_request(self) -> float:
        return self.ideal_sectors / self.requests if self.requests else 0.0

    def plus(self, other: AccessTraffic) -> AccessTraffic:
        """The sum; distinct bytes do not add up and stay."""
        names = ("requests", "atomics", "bytes", "lane_bytes", "sectors", "ideal_sectors")
        return replace(self, **{name: getattr(self, name) + getattr(other, name) for name in names})


@dataclass(frozen=True)
class TensorTraffic:
    """One buffer: a parameter of solve(), scratch, or a __device__ or __constant__ variable."""

    tensor: str
    nbytes: int
    read: AccessTraffic = AccessTraffic()
    write: AccessTraffic = AccessTraffic()

    @property
    def sectors(self) -> int:
        return self.read.sectors + self.write.sectors


@dataclass(frozen=True)
class LineTraffic:
    """Global memory accesses of one kind that one line of the source makes to one buffer."""

    file: str
    line: int
    tensor: str
    kind: str  # "read", "write", "atomic"
    requests: int
    bytes: int
    sectors: int
    ideal_sectors: int


@dataclass(frozen=True)
class SharedTraffic:
    """Shared memory accesses of one kind that one line makes. A request takes one pass for each distinct word of the
    busiest bank; passes beyond the ideal are bank conflicts."""

    file: str
    line: int
    kind: str
    requests: int
    passes: int
    ideal_passes: int


@dataclass(frozen=True)
class LocalTraffic:
    """Accesses of local memory (arrays that the compiler could not keep in registers) by one line."""

    file: str
    line: int
    kind: str
    requests: int


@dataclass(frozen=True)
class LaunchTraffic:
    """One launch. Tables are in order of cost, the most costly first."""

    kernel: str  # readable name
    line: int  # of the <<<>>>
    grid: Index3
    block: Index3
    dynamic_shared_bytes: int
    blocks: int
    warps: int  # of all blocks
    complete: bool  # false where a fault or a limit ended it early
    tensors: tuple[TensorTraffic, ...] = ()
    lines: tuple[LineTraffic, ...] = ()
    shared: tuple[SharedTraffic, ...] = ()
    local: tuple[LocalTraffic, ...] = ()
    flops: dict[str, int] = field(default_factory=dict)  # fma (2 each), add_mul, special, tensor
    warp_instructions: dict[str, int] = field(default_factory=dict)  # by class
    thread_instructions: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class CaseTraffic:
    """All launches of a case. `tensors` are their sums and what solve() itself moved, with the bytes that any of these
    touched as distinct bytes."""

    launches: tuple[LaunchTraffic, ...] = ()
    launches_left_out: int = 0  # counted in `tensors`, not listed
    tensors: tuple[TensorTraffic, ...] = ()
    fewest_bytes: int = 0  # by the problem's cost model; 0 where it is not known
    score_modelled: float | None = None  # 100 * fewest bytes / sector bytes, of an accepted case

    @property
    def sector_bytes(self) -> int:
        """Bytes of all sectors moved, reads and writes."""
        return SECTOR_BYTES * sum(t.sectors for t in self.tensors)

    @property
    def complete(self) -> bool:
        return all(launch.complete for launch in self.launches)

    def scored(self, fewest_bytes: int, accepted: bool) -> CaseTraffic:
        """With the problem's fewest bytes, and the score where the case has earned one."""
        moved = self.sector_bytes
        score = min(100.0, 100.0 * fewest_bytes / moved) if accepted and moved else None
        return replace(self, fewest_bytes=fewest_bytes, score_modelled=score)


def as_json(traffic: CaseTraffic) -> dict[str, Any]:
    """Plain data for JSON: every field, and the ratios."""
    return {"modelled": True, **_plain(traffic), "sector_bytes": traffic.sector_bytes}


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        fields = {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
        if isinstance(value, AccessTraffic):
            names = ("amplification", "sectors_per_request", "ideal_sectors_per_request")
            fields |= {name: round(getattr(value, name), 4) for name in names}
        return fields
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return dict(value) if isinstance(value, dict) else value
