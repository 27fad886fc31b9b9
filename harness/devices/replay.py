"""Replays a launch plan on a card: places buffers, exchanges opaque pointers for device addresses, runs the steps.

Every launch is waited for before the next one starts, so that a fault is charged to the launch that made it.
Nothing here is timed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from harness.devices.base import Argument, RunLimits
from harness.devices.driver import Driver, DriverError, Slots
from harness.devices.faults import Where, finding_of, is_sticky, too_long, where
from harness.devices.memory import CaseMemory
from harness.errors import JudgeError
from harness.plan import FIRST_TENSOR_ID, Buffer, Copy, Launch, LaunchPlan, Memset, Step, Upload
from harness.results import Finding
from harness.verdict import FindingKind

LOCAL_MEMORY_LIMIT = 8 << 30  # bytes of local memory for all threads that a card holds at once
_NOT_FOUND = 500

Queue = Callable[[], None]


@dataclass(frozen=True)
class Kernels:
    """What replaying needs to know of the module: for each mangled name of the plan, a kernel's name in the cubin, a
    readable one, and where its parameters lie; a variable's name in the cubin, where nvcc has kept it."""

    cubin_name: Mapping[str, str]
    readable: Mapping[str, str]
    parameters: Mapping[str, Slots]
    variables: Mapping[str, str] = field(default_factory=dict)


class Stop(Exception):
    """The submission did something that ends the case; carries the finding. `fatal`: the context is lost."""

    def __init__(self, finding: Finding, fatal: bool):
        super().__init__(finding.message)
        self.finding = finding
        self.fatal = fatal


