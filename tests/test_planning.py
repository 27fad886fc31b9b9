"""The CUDA runtime behind solve(), call by call: what is recorded, what is refused, and what is said of it."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from harness import cards
from harness.compile.build import shim_headers
from harness.devices.base import Argument, RunLimits
from harness.plan import FIRST_TENSOR_ID, Copy, Launch, Memset, Upload, address
from harness.planning.api import HostApi
from harness.planning.calls import user_words
from harness.planning.launch_rules import blocks_per_sm, default_shared_limit, refusal
from harness.planning.memory import PlanFault
from harness.planning.printf import render
from harness.planning.table import HANDLERS
from harness.verdict import FindingKind

KERNEL = "_Z5scalePfi"
KERNEL_ADDRESS = 0x7000
VARIABLE = SimpleNamespace(id=20, name="table", nbytes=64, space="const", line=3)
HOST = 0x100  # host addresses in these tests lie below 64 KiB
Q, OUT = address(FIRST_TENSOR_ID), address(FIRST_TENSOR_ID + 1)


@dataclass(frozen=True)
class FakeKernel:
    static_shared_bytes: int = 0
    max_threads: int = 0
    param_bytes: int = 12
    params: tuple[Any, ...] = (SimpleNamespace(offset=0, nbytes=8), SimpleNamespace(offset=8, nbytes=4))


@dataclass
class Host:
    """The memory that solve() has for itself."""

    memory: bytearray = field(default_factory=lambda: bytearray(1 << 16))
    top: int = 0x4000

    def call(self, name: str, *args: bytes, line: int = 7) -> SimpleNamespace:
        return SimpleNamespace(
            name=name, args=list(args), line=line, read=self.read, write=self.write, cstring=self.cstring,
            allocate=self.allocate, kernel_name=lambda a: KERNEL if a == KERNEL_ADDRESS else None,
            variable=lambda a: VARIABLE if a >> 40 == VARIABLE.id else None,
        )  # fmt: skip

    def read(self, address: int, nbytes: int) -> bytes:
        if address >= len(self.memory):
            return b"\x01" * nbytes  # solve()'s own copy of a module variable
        return bytes(self.memory[address : address + nbytes])

    def write(self, address: int, data: bytes) -> None:
        self.memory[address : address + len(data)] = data

    def cstring(self, address: int) -> str:
        return self.memory[address : self.memory.index(0, address)].decode()

    def allocate(self, nbytes: int) -> int:
        self.top += nbytes + 16
        return self.top - nbytes - 16


class Session:
    """One evaluation: calls by name, integers packed as the runtime's 4- or 8-byte parameters."""

    def __init__(self, kernel: FakeKernel | None = None, limits: RunLimits | None = None) -> None:
        arguments = [
            Argument("q", np.zeros(16, np.float32), "in", "float"),
            Argument("out", np.zeros(16, np.float32), "out", "float"),
            Argument("n", 16, "scalar", "int"),
        ]
        limits = limits or RunLimits()
        self.host = Host()
        self.api = HostApi(HANDLERS, {KERNEL: kernel or FakeKernel()}, arguments, cards.get("H100"), limits, "my.cu")

    def call(self, name: str, *args: bytes | int, line: int = 7) -> int:
        packed = [arg if isinstance(arg, bytes) else struct.pack("<Q", arg) for arg in args]
        return int.from_bytes(self.api.on_call(self.host.call(name, *packed, line=line)), "little")

    def malloc(self, nbytes: int, line: int = 5) -> int:
        self.call("__cudaCDP2Malloc", HOST, nbytes, line=line)
        return int.from_bytes(self.host.read(HOST, 8), "little")

    def launch(self, grid: tuple[int, int, int] = (1, 1, 1), block: tuple[int, int, int] = (32, 1, 1), shared: int = 0,
               function: int = KERNEL_ADDRESS, stream: int = 0) -> int:  # fmt: skip
        dims = struct.pack("<3I", *grid), struct.pack("<3I", *block)
        buffer = self.call("__cudaCDP2GetParameterBufferV2", function, *dims, struct.pack("<I", shared), line=9)
        if buffer:
            self.host.write(buffer, struct.pack("<Qi", OUT, 16))
            self.call("__cudaCDP2LaunchDeviceV2", buffer, stream, line=9)
        return buffer

    def fault(self, name: str, *args: bytes | int) -> Any:
        with pytest.raises(PlanFault) as caught:
            self.call(name, *args)
        return caught.value.findings[-1]


