"""What the ceilings' kernels reach on this card, beside what torch reaches: `python -m tests.gpu.measure_ceilings [PART]`.

Each part is a process of its own with a time limit, so that one that fails or hangs costs only itself.
Figures are medians of windows between CUDA events, with the slowest and the fastest; L2 is overwritten before each.
"""

from __future__ import annotations

import functools
import importlib
import json
import statistics
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any

from harness.devices.pycuda_driver import PyCudaDriver, detect_card
from harness.measure import ceilings, matrix_rates
from harness.measure.ceiling_bench import Bench, Effort, compiled
from harness.measure.tiles import BITS, K_BYTES

SECONDS = 20  # a part may take
WINDOWS = 15
FLUSH_BYTES = 256 << 20
CHUNK, RING_BYTES = 16384, 6 * 16384  # as in ceilings.cu
RESIDENT_STEPS = 2048


class Card(PyCudaDriver):
    """The first card, with events."""

    def __init__(self) -> None:
        super().__init__()
        self._driver: Any = importlib.import_module("pycuda.driver")

    def create_event(self) -> Any:
        return self._driver.Event()

    def record(self, event: Any) -> None:
        event.record()

    def elapsed(self, begin: Any, end: Any) -> float:
        return float(end.time_since(begin)) * 1e-3

    def version(self) -> str:
        return str(self._driver.get_driver_version())

    def free_bytes(self) -> int:
        return int(self._driver.mem_get_info()[0])


class Table(Bench):
    """A bench that prints its windows."""

    def __init__(self, *names: str, nbytes: int = 1 << 30):
        card = detect_card()
        super().__init__(Card(), card, [compiled(name, card, "-DVARIANTS") for name in names], nbytes, Effort())

    def show(self, name: str, work: float, unit: str, run: Callable[[], None], note: str = "") -> None:
        """`work` in bytes or FLOP."""
        self.median(run, 1)
        begun = time.perf_counter()
        found = []
        for _ in range(WINDOWS):
            self.driver.memset(self.target + self.nbytes - FLUSH_BYTES, 0, FLUSH_BYTES)
            found.append(self.window(run))
        say(name, work, found, unit, f"{note} ({time.perf_counter() - begun:.2f} s)")


def say(name: str, work: float, seconds: list[float], unit: str, note: str = "") -> None:
    """One line of the table, for the parent."""
    scale = {"GB/s": 1e9, "TFLOP/s": 1e12}[unit]
    middle, fast, slow = (work / f(seconds) / scale for f in (statistics.median, min, max))
    row = {"name": name, "value": middle, "best": fast, "worst": slow, "unit": unit, "note": note}
    print(json.dumps(row), flush=True)


def judge_part() -> None:
    """The ceilings as the judge measures them."""
    driver, begun = Card(), time.perf_counter()
    found = ceilings.measure(driver, detect_card(), driver.free_bytes())
    note = f"{time.perf_counter() - begun:.1f} s in all"
    for name, value in (("copy", found.copy), ("read", found.read)):
        say(f"judge {name}", value, [1.0], "GB/s", note)
    for unit, rate in found.rates.items():
        say(f"judge {unit}", rate, [1.0], "TFLOP/s")


