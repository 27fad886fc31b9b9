"""The GPU device's logic, over a fake driver: relocation, guards, poison, and whom an error is charged to."""

from __future__ import annotations

import struct
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

from harness import cards
from harness.compile.cubin import IncompleteCubin, inspect, match
from harness.devices.base import Argument, Program, RunLimits, RunResult
from harness.devices.driver import DriverError
from harness.devices.gpu import GpuDevice, _nothing_ran, examine
from harness.devices.memory import GUARD_BYTES, CaseMemory
from harness.devices.names import readable
from harness.devices.pycuda_driver import driver_error
from harness.devices.replay import pointer_slots
from harness.errors import JudgeError
from harness.plan import FIRST_TENSOR_ID, Buffer, Copy, Launch, LaunchPlan, Memset, Step, Upload, address
from harness.planner import PlanFault
from harness.results import Finding
from harness.verdict import FindingKind, Verdict, verdict_of
from tests.fake_cubin import fake_cubin
from tests.fake_driver import FakeDriver, Kernel

N = 300
IN, OUT, SCRATCH = address(FIRST_TENSOR_ID), address(FIRST_TENSOR_ID + 1), address(FIRST_TENSOR_ID + 8)
PTX = """
.version 9.0
.target sm_90
.address_size 64

.visible .entry _Z5scalePKfPfii(
	.param .u64 .ptr .align 1 _Z5scalePKfPfii_param_0,
	.param .u64 .ptr .align 1 _Z5scalePKfPfii_param_1,
	.param .u32 _Z5scalePKfPfii_param_2,
	.param .u32 _Z5scalePKfPfii_param_3
)
{
	ret;
}
"""
KERNEL = "_Z5scalePKfPfii"


def arguments() -> list[Argument]:
    source = np.arange(N, dtype=np.float32).reshape(3, 100)
    return [
        Argument("x", source, "in", "float"),
        Argument("out", np.empty((3, 100), np.float32), "out", "float"),
        Argument("n", N, "scalar", "int"),
    ]


def launch(source: int = IN, target: int = OUT, n: int = N, factor: int = 2) -> Launch:
    return Launch(KERNEL, (3, 1, 1), (128, 1, 1), 0, struct.pack("<QQii", source, target, n, factor), line=7)


def scale(driver: FakeDriver, args: bytes) -> None:
    source, target, n, factor = struct.unpack("<QQii", args)
    values = driver.bytes_at(source, 4 * n).view(np.float32) * np.float32(factor)
    driver.bytes_at(target, 4 * n)[:] = values.view(np.uint8)


def failing(code: int, call: str = "cuCtxSynchronize") -> Kernel:
    def kernel(driver: FakeDriver, args: bytes) -> None:
        raise DriverError(code, call, "words")

    return kernel


def run(
    *steps: Step, kernel: Kernel = scale, driver: FakeDriver | None = None, seed: int = 1, **plan: object
) -> tuple[RunResult, FakeDriver, GpuDevice]:
    driver = driver or FakeDriver({KERNEL: kernel})
    launch_plan = LaunchPlan(steps, **plan)  # type: ignore[arg-type]
    device = GpuDevice(driver, cards.get("H200"), lambda *_: launch_plan)
    program = Program("my.cu", PTX, cubin=fake_cubin(KERNEL))
    return device.run(program, arguments(), RunLimits(), seed), driver, device


def only(result: RunResult) -> Finding:
    assert len(result.findings) == 1, result.findings
    return result.findings[0]


def test_a_good_kernel_leaves_its_output_and_nothing_else() -> None:
    result, driver, device = run(launch())
    assert np.array_equal(result.outputs["out"], 2 * arguments()[0].value)
    assert (result.findings, result.unwritten) == ((), {})
    assert not driver.blocks, "all device memory is given back"
    assert (device.name, device.arch, device.broken) == ("NVIDIA H200", "sm_90a", False)


def test_pointers_keep_their_offset_and_numbers_are_left_alone() -> None:
    looks_like_a_pointer = OUT >> 32  # the upper half of one: with its neighbour 0 it would be an address
    result, driver, _ = run(launch(IN + 40, OUT + 40, 10, 3), launch(n=0, factor=looks_like_a_pointer))
    assert np.array_equal(result.outputs["out"].reshape(-1)[10:20], 3 * np.arange(10, 20, dtype=np.float32))
    assert struct.unpack("<QQii", driver.launches[1][4])[2:] == (0, looks_like_a_pointer)