def test_a_launch_is_recorded_with_its_arguments_and_line() -> None:
    session = Session()
    session.launch(grid=(4, 2, 1), block=(128, 1, 1), shared=1024)
    assert session.api.plan().steps == (
        Launch(KERNEL, (4, 2, 1), (128, 1, 1), 1024, struct.pack("<Qi", OUT, 16), line=9),
    )


def test_cuda_launch_kernel_gathers_the_arguments() -> None:
    session = Session()
    session.host.write(0x200, struct.pack("<QQ", 0x300, 0x310))
    session.host.write(0x300, struct.pack("<Q", OUT))
    session.host.write(0x310, struct.pack("<i", 5))
    code = session.call("judge_launch_kernel", KERNEL_ADDRESS, 1, 1, 1, 64, 1, 1, 0x200, 0, 0)
    assert code == 0
    assert session.api.plan().steps[0] == Launch(KERNEL, (1, 1, 1), (64, 1, 1), 0, struct.pack("<Qi", OUT, 5), line=7)


def _launch_together(session: Session, blocks: int) -> int:
    grid, block = (struct.pack("<I", n) for n in (blocks, 64))
    one = struct.pack("<I", 1)
    session.host.write(0x200, struct.pack("<QQ", 0x300, 0x308))
    session.host.write(0x300, struct.pack("<Qi", OUT, 5))
    together = "judge_launch_cooperative"
    return session.call(together, KERNEL_ADDRESS, grid, one, one, block, one, one, 0x200, 0, 0, line=7)


def test_a_cooperative_launch_is_recorded_as_one() -> None:
    session = Session()
    assert _launch_together(session, 132 * 32) == 0
    (step,) = session.api.plan().steps
    assert step == Launch(KERNEL, (132 * 32, 1, 1), (64, 1, 1), 0, struct.pack("<Qi", OUT, 5), 7, cooperative=True)


def test_a_cooperative_launch_whose_blocks_do_not_fit_together_is_refused() -> None:
    session = Session()
    assert _launch_together(session, 132 * 32 + 1) == 720
    with pytest.raises(PlanFault) as caught:
        session.api.plan()
    (finding,) = caught.value.findings
    assert finding.kind is FindingKind.INVALID_LAUNCH
    assert "too many blocks in cooperative launch" in finding.message
    assert "4225 blocks, but H100 holds 4224" in finding.message
    assert session.call("__cudaCDP2GetLastError") == 720


@pytest.mark.parametrize(
    ("grid", "block", "shared", "said"),
    [
        ((1, 1, 1), (2048, 1, 1), 0, "block.x is over 1024"),
        ((1, 1, 1), (64, 32, 1), 0, "2048 threads; the most is 1024"),
        ((1, 1, 1), (1, 1, 65), 0, "block.z is over 64"),
        ((0, 1, 1), (32, 1, 1), 0, "grid.x is 0"),
        ((1, 65536, 1), (32, 1, 1), 0, "grid.y is over 65535"),
        ((1, 1, 1), (32, 1, 1), 49153, "cudaFuncSetAttribute"),
        ((1, 1, 1), (32, 1, 1), 228 * 1024, "at most 227 KiB"),
    ],
)
def test_a_refused_launch_does_nothing_and_is_explained(grid: Any, block: Any, shared: int, said: str) -> None:
    session = Session()
    assert session.launch(grid, block, shared) == 0
    code = 1 if shared else 9
    assert session.call("__cudaCDP2PeekAtLastError") == code
    assert session.call("__cudaCDP2GetLastError") == code
    assert session.call("__cudaCDP2GetLastError") == 0
    with pytest.raises(PlanFault) as caught:
        session.api.plan()
    (finding,) = caught.value.findings
    assert (finding.kind, finding.line, finding.kernel) == (FindingKind.INVALID_LAUNCH, 9, "scale")
    assert said in finding.message
    assert ("invalid argument" if shared else "invalid configuration argument") in finding.message


