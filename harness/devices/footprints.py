"""Launches on different streams that touch the same memory: found by what each left in the shadow of the blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.devices.names import readable
from harness.devices.places import Tensors
from harness.emulator.block_shadow import Touched
from harness.plan import Launch, Step
from harness.results import Access, Finding
from harness.verdict import FindingKind


class Footprints:
    """What the launches of a case touched, as far as others of its plan may run at the same time."""

    def __init__(self, steps: Sequence[Step], file: str, tensors: Tensors):
        self._file, self._tensors = file, tensors
        self._steps = steps
        self._kept: dict[int, Mapping[int, Touched]] = {}
        self._last_use: dict[int, int] = {}  # launch -> the last one that it is compared with
        for number, step in enumerate(steps):
            if isinstance(step, Launch) and step.concurrent:
                self._last_use |= dict.fromkeys((*step.concurrent, number), number)

    def wants(self, number: int) -> bool:
        """Whether the footprint of this step matters."""
        return number in self._last_use

    def add(self, number: int, touched: Mapping[int, Touched]) -> list[Finding]:
        """Keep a launch's footprint; the conflicts with earlier ones that nothing orders."""
        launch = self._steps[number]
        assert isinstance(launch, Launch)
        found = [self._conflict(launch, touched, other) for other in launch.concurrent if other in self._kept]
        self._kept = {n: kept for n, kept in self._kept.items() if self._last_use[n] > number}
        self._kept[number] = touched
        return [finding for finding in found if finding]

    def _conflict(self, launch: Launch, touched: Mapping[int, Touched], number: int) -> Finding | None:
        other, earlier = self._steps[number], self._kept[number]
        assert isinstance(other, Launch)
        for buffer_id in sorted(touched.keys() & earlier.keys()):
            place = touched[buffer_id].conflict(earlier[buffer_id])
            if place is not None:
                return self._finding(launch, other, buffer_id, place, earlier[buffer_id].wrote(place))
        return None

    def _finding(self, launch: Launch, other: Launch, buffer_id: int, offset: int, wrote: bool) -> Finding:
        spot = self._tensors.spot(buffer_id, offset)
        verbs = ("writes", "uses") if wrote else ("reads", "writes")
        message = (
            f"Race on {spot.text} between launches: {readable(other.kernel)}, launched at line {other.line}, "
            f"{verbs[0]} it and {readable(launch.kernel)}, launched here, {verbs[1]} it, on different streams and with "
            "no event or synchronisation between the two."
        )
        access = Access(other.line, write=wrote, file=self._file)
        return Finding(
            FindingKind.DATA_RACE, message, self._file, launch.line, spot.tensor, spot.index, other=access,
            kernel=readable(launch.kernel),
        )  # fmt: skip
