"""What the emulator reports -> findings: line, tensor, index, block, thread, in sentences."""

from __future__ import annotations

import struct
from dataclasses import replace

from harness.devices import accesses, between_blocks
from harness.devices.places import LaunchPlaces, Spot, Tensors, ranges
from harness.emulator import layout as L
from harness.emulator import undefined
from harness.emulator.host import user_line
from harness.emulator.launch import Outcome
from harness.emulator.layout import Context, Hazard
from harness.emulator.ptx import Ins, Module
from harness.plan import locate
from harness.planning.printf import render
from harness.results import Access, Finding
from harness.verdict import FindingKind as K
from harness.verdict import severity, verdict_of

_BY_MASK = (L.F_TRAP, L.F_ASSERT, L.F_BARRIER_MASK, L.F_SHUFFLE, L.F_BARRIER_NUMBER)  # name lanes, not one lane
_USES = {undefined.VALUE: "used", undefined.ADDRESS: "used as an address", undefined.CONDITION: "used as a condition"}
_NO_BLOCK = 1 << 62
_PRINT_HEADER = 16  # bytes of a printf record before the arguments


class Reporter:
    """Explains the outcomes of one case's launches. `file` is the user's file."""

    def __init__(self, module: Module, file: str, tensors: Tensors):
        self._module, self._file, self._tensors = module, file, tensors

    def findings(self, places: LaunchPlaces, outcome: Outcome) -> list[Finding]:
        """The fault, if any, then the hazards: one finding for each kind and line."""
        found = [self._fault(places, outcome)] if outcome.fault is not None else []
        seen = {(f.kind, f.line) for f in found}
        # Where a line races with other warps and with lanes of its own, the former says which barrier is missing.
        hazards = [self._hazard(places, h) for h in sorted(outcome.hazards, key=_within_warp)]
        raced = {f.tensor for f in hazards if f.kind is K.DATA_RACE}
        for f in hazards:
            # A word read too early is first seen unwritten, then written by another warp: the race is the cause.
            symptom = f.kind is K.UNINITIALIZED_READ and f.tensor in raced
            if (f.kind, f.line) not in seen and not symptom:
                seen.add((f.kind, f.line))
                found.append(f)
        return sorted(found, key=lambda f: severity(verdict_of(f.kind)), reverse=True)

    def printed(self, outcome: Outcome) -> str:
        """What the kernel's printf calls say."""
        return "".join(self._record(r) for r in outcome.records)

    def _record(self, record: bytes) -> str:
        (address,) = struct.unpack_from("<Q", record)
        body = record[_PRINT_HEADER:]
        text = self._tensors.cstring
        return render(text(address), lambda at, n: body[at : at + n].ljust(n, b"\0"), text)

    def _at(self, p: LaunchPlaces, i: Ins | None, block: int, warp: int, lane: int) -> Finding:
        """A finding without a kind yet: where an instruction stands and who ran it."""
        loc = i.loc if i else None
        file, line = user_line(self._module, loc, self._file)
        stack = []
        while loc is not None:
            name = self._module.files.get(loc.file, "").rsplit("/", 1)[-1]
            if loc.line and name == self._file and (name, loc.line) != (file, line):  # not those in headers
                stack.append(f"{name}:{loc.line}")
            loc = loc.inlined_at
        where = p.block(block) if block < _NO_BLOCK else None
        return Finding(
            K.NOTE, "", file or self._file, line, block=where, thread=p.thread(warp, lane), kernel=p.name,
            call_stack=tuple(stack),
        )  # fmt: skip

    # -- faults

    def _fault(self, p: LaunchPlaces, outcome: Outcome) -> Finding:
        assert outcome.fault is not None
        if outcome.waiting:
            return between_blocks.given_up(p, outcome, self._at, self._line)
        return self._fault_of_block(p, outcome.fault)

    def _line(self, p: LaunchPlaces, insn: int) -> int:
        i = self._instruction(p, insn)
        return user_line(self._module, i.loc if i else None, self._file)[1]

    def _fault_of_block(self, p: LaunchPlaces, c: Context) -> Finding:
        i = self._instruction(p, c.fault_insn)
        lane = (c.fault_mask & -c.fault_mask).bit_length() - 1 if c.fault_kind in _BY_MASK else c.fault_lane
        base = self._at(p, i, c.block, c.fault_warp, max(lane, 0))
        match c.fault_kind:
            case L.F_ACCESS:
                return accesses.explain(p, self._tensors, base, i, c.fault_address, c.fault_bytes)
            case L.F_TRAP:
                message = f"{p.name} executes a trap ({self._cause_of_trap(p, i)})."
                return replace(base, kind=K.TRAP, message=message)
            case L.F_ASSERT:
                said = self._tensors.cstring(c.fault_address)
                return replace(base, kind=K.TRAP, message=f"Assertion failed in {p.name}: {said}")
            case L.F_BARRIER_MASK:
                return self._divergence(p, c, replace(base, kind=K.BARRIER_DIVERGENCE, message=_barrier_mask(c)))
            case L.F_BARRIER_NUMBER:
                message = "A barrier has a number above 15 or a thread count that is no multiple of 32."
                return replace(base, kind=K.BARRIER_DIVERGENCE, message=message)
            case L.F_BARRIER_COUNT:
                first, second = c.fault_address & 0xFFFFFFFF, c.fault_address >> 32
                message = (
                    f"This warp arrives at a barrier of {second * L.LANES} threads, at which others wait for "
                    f"{first * L.LANES}: all must name the same number."
                )
                return replace(base, kind=K.BARRIER_DIVERGENCE, message=message)
            case L.F_MBARRIER:
                spot = p.shared_spot(c.fault_address)
                message = _MBARRIER[c.fault_bytes].format(spot=spot.text)
                return replace(base, kind=K.INVALID_BARRIER, tensor=spot.tensor, message=message)
            case L.F_SHUFFLE:
                return self._divergence(p, c, replace(base, kind=K.INVALID_SHUFFLE, message=_shuffle(c, i)))
            case L.F_BARRIER_EXITED | L.F_DEADLOCK:
                return self._stuck(p, c)
            case L.F_BUDGET:
                message = (
                    f"{p.name} has used up its budget of instructions; a warp was last seen in the loop at this line. "
                    "Does the loop's condition ever become false?"
                )
                return replace(base, kind=K.TIME_LIMIT, thread=None, message=message)
        message = f"{p.name} did not end within the time limit."
        if base.line and c.fault_insn:
            return replace(base, kind=K.TIME_LIMIT, thread=None, message=message)
        return Finding(K.TIME_LIMIT, message, self._file, p.launch.line, kernel=p.name)

    def _divergence(self, p: LaunchPlaces, c: Context, found: Finding) -> Finding:
        """Say where the lanes are that an operation of the whole warp is missing."""
        other = self._instruction(p, c.fault_other) if c.fault_absent else None
        _, line = user_line(self._module, other.loc if other else None, self._file)
        if not line:
            return found
        lanes = [n for n in range(L.LANES) if c.fault_absent >> n & 1]
        where = f"Lanes {ranges(lanes)} were last seen at line {line}."
        thread = p.thread(c.fault_warp, lanes[0])
        access = Access(line, p.block(c.block), thread, file=self._file, missing=True)
        return replace(found, message=f"{found.message} {where}", other=access)
    def _cause_of_trap(self, p: LaunchPlaces, i: Ins | None) -> str:
        file = self._module.files.get(i.loc.file, "") if i and i.loc else ""
        if "cooperative_groups" in file and not p.launch.cooperative:
            return "a grid-wide operation of cooperative_groups, which needs cudaLaunchCooperativeKernel()"
        return "__trap() or an unreachable path"

    def _instruction(self, p: LaunchPlaces, number: int) -> Ins | None:
        return p.kernel.instructions[number] if number < len(p.kernel.instructions) else None

    def _stuck(self, p: LaunchPlaces, c: Context) -> Finding:
        """Which warps wait where, and which have returned."""
        warps = (L.Warp * c.nwarps).from_address(c.warps)
        waiting: dict[int, list[int]] = {}
        for w, warp in enumerate(warps):
            if warp.state != L.EXITED:
                _, line = user_line(self._module, p.kernel.instructions[_waits_at(warp)].loc, self._file)
                waiting.setdefault(line, []).append(w)
        exited = [w for w, warp in enumerate(warps) if warp.state == L.EXITED]
        first = next(w for ws in waiting.values() for w in ws)
        base = self._at(p, p.kernel.instructions[_waits_at(warps[first])], c.block, first, 0)
        parts = [f"{_warps(ws)} wait{'s' * (len(ws) == 1)} at line {line}" for line, ws in waiting.items()]
        if not exited or any(warp.state == L.RUN for warp in warps):
            parts += [f"{_warps(exited)} {'has' if len(exited) == 1 else 'have'} returned"] if exited else []
            message = f"Deadlock: no warp of the block can go on: {'; '.join(parts)}."
            return replace(base, kind=K.DEADLOCK, thread=None, message=message)
        way_out = self._instruction(p, warps[exited[0]].exit_insn)
        _, line = user_line(self._module, way_out.loc if way_out else None, self._file)
        where = f" at line {line}" if line else ""
        parts.append(f"{_warps(exited)} {'has' if len(exited) == 1 else 'have'} returned{where}")
        message = f"Threads wait at a barrier that others never reach: {'; '.join(parts)}."
        access = Access(line, p.block(c.block), p.thread(exited[0], 0), file=self._file, missing=True) if line else None
        return replace(base, kind=K.BARRIER_DIVERGENCE, thread=None, message=message, other=access)

    # -- hazards

    def _hazard(self, p: LaunchPlaces, h: Hazard) -> Finding:
        i = p.kernel.instructions[h.insn]
        base = self._at(p, i, h.block, h.warp, h.lane)
        if h.kind == L.H_UNINIT_LOCAL:
            message = "A local array element is read before it was written."
            return replace(base, kind=K.UNINITIALIZED_READ, message=message)
        if h.kind in (L.H_BLOCK_READ, L.H_BLOCK_WRITE):
            spot = self._tensors.spot(*locate(h.address))
            number = h.other >> L.PLACE_BITS
            line = self._line(p, number)
            return between_blocks.race(p, h, (i, self._instruction(p, number)), base, spot, line)
        if h.kind == L.H_UNINIT_REGISTER:
            message = f"A variable is {_USES[h.tag]} before it was given a value on this path."
            return replace(base, kind=K.UNINITIALIZED_READ, message=message)
        if h.kind == L.H_UNINIT_GLOBAL:
            spot = self._tensors.spot(*locate(h.address))
            message = f"{spot.text} is read before anything was written to it."
        else:
            spot = p.shared_spot(h.address)
            message = f"Shared {spot.text} is read before any thread of this block wrote it."
        if h.kind in (L.H_UNINIT_GLOBAL, L.H_UNINIT_SHARED):
            return replace(base, kind=K.UNINITIALIZED_READ, tensor=spot.tensor, index=spot.index, message=message)
        if h.kind in (L.H_IN_FLIGHT, L.H_BARRIER_OBJECT):
            return self._marked(p, h, i, base, spot)
        return self._race(p, h, i, base, spot)

    def _marked(self, p: LaunchPlaces, h: Hazard, i: Ins, base: Finding, spot: Spot) -> Finding:
        """An access of bytes that a copy is about to write, or of an mbarrier object."""
        other = self._instruction(p, h.other >> 5)
        _, line = user_line(self._module, other.loc if other else None, self._file)
        access = Access(line, p.block(h.block), None, write=True, file=self._file)
        verb = "written" if accesses.writes(i) else "read"
        if h.kind == L.H_IN_FLIGHT:
            message = (
                f"Shared {spot.text} is {verb} while the asynchronous copy of line {line} into it is still under way: "
                "wait for the copy first (cp.async.wait_group, or the barrier or pipeline that it arrives at)."
            )
            kind = K.ASYNC_HAZARD
        else:
            message = f"Shared {spot.text} is {verb} as data, but line {line} made an mbarrier of it."
            kind = K.INVALID_BARRIER
        return replace(base, kind=kind, tensor=spot.tensor, index=spot.index, other=access, message=message)

    def _race(self, p: LaunchPlaces, h: Hazard, i: Ins, base: Finding, spot: Spot) -> Finding:
        other = self._instruction(p, h.other >> 5)
        who = h.tag & (L.CLOCK_STEP - 1)
        warp = who & (L.SEVERAL_LANES - 1)
        _, line = user_line(self._module, other.loc if other else None, self._file)
        within = who != L.MANY_WARPS and warp == h.warp
        several = who == L.MANY_WARPS or (within and who & L.SEVERAL_LANES and h.other & 31 == h.lane)
        thread = None if several else p.thread(warp, h.other & 31)
        access = Access(line, p.block(h.block), thread, write=h.kind != L.H_RACE_READ, file=self._file)
        mine = "updates" if i.base in ("atom", "red") else "writes" if accesses.writes(i) else "reads"
        theirs = "read" if h.kind == L.H_RACE_READ else "wrote"
        missing = "__syncwarp()" if within else "__syncthreads()"
        others = "other threads of the warp" if within else "other threads"
        message = (
            f"Race on shared {spot.text}: thread {base.thread} {mine} it here while "
            f"{f'thread {thread}' if thread else others} {theirs} it at line {line}, "
            f"with no {missing} between the two."
        )
        return replace(base, kind=K.DATA_RACE, tensor=spot.tensor, index=spot.index, other=access, message=message)


