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

# Tags of the shared-memory shadow: epoch * 64 + warp, or one of these in place of the warp.
TAG_ATOMIC, TAG_MANY = 62, 63
EPOCH_STEP = 64

# Why a run stopped, in Context.fault_kind.
(F_NONE, F_ACCESS, F_TRAP, F_ASSERT, F_BARRIER_MASK, F_BARRIER_EXITED, F_DEADLOCK, F_SHUFFLE, F_BUDGET, F_STOPPED,
 F_BARRIER_COUNT, F_BARRIER_NUMBER) = range(12)  # fmt: skip

# Kinds of hazards: seen, recorded, and run past.
H_RACE_READ, H_RACE_WRITE, H_UNINIT_SHARED, H_UNINIT_LOCAL, H_UNINIT_GLOBAL, H_RACE_ATOMIC = range(6)


class BufferEntry(c.Structure):
    """One row of the buffer table, indexed by buffer id."""

    _fields_ = [
        ("base", c.c_uint64),  # opaque address of byte 0
        ("size", c.c_uint64),  # readable bytes
        ("writable", c.c_uint64),  # writable bytes: size or 0
        ("host", c.c_uint64),  # where the bytes are
        ("shadow", c.c_uint64),  # one byte per 4: written or not; 0 where all is initialised
        ("counts", c.c_uint64),  # of this worker: TRAFFIC_CELLS cells for each instruction, T_* below
        ("bits_read", c.c_uint64),  # one bit for every 4 bytes that a kernel has read
        ("bits_written", c.c_uint64),
        ("lines_read", c.c_uint64),  # of this worker: one bit for every LINE bytes that a kernel has read as a whole
        ("lines_written", c.c_uint64),
    ]


class Hazard(c.Structure):
    _fields_ = [
        ("kind", c.c_uint32),
        ("insn", c.c_uint32),
        ("lane", c.c_uint32),
        ("warp", c.c_uint32),
        ("block", c.c_uint64),
        ("address", c.c_uint64),  # byte offset in shared or local memory, or a global address
        ("tag", c.c_uint32),  # of the other access
        ("other", c.c_uint32),  # its instruction << 5 | lane
    ]


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
        ("seen", c.c_uint64),  # one byte per instruction: hazard already recorded
        ("fault_address", c.c_uint64),
        ("block", c.c_uint64),  # linear index of the current block
        ("print_buffer", c.c_uint64),
        ("print_used", c.c_uint64),
        ("print_size", c.c_uint64),
        ("call_buffer", c.c_uint64),  # arguments and result of an external call
        ("nwarps", c.c_uint32),
        ("etag", c.c_uint32),
        ("start_tag", c.c_uint32),
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
        ("counts", c.c_uint64),  # TRAFFIC_CELLS cells for each instruction on shared and local memory, S_* below
        ("block_counts", c.c_uint64),  # two cells for each PTX block: executions, and lanes where they vary
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
    ]


RUN, WAIT, EXITED = range(3)

# 64-bit counters of one instruction (access/traffic.py). On one buffer of global memory: full-warp requests of
# consecutive whole sectors; full-warp requests of one address; and of all others the requests, the bytes that their
# lanes asked for, the bytes where lanes that ask for the same count once, sectors, and the least possible sectors.
TRAFFIC_CELLS = 8
T_LINES, T_UNIFORM, T_REQUESTS, T_BYTES, T_DISTINCT, T_SECTORS, T_IDEAL = range(7)
# On shared and local memory: requests that the execution counts of blocks do not tell, passes beyond the ideal, and
# passes that a request saves because lanes are idle or want the same.
S_REQUESTS, S_EXCESS, S_SAVED = range(3)
SECTOR = 32  # bytes
LINE = 128
BANKS = 32  # of shared memory, 4 bytes wide

_SCALARS: dict[object, str] = {c.c_uint64: "i64", c.c_int64: "i64", c.c_uint32: "i32"}


def field(structure: type[c.Structure], name: str) -> tuple[int, str]:
    """(byte offset, LLVM type) of a field."""
    kind = next(entry[1] for entry in structure._fields_ if entry[0] == name)
    return getattr(structure, name).offset, _SCALARS.get(kind, "ptr")
