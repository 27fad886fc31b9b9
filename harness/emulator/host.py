"""Runs solve() itself: one thread, whose calls of the runtime API are answered by Python.

The same lowering as for kernels, in its single-thread form (uniform.Shape.single): every call of a function without
a body suspends the run, the caller of `run` answers it, and the run goes on. Device memory is not there: an access
through a tensor's opaque pointer is a HostFault with its line.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from dataclasses import dataclass

from harness import plan
from harness.emulator import layout as L
from harness.emulator.inline import call_places
from harness.emulator.memory import Memory, Region, load_variables
from harness.emulator.program import Program
from harness.emulator.ptx import Ins, Loc, Module, Sym, Variable
from harness.emulator.uniform import Shape
from harness.emulator.worker import Worker

HEAP_ID = 8  # buffer id of the memory that HostCall.allocate hands out
HEAP_BYTES = 8 << 20
_ENDLESS = "solve() itself does not come to an end: does its loop's condition ever become false?"
MAX_FRAME = 64 << 20  # of solve()'s own variables


class HostFault(Exception):
    """solve() did what a host program may not, or did not end. `kind` is a FindingKind value, `address` what it
    tried to reach, 0 where that is not the point."""

    def __init__(self, kind: str, message: str, line: int = 0, file: str = "", address: int = 0):
        super().__init__(message)
        self.kind, self.message, self.line, self.file, self.address = kind, message, line, file, address


def user_line(module: Module, loc: Loc | None, source: str = "") -> tuple[str, int]:
    """(file, line) of the innermost position in the user's own file; where there is none, of the outermost one.

    source: the user's file name; the first file of the module where it is empty."""
    wanted = source or module.files.get(1, "")
    last = ("", 0)
    while loc is not None:
        name = module.files.get(loc.file, "")
        if loc.line:
            last = (name, loc.line)
            if name == wanted or name.endswith("/" + wanted):
                return wanted, loc.line
        loc = loc.inlined_at
    return last


@dataclass
class HostCall:
    """One call of an external function by solve()."""

    name: str
    args: list[bytes]
    line: int
    file: str
    host: HostProgram

    def kernel_name(self, address: int) -> str | None:
        """The kernel whose address this is."""
        return next((n for n, a in self.host.program.kernel_addresses.items() if a == address), None)

    def variable(self, address: int) -> Variable | None:
        """The module variable that an address lies in."""
        number = plan.locate(address)[0]
        return next((v for v in self.host.program.variables.values() if v.id == number), None)

    def read(self, address: int, nbytes: int) -> bytes:
        """Bytes of solve()'s own memory. Raises HostFault for any other address."""
        return ctypes.string_at(self._resolve(address, nbytes), nbytes)

    def write(self, address: int, data: bytes) -> None:
        ctypes.memmove(self._resolve(address, len(data)), data, len(data))

    def cstring(self, address: int) -> str:
        """A NUL-terminated string, as UTF-8 with replacements; at most 64 KiB."""
        out = bytearray()
        while len(out) < 65536 and (c := self.read(address + len(out), 1)) != b"\0":
            out += c
        return out.decode("utf-8", "replace")

    def allocate(self, nbytes: int) -> int:
        """Address of fresh, zeroed memory that solve() can write to."""
        return self.host.allocate(nbytes, self)

    def _resolve(self, address: int, nbytes: int) -> int:
        if address >> L.WINDOW_BITS == L.LOCAL_WINDOW:
            offset = address & ((1 << L.WINDOW_BITS) - 1)
            if offset + nbytes <= self.host.kernel.local_bytes:
                return int(self.host.worker.warps[0].local + offset)
        number, offset = plan.locate(address)
        region = self.host.memory.regions.get(number)
        if region is not None and offset >= 0 and offset + nbytes <= region.buffer.nbytes:
            return int(region.data.ctypes.data + offset)
        raise HostFault(*_bad_address(address, nbytes), self.line, self.file, address)


def _bad_address(address: int, nbytes: int) -> tuple[str, str]:
    number, _ = plan.locate(address)
    if number >= plan.FIRST_TENSOR_ID:
        return "host_error", "solve() runs on the host: it cannot read or write device memory"
    if address < 4096:
        return "host_error", "solve() follows a null pointer"
    return "host_error", f"solve() reads or writes {nbytes} bytes outside of its own variables"