def test_launch_bounds_are_a_promise() -> None:
    session = Session(FakeKernel(max_threads=128))
    assert session.launch(block=(128, 1, 1))
    assert not session.launch(block=(160, 1, 1))
    assert "__launch_bounds__" in session.api.findings[0].message


def test_a_null_kernel_is_an_invalid_device_function() -> None:
    session = Session()
    assert not session.launch(function=0)
    assert session.call("__cudaCDP2GetLastError") == 98


def test_func_set_attribute_opens_shared_memory_up_to_the_cards_limit() -> None:
    session = Session(FakeKernel(static_shared_bytes=1024))
    most = 226 * 1024
    assert session.call("judge_func_set_attribute", KERNEL_ADDRESS, 8, struct.pack("<i", most + 1)) == 1
    assert session.call("judge_func_set_attribute", KERNEL_ADDRESS, 8, struct.pack("<i", most)) == 0
    assert session.launch(shared=most)
    assert session.api.plan().dynamic_shared_limit == {KERNEL: most}


def test_a_launch_into_a_destroyed_or_made_up_stream_is_refused() -> None:
    session = Session()
    session.call("__cudaCDP2StreamCreateWithFlags", HOST, 0)
    stream = int.from_bytes(session.host.read(HOST, 8), "little")
    session.launch(stream=stream)
    assert not session.api.findings
    session.launch(stream=0x9999)
    assert "stream" in session.api.findings[0].message


def test_scratch_gets_ids_after_the_arguments() -> None:
    session = Session()
    first, second = session.malloc(100), session.malloc(200, line=6)
    assert (first, second) == (address(FIRST_TENSOR_ID + 3), address(FIRST_TENSOR_ID + 4))
    assert [(b.name, b.nbytes, b.line) for b in session.api.plan().scratch] == [
        ("scratch #1", 100, 5),
        ("scratch #2", 200, 6),
    ]


def test_scratch_over_the_limit_is_out_of_memory_and_a_finding() -> None:
    session = Session(limits=RunLimits(scratch_bytes=1000))
    assert session.malloc(1000)
    assert session.call("__cudaCDP2Malloc", HOST, 1) == 2
    assert session.host.read(HOST, 8) == bytes(8)
    assert session.api.findings[0].kind == FindingKind.MEMORY_LIMIT
    for said in ("cudaMalloc of 1 bytes", "after 1000 bytes before", "1000 bytes of scratch in all"):
        assert said in session.api.findings[0].message


def test_free_takes_only_what_was_allocated_and_once() -> None:
    session = Session()
    scratch = session.malloc(64)
    assert session.call("__cudaCDP2Free", 0) == 0
    assert session.call("__cudaCDP2Free", scratch, line=11) == 0
    assert session.call("__cudaCDP2Free", scratch) == 1
    assert session.call("__cudaCDP2Free", Q) == 1
    messages = [finding.message for finding in session.api.findings]
    assert "freed before, at line 11" in messages[0]
    assert "q belongs to the caller" in messages[1]


def test_fills_and_copies_are_steps() -> None:
    session = Session()
    scratch = session.malloc(64)
    session.call("judge_memset", scratch, struct.pack("<i", -1), 64)
    session.call("judge_memcpy", scratch, Q, 64, 3)
    session.host.write(0x200, b"abcdefgh")
    session.call("judge_memcpy", OUT + 8, 0x200, 8, 4)
    session.call("judge_memcpy", 0x300, 0x200, 8, 0)
    assert session.api.plan().steps == (
        Memset(scratch, 255, 64, 7),
        Copy(scratch, Q, 64, 7),
        Upload(OUT + 8, b"abcdefgh", 7),
    )
    assert session.host.read(0x300, 8) == b"abcdefgh"


