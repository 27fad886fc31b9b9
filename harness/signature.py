"""The parameters of solve(): what problem.yaml says of them, and how C writes them."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from harness.document import Section

ROLES = ("in", "out", "inout")
CHECKS = ("rows", "elements")
DTYPES = {"float32": "float"}  # dtype track -> C type of `element`
NUMPY_TYPES: dict[str, type[np.generic]] = {"float": np.float32, "int": np.int32}
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


@dataclass(frozen=True)
class Tensor:
    """A pointer parameter of solve(). `type` is "element" (float, in the float32 track), "float" or "int"."""

    name: str
    type: str
    role: str  # "in", "out", "inout"
    shape: tuple[str, ...]  # expressions over the int scalars and the case's parameters
    check: str = "rows"  # how an output is compared (harness/check.py): "rows" or "elements"


@dataclass(frozen=True)
class Scalar:
    """A value parameter of solve(); `type` is "int" or "float"."""

    name: str
    type: str


Parameter = Tensor | Scalar


def ctype(parameter: Parameter, dtype: str = "float32") -> str:
    """The C type without const and '*'."""
    return DTYPES[dtype] if parameter.type == "element" else parameter.type


def declare(parameter: Parameter, dtype: str) -> str:
    """`const float* q`: the parameter as the prototype has it."""
    if isinstance(parameter, Scalar):
        return f"{ctype(parameter, dtype)} {parameter.name}"
    return f"{'const ' if parameter.role == 'in' else ''}{ctype(parameter, dtype)}* {parameter.name}"


def read_signature(top: Section) -> tuple[Parameter, ...]:
    """The list under `signature`. Raises ProblemError."""
    sections = top.sections("signature")
    parameters = tuple(_read_parameter(section) for section in sections)
    top.unique("signature", [p.name for p in parameters])
    if not any(isinstance(p, Tensor) and p.role != "in" for p in parameters):
        raise top.error("no tensor has role out or inout: nothing could be checked", "signature")
    return parameters


def _read_parameter(section: Section) -> Parameter:
    name = section.take("name", str)
    if not _IDENTIFIER.match(name):
        raise section.error(f"{name!r} is no C identifier", "name")
    tensor = "shape" in section or "role" in section
    parameter = _read_tensor(section, name) if tensor else Scalar(name, section.choice("type", ("int", "float")))
    section.finish()
    return parameter


def _read_tensor(section: Section, name: str) -> Tensor:
    kind, role = section.choice("type", ("element", "float", "int")), section.choice("role", ROLES)
    shape = section.words("shape")
    check = section.choice("check", CHECKS, "rows") if role != "in" else "rows"
    if not shape:
        raise section.error("a tensor has at least one dimension", "shape")
    if role != "in" and kind == "int":
        raise section.error("outputs are compared as real numbers; allowed: element, float", "type")
    return Tensor(name, kind, role, shape, check)
