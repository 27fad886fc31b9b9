"""The parameters of solve(): what problem.yaml says of them, and how C writes them."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from dataclasses import dataclass

from harness.document import Section
from harness.dtypes import DTYPES, ELEMENTS, HEADERS, KV_ELEMENTS, NUMPY_TYPES
from harness.scope import EVERYWHERE, Scope, read_scope

__all__ = ["DTYPES", "NUMPY_TYPES", "Parameter", "Scalar", "Tensor", "declaration", "in_track", "read_signature"]

ROLES = ("in", "out", "inout")
CHECKS = ("rows", "elements", "log_sum_exp")
_TENSOR_TYPES = ("element", "kv_element", "float", "int")
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


@dataclass(frozen=True)
class Tensor:
    """A pointer parameter of solve(). `type` is the C type of its elements in a track, and what problem.yaml says
    before a track is chosen: "element", "kv_element", "float" or "int"."""

    name: str
    type: str
    role: str  # "in", "out", "inout"
    shape: tuple[str, ...]  # expressions over the int scalars and the case's parameters
    check: str = "rows"  # how an output is compared (harness/check.py): one of CHECKS
    scope: Scope = EVERYWHERE


@dataclass(frozen=True)
class Scalar:
    """A value parameter of solve(); `type` is "int" or "float"."""

    name: str
    type: str
    scope: Scope = EVERYWHERE


Parameter = Tensor | Scalar


def in_track(parameters: Sequence[Parameter], dtype: str, variant: str) -> tuple[Parameter, ...]:
    """Those that solve() has in a track, with C types."""
    return tuple(_resolved(p, dtype) for p in parameters if p.scope.holds(dtype, variant))


def _resolved(parameter: Parameter, dtype: str) -> Parameter:
    names = {"element": ELEMENTS[dtype], "kv_element": KV_ELEMENTS[dtype]}
    return dataclasses.replace(parameter, type=names.get(parameter.type, parameter.type))


def declaration(parameters: Sequence[Parameter]) -> str:
    """The C prototype of solve(), one line, after the #include lines that its types need."""
    needed = [header for kind, header in HEADERS.items() if any(p.type == kind for p in parameters)]
    lines = [f"#include <{header}>\n" for header in needed]
    return f'{"".join(lines)}extern "C" void solve({", ".join(map(declare, parameters))});'


def declare(parameter: Parameter) -> str:
    """`const float* q`: the parameter as the prototype has it."""
    if isinstance(parameter, Scalar):
        return f"{parameter.type} {parameter.name}"
    return f"{'const ' if parameter.role == 'in' else ''}{parameter.type}* {parameter.name}"


def read_signature(top: Section, known: Scope) -> tuple[Parameter, ...]:
    """The list under `signature`, for a problem with the dtypes and variants of `known`. Raises ProblemError."""
    return tuple(_read_parameter(section, known) for section in top.sections("signature"))


def _read_parameter(section: Section, known: Scope) -> Parameter:
    name = section.take("name", str)
    if not _IDENTIFIER.match(name):
        raise section.error(f"{name!r} is no C identifier", "name")
    if "shape" in section or "role" in section:
        parameter: Parameter = _read_tensor(section, name, known)
    else:
        parameter = Scalar(name, section.choice("type", ("int", "float")), read_scope(section, known))
    section.finish()
    return parameter


def _read_tensor(section: Section, name: str, known: Scope) -> Tensor:
    kind, role = section.choice("type", _TENSOR_TYPES), section.choice("role", ROLES)
    shape = section.words("shape")
    check = section.choice("check", CHECKS, "rows") if role != "in" else "rows"
    if not shape:
        raise section.error("a tensor has at least one dimension", "shape")
    if role != "in" and kind not in ("element", "float"):
        raise section.error("outputs are compared as real numbers of 16 or 32 bits; allowed: element, float", "type")
    return Tensor(name, kind, role, shape, check, read_scope(section, known))
