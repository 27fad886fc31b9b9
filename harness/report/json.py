"""Report -> JSON text, schema-versioned (harness.results.SCHEMA). Numbers that JSON lacks become strings.

The fields are those of harness.results.Report, and of the records within it by the same names; beside and unlike them:

    score       geometric mean over all benchmarks, null without one: `score_note` says why, `tier` what it is called
    modelled    true where times, rates and the score are what a model says and nothing was timed
    ceilings    harness.measure.records.Ceilings: bytes/s and FLOP/s; null where nothing was set against them
    cases[]     name, verdict, error (the worst over its limit), time (seconds of the run, no measurement), errors,
                findings, stdout, parameters, and
      launches[]  of kernels by their mangled names: grid, block, dynamic_shared_bytes, count
      traffic     see harness/traffic.py; null where nothing ran in the emulator
      trace       harness.traces.CaseTrace: requests[] of warps, with `offsets` of the 32 lanes in bytes, and maps[] of
                  which block touched what; of at most one case, in a judging that was asked to trace, else null
      benchmark   harness.measure.records.Benchmark: bytes, flops, seconds, bandwidth in bytes/s, rate in FLOP/s, shares
                  of 1, score, baselines[] {name, seconds (0: it did not run), dtype, note}; null for a test, and for a
                  benchmark that was not accepted
        timing      harness.measure.records.Timing: seconds, with half_width as a share of the median; null if modelled
      mismatches[]  harness.results.MismatchMap of each wrong output: the tensor in at most 64 x 64 cells, a text for
                  each row of them: "." within the limit, "+" up to 10 times, "x" up to 1000 times, "X" beyond, "N" NaN
                  or infinite, "-" never written; and the pattern in words
    resources[] kernels that were launched: see harness/report/resources.py

harness/report/reading.py makes a Report of it again.
"""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any

from harness import traffic
from harness.measure.records import Benchmark
from harness.report import measurement, resources
from harness.results import CaseResult, Report

_NAMES = {math.inf: "Infinity", -math.inf: "-Infinity"}


def render(report: Report) -> str:
    """The report as one indented JSON object; non-finite numbers are "NaN", "Infinity" and "-Infinity"."""
    return json.dumps(plain(as_dict(report)), indent=2, allow_nan=False) + "\n"


def as_dict(report: Report) -> dict[str, Any]:
    """The report's fields in the order in which they are documented, with `schema` first."""
    fields = dataclasses.asdict(dataclasses.replace(report, cases=(), resources=()))
    fields["cases"] = [_case(case) for case in report.cases]
    fields["resources"] = [resources.as_dict(use) for use in report.resources]
    fields["modelled"] = measurement.modelled(report)
    order = (
        "schema", "problem", "submission", "device", "dtype", "variant", "seed", "schedule", "verdict", "score", "tier",
        "score_note", "modelled", "ceilings", "cases", "findings", "compile", "resources", "resources_note", "seconds",
    )  # fmt: skip
    return {name: fields[name] for name in order}


def _case(case: CaseResult) -> dict[str, Any]:
    fields = dataclasses.asdict(dataclasses.replace(case, traffic=None, launches=()))
    fields["launches"] = [resources.shape_as_dict(shape) for shape in case.launches]
    fields["traffic"] = case.traffic and traffic.as_json(case.traffic)
    fields["error"] = case.worst_ratio
    fields["time"] = fields.pop("seconds")
    fields["benchmark"] = case.benchmark and _benchmark(case.benchmark)
    order = (
        "name", "verdict", "error", "time", "benchmark", "traffic", "trace", "errors", "findings", "stdout",
        "parameters",
    )  # fmt: skip
    return {name: fields[name] for name in order} | fields


def _benchmark(benchmark: Benchmark) -> dict[str, Any]:
    fields = dataclasses.asdict(benchmark)
    timing = benchmark.timing
    if timing:
        fields["timing"]["half_width"] = timing.half_width if timing.seconds else math.nan
    return fields


def plain(value: Any) -> Any:
    """A value as JSON has it: names for numbers that JSON lacks, and texts for what it knows nothing of."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return _NAMES.get(value, "NaN")
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return plain(value.item()) if hasattr(value, "item") else str(value)
