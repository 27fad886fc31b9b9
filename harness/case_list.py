"""The entries of `tests` and `benchmarks` in a problem.yaml, and which tests are its `samples`."""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.document import Section
from harness.expressions import ExpressionError, evaluate, names_in
from harness.parameters import CaseParameter, in_short
from harness.scope import EVERYWHERE, Scope, read_scope
from harness.signature import Parameter, Tensor

BENCHMARK_KINDS = ("bandwidth", "compute", "latency")  # what a benchmark is about
_NAME = re.compile(r"[a-z][a-z0-9_]*\Z")
_UNNAMED_SAMPLES = 3  # the first so many tests, where no sample is named


@dataclass(frozen=True)
class CaseSpec:
    """One entry of `tests` or `benchmarks`: a name, and the parameters that make_inputs() gets."""

    name: str
    parameters: Mapping[str, object]
    kind: str = ""  # of a benchmark: one of BENCHMARK_KINDS; "" for a test
    modelled: CaseSpec | None = None  # what the emulator runs in a benchmark's place; None: the benchmark itself
    scope: Scope = EVERYWHERE

    @property
    def modelled_differs(self) -> str:
        """How `modelled` differs, "repeat 2 of 64, num_blocks 600 of 16448"; "" where it does not."""
        small = self.modelled.parameters if self.modelled else self.parameters
        changed = [name for name in self.parameters if small[name] != self.parameters[name]]
        return ", ".join(f"{name} {in_short(small[name])} of {in_short(self.parameters[name])}" for name in changed)


@dataclass(frozen=True)
class CaseReader:
    """Reads the cases of one problem, whose `signature` is that of all tracks; `known`: its dtypes and variants."""

    signature: Sequence[Parameter]
    parameters: Sequence[CaseParameter]
    known: Scope

    def tests(self, top: Section) -> tuple[CaseSpec, ...]:
        """The list under `tests`. Raises ProblemError."""
        return tuple(self._case(section) for section in top.sections("tests"))

    def benchmarks(self, top: Section) -> tuple[CaseSpec, ...]:
        """The list under `benchmarks`. Raises ProblemError."""
        return tuple(self._benchmark(section) for section in top.sections("benchmarks"))

    def _benchmark(self, section: Section) -> CaseSpec:
        kind = section.choice("kind", BENCHMARK_KINDS, BENCHMARK_KINDS[0])
        changes = section.section_if_there("modelled")
        case = dataclasses.replace(self._case(section), kind=kind)
        return dataclasses.replace(case, modelled=self._modelled(changes, case)) if changes else case

    def _modelled(self, section: Section, case: CaseSpec) -> CaseSpec:
        """The benchmark with some of its parameters changed."""
        given = [p for p in self.parameters if section.value(p.name, None) is not None]
        section.finish()
        changes = {p.name: p.read(section) for p in given}
        modelled = CaseSpec(case.name, {**case.parameters, **changes}, scope=case.scope)
        self._check_shapes(section, modelled)
        return modelled

    def _case(self, section: Section) -> CaseSpec:
        name = section.take("name", str)
        if not _NAME.match(name):
            needs = "must be of small letters, digits and _, and start with a letter"
            raise section.error(f"found {name!r}; {needs}", "name")
        parameters = {p.name: p.read(section) for p in self.parameters}
        case = CaseSpec(name, parameters, scope=read_scope(section, self.known))
        section.finish()
        self._check_shapes(section, case)
        return case

    def _check_shapes(self, section: Section, case: CaseSpec) -> None:
        for parameter in self.signature:
            if isinstance(parameter, Tensor) and parameter.scope.meets(case.scope):
                _check_dimensions(section, parameter, case)


def read_samples(top: Section, tests: Sequence[CaseSpec]) -> tuple[str, ...]:
    """The names under `samples`, each of which is that of a test of some track. Raises ProblemError."""
    names, known = top.words("samples", []), [case.name for case in tests]
    top.unique("samples", list(names))
    for name in names:
        if name not in known:
            close = difflib.get_close_matches(name, known, 1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise top.error(f"no test is called {name!r}{hint}", "samples")
    return names


def samples_of(names: Sequence[str], tests: Sequence[CaseSpec]) -> tuple[str, ...]:
    """Of a track's tests those that give a first impression, in their order: the ones that are named, or the first
    three where none of them is."""
    own = [case.name for case in tests]
    return tuple(name for name in own if name in names) or tuple(own[:_UNNAMED_SAMPLES])


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
