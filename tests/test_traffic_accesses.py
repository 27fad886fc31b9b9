"""Every way to read or write global memory counts its bytes: a table of them, bulk copies, and what solve() itself does.

A way that is not counted makes a kernel's modelled score too good, hence the tests that the table is complete.
"""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import harness.emulator
from harness import cards
from harness.compile.build import compile_submission
from harness.devices.base import Argument, Program, RunLimits
from harness.devices.cpu import EmulatorDevice
from harness.emulator import ops_async, ops_atomic, ops_matrix, ops_memory
from harness.emulator.counters import LaunchCounts, Maps, Requests
from harness.emulator.emitter import HANDLERS
from harness.emulator.memory import Memory
from harness.plan import FIRST_TENSOR_ID, Buffer
from harness.traffic import AccessTraffic, CaseTraffic, LineTraffic
from tests.emulator_kit import run

pytestmark = pytest.mark.usefixtures("quick_compiler")

FIRST = FIRST_TENSOR_ID
HELPERS = """typedef unsigned long long u64; typedef unsigned u32;
__device__ u32 at(const void* p) { return (u32)__cvta_generic_to_shared(p); }
__device__ void init(u64* b, int n) { asm volatile("mbarrier.init.shared.b64 [%0], %1;" :: "r"(at(b)), "r"(n) : "memory"); }
__device__ void expect(u64* b, u32 n) {
  asm volatile("{ .reg .b64 s; mbarrier.arrive.expect_tx.shared.b64 s, [%0], %1; }" :: "r"(at(b)), "r"(n) : "memory"); }
__device__ void bulk(void* to, const void* from, u32 n, u64* b) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" :: "r"(at(to)), "l"(from), "r"(n), "r"(at(b)) : "memory"); }
__device__ void pass(u64* b) { int ok; do asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], 0; "
  "selp.s32 %0, 1, 0, p; }" : "=r"(ok) : "r"(at(b)) : "memory"); while (!ok); }
__device__ int sink;
"""
LOAD = 'int x; asm volatile("{} %0, [%1];" : "=r"(x) : "l"(a + t) : "memory"); if (x == 1) sink = x;'
STORE = 'asm volatile("{} [%0], %1;" :: "l"(a + t), "r"(t) : "memory");'
COPY = "__shared__ __align__(128) float s[512]; "
BULK = COPY + "__shared__ u64 bar; if (t == 0) {{ init(&bar, 1); expect(&bar, {0}); bulk(s, a + {1}, {0}, &bar); }} __syncwarp(); pass(&bar);"
HALVES = '"=r"(f[0]), "=r"(f[1]), "=r"(f[2]), "=r"(f[3]), "=r"(f[4]), "=r"(f[5]), "=r"(f[6]), "=r"(f[7])'

