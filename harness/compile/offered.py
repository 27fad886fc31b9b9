"""What a submission asks for that is not offered here, said at the user's line: headers and runtime functions.

It is `unsupported` where nvcc would take it, as the C++ library in host code, and a compile error where it would not.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.compile import includes
from harness.verdict import Verdict

_REFUSED = re.compile(
    r'^([^\n]+?)\(\d+\): catastrophic error: #error directive: "?([^"\n]*)"?\n[ \t]+#error[^\n]*\n[ \t]*\^\n', re.M
)
_NOT_FOUND = re.compile(r'^([^\n]+?)\((\d+)\): catastrophic error: cannot open source file "([^"\n]*)"', re.M)
_HOST_ONLY = re.compile(r"^<(?:thrust|cub)/[^\n]*error: A function explicitly marked as a __host__ function", re.M)
_UNKNOWN = re.compile(r'\((\d+)\): error: identifier "(cu(?:da)?[A-Z]\w*)" is undefined')
_DECLARATIONS = ("cuda_runtime_api.h", "cuda_runtime.h", "driver_types.h", "cuda.h")
_STANDARD = frozenset((
    "any", "array", "atomic", "barrier", "bit", "bitset", "charconv", "chrono", "codecvt", "compare", "complex",
    "concepts", "condition_variable", "deque", "exception", "execution", "filesystem", "format", "forward_list",
    "fstream", "functional", "future", "iomanip", "ios", "iosfwd", "istream", "iterator", "latch", "list", "locale",
    "map", "memory", "memory_resource", "mutex", "numbers", "numeric", "optional", "ostream", "queue", "random",
    "ranges", "ratio", "regex", "scoped_allocator", "semaphore", "set", "shared_mutex", "source_location", "span",
    "sstream", "stack", "stdexcept", "streambuf", "string", "string_view", "strstream", "syncstream", "system_error",
    "thread", "tuple", "typeindex", "typeinfo", "unordered_map", "unordered_set", "valarray", "variant", "vector",
    "version", "cctype", "cerrno", "cfenv", "cinttypes", "clocale", "csetjmp", "csignal", "cstdarg", "ctime",
    "cuchar", "cwchar", "cwctype", "ctype.h", "errno.h", "fenv.h", "inttypes.h", "locale.h", "setjmp.h", "signal.h",
    "stdarg.h", "time.h", "wchar.h", "unistd.h", "sys/time.h",
))  # fmt: skip
_ADVICE = (
    ("cudaLaunchCooperativeKernelMultiDevice", "there is one device: use cudaLaunchCooperativeKernel"),
    ("cudaLaunchKernelEx", "launch it with <<<>>>"),
    ("cudaGraph", "launch the kernels one by one; they run in the order of issue"),
    ("cudaStreamBeginCapture", "launch the kernels one by one; they run in the order of issue"),
    ("cudaStreamEndCapture", "launch the kernels one by one; they run in the order of issue"),
    ("cudaMalloc", "allocate with cudaMalloc"),
    ("cudaMemcpy", "copy with cudaMemcpy or cudaMemcpyAsync, or in a kernel"),
    ("cudaMemset", "fill with cudaMemset or cudaMemsetAsync, or in a kernel"),
)


@dataclass(frozen=True)
class Missing:
    """Something that is not offered: the sentence, the user's line (0: unknown), and what it makes of the file."""

    message: str
    line: int
    verdict: Verdict


def at_the_users_line(log: str, name: str, text: str) -> str:
    """The log with the refusal of a header as a message about the line of `text`, the file `name`, that includes it."""

    def moved(found: re.Match[str]) -> str:
        header, said = found.groups()
        line = _line_of(header, text)
        if said == includes.REFUSAL:
            said = _no_header(header)
        elif "not available to solve()" not in said:
            return found.group()
        if not line:
            line, said = _through_toolkit(text) or (0, said)
        shown = text.split("\n")[line - 1].strip() if line else ""
        return f"{name}({line}): error: {said}\n  {shown}\n" if line else f"{name}: error: {said}\n"

    return _REFUSED.sub(moved, log)


def missing(log: str, name: str, text: str, include: Sequence[Path]) -> Missing | None:
    """What the log says is not there, or None. `log` is as `at_the_users_line` gives it; `include` are the toolkit's
    header folders."""
    return _header(log, name, text) or _runtime_function(log, include)


def _header(log: str, name: str, text: str) -> Missing | None:
    place = rf"^{re.escape(name)}(?:\((\d+)\))?: error: "
    refused = re.search(place + r"([^\n]* not available to solve\(\)[^\n]*)", log, re.M)
    if refused:
        return Missing(refused.group(2), int(refused.group(1) or 0), Verdict.UNSUPPORTED)
    outside = re.search(place + r"(there is no header [^\n]*)", log, re.M)
    if outside:
        return Missing(outside.group(2), int(outside.group(1) or 0), Verdict.COMPILE_ERROR)
    found = _NOT_FOUND.search(log)
    file, header = (found.group(1), found.group(3)) if found else ("", "")
    through = _through_toolkit(text) if _HOST_ONLY.search(log) or (found and file.startswith("<")) else None
    if through:
        return Missing(through[1], through[0], Verdict.UNSUPPORTED)
    if not found:
        return None
    line = int(found.group(2)) if file == name else 0
    if header in _STANDARD:
        return Missing(_not_available(f"<{header}>"), line, Verdict.UNSUPPORTED)
    return Missing(_no_header(header), line, Verdict.COMPILE_ERROR)


def _no_header(header: str) -> str:
    return f"there is no header {header} for a submission to include: it is one file, beside the toolkit's headers"


def _not_available(header: str) -> str:
    return (
        f"{header} is not available to solve(): it is evaluated by the judge and works with plain arrays, scalars and "
        "the CUDA runtime"
    )


def _line_of(header: str, text: str) -> int:
    """Where the text includes a header, or at least spells its name; 0 where it does neither."""
    included = next((line for line, named in includes.directives(text) if named == header), 0)
    spelled = text.find(header)
    return included or (text.count("\n", 0, spelled) + 1 if spelled >= 0 and "/" in header else 0)


def _through_toolkit(text: str) -> tuple[int, str] | None:
    """(line, sentence) of the first header of the user's that stands for device-wide algorithms run by the host."""
    for line, header in includes.directives(text):
        if header.startswith("thrust/"):
            return line, f"<{header}> is not available to solve(): write the step as a kernel"
        if header.startswith("cub/"):
            return line, (
                f"<{header}> is not available to solve(): it brings the device-wide algorithms, which host code runs; "
                "include the block- or warp-wide part alone, as <cub/block/block_reduce.cuh>"
            )
    return None


def _runtime_function(log: str, include: Sequence[Path]) -> Missing | None:
    unknown = _UNKNOWN.search(log)
    if not unknown:
        return None
    function = unknown.group(2)
    message = f"{function} is not among the CUDA functions that solve() can use here"
    advice = next((f"; {words}" for start, words in _ADVICE if function.startswith(start)), "")
    real = _declared(function, include)
    first = log.find("error") > unknown.start()  # other errors before it are for the user to mend
    verdict = Verdict.UNSUPPORTED if real and first else Verdict.COMPILE_ERROR
    return Missing(message + (advice if real else ""), int(unknown.group(1)), verdict)


def _declared(function: str, include: Sequence[Path]) -> bool:
    """Whether the toolkit knows the name: else it is a slip of the pen."""
    files = [folder / header for folder in include for header in _DECLARATIONS]
    word = re.compile(rf"\b{function}\b")
    return any(word.search(file.read_text(errors="replace")) for file in files if file.is_file())
