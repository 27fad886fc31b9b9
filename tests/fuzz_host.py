"""Runtime calls of a hostile solve(), for tests/test_fuzz.py: the planner sees them as the emulator would hand them over.

A script is a list of calls whose arguments are numbers, places of solve()'s own memory, device pointers, or results of
earlier calls; addresses that are none raise HostFault, as in harness/emulator/host.py.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
from hypothesis import strategies as st

from harness import cards
from harness.devices.base import Argument, RunLimits
from harness.emulator.host import HostFault
from harness.plan import FIRST_TENSOR_ID, LaunchPlan, address
from harness.planning.api import HostApi
from harness.planning.signatures import PARAMETERS
from harness.planning.table import HANDLERS

FORMATS = (
    "%d %s %f\n", "%", "%%", "%5", "%*d", "%.*f", "%-*.*s|%c", "%999999999d", "%.999999999f", "%hhd%lld%zu%Lf", "%n", "%ls%p%a",
    "%#x%+d% d%05d", "%s%s%s%s", "%l", "%.-5d", "% -+#0*.*lld", "%٣d", "%1$d", "no end", "\x80\xff%c",
)  # fmt: skip
MEMORY = 1 << 14  # solve()'s own memory: places below are addresses of it
_TEXT = 0x1000
_PLACES = (0x100, 0x108, 0x200, 0x300, MEMORY - 4, _TEXT, *(_TEXT + 64 * n for n in range(len(FORMATS))))
KERNELS = {0x7000_0000: "_Z5scalePfi", 0x7000_0001: "_ZN99999999999999999999x"}
VARIABLE = SimpleNamespace(id=20, name="table", nbytes=64, space="const", line=3)
_DEVICE = tuple(
    address(number) + offset
    for number in (VARIABLE.id, *range(FIRST_TENSOR_ID, FIRST_TENSOR_ID + 6))
    for offset in (0, 4, 63, 1 << 20, -1)
)
_NUMBERS = (0, 1, 2, 3, 4, 8, 31, 32, 64, 1000, 1024, 1025, 65536, 1 << 31, (1 << 32) - 1, 1 << 40, 1 << 63, (1 << 64) - 1)


@dataclass(frozen=True)
class Call:
    """`arguments` are values; a negative one stands for the result of the call that many before this one."""

    name: str
    arguments: tuple[int, ...]
    cut: int = 0  # bytes that its last argument lacks: a declaration of one's own


@dataclass(frozen=True)
class FuzzKernel:
    """Takes a pointer and an int."""

    static_shared_bytes: int = 100
    max_threads: int = 256
    param_bytes: int = 12
    params: tuple[SimpleNamespace, ...] = (SimpleNamespace(offset=0, nbytes=8), SimpleNamespace(offset=8, nbytes=4))


def scripts() -> st.SearchStrategy[list[Call]]:
    """Up to a dozen calls; one in some twenty has other arguments than the function takes."""
    value = st.one_of(
        st.sampled_from(_NUMBERS), st.sampled_from(_PLACES), st.sampled_from(_DEVICE), st.sampled_from(list(KERNELS)),
        st.integers(-4, -1), st.integers(0, (1 << 64) - 1),
    )  # fmt: skip
    small = st.one_of(st.sampled_from((1, 2, 32, 64)), value)

    @st.composite
    def call(draw: st.DrawFn) -> Call:
        name = draw(st.sampled_from(sorted(PARAMETERS)))
        count = len(PARAMETERS[name])
        if draw(st.integers(0, 19)) == 0:
            count = draw(st.integers(0, 6))
        arguments = tuple(draw(small if PARAMETERS[name][n : n + 1] in ((4,), (12,)) else value) for n in range(count))
        return Call(name, arguments, draw(st.sampled_from((0,) * 30 + (1, 4, 8))))

    return st.lists(call(), min_size=1, max_size=12)


class Host:
    """What the emulator offers to a handler."""

    def __init__(self) -> None:
        self.memory = bytearray(MEMORY)
        self.top = MEMORY // 2
        for number, text in enumerate(FORMATS):
            self.memory[_TEXT + 64 * number : _TEXT + 64 * number + 60] = text.encode()[:60].ljust(60, b"\0")
        self.memory[0x200:0x210] = struct.pack("<QQ", 0x300, 0x308)  # arguments of a cudaLaunchKernel

    def call(self, name: str, arguments: list[bytes]) -> SimpleNamespace:
        """As harness.emulator.host.HostCall."""
        return SimpleNamespace(
            name=name, args=arguments, line=7, read=self.read, write=self.write, cstring=self.cstring,
            allocate=self.allocate, kernel_name=KERNELS.get,
            variable=lambda at: VARIABLE if at >> 40 == VARIABLE.id else None,
        )  # fmt: skip

    def read(self, at: int, nbytes: int) -> bytes:
        self._check(at, nbytes)
        return bytes(self.memory[at : at + nbytes])

    def write(self, at: int, data: bytes) -> None:
        self._check(at, len(data))
        self.memory[at : at + len(data)] = data

    def cstring(self, at: int) -> str:
        out = bytearray()
        while (c := self.read(at + len(out), 1)) != b"\0":
            out += c
        return out.decode("utf-8", "replace")

    def allocate(self, nbytes: int) -> int:
        if self.top + nbytes > MEMORY:
            raise HostFault("memory_limit", "no more host memory")
        self.top += nbytes
        return self.top - nbytes

    def _check(self, at: int, nbytes: int) -> None:
        if not (nbytes >= 0 and at >= 0x40 and at + nbytes <= MEMORY):
            raise HostFault("host_error", f"no address: {at:x}")


def play(script: list[Call]) -> LaunchPlan:
    """The plan that the calls add up to. Raises what the planner raises."""
    arguments = [
        Argument("q", np.zeros(16, np.float32), "in", "float"),
        Argument("out", np.zeros(16, np.float32), "out", "float"),
    ]
    kernels = dict.fromkeys(KERNELS.values(), FuzzKernel())
    api = HostApi(HANDLERS, kernels, arguments, cards.get("H100"), RunLimits(), "my.cu")
    host, results = Host(), [0] * 8
    for call in script:
        values = [results[value] if value < 0 else value for value in call.arguments]
        sizes = [*PARAMETERS[call.name], *(8,) * 8]
        packed = [_packed(value, size) for value, size in zip(values, sizes, strict=False)]
        if packed and call.cut:
            packed[-1] = packed[-1][: -call.cut]
        result = api.on_call(host.call(call.name, packed))
        assert len(result) <= 16
        results.append(int.from_bytes(result, "little") if len(result) == 8 else int.from_bytes(host.memory[0x100:0x108], "little"))
    return api.plan()


def _packed(value: int, size: int) -> bytes:
    if size == 12:
        return struct.pack("<3I", value & 0xFFFFFFFF, 1, (value >> 32) & 3)
    return (value & ((1 << 8 * size) - 1)).to_bytes(size, "little")
