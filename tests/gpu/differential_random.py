"""Random programs on both sides: which agree bit for bit, and what of those that do not."""

from __future__ import annotations

import queue
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.gpu.differential_children import FINDING, RAN, REFUSED, Build, Child, Reply, Run
from tests.random_ptx.build import LEVELS
from tests.random_ptx.compare import DIFFERENT, EQUAL, PAYLOAD, Difference, difference
from tests.random_ptx.families import FAMILIES
from tests.random_ptx.program import BLOCKS, THREADS, WORDS_EACH, Program, inputs, program, textless

UNSTABLE, LOST, FALSE_ALARM = "unstable on the card", "lost", "finding"
CLASSES = (EQUAL, PAYLOAD, DIFFERENT, FALSE_ALARM, REFUSED, UNSTABLE, LOST)
LAUNCHES = 2
_BUILD_SECONDS, _RUN_SECONDS = 240.0, 40.0
_EMULATE_SECONDS = 150.0  # LLVM takes more than 40 s for the longest kernels


@dataclass(frozen=True)
class Batch:
    """Programs that are built together. optimise: whether the emulator's code goes through LLVM's passes."""

    family: str
    seeds: range
    level: str
    optimise: bool

    def stem(self, folder: Path) -> Path:
        return folder / f"{self.family}_{self.seeds.start}_{self.seeds.stop}_{self.level}"

    def halves(self) -> list[Batch]:
        """The same programs as two batches, where there is more than one."""
        if len(self.seeds) < 2:
            return []
        middle = self.seeds.start + len(self.seeds) // 2
        return [replace(self, seeds=range(self.seeds.start, middle)), replace(self, seeds=range(middle, self.seeds.stop))]


@dataclass(frozen=True)
class Case:
    """A program that is not equal. launch: the one that shows it."""

    family: str
    seed: int
    level: str
    optimised: bool
    verdict: str
    launch: int
    note: str
    difference: Difference | None

    def line(self) -> str:
        """The case and the first differing element, in one line."""
        shown = str(self.difference) if self.difference else " / ".join(self.note.split("\n"))
        passes = "" if self.optimised else ", no passes"
        return f"{self.family} {self.seed} ({self.level}{passes}, launch {self.launch}): {self.verdict}, {shown}"[:MOST_SHOWN]

    def text(self) -> str:
        """Everything that is needed to look into it: also the operands of the thread, and the source."""
        p, thread = program(self.family, self.seed), self.difference.thread if self.difference else -1
        given = inputs(p, self.launch)
        words = given.words[thread * WORDS_EACH : (thread + 1) * WORDS_EACH] if thread >= 0 else given.words[:WORDS_EACH]
        operands = f"u0 = {given.u0}, u1 = {given.u1}, words of thread {max(thread, 0)}: " + " ".join(f"{int(w):#x}" for w in words)
        return f"{self.line()}\n{self.note[:MOST_NOTE]}\n{operands}\n{p.cuda[:MOST_SOURCE]}\n"


MOST_SHOWN, MOST_NOTE, MOST_SOURCE = 240, 2_000, 20_000  # characters: all that is written stays below 2 MB


@dataclass
class Tally:
    """What came out, by family, and every case that is not equal."""

    counts: dict[str, Counter[str]] = field(default_factory=lambda: {f: Counter() for f in FAMILIES})
    cases: list[Case] = field(default_factory=list)
    refusals: Counter[str] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, batch: Batch, seed: int, found: Verdict) -> None:
        with self.lock:
            self.counts[batch.family][found.verdict] += 1
            if found.verdict == REFUSED:
                self.refusals[found.note] += 1
            elif found.verdict != EQUAL:
                self.cases.append(Case(batch.family, seed, batch.level, batch.optimise, found.verdict, found.launch, found.note, found.difference))

    def worst(self, family: str, count: int, *verdicts: str) -> list[Case]:
        """The first cases of a family by seed, of all verdicts or of some: differences before everything else."""
        order = (DIFFERENT, FALSE_ALARM, LOST, UNSTABLE, PAYLOAD)
        cases = [c for c in self.cases if c.family == family and (not verdicts or c.verdict in verdicts)]
        return sorted(cases, key=lambda c: (order.index(c.verdict), c.seed))[:count]