def memory_part() -> None:
    """Copies and reads, plain and by bulk copies, in several launch shapes."""
    bench = Table("ceilings.cu", nbytes=4 << 30)
    source, target, nbytes, sms = bench.source, bench.target, bench.nbytes, bench.card.sms
    bench.fill("bits", source, nbytes, 1)
    copy = functools.partial(bench.driver.copy, target, source, nbytes)
    bench.warm(copy)
    bench.show("driver copy", 2 * nbytes, "GB/s", copy)
    vectors = nbytes // 16
    for kernel, times, flight in (("copy", 2, 4), ("read", 1, 8)):
        for block, per_sm in ((512, 4), (256, 8), (512, 2), (512, 16), (512, 0), (256, 0)):
            grid = per_sm * sms or vectors // (block * flight)
            run = functools.partial(bench.launch, kernel, grid, block, 0, "PPQ", source, target, vectors)
            bench.show(f"{kernel} {block} x {per_sm or 'all'}", times * nbytes, "GB/s", run)
    for kernel, times in (("copy_bulk", 2), ("read_bulk", 1)):
        for per_sm in (1, 2, 16, 64):
            values = (source, target, nbytes // CHUNK)
            run = functools.partial(bench.launch, kernel, per_sm * sms, 32, RING_BYTES, "PPQ", *values)
            bench.show(f"{kernel} x {per_sm}", times * nbytes, "GB/s", run)
            if kernel == "copy_bulk":
                ceilings._check_copy(bench)


def multiply_add_part() -> None:
    bench, rounds = Table("ceilings.cu"), 2000
    for per_sm in (8, 4, 2):
        grid = per_sm * bench.card.sms
        run = functools.partial(bench.launch, "multiply_add", grid, 256, 0, "PIQ", bench.target, rounds, 1)
        bench.show(f"float32 multiply-add x {per_sm}", 2.0 * grid * 256 * rounds * 256, "TFLOP/s", run)


def product_part(unit: str, kernel: str, steps: int) -> None:
    """`single`: without clusters."""
    bench = Table("ceilings.cu", "matrix_sm90.cu")
    size = matrix_rates.Product.of(bench.card, Effort(steps=steps))
    run = matrix_rates.product(bench, size, unit, kernel)
    bench.driver.memset(bench.target, 0xFF, bench.nbytes)
    run()
    bench.finish()
    corners = ((0, 0), (1, 0), (size.tiles_m // 2, 5), (size.tiles_m - 1, size.tiles_n - 1))
    worst = max(matrix_rates.check_tile(bench, size, unit, m, n) for m, n in corners)
    name = f"{kernel} {unit} K {steps * K_BYTES * 8 // BITS[unit]}"
    bench.show(name, size.flops(unit), "TFLOP/s", run, f"worst error {worst:.1e} of the deviation")


def resident_part(unit: str) -> None:
    """Warpgroups' products of tiles that stay in shared memory: no memory traffic."""
    bench = Table("ceilings.cu", "matrix_sm90.cu")
    sms, stage_bytes = bench.card.sms, (matrix_rates.TILE_M + matrix_rates.TILE_N) * K_BYTES
    bench.fill(unit, bench.source, sms * 4 * stage_bytes, 1)
    values = (bench.source, bench.target, RESIDENT_STEPS)
    run = functools.partial(bench.launch, f"resident_{unit}", sms, 256, matrix_rates.SHARED_BYTES, "PPI", *values)
    flops = 2.0 * sms * matrix_rates.TILE_M * matrix_rates.TILE_N * RESIDENT_STEPS * K_BYTES * 8 / BITS[unit]
    bench.show(f"resident {unit}", flops, "TFLOP/s", run)


def warps_part() -> None:
    """The products of warps, which other cards than Hopper are measured with."""
    bench, rounds = Table("ceilings.cu", "matrix.cu"), 2000
    blocks = 2 * bench.card.sms
    for unit in matrix_rates.units(bench.card):
        start = matrix_rates.resident(bench, blocks, unit)
        start(1)
        bench.finish()
        worst = matrix_rates.check_resident(bench, unit)
        flops = 2.0 * blocks * 128 * 128 * 6 * 32 * 8 / BITS[unit] * rounds
        note = f"worst error {worst:.1e} of the deviation"
        bench.show(f"warps {unit}", flops, "TFLOP/s", functools.partial(start, rounds), note)


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
    for _ in range(200):
        y.copy_(x)
    say("torch copy", 2.0 * x.numel(), windows(functools.partial(y.copy_, x)), "GB/s")
    say("torch sum", 1.0 * x.numel(), windows(functools.partial(torch.sum, x.view(torch.float32))), "GB/s")
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
        say(f"torch e4m3 A B^T{' fast' * fast}", 2.0 * 8192**3, windows(scaled), "TFLOP/s")


def parts() -> Iterator[tuple[str, Callable[[], None]]]:
    """In the order in which they run; torch between ours, since a card gets warm."""
    yield "torch", torch_part
    yield "judge", judge_part
    yield "memory", memory_part
    yield "multiply_add", multiply_add_part
    for unit in ("bf16", "f16", "tf32", "e4m3"):
        yield f"product {unit}", functools.partial(product_part, unit, "product", 128)
    yield "deep", functools.partial(product_part, "bf16", "product", 256)
    yield "single", functools.partial(product_part, "bf16", "single", 128)
    for unit in ("bf16", "e4m3"):
        yield f"resident {unit}", functools.partial(resident_part, unit)
    yield "warps", warps_part
    yield "torch again", torch_part
    yield "judge again", judge_part


def main() -> None:
    """Every part in its own process, or the one that is named; at the end ours over torch's."""
    table = dict(parts())
    if len(sys.argv) > 1:
        table[" ".join(sys.argv[1:])]()
        return
    best: dict[str, float] = {}
    for name in table:
        for row in run_part(name):
            best[row["name"]] = max(best.get(row["name"], 0.0), row["value"])
    ratios(best)


def run_part(name: str) -> list[dict[str, Any]]:
    """What the part said, as it is shown."""
    command = [sys.executable, "-m", "tests.gpu.measure_ceilings", *name.split()]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
        said, failed = done.stdout, f"exit {done.returncode}: {done.stderr[-600:]}" if done.returncode else ""
    except subprocess.TimeoutExpired as late:
        said = late.stdout.decode() if isinstance(late.stdout, bytes) else late.stdout or ""
        failed = f"still ran after {SECONDS} s"
    rows = [row for row in map(shown, said.splitlines()) if row]
    if failed:
        print(f"{name}: FAILED, {failed}", flush=True)
    return rows


def shown(line: str) -> dict[str, Any] | None:
    """Print a line of a part; what is no row of figures as it is."""
    try:
        row: dict[str, Any] = json.loads(line)
        figures = f"{row['value']:9.1f} {row['unit']:8s} {row['worst']:8.1f} .. {row['best']:.1f}"
        print(f"{row['name']:30s} {figures}  {row['note']}", flush=True)
    except (ValueError, KeyError, TypeError):
        print(line, flush=True)
        return None
    return row


def ratios(best: dict[str, float]) -> None:
    """The judge's figures over torch's, the best of either in both runs."""
    print()
    for ours, theirs in (("copy", "copy"), ("read", "sum"), ("bf16", "bf16"), ("f16", "f16"), ("tf32", "tf32"), ("e4m3", "e4m3")):
        library = [value for name, value in best.items() if name.startswith(f"torch {theirs}")]
        if library and f"judge {ours}" in best:
            print(f"judge {ours:5s} / torch  {best[f'judge {ours}'] / max(library):.3f}")


if __name__ == "__main__":
    try:
        main()
    except Exception:
        traceback.print_exc()
        sys.exit(1)
