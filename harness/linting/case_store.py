"""Built cases, shared by the threads that run kernels on them; the least recently used give way.

A case is built once for all kernels as long as it is kept: inputs, float64 answer, limits.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from types import ModuleType

from harness import cases
from harness.case_list import CaseSpec
from harness.cases import Case
from harness.errors import ProblemError
from harness.linting.patience import Patience, TookTooLong
from harness.problem import Problem
from harness.reference import load_reference
from harness.tracks import title

KEPT_BYTES = 1 << 30  # of arrays

_LEAST_PATIENCE, _PATIENCE = 60.0, 10  # seconds; times limits.seconds

_Key = tuple[str, str, str, int]


class CaseStore:
    """The tests of one problem's tracks, by seed."""

    def __init__(
        self,
        track: Problem,
        kept_bytes: int = KEPT_BYTES,
        patience: float | None = None,
        progress: Callable[[str], None] = lambda line: None,
    ):
        """`patience`: seconds that a test may take to build; `progress` is told of one that takes long."""
        self.reference: ModuleType = load_reference(track)
        self.build_seconds: dict[tuple[str, str, str], float] = {}  # (dtype, variant, case) -> the longest
        self._kept_bytes = kept_bytes
        self._patience = patience or max(_LEAST_PATIENCE, _PATIENCE * track.limits.seconds)
        self._progress = progress
        self._lock = threading.Lock()
        self._cases: OrderedDict[_Key, Future[Case]] = OrderedDict()
        self._sizes: dict[_Key, int] = {}

    def get(self, track: Problem, spec: CaseSpec, seed: int) -> Case:
        """The case, built by the first thread that asks. Raises ProblemError as cases.build_one does."""
        key = (track.dtype, track.variant, spec.name, seed)
        with self._lock:
            future = self._cases.get(key)
            mine = future is None
            if future is None:
                future = self._cases[key] = Future()
            self._cases.move_to_end(key)
        if mine:
            self._build(key, future, track, spec, seed)
        return future.result()

    def _build(self, key: _Key, future: Future[Case], track: Problem, spec: CaseSpec, seed: int) -> None:
        start = time.monotonic()
        try:
            case = self._built(track, spec, seed)
        except BaseException as error:
            future.set_exception(error)
            return
        future.set_result(case)
        with self._lock:
            longest = self.build_seconds.get(key[:3], 0.0)
            self.build_seconds[key[:3]] = max(longest, time.monotonic() - start)
            self._sizes[key] = _nbytes(case)
            self._forget()

    def _built(self, track: Problem, spec: CaseSpec, seed: int) -> Case:
        def say() -> None:
            self._progress(f"{title(track)}: building test {spec.name}, seed {seed}, takes long")

        try:
            with Patience(self._patience, say):
                return cases.build_one(track, self.reference, spec, seed)
        except (ProblemError, TookTooLong) as error:
            if not isinstance(error, TookTooLong) and not isinstance(error.__cause__, TookTooLong):
                raise
            where = str(error) if isinstance(error, ProblemError) else f"{track.directory}: building {spec.name}"
            message = f"{where}; a test may take {self._patience:g} s to build"
            raise ProblemError(message) from None

    def _forget(self) -> None:
        while sum(self._sizes.values()) > self._kept_bytes and len(self._sizes) > 1:
            oldest = next(key for key in self._cases if key in self._sizes)
            del self._cases[oldest], self._sizes[oldest]


def _nbytes(case: Case) -> int:
    return cases.tensor_bytes(case.arguments) + sum(array.nbytes for array in case.expected.values())
