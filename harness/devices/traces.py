"""The emulator's traced requests -> records for drawings: instructions become lines of code, addresses offsets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import numpy as np

from harness.devices.base import Argument
from harness.devices.names import readable
from harness.devices.places import LaunchPlaces
from harness.emulator import layout as L
from harness.emulator.host import user_line
from harness.emulator.launch import Outcome
from harness.emulator.memory import Memory
from harness.emulator.ptx import Ins, Module
from harness.emulator.tracing import Form, Kept, Tracer
from harness.plan import FIRST_TENSOR_ID, locate
from harness.traces import MAX_CELLS, MAX_LINES, MAX_MAPS, BlockMap, CaseTrace, WarpRequest
from harness.traffic import SECTOR_BYTES

MAX_COLUMNS, MAX_ROWS = 32, 64  # of the cells of a map
MAX_MAP_BYTES = 4 << 20  # of the bits of one map
MAX_BLOCKS = 1 << 20  # launches of more are not mapped
MAX_NAME = 200  # characters
_OPERATIONS = {"ld": "read", "ldu": "read", "ldmatrix": "read", "st": "write", "stmatrix": "write", "atom": "atomic",
               "red": "atomic", "cp": "copy"}  # fmt: skip
_Key = tuple[str, str, int, str, str, str, int]


class TraceRecorder:
    """Traces the first launch of each kernel of one case. `file` is the user's file."""

    def __init__(self, module: Module, file: str, memory: Memory, tensors: Mapping[int, Argument]):
        self._module, self._file, self._memory, self._tensors = module, file, memory, tensors
        self._seen: set[str] = set()
        self._tracer: Tracer | None = None
        self._found: dict[_Key, dict[bool, tuple[int, WarpRequest]]] = {}
        self._maps: list[BlockMap] = []
        self._complete = True

    def begin(self, places: LaunchPlaces) -> int:
        """Address of the trace that the launch is given; 0 where it is not traced."""
        self._tracer = None
        if places.launch.kernel in self._seen:
            return 0
        self._seen.add(places.launch.kernel)
        x, y, z = places.launch.grid
        forms = self._forms(x * y * z) if x * y * z <= MAX_BLOCKS else {}
        both = {number for number in forms if self._memory.regions[number].writable}
        self._tracer = Tracer(len(places.kernel.instructions) + 1, x * y * z, forms, both)
        return self._tracer.address

    def add(self, places: LaunchPlaces, outcome: Outcome) -> None:
        """Take over what the launch has left."""
        self._complete &= outcome.fault is None
        if self._tracer is None:
            return
        for kept in self._tracer.kept():
            self._keep(places, kept)
        self._maps += self._mapped(places, self._tracer)
        self._tracer = None

    def case(self) -> CaseTrace | None:
        """Everything; the lines that cost most where there are too many. None where nothing was launched."""
        if not self._seen:
            return None
        order = sorted(self._found, key=lambda key: -max(cost for cost, _ in self._found[key].values()))
        requests = []
        for key in sorted(order[:MAX_LINES]):
            typical, worst = (self._found[key].get(costliest) for costliest in (False, True))
            assert typical is not None
            requests.append(typical[1])
            if worst is not None and _cost(worst[1]) != _cost(typical[1]):
                requests.append(worst[1])
        maps = sorted(self._maps, key=lambda m: (m.operation == "read", -m.nbytes))
        return CaseTrace(tuple(requests), tuple(maps[:MAX_MAPS]), self._complete)

    # -- requests

    def _keep(self, places: LaunchPlaces, kept: Kept) -> None:
        """Of several instructions of one line the request of most lanes is typical, and the costliest the worst."""
        instruction = places.kernel.instructions[kept.insn]
        request = self._request(places, kept, instruction)
        if request is None:
            return
        r = request
        key = (r.kernel, r.file, r.line, r.space, r.tensor, r.operation, r.lane_bytes)
        best = self._found.setdefault(key, {})
        rank = kept.cost if kept.costliest else r.lanes
        if kept.costliest not in best or rank > best[kept.costliest][0]:
            best[kept.costliest] = (rank, request)
        if False not in best:  # its typical request was of another tensor
            best[False] = (r.lanes, replace(request, costliest=False))

    def _request(self, places: LaunchPlaces, kept: Kept, i: Ins) -> WarpRequest | None:
        site = places.kernel.census.sites.get(kept.insn)
        if site is None:
            return None
        file, line = user_line(self._module, i.loc, self._file)
        running = [lane for lane in range(L.LANES) if kept.mask >> lane & 1]
        locating = self._in_shared if kept.shared else self._in_global
        tensor, start, offsets = locating(places, kept.addresses, running)
        if all(offset is None for offset in offsets):
            return None
        operation = _OPERATIONS.get(i.base, site.kind)
        return WarpRequest(
            places.name[:MAX_NAME], (file or self._file)[:MAX_NAME], line, tensor[:MAX_NAME],
            "shared" if kept.shared else "global", operation, site.nbytes, places.block(kept.block), kept.warp, offsets,
            start, kept.costliest,
        )  # fmt: skip

    def _in_global(
        self, places: LaunchPlaces, addresses: tuple[int, ...], running: list[int]
    ) -> tuple[str, int, tuple[int | None, ...]]:
        """The part of the request that lies in the first lane's buffer, at or behind its start."""
        number = locate(addresses[running[0]])[0]
        offsets: list[int | None] = [None] * L.LANES
        for lane in running:
            buffer, offset = locate(addresses[lane])
            if buffer == number and offset >= 0:
                offsets[lane] = offset
        region = self._memory.regions.get(number)
        return readable(region.buffer.name) if region is not None else "", 0, tuple(offsets)

    def _in_shared(
        self, places: LaunchPlaces, addresses: tuple[int, ...], running: list[int]
    ) -> tuple[str, int, tuple[int | None, ...]]:
        """Offsets from the variable that holds the lowest address."""
        within = {lane: addresses[lane] & 0xFFFFFFFF for lane in running}
        name, start = places.shared_variable(min(within.values()))
        return name, start, tuple(within[lane] - start if lane in within else None for lane in range(L.LANES))

    # -- maps

    def _forms(self, blocks: int) -> dict[int, list[Form]]:
        """How to map the problem's tensors and scratch."""
        most = min(MAX_CELLS, MAX_MAP_BYTES // ((blocks + 7) // 8))
        found = {}
        for number, region in self._memory.regions.items():
            if number >= FIRST_TENSOR_ID and region.buffer.nbytes:
                found[number] = forms_of(self._shape(number), self._itemsize(number), region.buffer.nbytes, most)
        return found

    def _shape(self, number: int) -> tuple[int, ...]:
        value = self._tensors[number].value if number in self._tensors else None
        return tuple(map(int, value.shape)) if isinstance(value, np.ndarray) else ()

    def _itemsize(self, number: int) -> int:
        value = self._tensors[number].value if number in self._tensors else None
        return int(value.itemsize) if isinstance(value, np.ndarray) else 4

    def _mapped(self, places: LaunchPlaces, tracer: Tracer) -> Iterator[BlockMap]:
        for (number, written), cells in tracer.cells().items():
            form, region = cells.form, self._memory.regions[number]
            yield BlockMap(
                places.name[:MAX_NAME], readable(region.buffer.name)[:MAX_NAME], "write" if written else "read",
                places.launch.grid, self._shape(number), form.nbytes, form.row_bytes, form.cell_rows, form.cell_bytes,
                form.columns, tuple(cells.first.tolist()), tuple(cells.blocks.tolist()),
            )  # fmt: skip


def _cost(request: WarpRequest) -> tuple[int, int]:
    return request.units, request.ideal_units


def forms_of(shape: tuple[int, ...], itemsize: int, nbytes: int, most: int = MAX_CELLS) -> list[Form]:
    """Ways to cut a tensor into at most so many cells: it can be folded behind each of its dimensions. Tensors of one
    dimension, and those whose rows are no whole sectors, are cut into rows of equal length."""
    folded = [_cut(nbytes, itemsize * _product(shape[k:]), most) for k in range(1, len(shape))]
    return [form for form in folded if form.row_bytes % SECTOR_BYTES == 0] or [_flat(nbytes, most)]


def _cut(nbytes: int, row_bytes: int, most: int) -> Form:
    rows = max(1, nbytes // row_bytes)
    cell_bytes = max(SECTOR_BYTES, _power(-(-row_bytes // MAX_COLUMNS)))
    columns = -(-row_bytes // cell_bytes)
    while columns > most:
        cell_bytes, columns = 2 * cell_bytes, -(-row_bytes // (2 * cell_bytes))
    return Form(nbytes, row_bytes, _power(-(-rows // max(1, min(MAX_ROWS, most // columns)))), cell_bytes)


def _flat(nbytes: int, most: int) -> Form:
    columns = min(MAX_COLUMNS, most)
    cells = columns * max(1, min(MAX_ROWS, most // columns))
    cell_bytes = max(SECTOR_BYTES, _power(-(-nbytes // cells)))
    return Form(nbytes, min(columns, -(-nbytes // cell_bytes)) * cell_bytes, 1, cell_bytes)


def _power(n: int) -> int:
    """The power of two at or above n."""
    return 1 << max(0, n - 1).bit_length()


def _product(extents: Iterable[int]) -> int:
    result = 1
    for extent in extents:
        result *= extent
    return result
