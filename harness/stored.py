"""Numbers as the tensors of a dtype track hold them: drawn in float32, rounded to the type, widened to compute with.

Large arrays are converted in chunks on all cores.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from harness import parallel
from harness.dtypes import ELEMENTS, KV_ELEMENTS, NUMPY_TYPES

FLOAT32 = np.dtype(np.float32)
_LARGEST = {np.dtype(kind): float(ml_dtypes.finfo(kind).max) for kind in NUMPY_TYPES.values() if kind is not np.int32}
_BYTES = np.arange(256, dtype=np.uint8)  # every number of a type of one byte
_AT_ONCE = 1 << 20  # elements


def element(dtype: str) -> np.dtype[Any]:
    """The type of queries and outputs in a track."""
    return np.dtype(NUMPY_TYPES[ELEMENTS[dtype]])


def kv_element(dtype: str) -> np.dtype[Any]:
    """The type of a cache of keys and values in a track."""
    return np.dtype(NUMPY_TYPES[KV_ELEMENTS[dtype]])


def largest(kind: np.dtype[Any]) -> float:
    """The largest finite number of a type."""
    return _LARGEST[kind]


def rounded(array: np.ndarray, kind: np.dtype[Any]) -> np.ndarray:
    """The nearest numbers of a type, ties to even; what is too large becomes the largest, NaN stays. The array itself
    where it is of that type."""
    if array.dtype == kind:
        return array
    found, source = np.empty(array.shape, kind), array.reshape(-1)
    target, most = found.reshape(-1), largest(kind)

    def fill(part: slice) -> None:
        target[part] = np.clip(source[part], -most, most).astype(kind)

    parallel.each(fill, parallel.slices(source.size, _AT_ONCE))
    return found


def widened(array: np.ndarray, kind: type[np.floating[Any]] = np.float32) -> np.ndarray:
    """The same numbers in float32 or float64; the array itself where it is of that type."""
    if array.dtype == kind:
        return array
    if array.itemsize == 1:  # a table is faster than ml_dtypes' conversion
        return np.asarray(np.take(_BYTES.view(array.dtype).astype(kind), array.view(np.uint8)))
    return np.asarray(array.astype(kind))
