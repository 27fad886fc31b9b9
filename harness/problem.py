"""A problem directory -> Problem: what solve() takes, the cases, the limits, the texts.

problem.yaml    the data below; strict: an unknown key or a wrong type is a ProblemError
statement.md    the task, for the learner
reference.py    make_inputs, expected, honest, cost, and disguise where there is one (see harness/cases.py); trusted
                code, loaded on demand
starter.cu      compiles and runs, and is not accepted
"""

from __future__ import annotations

import dataclasses
import difflib
import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from harness import document
from harness.document import Section
from harness.errors import ProblemError, UsageError
from harness.expressions import ExpressionError, evaluate, names_in
from harness.parameters import CaseParameter, in_short, read_case_parameter
from harness.signature import DTYPES, Parameter, Scalar, Tensor, declare, read_signature

ROOT = Path(__file__).resolve().parent.parent / "problems"
FILES = ("problem.yaml", "reference.py", "statement.md", "starter.cu")
DIFFICULTIES = ("easy", "medium", "hard")
BENCHMARK_KINDS = ("bandwidth", "compute", "latency")  # what a benchmark is about
_ID = re.compile(r"[a-z][a-z0-9_]*\Z")


@dataclass(frozen=True)
class CaseSpec:
    """One entry of `tests` or `benchmarks`: a name, and the parameters that make_inputs() gets."""

    name: str
    parameters: Mapping[str, object]
    kind: str = ""  # of a benchmark: one of BENCHMARK_KINDS; "" for a test
    modelled: CaseSpec | None = None  # what the emulator runs in a benchmark's place; None: the benchmark itself

    @property
    def modelled_differs(self) -> str:
        """How `modelled` differs, "repeat 2 of 64, num_blocks 600 of 16448"; "" where it does not."""
        small = self.modelled.parameters if self.modelled else self.parameters
        changed = [name for name in self.parameters if small[name] != self.parameters[name]]
        return ", ".join(f"{name} {in_short(small[name])} of {in_short(self.parameters[name])}" for name in changed)


@dataclass(frozen=True)
class ProblemLimits:
    """What one case may take on a device."""

    seconds: float
    memory_mib: int  # all tensors of a case together


@dataclass(frozen=True)
class ProblemPolicy:
    """What compiled code may hold beyond what every problem allows."""

    device_state_bytes: int = 0  # of writable __device__ variables


@dataclass(frozen=True)
class Problem:
    """Everything about a problem but its reference code (harness/cases.py loads that)."""

    id: str
    title: str
    difficulty: str
    tags: tuple[str, ...]
    dtypes: tuple[str, ...]
    signature: tuple[Parameter, ...]
    case_parameters: tuple[CaseParameter, ...]
    tests: tuple[CaseSpec, ...]
    benchmarks: tuple[CaseSpec, ...]
    limits: ProblemLimits
    statement: str
    starter: str
    directory: Path
    tiers: Mapping[str, float] = field(default_factory=dict)  # name -> least overall score, ascending
    policy: ProblemPolicy = ProblemPolicy()

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """The pointer parameters, in order."""
        return tuple(p for p in self.signature if isinstance(p, Tensor))

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        """The tensors that are compared: roles out and inout."""
        return tuple(t for t in self.tensors if t.role != "in")

    def declaration(self, dtype: str = "float32") -> str:
        """The C prototype of solve(), one line, for one of `dtypes`."""
        return f'extern "C" void solve({", ".join(declare(p, dtype) for p in self.signature)});'


def list_problems(root: Path = ROOT) -> list[Problem]:
    """Every problem under `root`, by id. Raises ProblemError for the first that breaks the schema."""
    return [load_directory(root / name) for name in _ids(root)]


def load(name_or_path: str | Path, root: Path = ROOT) -> Problem:
    """The problem with this id under `root`, or in this directory.

    Raises UsageError where there is none, ProblemError where it breaks the schema.
    """
    name = str(name_or_path)
    if not name.strip():
        raise UsageError(f"the problem's name is empty; ids: {', '.join(_ids(root)) or 'none'}")
    if name in _ids(root):
        return load_directory(root / name)
    if (Path(name) / "problem.yaml").is_file():
        return load_directory(Path(name).resolve())
    if Path(name).is_dir():
        raise ProblemError(f"{name}: no problem.yaml in this directory")
    close = difflib.get_close_matches(name, _ids(root), 1)
    hint = f"did you mean {close[0]!r}? " if close else ""
    ids = ", ".join(_ids(root)) or "none"
    raise UsageError(f"no problem {name!r}: {hint}ids: {ids}; or give a problem's directory")


def _ids(root: Path) -> list[str]:
    return sorted(file.parent.name for file in root.glob("*/problem.yaml"))


def load_directory(directory: Path) -> Problem:
    """Read one problem directory. Raises ProblemError with file, line, key and what is allowed."""
    top = document.read(directory / "problem.yaml")
    for name in FILES:
        if not (directory / name).is_file():
            raise ProblemError(f"{directory / name}: the file is missing; a problem needs it")
    signature = read_signature(top)
    parameters = tuple(_read_case_parameters(top))
    _check_names(top, signature, parameters)
    problem = Problem(
        id=_read_id(top, directory),
        title=top.take("title", str),
        difficulty=top.choice("difficulty", DIFFICULTIES),
        tags=top.words("tags"),
        dtypes=_read_dtypes(top),
        signature=signature,
        case_parameters=parameters,
        tests=_read_cases(top, "tests", signature, parameters),
        benchmarks=_read_cases(top, "benchmarks", signature, parameters),
        limits=_read_limits(top.section("limits")),
        statement=document.read_text(directory / "statement.md"),
        starter=document.read_text(directory / "starter.cu"),
        directory=directory,
        tiers=_read_tiers(top),
        policy=_read_policy(top),
    )
    top.finish()
    top.unique("tests", [case.name for case in problem.tests + problem.benchmarks])
    return problem


