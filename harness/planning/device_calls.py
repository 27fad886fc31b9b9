"""Errors, streams, events, printf, and questions about the device."""

from __future__ import annotations

import struct

from harness.planning.api import HostApi
from harness.planning.attributes import attributes
from harness.planning.calls import OK, HostCall, Table, i32, registrar, u, u64
from harness.planning.cuda_errors import CudaError, error_name, error_string
from harness.planning.memory import PlanFault
from harness.planning.printf import render
from harness.verdict import FindingKind

RUNTIME_VERSION = 13000

HANDLERS: Table = {}
handles = registrar(HANDLERS)


# Errors, streams and events


@handles("__cudaCDP2GetLastError")
def _get_last_error(api: HostApi, call: HostCall) -> bytes:
    code, api.last_error = api.last_error, CudaError.SUCCESS
    return i32(code)


@handles("__cudaCDP2PeekAtLastError")
def _peek(api: HostApi, call: HostCall) -> bytes:
    return i32(api.last_error)


@handles("__cudaCDP2GetErrorString", "__cudaCDP2GetErrorName")
def _error_text(api: HostApi, call: HostCall) -> bytes:
    text = (error_string if call.name.endswith("String") else error_name)(u(call.args[0])).encode() + b"\0"
    place = call.allocate(len(text))
    call.write(place, text)
    return u64(place)


@handles("__cudaCDP2StreamDestroy", "__cudaCDP2EventDestroy")
def _nothing(api: HostApi, call: HostCall) -> bytes:
    return OK


@handles("judge_synchronize")
def _synchronize(api: HostApi, call: HostCall) -> bytes:
    api.streams.synchronise()  # nothing to wait for: the plan is replayed in the order of issue
    return OK


@handles("__cudaCDP2EventRecord", "__cudaCDP2EventRecordWithFlags")
def _record(api: HostApi, call: HostCall) -> bytes:
    api.streams.record(u(call.args[0]), u(call.args[1]))
    return OK


@handles("__cudaCDP2StreamWaitEvent")
def _wait(api: HostApi, call: HostCall) -> bytes:
    api.streams.wait(u(call.args[0]), u(call.args[1]))
    return OK


@handles("__cudaCDP2StreamCreateWithFlags", "__cudaCDP2EventCreateWithFlags")
def _create(api: HostApi, call: HostCall) -> bytes:
    handle = api.new_handle()
    call.write(u(call.args[0]), u64(handle))
    if "Stream" in call.name:
        api.streams.created(handle, u(call.args[1]))
    return OK


@handles("judge_event_elapsed")
def _elapsed(api: HostApi, call: HostCall) -> bytes:
    call.write(u(call.args[0]), struct.pack("<f", 0.0))
    return OK


@handles("vprintf")
def _printf(api: HostApi, call: HostCall) -> bytes:
    template, arguments = map(u, call.args)
    text = render(call.cstring(template), lambda offset, size: call.read(arguments + offset, size), call.cstring)
    api.print(text, call)
    return i32(len(text))


@handles("judge_exit")
def _exit(api: HostApi, call: HostCall) -> bytes:
    if api.findings:
        raise PlanFault(api.findings)  # the usual way to end after a call failed: that call is the cause
    status = struct.unpack("<i", call.args[0])[0]
    raise api.fault(FindingKind.HOST_ERROR, f"solve() called exit({status}) instead of returning", call)


@handles("__assertfail")
def _assert(api: HostApi, call: HostCall) -> bytes:
    condition = call.cstring(u(call.args[0]))
    raise api.fault(FindingKind.TRAP, f"assertion `{condition}` failed in solve()", call)


# The device


@handles("__cudaCDP2GetDevice")
def _get_device(api: HostApi, call: HostCall) -> bytes:
    call.write(u(call.args[0]), i32(0))
    return OK


@handles("__cudaCDP2GetDeviceCount")
def _device_count(api: HostApi, call: HostCall) -> bytes:
    call.write(u(call.args[0]), i32(1))
    return OK


@handles("judge_set_device", "judge_check_device")
def _check_device(api: HostApi, call: HostCall) -> bytes:
    return OK if u(call.args[0]) == 0 else api.failed(CudaError.INVALID_DEVICE)


@handles("__cudaCDP2RuntimeGetVersion")
def _version(api: HostApi, call: HostCall) -> bytes:
    call.write(u(call.args[0]), i32(RUNTIME_VERSION))
    return OK


@handles("judge_total_memory")
def _total_memory(api: HostApi, call: HostCall) -> bytes:
    return u64(api.card.memory_bytes)


@handles("judge_device_name")
def _device_name(api: HostApi, call: HostCall) -> bytes:
    call.write(u(call.args[0]), api.card.full_name.encode()[: u(call.args[1]) - 1] + b"\0")
    return b""


@handles("__cudaCDP2DeviceGetAttribute")
def _device_attribute(api: HostApi, call: HostCall) -> bytes:
    target, attribute, device = map(u, call.args)
    value = attributes(api.card).get(attribute)
    if device or value is None:
        return api.failed(CudaError.INVALID_DEVICE if device else CudaError.INVALID_VALUE)
    call.write(target, i32(min(value, 2**31 - 1)))
    return OK