_MBARRIER = {
    L.M_NOT_INITIALISED: "The mbarrier at {spot} is used before it was initialised.",
    L.M_ARRIVALS: "More arrivals at the mbarrier at {spot} than its phase still expects: is its count too small?",
    L.M_INITIALISED_TWICE: "The mbarrier at {spot} is initialised again without having been invalidated.",
    L.M_COUNT: "The mbarrier at {spot} is initialised with a count outside of 1 to 1048575.",
}


def _within_warp(h: Hazard) -> bool:
    """Whether a hazard is a race between lanes of one warp."""
    who = h.tag & (L.CLOCK_STEP - 1)
    return h.kind in L.SHARED_RACES and who != L.MANY_WARPS and who & (L.SEVERAL_LANES - 1) == h.warp


def _waits_at(warp: L.Warp) -> int:
    """Number of the instruction at which a warp waits: a barrier's, or a test of an mbarrier."""
    return int(warp.wait_insn if warp.state == L.WAIT else warp.resting - 1)


def _warps(numbers: list[int]) -> str:
    return f"warp{'s' * (len(numbers) > 1)} {ranges(numbers)}"


def _barrier_mask(c: Context) -> str:
    running = c.fault_mask.bit_count()
    return (
        f"__syncthreads() is reached by only {running} of the threads of warp {c.fault_warp}: the others took another "
        "branch or have returned. Every thread of the block must reach the same barrier."
    )


def _shuffle(c: Context, i: Ins | None) -> str:
    names = {"shfl": "A shuffle", "vote": "A vote", "bar": "__syncwarp()"}
    if c.fault_mask == 0xFFFFFFFF:
        return f"{names.get(i.base if i else '', 'A warp operation')} reads from a lane that its mask does not name."
    lanes = ranges([n for n in range(L.LANES) if c.fault_mask >> n & 1])
    return (
        f"{names.get(i.base if i else '', 'A warp operation')} names threads of warp {c.fault_warp} that are not "
        f"running it, or reads from one: only lanes {lanes} are here. The others took another branch, left the loop "
        "earlier, or have returned."
    )
