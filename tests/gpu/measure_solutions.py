"""Times every solution on every benchmark of its problem, on the card of this machine, and keeps the table.

    python -m tests.gpu.measure_solutions --out solutions/RESULTS.yaml [--only 'paged_decode/*'] [--baseline]
    python -m tests.gpu.measure_solutions --repeat 5 --only split_k_merge/02_vectorised

The first writes solutions/RESULTS.yaml, which the README shows; the second judges the same file several times and says
how far the scores lie apart.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
_HEAD = "# Written by `python -m tests.gpu.measure_solutions`. Times are medians in microseconds.\n"


def solutions(pattern: str) -> list[tuple[str, Path]]:
    """(problem, file) of every solution whose `problem/name` matches."""
    files = sorted((ROOT / "solutions").glob("*/*.cu"))
    return [(file.parent.name, file) for file in files if fnmatch(f"{file.parent.name}/{file.stem}", pattern)]


def judged(problem: str, file: Path, baseline: bool, html: Path | None) -> dict[str, Any]:
    """The JSON report of one judging, or what the judge said instead of one."""
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        command = [sys.executable, str(ROOT / "judge.py"), problem, str(file), "--device", "gpu"]
        command += ["--cases", "benchmarks", "--json", report.name, *["--baseline"] * baseline]
        command += ["--html", str(html)] if html else []
        run = subprocess.run(command, capture_output=True, text=True)
        text = Path(report.name).read_text()
    return json.loads(text) if text else {"verdict": "none", "said": run.stderr[-2000:]}


def row(case: dict[str, Any]) -> dict[str, Any]:
    """One benchmark in RESULTS.yaml."""
    figures, timing = case["benchmark"], case["benchmark"]["timing"]
    found = {
        "us": round(figures["seconds"] * 1e6, 2),
        "half_width_percent": round(100 * timing["half_width"], 2),
        "gb_per_s": round(figures["bandwidth"] / 1e9, 1),
        "tflop_per_s": round(figures["rate"] / 1e12, 2),
        "speed_of_light_us": round(figures["sol_seconds"] * 1e6, 2),
        "score": round(figures["score"], 1),
        "error": float(f"{case['error']:.3g}"),
    }
    if timing["noisy"]:
        found["noisy"] = True
    if figures["baselines"]:
        found["baselines"] = {
            f"{b['name']} {b['dtype']}": round(b["seconds"] * 1e6, 2) if b["seconds"] else b["note"]
            for b in figures["baselines"]
        }
    return found


def clocks(report: dict[str, Any]) -> list[int]:
    """Lowest and highest SM clock of all benchmarks, MHz."""
    ranges = [case["benchmark"]["timing"]["sm_clock_mhz"] for case in report["cases"] if case["benchmark"]]
    return [min(low for low, _ in ranges), max(high for _, high in ranges)]


def entry(report: dict[str, Any]) -> dict[str, Any]:
    """One solution in RESULTS.yaml."""
    if report["verdict"] != "accepted":
        return {"verdict": report["verdict"], "said": report.get("said", report.get("score_note", ""))}
    timed = {case["name"]: row(case) for case in report["cases"] if case["benchmark"]}
    track = {name: report[name] for name in ("dtype", "variant")}
    return track | {
        "score": round(report["score"], 2), "tier": report["tier"], "sm_clock_mhz": clocks(report), "cases": timed,
    }  # fmt: skip


def card_of(report: dict[str, Any]) -> dict[str, Any]:
    """The card and its ceilings."""
    found = report["ceilings"]
    rates = {unit: round(rate / 1e12, 1) for unit, rate in found["rates"].items()}
    gigabytes = {name: round(found[name] / 1e9) for name in ("copy", "read")}
    return {"name": found["card"], "driver": found["driver"], "gb_per_s": gigabytes, "tflop_per_s": rates}


def measured(arguments: argparse.Namespace) -> Iterator[tuple[str, dict[str, Any]]]:
    """(`problem/name`, report) of every solution, as often as asked."""
    for problem, file in solutions(arguments.only):
        for turn in range(arguments.repeat):
            begun = time.monotonic()
            page = arguments.pages / f"{problem}-{file.stem}.html" if arguments.pages else None
            report = judged(problem, file, arguments.baseline, page)
            score = report.get("score")
            shown = f"{score:.2f} {report['tier']}" if score else report.get("said", report.get("score_note", ""))
            taken = time.monotonic() - begun
            print(f"{problem}/{file.stem:24} {turn + 1}  {report['verdict']:16} {shown}  {taken:.0f} s", flush=True)
            yield f"{problem}/{file.stem}", report


def main() -> int:
    """The command line; exit code 1 where a solution is not accepted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="the table, as YAML")
    parser.add_argument("--only", default="*")
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--baseline", action="store_true")
    parser.add_argument("--pages", type=Path, help="a directory for the HTML reports")
    arguments = parser.parse_args()
    table: dict[str, Any] = {"date": time.strftime("%Y-%m-%d"), "card": {}, "solutions": {}}
    scores: dict[str, list[float]] = {}
    for name, report in measured(arguments):
        table["solutions"][name] = entry(report)
        if report.get("ceilings"):
            table["card"] = card_of(report)
        scores.setdefault(name, []).append(report.get("score") or 0.0)
        if arguments.out:
            arguments.out.write_text(_HEAD + yaml.safe_dump(table, sort_keys=False, width=120))
    for name, found in scores.items():
        if len(found) > 1:
            print(f"{name}: {found}; spread {100 * (max(found) - min(found)) / max(found):.2f} %")
    return int(any("score" not in found for found in table["solutions"].values()))


if __name__ == "__main__":
    sys.exit(main())
