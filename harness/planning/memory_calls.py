"""cudaMalloc, cudaFree, fills and copies, and the C allocator."""

from __future__ import annotations

from harness.plan import Copy, Memset, Upload
from harness.planning.api import HostApi
from harness.planning.calls import OK, HostCall, Table, registrar, u, u64
from harness.planning.cuda_errors import CudaError
from harness.verdict import FindingKind

_KINDS = ("HostToHost", "HostToDevice", "DeviceToHost", "DeviceToDevice", "Default")
_DEFAULT_KIND = 4
_TO_DEVICE, _FROM_DEVICE = (1, 3, _DEFAULT_KIND), (2, 3, _DEFAULT_KIND)

HANDLERS: Table = {}
handles = registrar(HANDLERS)


@handles("__cudaCDP2Malloc")
def _malloc(api: HostApi, call: HostCall) -> bytes:
    target, nbytes = map(u, call.args)
    pointer = api.memory.allocate(nbytes, call.line) if nbytes else 0
    call.write(target, u64(pointer or 0))
    if pointer is not None:
        return OK
    api.note(FindingKind.MEMORY_LIMIT, api.memory.over_limit(nbytes), call)
    return api.failed(CudaError.MEMORY_ALLOCATION)


@handles("__cudaCDP2Free")
def _free(api: HostApi, call: HostCall) -> bytes:
    pointer = u(call.args[0])
    api.streams.synchronise()
    wrong = api.memory.free(pointer, call.line) if pointer else ""
    if not wrong:
        return OK
    api.note(FindingKind.HOST_ERROR, f"cudaFree fails (invalid argument): {wrong}", call)
    return api.failed(CudaError.INVALID_VALUE)


@handles("__cudaCDP2MemsetAsync", "judge_memset")
def _memset(api: HostApi, call: HostCall) -> bytes:
    pointer, value, nbytes = map(u, call.args[:3])
    if nbytes:
        if not api.memory.is_device(pointer) and pointer:
            message = "cudaMemset of host memory (invalid argument); it fills device memory only"
            raise api.fault(FindingKind.HOST_ERROR, message, call)
        api.check(pointer, nbytes, True, call, "cudaMemset")
        api.add(Memset(pointer, value & 0xFF, nbytes, call.line), call, _stream(call, 3))
    return OK


def _stream(call: HostCall, position: int) -> int:
    """Of an asynchronous call; the others are of the default stream."""
    return u(call.args[position]) if call.name.endswith("Async") else 0


@handles("__cudaCDP2MemcpyAsync", "judge_memcpy")
def _memcpy(api: HostApi, call: HostCall) -> bytes:
    dst, src, nbytes, kind = map(u, call.args[:4])
    if not nbytes:
        return OK
    to_device, from_device = _is_device(api, dst, kind in _TO_DEVICE), _is_device(api, src, kind in _FROM_DEVICE)
    actual = 2 * from_device + to_device
    if kind not in (actual, _DEFAULT_KIND):
        given = f"cudaMemcpy{_KINDS[kind]}" if kind < len(_KINDS) else str(kind)
        message = f"cudaMemcpy with {given}, but the pointers say cudaMemcpy{_KINDS[actual]}"
        raise api.fault(FindingKind.HOST_ERROR, message, call)
    if from_device and not to_device:
        message = (
            f"cudaMemcpy of {api.memory.name(src) or 'device memory'} to the host: solve() is evaluated without data, "
            "and results stay on the device; compute with them in a kernel instead"
        )
        raise api.fault(FindingKind.UNSUPPORTED, message, call)
    _copy(api, call, dst, src, nbytes, to_device, from_device)
    return OK


def _is_device(api: HostApi, pointer: int, said: bool) -> bool:
    """Whether a copy means device memory here. A module variable is both: solve() has its own copy of each, as a host
    program has of a constant array, so there the copy's direction decides."""
    if api.memory.is_variable(pointer):
        return said
    return api.memory.is_device(pointer) or pointer == 0  # a null pointer is what a failed cudaMalloc left


def _copy(api: HostApi, call: HostCall, dst: int, src: int, nbytes: int, to_device: bool, from_device: bool) -> None:
    if from_device:
        api.check(src, nbytes, False, call, "cudaMemcpy")
    if to_device:
        api.check(dst, nbytes, True, call, "cudaMemcpy")
    if to_device and from_device:
        api.add(Copy(dst, src, nbytes, call.line), call, _stream(call, 4))
    elif to_device:
        api.add(Upload(dst, call.read(src, nbytes), call.line), call, _stream(call, 4))
    else:
        call.write(dst, call.read(src, nbytes))
    if not call.name.endswith("Async"):
        api.streams.synchronise()


@handles("judge_host_malloc")
def _host_malloc(api: HostApi, call: HostCall) -> bytes:
    target, nbytes = map(u, call.args)
    call.write(target, u64(call.allocate(nbytes)))
    return OK


@handles("malloc")
def _c_malloc(api: HostApi, call: HostCall) -> bytes:
    return u64(call.allocate(u(call.args[0])))


@handles("judge_calloc")
def _calloc(api: HostApi, call: HostCall) -> bytes:
    return u64(call.allocate(u(call.args[0]) * u(call.args[1])))


@handles("judge_host_free")
def _host_free(api: HostApi, call: HostCall) -> bytes:
    if api.memory.is_device(u(call.args[0])):
        raise api.fault(FindingKind.HOST_ERROR, "cudaFreeHost() of device memory; use cudaFree()", call)
    return OK


@handles("free")
def _c_free(api: HostApi, call: HostCall) -> bytes:
    if api.memory.is_device(u(call.args[0])):
        raise api.fault(FindingKind.HOST_ERROR, "free() of device memory; use cudaFree()", call)
    return b""


@handles("judge_managed_malloc")
def _managed(api: HostApi, call: HostCall) -> bytes:
    message = "cudaMallocManaged is not supported: solve() never sees data; use cudaMalloc"
    raise api.fault(FindingKind.UNSUPPORTED, message, call)
