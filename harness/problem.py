"""A problem directory -> Problem: what solve() takes, the cases, the limits, the texts.

A problem may have several *tracks*: one for each of its dtypes in each of its variants. Entries of problem.yaml that
say `dtypes:` or `variants:` belong to those tracks alone. A Problem is always that of one track; `Problem.track` gives
another one, and what is loaded is the first.

problem.yaml    the data below; strict: an unknown key or a wrong type is a ProblemError
statement.md    the task, for the learner; statement.zh.md, optional: the same in Chinese
reference.py    make_inputs, expected, honest, cost, and disguise where there is one (see harness/cases.py); trusted
                code, loaded on demand
starter.cu      compiles and runs, and is not accepted; starter.<dtype>.cu, optional: the same for another dtype
bad/, honest/   optional kernels that must be rejected, and accepted: harness/linting/kernels.py
"""

from __future__ import annotations

import dataclasses
import difflib
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness import document, scope, signature
from harness.case_list import CaseReader, CaseSpec, read_samples, samples_of
from harness.document import Section
from harness.dtypes import DTYPES
from harness.errors import ProblemError, UsageError
from harness.expressions import names_in
from harness.parameters import CaseParameter, read_case_parameter
from harness.scope import Scope
from harness.signature import Parameter, Scalar, Tensor

ROOT = Path(__file__).resolve().parent.parent / "problems"
FILES = ("problem.yaml", "reference.py", "statement.md", "starter.cu")
DIFFICULTIES = ("easy", "medium", "hard")
BASE = "base"  # the variant that every problem has, its first
_ENGLISH = "en"  # the language of statement.md
_ID = re.compile(r"[a-z][a-z0-9_]*\Z")
_RESERVED = ("dtype", "variant", *scope.KEYS)  # names that no case parameter may have


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
class Variant:
    """A form of the task that solve() has parameters of its own for."""

    name: str
    about: str = ""


@dataclass(frozen=True)
class Entries:
    """What differs between tracks, for all of them: each entry says by its scope where it belongs."""

    signature: tuple[Parameter, ...]
    tests: tuple[CaseSpec, ...]
    benchmarks: tuple[CaseSpec, ...]
    tiers: tuple[tuple[Scope, Mapping[str, float]], ...] = ()  # the first whose scope holds counts
    samples: tuple[str, ...] = ()  # names of tests


