"""Case lists -> seeded inputs, the float64 answer and the limits of each case, one case at a time.

The random stream of a case depends on (seed, problem id, case name) alone, so that any case can be repeated by itself,
and is the same in every track. reference.py learns from case["dtype"] and case["variant"] which track it is.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from types import ModuleType
from typing import Any

import numpy as np

from harness import check, disguise_rules
from harness.check import ErrorLimits
from harness.devices.base import Argument
from harness.disguise import Disguise
from harness.errors import UsageError
from harness.expressions import ExpressionError, evaluate
from harness.problem import CaseSpec, Problem
from harness.reference import Caller, load_reference
from harness.signature import NUMPY_TYPES, Parameter, Scalar, Tensor

Inputs = dict[str, Any]


@dataclass(frozen=True)
class Cost:
    """The least that any kernel must move and compute for a case."""

    bytes: int
    flops: int


@dataclass(frozen=True)
class Case:
    """One case, ready to run and to check."""

    name: str
    parameters: Mapping[str, object]  # as in problem.yaml
    arguments: list[Argument]  # in the order of the signature; an output's array is uninitialised
    expected: dict[str, np.ndarray]  # output name -> float64
    limits: dict[str, ErrorLimits]  # output name -> how far it may stray
    axes: dict[str, tuple[str, ...]]  # output name -> its dimensions as problem.yaml writes them
    cost: Cost


def fresh_seed() -> int:
    """A secret seed of 63 bits, for a judging that gave none."""
    return secrets.randbits(63)


def select(problem: Problem, selection: str | None = None) -> tuple[CaseSpec, ...]:
    """The cases that a selection names, in the problem's order: None or "tests", "samples", "benchmarks", or names and
    globs separated by commas. Raises UsageError for a name that no case has."""
    if selection in (None, "tests"):
        return problem.tests
    if selection == "samples":
        return tuple(case for case in problem.tests if case.name in problem.samples)
    if selection == "benchmarks":
        return problem.benchmarks
    everything = problem.tests + problem.benchmarks
    patterns = [part.strip() for part in selection.split(",") if part.strip()]
    for pattern in patterns or [selection]:
        if not any(fnmatchcase(case.name, pattern) for case in everything):
            raise UsageError(_no_case(problem, pattern))
    return tuple(case for case in everything if any(fnmatchcase(case.name, pattern) for pattern in patterns))


def _no_case(problem: Problem, pattern: str) -> str:
    """What there is instead, and in which tracks the case is, if it is in others."""
    names = ", ".join(case.name for case in problem.tests + problem.benchmarks)
    there = [t for t in problem.tracks() if any(fnmatchcase(c.name, pattern) for c in t.tests + t.benchmarks)]
    where = ""
    if there:
        variants = dict.fromkeys(track.variant for track in there)
        dtypes = dict.fromkeys(track.dtype for track in there)
        of = [f"variant {' or '.join(variants)}"] if problem.variant not in variants else []
        of += [f"dtype {' or '.join(dtypes)}"] if problem.dtype not in dtypes else []
        where = f" in {problem.dtype}, {problem.variant}; that case is of {', '.join(of)}" if of else ""
    return f"{problem.id} has no case {pattern!r}{where}; tests, samples, benchmarks, or of these: {names}"


def build(problem: Problem, selection: str | None, seed: int) -> Iterator[Case]:
    """The selected cases, each built when it is asked for. Raises UsageError at once, ProblemError while building."""
    return build_specs(problem, select(problem, selection), seed)


def build_specs(problem: Problem, specs: Sequence[CaseSpec], seed: int, honest: bool = True) -> Iterator[Case]:
    """The same for these cases. Raises as `build` does."""
    reference = load_reference(problem)
    return (build_one(problem, reference, spec, seed, honest) for spec in specs)


def cost(problem: Problem, reference: ModuleType, spec: CaseSpec) -> Cost:
    """The least work of a case, from its parameters alone. Raises ProblemError."""
    call = Caller(problem, spec)
    return _cost(call, call("cost", reference.cost, _parameters(problem, spec)))


def _parameters(problem: Problem, spec: CaseSpec) -> dict[str, object]:
    """What reference.py gets of a case."""
    return {**spec.parameters, "dtype": problem.dtype, "variant": problem.variant}


def build_one(problem: Problem, reference: ModuleType, spec: CaseSpec, seed: int, honest: bool = True) -> Case:
    """One case. Without `honest` its limits are the floors of harness/check.py, which suits data of N(0, 1) alone and
    saves the time of the honest models. Raises ProblemError where the reference fails or does not keep to the
    signature."""
    call = Caller(problem, spec)
    inputs = call("make_inputs", reference.make_inputs, _parameters(problem, spec), _generator(problem, spec, seed))
    arguments = _arguments(call, problem, inputs, spec)
    expected = _outputs(call, arguments, call("expected", reference.expected, dict(inputs)), "expected")
    return Case(
        name=spec.name,
        parameters=spec.parameters,
        arguments=arguments,
        expected=expected,
        limits=_limits(call, problem, _honest(call, reference, inputs, arguments) if honest else [], expected),
        axes={tensor.name: tensor.shape for tensor in problem.outputs},
        cost=cost(problem, reference, spec),
    )


def draw_disguise(
    problem: Problem, reference: ModuleType, inputs: Mapping[str, Any], rng: np.random.Generator
) -> Disguise:
    """Changes of a built case whose effect on the answer is known (harness/disguise.py), for `inputs` by name as
    make_inputs() gives them; none where the reference has no `disguise`. What it says of tensors that only other tracks
    have is left out. Raises ProblemError."""
    function = getattr(reference, "disguise", None)
    if function is None:
        return Disguise()
    call = Caller(problem)
    drawn = disguise_rules.without(call("disguise", function, dict(inputs), rng), _elsewhere(problem))
    message = disguise_rules.complaint(drawn, _forms(call, problem, inputs))
    if message:
        raise call.error("disguise", message)
    return drawn if isinstance(drawn, Disguise) else Disguise(**drawn)


def _elsewhere(problem: Problem) -> set[str]:
    """The tensors that only other tracks have."""
    return {p.name for p in problem.entries.signature if isinstance(p, Tensor)} - {t.name for t in problem.tensors}


def _forms(call: Caller, problem: Problem, inputs: Mapping[str, Any]) -> dict[str, disguise_rules.Form]:
    """Every tensor's form; sizes that only the case's parameters say are read off the inputs."""
    sizes = {name: value for name, value in inputs.items() if isinstance(value, int)}
    for tensor in problem.tensors:
        if tensor.name in inputs:
            sizes |= zip(tensor.shape, inputs[tensor.name].shape, strict=True)
    return {
        tensor.name: disguise_rules.Form(
            _shape(call, tensor, sizes), np.dtype(NUMPY_TYPES[tensor.type]), tensor.role == "in"
        )
        for tensor in problem.tensors
    }


def _generator(problem: Problem, spec: CaseSpec, seed: int) -> np.random.Generator:
    digest = hashlib.sha256(f"{problem.id}/{spec.name}".encode()).digest()
    return np.random.default_rng(np.random.SeedSequence([seed, int.from_bytes(digest[:16], "little")]))


def _arguments(call: Caller, problem: Problem, inputs: Inputs, spec: CaseSpec) -> list[Argument]:
    wanted = {p.name for p in problem.signature if isinstance(p, Scalar) or p.role != "out"}
    if not isinstance(inputs, dict) or set(inputs) != wanted:
        raise call.error("make_inputs", f"must return a dict of exactly {', '.join(sorted(wanted))}")
    for scalar in (p for p in problem.signature if isinstance(p, Scalar)):
        _check_scalar(call, scalar, inputs[scalar.name])
    sizes = {name: value for name, value in {**spec.parameters, **inputs}.items() if isinstance(value, int)}
    arguments = [_argument(call, parameter, inputs, sizes) for parameter in problem.signature]
    total = tensor_bytes(arguments)
    if total > problem.limits.memory_mib << 20:
        limit = problem.limits.memory_mib
        raise call.error("make_inputs", f"the tensors take {total >> 20} MiB, limits.memory_mib allows {limit}")
    return arguments


def tensor_bytes(arguments: Sequence[Argument]) -> int:
    """What the tensors take, together."""
    return sum(a.value.nbytes for a in arguments if isinstance(a.value, np.ndarray))


def _argument(call: Caller, parameter: Parameter, inputs: Inputs, sizes: Mapping[str, int]) -> Argument:
    kind = parameter.type
    if isinstance(parameter, Scalar):
        return Argument(parameter.name, inputs[parameter.name], "scalar", kind)
    shape = _shape(call, parameter, sizes)
    if parameter.role == "out":
        return Argument(parameter.name, np.empty(shape, NUMPY_TYPES[kind]), parameter.role, kind)
    array = inputs[parameter.name]
    _check_array(call, "make_inputs", parameter.name, array, shape, NUMPY_TYPES[kind])
    array.flags.writeable = False  # expected() and honest() must see what the kernel sees
    return Argument(parameter.name, array, parameter.role, kind)


def _check_scalar(call: Caller, parameter: Scalar, value: object) -> None:
    if parameter.type == "int":
        good = type(value) is int and -(2**31) <= value < 2**31
    else:
        good = type(value) is float and np.isfinite(value) and float(np.float32(value)) == value
    if not good:
        needs = "an int of 32 bits" if parameter.type == "int" else "a finite float that float32 holds exactly"
        raise call.error("make_inputs", f"{parameter.name} must be {needs}, found {value!r}")


def _shape(call: Caller, tensor: Tensor, sizes: Mapping[str, int]) -> tuple[int, ...]:
    try:
        shape = tuple(evaluate(dimension, sizes) for dimension in tensor.shape)
    except ExpressionError as error:
        raise call.error("make_inputs", f"shape of {tensor.name}: {error}") from None
    if min(shape) < 1:
        raise call.error("make_inputs", f"shape of {tensor.name} is {shape}; every dimension must be at least 1")
    return shape


def _check_array(
    call: Caller, function: str, name: str, array: object, shape: tuple[int, ...], dtype: type[np.generic]
) -> None:
    if not isinstance(array, np.ndarray):
        raise call.error(function, f"{name} must be an array, found {type(array).__name__}")
    if array.shape != shape or array.dtype != dtype or not array.flags.c_contiguous:
        wanted, found = f"{np.dtype(dtype)} {shape}", f"{array.dtype} {array.shape}"
        raise call.error(function, f"{name} must be a C-contiguous array of {wanted}, found {found}")


def _outputs(call: Caller, arguments: list[Argument], given: object, function: str) -> dict[str, np.ndarray]:
    """Those outputs, of what expected() or honest() gave, that the track has; it may give those of other tracks, too.
    float64 without NaN, or of a model float32, or as stored."""
    wanted = {a.name: a.value for a in arguments if isinstance(a.value, np.ndarray) and a.role != "in"}
    if not isinstance(given, dict) or not set(wanted) <= set(given) <= set(wanted) | _elsewhere(call.problem):
        raise call.error(function, f"must give a dict of exactly {', '.join(wanted)}")
    for name, like in wanted.items():
        stored = function == "honest" and getattr(given[name], "dtype", None) == like.dtype
        dtype = like.dtype.type if stored else np.float32 if function == "honest" else np.float64
        _check_array(call, function, name, given[name], like.shape, dtype)
        if np.isnan(given[name]).any():
            raise call.error(function, f"{name} holds NaN")
    return {name: given[name] for name in wanted}


def _cost(call: Caller, cost: object) -> Cost:
    if not isinstance(cost, dict) or set(cost) != {"bytes", "flops"} or not all(type(x) is int for x in cost.values()):
        raise call.error("cost", f"must return a dict of the ints bytes and flops, found {cost!r}")
    return Cost(cost["bytes"], cost["flops"])


def _honest(
    call: Caller, reference: ModuleType, inputs: Inputs, arguments: list[Argument]
) -> list[dict[str, np.ndarray]]:
    def honest() -> list[dict[str, np.ndarray]]:
        return list(reference.honest(dict(inputs)))

    models: list[dict[str, np.ndarray]] = call("honest", honest)
    return [_outputs(call, arguments, model, "honest") for model in models]


def _limits(
    call: Caller, problem: Problem, models: list[dict[str, np.ndarray]], expected: dict[str, np.ndarray]
) -> dict[str, ErrorLimits]:
    for tensor in problem.outputs:
        if tensor.check == "rows" and not np.isfinite(expected[tensor.name]).all():
            raise call.error("expected", f"{tensor.name} is not finite, which `check: rows` cannot compare")
    return {
        name: check.limits_for(how, expected[name], [model[name] for model in models], problem.dtype)
        for name, how in ((tensor.name, tensor.check) for tensor in problem.outputs)
    }
