"""Launch shapes and kernel resources as frames; like all that a child sends, they are checked field by field."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from harness.results import KernelResources, LaunchShape
from harness.sandbox.frames import Frame, FrameError

_MAX_RECORDS = 1000
_MAX_NAME = 64 * 1024  # characters; templates make long ones
_MAX_COUNT = 1 << 62
_NAMES = ("name", "readable")
_AMOUNTS = [field.name for field in dataclasses.fields(KernelResources) if field.name not in _NAMES]


def resources_frame(kernels: Sequence[KernelResources]) -> Frame:
    """What the assembler said of a source's kernels."""
    return Frame("resources", {"kernels": [dataclasses.asdict(kernel) for kernel in kernels[:_MAX_RECORDS]]})


def read_resources(frame: Frame) -> tuple[KernelResources, ...]:
    """The supervisor's side of `resources_frame`. Raises FrameError for anything else."""
    return tuple(resources_of(raw) for raw in _records(frame.fields.get("kernels")))


def resources_of(raw: dict[str, Any]) -> KernelResources:
    """One kernel from its JSON. Raises FrameError unless every field is there and of its type."""
    return KernelResources(
        **{name: _name(raw.get(name)) for name in _NAMES},  # type: ignore[arg-type]
        **{name: _count(raw.get(name)) for name in _AMOUNTS},  # type: ignore[arg-type]
    )


def read_launches(raw: Any) -> tuple[LaunchShape, ...]:
    """Launch shapes from their JSON. Raises FrameError for anything but a list of well-formed shapes."""
    return tuple(
        LaunchShape(
            kernel=_name(shape.get("kernel")),
            grid=_extent(shape.get("grid")),
            block=_extent(shape.get("block")),
            shared_bytes=_count(shape.get("shared_bytes")),
            count=_count(shape.get("count")),
        )
        for shape in _records(raw)
    )


def _records(raw: Any) -> list[dict[str, Any]]:
    if not isinstance(raw, list) or len(raw) > _MAX_RECORDS or not all(isinstance(item, dict) for item in raw):
        raise FrameError("the answer has no list of launches or kernels")
    return raw


def _name(value: Any) -> str:
    if not isinstance(value, str) or len(value) > _MAX_NAME:
        raise FrameError("the answer names a kernel by what is no name")
    return value


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value < _MAX_COUNT:
        raise FrameError("the answer has an amount that is no whole number from 0")
    return value


def _extent(value: Any) -> tuple[int, int, int]:
    if not isinstance(value, list) or len(value) != 3 or not all(_count(extent) for extent in value):
        raise FrameError("the answer has a grid or block that is none")
    return value[0], value[1], value[2]
