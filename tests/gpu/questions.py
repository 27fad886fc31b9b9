"""What the design takes for granted about a card and its driver, asked there: `python -m tests.gpu.questions --out FILE`.

    host memory     may a kernel read or write what malloc() gave (HMM)?
    death           how soon is the card usable after SIGKILL of a process whose kernel does not end?
    leftovers       what do shared and local memory, registers and fresh allocations hold from before?
    time            copy bandwidth, cost of events, and whether cached lines outlive a flush of the L2 cache
    accuracy        how far honest kernels stray, of every kind of exponential and of installed libraries
    host            which means of confinement and which figures of the card there are

Every question has a process of its own and a time limit, since several of them ruin the context they are asked in. An
answer is a JSON object; one that fails is {"error": ...}, and the rest go on.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Any

from tests.gpu.questions_kit import MARK

SECONDS = 20.0  # of one question
ACCURACY_SECONDS = 40.0  # of one about accuracy, most of which an optimising compiler takes
TOTAL_SECONDS = 140.0  # after which no further question is begun
_AT_ONCE = 8  # questions of accuracy, which no neighbour disturbs
_ROOT = Path(__file__).resolve().parents[2]
_MODULES = ("host", "memory", "leftovers", "time", "accuracy")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="JSON goes here")
    parser.add_argument("--only", default="", help="questions whose name contains this")
    parser.add_argument("--ask", help=argparse.SUPPRESS)  # in the child
    options = parser.parse_args()
    if options.ask:
        answer = _questions()[options.ask]()
        print(MARK + json.dumps(answer, default=str))
        return
    answers = ask_all([name for name in _questions() if options.only in name], options.out)
    print(f"{sum('error' in answer for answer in answers.values())} of {len(answers)} questions failed")


def ask_all(names: list[str], out: Path | None) -> dict[str, dict[str, Any]]:
    """The answers by name; the file is written after every one of them, so that an early end loses nothing."""
    begun = time.monotonic()
    answers: dict[str, dict[str, Any]] = {}

    def answered(name: str) -> None:
        late = time.monotonic() - begun > TOTAL_SECONDS
        answers[name] = {"error": "not asked: out of time"} if late else _ask(name)
        print(_shown(name, answers[name]), flush=True)
        if out:
            out.parent.mkdir(parents=True, exist_ok=True)
            out.write_text(json.dumps(answers, indent=1))

    together = [name for name in names if name.startswith("accuracy")]
    for name in names:
        if name not in together:
            answered(name)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(answered, together))
    return answers


def _questions() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for module in _MODULES:
        for name, question in import_module(f"tests.gpu.questions_{module}").QUESTIONS.items():
            found[f"{module}.{name}"] = question
    return found


def _ask(name: str) -> dict[str, Any]:
    begun = time.monotonic()
    command = [sys.executable, "-m", "tests.gpu.questions", "--ask", name]
    seconds = ACCURACY_SECONDS if name.startswith("accuracy") else SECONDS
    child = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace",
        start_new_session=True, cwd=_ROOT,
    )
    try:
        output, errors = child.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        _end_group(child)
        return {"error": f"no answer in {seconds:g} s"}
    answer = next((line for line in output.splitlines() if line.startswith(MARK)), None)
    if answer is None:
        return {"error": f"exit status {child.returncode}", "output": (output + errors)[-1500:]}
    return {**json.loads(answer.removeprefix(MARK)), "seconds": round(time.monotonic() - begun, 2)}


def _end_group(child: subprocess.Popen[str]) -> None:
    """The child with its own children, which would hold its pipes open. Not waited for: the driver may hold it back."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)


def _shown(name: str, answer: dict[str, Any]) -> str:
    lines = [f"{name}  ({answer.get('seconds', '-')} s)"]
    lines += [f"    {key:38s} {value}" for key, value in answer.items() if key != "seconds"]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
