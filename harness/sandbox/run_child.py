"""The run child: `python -m harness.sandbox.run_child`; holds one device and one program, runs case after case.

Requests: "open" (candidates for the device, the first that opens is taken) -> "ready" or "unavailable"; "load" (the
program) -> nothing; "run" (one case) -> "result" or "refused"; "objects" (native code that earlier runs of the program
have left) -> nothing; "collect" -> "objects" (what was compiled here). Its stdout belongs to the submission.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from harness.devices.base import Device, Program
from harness.emulator.objects import STORE
from harness.sandbox.codec import objects_frame, read_objects, read_program, read_run, result_frame
from harness.sandbox.frames import Frame
from harness.sandbox.limits import ProcessLimits, allow_cpu, apply
from harness.sandbox.service import load, serve

_CPU_GRACE = 10.0  # seconds of processor time for just-in-time compilation


class RunService:
    """Answers requests in order; the state is the open device and the loaded program."""

    def __init__(self) -> None:
        self._device: Device | None = None
        self._program: Program | None = None

    def answer(self, request: Frame) -> Iterator[Frame]:
        """The frames that answer one request."""
        if request.kind == "open":
            yield self._open(**request.fields)
        elif request.kind == "load":
            self._program = read_program(request)
        elif request.kind == "run":
            yield self._run(request)
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
                arch = str(getattr(self._device, "arch", ""))
                return Frame("ready", {"kind": kind, "name": self._device.name, "arch": arch})
        return Frame("unavailable", {"message": "; ".join(reasons)})

    def _run(self, request: Frame) -> Frame:
        assert self._device and self._program, "a run was asked for before a device and a program were there"
        arguments, limits, seed = read_run(request)
        allow_cpu((limits.seconds + _CPU_GRACE) * (limits.threads or os.cpu_count() or 1))
        frame = result_frame(self._device.run(self._program, arguments, limits, seed))
        frame.fields["broken"] = bool(getattr(self._device, "broken", False))
        return frame


if __name__ == "__main__":
    serve(lambda: RunService().answer)
