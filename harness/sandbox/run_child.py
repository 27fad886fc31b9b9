"""The run child: `python -m harness.sandbox.run_child`; holds one device and one program, runs case after case.

Requests: "open" (candidates for the device, the first that opens is taken) -> "ready" or "unavailable"; "load" (the
program) -> nothing; "run" (one case) -> "result" or "refused"; "objects" (native code that earlier runs of the program
have left) -> nothing; "collect" -> "objects" (what was compiled here); those of harness/sandbox/bench_codec.py for
benchmarks on a card. Its stdout belongs to the submission.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from harness.devices.base import Device, Program
from harness.emulator.objects import STORE
from harness.planner import PlanFault
from harness.sandbox.codec import objects_frame, read_objects, read_program, read_run, result_frame
from harness.sandbox.frames import Frame
from harness.sandbox.limits import ProcessLimits, allow_cpu, apply
from harness.sandbox.service import load, serve

_BENCHING = frozenset({"bench", "sample", "compare", "fetch", "close", "ceilings"})
_CPU_GRACE = 10.0  # seconds of processor time for just-in-time compilation


class RunService:
    """Answers requests in order; the state is the open device and the loaded program."""

    def __init__(self) -> None:
        self._device: Device | None = None
        self._program: Program | None = None
        self._bench: Any = None  # of harness/devices/bench.py, while a benchmark case is open

    def answer(self, request: Frame) -> Iterator[Frame]:
        """The frames that answer one request."""
        if request.kind == "open":
            yield self._open(**request.fields)
        elif request.kind == "load":
            self._program = read_program(request)
        elif request.kind == "run":
            yield self._run(request)
        elif request.kind in _BENCHING:
            yield self._benching(request)
        elif request.kind == "objects":
            STORE.learn(read_objects(request))
        elif request.kind == "collect":
            yield objects_frame(STORE.take_fresh())
        else:
            raise ValueError(f"unknown request '{request.kind}'")

    def _open(self, devices: dict[str, str], limits: dict[str, dict[str, int]]) -> Frame:
        reasons = []
        for kind, path in devices.items():
            try:
                self._device = load(path)()
            except Exception as error:  # a driver's errors have classes that have no name without the driver
                reasons.append(f"{kind}: {error}")
            else:
                apply(ProcessLimits(**limits[kind]))
                return Frame("ready", {"kind": kind, "name": self._device.name, **_card(self._device)})
        return Frame("unavailable", {"message": "; ".join(reasons)})

    def _run(self, request: Frame) -> Frame:
        assert self._device and self._program, "a run was asked for before a device and a program were there"
        arguments, limits, seed = read_run(request)
        allow_cpu((limits.seconds + _CPU_GRACE) * (limits.threads or os.cpu_count() or 1))
        frame = result_frame(self._device.run(self._program, arguments, limits, seed))
        frame.fields["broken"] = bool(getattr(self._device, "broken", False))
        return frame


    def _benching(self, request: Frame) -> Frame:
        """A benchmark case, step by step; only a device with `bench` and `ceilings` is asked."""
        from harness.sandbox import bench_codec as wire

        device: Any = self._device
        if request.kind == "ceilings":
            return wire.ceilings_frame(device.ceilings())
        if request.kind == "bench":
            return self._open_bench(request)
        if request.kind == "sample":
            return self._marked(wire.sampled_frame(self._bench.sample(wire.read_disguises(request))))
        if request.kind == "compare":
            return wire.compared_frame(self._bench.compare(*wire.read_compare(request)))
        if request.kind == "fetch":
            return Frame("fetched", {}, self._bench.fetch(request.fields["plan"]))
        self._bench.close()
        self._bench = None
        return Frame("closed")

    def _open_bench(self, request: Frame) -> Frame:
        from harness.devices.bench import Setting
        from harness.sandbox import bench_codec as wire

        arguments, limits, seed, warm_ups, tools = wire.read_bench(request)
        device: Any = self._device
        try:
            self._bench = device.bench(self._program, arguments, limits, seed, tools)
        except PlanFault as fault:
            return wire.benched_frame(Setting(findings=tuple(fault.findings)))
        return self._marked(wire.benched_frame(self._bench.open(warm_ups)))

    def _marked(self, frame: Frame) -> Frame:
        frame.fields["broken"] = bool(self._bench.broken)
        return frame


def _card(device: Device) -> dict[str, Any]:
    """What the supervisor must know of a real card; empty for the emulator."""
    return {
        "arch": str(getattr(device, "arch", "")),
        "driver": str(getattr(device, "driver_version", "")),
        "l2_bytes": int(getattr(device, "l2_bytes", 0)),
    }


if __name__ == "__main__":
    serve(lambda: RunService().answer)
