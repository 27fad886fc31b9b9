"""Questions about time: copies, events, and what a flush of the L2 cache leaves in it."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.gpu.questions_kit import Card, quartiles

_COPY_BYTES, _WINDOWS = 4 << 30, 30
_PAIRS = 200
_CACHED_BYTES = 16 << 20
_SECTOR_LINE = 128
_PROBES_PER_BLOCK = 32
_SOURCE = r"""
extern "C" __global__ void empty() {}
extern "C" __global__ void hold(volatile unsigned* go, unsigned long long most) {
  unsigned long long begun, now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begun));
  do asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now)); while (!*go && now - begun < most);
}
extern "C" __global__ void read(const uint4* p, unsigned long long n, unsigned* sink) {
  unsigned any = 0;
  for (unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x; i < n;
       i += (unsigned long long)gridDim.x * blockDim.x) {
    uint4 w;
    asm volatile("ld.global.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(w.x), "=r"(w.y), "=r"(w.z), "=r"(w.w) : "l"(p + i));
    any |= w.x ^ w.y ^ w.z ^ w.w;
  }
  if (any == 0x12345678u) *sink = any;
}
extern "C" __global__ void read_evict_last(const uint4* p, unsigned long long n, unsigned* sink) {
  unsigned any = 0;
  unsigned long long policy;
  asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
  for (unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x; i < n;
       i += (unsigned long long)gridDim.x * blockDim.x) {
    uint4 w;
    asm volatile("ld.global.L2::cache_hint.v4.u32 {%0,%1,%2,%3}, [%4], %5;"
                 : "=r"(w.x), "=r"(w.y), "=r"(w.z), "=r"(w.w) : "l"(p + i), "l"(policy));
    any |= w.x ^ w.y ^ w.z ^ w.w;
  }
  if (any == 0x12345678u) *sink = any;
}
extern "C" __global__ void prefetch_evict_last(const char* p, unsigned long long lines) {
  for (unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x; i < lines;
       i += (unsigned long long)gridDim.x * blockDim.x)
    asm volatile("prefetch.global.L2::evict_last [%0];" :: "l"(p + i * 128));
}
// Latency in cycles of a load from each of 32 lines of a block, one after the other.
extern "C" __global__ void probe(const char* p, unsigned long long stride, unsigned* cycles) {
  for (int i = 0; i < 32; ++i) {
    const char* address = p + (blockIdx.x * 32ull + i) * stride;
    unsigned word;
    const long long begun = clock64();
    asm volatile("ld.volatile.global.u32 %0, [%1];" : "=r"(word) : "l"(address));
    asm volatile("" :: "r"(word) : "memory");
    const unsigned taken = (unsigned)(clock64() - begun) + (word == 0xffffffffu);
    cycles[blockIdx.x * 32 + i] = taken;
  }
}
"""


def copy() -> dict[str, Any]:
    """Device-to-device copies of 4 GiB: bytes read and written over the time between two events."""
    card = Card()
    source, target = card.cuda.mem_alloc(_COPY_BYTES), card.cuda.mem_alloc(_COPY_BYTES)
    card.cuda.memset_d32(source, 1, _COPY_BYTES // 4)
    begin, end = card.cuda.Event(), card.cuda.Event()
    times = []
    for _ in range(5 + _WINDOWS):
        begin.record()
        card.cuda.memcpy_dtod_async(target, source, _COPY_BYTES)
        end.record()
        end.synchronize()
        times.append(begin.time_till(end) * 1e-3)
    times = times[5:]
    rates = quartiles([2 * _COPY_BYTES / t / 1e9 for t in times])
    source.free()
    target.free()
    card.leave()
    return {"gb_per_s": rates, "ms": quartiles(times, 1e3)}


def events() -> dict[str, Any]:
    """Microseconds between two events, with nothing, or with empty kernels, between them."""
    card = Card()
    module = card.kernels(_SOURCE)
    go = card.cuda.pagelocked_empty(1, np.uint32, mem_flags=card.cuda.host_alloc_flags.DEVICEMAP)
    address = np.uint64(go.base.get_device_pointer())
    empty, hold = module.get_function("empty"), module.get_function("hold")
    empty.prepare([])
    hold.prepare([np.uint64, np.uint64])
    begin, end = card.cuda.Event(), card.cuda.Event()
    answer: dict[str, Any] = {}
    for held in (False, True):
        for kernels in (0, 1, 2, 4, 8, 16):
            times = []
            for _ in range(_PAIRS):
                go[0] = 0
                if held:
                    hold.prepared_async_call((1, 1), (1, 1, 1), None, address, np.uint64(100_000_000))
                begin.record()
                for _ in range(kernels):
                    empty.prepared_async_call((1, 1), (32, 1, 1), None)
                end.record()
                go[0] = 1
                end.synchronize()
                times.append(begin.time_till(end) * 1e3)
            answer[f"{'held' if held else 'free'}_{kernels}_kernels_us"] = quartiles(times)
    card.leave()
    return answer


class _Cache(Card):
    """A buffer of 16 MB, ways to load it and to flush the L2 cache, and two ways to see whether it is still there."""

    def __init__(self) -> None:
        super().__init__()
        module = self.kernels(_SOURCE)
        self.function = {name: module.get_function(name) for name in
                         ("read", "read_evict_last", "prefetch_evict_last", "probe")}  # fmt: skip
        self.buffer = self.cuda.mem_alloc(_CACHED_BYTES)
        self.cuda.memset_d32(self.buffer, 3, _CACHED_BYTES // 4)
        self.flush_bytes = 2 * self.l2_bytes
        self.flushed = [self.cuda.mem_alloc(self.flush_bytes) for _ in range(2)]
        for buffer in self.flushed:
            self.cuda.memset_d32(buffer, 5, self.flush_bytes // 4)
        self.probes = self.sms * _PROBES_PER_BLOCK
        self.cycles = self.cuda.mem_alloc(4 * self.probes)
        self.sink = self.cuda.mem_alloc(64)

    def load(self, how: str) -> None:
        grid, block = (8 * self.sms, 1), (512, 1, 1)
        if how == "prefetch_evict_last":
            lines = np.uint64(_CACHED_BYTES // _SECTOR_LINE)
            self.function[how](self.buffer, lines, grid=grid, block=block)
        else:
            self.function[how](self.buffer, np.uint64(_CACHED_BYTES // 16), self.sink, grid=grid, block=block)

    def flush(self, how: str) -> None:
        if "write" in how:
            self.cuda.memset_d32(self.flushed[0], 9, self.flush_bytes // 4)
        if "read" in how:
            n = np.uint64(self.flush_bytes // 16)
            self.function["read"](self.flushed[1], n, self.sink, grid=(8 * self.sms, 1), block=(512, 1, 1))

    def seen(self) -> np.ndarray:
        """Latencies of lines throughout the buffer."""
        stride = np.uint64(_CACHED_BYTES // self.probes // _SECTOR_LINE * _SECTOR_LINE)
        self.function["probe"](self.buffer, stride, self.cycles, grid=(self.sms, 1), block=(1, 1, 1))
        self.cuda.Context.synchronize()
        found = np.empty(self.probes, np.uint32)
        self.cuda.memcpy_dtoh(found, self.cycles)
        return found

    def time(self) -> float:
        """Microseconds to read the whole buffer."""
        begin, end = self.cuda.Event(), self.cuda.Event()
        begin.record()
        self.load("read")
        end.record()
        end.synchronize()
        return float(begin.time_till(end) * 1e3)


def flush() -> dict[str, Any]:
    """Of 16 MB loaded in three ways, the share of lines that a flush of twice the L2 cache leaves there, and how long a
    read of all takes then. `limit`: cuCtxSetLimit for persisting lines; `reset`: cuCtxResetPersistingL2Cache after it.
    """
    card = _Cache()
    most = card.attribute(108)
    hot, cold = _calibrated(card)
    threshold = (np.median(hot) + np.median(cold)) / 2
    answer: dict[str, Any] = {"l2_bytes": card.l2_bytes, "max_persisting_bytes": most, "threshold_cycles": threshold}
    answer["hot_cycles_p10_50_90"] = [int(x) for x in np.percentile(hot, (10, 50, 90))]
    answer["cold_cycles_p10_50_90"] = [int(x) for x in np.percentile(cold, (10, 50, 90))]
    for limit in (0, most):
        answer[f"set_limit_{limit}"] = card.limit_persisting(limit)
        for loaded in ("read", "read_evict_last", "prefetch_evict_last"):
            for flushed in ("nothing", "write", "read", "write and read"):
                for reset in (False, True):
                    name = f"limit {limit >> 20} MB, {loaded}, flush {flushed}{', reset' if reset else ''}"
                    answer[name] = _one(card, loaded, flushed, reset, float(threshold))
    card.leave()
    return answer


def _calibrated(card: _Cache) -> tuple[np.ndarray, np.ndarray]:
    for _ in range(3):  # the first launches load code
        card.load("read")
        hot = card.seen()
    card.flush("write and read")
    cold = card.seen()
    return hot, cold


def _one(card: _Cache, loaded: str, flushed: str, reset: bool, threshold: float) -> str:
    shares, times = [], []
    for n in range(6):
        card.forget_persisting()
        card.flush("write and read")
        for _ in range(2):
            card.load(loaded)
        card.flush(flushed)
        if reset:
            card.cuda.Context.synchronize()
            card.forget_persisting()
        if n % 2:
            times.append(card.time())
        else:
            shares.append(float((card.seen() < threshold).mean()))
    return f"{100 * float(np.median(shares)):5.1f} % cached, read in {float(np.median(times)):5.2f} us"


QUESTIONS = {"copy": copy, "events": events, "flush": flush}
