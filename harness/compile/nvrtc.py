"""NVRTC, the CUDA C++ compiler as a shared library, through ctypes: source text in, PTX and a log out.

The library comes from the `nvidia-cuda-nvrtc` wheel or, where that is absent, from an installed CUDA toolkit.
It needs no driver and no GPU.
"""

from __future__ import annotations

import ctypes
import dataclasses
import importlib.util
import itertools
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from harness.errors import JudgeError, UsageError

INSTALL_HINT = (
    "install the compiler with: pip install 'nvidia-cuda-nvrtc==13.0.*' 'nvidia-cuda-runtime==13.0.*' "
    "'nvidia-cuda-crt==13.0.*' 'nvidia-cuda-cccl==13.0.*'"
)
_LIBRARY_HEADER = Path("nv", "target")  # which the toolkit's own headers include, and CCCL brings
_SUCCESS = 0
_COMPILATION_ERROR = 6  # NVRTC_ERROR_COMPILATION: the only status that is the user's own fault


@dataclass(frozen=True)
class Toolkit:
    """Where the compiler's files are: the shared library, the table of built-ins that it loads, header folders."""

    library: Path
    builtins: Path | None
    include: tuple[Path, ...]


@dataclass(frozen=True)
class Output:
    """What one compilation gave. `ptx` is empty unless `ok`, `cubin` unless it was asked for."""

    ok: bool
    ptx: str
    log: str
    cubin: bytes = b""


def find_toolkit() -> Toolkit:
    """The first usable NVRTC: wheels first, then CUDA_HOME, /usr/local/cuda and the toolkit of the `nvcc` on PATH.

    Raises UsageError, with what to install, where there is none.
    """
    tried = []
    for root in _roots():
        toolkit = _toolkit_in(root)
        if toolkit is not None:
            return _with_library_headers(toolkit)
        tried.append(str(root))
    places = ", ".join(tried) or "no CUDA wheel or toolkit"
    raise UsageError(f"cannot find the CUDA compiler library NVRTC (looked in: {places}); {INSTALL_HINT}")


def _roots() -> Iterator[Path]:
    yield from _wheel_roots()
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if os.environ.get(variable):
            yield Path(os.environ[variable])
    yield Path("/usr/local/cuda")
    nvcc = shutil.which("nvcc")
    if nvcc:
        yield Path(nvcc).resolve().parent.parent


def _wheel_roots() -> Iterator[Path]:
    spec = importlib.util.find_spec("nvidia")
    for place in (spec.submodule_search_locations or []) if spec else []:
        yield Path(place) / "cu13"


def _toolkit_in(root: Path) -> Toolkit | None:
    root = root.absolute()
    folders = [root / "lib", root / "lib64", root / "bin", root / "bin" / "x86_64"]
    library = _newest(folders, "nvrtc64_1*_0.dll" if sys.platform == "win32" else "libnvrtc.so.1*")
    if library is None:
        return None
    pattern = "nvrtc-builtins64_1*.dll" if sys.platform == "win32" else "libnvrtc-builtins.so.1*"
    return Toolkit(library, _newest([library.parent], pattern), _include_folders(root))


def _with_library_headers(toolkit: Toolkit) -> Toolkit:
    """With CCCL's headers (<nv/target>, <cuda/std/...>) from the first place that has them, where the toolkit's own
    folders lack them: the packages that PyTorch brings have the compiler without them."""
    places = itertools.chain(toolkit.include, *map(_include_folders, _roots()))
    folder = next((folder for folder in places if (folder / _LIBRARY_HEADER).is_file()), None)
    if folder is None or folder in toolkit.include:
        return toolkit
    return dataclasses.replace(toolkit, include=(*toolkit.include, folder))


def _include_folders(root: Path) -> tuple[Path, ...]:
    return tuple(path for path in (root / "include", root / "include" / "cccl") if path.is_dir())


def _newest(folders: Sequence[Path], pattern: str) -> Path | None:
    found = [path for folder in folders for path in folder.glob(pattern)]
    return min(found, key=lambda path: (len(path.name), path.name)) if found else None