WAYS = [  # opcode; body for thread t and float* a; bytes of a that it reads and writes
    ("ld", LOAD.format("ld.global.b32"), (128, 0)),
    ("ld", LOAD.format("ld.b32"), (128, 0)),
    ("ld", LOAD.format("ld.global.nc.b32"), (128, 0)),
    ("ld", LOAD.format("ld.volatile.global.b32"), (128, 0)),
    ("ld", LOAD.format("ld.acquire.gpu.global.b32"), (128, 0)),
    ("ld", LOAD.format("ld.relaxed.gpu.b32"), (128, 0)),
    ("ld", LOAD.format("ld.global.L2::128B.b32"), (128, 0)),
    ("ld", 'int x; asm volatile("ld.global.b32 %0, [%1];" : "=r"(x) : "l"(a + n) : "memory"); if (x == 1) sink = x;', (4, 0)),
    ("ld", 'short x; asm volatile("ld.global.b16 %0, [%1];" : "=h"(x) : "l"((short*)a + t) : "memory"); if (x == 1) sink = x;', (64, 0)),
    ("ld", 'int x; asm volatile("ld.global.u8 %0, [%1];" : "=r"(x) : "l"((char*)a + t) : "memory"); if (x == 1) sink = x;', (32, 0)),
    ("ld", 'int x; asm volatile("{ .reg .b32 y, z; ld.global.v4.b32 {%0, y, z, _}, [%1]; }" : "=r"(x) : "l"(a + 4 * t) : "memory"); if (x == 1) sink = x;', (512, 0)),
    ("ld", 'u64 x; asm volatile("{ .reg .b128 y; ld.global.b128 y, [%1]; mov.b128 {%0, _}, y; }" : "=l"(x) : "l"(a + 4 * t) : "memory"); if (x == 1) sink = 1;', (512, 0)),
    ("ldu", LOAD.format("ldu.global.b32"), (128, 0)),
    ("st", STORE.format("st.global.b32"), (0, 128)),
    ("st", STORE.format("st.b32"), (0, 128)),
    ("st", STORE.format("st.volatile.global.b32"), (0, 128)),
    ("st", STORE.format("st.release.gpu.global.b32"), (0, 128)),
    ("st", STORE.format("st.relaxed.gpu.b32"), (0, 128)),
    ("st", 'asm volatile("st.global.v4.b32 [%0], {%1, %1, %1, %1};" :: "l"(a + 4 * t), "r"(t) : "memory");', (0, 512)),
    ("st", 'asm volatile("st.global.b32 [%0], %1;" :: "l"(a + n), "r"(n) : "memory");', (0, 4)),
    ("atom", 'int x; asm volatile("atom.global.add.u32 %0, [%1], %2;" : "=r"(x) : "l"(a + t), "r"(t) : "memory"); if (x == 1) sink = x;', (0, 128)),
    ("atom", 'int x; asm volatile("atom.cas.b32 %0, [%1], %2, %2;" : "=r"(x) : "l"(a + t), "r"(t) : "memory"); if (x == 1) sink = x;', (0, 128)),
    ("atom", 'u64 x; asm volatile("atom.global.exch.b64 %0, [%1], %2;" : "=l"(x) : "l"(a + 2 * t), "l"((u64)t) : "memory"); if (x == 1) sink = 1;', (0, 256)),
    ("red", STORE.format("red.global.add.u32"), (0, 128)),
    ("red", 'asm volatile("red.global.add.v4.f32 [%0], {%1, %1, %1, %1};" :: "l"(a + 4 * t), "f"(1.f) : "memory");', (0, 512)),
    ("cp", COPY + 'asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(at(s + t)), "l"(a + t) : "memory");', (128, 0)),
    ("cp", COPY + 'asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(at(s + 4 * t)), "l"(a + 4 * t) : "memory");', (512, 0)),
    ("cp", COPY + 'asm volatile("cp.async.cg.shared.global [%0], [%1], 16, 8;" :: "r"(at(s + 4 * t)), "l"(a + 4 * t) : "memory");', (256, 0)),
    ("cp", BULK.format(1024, 4), (1024, 0)),
    ("wmma", 'u32 f[8]; asm volatile("wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {%0, %1, %2, %3, %4, %5, %6, %7}, [%8], 16;" :'
             + HALVES + ' : "l"(a) : "memory"); if (f[0] == 1) sink = f[1];', (512, 0)),
    ("wmma", 'u32 f[8]; asm volatile("wmma.load.b.sync.aligned.col.m16n16k16.f16 {%0, %1, %2, %3, %4, %5, %6, %7}, [%8], 32;" :'
             + HALVES + ' : "l"(a) : "memory"); if (f[0] == 1) sink = f[1];', (512, 0)),
    ("wmma", 'asm volatile("wmma.store.d.sync.aligned.row.m16n16k16.global.f32 [%0], {%1, %1, %1, %1, %1, %1, %1, %1}, 16;" :: "l"(a), "f"(1.f) : "memory");', (0, 1024)),
]  # fmt: skip
NO_BYTES = {  # handled beside the above: matrices in shared memory or registers, hints, order, objects in shared memory
    "applypriority", "call", "createpolicy", "cvta", "discard", "fence", "griddepcontrol", "isspacep", "ldmatrix",
    "mbarrier", "membar", "mma", "movmatrix", "nanosleep", "pmevent", "prefetch", "prefetchu", "stmatrix",
}  # fmt: skip


