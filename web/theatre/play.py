"""All that the page shows for one query, computed once for each."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from web.theatre import examples, recurrence
from web.theatre.examples import KEYS, Example
from web.theatre.recurrence import Merge, Mistake, Step

SPLIT = KEYS // 2  # where the keys are cut in two


@dataclass(frozen=True)
class Play:
    """A row stepped through, and its two halves merged. Neither depends on the step that is shown."""

    row: np.ndarray  # scores [KEYS]
    steps: list[Step]
    expected: np.ndarray  # softmax over all keys in float64 [DIMS]
    merge: Merge  # without a mistake

    @property
    def largest(self) -> float:
        """The size of the largest element of the right output."""
        return float(np.abs(self.expected).max())

    @property
    def mean_error(self) -> float:
        """How far the plain mean of the two halves is off."""
        return recurrence.distance(self.merge.mean, self.expected)


@cache  # at most one for each example, tile and mistake
def play(example: Example, tile: int, mistake: Mistake) -> Play:
    """Raises ValueError for a tile that is not from 1 to KEYS."""
    if not 1 <= tile <= KEYS:
        raise ValueError(f"a tile of {tile} keys: from 1 to {KEYS} there may be")
    row, values = examples.scores(example), examples.values()
    expected = recurrence.plain(row, values)
    assert expected is not None, "every example has a key that is not masked"
    halves = (slice(0, SPLIT), slice(SPLIT, KEYS))
    parts = [recurrence.run(row[half], values[half], tile)[-1].after for half in halves]
    return Play(row, recurrence.run(row, values, tile, mistake), expected, recurrence.merge(parts))


def errors(tile: int) -> dict[Mistake, dict[Example, float]]:
    """How far each mistake is off at the end, for each example."""
    return {m: {e: _last_error(e, tile, m) for e in Example} for m in Mistake if m is not Mistake.NONE}


def _last_error(example: Example, tile: int, mistake: Mistake) -> float:
    played = play(example, tile, mistake)
    return recurrence.distance(played.steps[-1].after.result, played.expected)
