"""Memory layout shared by generated code and Python: what a worker thread, a warp and a buffer look like."""

from __future__ import annotations

import ctypes as c

from harness.plan import BUFFER_BITS

LANES = 32
SHARED_WINDOW = 1  # generic addresses: window << 40 | offset
LOCAL_WINDOW = 2
WINDOW_BITS = BUFFER_BITS
MAX_BARRIERS = 16
CALL_BYTES = 4096  # of the buffer for the arguments and the result of an external call

# What a call of kernel code returns, and what a block's run ends with.
DONE, BARRIER, YIELD, FAULT, CALL = range(5)
ASIDE = 5  # of a block's run: every warp that could run has given way, so another block may have the turn

# Tags of the shared-memory shadow: clock << 7 | who (access/clocks.py). `who` is a warp's number, plus one of these:
WHO_BITS = 7
CLOCK_STEP = 1 << WHO_BITS
SEVERAL_LANES = 32  # several lanes of the warp, in one interval
STRONG = 64  # the last access was an atomic, or volatile, or relaxed and stronger
MANY_WARPS = 97  # readers of several warps
SPECIAL = -CLOCK_STEP  # as i32; tags from here on are never ordered before anything:
IN_FLIGHT = SPECIAL | 98  # an asynchronous copy will write here
BARRIER_OBJECT = SPECIAL | 99  # an mbarrier lies here
CLOCK_LIMIT = 1 << 31  # a block that starts with a clock above this starts the shadow afresh
SYNC_SLOTS = 64  # clocks of places in memory that warps synchronise by, found by a hash of the address

# Why a run stopped, in Context.fault_kind.
(F_NONE, F_ACCESS, F_TRAP, F_ASSERT, F_BARRIER_MASK, F_BARRIER_EXITED, F_DEADLOCK, F_SHUFFLE, F_BUDGET, F_STOPPED,
 F_BARRIER_COUNT, F_BARRIER_NUMBER, F_MBARRIER, F_BLOCKS_WAIT) = range(14)  # fmt: skip

# What was wrong with the use of an mbarrier, in Context.fault_bytes.
M_NOT_INITIALISED, M_ARRIVALS, M_INITIALISED_TWICE, M_COUNT = range(4)
MAX_COPIES = 256  # cp.async instructions of a warp under way; older ones are then carried out early
MAX_DEFERRED = 256  # of a block: arrivals that wait for copies, and bulk copies

# Kinds of hazards: seen, recorded, and run past.
(H_RACE_READ, H_RACE_WRITE, H_UNINIT_SHARED, H_UNINIT_LOCAL, H_UNINIT_GLOBAL, H_RACE_ATOMIC, H_IN_FLIGHT,
 H_BARRIER_OBJECT, H_BLOCK_READ, H_BLOCK_WRITE, H_UNINIT_REGISTER) = range(11)  # fmt: skip
SHARED_RACES = (H_RACE_READ, H_RACE_WRITE, H_RACE_ATOMIC)

# Tags of the global-memory shadow (access/blocks.py): 2 * a block's number in the case, + 1 for a strong access.
TAG_STRONG = 1
PLACE_BITS = 10  # of warp and lane
RELEASE_SLOTS = 64  # by a hash of the address: times at which blocks released what they had written
LOCK_STRIPES = 256  # spin locks for the shadow, each for 4 KiB of every buffer


class BufferEntry(c.Structure):
    """One row of the buffer table, indexed by buffer id."""

    _fields_ = [
        ("base", c.c_uint64),  # opaque address of byte 0
        ("size", c.c_uint64),  # readable bytes
        ("writable", c.c_uint64),  # writable bytes: size or 0
        ("host", c.c_uint64),  # where the bytes are
        ("shadow", c.c_uint64),  # one byte per 4: written or not; 0 where all is initialised
        ("watch", c.c_uint64),  # -> BlockShadow where kernels may write; 0 for inputs, which need no shadow at all
        ("counts", c.c_uint64),  # of this worker: TRAFFIC_CELLS cells for each instruction, T_* below
        ("bits_read", c.c_uint64),  # one bit for every 4 bytes that a kernel has read
        ("bits_written", c.c_uint64),
        ("lines_read", c.c_uint64),  # of this worker: one bit for every LINE bytes that a kernel has read as a whole
        ("lines_written", c.c_uint64),
    ]


