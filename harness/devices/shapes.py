"""Which kernels a plan launches, and in which shapes: what their occupancy is computed from."""

from __future__ import annotations

from collections import Counter

from harness.plan import Launch, LaunchPlan
from harness.results import LaunchShape

MAX_SHAPES = 256  # of one case; what a loop of ever new grids launches beyond that is not told apart


def launch_shapes(plan: LaunchPlan) -> tuple[LaunchShape, ...]:
    """The distinct shapes in the order of their first launch, with the number of their launches."""
    launches = (step for step in plan.steps if isinstance(step, Launch))
    counts = Counter((step.kernel, step.grid, step.block, step.shared_bytes) for step in launches)
    return tuple(LaunchShape(*shape, count) for shape, count in list(counts.items())[:MAX_SHAPES])
