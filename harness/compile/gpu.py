"""A submission -> cubin for a real card: nvcc, through PyCUDA's compile path.

nvcc sees the whole file, host code too, so that `solve()` instantiates the templates that it launches; only the device
code is kept, and the host code is never linked. Runs inside the compile child, whose limits and temporary directory
also cover what PyCUDA does not: it captures the compiler's output without a limit and leaves its directory behind
when a compilation fails.
"""

from __future__ import annotations

import importlib
import os
import re
import shutil
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.compile import diagnostics, includes
from harness.compile.cubin import IncompleteCubin, inspect
from harness.errors import JudgeError, SubmissionError
from harness.results import Finding
from harness.verdict import FindingKind, Verdict

# Without warnings, which NVRTC has given already; and without gcc's excerpts, since `#line` can name any file to quote.
OPTIONS = ("-std=c++17", "-lineinfo", "-w", "-Xcompiler=-fno-diagnostics-show-caret")
MAX_CUBIN_BYTES = 16 << 20
_DEVICE_LAUNCH = re.compile(r"\((\d+)\): error: kernel launch from __device__ or __global__ functions requires")
_PATHS = (
    (re.compile(r"/\S*/include/(?:cccl/)?([^\s():\"]+)"), r"<\1>"),  # a header of the toolkit or of the system
    (re.compile(r"/\S*/tmpxft_\S+?_kernel(?:\.\w+)+"), "kernel.ptx"),
)
_RUNTIME_CALL = re.compile(r"(?:__cudaCDP2|cuda)(?=[A-Z])")  # the device-side run time, which no device here has
_UNSUPPORTED_CALLS = {
    "malloc": "malloc() in device code", "free": "free() in device code",
    "__cudaCDP2LaunchDeviceV2": "launching kernels from device code",
}  # fmt: skip


@dataclass(frozen=True)
class Cubin:
    """Machine code for one card; `log` is what the compiler said all the same, in the user's file and lines."""

    bytes: bytes  # the ELF file
    log: str
    seconds: float


def compile_cubin(text: str, name: str, declaration: str, arch: str, options: Sequence[str] = OPTIONS) -> Cubin:
    """Compile a submission for `arch`, as "sm_90a". `name` is the file name that diagnostics show; the problem's
    `declaration` of solve() goes before the text.

    Raises SubmissionError (it does not compile, or needs what no device here has), JudgeError (no nvcc or no PyCUDA).
    """
    begun = time.monotonic()
    text = includes.without_line_directives(text)
    source = f'#line 1 "{diagnostics.DECLARATION}"\n{declaration}\n#line 1 {_quoted(name)}\n{text}\n'
    code, log = _nvcc(source, name, [*_target(arch), *_host_compiler(), *options])
    _check(code, log)
    return Cubin(code, log, time.monotonic() - begun)


def find_nvcc() -> str:
    """Absolute path of nvcc: CUDA_HOME or CUDA_PATH, then /usr/local/cuda, then PATH. Raises JudgeError."""
    roots = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"]
    places = [Path(root) / "bin" / "nvcc" for root in roots if root]
    for place in places:
        if os.access(place, os.X_OK):
            return str(place)
    found = shutil.which("nvcc")
    if not found:
        raise JudgeError("cannot find nvcc, which compiles for the GPU: install the CUDA toolkit or set CUDA_HOME")
    return os.path.abspath(found)


def _nvcc(source: str, name: str, options: list[str]) -> tuple[bytes, str]:
    try:
        compiler = importlib.import_module("pycuda.compiler")
        compile_error = importlib.import_module("pycuda.driver").CompileError
    except ImportError as error:
        raise JudgeError(f"cannot compile for the GPU: {error}; install PyCUDA with: pip install pycuda") from error
    with warnings.catch_warnings(record=True) as said:  # this is how PyCUDA passes on the compiler's warnings
        warnings.simplefilter("always")
        try:
            code = compiler.compile(
                source, nvcc=find_nvcc(), options=options, keep=False, no_extern_c=True, cache_dir=False
            )
        except compile_error as error:
            raise _refusal(clean(f"{error.stdout or ''}{error.stderr or ''}", name), name) from error
        except FileNotFoundError as error:
            raise JudgeError(f"nvcc returned no result and no error: {error}") from error
    return code, clean("".join(_compiler_words(str(warning.message)) for warning in said), name)


def _compiler_words(warning: str) -> str:
    _, found, words = warning.partition("said the following:\n")
    return words if found else ""


def _target(arch: str) -> list[str]:
    # -gencode, since PyCUDA does not understand the "a" of sm_90a in its own `arch`
    return [f"-gencode=arch={arch.replace('sm_', 'compute_')},code={arch}"]


def _host_compiler() -> list[str]:
    path = shutil.which("g++", path=os.environ.get("PATH") or os.defpath)
    return [f"-ccbin={path}"] if path else []


def _quoted(name: str) -> str:
    escaped = "".join(c if c.isprintable() and c not in '"\\' else "_" for c in name)
    return f'"{escaped}"'


def _refusal(log: str, name: str) -> SubmissionError:
    """Launching from the device needs relocatable code, which no device here runs; the rest are plain errors."""
    launch = _DEVICE_LAUNCH.search(log)
    if launch and log.count(": error: ") == len(_DEVICE_LAUNCH.findall(log)):
        message = "Launching kernels from device code is not supported; launch them from solve()."
        finding = Finding(FindingKind.UNSUPPORTED, message, name, int(launch[1]))
        return SubmissionError(Verdict.UNSUPPORTED, message, (finding,), log)
    return SubmissionError(Verdict.COMPILE_ERROR, f"{name} does not compile for this GPU", log=log)


def _check(code: bytes, log: str) -> None:
    """Refuse what is incomplete (nvcc returns 0 when a file limit cuts its output), too large or unsupported."""
    try:
        info = inspect(code)
    except IncompleteCubin as error:
        message = f"The compiled kernels are too large: {error}."
        raise SubmissionError(Verdict.COMPILE_ERROR, message, log=log) from error
    if len(code) > MAX_CUBIN_BYTES:
        message = f"The compiled kernels have {len(code)} bytes; at most {MAX_CUBIN_BYTES} are allowed."
        raise SubmissionError(Verdict.COMPILE_ERROR, message, log=log)
    for symbol in info.undefined:
        if symbol in _UNSUPPORTED_CALLS or _RUNTIME_CALL.match(symbol):
            what = _UNSUPPORTED_CALLS.get(symbol) or f"{_RUNTIME_CALL.sub('cuda', symbol)}() in device code"
            message = f"{what} is not supported."
            finding = Finding(FindingKind.UNSUPPORTED, message)
            raise SubmissionError(Verdict.UNSUPPORTED, message, (finding,), log)


def clean(log: str, name: str) -> str:
    """nvcc's words without this machine's paths and without control bytes; long logs keep head and tail."""
    for pattern, replacement in _PATHS:
        log = pattern.sub(replacement, log)
    return diagnostics.clean(log.replace('"kernel.cu"', f'"{name}"'), name, ())
