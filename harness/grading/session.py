"""All files of one `judge.py grade`: judged, in the order of their names, and what the exit code says of them."""

from __future__ import annotations

import dataclasses
import os
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from harness import cases, pipeline
from harness.grading.discovery import Entry
from harness.grading.graded import Graded, Status
from harness.grading.judging import Settings
from harness.grading.workers import Workers
from harness.sandbox.limits import MIB, gpu_limits, run_limits
from harness.sandbox.supervisor import RunProcess

EXIT_SURPRISE, EXIT_JUDGE_ERROR = 1, 3
_PROBE_BYTES = 1024 * MIB  # of a child that only opens the emulator

Watch = Callable[[Entry, "str | Graded"], None]  # is told each step of a file, and its result


@dataclass
class Session:
    """What is known; after an interrupt, of some files only. `seed` is that of all files."""

    entries: Sequence[Entry]
    settings: Settings
    jobs: int
    results: dict[int, Graded] = field(default_factory=dict)  # by place in `entries`
    seconds: float = 0.0
    interrupted: bool = False

    @property
    def rows(self) -> list[tuple[Entry, Graded]]:
        """Every entry with its result, in order."""
        missing = Graded(Status.NOT_RUN, ("interrupted before it was judged",))
        return [(entry, self.results.get(at, missing)) for at, entry in enumerate(self.entries)]

    @property
    def counts(self) -> Counter[Status]:
        """How many files stand how."""
        return Counter(graded.status for _, graded in self.rows)

    @property
    def exit_code(self) -> int:
        """0 all as declared, 1 a surprise, 3 the judge failed somewhere."""
        if self.counts[Status.JUDGE_ERROR]:
            return EXIT_JUDGE_ERROR
        return EXIT_SURPRISE if self.counts[Status.SURPRISE] else 0

    def run(self, watch: Watch) -> None:
        """Judge all. An interrupt (KeyboardInterrupt) ends all processes, is noted in `interrupted`, and passed on."""
        begun = time.monotonic()
        try:
            with Workers(self.jobs, self.settings) as workers:
                for at, message in workers.results(self.entries):
                    if isinstance(message, Graded):
                        self.results[at] = message
                    watch(self.entries[at], message)
        except KeyboardInterrupt:
            self.interrupted = True
            raise
        finally:
            self.seconds = time.monotonic() - begun


def session(entries: Sequence[Entry], settings: Settings, jobs: int = 0) -> Session:
    """A session whose open choices are made: the device, one seed for all files, so that all get the same inputs, and
    how many are judged at once (0: on the emulator one for two cores, on a GPU one), who share the cores.

    Raises UsageError where the device that was asked for is not there.
    """
    options = settings.options
    device = _device(options)
    cores = len(os.sched_getaffinity(0))
    jobs = min(jobs or (1 if device == "gpu" else max(1, cores // 2)), max(1, len(entries)))
    seed = cases.fresh_seed() if options.seed is None else options.seed
    threads = options.threads or max(1, cores // jobs)
    settled = dataclasses.replace(options, device=device, seed=seed, threads=threads)
    return Session(entries, dataclasses.replace(settings, options=settled), jobs)


def _device(options: pipeline.Options) -> str:
    """ "cpu" or "gpu": what a child process can open of what was asked for."""
    candidates = options.toolchain.candidates(options.device)
    if list(candidates) == ["cpu"]:
        return "cpu"
    with RunProcess(candidates, {"gpu": gpu_limits(), "cpu": run_limits(_PROBE_BYTES)}) as runner:
        return runner.opened().kind
