"""How a call of solve() arrives, and how its arguments and return value are packed."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

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
