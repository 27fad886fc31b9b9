"""What a problem's baselines.py says: which installed libraries compute the same answer, and how they are called.

problems/<id>/baselines.py is optional, and trusted like reference.py. It defines

    LIBRARIES: dict[str, Callable[[Inputs, Any], Iterable[Candidate]]]

by the name under which a library is imported ("torch", "flashinfer"). Such a function gets the case's inputs (tensors
on the card, as torch has them, and Python numbers; "outputs": the names of what the case's track asks for) and the
module torch, and yields what is to be timed. It runs in a
process of its own library (harness/sandbox/baseline_child.py), so neither module may be imported at the file's top.
Conversions and layouts belong into `Candidate.prepare`, which nobody times; so does what compiles on its first use.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from harness.errors import ProblemError

FILE = "baselines.py"
Inputs = Mapping[str, Any]
Library = Callable[[Inputs, Any], Iterable["Candidate"]]
# Largest error that still is the same computation: |e| over |expected| of a whole output, and of its worst row. One of
# float32 lets a single TF32 product pass. What lies above computes something else, and its time is not shown.
SAME = {"float32": (1e-3, 1e-2), "float16": (1e-2, 0.1), "bfloat16": (3e-2, 0.3), "float8_e4m3": (6e-2, 0.6)}


@dataclass(frozen=True)
class Prepared:
    """A candidate with its tensors in place. `answer` turns what `run` returns into the problem's outputs by name; it
    is not timed."""

    run: Callable[[], Any]
    answer: Callable[[Any], Mapping[str, Any]] = lambda out: {"out": out}


@dataclass(frozen=True)
class Candidate:
    """One way to compute the case; name and dtype tell those of a case apart. `dtype` is of its tensors ("bfloat16");
    `note` says where its task is not quite the case's, as "keys and values gathered beforehand"."""

    name: str  # "torch SDPA, efficient"
    dtype: str
    prepare: Callable[[], Prepared]
    note: str = ""


@dataclass(frozen=True)
class Timed:
    """The median of `samples` runs. gaps: the device waited for the host within a run, so that the time is of both."""

    seconds: float
    samples: int
    gaps: bool = False


class Bench(Protocol):
    """What holds the card for one library; harness/measure/torch_bench.py is the real one."""

    framework: Any  # the module torch, or what stands for it
    device: str  # the card's name
    version: str  # of the library

    def place(self, array: np.ndarray) -> Any:
        """A copy on the card."""

    def time(self, run: Callable[[], Any]) -> Timed:
        """Run it often enough, from a cold L2 each time."""

    def check(self) -> None:
        """Raises where the card answers no more, as after an illegal address."""

    def release(self) -> None:
        """Give back the memory of what is not referenced any more."""


def load_libraries(directory: Path) -> dict[str, Library]:
    """LIBRARIES of a problem directory; empty where it has no baselines.py. Raises ProblemError where that does not
    load or defines no such dict."""
    file = directory / FILE
    if not file.is_file():
        return {}
    spec = importlib.util.spec_from_file_location(f"judge_baselines_{directory.name}", file)
    if spec is None or spec.loader is None:
        raise ProblemError(f"{file}: cannot be loaded as Python")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise ProblemError(f"{file}: {type(error).__name__}: {error}") from error
    libraries = getattr(module, "LIBRARIES", None)
    if not isinstance(libraries, dict) or not all(callable(function) for function in libraries.values()):
        raise ProblemError(f"{file}: no dict LIBRARIES of functions by the libraries' names")
    return libraries


def distance(xp: Any, found: Any, expected: Any) -> tuple[float, float]:
    """(|e| / |expected|, the worst such ratio of any row): of an output [..., row] against its reference. `xp` is numpy
    or torch. inf where NaN or an infinity is where none belongs; equal infinities are right. A row counts as no smaller
    than 2^-14 of an average one, as in harness/check.py."""
    found, expected = (xp.asarray(x, dtype=xp.float64) for x in (found, expected))
    if tuple(found.shape) != tuple(expected.shape):
        return float("inf"), float("inf")
    nothing = xp.zeros_like(expected)
    with np.errstate(invalid="ignore"):
        error = xp.where(found == expected, nothing, found - expected)
    error = xp.where(xp.isfinite(error), error, nothing + float("inf"))
    errors = xp.sum(xp.square(error), axis=-1)
    sizes = xp.sum(xp.square(xp.where(xp.isfinite(expected), expected, nothing)), axis=-1)
    tiny = 1e-300  # an answer of zeros throughout
    total = xp.sqrt(xp.sum(errors) / (xp.sum(sizes) + tiny))
    rows = xp.sqrt(errors / (sizes + 2.0**-28 * xp.mean(sizes) + tiny))
    return float(total), float(xp.amax(rows))
