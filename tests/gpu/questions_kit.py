"""A context, compiled kernels and a few driver calls that PyCUDA lacks, for the questions of tests/gpu/questions.py."""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
from pathlib import Path
from typing import Any

PERSISTING_LIMIT = 6  # CU_LIMIT_PERSISTING_L2_CACHE_SIZE
PATTERN = 0x5EAF00D1
MARK = "ANSWER "  # before the line of JSON that a child prints


class Card:
    """The first card, with a context that is current until the process ends."""

    def __init__(self) -> None:
        import pycuda.driver as cuda

        cuda.init()
        self.cuda: Any = cuda
        self.device = cuda.Device(0)
        self.context = self.device.make_context()
        self.library = ctypes.CDLL("libcuda.so.1")
        major, minor = self.device.compute_capability()
        self.arch = f"sm_{major}{minor}"
        self.sms = self.attribute(16)
        self.l2_bytes = self.attribute(38)

    def attribute(self, number: int) -> int:
        """A CUdevice_attribute by its number."""
        value = ctypes.c_int()
        code = self.library.cuDeviceGetAttribute(ctypes.byref(value), number, 0)
        if code:
            raise RuntimeError(f"cuDeviceGetAttribute({number}) gave {code}")
        return value.value

    def kernels(self, source: str) -> Any:
        """The compiled module of CUDA C++."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "question.cu")
            path.write_text(source)
            command = ["nvcc", "-cubin", f"-arch={self.arch}", "-std=c++17", "-o", f"{path}bin", str(path)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise RuntimeError(f"nvcc failed: {done.stderr[-800:]}")
            return self.cuda.module_from_buffer(Path(f"{path}bin").read_bytes())

    def limit_persisting(self, nbytes: int) -> int:
        """cuCtxSetLimit for lines that persist in the L2 cache; the CUresult."""
        return int(self.library.cuCtxSetLimit(PERSISTING_LIMIT, ctypes.c_size_t(nbytes)))

    def forget_persisting(self) -> int:
        """cuCtxResetPersistingL2Cache; the CUresult."""
        return int(self.library.cuCtxResetPersistingL2Cache())

    def synchronize(self) -> str:
        """Wait; the error that it gave, or ""."""
        try:
            self.cuda.Context.synchronize()
        except self.cuda.Error as error:
            return str(error)
        return ""

    def leave(self) -> None:
        """Pop the context, which PyCUDA demands before the interpreter ends; harmless after an error."""
        try:
            self.context.pop()
            self.context.detach()
        except self.cuda.Error:
            pass


def quartiles(values: list[float], scale: float = 1.0) -> dict[str, float]:
    """Median, spread between quartiles, least and largest, scaled."""
    ordered = sorted(value * scale for value in values)
    n = len(ordered)
    low, middle, high = (ordered[min(n - 1, int(n * q))] for q in (0.25, 0.5, 0.75))
    figures = {"median": middle, "iqr": high - low, "min": ordered[0], "max": ordered[-1]}
    return {name: float(f"{value:.5g}") for name, value in figures.items()}
