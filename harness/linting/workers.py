"""Threads that examine kernels, each with a run child of its own that stays for one kernel after another."""

from __future__ import annotations

import queue
import threading
from collections.abc import Generator, Sequence
from dataclasses import replace

from harness.linting.kernels import StandingKernel
from harness.linting.records import KernelResult
from harness.linting.trials import Setting, Stopped, examine
from harness.problem import Problem
from harness.sandbox.limits import MIB, run_limits
from harness.sandbox.supervisor import RunProcess

Task = tuple[StandingKernel, Problem]
_CHILD_BYTES = 3072 * MIB  # more than in judging, since one child keeps the code of many kernels


def results(tasks: Sequence[Task], setting: Setting, jobs: int) -> Generator[KernelResult, None, None]:
    """The kernels' results as they come. Raises what the first failed trial raised; closing it ends the children."""
    todo: queue.SimpleQueue[Task] = queue.SimpleQueue()
    for task in tasks:
        todo.put(task)
    done: queue.SimpleQueue[KernelResult | BaseException] = queue.SimpleQueue()
    stop = threading.Event()
    setting = replace(setting, stopped=stop.is_set)
    count = min(jobs, len(tasks))
    threads = [threading.Thread(target=_work, args=(todo, done, setting), name=f"lint-{n}") for n in range(count)]
    for thread in threads:
        thread.start()
    try:
        for _ in tasks:
            result = done.get()
            if isinstance(result, BaseException):
                raise result
            yield result
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def _work(
    todo: queue.SimpleQueue[Task], done: queue.SimpleQueue[KernelResult | BaseException], setting: Setting
) -> None:
    """One thread: a child dies with the thread that started it, so both live as long as there are tasks."""
    try:
        with RunProcess(setting.toolchain.candidates("cpu"), {"cpu": run_limits(_CHILD_BYTES)}) as runner:
            while not setting.stopped():
                kernel, track = todo.get_nowait()
                done.put(examine(kernel, track, setting, runner))
    except (queue.Empty, Stopped):
        pass
    except BaseException as error:  # raised again in the thread that waits for results
        done.put(error)
