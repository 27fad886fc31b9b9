"""Static single assignment over PTX registers.

Only registers with several definitions, or with a use that no definition dominates, are renamed; NVVM's code is
nearly SSA already. Phis are pruned by liveness (Cytron et al. 1991). A guarded definition keeps the register's
old value where the guard is false: `Ins.previous` names it.
"""

from __future__ import annotations

from collections import defaultdict

from harness.emulator.cfg import Block
from harness.emulator.ptx import Addr, Ins, Not, Operand, Pair, Reg, Vec

UNDEFINED = "undef"  # the value of a register that was never written

_NO_RESULT = {
    "st", "bra", "brx", "bar", "barrier", "ret", "exit", "trap", "membar", "fence", "red", "nanosleep", "prefetch",
    "prefetchu", "discard", "brkpt", "pmevent", "call", "griddepcontrol", "setmaxnreg", "applypriority", "wgmma",
    "cp", "stmatrix",
}  # fmt: skip


def has_result(i: Ins) -> bool:
    """Whether the first operand is a destination."""
    if i.base in ("bar", "barrier"):
        return "red" in i.mods
    if i.base == "mbarrier":
        return bool({"arrive", "arrive_drop", "test_wait", "try_wait", "pending_count"} & set(i.mods))
    return i.base not in _NO_RESULT and i.mods[:2] != ("wmma", "store")


def registers(o: Operand) -> list[str]:
    match o:
        case Reg(name):
            return [name]
        case Not(reg):
            return [reg.name]
        case Addr(base, _):
            return registers(base)
        case Vec(items):
            return [n for i in items for n in registers(i)]
        case Pair(first, second):
            return registers(first) + registers(second)
    return []


def definitions(i: Ins, types: dict[str, str]) -> list[str]:
    if i.base == "call":
        return [r for r in i.returns if r in types]
    if i.base == "st" and i.mods[1:2] == ("slot",):
        return registers(i.args[0])
    if not has_result(i) or not i.args:
        return []
    return [r for r in registers(i.args[0]) if r in types]


def uses(i: Ins, types: dict[str, str]) -> list[str]:
    sources = i.args[1:] if has_result(i) or (i.base == "st" and i.mods[1:2] == ("slot",)) else i.args
    found = [r for a in sources for r in registers(a) if r in types]
    if i.pred:
        found.append(i.pred)
    found += i.previous.values()
    return found


def convert(blocks: list[Block], types: dict[str, str]) -> bool:
    """Rewrite the blocks in place; `types` gains the new names. Every name then has one definition. Returns whether
    UNDEFINED may be among the values."""
    sites: dict[str, list[Block]] = defaultdict(list)
    guarded: set[str] = set()
    for b in blocks:
        for i in b.ins:
            for r in definitions(i, types):
                sites[r].append(b)
                if i.pred:
                    guarded.add(r)
    live = live_in(blocks, types)
    entry_live = live[blocks[0]]
    renamed = {r for r, s in sites.items() if len(s) > 1} | guarded | (entry_live - {UNDEFINED})
    if not renamed:
        return False
    _insert_phis(blocks, sites, renamed, live)
    _rename(blocks, renamed, types)
    return bool(guarded or entry_live - {UNDEFINED})


def live_in(blocks: list[Block], types: dict[str, str]) -> dict[Block, set[str]]:
    """Names live at the start of each block; a phi's inputs are live at the end of its predecessors."""
    gen: dict[Block, set[str]] = {}
    kill: dict[Block, set[str]] = {}
    for b in blocks:
        g: set[str] = set()
        k: set[str] = set(b.phis)
        for i in [*b.ins, *([b.branch] if b.branch else [])]:
            g.update(u for u in uses(i, types) if u not in k)
            k.update(definitions(i, types))
        gen[b], kill[b] = g, k
    result = {b: set(gen[b]) for b in blocks}
    changed = True
    while changed:
        changed = False
        for b in reversed(blocks):
            out: set[str] = set()
            for s in b.succ:
                out |= result[s] - s.phis.keys()
                out |= {inputs[b] for inputs in s.phis.values() if b in inputs}
            new = gen[b] | (out - kill[b])
            if new != result[b]:
                result[b], changed = new, True
    for names in result.values():
        names.discard(UNDEFINED)
    return result