@dataclass(frozen=True)
class Problem:
    """Everything about one track of a problem but its reference code (harness/cases.py loads that)."""

    id: str
    title: str
    difficulty: str
    tags: tuple[str, ...]
    dtypes: tuple[str, ...]  # of all tracks
    variants: tuple[Variant, ...]  # of all tracks
    dtype: str  # of this track, as are the next four fields
    variant: str
    signature: tuple[Parameter, ...]
    tests: tuple[CaseSpec, ...]
    benchmarks: tuple[CaseSpec, ...]
    case_parameters: tuple[CaseParameter, ...]
    limits: ProblemLimits
    statement: str
    starter: str
    directory: Path
    entries: Entries = field(repr=False)
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

    @property
    def samples(self) -> tuple[str, ...]:
        """Names of tests of this track that are quick and show what the task is; at least one."""
        return samples_of(self.entries.samples, self.tests)

    def declaration(self) -> str:
        """The C prototype of solve(), one line, after the #include lines that its types need."""
        return signature.declaration(self.signature)

    def track(self, dtype: str | None = None, variant: str | None = None) -> Problem:
        """The same problem in another track; None keeps what it is. Raises UsageError for one that it does not have."""
        dtype, variant = dtype or self.dtype, variant or self.variant
        self._check_known("dtype", dtype, self.dtypes)
        self._check_known("variant", variant, [v.name for v in self.variants])
        return dataclasses.replace(
            self, dtype=dtype, variant=variant, signature=signature.in_track(self.entries.signature, dtype, variant),
            tests=_those_of(self.entries.tests, dtype, variant),
            benchmarks=_those_of(self.entries.benchmarks, dtype, variant),
            tiers=next((tiers for scope, tiers in self.entries.tiers if scope.holds(dtype, variant)), {}),
        )  # fmt: skip

    def starter_for(self, dtype: str | None = None, variant: str | None = None) -> str:
        """The text of the starter for a track, of None the first; starter.cu is that of the first dtype. Raises
        UsageError where there is none."""
        dtype, base = dtype or self.dtypes[0], self.variants[0].name
        self.track(dtype, variant)
        if variant not in (None, base):
            without = [v.name for v in self.variants[1:]]
            raise UsageError(
                f"{self.id} has a starter for variant {base}, none for {', '.join(without)}; "
                f"`judge.py show {self.id} --dtype {dtype} --variant {variant}` prints the signature of solve()"
            )
        if file := self.starter_file(dtype):
            return document.read_text(file)
        there = ", ".join(name for name in self.dtypes if self.starter_file(name))
        raise UsageError(f"{self.id} has no starter for {dtype}; there is one for: {there}")

    def statement_in(self, language: str) -> str:
        """The statement in a language: "en", or another that the problem has a statement.<language>.md in. Raises
        UsageError where it has none."""
        if language == _ENGLISH:
            return self.statement
        file = self.directory / f"statement.{language}.md"
        if not file.is_file():
            raise UsageError(f"{self.id} has no statement in {language!r}: {file.name} is missing; it has: {_ENGLISH}")
        return document.read_text(file)

    def starter_file(self, dtype: str) -> Path | None:
        """The starter for a dtype: its own, or starter.cu for the first; None where there is none."""
        own, usual = self.directory / f"starter.{dtype}.cu", self.directory / "starter.cu"
        return own if own.is_file() else usual if dtype == self.dtypes[0] else None

    def _check_known(self, what: str, name: str, known: Sequence[str]) -> None:
        if name not in known:
            raise UsageError(f"{self.id} has no {what} {name!r}; it has: {', '.join(known)}")

    def tracks(self) -> Iterator[Problem]:
        """This problem in all of its tracks, the default one first, then dtype by dtype."""
        for variant in self.variants:
            for dtype in self.dtypes:
                yield self.track(dtype, variant.name)


def _those_of(cases: Sequence[CaseSpec], dtype: str, variant: str) -> tuple[CaseSpec, ...]:
    return tuple(case for case in cases if case.scope.holds(dtype, variant))


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
    dtypes, variants = _read_dtypes(top), _read_variants(top)
    known = Scope(dtypes, tuple(v.name for v in variants))
    parameters = tuple(_read_case_parameters(top))
    entries = _read_entries(top, known, parameters)
    problem = Problem(
        id=_read_id(top, directory),
        title=top.take("title", str),
        difficulty=top.choice("difficulty", DIFFICULTIES),
        tags=top.words("tags"),
        dtypes=dtypes,
        variants=variants,
        dtype=dtypes[0],
        variant=variants[0].name,
        signature=(),
        tests=(),
        benchmarks=(),
        case_parameters=parameters,
        limits=_read_limits(top.section("limits")),
        statement=document.read_text(directory / "statement.md"),
        starter=document.read_text(directory / "starter.cu"),
        directory=directory,
        entries=entries,
        policy=_read_policy(top),
    )
    top.finish()
    return problem.track()


def _read_entries(top: Section, known: Scope, parameters: tuple[CaseParameter, ...]) -> Entries:
    """What differs between tracks, checked for each of them."""
    everywhere = signature.read_signature(top, known)
    tracks = [(dtype, variant) for variant in known.variants for dtype in known.dtypes]
    seen: dict[tuple[tuple[type, str], ...], str] = {}
    for dtype, variant in tracks:
        where = f" in {dtype}, {variant}" if len(tracks) > 1 else ""
        own = signature.in_track(everywhere, dtype, variant)
        _check_signature(top, own, parameters, where)
        other = seen.setdefault(tuple((type(p), p.type) for p in own), where)
        if other != where:
            message = f"the types{where} are those{other}: submissions could not be told apart"
            raise top.error(message, "signature")
    reader = CaseReader(everywhere, parameters, known)
    all_tests = reader.tests(top)
    samples = read_samples(top, all_tests)
    entries = Entries(everywhere, all_tests, reader.benchmarks(top), _read_tiers(top, known), samples)
    for dtype, variant in tracks:
        tests, benchmarks = (_those_of(cases, dtype, variant) for cases in (entries.tests, entries.benchmarks))
        if not tests:
            where = f"; {dtype}, {variant} has none" if len(tracks) > 1 else ""
            raise top.error(f"a problem has at least one test{where}", "tests")
        top.unique("tests", [case.name for case in tests + benchmarks])
    return entries