class HostProgram:
    """A module's solve(), compiled once and run for any number of cases."""

    def __init__(self, module: Module, entry: str = "solve"):
        self.module, self.entry = module, entry
        self.program = Program(module)

    def run(
        self, args: bytes, on_call: Callable[[HostCall], bytes], instructions: int = 50_000_000, seconds: float = 2.0
    ) -> None:
        """Run solve() to its end. `on_call` returns the bytes of each call's result (empty for void).

        Raises HostFault, UnsupportedPtx, and whatever on_call raises."""
        self.kernel = self.program.kernel(self.entry, Shape(whole_rows=True, full_warps=False, single=True))
        if self.kernel.local_bytes > MAX_FRAME:
            raise HostFault("memory_limit", f"solve() has {self.kernel.local_bytes >> 20} MiB of local variables")
        self._prepare(args, instructions)
        timer = threading.Timer(seconds, self._halt)
        timer.daemon = True
        timer.start()
        run = self.kernel.run_blocks
        try:
            while True:
                code = run(ctypes.addressof(self.worker.context))
                if code == L.DONE:
                    return
                if code == L.FAULT:
                    raise self._fault()
                if self._stop.value or self.worker.context.used > instructions:
                    raise HostFault("time_limit", _ENDLESS, *self._place()[::-1])
                self._answer(on_call)
        finally:
            timer.cancel()

    def _prepare(self, args: bytes, instructions: int) -> None:
        self.memory = Memory()
        load_variables(self.memory, self.program)
        for region in self.memory.regions.values():
            region.writable = True  # solve() sees host copies of the variables
        self.heap: Region = self.memory.add(plan.Buffer(HEAP_ID, "heap", HEAP_BYTES))
        self.heap_used = 0
        self.worker = Worker(self.kernel, (1, 1, 1), 0)
        self._params = ctypes.create_string_buffer(args, len(args) + 64)
        self._calls = ctypes.create_string_buffer(L.CALL_BYTES)
        self._next, self._stop = ctypes.c_uint64(0), ctypes.c_int32(0)
        c = self.worker.context
        c.buffers, c.nbuffers = self.memory.table()
        c.params, c.call_buffer = ctypes.addressof(self._params), ctypes.addressof(self._calls)
        c.next_block, c.nblocks, c.stop = ctypes.addressof(self._next), 1, ctypes.addressof(self._stop)
        c.nctaid_x = c.nctaid_y = c.nctaid_z = 1
        c.budget = instructions

    def _halt(self) -> None:
        self._stop.value = 1

    def allocate(self, nbytes: int, call: HostCall) -> int:
        start = (self.heap_used + 15) // 16 * 16
        if start + nbytes > HEAP_BYTES:
            raise HostFault(
                "memory_limit",
                f"solve() asks for {nbytes} bytes of host memory after {self.heap_used} bytes before; "
                f"it may have {HEAP_BYTES} bytes in all: malloc, new, pinned memory and the arguments of its launches",
                call.line,
                call.file,
            )
        self.heap_used = start + nbytes
        self.heap.data[start : start + nbytes] = 0
        return plan.address(HEAP_ID) + start

    def _answer(self, on_call: Callable[[HostCall], bytes]) -> None:
        i = self.kernel.instructions[self.worker.context.fault_insn]
        assert isinstance(i.args[0], Sym)
        file, line = user_line(self.module, i.loc)
        result = on_call(HostCall(i.args[0].name, self._arguments(i), line, file, self))
        ctypes.memmove(self._calls, result.ljust(16, b"\0"), max(16, len(result)))

    def _arguments(self, i: Ins) -> list[bytes]:
        """The bytes of each parameter."""
        places = call_places(i, self.kernel.function.reg_types)
        return [self._calls.raw[a.place : a.place + a.nbytes] for a in places]

    def _place(self) -> tuple[str, int]:
        """(file, line) of the instruction that was noted last."""
        number = self.worker.context.fault_insn
        known = number < len(self.kernel.instructions)
        return user_line(self.module, self.kernel.instructions[number].loc if known else None)

    def _fault(self) -> HostFault:
        c = self.worker.context
        file, line = self._place()
        if c.fault_kind == L.F_ACCESS:
            return HostFault(*_bad_address(c.fault_address, c.fault_bytes), line, file, c.fault_address)
        if c.fault_kind in (L.F_BUDGET, L.F_STOPPED):
            return HostFault("time_limit", _ENDLESS, line, file)
        return HostFault("trap", "solve() ends in a trap or a failed assertion", line, file)
