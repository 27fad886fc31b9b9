"""Random kernels through NVRTC: the PTX that both sides run, and the cubin that a card needs of the same compilation."""

from __future__ import annotations

from harness.compile.nvrtc import Output, nvrtc

LEVELS = ("mid", "full")


def compile_text(text: str, level: str, *, cubin: bool = False) -> Output:
    """PTX for sm_90 of a CUDA text; as a kernel's text it starts with //ptx for tests/emulator_kit.py.

    Raises AssertionError with the compiler's log where it refuses the text.
    """
    compiler = nvrtc()
    flags = ["--gpu-architecture=sm_90", "-std=c++17", "-lineinfo", *(f"-I{f}" for f in compiler.toolkit.include)]
    flags += ["--Ofast-compile=mid"] if level == "mid" else []
    output = compiler.compile(text, "kernel.cu", {}, flags, cubin=cubin)
    assert output.ok, output.log
    return Output(True, f"//ptx\n{output.ptx}", output.log, output.cubin)
