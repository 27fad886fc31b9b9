"""Buffers of a benchmark case: the inputs once as they were drawn, and several sets that plans run on in turn.

    base      inputs as drawn; no plan ever gets their address
    set i     every tensor and every scratch buffer of the plan, each between its guards (harness/devices/memory.py)

Before each timed plan the next set is made afresh: inputs are the base's in a new disguise (harness/disguise.py),
outputs and scratch are poison, variables hold their initial values. What an earlier plan left is of no use to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from harness.devices.base import Argument
from harness.devices.driver import Driver, DriverError
from harness.devices.memory import CaseMemory
from harness.devices.replay import Replay
from harness.disguise import Disguise
from harness.measure.judge_kernels import JudgeKernels
from harness.plan import FIRST_TENSOR_ID, LaunchPlan

_ALIGNMENT = 256
_MOST_VARIABLE_BYTES = 1 << 20


@dataclass(frozen=True)
class Field:
    """One tensor of the case: which buffer it is, and how the judge's kernels name its elements."""

    buffer_id: int
    name: str
    role: str
    shape: tuple[int, ...]
    itemsize: int
    kind: str

    @property
    def nbytes(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64)) * self.itemsize


_KINDS = {
    "float": "float32", "int": "int32", "__half": "float16", "__nv_bfloat16": "bfloat16",
    "__nv_fp8_e4m3": "float8_e4m3",
}  # fmt: skip


def fields(arguments: Sequence[Argument]) -> list[Field]:
    """The tensors among solve()'s arguments."""
    return [
        Field(FIRST_TENSOR_ID + i, a.name, a.role, a.value.shape, a.value.dtype.itemsize, _KINDS[a.ctype])
        for i, a in enumerate(arguments)
        if isinstance(a.value, np.ndarray)
    ]


