"""The driver seam over PyCUDA, and what card there is. PyCUDA is imported only when a card is opened.

PyCUDA's exceptions say which call failed and the driver's text, not the number; the text is turned back into the number
with the driver's own table (cuGetErrorString).
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import importlib
import os
import re
import sys
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from harness import cards
from harness.cards import Card
from harness.devices.cooperative import Function, Module, library
from harness.devices.driver import Dim3, DriverError, Slots
from harness.errors import UsageError

PRINTF_BYTES = 1 << 20  # of the device's printf buffer, the driver's default; what exceeds it is lost
_SPIN_SECONDS = 2e-3  # busy waiting before sleeping between looks
_MESSAGE = re.compile(r"^(?P<call>\w+(?:::\w+)*) failed: (?P<text>.*)$", re.S)
_DRIVER_VERSION = re.compile(r"\b(\d{3}\.\d+(?:\.\d+)?)\b")
_LAST_CODE = 1000
_PERSISTING_L2_BYTES = 6  # CU_LIMIT_PERSISTING_L2_CACHE_SIZE


class PyCudaDriver:
    """A context on the first card. Close it, or let the end of the process do so."""

    def __init__(self) -> None:
        """Raises UsageError where PyCUDA, the driver or a card is missing."""
        self._cuda, device = _open()
        with _translated():
            self._context: Any = device.make_context()
            atexit.register(self.close)  # PyCUDA aborts the process when a context is still current at its end
            self._context.set_limit(self._cuda.limit.PRINTF_FIFO_SIZE, PRINTF_BYTES)
            self._event = self._cuda.Event(self._cuda.event_flags.DISABLE_TIMING)
        # What is on the card stays referenced until it is given back on purpose: giving it back after a fault fails
        # noisily, and while a kernel still runs it waits for that kernel.
        self._allocations: dict[int, Any] = {}
        self._modules: list[Any] = []
        self._stuck = False  # a kernel still ran when its time was over

    def close(self) -> None:
        """Leave the context; harmless after an error and when called twice. With a kernel that never ends the only
        way out is to end the process."""
        context, self._context = self._context, None
        if context is not None and self._stuck:
            sys.stdout.flush()
            os._exit(1)
        if context is not None:
            self._modules.clear()
            self._allocations.clear()
            with contextlib.suppress(Exception):  # a dead context cannot even be popped; the process ends anyway
                context.pop()
                context.detach()

    def load(self, cubin: bytes, cooperative: bool = False) -> Any:
        if cooperative:
            return Module(cubin, library())
        with _translated():
            module = self._cuda.module_from_buffer(cubin)
        self._modules.append(module)
        return module

    def unload(self, module: Any) -> None:
        if isinstance(module, Module):
            module.unload()
        else:
            self._modules.remove(module)  # PyCUDA unloads it once nothing refers to it

    def function(self, module: Any, name: str) -> Any:
        with _translated():
            return module.get_function(name)

    def variable(self, module: Any, name: str) -> tuple[int, int]:
        with _translated():
            address, nbytes = module.get_global(name)
        return int(address), int(nbytes)

    def local_bytes(self, function: Any) -> int:
        with _translated():
            return int(function.get_attribute(self._cuda.function_attribute.LOCAL_SIZE_BYTES))

    def allow_shared(self, function: Any, nbytes: int) -> None:
        with _translated():
            function.set_attribute(self._cuda.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES, nbytes)

    def allocate(self, nbytes: int) -> int:
        with _translated():
            allocation = self._cuda.mem_alloc(nbytes)
        self._allocations[int(allocation)] = allocation
        return int(allocation)

    def free(self, address: int) -> None:
        with _translated():
            self._allocations.pop(address).free()

    def upload(self, address: int, data: np.ndarray | bytes) -> None:
        if len(data):
            raw = data.reshape(-1).view(np.uint8) if isinstance(data, np.ndarray) else data  # bfloat16 has no buffer
            with _translated():
                self._cuda.memcpy_htod(address, raw)

    def download(self, address: int, nbytes: int) -> np.ndarray:
        data = np.empty(nbytes, np.uint8)
        if nbytes:
            with _translated():
                self._cuda.memcpy_dtoh(data, address)
        return data

    def fill(self, address: int, word: int, words: int) -> None:
        if words:
            with _translated():
                self._cuda.memset_d32(address, word, words)

    def memset(self, address: int, value: int, nbytes: int) -> None:
        if nbytes:
            with _translated():
                self._cuda.memset_d8(address, value, nbytes)

    def copy(self, target: int, source: int, nbytes: int) -> None:
        if nbytes:
            with _translated():
                self._cuda.memcpy_dtod(target, source, nbytes)

    def launch(self, function: Any, grid: Dim3, block: Dim3, shared_bytes: int, args: bytes,
               together: Slots | None = None) -> None:  # fmt: skip
        if isinstance(function, Function):
            if together is None:
                function.launch(grid, block, shared_bytes, args)
            else:
                function.launch_together(grid, block, shared_bytes, args, together)
            return
        if getattr(function, "prepared_bytes", None) != len(args):
            # The whole parameter block as one opaque value: PyCUDA then neither aligns nor converts anything.
            function.prepare([np.dtype((np.void, len(args)))] if args else [])
            function.prepared_bytes = len(args)  # once is enough, and takes longer than a launch
        with _translated():
            function.prepared_async_call(grid, block, None, *([args] if args else []), shared_size=shared_bytes)

    def wait(self, seconds: float) -> bool:
        begun = time.monotonic()
        with _translated():
            self._event.record()
            while not self._event.query():
                waited = time.monotonic() - begun
                if waited > seconds:
                    self._stuck = True
                    return False
                if waited > _SPIN_SECONDS:
                    time.sleep(_SPIN_SECONDS / 4)
            self._cuda.Context.synchronize()  # returns at once, and makes the driver hand out what kernels printed
        return True

    def create_event(self) -> Any:
        with _translated():
            return self._cuda.Event()

    def record(self, event: Any) -> None:
        with _translated():
            event.record()

    def happened(self, event: Any) -> bool:
        with _translated():
            return bool(event.query())

    def elapsed(self, begin: Any, end: Any) -> float:
        with _translated():
            return float(end.time_since(begin)) * 1e-3

    def memory(self) -> tuple[int, int]:
        with _translated():
            free, whole = self._cuda.mem_get_info()
        return int(free), int(whole)

    def forget_persisting(self) -> None:
        """Cards before compute capability 8.0 have nothing that persists, and drivers before 11.0 no such call."""
        driver = library()
        driver.cuCtxSetLimit(_PERSISTING_L2_BYTES, ctypes.c_size_t(0))
        driver.cuCtxResetPersistingL2Cache()

    def version(self) -> str:
        """The kernel module's version; where the system does not tell, the CUDA version that the driver supports."""
        try:
            found = _DRIVER_VERSION.search(Path("/proc/driver/nvidia/version").read_text())
        except OSError:
            found = None
        number = self._cuda.get_driver_version()
        return found[1] if found else f"CUDA {number // 1000}.{number % 1000 // 10}"

    def bus_id(self) -> str:
        with _translated():
            return str(self._cuda.Context.get_device().pci_bus_id())

    def flush_output(self) -> None:
        """The driver prints through C's stdout, which a pipe makes fully buffered."""
        if sys.platform != "win32":
            ctypes.CDLL(None).fflush(None)


