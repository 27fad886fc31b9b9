"""Runs one kernel of a CUDA or PTX text on NumPy arrays, for the emulator's own tests."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from harness import cards, plan
from harness.compile.build import compile_submission
from harness.devices.base import Argument
from harness.devices.emulated import Reporter
from harness.devices.places import LaunchPlaces, Tensors
from harness.emulator import ptx
from harness.emulator.launch import Launcher, Outcome, shape_of
from harness.emulator.memory import Memory, load_variables
from harness.emulator.program import Program
from harness.plan import FIRST_TENSOR_ID, Buffer, Launch
from harness.results import Finding

HEADER = "#include <cuda_runtime.h>\n#include <cstdio>\n#include <cassert>\n"
SOLVE = '\nextern "C" void solve(int) {}\n'


@dataclass
class Ran:
    """What a launch did: the arrays afterwards, findings, printed text."""

    arrays: list[np.ndarray]
    findings: list[Finding]
    stdout: str
    outcome: Outcome


@lru_cache(maxsize=64)
def ptx_of(source: str, level: str = "mid") -> str:
    """PTX of kernels, through the judge's own compile path."""
    return compile_submission(
        HEADER + source + SOLVE, "kernel.cu", 'extern "C" void solve(int);', cards.get("H100"), level
    ).ptx


@lru_cache(maxsize=64)
def program_of(text: str) -> Program:
    return Program(ptx.parse(text))


def run(source: str, arguments: Sequence[np.ndarray | int | float], grid: int | tuple[int, int, int] = 1,
        block: int | tuple[int, int, int] = 32, shared: int = 0, kernel: str = "", level: str = "mid", threads: int = 1,
        budget: int = 10_000_000, seconds: float = 20.0, read_only: Sequence[int] = ()) -> Ran:  # fmt: skip
    """Compile and launch. Arrays are read and written; an array of NaN-poisoned scratch is given as an empty shape by
    numpy.ma (all masked): it starts unwritten. `read_only`: positions of arrays that must not be written."""
    text = source if source.lstrip().startswith((".version", "//ptx")) else ptx_of(source, level)
    program = program_of(text)
    name = next(n for n in program.kernel_addresses if kernel in n)
    memory = Memory()
    load_variables(memory, program)
    block_args, tensors = b"", {}
    for k, a in enumerate(arguments):
        if isinstance(a, np.ndarray):
            unwritten = isinstance(a, np.ma.MaskedArray)
            number = FIRST_TENSOR_ID + k
            memory.add(
                Buffer(number, f"a{k}", a.nbytes), None if unwritten else a, k not in read_only, tracked=unwritten
            )
            tensors[number] = Argument(f"a{k}", np.asarray(a), "inout", "float")
            data = struct.pack("<Q", plan.address(number))
        else:
            data = struct.pack("<f" if isinstance(a, float) else "<i", a)
        block_args += b"\0" * (-len(block_args) % len(data)) + data
    g = grid if isinstance(grid, tuple) else (grid, 1, 1)
    b = block if isinstance(block, tuple) else (block, 1, 1)
    compiled = program.kernel(name, shape_of(b))
    outcome = Launcher(memory, threads).launch(compiled, g, b, shared, block_args, budget, seconds)
    reporter = Reporter(program.module, "kernel.cu", Tensors(memory, tensors))
    places = LaunchPlaces(compiled, Launch(name, g, b, shared, block_args, 0), name)
    arrays = [
        memory.regions[FIRST_TENSOR_ID + k].data.view(a.dtype).reshape(a.shape)
        for k, a in enumerate(arguments) if isinstance(a, np.ndarray)
    ]  # fmt: skip
    return Ran(arrays, reporter.findings(places, outcome), reporter.printed(outcome), outcome)
