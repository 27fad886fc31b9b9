"""A whole kernel from a family and a seed, CUDA text of many of them, and the inputs that they run on.

Every kernel has the parameters (const unsigned* in, u64* out, Mine* mine, Cells* total, unsigned u0, unsigned u1):
WORDS_EACH input words a thread, its variables at the end (64 bits each, then the block's cells), 64 bytes of its own,
and cells that the grid changes together.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from tests.random_ptx.exchange import Exchanger
from tests.random_ptx.families import FAMILIES
from tests.random_ptx.operations import helpers
from tests.random_ptx.types import BITS, CONVERSIONS, WORD, C, float_bits, integer_bits
from tests.random_ptx.writer import BLOCK, CELLS, shown

BLOCKS, THREADS = 2, 64
WORDS_EACH = 16
MINE_WORDS = 16  # 32-bit words of a thread's own memory
POOL = 8192  # words that inputs are taken from
CELL_WORDS = 24  # 64-bit words of a block's and of the grid's common cells
INCLUDES = "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n"
_UNIONS = """
union Mine { unsigned char u8[64]; unsigned short u16[32]; unsigned u32[16]; u64_t u64[8]; float f32[16]; double f64[8];
  uint2 uint2_[8]; uint4 uint4_[4]; ushort4 ushort4_[8]; uchar4 uchar4_[16]; };
union Row { unsigned char u8[16 * T]; unsigned short u16[8 * T]; unsigned u32[4 * T]; u64_t u64[2 * T]; float f32[4 * T]; double f64[2 * T];
  uint2 uint2_[2 * T]; uint4 uint4_[T]; ushort4 ushort4_[2 * T]; };
union WarpRow { unsigned char u8[32]; unsigned short u16[32]; unsigned u32[32]; u64_t u64[32]; };
union Own { unsigned u32[1]; u64_t u64[1]; float f32[1]; double f64[1]; };
union Cells { unsigned u32[48]; int s32[48]; u64_t u64[24]; };
"""


@dataclass(frozen=True)
class Program:
    """One kernel. `kinds`: types of the variables that each thread leaves in `out`."""

    family: str
    seed: int
    name: str
    cuda: str
    kinds: tuple[str, ...]


def program(family: str, seed: int) -> Program:
    """The kernel of a seed."""
    rng = random.Random(f"{family} {seed}")
    f = FAMILIES[family].of(seed)
    name = f"{family}_{seed}_"
    texts: list[str] = []
    returned: list[str] = []
    for n in range(rng.randrange(3)):
        w = Exchanger(rng, name, f, inside=True, helpers=list(returned), result=rng.choice(f.types))
        texts.append(w.function(f"{name}f{n}"))
        returned.append(w.result)
    texts.append(_kernel(Exchanger(rng, name, f, helpers=returned, returns=rng.random() < 0.25), name))
    return Program(family, seed, name, "\n".join(texts), f.types)


def textless(family: str, seed: int) -> Program:
    """The same without its text: all that is needed to run what is already compiled."""
    return Program(family, seed, f"{family}_{seed}_", "", FAMILIES[family].of(seed).types)


def _kernel(w: Exchanger, name: str) -> str:
    variables = w.family.variables()
    stores = " ".join(f"out[at * {len(variables)} + {n}] = {shown(kind, v)};" for n, (v, kind) in enumerate(variables))
    out = [f"#define {name}FINISH {stores}"]
    out.append(f'extern "C" __global__ void {name}(const unsigned* __restrict__ in, u64_t* out, Mine* mines, Cells* total, unsigned u0, unsigned u1) {{')
    out.append("  __shared__ Row row; __shared__ WarpRow wrow[T / 32]; __shared__ Own own[T]; __shared__ Cells sums;")
    out.append("  const unsigned t = threadIdx.x, block = blockIdx.x, lane = t & 31u, warp = t >> 5, at = block * T + t;")
    out.append("  unsigned u2 = in[block], w0 = warp; Mine* mine = mines + at;")
    out.append("  row.uint4_[t] = make_uint4(t, 0u, 0u, 0u); wrow[warp].u64[lane] = own[t].u64[0] = t;")
    out.append(f"  if (t < {CELL_WORDS}) sums.u64[t] = in[t]; __syncthreads();")
    for n, (v, kind) in enumerate(variables):
        word = f"in[at * {WORDS_EACH} + {n}]"
        wide = f"((u64_t){word} << 32 | in[at * {WORDS_EACH} + {n + 3}])"
        out.append(f"  {C[kind]} {v} = as_{kind}(({C[WORD[BITS[kind]]]}){wide if BITS[kind] == 64 else word});")
    first = w.family.types[0]
    out.append(f"  {C[first]} cell[{CELLS}]; for (int k = 0; k < {CELLS}; ++k) cell[k] = {first}_0;")
    for _ in range(w.rng.randint(3, 6)):
        w.statement(BLOCK)
    out += w.lines
    out.append(f"  {name}FINISH")
    if not w.returns:
        out.append(f"  __syncthreads(); if (t < {CELL_WORDS}) out[{BLOCKS * THREADS * len(variables)} + block * {CELL_WORDS} + t] = sums.u64[t];")
    return "\n".join([*out, "}"])


def prelude(threads: int = THREADS) -> str:
    return f"{INCLUDES}#define T {threads}u\n#define WORDS {BLOCKS * threads * WORDS_EACH}u\n{CONVERSIONS}{helpers()}\n{_UNIONS}"


def module(programs: Sequence[Program]) -> str:
    """One CUDA text with all the kernels."""
    return prelude() + "\n".join(p.cuda for p in programs)


@dataclass(frozen=True)
class Inputs:
    """Arguments of one launch; `out`, `mine` and `total` are read and written."""

    words: np.ndarray
    out: np.ndarray
    mine: np.ndarray
    total: np.ndarray
    u0: int
    u1: int

    def arguments(self) -> list[np.ndarray | int]:
        """In the order of the parameters."""
        return [self.words, self.out, self.mine, self.total, self.u0, self.u1]


def inputs(p: Program, launch: int) -> Inputs:
    """What a launch gets: words of many edges in launch 0, small numbers in launch 1."""
    rng = np.random.default_rng([zlib.crc32(p.name.encode()), launch])
    count = BLOCKS * THREADS
    words = _words(launch == 1)[rng.integers(0, POOL, count * WORDS_EACH)]
    out = np.zeros(count * len(p.kinds) + BLOCKS * CELL_WORDS, np.uint64)
    mine = rng.integers(0, 1 << 32, count * MINE_WORDS, dtype=np.uint32)
    total = rng.integers(0, 1 << 64, CELL_WORDS, dtype=np.uint64)
    return Inputs(words, out, mine, total, int(rng.integers(0, 1 << 31)), int(rng.integers(0, 9)))


@cache
def _words(small: bool) -> np.ndarray:
    rng = random.Random(small)
    return np.array([_word(rng, small) for _ in range(POOL)], np.uint32)


def _word(rng: random.Random, small: bool) -> int:
    """A word whose bits are an edge of some type."""
    pick = rng.random()
    if small:
        return float_bits("f32", rng) & 0xFFC00000 if pick < 0.3 else rng.randrange(8)
    if pick < 0.35:
        return float_bits("f32", rng)
    if pick < 0.5:
        return float_bits("f16", rng) << 16 | float_bits("f16", rng)
    return float_bits("f64", rng) >> 32 if pick < 0.6 else integer_bits(32, rng)