def _insert_phis(blocks: list[Block], sites: dict[str, list[Block]], renamed: set[str],
                 live: dict[Block, set[str]]) -> None:  # fmt: skip
    frontier: dict[Block, set[Block]] = defaultdict(set)
    for b in blocks:
        if len(b.pred) > 1:
            for p in b.pred:
                runner = p
                while runner is not b.idom:
                    frontier[runner].add(b)
                    assert runner.idom is not None
                    runner = runner.idom
    for r in sorted(renamed):  # the same text from the same function: object code is found by it
        todo = [*dict.fromkeys(sites[r]), blocks[0]]
        placed: set[Block] = set()
        while todo:
            for b in frontier[todo.pop()]:
                if b not in placed and r in live[b]:
                    placed.add(b)
                    b.phis[r] = {}
                    todo.append(b)


def _rename(blocks: list[Block], renamed: set[str], types: dict[str, str]) -> None:
    children: dict[Block, list[Block]] = defaultdict(list)
    for b in blocks[1:]:
        assert b.idom is not None
        children[b.idom].append(b)
    counter: dict[str, int] = defaultdict(int)

    def fresh(r: str) -> str:
        counter[r] += 1
        name = f"{r}#{counter[r]}"
        types[name] = types[r]
        return name

    phi_names: dict[Block, dict[str, str]] = {b: {r: fresh(r) for r in b.phis} for b in blocks}
    new_phis: dict[Block, dict[str, dict[Block, str]]] = {b: {n: {} for n in phi_names[b].values()} for b in blocks}
    stack: list[tuple[Block, dict[str, str]]] = [(blocks[0], {})]
    while stack:
        b, current = stack.pop()
        current = current | phi_names[b]
        for i in b.ins:
            _rename_instruction(i, current, renamed, types, fresh)
        if b.branch is not None:
            _rename_uses(b.branch, current, renamed)
        for s in b.succ:
            for r, name in phi_names[s].items():
                new_phis[s][name][b] = current.get(r, UNDEFINED)
        stack += [(c, current) for c in children[b]]
    for b in blocks:
        b.phis = new_phis[b]


def _rename_uses(i: Ins, current: dict[str, str], renamed: set[str]) -> None:
    def lookup(name: str) -> str:
        return current.get(name, UNDEFINED) if name in renamed else name

    first = 1 if has_result(i) or (i.base == "st" and i.mods[1:2] == ("slot",)) else 0
    i.args = (*i.args[:first], *(_map(a, lookup) for a in i.args[first:]))
    if i.pred:
        i.pred = lookup(i.pred)


def _rename_instruction(i: Ins, current: dict[str, str], renamed: set[str], types: dict[str, str], fresh) -> None:  # type: ignore[no-untyped-def]
    _rename_uses(i, current, renamed)
    names = {}
    for r in definitions(i, types):
        if r in renamed:
            names[r] = fresh(r)
            if i.pred:
                i.previous[names[r]] = current.get(r, UNDEFINED)
    if names:
        if i.base == "call":
            i.returns = tuple(names.get(r, r) for r in i.returns)
        else:
            i.args = (_map(i.args[0], lambda n: names.get(n, n)), *i.args[1:])
        current.update(names)


def _map(o: Operand, lookup) -> Operand:  # type: ignore[no-untyped-def]
    match o:
        case Reg(name):
            return Reg(lookup(name))
        case Not(reg):
            return Not(Reg(lookup(reg.name)))
        case Addr(base, offset) if isinstance(base, Reg):
            return Addr(Reg(lookup(base.name)), offset)
        case Vec(items):
            return Vec(tuple(_map(i, lookup) for i in items))
        case Pair(first, second):
            return Pair(_map(first, lookup), _map(second, lookup))
    return o