def _read_id(top: Section, directory: Path) -> str:
    value = top.take("id", str)
    if not _ID.match(value) or value != directory.resolve().name:
        raise top.error(f"found {value!r}; must be the directory's name, of small letters, digits and _", "id")
    return value


def _read_dtypes(top: Section) -> tuple[str, ...]:
    values = top.words("dtypes")
    top.unique("dtypes", list(values))
    if not values or not set(values) <= set(DTYPES):
        raise top.error(f"found {list(values)}, allowed: {', '.join(DTYPES)}", "dtypes")
    return values


def _read_variants(top: Section) -> tuple[Variant, ...]:
    if "variants" not in top:
        top.words("variants", [])
        return (Variant(BASE),)
    variants = tuple(map(_read_variant, top.sections("variants")))
    top.unique("variants", [v.name for v in variants])
    if not variants or variants[0].name != BASE:
        raise top.error(f"the first variant is the default and must be called {BASE!r}", "variants")
    return variants


def _read_variant(section: Section) -> Variant:
    variant = Variant(section.take("name", str), section.take("about", str, ""))
    section.finish()
    if not _ID.match(variant.name):
        raise section.error(f"found {variant.name!r}; must be of small letters, digits and _", "name")
    return variant


def _read_limits(section: Section) -> ProblemLimits:
    limits = ProblemLimits(section.take("seconds", float), section.take("memory_mib", int))
    section.finish()
    if not (limits.seconds > 0 and limits.memory_mib > 0):
        raise section.error("must be greater than 0")
    return limits


def _read_tiers(top: Section, known: Scope) -> tuple[tuple[Scope, Mapping[str, float]], ...]:
    """`tiers`: one mapping for all tracks, or a list of them, each with the `dtypes` and `variants` that it is for."""
    found = top.value("tiers", {})
    if isinstance(found, list):
        return tuple(_read_tier(section, known) for section in top.sections("tiers"))
    section = top.section_if_there("tiers")
    return (_read_tier(section, known),) if section else ()


def _read_tier(section: Section, known: Scope) -> tuple[Scope, Mapping[str, float]]:
    own = scope.read_scope(section, known)
    tiers = {name: section.take(name, float) for name in section.names() if name not in scope.KEYS}
    least = [0.0, *tiers.values()]
    rising = all(low < high for low, high in itertools.pairwise(least))  # not with NaN
    if not (tiers and rising and least[-1] <= 100):
        raise section.error(f"found {document.shown(tiers)}; must name scores above 0, up to 100, the least first")
    return own, tiers


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
        if name in _RESERVED:
            raise section.error("the judge itself gives this to make_inputs(); take another name", name)
        yield read_case_parameter(name, section.section(name))


def _check_signature(
    top: Section, parameters: tuple[Parameter, ...], case_parameters: tuple[CaseParameter, ...], where: str
) -> None:
    """Of one track, called `where`: names differ, something is checked, and shapes use the int scalars of solve() and
    the cases' int parameters."""
    top.unique("signature", [p.name for p in parameters])
    if not any(isinstance(p, Tensor) and p.role != "in" for p in parameters):
        raise top.error(f"no tensor has role out or inout{where}: nothing could be checked", "signature")
    known = {p.name for p in parameters if isinstance(p, Scalar) and p.type == "int"}
    known |= {p.name for p in case_parameters if p.kind == "int"}
    for tensor in (p for p in parameters if isinstance(p, Tensor)):
        for dimension in tensor.shape:
            unknown = names_in(dimension) - known
            if unknown:
                message = f"dimension {dimension!r} of {tensor.name}{where}: {min(unknown)!r} is not known"
                raise top.error(f"{message}; known: {', '.join(sorted(known))}", "signature")
