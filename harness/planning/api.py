"""The CUDA runtime behind solve(): every call is checked against the card and recorded as a step of the launch plan.

Nothing runs here. A handler takes the call as the emulator saw it and gives the bytes of the return value, most often a
cudaError_t. What CUDA would merely report by a code is reported the same way *and* kept as a finding, because a judged
program that goes on after it has already failed; what has no meaning without data raises PlanFault at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from harness.cards import Card
from harness.devices.base import Argument, RunLimits
from harness.devices.names import readable
from harness.plan import Buffer, Launch, LaunchPlan, Step
from harness.planning.calls import HostCall, Table, i32, user_words
from harness.planning.cuda_errors import CudaError
from harness.planning.launch_rules import KernelFacts
from harness.planning.memory import DeviceMemory, PlanFault
from harness.planning.signatures import fitted
from harness.planning.streams import Streams
from harness.results import Finding
from harness.verdict import FindingKind

MAX_STEPS = 10_000  # launches, copies and fills of one case
_DEFAULT_STREAMS = 3  # 0 and the handles of the legacy and the per-thread default stream
_MOST_CONCURRENT = 8  # launches beside one that are looked at, the latest ones
_FIRST_HANDLE = 0x5000  # of created streams and events


class Kernel(KernelFacts, Protocol):
    """What a launch needs to know of a kernel beyond its limits."""

    @property
    def params(self) -> Sequence[Any]: ...  # each with .nbytes and .offset

    @property
    def param_bytes(self) -> int: ...


class HostApi:
    """Records one evaluation of solve(). `table` answers each external function by its name, `kernels` are the module's
    by mangled name, `file` is the user's file."""

    def __init__(
        self,
        table: Table,
        kernels: Mapping[str, Kernel],
        arguments: list[Argument],
        card: Card,
        limits: RunLimits,
        file: str,
    ):
        self._table = table
        self.card, self.kernels, self.file = card, kernels, file
        self.memory = DeviceMemory(arguments, limits.scratch_bytes, self._find_variable)
        self.findings: list[Finding] = []
        self.steps: list[Step] = []
        self.shared_limits: dict[str, int] = {}
        self.last_error = CudaError.SUCCESS
        self.pending: dict[int, Launch] = {}  # parameter buffer -> the launch that awaits its arguments
        self._next_handle = _FIRST_HANDLE
        self.streams = Streams()
        self._launches = 0  # a bit for each step that is one
        self._stdout: list[str] = []
        self._stdout_left = limits.stdout_bytes
        self._call: HostCall | None = None

    def on_call(self, call: HostCall) -> bytes:
        """Answer one call. Raises PlanFault where solve() cannot go on."""
        handler = self._table.get(call.name)
        if handler is not None:
            self._call = call
            self._fit(call)
            return handler(self, call)
        if call.name.startswith("judge_host_only_"):
            return b""
        message = f"solve() calls {user_words(call.name)}, which the judge does not offer"
        raise self.fault(FindingKind.UNSUPPORTED, message, call)

    def _fit(self, call: HostCall) -> None:
        """Give a call's arguments the sizes that its handler reads. Raises PlanFault where there are others."""
        arguments = fitted(call.name, call.args)
        if arguments is None:
            message = f"solve() calls {user_words(call.name)} with {len(call.args)} arguments, which is not its way"
            raise self.fault(FindingKind.UNSUPPORTED, message, call)
        call.args[:] = arguments

    def plan(self) -> LaunchPlan:
        """The plan so far. Raises PlanFault where there are findings."""
        if self.findings:
            raise PlanFault(self.findings)
        variables = tuple(self.memory.variables.values())
        return LaunchPlan(
            tuple(self.steps), tuple(self.memory.scratch), variables, dict(self.shared_limits), "".join(self._stdout)
        )

    def fault(self, kind: FindingKind, message: str, call: HostCall, tensor: str = "") -> PlanFault:
        """A fault that ends solve(); what was found before it is the cause and comes first."""
        return PlanFault([*self.findings, self._finding(kind, message, call, tensor)])

    def note(self, kind: FindingKind, message: str, call: HostCall, kernel: str = "") -> None:
        """Keep a finding and go on, as CUDA would."""
        self.findings.append(self._finding(kind, message, call, kernel=kernel))

    def failed(self, code: CudaError) -> bytes:
        """Return this code from the call and leave it to cudaGetLastError."""
        self.last_error = code
        return i32(code)

    def add(self, step: Step, call: HostCall, stream: int = 0) -> None:
        """Record a step of a stream. Raises PlanFault over the budget."""
        if len(self.steps) >= MAX_STEPS:
            message = f"solve() issued over {MAX_STEPS} launches, copies and fills in one call"
            raise self.fault(FindingKind.TIME_LIMIT, message, call)
        number = len(self.steps)
        before = self.streams.issue(stream, number)
        if isinstance(step, Launch):
            step = replace(step, concurrent=_highest(self._launches & ~before))
            self._launches |= 1 << number
        self.steps.append(step)

    def check(self, pointer: int, nbytes: int, write: bool, call: HostCall, what: str) -> None:
        """Raise PlanFault unless the device range may be read, or written to."""
        problem = self.memory.problem(pointer, nbytes, write)
        if problem:
            kind, reason = problem
            verb = "write" if write else "read"
            message = f"{what} cannot {verb} {nbytes} bytes: {reason}"
            raise self.fault(kind, message, call, self.memory.name(pointer))

    def print(self, text: str, call: HostCall) -> None:
        """Keep printed text. Raises PlanFault over the output limit."""
        self._stdout_left -= len(text.encode())
        if self._stdout_left < 0:
            raise self.fault(FindingKind.OUTPUT_LIMIT, "solve() printed more than the output limit allows", call)
        self._stdout.append(text)

    def kernel(self, address: int, call: HostCall) -> tuple[str, Kernel] | None:
        """(mangled name, facts) of the kernel at an address, or None."""
        name = call.kernel_name(address)
        return (name, self.kernels[name]) if name is not None and name in self.kernels else None

    def new_handle(self) -> int:
        """A fresh stream or event."""
        self._next_handle += 1
        return self._next_handle - 1

    def is_stream(self, handle: int) -> bool:
        """Whether a launch may name this stream."""
        return handle < _DEFAULT_STREAMS or _FIRST_HANDLE <= handle < self._next_handle

    def _finding(self, kind: FindingKind, message: str, call: HostCall, tensor: str = "", kernel: str = "") -> Finding:
        return Finding(kind, message, self.file, call.line, tensor=tensor, kernel=readable(kernel))

    def _find_variable(self, pointer: int) -> Buffer | None:
        found = self._call.variable(pointer) if self._call else None
        if found is None or found.space not in ("global", "const"):
            return None
        return Buffer(found.id, found.name, found.nbytes, found.line)


def _highest(steps: int) -> tuple[int, ...]:
    """The numbers of the latest steps in a set, in the order of issue."""
    found: list[int] = []
    while steps and len(found) < _MOST_CONCURRENT:
        found.append(steps.bit_length() - 1)
        steps ^= 1 << found[-1]
    return tuple(reversed(found))
