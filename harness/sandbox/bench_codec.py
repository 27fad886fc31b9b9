"""Frames of a benchmark's session in the run child (harness/devices/bench.py), in both directions.

    bench    a case, warm-up disguises, the judge's own kernels   -> benched    the setting
    sample   disguises, one a plan                                -> sampled    windows, findings
    compare  float64 references                                   -> compared   figures of every output since the last
    fetch    the number of a plan                                 -> fetched    its outputs
    close                                                         -> closed
    ceilings                                                      -> ceilings
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from harness.devices.base import Argument, RunLimits
from harness.devices.bench import Compared, Round, Setting, Window
from harness.disguise import Disguise
from harness.measure.clocks import Clocks
from harness.measure.judge_kernels import Figures
from harness.measure.records import Ceilings
from harness.sandbox import codec, records
from harness.sandbox.frames import Frame, FrameError

_PARTS = ("gather", "scale")
_FIGURES = [field.name for field in dataclasses.fields(Figures)]
_COUNTS = ("worst_row", "nonfinite", "poisoned")
_MAX_WINDOWS = 1 << 16


def bench_request(arguments: Sequence[Argument], limits: RunLimits, seed: int, warm_ups: Sequence[Disguise],
                  tools: bytes) -> Frame:  # fmt: skip
    """A benchmark case; `tools`: the cubin of the judge's own kernels."""
    case = codec.run_request(arguments, limits, seed)
    arrays = {f"case/{name}": array for name, array in case.arrays.items()}
    arrays |= _disguise_arrays(warm_ups) | {"tools": np.frombuffer(tools, np.uint8)}
    return Frame("bench", case.fields | {"disguises": len(warm_ups)}, arrays)


def read_bench(frame: Frame) -> tuple[list[Argument], RunLimits, int, list[Disguise], bytes]:
    """The child's side of `bench_request`."""
    arrays = {name.removeprefix("case/"): a for name, a in frame.arrays.items() if name.startswith("case/")}
    arguments, limits, seed = codec.read_run(Frame("run", frame.fields, arrays))
    return arguments, limits, seed, read_disguises(frame), frame.arrays["tools"].tobytes()


def sample_request(disguises: Sequence[Disguise]) -> Frame:
    """As many plans as there are disguises."""
    return Frame("sample", {"disguises": len(disguises)}, _disguise_arrays(disguises))


def _disguise_arrays(disguises: Sequence[Disguise]) -> dict[str, np.ndarray]:
    arrays: dict[str, np.ndarray] = {}
    for number, disguise in enumerate(disguises):
        for part in _PARTS:
            for tensor, by_axis in getattr(disguise, part).items():
                arrays |= {f"{number}/{part}/{tensor}/{axis}": vector for axis, vector in by_axis.items()}
        arrays |= {f"{number}/replace/{tensor}/": array for tensor, array in disguise.replace.items()}
    return arrays


def read_disguises(frame: Frame) -> list[Disguise]:
    """The child's side of `sample_request`."""
    found = [Disguise({}, {}, {}) for _ in range(frame.fields["disguises"])]
    for name, array in frame.arrays.items():
        number, _, rest = name.partition("/")
        if not number.isdigit():
            continue
        part, tensor, axis = rest.split("/")
        target: Any = getattr(found[int(number)], part)
        if part == "replace":
            target[tensor] = array
        else:
            target.setdefault(tensor, {})[int(axis)] = array
    return found


def benched_frame(setting: Setting) -> Frame:
    """What the child settled on."""
    fields = {f.name: getattr(setting, f.name) for f in dataclasses.fields(setting) if f.name != "findings"}
    return Frame("benched", {"setting": fields, "findings": _findings(setting.findings)})


