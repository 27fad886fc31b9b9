"""What the emulator reports -> findings: line, tensor, index, block, thread, in sentences."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from harness.devices.base import Argument
from harness.emulator import layout as L
from harness.emulator.host import user_line
from harness.emulator.launch import Outcome
from harness.emulator.layout import Context, Hazard
from harness.emulator.memory import Memory
from harness.emulator.program import Compiled
from harness.emulator.ptx import Ins, Module
from harness.plan import FIRST_TENSOR_ID, Launch, locate
from harness.planning.printf import render
from harness.results import Access, Finding
from harness.verdict import FindingKind as K

Index3 = tuple[int, int, int]


@dataclass(frozen=True)
class Places:
    """The launch that a report belongs to."""

    kernel: Compiled
    launch: Launch
    name: str

    def block(self, linear: int) -> Index3:
        x, y, _ = self.launch.grid
        return linear % x, linear // x % y, linear // (x * y)

    def thread(self, warp: int, lane: int) -> Index3:
        x, y, _ = self.launch.block
        t = warp * L.LANES + lane
        return t % x, t // x % y, t // (x * y)


@dataclass(frozen=True)
class Spot:
    """A byte, in words."""

    tensor: str = ""
    index: tuple[int, ...] = ()
    text: str = ""  # "out[3, 7]"


class Reporter:
    """Explains the outcomes of one case's launches."""

    def __init__(self, module: Module, file: str, memory: Memory, tensors: Mapping[int, Argument]):
        self.module, self.file, self.memory, self.tensors = module, file, memory, tensors

    def findings(self, places: Places, outcome: Outcome) -> list[Finding]:
        """The fault, if any, then the hazards: one finding for each kind and line."""
        found = [self._fault(places, outcome.fault)] if outcome.fault is not None else []
        seen = {(f.kind, f.line) for f in found}
        hazards = [self._hazard(places, h) for h in outcome.hazards]
        raced = {f.tensor for f in hazards if f.kind is K.DATA_RACE}
        for f in hazards:
            # A word that is read too early is first seen unwritten, then written by another warp: the race is the cause.
            symptom = f.kind is K.UNINITIALIZED_READ and f.tensor in raced
            if (f.kind, f.line) not in seen and not symptom:
                seen.add((f.kind, f.line))
                found.append(f)
        return found

    # -- faults

    def _fault(self, p: Places, c: Context) -> Finding:
        i = p.kernel.instructions[c.fault_insn] if c.fault_insn < len(p.kernel.instructions) else None
        lane = c.fault_lane
        if c.fault_kind in (L.F_TRAP, L.F_ASSERT, L.F_BARRIER_MASK, L.F_SHUFFLE, L.F_BARRIER_NUMBER):
            lane = (c.fault_mask & -c.fault_mask).bit_length() - 1 if c.fault_mask else 0
        base = self._at(p, i, c.block, c.fault_warp, lane)
        match c.fault_kind:
            case L.F_ACCESS:
                return self._access(p, c, i, base)
            case L.F_TRAP:
                return replace(
                    base, kind=K.TRAP, message=f"{p.name} executes a trap (__trap() or an unreachable path)."
                )
            case L.F_ASSERT:
                said = self._cstring(c.fault_address)
                return replace(base, kind=K.TRAP, message=f"Assertion failed in {p.name}: {said}")
            case L.F_BARRIER_MASK:
                return replace(base, kind=K.BARRIER_DIVERGENCE, message=self._barrier_mask(p, c))
            case L.F_BARRIER_NUMBER:
                return replace(base, kind=K.BARRIER_DIVERGENCE,
                               message="A barrier has a number above 15 or a thread count that is no multiple of 32.")  # fmt: skip
            case L.F_SHUFFLE:
                return replace(base, kind=K.INVALID_SHUFFLE, message=self._shuffle(p, c, i))
            case L.F_BARRIER_EXITED | L.F_DEADLOCK:
                return self._stuck(p, c)
            case L.F_BUDGET:
                return replace(base, kind=K.TIME_LIMIT, thread=None, message=(
                    f"{p.name} has used up its budget of instructions; a warp was last seen in the loop at this line. "
                    "Does the loop's condition ever become false?"))  # fmt: skip
        return Finding(
            K.TIME_LIMIT, f"{p.name} did not end within the time limit.", self.file, p.launch.line, kernel=p.name
        )

    def _at(self, p: Places, i: Ins | None, block: int, warp: int, lane: int) -> Finding:
        """A finding without a kind yet: where an instruction stands and who ran it."""
        loc = i.loc if i else None
        file, line = user_line(self.module, loc, self.file)
        stack = []
        while loc is not None:
            name = self.module.files.get(loc.file, "").rsplit("/", 1)[-1]
            if loc.line and (name, loc.line) != (file, line):
                stack.append(f"{name}:{loc.line}")
            loc = loc.inlined_at
        in_grid = block < 1 << 62
        return Finding(K.NOTE, "", file or self.file, line, block=p.block(block) if in_grid else None,
                       thread=p.thread(warp, lane), kernel=p.name, call_stack=tuple(stack))  # fmt: skip

    def _access(self, p: Places, c: Context, i: Ins | None, base: Finding) -> Finding:
        """Bounds, alignment, permission: which of them, from the address itself."""
        store = i is not None and i.base in ("st", "atom", "red")
        verb = "atomic update of" if i is not None and i.base in ("atom", "red") else "write to" if store else "read of"
        nbytes, address = c.fault_bytes, c.fault_address
        space = _space(i)
        if space == "generic" and address >> L.WINDOW_BITS in (L.SHARED_WINDOW, L.LOCAL_WINDOW):
            space = "shared" if address >> L.WINDOW_BITS == L.SHARED_WINDOW else "local"
            address &= (1 << L.WINDOW_BITS) - 1
        if space == "shared":
            return self._shared_access(p, base, verb, address, nbytes)
        if space == "local":
            message = (
                f"Out of bounds: {verb} {nbytes} bytes at byte {_signed(address)} of the thread's local variables."
            )
            return replace(base, kind=K.OUT_OF_BOUNDS, message=message)
        return self._global_access(base, verb, store, address, nbytes)

    def _shared_access(self, p: Places, base: Finding, verb: str, address: int, nbytes: int) -> Finding:
        total = (p.kernel.dynamic_offset + p.launch.shared_bytes) if p.launch.shared_bytes else p.kernel.static_shared
        offset = _signed(address & 0xFFFFFFFF, 32)
        spot = self._shared_spot(p, max(0, min(offset, max(total - 1, 0))))
        if 0 <= offset and offset + nbytes <= total:
            return replace(base, kind=K.MISALIGNED, tensor=spot.tensor, index=spot.index,
                           message=f"Misaligned: {verb} {nbytes} bytes at {spot.text} in shared memory; the address must be a multiple of {nbytes}.")  # fmt: skip
        hint = ""
        if total == 0:
            hint = " The launch asks for no shared memory: is the third <<<>>> argument missing?"
        return replace(base, kind=K.OUT_OF_BOUNDS, tensor=spot.tensor,
                       message=f"Out of bounds: {verb} {nbytes} bytes at byte {offset} of the block's {total} bytes of shared memory.{hint}")  # fmt: skip

    def _global_access(self, base: Finding, verb: str, store: bool, address: int, nbytes: int) -> Finding:
        number, offset = locate(address)
        region = self.memory.regions.get(number)
        if region is None or number < 16:
            what = "a null pointer" if address < 1 << 20 else "an address that belongs to no buffer"
            return replace(
                base,
                kind=K.OUT_OF_BOUNDS,
                message=f"Out of bounds: {verb} {nbytes} bytes through {what} (0x{address:x}).",
            )
        size, spot = region.buffer.nbytes, self._spot(number, offset)
        name = region.buffer.name
        if region.freed:
            return replace(base, kind=K.OUT_OF_BOUNDS, tensor=name, message=f"Use after free: {verb} {spot.text}.")
        if 0 <= offset and offset + nbytes <= size and offset % nbytes == 0 and store and not region.writable:
            return replace(base, kind=K.READ_ONLY_WRITE, tensor=name, index=spot.index,
                           message=f"{spot.text} is an input: a kernel must not write to it.")  # fmt: skip
        if 0 <= offset and offset + nbytes <= size:
            return replace(base, kind=K.MISALIGNED, tensor=name, index=spot.index,
                           message=f"Misaligned: {verb} {nbytes} bytes at {spot.text}; the address must be a multiple of {nbytes}.")  # fmt: skip
        where = (
            f"{-offset} bytes before its start"
            if offset < 0
            else f"{offset - size} bytes behind its end"
            if offset >= size
            else "across its end"
        )
        itemsize = self._itemsize(number)
        element = f" (element {offset // itemsize} of {size // itemsize})"
        return replace(
            base,
            kind=K.OUT_OF_BOUNDS,
            tensor=name,
            message=f"Out of bounds: {verb} {nbytes} bytes of {name}, {where}{element}.",
        )

    def _barrier_mask(self, p: Places, c: Context) -> str:
        running = bin(c.fault_mask).count("1")
        return (f"__syncthreads() is reached by only {running} of the threads of warp {c.fault_warp}: the others took another branch or "
                "have returned. Every thread of the block must reach the same barrier.")  # fmt: skip

    def _shuffle(self, p: Places, c: Context, i: Ins | None) -> str:
        what = {"shfl": "A shuffle", "vote": "A vote", "bar": "__syncwarp()"}.get(
            i.base if i else "", "A warp operation"
        )
        lanes = [n for n in range(L.LANES) if c.fault_mask >> n & 1]
        return (f"{what} names threads of warp {c.fault_warp} that are not running it, or reads from one: only lanes {_ranges(lanes)} are here. "
                "The others took another branch, left the loop earlier, or have returned.")  # fmt: skip

    def _stuck(self, p: Places, c: Context) -> Finding:
        """Which warps wait where, and which have returned."""
        warps = (L.Warp * c.nwarps).from_address(c.warps)
        waiting: dict[int, list[int]] = {}
        exited = []
        first = None
        for w, warp in enumerate(warps):
            if warp.state == L.WAIT:
                i = p.kernel.instructions[warp.wait_insn]
                first = first or (i, w)
                waiting.setdefault(user_line(self.module, i.loc, self.file)[1], []).append(w)
            else:
                exited.append(w)
        assert first is not None
        base = self._at(p, first[0], c.block, first[1], 0)
        parts = [
            f"warp{'s' if len(ws) > 1 else ''} {_ranges(ws)} wait{'s' if len(ws) == 1 else ''} at line {line}"
            for line, ws in waiting.items()
        ]
        if exited:
            parts.append(
                f"warp{'s' if len(exited) > 1 else ''} {_ranges(exited)} {'have' if len(exited) > 1 else 'has'} returned"
            )
            message = f"Threads wait at a barrier that others never reach: {'; '.join(parts)}."
            return replace(base, kind=K.BARRIER_DIVERGENCE, thread=None, message=message)
        message = f"Deadlock: no warp of the block can go on: {'; '.join(parts)}."
        return replace(base, kind=K.DEADLOCK, thread=None, message=message)

    # -- hazards

    def _hazard(self, p: Places, h: Hazard) -> Finding:
        i = p.kernel.instructions[h.insn]
        base = self._at(p, i, h.block, h.warp, h.lane)
        if h.kind == L.H_UNINIT_GLOBAL:
            number, offset = locate(h.address)
            spot = self._spot(number, offset)
            return replace(base, kind=K.UNINITIALIZED_READ, tensor=spot.tensor, index=spot.index,
                           message=f"{spot.text} is read before anything was written to it.")  # fmt: skip
        if h.kind == L.H_UNINIT_LOCAL:
            return replace(
                base, kind=K.UNINITIALIZED_READ, message="A local array element is read before it was written."
            )
        spot = self._shared_spot(p, h.address)
        if h.kind == L.H_UNINIT_SHARED:
            return replace(base, kind=K.UNINITIALIZED_READ, tensor=spot.tensor, index=spot.index,
                           message=f"Shared {spot.text} is read before any thread of this block wrote it.")  # fmt: skip
        return self._race(p, h, i, base, spot)

    def _race(self, p: Places, h: Hazard, i: Ins, base: Finding, spot: Spot) -> Finding:
        other_ins = p.kernel.instructions[h.other >> 5] if h.other >> 5 < len(p.kernel.instructions) else None
        warp = h.tag & 63
        _, line = user_line(self.module, other_ins.loc if other_ins else None, self.file)
        thread = p.thread(warp, h.other & 31) if warp < L.TAG_ATOMIC else None
        other = Access(line, p.block(h.block), thread, write=h.kind != L.H_RACE_READ, file=self.file)
        mine = "updates" if i.base in ("atom", "red") else "writes" if i.base == "st" else "reads"
        theirs = "read" if h.kind == L.H_RACE_READ else "wrote"
        who = f"thread {thread}" if thread else "other threads" if warp == L.TAG_MANY else "an atomic of another warp"
        message = (f"Race on shared {spot.text}: thread {base.thread} {mine} it here while {who} {theirs} it at line {line}, "
                   "with no __syncthreads() between the two.")  # fmt: skip
        return replace(base, kind=K.DATA_RACE, tensor=spot.tensor, index=spot.index, other=other, message=message)

    # -- names of places

    def _itemsize(self, number: int) -> int:
        a = self.tensors.get(number)
        return a.value.itemsize if a is not None and isinstance(a.value, np.ndarray) else 4

    def _spot(self, number: int, offset: int) -> Spot:
        region = self.memory.regions.get(number)
        name = region.buffer.name if region else "?"
        element = offset // self._itemsize(number)
        a = self.tensors.get(number)
        index: tuple[int, ...] = (element,)
        if (
            number >= FIRST_TENSOR_ID
            and a is not None
            and isinstance(a.value, np.ndarray)
            and 0 <= element < a.value.size
        ):
            index = tuple(int(k) for k in np.unravel_index(element, a.value.shape))
        return Spot(name, index, f"{name}[{', '.join(map(str, index))}]")

    def _shared_spot(self, p: Places, offset: int) -> Spot:
        """The shared variable that holds a byte; its index in 4-byte elements."""
        best, start = "", -1
        for name, at in p.kernel.shared.items():
            if start < at <= offset:
                best, start = name, at
        if not best:
            return Spot("", (), f"memory at byte {offset}")
        index = ((offset - start) // 4,)
        name = _variable(best)
        return Spot(name, index, f"{name}[{index[0]}] (counted in 4-byte words)")

    # -- printf

    def printed(self, outcome: Outcome) -> str:
        return "".join(self._record(r) for r in outcome.records)

    def _record(self, record: bytes) -> str:
        (address,) = struct.unpack_from("<Q", record)
        body = record[16:]
        return render(self._cstring(address), lambda at, n: body[at : at + n].ljust(n, b"\0"), self._cstring)

    def _cstring(self, address: int) -> str:
        number, offset = locate(address)
        region = self.memory.regions.get(number)
        if region is None or not 0 <= offset < region.buffer.nbytes:
            return ""
        data = region.data[offset:].tobytes()
        return data.split(b"\0", 1)[0].decode("utf-8", "replace")


def _space(i: Ins | None) -> str:
    for m in i.mods[1:] if i else ():
        if m.split("::")[0] in ("global", "const", "shared", "local"):
            return m.split("::")[0]
    return "generic"


def _signed(value: int, bits: int = 64) -> int:
    return value - (1 << bits) if value >> (bits - 1) else value


def _ranges(numbers: list[int]) -> str:
    """1, 2, 3, 7 -> "1-3, 7"."""
    parts: list[list[int]] = []
    for n in numbers:
        if parts and n == parts[-1][1] + 1:
            parts[-1][1] = n
        else:
            parts.append([n, n])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)


def _variable(mangled: str) -> str:
    """The source name of a shared variable: _ZZ<function>E<n><name> or plain."""
    if not mangled.startswith("_Z"):
        return mangled
    tail = mangled.rsplit("E", 1)[-1] if mangled.startswith("_ZZ") else mangled[2:]
    digits = ""
    while tail and tail[0].isdigit():
        digits, tail = digits + tail[0], tail[1:]
    return tail[: int(digits)] if digits else mangled
