"""The emulator as a device: memory of one case, replay of its plan, findings.

Tensors that solve() may only read are read-only; outputs and scratch start as poison and are tracked word by word, so
that a read of what nobody wrote, and an output that nobody wrote, are both seen.

Findings do not depend on the number of cores: a case in which several host threads found anything is run again on one,
in the order of the blocks, and that run is reported.
"""

from __future__ import annotations

import math
import time
from dataclasses import replace
from functools import lru_cache

import numpy as np

from harness import cards
from harness.devices.base import Argument, Program, RunLimits, RunResult
from harness.devices.emulated import Reporter
from harness.devices.footprints import Footprints
from harness.devices.names import readable
from harness.devices.places import LaunchPlaces, Tensors
from harness.devices.shapes import launch_shapes
from harness.devices.traces import TraceRecorder
from harness.devices.traffic import Recorder
from harness.emulator import layout as L
from harness.emulator import memory, ptx
from harness.emulator.errors import UnsupportedPtx
from harness.emulator.host import user_line
from harness.emulator.launch import Grid, Launcher, Outcome, shape_of
from harness.emulator.memory import Memory, Region, load_variables
from harness.emulator.program import Program as EmulatedProgram
from harness.plan import FIRST_TENSOR_ID, Buffer, Copy, Launch, LaunchPlan, Memset, Step, Upload, address, locate
from harness.planner import PlanFault, make_plan
from harness.planning.launch_rules import blocks_per_sm
from harness.results import Finding
from harness.verdict import FindingKind, Verdict, verdict_of

WORKSPACE_ID = 9  # buffer id of the driver's workspace of cooperative launches
_WORKSPACE = np.array([8, 0], np.uint32)  # its size and the barrier's state (cooperative_groups/details/driver_abi.h)
MAX_LOCAL_BYTES = 512 * 1024  # a thread, by the CUDA C++ programming guide, table of compute capabilities


@lru_cache(maxsize=2)
def emulated(text: str, traced: bool = False) -> EmulatedProgram:
    """The program of a PTX text; its kernels are compiled when they are first launched."""
    return EmulatedProgram(ptx.parsed(text), traced)


class EmulatorDevice:
    """Runs submissions on the host's processor."""

    name = "cpu"

    def run(self, program: Program, arguments: list[Argument], limits: RunLimits, seed: int) -> RunResult:
        """See harness.devices.base.Device."""
        start = time.monotonic()
        try:
            compiled = emulated(program.ptx, limits.trace)
            plan = make_plan(program, arguments, cards.get(program.card), limits)
        except PlanFault as fault:
            return _nothing_ran(arguments, fault.findings, time.monotonic() - start)
        except UnsupportedPtx as error:
            finding = Finding(
                FindingKind.UNSUPPORTED, f"The emulator does not know this: {error.what}.", program.source_name
            )
            return _nothing_ran(arguments, (finding,), time.monotonic() - start)
        if limits.trace:
            limits = replace(limits, threads=1)
        run = _Run(program, compiled, arguments, plan, limits, start)
        run.replay()
        result = run.result()
        if run.timing_matters:
            del run  # its memory is needed
            again = _Run(program, compiled, arguments, plan, replace(limits, threads=1), start)
            again.replay()
            if not any(f.kind is FindingKind.TIME_LIMIT for f in again.findings):
                return again.result()
        return result


def _nothing_ran(arguments: list[Argument], findings: tuple[Finding, ...], seconds: float) -> RunResult:
    outputs = {
        a.name: np.full_like(a.value, np.nan)
        for a in arguments
        if a.role in ("out", "inout") and isinstance(a.value, np.ndarray)
    }
    return RunResult(outputs, findings, seconds=seconds, unwritten={n: o.size for n, o in outputs.items()})


