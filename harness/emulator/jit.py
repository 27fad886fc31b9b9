"""LLVM IR text -> native code through llvmlite, or from an object that an earlier run has made of the same text."""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import threading
from collections.abc import Callable
from functools import cache

import llvmlite
import llvmlite.binding as llvm

from harness.emulator.errors import UnsupportedPtx
from harness.emulator.objects import STORE
from harness.emulator.ptx import split_commas

_METADATA = '\n!0 = !{!"branch_weights", i32 1, i32 10000}\n!1 = !{}\n!2 = !{!"branch_weights", i32 10000, i32 1}\n'
_INTRINSIC = re.compile(r"call (void|ptr|i\d+|float|double|half|<[^>]*>|\{[^}]*\}) (@llvm\.[\w.]+)\((.*)\)")
_TYPE = re.compile(r"\s*(<\d+ x \w+>|ptr|i\d+|float|double|half)(?![\w])")
_lock = threading.Lock()
ENTRY = "run_blocks"  # the function that is called from outside: the block scheduler (schedule.py)


class Native:
    """Compiled code; `address(name)` of a function. Keep the object alive while the code is in use."""

    def __init__(self, engine: llvm.ExecutionEngine):
        self._engine = engine

    def address(self, name: str) -> int:
        return int(self._engine.get_function_address(name))


@cache
def has_feature(name: str) -> bool:
    """Whether the host's processor has an instruction set extension, by LLVM's name for it ("avx512f")."""
    _initialise()
    return bool(dict(llvm.get_host_cpu_features()).get(name, False))


@cache
def _initialise() -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()


def _machine(level: int) -> llvm.TargetMachine:
    """A machine of its own for each engine, which takes it over and frees it."""
    _initialise()
    target = llvm.Target.from_default_triple()
    features = llvm.get_host_cpu_features().flatten()
    return target.create_target_machine(cpu=llvm.get_host_cpu_name(), features=features, opt=level, jit=True)


def declare_intrinsics(text: str) -> str:
    """Declarations of every intrinsic that the text calls."""
    found = {}
    for result, name, arguments in _INTRINSIC.findall(text):
        if name not in found:
            types = [m[1] for a in split_commas(arguments) if (m := _TYPE.match(a))]
            found[name] = f"declare {result} {name}({', '.join(types)})"
    known = set(re.findall(r"^declare .* (@llvm\.[\w.]+)\(", text, re.M))
    return "\n".join(d for n, d in found.items() if n not in known) + "\n"


def compile_ir(text: str, passes: int = 1, codegen: int = 2) -> Native:
    """Optimise and compile a module. `passes`: 0 to 3 as in -O; `codegen`: 0 to 3 for instruction selection."""
    if path := os.environ.get("JUDGE_DUMP_IR"):
        with open(path, "w") as out:
            out.write(_complete(text))
    name = _digest(text, str(passes), str(codegen))
    with _lock:
        known = STORE.get(name)
        native = _load(known) if known is not None else None
        if native is not None:
            return native
        data = _emit(_complete(text), passes, codegen)
        native = _load(data)
    if native is None:
        raise RuntimeError("LLVM does not load the object that it has made")
    STORE.add(name, data)
    return native


def _complete(text: str) -> str:
    return declare_intrinsics(text) + text + _METADATA


def _digest(*parts: str) -> str:
    """Name of the object that these parts are compiled to by this LLVM for this processor."""
    digest = hashlib.sha256()
    for part in (*_identity(), *parts):
        data = part.encode()
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()


@cache
def _identity() -> tuple[str, ...]:
    _initialise()
    features = llvm.get_host_cpu_features().flatten()
    versions = (llvmlite.__version__, str(llvm.llvm_version_info))
    return (*versions, llvm.get_default_triple(), llvm.get_host_cpu_name(), features)


def _emit(full: str, passes: int, codegen: int) -> bytes:
    """The module's object file."""
    machine = _machine(codegen)
    try:
        module = llvm.parse_assembly(full)
        module.verify()
    except RuntimeError as error:
        raise UnsupportedPtx("a combination of instructions that its translation cannot express") from error
    module.triple = machine.triple
    options = llvm.create_pipeline_tuning_options(speed_level=passes)
    options.loop_vectorization = options.slp_vectorization = options.loop_unrolling = False
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    return bytes(machine.emit_object(module))


def _load(data: bytes) -> Native | None:
    """The code of an object file, linked; None for what is no object file with a block scheduler in it."""
    file = llvm.ObjectFileRef.from_data(data)
    if not file:
        return None
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _machine(0))
    engine.add_object_file(file)
    engine.finalize_object()
    return Native(engine) if engine.get_function_address(ENTRY) else None


def function(address: int) -> Callable[[int], int]:
    """A foreign function (ptr) -> i32; ctypes gives up the GIL while it runs."""
    return ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(address)
