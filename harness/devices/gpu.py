"""The GPU as a device: plans solve(), replays the plan on a real card through PyCUDA, and looks at what it left.

    harness/devices/driver.py   the few driver calls that are needed (the seam)
    harness/devices/memory.py   buffers, guard zones, poison
    harness/devices/replay.py   the plan's steps, pointer by pointer
    harness/devices/faults.py   CUDA error numbers -> findings

Importing this module needs no PyCUDA; opening a GpuDevice does. One process, one thread, one context, one stream.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import cast

import numpy as np

from harness.cards import Card
from harness.compile.cubin import IncompleteCubin, inspect, match
from harness.devices.base import Argument, Program, RunLimits, RunResult
from harness.devices.bench import Bench, Compiled
from harness.devices.driver import Driver, DriverError, TimedDriver
from harness.devices.memory import CaseMemory
from harness.devices.names import readable
from harness.devices.pycuda_driver import PyCudaDriver, detect_card
from harness.devices.replay import Kernels, Replay, Stop
from harness.devices.shapes import launch_shapes
from harness.dtypes import is_real
from harness.emulator import ptx
from harness.errors import JudgeError
from harness.measure import ceilings
from harness.measure.clocks import Watch
from harness.measure.judge_kernels import JudgeKernels
from harness.measure.records import Ceilings
from harness.plan import FIRST_TENSOR_ID, Launch, LaunchPlan
from harness.planner import PlanFault, make_plan
from harness.results import Finding
from harness.verdict import FindingKind

__all__ = ["GpuDevice", "detect_card"]

Planner = Callable[[Program, list[Argument], Card, RunLimits], LaunchPlan]


class GpuDevice:
    """One card. `arch` is what cubins for it are compiled for, as "sm_90a"; once `broken`, the context is lost and
    only a new process can run the next case."""

    def __init__(self, driver: Driver | None = None, card: Card | None = None, planner: Planner = make_plan):
        """Open the first card. Raises UsageError where there is no PyCUDA, no driver or no card."""
        self.card = card or detect_card()
        self._driver = driver or PyCudaDriver()
        self._timed = cast(TimedDriver, self._driver)  # a test's may lack that part
        self.name = self.card.full_name
        self.arch = f"sm_{self.card.arch}"
        self.broken = False
        self._plan = planner
        self._judge: JudgeKernels | None = None
        self._clocks: Watch | None = None

    def run(self, program: Program, arguments: list[Argument], limits: RunLimits, seed: int) -> RunResult:
        """Plan and replay one case. The submission's faults come back as findings; raises JudgeError for our own."""
        if self.broken:
            raise JudgeError("the GPU context is lost since an earlier case; a new process must run this one")
        begun = time.perf_counter()
        try:
            plan = self._plan(program, arguments, self.card, limits)
        except PlanFault as fault:
            return _nothing_ran(arguments, tuple(fault.findings), "", time.perf_counter() - begun)
        result = self._replay(program, plan, arguments, limits, seed)
        return replace(result, seconds=time.perf_counter() - begun, launches=launch_shapes(plan))

    @property
    def driver_version(self) -> str:
        """Of NVIDIA's driver."""
        return self._timed.version()

    @property
    def l2_bytes(self) -> int:
        """Of the card's L2 cache."""
        return self.card.l2_bytes

    def bench(self, program: Program, arguments: list[Argument], limits: RunLimits, seed: int, tools: bytes) -> Bench:
        """A benchmark case, ready to be opened. `tools`: the cubin of the judge's own kernels.

        Raises PlanFault for what solve() did, JudgeError for our own."""
        if self.broken:
            raise JudgeError("the GPU context is lost since an earlier case; a new process must run this one")
        plan = self._plan(program, arguments, self.card, limits)
        module, kernels = self._load(program, plan), self._kernels(program, plan)
        compiled = Compiled(module, kernels, plan, program.source_name, inspect(program.cubin).variables)
        if self._judge is None:
            self._judge = JudgeKernels(self._driver, self.card, tools)
        return Bench(self._timed, self.card, self._judge, self._watch(), compiled, arguments, limits, seed)

    def ceilings(self) -> Ceilings:
        """What this card reaches, measured now."""
        free, _ = self._timed.memory()
        return ceilings.measure(self._timed, self.card, free, lambda: self._watch().read().sm_mhz)

    def _watch(self) -> Watch:
        if self._clocks is None:
            self._clocks = Watch(self._timed.bus_id())
        return self._clocks

    def _replay(
        self, program: Program, plan: LaunchPlan, arguments: list[Argument], limits: RunLimits, seed: int
    ) -> RunResult:
        memory = CaseMemory(self._driver, seed)
        try:
            return self._one_case(program, plan, arguments, limits, memory)
        except DriverError as error:
            self.broken = True
            raise JudgeError(f"the GPU failed, not the submission: {error}; look at nvidia-smi") from error
        except JudgeError:
            self.broken = True
            raise
        finally:
            self._driver.flush_output()

    def _one_case(
        self, program: Program, plan: LaunchPlan, arguments: list[Argument], limits: RunLimits, memory: CaseMemory
    ) -> RunResult:
        kernels = self._kernels(program, plan)
        residents = self.card.sms * self.card.threads_per_sm
        replay = Replay(self._driver, kernels, program.source_name, limits, residents)
        module = self._load(program, plan)  # afresh for each case, so that no variable carries anything over
        try:
            replay.place(memory, module, arguments, plan)
            replay.run(plan)
        except Stop as stop:
            self.broken = stop.fatal
            result = _nothing_ran(arguments, (stop.finding,), plan.stdout, 0.0)
        else:
            result = examine(memory, arguments, plan.stdout)
        if not self.broken:
            memory.free()
            self._driver.unload(module)
        return result

    def _load(self, program: Program, plan: LaunchPlan) -> object:
        cooperative = any(isinstance(step, Launch) and step.cooperative for step in plan.steps)
        try:
            return self._driver.load(program.cubin, cooperative)
        except DriverError as error:
            raise JudgeError(f"the card refuses the compiled kernels of {program.source_name}: {error}") from error

    def _kernels(self, program: Program, plan: LaunchPlan) -> Kernels:
        parsed = ptx.parsed(program.ptx)
        try:
            found = inspect(program.cubin)
        except IncompleteCubin as error:
            raise JudgeError(f"the cubin of {program.source_name} is damaged: {error}") from error
        launched = {step.kernel for step in plan.steps if isinstance(step, Launch)} | set(plan.dynamic_shared_limit)
        names = {kernel: match(kernel, found.kernels) for kernel in launched}
        variables = {v.name: match(v.name, found.variables) for v in plan.variables}
        slots = {k: [(p.offset, p.nbytes) for p in parsed.kernels[k].params] for k in launched & set(parsed.kernels)}
        return Kernels(
            cubin_name={kernel: name for kernel, name in names.items() if name},
            readable={kernel: readable(kernel) for kernel in launched},
            parameters=slots,
            variables={variable: name for variable, name in variables.items() if name},
        )