class BlockShadow(c.Structure):
    """Who touched a buffer in this launch: arrays with an entry for each unit (the kernel's smallest store)."""

    _fields_ = [
        ("wtag", c.c_uint64),  # the last writer; 0 where this buffer is not searched for races
        ("wplace", c.c_uint64),  # its instruction << PLACE_BITS | warp << 5 | lane
        ("rtag", c.c_uint64),  # the last reader
        ("rplace", c.c_uint64),
        ("wtime", c.c_uint64),  # when; only where kernels communicate
        ("rtime", c.c_uint64),
        ("others", c.c_uint64),  # when a block other than the last reader last read it
        ("plain_wtag", c.c_uint64),  # the last plain write that a strong one took the place of
        ("plain_wplace", c.c_uint64),
        ("plain_wtime", c.c_uint64),
    ]


class Order(c.Structure):
    """What orders the blocks of a launch: one for all of its workers."""

    _fields_ = [
        ("time", c.c_uint32),  # grows with every fence
        ("pad", c.c_uint32),
        ("released", c.c_uint32 * RELEASE_SLOTS),
    ]


class Hazard(c.Structure):
    _fields_ = [
        ("kind", c.c_uint32),
        ("insn", c.c_uint32),
        ("lane", c.c_uint32),
        ("warp", c.c_uint32),
        ("block", c.c_uint64),
        ("address", c.c_uint64),  # byte offset in shared or local memory, or a global address
        ("tag", c.c_uint32),  # of the other access; of H_BLOCK_*: its block, or the number of blocks for several
        ("other", c.c_uint32),  # its instruction << 5 | lane; of H_BLOCK_*: as in BlockShadow
    ]


class CopyRecord(c.Structure):
    """A cp.async under way."""

    _fields_ = [
        ("data", c.c_uint32 * (4 * LANES)),  # word k of lane l at l * words + k
        ("target", c.c_uint32 * LANES),  # byte offset in shared memory
        ("group", c.c_uint32 * LANES),  # number of the thread's group that it belongs to
        ("mask", c.c_uint32),  # lanes whose copy is still under way
        ("insn", c.c_uint32),
        ("words", c.c_uint32),
        ("pad", c.c_uint32),
    ]


class DeferredArrival(c.Structure):
    """cp.async.mbarrier.arrive: arrivals that happen when the copies before them are done."""

    _fields_ = [
        ("warp", c.c_uint64),
        ("place", c.c_uint32),  # of the mbarrier, byte offset in shared memory
        ("mask", c.c_uint32),  # lanes; 0: done
        ("upto", c.c_uint32),  # number of the first copy behind it
        ("tag", c.c_uint32),
    ]


class BulkCopy(c.Structure):
    """A cp.async.bulk under way from global to shared memory."""

    _fields_ = [
        ("source", c.c_uint64),  # host address
        ("target", c.c_uint32),
        ("nbytes", c.c_uint32),  # 0: done
        ("place", c.c_uint32),  # of the mbarrier
        ("tag", c.c_uint32),
        ("site", c.c_uint32),
        ("pad", c.c_uint32),
    ]


class TracedRequest(c.Structure):
    """One request of a warp, as a traced kernel made it (access/tracing.py)."""

    _fields_ = [
        ("block", c.c_uint64),
        ("warp", c.c_uint32),
        ("mask", c.c_uint32),
        ("lanes", c.c_uint32),  # in the mask; 0: nothing is kept here
        ("cost", c.c_uint32),  # sectors, or passes of shared memory, beyond the ideal
        ("address", c.c_uint64 * LANES),  # generic
    ]


class TraceMap(c.Structure):
    """Which blocks touched which cell of a buffer: of each cell `stride` bytes, a bit for every block."""

    _fields_ = [
        ("size", c.c_uint64),  # bytes of the buffer
        ("row_bytes", c.c_uint64),
        ("row_shift", c.c_uint64),  # log2 of a cell's rows
        ("byte_shift", c.c_uint64),  # log2 of a cell's bytes of each row
        ("columns", c.c_uint64),  # cells side by side
        ("stride", c.c_uint64),
        ("read", c.c_uint64),  # -> bits; 0 where the buffer is not mapped
        ("written", c.c_uint64),
        ("next", c.c_uint64),  # -> the next TraceMap of the buffer, in other cells; 0: none
    ]


class Trace(c.Structure):
    """Where a traced launch leaves what it saw."""

    _fields_ = [
        ("requests", c.c_uint64),  # TRACED_SLOTS TracedRequests for each instruction
        ("maps", c.c_uint64),  # a TraceMap for each row of the buffer table
        ("nmaps", c.c_uint64),
    ]


TRACED_SLOTS = 4  # the request of most lanes and the costliest, of global memory and then of shared memory