def _kernel(number: int, body: str) -> str:
    return f"__global__ void k{number}_(float* a, int n) {{ int t = threadIdx.x; {body} }}\n"


ALL = HELPERS + "".join(_kernel(number, body) for number, (_, body, _) in enumerate(WAYS))


def _counts(source: str, kernel: str, **launch: int) -> LaunchCounts:
    ran = run(source, [np.zeros(4096, np.float32), 7], kernel=kernel, **launch)  # type: ignore[arg-type]
    assert not ran.findings
    return ran.outcome.counts


def _requests(counts: LaunchCounts) -> Requests:
    found = [dataclasses.astuple(r) for (_, buffer), r in counts.buffers.items() if buffer == FIRST]
    return Requests(*map(sum, zip(*found, strict=True)))


@pytest.mark.parametrize("number", range(len(WAYS)), ids=[f"{n} {op}" for n, (op, *_) in enumerate(WAYS)])
def test_every_way_to_reach_global_memory_is_counted(number: int) -> None:
    *_, expected = WAYS[number]
    counts = _counts(ALL, f"k{number}_")
    assert counts.touched[FIRST] == expected
    found = _requests(counts)
    assert found.distinct == sum(expected) and found.sectors >= sum(expected) / 32


def test_every_instruction_that_takes_an_address_is_in_the_table() -> None:
    """A new one of these modules, or in a new one, has to say what it moves."""
    modules = {m.__name__ for m in (ops_memory, ops_atomic, ops_async, ops_matrix)}
    assert {b for b, h in HANDLERS.items() if h.__module__ in modules} == {op for op, *_ in WAYS} | NO_BYTES


def test_the_bytes_of_buffers_are_reached_in_no_other_place() -> None:
    """Generated code finds them by BufferEntry.host, which `Entry` loads."""
    folder = Path(harness.emulator.__file__).parent
    users = {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*.py")
        if re.search(r"\bEntry\(|BufferEntry, [\"']host", path.read_text())
    }
    assert users == {"access/global_memory.py", "access/bulk.py", "ops_atomic.py"}


