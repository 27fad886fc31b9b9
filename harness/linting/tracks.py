"""The tracks of a problem, dtype by dtype and variant by variant, and the macros that make a kernel file fit one."""

from __future__ import annotations

from dataclasses import dataclass

from harness.problem import Problem
from harness.signature import DTYPES


@dataclass(frozen=True)
class Track:
    """A problem resolved for one dtype and variant."""

    problem: Problem
    dtype: str
    variant: str
    is_first_variant: bool = True

    @property
    def label(self) -> str:
        """`bfloat16`, or `bfloat16 lse` for a variant that is not the first."""
        return self.dtype if self.is_first_variant else f"{self.dtype} {self.variant}"

    def declaration(self) -> str:
        """solve()'s declaration after the macros that harness/linting/kernels.py documents."""
        element = DTYPES[self.dtype]
        macros = {"ELEMENT": element, "KV_ELEMENT": element, "FP8_SCALES": "0", f"VARIANT_{self.variant.upper()}": "1"}
        lines = [f"#define {name} {value}" for name, value in macros.items()]
        return "\n".join([*lines, self.problem.declaration()])


def tracks(problem: Problem, dtype: str | None = None) -> list[Track]:
    """Every track, or those of one dtype."""
    return [Track(problem, each, "base") for each in problem.dtypes if dtype in (None, each)]
