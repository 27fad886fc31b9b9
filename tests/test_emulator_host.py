"""solve() in the emulator: calls that Python answers, its own memory, budgets, and faults with their lines."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import pytest

from harness import plan
from harness.emulator import ptx
from harness.emulator.host import HostCall, HostFault, HostProgram
from tests.emulator_kit import ptx_of

pytestmark = pytest.mark.usefixtures("quick_compiler")

BEFORE = 3  # #include lines in front of a text
EXTERN = """
extern "C" int ask(int number, double weight);
extern "C" void tell(const char* text, long long value);
extern "C" int fill(int* numbers, int count);
struct Box { int a; double b; char c[10]; };
extern "C" long long take(Box box, const void* kernel);
extern "C" float* hand(unsigned long long bytes);
__device__ int table[4] = {7, 8, 9, 10};
__global__ void kernel(float* x) { x[0] = 1; }
"""
Answer = Callable[[HostCall], bytes]


class Script:
    """Answers calls by name and keeps what was asked."""

    def __init__(self, **answers: Answer | bytes):
        self.answers = answers
        self.calls: list[HostCall] = []

    def __call__(self, call: HostCall) -> bytes:
        self.calls.append(call)
        answer = self.answers.get(call.name, b"")
        return answer(call) if callable(answer) else answer


def _solve(body: str, parameters: str = "int n, float* x", args: bytes = b"", script: Script | None = None, **limits: float) -> Script:
    """Run `extern "C" void solve_it(parameters) { body }`; the body starts on line LINE."""
    text = ptx_of(EXTERN + f'extern "C" void solve_it({parameters}) {{\n{body}\n}}\n')
    script = script or Script()
    HostProgram(ptx.parse(text), "solve_it").run(args or struct.pack("<iIQ", 5, 0, plan.address(plan.FIRST_TENSOR_ID)), script, **limits)  # type: ignore[arg-type]
    return script


LINE = BEFORE + EXTERN.count("\n") + 2


def test_calls_carry_their_arguments_and_results() -> None:
    script = Script(ask=lambda call: struct.pack("<i", struct.unpack("<i", call.args[0])[0] * 2))
    _solve("int a = ask(n, 0.5);\nint b = ask(a + 1, -2.0);\ntell(\"done\", (long long)a << 33 | b);", script=script)
    assert [c.name for c in script.calls] == ["ask", "ask", "tell"]
    assert [c.line for c in script.calls] == [LINE, LINE + 1, LINE + 2]
    assert struct.unpack("<d", script.calls[1].args[1]) == (-2.0,)
    assert struct.unpack("<q", script.calls[2].args[1]) == (10 << 33 | 22,)
    assert script.calls[2].cstring(int.from_bytes(script.calls[2].args[0], "little")) == "done"


def test_calls_in_loops_branches_and_functions() -> None:
    body = """for (int i = 0; i < n; ++i) { if (i == 3) continue; int r = ask(i, 1.0); if (r < 0) break; tell("x", helper(r)); }"""
    text = EXTERN + "__device__ __noinline__ int helper(int v) { return v < 3 ? ask(v + 100, 0) : v; }\n"
    module = ptx.parse(ptx_of(text + f'extern "C" void solve_it(int n) {{ {body} }}'))
    script = Script(ask=lambda call: struct.pack("<i", struct.unpack("<i", call.args[0])[0] + 1))
    HostProgram(module, "solve_it").run(struct.pack("<i", 5), script)
    asked = [struct.unpack("<i", c.args[0])[0] for c in script.calls if c.name == "ask"]
    assert asked == [0, 101, 1, 102, 2, 4]
    assert [struct.unpack("<q", c.args[1])[0] for c in script.calls if c.name == "tell"] == [102, 103, 3, 5]


def test_local_arrays_are_shared_with_the_callee() -> None:
    def fill(call: HostCall) -> bytes:
        address, count = int.from_bytes(call.args[0], "little"), int.from_bytes(call.args[1], "little")
        assert struct.unpack("<2i", call.read(address, 8)) == (11, 12)
        call.write(address, struct.pack(f"<{count}i", *range(count)))
        return struct.pack("<i", 1)

    script = _solve("int a[6] = {11, 12}; int ok = fill(a, 6); int s = ok * 1000; for (int i = 0; i < 6; ++i) s += a[i] * i; tell(\"s\", s);",
                    script=Script(fill=fill))  # fmt: skip
    assert struct.unpack("<q", script.calls[-1].args[1]) == (1055,)


def test_structures_kernels_and_variables_are_passed() -> None:
    script = _solve("Box b = {3, 2.5, \"hi\"}; tell(\"r\", take(b, (const void*)kernel)); tell(\"t\", table[n - 3] + (table[0] = 4)); fill(table, 4);",
                    script=Script(take=struct.pack("<q", -5)))  # fmt: skip
    box, kernel = script.calls[0].args
    assert struct.unpack_from("<id", box[:4] + box[8:16]) == (3, 2.5)
    assert box[16:19] == b"hi\0"
    assert script.calls[0].kernel_name(int.from_bytes(kernel, "little")) == next(n for n in script.calls[0].host.program.kernel_addresses if "kernel" in n)
    assert struct.unpack("<q", script.calls[1].args[1]) == (-5,)
    assert struct.unpack("<q", script.calls[2].args[1]) == (13,)
    address = int.from_bytes(script.calls[3].args[0], "little")
    variable = script.calls[3].variable(address)
    assert variable is not None
    assert variable.name == "table"
    assert struct.unpack("<4i", script.calls[3].read(address, 16)) == (4, 8, 9, 10)


def test_allocated_memory_can_be_written_by_solve() -> None:
    def check(call: HostCall) -> bytes:
        assert struct.unpack("<3f", call.read(int.from_bytes(call.args[0], "little"), 12)) == (0.0, 1.0, 2.0)
        return struct.pack("<i", 0)

    script = Script(hand=lambda call: struct.pack("<Q", call.allocate(int.from_bytes(call.args[0], "little"))), fill=check)
    _solve("float* p = hand(64); for (int i = 0; i < 3; ++i) p[i] = i; fill((int*)p, 3);", script=script)


def test_exceptions_of_the_answer_come_through() -> None:
    def refuse(call: HostCall) -> bytes:
        raise LookupError(call.name)

    with pytest.raises(LookupError, match="ask"):
        _solve("ask(1, 2);", script=Script(ask=refuse))


FAULTS = {
    "device memory is read": ("tell(\"a\", n);\nint v = (int)x[3];\ntell(\"b\", v);", 1, "host_error", "device memory"),
    "device memory is written": ("x[n] = 1;", 0, "host_error", "device memory"),
    "a null pointer": ("volatile int* p = nullptr;\n*p = 1;", 1, "host_error", "null pointer"),
    "outside of an array": ("int a[4] = {1, 2, 3, 4}; fill(a, 4);\ntell(\"v\", a[n * 100000]);", 1, "host_error", "outside"),
    "a trap": ("if (n == 5)\n__trap();", 1, "trap", "trap"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_faults_of_solve_have_their_line(name: str) -> None:
    body, line, kind, words = FAULTS[name]
    with pytest.raises(HostFault) as caught:
        _solve(body)
    assert (caught.value.kind, caught.value.line) == (kind, LINE + line)
    assert words in caught.value.message
    assert caught.value.file.endswith("kernel.cu")


@pytest.mark.parametrize("limits", [{"instructions": 200_000, "seconds": 60.0}, {"instructions": 1 << 60, "seconds": 0.3}], ids=["budget", "clock"])
def test_an_endless_solve_is_stopped(limits: dict[str, Any]) -> None:
    with pytest.raises(HostFault) as caught:
        _solve("volatile int i = 0;\nwhile (i >= 0)\ni = i + 1 & 1023;", **limits)
    assert caught.value.kind == "time_limit"
    assert caught.value.line in (LINE + 1, LINE + 2)


def test_an_endless_loop_of_calls_is_stopped() -> None:
    with pytest.raises(HostFault) as caught:
        _solve("for (;;)\nask(1, 2);", script=Script(ask=struct.pack("<i", 1)), instructions=20_000)
    assert caught.value.kind == "time_limit"


def test_reading_outside_in_an_answer_is_a_fault_of_the_caller() -> None:
    def fill(call: HostCall) -> bytes:
        call.read(plan.address(plan.FIRST_TENSOR_ID), 4)
        return b""

    with pytest.raises(HostFault) as caught:
        _solve("int a[2];\nfill(a, 2);", script=Script(fill=fill))
    assert (caught.value.kind, caught.value.line) == ("host_error", LINE + 1)


def test_a_program_runs_again_from_the_start() -> None:
    """Each run has variables and arguments of its own."""
    text = ptx_of(EXTERN + 'extern "C" void solve_it(int n) { table[0] += n; tell("t", table[0]); }')
    program = HostProgram(ptx.parse(text), "solve_it")
    for n in (1, 2):
        script = Script()
        program.run(struct.pack("<i", n), script)
        assert struct.unpack("<q", script.calls[0].args[1]) == (7 + n,)
