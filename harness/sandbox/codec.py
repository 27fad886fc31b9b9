"""Requests and answers as frames. What a child sends back is checked field by field: it may be hostile."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from harness import traces
from harness.devices.base import Argument, Program, RunLimits, RunResult
from harness.errors import JudgeError, JudgeException, SubmissionError, UsageError
from harness.results import Access, Finding
from harness.sandbox import records
from harness.sandbox.frames import DTYPES, Frame, FrameError
from harness.sandbox.resource_codec import read_launches
from harness.traces import CaseTrace
from harness.traffic import CaseTraffic
from harness.verdict import FindingKind, Verdict

_MAX_TEXT = 256 * 1024  # characters of one message, log or capture
_MAX_FINDINGS = 1000
_MAX_OBJECTS = 256  # one for each kernel and shape of launch
_OBJECT_NAME = re.compile(r"[0-9a-f]{64}")


def load_request(program: Program) -> Frame:
    """The compiled submission; has no answer."""
    arrays = {"ptx": _bytes(program.ptx.encode()), "cubin": _bytes(program.cubin)}
    return Frame("load", {"source_name": program.source_name, "card": program.card}, arrays)


def read_program(frame: Frame) -> Program:
    """The child's side of `load_request`."""
    ptx, cubin = frame.arrays["ptx"].tobytes().decode(), frame.arrays["cubin"].tobytes()
    return Program(frame.fields["source_name"], ptx, frame.fields["card"], cubin)


def run_request(arguments: Sequence[Argument], limits: RunLimits, seed: int) -> Frame:
    """One case: values of inputs, shapes and dtypes of outputs."""
    described = [_describe(argument) for argument in arguments]
    arrays = {a.name: a.value for a in arguments if isinstance(a.value, np.ndarray) and a.role != "out"}
    return Frame("run", {"arguments": described, "limits": dataclasses.asdict(limits), "seed": seed}, arrays)


def _describe(argument: Argument) -> dict[str, Any]:
    described: dict[str, Any] = {"name": argument.name, "role": argument.role, "ctype": argument.ctype}
    if isinstance(argument.value, np.ndarray):
        return described | {"dtype": str(argument.value.dtype), "shape": list(argument.value.shape)}
    is_float = isinstance(argument.value, (float, np.floating))
    return described | {"value": float(argument.value) if is_float else int(argument.value)}


def read_run(frame: Frame) -> tuple[list[Argument], RunLimits, int]:
    """The child's side of `run_request`."""
    arguments = [_argument(described, frame.arrays) for described in frame.fields["arguments"]]
    return arguments, RunLimits(**frame.fields["limits"]), frame.fields["seed"]


def _argument(described: dict[str, Any], arrays: Mapping[str, np.ndarray]) -> Argument:
    name = described["name"]
    if "value" in described:
        value = described["value"]
    else:
        value = arrays[name] if name in arrays else np.empty(described["shape"], DTYPES[described["dtype"]])
    return Argument(name, value, described["role"], described["ctype"])


def result_frame(result: RunResult) -> Frame:
    """What one case's run left behind."""
    fields = {
        "findings": [dataclasses.asdict(finding) for finding in result.findings[:_MAX_FINDINGS]],
        "stdout": result.stdout[:_MAX_TEXT],
        "seconds": result.seconds,
        "unwritten": {name: int(count) for name, count in result.unwritten.items()},
        "launches": [dataclasses.asdict(shape) for shape in result.launches],
        "traffic": None if result.traffic is None else dataclasses.asdict(result.traffic),
        "trace": None if result.trace is None else dataclasses.asdict(result.trace),
    }
    return Frame("result", fields, result.outputs)


def output_bytes(arguments: Sequence[Argument]) -> int:
    """An upper bound of the payload of a case's answer, padding included."""
    return sum(array.nbytes + 64 for array in _outputs(arguments).values())


def _outputs(arguments: Sequence[Argument]) -> dict[str, np.ndarray]:
    return {a.name: a.value for a in arguments if isinstance(a.value, np.ndarray) and a.role in ("out", "inout")}


def read_result(frame: Frame, arguments: Sequence[Argument]) -> RunResult:
    """The supervisor's side of `result_frame`. Raises FrameError unless every output is there as declared."""
    due = _outputs(arguments)
    if set(frame.arrays) != set(due):
        raise FrameError(f"the answer holds the tensors {sorted(frame.arrays)}, due are {sorted(due)}")
    for name, array in frame.arrays.items():
        if array.dtype != due[name].dtype or array.shape != due[name].shape:
            raise FrameError(f"output '{name}' came back as {array.dtype}{list(array.shape)}")
    unwritten = _take(frame.fields, "unwritten", dict)
    if not all(type(count) is int and count >= 0 for count in unwritten.values()):
        raise FrameError("the answer's count of unwritten elements is no count")
    return RunResult(
        outputs=frame.arrays,
        findings=read_findings(frame.fields.get("findings")),
        stdout=_take(frame.fields, "stdout", str),
        seconds=float(_take(frame.fields, "seconds", (int, float))),
        unwritten={name: unwritten[name] for name in due if name in unwritten},
        launches=read_launches(frame.fields.get("launches")),
        traffic=records.read(CaseTraffic | None, frame.fields.get("traffic"), "traffic"),
        trace=_trace(frame.fields.get("trace")),
    )


def _trace(raw: Any) -> CaseTrace | None:
    trace: CaseTrace | None = records.read(CaseTrace | None, raw, "trace")
    if trace is not None and (complaint := traces.complaint(trace)):
        raise FrameError(f"malformed trace: {complaint}")
    return trace