def test_a_cooperative_launch_says_where_its_parameters_lie() -> None:
    _, driver, _ = run(replace(launch(), cooperative=True))
    assert driver.cooperative
    assert driver.together == [(0, 8), (8, 8), (16, 4), (20, 4)]
    _, driver, _ = run(launch())
    assert (driver.cooperative, driver.together) == (False, None)


def test_only_aligned_words_inside_one_parameter_can_be_pointers() -> None:
    assert pointer_slots([(0, 8), (8, 4), (12, 4), (16, 24), (40, 1)], 48) == [0, 16, 24, 32]
    assert pointer_slots([(4, 12)], 16) == [8]
    assert pointer_slots(None, 20) == [0, 8]


def test_memset_copy_upload_and_scratch_are_replayed_in_order() -> None:
    result, _, _ = run(
        Upload(SCRATCH, np.float32(1.5).tobytes() * N),
        Memset(SCRATCH + 4, 0, 4),
        launch(SCRATCH, OUT),
        Copy(OUT + 8, OUT, 4),
        scratch=(Buffer(FIRST_TENSOR_ID + 8, "scratch #1", 4 * N, 3),),
    )
    assert result.outputs["out"].reshape(-1)[:4].tolist() == [3.0, 0.0, 3.0, 3.0]


def test_elements_that_no_kernel_wrote_are_counted_and_stay_nan() -> None:
    result, _, _ = run(launch(n=N - 5))
    assert result.unwritten == {"out": 5}
    assert np.isnan(result.outputs["out"].reshape(-1)[-5:]).all()


def test_a_written_nan_is_no_unwritten_element() -> None:
    def nan(driver: FakeDriver, args: bytes) -> None:
        driver.fill(struct.unpack("<QQii", args)[1], 0x7FFFFFFF, N)  # the card's canonical NaN

    result, _, _ = run(launch(), kernel=nan)
    assert result.unwritten == {}


def test_poison_differs_from_case_to_case() -> None:
    first, second = (run(seed=seed)[0].outputs["out"].view(np.uint32)[0, 0] for seed in (1, 2))
    assert first != second


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.float16, ml_dtypes.bfloat16])
def test_guards_and_poison_are_nan_in_every_type(kind: type[np.generic]) -> None:
    memory = CaseMemory(FakeDriver({}), seed=3)
    poison = np.array([memory.poison] * 2, np.uint32)
    for raw in (memory.guard_pattern, poison):
        values = raw.view(kind)
        assert np.isnan(values).all()
    assert len(np.unique(memory.guard_pattern.view(np.uint16))) == 28
    assert 0x7FFF not in np.abs(poison.view(np.int16))  # the canonical NaN, which arithmetic gives


def test_narrow_elements_that_no_kernel_wrote_are_counted() -> None:
    memory = CaseMemory(FakeDriver({}), seed=3)
    output = np.empty((5, 5), ml_dtypes.bfloat16)
    memory.add(FIRST_TENSOR_ID, "out", output.nbytes, None)
    place = memory.placed(FIRST_TENSOR_ID).address
    memory._driver.upload(place, np.ones((2, 5), ml_dtypes.bfloat16))
    memory._driver.upload(place + 22, np.ones(1, ml_dtypes.bfloat16))  # the upper half of a word
    result = examine(memory, [Argument("out", output, "out", "__nv_bfloat16")], "")
    assert result.unwritten == {"out": 14} and not result.findings
    assert result.outputs["out"].dtype == output.dtype and np.isnan(result.outputs["out"]).sum() == 14


@pytest.mark.parametrize("kind", [np.float16, ml_dtypes.bfloat16])
def test_where_nothing_ran_a_narrow_output_is_nan(kind: type[np.generic]) -> None:
    output = Argument("out", np.zeros((3, 4), kind), "out", "")
    result = _nothing_ran([output], (), "", 0.0)
    assert np.isnan(result.outputs["out"]).all() and result.unwritten == {"out": 12}


