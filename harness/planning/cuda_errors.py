"""The runtime's error codes that a submission can meet, with the names and sentences of cudaGetErrorString."""

from __future__ import annotations

from enum import IntEnum


class CudaError(IntEnum):
    """A cudaError_t."""

    SUCCESS = 0
    INVALID_VALUE = 1
    MEMORY_ALLOCATION = 2
    INVALID_CONFIGURATION = 9
    INVALID_DEVICE_FUNCTION = 98
    INVALID_DEVICE = 101
    INVALID_RESOURCE_HANDLE = 400
    COOPERATIVE_LAUNCH_TOO_LARGE = 720


_TEXTS = {
    CudaError.SUCCESS: ("cudaSuccess", "no error"),
    CudaError.INVALID_VALUE: ("cudaErrorInvalidValue", "invalid argument"),
    CudaError.MEMORY_ALLOCATION: ("cudaErrorMemoryAllocation", "out of memory"),
    CudaError.INVALID_CONFIGURATION: ("cudaErrorInvalidConfiguration", "invalid configuration argument"),
    CudaError.INVALID_DEVICE_FUNCTION: ("cudaErrorInvalidDeviceFunction", "invalid device function"),
    CudaError.INVALID_DEVICE: ("cudaErrorInvalidDevice", "invalid device ordinal"),
    CudaError.INVALID_RESOURCE_HANDLE: ("cudaErrorInvalidResourceHandle", "invalid resource handle"),
    CudaError.COOPERATIVE_LAUNCH_TOO_LARGE: (
        "cudaErrorCooperativeLaunchTooLarge",
        "too many blocks in cooperative launch",
    ),
}


def error_name(code: int) -> str:
    """As cudaGetErrorName: the enumerator."""
    return _TEXTS[CudaError(code)][0] if code in _TEXTS else "unrecognized error code"


def error_string(code: int) -> str:
    """As cudaGetErrorString: what CUDA says of it."""
    return _TEXTS[CudaError(code)][1] if code in _TEXTS else "unrecognized error code"
