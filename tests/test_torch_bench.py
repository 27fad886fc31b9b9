"""The timer of baselines against a device that exists in two clocks: what the host has reached, and what the device has.

Nothing here takes real time: queueing moves the host's clock, work moves the device's, waiting brings both together.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from harness.errors import UsageError
from harness.measure import torch_bench
from harness.measure.torch_bench import TorchBench

CYCLES_PER_SECOND = 1.5e9
L2 = 48 << 20
QUEUEING = 40e-6  # seconds that the host takes for one launch


class Device:
    """A card and the parts of torch that the bench asks for."""

    float32 = "float32"

    def __init__(self) -> None:
        self.host = self.device = 0.0
        self.log: list[str] = []
        self.cuda = SimpleNamespace(
            is_available=lambda: True,
            get_device_name=lambda index: "Fake 100",
            get_device_properties=lambda index: SimpleNamespace(L2_cache_size=L2),
            Event=lambda enable_timing: Event(self),
            synchronize=self.wait,
            empty_cache=lambda: None,
            _sleep=lambda cycles: self.queue("hold", cycles / CYCLES_PER_SECOND),
        )
        self.backends = SimpleNamespace(cuda=SimpleNamespace(matmul=SimpleNamespace(allow_tf32=True)))

    def set_grad_enabled(self, mode: bool) -> None:
        assert not mode

    def zeros(self, count: int, dtype: str, device: str) -> Buffer:
        assert (dtype, device) == ("float32", "cuda")
        return Buffer(self, 4 * count)

    ones = zeros

    def empty_like(self, buffer: Buffer) -> Buffer:
        return Buffer(self, buffer.nbytes)

    def queue(self, what: str, seconds: float) -> None:
        """The host launches, and goes on; the device gets to it when it has done the rest."""
        self.host += QUEUEING
        self.device = max(self.device, self.host) + seconds
        self.log.append(what)

    def wait(self) -> None:
        self.host = max(self.host, self.device)


class Buffer:
    def __init__(self, device: Device, nbytes: int):
        self.owner, self.nbytes = device, nbytes

    def fill_(self, value: float) -> None:
        self.owner.queue(f"write {self.nbytes}", 1e-5)

    def sum(self) -> None:
        self.owner.queue(f"read {self.nbytes}", 1e-5)

    def copy_(self, other: Buffer) -> None:
        self.owner.queue("copy", 1e-3)


class Event:
    def __init__(self, device: Device):
        self.owner, self.at = device, 0.0

    def record(self) -> None:
        self.owner.log.append("event")
        self.at = max(self.owner.device, self.owner.host)

    def query(self) -> bool:
        return self.at <= self.owner.host

    def synchronize(self) -> None:
        self.owner.host = max(self.owner.host, self.at)

    def elapsed_time(self, end: Event) -> float:
        return 1e3 * (end.at - self.at)


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Device:
    found = Device()
    clock = SimpleNamespace(monotonic=lambda: found.host, perf_counter=lambda: found.host)
    monkeypatch.setattr(torch_bench, "time", clock)
    monkeypatch.setitem(sys.modules, "torch", found)
    return found


def launches(device: Device, count: int, seconds: float) -> Callable[[], Any]:
    def run() -> None:
        for _ in range(count):
            device.queue("run", seconds)

    return run


@pytest.mark.parametrize(("count", "seconds"), [(1, 2e-6), (1, 5e-3), (6, 3e-6), (50, 1e-6)])
def test_a_run_is_timed_without_the_time_that_the_host_takes_to_launch_it(
    device: Device, count: int, seconds: float
) -> None:
    timed = TorchBench("torch").time(launches(device, count, seconds))
    assert timed.seconds == pytest.approx(count * seconds)
    assert (timed.samples, timed.gaps) == (40, False)


def test_every_sample_begins_with_a_cold_cache_and_a_device_that_is_kept_busy(device: Device) -> None:
    bench = TorchBench("torch")
    device.log.clear()
    bench.time(launches(device, 1, 1e-4))
    flush = [f"write {2 * L2}", f"read {2 * L2}"]
    sample = [*flush, "hold", "event", "run", "event"]
    warm = len(device.log) - 40 * len(sample)
    assert device.log[:warm] == [*flush, "run"] * (warm // 3) and warm >= 9
    assert device.log[warm:] == sample * 40


def test_a_run_that_waits_for_the_device_is_timed_with_its_gaps_and_says_so(device: Device) -> None:
    def run() -> None:
        device.queue("run", 1e-5)
        device.wait()
        device.queue("run", 1e-5)

    timed = TorchBench("torch").time(run)
    assert timed.gaps and timed.seconds == pytest.approx(2e-5 + QUEUEING)


def test_a_slow_run_has_fewer_samples(device: Device) -> None:
    assert TorchBench("torch").time(launches(device, 1, 0.1)).samples == 40
    assert 10 <= TorchBench("torch").time(launches(device, 1, 0.2)).samples < 25
    assert TorchBench("torch").time(launches(device, 1, 3.0)).samples == 10


def test_float32_products_are_not_rounded_to_tf32(device: Device) -> None:
    TorchBench("torch")
    assert device.backends.cuda.matmul.allow_tf32 is False


def test_no_gpu_is_a_usage_error_and_no_library_an_import_error(device: Device) -> None:
    with pytest.raises(ImportError):
        TorchBench("nowhere_to_be_found")
    device.cuda.is_available = lambda: False
    with pytest.raises(UsageError, match="no GPU: torch sees none"):
        TorchBench("torch")
