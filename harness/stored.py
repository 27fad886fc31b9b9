"""Numbers as the tensors of a dtype track hold them: drawn in float32, rounded to the type, widened to compute with.

Large arrays are converted in chunks on all cores.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from harness import parallel

TYPES: dict[str, np.dtype[Any]] = {
    "float32": np.dtype(np.float32),
    "float16": np.dtype(np.float16),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "float8_e4m3": np.dtype(ml_dtypes.float8_e4m3fn),
}
_LARGEST = {np.dtype(kind): float(ml_dtypes.finfo(kind).max) for kind in TYPES.values()}
_BYTES = np.arange(256, dtype=np.uint8)  # every number of a type of one byte
_AT_ONCE = 1 << 20  # elements


def element(dtype: str) -> np.dtype[Any]:
    """The type of queries and outputs in a track: its own, but bfloat16 where only a cache holds 8 bits."""
    return TYPES["bfloat16" if dtype == "float8_e4m3" else dtype]


def kv_element(dtype: str) -> np.dtype[Any]:
    """The type of a cache of keys and values."""
    return TYPES[dtype]


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
