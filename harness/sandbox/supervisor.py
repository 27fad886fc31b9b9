"""What the pipeline asks of children: compile one source; hold a device and run case after case."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec

from harness.devices.base import Argument, Program, RunLimits, RunResult
from harness.emulator import objects as object_code
from harness.errors import JudgeError, JudgeException, NoDeviceError, StartError
from harness.results import KernelResources
from harness.sandbox import codec, death
from harness.sandbox.child import Child
from harness.sandbox.death import Cause, ChildDied
from harness.sandbox.frames import Frame, FrameError
from harness.sandbox.limits import ProcessLimits, as_json, compile_limits
from harness.sandbox.resource_codec import read_resources

_START_SECONDS = 60.0  # for a child's imports, and a driver's start on a busy machine
RUN_GRACE = 5.0  # seconds above the device's own budget: just-in-time compilation, transfer of arrays
_COLLECT_SECONDS = 5.0  # for the object code to come back
_PADDING = 1 << 20  # of all arrays of one frame
_MAX_ARTEFACTS = 256 << 20  # bytes of PTX and cubin together


@dataclass(frozen=True)
class Toolchain:
    """Where children find compilers and devices, as "module:name"."""

    compiler: str = "harness.compile.build:compile_submission"
    gpu_compiler: str = "harness.compile.gpu:compile_cubin"
    meter: str = "harness.compile.resources:measure"
    cpu: str = "harness.devices.cpu:EmulatorDevice"
    gpu: str = "harness.devices.gpu:GpuDevice"

    def candidates(self, device: str) -> dict[str, str]:
        """Device kinds to try in order, for "cpu", "gpu" or "auto"."""
        if device == "auto" and find_spec("pycuda") is None:
            device = "cpu"
        kinds = {"cpu": ["cpu"], "gpu": ["gpu"], "auto": ["gpu", "cpu"]}[device]
        return {kind: getattr(self, kind) for kind in kinds}


@dataclass(frozen=True)
class Source:
    """One compilation: the text and everything that its result depends on. `arch` is of the cubin, "" for none."""

    text: str
    name: str
    declaration: str
    card: str
    arch: str = ""


@dataclass(frozen=True)
class Artefacts:
    """What a compilation left: PTX always, a cubin when the source asked for one."""

    ptx: str
    cubin: bytes
    log: str
    seconds: float


def compile_source(source: Source, toolchain: Toolchain, seconds: float) -> Artefacts:
    """Compile in a child of its own. Raises SubmissionError (it does not compile, or not within the limits) or
    JudgeError. A crashed compiler is tried once more, so that a foreign signal is not charged to the source."""
    try:
        return _compile_once(source, toolchain, seconds)
    except ChildDied as first:
        if first.cause is not Cause.CRASH:
            raise death.of_compile(first) from None
    try:
        return _compile_once(source, toolchain, seconds)
    except ChildDied as second:
        raise death.of_compile(second) from None


def _compile_once(source: Source, toolchain: Toolchain, seconds: float) -> Artefacts:
    fields = {
        "text": source.text, "name": source.name, "declaration": source.declaration, "card": source.card,
        "arch": source.arch, "compiler": toolchain.compiler,
        "gpu_compiler": toolchain.gpu_compiler if source.arch else "",
    }  # fmt: skip
    with Child("harness.sandbox.compile_child", compile_limits(seconds)) as child:
        child.send(Frame("compile", fields))
        answer = child.receive(seconds, _MAX_ARTEFACTS)
    return _artefacts(codec.check(answer, "compiled"))


def measure_source(source: Source, toolchain: Toolchain, seconds: float) -> tuple[KernelResources, ...]:
    """Resources of the source's kernels, from a compile child of its own. Raises ChildDied where it ends otherwise, for
    lack of time for example, and SubmissionError or JudgeError as the compiler does."""
    fields = {
        "text": source.text, "name": source.name, "declaration": source.declaration, "card": source.card,
        "meter": toolchain.meter,
    }  # fmt: skip
    with Child("harness.sandbox.compile_child", compile_limits(seconds)) as child:
        child.send(Frame("measure", fields))
        answer = child.receive(seconds, 0)
    return read_resources(codec.check(answer, "resources"))


def _artefacts(answer: Frame) -> Artefacts:
    ptx, cubin = codec.bytes_of(answer, "ptx"), codec.bytes_of(answer, "cubin")
    try:
        text = ptx.decode()
    except UnicodeDecodeError:
        raise FrameError("the PTX that came back is not text") from None
    return Artefacts(text, cubin, codec.text_of(answer, "log"), codec.number_of(answer, "seconds"))


@dataclass(frozen=True)
class Opened:
    """The device that a run child has opened: "cpu" or "gpu", its name; of a card also the arch of its cubins, the
    driver's version, and the size of its L2 cache."""

    kind: str
    name: str
    arch: str = ""
    driver: str = ""
    l2_bytes: int = 0


