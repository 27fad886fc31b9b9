"""Questions about what memory holds from before: what the judge has to poison, and what the driver already scrubs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from tests.gpu.questions_kit import PATTERN, Card

_CHUNK = 4 << 30
_REPEATS = 3
_SOURCE = r"""
__device__ __forceinline__ void add(unsigned long long* counts, int place, unsigned n) {
  if (n) atomicAdd(counts + place, (unsigned long long)n);
}
extern "C" __global__ void fill_shared(unsigned pattern, int words) {
  extern __shared__ volatile unsigned shared[];
  for (int i = threadIdx.x; i < words; i += blockDim.x) shared[i] = pattern;
}
// counts: words that hold the pattern, words that hold 0, words
extern "C" __global__ void count_shared(unsigned pattern, int words, unsigned long long* counts) {
  extern __shared__ volatile unsigned shared[];
  unsigned same = 0, zero = 0, all = 0;
  for (int i = threadIdx.x; i < words; i += blockDim.x) {
    const unsigned word = shared[i];
    same += word == pattern, zero += word == 0, ++all;
  }
  add(counts, 0, same), add(counts, 1, zero), add(counts, 2, all);
}
extern "C" __global__ void fill_local(unsigned pattern, unsigned* sink) {
  volatile unsigned words[1024];
  for (int i = 0; i < 1024; ++i) words[i] = pattern;
  if (words[threadIdx.x] == pattern + 1) *sink = 1;
}
extern "C" __global__ void count_local(unsigned pattern, unsigned long long* counts) {
  unsigned same, zero, all;
  asm volatile(
      "{ .local .align 4 .b8 words[4096]; .reg .pred p, q; .reg .b32 w; .reg .b64 a; .reg .s32 i;\n"
      " mov.u64 a, words; mov.u32 %0, 0; mov.u32 %1, 0; mov.u32 %2, 0; mov.s32 i, 0;\n"
      "again: ld.local.u32 w, [a]; setp.eq.u32 p, w, %3; @p add.u32 %0, %0, 1;\n"
      " setp.eq.u32 p, w, 0; @p add.u32 %1, %1, 1; add.u32 %2, %2, 1;\n"
      " add.u64 a, a, 4; add.s32 i, i, 1; setp.lt.s32 q, i, 1024; @q bra again; }"
      : "=&r"(same), "=&r"(zero), "=&r"(all) : "r"(pattern));
  add(counts, 0, same), add(counts, 1, zero), add(counts, 2, all);
}
extern "C" __global__ void fill_registers(unsigned pattern, int n, unsigned* sink) {
  unsigned r[128];
#pragma unroll
  for (int i = 0; i < 128; ++i) asm volatile("mov.b32 %0, %1;" : "=r"(r[i]) : "r"(pattern));
  for (int k = 0; k < n; ++k)
#pragma unroll
    for (int i = 0; i < 128; ++i) asm volatile("" : "+r"(r[i]));
  unsigned any = 0;
#pragma unroll
  for (int i = 0; i < 128; ++i) any |= r[i] ^ pattern;
  if (any) *sink = 1;
}
extern "C" __global__ void count_registers(unsigned pattern, unsigned long long* counts) {
  unsigned same = 0, zero = 0;
  asm volatile("{ .reg .b32 u<64>; .reg .pred p;\n"
#define ONE(n) " setp.eq.u32 p, u" #n ", %2; @p add.u32 %0, %0, 1; setp.eq.u32 p, u" #n ", 0; @p add.u32 %1, %1, 1;\n"
      ONE(0) ONE(1) ONE(2) ONE(3) ONE(4) ONE(5) ONE(6) ONE(7) ONE(8) ONE(9) ONE(10) ONE(11) ONE(12) ONE(13) ONE(14)
      ONE(15) ONE(16) ONE(17) ONE(18) ONE(19) ONE(20) ONE(21) ONE(22) ONE(23) ONE(24) ONE(25) ONE(26) ONE(27) ONE(28)
      "}" : "+r"(same), "+r"(zero) : "r"(pattern));
  add(counts, 0, same), add(counts, 1, zero), add(counts, 2, 29);
}
extern "C" __global__ void count_global(unsigned pattern, const uint4* p, unsigned long long n,
                                        unsigned long long* counts) {
  unsigned same = 0, zero = 0, all = 0;
  for (unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x; i < n;
       i += (unsigned long long)gridDim.x * blockDim.x) {
    const uint4 w = p[i];
    same += (w.x == pattern) + (w.y == pattern) + (w.z == pattern) + (w.w == pattern);
    zero += (w.x == 0) + (w.y == 0) + (w.z == 0) + (w.w == 0);
    all += 4;
  }
  add(counts, 0, same), add(counts, 1, zero), add(counts, 2, all);
}
"""


class _Reader(Card):
    """Fills and counts on every multiprocessor."""

    def __init__(self) -> None:
        super().__init__()
        self.module = self.kernels(_SOURCE)
        self.counts = self.cuda.mem_alloc(64)
        self.shared_bytes = self.attribute(97)  # MAX_SHARED_MEMORY_PER_BLOCK_OPTIN

    def kernel(self, name: str) -> Any:
        function = self.module.get_function(name)
        if "shared" in name:
            function.set_attribute(self.cuda.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES, self.shared_bytes)
        return function

    def share(self) -> dict[str, float]:
        """What was counted, as shares of all words, and the counters reset."""
        self.cuda.Context.synchronize()
        found = np.empty(3, np.uint64)
        self.cuda.memcpy_dtoh(found, self.counts)
        same, zero, total = (int(x) for x in found)
        return {"pattern": round(same / max(total, 1), 4), "zero": round(zero / max(total, 1), 4), "words": total}

    def fill(self, what: str) -> None:
        pattern = np.uint32(PATTERN)
        if what == "shared":
            words = np.int32(self.shared_bytes // 4)
            self.kernel("fill_shared")(
                pattern, words, grid=(4 * self.sms, 1), block=(1024, 1, 1), shared=self.shared_bytes
            )
        elif what == "local":
            self.kernel("fill_local")(pattern, self.counts, grid=(4 * self.sms, 1), block=(1024, 1, 1))
        else:
            self.kernel("fill_registers")(pattern, np.int32(8), self.counts, grid=(16 * self.sms, 1), block=(256, 1, 1))
        self.cuda.Context.synchronize()

    def count(self, what: str) -> dict[str, float]:
        pattern = np.uint32(PATTERN)
        self.cuda.memset_d32(self.counts, 0, 16)
        if what == "shared":
            self.kernel("count_shared")(
                pattern, np.int32(self.shared_bytes // 4), self.counts,
                grid=(self.sms, 1), block=(1024, 1, 1), shared=self.shared_bytes,
            )  # fmt: skip
        elif what == "local":
            self.kernel("count_local")(pattern, self.counts, grid=(self.sms, 1), block=(1024, 1, 1))
        else:
            self.kernel("count_registers")(pattern, self.counts, grid=(self.sms, 1), block=(256, 1, 1))
        return self.share()


def _on_chip(what: str) -> dict[str, Any]:
    """Shared memory, local memory or registers: another kernel of the context, another context, another process."""
    reader = _Reader()
    answer: dict[str, Any] = {"before_anything": reader.count(what)}
    for n in range(_REPEATS):
        reader.fill(what)
        answer[f"same_context_{n}"] = reader.count(what)
    reader.fill(what)
    reader.leave()
    second = _Reader()
    answer["next_context_same_process"] = second.count(what)
    second.fill(what)
    second.leave()
    answer["next_process"] = _elsewhere(f"print(_Reader().count({what!r}))")
    return answer


def fresh_memory() -> dict[str, Any]:
    """Nine tenths of the card filled by one process, looked at by the next; then freed and taken again within one."""
    answer: dict[str, Any] = {"filled_by_another_process": _elsewhere("print(len(_take(_Reader(), True)))")}
    reader = _Reader()
    chunks = _take(reader, fill=False)
    answer["gib"] = len(chunks) * _CHUNK >> 30
    answer["fresh_process"] = _count(reader, chunks)
    for chunk in chunks:
        reader.cuda.memset_d32(chunk, PATTERN, _CHUNK // 4)
    reader.cuda.Context.synchronize()
    for chunk in chunks:
        chunk.free()
    answer["freed_and_taken_again"] = _count(reader, _take(reader, fill=False))
    small = [reader.cuda.mem_alloc(1 << 16) for _ in range(64)]
    for buffer in small:
        reader.cuda.memset_d32(buffer, PATTERN, 1 << 14)
    for buffer in small:
        buffer.free()
    answer["small_freed_and_taken_again"] = _count(
        reader, [reader.cuda.mem_alloc(1 << 16) for _ in range(64)], nbytes=1 << 16
    )
    reader.leave()
    return answer


def _take(reader: _Reader, fill: bool) -> list[Any]:
    free, _ = reader.cuda.mem_get_info()
    chunks = [reader.cuda.mem_alloc(_CHUNK) for _ in range(int(free * 0.9) // _CHUNK)]
    if fill:
        for chunk in chunks:
            reader.cuda.memset_d32(chunk, PATTERN, _CHUNK // 4)
        reader.cuda.Context.synchronize()
    return chunks


def _count(reader: _Reader, chunks: list[Any], nbytes: int = _CHUNK) -> dict[str, float]:
    reader.cuda.memset_d32(reader.counts, 0, 16)
    for chunk in chunks:
        reader.kernel("count_global")(
            np.uint32(PATTERN), chunk, np.uint64(nbytes // 16), reader.counts,
            grid=(8 * reader.sms, 1), block=(1024, 1, 1),
        )  # fmt: skip
    return reader.share()


def _elsewhere(statement: str) -> str:
    """What a process prints that runs the statement with this module's names."""
    root = str(Path(__file__).resolve().parents[2])
    program = (
        f"import os, sys\nsys.path.insert(0, {root!r})\nfrom tests.gpu.questions_leftovers import _Reader, _take\n"
        f"{statement}\nsys.stdout.flush()\nos._exit(0)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=15, check=False)
    return done.stdout.strip() or f"failed: {done.stderr[-300:]}"


QUESTIONS = {
    "shared": lambda: _on_chip("shared"),
    "local": lambda: _on_chip("local"),
    "registers": lambda: _on_chip("registers"),
    "fresh_memory": fresh_memory,
}
