"""What is known of predicates: where control has come by a branch, and by what another predicate is made of.

A condition is a predicate in SSA form and the value that it has, for each lane on its own.
"""

from __future__ import annotations

from collections.abc import Iterable

from harness.emulator.cfg import Block
from harness.emulator.ptx import Ins, Not, Operand, Reg
from harness.emulator.ssa import UNDEFINED, definitions

Condition = tuple[str, bool]
Conditions = frozenset[Condition]


def condition(o: Operand, value: bool) -> Condition | None:
    """That a predicate operand, perhaps a negated one, has a value."""
    if isinstance(o, Not):
        return condition(o.reg, not value)
    return (o.name, value) if isinstance(o, Reg) and o.name != UNDEFINED else None


def guard(i: Ins) -> Condition | None:
    """Under what an instruction is executed, or a branch taken."""
    return condition(Reg(i.pred), not i.negated) if i.pred else None


def on_edge(b: Block, target: Block) -> Condition | None:
    """What a lane that goes from b to target knows."""
    if b.branch is None or b.branch.base != "bra" or len(b.succ) != 2:
        return None
    taken = guard(b.branch)
    if taken is None or b.succ[0] is b.succ[1]:
        return None
    return taken if target is b.succ[0] else (taken[0], not taken[1])


class Facts:
    """Conditions of one function and what follows from them."""

    def __init__(self, blocks: list[Block], types: dict[str, str]):
        self._made = {n: i for b in blocks for i in b.ins for n in definitions(i, types) if types[n] == "pred"}
        self._known: dict[Block, Conditions] = {}
        for b in blocks:  # in layout order: dominators come first
            edge = on_edge(b.pred[0], b) if len(b.pred) == 1 else None
            before = self._known[b.idom] if b.idom is not None and b.idom is not b else frozenset()
            self._known[b] = before | self.closed([edge])

    def closed(self, conditions: Iterable[Condition | None]) -> Conditions:
        """The conditions with all that they imply."""
        found: set[Condition] = set()
        todo = [c for c in conditions if c is not None]
        while todo:
            c = todo.pop()
            if c not in found:
                found.add(c)
                todo += self._implied(*c)
        return frozenset(found)

    def at(self, b: Block) -> Conditions:
        """What every lane that runs b knows, by the branches that lead there."""
        return self._known[b]

    def _implied(self, name: str, value: bool) -> list[Condition]:
        i = self._made.get(name)
        if i is None or i.pred or i.mods[-1] != "pred":
            return []
        match i.base, len(i.args):
            case "mov", 2:
                sources = [condition(i.args[1], value)]
            case "not", 2:
                sources = [condition(i.args[1], not value)]
            case ("and", 3) if value:
                sources = [condition(a, True) for a in i.args[1:]]
            case ("or", 3) if not value:
                sources = [condition(a, False) for a in i.args[1:]]
            case _:
                sources = []
        return [c for c in sources if c is not None]


def settled_by(i: Ins, place: int) -> Condition | None:
    """The condition under which operand `place` of an instruction matters to its result; None where it always may."""
    if not 0 < place < 3:
        return None
    if i.base in ("and", "or") and i.mods[-1] == "pred" and len(i.args) == 3:
        return condition(i.args[3 - place], i.base == "and")
    if i.base == "selp" and len(i.args) == 4:
        return condition(i.args[3], place == 1)
    if i.base in ("setp", "set") and len(i.args) == 4 and {"and", "or"} & set(i.mods):
        return condition(i.args[3], "and" in i.mods)
    return None
