"""Checked memory access: helper functions in LLVM IR, made on demand for one width.

Every access is checked for bounds, alignment, write permission and initialisation; shared memory also for races
(clocks.py). A helper comes in up to three forms:

    u   one address for all lanes: scalar code, inlined
    v   an address a lane, inlined: the case of consecutive addresses is checked and moved as one vector;
        everything else goes to
    s   out of line: a gather where all is well, else lane by lane, which also finds the lane at fault

A helper returns its values and `ok`; where not ok, @fault has filled Context.fault_*. Hazards (uninitialised reads,
races) are recorded by @hazard and do not stop the run.
"""

from harness.emulator.access.base import Needs, fault, first_lane, hazard, need, reject, values_type, within
from harness.emulator.access.generic import generic_s, single_u
from harness.emulator.access.global_memory import Entry, global_u, global_v, meet
from harness.emulator.access.local_memory import local_u
from harness.emulator.access.shared_memory import Shared, shared_u, shared_v
from harness.emulator.access.shared_scattered import shared_atomic
from harness.emulator.access.slow import slow
from harness.emulator.access.tracing import trace_lanes, traced_request
from harness.emulator.access.traffic import generic_traffic, shared_traffic
from harness.emulator.access.unwritten import unwritten

__all__ = [
    "Entry", "Needs", "Shared", "fault", "first_lane", "generic_s", "generic_traffic", "global_u", "global_v", "hazard",
    "local_u", "meet", "need", "reject", "shared_atomic", "shared_traffic", "shared_u", "shared_v", "single_u", "slow",
    "trace_lanes", "traced_request", "unwritten", "values_type", "within",
]  # fmt: skip
