"""Where the bits of a 32-bit value come from: from arithmetic of floats, or from elsewhere.

A NaN that the cards compute is always 0x7FFFFFFF; one that is only moved keeps its pattern. LLVM's arithmetic leaves
other patterns, and making each one canonical would cost as much as the arithmetic itself. So that is done where the
pattern can be seen: where a value that comes from nothing but arithmetic is stored or used as an integer
(`computed`), and at once where it is going to be mixed with values from elsewhere, which must stay (`eager`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from harness.emulator.cfg import Block
from harness.emulator.ptx import Imm, Ins, Operand, Reg, Vec, is_special
from harness.emulator.ssa import UNDEFINED, definitions

_ARITHMETIC = {"add", "sub", "mul", "fma", "mad", "div", "rcp", "sqrt", "rsqrt", "ex2", "lg2", "sin", "cos", "tanh",
               "min", "max", "neg", "abs"}  # fmt: skip
_COPIES = {"mov": 1, "shfl": 1, "selp": 2, "slct": 2}  # opcode -> operands that the result may be
_ELSEWHERE, _COMPUTED = 1, 2


@dataclass
class Origins:
    """Names of registers."""

    computed: set[str] = field(default_factory=set)  # from nothing but arithmetic: their NaNs have no pattern to keep
    eager: set[str] = field(default_factory=set)  # may meet others: arithmetic that defines them makes NaNs canonical


def copied(i: Ins) -> tuple[Operand, ...]:
    """What an instruction only moves; empty for one that does anything else."""
    parameter = i.mods[1:2] == ("slot",)  # of an inlined function
    sources = i.args[1:2] if parameter else i.args[1 : 1 + _COPIES.get(i.base, 0)]
    plain = all(isinstance(o, Reg | Imm) for o in sources) and not any(isinstance(o, Vec) for o in i.args[:1])
    return sources if plain else ()


def computes(i: Ins) -> bool:
    """Whether an instruction's result is a float of 32 bits that the card computed. Conversions from f64 and bf16 keep
    what they can of a NaN's pattern."""
    if i.base in _ARITHMETIC:
        return i.mods[-1] == "f32"
    return i.base == "cvt" and i.mods[-2:-1] == ("f32",) and i.mods[-1] not in ("f64", "bf16")


def find(blocks: list[Block], types: dict[str, str]) -> Origins:
    """Follow every value from its definition through moves and phis."""
    inputs, flags = _graph(blocks, types)
    changed = True
    while changed:
        changed = False
        for name, sources in inputs.items():
            new = flags[name]
            for s in sources:
                new |= flags.get(s, _ELSEWHERE)
            changed |= new != flags[name]
            flags[name] = new
    origins = Origins({name for name, f in flags.items() if f == _COMPUTED})
    mixed = [name for name, f in flags.items() if f == _COMPUTED | _ELSEWHERE]
    origins.eager = _reached(mixed, {n: [s for s in inputs[n] if flags.get(s, 0) & _COMPUTED] for n in inputs})
    return origins


def _reached(todo: list[str], inputs: dict[str, list[str]]) -> set[str]:
    """Everything that the names may be copies of, and they themselves."""
    found: set[str] = set()
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            todo += inputs[name]
    return found


def _graph(blocks: list[Block], types: dict[str, str]) -> tuple[dict[str, list[str]], dict[str, int]]:
    """(what each value may be a copy of, what it is by its own definition)."""
    inputs: dict[str, list[str]] = {}
    flags: dict[str, int] = {}
    for b in blocks:
        for name, sources in b.phis.items():
            inputs[name], flags[name] = [s for s in sources.values() if s != UNDEFINED], 0
        for i in b.ins:
            moved = copied(i)
            for name in definitions(i, types):
                inputs[name] = [*_names(moved), *(p for p in i.previous.values() if p != UNDEFINED)]
                flags[name] = _COMPUTED if computes(i) else _own(moved)
    return inputs, flags


def _names(moved: tuple[Operand, ...]) -> Iterator[str]:
    return (o.name for o in moved if isinstance(o, Reg) and not is_special(o.name) and o.name != UNDEFINED)


def _own(moved: tuple[Operand, ...]) -> int:
    """A constant that is no NaN, or a register, says nothing by itself."""
    for o in moved:
        if isinstance(o, Imm) and o.bits != 64 and (o.value & 0x7FFFFFFF) <= 0x7F800000:
            continue
        if not isinstance(o, Reg) or is_special(o.name):
            return _ELSEWHERE
    return 0 if moved else _ELSEWHERE