@dataclass(frozen=True)
class Verdict:
    """Of a program, or of one of its launches."""

    verdict: str
    launch: int = 0
    note: str = ""
    difference: Difference | None = None


def batches(programs: int, size: int, first: int, families: Sequence[str] = tuple(FAMILIES)) -> list[Batch]:
    """Batches of the families in turn, so that a run that is cut short has some of each. Every level of the compiler
    meets both ways through LLVM."""
    each = -(-programs // len(families))
    made = []
    for n, start in enumerate(range(0, each, size)):
        seeds = range(first + start, first + min(start + size, each))
        for family in families:
            made.append(Batch(family, seeds, LEVELS[n % 2], optimise=n // 2 % 2 == 0))
    return made


class Comparison:
    """All batches through `workers` emulators and one other side, which they share."""

    def __init__(self, emulators: Sequence[Child], other: Child, folder: Path, deadline: float):
        self.tally = Tally()
        self._emulators, self._other, self._folder, self._deadline = emulators, other, folder, deadline
        self._turn = threading.Lock()

    def run(self, work: Sequence[Batch]) -> Tally:
        """Ends with the work or with the time."""
        waiting: queue.SimpleQueue[Batch] = queue.SimpleQueue()
        for batch in work:
            waiting.put(batch)
        threads = [threading.Thread(target=self._worker, args=(child, waiting)) for child in self._emulators]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return self.tally

    def _worker(self, child: Child, waiting: queue.SimpleQueue[Batch]) -> None:
        while time.monotonic() < self._deadline:
            try:
                batch = waiting.get_nowait()
            except queue.Empty:
                return
            stem = batch.stem(self._folder)
            built = child.call(Build(batch.family, batch.seeds, batch.level, stem), _BUILD_SECONDS)
            if built.status != RAN:  # one program must not lose the others
                for half in batch.halves():
                    waiting.put(half)
            for seed in batch.seeds:
                if built.status != RAN:
                    if len(batch.seeds) == 1:
                        self.tally.add(batch, seed, Verdict(LOST, note=f"not built: {built.note}"))
                elif time.monotonic() < self._deadline:
                    self._compare(child, batch, stem, textless(batch.family, seed))

    def _compare(self, child: Child, batch: Batch, stem: Path, p: Program) -> None:
        worst = Verdict(EQUAL)
        for launch in range(LAUNCHES):
            request = Run(stem, p.name, tuple(inputs(p, launch).arguments()), BLOCKS, THREADS, batch.optimise, repeat=launch == 0)
            there = self._on_other(request)
            here = child.call(request, _EMULATE_SECONDS)
            found = _verdict(p, launch, here, there)
            worst = max(worst, found, key=lambda v: CLASSES.index(v.verdict))
            if found.verdict in (LOST, REFUSED):
                break
        self.tally.add(batch, p.seed, worst)

    def _on_other(self, request: Run) -> Reply:
        with self._turn:
            return self._other.call(request, _RUN_SECONDS)


def _verdict(p: Program, launch: int, here: Reply, there: Reply) -> Verdict:
    if here.status == REFUSED:
        return Verdict(REFUSED, launch, here.note.split(" (")[0])
    if here.status not in (RAN, FINDING) or there.status not in (RAN, FINDING):
        sides = (("emulator", here), ("other side", there))
        return Verdict(LOST, launch, "; ".join(f"{side} {r.status} {r.note}" for side, r in sides if r.status not in (RAN, FINDING)))
    if there.again and (apart := difference(p, there.arrays[1:], there.again[1:])):
        return Verdict(UNSTABLE, launch, "", apart)
    if here.status == FINDING:
        return Verdict(FALSE_ALARM, launch, here.note)
    apart = difference(p, here.arrays[1:], there.arrays[1:])
    return Verdict(apart.kind if apart else EQUAL, launch, "", apart)
