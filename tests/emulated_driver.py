"""A CUDA driver over the emulator: kernels really run, on host memory, under a clock that the test sets the pace of.

What is loaded is the bytes of a PTX text instead of a cubin. Addresses are the emulator's own, so that kernels follow
pointers in memory as on a card; one outside of its allocation, or whose allocation was freed, is error 700.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from harness import plan
from harness.devices.driver import Dim3, DriverError, Slots
from harness.emulator import layout as L
from harness.emulator import ptx
from harness.emulator.launch import Launcher, Outcome, shape_of
from harness.emulator.layout import Hazard
from harness.emulator.memory import Memory, Region, load_variables
from harness.emulator.program import Program
from harness.plan import FIRST_TENSOR_ID, Buffer

BUDGET = 1_000_000_000  # warp-instructions of a launch
SECONDS = 120.0  # wall time of a launch
_ILLEGAL_ADDRESS, _TRAPPED, _TIMEOUT, _FAILED = 700, 710, 702, 719  # CUresult


@lru_cache(maxsize=16)
def _program(text: bytes) -> Program:
    """Kernels stay compiled for the whole of a test run."""
    return Program(ptx.parse(text.decode()))


@dataclass(eq=False)
class Module:
    """A loaded module: its variables' memory, and the launcher that knows the allocations of that moment."""

    program: Program
    variables: dict[int, Region]
    launcher: Launcher | None = None


@dataclass(frozen=True)
class Function:
    """A kernel of a loaded module."""

    module: Module
    name: str


@dataclass
class FakeEvent:
    """When the device got there, by its clock; None before it was recorded."""

    seconds: float | None = None
    waits: int = 0  # of the host before it was recorded


