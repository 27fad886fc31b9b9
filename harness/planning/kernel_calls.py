"""<<<>>>, cudaLaunchKernel, cooperative launches, and what solve() sets and asks of a kernel."""

from __future__ import annotations

import struct
from dataclasses import replace

from harness.devices.names import readable
from harness.emulator.host import HostFault
from harness.plan import Launch
from harness.planning.api import HostApi, Kernel
from harness.planning.calls import OK, HostCall, Table, i32, registrar, u, u64
from harness.planning.cuda_errors import CudaError, error_string
from harness.planning.launch_rules import (
    blocks_per_sm,
    cooperative_refusal,
    default_shared_limit,
    optin_shared_limit,
    refusal,
)
from harness.verdict import FindingKind

_POINTER_BYTES = 8
_DYNAMIC_SHARED = 8  # cudaFuncAttributeMaxDynamicSharedMemorySize

HANDLERS: Table = {}
handles = registrar(HANDLERS)


@handles("__cudaCDP2GetParameterBufferV2")
def _parameter_buffer(api: HostApi, call: HostCall) -> bytes:
    function, grid, block, shared = call.args
    found = _prepare(api, call, u(function), _dim3(grid), _dim3(block), u(shared))
    if found is None:
        return u64(0)  # the compiled <<<>>> skips the launch then
    launch, kernel = found
    buffer = call.allocate(max(kernel.param_bytes, 8))
    api.pending[buffer] = launch
    return u64(buffer)


@handles("__cudaCDP2LaunchDeviceV2")
def _launch(api: HostApi, call: HostCall) -> bytes:
    buffer = u(call.args[0])
    launch = api.pending.pop(buffer, None)
    if launch is None:
        raise api.fault(FindingKind.HOST_ERROR, "solve() launches what no <<<>>> has prepared", call)
    nbytes = api.kernels[launch.kernel].param_bytes
    return _issue(api, call, launch, call.read(buffer, nbytes), u(call.args[1]))


@handles("judge_launch_kernel", "judge_launch_cooperative")
def _launch_kernel(api: HostApi, call: HostCall) -> bytes:
    function, gx, gy, gz, bx, by, bz, table, shared, stream = map(u, call.args)
    found = _prepare(api, call, function, (gx, gy, gz), (bx, by, bz), shared)
    if found is None:
        return i32(api.last_error)
    launch, kernel = found
    if call.name == "judge_launch_cooperative":
        refused = cooperative_refusal(kernel, launch.grid, launch.block, shared, api.card)
        if refused:
            _refuse(api, call, refused.code, refused.reason, launch.kernel)
            return i32(api.last_error)
        launch = replace(launch, cooperative=True)
    args = bytearray(kernel.param_bytes)
    for index, param in enumerate(kernel.params):
        value = u(call.read(table + 8 * index, 8))
        args[param.offset : param.offset + param.nbytes] = call.read(value, param.nbytes)
    return _issue(api, call, launch, bytes(args), stream)


def _prepare(
    api: HostApi, call: HostCall, function: int, grid: tuple[int, int, int], block: tuple[int, int, int], shared: int
) -> tuple[Launch, Kernel] | None:
    """The launch without its arguments, or None where CUDA refuses it; then the refusal is recorded."""
    found = api.kernel(function, call)
    if found is None:
        _refuse(api, call, CudaError.INVALID_DEVICE_FUNCTION, "the function pointer is not that of a kernel", "")
        return None
    name, kernel = found
    limit = max(api.shared_limits.get(name, 0), default_shared_limit(kernel, api.card))
    refused = refusal(kernel, grid, block, shared, limit, api.card)
    if refused:
        _refuse(api, call, refused.code, refused.reason, name)
        return None
    return Launch(name, grid, block, shared, b"", call.line), kernel


def _issue(api: HostApi, call: HostCall, launch: Launch, args: bytes, stream: int) -> bytes:
    if not api.is_stream(stream):
        _refuse(api, call, CudaError.INVALID_RESOURCE_HANDLE, "the stream does not exist", launch.kernel)
        return i32(api.last_error)
    _check_freed(api, call, launch, args)
    _check_host(api, call, launch, args)
    api.add(replace(launch, args=args), call, stream)
    return OK


