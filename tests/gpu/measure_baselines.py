"""All baselines of all problems on the card: `python -m tests.gpu.measure_baselines [--only PATTERN] [--out FILE]`.

Prints a row as soon as it is there and writes all of them as JSON. Case names are matched as "problem/case". A library
that is not installed, or cannot do a case, is a row with the reason. FlashInfer compiles for minutes the first time.
"""

# ruff: noqa: E402  what is set below must be set before NumPy is loaded

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

for _variable in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"):  # references bring their own threads
    os.environ.setdefault(_variable, "1")

from harness import cases, problem
from harness.cases import Case
from harness.errors import JudgeException
from harness.measure.baselines import Baselines, Outcome
from harness.prefetch import Prefetch
from harness.problem import CaseSpec, Problem
from harness.reference import load_reference

_HEADER = f"{'case':<46} {'baseline':<34} {'dtype':<9} {'us':>10} {'GB/s':>8} {'TFLOP/s':>8} {'error':>8}  note"

_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2, "float8_e4m3": 1}


@dataclass(frozen=True)
class Row:
    """One line. Rates are those of the case's fewest bytes and operations as the baseline's own type stores them."""

    case: str
    name: str
    dtype: str
    microseconds: float
    gigabytes_per_second: float
    teraflops: float
    error: float
    samples: int
    note: str

    def text(self) -> str:
        """The printed line."""
        if not self.microseconds:
            return f"{self.case:<46} {self.name:<34} {self.dtype:<9} {'-':>10} {'':>26}  {self.note}"
        figures = f"{self.microseconds:10.1f} {self.gigabytes_per_second:8.0f} {self.teraflops:8.1f} {self.error:8.0e}"
        return f"{self.case:<46} {self.name:<34} {self.dtype:<9} {figures}  {self.note}"


def row(case: Case, label: str, outcome: Outcome, dtype: str) -> Row:
    """The figures of one outcome of a case in the track `dtype`."""
    baseline = outcome.baseline
    width = _BYTES.get(baseline.dtype, _BYTES[dtype]) / _BYTES[dtype]
    seconds = baseline.seconds or float("inf")
    return Row(
        case=label,
        name=baseline.name,
        dtype=baseline.dtype,
        microseconds=round(1e6 * baseline.seconds, 2),
        gigabytes_per_second=round(case.cost.bytes * width / seconds / 1e9, 1),
        teraflops=round(case.cost.flops / seconds / 1e12, 2),
        error=outcome.error,
        samples=outcome.samples,
        note=baseline.note,
    )


def rows(chosen: Problem, specs: Sequence[CaseSpec], seed: int, seconds: float) -> Iterator[Row]:
    """All rows of one problem; the next case is built while one is measured."""
    reference: Any = load_reference(chosen)
    reference.honest = lambda inputs: iter(())  # limits are not needed, and these models are slow
    built = (cases.build_one(chosen, reference, spec, seed) for spec in specs)
    with Baselines(chosen, seconds=seconds) as baselines, Prefetch(built) as ahead:
        for case in ahead:
            for outcome in baselines.outcomes(case):
                yield row(case, f"{chosen.id}/{case.name}", outcome, chosen.dtype)
        print(", ".join(f"{name} {version}" for name, version in baselines.versions.items()), flush=True)


def select(only: str, with_tests: bool, dtype: str, variant: str) -> Iterator[tuple[Problem, list[CaseSpec]]]:
    """Problems that have the track, each with the cases that the patterns (comma-separated) name."""
    tracks = [track for each in problem.list_problems() for track in each.tracks()]
    for each in (track for track in tracks if (track.dtype, track.variant) == (dtype, variant)):
        specs = [*each.benchmarks, *(each.tests if with_tests else ())]
        patterns = only.split(",")
        named = [spec for spec in specs if any(fnmatch(f"{each.id}/{spec.name}", pattern) for pattern in patterns)]
        if named:
            yield each, named


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, write; exit code 1 where nothing at all was timed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--out", type=Path, help="write the rows here as JSON")
    parser.add_argument("--only", default="*", help="patterns, as 'paged_decode/*,*/heads_32*'")
    parser.add_argument("--tests", action="store_true", help="the small test cases, too")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--variant", default="base")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--limit", type=float, default=240.0, help="seconds for all")
    parsed = parser.parse_args(arguments)
    begun = time.monotonic()
    found: list[Row] = []
    print(_HEADER, flush=True)
    for chosen, specs in select(parsed.only, parsed.tests, parsed.dtype, parsed.variant):
        try:
            for each in rows(chosen, specs, parsed.seed, parsed.limit - (time.monotonic() - begun)):
                found.append(each)
                print(each.text(), flush=True)
                if parsed.out:
                    parsed.out.write_text(json.dumps([asdict(r) for r in found], indent=1) + "\n", encoding="utf-8")
        except JudgeException as error:
            print(f"{chosen.id}: {error}", flush=True)
    timed = sum(each.microseconds > 0 for each in found)
    print(f"{timed} of {len(found)} rows timed in {time.monotonic() - begun:.0f} s")
    return 0 if timed else 1


if __name__ == "__main__":
    sys.exit(main())