def examine(memory: CaseMemory, arguments: Sequence[Argument], stdout: str) -> RunResult:
    """What a finished case left: outputs, elements never written, writes beside buffers and into inputs."""
    outputs: dict[str, np.ndarray] = {}
    unwritten: dict[str, int] = {}
    findings = memory.guard_findings()
    for index, argument in enumerate(arguments):
        value = argument.value
        if not isinstance(value, np.ndarray):
            continue
        data = memory.contents(FIRST_TENSOR_ID + index)
        if argument.role == "in":
            findings += _changed_input(argument.name, value, data)
            continue
        outputs[argument.name] = data.view(value.dtype).reshape(value.shape)
        if argument.role == "out" and (count := int(memory.unwritten(data, value.dtype.itemsize).sum())):
            unwritten[argument.name] = count
    return RunResult(outputs, tuple(findings), stdout, 0.0, unwritten)


def _changed_input(name: str, value: np.ndarray, data: np.ndarray) -> list[Finding]:
    before = np.ascontiguousarray(value).reshape(-1).view(np.uint8)
    changed = (before != data).reshape(-1, value.dtype.itemsize).any(axis=1)
    if not changed.any():
        return []
    index = tuple(int(i) for i in np.unravel_index(int(changed.argmax()), value.shape))
    message = (f"{name} is an input, but a kernel changed {int(changed.sum())} of its elements, the first at "
               f"{name}[{', '.join(map(str, index))}]; run with --device cpu to see the line.")  # fmt: skip
    return [Finding(FindingKind.READ_ONLY_WRITE, message, tensor=name, index=index)]


def _nothing_ran(
    arguments: Sequence[Argument], findings: tuple[Finding, ...], stdout: str, seconds: float
) -> RunResult:
    """The result of a case that ended early: outputs hold NaN (or 0 where there is none) and count as unwritten."""
    outputs: dict[str, np.ndarray] = {}
    unwritten: dict[str, int] = {}
    for argument in arguments:
        if isinstance(argument.value, np.ndarray) and argument.role == "inout":
            outputs[argument.name] = argument.value
        elif isinstance(argument.value, np.ndarray) and argument.role == "out":
            empty = np.nan if is_real(argument.value.dtype) else 0
            outputs[argument.name] = np.full(argument.value.shape, empty, argument.value.dtype)
            unwritten[argument.name] = argument.value.size
    return RunResult(outputs, findings, stdout, seconds, unwritten)
