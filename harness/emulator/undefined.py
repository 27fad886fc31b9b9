"""Variables that are used before they were given a value, as far as registers tell.

Theory of operation
-------------------
Which.    A register that no path has written is ssa.UNDEFINED. `analyse` finds the values that may come from one, and
          keeps those that can reach a place where it matters (`sinks`): what is stored to global or shared memory, an
          address, a condition, an operand of an atomic or of a barrier. Nearly always there are none, and no code is
          made for any of this.
Where.    Each such value has a word with a bit for each lane in which it is undefined. Copies, phis and arithmetic pass
          the bits on (`Taint.define`, `Taint.move`), a select passes those of the operand that it takes.
When.     At a sink the bits of running lanes are a hazard (`Taint.check`).

Better silent than wrong: what memory holds is the business of its own shadow; a word is undefined only as a whole (a
half of it, or an element of a vector that is stored, may well be left out on purpose); a false predicate settles an
"and" however undefined the other is; votes, matches and matrix operations give defined values, and so does every
opcode that is not listed here. NVVM may have removed the use, or the variable, long before: this finds what is left.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from harness.emulator import access
from harness.emulator import layout as L
from harness.emulator.access.base import hazard_helper
from harness.emulator.cfg import Block
from harness.emulator.emitter import HANDLERS, MEMORY_LIKE, Emitter
from harness.emulator.ptx import Addr, Ins, Operand, Reg, Vec
from harness.emulator.ssa import UNDEFINED, definitions, registers

# The result is undefined where any operand is.
_ANY = {
    "mov", "cvt", "cvta", "add", "sub", "mul", "mad", "mul24", "mad24", "fma", "div", "rem", "min", "max", "abs", "neg",
    "not", "xor", "shl", "shr", "shf", "bfe", "setp", "set", "ex2", "lg2", "sqrt", "rsqrt", "rcp", "sin", "cos", "tanh",
    "copysign", "testp", "popc", "clz", "brev", "bfind", "sad", "selp", "shfl",
}  # fmt: skip
_ALL = {"and", "or", "lop3", "bfi", "prmt"}  # where all are: these also put words together from parts
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
        yield Sink(VALUE, tuple(registers(i.args[1])))
    elif i.base in ("atom", "red"):
        for a in i.args[1 + (i.base == "atom") :]:
            yield Sink(VALUE, tuple(registers(a)))
    elif i.base in ("bar", "barrier"):
        for a in i.args["red" in i.mods :]:
            yield Sink(VALUE, tuple(registers(a)))
    elif i.base == "bra" and i.pred:
        yield Sink(CONDITION, (i.pred,))
    elif i.base == "brx":
        yield Sink(CONDITION, tuple(registers(i.args[0])))


def _guard(i: Ins) -> Iterator[Sink]:
    if i.pred and i.base in MEMORY_LIKE:
        yield Sink(CONDITION, (i.pred,))


def _is_slot(i: Ins) -> bool:
    return i.base in ("ld", "st") and i.mods[1:2] == ("slot",)


def _sources(i: Ins) -> list[str]:
    """Registers whose being undefined may make the result undefined: the operands, the guard, what a guard keeps."""
    kept = list(i.previous.values())
    if i.base in _ALL and i.mods[-1] != "pred":
        parts = [registers(a) for a in i.args[1:]]
        operands = [r for part in parts for r in part] if all(parts) else []
    elif i.base in _ANY or i.base in _ALL or _is_slot(i):
        operands = [r for a in i.args[1:3] for r in registers(a)]
        operands += [r for a in i.args[3:] for r in registers(a)] if i.base != "shfl" else []
    else:
        return kept
    return [*operands, *kept, *([i.pred] if i.pred else [])]


def _needs_all(i: Ins) -> bool:
    """Whether the result is undefined only where all operands are, such as both halves of a word."""
    packs = (i.base == "mov" and isinstance(i.args[1], Vec)) or (i.base == "cvt" and len(i.args) > 2)
    return packs or (i.base in _ALL and i.mods[-1] != "pred")


def _may_be(i: Ins, undefined: set[str]) -> bool:
    """Whether the result may be undefined in some lane, if these may be."""
    sources = _sources(i)
    if _needs_all(i) and not i.pred:
        return bool(sources) and all(s in undefined for s in sources)
    return any(s in undefined for s in sources)


def analyse(blocks: list[Block], types: dict[str, str]) -> frozenset[str]:
    """The values, by name, that may be undefined in some lane and can reach a sink; UNDEFINED itself among them. Empty
    where nothing can come of it. The blocks are in SSA form."""
    undefined = _closure(blocks, types)
    wanted = {n for b in blocks for i in _all(b) for s in (*sinks(i), *_guard(i)) for n in s.names} & undefined
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


def _closure(blocks: list[Block], types: dict[str, str]) -> set[str]:
    undefined, before = {UNDEFINED}, 0
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


class Taint:
    """Emits what keeps the bits of undefined lanes, and the checks; nothing where `names` (of `analyse`) is empty."""

    def __init__(self, lo: Emitter, names: frozenset[str]):
        self._lo, self._names = lo, names
        self._variables: dict[str, str] = {}

    def check(self, i: Ins, guard: bool = False) -> None:
        """Report running lanes in which an undefined value reaches this instruction, or its guard."""
        if not self._names:
            return
        for sink in _guard(i) if guard else sinks(i):
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
        helper = access.need(lo, "hazard", hazard_helper)
        place = f"i32 {L.H_UNINIT_REGISTER}, i32 {lo.number(i)}, i32 {lane}"
        lo.emit(f"call void @{helper}(ptr %ctx, ptr %warp, {place}, i64 0, i32 {sink.role}, i32 0)")
        lo.emit(f"br label %{on}")
        lo.label(on)

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
        return [(f"$undefined:{n}", self._variable(n)) for n in sorted(names) if n in self._names]

    def _result(self, i: Ins) -> str:
        if i.base == "shfl":
            return self._or(self._shuffled(i), self._of(i.args[2]))
        if i.base == "selp":
            taken = self._choose(self._lo.lane_bits(i.args[3]), self._of(i.args[1]), self._of(i.args[2]))
            return self._or(taken, self._of(i.args[3]))
        if i.base in ("and", "or") and i.mods[-1] == "pred":
            return self._settled(i)
        if i.base in ("setp", "set") and len(i.args) == 4:
            return self._combined(i)
        if not (i.base in _ANY or i.base in _ALL or _is_slot(i)):
            return "0"  # guarded, and defined where it runs
        names = [r for a in i.args[1:] for r in registers(a)]
        join = self._and if _needs_all(i) else self._or
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