def test_scratch_starts_poisoned() -> None:
    result, _, _ = run(launch(SCRATCH, OUT), scratch=(Buffer(FIRST_TENSOR_ID + 8, "scratch #1", 4 * N, 3),))
    assert np.isnan(result.outputs["out"]).all()


@pytest.mark.parametrize(
    ("target", "n", "words"),
    [
        (OUT, N + 2, "out, which has 1200 bytes: 8 bytes changed at byte offsets 1200 to 1207"),
        (OUT - 8, N + 2, "8 bytes changed at byte offsets -8 to -1"),
    ],
)
def test_a_write_beside_a_buffer_is_out_of_bounds(target: int, n: int, words: str) -> None:
    def ones(driver: FakeDriver, args: bytes) -> None:
        driver.fill(struct.unpack("<QQii", args)[1], 0x3F800000, n)

    finding = only(run(launch(target=target), kernel=ones)[0])
    assert (finding.kind, finding.tensor) == (FindingKind.OUT_OF_BOUNDS, "out")
    assert words in finding.message


def test_guards_reach_64_kib_to_both_sides_of_every_buffer() -> None:
    def touch(driver: FakeDriver, args: bytes) -> None:
        source = struct.unpack("<QQii", args)[0]
        driver.bytes_at(source - GUARD_BYTES, 1)[:] ^= 1
        driver.bytes_at(source + 4 * N + GUARD_BYTES - 1, 1)[:] ^= 1

    findings = run(launch(), kernel=touch)[0].findings
    assert [f.tensor for f in findings] == ["x", "x"]


def test_a_changed_input_is_a_policy_violation_and_names_the_element() -> None:
    def spoil(driver: FakeDriver, args: bytes) -> None:
        scale(driver, args)
        driver.fill(struct.unpack("<QQii", args)[0] + 4 * 205, 0, 1)

    finding = only(run(launch(), kernel=spoil)[0])
    assert verdict_of(finding.kind) is Verdict.POLICY_VIOLATION
    assert (finding.tensor, finding.index) == ("x", (2, 5))


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (700, FindingKind.OUT_OF_BOUNDS),
        (716, FindingKind.MISALIGNED),
        (719, FindingKind.TRAP),
        (710, FindingKind.TRAP),
        (702, FindingKind.TIME_LIMIT),
    ],
)
def test_a_device_fault_is_the_kernels_and_loses_the_context(code: int, kind: FindingKind) -> None:
    result, _, device = run(launch(), kernel=failing(code))
    finding = only(result)
    assert (finding.kind, finding.file, finding.line, finding.kernel) == (kind, "my.cu", 7, "scale")
    assert f"CUDA error {code}" in finding.message
    assert device.broken
    assert np.isnan(result.outputs["out"]).all() and result.unwritten == {"out": N}
    with pytest.raises(JudgeError, match="new process"):
        device.run(Program("my.cu", PTX), arguments(), RunLimits(), 1)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (1, FindingKind.INVALID_LAUNCH),
        (9, FindingKind.INVALID_LAUNCH),
        (98, FindingKind.INVALID_LAUNCH),
        (701, FindingKind.INVALID_LAUNCH),
        (2, FindingKind.MEMORY_LIMIT),
        (209, FindingKind.UNSUPPORTED),
    ],
)
def test_a_refused_launch_leaves_the_context_alive(code: int, kind: FindingKind) -> None:
    result, driver, device = run(launch(), kernel=failing(code, "cuLaunchKernel"))
    assert only(result).kind is kind
    assert not device.broken and not driver.blocks


@pytest.mark.parametrize("code", [46, 100, 214, 999, -1, 1])
def test_what_a_submission_cannot_cause_is_our_own_failure(code: int) -> None:
    with pytest.raises(JudgeError, match="not the submission"):
        run(launch(), kernel=failing(code))


def test_a_kernel_that_never_ends_is_a_time_limit() -> None:
    driver = FakeDriver({KERNEL: scale})
    driver.hangs = True
    result, _, device = run(launch(), driver=driver)
    assert only(result).kind is FindingKind.TIME_LIMIT and device.broken


