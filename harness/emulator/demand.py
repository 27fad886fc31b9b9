"""For what, and under which conditions, the program wants the values of some loads.

Three questions on the same graph, from a load's results through the operations that compute with them: the conditions
that hold wherever a value is wanted (`wanted_under`), whether every way on wants it (`surely_wanted`), and whether
taint.py can follow it to all of its uses (`followed`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from harness.emulator.cfg import Block
from harness.emulator.conditions import Conditions, Facts, guard, on_edge, settled_by
from harness.emulator.ptx import Ins
from harness.emulator.ssa import definitions, registers, uses
from harness.emulator.undefined import guards, needs_all, passes, sinks

_MOST_LOADS = 4  # LLVM's two-entry-phi-node-folding-threshold: instructions that it moves ahead of a condition


def computes(i: Ins) -> bool:
    """Whether an instruction does nothing but to compute a result in its own lane."""
    return passes(i) and i.base != "shfl"


class Demand:
    """Who uses what in one function, in SSA form."""

    def __init__(self, blocks: list[Block], types: dict[str, str], loads: Iterable[Ins] = ()):
        """loads: those that the compiler might have moved."""
        self.blocks, self.types, self.facts = blocks, types, Facts(blocks, types)
        self.homes = {name: b for b in blocks for name in b.phis}  # where each value is defined
        self.homes |= {name: b for b in blocks for i in b.ins for name in definitions(i, types)}
        self._users: dict[str, list[tuple[Block, Ins]]] = defaultdict(list)
        self._copies: dict[str, list[tuple[Block, Block, str]]] = defaultdict(list)  # (from, to, phi)
        for b in blocks:
            for i in _all(b):
                for name in dict.fromkeys(uses(i, types)):
                    self._users[name].append((b, i))
            for phi, inputs in b.phis.items():
                for p, name in inputs.items():
                    self._copies[name].append((p, b, phi))

        self._loads: dict[str, int] = {}  # value -> loads that are made for nothing else
        self._own_work: set[str] = set()  # takes more of them than a compiler would move: the program makes them anyway
        self._count(loads)

    def _count(self, loads: Iterable[Ins]) -> None:
        """In layout order values come before what is made of them."""
        own = {id(i) for i in loads}
        for i in (i for b in self.blocks for i in b.ins):
            count = int(id(i) in own)
            if computes(i):
                count = sum(self._loads.get(n, 0) for n in dict.fromkeys(uses(i, self.types)))
            for name in definitions(i, self.types):
                alone = len(self._users[name]) == 1 and not self._copies[name]
                self._loads[name] = count if alone else 0
                if count > _MOST_LOADS:
                    self._own_work.add(name)

    def users(self, name: str) -> list[tuple[Block, Ins]]:
        """The instructions that use a value, with their blocks."""
        return self._users[name]

    def reached(self, names: Iterable[str]) -> set[str]:
        """These values and all that are computed from them."""
        found: set[str] = set()
        todo = list(names)
        while todo:
            name = todo.pop()
            if name not in found:
                found.add(name)
                todo += [phi for _, _, phi in self._copies[name]]
                todo += [d for _, i in self._users[name] if computes(i) for d in definitions(i, self.types)]
        return found

    def followed(self, name: str) -> frozenset[str] | None:
        """All that is computed from a value; None where undefined.analyse would lose sight of a use."""
        reached = self.reached([name])
        seen = all(self._seen(i, n) for n in reached for _, i in self._users[n])
        return frozenset(reached) if seen else None

    @staticmethod
    def _seen(i: Ins, name: str) -> bool:
        if computes(i):
            return not needs_all(i) or name == i.pred
        return any(set(s.names) == {name} for s in (*sinks(i), *guards(i)))

    # -- under which conditions

    def wanted_under(self, names: Iterable[str]) -> dict[str, Conditions | None]:
        """For each value, and those computed from it, what holds in every lane wherever it is wanted; None: nowhere."""
        reached = sorted(self.reached(names))
        found: dict[str, Conditions | None] = dict.fromkeys(reached)
        changed = True
        while changed:
            changed = False
            for name in reached:
                new = self._common(name, found)
                changed |= new != found[name]
                found[name] = new
        return found

    def _common(self, name: str, found: dict[str, Conditions | None]) -> Conditions | None:
        ways = [way for b, i in self._users[name] for way in self._ways(name, b, i, found)]
        for p, b, phi in self._copies[name]:
            further = found[phi]
            if further is not None:
                ways.append(self.facts.at(p) | self.facts.closed([on_edge(p, b)]) | self._still(further, p, b))
        return _either(ways)

    def _still(self, conditions: Conditions, p: Block, b: Block) -> Conditions:
        """What conditions behind an edge say before it: in another turn of a loop its predicates may differ."""
        if b.loop is None or b.loop.header is not b or p not in b.loop.blocks:
            return conditions
        return frozenset(c for c in conditions if self.homes[c[0]] not in b.loop.blocks)

    def _ways(self, name: str, b: Block, i: Ins, found: dict[str, Conditions | None]) -> list[Conditions | None]:
        """What holds where one instruction wants a value, for each of the operands that it is."""
        here = self.facts.at(b)
        if name == i.pred:
            return [here]
        here = here | self.facts.closed([guard(i)] if i.base != "bra" else [])
        if not computes(i):
            return [here]
        further = _either([found[d] for d in definitions(i, self.types)])
        if further is None:
            return [None]
        places = [k for k, a in enumerate(i.args) if k and name in registers(a)]
        kept = [here | further] if name in i.previous.values() else []
        return [*kept, *(here | further | self.facts.closed([settled_by(i, k)]) for k in places)]

    # -- on every way

    def surely_wanted(self, loads: list[Ins], given: Conditions = frozenset()) -> set[str]:
        """Those of the loads' results that are used on every way on from there, where `given` holds. A way into a trap
        or a loop without end does not count."""
        names = self.reached(d for i in loads for d in definitions(i, self.types))
        wanted = {b: set(names) for b in self.blocks}  # at the start of each block
        ids = {id(i) for i in loads}
        sure: set[str] = set()
        changed = True
        while changed:
            changed = False
            sure = set()
            for b in reversed(self.blocks):
                new = self._before(b, self._behind(b, wanted, names, given), names, given, ids, sure)
                changed |= new != wanted[b]
                wanted[b] = new
        return sure

    def _behind(self, b: Block, wanted: dict[Block, set[str]], names: set[str], given: Conditions) -> set[str]:
        """What is wanted at the end of b, whichever way is taken."""
        if not b.succ and b.branch is not None and b.branch.base != "trap":
            return set()
        result = set(names)
        for s in b.succ:
            edge = on_edge(b, s)
            if edge is None or (edge[0], not edge[1]) not in given:
                result &= (wanted[s] - s.phis.keys()) | {n[b] for phi, n in s.phis.items() if phi in wanted[s]}
        return result & names

    def _before(self, b: Block, wanted: set[str], names: set[str], given: Conditions, ids: set[int],
                sure: set[str]) -> set[str]:  # fmt: skip
        """What is wanted at the start of b, from what is at its end; notes the loads on the way."""
        for i in reversed(_all(b)):
            results = definitions(i, self.types)
            needed = not wanted.isdisjoint(results) or not self._own_work.isdisjoint(results)
            if id(i) in ids:
                sure.update(wanted.intersection(results))
            wanted.difference_update(results)
            wanted.update(n for n in self._surely_used(i, needed, given) if n in names)
        return wanted

    def _surely_used(self, i: Ins, needed: bool, given: Conditions) -> set[str]:
        """Operands that an instruction certainly makes use of."""
        pure = computes(i)
        if pure and not needed:
            return set()
        found = {i.pred} if i.pred else set()
        if i.pred and guard(i) not in given:
            return found
        for k, a in enumerate(i.args):
            only = settled_by(i, k) if pure else None
            if (k or not definitions(i, self.types)) and (only is None or only in given):
                found.update(registers(a))
        return found


def _either(ways: list[Conditions | None]) -> Conditions | None:
    """What holds on all of the ways; None stands for one that is never gone."""
    real = [w for w in ways if w is not None]
    return frozenset.intersection(*real) if real else None


def _all(b: Block) -> list[Ins]:
    return [*b.ins, *([b.branch] if b.branch else [])]