def _by_chance(outcome: Outcome) -> bool:
    """Whether several host threads ran a launch that was not clean. What ran out of time is not run again."""
    stopped = outcome.fault is not None and outcome.fault.fault_kind in (L.F_BUDGET, L.F_STOPPED)
    return outcome.workers > 1 and not stopped and (outcome.fault is not None or bool(outcome.hazards))


class _Run:
    """One case."""

    def __init__(self, program: Program, compiled: EmulatedProgram, arguments: list[Argument], plan: LaunchPlan,
                 limits: RunLimits, start: float):  # fmt: skip
        self.file, self.compiled, self.arguments, self.plan = program.source_name, compiled, arguments, plan
        self.limits, self.start = limits, start
        self.memory = Memory()
        load_variables(self.memory, compiled)
        self.tensors: dict[int, Argument] = {}
        for k, a in enumerate(arguments):
            if isinstance(a.value, np.ndarray):
                self._place_tensor(FIRST_TENSOR_ID + k, a, a.value)
        for b in plan.scratch:
            self.memory.add(b, tracked=True)
        if any(isinstance(step, Launch) and step.cooperative for step in plan.steps):
            self.memory.add(Buffer(WORKSPACE_ID, "the grid's barrier", _WORKSPACE.nbytes), _WORKSPACE)
        self.reporter = Reporter(compiled.module, self.file, Tensors(self.memory, self.tensors))
        self.footprints = Footprints(plan.steps, self.file, Tensors(self.memory, self.tensors))
        self.launcher = Launcher(self.memory, limits.threads, limits.schedule)
        self.card, self.kernels = cards.get(program.card), ptx.parsed(program.ptx).kernels
        self.traffic = Recorder(compiled.module, self.file, self.memory)
        self.trace = TraceRecorder(compiled.module, self.file, self.memory, self.tensors) if limits.trace else None
        self.findings: list[Finding] = []
        self.stdout = plan.stdout
        self.used = 0
        self.timing_matters = False  # whether what was found may depend on which host thread was faster

    def _place_tensor(self, number: int, a: Argument, value: np.ndarray) -> None:
        buffer = Buffer(number, a.name, value.nbytes)
        self.tensors[number] = a
        if a.role == "out":
            self.memory.add(buffer, tracked=True)
        else:
            self.memory.add(buffer, value, writable=a.role == "inout", shared=a.role == "in")

    def replay(self) -> None:
        """The plan's steps in order, up to the first that fails."""
        for number, step in enumerate(self.plan.steps):
            going_on = self._step(step)
            if isinstance(step, Launch) and self.footprints.wants(number):
                sizes = {n: r.buffer.nbytes for n, r in self.memory.regions.items()}
                self.findings += self.footprints.add(number, self.memory.blocks.touched(sizes))
            if not going_on or any(verdict_of(f.kind) is Verdict.UNSUPPORTED for f in self.findings):
                return

    def _step(self, step: Step) -> bool:
        match step:
            case Launch():
                return self._launch(step)
            case Memset():
                region, offset = self._region(step.dst)
                region.data[offset : offset + step.nbytes] = step.value & 0xFF
                self.memory.mark_written(region, offset, step.nbytes)
                self._count(step.dst, step.nbytes, store=True)
            case Upload():
                region, offset = self._region(step.dst)
                region.data[offset : offset + len(step.data)] = np.frombuffer(step.data, np.uint8)
                self.memory.mark_written(region, offset, len(step.data))
                self._count(step.dst, len(step.data), store=True)
            case Copy():
                self._copy(step)
                self._count(step.src, step.nbytes, store=False)
                self._count(step.dst, step.nbytes, store=True)
        return True

    def _region(self, address: int) -> tuple[Region, int]:
        number, offset = locate(address)
        return self.memory.regions[number], offset

    def _count(self, address: int, nbytes: int, store: bool) -> None:
        """Memory traffic of a step that is no launch."""
        number, offset = locate(address)
        if nbytes:
            self.launcher.touch(number, offset, nbytes, store)
            self.traffic.add_range(number, offset, nbytes, store)

    def _copy(self, step: Copy) -> None:
        (source, a), (target, b) = self._region(step.src), self._region(step.dst)
        target.data[b : b + step.nbytes] = source.data[a : a + step.nbytes].copy()
        if target.shadow is not None:
            words = slice(b // 4, (b + step.nbytes + 3) // 4)
            known = source.shadow[a // 4 : a // 4 + (words.stop - words.start)] if source.shadow is not None else 1
            target.shadow[words] = known

    def _launch(self, step: Launch) -> bool:
        left = self.limits.seconds - (time.monotonic() - self.start)
        try:
            kernel = self.compiled.kernel(step.kernel, shape_of(step.block))
        except UnsupportedPtx as error:
            file, line = user_line(self.compiled.module, error.loc, self.file)  # type: ignore[arg-type]
            message = f"The emulator does not know this: {error.what}."
            self.findings.append(
                Finding(FindingKind.UNSUPPORTED, message, file or self.file, line, kernel=readable(step.kernel))
            )
            return False
        if kernel.local_bytes > MAX_LOCAL_BYTES:
            self._too_much(
                step, f"has {kernel.local_bytes} bytes of local variables a thread; CUDA allows {MAX_LOCAL_BYTES}"
            )
            return False
        budget = max(1, (self.limits.instructions // 32 - self.used))
        places = LaunchPlaces(kernel, step, readable(step.kernel))
        trace = self.trace.begin(places) if self.trace else 0
        try:
            outcome = self.launcher.launch(
                kernel, self._grid(step), step.block, step.shared_bytes, step.args, budget, max(left, 0.01), trace
            )
        except MemoryError:
            self._too_much(step, "needs more memory for its threads' local variables than the judge has")
            return False
        self.used += outcome.instructions
        self.timing_matters |= _by_chance(outcome)
        self.stdout += self.reporter.printed(outcome)
        self.findings += self.reporter.findings(places, outcome)
        self.traffic.add(places, outcome)
        if self.trace:
            self.trace.add(places, outcome)
        return outcome.fault is None

    def _grid(self, step: Launch) -> Grid:
        """The blocks, and how many of them the card holds at once."""
        each = blocks_per_sm(self.kernels[step.kernel], math.prod(step.block), step.shared_bytes, self.card)
        if not step.cooperative:
            return Grid(step.grid, each * self.card.sms)
        self.memory.regions[WORKSPACE_ID].data[:] = _WORKSPACE.view(np.uint8)
        return Grid(step.grid, each * self.card.sms, address(WORKSPACE_ID))

    def _too_much(self, step: Launch, what: str) -> None:
        name = readable(step.kernel)
        self.findings.append(Finding(FindingKind.MEMORY_LIMIT, f"{name} {what}.", self.file, step.line, kernel=name))

    def result(self) -> RunResult:
        outputs, unwritten = {}, {}
        for number, a in self.tensors.items():
            if a.role == "in":
                continue
            assert isinstance(a.value, np.ndarray)
            region = self.memory.regions[number]
            outputs[a.name] = region.data.view(a.value.dtype).reshape(a.value.shape).copy()
            if missing := memory.unwritten(region, a.value.itemsize):
                unwritten[a.name] = missing
        printed = self.stdout.encode()
        if len(printed) > self.limits.stdout_bytes:
            message = f"The submission printed more than {self.limits.stdout_bytes // 1024} KiB in one case."
            self.findings.append(Finding(FindingKind.OUTPUT_LIMIT, message, self.file))
        stdout = printed[: self.limits.stdout_bytes].decode(errors="ignore")
        seconds = time.monotonic() - self.start
        traffic = self.traffic.case(self.launcher.touched())
        return RunResult(outputs, tuple(self.findings), stdout, seconds, unwritten, launches=launch_shapes(self.plan),
                         traffic=traffic, trace=self.trace.case() if self.trace else None)  # fmt: skip
