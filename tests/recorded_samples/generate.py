"""Makes the recordings that come from no card: what each shows is known exactly, which no real one can say.

    python -m tests.recorded_samples.generate

A kernel of 512 us is timed in three processes. Windows scatter by 0.15 %, with a tail to slow ones, processes by
0.05 %; times are whole multiples of 32 ns, as events have them. What is added to that is each recording's note.
"""

from __future__ import annotations

import numpy as np

from harness.measure.records import Sample
from tests.recorded_samples import save

TICK = 32e-9
KERNEL = 512e-6
CHILDREN = 3


class Card:
    """Draws samples; `between` and `within` are relative spreads."""

    def __init__(self, seed: int, between: float = 0.0005, within: float = 0.0015):
        self.rng = np.random.default_rng(seed)
        self.children = 1 + between * self.rng.standard_normal(CHILDREN)
        self.within = within

    def sample(self, child: int, factor: float = 1.0, clock: int = 1980, throttled: tuple[str, ...] = ()) -> Sample:
        scatter = 1 + self.within * (0.8 * self.rng.standard_normal() + 0.6 * (self.rng.exponential() - np.log(2)))
        seconds = round(KERNEL * self.children[child] * scatter * factor / TICK) * TICK
        warmth = int(self.rng.integers(44, 49))
        return Sample(round(seconds, 9), child, clock, 3201, warmth, throttled)


def quiet() -> None:
    card = Card(1)
    save("quiet", "generated: an idle card", [card.sample(child) for child in range(CHILDREN) for _ in range(30)])


def drifting_clocks() -> None:
    """Memory-bound in part: the time grows by half of what the clock loses."""
    card = Card(2)
    samples = []
    for child in range(CHILDREN):
        for clock in np.linspace(1980, 1905, 60).astype(int):
            samples.append(card.sample(child, 1 + (1980 / clock - 1) / 2, int(clock)))
    save("drifting_clocks", "generated: in each process the clock sinks from 1980 to 1905 MHz", samples)


def slow_child() -> None:
    card = Card(3)
    card.children[1] *= 1.03
    samples = [card.sample(child) for child in range(CHILDREN) for _ in range(200)]
    save("slow_child", "generated: the second process is 3 % slower than the others", samples)


def bimodal() -> None:
    card = Card(4)
    samples = [card.sample(child, card.rng.choice([1, 1.04])) for child in range(CHILDREN) for _ in range(200)]
    save("bimodal", "generated: every window, by a coin, is 4 % slower", samples)


def interrupted() -> None:
    card = Card(5)
    samples = []
    for child in range(CHILDREN):
        for _ in range(30):
            hit = card.rng.random() < 0.06
            samples.append(card.sample(child, card.rng.uniform(1.3, 6) if hit else 1))
    save("interrupted", "generated: one window of 16 takes 1.3 to 6 times as long", samples)


def throttled_tail() -> None:
    _throttled("throttled_tail", 6, 20, "generated: in the last third of the last process the power cap holds")


def throttled() -> None:
    _throttled("throttled", 7, 50, "generated: in most of the last process the power cap holds")


def _throttled(name: str, seed: int, tail: int, note: str) -> None:
    card = Card(seed)
    samples = [card.sample(child) for child in range(CHILDREN) for _ in range(60)][:-tail]
    samples += [card.sample(CHILDREN - 1, 1.12, 1700, ("power cap",)) for _ in range(tail)]
    save(name, note, samples)


if __name__ == "__main__":
    for recording in (quiet, drifting_clocks, slow_child, bimodal, interrupted, throttled_tail, throttled):
        recording()
