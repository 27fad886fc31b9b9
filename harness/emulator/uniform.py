"""Which values are the same in all lanes of a warp, and where lanes may be waiting.

Execution model (the lowering follows it literally). A warp keeps, for each block, the set of lanes that wait to
enter it, and always runs the first block in layout order that has any; a loop header that lanes come back to counts
as standing behind the loop's last block, so a turn of a loop is finished by all of its lanes before the next one
starts. `Flow.pending[b]` is the static superset of blocks in which lanes may wait while b runs. Where it is empty, b
runs with all live lanes together.

From the model follows when one scalar can stand for a value (no separate control-dependence theory is needed):

* An operation on uniform operands is uniform: a block runs once per turn, for all lanes that reach it.
* A phi is uniform if its inputs are and all lanes enter by one edge; if an edge can be taken while lanes already
  wait at its end (`target in pending[source]`, or both sides of a split lead there), they differ.
* A value of a loop that lanes leave in different turns differs outside of it (temporal divergence); its definition
  must then keep the lanes that left (`Flow.blended`).
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from harness.emulator.cfg import Block, Loop
from harness.emulator.ptx import Imm, Ins, Reg, is_special
from harness.emulator.ssa import UNDEFINED, definitions, registers, uses

_VARYING_SPECIAL = {"%laneid", "%lanemask_lt", "%lanemask_le", "%lanemask_eq", "%lanemask_ge", "%lanemask_gt"}
_UNIFORM_RESULT = {"vote", "activemask", "redux"}  # one value for all participating lanes
_VARYING_RESULT = {"shfl", "atom", "match", "elect", "mma", "wmma", "ldmatrix", "movmatrix"}


@dataclass(frozen=True)
class Shape:
    """What is known of the launch when a kernel is compiled."""

    whole_rows: bool  # every warp lies in one row of threads: tid.x is base + lane, tid.y and tid.z are uniform
    full_warps: bool  # every warp has 32 threads
    single: bool = False  # one thread (solve() itself): everything is uniform


@dataclass
class Flow:
    """Result of the analysis."""

    varying: set[str] = field(default_factory=set)
    thread_x: set[str] = field(default_factory=set)  # copies of %tid.x under whole_rows: base + lane
    pending: dict[Block, set[Block]] = field(default_factory=dict)
    blended: set[str] = field(default_factory=set)  # definitions that keep the value of lanes that left the loop

    def splits(self, b: Block) -> bool:
        """Whether lanes may part at the end of b."""
        i = b.branch
        if i is None or len(b.succ) < 2:
            return False
        if i.base == "brx":
            return any(r in self.varying for r in registers(i.args[0]))
        return i.pred in self.varying

    def lane_base(self, i: Ins) -> bool:
        """Whether i computes a uniform value from %tid.x: its bits above the lane number."""
        if len(i.args) != 3 or not isinstance(i.args[1], Reg) or i.args[1].name not in self.thread_x:
            return False
        amount = i.args[2]
        if not isinstance(amount, Imm):
            return False
        match i.base:
            case "shr":
                return amount.value >= 5
            case "div":
                return amount.value > 0 and amount.value % 32 == 0
            case "and":
                return amount.value & 31 == 0
        return False


def order_key(b: Block, candidate: Block) -> tuple[int, int, int]:
    """Place of a block with waiting lanes in the order of execution, seen from b."""
    if candidate.index <= b.index:
        for loop in b.loops():
            if loop.header is candidate:
                return (loop.last, 1, -candidate.index)
    return (candidate.index, 0, 0)


def agenda(b: Block, waiting: set[Block]) -> list[Block]:
    """The blocks of `waiting` in the order in which they are considered after b."""
    return sorted(waiting, key=lambda c: order_key(b, c))


def analyse(blocks: list[Block], types: dict[str, str], shape: Shape) -> Flow:
    """Find varying values, pending sets and blended definitions for one function in SSA form."""
    flow = Flow(pending={b: set() for b in blocks})
    if shape.single:
        return flow
    if shape.whole_rows:
        _find_thread_x(blocks, types, flow)
    home = {name: b for b in blocks for i in b.ins for name in definitions(i, types)}
    home |= {name: b for b in blocks for name in b.phis}
    escapes = _escaping(blocks, types, home)
    while True:
        before = (len(flow.varying), sum(map(len, flow.pending.values())), len(flow.blended))
        _propagate(blocks, types, flow, shape)
        leaky = _pending(blocks, flow)
        for loop in leaky:
            for name in escapes[loop]:
                flow.varying.add(name)
                if name not in home[name].phis:
                    flow.blended.add(name)
        if before == (len(flow.varying), sum(map(len, flow.pending.values())), len(flow.blended)):
            return flow


def _find_thread_x(blocks: list[Block], types: dict[str, str], flow: Flow) -> None:
    changed = True
    while changed:
        changed = False
        for b in blocks:
            for i in b.ins:
                if i.base not in ("mov", "cvt") or i.pred or len(i.args) != 2 or len(i.mods) < 2:
                    continue
                if not isinstance(i.args[1], Reg):
                    continue
                to, of = i.mods[-2], i.mods[-1]
                if i.base == "cvt" and (of not in ("u32", "s32") or to not in ("u64", "s64", "u32", "s32")):
                    continue
                target = definitions(i, types)
                known = i.args[1].name == "%tid.x" or i.args[1].name in flow.thread_x
                if target and known and target[0] not in flow.thread_x:
                    flow.thread_x.update(target)
                    changed = True


def _escaping(blocks: list[Block], types: dict[str, str], home: dict[str, Block]) -> dict[Loop, set[str]]:
    """For each loop the values defined in it and used outside of it."""
    escapes: dict[Loop, set[str]] = defaultdict(set)

    def note(name: str, user: Block) -> None:
        if name in home:
            for loop in home[name].loops():
                if user not in loop.blocks:
                    escapes[loop].add(name)

    for b in blocks:
        for i in [*b.ins, *([b.branch] if b.branch else [])]:
            for name in uses(i, types):
                note(name, b)
        for inputs in b.phis.values():
            for name in inputs.values():
                # The copy is made on the edge, hence by lanes that are just leaving the predecessor:
                # a use at the predecessor itself.
                if name != UNDEFINED:
                    for p, n in inputs.items():
                        if n == name:
                            note(name, p)
    return escapes


def _propagate(blocks: list[Block], types: dict[str, str], flow: Flow, shape: Shape) -> None:
    changed = True
    while changed:
        changed = False
        for b in blocks:
            for name, inputs in b.phis.items():
                if name not in flow.varying and _phi_varies(b, inputs, flow):
                    flow.varying.add(name)
                    changed = True
            for i in b.ins:
                names = definitions(i, types)
                if names and names[0] not in flow.varying and _varies(i, types, flow, shape):
                    flow.varying.update(names)
                    changed = True


def _phi_varies(b: Block, inputs: dict[Block, str], flow: Flow) -> bool:
    if any(n in flow.varying for n in inputs.values()):
        return True
    if len(set(inputs.values())) < 2:
        return False
    return any(b in flow.pending[p] for p in inputs)


def _varies(i: Ins, types: dict[str, str], flow: Flow, shape: Shape) -> bool:
    if i.base in _UNIFORM_RESULT:
        return bool(i.args[1:]) and any(r in flow.varying or special_varies(r, shape) for r in registers(i.args[-1]))
    if i.base in _VARYING_RESULT or (i.base == "mbarrier" and i.mods[1] in ("arrive", "arrive_drop")):
        return True
    if i.base == "call":
        return True
    if i.base == "ld" and (i.mods[1:2] == ("local",) or "local" in i.mods or _generic(i)):
        return True
    if flow.lane_base(i):
        return False
    if any(u in flow.varying for u in uses(i, types)):
        return True
    for a in i.args[1:]:
        for r in registers(a):
            if is_special(r) and special_varies(r, shape):
                return True
    return False


def _generic(i: Ins) -> bool:
    return not {"global", "shared", "const", "param", "local", "slot"} & {m.split("::")[0] for m in i.mods}


def special_varies(name: str, shape: Shape) -> bool:
    if shape.single:
        return False
    if name.startswith("%tid."):
        return name == "%tid.x" or not shape.whole_rows
    return name in _VARYING_SPECIAL


def _pending(blocks: list[Block], flow: Flow) -> list[Loop]:
    """Grow flow.pending to its fixed point; returns the loops that lanes may leave while others stay."""
    leaky: dict[Loop, None] = {}
    changed = True
    while changed:
        changed = False
        for b in blocks:
            for start in transitions(b, flow):
                waiting = set(start)
                for loop in b.loops():
                    if waiting & loop.blocks and any(c not in loop.blocks for c in start & set(b.succ)):
                        leaky[loop] = None
                for c in agenda(b, waiting):
                    waiting.discard(c)
                    if not waiting <= flow.pending[c]:
                        flow.pending[c] |= waiting
                        changed = True
    return list(leaky)


def transitions(b: Block, flow: Flow) -> list[set[Block]]:
    """Sets of blocks that may have waiting lanes when b ends, one for each way in which its lanes may go."""
    here = flow.pending[b]
    if not b.succ:
        return [set(here)] if here else []
    if flow.splits(b):
        return [here | set(b.succ)] + ([] if here else [{s} for s in b.succ])
    return [here | {s} for s in b.succ]
