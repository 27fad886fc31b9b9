"""The two sides of a comparison: the emulator, and a card. Both take the requests of differential_children.py."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from harness.devices.driver import DriverError
from harness.emulator import jit
from harness.emulator.errors import UnsupportedPtx
from tests.emulator_kit import Ran, program_of, run
from tests.gpu.differential_children import ENDLESS, FAULT, FINDING, RAN, REFUSED, Assemble, Build, Handler, Reply, Run
from tests.random_ptx.build import compile_text
from tests.random_ptx.program import module, program

_BUDGET = 400_000_000  # warp-instructions
_COMPILE_IR = jit.compile_ir
_MODULES = 48  # that stay loaded on the card: the workers' batches take turns


def emulator() -> Handler:
    """Builds, assembles and emulates."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    return _emulator_request


def emulator_unoptimised() -> Handler:
    """An emulator that never runs LLVM's passes: what the other is compared with where there is no card."""
    return lambda request: _emulator_request(request, never=True)


def _emulator_request(request: Any, never: bool = False) -> Reply:
    try:
        if isinstance(request, Build):
            return _build(request)
        if isinstance(request, Assemble):
            return _assemble(request.stem)
        return _emulate(request, request.optimise and not never)
    except UnsupportedPtx as error:
        return Reply(REFUSED, str(error))
    except Exception:  # whatever the emulator raises is a result of the comparison
        return Reply(FAULT, traceback.format_exc())


def _build(request: Build) -> Reply:
    program_of.cache_clear()
    programs = [program(request.family, seed) for seed in request.seeds]
    output = compile_text(module(programs), request.level, cubin=True)
    request.stem.with_suffix(".ptx").write_text(output.ptx)
    request.stem.with_suffix(".cubin").write_bytes(output.cubin)
    return Reply(RAN)


def _assemble(stem: Path) -> Reply:
    """REFUSED, with the assembler's first error, where it takes the text for wrong."""
    assembler = shutil.which("ptxas") or "/usr/local/cuda/bin/ptxas"
    command = [assembler, "-arch=sm_90a", f"{stem}.ptx", "-o", f"{stem}.cubin"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    return Reply(RAN) if done.returncode == 0 else Reply(REFUSED, (done.stderr or done.stdout).strip()[:300])


def _emulate(request: Run, optimise: bool) -> Reply:
    jit.compile_ir = _COMPILE_IR if optimise else _without_passes  # type: ignore[assignment]
    text = request.stem.with_suffix(".ptx").read_text()
    ran: Ran = run(text, request.arguments, request.grid, request.block, kernel=request.kernel, budget=_BUDGET, seconds=request.seconds)
    arrays = [np.array(a) for a in ran.arrays]
    if ran.findings:
        return Reply(FINDING, f"{ran.findings[0].kind.value} on line {ran.findings[0].line}: {ran.findings[0].message}", arrays)
    return Reply(RAN, f"{ran.outcome.instructions} warp-instructions", arrays)


def _without_passes(text: str, **levels: object) -> jit.Native:
    return _COMPILE_IR(text, passes=0, codegen=0)


def card() -> Handler:
    """Runs cubins. The process has a context of its own; after an error it is of no more use."""
    from harness.devices.pycuda_driver import PyCudaDriver

    driver = PyCudaDriver()
    modules: dict[Path, Any] = {}

    def handle(request: Run) -> Reply:
        try:
            return _on_card(driver, modules, request)
        except DriverError as error:
            return Reply(FAULT, str(error))

    return handle


def _on_card(driver: Any, modules: dict[Path, Any], request: Run) -> Reply:
    if request.stem not in modules:
        if len(modules) == _MODULES:
            driver.unload(modules.pop(next(iter(modules))))
        modules[request.stem] = driver.load(request.stem.with_suffix(".cubin").read_bytes())
    function = driver.function(modules[request.stem], request.kernel)
    launches = [_launch(driver, function, request) for _ in range(1 + request.repeat)]
    if any(arrays is None for arrays in launches):
        return Reply(ENDLESS, f"still ran after {request.seconds:.0f} s")
    first, *rest = (arrays or [] for arrays in launches)
    return Reply(RAN, "", first, rest[0] if rest else [])


def _launch(driver: Any, function: Any, request: Run) -> list[np.ndarray] | None:
    """The arrays afterwards; None where the kernel does not end."""
    arrays = [a for a in request.arguments if isinstance(a, np.ndarray)]
    addresses = [driver.allocate(a.nbytes) for a in arrays]
    for address, a in zip(addresses, arrays, strict=True):
        driver.upload(address, np.ascontiguousarray(a))
    driver.launch(function, (request.grid, 1, 1), (request.block, 1, 1), 0, _packed(request.arguments, addresses))
    if not driver.wait(request.seconds):
        return None
    found = [driver.download(address, a.nbytes).view(a.dtype).reshape(a.shape) for address, a in zip(addresses, arrays, strict=True)]
    for address in addresses:
        driver.free(address)
    return found


def _packed(arguments: Sequence[np.ndarray | int], addresses: Sequence[int]) -> bytes:
    """The parameter block: pointers and 32-bit integers, each at its alignment."""
    block, following = b"", iter(addresses)
    for a in arguments:
        data = struct.pack("<Q", next(following)) if isinstance(a, np.ndarray) else struct.pack("<i", a)
        block += b"\0" * (-len(block) % len(data)) + data
    return block

