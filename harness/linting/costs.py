"""cost() against what honest kernels touch in the emulator, and tensors against limits.memory_mib.

Honest kernels may read what they need not (a query of an empty context), and may leave out what turns out not to count
(a split of weight zero), so that the cost of a test is set against the kernel that comes nearest to it from above.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

import numpy as np

from harness import cases
from harness.case_list import CaseSpec
from harness.expressions import ExpressionError, evaluate, names_in
from harness.linting.case_store import CaseStore
from harness.linting.records import Check, KernelResult, Outcome, of_track
from harness.problem import Problem
from harness.signature import NUMPY_TYPES, Tensor

_SLACK = 0.05  # of all tests' bytes: what honest kernels may touch beyond the cost
_LARGE_FLOPS = 4096  # below it, threads that have no work of their own count for more than the work
_LEAST_SHARE = 0.2  # of the fewest operations: exponentials and addresses in floating point are no part of a cost
_MIB = 1 << 20


def byte_model(track: Problem, store: CaseStore, honest: Sequence[KernelResult]) -> Check:
    """cost().bytes of the tests against the distinct bytes of honest kernels."""
    touched = [result.touched for result in honest if result.touched]
    if not touched:
        return of_track(track, "bytes", Outcome.WARNING, "no honest kernel ran: cost() is not known to be right")
    costs = {spec.name: cases.cost(track, store.reference, spec).bytes for spec in track.tests}
    nearest = {name: min((t[name] for t in touched if t.get(name, -1) >= cost), default=0)
               for name, cost in costs.items()}  # fmt: skip
    file = track.directory / "reference.py"
    for name, cost in costs.items():
        if nearest[name] < cost:
            most = max(t.get(name, 0) for t in touched)
            message = f"{file}: cost() says {cost} bytes of {name}, but no honest kernel touched more than {most}"
            return of_track(track, "bytes", Outcome.REFUSED, message, {"cost": cost, "touched": most})
    beyond = sum(nearest.values()) / max(1, sum(costs.values())) - 1
    figures = {"cost": sum(costs.values()), "touched": sum(nearest.values())}
    if beyond > _SLACK:
        name = max(costs, key=lambda name: nearest[name] - costs[name])
        message = (
            f"{file}: honest kernels touch {beyond:.0%} more bytes than cost() says, most of them on {name}: "
            f"{nearest[name]} for {costs[name]}"
        )
        return of_track(track, "bytes", Outcome.REFUSED, message, figures)
    message = f"honest kernels touch {beyond:.1%} more bytes than cost() says, over all tests"
    return of_track(track, "bytes", Outcome.SOUND, message, figures)


def operations(track: Problem, store: CaseStore) -> Check:
    """cost().flops: above 0 for every benchmark and for some test."""
    flops = {spec.name: cases.cost(track, store.reference, spec).flops for spec in track.tests + track.benchmarks}
    idle = [spec.name for spec in track.benchmarks if flops[spec.name] <= 0]
    if idle or min(flops.values()) < 0 or max(flops.values()) <= 0:
        name = idle[0] if idle else min(flops, key=lambda name: flops[name])
        message = f"{track.directory / 'reference.py'}: cost() says {flops[name]} flops of {name}"
        return of_track(track, "flops", Outcome.REFUSED, message)
    return of_track(track, "flops", Outcome.SOUND, "cost() says flops of every benchmark")


def flop_model(track: Problem, store: CaseStore, honest: Sequence[KernelResult]) -> Check:
    """cost().flops of the tests against the operations that honest kernels were seen to do: of every test that is large
    enough no more than their median does, since one may leave out what turns out not to count; and not much less than
    the fewest, over all tests."""
    costs = {spec.name: cases.cost(track, store.reference, spec).flops for spec in track.tests}
    counted = {name: sorted(k.counted[name] for k in honest if k.counted.get(name)) for name in costs}
    large = [name for name in costs if counted[name] and median(counted[name]) >= _LARGE_FLOPS]
    if not large:
        return of_track(track, "counted flops", Outcome.SOUND, "no test is large enough to tell cost().flops by")
    excess = {name: costs[name] / median(counted[name]) for name in large}
    name = max(large, key=lambda name: excess[name])
    said, fewest = sum(costs[name] for name in large), sum(counted[name][0] for name in large)
    figures = {"most": excess[name], "share": said / fewest}
    file = track.directory / "reference.py"
    if excess[name] > 1 + _SLACK:
        done = f"{median(counted[name]):.0f}"
        message = f"{file}: cost() says {costs[name]} flops of {name}, but honest kernels do {done}"
        return of_track(track, "counted flops", Outcome.REFUSED, message, figures)
    message = f"cost() says {said / fewest:.0%} of the flops that the most frugal honest kernels do"
    if said < _LEAST_SHARE * fewest:
        return of_track(track, "counted flops", Outcome.WARNING, f"{file}: {message}: are some forgotten?", figures)
    return of_track(track, "counted flops", Outcome.SOUND, message, figures)


def memory(track: Problem, store: CaseStore, seed: int) -> Check:
    """Tensors of the tests as built, and of the benchmarks as far as parameters and cost() tell, in MiB."""
    limit = track.limits.memory_mib
    built = {spec.name: cases.tensor_bytes(store.get(track, spec, seed).arguments) for spec in track.tests}
    sizes = built | {spec.name: _estimated(track, store, spec) for spec in track.benchmarks}
    largest = max(sizes, key=lambda name: sizes[name])
    mib = sizes[largest] / _MIB
    figures = {"mib": mib, "limit": limit}
    if mib > limit:
        message = f"{track.directory / 'problem.yaml'}: {largest} takes at least {mib:.0f} MiB of {limit} allowed"
        return of_track(track, "memory", Outcome.REFUSED, message, figures)
    tests = max(built.values()) / _MIB
    message = f"the largest test takes {tests:.1f} MiB, the largest case, {largest}, at least {mib:.0f} of {limit}"
    return of_track(track, "memory", Outcome.SOUND, message, figures)


def _estimated(track: Problem, store: CaseStore, spec: CaseSpec) -> int:
    """A lower bound: tensors whose shape the case's parameters settle; or the bytes that any kernel must move."""
    known = {name: value for name, value in spec.parameters.items() if isinstance(value, int)}
    settled = sum(_nbytes(track, tensor, known) for tensor in track.tensors)
    return max(settled, cases.cost(track, store.reference, spec).bytes)


def _nbytes(track: Problem, tensor: Tensor, known: dict[str, int]) -> int:
    if not all(names_in(dimension) <= known.keys() for dimension in tensor.shape):
        return 0
    try:
        sizes = [evaluate(dimension, known) for dimension in tensor.shape]
    except ExpressionError:
        return 0
    return int(np.prod(sizes, dtype=np.int64)) * np.dtype(NUMPY_TYPES[tensor.type]).itemsize


def build_time(track: Problem, store: CaseStore) -> Check:
    """How long the tests took to build: the longest of each."""
    seconds = {key[2]: time for key, time in store.build_seconds.items() if key[:2] == (track.dtype, track.variant)}
    slowest = max(seconds, key=lambda name: seconds[name])
    total, limit = sum(seconds.values()), track.limits.seconds
    message = f"the tests of a seed are built in {total:.1f} s, {slowest} in {seconds[slowest]:.2f}"
    outcome = Outcome.SOUND if seconds[slowest] <= limit else Outcome.WARNING
    return of_track(track, "build time", outcome, message, {"seconds": total, "slowest": seconds[slowest]})