@dataclass
class EmulatedDriver:
    """One card. A launch takes `durations[kernel]` seconds of its clock, or `launch_seconds`; copies and fills nothing."""

    durations: dict[str, float] = field(default_factory=dict)
    launch_seconds: float = 1e-5
    total: int = 1 << 37  # bytes of its memory
    threads: int = 1  # of the host, for each launch
    clock: float = 0.0
    hangs: bool = False  # nothing ever ends
    launches: list[tuple[str, Dim3, Dim3, int, bytes]] = field(default_factory=list)
    hazards: list[Hazard] = field(default_factory=list)  # races that the emulator saw; a card would not tell
    shared_limits: dict[str, int] = field(default_factory=dict)
    persisting_forgotten: int = 0  # how often

    def __post_init__(self) -> None:
        self.regions: dict[int, Region] = {}
        self.modules: list[Module] = []
        self._next = FIRST_TENSOR_ID
        self._pending: DriverError | None = None
        self._waits = 0

    # -- memory

    def bytes_at(self, address: int, nbytes: int) -> np.ndarray:
        number, offset = plan.locate(address)
        region = self.regions.get(number) or self._variable_region(number)
        if region is None or not 0 <= offset <= region.data.size - nbytes:
            raise DriverError(_ILLEGAL_ADDRESS, "cuCtxSynchronize", "an illegal memory access was encountered")
        return region.data[offset : offset + nbytes]

    def _variable_region(self, number: int) -> Region | None:
        return next((m.variables[number] for m in self.modules if number in m.variables), None)

    def allocate(self, nbytes: int) -> int:
        if nbytes > self.memory()[0]:
            raise DriverError(2, "cuMemAlloc", "out of memory")
        number, self._next = self._next, self._next + 1
        fresh = np.full(nbytes, 0x55, np.uint8)
        self.regions[number] = Memory().add(Buffer(number, f"allocation #{number}", nbytes), fresh)
        self._forget_launchers()
        return plan.address(number)

    def free(self, address: int) -> None:
        number, offset = plan.locate(address)
        if offset or number not in self.regions:
            raise DriverError(1, "cuMemFree", "invalid argument")
        del self.regions[number]
        self._forget_launchers()

    def memory(self) -> tuple[int, int]:
        """(free, total) bytes."""
        return self.total - sum(region.data.size for region in self.regions.values()), self.total

    def upload(self, address: int, data: np.ndarray | bytes) -> None:
        raw = np.frombuffer(data, np.uint8) if isinstance(data, bytes) else data.reshape(-1).view(np.uint8)
        self.bytes_at(address, raw.size)[:] = raw

    def download(self, address: int, nbytes: int) -> np.ndarray:
        return self.bytes_at(address, nbytes).copy()

    def fill(self, address: int, word: int, words: int) -> None:
        self.bytes_at(address, 4 * words)[:] = np.full(words, word, np.uint32).view(np.uint8)

    def memset(self, address: int, value: int, nbytes: int) -> None:
        self.bytes_at(address, nbytes)[:] = value

    def copy(self, target: int, source: int, nbytes: int) -> None:
        self.bytes_at(target, nbytes)[:] = self.bytes_at(source, nbytes).copy()

    def forget_persisting(self) -> None:
        self.persisting_forgotten += 1

    # -- modules

    def load(self, cubin: bytes, cooperative: bool = False) -> Any:
        program, memory = _program(cubin), Memory()
        load_variables(memory, program)
        if any(self._variable_region(number) is not None for number in memory.regions):
            raise ValueError("two modules with variables are loaded at the same time: their addresses would coincide")
        module = Module(program, memory.regions)
        self.modules.append(module)
        return module

    def unload(self, module: Any) -> None:
        self.modules.remove(module)

    def function(self, module: Any, name: str) -> Any:
        if name not in module.program.kernel_addresses:
            raise DriverError(500, "cuModuleGetFunction", "named symbol not found")
        return Function(module, name)

    def variable(self, module: Any, name: str) -> tuple[int, int]:
        variable = module.program.variables.get(name)
        if variable is None:
            raise DriverError(500, "cuModuleGetGlobal", "named symbol not found")
        return plan.address(variable.id), variable.nbytes

    def local_bytes(self, function: Any) -> int:
        return int(function.module.program.kernel(function.name, shape_of((32, 1, 1))).local_bytes)

    def allow_shared(self, function: Any, nbytes: int) -> None:
        if nbytes > 232448:
            raise DriverError(1, "cuFuncSetAttribute", "invalid argument")
        self.shared_limits[function.name] = nbytes

    def _forget_launchers(self) -> None:
        for module in self.modules:
            module.launcher = None

    def _launcher(self, module: Module) -> Launcher:
        if module.launcher is None:
            module.launcher = Launcher(Memory({**module.variables, **self.regions}), self.threads)
        return module.launcher

    # -- launches

    def launch(self, function: Any, grid: Dim3, block: Dim3, shared_bytes: int, args: bytes,
               together: Slots | None = None) -> None:  # fmt: skip
        """Runs the kernel to its end; what went wrong is told by `wait`, as by a card."""
        self.launches.append((function.name, grid, block, shared_bytes, args))
        self.clock += self.durations.get(function.name, self.launch_seconds)
        if self._pending:
            return
        kernel = function.module.program.kernel(function.name, shape_of(block))
        outcome = self._launcher(function.module).launch(kernel, grid, block, shared_bytes, args, BUDGET, SECONDS)
        self.hazards += outcome.hazards
        self._pending = _error(outcome)

    def wait(self, seconds: float) -> bool:
        self._waits += 1
        if self._pending:
            raise self._pending
        return not self.hangs

    def flush_output(self) -> None:
        pass

    # -- events

    def create_event(self) -> Any:
        return FakeEvent()

    def record(self, event: Any) -> None:
        event.seconds, event.waits = self.clock, self._waits

    def elapsed(self, begin: Any, end: Any) -> float:
        if begin.seconds is None or end.seconds is None:
            raise DriverError(400, "cuEventElapsedTime", "invalid resource handle")
        return float(end.seconds - begin.seconds)

    def happened(self, event: Any) -> bool:
        """The card is behind the host: an event has happened once somebody waited, and never while the card hangs."""
        if self._pending:
            raise self._pending
        return event.seconds is not None and not self.hangs and event.waits < self._waits

    def version(self) -> str:
        return "1.0"

    def bus_id(self) -> str:
        return "0000:00:00.0"


def _error(outcome: Outcome) -> DriverError | None:
    """What a card would say of the emulator's fault."""
    if outcome.fault is None:
        return None
    kind = outcome.fault.fault_kind
    code, text = {
        L.F_ACCESS: (_ILLEGAL_ADDRESS, "an illegal memory access was encountered"),
        L.F_ASSERT: (_TRAPPED, "device-side assert triggered"),
        L.F_BUDGET: (_TIMEOUT, "the launch timed out and was terminated"),
        L.F_STOPPED: (_TIMEOUT, "the launch timed out and was terminated"),
    }.get(kind, (_FAILED, "unspecified launch failure"))
    return DriverError(code, "cuCtxSynchronize", text)