def read_benched(frame: Frame) -> Setting:
    """The supervisor's side. Raises FrameError for anything else."""
    raw = frame.fields.get("setting")
    kinds = {f.name: type(f.default) for f in dataclasses.fields(Setting) if f.name != "findings"}
    if not isinstance(raw, dict) or set(raw) != set(kinds):
        raise FrameError("'setting' does not have the fields that are due")
    values = {name: records.read(kind, raw[name], name) for name, kind in kinds.items()}
    return Setting(**values, findings=codec.read_findings(frame.fields.get("findings")))


def sampled_frame(found: Round) -> Frame:
    """One round's windows."""
    windows = [dataclasses.asdict(window) for window in found.windows]
    return Frame("sampled", {"windows": windows, "findings": _findings(found.findings)})


def read_sampled(frame: Frame) -> Round:
    """The supervisor's side. Raises FrameError for anything else."""
    windows = frame.fields.get("windows")
    if not isinstance(windows, list) or len(windows) > _MAX_WINDOWS:
        raise FrameError("the answer has no list of windows")
    found = tuple(_window(raw) for raw in windows)
    return Round(found, codec.read_findings(frame.fields.get("findings")))


def _window(raw: Any) -> Window:
    if not isinstance(raw, dict) or set(raw) != {"seconds", "clocks"}:
        raise FrameError("a window is malformed")
    return Window(records.read(float, raw["seconds"], "seconds"), records.read(Clocks, raw["clocks"], "clocks"))


def _findings(findings: Sequence[Any]) -> list[dict[str, Any]]:
    return [dataclasses.asdict(finding) for finding in findings]


def compare_request(
    references: Mapping[str, np.ndarray],
    rms: Mapping[str, np.ndarray],
    limits: Mapping[str, tuple[float, float]],
) -> Frame:
    """As Bench.compare takes them."""
    arrays = {f"expected/{name}": array for name, array in references.items()}
    arrays |= {f"rms/{name}": array for name, array in rms.items()}
    return Frame("compare", {"limits": {name: list(pair) for name, pair in limits.items()}}, arrays)


def read_compare(
    frame: Frame,
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray], dict[str, tuple[float, float]]]:
    """The child's side of `compare_request`."""
    references, rms = (
        {name.removeprefix(part): array for name, array in frame.arrays.items() if name.startswith(part)}
        for part in ("expected/", "rms/")
    )
    return references, rms, {name: (pair[0], pair[1]) for name, pair in frame.fields["limits"].items()}


def compared_frame(found: Sequence[Compared]) -> Frame:
    """Figures as a table, since they may be infinite."""
    table = np.array([[getattr(each.figures, name) for name in _FIGURES] for each in found], np.float64)
    fields = {"plans": [each.plan for each in found], "tensors": [each.tensor for each in found]}
    return Frame("compared", fields, {"figures": table.reshape(len(found), len(_FIGURES))})


def read_compared(frame: Frame) -> list[Compared]:
    """The supervisor's side. Raises FrameError for anything else."""
    plans = records.read(tuple[int, ...], frame.fields.get("plans"), "plans")
    tensors = records.read(tuple[str, ...], frame.fields.get("tensors"), "tensors")
    table = frame.arrays.get("figures")
    if table is None or table.shape != (len(plans), len(_FIGURES)) or len(tensors) != len(plans):
        raise FrameError("the table of figures does not have the shape that is due")
    return [Compared(p, t, _figures(row)) for p, t, row in zip(plans, tensors, table.tolist(), strict=True)]


def _figures(row: Sequence[float]) -> Figures:
    values: dict[str, Any] = dict(zip(_FIGURES, row, strict=True))
    if not all(math.isfinite(values[name]) for name in _COUNTS):
        raise FrameError("a count of the figures is no number")
    return Figures(**values | {name: int(values[name]) for name in _COUNTS})


def ceilings_frame(found: Ceilings) -> Frame:
    """Measured ceilings."""
    return Frame("ceilings", {"ceilings": dataclasses.asdict(found)})


def read_ceilings(frame: Frame) -> Ceilings:
    """The supervisor's side. Raises FrameError for anything else."""
    found: Ceilings = records.read(Ceilings, frame.fields.get("ceilings"), "ceilings")
    return found
