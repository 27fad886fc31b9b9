"""Samples of benchmarks as they were recorded. A recording's rows are the fields of `Sample`, in their order."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path

from harness.measure.records import Sample

_HERE = Path(__file__).parent


def load(name: str) -> list[Sample]:
    rows = json.loads((_HERE / f"{name}.json").read_text())["samples"]
    return [
        Sample(seconds, child, sm_clock, memory_clock, temperature, tuple(throttled))
        for seconds, child, sm_clock, memory_clock, temperature, throttled in rows
    ]


def save(name: str, note: str, samples: Sequence[Sample]) -> None:
    """`note`: what happened on the card meanwhile, and where and when that was."""
    rows = ",\n".join(json.dumps(dataclasses.astuple(sample)) for sample in samples)
    (_HERE / f"{name}.json").write_text(f'{{"note": {json.dumps(note)},\n"samples": [\n{rows}\n]}}\n')
