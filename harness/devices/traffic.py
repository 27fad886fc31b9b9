"""The emulator's counters -> records of traffic: instructions become lines of the source, buffer ids names."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from harness.devices.names import readable
from harness.devices.places import LaunchPlaces
from harness.emulator.census import Site
from harness.emulator.counters import Requests, Touched
from harness.emulator.host import user_line
from harness.emulator.launch import Outcome
from harness.emulator.memory import Memory
from harness.emulator.ptx import Module
from harness.traffic import (
    SECTOR_BYTES,
    AccessTraffic,
    CaseTraffic,
    LaunchTraffic,
    LineTraffic,
    LocalTraffic,
    SharedTraffic,
    TensorTraffic,
)

MAX_LAUNCHES = 32  # listed one by one
MAX_LINES = 100  # of each table of a launch
MAX_NAME = 200  # characters
OTHERS = "other buffers"


@dataclass(frozen=True)
class _Access:
    """One instruction's requests to one buffer, with its place in the source."""

    number: int
    site: Site
    file: str
    line: int
    buffer: int
    requests: Requests


class Recorder:
    """Collects the launches of one case. `file` is the user's file."""

    def __init__(self, module: Module, file: str, memory: Memory):
        self._module, self._file, self._memory = module, file, memory
        self._launches: list[LaunchTraffic] = []
        self._left_out = 0
        self._sums: dict[int, tuple[AccessTraffic, AccessTraffic]] = {}

    def add(self, places: LaunchPlaces, outcome: Outcome) -> None:
        """Count a launch in, and list it while there is room."""
        accesses = self._accesses(places, outcome)
        sums = _by_buffer(accesses)
        for number, (read, write) in sums.items():
            before = self._sums.get(number, (AccessTraffic(), AccessTraffic()))
            self._sums[number] = before[0].plus(read), before[1].plus(write)
        if len(self._launches) == MAX_LAUNCHES:
            self._left_out += 1
            return
        launch, counts = places.launch, outcome.counts
        blocks, threads = _product(launch.grid), _product(launch.block)
        self._launches.append(
            LaunchTraffic(
                kernel=places.name[:MAX_NAME], line=launch.line, grid=launch.grid, block=launch.block,
                dynamic_shared_bytes=launch.shared_bytes, blocks=blocks, warps=blocks * -(-threads // 32),
                complete=outcome.fault is None, tensors=self._tensors(sums, counts.touched),
                lines=self._lines(accesses), shared=self._shared(places, outcome), local=self._local(places, outcome),
                flops=counts.flops, warp_instructions=counts.warp_instructions,
                thread_instructions=counts.thread_instructions,
            )
        )  # fmt: skip

    def add_range(self, number: int, start: int, nbytes: int, store: bool) -> None:
        """Count in a range of a buffer that solve() itself reads or writes, and that is not empty."""
        sectors = (start + nbytes - 1) // SECTOR_BYTES - start // SECTOR_BYTES + 1
        one = AccessTraffic(bytes=nbytes, lane_bytes=nbytes, sectors=sectors, ideal_sectors=-(-nbytes // SECTOR_BYTES))
        read, write = self._sums.get(number, (AccessTraffic(), AccessTraffic()))
        self._sums[number] = (read, write.plus(one)) if store else (read.plus(one), write)

    def case(self, touched: Touched) -> CaseTraffic | None:
        """All launches together; `touched`: what they touched of each buffer. None where nothing was launched."""
        if not self._launches:
            return None
        return CaseTraffic(tuple(self._launches), self._left_out, self._tensors(self._sums, touched))

    def _accesses(self, places: LaunchPlaces, outcome: Outcome) -> list[_Access]:
        found = []
        for (number, buffer), requests in outcome.counts.buffers.items():
            file, line = self._place(places, number)
            found.append(_Access(number, places.kernel.census.sites[number], file, line, buffer, requests))
        return found

    def _place(self, places: LaunchPlaces, number: int) -> tuple[str, int]:
        file, line = user_line(self._module, places.kernel.instructions[number].loc, self._file)
        return file or self._file, line

    def _name(self, buffer: int) -> str:
        region = self._memory.regions.get(buffer)
        return readable(region.buffer.name)[:MAX_NAME] if region is not None else OTHERS

    def _tensors(
        self, sums: dict[int, tuple[AccessTraffic, AccessTraffic]], touched: Touched
    ) -> tuple[TensorTraffic, ...]:
        found = []
        for number, (read, write) in sums.items():
            region = self._memory.regions.get(number)
            bytes_read, bytes_written = touched.get(number, (0, 0))
            found.append(
                TensorTraffic(
                    tensor=self._name(number),
                    nbytes=region.buffer.nbytes if region is not None else 0,
                    read=replace(read, distinct_bytes=bytes_read),
                    write=replace(write, distinct_bytes=bytes_written),
                )
            )
        return tuple(sorted(found, key=lambda t: (-t.sectors, t.tensor)))

    def _lines(self, accesses: Iterable[_Access]) -> tuple[LineTraffic, ...]:
        sums: dict[tuple[str, int, str, str], list[int]] = {}
        for a in accesses:
            r, key = a.requests, (a.file, a.line, self._name(a.buffer), a.site.kind)
            _add(sums.setdefault(key, [0] * 4), (r.requests, r.distinct, r.sectors, r.ideal))
        found = [LineTraffic(*key, *values) for key, values in sums.items()]
        return tuple(sorted(found, key=lambda x: (-x.sectors, x.file, x.line, x.tensor, x.kind))[:MAX_LINES])

    def _shared(self, places: LaunchPlaces, outcome: Outcome) -> tuple[SharedTraffic, ...]:
        sums: dict[tuple[str, int, str], list[int]] = {}
        for number, r in outcome.counts.shared.items():
            site = places.kernel.census.sites[number]
            key = (*self._place(places, number), "write" if site.space == "copy" else site.kind)
            _add(sums.setdefault(key, [0] * 3), (r.requests, r.passes, r.ideal))
        found = [SharedTraffic(*key, *values) for key, values in sums.items()]
        order = sorted(found, key=lambda x: (x.ideal_passes - x.passes, -x.passes, x.file, x.line, x.kind))
        return tuple(order[:MAX_LINES])

    def _local(self, places: LaunchPlaces, outcome: Outcome) -> tuple[LocalTraffic, ...]:
        sums: dict[tuple[str, int, str], list[int]] = {}
        for number, requests in outcome.counts.local.items():
            key = (*self._place(places, number), places.kernel.census.sites[number].kind)
            _add(sums.setdefault(key, [0]), (requests,))
        found = [LocalTraffic(*key, *values) for key, values in sums.items()]
        return tuple(sorted(found, key=lambda x: (-x.requests, x.file, x.line, x.kind))[:MAX_LINES])


def _by_buffer(accesses: Iterable[_Access]) -> dict[int, tuple[AccessTraffic, AccessTraffic]]:
    """Reads and writes of each buffer."""
    sums: dict[int, tuple[AccessTraffic, AccessTraffic]] = {}
    for a in accesses:
        r, atomic = a.requests, a.site.kind == "atomic"
        one = AccessTraffic(r.requests, r.requests if atomic else 0, r.distinct, r.nbytes, r.sectors, r.ideal)
        read, write = sums.get(a.buffer, (AccessTraffic(), AccessTraffic()))
        sums[a.buffer] = (read.plus(one), write) if a.site.kind == "read" else (read, write.plus(one))
    return sums


def _add(total: list[int], values: tuple[int, ...]) -> None:
    for k, value in enumerate(values):
        total[k] += value


def _product(extent: tuple[int, int, int]) -> int:
    x, y, z = extent
    return x * y * z