def _check_freed(api: HostApi, call: HostCall, launch: Launch, args: bytes) -> None:
    """A pointer to freed scratch among the arguments: the kernel would use memory that is no longer its own."""
    for (word,) in struct.iter_unpack("<Q", args[: len(args) // 8 * 8]):
        if line := api.memory.freed_at(word):
            message = (f"{readable(launch.kernel)} is given memory that was freed at line {line}: free it after the "
                       "last launch that uses it")  # fmt: skip
            api.note(FindingKind.OUT_OF_BOUNDS, message, call, launch.kernel)


def _check_host(api: HostApi, call: HostCall, launch: Launch, args: bytes) -> None:
    """An array or a malloc of solve() among the arguments. Only words that are parameters of their own are looked at:
    inside of a struct, two integers may look like an address."""
    for number, param in enumerate(api.kernels[launch.kernel].params, 1):
        word = args[param.offset : param.offset + param.nbytes]
        if param.nbytes == _POINTER_BYTES and _is_host(api, call, u(word)):
            message = (f"argument {number} of {readable(launch.kernel)} is an address of host memory: copy the data to "
                       "the device with cudaMalloc and cudaMemcpy, or pass it by value")  # fmt: skip
            api.note(FindingKind.HOST_ERROR, message, call, launch.kernel)


def _is_host(api: HostApi, call: HostCall, address: int) -> bool:
    if api.memory.is_device(address):
        return False
    try:
        call.read(address, 1)
    except HostFault:
        return False
    return True


def _refuse(api: HostApi, call: HostCall, code: CudaError, reason: str, kernel: str) -> None:
    who = f"the launch of {readable(kernel)}" if kernel else "a launch"
    message = f"CUDA refuses {who} ({error_string(code)}): {reason}"
    api.note(FindingKind.INVALID_LAUNCH, message, call, kernel)
    api.failed(code)


def _dim3(data: bytes) -> tuple[int, int, int]:
    x, y, z = struct.unpack("<3I", data)
    return x, y, z


@handles("judge_func_set_attribute")
def _set_attribute(api: HostApi, call: HostCall) -> bytes:
    function, attribute, value = u(call.args[0]), u(call.args[1]), struct.unpack("<i", call.args[2])[0]
    found = api.kernel(function, call)
    if found is None:
        return api.failed(CudaError.INVALID_DEVICE_FUNCTION)
    name, kernel = found
    if attribute != _DYNAMIC_SHARED:
        return OK  # hints: they change no result
    if not 0 <= value <= optin_shared_limit(kernel, api.card):
        return api.failed(CudaError.INVALID_VALUE)  # a launch that needs it is refused, with the limit named
    api.shared_limits[name] = value
    return OK


@handles("__cudaCDP2FuncGetAttributes")
def _function_attributes(api: HostApi, call: HostCall) -> bytes:
    found = api.kernel(u(call.args[1]), call)
    if found is None:
        return api.failed(CudaError.INVALID_DEVICE_FUNCTION)
    name, kernel = found
    threads = kernel.max_threads or api.card.threads_per_block
    limit = api.shared_limits.get(name, default_shared_limit(kernel, api.card))
    arch = 10 * api.card.cc[0] + api.card.cc[1]
    # sharedSizeBytes, constSizeBytes, localSizeBytes; maxThreadsPerBlock, numRegs (unknown here), ptxVersion,
    # binaryVersion, cacheModeCA, maxDynamicSharedSizeBytes, preferredShmemCarveout
    data = struct.pack("<3Q7i", kernel.static_shared_bytes, 0, 0, threads, 0, arch, arch, 0, limit, -1)
    call.write(u(call.args[0]), data)
    return OK


@handles("__cudaCDP2OccupancyMaxActiveBlocksPerMultiprocessor")
def _occupancy(api: HostApi, call: HostCall) -> bytes:
    target, function, threads, shared = map(u, call.args)
    found = api.kernel(function, call)
    if found is None:
        return api.failed(CudaError.INVALID_DEVICE_FUNCTION)
    call.write(target, i32(blocks_per_sm(found[1], threads, shared, api.card)))
    return OK


@handles("judge_occupancy_block_size")
def _block_size(api: HostApi, call: HostCall) -> bytes:
    min_grid, target, function, shared, limit = map(u, call.args)
    found = api.kernel(function, call)
    if found is None:
        return api.failed(CudaError.INVALID_DEVICE_FUNCTION)
    kernel = found[1]
    most = min(kernel.max_threads or api.card.threads_per_block, limit or api.card.threads_per_block)
    sizes = range(most - most % 32 or most, 0, -32)
    best = max(sizes, key=lambda size: size * blocks_per_sm(kernel, size, shared, api.card))
    call.write(target, i32(best))
    call.write(min_grid, i32(api.card.sms * blocks_per_sm(kernel, best, shared, api.card)))
    return OK
