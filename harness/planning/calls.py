"""How a call of solve() arrives, under which name people know it, and how its arguments and value are packed."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from harness.devices.names import readable
from harness.planning.cuda_errors import CudaError

if TYPE_CHECKING:
    from harness.planning.api import HostApi


class HostCall(Protocol):
    """One call of an external function, as harness.emulator.host hands it over; `args` holds each parameter's bytes."""

    name: str
    args: list[bytes]
    line: int

    def kernel_name(self, address: int) -> str | None: ...
    def read(self, address: int, nbytes: int) -> bytes: ...
    def write(self, address: int, data: bytes) -> None: ...
    def cstring(self, address: int) -> str: ...
    def allocate(self, nbytes: int) -> int: ...
    def variable(self, address: int) -> Any: ...


Handler = Callable[["HostApi", HostCall], bytes]  # gives the bytes of the return value
Table = dict[str, Handler]


def registrar(table: Table) -> Callable[..., Callable[[Handler], Handler]]:
    """A decorator that enters a handler into the table under the names of external functions."""

    def handles(*names: str) -> Callable[[Handler], Handler]:
        def register(handler: Handler) -> Handler:
            table.update(dict.fromkeys(names, handler))
            return handler

        return register

    return handles


def u(data: bytes) -> int:
    """An unsigned integer or an address."""
    return int.from_bytes(data, "little")


def i32(value: int) -> bytes:
    """An int or a cudaError_t."""
    return struct.pack("<i", value)


def u64(value: int) -> bytes:
    """A size_t or an address."""
    return struct.pack("<Q", value)


OK = i32(CudaError.SUCCESS)
_INTERNAL = re.compile(r"\b(?:judge_\w+|__cudaCDP2\w+|_Z\w+|__assertfail\b|vprintf\b)")
_USER_NAMES = {
    "judge_memcpy": "cudaMemcpy",
    "judge_memset": "cudaMemset",
    "judge_synchronize": "cudaDeviceSynchronize",
    "judge_func_set_attribute": "cudaFuncSetAttribute",
    "judge_host_malloc": "cudaMallocHost",
    "judge_host_free": "cudaFreeHost",
    "judge_managed_malloc": "cudaMallocManaged",
    "judge_set_device": "cudaSetDevice",
    "judge_check_device": "cudaGetDeviceProperties",
    "judge_total_memory": "cudaMemGetInfo",
    "judge_device_name": "cudaGetDeviceProperties",
    "judge_event_elapsed": "cudaEventElapsedTime",
    "judge_launch_kernel": "cudaLaunchKernel",
    "judge_launch_cooperative": "cudaLaunchCooperativeKernel",
    "judge_occupancy_block_size": "cudaOccupancyMaxPotentialBlockSize",
    "judge_exit": "exit",
    "judge_calloc": "calloc",
    "__assertfail": "assert",
    "vprintf": "printf",
}


def user_words(text: str) -> str:
    """A function's name, or a sentence with such names, as the user knows them: judge_memcpy -> cudaMemcpy,
    __cudaCDP2Malloc -> cudaMalloc, _Z3foldi -> fold."""
    return _INTERNAL.sub(lambda found: _user_name(found.group()), text)


def _user_name(name: str) -> str:
    if name in _USER_NAMES:
        return _USER_NAMES[name]
    if name.startswith("__cudaCDP2"):
        return name.replace("__cudaCDP2", "cuda").removesuffix("V2")
    if name.startswith("judge_"):
        return name.removeprefix("judge_").removeprefix("host_only_").replace("std_", "std::")
    return readable(name)
