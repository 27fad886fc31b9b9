"""Report -> JSON text, schema-versioned (harness.results.SCHEMA). Numbers that JSON lacks become strings."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any

from harness import traffic
from harness.report import resources
from harness.results import CaseResult, Report

_NAMES = {math.inf: "Infinity", -math.inf: "-Infinity"}


def render(report: Report) -> str:
    """The report as one indented JSON object; non-finite numbers are "NaN", "Infinity" and "-Infinity"."""
    return json.dumps(_plain(as_dict(report)), indent=2, allow_nan=False) + "\n"


def as_dict(report: Report) -> dict[str, Any]:
    """The report's fields in the order in which they are documented, with `schema` first."""
    fields = dataclasses.asdict(dataclasses.replace(report, cases=(), resources=()))
    fields["cases"] = [_case(case) for case in report.cases]
    fields["resources"] = [resources.as_dict(use) for use in report.resources]
    order = ("schema", "problem", "submission", "device", "dtype", "seed", "schedule", "verdict", "score", "cases")
    return {name: fields[name] for name in (*order, "findings", "compile", "resources", "resources_note", "seconds")}


def _case(case: CaseResult) -> dict[str, Any]:
    fields = dataclasses.asdict(dataclasses.replace(case, traffic=None))
    fields["traffic"] = case.traffic and traffic.as_json(case.traffic)
    fields["error"] = max((error.ratio for error in case.errors), key=_nan_is_worst, default=None)
    fields["time"] = fields.pop("seconds")
    order = ("name", "verdict", "error", "time", "traffic", "errors", "findings", "stdout", "parameters")
    return {name: fields[name] for name in order}


def _nan_is_worst(ratio: float) -> float:
    return math.inf if math.isnan(ratio) else ratio


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return _NAMES.get(value, "NaN")
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return _plain(value.item()) if hasattr(value, "item") else str(value)