def _read_id(top: Section, directory: Path) -> str:
    value = top.take("id", str)
    if not _ID.match(value) or value != directory.resolve().name:
        raise top.error(f"found {value!r}; must be the directory's name, of small letters, digits and _", "id")
    return value


def _read_dtypes(top: Section) -> tuple[str, ...]:
    values = top.words("dtypes")
    if not values or not set(values) <= DTYPES.keys():
        raise top.error(f"found {list(values)}, allowed: {', '.join(DTYPES)}", "dtypes")
    return values


def _read_limits(section: Section) -> ProblemLimits:
    limits = ProblemLimits(section.take("seconds", float), section.take("memory_mib", int))
    section.finish()
    if not (limits.seconds > 0 and limits.memory_mib > 0):
        raise section.error("must be greater than 0")
    return limits


def _read_tiers(top: Section) -> dict[str, float]:
    section = top.section_if_there("tiers")
    if section is None:
        return {}
    tiers = {name: section.take(name, float) for name in section.names()}
    least = [0.0, *tiers.values()]
    if not tiers or any(low >= high for low, high in itertools.pairwise(least)) or least[-1] > 100:
        raise top.error(f"found {tiers}; must name scores above 0, up to 100, the least first", "tiers")
    return tiers


def _read_policy(top: Section) -> ProblemPolicy:
    section = top.section_if_there("policy")
    if section is None:
        return ProblemPolicy()
    policy = ProblemPolicy(section.take("device_state_bytes", int, 0))
    section.finish()
    if policy.device_state_bytes < 0:
        raise section.error("must be at least 0", "device_state_bytes")
    return policy


def _read_case_parameters(top: Section) -> Iterator[CaseParameter]:
    section = top.section("case_parameters")
    for name in section.names():
        yield read_case_parameter(name, section.section(name))


def _check_names(top: Section, signature: tuple[Parameter, ...], parameters: tuple[CaseParameter, ...]) -> None:
    """Shapes may use the int scalars of solve() and the cases' int parameters."""
    known = {p.name for p in signature if isinstance(p, Scalar) and p.type == "int"}
    known |= {p.name for p in parameters if p.kind == "int"}
    for tensor in (p for p in signature if isinstance(p, Tensor)):
        for dimension in tensor.shape:
            unknown = names_in(dimension) - known
            if unknown:
                message = f"dimension {dimension!r} of {tensor.name}: {min(unknown)!r} is not known"
                raise top.error(f"{message}; known: {', '.join(sorted(known))}", "signature")


def _read_cases(
    top: Section, key: str, signature: tuple[Parameter, ...], parameters: tuple[CaseParameter, ...]
) -> tuple[CaseSpec, ...]:
    sections = top.sections(key)
    if not sections and key == "tests":
        raise top.error("a problem has at least one test", key)
    read = _read_benchmark if key == "benchmarks" else _read_case
    return tuple(read(section, signature, parameters) for section in sections)


def _read_benchmark(
    section: Section, signature: tuple[Parameter, ...], parameters: tuple[CaseParameter, ...]
) -> CaseSpec:
    kind = section.choice("kind", BENCHMARK_KINDS, BENCHMARK_KINDS[0])
    changes = section.section_if_there("modelled")
    case = dataclasses.replace(_read_case(section, signature, parameters), kind=kind)
    if changes is None:
        return case
    return dataclasses.replace(case, modelled=_read_modelled(changes, case, signature, parameters))


def _read_modelled(
    section: Section, case: CaseSpec, signature: tuple[Parameter, ...], parameters: tuple[CaseParameter, ...]
) -> CaseSpec:
    """The benchmark with some of its parameters changed."""
    given = [p for p in parameters if section.value(p.name, None) is not None]
    section.finish()
    modelled = CaseSpec(case.name, {**case.parameters, **{p.name: p.read(section) for p in given}})
    _check_shapes(section, signature, modelled)
    return modelled


def _read_case(section: Section, signature: tuple[Parameter, ...], parameters: tuple[CaseParameter, ...]) -> CaseSpec:
    name = section.take("name", str)
    if not _ID.match(name):
        raise section.error(f"found {name!r}; must be of small letters, digits and _, and start with a letter", "name")
    case = CaseSpec(name, {p.name: p.read(section) for p in parameters})
    section.finish()
    _check_shapes(section, signature, case)
    return case


def _check_shapes(section: Section, signature: tuple[Parameter, ...], case: CaseSpec) -> None:
    for tensor in (p for p in signature if isinstance(p, Tensor)):
        _check_dimensions(section, tensor, case)


def _check_dimensions(section: Section, tensor: Tensor, case: CaseSpec) -> None:
    """Dimensions that the case's own parameters settle are checked here; cases.py checks them all."""
    known = {name: value for name, value in case.parameters.items() if isinstance(value, int)}
    for dimension in tensor.shape:
        try:
            if names_in(dimension) <= known.keys() and evaluate(dimension, known) < 1:
                size = evaluate(dimension, known)
                raise section.error(f"dimension {dimension!r} of {tensor.name} is {size}, must be at least 1")
        except ExpressionError as error:
            raise section.error(f"dimension {dimension!r} of {tensor.name}: {error}") from None
