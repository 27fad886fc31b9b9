"""What linting found: frozen records for the terminal and for JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from harness.problem import Problem

NEAR = 1.25  # error over limit: a bad kernel that comes nearer than this on every case is worth a look


class Outcome(StrEnum):
    """What a check says; only `REFUSED` makes a problem unsound."""

    SOUND = "sound"
    WARNING = "warning"
    REFUSED = "refused"


@dataclass(frozen=True)
class Check:
    """One property of the problem. `message` is a full sentence that names files and cases."""

    name: str
    outcome: Outcome
    message: str
    dtype: str = ""  # "" where it concerns no track alone
    variant: str = ""
    figures: Mapping[str, float | int | str] = field(default_factory=dict)


def of_track(
    track: Problem, name: str, outcome: Outcome, message: str, figures: Mapping[str, float | int | str] | None = None
) -> Check:
    """A check of one track."""
    return Check(name, outcome, message, track.dtype, track.variant, figures or {})


@dataclass(frozen=True)
class KernelResult:
    """One standing kernel in one track, over all seeds."""

    name: str
    file: str
    kind: str  # "bad", "honest" or "starter"
    about: str  # the first comment line
    dtype: str
    variant: str
    outcome: Outcome
    reason: str  # why it is not sound; "" where it is
    passed: int  # seeds on which it got what it must: a bad kernel rejected, an honest one accepted
    seeds: int
    rejected_by: Mapping[str, int] = field(default_factory=dict)  # case, or "policy" -> seeds that it stopped
    verdicts: Mapping[str, int] = field(default_factory=dict)  # verdict -> seeds
    # Error over limit: of a bad kernel's weakest rejection (inf where it was no matter of degree), of an honest one's
    # worst case; None where nothing was compared.
    margin: float | None = None
    touched: Mapping[str, int] = field(default_factory=dict)  # test -> distinct bytes of tensors, on the first seed
    counted: Mapping[str, int] = field(default_factory=dict)  # test -> floating-point operations, on the first seed
    strayed: Mapping[str, float] = field(default_factory=dict)  # of an honest one: test -> error over the dtype's floor
    seconds: float = 0.0


@dataclass(frozen=True)
class LintReport:
    """The whole linting of one problem."""

    problem: str
    first_seed: int
    seeds: int
    checks: tuple[Check, ...]
    kernels: tuple[KernelResult, ...]
    seconds: float

    @property
    def sound(self) -> bool:
        """Whether nothing is refused."""
        outcomes = [check.outcome for check in self.checks] + [kernel.outcome for kernel in self.kernels]
        return Outcome.REFUSED not in outcomes