class Context(c.Structure):
    """One per worker thread."""

    _fields_ = [
        ("buffers", c.c_uint64),
        ("nbuffers", c.c_uint64),
        ("shared", c.c_uint64),
        ("shared_bytes", c.c_uint64),
        ("wtag", c.c_uint64),
        ("winsn", c.c_uint64),
        ("rtag", c.c_uint64),
        ("rinsn", c.c_uint64),
        ("plain_wtag", c.c_uint64),  # the last weak write that a strong one took the place of in wtag and winsn
        ("plain_winsn", c.c_uint64),
        ("params", c.c_uint64),
        ("warps", c.c_uint64),
        ("warp_stride", c.c_uint64),
        ("local_bytes", c.c_uint64),
        ("next_block", c.c_uint64),  # -> i64 shared by the workers
        ("nblocks", c.c_uint64),
        ("stop", c.c_uint64),  # -> i32 shared: non-zero ends all workers
        ("fuel_slice", c.c_int64),  # warp-instructions before a warp yields
        ("fuel_left", c.c_int64),  # what the last call left of its slice
        ("used", c.c_int64),  # warp-instructions of this worker
        ("budget", c.c_int64),
        ("hazards", c.c_uint64),
        ("nhazards", c.c_uint64),
        ("max_hazards", c.c_uint64),
        ("history", c.c_uint64),  # per instruction the host addresses of its last four vector loads, to prefetch by
        ("seen", c.c_uint64),  # an i32 per instruction: the kinds of hazards already recorded
        ("fault_address", c.c_uint64),
        ("block", c.c_uint64),  # linear index of the current block
        ("print_buffer", c.c_uint64),
        ("print_used", c.c_uint64),
        ("print_size", c.c_uint64),
        ("call_buffer", c.c_uint64),  # arguments and result of an external call
        ("nwarps", c.c_uint32),
        ("etag", c.c_uint32),  # the block's clock: grows with every synchronisation
        ("start_tag", c.c_uint32),  # what it was when the block began
        ("fault_kind", c.c_uint32),
        ("fault_insn", c.c_uint32),
        ("fault_lane", c.c_uint32),
        ("fault_warp", c.c_uint32),
        ("fault_bytes", c.c_uint32),
        ("fault_mask", c.c_uint32),
        ("barrier", c.c_uint32),
        ("barrier_threads", c.c_uint32),  # 0: all threads of the block
        ("barrier_insn", c.c_uint32),
        ("barrier_arrive", c.c_uint32),  # 1: bar.arrive, the warp goes on
        ("ctaid_x", c.c_uint32),
        ("ctaid_y", c.c_uint32),
        ("ctaid_z", c.c_uint32),
        ("nctaid_x", c.c_uint32),
        ("nctaid_y", c.c_uint32),
        ("nctaid_z", c.c_uint32),
        ("ntid_x", c.c_uint32),
        ("ntid_y", c.c_uint32),
        ("ntid_z", c.c_uint32),
        ("dynamic_shared", c.c_uint32),
        ("arrived", c.c_uint32 * MAX_BARRIERS),  # warps
        ("expected", c.c_uint32 * MAX_BARRIERS),  # warps; 0: all
        ("red_popc", c.c_uint32 * MAX_BARRIERS),  # bar.red: the votes that have come in
        ("red_and", c.c_uint32 * MAX_BARRIERS),
        ("red_or", c.c_uint32 * MAX_BARRIERS),
        ("site", c.c_uint32 * MAX_BARRIERS),  # instruction of the first arrival
        ("only_arrived", c.c_uint32 * MAX_BARRIERS),  # warps that arrived by bar.arrive and went on
        ("fault_other", c.c_uint32),  # an instruction that explains a fault: where the lanes that are missing went
        ("fault_absent", c.c_uint32),  # the lanes that are missing there
        ("sync_clocks", c.c_uint64),  # MAX_BARRIERS + SYNC_SLOTS vector clocks; 0 where __syncthreads() is all there is
        ("rclock", c.c_uint64),  # with sync_clocks: for each warp its last read of each granule of shared memory,
        ("rsite", c.c_uint64),  # and its instruction << 5 | lane
        ("shadow_bytes", c.c_uint64),  # of each array from wtag to plain_winsn
        ("deferred", c.c_uint64),  # -> DeferredArrival; 0 where the kernel has no asynchronous copies or mbarriers
        ("bulk", c.c_uint64),  # -> BulkCopy
        ("ndeferred", c.c_uint32),
        ("nbulk", c.c_uint32),
        ("idle_turns", c.c_uint32),  # in which all that ran waited for an mbarrier in vain
        ("progress", c.c_uint32),  # grows whenever something happens that a waiting warp may be waiting for
        ("race_base", c.c_uint32),  # tags up to race_base + 1 are of older launches
        ("block_tag", c.c_uint32),
        ("seen_time", c.c_uint32),  # what was done before this time is ordered before what the block does now
        ("pending_time", c.c_uint32),  # the same, once the block executes a fence
        ("fence_time", c.c_uint32),  # of the block's last fence: what its strong writes release
        ("start_time", c.c_uint32),  # of the launch
        ("order", c.c_uint64),  # -> Order
        ("locks", c.c_uint64),  # -> LOCK_STRIPES x i32, or 0 where one worker runs alone
        ("order_step", c.c_uint64),  # the n-th block to run is (order_step * n + order_first) mod nblocks
        ("order_first", c.c_uint64),
        ("warp_step", c.c_uint32),  # likewise for the warps of a block in each turn
        ("warp_first", c.c_uint32),
        ("sets_aside", c.c_uint32),  # whether blocks that only wait are put aside
        ("moved", c.c_uint32),  # whether a warp did anything but give way in this turn
        ("grid_workspace", c.c_uint64),  # of a cooperative launch: %envreg1, %envreg2
        ("counts", c.c_uint64),  # TRAFFIC_CELLS cells for each instruction on shared and local memory, S_* below
        ("block_counts", c.c_uint64),  # two cells for each PTX block: executions, and lanes where they vary
        ("trace", c.c_uint64),  # -> Trace, for kernels compiled to be traced; 0: not this launch
    ]