@pytest.mark.parametrize(
    ("nbytes", "first", "sectors"),
    [(16, 0, 1), (16, 4, 1), (32, 0, 1), (32, 4, 2), (48, 4, 2), (48, 0, 2), (64, 12, 3), (1024, 8, 32), (1040, 4, 33)],
)
def test_a_bulk_copy_is_one_request_of_the_sectors_that_it_touches(nbytes: int, first: int, sectors: int) -> None:
    counts = _counts(HELPERS + _kernel(0, BULK.format(nbytes, first)), "k0_")
    assert _requests(counts) == Requests(1, nbytes, nbytes, sectors, -(-nbytes // 32))
    assert counts.touched == {FIRST: (nbytes, 0)} and not counts.shared


def test_each_lane_that_copies_makes_a_request_and_shared_bytes_are_distinct_once() -> None:
    body = COPY + """__shared__ u64 bar; if (t == 0) { init(&bar, 1); expect(&bar, 32 * 48); } __syncwarp();
        if (t < 24) bulk(s + 12 * t, a + 4 * t, 48, &bar); else bulk(s + 12 * t, a + 1000 + blockIdx.x * 4, 48, &bar); pass(&bar);"""
    counts = _counts(HELPERS + _kernel(0, body), "k0_", grid=6, threads=2)
    # From wherever 48 bytes begin, they touch two sectors.
    assert _requests(counts) == Requests(6 * 32, 6 * 32 * 48, 6 * 32 * 48, 6 * 32 * 2, 6 * 32 * 2)
    assert counts.touched == {FIRST: (16 * 24 + 32 + 16 * 6 + 32, 0)}


def test_bulk_copies_of_all_of_a_buffer_meet_loads_of_it_in_one_map() -> None:
    body = BULK.format(1024, 4) + " if (t < 8) a[2048 + t] = a[t] + a[255 + t];"
    counts = _counts(HELPERS + _kernel(0, body), "k0_")
    assert counts.touched == {FIRST: (16 + 1024 + 4 * 3, 32)}


# -- a whole case

STEPS = """
__device__ int table[16];
__global__ void k(const float* a, float* out) {{
  int t = threadIdx.x;
  __shared__ __align__(16) float s[64]; __shared__ u64 bar;
  if (t == 0) {{ init(&bar, 1); expect(&bar, 256); bulk(s, a, 256, &bar); }}
  __syncwarp(); pass(&bar);
  out[t] = s[t] + s[32 + t] + (table[0] == 7);
}}
extern "C" void solve(const float* a, float* out) {{
  {before}
  k<<<1, 32>>>(a, out);
  {after}
}}
"""


def _case(before: str = "", after: str = "") -> CaseTraffic:
    source = HELPERS + STEPS.format(before=before, after=after)
    arguments = [Argument("a", np.arange(4096, dtype=np.float32), "in", "float"),
                 Argument("out", np.empty(4096, np.float32), "out", "float")]  # fmt: skip
    compiled = compile_submission(source, "my.cu", 'extern "C" void solve(const float* a, float* out);', cards.get("H100"))
    assert compiled.ptx, compiled
    result = EmulatorDevice().run(Program("my.cu", compiled.ptx), arguments, RunLimits(), 0)
    assert not result.findings and result.traffic is not None
    return result.traffic


def test_a_bulk_copy_has_its_line_and_its_share_of_the_score() -> None:
    traffic = _case()
    line = HELPERS[: HELPERS.index("cp.async.bulk")].count("\n") + 1
    (launch,) = traffic.launches
    assert LineTraffic("my.cu", line, "a", "read", 1, 256, 8, 8) in launch.lines
    assert {t.tensor: t.read for t in traffic.tensors}["a"] == AccessTraffic(1, 0, 256, 256, 8, 8, 256)
    assert traffic.sector_bytes == 256 + 128 + 32  # a, out, and the sector of table[0]


def test_what_solve_itself_moves_counts_and_is_distinct_once() -> None:
    before = "cudaMemcpyAsync(out, a + 1, 1024, cudaMemcpyDeviceToDevice); cudaMemsetAsync(out + 250, 0, 100);"
    after = "cudaMemcpyAsync(out + 4000, a, 40, cudaMemcpyDeviceToDevice);"
    moved, alone = _case(before, after), _case()
    tensors = {t.tensor: t for t in moved.tensors}
    assert tensors["a"].read == AccessTraffic(1, 0, 256 + 1024 + 40, 256 + 1024 + 40, 8 + 33 + 2, 8 + 32 + 2, 1028)
    nbytes, sectors = 128 + 1024 + 100 + 40, 4 + 32 + 4 + 2
    assert tensors["out"].write == AccessTraffic(1, 0, nbytes, nbytes, sectors, sectors, 1100 + 40)
    assert moved.launches == alone.launches


@given(st.lists(st.tuples(st.integers(0, 300), st.integers(1, 300)), min_size=1, max_size=4))
def test_ranges_that_solve_moves_mark_whole_words_of_their_own_buffer(ranges: list[tuple[int, int]]) -> None:
    memory = Memory()
    for number in (FIRST, FIRST + 1):
        memory.add(Buffer(number, "b", 600))
    maps = Maps(memory, 1)
    words = set()
    for start, nbytes in ranges:
        maps.mark(FIRST + 1, start, nbytes, store=True)
        words |= set(range(start // 4, (start + nbytes + 3) // 4))
    assert maps.touched_in_all() == {FIRST + 1: (0, 4 * len(words))}


def test_a_variable_that_solve_fills_is_counted() -> None:
    traffic = _case("int host[16] = {7}; cudaMemcpyToSymbol(table, host, sizeof host);")
    (table,) = (t for t in traffic.tensors if "table" in t.tensor)
    assert table.write == AccessTraffic(0, 0, 64, 64, 2, 2, 64)