def detect_card() -> Card:
    """The first card, with the limits it reports itself. Makes no context.

    Raises UsageError where there is no PyCUDA, no driver or no card; the message says what to install.
    """
    cuda, device = _open()
    with _translated():
        return _card(device.name(), tuple(device.compute_capability()), device, cuda.device_attribute)


def _card(full_name: str, cc: tuple[int, ...], device: Any, attribute: Any) -> Card:
    def value(name: str) -> int:
        return int(device.get_attribute(getattr(attribute, name)))

    major, minor = cc
    sms, clock = value("MULTIPROCESSOR_COUNT"), value("CLOCK_RATE")
    known = next((cards.get(name) for name in cards.names() if name in full_name), None)
    bandwidth = known.bandwidth if known else 2e3 * value("MEMORY_CLOCK_RATE") * value("GLOBAL_MEMORY_BUS_WIDTH") / 8
    lanes = 64 if (major, minor) in ((7, 5), (8, 0)) else 128  # fp32 lanes of a multiprocessor
    return Card(
        name=known.name if known else full_name,
        full_name=full_name,
        cc=(major, minor),
        arch=f"{major}{minor}{'a' if major >= 9 else ''}",
        sms=sms,
        shared_per_block_optin=value("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"),
        shared_per_sm=value("MAX_SHARED_MEMORY_PER_MULTIPROCESSOR"),
        threads_per_sm=value("MAX_THREADS_PER_MULTIPROCESSOR"),
        blocks_per_sm=value("MAX_BLOCKS_PER_MULTIPROCESSOR"),
        memory_bytes=int(device.total_memory()),
        memory_bus_bits=value("GLOBAL_MEMORY_BUS_WIDTH"),
        l2_bytes=value("L2_CACHE_SIZE"),
        bandwidth=bandwidth,
        fp32_rate=known.fp32_rate if known else 2e3 * sms * lanes * clock,
        clock_khz=clock,
        shared_reserved=value("RESERVED_SHARED_MEMORY_PER_BLOCK"),
        registers_per_sm=value("MAX_REGISTERS_PER_MULTIPROCESSOR"),
    )


def _open() -> tuple[Any, Any]:
    """PyCUDA's driver module and the first device."""
    try:
        cuda: Any = importlib.import_module("pycuda.driver")
    except ImportError as error:
        raise UsageError(f"no GPU: {error}; it needs NVIDIA's driver and: pip install pycuda") from error
    try:
        with _translated():
            cuda.init()
            if not cuda.Device.count():
                raise UsageError("no GPU: the driver sees no card; look at nvidia-smi and CUDA_VISIBLE_DEVICES")
            return cuda, cuda.Device(0)
    except DriverError as error:
        raise UsageError(f"no GPU: {error}; look at nvidia-smi and CUDA_VISIBLE_DEVICES") from error


@contextlib.contextmanager
def _translated() -> Iterator[None]:
    """PyCUDA's exceptions as DriverError, with the number of the driver's error."""
    cuda: Any = importlib.import_module("pycuda.driver")
    try:
        yield
    except cuda.Error as error:
        raise driver_error(str(error), _codes()) from error


def driver_error(message: str, codes: dict[str, int]) -> DriverError:
    """The error behind "cuCall failed: text" or "cuCall failed: text - remark"; code -1 for an unknown text."""
    found = _MESSAGE.match(message)
    if not found:
        return DriverError(-1, "", message)
    text = found["text"].strip()
    code = codes.get(text, codes.get(text.partition(" - ")[0].strip(), -1))
    return DriverError(code, found["call"], text)


@cache
def _codes() -> dict[str, int]:
    """The driver's text of each error -> its number."""
    library = ctypes.CDLL("nvcuda.dll" if os.name == "nt" else "libcuda.so.1")
    text = ctypes.c_char_p()
    table: dict[str, int] = {}
    for code in range(_LAST_CODE):
        if library.cuGetErrorString(code, ctypes.byref(text)) == 0 and text.value:
            table.setdefault(text.value.decode(errors="replace"), code)
    return table
