"""What one execution of a PTX block amounts to: instructions by class, floating-point operations by kind, accesses.

Generated code counts how often each block runs, and with how many lanes; times the census of the block this gives the
counts of a launch (harness/emulator/counters.py). An instruction whose guard is false for a lane counts as run by it.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

from harness.emulator.cfg import Block
from harness.emulator.ptx import Ins

CLASSES = ("memory", "arithmetic", "special", "tensor", "integer", "convert", "warp", "synchronisation", "control")
FLOP_KINDS = ("fma", "add_mul", "special", "tensor")

_MATRIX = re.compile(r"m(\d+)n(\d+)k(\d+)$")
_FLOATS = {"f16", "f16x2", "bf16", "bf16x2", "f32", "f32x2", "f64"}
_FLOPS = {"fma": ("fma", 2), "mad": ("fma", 2), "add": ("add_mul", 1), "sub": ("add_mul", 1), "mul": ("add_mul", 1)}
_BASES = {
    "memory": "ld ldu st atom red cp ldmatrix stmatrix prefetch prefetchu discard applypriority multimem st_async",
    "special": "rcp sqrt rsqrt ex2 lg2 sin cos tanh div",
    "tensor": "mma wgmma tcgen05",
    "convert": "cvt cvta mov movmatrix isspacep prmt",
    "warp": "shfl vote match activemask redux elect",
    "synchronisation": "bar barrier membar fence mbarrier nanosleep griddepcontrol",
    "control": "bra brx ret exit call trap brkpt pmevent setmaxnreg",
}
_CLASS_OF = {base: name for name, bases in _BASES.items() for base in bases.split()}


@dataclass(frozen=True)
class Site:
    """An instruction that accesses memory. `block`: of the census, whose executions are its requests; -1 where
    a guard decides, so that its requests are counted one by one."""

    space: str  # "global", "const", "shared", "local", "generic": one of them, lane by lane, "copy": global to shared
    kind: str  # "read", "write", "atomic"
    nbytes: int  # a lane
    block: int = -1
    uniform: bool = False  # one address for all lanes


@dataclass
class BlockCensus:
    """One execution of a block. FLOPs of tensor instructions are of a warp, everything else of a lane."""

    partial: bool = False  # whether the lanes of each execution are counted; else there are 32
    instructions: Counter[str] = field(default_factory=Counter)
    flops: Counter[str] = field(default_factory=Counter)


@dataclass
class Census:
    """Of one lowered function: its blocks by their number in layout order, its memory accesses by instruction."""

    blocks: list[BlockCensus] = field(default_factory=list)
    sites: dict[int, Site] = field(default_factory=dict)

    def take(self, b: Block, partial: bool) -> int:
        """Add a block; returns its number."""
        of = BlockCensus(partial)
        for i in [*b.ins, *([b.branch] if b.branch else [])]:
            of.instructions[class_of(i)] += 1
            kind, amount = flops_of(i)
            if amount:
                of.flops[kind] += amount
        self.blocks.append(of)
        return len(self.blocks) - 1

    def fuse(self, number: int) -> None:
        """A multiplication and an addition of block `number` run as one fma, as the assembler would have it."""
        if number >= 0:
            self.blocks[number].flops["add_mul"] -= 2
            self.blocks[number].flops["fma"] += 2


def class_of(i: Ins) -> str:
    """One of CLASSES. Parameters and arguments of inlined functions are registers, not memory."""
    if i.base in ("ld", "st") and {"param", "slot"} & set(i.mods[1:]):
        return "convert"
    if i.base == "wmma":
        return "tensor" if "mma" in i.mods else "memory"
    if i.base in _CLASS_OF and (i.base != "div" or i.mods[-1] in _FLOATS):
        return _CLASS_OF[i.base]
    return "arithmetic" if i.mods[-1] in _FLOATS and i.base not in ("setp", "selp", "slct") else "integer"


def flops_of(i: Ins) -> tuple[str, int]:
    """(kind, operations): of a warp for tensor instructions (a multiply-add counts as two, in integers as well), of a
    lane for all others."""
    if class_of(i) == "tensor":
        shape = next((m for m in map(_MATRIX.match, i.mods) if m), None)
        if shape is None:
            return "tensor", 0
        m, n, k = map(int, shape.groups())
        return "tensor", 2 * m * n * k // (4 if i.base == "wgmma" else 1)  # four warps share a wgmma
    kind = i.mods[-1]
    if kind not in _FLOATS:
        return "", 0
    width = 2 if kind.endswith("x2") else 1
    if class_of(i) == "special":
        return "special", width
    name, amount = _FLOPS.get(i.base, ("", 0))
    return name, amount * width
