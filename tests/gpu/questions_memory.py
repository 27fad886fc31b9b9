"""Questions about host memory in kernels, and about the card after a process was killed."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from tests.gpu.questions_kit import MARK, Card, quartiles

_SOURCE = r"""
extern "C" __global__ void store(unsigned* p) { p[threadIdx.x] = 0x22222222u; }
extern "C" __global__ void load(const unsigned* p, unsigned* out) { out[threadIdx.x] = p[threadIdx.x]; }
extern "C" __global__ void spin(unsigned long long nanoseconds) {
  unsigned long long begun, now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begun));
  do asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now)); while (now - begun < nanoseconds);
}
"""
_WORDS = 32
_ENDLESS_SECONDS = 3  # the kernel ends by itself then: a driver that waits for it shows, and no card is lost
_HELD_BYTES = 8 << 30
_REPEATS = 3


def _host_words(kind: str) -> tuple[int, Any]:
    """(address, array of it): host memory that the card was never told of, filled with 0x11111111."""
    nbytes = 4096 if kind == "heap" else 64 << 20
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    address = libc.malloc(ctypes.c_size_t(nbytes))
    words = np.ctypeslib.as_array(ctypes.cast(address, ctypes.POINTER(ctypes.c_uint32)), (nbytes // 4,))
    words[:] = 0x11111111
    return address, words


def _store(kind: str) -> dict[str, Any]:
    card = Card()
    address, words = _host_words(kind)
    card.kernels(_SOURCE).get_function("store")(np.uint64(address), grid=(1, 1), block=(_WORDS, 1, 1))
    error = card.synchronize()
    answer = {"error_of_kernel": error or "none", "words_changed": int((words != 0x11111111).sum())}
    _end(answer)
    return answer


def _load(kind: str) -> dict[str, Any]:
    card = Card()
    address, _ = _host_words(kind)
    out = card.cuda.mem_alloc(4 * _WORDS)
    card.cuda.memset_d32(out, 0, _WORDS)
    card.kernels(_SOURCE).get_function("load")(np.uint64(address), out, grid=(1, 1), block=(_WORDS, 1, 1))
    error = card.synchronize()
    answer: dict[str, Any] = {"error_of_kernel": error or "none"}
    if not error:
        found = np.empty(_WORDS, np.uint32)
        card.cuda.memcpy_dtoh(found, out)
        answer["words_read"] = int((found == 0x11111111).sum())
    _end(answer)
    return answer


def _end(answer: dict[str, Any]) -> None:
    """Say it and leave without PyCUDA's clean-up, which fails noisily in a broken context."""
    print(MARK + json.dumps(answer), flush=True)
    os._exit(0)


def killed() -> dict[str, Any]:
    """SIGKILL of a process in the middle of a long kernel: when can another one launch, and is the memory back?"""
    usual = [_new_process() for _ in range(2)][-1]
    before = _free_mib()
    answer: dict[str, Any] = {"process_usually_s": usual, "free_mib_before": before}
    waited, after_kill, free = [], [], []
    for _ in range(_REPEATS):
        child = subprocess.Popen([sys.executable, "-c", _CHILD], stdout=subprocess.PIPE, text=True)
        assert child.stdout
        running = child.stdout.readline().strip()
        held = _free_mib()
        begun = time.monotonic()
        child.send_signal(signal.SIGKILL)
        child.wait()
        waited.append(time.monotonic() - begun)
        _new_process()
        after_kill.append(time.monotonic() - begun)
        free.append(_free_mib())
    answer |= {"child_said": running, "free_mib_while_held": held, "free_mib_after": free}
    answer |= {"waitpid_s": quartiles(waited), "kill_to_next_result_s": quartiles(after_kill)}
    return answer


def _new_process() -> float:
    """Seconds of a whole process that makes a context and runs a kernel."""
    begun = time.monotonic()
    subprocess.run([sys.executable, "-c", _PROBE], check=True, capture_output=True, timeout=18)
    return round(time.monotonic() - begun, 3)


def _free_mib() -> int:
    import pynvml

    pynvml.nvmlInit()
    return int(pynvml.nvmlDeviceGetMemoryInfo(pynvml.nvmlDeviceGetHandleByIndex(0)).free) >> 20


_PROBE = f"""
import sys
sys.path.insert(0, {str(Path(__file__).resolve().parents[2])!r})
from tests.gpu.questions_kit import Card
card = Card()
memory = card.cuda.mem_alloc(4096)
card.cuda.memset_d32(memory, 7, 1024)
assert card.synchronize() == ""
card.leave()
"""
_CHILD = f"""
import sys, time
sys.path.insert(0, {str(Path(__file__).resolve().parents[2])!r})
import numpy as np
from tests.gpu.questions_kit import Card
from tests.gpu.questions_memory import _ENDLESS_SECONDS, _HELD_BYTES, _SOURCE
card = Card()
held = card.cuda.mem_alloc(_HELD_BYTES)
spin = card.kernels(_SOURCE).get_function("spin")
spin(np.uint64(_ENDLESS_SECONDS * 10**9), grid=(card.sms, 1), block=(1024, 1, 1))
time.sleep(0.2)
print("kernel runs", flush=True)
time.sleep(60)
"""

QUESTIONS = {
    "host_store_heap": lambda: _store("heap"),
    "host_store_mapped": lambda: _store("mapped"),
    "host_load_heap": lambda: _load("heap"),
    "host_load_mapped": lambda: _load("mapped"),
    "killed": killed,
}