class Arena:
    """Small arrays on the card that are needed for one window: index vectors and factors of disguises."""

    def __init__(self, driver: Driver):
        self._driver = driver
        self._blocks: list[tuple[int, int]] = []  # (address, bytes)
        self._at, self._used = 0, 0  # the block in use, and how much of it is

    def reset(self) -> None:
        """What was put there is needed no more."""
        self._used, self._at = 0, 0

    def put(self, array: np.ndarray) -> int:
        """Its address."""
        size = -(-array.nbytes // _ALIGNMENT) * _ALIGNMENT
        while self._at < len(self._blocks) and self._used + size > self._blocks[self._at][1]:
            self._used, self._at = 0, self._at + 1
        if self._at == len(self._blocks):
            room = max(size, 1 << 20)
            self._blocks.append((self._driver.allocate(room), room))
            self._used = 0
        address = self._blocks[self._at][0] + self._used
        self._used += size
        self._driver.upload(address, np.ascontiguousarray(array))
        return address

    def wipe(self) -> None:
        """Overwrite what was put there, once everything queued so far is done with it."""
        for address, nbytes in self._blocks[: self._at + 1]:
            self._driver.memset(address, 0xFF, nbytes)

    def free(self) -> None:
        for address, _ in self._blocks:
            self._driver.free(address)
        self._blocks.clear()
        self.reset()


class Base:
    """The inputs as they were drawn."""

    def __init__(self, driver: Driver, arguments: Sequence[Argument]):
        self._driver = driver
        self._addresses: dict[str, int] = {}
        self._sizes: dict[str, int] = {}
        for argument in arguments:
            if isinstance(argument.value, np.ndarray) and argument.role != "out":
                address = self._addresses[argument.name] = driver.allocate(max(argument.value.nbytes, 1))
                self._sizes[argument.name] = argument.value.nbytes
                driver.upload(address, np.ascontiguousarray(argument.value))

    def address(self, name: str) -> int:
        return self._addresses[name]

    def inputs(self) -> Iterator[tuple[str, int, int]]:
        """(name, address, bytes) of all of them."""
        for name, address in self._addresses.items():
            yield name, address, self._sizes[name]

    def free(self) -> None:
        for address in self._addresses.values():
            self._driver.free(address)
        self._addresses.clear()


class Variables:
    """A module's variables as they were when it was loaded."""

    def __init__(self, driver: Driver, module: Any, names: Sequence[str]):
        self._driver = driver
        self._initial: list[tuple[int, np.ndarray]] = []
        room = _MOST_VARIABLE_BYTES
        for address, nbytes in _known(driver, module, names):
            if nbytes <= room:
                self._initial.append((address, driver.download(address, nbytes)))
                room -= nbytes

    def restore(self) -> None:
        for address, data in self._initial:
            self._driver.upload(address, data)


def _known(driver: Driver, module: Any, names: Sequence[str]) -> Iterator[tuple[int, int]]:
    """(address, bytes) of the variables that the driver finds; those of internal linkage it does not."""
    for name in names:
        try:
            yield driver.variable(module, name)
        except DriverError:
            continue


class BufferSet:
    """One set: its memory, and the plan's steps bound to its addresses."""

    def __init__(self, driver: Driver, replay: Replay, memory: CaseMemory, arguments: Sequence[Argument],
                 plan: LaunchPlan, module: Any):  # fmt: skip
        self.memory, self._driver, self._plan = memory, driver, plan
        self.fields = fields(arguments)
        replay.place(memory, module, arguments, plan, fill=False)
        self._before, self._steps = replay.queueing(plan)

    def run(self) -> None:
        """Queue the whole timed part."""
        for step in self._steps:
            step()

    def prepare(self, disguise: Disguise, base: Base, kernels: JudgeKernels, arena: Arena) -> None:
        """Queue everything that makes the set as if nothing had ever run on it."""
        for tensor in self.fields:
            address = self.memory.placed(tensor.buffer_id).address
            if tensor.role == "out":
                self._poison(tensor.buffer_id)
            elif tensor.name in disguise.replace:
                self._driver.upload(address, np.ascontiguousarray(disguise.replace[tensor.name]))
            else:
                gather, scale = vectors(disguise, tensor.name, arena)
                source = base.address(tensor.name)
                kernels.disguise(address, source, tensor.shape, tensor.itemsize, tensor.kind, gather, scale)
        for scratch in self._plan.scratch:
            self._poison(scratch.id)
        for upload in self._before:
            upload()

    def _poison(self, buffer_id: int) -> None:
        placed = self.memory.placed(buffer_id)
        words, rest = divmod(placed.nbytes, 4)
        self._driver.fill(placed.address, self.memory.poison, words)
        if rest:  # another whole word would reach into the guard
            self._driver.upload(placed.address + 4 * words, self.memory.poison.to_bytes(4, "little")[:rest])

    def forget(self) -> None:
        """Overwrite what a plan has left, so that no later one on another set can read it."""
        for tensor in self.fields:
            if tensor.role != "in":
                self._poison(tensor.buffer_id)
        for scratch in self._plan.scratch:
            self._poison(scratch.id)

    def inputs(self) -> Iterator[tuple[str, int, int]]:
        """(name, address, bytes) of what a plan may not change."""
        for tensor in self.fields:
            if tensor.role == "in":
                placed = self.memory.placed(tensor.buffer_id)
                yield tensor.name, placed.address, placed.nbytes

    def outputs(self) -> Iterator[tuple[Field, int]]:
        """(tensor, address) of what a plan writes."""
        for tensor in self.fields:
            if tensor.role != "in":
                yield tensor, self.memory.placed(tensor.buffer_id).address


def vectors(disguise: Disguise, name: str, arena: Arena) -> tuple[dict[int, int], dict[int, int]]:
    """A tensor's index vectors and factors on the card, by axis."""
    return _put(disguise.gather.get(name, {}), np.int32, arena), _put(disguise.scale.get(name, {}), np.float32, arena)


def _put(by_axis: Mapping[int, np.ndarray], dtype: type[np.generic], arena: Arena) -> dict[int, int]:
    return {axis: arena.put(np.asarray(vector, dtype)) for axis, vector in by_axis.items()}
