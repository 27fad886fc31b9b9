"""Every solution and fixture judged on both devices: `python -m tests.gpu.verdict_table [--out table.json]`.

Prints a row as soon as both verdicts are there and writes all of it as JSON. Exit code 0: every file got the verdict
that it declares, on both devices; fixtures that only the emulator can see (`emulator_only` beside them) count on the
CPU alone. Each judging is a process of its own with a deadline, so that one that hangs costs one row.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
DEVICES = ("cpu", "gpu")
NOT_RUN, TIMED_OUT, NO_REPORT = "not run", "timed out", "no report"
_TERMINATE_SECONDS = 3.0


@dataclass(frozen=True)
class Entry:
    """One file and the verdict that it declares. `cases` as of --cases, empty for all tests."""

    label: str
    problem: str
    source: Path
    expected: str
    cases: str = ""
    emulator_only: str = ""  # why a GPU cannot see it; empty where it can


@dataclass(frozen=True)
class Outcome:
    """What one device said: a verdict, or why there is none. `seconds` is the whole process."""

    verdict: str
    findings: tuple[str, ...] = ()
    seconds: float = 0.0
    note: str = ""
    messages: tuple[str, ...] = ()  # of all findings
    benchmarks: tuple[dict[str, Any], ...] = ()  # figures of each one that was timed, as the JSON report has them


@dataclass
class Row:
    """One line of the table; filled device by device."""

    entry: Entry
    outcomes: dict[str, Outcome] = field(default_factory=dict)

    def due(self) -> tuple[str, ...]:
        """The devices that must give the declared verdict."""
        return ("cpu",) if self.entry.emulator_only else DEVICES

    def agrees(self) -> bool:
        """Whether they did; a device that was not asked does not count."""
        return all(self.outcomes[d].verdict == self.entry.expected for d in self.due() if d in self.outcomes)

    def text(self) -> str:
        """The printed line."""
        verdicts = [self.outcomes[d].verdict if d in self.outcomes else "-" for d in DEVICES]
        same = "DIFFERS" if not self.agrees() else "emulator only" if self.entry.emulator_only else "yes"
        return f"{self.entry.label:<62} {self.entry.expected:<17} {verdicts[0]:<17} {verdicts[1]:<17} {same}"


def entries(root: Path = ROOT) -> Iterator[Entry]:
    """All solutions (accepted) and all fixtures (as their .expect.yaml says), in a fixed order."""
    for source in sorted((root / "solutions").glob("*/*.cu")):
        yield Entry(str(source.relative_to(root)), source.parent.name, source, "accepted")
    for path in sorted((root / "tests" / "submissions").glob("*/*.expect.yaml")):
        yield _fixture(path, root)


def _fixture(path: Path, root: Path) -> Entry:
    expect: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    source = root / expect["source"] if "source" in expect else path.with_name(path.name.replace(".expect.yaml", ".cu"))
    cases = expect.get("cases") or ""
    why = str(expect.get("why") or "declared so") if expect.get("emulator_only") else ""
    return Entry(
        label=str(path.relative_to(root)).removesuffix(".expect.yaml"),
        problem=expect.get("problem", path.parent.name),
        source=source,
        expected=expect["verdict"],
        cases=cases if isinstance(cases, str) else ",".join(cases),
        emulator_only=why,
    )


def judge(entry: Entry, device: str, seconds: float, seed: int = 1, threads: int = 2) -> Outcome:
    """Judge one file in a process of its own, killed with its children after `seconds`."""
    if seconds <= 0:
        return Outcome(NOT_RUN)
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="verdict-") as folder:
        report = Path(folder) / "report.json"
        words, status = _run(_command(entry, device, report, seed, threads), seconds)
        outcome = Outcome(TIMED_OUT) if status is None else _read(report, status, words)
    return dataclasses.replace(outcome, seconds=round(time.monotonic() - begun, 2))


def _command(entry: Entry, device: str, report: Path, seed: int, threads: int) -> list[str]:
    command = [sys.executable, str(ROOT / "judge.py"), entry.problem, str(entry.source), "--device", device]
    command += ["--seed", str(seed), "--threads", str(threads), "--json", str(report)]
    return command + (["--cases", entry.cases] if entry.cases else [])


def _run(command: Sequence[str], seconds: float) -> tuple[str, int | None]:
    """(stderr, exit status); None for a process that had to be stopped."""
    process = subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        errors="replace", start_new_session=True,
    )  # fmt: skip
    try:
        return process.communicate(timeout=seconds)[1], process.returncode
    except subprocess.TimeoutExpired:
        process.terminate()  # the judge then ends its own children, which are in sessions of their own
        try:
            process.communicate(timeout=_TERMINATE_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
        return "", None


def _read(report: Path, status: int, words: str) -> Outcome:
    try:
        found = json.loads(report.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return Outcome(NO_REPORT, note=f"exit status {status}: {words.strip()[-500:]}")
    findings = [*found["findings"], *(finding for case in found["cases"] for finding in case["findings"])]
    kinds = tuple(dict.fromkeys(finding["kind"] for finding in findings))
    messages = list(dict.fromkeys(finding["message"] for finding in findings))
    log = str(found["compile"].get("log") or "") if not found["cases"] else ""
    note = " | ".join([*messages[:3], log[:500]]).strip(" |")
    timed = tuple(case["benchmark"] for case in found["cases"] if case.get("benchmark"))
    return Outcome(found["verdict"], kinds, note=note, messages=tuple(messages), benchmarks=timed)


def build(
    chosen: Sequence[Entry], devices: Sequence[str], workers: dict[str, int], each: float, total: float
) -> list[Row]:
    """Judge all entries within `total` seconds, `each` at most for one; what does not fit is `not run`."""
    deadline = time.monotonic() + total
    rows = [Row(entry) for entry in chosen]
    pools = {device: ThreadPoolExecutor(workers[device]) for device in devices}

    def one(row: Row, device: str) -> None:
        row.outcomes[device] = judge(row.entry, device, min(each, deadline - time.monotonic()))

    pending: dict[Future[None], Row] = {pools[d].submit(one, row, d): row for row in rows for d in devices}
    left = {id(row): len(devices) for row in rows}
    for done in as_completed(pending):
        done.result()
        row = pending[done]
        left[id(row)] -= 1
        if not left[id(row)]:
            print(row.text(), flush=True)
    for pool in pools.values():
        pool.shutdown()
    return rows


def summary(rows: Sequence[Row]) -> str:
    """How many agree, and what each of the others said."""
    wrong = [row for row in rows if not row.agrees()]
    lines = [f"{len(rows) - len(wrong)} of {len(rows)} as declared"]
    for row in wrong:
        lines.append(row.text())
        lines += [f"    {d}: {', '.join(o.findings)} {o.note}"[:700] for d, o in row.outcomes.items()]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Judge, print, write; exit code 1 where a verdict differs from the declared one."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--out", type=Path, help="write the table here as JSON")
    parser.add_argument("--only", default="*", help="pattern for the files' labels, as '*paged_decode/*'")
    parser.add_argument("--devices", default="cpu,gpu")
    parser.add_argument("--each", type=float, default=90.0, help="seconds for one judging")
    parser.add_argument("--limit", type=float, default=480.0, help="seconds for all")
    parser.add_argument("--cpu-workers", type=int, default=max((os.cpu_count() or 2) // 2 - 1, 1))
    parser.add_argument("--gpu-workers", type=int, default=3, help="contexts on the card at a time; nothing is timed")
    parsed = parser.parse_args(arguments)
    chosen = [entry for entry in entries() if fnmatch(entry.label, parsed.only)]
    workers = {"cpu": parsed.cpu_workers, "gpu": parsed.gpu_workers}
    rows = build(chosen, parsed.devices.split(","), workers, parsed.each, parsed.limit)
    if parsed.out:
        table = [dataclasses.asdict(row) | {"agrees": row.agrees()} for row in rows]
        parsed.out.write_text(json.dumps(table, indent=1, default=str) + "\n", encoding="utf-8")
    print(summary(rows))
    return 0 if rows and all(row.agrees() for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
