"""Tests of harness/devices/bench.py over the emulator: a whole session, and kernels that reach for what is not theirs.

The kernel doubles x. What a cheat does to the card's memory while it runs, `Spied.during` does in its place.
"""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from harness import cards
from harness.compile.nvrtc import nvrtc
from harness.devices.base import Argument, RunLimits
from harness.devices.bench import Bench, Compiled
from harness.devices.replay import Kernels
from harness.disguise import Disguise
from harness.dtypes import HEADERS, NUMPY_TYPES
from harness.measure.clocks import Watch
from harness.measure.judge_kernels import JudgeKernels, compile_judge_kernels
from harness.plan import FIRST_TENSOR_ID, Launch, LaunchPlan, address
from harness.results import Finding
from harness.verdict import FindingKind
from tests.emulated_driver import EmulatedDriver

pytestmark = pytest.mark.usefixtures("quick_compiler")

CARD = dataclasses.replace(cards.get("H200"), sms=1, l2_bytes=4096, shared_per_block_optin=4096)
ROWS, COLUMNS = 6, 32
SECONDS = 1e-3  # of the kernel
SOURCE = """
extern "C" __global__ void twice(const ELEMENT *x, ELEMENT *out, float factor)
{
    out[blockIdx.x * blockDim.x + threadIdx.x] = ELEMENT(factor * float(x[blockIdx.x * blockDim.x + threadIdx.x]));
}
"""
Cheat = Callable[["Spied"], None]


class Spied(EmulatedDriver):
    """Calls `during` in each launch of the submission's kernel. The host is never too slow."""

    overhead = 0.0  # seconds between two events with nothing in between
    last = (0, 0)  # addresses of the kernel's x and out

    def __post_init__(self) -> None:
        super().__post_init__()
        self.during: Cheat = lambda driver: None

    def happened(self, event: object) -> bool:
        return False

    def record(self, event: Any) -> None:
        super().record(event)
        self.clock += self.overhead

    def bus_id(self) -> str:
        return ""

    def version(self) -> str:
        return ""

    def launch(self, function, grid, block, shared_bytes, args, together=None):  # type: ignore[no-untyped-def]
        super().launch(function, grid, block, shared_bytes, args, together)
        if function.name == "twice":
            self.last = struct.unpack("<QQ", args[:16])
            self.during(self)


class Session:
    """A bench, and what its measurements need."""

    def __init__(self, factor: float = 2.0, seconds: float = SECONDS, overhead: float = 0.0, ctype: str = "float"):
        self.x = (np.arange(ROWS * COLUMNS, dtype=np.float32).reshape(ROWS, COLUMNS) + 1).astype(NUMPY_TYPES[ctype])
        self.arguments = [Argument("x", self.x, "in", ctype), Argument("out", np.empty_like(self.x), "out", ctype)]
        self.driver = Spied(durations={"twice": seconds, "hold": 0.0})
        self.driver.overhead = overhead
        self.judge = JudgeKernels(self.driver, CARD, compile_judge_kernels("sm_90a", "ptx"))
        text = _ptx(ctype)
        args = struct.pack("<QQf4x", address(FIRST_TENSOR_ID), address(FIRST_TENSOR_ID + 1), factor)
        plan = LaunchPlan((Launch("twice", (ROWS, 1, 1), (COLUMNS, 1, 1), 0, args, line=2),))
        kernels = Kernels({"twice": "twice"}, {"twice": "twice"}, {"twice": [(0, 8), (8, 8), (16, 4)]})
        module = self.driver.load(text.encode())
        compiled = Compiled(module, kernels, plan, "my.cu")
        self.bench = Bench(self.driver, CARD, self.judge, Watch("", object()), compiled, self.arguments, RunLimits(), 7)
        self.setting = self.bench.open(disguises(2))

    def compare(self) -> list[float]:
        """The worst errors of all outputs since the last time."""
        reference = 2 * self.x.astype(np.float64)
        rms = np.sqrt((reference**2).mean(-1))
        found = self.bench.compare({"out": reference}, {"out": rms}, {"out": (1e-3, 1e-3)})
        return [each.figures.worst_max for each in found]


def _ptx(ctype: str) -> str:
    compiler = nvrtc()
    options = ["--gpu-architecture=sm_90a", *(f"-I{folder}" for folder in compiler.toolkit.include)]
    include = f"#include <{HEADERS[ctype]}>\n" if ctype in HEADERS else ""
    return compiler.compile(include + SOURCE.replace("ELEMENT", ctype), "my.cu", {}, options).ptx


def disguises(count: int) -> list[Disguise]:
    """Rows in another order each time, with other signs."""
    made = []
    for seed in range(count):
        rng = np.random.default_rng(seed)
        order, signs = rng.permutation(ROWS).astype(np.int32), rng.choice([-1.0, 2.0], ROWS).astype(np.float32)
        made.append(Disguise({"x": {0: order}, "out": {0: order}}, {"x": {0: signs}, "out": {0: signs}}))
    return made


