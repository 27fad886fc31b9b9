"""The emulator knows what the compiler makes of every function of the CUDA headers, but for a written list."""

from __future__ import annotations

import pytest

from harness import cards
from tests import header_kernels as headers

CLUSTERS = "thread block clusters"
COUNTERS = "performance counters, which mean nothing here"
REFUSED = {
    "__pm0": COUNTERS, "__pm1": COUNTERS, "__pm2": COUNTERS, "__pm3": COUNTERS,
    "__brkpt": "only a debugger can go on from there",
    "__nv_aligned_device_malloc": "a heap on the device",
    "__cudaPushCallConfiguration": "a launch from device code",
    **dict.fromkeys(("__cluster_query_shared_rank", "__cluster_map_shared_rank", "__cluster_barrier_wait",
                     "__cluster_barrier_arrive", "__cluster_barrier_arrive_relaxed", "__clusterSizeInBlocks",
                     "__clusterRelativeBlockRank", "__clusterRelativeBlockIdx", "__clusterIdx", "__clusterGridDimInClusters",
                     "__clusterDimIsSpecified", "__clusterDim"), CLUSTERS),
}  # fmt: skip
SMALL = (*headers.HALVES, *headers.NARROW)
BY_CARD = [
    ("T4", (*SMALL, *headers.ATOMICS), 680),
    ("A100", headers.HALVES, 530),
    ("L4", headers.NARROW, 110),
    ("H100", headers.HEADERS, 1800),
]


@pytest.mark.parametrize(("card", "names", "at_least"), BY_CARD, ids=[card for card, _, _ in BY_CARD])
def test_every_function_of_the_headers_is_known(card: str, names: tuple[str, ...], at_least: int) -> None:
    """`at_least` keeps the list itself from shrinking unseen."""
    functions = [f for name in names for f in headers.prototypes(name)] + headers.operators()
    kernels, text = headers.compile_kernels(functions, cards.get(card).arch)
    assert len(kernels) >= at_least
    refused = headers.refused(kernels, text, set())
    assert {str(f): why for f, why in refused.items() if f.name not in REFUSED} == {}
