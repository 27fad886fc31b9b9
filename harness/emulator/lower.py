"""PTX in SSA form -> LLVM IR of one function that steps one warp.

    @kernel(ctx, warp) -> DONE, BARRIER, YIELD, FAULT or CALL

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
Budget.   A loop header takes the loop's instructions from %fuel and yields when it is used up. A warp that polls gives
          fuel away, to %debt, so that it yields early; what it gave away does not count as used.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from harness.emulator import layout as L
from harness.emulator.census import Census
from harness.emulator.cfg import Block
from harness.emulator.emitter import HANDLERS, MEMORY_LIKE, Handler
from harness.emulator.errors import UnsupportedPtx
from harness.emulator.layout import Context, Warp
from harness.emulator.ptx import Ins, Reg, Sym
from harness.emulator.ssa import UNDEFINED, definitions, has_result, live_in, uses
from harness.emulator.suspension import Suspender
from harness.emulator.traffic import count_block
from harness.emulator.uniform import agenda


@dataclass
class Lowered:
    """The IR and what Python needs to run it and to explain what it reports."""

    ir: str
    frame_bytes: int
    instructions: list[Ins]  # by the number that faults and hazards name
    granule: int  # of the shadow of shared memory (access/shared_checks.py)
    exact: bool  # whether it needs vector clocks
    copies: bool  # whether it needs room for asynchronous copies and mbarriers
    census: Census


_MEETINGS = ("bar", "barrier", "shfl", "vote")  # where a report may have to say at which line others are


def _first_placed(b: Block) -> Ins:
    """What stands for a block: its own barrier or warp operation, or the first instruction whose line is known."""
    everything = [*b.ins, *([b.branch] if b.branch else [])]
    placed = [i for i in everything if i.loc is not None and i.loc.line]
    placed = sorted(placed, key=lambda i: i.base not in _MEETINGS)
    return next(iter(placed), everything[0] if everything else Ins("nop", ()))


def _way_out(b: Block) -> Ins:
    """The instruction that stands for returning at the end of b: where b is nothing but the way out, the branch to it,
    since the compiler joins the returns of a function in its last line."""
    if not b.ins and len(b.pred) == 1 and b.pred[0].branch is not None and b.pred[0].branch.loc is not None:
        return b.pred[0].branch
    return b.branch or Ins("ret", ())


class Lowering(Suspender):
    """Emits one function: its blocks and the ways between them."""

    here: Block  # the block under way
    meets: bool  # whether lanes or warps wait for others anywhere

    def run(self) -> Lowered:
        live = live_in(self.blocks, self.types)
        self.frame_set = {b: sorted(live[b] | b.phis.keys()) for b in self.blocks}
        self.crossing = self._crossing_names()
        self.meets = any(i.base in _MEETINGS for b in self.blocks for i in b.ins)
        self.partial_exit = any(not b.succ and self.flow.pending[b] for b in self.blocks)
        self.allocas["fuel"] = self.allocas["debt"] = "i64"
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
        frame = (self.frame_bytes + 63) // 64 * 64
        return Lowered(self._text(), frame, self.instructions, self.granule, self.exact, self.copies, self.census)

    def _crossing_names(self) -> set[str]:
        home: dict[str, Block | None] = {}
        for b in self.blocks:
            for name in b.phis:
                home[name] = None
            for i in b.ins:
                for name in definitions(i, self.types):
                    home[name] = (
                        None
                        if (i.pred and i.base in MEMORY_LIKE)
                        or i.base in ("bar", "barrier", "call")
                        or self.taint.is_deferred(i)
                        else b
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
        fuel = self.field_pointer("%ctx", Context, "fuel_slice", head)
        head += [f"  %fuel0 = load i64, ptr {fuel}", "  store i64 %fuel0, ptr %fuel", "  store i64 0, ptr %debt"]
        if self.partial_exit:
            head += [
                f"  %live0 = load i32, ptr {self.field_pointer('%warp', Warp, 'live', head)}",
                "  store i32 %live0, ptr %live",
            ]
        pc = self.field_pointer("%warp", Warp, "pc", head)
        head += [f"  %pc = load i32, ptr {pc}"]
        cases = " ".join(f"i32 {n + 1}, label %R{n + 1}" for n in range(len(self.resumes)))
        head += [f"  switch i32 %pc, label %start [{cases}]", "start:"]
        if self.flow.pending[self.blocks[0]]:
            raise AssertionError("lanes wait before the entry")
        head += ["  br label %B0"]
        tail = ["fail:", *self.leave_lines(L.FAULT), "}", "attributes #0 = { nounwind }"]
        return "\n".join([*head, *self.lines, *self.resumes, *tail]) + "\n"

    def missing_lanes(self) -> tuple[str, str]:
        """See Emitter.missing_lanes: lanes that wait in other blocks, or else those that have returned."""
        returned = self.field_pointer("%warp", Warp, "exit_insn", self.lines)
        number, lanes = self.let(f"load i32, ptr {returned}"), "0"
        if self.partial_exit:
            gone = self.let(f"xor i32 {self.let('load i32, ptr %live')}, -1")
            lanes = self.let(f"and i32 {gone}, {self.all_lanes()}")
        for c in sorted(self.flow.pending[self.here], key=lambda c: -c.index):
            waiting = self.let(f"load i32, ptr %{self.pending_variable(c)}")
            some = self.let(f"icmp ne i32 {waiting}, 0")
            number = self.let(f"select i1 {some}, i32 {self.number(_first_placed(c))}, i32 {number}")
            lanes = self.let(f"select i1 {some}, i32 {waiting}, i32 {lanes}")
        return number, lanes

    def _block(self, b: Block) -> None:
        self.here = b
        self.label(f"B{b.index}")
        self.cache.clear()
        self.products.clear()
        self.mask = self.current_mask(b)
        if b.loop is not None and b.loop.header is b:
            self.take_fuel(b)
        if self.counted and (b.ins or b.branch):
            self.block_number = self.census.take(b, partial=self.mask != "-1")
            count_block(self, self.block_number)
        for i in b.ins:
            if i.base in ("bar", "barrier") and i.mods[1:2] != ("warp",):
                self.ins = i
                self._instruction(i)
                self.suspend(b, L.BARRIER, i)
                return
            if i.base == "call" and self.shape.single:
                self.external_call(i)
                self.suspend(b, L.CALL, i)
                return
            self._instruction(i)
        self._depart(b)

    def current_mask(self, b: Block) -> str:
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
        handler = HANDLERS.get(f"{i.base}.{i.mods[-1]}") or HANDLERS.get(i.base)
        if handler is None:
            raise UnsupportedPtx(f"instruction {i.op}", i.loc)
        self.ins = i
        names = definitions(i, self.types)
        if names:
            self.vec = not self.shape.single and names[0] in self.flow.varying
        else:  # a result that is thrown away
            self.vec = has_result(i) and not all(self.is_uniform(a) for a in i.args[1:])
        try:
            if i.pred and i.base in MEMORY_LIKE:
                self._guarded(i, handler, names)
            else:
                self._checked(i, handler)
        except (IndexError, KeyError, ValueError, TypeError, AttributeError, StopIteration) as error:
            # Handlers take instructions apart as the PTX ISA spells them; inline assembly may spell anything.
            raise UnsupportedPtx(f"instruction {i.op} with these operands or modifiers", i.loc) from error

    def _checked(self, i: Ins, handler: Handler) -> None:
        """The instruction, between the checks of undefined registers that it needs."""
        self.taint.check(i)
        if self.taint.is_deferred(i):
            self._where_written(i, handler)
        else:
            handler(self, i)
        self.taint.define(i)

    def _where_written(self, i: Ins, handler: Handler) -> None:
        """A load for the lanes that find something written there; zeros for the others."""
        lanes = self.taint.written(i)
        for name in definitions(i, self.types):
            self.put(Reg(name), self.constant(0, self.ll(name)), self.ll(name))
            self.cache.pop(name)
        self._for_lanes(lanes, lambda: handler(self, i))

    def _guarded(self, i: Ins, handler: Handler, names: list[str]) -> None:
        """Run a memory or warp instruction for the lanes whose guard holds, if there are any."""
        self.taint.check(i, guard=True)
        lanes = self.let(f"and i32 {self.mask}, {self.lane_bits(Reg(i.pred), i.negated)}")
        for name in names:
            old = i.previous.get(name, UNDEFINED)
            if old != UNDEFINED:
                self.store_register(name, self._kept(name, self.register_value(old, name in self.flow.varying)))
        self.taint.keep(i)
        self._for_lanes(lanes, lambda: self._checked(i, handler))

    def _kept(self, name: str, value: str) -> str:
        """A value for the running lanes; lanes that have left the loop keep theirs, where it is used outside."""
        if name not in self.flow.blended:
            return value
        kind = self.allocas[self.alloca_of(name)]
        before = self.let(f"load {kind}, ptr %{self.alloca_of(name)}")
        return self.let(f"select <32 x i1> {self.lane_vector(self.mask)}, {kind} {value}, {kind} {before}")

    def _for_lanes(self, lanes: str, body: Callable[[], None]) -> None:
        """Run body for these lanes, if there are any."""
        do, skip = self.new_label(), self.new_label()
        self.emit(f"br i1 {self.let(f'icmp ne i32 {lanes}, 0')}, label %{do}, label %{skip}")
        saved, outer = dict(self.cache), self.mask
        self.label(do)
        self.mask, self.guarded = lanes, True
        body()
        self.guarded = False
        self.emit(f"br label %{skip}")
        self.label(skip)
        self.cache, self.mask = saved, outer

    def _depart(self, b: Block) -> None:
        here = self.flow.pending[b]
        i = b.branch
        if i is not None:
            self.taint.check(i)
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
            self.move(b, target, lanes, blend=True)
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
        self.move(b, target, self.mask, blend=bool(here))
        if here:
            self._wait(target, self.mask)
            self._next(b, here | {target})
            return
        if self.flow.pending[target]:
            self.emit(f"store i32 {self.mask}, ptr %mask")
        self.emit(f"br label %B{target.index}")

    def _wait(self, target: Block, lanes: str) -> None:
        name = self.pending_variable(target)
        before = self.let(f"load i32, ptr %{name}")
        self.emit(f"store i32 {self.let(f'or i32 {before}, {lanes}')}, ptr %{name}")

    def _next(self, b: Block, waiting: set[Block], may_be_none: bool = False) -> None:
        """Run the first block of the agenda that has lanes."""
        todo = agenda(b, waiting)
        for n, c in enumerate(todo):
            name = self.pending_variable(c)
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
        if self.meets:
            place = self.field_pointer("%warp", Warp, "exit_insn", self.lines)
            self.emit(f"store i32 {self.number(_way_out(b))}, ptr {place}")
        here = self.flow.pending[b]
        if here:
            rest = self.let(f"xor i32 {self.mask}, -1")
            live = self.let("load i32, ptr %live")
            self.emit(f"store i32 {self.let(f'and i32 {live}, {rest}')}, ptr %live")
            self._next(b, here, may_be_none=True)
        self.lines += self.leave_lines(L.DONE)

    def move(self, b: Block, target: Block, lanes: str, blend: bool) -> None:
        """The phi copies of one edge, read before any is written."""
        self.taint.move(b, target, lanes, blend)
        values = []
        for name, inputs in target.phis.items():
            if inputs[b] != UNDEFINED:
                values.append(
                    (name, self.register_value(inputs[b], name in self.flow.varying and not self.shape.single))
                )
        vector = ""
        for name, value in values:
            if blend and name in self.flow.varying:
                kind = self.allocas[self.alloca_of(name)]
                vector = vector or self.lane_vector(lanes)
                old = self.let(f"load {kind}, ptr %{self.alloca_of(name)}")
                value = self.let(f"select <32 x i1> {vector}, {kind} {value}, {kind} {old}")
            self.store_register(name, value)
