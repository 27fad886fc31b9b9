"""What this machine can do, and what to install for the rest."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from itertools import chain

from harness.compile import cache
from harness.compile.nvrtc import nvrtc
from harness.errors import JudgeException
from harness.sandbox.limits import ProcessLimits, gpu_limits, run_limits
from harness.sandbox.supervisor import RunProcess, Toolchain


@dataclass(frozen=True)
class Finding:
    """One line of the examination: what was looked at, whether it is there, and in words what is or what to do."""

    subject: str
    ok: bool
    words: str
    needed: bool  # for judging without a GPU


def print_examination(install: str, more: Iterable[Finding] = ()) -> bool:
    """Print one line for each thing looked at, here and by others; `install` is the command that installs the core
    packages.

    True when this machine can judge, on the emulator at least.
    """
    able = True
    for finding in chain(examine(install), more):
        mark = "ok" if finding.ok else "missing" if finding.needed else "absent"
        print(f"{mark:8} {finding.subject:16} {finding.words}", flush=True)
        able &= finding.ok or not finding.needed
    print("\nthis machine can judge" if able else "\nthis machine cannot judge yet: see the lines marked 'missing'")
    return able


def examine(install: str) -> Iterator[Finding]:
    """Look at each thing in turn."""
    yield Finding("python", sys.version_info >= (3, 11), f"{platform.python_version()} ({sys.executable})", True)
    yield _machine()
    for package in ("numpy", "ml_dtypes", "pyyaml", "jinja2", "rich", "llvmlite"):
        yield _package(package, install)
    yield _attempt("compiler", _nvrtc, needed=True)
    yield _attempt("emulator", _emulator, needed=True)
    yield _attempt("compile cache", _cache, needed=False)
    yield from _gpu(install)


def _machine() -> Finding:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    words = f"{platform.system()} {platform.machine()}, {cores} cores, {memory:.1f} GiB of memory"
    if memory < 2:
        words += " (a judging may take 2 GiB)"
    return Finding("machine", True, words, True)


def _package(name: str, install: str) -> Finding:
    try:
        return Finding(name, True, version(name), True)
    except PackageNotFoundError:
        return Finding(name, False, install, True)


def _attempt(subject: str, look: Callable[[], str], needed: bool) -> Finding:
    try:
        return Finding(subject, True, look(), needed)
    except (JudgeException, ImportError, OSError) as error:
        return Finding(subject, False, str(error), needed)


def _nvrtc() -> str:
    compiler = nvrtc()
    return f"NVRTC {'.'.join(map(str, compiler.version))} ({compiler.toolkit.library})"


def _emulator() -> str:
    cores = os.cpu_count() or 1
    return _opened("cpu", run_limits((1 << 30) + cores * (16 << 20)))


def _cache() -> str:
    return str(cache.directory())


def _gpu(install: str) -> Iterator[Finding]:
    try:
        yield Finding("pycuda", True, version("pycuda"), False)
    except PackageNotFoundError:
        yield Finding("pycuda", False, f"{install}'[gpu]' (needs a CUDA toolkit and a GPU; optional)", False)
        return
    nvcc = shutil.which("nvcc")
    yield Finding("nvcc", nvcc is not None, nvcc or "install the CUDA toolkit and put its bin folder on PATH", False)
    yield _attempt("gpu", _card, needed=False)


def _card() -> str:
    return _opened("gpu", gpu_limits())


def _opened(kind: str, limits: ProcessLimits) -> str:
    """The name of a device that a child process can open; raises as RunProcess.opened does."""
    with RunProcess(Toolchain().candidates(kind), {kind: limits}) as runner:
        return runner.opened().name
