"""Frames on the private channel between the supervisor and a child.

A frame is a fixed prefix (magic, header bytes, payload bytes), a JSON header and raw array bytes. The reader states
how large a payload it expects before a byte of it is allocated, and whatever does not add up is a `FrameError`, which
is a JudgeError: never a parse crash, never pickle, never a verdict. The child on the other end may be hostile.
"""

from __future__ import annotations

import json
import math
import socket
import struct
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

from harness.errors import JudgeError

_PREFIX = struct.Struct("<4sIQ")
_MAGIC = b"CAJ1"
_ALIGNMENT = 64  # of every array within the payload
_MAX_DIMENSIONS = 8
MAX_HEADER = 4 << 20
_TYPES = (
    np.float64, np.float32, np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn,
    np.int64, np.int32, np.int16, np.int8, np.uint64, np.uint32, np.uint16, np.uint8, np.bool_,
)  # fmt: skip
DTYPES = {str(np.dtype(kind)): np.dtype(kind) for kind in _TYPES}  # by the names that headers give them


class FrameError(JudgeError):
    """What came over the channel is not the frame that was due."""


@dataclass(frozen=True)
class Frame:
    """One message: its kind, JSON fields, and arrays by name."""

    kind: str
    fields: dict[str, Any] = field(default_factory=dict)
    arrays: dict[str, np.ndarray] = field(default_factory=dict)


def encode(frame: Frame) -> list[memoryview]:
    """The frame's bytes as buffers to be sent one after the other; arrays are not copied when contiguous.

    Raises FrameError for a dtype that frames do not carry.
    """
    body: list[memoryview] = []
    declared = []
    size = 0
    for name, array in frame.arrays.items():
        if str(array.dtype) not in DTYPES:
            raise FrameError(f"cannot send array '{name}': dtype {array.dtype} is not one that frames carry")
        declared.append({"name": name, "dtype": str(array.dtype), "shape": list(array.shape)})
        padding = -array.nbytes % _ALIGNMENT
        body += [_raw(array), memoryview(bytes(padding))]
        size += array.nbytes + padding
    header = json.dumps({"kind": frame.kind, "fields": frame.fields, "arrays": declared}).encode()
    if len(header) > MAX_HEADER:
        raise FrameError(f"cannot send frame '{frame.kind}': its header has {len(header)} bytes, limit {MAX_HEADER}")
    head = _PREFIX.pack(_MAGIC, len(header), size) + header
    return [memoryview(head), *(part for part in body if part.nbytes)]


def _raw(array: np.ndarray) -> memoryview:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


class Decoder:
    """Takes one frame's bytes as they arrive: fill `wanted()`, then tell `advance()` how many came."""

    def __init__(self, max_payload: int):
        self._max_payload = max_payload
        self._stage = "prefix"
        self._header: dict[str, Any] = {}
        self._payload_bytes = 0
        self._begin(_PREFIX.size)

    def _begin(self, size: int) -> None:
        self._buffer = np.empty(size, np.uint8)
        self._filled = 0

    def wanted(self) -> memoryview:
        """The buffer that the next bytes belong into; never empty while a frame is incomplete."""
        return self._buffer.data[self._filled :]

    def advance(self, count: int) -> Frame | None:
        """Note that `count` bytes were filled in. Returns the frame once it is complete; raises FrameError."""
        self._filled += count
        while self._filled == len(self._buffer):
            if self._stage == "prefix":
                self._take_prefix()
            elif self._stage == "header":
                self._header = _parse_header(self._buffer.tobytes())
                self._stage = "payload"
                self._begin(self._payload_bytes)
            else:
                return _assemble(self._header, self._buffer)
        return None

    def _take_prefix(self) -> None:
        magic, header_bytes, self._payload_bytes = _PREFIX.unpack(self._buffer.tobytes())
        if magic != _MAGIC:
            raise FrameError(f"expected a frame, found the bytes {magic!r}")
        if not 0 < header_bytes <= MAX_HEADER:
            raise FrameError(f"frame header of {header_bytes} bytes, allowed are 1 to {MAX_HEADER}")
        if self._payload_bytes > self._max_payload:
            raise FrameError(f"frame payload of {self._payload_bytes} bytes, at most {self._max_payload} are due")
        self._stage = "header"
        self._begin(header_bytes)


def _parse_header(raw: bytes) -> dict[str, Any]:
    try:
        header = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise FrameError(f"frame header is not JSON: {error}") from None
    if not isinstance(header, dict) or not isinstance(header.get("kind"), str):
        raise FrameError("frame header has no kind")
    if not isinstance(header.get("fields"), dict) or not isinstance(header.get("arrays"), list):
        raise FrameError("frame header has no fields or no arrays")
    return header


def _assemble(header: dict[str, Any], payload: np.ndarray) -> Frame:
    arrays: dict[str, np.ndarray] = {}
    offset = 0
    for declared in header["arrays"]:
        name, dtype, shape = _declaration(declared)
        if name in arrays:
            raise FrameError(f"frame declares array '{name}' twice")
        size = math.prod(shape) * dtype.itemsize
        if offset + size > len(payload):
            raise FrameError(f"frame payload ends within array '{name}'")
        arrays[name] = payload[offset : offset + size].view(dtype).reshape(shape)
        offset += size + -size % _ALIGNMENT
    if offset != len(payload):
        raise FrameError(f"frame payload has {len(payload)} bytes, its arrays have {offset}")
    return Frame(header["kind"], header["fields"], arrays)


def _declaration(declared: Any) -> tuple[str, np.dtype, tuple[int, ...]]:
    if not isinstance(declared, dict) or not isinstance(declared.get("name"), str):
        raise FrameError("frame declares an array without a name")
    dtype = DTYPES.get(str(declared.get("dtype")))
    shape = declared.get("shape")
    if dtype is None or not isinstance(shape, list) or len(shape) > _MAX_DIMENSIONS:
        raise FrameError(f"frame declares array '{declared['name']}' with an unknown dtype or shape")
    if not all(type(extent) is int and 0 <= extent < 1 << 48 for extent in shape):
        raise FrameError(f"frame declares array '{declared['name']}' with the shape {shape}")
    return declared["name"], dtype, tuple(shape)


def send(channel: socket.socket, frame: Frame) -> None:
    """Send one frame on a blocking socket (the child's side)."""
    for part in encode(frame):
        channel.sendall(part)


def receive(channel: socket.socket, max_payload: int) -> Frame | None:
    """Wait for one frame on a blocking socket (the child's side); None at a clean end of the channel.

    Raises FrameError for anything that is not a frame, also when the channel ends within one.
    """
    decoder = Decoder(max_payload)
    started = False
    while True:
        count = channel.recv_into(decoder.wanted())
        if not count:
            if started:
                raise FrameError("the channel ended within a frame")
            return None
        started = True
        frame = decoder.advance(count)
        if frame is not None:
            return frame
