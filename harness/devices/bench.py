"""Times one benchmark case on a card, in one process, and compares every timed output.

    Bench(...)           base inputs and the first set placed, a few plans run, sets and plans per window settled
    sample(disguises)    windows: a fresh disguise for every plan; inputs, guards and outputs looked at after each
    compare(references)  every output since the last call against the float64 reference, on the card
    fetch(index)         one of these outputs, to say what is wrong with it

A window (harness/measure/stopwatch.py times it and does nothing else):

    prepare sets | fingerprint inputs | poison shared and local memory | flush L2 | hold, event, plans, event
    | guards, fingerprints | outputs into the stash, sealed; nothing readable is left

References come to this process only in `compare`, when no kernel of the submission runs; they are overwritten before
the next one does. A fault ends the case: it is a finding, and the context may be lost with it (`broken`).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from harness.cards import Card
from harness.devices.base import Argument, RunLimits
from harness.devices.buffer_sets import Arena, Base, BufferSet, Variables, fields, vectors
from harness.devices.driver import DriverError, TimedDriver
from harness.devices.faults import Where, too_long, where
from harness.devices.memory import CaseMemory
from harness.devices.replay import Kernels, Replay, Stop, stop_of
from harness.disguise import Disguise
from harness.errors import JudgeError
from harness.measure.clocks import Clocks, Watch
from harness.measure.judge_kernels import Figures, JudgeKernels
from harness.measure.statistics import plans_per_window
from harness.measure.stopwatch import OutOfTime, Stopwatch
from harness.plan import Launch, LaunchPlan
from harness.results import Finding
from harness.verdict import FindingKind

_ROTATED_L2S = 4  # sets together are at least so many times the L2 cache
_MOST_SETS = 512
_MOST_PLANS = 64  # of a window
_SHARE_OF_MEMORY = 0.25  # of what is free, for the stash
_WARM_UP_SECONDS = 0.3  # of flushing, for the clocks
_TRIES = 8  # for a window in which the host was too slow
_EMPTY_WINDOWS = 50
_PATTERN, _STASH, _OWN = "the pattern of guards", "the outputs of earlier launches", "its own copy of"


@dataclass(frozen=True)
class Window:
    """One timed window: seconds of one plan, and the card's state just after it."""

    seconds: float
    clocks: Clocks


@dataclass(frozen=True)
class Setting:
    """What a Bench settled on. `seconds` is a first estimate of one plan's time."""

    seconds: float = 0.0
    overhead: float = 0.0  # seconds of an empty window
    plans_per_window: int = 1
    sets: int = 0
    windows_at_most: int = 1  # between two calls of `compare`
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True)
class Round:
    """What `sample` saw. A finding ends the case; the windows before it count for nothing."""

    windows: tuple[Window, ...] = ()
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True)
class Compared:
    """One output of one plan beside the reference; `plan` counts from the last `compare`."""

    plan: int
    tensor: str
    figures: Figures


@dataclass
class Compiled:
    """What runs: the loaded module, its kernels, and the plan of the case."""

    module: Any
    kernels: Kernels
    plan: LaunchPlan
    file: str
    variables: Sequence[str] = field(default_factory=tuple)  # the module's, by their names in the cubin