def test_an_upload_to_a_symbol_names_the_variable() -> None:
    session = Session()
    session.host.write(0x200, b"12345678")
    session.call("judge_memcpy", address(20) + 8, 0x200, 8, 1)
    plan = session.api.plan()
    assert plan.steps == (Upload(address(20) + 8, b"12345678", 7),)
    assert [(variable.id, variable.name, variable.nbytes) for variable in plan.variables] == [(20, "table", 64)]


def test_a_constant_array_is_host_memory_where_the_copy_says_so() -> None:
    session = Session()
    session.call("judge_memcpy", OUT, address(20), 8, 1)
    assert session.api.plan().steps == (Upload(OUT, b"\x01" * 8, 7),)
    assert session.api.plan().variables == ()


@pytest.mark.parametrize(
    ("args", "kind", "said"),
    [
        ((OUT + 4, 0, 64), FindingKind.OUT_OF_BOUNDS, "bytes 4 to 68 of out are outside its 64 bytes"),
        ((OUT - 4, 0, 4), FindingKind.OUT_OF_BOUNDS, "bytes -4 to 0 of out"),
        ((Q, 0, 4), FindingKind.READ_ONLY_WRITE, "q is an input"),
        ((0, 0, 4), FindingKind.OUT_OF_BOUNDS, "the pointer is null"),
        ((HOST, 0, 4), FindingKind.HOST_ERROR, "host memory"),
    ],
)
def test_a_bad_fill_is_found_at_its_line(args: tuple[int, ...], kind: FindingKind, said: str) -> None:
    finding = Session().fault("judge_memset", *args)
    assert (finding.kind, finding.line) == (kind, 7)
    assert said in finding.message


def test_freed_memory_is_gone() -> None:
    session = Session()
    scratch = session.malloc(64)
    session.call("__cudaCDP2Free", scratch, line=6)
    finding = session.fault("judge_memset", scratch, 0, 64)
    assert "freed at line 6" in finding.message


def test_results_stay_on_the_device() -> None:
    finding = Session().fault("judge_memcpy", HOST, OUT, 64, 2)
    assert finding.kind == FindingKind.UNSUPPORTED
    assert "out to the host" in finding.message


def test_a_wrong_copy_direction_is_named() -> None:
    finding = Session().fault("judge_memcpy", OUT, Q, 64, 1)
    assert finding.kind == FindingKind.HOST_ERROR
    assert "cudaMemcpyHostToDevice, but the pointers say cudaMemcpyDeviceToDevice" in finding.message


def test_what_came_first_is_the_cause() -> None:
    session = Session()
    session.launch(block=(2048, 1, 1))
    with pytest.raises(PlanFault) as caught:
        session.call("judge_exit", struct.pack("<i", 1))
    assert [finding.kind for finding in caught.value.findings] == [FindingKind.INVALID_LAUNCH]
    assert "exit(3)" in Session().fault("judge_exit", struct.pack("<i", 3)).message


def test_an_unknown_function_is_unsupported_and_a_host_mark_is_nothing() -> None:
    session = Session()
    assert session.api.on_call(session.host.call("judge_host_only_std_min")) == b""
    assert session.fault("frobnicate").kind == FindingKind.UNSUPPORTED


DECLARED = re.compile(r"__device__ [\w *]*?\b(judge_\w+)\((?!\w+ \+)")


def test_every_function_that_our_headers_declare_is_answered() -> None:
    text = "".join(shim_headers().values())
    declared = set(DECLARED.findall(text)) - {"judge_attribute"}  # which has a body
    assert {"judge_host_free", "judge_calloc", "judge_host_only_fprintf"} <= declared
    assert {name for name in declared if not name.startswith("judge_host_only_")} <= set(HANDLERS)