class Replay:
    """One case on one card. The methods are called in the order in which they stand; each raises DriverError where
    the judge's own calls fail, and Stop for what the submission did."""

    def __init__(self, driver: Driver, kernels: Kernels, file: str, limits: RunLimits, resident_threads: int):
        self._driver = driver
        self._kernels = kernels
        self._file = file
        self._seconds = limits.seconds
        self._resident_threads = resident_threads
        self._functions: dict[str, Any] = {}
        self._module: Any = None

    def place(
        self, memory: CaseMemory, module: Any, arguments: Sequence[Argument], plan: LaunchPlan, fill: bool = True
    ) -> None:
        """Allocate the tensors and the scratch, and find the module's variables. Inputs get their values, or poison
        like everything else where `fill` is false."""
        self._memory, self._module, self._fill = memory, module, fill
        for index, argument in enumerate(arguments):
            if isinstance(argument.value, np.ndarray):
                self._place_tensor(FIRST_TENSOR_ID + index, argument, argument.value)
        for scratch in plan.scratch:
            self._place_scratch(scratch)
        for variable in plan.variables:
            self._place_variable(variable)

    def run(self, plan: LaunchPlan) -> None:
        """Carry out the steps in order; each launch has the rest of the case's seconds."""
        self._allow_all_shared(plan)
        deadline = time.monotonic() + self._seconds
        for step in plan.steps:
            self._step(step, deadline)

    def queueing(self, plan: LaunchPlan) -> tuple[list[Queue], list[Queue]]:
        """The steps as calls that only queue their work: (uploads that come before everything else, the others)."""
        self._allow_all_shared(plan)
        first = next((i for i, step in enumerate(plan.steps) if not isinstance(step, Upload)), len(plan.steps))
        calls = [self._queue(step) for step in plan.steps]
        return calls[:first], calls[first:]

    def _queue(self, step: Step) -> Queue:
        if not isinstance(step, Launch):
            return partial(self._step, step, 0.0)
        function = self._function(step.kernel, self._place_of(step))
        together = self._kernels.parameters.get(step.kernel, ()) if step.cooperative else None
        return partial(
            self._driver.launch, function, step.grid, step.block, step.shared_bytes, self._relocated(step), together
        )

    def _allow_all_shared(self, plan: LaunchPlan) -> None:
        for kernel, nbytes in plan.dynamic_shared_limit.items():
            if nbytes and kernel in self._kernels.cubin_name:
                self._allow_shared(kernel, nbytes)

    def _place_of(self, launch: Launch) -> Where:
        return where(self._file, launch, self._kernels.readable.get(launch.kernel, launch.kernel))

    def _place_tensor(self, buffer_id: int, argument: Argument, value: np.ndarray) -> None:
        contents = None if argument.role == "out" or not self._fill else np.ascontiguousarray(value)
        try:
            self._memory.add(buffer_id, argument.name, value.nbytes, contents)
        except DriverError as error:
            raise JudgeError(f"cannot place {argument.name} ({value.nbytes} bytes) on the GPU: {error}") from error

    def _place_scratch(self, scratch: Buffer) -> None:
        try:
            self._memory.add(scratch.id, scratch.name, scratch.nbytes, None, scratch.line)
        except DriverError as error:
            if error.code != 2:
                raise
            message = f"cudaMalloc of {scratch.nbytes} bytes: the card has no room for it; allocate less."
            raise Stop(Finding(FindingKind.MEMORY_LIMIT, message, self._file, scratch.line), fatal=False) from error

    def _place_variable(self, variable: Buffer) -> None:
        name = self._kernels.variables.get(variable.name)
        if name is None:  # nvcc drops variables that no kernel uses; what solve() uploads there is never read
            self._memory.add(variable.id, variable.name, variable.nbytes, None)
            return
        try:
            address, nbytes = self._driver.variable(self._module, name)
        except DriverError as error:
            if error.code != _NOT_FOUND:
                raise
            message = (f"The driver does not give the address of {variable.name}: make it neither static nor part of "
                       "an anonymous namespace.")  # fmt: skip
            raise Stop(Finding(FindingKind.UNSUPPORTED, message, self._file, variable.line), fatal=False) from error
        self._memory.add_variable(variable.id, variable.name, address, nbytes)

    def _step(self, step: Step, deadline: float) -> None:
        if isinstance(step, Launch):
            self._launch(step, deadline)
        elif isinstance(step, Memset):
            self._driver.memset(self._address(step.dst), step.value & 0xFF, step.nbytes)
        elif isinstance(step, Copy):
            self._driver.copy(self._address(step.dst), self._address(step.src), step.nbytes)
        elif isinstance(step, Upload):
            self._driver.upload(self._address(step.dst), self._with_addresses(step.data))

    def _with_addresses(self, data: bytes) -> bytes:
        """Uploaded bytes, such as a __constant__ struct of pointers, with device addresses in place of opaque ones.
        Only words that point into a tensor or scratch count: other data does not look like that."""
        found = bytearray(data)
        for offset in range(0, len(data) - 7, 8):
            address = self._memory.resolve_inside(int.from_bytes(data[offset : offset + 8], "little"))
            if address is not None:
                found[offset : offset + 8] = address.to_bytes(8, "little")
        return bytes(found)

    def _address(self, opaque: int) -> int:
        address = self._memory.resolve(opaque)
        if address is None:  # the planner has checked the bounds of every such step
            raise JudgeError(f"the launch plan names an address of no known buffer: {opaque:#x}")
        return address

    def _launch(self, launch: Launch, deadline: float) -> None:
        place = self._place_of(launch)
        function = self._function(launch.kernel, place)
        args = self._relocated(launch)
        try:
            together = self._kernels.parameters.get(launch.kernel, ()) if launch.cooperative else None
            self._driver.launch(function, launch.grid, launch.block, launch.shared_bytes, args, together)
            finished = self._driver.wait(max(deadline - time.monotonic(), 0.0))
        except DriverError as error:
            raise stop_of(error, place) from error
        if not finished:
            raise Stop(too_long(self._seconds, place), fatal=True)

    def _function(self, kernel: str, place: Where) -> Any:
        if kernel not in self._functions:
            self._functions[kernel] = self._load_function(kernel, place)
        return self._functions[kernel]

    def _load_function(self, kernel: str, place: Where) -> Any:
        try:
            function = self._driver.function(self._module, self._kernels.cubin_name.get(kernel, kernel))
        except DriverError as error:
            if error.code != _NOT_FOUND:
                raise
            message = (f"{place.kernel}: nvcc did not compile this kernel although solve() launches it; "
                       "do not let the code depend on __CUDACC_RTC__ or __CUDA_ARCH__.")  # fmt: skip
            finding = Finding(FindingKind.UNSUPPORTED, message, self._file, place.line, kernel=place.kernel)
            raise Stop(finding, fatal=False) from error
        self._check_local_memory(function, place)
        return function

    def _check_local_memory(self, function: Any, place: Where) -> None:
        nbytes = self._driver.local_bytes(function)
        if nbytes * self._resident_threads > LOCAL_MEMORY_LIMIT:
            most = LOCAL_MEMORY_LIMIT // self._resident_threads
            message = (f"{place.kernel}: {nbytes} bytes of local memory a thread, this card allows at most {most}; "
                       "use smaller local arrays.")  # fmt: skip
            finding = Finding(FindingKind.MEMORY_LIMIT, message, self._file, place.line, kernel=place.kernel)
            raise Stop(finding, fatal=False)

    def _allow_shared(self, kernel: str, nbytes: int) -> None:
        place = Where(self._file, self._kernels.readable.get(kernel, kernel))
        function = self._function(kernel, place)
        try:
            self._driver.allow_shared(function, nbytes)
        except DriverError as error:
            raise stop_of(error, place) from error

    def _relocated(self, launch: Launch) -> bytes:
        """The parameter block with device addresses in place of opaque ones."""
        args = bytearray(launch.args)
        for offset in pointer_slots(self._kernels.parameters.get(launch.kernel), len(args)):
            address = self._memory.resolve(int.from_bytes(args[offset : offset + 8], "little"))
            if address is not None:
                args[offset : offset + 8] = (address % (1 << 64)).to_bytes(8, "little")
        return bytes(args)


def pointer_slots(parameters: Slots | None, nbytes: int) -> list[int]:
    """Offsets of the words of a parameter block that may hold a pointer: 8-byte aligned and inside one parameter.

    Two neighbouring ints can look like an opaque pointer together, hence the parameters; a struct's words all count.
    """
    if parameters is None:
        return list(range(0, nbytes - 7, 8))
    spans = [(-(-offset // 8) * 8, min(offset + size, nbytes)) for offset, size in parameters]
    return [word for start, end in spans for word in range(start, end - 7, 8)]


def stop_of(error: DriverError, place: Where) -> Stop:
    """The end of the case for a driver error. Raises JudgeError where the submission cannot have caused it."""
    return Stop(finding_of(error, place), fatal=is_sticky(error.code))
