"""Where elements lie in the operands and results of the matrix kernels under kernels/, so that NumPy can check them.

Operands are bytes, K-major: tiles of matrix_sm90.cu have the swizzle of 128 bytes (PTX ISA, "Shared Memory Matrix
Layout"), slabs of matrix.cu are two halves of 16 bytes of K. Accumulators have the order of PTX ISA, "Register
Fragments for wgmma.mma_async.m64nNk16".
"""

from __future__ import annotations

import numpy as np

K_BYTES = 128  # of a tile
SLAB_BYTES = 32  # of K in a slab
BITS = {"f16": 16, "bf16": 16, "tf32": 32, "e4m3": 8}  # of an element, by unit


def operand(raw: np.ndarray, rows: int, unit: str) -> np.ndarray:
    """(rows, K) float32 from consecutive tiles of matrix_sm90.cu, uint8."""
    tiles = raw.reshape(-1, rows, 8, 16)  # tile, row, place of a chunk, byte
    row, chunk = np.arange(rows)[:, None], np.arange(8)[None, :]
    return decoded(_by_rows(tiles[:, row, chunk ^ (row & 7)]), unit)


def slabs(raw: np.ndarray, rows: int, unit: str) -> np.ndarray:
    """(rows, K) float32 from consecutive slabs of matrix.cu, uint8."""
    return decoded(_by_rows(raw.reshape(-1, 2, rows, 16).transpose(0, 2, 1, 3)), unit)


def _by_rows(tiles: np.ndarray) -> np.ndarray:
    """tile, row, chunk, byte -> row, byte of K."""
    return np.ascontiguousarray(tiles.transpose(1, 0, 2, 3)).reshape(tiles.shape[1], -1)


def accumulators(raw: np.ndarray) -> np.ndarray:
    """(128, 256) float32 from a tile of C of matrix_sm90.cu: uint8, bfloat16 in the order of the registers."""
    values: np.ndarray = decoded(raw, "bf16").reshape(2, 16, 4, 8, 4, 2, 2, 2)
    # warpgroup, vector, warp, lane / 4, lane % 4, which 8 columns, which 8 rows, which of 2 columns
    return values.transpose(0, 2, 6, 3, 1, 5, 4, 7).reshape(128, 256)


def decoded(raw: np.ndarray, unit: str) -> np.ndarray:
    """float32 from bytes, the last axis BITS / 8 times as long."""
    if unit == "bf16":
        return (raw.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    if unit == "f16":
        return raw.view(np.float16).astype(np.float32)
    values: np.ndarray = raw.view(np.float32) if unit == "tf32" else _E4M3[raw]
    return values


def _e4m3() -> np.ndarray:
    """OCP 8-bit Floating Point Specification, E4M3: bias 7, no infinity, all ones is NaN."""
    bits = np.arange(256)
    exponent, mantissa = bits >> 3 & 15, bits & 7
    size = np.where(exponent > 0, np.ldexp(1 + mantissa / 8, exponent - 7), np.ldexp(mantissa / 8, -6))
    size = np.where(bits & 127 == 127, np.nan, size)
    return np.where(bits & 128, -size, size).astype(np.float32)


_E4M3 = _e4m3()