def test_internal_names_never_show() -> None:
    names = {*HANDLERS, "judge_host_only_std_min", "judge_new", "_Z4foldPfi", "__cudaCDP2Frobnicate"}
    assert not [name for name in names if re.search("judge|CDP|_Z|V2$|^__", user_words(name))]
    assert user_words("recursive call of _ZN4mine4foldEi") == "recursive call of mine::fold"
    assert "solve() calls cudaFrobnicate, which" in Session().fault("__cudaCDP2Frobnicate").message


def test_pinned_memory_is_freed_as_it_was_allocated() -> None:
    session = Session()
    session.call("judge_host_malloc", HOST, 64)
    assert session.call("judge_host_free", int.from_bytes(session.host.read(HOST, 8), "little")) == 0
    assert "use cudaFree()" in session.fault("judge_host_free", OUT).message


def test_the_number_of_steps_is_limited() -> None:
    session = Session()
    for _ in range(10_000):
        session.call("judge_memset", OUT, 0, 4)
    assert session.fault("judge_memset", OUT, 0, 4).kind == FindingKind.TIME_LIMIT


def test_the_device_is_the_chosen_card() -> None:
    session = Session()
    assert session.call("__cudaCDP2DeviceGetAttribute", HOST, 16, 0) == 0
    assert struct.unpack("<i", session.host.read(HOST, 4)) == (132,)
    assert session.call("__cudaCDP2DeviceGetAttribute", HOST, 16, 1) == 101
    session.call("judge_device_name", HOST, 256)
    assert session.host.cstring(HOST).startswith("NVIDIA H100")


def test_error_strings_are_cudas() -> None:
    session = Session()
    assert session.host.cstring(session.call("__cudaCDP2GetErrorString", 9)) == "invalid configuration argument"
    assert session.host.cstring(session.call("__cudaCDP2GetErrorName", 2)) == "cudaErrorMemoryAllocation"


def test_printing_goes_to_the_plan_up_to_the_limit() -> None:
    session = Session(limits=RunLimits(stdout_bytes=8))
    session.host.write(0x200, b"n=%d\n\0")
    session.host.write(0x300, struct.pack("<i", 12))
    session.call("vprintf", 0x200, 0x300)
    assert session.api.plan().stdout == "n=12\n"
    assert session.fault("vprintf", 0x200, 0x300).kind == FindingKind.OUTPUT_LIMIT


@pytest.mark.parametrize(
    ("template", "packed", "expected"),
    [
        ("%d %u%%\n", struct.pack("<iI", -3, 4000000000), "-3 4000000000%\n"),
        ("%5.2f|%e", struct.pack("<dd", 3.14159, 0.5), " 3.14|5.000000e-01"),
        ("%d %f", struct.pack("<i4xd", 1, 2.5), "1 2.500000"),  # a double is aligned to 8
        ("%zu %lld %#x", struct.pack("<QqI", 7, -8, 255), "7 -8 0xff"),
        ("%*d|%-4c|", struct.pack("<iii", 4, 42, 65), "  42|A   |"),
        ("%s!", struct.pack("<Q", 99), "text!"),
    ],
)
def test_printf_reads_the_packed_arguments(template: str, packed: bytes, expected: str) -> None:
    assert render(template, lambda at, size: packed[at : at + size], lambda _: "text") == expected


def test_occupancy_is_the_tightest_limit() -> None:
    card = cards.get("H100")
    assert blocks_per_sm(FakeKernel(), 1024, 0, card) == 2
    assert blocks_per_sm(FakeKernel(), 32, 0, card) == 32
    assert blocks_per_sm(FakeKernel(static_shared_bytes=40 * 1024), 128, 60 * 1024, card) == 2
    assert blocks_per_sm(FakeKernel(), 0, 0, card) == 0


def test_limits_follow_the_card() -> None:
    kernel = FakeKernel(static_shared_bytes=16 * 1024)
    assert default_shared_limit(kernel, cards.get("T4")) == 32 * 1024
    assert refusal(kernel, (1, 1, 1), (32, 1, 1), 48 * 1024, 48 * 1024, cards.get("T4")) is None