def test_scratch_beyond_the_card_is_a_memory_limit_but_a_tensor_is_not() -> None:
    driver = FakeDriver({KERNEL: scale})
    driver.room = 1 << 20
    scratch = (Buffer(FIRST_TENSOR_ID + 8, "scratch #1", 1 << 21, 3),)
    finding = only(run(driver=driver, scratch=scratch)[0])
    assert (finding.kind, finding.line) == (FindingKind.MEMORY_LIMIT, 3)
    driver.room = 100
    with pytest.raises(JudgeError, match="cannot place x"):
        run(driver=driver)


def test_huge_local_arrays_are_refused_before_the_launch() -> None:
    driver = FakeDriver({KERNEL: scale})
    driver.local_bytes_of_each = 1 << 16
    assert only(run(launch(), driver=driver)[0]).kind is FindingKind.MEMORY_LIMIT
    assert not driver.launches


def test_dynamic_shared_memory_is_allowed_as_the_plan_says() -> None:
    assert run(launch(), dynamic_shared_limit={KERNEL: 98304})[1].shared_limits == {KERNEL: 98304}
    refused = only(run(launch(), dynamic_shared_limit={KERNEL: 10**6})[0])
    assert refused.kind is FindingKind.INVALID_LAUNCH


def test_a_kernel_that_only_the_other_compiler_saw_is_unsupported() -> None:
    assert only(run(launch(), driver=FakeDriver({}))[0]).kind is FindingKind.UNSUPPORTED


def test_variables_are_found_in_the_module_which_is_fresh_for_each_case() -> None:
    driver = FakeDriver({KERNEL: scale}, {"table": 4 * N})
    table = (Buffer(16, "table", 4 * N), Buffer(17, "dropped_by_nvcc", 16))
    steps = (Upload(address(16), np.ones(N, np.float32).tobytes()), Upload(address(17), bytes(16)))
    for loads in (1, 2):
        result, _, _ = run(*steps, launch(address(16), OUT), driver=driver, variables=table)
        assert result.outputs["out"].tolist() == [[2.0] * 100] * 3
        assert driver.loads == loads and not driver.blocks


def test_a_plan_that_fails_comes_back_as_its_findings() -> None:
    def fail(*_: object) -> LaunchPlan:
        raise PlanFault([Finding(FindingKind.HOST_ERROR, "solve() read q.", line=4)])

    device = GpuDevice(FakeDriver({}), cards.get("T4"), fail)
    result = device.run(Program("my.cu", PTX), arguments(), RunLimits(), 1)
    assert only(result).kind is FindingKind.HOST_ERROR
    assert result.unwritten == {"out": N} and device.arch == "sm_75"


def test_error_numbers_come_back_from_the_drivers_words() -> None:
    codes = {"an illegal memory access was encountered": 700, "out of memory": 2}
    error = driver_error("cuCtxSynchronize failed: an illegal memory access was encountered", codes)
    assert (error.code, error.call) == (700, "cuCtxSynchronize")
    assert driver_error("cuModuleLoadDataEx failed: out of memory - the log", codes).code == 2
    assert driver_error("cuX failed: words of a newer driver", codes).code == -1
    assert driver_error("no such form", codes).code == -1


def test_a_cut_off_cubin_is_seen_at_every_length() -> None:
    cubin = fake_cubin(KERNEL)
    assert inspect(cubin).kernels == (KERNEL,)
    for length in range(len(cubin)):
        with pytest.raises(IncompleteCubin):
            inspect(cubin[:length])
    with pytest.raises(IncompleteCubin, match="not a cubin"):
        inspect(b"\x7fELF\x01\x01" + cubin[6:])


def test_kernels_are_matched_across_compilers() -> None:
    ours = "_ZN34_GLOBAL__N__00000000_5_my_cu_solve4tileILi3EEEvPf"
    theirs = "_ZN33_GLOBAL__N__9e609c31_4_a_cu_solve4tileILi3EEEvPf"
    assert match(ours, ("_Z1kv", theirs)) == theirs
    assert match(ours, (theirs.replace("Li3E", "Li4E"),)) is None
    assert match("_Z1kv", ("_Z1kv", theirs)) == "_Z1kv"
    assert readable(ours) == "tile" and readable("_Z1kPf") == "k" and readable("plain") == "plain"
