"""How sure the verdicts on precision are: `python -m tests.flakiness --runs 10000 --seeds 20`.

Two tables. False rejects: an honest model is set against the limits of a case that were made without it, so that the
limits cannot owe their size to the very kernel that they are to judge; kernels of tests/arithmetic.py are set against
the limits as they are. Cheats: each kernel of tests/arithmetic.py that computes in too narrow a type runs on the
problem's own test cases, seed by seed; it is caught when some case refuses it, and the factor by which the clearest
case does is shown for the seed where that is least.
"""

from __future__ import annotations

import argparse
import itertools
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from harness import cases, check, problem
from harness.problem import Problem
from harness.reference import load_reference
from tests import arithmetic
from tests.arithmetic import Arithmetic

IDS = ("flash_attention", "paged_decode", "split_k_merge")
_LARGE = 1 << 19  # scores of a case beyond which models of tensor cores are too slow
Outputs = Mapping[str, np.ndarray]


@dataclass
class Drawn:
    """One case of one track and seed, with the answers of its honest models."""

    track: Problem
    name: str
    inputs: dict[str, Any]
    expected: Outputs
    honest: list[Outputs]
    limits: dict[str, check.ErrorLimits] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.limits = self.limits_of(self.honest)

    def limits_of(self, models: Sequence[Outputs]) -> dict[str, check.ErrorLimits]:
        """By output; as harness/cases.py makes them."""
        return {
            t.name: check.limits_for(t.check, self.expected[t.name], [m[t.name] for m in models], self.track.dtype)
            for t in self.track.outputs
        }

    def ratio(self, found: Outputs, limits: Mapping[str, check.ErrorLimits] | None = None) -> float:
        """The worst figure over its limit; NaN counts as infinite."""
        limits = self.limits if limits is None else limits
        worst = max(check.measure(found[name], self.expected[name], limits[name]).ratio for name in limits)
        return worst if worst == worst else np.inf

    def total(self, out: np.ndarray) -> float:
        """Figure C of `out` over its limit."""
        return check.measure(out, self.expected["out"], self.limits["out"]).total / self.limits["out"].abc[2]

    def outputs(self, how: Arithmetic) -> Outputs:
        """What a kernel of tests/arithmetic.py answers."""
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return arithmetic.KERNELS[self.track.id](self.inputs, how, self.track.dtype)

    def run(self, how: Arithmetic) -> float:
        """The worst figure over its limit of such a kernel."""
        return self.ratio(self.outputs(how))

    @property
    def large(self) -> bool:
        scores = self.inputs["q"].size // self.inputs["head_dim"] * self._keys if "q" in self.inputs else 0
        return bool(scores > _LARGE)

    @property
    def _keys(self) -> int:
        i = self.inputs
        return int(i["max_context_len"] if "max_context_len" in i else i["k"].shape[-2])


def tracks(ids: Sequence[str] = IDS) -> Iterator[Problem]:
    """Every track of these problems."""
    for problem_id in ids:
        found = problem.load(problem_id)
        for dtype, variant in itertools.product(found.dtypes, found.variants):
            yield found.track(dtype, variant.name)


def draw(track: Problem, seed: int) -> Iterator[Drawn]:
    """The tests of a track, but for the chapter's, which are large and harmless."""
    reference = load_reference(track)
    for spec in track.tests:
        if not spec.name.startswith("chapter"):
            case = cases.build_one(track, reference, spec, seed, honest=False)
            inputs = {a.name: a.value for a in case.arguments if a.role != "out"}
            yield Drawn(track, spec.name, inputs, case.expected, list(reference.honest(inputs)))


def false_rejects(drawn: Drawn) -> Iterator[tuple[str, float]]:
    """(model, worst figure over its limit) of every honest one."""
    for number, model in enumerate(drawn.honest):
        others = drawn.honest[:number] + drawn.honest[number + 1 :]
        yield f"model {number}", drawn.ratio(model, drawn.limits_of(others))
    for name, how in arithmetic.honest(drawn.track.dtype).items():
        if not (how.tensor_core and drawn.large):
            yield name, drawn.run(how)


def label(track: Problem) -> str:
    """How a track is called in the tables."""
    return f"{track.id} {track.dtype} {track.variant}"


def study_honest(chosen: Sequence[Problem], runs: int) -> bool:
    """Print the first table; whether nobody was refused."""
    done, refused, worst = 0, 0, {label(track): (0.0, "") for track in chosen}
    counts: Counter[str] = Counter()
    for seed in itertools.count(1):
        for track in chosen:
            for drawn in draw(track, seed):
                for name, ratio in false_rejects(drawn):
                    done, refused = done + 1, refused + (not ratio <= 1)
                    counts[label(track)] += 1
                    worst[label(track)] = max(worst[label(track)], (ratio, f"{drawn.name}, {name}, seed {seed}"))
        if done >= runs:
            break
    print(f"honest models: {refused} of {done} refused, {seed} seeds")
    for name, (ratio, where) in worst.items():
        print(f"  {name:36} {counts[name]:6} runs, worst {ratio:.2f} of the limit ({where})", flush=True)
    return refused == 0


def study_cheats(chosen: Sequence[Problem], seeds: int) -> bool:
    """Print the second table; whether every cheat was caught on every seed."""
    sound = True
    for track in chosen:
        drawn = [list(draw(track, seed)) for seed in range(1, seeds + 1)]
        print(label(track))
        for name, how in arithmetic.cheats(track.id, track.dtype).items():
            sound &= _line(name, how, drawn) == seeds
        for name, how in (arithmetic.doubtful(track.dtype) if track.id != "split_k_merge" else {}).items():
            _line(f"({name})", how, drawn)
    return sound


def _line(name: str, how: Arithmetic, by_seed: Sequence[Sequence[Drawn]]) -> int:
    """Print a row; on how many seeds the kernel was caught."""
    best = [max((case.run(how), case.name) for case in drawn) for drawn in by_seed]
    caught = sum(not ratio <= 1 for ratio, _ in best)
    ratio, where = min(best)
    print(f"  {name:36} {caught:3} of {len(best)}, at least {ratio:.3g} of the limit ({where})", flush=True)
    return caught


def main() -> int:
    """0 when no honest model was refused and every cheat caught."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10_000, help="runs of honest models; 0 for none")
    parser.add_argument("--seeds", type=int, default=20, help="seeds for every cheat; 0 for none")
    parser.add_argument("--only", default="", help="tracks whose label contains this")
    given = parser.parse_args()
    chosen = [track for track in tracks() if given.only in label(track)]
    honest = study_honest(chosen, given.runs) if given.runs else True
    caught = study_cheats(chosen, given.seeds) if given.seeds else True
    return 0 if honest and caught else 1


if __name__ == "__main__":
    raise SystemExit(main())
