"""A kernel for every device function that the CUDA headers declare, to see whether the emulator knows what it becomes.

The names and signatures are read from the installed headers by a small regular expression; a function that this
architecture does not have, or that takes what no kernel can make up, is left out by the compiler's own word.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from harness.compile.nvrtc import nvrtc
from harness.emulator import ptx
from harness.emulator.errors import UnsupportedPtx
from harness.emulator.inline import flatten
from harness.emulator.program import Program, lower
from harness.emulator.uniform import Shape

HALVES = ("cuda_fp16.h", "cuda_bf16.h")
NARROW = ("cuda_fp8.h", "cuda_fp6.h", "cuda_fp4.h")
INTRINSICS = ("crt/device_functions.h", "crt/device_double_functions.h", "sm_20_intrinsics.h", "sm_30_intrinsics.h",
              "sm_32_intrinsics.h", "sm_61_intrinsics.h", "crt/sm_70_rt.h", "crt/sm_80_rt.h", "crt/sm_90_rt.h")  # fmt: skip
ATOMICS = ("device_atomic_functions.h", "sm_20_atomic_functions.h", "sm_32_atomic_functions.h", "sm_60_atomic_functions.h")
MATH = ("crt/math_functions.h",)
HEADERS = (*HALVES, *NARROW, *INTRINSICS, *ATOMICS, *MATH)

_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.S | re.M)
_PROTOTYPE = re.compile(r"\b(?:__\w+_DECL__|__device__)([^;{}()=\"]*?[\s*])(\w+)\s*\(([^()]*)\)\s*(?:__THROW\s*)?(?:__DEF_IF_HOST|[;{])")
_QUALIFIERS = re.compile(r"\b(?:static|extern|inline|__(?:inline|forceinline|device|host|device_builtin|cudart_builtin|cdecl|CUDA_MATH_CRTIMP)"
                         r"(?:__)?|_CRTIMP|__\w+_DECL__)\b")  # fmt: skip
_MEMORY = 4096  # bytes of each pointer's own memory


@dataclass(frozen=True)
class Prototype:
    """A device function as its header declares it."""

    header: str
    result: str
    name: str
    parameters: tuple[str, ...]  # types

    def __str__(self) -> str:
        return f"{self.name}({', '.join(self.parameters)})"


@cache
def prototypes(header: str) -> tuple[Prototype, ...]:
    """Every device function that a header declares, once."""
    folder = next(f for f in nvrtc().toolkit.include if (f / header).exists())
    text = _COMMENT.sub(" ", Path(folder / header).read_text(encoding="utf-8"))
    found: dict[Prototype, None] = {}
    for result, name, parameters in _PROTOTYPE.findall(text):
        kinds = tuple(_type(p) for p in parameters.split(",") if p.strip() not in ("", "void"))
        result = " ".join(_QUALIFIERS.sub(" ", result).split())
        if result and not name.startswith("operator") and "..." not in kinds:
            found[Prototype(header, result, name, kinds)] = None
    return tuple(found)


def _type(parameter: str) -> str:
    """A parameter without its name and default."""
    text = parameter.split("=")[0].strip()
    words = re.findall(r"[\w:]+|\*|&", text)
    named = len(words) > 1 and words[-1] not in ("*", "&", "int", "char", "long", "short", "float", "double", "unsigned")
    kept = words[:-1] if named else words
    if kept[-1:] == ["const"] and "*" in kept:  # a constant pointer
        kept = kept[:-1]
    return " ".join(kept)


def operators() -> list[Prototype]:
    """What the headers have as members and operators, written as functions."""
    found = []

    def add(result: str, expression: str, *kinds: str) -> None:
        names = ", ".join(f"{kind} {letter}" for kind, letter in zip(kinds, "ab", strict=False))
        found.append(Prototype("", result, f"[]({names}) {{ return {expression}; }}", kinds))

    for kind in ("__half", "__half2", "__nv_bfloat16", "__nv_bfloat162"):
        for op in ("+", "-", "*", "/"):
            add(kind, f"a {op} b", kind, kind)
        for op in ("==", "!=", "<", ">="):
            add("bool", f"a {op} b", kind, kind)
        add(kind, "-a", kind)
        add(kind, "++a", kind)
    for half in ("__half", "__nv_bfloat16"):
        for kind in ("float", "double", "short", "unsigned", "long long"):
            add(half, f"{half}(a)", kind)
            add(kind, f"{kind}(a)", half) if kind != "double" else None
    for width, sources in (("", ("float", "double", "__half", "__nv_bfloat16")),
                           ("x2_", ("float2", "double2", "__half2", "__nv_bfloat162")), ("x4_", ("float4", "double4"))):  # fmt: skip
        for form in ("e4m3", "e5m2"):
            kind = f"__nv_fp8{width or '_'}{form}"
            for source in sources:
                add(kind, f"{kind}(a)", source)
            add(sources[0], f"{sources[0]}(a)", kind)
    for target in ("__half", "__nv_bfloat16", "double", "int", "unsigned char", "bool"):
        add(target, f"{target}(a)", "__nv_fp8_e4m3")
    return found


def kernel(number: int, f: Prototype) -> str:
    """One line: the arguments come from `in`, pointers point into `out`, the result goes to `out`."""
    arguments = []
    for k, kind in enumerate(f.parameters):
        plain = kind.removeprefix("const ").removeprefix("volatile ")
        if "*" in kind:
            arguments.append(f"({kind})(out + {_MEMORY * (k + 1)} + 16 * threadIdx.x)")
        elif "&" in kind:
            arguments.append(f"*({plain.replace('&', '*')})(out + {_MEMORY * (k + 1)})")
        elif (f.name.endswith("_sync") and k == 0) or f.name == "__syncwarp":
            arguments.append("0xffffffffu")
        else:
            arguments.append(f"*(const {plain}*)(in + {32 * k})")
    call = f"{f.name}({', '.join(arguments)})"
    body = call if f.result == "void" else f"*({f.result.replace('const ', '')}*)out = {call}"
    return f'extern "C" __global__ void k{number:04}(const char* in, char* out) {{ in += 256 * threadIdx.x; out += 16 * threadIdx.x; {body}; }}'


def compile_kernels(functions: Iterable[Prototype], arch: str, level: str = "full") -> tuple[dict[str, Prototype], str]:
    """(kernel -> function, PTX) of those functions that the compiler takes for an architecture."""
    rest = dict(enumerate(functions))
    head = "".join(f"#include <{h}>\n" for h in (*HALVES, *NARROW))
    compiler = nvrtc()
    flags = [f"--gpu-architecture=compute_{arch}", "-default-device", "-std=c++17", "-w", "--no-source-include"]
    flags += ["--Ofast-compile=mid"] if level == "mid" else []
    flags += [f"-I{folder}" for folder in compiler.toolkit.include]
    while rest:
        lines = {n: kernel(n, f) for n, f in rest.items()}
        order = list(lines)
        output = compiler.compile(head + '#line 1 "kernels"\n' + "\n".join(lines.values()), "kernels", {}, flags)
        if output.ok:
            return {f"k{n:04}": f for n, f in rest.items()}, output.ptx
        bad = {order[int(line) - 1] for line in re.findall(r"^kernels\((\d+)\): error", output.log, re.M)}
        if not bad:
            raise AssertionError(output.log)
        rest = {n: f for n, f in rest.items() if n not in bad}
    return {}, ""


def refused(kernels: dict[str, Prototype], text: str, seen: set[str]) -> dict[Prototype, str]:
    """The functions whose kernels the emulator refuses, and why. Kernels that have nothing which is not in `seen` are
    passed over: lowering meets an instruction, a special register or a callee in one kernel as in any other."""
    program = Program(ptx.parse(text))
    reasons = {}
    for name, f in kernels.items():
        try:
            flat = flatten(program.module, name)
            new = _features(flat) - seen
            if new:
                lower(program.module, flat, program._layout(name, flat)[0], Shape(whole_rows=True, full_warps=True))
                seen |= new
        except UnsupportedPtx as error:
            reasons[f] = str(error)
    return reasons


def _features(f: ptx.Function) -> set[str]:
    """The instructions, special registers and callees of a function."""
    found = set()
    for i in f.body:
        if isinstance(i, ptx.Ins):
            found.add(i.op)
            found.update(a.name for a in i.args if isinstance(a, ptx.Reg) and ptx.is_special(a.name))
            found.update(a.name for a in i.args[:1] if i.base == "call" and isinstance(a, ptx.Sym))
    return found
