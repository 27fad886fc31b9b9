"""Registers and spills: what the assembler says, who asks it, and what is read in the end."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from harness import cards, resource_meter
from harness.compile.build import compile_submission
from harness.compile.resources import measure, parse
from harness.devices.base import Argument, Program, RunLimits
from harness.devices.cpu import EmulatorDevice
from harness.devices.names import readable, with_arguments
from harness.devices.shapes import MAX_SHAPES, launch_shapes
from harness.errors import SubmissionError
from harness.events import CountingResources, Event, Finished
from harness.plan import Launch, LaunchPlan, Memset
from harness.report import json as json_report
from harness.report import terminal
from harness.results import CaseResult, KernelResources, LaunchShape, Report
from harness.sandbox.death import Cause, ChildDied
from harness.sandbox.frames import Frame, FrameError
from harness.sandbox.resource_codec import read_launches, read_resources, resources_frame
from harness.sandbox.supervisor import Source, Toolchain
from harness.verdict import Verdict

Judge = Callable[..., Report]
LAUNCH = "@run launch\n"
WAIT = {"resource_seconds": 60.0}

SM_90 = """\
ptxas info    : 216 bytes gmem
ptxas info    : Compiling entry function '_Z4tileILi128EEvPfi' for 'sm_90a'
ptxas info    : Function properties for _Z4tileILi128EEvPfi
ptxas         .     656 bytes stack frame, 1148 bytes spill stores, 1140 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers, 672 bytes cumulative stack size, 32768 bytes smem
ptxas info    : Compile time = 3355.365 ms
ptxas info    : Function properties for _Z5heavyfi
ptxas         .     8 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads
ptxas info    : Compiling entry function 'plain' for 'sm_90a'
ptxas info    : Function properties for plain
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 10 registers, used 0 barriers
"""
SM_75 = """\
ptxas info    : 253 bytes gmem, 64 bytes cmem[3], 968 bytes cmem[4]
ptxas info    : Compiling entry function 'k' for 'sm_75'
ptxas info    : Function properties for k
ptxas         .     8 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 64 registers, used 1 barriers, 8 bytes cumulative stack size, 256 bytes smem, 364 bytes cmem[0], 4 bytes cmem[2]
"""
TILE = KernelResources("_Z4tileILi128EEvPfi", "tile<128>", 255, 672, 1148, 1140, 32768, 0, 1)


def test_the_assemblers_words_are_read() -> None:
    assert parse(SM_90) == (TILE, KernelResources("plain", "plain", 10))
    assert parse(SM_75) == (KernelResources("k", "k", 64, 8, 0, 0, 256, 368, 1),)


def test_what_a_source_says_is_not_taken_for_the_assemblers_words() -> None:
    said = 'my.cu(3): note: #pragma message: ptxas info    : Used 1 registers\n  ptxas info    : Used 2 registers\n'
    assert parse(said) == parse("") == ()
    assert parse(SM_90 + said) == parse(SM_90)


SOURCE = """
#include <cstdio>
namespace {
__device__ __noinline__ float heavy(float x, int n) {
  float a[40];
  for (int i = 0; i < 40; ++i) a[i] = x * i;
  for (int k = 0; k < n; ++k)
#pragma unroll
    for (int i = 0; i < 40; ++i) a[i] = a[i] * a[(i + 7) % 40] + x;
  float sum = 0;
  for (int i = 0; i < 40; ++i) sum += a[i];
  return sum;
}
template <int D>
__global__ void light(float* out) {
  __shared__ float tile[D];
  tile[threadIdx.x] = out[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = tile[D - 1 - threadIdx.x];
}
__global__ void calls(float* out, int n) { *out = heavy(*out, n); }
__global__ void __launch_bounds__(1024, 2) squeezed(float* out, int n) { *out = heavy(*out, n) * n; }
}  // namespace
extern "C" void solve(float* out, int n) {
  light<128><<<1, 128>>>(out);
  light<64><<<1, 64>>>(out);
  calls<<<1, 1>>>(out, n);
  squeezed<<<1, 1>>>(out, n);
}
"""
DECLARATION = 'extern "C" void solve(float* out, int n);'


@pytest.mark.parametrize(("card", "at_most"), [("T4", 64), ("H100", 32)])
def test_real_kernels(card: str, at_most: int) -> None:
    kernels = {kernel.readable: kernel for kernel in measure(SOURCE, "my.cu", DECLARATION, cards.get(card))}
    assert set(kernels) == {"light<128>", "light<64>", "calls", "squeezed"}  # and not solve()
    assert [kernels[f"light<{d}>"].static_shared_bytes for d in (64, 128)] == [256, 512]  # of a template
    light, calls, squeezed = kernels["light<128>"], kernels["calls"], kernels["squeezed"]
    assert light.registers < 24 and light.barriers == 1
    assert calls.registers >= 40 and calls.spill_store_bytes == 0  # those of the function that it calls are counted
    assert squeezed.registers <= at_most  # a T4 holds one such block, whatever is asked for


def test_a_source_that_is_refused_at_full_optimisation_raises() -> None:
    with pytest.raises(SubmissionError, match="undefined"):
        measure(SOURCE.replace("heavy(*out", "absent(*out"), "my.cu", DECLARATION, cards.get("H100"))


@pytest.mark.parametrize(
    ("mangled", "name"),
    [
        ("_Z13flash_forwardILi128EEvPKfS1_S1_Pfifb", "flash_forward<128>"),
        ("_ZN36_GLOBAL__N__00000000_4_x_cu_d74b58961kIfLi64EEEvPT_i", "k<float, 64>"),
        ("_Z1kI6__halfLb1ELin3EEvPT_", "k<__half, true, -3>"),
        ("_ZN2ab1kINS_1SEEEvv", "ab::k"),
        ("_Z1kIPfEvv", "k"),
        ("_Z1kILi", "k"),
        ("_Z1kI99999999999999999999x", "k"),
        ("_Z5mergePKf", "merge"),
        ("plain", "plain"),
    ],
)
def test_names_with_their_template_arguments(mangled: str, name: str) -> None:
    assert with_arguments(mangled) == name


@pytest.mark.parametrize("name", ["_Z99999999999999999999x", "_ZN99999999999999999999x", "_Z", "_ZN"])
def test_names_that_only_look_mangled_stay_as_they_are(name: str) -> None:
    assert readable(name) == with_arguments(name) == name


def test_launches_of_one_shape_are_counted_together() -> None:
    one, two = (Launch("k", (n, 1, 1), (32, 1, 1), 0, b"") for n in (1, 2))
    plan = LaunchPlan((one, two, Memset(0, 0, 4), one))
    assert launch_shapes(plan) == (
        LaunchShape("k", (1, 1, 1), (32, 1, 1), 0, 2),
        LaunchShape("k", (2, 1, 1), (32, 1, 1), 0, 1),
    )
    many = LaunchPlan(tuple(Launch("k", (n, 1, 1), (32, 1, 1), 0, b"") for n in range(1, MAX_SHAPES + 10)))
    assert len(launch_shapes(many)) == MAX_SHAPES


def test_shapes_of_all_cases_meet_their_kernel_on_the_card() -> None:
    small, large = LaunchShape("k", (2, 1, 1), (128, 1, 1)), LaunchShape("k", (17, 32, 1), (128, 1, 1))
    cases = [CaseResult(name, Verdict.ACCEPTED, launches=(small, large)) for name in "ab"]
    shapes = resource_meter.launched(cases)
    assert [(shape.grid, shape.count) for shape in shapes] == [((2, 1, 1), 2), ((17, 32, 1), 2)]
    kernels = [KernelResources("k", "k", 40, static_shared_bytes=16500, barriers=1), KernelResources("idle", "idle", 9)]
    (use,) = resource_meter.uses(kernels, shapes, cards.get("H100"))
    assert [launch.blocks for launch in use.launches] == [544, 2]
    assert (use.launches[0].occupancy.blocks, use.launches[0].occupancy.limits) == (12, ("registers",))
    assert use.launches[0].waves == pytest.approx(544 / (132 * 12))


def test_a_kernel_of_an_anonymous_namespace_is_found_under_its_other_name() -> None:
    launched = LaunchShape("_ZN12_GLOBAL__N_14tileEPf", (1, 1, 1), (32, 1, 1))
    measured = KernelResources("_ZN36_GLOBAL__N__00000000_4_x_cu_d74b58964tileEPf", "tile", 20)
    assert len(resource_meter.uses([measured], [launched], cards.get("H100"))) == 1


@pytest.mark.usefixtures("nothing_left")
def test_measuring_comes_after_the_verdict_and_only_for_what_was_launched(
    events_of: Callable[..., list[Event]], report_of: Judge
) -> None:
    events = events_of(LAUNCH, **WAIT)
    assert [type(event) for event in events[-2:]] == [CountingResources, Finished]
    report = events[-1].report  # type: ignore[union-attr]
    assert [use.kernel.readable for use in report.resources] == ["double"]
    assert (report.compile.registers, report.compile.spills, report.compile.shared_bytes) == (40, 56, 2048)
    assert [launch.shape.grid for launch in report.resources[0].launches] == [(5, 4, 1), (2, 4, 1), (1, 4, 1)]
    assert not any(isinstance(event, CountingResources) for event in events_of("// launches nothing", **WAIT))
    assert not any(isinstance(event, CountingResources) for event in events_of(LAUNCH, resource_seconds=0.0))


@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize(
    ("order", "words"),
    [
        ("refuse", "refused at full optimisation"),
        ("crash", "SIGSEGV"),
        ("raise", "ZeroDivisionError"),
        ("garbage", "failed"),
        ("hang_up", "failed"),
    ],
)
def test_what_goes_wrong_while_measuring_is_a_note_and_no_verdict(report_of: Judge, order: str, words: str) -> None:
    report = report_of(f"{LAUNCH}@measure {order}", **WAIT)
    assert (report.verdict, report.resources, report.compile.registers) == (Verdict.ACCEPTED, (), None)
    assert report.resources_note.startswith("not measured, the optimised compile failed") and words in report.resources_note


@pytest.mark.usefixtures("nothing_left")
def test_a_compilation_without_end_is_given_up_once(
    report_of: Judge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    calls: list[float] = []
    measured = resource_meter.measure_source

    def watched(source: Source, toolchain: Toolchain, seconds: float) -> tuple[KernelResources, ...]:
        calls.append(seconds)
        return measured(source, toolchain, seconds)

    monkeypatch.setattr(resource_meter, "measure_source", watched)
    notes = [
        report_of(f"{LAUNCH}@measure sleep", cache=True, resource_seconds=seconds).resources_note
        for seconds in (0.5, 0.5, 0.25, 1.0)
    ]
    assert notes[0] == notes[1] == notes[2] == (
        "not measured, the optimised compile takes longer than 0.5 s (use --resources to wait)"
    )
    assert "longer than 1 s" in notes[3]
    assert calls == [0.5, 1.0]  # the second and third knew; who waits longer tries again


@pytest.mark.usefixtures("nothing_left")
def test_what_was_measured_is_remembered(
    report_of: Judge, events_of: Callable[..., list[Event]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    first = report_of(LAUNCH, cache=True, **WAIT)
    monkeypatch.setattr(resource_meter, "measure_source", lambda *_: pytest.fail("measured again"))
    again = events_of(LAUNCH, cache=True, resource_seconds=0.5)
    assert again[-1].report.resources == first.resources != ()  # type: ignore[union-attr]
    assert not any(isinstance(event, CountingResources) for event in again)


@pytest.mark.parametrize("entry", [None, b"", b"[]", b"{}", b'{"kernels": 1}', b'{"kernels": [{}], "reason": ""}'])
def test_a_foreign_cache_entry_is_a_miss(entry: bytes | None) -> None:
    assert resource_meter._unpack(entry) is None


def test_frames_carry_resources_and_refuse_rubbish() -> None:
    assert read_resources(resources_frame([TILE])) == (TILE,)
    fields = resources_frame([TILE]).fields["kernels"][0]
    for wrong in (None, 1, [1], [fields | {"registers": -1}], [fields | {"name": 3}], [fields | {"registers": True}]):
        with pytest.raises(FrameError):
            read_resources(Frame("resources", {"kernels": wrong}))
    shape = {"kernel": "k", "grid": [1, 2, 3], "block": [32, 1, 1], "shared_bytes": 0, "count": 1}
    assert read_launches([shape]) == (LaunchShape("k", (1, 2, 3), (32, 1, 1)),)
    for field, value in (("grid", [1, 1]), ("grid", [0, 1, 1]), ("block", "xyz"), ("count", 1.5), ("kernel", "k" * 10**6)):
        with pytest.raises(FrameError):
            read_launches([shape | {field: value}])


def _printed(report: Report, width: int = 400) -> str:
    out = io.StringIO()
    terminal.print_report(Console(file=out, width=width), report, "", "python judge.py ...")
    return out.getvalue()


def _with(report: Report, *kernels: KernelResources, block: int = 128, grid: tuple[int, int, int] = (17, 32, 1)) -> str:
    shapes = [LaunchShape(kernel.name, grid, (block, 1, 1), 100) for kernel in kernels]
    return _printed(replace(report, resources=resource_meter.uses(kernels, shapes, cards.get("H100"))))


def test_the_terminal_has_one_line_a_kernel(report_of: Judge) -> None:
    report = report_of("// fine")
    text = _with(report, KernelResources("attend", "attend<128>", 40, static_shared_bytes=16384, barriers=1))
    assert (
        "attend<128>: 40 registers, no spills, 16.1 KiB shared; 12 blocks (48 warps, 75 %) per SM, limited by registers; "
        "grid 17x32 = 544 blocks = 0.34 waves on H100" in text
    )
    assert "255 registers, spills 1148 bytes out and 1140 in, 32.1 KiB shared; 2 blocks" in _with(report, TILE)
    too_many = _with(report, KernelResources("k", "k", 80), block=1024)
    assert "cannot be launched on H100: a block of 1024 threads needs more registers than there are" in too_many
    assert "registers" not in _printed(report)


def test_the_terminal_says_why_there_is_nothing(report_of: Judge) -> None:
    text = _printed(report_of(f"{LAUNCH}@measure sleep", resource_seconds=0.5))
    assert "registers: not measured, the optimised compile takes longer than 0.5 s (use --resources to wait)" in text


@pytest.mark.parametrize("width", [20, 60, 100])
def test_no_line_is_wider_than_the_terminal(report_of: Judge, width: int) -> None:
    report = report_of(LAUNCH, **WAIT)
    lines = [line for line in _printed(report, width).splitlines() if not line.startswith("repeat: ")]
    assert max(map(len, lines)) <= width


def test_json_has_each_kernel_with_its_launches(report_of: Judge) -> None:
    written = json.loads(json_report.render(report_of(LAUNCH, **WAIT)))
    (kernel,) = written["resources"]
    assert (kernel["kernel"], kernel["mangled"], kernel["card"]) == ("double", "_Z6doublePf", "H100")
    assert (kernel["registers"], kernel["spill_load_bytes"], kernel["static_shared_bytes"]) == (40, 32, 2048)
    launch = kernel["launches"][0]
    assert (launch["grid"], launch["block"], launch["dynamic_shared_bytes"]) == ([5, 4, 1], [128, 1, 1], 1024)
    assert (launch["blocks"], launch["blocks_per_sm"], launch["occupancy"]) == (20, 12, 0.75)
    assert written["compile"]["registers"] == 40 and written["resources_note"] == ""


def test_the_emulator_says_what_was_launched() -> None:
    source = """template <int N> __global__ void k(float* out) { out[blockIdx.x * N + threadIdx.x] = 1.f; }
extern "C" void solve(float* out, int n) { for (int i = 0; i < 3; ++i) k<4><<<n / 4, 4, 64>>>(out); }"""
    ptx = compile_submission(source, "my.cu", DECLARATION, cards.get("H100")).ptx
    arguments = [Argument("out", np.zeros(8, np.float32), "out", "float"), Argument("n", 8, "scalar", "int")]
    result = EmulatorDevice().run(Program("my.cu", ptx), arguments, RunLimits(threads=1), 0)
    assert result.launches == (LaunchShape("_Z1kILi4EEvPf", (2, 1, 1), (4, 1, 1), 64, 3),)


def test_who_asks_to_wait_is_not_put_off_with_an_earlier_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(resource_meter, "measure_source", lambda *_: _too_long())
    source = Source("text", "my.cu", DECLARATION, "H100")
    patient = resource_meter.Meter(source, Toolchain(), 120.0, cache=True)
    assert patient.measure().note() == "not measured, the optimised compile takes longer than 120 s"
    assert patient.known() is None
    assert resource_meter.Meter(source, Toolchain(), 5.0, cache=True).known() == resource_meter.Resources(waited=120.0)


def _too_long() -> tuple[KernelResources, ...]:
    raise ChildDied(Cause.DEADLINE, "no answer")
