"""Compile a submission to PTX: every kernel, and solve() itself as a function that can be evaluated.

The file is compiled as it is, for the device: with -default-device a host function becomes a device function, and with
-rdc=true each <<<>>> in it becomes a call of the device-side launch API, which the planner records instead of running.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable

from harness.cards import Card
from harness.compile import callgraph, diagnostics, explain, hostcode, includes, static_shared
from harness.compile.nvrtc import Nvrtc, nvrtc
from harness.submission import safe_name

LEVELS = ("mid", "full")  # of optimisation: mid compiles an unrolled kernel in 0.1 s, full in half a minute


@dataclass(frozen=True)
class Compiled:
    """A compiled submission. `log` is what the compiler said, in the user's file and lines."""

    ptx: str
    log: str
    seconds: float


def compile_submission(text: str, name: str, declaration: str, card: Card, level: str = "mid") -> Compiled:
    """Compile `text`, the file called `name`, for `card`. `declaration` is solve() with the problem's exact signature
    and a final ';', preceded by the #include lines that its types need.

    Raises SubmissionError: compile_error with the compiler's log, or unsupported for a launch from device code and for
    host libraries. UsageError where there is no compiler.
    """
    start = time.perf_counter()
    name, text = safe_name(name), includes.without_line_directives(text)
    includes.check(text, name)
    compiler = nvrtc()
    folders = compiler.toolkit.include
    unit, headers = unit_of(text, name, declaration), includes.covered(text, folders) | shim_headers()
    flags = options(compiler, card, level)
    output = compiler.compile(unit, name, headers, flags)
    log = diagnostics.clean(output.log, name, folders, headers)
    if not output.ok:
        if diagnostics.names_assembler(log):
            log = diagnostics.locate_assembler(log, _unassembled(compiler, unit, name, headers, flags), name)
        raise explain.compile_error(log, name, text, declaration, folders)
    if not callgraph.defines(output.ptx, "solve"):
        raise explain.no_entry(log, name, text, declaration)
    host = hostcode.NONE
    if hostcode.suspected(output.ptx, text, name):
        host_log = _without_default_device(compiler, unit, name, headers, flags)
        host = hostcode.host_names(host_log, text, name)
    hostcode.check(output.ptx, name, host)
    static_shared.check(output.ptx, card, name)
    ptx = diagnostics.without_paths(output.ptx, name, folders, headers)
    return Compiled(ptx, log, time.perf_counter() - start)


def _without_default_device(compiler: Nvrtc, unit: str, name: str, headers: dict[str, str], flags: list[str]) -> str:
    """The log of the front end when every unannotated function is an error to it. It stops at 100 of them, which the
    functions of the driver API alone would fill."""
    rest = [flag for flag in flags if flag != "-default-device"]
    return compiler.compile(unit, name, headers | {"cuda.h": "#pragma once\n"}, rest).log


def _unassembled(compiler: Nvrtc, unit: str, name: str, headers: dict[str, str], flags: list[str]) -> str:
    """The PTX that the assembler refused: a virtual architecture leaves it out."""
    virtual = [flag.replace("=sm_", "=compute_") for flag in flags]
    return compiler.compile(unit, name, headers, virtual).ptx


def options(compiler: Nvrtc, card: Card, level: str) -> list[str]:
    """The compiler's options. A real architecture makes the assembler check the PTX as well."""
    flags = [f"--gpu-architecture=sm_{card.arch}", "-default-device", "-rdc=true", "-std=c++17", "-lineinfo"]
    flags.append("-diag-suppress=47")  # CCCL defines the macros of <climits> and <cfloat> in other words
    flags.append("-diag-suppress=20054")  # static __shared__ cuda::barrier, as the programming guide declares it
    flags += ["--Ofast-compile=mid"] if level == "mid" else []
    return flags + [f"-I{folder}" for folder in compiler.toolkit.include]


def shim_headers() -> dict[str, str]:
    """Our own headers, by the name that #include gives them: the host API and the C++ headers that NVRTC lacks."""
    return dict(_walk(resources.files("harness.compile") / "shim", ""))


def _walk(folder: Traversable, prefix: str) -> list[tuple[str, str]]:
    found = []
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            found += _walk(entry, f"{prefix}{entry.name}/")
        else:
            found.append((prefix + entry.name, entry.read_text(encoding="utf-8")))
    return found


def unit_of(text: str, name: str, declaration: str) -> str:
    """The text as it is compiled: nvcc includes cuda_runtime.h unasked, and the declaration makes a wrong parameter
    list a compile error."""
    before = f'#include <cuda_runtime.h>\n#line 1 "{diagnostics.DECLARATION}"\n{declaration}\n'
    return f'{before}#line 1 "{name}"\n{text}\n'