class Bench:
    """One case. Every method raises JudgeError for what is not the submission's doing."""

    def __init__(self, driver: TimedDriver, card: Card, judge: JudgeKernels, watch: Watch, compiled: Compiled,
                 arguments: Sequence[Argument], limits: RunLimits, seed: int):  # fmt: skip
        self._driver, self._card, self._judge, self._watch = driver, card, judge, watch
        self._compiled, self._arguments, self._limits, self._seed = compiled, arguments, limits, seed
        self._key = int(np.random.default_rng(np.random.SeedSequence([seed, 0xF1])).integers(1 << 62))
        self._stopwatch = Stopwatch(driver, judge.hold)
        self._arena, self._base = Arena(driver), Base(driver, ())
        self._sets: list[BufferSet] = []
        self._next = 0
        self._stash: list[tuple[int, Disguise]] = []  # (address, the disguise that it answers to)
        self._done: list[tuple[int, Disguise]] = []  # of the last comparison
        self._stash_at, self._stash_size, self._per_window = 0, 0, 1
        self._pattern, self._pattern_bytes = 0, 0
        self._local_bytes = 0
        self._place = self._where()
        self.broken = False

    def open(self, warm_ups: Sequence[Disguise]) -> Setting:
        """Place everything, run one plan for each of `warm_ups`, settle how windows will look."""
        try:
            return self._open(warm_ups)
        except Stop as stop:
            self.broken = stop.fatal
            return Setting(findings=(stop.finding,))

    def _open(self, warm_ups: Sequence[Disguise]) -> Setting:
        self._base = self._allocating(lambda: Base(self._driver, self._arguments))
        self._variables = Variables(self._driver, self._compiled.module, self._compiled.variables)
        self._add_set()
        self._local_bytes = self._most_local_bytes()
        self._warm_up()
        overhead = self._overhead()
        seconds = 0.0
        for disguise in warm_ups:
            seconds, findings = self._window([disguise])
            if findings:
                return Setting(findings=findings)
        self._per_window = plans_per_window(seconds, overhead, _MOST_PLANS)
        self._add_sets()
        self._per_window = min(self._per_window, len(self._sets))
        room = self._place_stash()
        return Setting(seconds, overhead, self._per_window, len(self._sets), room // self._per_window)

    def sample(self, disguises: Sequence[Disguise]) -> Round:
        """One window for every `plans_per_window` disguises; no more of them than `windows_at_most`."""
        windows: list[Window] = []
        try:
            for first in range(0, len(disguises), self._per_window):
                seconds, findings = self._window(disguises[first : first + self._per_window], keep=True)
                if findings:
                    return Round(findings=findings)
                windows.append(Window(seconds, self._watch.read()))
        except Stop as stop:
            self.broken = stop.fatal
            return Round(findings=(stop.finding,))
        return Round(tuple(windows))

    def _window(self, disguises: Sequence[Disguise], keep: bool = False) -> tuple[float, tuple[Finding, ...]]:
        """Seconds of one plan, and what was found afterwards."""
        for _ in range(_TRIES):
            sets = self._take(len(disguises))
            before = self._prepare(sets, disguises)
            taken = self._timed(sets)
            findings = self._look(sets, before)
            if findings:
                return 0.0, findings
            if taken is not None:
                if keep:
                    self._keep(sets, disguises)
                return taken / len(disguises), ()
        raise JudgeError("the host is too busy to keep the card supplied with work; let it do nothing else")

    def _take(self, count: int) -> list[BufferSet]:
        """The next sets in rotation."""
        taken = [self._sets[(self._next + i) % len(self._sets)] for i in range(count)]
        self._next = (self._next + count) % len(self._sets)
        return taken

    def _prepare(self, sets: Sequence[BufferSet], disguises: Sequence[Disguise]) -> list[int]:
        """Make the sets afresh and the caches cold; the fingerprints of all inputs."""
        self._arena.reset()
        self._variables.restore()
        for one, disguise in zip(sets, disguises, strict=True):
            one.prepare(disguise, self._base, self._judge, self._arena)
        before = self._fingerprints(sets)
        self._arena.wipe()
        self._judge.poison_shared(sets[0].memory.poison)
        if self._local_bytes:
            self._judge.poison_local(sets[0].memory.poison, self._local_bytes)
        self._driver.forget_persisting()
        self._judge.flush()
        return before

    def _fingerprints(self, sets: Sequence[BufferSet]) -> list[int]:
        """Of the sets' inputs, and of what the judge keeps for itself."""
        for _, address, nbytes in self._watched(sets):
            self._judge.fingerprint(address, nbytes, self._key)
        return self._judge.fingerprints()

    def _watched(self, sets: Sequence[BufferSet]) -> Iterator[tuple[str, int, int]]:
        """(name, address, bytes) of what no plan may change: its own inputs, those that later ones are made from, the
        pattern of guards, and the outputs of earlier plans."""
        for one in sets:
            yield from one.inputs()
        for name, address, nbytes in self._base.inputs():
            yield f"{_OWN} {name}", address, nbytes
        yield _PATTERN, self._pattern, self._pattern_bytes
        if self._stash:
            yield _STASH, self._stash_at, len(self._stash) * self._stash_size

    def _timed(self, sets: Sequence[BufferSet]) -> float | None:
        try:
            return self._stopwatch.window([one.run for one in sets], self._limits.seconds)
        except DriverError as error:
            raise stop_of(error, self._place) from error
        except OutOfTime:
            raise Stop(too_long(self._limits.seconds, self._place), fatal=True) from None

    def _look(self, sets: Sequence[BufferSet], before: Sequence[int]) -> tuple[Finding, ...]:
        """Inputs and guards after a window."""
        for one in sets:
            for address, nbytes in one.memory.guards():
                self._judge.differences(address, self._pattern, nbytes)
        beside = any(self._judge.fingerprints())
        findings = tuple(finding for one in sets for finding in one.memory.guard_findings()) if beside else ()
        if findings:
            return findings
        after = self._fingerprints(sets)
        names = [name for name, _, _ in self._watched(sets)]
        changed = {name for name, old, new in zip(names, before, after, strict=True) if old != new}
        return tuple(_changed(name) for name in sorted(changed))

    def _keep(self, sets: Sequence[BufferSet], disguises: Sequence[Disguise]) -> None:
        """Copy the outputs to where no later plan writes."""
        for one, disguise in zip(sets, disguises, strict=True):
            address = self._stash_at + len(self._stash) * self._stash_size
            for tensor, source in one.outputs():
                self._judge.seal(address, source, tensor.nbytes, self._key + address)
                address += _aligned(tensor.nbytes)
            self._stash.append((address - self._stash_size, disguise))
            one.forget()

    def compare(
        self,
        references: Mapping[str, np.ndarray],
        rms: Mapping[str, np.ndarray],
        limits: Mapping[str, tuple[float, float]],
    ) -> list[Compared]:
        """Every output since the last call. references: float64, undisguised; rms: [rows] for outputs that are compared
        by rows, floored as harness/check.py floors it; the others are compared element by element. limits: LA, LB."""
        names = [tensor for tensor in fields(self._arguments) if tensor.role != "in"]
        found: list[Compared] = []
        offset = 0
        for tensor in names:
            opened = self._allocating(partial(self._driver.allocate, tensor.nbytes))
            expected = self._upload(references[tensor.name])
            sizes = self._upload(rms[tensor.name]) if tensor.name in rms else 0
            for address, disguise in self._stash:
                self._arena.reset()
                gather, scale = vectors(disguise, tensor.name, self._arena)
                self._judge.seal(opened, address + offset, tensor.nbytes, self._key + address + offset)
                place, poison = opened, self._sets[0].memory.poison
                if sizes:
                    self._judge.compare_rows(
                        place, tensor.shape, tensor.kind, expected, sizes, gather, scale, limits[tensor.name], poison
                    )
                else:
                    self._judge.compare_elements(place, tensor.shape, tensor.kind, expected, gather, scale, poison)
            figures = self._judge.read_figures()
            found += [Compared(plan, tensor.name, each) for plan, each in enumerate(figures)]
            self._scrub(opened, tensor.nbytes)
            self._scrub(expected, references[tensor.name].nbytes)
            if sizes:
                self._scrub(sizes, rms[tensor.name].nbytes)
            offset += _aligned(tensor.nbytes)
        self._done, self._stash = self._stash, []
        return found

    def fetch(self, plan: int) -> dict[str, np.ndarray]:
        """The outputs of a plan that the last `compare` looked at, as the kernel wrote them."""
        address, _ = self._done[plan]
        outputs: dict[str, np.ndarray] = {}
        for argument in self._arguments:
            if isinstance(argument.value, np.ndarray) and argument.role != "in":
                data = self._unsealed(address, argument.value.nbytes)
                outputs[argument.name] = data.view(argument.value.dtype).reshape(argument.value.shape)
                address += _aligned(argument.value.nbytes)
        return outputs

    def _unsealed(self, address: int, nbytes: int) -> np.ndarray:
        opened = self._driver.allocate(nbytes)
        self._judge.seal(opened, address, nbytes, self._key + address)
        data = self._driver.download(opened, nbytes)
        self._scrub(opened, nbytes)
        return data

    def close(self) -> None:
        """Give everything back; a lost context gives nothing back."""
        if self.broken:
            return
        for one in self._sets:
            one.memory.free()
        self._base.free()
        self._arena.free()
        for address in (self._pattern, self._stash_at):
            if address:
                self._driver.free(address)
        self._driver.unload(self._compiled.module)

    def _add_set(self) -> None:
        memory = CaseMemory(self._driver, self._seed)
        residents = self._card.sms * self._card.threads_per_sm
        replay = Replay(self._driver, self._compiled.kernels, self._compiled.file, self._limits, residents)
        one = BufferSet(self._driver, replay, memory, self._arguments, self._compiled.plan, self._compiled.module)
        if not self._pattern:
            self._pattern = self._upload(memory.guard_pattern)
            self._pattern_bytes = memory.guard_pattern.nbytes
        self._sets.append(one)

    def _add_sets(self) -> None:
        """As many sets as the L2 cache asks for and the memory has room for."""
        free, _ = self._driver.memory()
        size = sum(nbytes for _, nbytes in self._sets[0].memory.guards()) + sum(
            buffer.nbytes for buffer in self._buffers()
        )
        wanted = max(2, self._per_window, -(-_ROTATED_L2S * self._card.l2_bytes // size))
        room = int(free * (1 - _SHARE_OF_MEMORY)) // size
        for _ in range(min(wanted, _MOST_SETS, 1 + room) - 1):
            self._add_set()

    def _buffers(self) -> Sequence[Any]:
        return [*fields(self._arguments), *self._compiled.plan.scratch]

    def _place_stash(self) -> int:
        """Room for the outputs of how many plans."""
        self._stash_size = sum(_aligned(t.nbytes) for t in fields(self._arguments) if t.role != "in")
        free, _ = self._driver.memory()
        room = max(self._per_window, int(free * _SHARE_OF_MEMORY) // self._stash_size)
        room = min(room, 64 * self._per_window)
        self._stash_at = self._allocating(lambda: self._driver.allocate(room * self._stash_size))
        return room

    def _allocating(self, allocate: Any) -> Any:
        try:
            return allocate()
        except DriverError as error:
            if error.code != 2:
                raise
            free, whole = self._driver.memory()
            message = f"this benchmark does not fit: {free >> 20} of the card's {whole >> 20} MiB are free"
            raise Stop(Finding(FindingKind.UNSUPPORTED, message), fatal=False) from error

    def _most_local_bytes(self) -> int:
        """Local memory of a thread, of the kernel that has most of it; 0 where none has any."""
        found, names = 0, self._compiled.kernels.cubin_name
        for launch in (step for step in self._compiled.plan.steps if isinstance(step, Launch)):
            function = self._driver.function(self._compiled.module, names.get(launch.kernel, launch.kernel))
            found = max(found, self._driver.local_bytes(function))
        return found

    def _warm_up(self) -> None:
        """Keep the card busy until its clocks are up."""
        until = time.monotonic() + _WARM_UP_SECONDS
        while time.monotonic() < until:
            for _ in range(8):
                self._judge.flush()
            self._driver.wait(self._limits.seconds)

    def _overhead(self) -> float:
        """The median of empty windows."""
        taken = [self._stopwatch.window([], self._limits.seconds) for _ in range(_EMPTY_WINDOWS)]
        return float(np.median([seconds for seconds in taken if seconds is not None] or [0.0]))

    def _upload(self, data: np.ndarray) -> int:
        address: int = self._allocating(lambda: self._driver.allocate(data.nbytes))
        self._driver.upload(address, np.ascontiguousarray(data))
        return address

    def _scrub(self, address: int, nbytes: int) -> None:
        self._driver.memset(address, 0xFF, nbytes)
        self._driver.free(address)

    def _where(self) -> Where:
        """What a fault of a window is charged to: the kernel where there is only one."""
        launches = [step for step in self._compiled.plan.steps if isinstance(step, Launch)]
        kernels = {launch.kernel for launch in launches}
        readable = self._compiled.kernels.readable
        if len(kernels) == 1:
            return where(self._compiled.file, launches[0], readable.get(launches[0].kernel, launches[0].kernel))
        return Where(self._compiled.file, "one of the kernels")


def _aligned(nbytes: int) -> int:
    return -(-nbytes // 256) * 256


def _changed(name: str) -> Finding:
    if name in (_PATTERN, _STASH) or name.startswith(_OWN):
        message = f"A timed launch wrote into memory of the judge: {name}."
        return Finding(FindingKind.READ_ONLY_WRITE, message, tensor=name.removeprefix(f"{_OWN} "))
    message = f"{name} is an input, but a timed launch changed it; run the tests with --device cpu to see the line."
    return Finding(FindingKind.READ_ONLY_WRITE, message, tensor=name)
