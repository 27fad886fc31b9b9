"""The parameters of every external function that solve() can call, as the compiler and the shim declare them."""

from __future__ import annotations

from collections.abc import Sequence

# Bytes of each parameter: 8 for pointers, handles and size_t, 4 for int, 12 for a dim3.
PARAMETERS: dict[str, tuple[int, ...]] = {
    "__assertfail": (8, 8, 4, 8, 8), "__cudaCDP2DeviceGetAttribute": (8, 4, 4),
    "__cudaCDP2EventCreateWithFlags": (8, 4), "__cudaCDP2EventDestroy": (8,), "__cudaCDP2EventRecord": (8, 8),
    "__cudaCDP2EventRecordWithFlags": (8, 8, 4),
    "__cudaCDP2Free": (8,), "__cudaCDP2FuncGetAttributes": (8, 8), "__cudaCDP2GetDevice": (8,),
    "__cudaCDP2GetDeviceCount": (8,), "__cudaCDP2GetErrorName": (4,), "__cudaCDP2GetErrorString": (4,),
    "__cudaCDP2GetLastError": (), "__cudaCDP2GetParameterBufferV2": (8, 12, 12, 4), "__cudaCDP2LaunchDeviceV2": (8, 8),
    "__cudaCDP2Malloc": (8, 8), "__cudaCDP2MemcpyAsync": (8, 8, 8, 4, 8), "__cudaCDP2MemsetAsync": (8, 4, 8, 8),
    "__cudaCDP2OccupancyMaxActiveBlocksPerMultiprocessor": (8, 8, 4, 8), "__cudaCDP2PeekAtLastError": (),
    "__cudaCDP2RuntimeGetVersion": (8,), "__cudaCDP2StreamCreateWithFlags": (8, 4), "__cudaCDP2StreamDestroy": (8,),
    "__cudaCDP2StreamWaitEvent": (8, 8, 4), "free": (8,), "judge_calloc": (8, 8), "judge_check_device": (4,),
    "judge_device_name": (8, 8), "judge_event_elapsed": (8, 8, 8), "judge_exit": (4,),
    "judge_func_set_attribute": (8, 4, 4), "judge_host_free": (8,), "judge_host_malloc": (8, 8),
    "judge_launch_cooperative": (8, 4, 4, 4, 4, 4, 4, 8, 8, 8),
    "judge_launch_kernel": (8, 4, 4, 4, 4, 4, 4, 8, 8, 8), "judge_managed_malloc": (8, 8), "judge_memcpy": (8, 8, 8, 4),
    "judge_memset": (8, 4, 8), "judge_occupancy_block_size": (8, 8, 8, 8, 4), "judge_set_device": (4,),
    "judge_synchronize": (), "judge_total_memory": (), "malloc": (8,), "vprintf": (8, 8),
}  # fmt: skip


def fitted(name: str, arguments: Sequence[bytes]) -> list[bytes] | None:
    """The arguments of a call with the bytes that its parameters have; None where there are more or fewer of them, as a
    declaration of the user's own makes possible. What the compiler knows to be undefined is not passed: it reads 0."""
    sizes = PARAMETERS.get(name)
    if sizes is None or len(sizes) != len(arguments):
        return None
    return [data[:size].ljust(size, b"\0") for data, size in zip(arguments, sizes, strict=True)]
