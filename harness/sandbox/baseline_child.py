"""The baseline child: `python -m harness.sandbox.baseline_child`; one library on the card, case after case.

It runs code of ours and of a library, none of a submission: the limits are those of a trusted process. Requests:

    "open"   the problem's directory, the library, what holds the card -> "ready" or "absent"
    "case"   inputs and reference -> for each candidate "trying", then "row"; at last "done"

"trying" comes before anything of a candidate runs, so that one that crashes or hangs can be named by the supervisor.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness.errors import JudgeException
from harness.measure.candidates import SAME, Bench, Candidate, Inputs, distance, load_libraries
from harness.sandbox.death import without_folders
from harness.sandbox.frames import Frame
from harness.sandbox.service import load, serve

INPUT, EXPECTED = "in ", "expected "  # what the names of arrays in a "case" begin with
_MAX_NOTE = 160  # characters


class BaselineService:
    """Answers requests in order; the state is the bench and the candidates of one library."""

    def __init__(self) -> None:
        self._bench: Bench | None = None
        self._directory, self._library = Path(), ""

    def answer(self, request: Frame) -> Iterator[Frame]:
        """The frames that answer one request."""
        if request.kind == "open":
            yield self._open(**request.fields)
        elif request.kind == "case":
            yield from self._case(request)
            yield Frame("done")
        else:
            raise ValueError(f"unknown request '{request.kind}'")

    def _open(self, directory: str, library: str, bench: str, environment: dict[str, str]) -> Frame:
        os.environ.update(environment)  # before the library reads it
        self._directory, self._library = Path(directory), library
        try:
            self._bench = load(bench)(library)
        except JudgeException:
            raise
        except Exception as error:  # an import can fail in any way
            return Frame("absent", {"message": _in_words(error)})
        return Frame("ready", {"device": self._bench.device, "version": self._bench.version})

    def _case(self, request: Frame) -> Iterator[Frame]:
        assert self._bench, "a case came before the bench was opened"
        bench = self._bench
        tensors = {name: bench.place(array) for name, array in _named(request, INPUT).items()}
        expected = {name: bench.place(array) for name, array in _named(request, EXPECTED).items()}
        inputs = {**tensors, **request.fields["scalars"], "outputs": tuple(expected)}
        try:
            for candidate in self._candidates(inputs):
                if [candidate.name, candidate.dtype] in request.fields["skip"]:
                    continue
                shown = {"name": candidate.name, "dtype": candidate.dtype, "note": candidate.note}
                yield Frame("trying", shown)
                yield _row(bench, candidate, expected)
        except Exception as error:
            note = f"baselines.py failed: {_in_words(error)}"
            yield Frame("trying", {"name": self._library, "dtype": "", "note": ""})
            yield _with_health(_failure(note), bench)

    def _candidates(self, inputs: Inputs) -> Iterator[Candidate]:
        assert self._bench
        yield from load_libraries(self._directory)[self._library](inputs, self._bench.framework)


def _named(request: Frame, start: str) -> dict[str, Any]:
    return {name.removeprefix(start): array for name, array in request.arrays.items() if name.startswith(start)}


def _row(bench: Bench, candidate: Candidate, expected: dict[str, Any]) -> Frame:
    """A candidate's time, if it answers right."""
    try:
        frame = _timed(bench, candidate, expected)
    except Exception as error:  # whatever a library raises for what it cannot do
        frame = _failure(_in_words(error))
    return _with_health(frame, bench)  # only here is nothing referenced any more, by a traceback for example


def _timed(bench: Bench, candidate: Candidate, expected: dict[str, Any]) -> Frame:
    prepared = candidate.prepare()
    total, row = _error(bench, dict(prepared.answer(prepared.run())), expected)
    most_total, most_row = SAME[candidate.dtype]
    if not (total <= most_total and row <= most_row):  # so written that NaN fails
        return _failure(_wrong(total, row))
    timed = bench.time(prepared.run)
    fields = {"seconds": timed.seconds, "samples": timed.samples, "gaps": timed.gaps, "error": total}
    return Frame("row", fields | {"failure": ""})


def _wrong(total: float, row: float) -> str:
    if not math.isfinite(total + row):
        return "wrong: its answer is not finite, or not of the right shape"
    return f"wrong: its error is {total:.0e} of the answer, {row:.0e} in a row"


def _error(bench: Bench, answer: dict[str, Any], expected: dict[str, Any]) -> tuple[float, float]:
    """The worst of all outputs."""
    missing = set(expected) - set(answer)
    if missing:
        raise ValueError(f"gives no output {', '.join(sorted(missing))}")
    errors = [distance(bench.framework, answer[name], array) for name, array in expected.items()]
    return max(total for total, _ in errors), max(row for _, row in errors)


def _failure(note: str) -> Frame:
    return Frame("row", {"seconds": 0.0, "samples": 0, "gaps": False, "error": 0.0, "failure": note})


def _with_health(row: Frame, bench: Bench) -> Frame:
    """The row, and whether the card still answers: after a fault, no call of this process succeeds any more."""
    try:
        bench.check()
        bench.release()
    except Exception:
        return Frame("row", row.fields | {"broken": True})
    return Frame("row", row.fields | {"broken": False})


def _in_words(error: Exception) -> str:
    """The first line, without folders."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
    return without_folders(text)[:_MAX_NOTE]


if __name__ == "__main__":
    serve(lambda: BaselineService().answer)
