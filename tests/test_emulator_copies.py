"""cp.async to targets in any order and of any size: what arrives, and what is found where it is not waited for."""

from __future__ import annotations

import numpy as np
import pytest

from harness.results import Finding
from harness.verdict import FindingKind as K
from tests.emulator_kit import run
from tests.test_emulator_async import HEADER

pytestmark = pytest.mark.usefixtures("quick_compiler")

LINE = HEADER.count("\n") + 5  # of the first statement
T = np.arange(64)
# Targets and sources of the lanes, in units of the copy's size.
ORDERS = {"in line": T, "the other way": 63 - T, "rows with a gap": T + T // 8, "every second": 2 * T, "shuffled": T * 5 % 64}
LANES = {"all": T >= 0, "a few": T % 3 != 1, "one": T == 37, "a tail": T < 45}
# The last makes the shadow count single bytes.
GRANULES = {"words": "", "bytes": "if (t == 0) ((char*)s)[4095] = 1;"}


def _run(body: str, places: np.ndarray = T, lanes: np.ndarray = LANES["all"]):  # type: ignore[no-untyped-def]
    head = "__global__ void k(const int* in, int* out, const int* place, const int* on) { int t = threadIdx.x;"
    text = f"{HEADER}{head} __shared__ __align__(16) int s[1024];\n{body}\n}}"
    arrays = [np.arange(4096) + 1, np.zeros(1024), places, lanes]
    return run(text, [a.astype(np.int32) for a in arrays], block=64, read_only=(0, 2, 3))


def _filled(size: int, granule: str) -> str:
    fill = "for (int i = t; i < 1023; i += 64) s[i] = -1;"
    return f"{fill} {GRANULES[granule]} __syncthreads(); int at = {size // 4} * place[t];"


def _where(found: list[Finding]) -> set[tuple[K, int]]:
    """Kinds, and lines of the kernel itself."""
    return {(f.kind, int(f.call_stack[-1].split(":")[1]) if f.call_stack else f.line) for f in found}


@pytest.mark.parametrize("granule", GRANULES)
@pytest.mark.parametrize("size", [4, 8, 16])
def test_what_arrives(size: int, granule: str) -> None:
    """For all lanes and for some of them; everything else is as it was."""
    body = f"""{_filled(size, granule)}
if (on[t]) copy<{size}>(s + at, in + at); commit(); wait<0>(); __syncthreads();
for (int i = t; i < 1023; i += 64) out[i] = s[i];"""
    for order, places in ORDERS.items():
        for some, lanes in LANES.items():
            ran = _run(body, places, lanes)
            assert ran.findings == [], (order, some)
            first = places[lanes] * (size // 4)
            copied = (first[:, None] + np.arange(size // 4)).ravel()
            want = np.full(1023, -1)
            want[copied] = copied + 1
            assert ran.arrays[1][:1023].tolist() == want.tolist(), (order, some)


@pytest.mark.parametrize("granule", GRANULES)
@pytest.mark.parametrize("size", [4, 16])
def test_what_is_not_waited_for(size: int, granule: str) -> None:
    n, fill = size // 4, _filled(size, granule)
    early = f"{fill}\nif (on[t]) copy<{size}>(s + at, in + at); commit();\nout[t] = s[at + {n - 1}];"
    still_read = f"{fill}\nint v = s[{n} * place[63 - t]];\nif (on[t]) copy<{size}>(s + at, in + at); wait_all(); out[t] = v;"
    for order, places in ORDERS.items():
        for some, lanes in LANES.items():
            assert _where(_run(early, places, lanes).findings) == {(K.ASYNC_HAZARD, LINE + 2)}, (order, some)
        assert _where(_run(still_read, places, T >= 32).findings) == {(K.DATA_RACE, LINE + 2)}, order


def test_part_of_a_warp_waits() -> None:
    """Other lanes' copies stay under way, and arrive at their own wait."""
    ran = _run("""copy<16>(s + 4 * t, in + 4 * t); commit(); if (t % 4 == 0) { wait<0>(); out[t] = s[4 * t + 3]; }
if (t % 4 != 0) { copy<8>(s + 512 + 2 * t, in + 2 * t); commit(); wait<1>(); out[t] = s[4 * t + 2]; wait<0>(); out[t] += s[512 + 2 * t]; }""")
    assert ran.findings == []
    assert ran.arrays[1][:64].tolist() == np.where(T % 4 == 0, 4 * T + 4, 4 * T + 3 + 2 * T + 1).tolist()


@pytest.mark.parametrize("size", [4, 16])
def test_two_lanes_copy_to_one_place(size: int) -> None:
    ran = _run(f"\ncopy<{size}>(s + {size // 4} * (t & ~1), in + {size // 4} * t); wait_all(); out[t] = 1;")
    assert _where(ran.findings) == {(K.ASYNC_HAZARD, LINE + 1)}, ran.findings
