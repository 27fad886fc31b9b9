"""Modules for cooperative launches, which PyCUDA does not offer: the CUDA driver API through ctypes.

A module and its functions have the methods of PyCUDA's that the GPU device uses, in the context that PyCUDA made
current. CUDA Driver API: "Module Management", "Execution Control".
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from typing import Any

from harness.devices.driver import Dim3, DriverError

_BUFFER, _SIZE, _END = 1, 2, 0  # CU_LAUNCH_PARAM_*


def library() -> Any:
    """NVIDIA's driver."""
    return ctypes.CDLL("nvcuda.dll" if os.name == "nt" else "libcuda.so.1")


class Module:
    """A loaded cubin. Every method raises DriverError."""

    def __init__(self, cubin: bytes, driver: Any):
        self._driver, self._handle = driver, ctypes.c_void_p()
        _call(driver, "cuModuleLoadData", ctypes.byref(self._handle), cubin)

    def unload(self) -> None:
        _call(self._driver, "cuModuleUnload", self._handle)

    def get_function(self, name: str) -> Function:
        """The kernel of that mangled name."""
        handle = ctypes.c_void_p()
        _call(self._driver, "cuModuleGetFunction", ctypes.byref(handle), self._handle, name.encode())
        return Function(handle, self._driver)

    def get_global(self, name: str) -> tuple[int, int]:
        """(address, bytes) of a variable."""
        address, nbytes = ctypes.c_uint64(), ctypes.c_size_t()
        operands = ctypes.byref(address), ctypes.byref(nbytes), self._handle, name.encode()
        _call(self._driver, "cuModuleGetGlobal_v2", *operands)
        return address.value, nbytes.value


class Function:
    """A kernel of a Module."""

    def __init__(self, handle: ctypes.c_void_p, driver: Any):
        self._handle, self._driver = handle, driver

    def get_attribute(self, attribute: int) -> int:
        """A CUfunction_attribute."""
        value = ctypes.c_int()
        _call(self._driver, "cuFuncGetAttribute", ctypes.byref(value), int(attribute), self._handle)
        return value.value

    def set_attribute(self, attribute: int, value: int) -> None:
        _call(self._driver, "cuFuncSetAttribute", self._handle, int(attribute), value)

    def launch(self, grid: Dim3, block: Dim3, shared_bytes: int, args: bytes) -> None:
        """An ordinary launch, with a ready parameter block."""
        block_of_args, size = ctypes.create_string_buffer(args, len(args)), ctypes.c_size_t(len(args))
        extra = _pointers(_BUFFER, ctypes.addressof(block_of_args), _SIZE, ctypes.addressof(size), _END)
        _call(self._driver, "cuLaunchKernel", self._handle, *_shape(grid, block, shared_bytes), None, extra)

    def launch_together(
        self, grid: Dim3, block: Dim3, shared_bytes: int, args: bytes, slots: Sequence[tuple[int, int]]
    ) -> None:
        """A cooperative launch. slots: (offset, bytes) of each parameter in the block of parameters."""
        block_of_args = ctypes.create_string_buffer(args, len(args) + 1)
        pointers = _pointers(*(ctypes.addressof(block_of_args) + offset for offset, _ in slots), 0)
        shape = _shape(grid, block, shared_bytes)
        _call(self._driver, "cuLaunchCooperativeKernel", self._handle, *shape, pointers)


def _shape(grid: Dim3, block: Dim3, shared_bytes: int) -> tuple[Any, ...]:
    """Dimensions, dynamic shared memory, and the default stream."""
    return (*map(ctypes.c_uint, (*grid, *block, shared_bytes)), None)


def _pointers(*addresses: int) -> Any:
    return (ctypes.c_void_p * len(addresses))(*addresses)


def _call(driver: Any, name: str, *operands: Any) -> None:
    code = getattr(driver, name)(*operands)
    if code:
        text = ctypes.c_char_p()
        driver.cuGetErrorString(code, ctypes.byref(text))
        raise DriverError(code, name, (text.value or b"unknown error").decode(errors="replace"))
