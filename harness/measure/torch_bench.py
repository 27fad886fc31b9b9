"""Times a callable of torch's world on the card, as the judge times a submission: events on the device, cold L2.

A sample is: write and read a buffer twice as large as the L2, keep the device busy until the host has queued what
follows, event, run, event. Without the wait in between, a short run would show how fast Python launches kernels.
"""

from __future__ import annotations

import gc
import importlib
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from harness.errors import UsageError
from harness.measure.candidates import Timed

_SAMPLES, _LEAST_SAMPLES = 40, 10
_SECONDS = 4.0  # for the samples of one candidate; slow ones get fewer than _SAMPLES
_RAMP_SECONDS = 0.5  # of copies, for the clocks to rise
_WARM_SECONDS, _WARM_RUNS = 0.2, 3
_FIRST_HOLD, _LONGEST_HOLD = 200e-6, 20e-3  # seconds that the device is kept busy while the host queues a run
_MARGIN = 2.0  # of the hold over what queueing took
_MANY_GAPS = 0.1  # share of the samples whose run began before all of it was queued
_L2_BYTES = 64 << 20  # where torch does not tell


# Types that NumPy has from ml_dtypes, which torch does not take from it: by integers of as many bytes.
_BITS = {"bfloat16": np.int16, "float8_e4m3fn": np.uint8}


class TorchBench:
    """The first card, through torch, for one library."""

    def __init__(self, library: str):
        """Raises ImportError where torch or the library is missing, UsageError where there is no GPU."""
        self.framework: Any = importlib.import_module("torch")
        self.version = str(getattr(importlib.import_module(library), "__version__", ""))
        torch = self.framework
        if not torch.cuda.is_available():
            raise UsageError("no GPU: torch sees none; look at nvidia-smi and CUDA_VISIBLE_DEVICES")
        torch.set_grad_enabled(False)
        torch.backends.cuda.matmul.allow_tf32 = False
        self.device = str(torch.cuda.get_device_name(0))
        l2 = getattr(torch.cuda.get_device_properties(0), "L2_cache_size", 0) or _L2_BYTES
        self._buffer = torch.zeros(2 * l2 // 4, dtype=torch.float32, device="cuda")
        self._events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
        self._ramp()
        self._cycles_per_second = self._clock()

    def place(self, array: np.ndarray) -> Any:
        torch, name = self.framework, str(array.dtype)
        if name not in _BITS:
            return torch.from_numpy(array).cuda()
        return torch.from_numpy(array.view(_BITS[name])).view(getattr(torch, name)).cuda()

    def time(self, run: Callable[[], Any]) -> Timed:
        hold = max(_FIRST_HOLD, _MARGIN * self._warm(run))
        enabled = gc.isenabled()
        gc.collect()
        gc.disable()
        try:
            return self._samples(run, min(hold, _LONGEST_HOLD))
        finally:
            if enabled:
                gc.enable()

    def check(self) -> None:
        self.framework.cuda.synchronize()

    def release(self) -> None:
        gc.collect()
        self.framework.cuda.empty_cache()

    def _ramp(self) -> None:
        torch = self.framework
        source = torch.ones(1 << 27, dtype=torch.float32, device="cuda")
        target = torch.empty_like(source)
        begun = time.monotonic()
        while time.monotonic() - begun < _RAMP_SECONDS:
            target.copy_(source)
            torch.cuda.synchronize()
        del source, target
        self.release()

    def _clock(self) -> float:
        """Cycles a second of the loop that holds the device."""
        cycles = 1_000_000
        seconds = []
        for _ in range(5):
            self._events[0].record()
            self.framework.cuda._sleep(cycles)
            self._events[1].record()
            seconds.append(self._elapsed())
        return cycles / statistics.median(seconds)

    def _elapsed(self) -> float:
        self._events[1].synchronize()
        return float(self._events[0].elapsed_time(self._events[1])) * 1e-3

    def _warm(self, run: Callable[[], Any]) -> float:
        """Runs that do not count; the seconds that the host takes to queue one."""
        begun = time.monotonic()
        queueing: list[float] = []
        while len(queueing) < _WARM_RUNS or time.monotonic() - begun < _WARM_SECONDS:
            self._flush()
            called = time.perf_counter()
            run()
            queueing.append(time.perf_counter() - called)
            self.framework.cuda.synchronize()
        return statistics.median(queueing)

    def _flush(self) -> None:
        self._buffer.fill_(1.0)
        self._buffer.sum()

    def _samples(self, run: Callable[[], Any], hold: float) -> Timed:
        seconds: list[float] = []
        late = 0
        begun = time.monotonic()
        while len(seconds) < _SAMPLES:
            if len(seconds) >= _LEAST_SAMPLES and time.monotonic() - begun > _SECONDS:
                break
            sample, queued = self._sample(run, hold)
            if not queued and hold < _LONGEST_HOLD:  # not a sample: hold longer, and again
                hold *= 2
                continue
            late += not queued
            seconds.append(sample)
        return Timed(statistics.median(seconds), len(seconds), late > _MANY_GAPS * len(seconds))

    def _sample(self, run: Callable[[], Any], hold: float) -> tuple[float, bool]:
        """Seconds of one run, and whether all of it was queued before the device came to it."""
        begin, end = self._events
        self._flush()
        self.framework.cuda._sleep(int(hold * self._cycles_per_second))
        begin.record()
        out = run()
        end.record()
        queued = not begin.query()
        seconds = self._elapsed()
        del out
        return seconds, queued
