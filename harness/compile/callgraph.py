"""Who calls whom in the PTX: every function that a kernel reaches, also those that were inlined into it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_HEAD = re.compile(r"^(?:\.visible |\.weak |\.extern )*\.(entry|func)\b[^;{]*?([\w$]+)\s*\([^;{]*\)[^;{]*\{", re.M)
# One of: a source location, with the function inlined there; a direct call.
_EVENT = re.compile(
    r"\.loc\s+(\d+) (\d+) \d+(?:, function_name (\S+?), inlined_at (\d+) (\d+) \d+)?"
    r"|\bcall(?:\.uni)?\s+(?:\([^)]*\),\s*)?([A-Za-z_$][\w$]*)"
)
_FILE = re.compile(r'^\s*\.file\s+(\d+) "([^"]*)"', re.M)
_LABEL = re.compile(r"^(\$L__info_string\d+):\s*\n((?:\s*\.b8 .*\n)+)", re.M)


@dataclass(frozen=True)
class Call:
    """A function (mangled name) that device code reaches. `line` of the user's file is where it is called, 0 where
    that is unknown; `kernel` is the mangled name of the kernel that reaches it."""

    callee: str
    line: int
    kernel: str


@dataclass(frozen=True)
class _Function:
    name: str
    kernel: bool
    body: str


def defines(ptx: str, name: str) -> bool:
    """Whether the PTX defines a function, not a kernel, of exactly that mangled name."""
    return any(function.name == name and not function.kernel for function in _functions(ptx))


def reached(ptx: str, user_file: str) -> Iterator[Call]:
    """Every function that any kernel calls, directly, through functions of its own, or inlined."""
    functions = {function.name: function for function in _functions(ptx)}
    file = next((number for number, path in _FILE.findall(ptx) if path.rsplit("/", 1)[-1] == user_file), "")
    labels = {label: _text(data) for label, data in _LABEL.findall(ptx)}
    for kernel in [function for function in functions.values() if function.kernel]:
        seen, pending = {kernel.name}, [kernel]
        while pending:
            for callee, line in _calls(pending.pop().body, file, labels):
                yield Call(callee, line, kernel.name)
                if callee in functions and callee not in seen:
                    seen.add(callee)
                    pending.append(functions[callee])


def symbols(ptx: str, names: set[str]) -> dict[str, set[str]]:
    """kernel -> which of these symbols it, or a function that it reaches, names."""
    named = {function.name: names & set(re.findall(r"[\w$]+", function.body)) for function in _functions(ptx)}
    used = {function.name: set(named[function.name]) for function in _functions(ptx) if function.kernel}
    for call in reached(ptx, ""):
        used[call.kernel] |= named.get(call.callee, set())
    return used


def last_name(mangled: str) -> str:
    """The function's own identifier: _Z5scalef -> scale, _ZN3Row3dotEv -> dot; lambdas and operators give ''."""
    if not mangled.startswith("_Z"):
        return mangled
    rest, last = mangled[2:].lstrip("NKL"), ""
    while found := re.match(r"(\d+)", rest):
        size, rest = int(found.group()), rest[found.end() :]
        last, rest = rest[:size], rest[size:]
    return last


def _functions(ptx: str) -> Iterator[_Function]:
    for head in _HEAD.finditer(ptx):
        end = ptx.find("\n}", head.end())
        yield _Function(head.group(2), head.group(1) == "entry", ptx[head.end() : end])


def _calls(body: str, user_file: str, labels: dict[str, str]) -> Iterator[tuple[str, int]]:
    line = 0  # of the user's file, from the last location that names it
    for event in _EVENT.finditer(body):
        file, own_line, label, caller_file, caller_line, callee = event.groups()
        if callee:
            yield callee, line
            continue
        if caller_file == user_file:
            line = int(caller_line)
        if label in labels:
            yield labels[label], line
        if file == user_file:
            line = int(own_line)


def _text(data: str) -> str:
    """The string in '.b8 95,90,49,102,0' lines."""
    return bytes(int(number) for number in re.findall(r"\b\d+\b", data.replace(".b8", ""))).rstrip(b"\0").decode()
