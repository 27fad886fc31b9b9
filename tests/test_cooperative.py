"""Modules for cooperative launches through the driver's C interface, against a driver that only writes down calls."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest

from harness.devices.cooperative import Module
from harness.devices.driver import DriverError


class Library:
    """libcuda as far as it is used: every call succeeds, but those in `fails`."""

    def __init__(self, **fails: int):
        self.fails = fails
        self.launched: list[tuple[Any, ...]] = []

    def cuModuleLoadData(self, handle: Any, image: bytes) -> int:
        handle._obj.value = 0x10
        return self.fails.get("cuModuleLoadData", 0)

    def cuModuleUnload(self, handle: ctypes.c_void_p) -> int:
        assert handle.value == 0x10
        return 0

    def cuModuleGetFunction(self, function: Any, module: ctypes.c_void_p, name: bytes) -> int:
        assert (module.value, name) == (0x10, b"_Z1k")
        function._obj.value = 0x20
        return self.fails.get("cuModuleGetFunction", 0)

    def cuModuleGetGlobal_v2(self, address: Any, nbytes: Any, module: ctypes.c_void_p, name: bytes) -> int:
        address._obj.value, nbytes._obj.value = 1 << 40, 12
        return 0

    def cuFuncGetAttribute(self, value: Any, attribute: int, function: ctypes.c_void_p) -> int:
        value._obj.value = 100 + attribute
        return 0

    def cuLaunchKernel(self, function: ctypes.c_void_p, *rest: Any) -> int:
        *numbers, stream, parameters, extra = rest
        size = ctypes.c_size_t.from_address(extra[3]).value
        self.launched.append((*(n.value for n in numbers), ctypes.string_at(extra[1], size), stream, parameters))
        assert (extra[0], extra[2], extra[4]) == (1, 2, None)
        return 0

    def cuLaunchCooperativeKernel(self, function: ctypes.c_void_p, *rest: Any) -> int:
        *numbers, stream, parameters = rest
        words = ctypes.string_at(parameters[0], 8), ctypes.string_at(parameters[1], 4)
        self.launched.append((function.value, *(n.value for n in numbers), *words, stream))
        return self.fails.get("cuLaunchCooperativeKernel", 0)

    def cuGetErrorString(self, code: int, text: Any) -> int:
        text._obj.value = b"too many blocks in cooperative launch"
        return 0


ARGS = b"\1\2\3\4\5\6\7\x08" + b"\x09\x0a\x0b\x0c"


def test_a_cooperative_launch_gets_a_pointer_to_each_parameter() -> None:
    library = Library()
    function = Module(b"ELF", library).get_function("_Z1k")
    function.launch_together((4, 2, 1), (64, 1, 1), 512, ARGS, [(0, 8), (8, 4)])
    assert library.launched == [(0x20, 4, 2, 1, 64, 1, 1, 512, ARGS[:8], ARGS[8:], None)]


def test_ordinary_launches_of_such_a_module_get_the_block_of_parameters() -> None:
    library = Library()
    Module(b"ELF", library).get_function("_Z1k").launch((1, 1, 1), (32, 1, 1), 0, ARGS)
    assert library.launched == [(1, 1, 1, 32, 1, 1, 0, ARGS, None, None)]


def test_variables_and_attributes() -> None:
    module = Module(b"ELF", Library())
    assert module.get_global("table") == (1 << 40, 12)
    assert module.get_function("_Z1k").get_attribute(3) == 103
    module.unload()


def test_an_error_says_which_call_failed() -> None:
    function = Module(b"ELF", Library(cuLaunchCooperativeKernel=720)).get_function("_Z1k")
    with pytest.raises(DriverError, match="too many blocks") as caught:
        function.launch_together((4, 2, 1), (64, 1, 1), 512, ARGS, [(0, 8), (8, 4)])
    assert (caught.value.code, caught.value.call) == (720, "cuLaunchCooperativeKernel")