@pytest.fixture(autouse=True)
def _no_warm_up(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr("harness.devices.bench._WARM_UP_SECONDS", 0.0)
    yield


def findings_with(cheat: Cheat) -> tuple[Finding, ...]:
    """What a round finds in which each launch does so."""
    session = Session()
    assert not session.setting.findings
    session.driver.during = cheat
    return session.bench.sample(disguises(2)).findings


@pytest.mark.parametrize("ctype", ["float", "__half", "__nv_bfloat16"])
def test_a_session_times_every_plan_and_compares_every_output(ctype: str) -> None:
    session = Session(ctype=ctype)
    assert session.setting.findings == ()
    assert session.setting.seconds == pytest.approx(SECONDS)
    assert session.setting.plans_per_window == 1
    drawn = disguises(3)
    taken = session.bench.sample(drawn)
    assert taken.findings == ()
    assert [window.seconds for window in taken.windows] == pytest.approx([SECONDS] * 3)
    assert session.compare() == [0.0] * 3
    expected = drawn[1].applied("out", 2 * session.x)
    np.testing.assert_array_equal(session.bench.fetch(1)["out"], expected)
    np.testing.assert_array_equal(drawn[1].removed("out", expected), 2 * session.x)
    session.bench.sample(disguises(2))
    assert session.compare() == [0.0] * 2


def test_close_gives_all_memory_back() -> None:
    session = Session()
    session.bench.sample(disguises(1))
    session.compare()
    session.bench.close()
    session.judge.close()
    assert session.driver.regions == {}


@pytest.mark.parametrize("ctype", ["float", "__half", "__nv_bfloat16"])
def test_a_wrong_output_has_an_error_in_every_window(ctype: str) -> None:
    session = Session(factor=3.0, ctype=ctype)
    session.bench.sample(disguises(2))
    assert min(session.compare()) > 0.4


def test_halves_of_words_that_nobody_wrote_are_no_numbers() -> None:
    """The poison is NaN in both halves, so that a narrow output with gaps is never right."""
    session = Session(ctype="__nv_bfloat16")

    def with_gaps(driver: Spied) -> None:
        poison = session.bench._sets[0].memory.poison.to_bytes(4, "little")
        written = driver.bytes_at(driver.last[1], session.x.nbytes).view(np.uint16)
        written[1::2] = np.frombuffer(poison, np.uint16)[1]

    session.driver.during = with_gaps
    session.bench.sample(disguises(1))
    (worst,) = session.compare()
    assert np.isnan(worst) or np.isinf(worst)


def test_an_input_that_a_timed_launch_changes_is_found() -> None:
    (finding,) = findings_with(lambda driver: driver.memset(driver.last[0], 0, 4))
    assert (finding.kind, finding.tensor) == (FindingKind.READ_ONLY_WRITE, "x")


def test_a_write_behind_an_output_is_found() -> None:
    (finding,) = findings_with(lambda driver: driver.memset(driver.last[1] + ROWS * COLUMNS * 4, 0, 4))
    assert (finding.kind, finding.tensor) == (FindingKind.OUT_OF_BOUNDS, "out")


def base_of(session: Session) -> int:
    """Where the inputs lie as they were drawn."""
    raw = session.x.tobytes()
    return address(next(n for n, region in session.driver.regions.items() if region.data.tobytes() == raw))


def answers_in(driver: Spied, answer: bytes) -> list[int]:
    """Numbers of the allocations other than the kernel's own output that hold an answer."""
    own = driver.last[1] - 65536
    return [n for n, region in driver.regions.items() if answer in region.data.tobytes() and address(n) != own]


def test_a_write_into_the_inputs_as_drawn_is_found() -> None:
    session = Session()
    place = base_of(session)
    session.driver.during = lambda driver: driver.memset(place, 0, 4)
    (finding,) = session.bench.sample(disguises(1)).findings
    assert (finding.kind, finding.tensor) == (FindingKind.READ_ONLY_WRITE, "x")
    assert "own copy of x" in finding.message


def test_a_write_into_a_guard_and_its_pattern_alike_is_found() -> None:
    def both(driver: Spied) -> None:
        guard = driver.last[1] - 65536
        word = driver.download(guard, 16).tobytes()
        for n, region in driver.regions.items():
            if region.data[:16].tobytes() == word:
                driver.memset(address(n), 0, 16)

    assert {finding.kind for finding in findings_with(both)} <= {FindingKind.READ_ONLY_WRITE, FindingKind.OUT_OF_BOUNDS}
    assert findings_with(both)


def test_no_answer_of_an_earlier_plan_is_left_in_memory() -> None:
    session = Session()
    seen: list[int] = []
    drawn = disguises(3)
    answers = [disguise.applied("out", 2 * session.x).tobytes() for disguise in drawn]
    session.driver.during = lambda driver: seen.extend(
        n for answer in answers for n in answers_in(driver, answer[:64])
    )
    assert session.bench.sample(drawn).findings == ()
    assert seen == []
    assert session.compare() == [0.0] * 3
    assert answers_in(session.driver, answers[0][:64]) == []


def test_outputs_that_were_kept_cannot_be_exchanged() -> None:
    session = Session()
    session.bench.sample(disguises(1))
    (kept,) = session.bench._stash
    session.driver.during = lambda driver: driver.memset(kept[0], 0, 16)
    (finding,) = session.bench.sample(disguises(1)).findings
    assert finding.kind is FindingKind.READ_ONLY_WRITE


def test_local_memory_is_poisoned_where_kernels_use_it() -> None:
    session = Session()
    session.bench.sample(disguises(1))
    assert not [name for name, *_ in session.driver.launches if name.startswith("poison_local")]
    session.bench._local_bytes = 1025
    session.driver.launches.clear()
    session.bench.sample(disguises(1))
    names = [name for name, *_ in session.driver.launches]
    assert names.index("poison_local_8192") < names.index("twice")


def test_short_plans_share_a_window() -> None:
    session = Session(seconds=10e-6, overhead=2e-6)
    plans = session.setting.plans_per_window
    assert plans > 1
    assert session.setting.sets >= plans
    taken = session.bench.sample(disguises(2 * plans))
    assert [window.seconds for window in taken.windows] == pytest.approx([10e-6 + 2e-6 / plans] * 2)
    assert session.compare() == [0.0] * (2 * plans)
