"""Which values may come from a register that no path has written, and where that matters.

A register without a value is ssa.UNDEFINED; so is, in lanes that read what was never written, the result of a load that
the compiler may have moved (speculation.py). What is stored to global or shared memory, an address, a condition, an
operand of an atomic or of a barrier must be defined (`sinks`); nearly always no undefined value can reach one, and no
code is made for any of this. Otherwise taint.py follows the values while the kernel runs.

Better silent than wrong: what memory holds is the business of its own shadow; a word is undefined only as a whole (a
half of it, or an element of a vector that is stored, may well be left out on purpose); votes, matches and matrix
operations give defined values, and so does every opcode that is not listed here. NVVM may have removed the use, or the
variable, long before: this finds what is left.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from harness.emulator.cfg import Block
from harness.emulator.emitter import MEMORY_LIKE
from harness.emulator.ptx import Addr, Ins, Reg, Vec
from harness.emulator.ssa import UNDEFINED, definitions, registers

# The result is undefined where any operand is.
_ANY = {
    "mov", "cvt", "cvta", "add", "sub", "mul", "mad", "mul24", "mad24", "fma", "div", "rem", "min", "max", "abs", "neg",
    "not", "xor", "shl", "shr", "shf", "bfe", "setp", "set", "ex2", "lg2", "sqrt", "rsqrt", "rcp", "sin", "cos", "tanh",
    "copysign", "testp", "popc", "clz", "brev", "bfind", "sad", "selp", "shfl",
}  # fmt: skip
_ALL = {"and", "or"}  # where all are: these also cut words up and put them together
_HARMLESS = {"prefetch", "prefetchu", "discard", "applypriority"}  # with any address
VALUE, ADDRESS, CONDITION = range(3)  # what an undefined value was used as; in Hazard.tag


@dataclass(frozen=True)
class Sink:
    """Registers that must not all be undefined in a lane, and what they are used as."""

    role: int
    names: tuple[str, ...]


def sinks(i: Ins) -> Iterator[Sink]:
    """Where it matters to an instruction whether its operands are defined; its guard apart."""
    if i.base not in _HARMLESS:
        for a in i.args:
            if isinstance(a, Addr) and isinstance(a.base, Reg):
                yield Sink(ADDRESS, (a.base.name,))
    if i.base == "st" and {"global", "shared"} & {m.split("::")[0] for m in i.mods}:
        yield Sink(VALUE, tuple(r for a in i.args[1:2] for r in registers(a)))
    elif i.base in ("atom", "red"):
        for a in i.args[1 + (i.base == "atom") :]:
            yield Sink(VALUE, tuple(registers(a)))
    elif i.base in ("bar", "barrier"):
        for a in i.args["red" in i.mods :]:
            yield Sink(VALUE, tuple(registers(a)))
    elif i.base == "bra" and i.pred:
        yield Sink(CONDITION, (i.pred,))
    elif i.base == "brx":
        yield Sink(CONDITION, tuple(r for a in i.args[:1] for r in registers(a)))


def guards(i: Ins) -> Iterator[Sink]:
    """The guard of a memory or warp instruction."""
    if i.pred and i.base in MEMORY_LIKE:
        yield Sink(CONDITION, (i.pred,))


def passes(i: Ins) -> bool:
    """Whether an undefined operand may make the result undefined."""
    return i.base in _ANY or i.base in _ALL or (i.base in ("ld", "st") and i.mods[1:2] == ("slot",))


def needs_all(i: Ins) -> bool:
    """Whether the result is undefined only where all operands are, such as both halves of a word."""
    packs = (i.base == "mov" and any(isinstance(a, Vec) for a in i.args[1:2])) or (i.base == "cvt" and len(i.args) > 2)
    return packs or (i.base in _ALL and i.mods[-1] != "pred")


def operands(i: Ins) -> list[str]:
    """Registers among the operands that count: of a shuffle, its value and lane; none where a constant settles it."""
    parts = [registers(a) for a in i.args[1 : 3 if i.base == "shfl" else None]] if passes(i) else []
    return [] if needs_all(i) and not all(parts) else [r for part in parts for r in part]


def _sources(i: Ins) -> list[str]:
    """Operands, the guard of what passes them on, and the values that a guard keeps."""
    return [*operands(i), *([i.pred] if i.pred and passes(i) else []), *i.previous.values()]


def _may_be(i: Ins, undefined: set[str]) -> bool:
    """Whether the result may be undefined in some lane, if these may be."""
    if needs_all(i) and not i.pred:
        found = operands(i)
        return bool(found) and all(name in undefined for name in found)
    return any(s in undefined for s in _sources(i))


def analyse(blocks: list[Block], types: dict[str, str], sources: Iterable[str] = (UNDEFINED,)) -> frozenset[str]:
    """The values, by name, that may be undefined in some lane and can reach a sink; the sources themselves among them.
    Empty where nothing can come of it. The blocks are in SSA form."""
    undefined = closure(blocks, types, sources)
    wanted = {n for b in blocks for i in _all(b) for s in (*sinks(i), *guards(i)) for n in s.names} & undefined
    if not wanted:
        return frozenset()
    before = -1
    while len(wanted) != before:
        before = len(wanted)
        for b in blocks:
            for name, inputs in b.phis.items():
                if name in wanted:
                    wanted.update(inputs.values())
            for i in b.ins:
                if not wanted.isdisjoint(definitions(i, types)):
                    wanted.update(_sources(i))
        wanted &= undefined
    return frozenset(wanted)


def closure(blocks: list[Block], types: dict[str, str], sources: Iterable[str]) -> set[str]:
    """The values that may be undefined where these are."""
    undefined, before = set(sources), 0
    while len(undefined) != before:
        before = len(undefined)
        for b in blocks:
            undefined.update(n for n, inputs in b.phis.items() if not undefined.isdisjoint(inputs.values()))
            for i in b.ins:
                if _may_be(i, undefined):
                    undefined.update(definitions(i, types))
    return undefined


def _all(b: Block) -> list[Ins]:
    return [*b.ins, *([b.branch] if b.branch else [])]