class Nvrtc:
    """A loaded NVRTC. `version` is (major, minor)."""

    def __init__(self, toolkit: Toolkit):
        self.toolkit = toolkit
        self._library = _load(toolkit)
        self._error_string = self._library.nvrtcGetErrorString
        self._error_string.restype = ctypes.c_char_p
        self.version = self._read_version()

    def compile(
        self, text: str, name: str, headers: Mapping[str, str], options: Sequence[str], cubin: bool = False
    ) -> Output:
        """Compile one translation unit. `name` is the file name that diagnostics show, `headers` maps the names of
        in-memory headers to their text; they are found before any folder given with -I. For a real architecture
        (sm_90) the PTX has also passed the assembler, which is what checks inline asm and static shared memory;
        `cubin` asks for what it made of the PTX.

        Raises JudgeError where the compiler itself fails (a rejected option, memory).
        """
        program = self._create(text, name, headers)
        try:
            status = self._library.nvrtcCompileProgram(program, len(options), _strings(options))
            log = self._text(program, "nvrtcGetProgramLogSize", "nvrtcGetProgramLog").decode(errors="replace")
            if status == _COMPILATION_ERROR:
                return Output(False, "", log)
            self._check(status, "compile", log)
            ptx = self._text(program, "nvrtcGetPTXSize", "nvrtcGetPTX").decode(errors="replace")
            return Output(True, ptx, log, self._cubin(program) if cubin else b"")
        finally:
            self._library.nvrtcDestroyProgram(ctypes.byref(program))

    def _create(self, text: str, name: str, headers: Mapping[str, str]) -> ctypes.c_void_p:
        program = ctypes.c_void_p()
        status = self._library.nvrtcCreateProgram(
            ctypes.byref(program),
            text.encode(),
            name.encode(),
            len(headers),
            _strings(list(headers.values())),
            _strings(list(headers)),
        )
        self._check(status, "create a program")
        return program

    def _text(self, program: ctypes.c_void_p, size_function: str, function: str) -> bytes:
        return self._bytes(program, size_function, function).rstrip(b"\0")

    def _cubin(self, program: ctypes.c_void_p) -> bytes:
        return self._bytes(program, "nvrtcGetCUBINSize", "nvrtcGetCUBIN")

    def _bytes(self, program: ctypes.c_void_p, size_function: str, function: str) -> bytes:
        size = ctypes.c_size_t()
        self._check(getattr(self._library, size_function)(program, ctypes.byref(size)), size_function)
        buffer = ctypes.create_string_buffer(size.value)
        self._check(getattr(self._library, function)(program, buffer), function)
        return buffer.raw

    def _read_version(self) -> tuple[int, int]:
        major, minor = ctypes.c_int(), ctypes.c_int()
        self._check(self._library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)), "nvrtcVersion")
        return major.value, minor.value

    def _check(self, status: int, doing: str, log: str = "") -> None:
        if status != _SUCCESS:
            reason = self._error_string(status).decode()
            raise JudgeError(f"NVRTC cannot {doing}: {reason} {log}".rstrip())


def _load(toolkit: Toolkit) -> ctypes.CDLL:
    load: Callable[..., ctypes.CDLL] = ctypes.CDLL
    try:
        if toolkit.builtins is not None:
            # NVRTC opens this one by its bare name, which the loader finds only if it is already in the process.
            load(str(toolkit.builtins), mode=ctypes.RTLD_GLOBAL)
        return load(str(toolkit.library))
    except OSError as error:
        raise UsageError(f"cannot load the CUDA compiler library {toolkit.library}: {error}; {INSTALL_HINT}") from error


def _strings(values: Sequence[str]) -> ctypes.Array[ctypes.c_char_p]:
    return (ctypes.c_char_p * len(values))(*(value.encode() for value in values))


@cache
def nvrtc() -> Nvrtc:
    """The process's NVRTC, loaded on first use. Raises UsageError where none is found."""
    return Nvrtc(find_toolkit())
