"""Loads that the compiler has moved ahead of the condition under which the program makes them.

NVVM turns `a && s[0] > x` and `a ? s[0] : 0` into a load for all threads, whose value is then dropped where `a` is
false. It may do so where the address is a constant, since such a load cannot fault: of a scalar or an element by a
constant index in local or shared memory, or a __device__ variable (LLVM, isSafeToSpeculativelyExecute). On the card
that is harmless. To the searches for uninitialised reads and races it would look like a fault that the program does
not have.

So such a load is put back under its condition: it becomes a guarded one, as if the program's own branch were there, and
all checks, of the readers that a later write may race with as well, see what the program asked for. The condition must
be known where the load is, or be computable there without passing over a write. Where it is not (the conditions of an
unrolled loop, say, each of which lets the value through in its turn), lanes that read what was never written get a
value that taint.py follows; if one is used after all, the load is reported.

A load whose value every way on makes use of is left alone, and so is all that no compiler would move.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from harness.emulator.cfg import Block, dominates
from harness.emulator.conditions import Condition, Conditions
from harness.emulator.demand import Demand, computes
from harness.emulator.ptx import SIZES, Addr, Imm, Ins, Not, Operand, Reg, Sym, Vec
from harness.emulator.sharing import ORDERED
from harness.emulator.ssa import definitions, uses

_MOST = 128  # loads of a function; one with more is unrolled far, and each costs time to analyse and to follow
_SPACES = {"local", "shared", "global"}


@dataclass(frozen=True)
class Deferred:
    """A load that is reported where its value is used."""

    load: Ins
    told: Ins  # what stands for it in the report
    name: str  # its result
    reached: frozenset[str]  # and all that is computed from that
    space: str
    place: Sym  # its constant address


def restore(blocks: list[Block], types: dict[str, str]) -> list[Deferred]:
    """Put loads back under their conditions, in place; returns those whose report must wait for a use. The blocks are
    in SSA form."""
    places = _Places(blocks)
    found = [(b, i) for b in blocks for i in b.ins if places.of(i) is not None]
    if not found:
        return []
    demand = Demand(blocks, types, (i for _, i in found))
    sure = demand.surely_wanted([i for _, i in found])
    found = [(b, i) for b, i in found if not sure.issuperset(definitions(i, types))]
    if len(found) > _MOST:
        return []
    found = [(b, part) for b, i in found for part in _parts(b, i)]
    found = [(b, i) for b, i in found if not sure.issuperset(definitions(i, types))]
    at = {id(i): place for _, i in found if (place := places.of(i)) is not None}
    under = _put_back(found, demand, types)
    rest = [i for given, loads in under.items() for i in _unsure(loads, given, demand)]
    return [*_defer(rest, at, demand)]


def _put_back(found: list[tuple[Block, Ins]], demand: Demand,
              types: dict[str, str]) -> dict[Conditions, list[Ins]]:  # fmt: skip
    """Guard the loads; returns them by what then holds where they run."""
    wanted = demand.wanted_under(n for _, i in found for n in definitions(i, types))
    waiting = {id(i) for _, i in found}
    under: dict[Conditions, list[Ins]] = {}
    for b, i in found:
        position = _Position(b, i, demand, waiting)
        under.setdefault(position.put_back(wanted[definitions(i, types)[0]]), []).append(i)
    return under


def _unsure(loads: list[Ins], given: Conditions, demand: Demand) -> list[Ins]:
    """Those whose value may still be dropped."""
    sure = demand.surely_wanted(loads, given)
    return [i for i in loads if not sure.issuperset(definitions(i, demand.types))]


def _defer(loads: list[Ins], at: dict[int, Sym], demand: Demand) -> Iterator[Deferred]:
    for i in loads:
        (name,) = definitions(i, demand.types)
        reached = demand.followed(name) if space_of(i) != "global" else None  # a module's variables start with values
        if reached is not None:
            yield Deferred(i, _told(i, name, demand), name, reached, space_of(i), at[id(i)])


def _told(i: Ins, name: str, demand: Demand) -> Ins:
    """The load, on the line of its first use where it was moved out of the loop with that: NVVM gives it no line."""
    home, users = demand.homes[name], demand.users(name)
    if not users or any(b is home for b, _ in users):
        return i
    return Ins(i.op, i.args, loc=users[0][1].loc or i.loc)


def _parts(b: Block, i: Ins) -> list[Ins]:
    """A load of a vector as one of each element, in its place: the compiler may have joined loads that the program
    makes under different conditions."""
    address = i.args[1]
    if not isinstance(i.args[0], Vec) or not isinstance(address, Addr):
        return [i]
    op = ".".join(m for m in i.mods if m not in ("v2", "v4", "v8"))
    size = SIZES[i.mods[-1]]
    wanted = [(k, x) for k, x in enumerate(i.args[0].items) if isinstance(x, Reg)]
    parts = [Ins(op, (x, Addr(address.base, address.offset + k * size)), loc=i.loc) for k, x in wanted]
    at = next(k for k, x in enumerate(b.ins) if x is i)
    b.ins[at : at + 1] = parts
    return parts


def space_of(i: Ins) -> str:
    return next((m for m in i.mods[1:] if m in _SPACES), "")


class _Places:
    """Constant addresses."""

    def __init__(self, blocks: list[Block]):
        self._made: dict[str, tuple[Operand, int]] = {}
        for i in (i for b in blocks for i in b.ins if not i.pred):
            match i.base, i.args:
                case ("mov" | "cvta"), (Reg(name), (Reg() | Sym()) as source):
                    self._made[name] = source, 0
                case "add", (Reg(name), Reg() as source, Imm(offset)):
                    self._made[name] = source, offset

    def of(self, i: Ins) -> Sym | None:
        """What a plain load reads, if it is always the same place."""
        plain = i.base == "ld" and not i.pred and not ORDERED & set(i.mods) and i.mods[-1] in SIZES
        if not plain or i.mods[-1] == "b128" or not space_of(i) or len(i.args) < 2 or not isinstance(i.args[1], Addr):
            return None
        base, offset = i.args[1].base, i.args[1].offset
        for _ in range(len(self._made) + 1):  # a cycle leads nowhere
            if isinstance(base, Sym):
                return Sym(base.name, base.offset + offset)
            if not isinstance(base, Reg) or base.name not in self._made:
                return None
            base, more = self._made[base.name]  # type: ignore[assignment]
            offset += more
        return None


class _Position:
    """A load in its block, and what can be known there."""

    def __init__(self, b: Block, load: Ins, demand: Demand, unsure: set[int]):
        """unsure: loads, by id, that may have to go under a condition themselves."""
        self._b, self._load, self._unsure = b, load, unsure
        self._facts, self._types, self._homes = demand.facts, demand.types, demand.homes

    def put_back(self, wanted: Conditions | None) -> Conditions:
        """Guard the load by the conditions under which its value is wanted, as far as they can be known there; returns
        all that then holds where it runs."""
        here = self._facts.at(self._b)
        known = [c for c in sorted((wanted or frozenset()) - here) if self._bring(c[0])]
        known = self._least(known)
        if known:
            self._guard(known)
        return here | self._facts.closed(known)

    def _least(self, conditions: list[Condition]) -> list[Condition]:
        """Without those that others imply."""
        kept: list[Condition] = []
        for c in conditions:
            if c not in self._facts.closed(kept):
                kept = [k for k in kept if k not in self._facts.closed([c])] + [c]
        return kept

    def _index(self, i: Ins) -> int:
        return next(k for k, x in enumerate(self._b.ins) if x is i)

    def _bring(self, name: str) -> bool:
        """Whether a predicate has its value in front of the load, if need be after moving there what computes it."""
        home = self._homes.get(name)
        if home is None or not dominates(home, self._b):
            return False
        start = self._index(self._load)
        behind = self._b.ins[start + 1 :]
        chain = self._chain(name, behind)
        if chain:
            moved = {id(i) for i in chain}
            self._b.ins[start:] = [*chain, self._load, *(i for i in behind if id(i) not in moved)]
        return chain is not None

    def _chain(self, name: str, behind: list[Ins]) -> list[Ins] | None:
        """What of the instructions behind the load computes a predicate; None if it cannot be moved before it."""
        wanted, reads = {name}, False
        chain: list[Ins] = []
        for i in reversed(behind):
            if not wanted.isdisjoint(definitions(i, self._types)):
                if not computes(i) and (not _reads(i) or id(i) in self._unsure):
                    return None
                reads |= not computes(i)
                chain.insert(0, i)
                wanted.update(uses(i, self._types))
            elif reads and not computes(i) and not _reads(i):
                return None  # a write, or a meeting with other threads, that the read would pass over
        return chain if wanted.isdisjoint(definitions(self._load, self._types)) else None

    def _guard(self, conditions: list[Condition]) -> None:
        """Lanes outside get zeros: nobody looks at them."""
        load, new = self._load, []
        for name in definitions(load, self._types):
            zero = f"{name}$none"
            self._types[zero] = self._types[name]
            new.append(Ins(f"mov.{self._types[name]}", (Reg(zero), Imm(0)), loc=load.loc))
            load.previous[name] = zero
        (load.pred, value), *rest = conditions
        load.negated = not value
        for k, c in enumerate(rest):
            both = f"{definitions(load, self._types)[0]}$when{k}"
            self._types[both] = "pred"
            new.append(Ins("and.pred", (Reg(both), _operand((load.pred, not load.negated)), _operand(c)), loc=load.loc))
            load.pred, load.negated = both, False
        at = self._index(load)
        self._b.ins[at:at] = new


def _operand(c: Condition) -> Operand:
    return Reg(c[0]) if c[1] else Not(Reg(c[0]))


def _reads(i: Ins) -> bool:
    """A plain load: it can be exchanged with other loads."""
    return i.base == "ld" and not i.pred and not ORDERED & set(i.mods)