class RunProcess:
    """A run child that is started at once, and again after it died. Close it, or use it in a with statement.

    `devices` as of `Toolchain.candidates`; `limits` by kind of device. The child starts under those of the first
    candidate and takes on those of the device that it could open.
    """

    def __init__(self, devices: Mapping[str, str], limits: Mapping[str, ProcessLimits]):
        self._devices = dict(devices)
        self._limits = {kind: limits[kind] for kind in devices}
        self._program: Program | None = None
        self._opened: Opened | None = None
        self._child = self._start()

    def _start(self) -> Child:
        first = next(iter(self._devices))
        child = Child("harness.sandbox.run_child", self._limits[first])
        limits = {kind: as_json(value) for kind, value in self._limits.items()}
        child.send(Frame("open", {"devices": self._devices, "limits": limits}))
        self._opened = None
        return child

    @property
    def may_be_gpu(self) -> bool:
        """Whether a GPU is among the candidates."""
        return "gpu" in self._devices

    def opened(self) -> Opened:
        """Wait until the child has opened its device. Raises NoDeviceError where there is none, StartError where the
        child died."""
        if self._opened:
            return self._opened
        try:
            answer = self._child.receive(_START_SECONDS, 0)
        except ChildDied as died:
            raise StartError(f"the run process did not start ({died.reason})") from None
        if answer.kind == "unavailable":
            reason = codec.text_of(answer, "message")
            raise NoDeviceError(f"no such device here: {reason}; `judge.py doctor` says what is missing")
        codec.check(answer, "ready")
        kind, name, arch, driver = (codec.text_of(answer, field) for field in ("kind", "name", "arch", "driver"))
        self._opened = Opened(kind, name, arch, driver, int(codec.number_of(answer, "l2_bytes")))
        if kind not in self._devices:
            raise JudgeError(f"the run process opened a device that was not asked for: {kind!r}")
        self._devices = {kind: self._devices[kind]}  # a restart must not change it
        self._child.limits = self._limits[kind]
        return self._opened

    def load(self, program: Program, objects: Mapping[str, bytes] | None = None) -> None:
        """Give the child its program, which comes back by itself after a restart, and object code that earlier runs of
        it have left, which does not: the child may have died of it."""
        self._program = program
        if self._child.alive:
            if objects:
                self._child.send(codec.objects_frame(objects))
            self._child.send(codec.load_request(program))

    def collect(self) -> dict[str, bytes]:
        """The object code that the child has made since the last call; none where it is dead or answers otherwise."""
        if not self._child.alive:
            return {}
        self._child.send(Frame("collect"))
        try:
            answer = self._child.receive(_COLLECT_SECONDS, object_code.MAX_BYTES + _PADDING)
            return codec.read_objects(codec.check(answer, "objects"))
        except (ChildDied, JudgeException):
            self._child.close()
            return {}

    def run(self, arguments: Sequence[Argument], limits: RunLimits, seed: int) -> RunResult:
        """Run one case. Raises ChildDied when the child ended instead, SubmissionError for what stops every case."""
        self._revive()
        self.opened()
        child = self._child
        child.send(codec.run_request(arguments, limits, seed))
        answer = child.receive(limits.seconds + RUN_GRACE, codec.output_bytes(arguments))
        try:
            return self._result(child, answer, arguments)
        except (FrameError, JudgeError) as error:
            child.close()
            cause = Cause.PROTOCOL if isinstance(error, FrameError) else Cause.EXIT
            raise ChildDied(cause, str(error), child.take_stdout()) from None

    def ask(self, request: Frame, due: str, seconds: float, max_payload: int = 0) -> Frame:
        """Any other request, and the answer, of kind `due`. Raises ChildDied when the child ended instead."""
        self._revive()
        self.opened()
        child = self._child
        child.send(request)
        answer = child.receive(seconds + RUN_GRACE, max_payload + _PADDING)
        try:
            answer = codec.check(answer, due)
        except (FrameError, JudgeError) as error:
            child.close()
            cause = Cause.PROTOCOL if isinstance(error, FrameError) else Cause.EXIT
            raise ChildDied(cause, str(error), child.take_stdout()) from None
        if answer.fields.get("broken"):
            child.close()
        return answer

    def _result(self, child: Child, answer: Frame, arguments: Sequence[Argument]) -> RunResult:
        result = codec.read_result(codec.check(answer, "result"), arguments)
        printed = child.take_stdout()
        if answer.fields.get("broken"):
            child.close()
        return replace(result, stdout=result.stdout + printed)

    def _revive(self) -> None:
        if self._child.alive:
            return
        self._child = self._start()
        if self._program:
            self.opened()
            self.load(self._program)

    def close(self) -> None:
        """Kill the child and remove what it left."""
        self._child.close()

    def __enter__(self) -> RunProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
