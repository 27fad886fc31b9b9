"""Follows undefined values from lane to lane while a kernel runs.

Each value of undefined.analyse has a word with a bit for every lane in which it is undefined. Copies, phis and
arithmetic pass the bits on, a select passes those of the operand that it takes, a shuffle those of the lane that it
reads; a false predicate settles an "and" however undefined the other is. At a sink the bits of running lanes are a
hazard. The words live in allocas beside the values, and in the frame of a warp that leaves.

Where the value may be that of a load whose report waits for its use (speculation.py), the hazard names the load.
"""

from __future__ import annotations

from collections.abc import Sequence

from harness.emulator import access
from harness.emulator import layout as L
from harness.emulator.access.base import hazard_helper
from harness.emulator.cfg import Block
from harness.emulator.emitter import HANDLERS, MEMORY_LIKE, Emitter
from harness.emulator.ptx import SIZES, Ins, Operand, Reg
from harness.emulator.speculation import Deferred
from harness.emulator.ssa import UNDEFINED, definitions, registers
from harness.emulator.undefined import Sink, closure, guards, needs_all, operands, passes, sinks

_HAZARDS = {"local": L.H_UNINIT_LOCAL, "shared": L.H_UNINIT_SHARED}


class Taint:
    """Emits what keeps the bits of undefined lanes, and the checks; nothing where `names` (of `analyse`) is empty."""

    def __init__(self, lo: Emitter, names: frozenset[str], deferred: Sequence[Deferred]):
        self._lo, self._names = lo, names
        self._variables: dict[str, str] = {}
        self._numbers: dict[int, int] = {}  # under which instructions are reported, each once
        self._deferred = {id(d.load): d for d in deferred}
        self._found: dict[int, str] = {}  # load -> lanes that found nothing written, where it has just been asked
        self._gaps = closure(lo.blocks, lo.types, [UNDEFINED]) if deferred else names

    def is_deferred(self, i: Ins) -> bool:
        return id(i) in self._deferred

    def written(self, i: Ins) -> str:
        """Before a load that is reported later: the running lanes that find something written there."""
        lo, d = self._lo, self._deferred[id(i)]
        helper = access.unwritten(lo, d.space, SIZES[i.mods[-1]])
        at = lo.symbol(d.place.name) + d.place.offset
        bits = self._found[id(i)] = lo.let(f"call i32 @{helper}(ptr %ctx, ptr %warp, i32 {at}, i32 {lo.mask})")
        return lo.let(f"xor i32 {lo.mask}, {bits}")

    def check(self, i: Ins, guard: bool = False) -> None:
        """Report running lanes in which an undefined value reaches this instruction, or its guard."""
        if not self._names:
            return
        for sink in guards(i) if guard else sinks(i):
            if sink.names and all(name in self._names for name in sink.names):
                self._report(i, sink)

    def _report(self, i: Ins, sink: Sink) -> None:
        lo = self._lo
        bits = lo.mask
        for name in sink.names:
            bits = self._and(bits, self._bits(name))
        bad, on = lo.new_label(), lo.new_label()
        lo.emit(f"br i1 {lo.let(f'icmp ne i32 {bits}, 0')}, label %{bad}, label %{on}, !prof !0")
        lo.label(bad)
        lane = lo.let(f"call i32 @llvm.cttz.i32(i32 {bits}, i1 false)")
        loads = [d for d in self._deferred.values() if not d.reached.isdisjoint(sink.names)]
        gap = any(name in self._gaps for name in sink.names)
        for k, d in enumerate(loads):
            if k + 1 == len(loads) and not gap:
                self._hazard(_HAZARDS[d.space], d.told, lane, lo.symbol(d.place.name) + d.place.offset)
            else:
                self._report_load(d, lane, on)
        if gap:
            self._hazard(L.H_UNINIT_REGISTER, i, lane, tag=sink.role)
        lo.emit(f"br label %{on}")
        lo.label(on)

    def _report_load(self, d: Deferred, lane: str, on: str) -> None:
        """Report a load and go on, if it is the one that gave this lane no value."""
        lo = self._lo
        own = lo.let(f"lshr i32 {self._bits(d.name)}, {lane}")
        this, other = lo.new_label(), lo.new_label()
        lo.emit(f"br i1 {lo.let(f'trunc i32 {own} to i1')}, label %{this}, label %{other}")
        lo.label(this)
        self._hazard(_HAZARDS[d.space], d.told, lane, lo.symbol(d.place.name) + d.place.offset)
        lo.emit(f"br label %{on}")
        lo.label(other)

    def _hazard(self, kind: int, i: Ins, lane: str, address: int = 0, tag: int = 0) -> None:
        helper = access.need(self._lo, "hazard", hazard_helper)
        if id(i) not in self._numbers:
            self._numbers[id(i)] = self._lo.number(i)
        place = f"i32 {kind}, i32 {self._numbers[id(i)]}, i32 {lane}, i64 {address}"
        self._lo.emit(f"call void @{helper}(ptr %ctx, ptr %warp, {place}, i32 {tag}, i32 0)")

    def keep(self, i: Ins) -> None:
        """Before a guarded memory or warp instruction: lanes without the guard keep the old value's bits."""
        for name, old in i.previous.items():
            if name in self._names:
                self._store(name, self._bits(old))

    def define(self, i: Ins) -> None:
        """After an instruction: the bits of its result."""
        names = [n for n in definitions(i, self._lo.types) if n in self._names] if self._names else []
        if not names:
            return
        bits = self._result(i)
        for name in names:
            value = bits
            if i.pred and i.base not in MEMORY_LIKE:
                value = self._guarded(i, bits, self._bits(i.previous.get(name, UNDEFINED)))
            if name in self._lo.flow.blended or (i.pred and i.base in MEMORY_LIKE):
                value = self._choose(self._lo.mask, value, self._bits(name))
            self._store(name, value)

    def move(self, b: Block, target: Block, lanes: str, blend: bool) -> None:
        """The phi copies of one edge, as Lowering.move makes them of the values."""
        copies = [(n, self._bits(inputs[b])) for n, inputs in target.phis.items() if n in self._names]
        for name, bits in copies:
            if blend and name in self._lo.flow.varying:
                bits = self._choose(lanes, bits, self._bits(name))
            self._store(name, bits)

    def saved(self, names: set[str]) -> list[tuple[str, str]]:
        """(key, variable) of what a warp that leaves must keep for these values."""
        loads = {d.name for d in self._deferred.values() if not d.reached.isdisjoint(names)}  # to tell which it was
        return [(f"$undefined:{n}", self._variable(n)) for n in sorted(names | loads) if n in self._names]

    def _result(self, i: Ins) -> str:
        if id(i) in self._found:
            return self._found.pop(id(i))
        if i.base == "shfl":
            return self._or(self._shuffled(i), self._of(i.args[2]))
        if i.base == "selp":
            taken = self._choose(self._lo.lane_bits(i.args[3]), self._of(i.args[1]), self._of(i.args[2]))
            return self._or(taken, self._of(i.args[3]))
        if i.base in ("and", "or") and i.mods[-1] == "pred":
            return self._settled(i)
        if i.base in ("setp", "set") and len(i.args) == 4:
            return self._combined(i)
        if not passes(i):
            return "0"  # guarded, and defined where it runs
        names = operands(i)
        join = self._and if needs_all(i) else self._or
        bits = self._bits(names[0]) if names else "0"
        for name in names[1:]:
            bits = join(bits, self._bits(name))
        return bits

    def _settled(self, i: Ins) -> str:
        """Of two predicates: undefined, unless a defined one alone says what the result is."""
        bits, settled = "0", "0"
        for a in i.args[1:]:
            own, value = self._of(a), self._lo.lane_bits(a)
            decides = self._not(value) if i.base == "and" else value
            settled = self._or(settled, self._and(decides, self._not(own)))
            bits = self._or(bits, own)
        return self._and(bits, self._not(settled))

    def _combined(self, i: Ins) -> str:
        """Of a comparison that is joined with a predicate: where the predicate is defined and settles it, so is it."""
        bits, value = self._or(self._of(i.args[1]), self._of(i.args[2])), self._lo.lane_bits(i.args[3])
        open_ = value if "and" in i.mods else self._not(value) if "or" in i.mods else "-1"
        return self._and(bits, open_)

    def _shuffled(self, i: Ins) -> str:
        """The bits of the lanes that are read: by the same instruction, on words that are the bits."""
        lo, given, taken = self._lo, Reg("$given"), Reg("$taken")
        lo.types |= {given.name: "b32", taken.name: "b32"}
        lo.flow.varying |= {given.name, taken.name}
        own = lo.let(f"bitcast i32 {self._of(i.args[1])} to <32 x i1>")
        lo.cache[given.name] = lo.let(f"sext <32 x i1> {own} to <32 x i32>")
        HANDLERS["shfl"](lo, Ins(i.op, (taken, given, *i.args[2:]), loc=i.loc))
        found = lo.let(f"icmp ne <32 x i32> {lo.cache[taken.name]}, zeroinitializer")
        return lo.let(f"bitcast <32 x i1> {found} to i32")

    def _guarded(self, i: Ins, bits: str, kept: str) -> str:
        runs = self._lo.lane_bits(Reg(i.pred), i.negated)
        return self._or(self._choose(runs, bits, kept), self._bits(i.pred))

    def _of(self, o: Operand) -> str:
        """The bits of an operand of one register or none."""
        names = registers(o)
        return self._bits(names[0]) if names else "0"

    def _bits(self, name: str) -> str:
        if name == UNDEFINED:
            return "-1"
        return self._lo.let(f"load i32, ptr %{self._variable(name)}") if name in self._names else "0"

    def _store(self, name: str, bits: str) -> None:
        self._lo.emit(f"store i32 {bits}, ptr %{self._variable(name)}")

    def _variable(self, name: str) -> str:
        if name not in self._variables:
            variable = self._variables[name] = f"u{len(self._variables)}"
            self._lo.allocas[variable] = "i32"
            self._lo.entry.append(f"  store i32 0, ptr %{variable}")
        return self._variables[name]

    # -- words of lanes

    def _or(self, a: str, b: str) -> str:
        if "-1" in (a, b):
            return "-1"
        return b if a == "0" else a if b == "0" else self._lo.let(f"or i32 {a}, {b}")

    def _and(self, a: str, b: str) -> str:
        if "0" in (a, b):
            return "0"
        return b if a == "-1" else a if b == "-1" else self._lo.let(f"and i32 {a}, {b}")

    def _not(self, a: str) -> str:
        return {"0": "-1", "-1": "0"}.get(a) or self._lo.let(f"xor i32 {a}, -1")

    def _choose(self, lanes: str, a: str, b: str) -> str:
        """The bits of a in these lanes, those of b in the others."""
        return a if a == b else self._or(self._and(lanes, a), self._and(self._not(lanes), b))
