"""The dtypes that a problem may have tracks for: how C and NumPy write their elements, and which header C needs.

A track is named by the dtype of its inputs. In float8_e4m3 only the KV cache has eight bits: queries and outputs are
bfloat16, as in every serving engine that stores its cache in fp8.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np  # isort: skip  # first: where it is missing, ml_dtypes does not say so

import ml_dtypes

# dtype -> C type of tensors whose type problem.yaml gives as `element`, and as `kv_element`
ELEMENTS: Mapping[str, str] = {
    "float32": "float", "float16": "__half", "bfloat16": "__nv_bfloat16", "float8_e4m3": "__nv_bfloat16",
}  # fmt: skip
KV_ELEMENTS: Mapping[str, str] = {**ELEMENTS, "float8_e4m3": "__nv_fp8_e4m3"}
DTYPES = tuple(ELEMENTS)

NUMPY_TYPES: Mapping[str, type[np.generic]] = {  # of every C type that a tensor may have
    "float": np.float32, "int": np.int32, "__half": np.float16, "__nv_bfloat16": ml_dtypes.bfloat16,
    "__nv_fp8_e4m3": ml_dtypes.float8_e4m3fn,
}  # fmt: skip
HEADERS: Mapping[str, str] = {
    "__half": "cuda_fp16.h", "__nv_bfloat16": "cuda_bf16.h", "__nv_fp8_e4m3": "cuda_fp8.h",
}  # fmt: skip


def is_real(dtype: np.dtype[Any]) -> bool:
    """Whether arrays of this type can hold NaN. NumPy files the types of ml_dtypes under "other", not under floats."""
    return dtype.kind == "f" or dtype in (ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn)
