"""Large arrays on all cores, for reference.py files: NumPy releases the interpreter's lock in drawing, in products and
in exp(), so that threads suffice. The answer never depends on how many cores there are."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np

T = TypeVar("T")
_CHUNK = 1 << 20  # elements that one generator draws


def each(function: Callable[[T], None], items: Iterable[T]) -> None:
    """Call `function` on every item, on as many threads as there are cores; raises what the first failure raised."""
    todo = list(items)
    workers = min(len(os.sched_getaffinity(0)), len(todo))
    if workers < 2:
        for item in todo:
            function(item)
        return
    with ThreadPoolExecutor(workers, thread_name_prefix="reference") as pool:
        for _ in pool.map(function, todo):
            pass


def slices(length: int, size: int) -> Iterator[slice]:
    """0 to `length` in slices of `size`, the last one shorter."""
    return (slice(start, min(start + size, length)) for start in range(0, length, size))


def standard_normal(shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """float32 of N(0, 1). A large array is drawn in chunks, each by a generator of its own, spawned from `rng`."""
    array = np.empty(shape, np.float32)
    flat = array.reshape(-1)
    chunks = list(slices(flat.size, _CHUNK))
    generators = rng.spawn(len(chunks)) if len(chunks) > 1 else [rng]

    def draw(task: tuple[np.random.Generator, slice]) -> None:
        generator, chunk = task
        generator.standard_normal(dtype=np.float32, out=flat[chunk])

    each(draw, zip(generators, chunks, strict=True))
    return array
