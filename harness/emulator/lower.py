"""PTX in SSA form -> LLVM IR of one function that steps one warp: @kernel(ctx, warp) -> DONE, BARRIER, YIELD, FAULT, CALL.

Theory of operation
-------------------
Values.   A varying register is a <32 x T> value, one lane a thread; a uniform one is a scalar (uniform.py). Values that
          cross PTX blocks live in allocas, which LLVM's mem2reg turns into registers and phis.
Control.  Every PTX block is emitted once, in layout order. %mask holds the lanes that run, %pend<n> the lanes that wait
          to enter block n, %live those that have not exited. A branch whose lanes agree is a plain jump; where they
          part, both sides are marked in %pend and the first block of the agenda (uniform.agenda) with lanes runs next.
          Where the analysis says that no lane can wait, the running lanes are the live ones and nothing is tested.
Leaving.  A barrier, a yield at a loop header or an external call saves what is live there to the warp's frame, stores
          where to come back to in Warp.pc, and returns; the next call jumps back through the switch at the entry. Hence
          no fibres: a suspended warp is data.
Checks.   Memory accesses (access.py) answer "ok"; if not, @fault has recorded what and where, and the function
          returns FAULT. Hazards are recorded and run past.
Budget.   A loop header takes the loop's instructions from %fuel and yields when it is used up.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field

from harness.emulator import layout as L
from harness.emulator.cfg import Block
from harness.emulator.errors import UnsupportedPtx
from harness.emulator.layout import Context, Warp
from harness.emulator.ptx import Function, Imm, Ins, Module, Not, Operand, Pair, Reg, Sym, Vec, is_special
from harness.emulator.ssa import UNDEFINED, definitions, live_in, registers, uses
from harness.emulator.uniform import Flow, Shape, agenda, special_varies

LL_TYPES = {"pred": "i1", "b8": "i8", "u8": "i8", "s8": "i8", "b16": "i16", "u16": "i16", "s16": "i16", "f16": "i16",
            "bf16": "i16", "b32": "i32", "u32": "i32", "s32": "i32", "f32": "float", "f16x2": "i32", "bf16x2": "i32",
            "b64": "i64", "u64": "i64", "s64": "i64", "f64": "double", "b128": "i128"}  # fmt: skip
BITS = {"i1": 1, "i8": 8, "i16": 16, "half": 16, "i32": 32, "float": 32, "i64": 64, "double": 64, "i128": 128}
IOTA = "<" + ", ".join(f"i32 {n}" for n in range(L.LANES)) + ">"

Handler = Callable[["Lowering", Ins], None]
HANDLERS: dict[str, Handler] = {}  # base opcode -> lowering; filled by the ops_* modules
MEMORY_LIKE: set[str] = set()  # opcodes that must not run for lanes whose guard is false


def handles(*bases: str, guarded_by_branch: bool = False) -> Callable[[Handler], Handler]:
    """Register the lowering of opcodes."""

    def register(handler: Handler) -> Handler:
        for base in bases:
            HANDLERS[base] = handler
            if guarded_by_branch:
                MEMORY_LIKE.add(base)
        return handler

    return register


@dataclass(frozen=True)
class Layout:
    """Where the function's variables are."""

    shared: dict[str, int]  # static and dynamic shared variables -> byte offset
    local: dict[str, int]  # local variables -> byte offset
    local_bytes: int
    variables: dict[str, int] = field(default_factory=dict)  # module variable -> opaque address
    functions: dict[str, int] = field(default_factory=dict)  # kernel -> the value of its address


@dataclass
class Lowered:
    """The IR and what Python needs to run it and to explain what it reports."""

    ir: str
    frame_bytes: int
    instructions: list[Ins]  # by the number that faults and hazards name