def refusal_frame(error: SubmissionError) -> Frame:
    """A SubmissionError on its way to the supervisor."""
    findings = [dataclasses.asdict(finding) for finding in error.findings[:_MAX_FINDINGS]]
    fields = {"verdict": error.verdict, "message": str(error)[:_MAX_TEXT], "log": error.log[:_MAX_TEXT]}
    return Frame("refused", fields | {"findings": findings})


def read_refusal(frame: Frame) -> SubmissionError:
    """The supervisor's side of `refusal_frame`."""
    try:
        verdict = Verdict(_take(frame.fields, "verdict", str))
    except ValueError:
        raise FrameError(f"unknown verdict {frame.fields['verdict']!r}") from None
    message, log = _take(frame.fields, "message", str), _take(frame.fields, "log", str)
    return SubmissionError(verdict, message, read_findings(frame.fields.get("findings")), log)


def failure_frame(error: JudgeException) -> Frame:
    """A UsageError or JudgeError on its way to the supervisor."""
    return Frame("failed", {"usage": isinstance(error, UsageError), "message": str(error)[:_MAX_TEXT]})


def check(frame: Frame, kind: str) -> Frame:
    """The frame, if it is of this kind. Raises what the child reported instead: SubmissionError, UsageError or
    JudgeError; FrameError for any other frame."""
    if frame.kind == "refused":
        raise read_refusal(frame)
    if frame.kind == "failed":
        error = UsageError if frame.fields.get("usage") is True else JudgeError
        raise error(_take(frame.fields, "message", str))
    if frame.kind != kind:
        raise FrameError(f"a frame '{kind}' is due, '{frame.kind[:40]}' came")
    return frame


def read_findings(raw: Any) -> tuple[Finding, ...]:
    """Findings from their JSON. Raises FrameError for anything but a list of well-formed findings."""
    if not isinstance(raw, list) or len(raw) > _MAX_FINDINGS:
        raise FrameError("the answer has no list of findings")
    try:
        return tuple(_finding(item) for item in raw)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise FrameError(f"malformed finding: {error}") from None


def _finding(raw: dict[str, Any]) -> Finding:
    return Finding(
        kind=FindingKind(raw["kind"]),
        message=_take(raw, "message", str),
        file=_take(raw, "file", str),
        line=_take(raw, "line", int),
        tensor=_take(raw, "tensor", str),
        index=tuple(int(i) for i in raw["index"]),
        block=_triple(raw["block"]),
        thread=_triple(raw["thread"]),
        other=None if raw["other"] is None else _access(raw["other"]),
        kernel=_take(raw, "kernel", str),
        call_stack=tuple(str(place) for place in raw["call_stack"]),
    )


def _access(raw: dict[str, Any]) -> Access:
    return Access(
        line=_take(raw, "line", int),
        block=_triple(raw["block"]),
        thread=_triple(raw["thread"]),
        write=bool(raw["write"]),
        file=_take(raw, "file", str),
        missing=bool(raw.get("missing", False)),
    )


def _triple(raw: Any) -> tuple[int, int, int] | None:
    if raw is None:
        return None
    x, y, z = (int(v) for v in raw)
    return x, y, z


def _take(fields: Mapping[str, Any], name: str, kind: type | tuple[type, ...]) -> Any:
    value = fields.get(name)
    if not isinstance(value, kind):
        raise FrameError(f"'{name}' is missing or of the wrong type")
    if isinstance(value, str) and len(value) > _MAX_TEXT:
        raise FrameError(f"'{name}' has {len(value)} characters, at most {_MAX_TEXT} are allowed")
    return value


def text_of(frame: Frame, name: str) -> str:
    """A text field of an answer. Raises FrameError where it is absent, of another type or too long."""
    return str(_take(frame.fields, name, str))


def number_of(frame: Frame, name: str) -> float:
    """A number field of an answer. Raises FrameError where it is absent or of another type."""
    return float(_take(frame.fields, name, (int, float)))


def bytes_of(frame: Frame, name: str) -> bytes:
    """A byte array of an answer. Raises FrameError where it is absent."""
    if name not in frame.arrays or frame.arrays[name].dtype != np.uint8:
        raise FrameError(f"the answer has no bytes '{name}'")
    return frame.arrays[name].tobytes()


def _bytes(data: bytes) -> np.ndarray:
    return np.frombuffer(data, np.uint8)


def compiled_frame(ptx: str, cubin: bytes, log: str, seconds: float) -> Frame:
    """A successful compilation."""
    return Frame(
        "compiled", {"log": log[:_MAX_TEXT], "seconds": seconds}, {"ptx": _bytes(ptx.encode()), "cubin": _bytes(cubin)}
    )


def objects_frame(objects: Mapping[str, bytes]) -> Frame:
    """Object code by name, in either direction."""
    return Frame("objects", {}, {name: _bytes(data) for name, data in objects.items()})


def read_objects(frame: Frame) -> dict[str, bytes]:
    """The supervisor's side of `objects_frame`. Raises FrameError for names that are no digests, and for other arrays
    than bytes; what the bytes are is not looked at."""
    if len(frame.arrays) > _MAX_OBJECTS or not all(_OBJECT_NAME.fullmatch(name) for name in frame.arrays):
        raise FrameError("the answer's objects are too many, or have names that are no digests")
    return {name: bytes_of(frame, name) for name in frame.arrays}
