"""Leaving and coming back: what a warp saves to its frame at a barrier, a yield or an external call.

A suspended warp is data: the values that the place where it goes on needs (`frame_set`), its lanes, and the number of
that place in Warp.pc. The kernel's entry switches on it to the lines that restore them (`resumes`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.emulator import layout as L
from harness.emulator.cfg import Block
from harness.emulator.emitter import Emitter
from harness.emulator.errors import UnsupportedPtx
from harness.emulator.inline import call_places
from harness.emulator.layout import Context, Warp
from harness.emulator.ptx import Ins, Reg
from harness.emulator.speculation import Deferred
from harness.emulator.ssa import definitions
from harness.emulator.taint import Taint
from harness.emulator.types import BITS


class Suspender(Emitter):
    """Emits suspensions. `frame_set` and `move` come from the lowering around it."""

    frame_set: dict[Block, list[str]]  # what each block needs when it is entered: live-in values and phis
    partial_exit: bool  # whether lanes may exit while others of the warp go on

    def __init__(self, *args: Any, undefined: frozenset[str] = frozenset(), deferred: Sequence[Deferred] = (),
                 **kwargs: Any):  # fmt: skip
        """undefined: of undefined.analyse; deferred: of speculation.restore."""
        super().__init__(*args, **kwargs)
        self.taint = Taint(self, undefined, deferred)
        self.resumes: list[str] = []
        self.frame: dict[str, int] = {}  # key -> byte offset in the warp's frame
        self.frame_bytes = 0

    def move(self, b: Block, target: Block, lanes: str, blend: bool) -> None:
        """The phi copies of one edge."""
        raise NotImplementedError

    def current_mask(self, b: Block) -> str:
        """The lanes that run b."""
        raise NotImplementedError

    def take_fuel(self, b: Block) -> None:
        assert b.loop is not None
        own = sorted((x for x in b.loop.blocks if x.loop is b.loop), key=lambda x: x.index)
        cost = max(1, sum(len(x.ins) + 1 for x in own))
        left = self.let(f"sub i64 {self.let('load i64, ptr %fuel')}, {cost}")
        self.emit(f"store i64 {left}, ptr %fuel")
        out, on = self.new_label(), self.new_label()
        self.emit(f"br i1 {self.let(f'icmp slt i64 {left}, 0')}, label %{out}, label %{on}, !prof !0")
        self.label(out)
        waiting = sorted(self.flow.pending[b], key=lambda c: c.index)
        number = len(self.resumes) + 1
        resume = self._save(b, waiting)
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
        self.mask = self.current_mask(b)

    def _note_place(self, i: Ins | None) -> None:
        """Remember where a warp leaves: for the message if its budget is used up, and which call it makes."""
        number = self.number(i or Ins("nop", ()))
        for base, structure, name in (("%ctx", Context, "fault_insn"), ("%warp", Warp, "wait_insn")):
            self.emit(f"store i32 {number}, ptr {self.field_pointer(base, structure, name, self.lines)}")

    def rest(self, polls: int = 1) -> None:
        """See Emitter.rest."""
        left, debt = self.let("load i64, ptr %fuel"), self.let("load i64, ptr %debt")
        share = left if polls == 1 else self.let(f"sdiv i64 {self.context('fuel_slice')}, {polls}")
        self.emit(f"store i64 {self.let(f'sub i64 {left}, {share}')}, ptr %fuel")
        self.emit(f"store i64 {self.let(f'add i64 {debt}, {share}')}, ptr %debt")

    def _slot(self, key: str, kind: str) -> int:
        """Offset of a value's place in the frame."""
        if key not in self.frame:
            size = max(8, L.LANES * BITS[kind[6:-1]] // 8 if kind.startswith("<") else BITS[kind] // 8)
            align = min(64, size)
            self.frame_bytes = (self.frame_bytes + align - 1) // align * align
            self.frame[key] = self.frame_bytes
            self.frame_bytes += size
        return self.frame[key]

    def _save(self, target: Block, waiting: list[Block], skip: tuple[str, ...] = ()) -> list[str]:
        """Save to the frame what `target`, and the blocks in which lanes may wait, need; returns the lines that
        restore it."""
        resume: list[str] = []
        frame = self.warp_value("frame", pointer=True)

        def transfer(key: str, kind: str, variable: str) -> None:
            offset = self._slot(key, kind)
            p = self.let(f"getelementptr i8, ptr {frame}, i64 {offset}")
            self.emit(f"store {kind} {self.let(f'load {kind}, ptr %{variable}')}, ptr {p}")
            self.n += 2
            resume.append(f"  %s{self.n} = getelementptr i8, ptr {frame}, i64 {offset}")
            resume.append(f"  %s{self.n + 1} = load {kind}, ptr %s{self.n}")
            resume.append(f"  store {kind} %s{self.n + 1}, ptr %{variable}")
            self.n += 1

        # Lanes that wait elsewhere will need what their own blocks read.
        needed = {name for b in (target, *waiting) for name in self.frame_set[b]}
        for name in sorted(needed):
            if name not in skip:
                variable = self.alloca_of(name)
                transfer(name, self.allocas[variable], variable)
        for key, variable in self.taint.saved(needed):
            transfer(key, "i32", variable)
        if waiting:
            transfer("$mask", "i32", "mask")
        for c in waiting:
            transfer(f"$pend{c.index}", "i32", self.pending_variable(c))
        return resume

    def _finish_suspension(self, number: int, code: int) -> None:
        pc = self.field_pointer("%warp", Warp, "pc", self.lines)
        self.emit(f"store i32 {number}, ptr {pc}")
        if self.partial_exit:
            live = self.field_pointer("%warp", Warp, "live", self.lines)
            self.emit(f"store i32 {self.let('load i32, ptr %live')}, ptr {live}")
        self.lines += self.leave_lines(code)

    def suspend(self, b: Block, code: int, i: Ins) -> None:
        """Leave behind the last instruction of b; come back at the start of its successor."""
        (target,) = b.succ
        results = tuple(definitions(i, self.types))
        self.move(b, target, self.mask, blend=False)
        number = len(self.resumes) + 1
        self.resumes.append("")
        resume = self._save(target, [], skip=results)
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
                f"store i32 {self.let('load i32, ptr %live') if self.partial_exit else self.all_lanes()}, ptr %mask"
            )
            for c in sorted(self.flow.pending[target], key=lambda c: c.index):
                self.emit(f"store i32 0, ptr %{self.pending_variable(c)}")
        self.emit(f"br label %B{target.index}")
        self.resumes[number - 1] = "\n".join(self.lines)
        self.lines = lines

    def _define_results(self, i: Ins, results: tuple[str, ...]) -> None:
        if i.base == "call":
            kind = self.ll(results[0])
            buffer = self.context("call_buffer", pointer=True)
            self.put(Reg(results[0]), self.let(f"load {kind}, ptr {buffer}"), kind, scalar=True)
            return
        mode = {"popc": 0, "and": 1, "or": 2}[next(m for m in i.mods if m in ("popc", "and", "or"))]
        p = self.field_pointer("%warp", Warp, "red", self.lines)
        q = self.let(f"getelementptr i32, ptr {p}, i32 {mode}")
        v = self.let(f"load i32, ptr {q}")
        if mode == 0:
            self.put(Reg(results[0]), v, "i32", scalar=True)
        else:
            self.put(Reg(results[0]), self.let(f"icmp ne i32 {v}, 0"), "i1", scalar=True)

    def external_call(self, i: Ins) -> None:
        """Write the arguments of a call to the runtime API to the call buffer."""
        buffer = self.context("call_buffer", pointer=True)
        arguments = call_places(i, self.types)
        if arguments and arguments[-1].place + arguments[-1].nbytes > L.CALL_BYTES:
            raise UnsupportedPtx("a call with more than 4 KiB of arguments", i.loc)
        for argument in arguments:
            for r, offset in argument.pieces:
                kind = self.ll(r.name)
                p = self.let(f"getelementptr i8, ptr {buffer}, i64 {offset}")
                self.emit(f"store {kind} {self.get(r, kind, vec=False)}, ptr {p}")
        self._note_place(i)

    def pending_variable(self, b: Block) -> str:
        name = f"pend{b.index}"
        if name not in self.allocas:
            self.allocas[name] = "i32"
            self.entry.append(f"  store i32 0, ptr %{name}")
        return name

    def leave_lines(self, code: int) -> list[str]:
        lines: list[str] = []
        left = self.field_pointer("%ctx", Context, "fuel_left", lines)
        self.n += 1
        return [
            *lines,
            f"  %f{self.n} = load i64, ptr %fuel",
            f"  %d{self.n} = load i64, ptr %debt",
            f"  %l{self.n} = add i64 %f{self.n}, %d{self.n}",
            f"  store i64 %l{self.n}, ptr {left}",
            f"  ret i32 {code}",
        ]
