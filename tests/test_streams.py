"""Launches on several streams: what is ordered before what, and races between those that nothing orders."""

from __future__ import annotations

import numpy as np
import pytest

from harness import cards
from harness.compile.build import compile_submission
from harness.devices.base import Argument, Program, RunLimits
from harness.devices.cpu import EmulatorDevice
from harness.planning.streams import Streams
from harness.results import Finding
from harness.verdict import FindingKind

A, B, FREE = 0x5000, 0x5001, 0x5002  # FREE does not wait for the default stream
EVENT = 0x6000


@pytest.fixture
def streams() -> Streams:
    found = Streams()
    for stream, flags in ((A, 0), (B, 0), (FREE, 1)):
        found.created(stream, flags)
    return found


def test_a_stream_orders_its_own_steps_only(streams: Streams) -> None:
    assert streams.issue(A, 0) == 0
    assert streams.issue(B, 1) == 0
    assert streams.issue(A, 2) == 0b001
    assert streams.issue(B, 3) == 0b0010


def test_the_default_stream_waits_for_blocking_streams_and_they_for_it(streams: Streams) -> None:
    streams.issue(A, 0)
    streams.issue(FREE, 1)
    assert streams.issue(0, 2) == 0b001
    assert streams.issue(B, 3) == 0b0101
    assert streams.issue(FREE, 4) == 0b00010
    assert streams.issue(0, 5) == 0b001101


def test_an_event_orders_what_was_issued_before_it(streams: Streams) -> None:
    streams.issue(A, 0)
    streams.record(EVENT, A)
    streams.issue(A, 1)
    streams.wait(B, EVENT)
    assert streams.issue(B, 2) == 0b001
    streams.wait(FREE, 0x7777)  # never recorded: no effect
    assert streams.issue(FREE, 3) == 0


def test_the_host_orders_everything(streams: Streams) -> None:
    streams.issue(A, 0)
    streams.issue(FREE, 1)
    streams.synchronise()
    assert streams.issue(B, 2) == 0b011


KERNELS = """#include <cuda_runtime.h>
__global__ void put(float* x, int n) { int i = blockIdx.x * 64 + threadIdx.x; if (i < n) x[i] = i; }
__global__ void get(const float* x, float* y, int n) { int i = blockIdx.x * 64 + threadIdx.x; if (i < n) y[i] = x[n - 1 - i]; }
__global__ void add(float* x, int n) { int i = blockIdx.x * 64 + threadIdx.x; if (i < n) atomicAdd(x + i % 100, 1.f); }
extern "C" void solve(const float* in, float* out, int n) {
  float* x; cudaMalloc(&x, n * sizeof(float)); cudaMemset(x, 0, n * sizeof(float));
  cudaStream_t a, b; cudaStreamCreate(&a); cudaStreamCreate(&b); cudaEvent_t e; cudaEventCreate(&e);
"""
BETWEEN = {
    "nothing": ("", True),
    "an event": ("cudaEventRecord(e, a); cudaStreamWaitEvent(b, e, 0);", False),
    "an event of the wrong stream": ("cudaEventRecord(e, b); cudaStreamWaitEvent(b, e, 0);", True),
    "a synchronisation": ("cudaStreamSynchronize(a);", False),
    "a launch on the default stream": ("put<<<1, 64>>>(out, 1);", False),
}


def _findings(body: str) -> tuple[Finding, ...]:
    declaration = 'extern "C" void solve(const float* in, float* out, int n);'
    ptx = compile_submission(KERNELS + body + "}", "my.cu", declaration, cards.get("H100"), "mid").ptx
    arguments = [
        Argument("in", np.zeros(1000, np.float32), "in", "float"),
        Argument("out", np.zeros(1000, np.float32), "out", "float"),
        Argument("n", 1000, "scalar", "int"),
    ]
    return EmulatorDevice().run(Program("my.cu", ptx), arguments, RunLimits(), 1).findings


@pytest.mark.parametrize("name", BETWEEN)
def test_a_producer_and_a_consumer_on_two_streams(name: str) -> None:
    between, races = BETWEEN[name]
    found = _findings(f"put<<<16, 64, 0, a>>>(x, n);\n{between}\nget<<<16, 64, 0, b>>>(x, out, n);\n")
    assert len(found) == races
    for finding in found:
        assert finding.kind is FindingKind.DATA_RACE
        assert (finding.line, finding.tensor, finding.index) == (10, "scratch #1", (0,))
        assert finding.other is not None
        assert (finding.other.line, finding.other.write) == (8, True)
        assert "put, launched at line 8, writes it and get, launched here, uses it" in finding.message


def test_atomics_of_two_streams_and_parts_of_their_own_do_not_race() -> None:
    assert _findings("add<<<16, 64, 0, a>>>(x, n); add<<<16, 64, 0, b>>>(x, n); put<<<16, 64>>>(out, n);") == ()
    assert _findings("put<<<8, 64, 0, a>>>(out, 500); put<<<8, 64, 0, b>>>(out + 500, 500);") == ()


def test_two_writers_race() -> None:
    (finding,) = _findings("put<<<8, 64, 0, a>>>(out, 500);\nput<<<8, 64, 0, b>>>(out + 499, 501);")
    assert (finding.line, finding.index) == (9, (499,))
