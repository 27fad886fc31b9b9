"""Steps of the pipeline as the store keeps them: (type, data). What `finished` says is made by the store itself."""

from __future__ import annotations

from typing import Any

from harness import events
from harness.events import Event
from harness.results import CaseResult, CompileResult
from web.queue.diagnostics import diagnostics
from web.store.judgings import finding_as_json


def as_stored(event: Event, name: str) -> tuple[str, dict[str, Any]]:
    """A step of the judging of the submission `name`; any but Finished."""
    match event:
        case events.Compiling():
            return "compiling", {"seed": event.seed}
        case events.Compiled():
            return "compiled", _compiled(event.result, name)
        case events.DeviceReady():
            return "device_ready", {"kind": event.kind, "name": event.name}
        case events.CaseStarted():
            return "case_started", _place(event)
        case events.CaseFinished():
            return "case_finished", _place(event, event.result.name) | _case(event.result)
        case events.Calibrating():
            return "calibrating", {}
        case events.BenchmarkStarted():
            return "benchmark_started", _place(event)
        case events.BenchmarkFinished():
            return "benchmark_finished", _place(event, event.result.name) | _benchmark(event.result)
        case events.CountingResources():
            return "counting_resources", {}
        case _:
            raise TypeError(f"{type(event).__name__} is no step that the store keeps")


def _place(event: Any, name: str = "") -> dict[str, Any]:
    return {"name": name or event.name, "number": event.number, "total": event.total}


def _compiled(result: CompileResult, name: str) -> dict[str, Any]:
    return {
        "ok": result.ok, "seconds": result.seconds, "log": result.log, "diagnostics": diagnostics(result.log, name),
    }  # fmt: skip


def _case(result: CaseResult) -> dict[str, Any]:
    return {
        "verdict": str(result.verdict), "seconds": result.seconds,
        "ratio": result.worst_ratio,
        "stdout": result.stdout, "findings": [finding_as_json(finding) for finding in result.findings],
    }  # fmt: skip


def _benchmark(result: CaseResult) -> dict[str, Any]:
    benchmark = result.benchmark
    return {
        "verdict": str(result.verdict), "score": benchmark.score if benchmark else None,
        "seconds": benchmark.seconds if benchmark else result.seconds,
        "modelled": benchmark is None or benchmark.modelled,
        "findings": [finding_as_json(finding) for finding in result.findings],
    }  # fmt: skip