class Lowering:
    """Emits one function. The ops_* modules use the methods below `-- for the opcode handlers`."""

    def __init__(self, module: Module, f: Function, blocks: list[Block], flow: Flow, shape: Shape, places: Layout,
                 outline: bool):  # fmt: skip
        self.module, self.f, self.blocks, self.flow, self.shape, self.places = module, f, blocks, flow, shape, places
        self.types = f.reg_types
        self.outline = outline  # memory accesses as calls, for functions too large to inline them
        self.lines: list[str] = []
        self.entry: list[str] = []
        self.allocas: dict[str, str] = {}
        self.context_values: dict[tuple[str, str], str] = {}
        self.helpers: dict[str, str] = {}
        self.declares: set[str] = set()
        self.n = 0
        self.instructions: list[Ins] = []
        self.cache: dict[object, str] = {}
        self.products: dict[str, tuple[str, str, bool]] = {}  # result of a contractible mul -> its factors
        self.use_count: dict[str, int] = {}
        self.resumes: list[str] = []
        self.frame: dict[str, int] = {}
        self.frame_bytes = 0
        self.mask = "-1"
        self.ins: Ins = Ins("nop", ())
        self.vec = False

    # -- the function

    def run(self) -> Lowered:
        live = live_in(self.blocks, self.types)
        self.frame_set = {b: sorted(live[b] | b.phis.keys()) for b in self.blocks}
        self.crossing = self._crossing_names()
        self.partial_exit = any(not b.succ and self.flow.pending[b] for b in self.blocks)
        self.allocas["fuel"] = "i64"
        if self.partial_exit:
            self.allocas["live"] = "i32"
        if any(self.flow.pending.values()):
            self.allocas["mask"] = "i32"
        for b in self.blocks:
            for i in [*b.ins, *([b.branch] if b.branch else [])]:
                for u in uses(i, self.types):
                    self.use_count[u] = self.use_count.get(u, 0) + 1
            for inputs in b.phis.values():
                for u in inputs.values():
                    self.use_count[u] = self.use_count.get(u, 0) + 1
        for b in self.blocks:
            self._block(b)
        return Lowered(self._text(), (self.frame_bytes + 63) // 64 * 64, self.instructions)

    def _crossing_names(self) -> set[str]:
        home = {}
        for b in self.blocks:
            for name in b.phis:
                home[name] = None
            for i in b.ins:
                for name in definitions(i, self.types):
                    home[name] = (
                        None if (i.pred and i.base in MEMORY_LIKE) or i.base in ("bar", "barrier", "call") else b
                    )
        names = {n for n, b in home.items() if b is None} | self.flow.blended
        for b in self.blocks:
            for i in [*b.ins, *([b.branch] if b.branch else [])]:
                names.update(u for u in uses(i, self.types) if home.get(u) is not b)
            for inputs in b.phis.values():
                for p, u in inputs.items():
                    if home.get(u) is not p:
                        names.add(u)
        names.discard(UNDEFINED)
        return names

    def _text(self) -> str:
        head = [
            *sorted(self.declares),
            *self.helpers.values(),
            "define i32 @kernel(ptr noalias %ctx, ptr noalias %warp) #0 {",
            "entry:",
            *(f"  %{n} = alloca {t}" for n, t in self.allocas.items()),
            *self.entry,
        ]
        fuel = self._field_pointer("%ctx", Context, "fuel_slice", head)
        head += [f"  %fuel0 = load i64, ptr {fuel}", "  store i64 %fuel0, ptr %fuel"]
        if self.partial_exit:
            head += [
                f"  %live0 = load i32, ptr {self._field_pointer('%warp', Warp, 'live', head)}",
                "  store i32 %live0, ptr %live",
            ]
        pc = self._field_pointer("%warp", Warp, "pc", head)
        head += [f"  %pc = load i32, ptr {pc}"]
        cases = " ".join(f"i32 {n + 1}, label %R{n + 1}" for n in range(len(self.resumes)))
        head += [f"  switch i32 %pc, label %start [{cases}]", "start:"]
        if self.flow.pending[self.blocks[0]]:
            raise AssertionError("lanes wait before the entry")
        head += ["  br label %B0"]
        tail = ["fail:", *self._leave_lines(L.FAULT), "}", "attributes #0 = { nounwind }"]
        return "\n".join([*head, *self.lines, *self.resumes, *tail]) + "\n"

    def _field_pointer(self, base: str, structure: type, name: str, into: list[str]) -> str:
        offset, _ = L.field(structure, name)
        self.n += 1
        into.append(f"  %p{self.n} = getelementptr i8, ptr {base}, i64 {offset}")
        return f"%p{self.n}"

    def _leave_lines(self, code: int) -> list[str]:
        lines: list[str] = []
        left = self._field_pointer("%ctx", Context, "fuel_left", lines)
        self.n += 1
        return [
            *lines,
            f"  %f{self.n} = load i64, ptr %fuel",
            f"  store i64 %f{self.n}, ptr {left}",
            f"  ret i32 {code}",
        ]

    # -- blocks and edges

    def _block(self, b: Block) -> None:
        self.label(f"B{b.index}")
        self.cache.clear()
        self.products.clear()
        self.mask = self._current_mask(b)
        if b.loop is not None and b.loop.header is b:
            self._take_fuel(b)
        for i in b.ins:
            if i.base in ("bar", "barrier") and i.mods[1] != "warp":
                HANDLERS["bar"](self, i)
                self._suspend(b, L.BARRIER, i)
                return
            if i.base == "call" and self.shape.single:
                self._external_call(i)
                self._suspend(b, L.CALL, i)
                return
            self._instruction(i)
        self._depart(b)

    def _current_mask(self, b: Block) -> str:
        if self.shape.single:
            return "1"
        if self.flow.pending[b]:
            return self.let("load i32, ptr %mask")
        if self.partial_exit:
            return self.let("load i32, ptr %live")
        if self.shape.full_warps:
            return "-1"
        return self.warp_value("initial")

    def _instruction(self, i: Ins) -> None:
        handler = HANDLERS.get(i.base)
        if handler is None:
            raise UnsupportedPtx(f"instruction {i.op}", i.loc)
        self.ins = i
        names = definitions(i, self.types)
        self.vec = not self.shape.single and bool(names) and names[0] in self.flow.varying
        if i.pred and i.base in MEMORY_LIKE:
            self._guarded(i, handler, names)
        else:
            handler(self, i)

    def _guarded(self, i: Ins, handler: Handler, names: list[str]) -> None:
        """Run a memory or warp instruction for the lanes whose guard holds, if there are any."""
        outer = self.mask
        lanes = self.let(f"and i32 {outer}, {self.lane_bits(Reg(i.pred), i.negated)}")
        for name in names:
            old = i.previous.get(name, UNDEFINED)
            if old != UNDEFINED:
                self._store(name, self._value(old, name in self.flow.varying))
        do, skip = self.new_label(), self.new_label()
        self.emit(f"br i1 {self.let(f'icmp ne i32 {lanes}, 0')}, label %{do}, label %{skip}")
        saved = dict(self.cache)
        self.label(do)
        self.mask = lanes
        handler(self, i)
        self.emit(f"br label %{skip}")
        self.label(skip)
        self.cache, self.mask = saved, outer

    def _take_fuel(self, b: Block) -> None:
        assert b.loop is not None
        own = [x for x in b.loop.blocks if x.loop is b.loop]
        cost = max(1, sum(len(x.ins) + 1 for x in own))
        left = self.let(f"sub i64 {self.let('load i64, ptr %fuel')}, {cost}")
        self.emit(f"store i64 {left}, ptr %fuel")
        out, on = self.new_label(), self.new_label()
        self.emit(f"br i1 {self.let(f'icmp slt i64 {left}, 0')}, label %{out}, label %{on}, !prof !0")
        self.label(out)
        waiting = sorted(self.flow.pending[b], key=lambda c: c.index)
        number = len(self.resumes) + 1
        resume = self._save(b, [("mask", self.mask)] * bool(waiting), waiting)
        placed = (
            i
            for x in [b, *own]
            for i in [*x.ins, *([x.branch] if x.branch else [])]
            if i.loc is not None and i.loc.line
        )
        self._note_place(next(placed, None))
        self._finish_suspension(number, L.YIELD)
        self.resumes.append("\n".join([f"R{number}:", *resume, f"  br label %{on}"]))
        self.label(on)
        self.cache.clear()
        self.mask = self._current_mask(b)

    def _note_place(self, i: Ins | None) -> None:
        """Remember where a warp yields, for the message if its budget is used up."""
        pointer = self._field_pointer("%ctx", Context, "fault_insn", self.lines)
        self.emit(f"store i32 {self.number(i or Ins('nop', ()))}, ptr {pointer}")

    def _save(
        self, target: Block, extra: list[tuple[str, str]], waiting: list[Block], skip: tuple[str, ...] = ()
    ) -> list[str]:
        """Save what `target` needs to the frame; returns the lines that restore it."""
        resume: list[str] = []

        def slot(key: str, kind: str) -> int:
            if key not in self.frame:
                size = {"i1": 8}.get(kind, 0) or (BITS[kind] + 7) // 8 if not kind.startswith("<") else (
                    8 if kind == "<32 x i1>" else L.LANES * BITS[kind[6:-1]] // 8)  # fmt: skip
                align = min(64, max(8, size))
                self.frame_bytes = (self.frame_bytes + align - 1) // align * align
                self.frame[key] = self.frame_bytes
                self.frame_bytes += size
            return self.frame[key]

        frame = self.warp_value("frame", pointer=True)

        def transfer(key: str, kind: str, variable: str) -> None:
            offset = slot(key, kind)
            p = self.let(f"getelementptr i8, ptr {frame}, i64 {offset}")
            self.emit(f"store {kind} {self.let(f'load {kind}, ptr %{variable}')}, ptr {p}")
            self.n += 2
            resume.append(f"  %s{self.n} = getelementptr i8, ptr {frame}, i64 {offset}")
            resume.append(f"  %s{self.n + 1} = load {kind}, ptr %s{self.n}")
            resume.append(f"  store {kind} %s{self.n + 1}, ptr %{variable}")
            self.n += 1

        for name in self.frame_set[target]:
            if name not in skip:
                variable = self._alloca(name)
                transfer(name, self.allocas[variable], variable)
        for key, _ in extra:
            transfer("$" + key, "i32", key)
        for c in waiting:
            transfer(f"$pend{c.index}", "i32", self._pend(c))
        return resume

    def _finish_suspension(self, number: int, code: int) -> None:
        pc = self._field_pointer("%warp", Warp, "pc", self.lines)
        self.emit(f"store i32 {number}, ptr {pc}")
        if self.partial_exit:
            live = self._field_pointer("%warp", Warp, "live", self.lines)
            self.emit(f"store i32 {self.let('load i32, ptr %live')}, ptr {live}")
        self.lines += self._leave_lines(code)

    def _suspend(self, b: Block, code: int, i: Ins) -> None:
        """Leave behind the last instruction of b; come back at the start of its successor."""
        (target,) = b.succ
        results = tuple(definitions(i, self.types))
        self._move(b, target, self.mask, blend=False)
        number = len(self.resumes) + 1
        self.resumes.append("")
        resume = self._save(target, [], [], skip=results)
        self._finish_suspension(number, code)
        lines, self.lines = self.lines, []
        self.label(f"R{number}")
        self.lines += resume
        self.cache.clear()
        if results:
            self.vec = not self.shape.single and results[0] in self.flow.varying
            self.ins = Ins("nop", ())
            self._define_results(i, results)
        if self.flow.pending[target]:
            self.emit(
                f"store i32 {self.let('load i32, ptr %live') if self.partial_exit else self._all_lanes()}, ptr %mask"
            )
            for c in self.flow.pending[target]:
                self.emit(f"store i32 0, ptr %{self._pend(c)}")
        self.emit(f"br label %B{target.index}")
        self.resumes[number - 1] = "\n".join(self.lines)
        self.lines = lines

    def _all_lanes(self) -> str:
        return "-1" if self.shape.full_warps else self.warp_value("initial")

    def _define_results(self, i: Ins, results: tuple[str, ...]) -> None:
        if i.base == "call":
            kind = self.ll(results[0])
            buffer = self.context("call_buffer", pointer=True)
            self.put(Reg(results[0]), self.let(f"load {kind}, ptr {buffer}"), kind, scalar=True)
            return
        mode = {"popc": 0, "and": 1, "or": 2}[next(m for m in i.mods if m in ("popc", "and", "or"))]
        p = self._field_pointer("%warp", Warp, "red", self.lines)
        q = self.let(f"getelementptr i32, ptr {p}, i32 {mode}")
        v = self.let(f"load i32, ptr {q}")
        if mode == 0:
            self.put(Reg(results[0]), v, "i32", scalar=True)
        else:
            self.put(Reg(results[0]), self.let(f"icmp ne i32 {v}, 0"), "i1", scalar=True)

    def _external_call(self, i: Ins) -> None:
        """Arguments of a call to the runtime API, each in a 16-byte place of the call buffer (larger ones in several)."""
        buffer = self.context("call_buffer", pointer=True)
        place = 0
        for a in i.args[1:]:
            assert isinstance(a, Vec)
            end = 0
            for r in a.items:
                assert isinstance(r, Reg)
                offset = int(r.name.split("#")[0].rpartition("+")[2])
                kind = self.ll(r.name)
                p = self.let(f"getelementptr i8, ptr {buffer}, i64 {place + offset}")
                self.emit(f"store {kind} {self.get(r, kind, vec=False)}, ptr {p}")
                end = max(end, offset + BITS[kind] // 8)
            place += (max(end, 1) + 15) // 16 * 16
        pointer = self._field_pointer("%ctx", Context, "fault_insn", self.lines)
        self.emit(f"store i32 {self.number(i)}, ptr {pointer}")

    def _depart(self, b: Block) -> None:
        here = self.flow.pending[b]
        i = b.branch
        if not b.succ:
            self._exit(b, i)
        elif i is None or len(b.succ) == 1:
            self._arm(b, b.succ[0])
        elif i.base == "brx":
            self._indexed_branch(b, i)
        elif not self.flow.splits(b):
            p = self.get(Reg(i.pred), "i1", vec=False)
            taken, other = self.new_label(), self.new_label()
            first, second = (other, taken) if i.negated else (taken, other)
            self.emit(f"br i1 {p}, label %{first}, label %{second}")
            self._in_arm(taken, lambda: self._arm(b, b.succ[0]))
            self._in_arm(other, lambda: self._arm(b, b.succ[1]))
        else:
            self._split(b, i, here)

    def _in_arm(self, label: str, body: Callable[[], None]) -> None:
        saved = dict(self.cache)
        self.label(label)
        body()
        self.cache = saved

    def _split(self, b: Block, i: Ins, here: set[Block]) -> None:
        bits = self.lane_bits(Reg(i.pred), i.negated)
        taken = self.let(f"and i32 {self.mask}, {bits}")
        other = self.let(f"xor i32 {taken}, {self.mask}")
        if not here:
            all_taken, some, none_taken, mixed = (self.new_label() for _ in range(4))
            self.emit(f"br i1 {self.let(f'icmp eq i32 {other}, 0')}, label %{all_taken}, label %{some}")
            self._in_arm(all_taken, lambda: self._arm(b, b.succ[0]))
            self.label(some)
            self.emit(f"br i1 {self.let(f'icmp eq i32 {taken}, 0')}, label %{none_taken}, label %{mixed}")
            self._in_arm(none_taken, lambda: self._arm(b, b.succ[1]))
            self.label(mixed)
        self._scatter(b, [(b.succ[0], taken), (b.succ[1], other)])

    def _scatter(self, b: Block, parts: list[tuple[Block, str]]) -> None:
        for target, lanes in parts:
            self._move(b, target, lanes, blend=True)
        for target, lanes in parts:
            self._wait(target, lanes)
        self._next(b, self.flow.pending[b] | {t for t, _ in parts})

    def _indexed_branch(self, b: Block, i: Ins) -> None:
        by_label = {s.label: s for s in b.succ}
        targets = [by_label[a.name] for a in i.args[1:] if isinstance(a, Sym)]
        if not self.flow.splits(b):
            index = self.get(i.args[0], "i32", vec=False)
            labels = {s: self.new_label() for s in b.succ}
            cases = " ".join(f"i32 {n}, label %{labels[t]}" for n, t in enumerate(targets))
            self.emit(f"switch i32 {index}, label %{labels[targets[-1]]} [{cases}]")
            for s in b.succ:
                self._in_arm(labels[s], lambda s=s: self._arm(b, s))  # type: ignore[misc]
            return
        index = self.get(i.args[0], "i32", vec=True)
        lanes = dict.fromkeys(b.succ, "0")
        for n, t in enumerate(targets):
            hit = self.let(f"icmp eq <32 x i32> {index}, splat (i32 {n})")
            bits = self.let(f"and i32 {self.mask}, {self.let(f'bitcast <32 x i1> {hit} to i32')}")
            lanes[t] = self.let(f"or i32 {lanes[t]}, {bits}")
        self._scatter(b, list(lanes.items()))

    def _arm(self, b: Block, target: Block) -> None:
        """All running lanes go to target."""
        here = self.flow.pending[b]
        self._move(b, target, self.mask, blend=bool(here))
        if here:
            self._wait(target, self.mask)
            self._next(b, here | {target})
            return
        if self.flow.pending[target]:
            self.emit(f"store i32 {self.mask}, ptr %mask")
        self.emit(f"br label %B{target.index}")

    def _pend(self, b: Block) -> str:
        name = f"pend{b.index}"
        if name not in self.allocas:
            self.allocas[name] = "i32"
            self.entry.append(f"  store i32 0, ptr %{name}")
        return name

    def _wait(self, target: Block, lanes: str) -> None:
        name = self._pend(target)
        before = self.let(f"load i32, ptr %{name}")
        self.emit(f"store i32 {self.let(f'or i32 {before}, {lanes}')}, ptr %{name}")

    def _next(self, b: Block, waiting: set[Block], may_be_none: bool = False) -> None:
        """Run the first block of the agenda that has lanes."""
        todo = agenda(b, waiting)
        for n, c in enumerate(todo):
            name = self._pend(c)
            lanes = self.let(f"load i32, ptr %{name}")
            if n + 1 < len(todo) or may_be_none:
                go, on = self.new_label(), self.new_label()
                self.emit(f"br i1 {self.let(f'icmp ne i32 {lanes}, 0')}, label %{go}, label %{on}")
                self.label(go)
            self.emit(f"store i32 0, ptr %{name}")
            if self.flow.pending[c]:
                self.emit(f"store i32 {lanes}, ptr %mask")
            self.emit(f"br label %B{c.index}")
            if n + 1 < len(todo) or may_be_none:
                self.label(on)

    def _exit(self, b: Block, i: Ins | None) -> None:
        if i is not None and i.base == "trap":
            self.fault(L.F_TRAP, i)
            return
        here = self.flow.pending[b]
        if here:
            rest = self.let(f"xor i32 {self.mask}, -1")
            live = self.let("load i32, ptr %live")
            self.emit(f"store i32 {self.let(f'and i32 {live}, {rest}')}, ptr %live")
            self._next(b, here, may_be_none=True)
        self.lines += self._leave_lines(L.DONE)

    def _move(self, b: Block, target: Block, lanes: str, blend: bool) -> None:
        """The phi copies of one edge, read before any is written."""
        values = []
        for name, inputs in target.phis.items():
            if inputs[b] != UNDEFINED:
                values.append((name, self._value(inputs[b], name in self.flow.varying and not self.shape.single)))
        vector = ""
        for name, value in values:
            if blend and name in self.flow.varying:
                kind = self.allocas[self._alloca(name)]
                vector = vector or self.lane_vector(lanes)
                old = self.let(f"load {kind}, ptr %{self._alloca(name)}")
                value = self.let(f"select <32 x i1> {vector}, {kind} {value}, {kind} {old}")
            self._store(name, value)

    # -- values

    def _alloca(self, name: str) -> str:
        key = ("alloca", name)
        if key not in self.context_values:
            variable = f"v{len(self.context_values)}"
            self.context_values[key] = variable
            kind = self.ll(name)
            varying = name in self.flow.varying and not self.shape.single
            self.allocas[variable] = f"<32 x {kind}>" if varying else kind
        return self.context_values[key]

    def _store(self, name: str, value: str) -> None:
        variable = self._alloca(name)
        self.emit(f"store {self.allocas[variable]} {value}, ptr %{variable}")

    def ll(self, name: str) -> str:
        """LLVM scalar type of a register."""
        return LL_TYPES[self.types[name]]

    def _value(self, name: str, vec: bool) -> str:
        """The register's own value, as a vector if asked for."""
        varying = name in self.flow.varying and not self.shape.single
        if name not in self.cache:
            if name not in self.crossing:
                raise AssertionError(f"{name} is used before its definition")
            variable = self._alloca(name)
            self.cache[name] = self.let(f"load {self.allocas[variable]}, ptr %{variable}")
        if vec and not varying:
            key = ("splat", name)
            if key not in self.cache:
                self.cache[key] = self.splat(self.cache[name], self.ll(name))
            return self.cache[key]
        if varying and not vec:
            raise AssertionError(f"{name} varies and is wanted as a scalar by {self.ins.op}")
        return self.cache[name]

    # -- for the opcode handlers

    def emit(self, text: str) -> None:
        self.lines.append("  " + text)

    def let(self, text: str) -> str:
        self.n += 1
        self.lines.append(f"  %t{self.n} = {text}")
        return f"%t{self.n}"

    def label(self, name: str) -> None:
        self.lines.append(f"{name}:")

    def new_label(self) -> str:
        self.n += 1
        return f"L{self.n}"

    def number(self, i: Ins) -> int:
        """The number under which faults and hazards name this instruction."""
        if not self.instructions or self.instructions[-1] is not i:
            self.instructions.append(i)
        return len(self.instructions) - 1

    def T(self, kind: str) -> str:
        return f"<32 x {kind}>" if self.vec else kind

    def intrinsic(self, name: str, kind: str, arity: int, result: str | None = None) -> str:
        """Full name of an overloaded intrinsic for the current width."""
        short = {"float": "f32", "double": "f64", "half": "f16"}.get(kind, kind)
        full = f"@llvm.{name}.{'v32' if self.vec else ''}{short}"
        self.declare(f"declare {self.T(result or kind)} {full}({', '.join([self.T(kind)] * arity)})")
        return full

    def call(self, name: str, kind: str, *args: str) -> str:
        """Call an intrinsic whose operands and result have one type."""
        full = self.intrinsic(name, kind, len(args))
        return self.let(f"call {self.T(kind)} {full}({', '.join(f'{self.T(kind)} {a}' for a in args)})")

    def declare(self, text: str) -> None:
        self.declares.add(text)

    def splat(self, value: str, kind: str) -> str:
        if not value.startswith("%"):
            return f"splat ({kind} {value})"
        first = self.let(f"insertelement <32 x {kind}> poison, {kind} {value}, i32 0")
        return self.let(f"shufflevector <32 x {kind}> {first}, <32 x {kind}> poison, <32 x i32> zeroinitializer")

    def constant(self, value: int | float | str, kind: str) -> str:
        """An integer, or a float given by value, in the current width."""
        text = float_text(float(value)) if kind in ("float", "double") and not isinstance(value, str) else str(value)
        return f"splat ({kind} {text})" if self.vec else text

    def cast(self, value: str, source: str, target: str, vec: bool, signed: bool = False) -> str:
        """Reinterpret bits; widths may differ (truncate, or extend by zero or sign)."""
        if source == target:
            return value

        def t(kind: str) -> str:
            return f"<32 x {kind}>" if vec else kind

        a, b = BITS[source], BITS[target]
        if a == b:
            return self.let(f"bitcast {t(source)} {value} to {t(target)}")
        integer = f"i{a}"
        value = self.cast(value, source, integer, vec)
        if a > b:
            value = self.let(f"trunc {t(integer)} {value} to {t(f'i{b}')}")
        else:
            value = self.let(f"{'sext' if signed else 'zext'} {t(integer)} {value} to {t(f'i{b}')}")
        return self.cast(value, f"i{b}", target, vec)

    def get(self, o: Operand, kind: str, vec: bool | None = None) -> str:
        """An operand as a value of LLVM type `kind`; vec defaults to the width of the current instruction."""
        vec = self.vec if vec is None else vec
        match o:
            case Reg(name) if name == UNDEFINED:
                # Never written: all bits set, a NaN where it is a float, so that it does not pass for a result.
                text = (
                    "-1"
                    if kind.startswith("i")
                    else {"float": "0xFFFFFFFFE0000000", "double": "0xFFFFFFFFFFFFFFFF"}.get(kind, "0")
                )
                return f"splat ({kind} {text})" if vec else text
            case Reg(name) if name in self.types:
                if name in self.flow.thread_x and not vec and name in self.flow.varying:
                    return self.cast(self.warp_value("tid_x0"), "i32", kind, vec=False)
                return self.cast(self._value(name, vec), self.ll(name), kind, vec)
            case Reg(name) if is_special(name):
                return self.cast(self._special(name, vec), self._special_type(name), kind, vec)
            case Imm(value, bits):
                text = immediate_text(value, bits, kind)
                return f"splat ({kind} {text})" if vec else text
            case Sym(name, offset):
                text = str(self.symbol(name) + offset)
                return f"splat ({kind} {text})" if vec else text
            case Not(reg):
                value = self.get(reg, "i1", vec)
                return self.let(f"xor {'<32 x i1>' if vec else 'i1'} {value}, {'splat (i1 true)' if vec else 'true'}")
        raise UnsupportedPtx(f"operand {o} of {self.ins.op}", self.ins.loc)

    def put(self, o: Operand, value: str, kind: str, scalar: bool = False, signed: bool = False) -> None:
        """Define a destination register with a value of LLVM type `kind`."""
        if isinstance(o, Sym):  # `_`: thrown away
            return
        if isinstance(o, Vec):
            raise UnsupportedPtx(f"vector destination of {self.ins.op}", self.ins.loc)
        assert isinstance(o, Reg)
        name, own = o.name, self.ll(o.name)
        varying = name in self.flow.varying and not self.shape.single
        if varying and (scalar or not self.vec):
            value = self.splat(value, kind)
        value = self.cast(value, kind, own, varying, signed)
        old = self.ins.previous.get(name)
        t = f"<32 x {own}>" if varying else own
        if old is not None and self.ins.base not in MEMORY_LIKE:
            guard = self.get(Not(Reg(self.ins.pred)) if self.ins.negated else Reg(self.ins.pred), "i1", varying)
            keep = self.get(Reg(old), own, varying)
            value = self.let(f"select {'<32 x i1>' if varying else 'i1'} {guard}, {t} {value}, {t} {keep}")
        elif old is not None and varying:
            keep = self.get(Reg(old), own, True)
            value = self.let(f"select <32 x i1> {self.lane_vector(self.mask)}, {t} {value}, {t} {keep}")
        if name in self.flow.blended:
            variable = self._alloca(name)
            before = self.let(f"load {t}, ptr %{variable}")
            value = self.let(f"select <32 x i1> {self.lane_vector(self.mask)}, {t} {value}, {t} {before}")
        if not value.startswith("%"):
            value = self.let(f"bitcast {t} {value} to {t}")
        self.cache[name] = value
        self.cache.pop(("splat", name), None)
        if name in self.crossing:
            self._store(name, value)

    def is_uniform(self, o: Operand) -> bool:
        if self.shape.single:
            return True
        for name in registers(o):
            if name in self.flow.varying or (is_special(name) and special_varies(name, self.shape)):
                return False
        return True

    def lane_bits(self, o: Operand, negated: bool = False) -> str:
        """A predicate as a mask of lanes (i32); lanes outside of the running mask may have any value."""
        if self.is_uniform(o):
            p = self.get(o, "i1", vec=False)
            bits = self.let(f"select i1 {p}, i32 -1, i32 0")
        else:
            bits = self.let(f"bitcast <32 x i1> {self.get(o, 'i1', vec=True)} to i32")
        return self.let(f"xor i32 {bits}, -1") if negated else bits

    def lane_vector(self, mask: str) -> str:
        if mask == "-1":
            return "splat (i1 true)"
        key = ("lanes", mask)
        if key not in self.cache:
            self.cache[key] = self.let(f"bitcast i32 {mask} to <32 x i1>")
        return self.cache[key]

    def symbol(self, name: str) -> int:
        """The address of a variable in its own state space, or of a kernel."""
        places = self.places
        for table in (places.shared, places.local, places.variables, places.functions):
            if name in table:
                return table[name]
        raise UnsupportedPtx(f"symbol {name}", self.ins.loc)

    def context(self, name: str, pointer: bool = False) -> str:
        return self._once("%ctx", Context, name, pointer)

    def warp_value(self, name: str, pointer: bool = False) -> str:
        return self._once("%warp", Warp, name, pointer)

    def _once(self, base: str, structure: type, name: str, pointer: bool) -> str:
        """A field that does not change during the call: loaded at the entry."""
        key = (base, name)
        if key not in self.context_values:
            _, kind = L.field(structure, name)
            p = self._field_pointer(base, structure, name, self.entry)
            self.n += 1
            value = f"%c{self.n}"
            self.entry.append(f"  {value} = load {'ptr' if pointer else kind}, ptr {p}, !invariant.load !1")
            self.context_values[key] = value
        return self.context_values[key]

    def fault(self, kind: int, i: Ins) -> None:
        """Record a fault for the running lanes and leave."""
        for name, value in (("fault_kind", kind), ("fault_insn", self.number(i))):
            self.emit(f"store i32 {value}, ptr {self._field_pointer('%ctx', Context, name, self.lines)}")
        self.emit(f"store i32 {self.mask}, ptr {self._field_pointer('%ctx', Context, 'fault_mask', self.lines)}")
        self.emit(
            f"store i32 {self.warp_value('number')}, ptr {self._field_pointer('%ctx', Context, 'fault_warp', self.lines)}"
        )
        self.emit("br label %fail")

    def fault_unless(self, ok: str, kind: int, i: Ins) -> None:
        good, bad = self.new_label(), self.new_label()
        self.emit(f"br i1 {ok}, label %{good}, label %{bad}, !prof !2")
        self.label(bad)
        self.fault(kind, i)
        self.label(good)

    def go_on_if(self, ok: str) -> None:
        """Continue where a helper said ok; it has recorded the fault where it did not."""
        good = self.new_label()
        self.emit(f"br i1 {ok}, label %{good}, label %fail, !prof !2")
        self.label(good)

    # -- special registers

    def _special_type(self, name: str) -> str:
        return "i64" if name in ("%clock64", "%globaltimer", "%gridid") else "i32"

    def _special(self, name: str, vec: bool) -> str:
        kind = self._special_type(name)
        if name.startswith("%tid.") and not self.shape.single:
            return self._thread_index(name[-1], vec)
        if name == "%laneid" and not self.shape.single:
            return IOTA
        if name.startswith("%lanemask_") and not self.shape.single:
            return _LANE_MASKS[name[10:]]
        value = self._scalar_special(name)
        return self.splat(value, kind) if vec else value

    def _thread_index(self, axis: str, vec: bool) -> str:
        if not self.shape.whole_rows:
            p = self._field_pointer("%warp", Warp, f"tid_{axis}", self.lines)
            return self.let(f"load <32 x i32>, ptr {p}, align 4")
        base = self.warp_value(f"tid_{axis}0")
        if axis != "x":
            return self.splat(base, "i32") if vec else base
        if not vec:
            return base  # only where Flow.lane_base allows: bits above the lane number
        key = ("tid", axis)
        if key not in self.cache:
            self.cache[key] = self.let(f"add nuw nsw <32 x i32> {self.splat(base, 'i32')}, {IOTA}")
        return self.cache[key]

    def _scalar_special(self, name: str) -> str:
        head, _, axis = name[1:].partition(".")
        if head in ("ntid", "ctaid", "nctaid"):
            return self.context(f"{head}_{axis}")
        match head:
            case "warpid":
                return self.warp_value("number")
            case "nwarpid":
                return self.context("nwarps")
            case "dynamic_smem_size":
                return self.context("dynamic_shared")
            case "total_smem_size":
                return self.let(f"trunc i64 {self.context('shared_bytes')} to i32")
            case "clock64" | "globaltimer":
                return self._clock()
            case "clock" | "clock_hi" | "globaltimer_lo" | "globaltimer_hi":
                shifted = self.let(f"lshr i64 {self._clock()}, {32 if head.endswith('hi') else 0}")
                return self.let(f"trunc i64 {shifted} to i32")
            case "tid" | "laneid" | "gridid" | "smid":
                return "0"
            case "nsmid":
                return "132"
        raise UnsupportedPtx(f"special register {name}", self.ins.loc)

    def _clock(self) -> str:
        """Warp-instructions so far: it only grows, which is all that a kernel may rely on."""
        p = self._field_pointer("%ctx", Context, "used", self.lines)
        used = self.let(f"load i64, ptr {p}")
        left = self.let("load i64, ptr %fuel")
        total = self.let(f"add i64 {used}, {self.context('fuel_slice')}")
        return self.let(f"sub i64 {total}, {left}")


_LANE_MASKS = {
    name: "<" + ", ".join(f"i32 {formula(n)}" for n in range(L.LANES)) + ">"
    for name, formula in {
        "eq": lambda n: 1 << n,
        "lt": lambda n: (1 << n) - 1,
        "le": lambda n: (2 << n) - 1,
        "gt": lambda n: 0xFFFFFFFF ^ ((2 << n) - 1),
        "ge": lambda n: 0xFFFFFFFF ^ ((1 << n) - 1),
    }.items()
}


def float_text(value: float) -> str:
    """LLVM spells any float as the hexadecimal bits of the double of the same value."""
    return f"0x{struct.unpack('>Q', struct.pack('>d', value))[0]:016X}"


def immediate_text(value: int, bits: int, kind: str) -> str:
    if kind == "i1":
        return "true" if value else "false"
    if kind.startswith("i"):
        return str(value)
    if kind == "float":
        number = value if bits == 32 else struct.unpack(">I", struct.pack(">f", _as_float(value, bits)))[0]
        return _float_bits_text(number)
    return f"0x{value:016X}" if bits == 64 else float_text(_as_float(value, bits))


def _as_float(value: int, bits: int) -> float:
    if bits == 64:
        return float(struct.unpack(">d", value.to_bytes(8, "big"))[0])
    if bits == 32:
        return float(struct.unpack(">f", value.to_bytes(4, "big"))[0])
    return float(value)


def _float_bits_text(bits: int) -> str:
    """The double whose rounding to float has exactly these bits (NaN payloads included)."""
    exponent, fraction = bits >> 23 & 255, bits & 0x7FFFFF
    if exponent == 255:
        return f"0x{(bits >> 31 << 63) | (0x7FF << 52) | fraction << 29:016X}"
    return float_text(_as_float(bits, 32))
