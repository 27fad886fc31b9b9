"""Registers and occupancy of the kernels that a judging launched: from the cache, or from a compile child.

This comes after the verdict and never changes it. The optimised compilation that it takes may be long, so it has a
limit of its own; that a source needs longer is remembered in the cache as well, and not found out again.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from math import prod
from typing import Any

from harness.cards import Card
from harness.compile import cache as store
from harness.compile.cubin import match
from harness.errors import JudgeException
from harness.occupancy import occupancy, waves
from harness.results import CaseResult, CompileResult, KernelResources, KernelUse, LaunchShape, LaunchUse
from harness.sandbox.death import Cause, ChildDied
from harness.sandbox.frames import FrameError
from harness.sandbox.resource_codec import resources_of
from harness.sandbox.supervisor import Source, Toolchain, measure_source

PATIENCE = 5.0  # seconds that a compilation gets unasked
_MAX_LAUNCHES = 64  # shapes of a kernel that a report lists


@dataclasses.dataclass(frozen=True)
class Resources:
    """Of every kernel of a source; or, where there are none, why: `reason` in words, or `waited` seconds in vain."""

    kernels: tuple[KernelResources, ...] = ()
    reason: str = ""
    waited: float = 0.0

    def note(self) -> str:
        """Why there are none, as a sentence's words; "" where there are some."""
        if self.waited:
            way_out = " (use --resources to wait)" if self.waited <= PATIENCE else ""
            return f"not measured, the optimised compile takes longer than {self.waited:g} s{way_out}"
        return f"not measured, {self.reason}" if self.reason else ""


class Meter:
    """Measures one source; `seconds` are what a compilation may take."""

    def __init__(self, source: Source, toolchain: Toolchain, seconds: float, cache: bool):
        self._source, self._toolchain, self._seconds = dataclasses.replace(source, arch=""), toolchain, seconds
        text, name, declaration, card = source.text, source.name, source.declaration, source.card
        self._key = store.key(text, name, declaration, card, "resources", toolchain.meter) if cache else ""

    def known(self) -> Resources | None:
        """What the cache has: the resources, or that they take longer than this meter would wait. Who asks for more
        than the usual patience is not told of an earlier failure: the machine may have been busy."""
        found = _unpack(store.get(self._key)) if self._key else None
        if found and found.waited and self._seconds > min(PATIENCE, found.waited):
            return None
        return found

    def measure(self) -> Resources:
        """Compile, and remember the result. Raises nothing: what goes wrong here is a reason, not a verdict."""
        found, lasting = self._measure()
        if self._key and lasting:
            store.put(self._key, json.dumps(dataclasses.asdict(found)).encode())
        return found

    def _measure(self) -> tuple[Resources, bool]:
        """The resources, and whether another time would give the same."""
        try:
            return Resources(measure_source(self._source, self._toolchain, self._seconds)), True
        except ChildDied as death:
            if death.cause is Cause.DEADLINE:
                return Resources(waited=self._seconds), True
            return Resources(reason=f"the optimised compile failed ({death.reason})"), False
        except JudgeException as error:
            return Resources(reason=f"the optimised compile failed ({error})"), False


def _unpack(value: bytes | None) -> Resources | None:
    """The resources in a cache entry; None for no entry, and for one that another version wrote."""
    try:
        fields: dict[str, Any] = json.loads(value or b"")
        kernels = tuple(resources_of(kernel) for kernel in fields["kernels"])
        return Resources(kernels, str(fields["reason"]), float(fields["waited"]))
    except (ValueError, KeyError, TypeError, AttributeError, FrameError):
        return None


def launched(cases: Iterable[CaseResult]) -> tuple[LaunchShape, ...]:
    """The distinct shapes of all cases, in the order of their first launch."""
    counts: dict[LaunchShape, int] = {}
    for shape in (shape for case in cases for shape in case.launches):
        key = dataclasses.replace(shape, count=1)
        counts[key] = counts.get(key, 0) + shape.count
    return tuple(dataclasses.replace(shape, count=count) for shape, count in counts.items())


def uses(kernels: Iterable[KernelResources], shapes: Iterable[LaunchShape], card: Card) -> tuple[KernelUse, ...]:
    """The kernels that were launched, each with its launches on that card."""
    known = {kernel.name: kernel for kernel in kernels}
    by_kernel: dict[str, list[LaunchShape]] = {}
    for shape in shapes:
        name = match(shape.kernel, tuple(known))  # the name of an anonymous namespace depends on the options
        if name:
            by_kernel.setdefault(name, []).append(shape)
    return tuple(_use(known[name], launches, card) for name, launches in by_kernel.items())


def _use(kernel: KernelResources, shapes: list[LaunchShape], card: Card) -> KernelUse:
    launches = sorted((_launch(kernel, shape, card) for shape in shapes), key=lambda launch: -launch.blocks)
    return KernelUse(card.name, kernel, tuple(launches[:_MAX_LAUNCHES]))


def _launch(kernel: KernelResources, shape: LaunchShape, card: Card) -> LaunchUse:
    shared = kernel.static_shared_bytes + shape.shared_bytes
    held = occupancy(card, prod(shape.block), kernel.registers, shared, kernel.barriers)
    blocks = prod(shape.grid)
    return LaunchUse(shape, blocks, held, waves(card, blocks, held.blocks))


def with_most(result: CompileResult, kernels: Iterable[KernelUse]) -> CompileResult:
    """The compiler's result with the most that one of the launched kernels takes."""
    found = [use.kernel for use in kernels]
    if not found:
        return result
    return dataclasses.replace(
        result,
        registers=max(kernel.registers for kernel in found),
        spills=max(kernel.spill_store_bytes + kernel.spill_load_bytes for kernel in found),
        shared_bytes=max(kernel.static_shared_bytes for kernel in found),
    )
