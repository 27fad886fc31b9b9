"""Random programs on both sides: which agree bit for bit, and what of those that do not."""

from __future__ import annotations

import queue
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.gpu.differential_children import FINDING, RAN, REFUSED, Build, Child, Reply, Run
from tests.random_ptx.build import LEVELS
from tests.random_ptx.compare import DIFFERENT, EQUAL, PAYLOAD, Difference, difference
from tests.random_ptx.families import FAMILIES
from tests.random_ptx.program import BLOCKS, THREADS, Program, inputs, program, textless

UNSTABLE, LOST, FALSE_ALARM = "unstable on the card", "lost", "finding"
CLASSES = (EQUAL, PAYLOAD, DIFFERENT, FALSE_ALARM, REFUSED, UNSTABLE, LOST)
LAUNCHES = 2
_BUILD_SECONDS, _RUN_SECONDS = 240.0, 40.0


@dataclass(frozen=True)
class Batch:
    """Programs that are built together. optimise: whether the emulator's code goes through LLVM's passes."""

    family: str
    seeds: range
    level: str
    optimise: bool

    def stem(self, folder: Path) -> Path:
        return folder / f"{self.family}_{self.seeds.start}_{self.level}"


@dataclass
class Tally:
    """What came out, by family, and every case that is not equal."""

    counts: dict[str, Counter[str]] = field(default_factory=lambda: {f: Counter() for f in FAMILIES})
    cases: list[dict[str, Any]] = field(default_factory=list)
    refusals: Counter[str] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, batch: Batch, seed: int, verdict: str, note: str, apart: Difference | None = None) -> None:
        with self.lock:
            self.counts[batch.family][verdict] += 1
            if verdict == REFUSED:
                self.refusals[note] += 1
            elif verdict != EQUAL:
                self.cases.append(
                    {"family": batch.family, "seed": seed, "level": batch.level, "optimised": batch.optimise, "verdict": verdict,
                     "note": note, "difference": asdict(apart) if apart else None, "cuda": program(batch.family, seed).cuda}
                )  # fmt: skip


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
            for seed in batch.seeds:
                if built.status != RAN:
                    self.tally.add(batch, seed, LOST, f"the module is not built: {built.note}")
                elif time.monotonic() < self._deadline:
                    self._compare(child, batch, stem, textless(batch.family, seed))

    def _compare(self, child: Child, batch: Batch, stem: Path, p: Program) -> None:
        worst: tuple[str, str, Difference | None] = (EQUAL, "", None)
        for launch in range(LAUNCHES):
            request = Run(stem, p.name, tuple(inputs(p, launch).arguments()), BLOCKS, THREADS, batch.optimise, repeat=launch == 0)
            there = self._on_other(request)
            here = child.call(request, _RUN_SECONDS)
            found = _verdict(p, launch, here, there)
            worst = max(worst, found, key=lambda v: CLASSES.index(v[0]))
            if found[0] in (LOST, REFUSED):
                break
        self.tally.add(batch, p.seed, *worst)

    def _on_other(self, request: Run) -> Reply:
        with self._turn:
            return self._other.call(request, _RUN_SECONDS)


def _verdict(p: Program, launch: int, here: Reply, there: Reply) -> tuple[str, str, Difference | None]:
    if here.status == REFUSED:
        return REFUSED, here.note.split(" (")[0], None
    if here.status not in (RAN, FINDING) or there.status not in (RAN, FINDING):
        return LOST, f"launch {launch}: emulator {here.status} {here.note}; other side {there.status} {there.note}", None
    if there.again and (apart := difference(p, there.arrays[1:], there.again[1:])):
        return UNSTABLE, f"launch {launch}", apart
    if here.status == FINDING:
        return FALSE_ALARM, f"launch {launch}: {here.note}", None
    apart = difference(p, here.arrays[1:], there.arrays[1:])
    return (apart.kind, f"launch {launch}: {apart}", apart) if apart else (EQUAL, "", None)
