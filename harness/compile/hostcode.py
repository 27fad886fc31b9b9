"""What nvcc refuses and the device compiler cannot see: host code that a kernel uses.

solve() is compiled for the device, so every unannotated function is a device function and a call from a kernel is
legal. Two sources bring nvcc's rule back: our headers leave a call of a marked external function in each host function,
and a second run of the front end without -default-device names every unannotated function and variable of the user's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from harness.compile import callgraph
from harness.errors import SubmissionError
from harness.results import Finding
from harness.verdict import FindingKind, Verdict

_LAUNCH = re.compile(r"__cudaCDP2LaunchDevice|__cudaCDP2GetParameterBuffer|judge_launch_\w+")
# The calls of the device runtime that nvcc, too, allows in a kernel without -rdc.
_ALLOWED = re.compile(r"__cudaCDP2(?:GetDevice|DeviceGetAttribute|FuncGetAttributes|Malloc|Occupancy\w*)$")
_HOST = re.compile(r"judge_|__cudaCDP2")
_FUNCTION = re.compile(r"\((\d+)\): error: A function (?:without|explicitly marked).*\n(.*)\n(\s*)\^")
_EXTERN = re.compile(r"^\.extern \.func\b[^;{]*?([A-Za-z_$][\w$]*)\s*\(", re.M)
_BUILT_IN = {"vprintf", "malloc", "free", "__assertfail"}  # the system calls of device code
_OWN_VARIABLE = re.compile(
    r"^\s*(?:\.visible |\.weak )*\.(?:global|const)\s[^;=]*?\s[A-Za-z_]\w*(?:\[\d*\])*\s*[;=]", re.M
)
_VARIABLE = re.compile(r'\((\d+)\): warning #2\d+-D: a host variable "(\w+)" cannot be directly')


@dataclass(frozen=True)
class HostNames:
    """What the front end says of the user's own file. `functions` are names that have no device definition at all,
    `variable_uses` (line, name) pairs of host variables in device code."""

    functions: frozenset[str]
    variable_uses: tuple[tuple[int, str], ...]


NONE = HostNames(frozenset(), ())


def suspected(ptx: str, text: str, name: str) -> bool:
    """Whether `host_names` is worth asking for: the kernels reach a function that the text does not annotate, or the
    module has variables of its own."""
    marked = _device_names(text)
    called = {callgraph.last_name(call.callee) for call in callgraph.reached(ptx, name)} - marked
    defined = any(re.search(rf"\b{re.escape(function)}\s*\(", text) for function in called if function)
    return defined or _OWN_VARIABLE.search(ptx) is not None


def host_names(log: str, text: str, name: str) -> HostNames:
    """Read the log of a front-end run without -default-device over `text`, the user's file called `name`."""
    mine = "\n".join(_own_messages(log, name))
    found = [(int(line), _identifier(shown, len(margin))) for line, shown, margin in _FUNCTION.findall(mine)]
    unmarked = {identifier for _, identifier in found if identifier}
    uses = tuple((int(line), variable) for line, variable in _VARIABLE.findall(mine))
    return HostNames(frozenset(unmarked - _device_names(text)), uses)


def _own_messages(log: str, name: str) -> Iterator[str]:
    """The messages about the user's file; a message begins at column 0 and its source lines are indented."""
    mine = False
    for line in log.splitlines():
        if line and not line[0].isspace():
            mine = line.startswith(f"{name}(")
        if mine:
            yield line


def _identifier(shown: str, column: int) -> str:
    found = re.match(r"\w+", shown[column:])
    return found.group() if found else ""


def _device_names(text: str) -> set[str]:
    """Names that `text` defines with a device annotation somewhere: an overload of them may be the one called."""
    bare = re.sub(r"//[^\n]*|/\*.*?\*/", " ", text, flags=re.S)
    heads = re.findall(r"__(?:device|global)__([^;{}]*?)\{", bare)
    return {identifier for head in heads for identifier in re.findall(r"(\w+)\s*\(", head)}


def check(ptx: str, name: str, host: HostNames) -> None:
    """Refuse device code that uses host code. `name` is the user's file.

    Raises SubmissionError: unsupported for a launch from device code and the like, compile_error for everything
    else that nvcc refuses.
    """
    errors = [
        f'{name}({line}): error: identifier "{variable}" is undefined in device code (it is a host variable: '
        "declare it __device__ or __constant__, or pass it as an argument)"
        for line, variable in host.variable_uses
    ]
    undefined = set(_EXTERN.findall(ptx)) - _BUILT_IN
    for call in callgraph.reached(ptx, name):
        if _LAUNCH.match(call.callee):
            raise _unsupported(call, name, "launching a kernel from device code", "launch it from solve()")
        if _ALLOWED.match(call.callee):
            raise _unsupported(call, name, f"{_readable(call.callee)} in device code", "call it in solve()")
        refused = _host_function(call.callee, host.functions)
        if refused:
            errors.append(_message(call, refused, name))
        elif call.callee in undefined:
            errors.append(f"{_place(call, name)}: error: function {callgraph.last_name(call.callee)} is not defined")
    if errors:
        raise _refusal(errors)


def _host_function(callee: str, unmarked: frozenset[str]) -> str:
    """A readable name of `callee` if it is a host function, else an empty string."""
    if _HOST.match(callee):
        return _readable(callee)
    own = callgraph.last_name(callee)
    return f'"{own}"' if own in unmarked else ""


_READABLE: Mapping[str, str] = {
    "judge_host_only_integer_math": "a mathematical function of an integer: cast its argument to float",
    "judge_host_only_fprintf": '"fprintf": printf works in device code',
    "judge_host_only_std_min": '"std::min": min works in device code',
    "judge_host_only_std_max": '"std::max": max works in device code',
    "judge_host_only_std_numeric_limits": "a member of std::numeric_limits: use INFINITY or FLT_MAX",
    "judge_synchronize": "of the CUDA runtime: in a kernel, __syncthreads() synchronises a block",
}


def _readable(callee: str) -> str:
    """judge_host_only_std_swap -> "std::swap", __cudaCDP2Free -> "cudaFree"."""
    if callee in _READABLE:
        return _READABLE[callee]
    if callee.startswith("__cudaCDP2"):
        return f'"{callee.replace("__cudaCDP2", "cuda")}"'
    if callee.startswith("judge_host_only_"):
        return f'"{callee.removeprefix("judge_host_only_").replace("std_", "std::")}"'
    return "of the CUDA runtime or the C library"


def _place(call: callgraph.Call, name: str) -> str:
    return f"{name}({call.line})" if call.line else name


def _message(call: callgraph.Call, function: str, name: str) -> str:
    return (
        f"{_place(call, name)}: error: calling a __host__ function ({function}) from device code is not allowed "
        f'(kernel "{callgraph.last_name(call.kernel)}")'
    )


def _unsupported(call: callgraph.Call, name: str, what: str, instead: str) -> SubmissionError:
    message = f"{_place(call, name)}: {what} is not supported; {instead}"
    finding = Finding(FindingKind.UNSUPPORTED, message, name, call.line, kernel=callgraph.last_name(call.kernel))
    return SubmissionError(Verdict.UNSUPPORTED, message, [finding], log=message + "\n")


def _refusal(errors: Iterable[str]) -> SubmissionError:
    unique = list(dict.fromkeys(errors))
    return SubmissionError(Verdict.COMPILE_ERROR, unique[0], log="\n".join(unique) + "\n")
