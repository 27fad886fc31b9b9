"""Random kernels through the compiler: the PTX that both sides run, and the cubin that a card needs of the same PTX."""

from __future__ import annotations

import re
import subprocess
import tempfile
from pathlib import Path

from harness.compile.nvrtc import Output, nvrtc
from harness.errors import UsageError

LEVELS = ("mid", "full")
ARCHITECTURE = "sm_90"


def compile_text(text: str, level: str, *, cubin: bool = False) -> Output:
    """PTX of a CUDA text, by NVRTC or, where it is not found, by nvcc; it starts with //ptx for tests/emulator_kit.py.

    Raises AssertionError with the compiler's errors where it refuses the text.
    """
    flags = [f"--gpu-architecture={ARCHITECTURE}", "-std=c++17", "-lineinfo"]
    flags += ["--Ofast-compile=mid"] if level == "mid" else []
    try:
        compiler = nvrtc()
    except UsageError:
        return _by_nvcc(text, flags)
    output = compiler.compile(text, "kernel.cu", {}, [*flags, *(f"-I{f}" for f in compiler.toolkit.include)], cubin=cubin)
    assert output.ok, errors_of(output.log)
    return Output(True, f"//ptx\n{output.ptx}", output.log, output.cubin)


def errors_of(log: str) -> str:
    """A compiler's log without its warnings: each error and the two lines that show its place."""
    lines = log.splitlines()
    places = [n for n, line in enumerate(lines) if re.search(r"\b(error|fatal)\b", line)]
    return "\n".join(line for n, line in enumerate(lines) if any(p <= n <= p + 2 for p in places))[:2000] or log[-2000:]


def _by_nvcc(text: str, flags: list[str]) -> Output:
    with tempfile.TemporaryDirectory() as folder:
        source, ptx, cubin = (Path(folder) / f"kernel.{ending}" for ending in ("cu", "ptx", "cubin"))
        source.write_text(text)
        for command in (["nvcc", *flags, "-ptx", str(source), "-o", str(ptx)], ["ptxas", f"-arch={ARCHITECTURE}", str(ptx), "-o", str(cubin)]):
            done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
            assert done.returncode == 0, errors_of(done.stderr)
        return Output(True, f"//ptx\n{ptx.read_text()}", done.stderr, cubin.read_bytes())
