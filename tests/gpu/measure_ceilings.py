"""What the ceilings' kernels reach on this card, beside what torch reaches: `python -m tests.gpu.measure_ceilings`.

Each part is a process of its own with a time limit, so that one that fails or hangs costs only itself.
Figures are medians of windows between CUDA events, with fastest and slowest; L2 is overwritten before each.
"""

from __future__ import annotations

import functools
import importlib
import json
import os
import statistics
import struct
import subprocess
import sys
import tempfile
import traceback
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from harness.compile.nvrtc import nvrtc
from harness.devices.pycuda_driver import PyCudaDriver, detect_card
from harness.errors import JudgeError

KERNELS = Path(__file__).parents[2] / "harness" / "measure" / "kernels"
SECONDS = 20  # a part may take
FOLDER = "CEILINGS_FOLDER"  # of what is compiled already
WINDOWS = 15
FLUSH_BYTES = 256 << 20
TYPES = {"bf16": 2.0, "f16": 2.0, "tf32": 4.0, "e4m3": 1.0}  # bytes of an element
TILE_M, TILE_N, K_BYTES, STAGES = 128, 256, 128, 4
SHARED = STAGES * (TILE_M + TILE_N) * K_BYTES + 1024


class Bench:
    """The card, our kernels compiled for it, and windows on it."""

    def __init__(self, *sources: str) -> None:
        self.card = detect_card()
        self.driver = PyCudaDriver()
        self.cuda: Any = importlib.import_module("pycuda.driver")
        self.functions: dict[str, Any] = {}
        self.modules = [self.driver.load(self._compile(source)) for source in sources]
        self.flush = self.driver.allocate(FLUSH_BYTES)

    def _compile(self, source: str) -> bytes:
        """By NVRTC, once for all parts."""
        text = (KERNELS / source).read_text()
        kept = Path(os.environ.get(FOLDER, tempfile.gettempdir())) / f"{source}-{zlib.crc32(text.encode()):x}.cubin"
        if os.environ.get(FOLDER) and kept.exists():
            return kept.read_bytes()
        options = [f"--gpu-architecture=sm_{self.card.arch}", "-std=c++17", "-w", "-DVARIANTS"]
        headers = {"bulk.cuh": (KERNELS / "bulk.cuh").read_text()}
        output = nvrtc().compile(text, source, headers, options, cubin=True)
        if not output.ok:
            raise JudgeError(output.log)
        if os.environ.get(FOLDER):
            kept.write_bytes(output.cubin)
        return output.cubin

    def launch(self, name: str, grid: int, block: int, shared: int, layout: str, *values: int) -> None:
        function = self.functions.get(name) or self._find(name)
        if shared > 48 << 10:
            self.driver.allow_shared(function, shared)
        self.driver.launch(function, (grid, 1, 1), (block, 1, 1), shared, struct.pack(layout, *values))

    def _find(self, name: str) -> Any:
        for module in self.modules:
            try:
                self.functions[name] = self.driver.function(module, name)
                return self.functions[name]
            except Exception:
                continue
        raise JudgeError(f"no kernel {name}")

    def windows(self, run: Callable[[], None], count: int = WINDOWS, warm: int = 3) -> list[float]:
        """Seconds of each."""
        for _ in range(warm):
            run()
        self.finish()
        found = []
        for _ in range(count):
            self.driver.memset(self.flush, 0, FLUSH_BYTES)
            begin, end = self.cuda.Event(), self.cuda.Event()
            begin.record()
            run()
            end.record()
            self.finish()
            found.append(begin.time_till(end) * 1e-3)
        return found

    def finish(self) -> None:
        if not self.driver.wait(10):
            raise JudgeError("the kernel does not end")

    def random(self, nbytes: int, kind: str = "bits", seed: int = 1) -> int:
        address = self.driver.allocate(nbytes)
        unit = 16 if kind == "bits" else 4
        self.launch(f"fill_{kind}", 16 * self.card.sms, 256, 0, "PQQ", address, nbytes // unit, seed << 40)
        self.finish()
        return address


def say(name: str, work: float, seconds: list[float], unit: str, note: str = "") -> None:
    scale = {"GB/s": 1e9, "TFLOP/s": 1e12}[unit]
    middle, fast, slow = (work / f(seconds) / scale for f in (statistics.median, min, max))
    print(json.dumps({"name": name, "value": middle, "best": fast, "worst": slow, "unit": unit, "note": note}), flush=True)


def memory_part() -> None:
    """Copies and reads, plain and by bulk copies, in several shapes."""
    bench = Bench("ceilings.cu")
    free = bench.cuda.mem_get_info()[0]
    nbytes = min(4 << 30, free // 4) >> 24 << 24
    source, target, total = bench.random(nbytes), bench.driver.allocate(nbytes), bench.driver.allocate(16)
    sms, vectors = bench.card.sms, nbytes // 16
    for _ in range(100):
        bench.driver.copy(target, source, nbytes)
    bench.finish()
    say("driver copy", 2 * nbytes, bench.windows(lambda: bench.driver.copy(target, source, nbytes)), "GB/s")
    for block, per_sm in ((512, 4), (256, 8), (512, 2), (512, 0), (256, 0)):
        grid = per_sm * sms or vectors // (block * 4)
        plain = lambda grid=grid, block=block: bench.launch("copy", grid, block, 0, "PPQ", source, target, vectors)  # noqa: E731
        say(f"copy {block} x {per_sm or 'all'}", 2 * nbytes, bench.windows(plain), "GB/s")
    for block, per_sm in ((512, 4), (256, 8), (512, 3), (512, 2), (512, 16), (256, 32)):
        plain = lambda grid=per_sm * sms, block=block: bench.launch("read", grid, block, 0, "PPQ", source, total, vectors)  # noqa: E731
        say(f"read {block} x {per_sm}", nbytes, bench.windows(plain), "GB/s")
    got, rounds = bench.driver.download(target, 1 << 20), bench.driver.download(source, 1 << 20)
    print(json.dumps({"name": "copy is right", "note": str(bool((got == rounds).all()))}), flush=True)
    if bench.card.cc >= (9, 0):
        bench.driver.memset(target, 0, nbytes)
        for name, factor in (("copy_bulk", 2), ("read_bulk", 1)):
            for per_sm in (1, 2, 16, 64):
                bulk = lambda name=name, grid=per_sm * sms: bench.launch(  # noqa: E731
                    name, grid, 32, 6 * 16384, "PPQ", source, target, nbytes // 16384)
                say(f"{name} x {per_sm}", factor * nbytes, bench.windows(bulk), "GB/s")
        got = bench.driver.download(target + nbytes - (1 << 20), 1 << 20)
        want = bench.driver.download(source + nbytes - (1 << 20), 1 << 20)
        print(json.dumps({"name": "copy_bulk is right", "note": str(bool((got == want).all()))}), flush=True)


def fma_part() -> None:
    bench = Bench("ceilings.cu")
    sms, rounds = bench.card.sms, 4000
    out = bench.driver.allocate(4 * sms * 8 * 256)
    for per_sm in (8, 6, 4, 2):
        run = lambda grid=per_sm * sms: bench.launch("multiply_add", grid, 256, 0, "PI4xQ", out, rounds, 7)  # noqa: E731
        say(f"float32 multiply-add x {per_sm}", 2.0 * per_sm * sms * 256 * rounds * 256, bench.windows(run), "TFLOP/s")


def product_part(kind: str, variant: str) -> None:
    """A product of about 8192 cubed, in tiles that fill the card."""
    bench = Bench("ceilings.cu", "matrix_sm90.cu")
    sms = bench.card.sms // 2 * 2
    tiles_n, tiles_m, k = 32, sms // 4 * 2, 8192
    steps = int(k * TYPES[kind]) // K_BYTES
    a = bench.random(tiles_m * steps * TILE_M * K_BYTES, kind, 1)
    b = bench.random(tiles_n * steps * TILE_N * K_BYTES, kind, 2)
    c = bench.driver.allocate(tiles_m * TILE_M * tiles_n * TILE_N * 2)
    bench.driver.memset(c, 0xFF, tiles_m * TILE_M * tiles_n * TILE_N * 2)
    run = lambda: bench.launch(f"{variant}_{kind}", sms, 384, SHARED, "PPPIII", a, b, c, tiles_m, tiles_n, steps)  # noqa: E731
    run()
    bench.finish()
    worst = max(
        check_tile(bench, kind, (a, b, c), (m, n), tiles_n, steps)
        for m, n in ((0, 0), (1, 0), (tiles_m - 1, tiles_n - 1), (tiles_m // 2, 5))
    )
    flops = 2.0 * tiles_m * TILE_M * tiles_n * TILE_N * k
    say(f"{variant} {kind}", flops, bench.windows(run, warm=5), "TFLOP/s", f"worst error {worst:.2e} of a deviation")


def check_tile(bench: Bench, kind: str, buffers: tuple[int, int, int], tile: tuple[int, int], tiles_n: int, steps: int) -> float:
    """The largest error of one tile of C over the tile's standard deviation."""
    (a, b, c), (m, n) = buffers, tile
    rows = operand(bench, kind, a + m * steps * TILE_M * K_BYTES, TILE_M, steps)
    columns = operand(bench, kind, b + n * steps * TILE_N * K_BYTES, TILE_N, steps)
    want = rows @ columns.T
    nbytes = TILE_M * TILE_N * 2
    raw = bench.driver.download(c + (m * tiles_n + n) * nbytes, nbytes).view(np.uint16)
    got = as_rows((raw.astype(np.uint32) << 16).view(np.float32))
    return float(np.abs(got - want).max() / want.std())


def operand(bench: Bench, kind: str, address: int, rows: int, steps: int) -> np.ndarray:
    """rows x K values, out of tiles with the swizzle of 128 bytes."""
    raw = bench.driver.download(address, steps * rows * K_BYTES).reshape(steps, rows, 8, 16)
    row, chunk = np.arange(rows)[:, None], np.arange(8)[None, :]
    plain = raw[:, row, chunk ^ (row & 7)]  # step, row, chunk, byte
    return decoded(np.ascontiguousarray(plain.transpose(1, 0, 2, 3)).reshape(rows, -1), kind)


def decoded(raw: np.ndarray, kind: str) -> np.ndarray:
    if kind == "bf16":
        return (raw.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    if kind == "f16":
        return raw.view(np.float16).astype(np.float32)
    if kind == "tf32":
        return raw.view(np.float32)
    exponent, mantissa = (raw >> 3 & 15).astype(int), (raw & 7).astype(int)
    size = np.where(exponent > 0, np.ldexp(1 + mantissa / 8, exponent - 7), np.ldexp(mantissa / 8, -6))
    return np.where(raw & 128, -size, size).astype(np.float32)


def as_rows(values: np.ndarray) -> np.ndarray:
    """128 x 256 from the order of the registers: warpgroup, 16 vectors, thread, 8 elements."""
    parts = values.reshape(2, 16, 4, 8, 4, 2, 2, 2)  # group, j, warp, lane / 4, lane % 4, two n8 blocks, row half, pair
    return parts.transpose(0, 2, 6, 3, 1, 5, 4, 7).reshape(128, 256)


def resident_part(kind: str) -> None:
    bench = Bench("ceilings.cu", "matrix_sm90.cu")
    sms, steps = bench.card.sms, 2048
    a = bench.random(sms * STAGES * (TILE_M + TILE_N) * K_BYTES, kind, 1)
    c = bench.driver.allocate(sms * TILE_M * TILE_N * 2)
    run = lambda: bench.launch(f"resident_{kind}", sms, 256, SHARED, "PPI", a, c, steps)  # noqa: E731
    flops = 2.0 * sms * TILE_M * TILE_N * steps * K_BYTES / TYPES[kind]
    say(f"resident {kind}", flops, bench.windows(run, warm=5), "TFLOP/s")


def torch_part() -> None:
    torch: Any = importlib.import_module("torch")

    flush = torch.empty(FLUSH_BYTES, dtype=torch.uint8, device="cuda")

    def windows(run: Callable[[], Any]) -> list[float]:
        for _ in range(5):
            run()
        torch.cuda.synchronize()
        found = []
        for _ in range(WINDOWS):
            flush.zero_()
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            run()
            end.record()
            torch.cuda.synchronize()
            found.append(begin.elapsed_time(end) * 1e-3)
        return found

    x = torch.empty(4 << 30, dtype=torch.uint8, device="cuda").random_()
    y = torch.empty_like(x)
    for _ in range(100):
        y.copy_(x)
    say("torch copy", 2.0 * x.numel(), windows(lambda: y.copy_(x)), "GB/s")
    as_float = x.view(torch.float32)
    say("torch sum", 1.0 * x.numel(), windows(lambda: torch.sum(as_float)), "GB/s")
    torch.backends.cuda.matmul.allow_tf32 = True
    for name, dtype in (("bf16", torch.bfloat16), ("f16", torch.float16), ("tf32", torch.float32)):
        a = torch.randn(8192, 8192, device="cuda", dtype=dtype)
        b = torch.randn_like(a)
        say(f"torch {name} A B", 2.0 * 8192**3, windows(functools.partial(torch.matmul, a, b)), "TFLOP/s")
        say(f"torch {name} A B^T", 2.0 * 8192**3, windows(functools.partial(torch.matmul, a, b.T)), "TFLOP/s")
    a8, b8 = (torch.randn(8192, 8192, device="cuda").to(torch.float8_e4m3fn) for _ in range(2))
    one = torch.ones((), device="cuda")
    for fast in (True, False):
        scaled = functools.partial(
            torch._scaled_mm, a8, b8.T, one, one, out_dtype=torch.bfloat16, use_fast_accum=fast
        )
        say(f"torch e4m3 A B^T fast {fast}", 2.0 * 8192**3, windows(scaled), "TFLOP/s")


def parts() -> Iterator[tuple[str, Callable[[], None]]]:
    yield "torch", torch_part
    yield "memory", memory_part
    yield "fma", fma_part
    for variant in ("product", "single"):
        for kind in TYPES:
            if variant == "product" or kind == "bf16":
                yield f"{variant} {kind}", functools.partial(product_part, kind, variant)
    for kind in ("bf16", "e4m3"):
        yield f"resident {kind}", functools.partial(resident_part, kind)
    yield "torch again", torch_part


def main() -> None:
    """Every part in its own process, or the one that is named."""
    table = dict(parts())
    if len(sys.argv) > 1:
        table[" ".join(sys.argv[1:])]()
        return
    with tempfile.TemporaryDirectory() as folder:
        for name in table:
            run_part(name, {**os.environ, FOLDER: folder})


def run_part(name: str, environment: dict[str, str]) -> None:
    command = [sys.executable, "-m", "tests.gpu.measure_ceilings", *name.split()]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, env=environment)
        said, failed = done.stdout, f"exit {done.returncode}: {done.stderr[-600:]}" if done.returncode else ""
    except subprocess.TimeoutExpired as late:
        said = late.stdout.decode() if isinstance(late.stdout, bytes) else late.stdout or ""
        failed = f"still ran after {SECONDS} s"
    for line in said.splitlines():
        show(line)
    if failed:
        print(f"{name}: FAILED, {failed}", flush=True)


def show(line: str) -> None:
    try:
        row = json.loads(line)
        figures = f"{row['value']:9.1f} {row['unit']:8s} {row['worst']:8.1f} .. {row['best']:.1f}" if "value" in row else ""
        print(f"{row['name']:30s} {figures}  {row.get('note', '')}", flush=True)
    except (ValueError, KeyError, TypeError):
        print(line, flush=True)


if __name__ == "__main__":
    try:
        main()
    except Exception:
        traceback.print_exc()
        sys.exit(1)