class Warp(c.Structure):
    _fields_ = [
        ("frame", c.c_uint64),
        ("local", c.c_uint64),
        ("local_shadow", c.c_uint64),
        ("pc", c.c_uint32),
        ("initial", c.c_uint32),  # lanes that have a thread
        ("live", c.c_uint32),
        ("state", c.c_uint32),  # RUN, WAIT, EXITED
        ("waits_at", c.c_uint32),  # barrier number
        ("wait_insn", c.c_uint32),
        ("number", c.c_uint32),
        ("tid_x0", c.c_uint32),  # of lane 0
        ("tid_y0", c.c_uint32),
        ("tid_z0", c.c_uint32),
        ("red", c.c_uint32 * 3),  # result of the last bar.red: popc, and, or
        ("pad", c.c_uint32),
        ("tid_x", c.c_uint32 * LANES),
        ("tid_y", c.c_uint32 * LANES),
        ("tid_z", c.c_uint32 * LANES),
        ("mine", c.c_uint32),  # the tag of this warp's accesses now (access/clocks.py)
        ("floor", c.c_uint32),  # accesses with a clock below are ordered before this warp's, whoever made them
        ("exit_insn", c.c_uint32),  # where lanes of the warp returned last
        ("resting", c.c_uint32),  # instruction + 1 at which the warp waits for an mbarrier; 0: it does not
        ("copies", c.c_uint64),  # -> CopyRecord, a ring
        ("first_copy", c.c_uint32),  # numbers of copies since the block began: those under way are
        ("next_copy", c.c_uint32),  # first_copy to next_copy - 1
        ("group", c.c_uint32 * LANES),  # of each thread: number of its open group of copies
        ("vclock", c.c_uint32 * LANES),  # for each warp the clock below which its accesses are ordered before ours
        ("fence_clock", c.c_uint32 * LANES),  # the same as it was at the last fence: what a release hands on
        ("seen_clock", c.c_uint32 * LANES),  # read from places of synchronisation; holds from the next fence on
    ]


RUN, WAIT, EXITED = range(3)

# 64-bit counters of one instruction (access/traffic.py). On one buffer of global memory: full-warp requests of
# consecutive whole sectors; full-warp requests of one address; and of all others the requests, the bytes that their
# lanes asked for, the bytes where lanes that ask for the same count once, sectors, and the least possible sectors.
TRAFFIC_CELLS = 8
T_LINES, T_UNIFORM, T_REQUESTS, T_BYTES, T_DISTINCT, T_SECTORS, T_IDEAL = range(7)
# On shared and local memory: requests that the execution counts of blocks do not tell, passes beyond the ideal, and
# passes that a request saves because lanes are idle or want the same; and where its PATTERN is.
S_REQUESTS, S_EXCESS, S_SAVED, S_PATTERN = range(4)
PATTERN = 40  # i32s: the last irregular request's offsets from its first lane, its mask, its excess and saved passes
P_MASK, P_EXCESS, P_SAVED = 32, 33, 34
SECTOR = 32  # bytes
LINE = 128
BANKS = 32  # of shared memory, 4 bytes wide

_SCALARS: dict[object, str] = {c.c_uint64: "i64", c.c_int64: "i64", c.c_uint32: "i32"}


def field(structure: type[c.Structure], name: str) -> tuple[int, str]:
    """(byte offset, LLVM type) of a field."""
    kind = next(entry[1] for entry in structure._fields_ if entry[0] == name)
    return getattr(structure, name).offset, _SCALARS.get(kind, "ptr")
