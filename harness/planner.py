"""solve() of one case -> launch plan: evaluate its PTX and record what it asks of the runtime.

Both devices begin here. Nothing is executed natively: the emulator runs solve() as one thread on the case's scalars and
opaque pointers (harness/plan.py), and harness/planning answers the runtime calls.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from harness.cards import Card
from harness.devices.base import Argument, Program, RunLimits
from harness.emulator.errors import UnsupportedPtx
from harness.emulator.host import HostFault, HostProgram
from harness.emulator.ptx import Kernel, parsed
from harness.errors import JudgeError
from harness.plan import FIRST_TENSOR_ID, Launch, LaunchPlan, address, locate
from harness.planning.api import HostApi
from harness.planning.calls import user_words
from harness.planning.memory import PlanFault
from harness.planning.table import HANDLERS
from harness.results import Finding
from harness.verdict import FindingKind

__all__ = ["PlanFault", "make_plan"]

HOST_INSTRUCTIONS = 50_000_000
HOST_SECONDS = 2.0
MAX_VARIABLE_BYTES = 128 << 20  # of all variables of a file; the emulator holds several copies of each
_FORMATS: Mapping[str, str] = {
    "int": "i", "int32_t": "i", "unsigned": "I", "unsigned int": "I", "uint32_t": "I", "long": "q", "long long": "q",
    "int64_t": "q", "size_t": "Q", "uint64_t": "Q", "float": "f", "double": "d", "bool": "?", "char": "b",
    "short": "h",
}  # fmt: skip


def make_plan(program: Program, arguments: list[Argument], card: Card, limits: RunLimits) -> LaunchPlan:
    """Evaluate solve() for these arguments, in the order of its parameters.

    A tensor's buffer id is FIRST_TENSOR_ID plus its place in `arguments`; scratch ids follow. Raises PlanFault with
    the findings where solve() fails, also where CUDA would refuse a launch, as it does for every other program.
    """
    _check_variables(program)
    host = _host(program.ptx)
    api = HostApi(HANDLERS, _kernels(program.ptx), arguments, card, limits, program.source_name)
    try:
        host.run(pack(arguments), api.on_call, instructions=HOST_INSTRUCTIONS, seconds=HOST_SECONDS)
    except HostFault as fault:
        raise PlanFault([*api.findings, _finding(fault, api, program.source_name)]) from fault
    except UnsupportedPtx as unsupported:
        message = f"solve() needs what the judge cannot evaluate: {user_words(unsupported.what)}"
        finding = Finding(FindingKind.UNSUPPORTED, message, program.source_name)
        raise PlanFault([*api.findings, finding]) from unsupported
    plan = api.plan()
    if not limits.device_state_bytes:
        _check_handed_over(program, plan)
    return plan


def _check_handed_over(program: Program, plan: LaunchPlan) -> None:
    """Raises PlanFault where solve() hands a kernel the address of a device variable, which the kernel could write.

    harness/policy.py follows the addresses that kernels name themselves; it cannot see one that is an argument."""
    known = parsed(program.ptx).variables
    state = {v.id: v for v in plan.variables if v.name in known and known[v.name].space != "const"}
    for launch in (step for step in plan.steps if isinstance(step, Launch)):
        words = (int.from_bytes(launch.args[i : i + 8], "little") for i in range(0, len(launch.args) - 7, 8))
        variable = next((state[locate(word)[0]] for word in words if locate(word)[0] in state), None)
        if variable:
            name = user_words(variable.name)
            message = (
                f"solve() hands the address of the device variable {name} to a kernel. A device variable can carry a "
                "result from one launch to the next: take memory from cudaMalloc instead."
            )
            raise PlanFault([Finding(FindingKind.DEVICE_STATE, message, program.source_name, launch.line, tensor=name)])


def _check_variables(program: Program) -> None:
    """Raises PlanFault where the file's __device__ variables do not fit."""
    variables = [v for v in parsed(program.ptx).variables.values() if v.space in ("global", "const")]
    if sum(variable.nbytes for variable in variables) <= MAX_VARIABLE_BYTES:
        return
    largest = max(variables, key=lambda variable: variable.nbytes)
    message = (
        f"the variable {user_words(largest.name)} has {largest.nbytes} bytes; all variables of a file may have "
        f"{MAX_VARIABLE_BYTES} together: allocate large scratch in solve() with cudaMalloc"
    )
    raise PlanFault([Finding(FindingKind.MEMORY_LIMIT, message, program.source_name, largest.line)])


@lru_cache(maxsize=2)
def _host(ptx: str) -> HostProgram:
    return HostProgram(parsed(ptx))


@lru_cache(maxsize=2)
def _kernels(ptx: str) -> dict[str, Kernel]:
    return parsed(ptx).kernels


def pack(arguments: list[Argument]) -> bytes:
    """The parameter block of solve(): each argument aligned to its size, tensors as opaque addresses."""
    block = b""
    for index, argument in enumerate(arguments):
        data = _pack_one(argument, FIRST_TENSOR_ID + index)
        block += b"\0" * (-len(block) % len(data)) + data
    return block


def _pack_one(argument: Argument, buffer_id: int) -> bytes:
    if isinstance(argument.value, np.ndarray):
        return struct.pack("<Q", address(buffer_id))
    if argument.ctype not in _FORMATS:
        known = ", ".join(_FORMATS)
        raise JudgeError(f"parameter {argument.name}: no scalar type {argument.ctype!r} (known: {known})")
    return struct.pack("<" + _FORMATS[argument.ctype], argument.value)


def _finding(fault: HostFault, api: HostApi, file: str) -> Finding:
    tensor = api.memory.name(fault.address)
    message = f"{tensor} is device memory: solve() cannot read or write it" if tensor else user_words(fault.message)
    return Finding(FindingKind(fault.kind), message, fault.file or file, fault.line, tensor=tensor)
