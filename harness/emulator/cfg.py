"""Control flow: basic blocks, dominators, natural loops, and the order in which blocks are laid out.

The order is topological with every loop contiguous and its header first. The lowering relies on it: a warp
always runs its first pending block in this order, hence all lanes that will reach a block in this turn of its
loop have arrived before it runs (harness/emulator/uniform.py builds on that).
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

from harness.emulator.errors import UnsupportedPtx
from harness.emulator.ptx import Function, Ins, Label, Sym

SUSPENDING = {"bar", "barrier"}  # the warp leaves the function here and comes back behind it


@dataclass(eq=False)
class Loop:
    header: Block
    blocks: set[Block] = field(default_factory=set)
    parent: Loop | None = None
    last: int = 0  # highest index of its blocks


@dataclass(eq=False)
class Block:
    """Straight code. `branch` is the instruction that ends it (bra with a guard, brx, ret, exit, trap) or None."""

    label: str
    ins: list[Ins] = field(default_factory=list)
    branch: Ins | None = None
    succ: list[Block] = field(default_factory=list)  # of a guarded bra: taken, then fall through
    pred: list[Block] = field(default_factory=list)
    index: int = -1
    loop: Loop | None = None
    idom: Block | None = None
    phis: dict[str, dict[Block, str]] = field(default_factory=dict)  # SSA name -> value by predecessor

    def __repr__(self) -> str:
        return f"<B{self.index} {self.label}>"

    def loops(self) -> list[Loop]:
        """Loops around this block, innermost first."""
        found, loop = [], self.loop
        while loop:
            found.append(loop)
            loop = loop.parent
        return found


def build(f: Function, suspend_at_calls: bool) -> list[Block]:
    """Blocks of f in layout order, the entry first. Unreachable code is dropped.

    Raises UnsupportedPtx for a jump into the middle of a loop (irreducible control flow)."""
    blocks = _split(f, suspend_at_calls)
    _own_exits(blocks)
    entry = blocks[0]
    if entry.pred:  # a loop back to the very start: give the function an entry of its own
        first = Block("$entry", succ=[entry])
        entry.pred.append(first)
        entry = first
    rpo = _reverse_postorder(entry)
    for b in rpo:
        b.pred = [p for p in b.pred if p.index >= 0]
    _dominators(rpo)
    loops = _loops(rpo)
    return _layout(rpo, loops)


def _split(f: Function, suspend_at_calls: bool) -> list[Block]:
    blocks = [Block("$start")]
    by_label: dict[str, Block] = {}

    def start(label: str) -> Block:
        blocks.append(Block(label))
        return blocks[-1]

    current = blocks[0]
    for item in f.body:
        if isinstance(item, Label):
            if current.ins or current.branch or current is not blocks[-1] or current is blocks[0]:
                current = start(item.name)
            by_label[item.name] = current
            continue
        if current.branch:
            current = start(f"$after{len(blocks)}")
        if item.base in ("bra", "ret", "exit", "brx", "trap"):
            current.branch = item
        else:
            current.ins.append(item)
            if item.base in SUSPENDING or (suspend_at_calls and item.base == "call"):
                current = start(f"$resume{len(blocks)}")
    for b, following in zip(blocks, [*blocks[1:], None], strict=True):
        _connect(b, following, by_label, blocks)
    return blocks


def _connect(b: Block, following: Block | None, by_label: dict[str, Block], blocks: list[Block]) -> None:
    i = b.branch
    if i is None:
        if following is None:
            b.branch = Ins("ret", ())
        else:
            b.succ = [following]
    elif i.base == "bra":
        target = _labelled(i, i.args[0] if i.args else None, by_label)
        if i.pred and following is not None and following is not target:
            b.succ = [target, following]
        else:
            b.succ, b.branch = [target], None
    elif i.base == "brx":
        b.succ = list(dict.fromkeys(_labelled(i, Sym(t), by_label) for t in i.targets))
    elif i.pred:  # guarded ret, exit or trap: a branch to a block of its own
        out = Block("$out", branch=Ins(i.op, i.args, loc=i.loc))
        if following is None:  # the function ends here: lanes without the guard return as well
            following = Block("$end", branch=Ins("ret", (), loc=i.loc))
            blocks.append(following)
        b.branch = Ins("bra", (Sym("$out"),), i.pred, i.negated, i.loc)
        b.succ = [out, following]
        blocks.append(out)
    if i is not None and i.base == "brx":
        i.args = (*i.args[:1], *(Sym(by_label[t].label) for t in i.targets))
        i.targets = tuple(by_label[t].label for t in i.targets)
    for s in b.succ:
        s.pred.append(b)


def _labelled(i: Ins, o: object, by_label: dict[str, Block]) -> Block:
    """The block that a branch names."""
    if not isinstance(o, Sym) or o.name not in by_label:
        name = o.name if isinstance(o, Sym) else str(o)
        raise UnsupportedPtx(f"{i.op} to {name}, which is no label of the function", i.loc)
    return by_label[o.name]


def _own_exits(blocks: list[Block]) -> None:
    """Give each way into a bare `ret` its own copy: lanes that leave early then leave at once, and the
    rest of the kernel does not count as divergent."""
    for b in list(blocks):
        if b.ins or b.branch is None or b.branch.base not in ("ret", "exit") or len(b.pred) < 2:
            continue
        for p in b.pred[1:]:
            if p.branch is not None and p.branch.base == "brx":
                continue
            copy = Block(b.label + "'", branch=b.branch, pred=[p])
            p.succ = [copy if s is b else s for s in p.succ]
            blocks.append(copy)
        b.pred = [p for p in b.pred if b in p.succ]


def _reverse_postorder(entry: Block) -> list[Block]:
    order: list[Block] = []
    seen = {entry}
    stack = [(entry, iter(entry.succ))]
    while stack:
        block, successors = stack[-1]
        for s in successors:
            if s not in seen:
                seen.add(s)
                stack.append((s, iter(s.succ)))
                break
        else:
            order.append(block)
            stack.pop()
    order.reverse()
    for n, b in enumerate(order):
        b.index = n
    return order


def _dominators(rpo: list[Block]) -> None:
    """Cooper, Harvey, Kennedy: A Simple, Fast Dominance Algorithm (2001)."""
    entry = rpo[0]
    entry.idom = entry
    changed = True
    while changed:
        changed = False
        for b in rpo[1:]:
            new: Block | None = None
            for p in b.pred:
                if p.idom is not None:
                    new = p if new is None else _common(p, new)
            if new is not b.idom:
                b.idom, changed = new, True


def _common(a: Block, b: Block) -> Block:
    while a is not b:
        while a.index > b.index:
            assert a.idom is not None
            a = a.idom
        while b.index > a.index:
            assert b.idom is not None
            b = b.idom
    return a


def dominates(a: Block, b: Block) -> bool:
    while b is not a:
        if b.idom is b or b.idom is None:
            return False
        b = b.idom
    return True


def _loops(rpo: list[Block]) -> list[Loop]:
    by_header: dict[Block, Loop] = {}
    for b in rpo:
        for s in b.succ:
            if s.index > b.index:
                continue
            if not dominates(s, b):
                raise UnsupportedPtx("a jump into the middle of a loop (irreducible control flow)",
                                     b.branch.loc if b.branch else None)  # fmt: skip
            loop = by_header.setdefault(s, Loop(s, {s}))
            todo = [b]
            while todo:
                t = todo.pop()
                if t not in loop.blocks:
                    loop.blocks.add(t)
                    todo += t.pred
    loops = sorted(by_header.values(), key=lambda loop: len(loop.blocks))
    for n, loop in enumerate(loops):
        for b in loop.blocks:
            if b.loop is None:
                b.loop = loop
        loop.parent = next((o for o in loops[n + 1 :] if loop.header in o.blocks), None)
    return loops


def _layout(rpo: list[Block], loops: list[Loop]) -> list[Block]:
    rank = {b: b.index for b in rpo}
    order: list[Block] = []

    def emit(inside: Loop | None) -> None:
        """Topological order of the blocks and child loops directly inside `inside`."""

        def item(b: Block) -> Block | None:
            """The block, or the header of the child loop, that stands for b at this level."""
            top = None
            for loop in b.loops():
                if loop is inside:
                    break
                top = loop
            else:
                if inside is not None:
                    return None
            return top.header if top else b

        members = [b for b in rpo if (inside is None or b in inside.blocks) and item(b) is b]
        waiting = dict.fromkeys(members, 0)
        edges: dict[Block, set[Block]] = {b: set() for b in members}
        for b in rpo:
            if inside is not None and b not in inside.blocks:
                continue
            a = item(b)
            assert a is not None
            for s in b.succ:
                t = item(s) if inside is None or s in inside.blocks else None
                if t is None or t is a or (inside is not None and t is inside.header) or t in edges[a]:
                    continue
                edges[a].add(t)
                waiting[t] += 1

        def priority(b: Block) -> tuple[bool, int]:
            return (bool(b.succ), rank[b])  # lanes that only leave go first

        ready = [(priority(b), n, b) for n, b in enumerate(members) if waiting[b] == 0]
        heapq.heapify(ready)
        count = len(members)
        while ready:
            _, _, b = heapq.heappop(ready)
            child = next((x for x in loops if x.header is b and x is not inside), None)
            if child is not None:
                emit(child)
            else:
                order.append(b)
            for t in edges[b]:
                waiting[t] -= 1
                if waiting[t] == 0:
                    count += 1
                    heapq.heappush(ready, (priority(t), count, t))

    emit(None)
    assert len(order) == len(rpo)
    for n, b in enumerate(order):
        b.index = n
    for loop in loops:
        loop.last = max(b.index for b in loop.blocks)
    return order
