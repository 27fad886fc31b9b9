"""What compiled code may hold: no state of its own on the card that one launch could leave to the next.

A kernel that keeps results, or counts its launches, in a device variable can answer a later launch without computing,
or behave while it is checked and not while it is timed. So variables in global memory may be read by kernels but not
written, unless the problem allows it. solve() may fill them (cudaMemcpyToSymbol): it does so every time, and never sees
a result. Constant memory is out of a kernel's reach.

The PTX, which both devices have, is asked first: harness/written_variables.py says what kernels write. The cubin is
another compiler's work on the same source, and a source can tell the two compilers apart. So a variable that only the
cubin has counts as written if it starts as zeros, or if the source declares it as __device__; not if it is declared
constant, since one compiler may keep what the other folds. Tables that a compiler made by itself start with their
values, and the libraries' own small objects (cuda::std::ranges::begin and its like) stand in every file that includes
<cuda/std/...>.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from harness.compile.callgraph import last_name
from harness.compile.cubin import CubinInfo, DeviceObject, IncompleteCubin, inspect, strangers
from harness.devices.names import readable
from harness.emulator.errors import UnsupportedPtx
from harness.emulator.ptx import Loc, Module, Variable, parse
from harness.errors import JudgeError, SubmissionError
from harness.results import Finding
from harness.verdict import FindingKind, verdict_of, worst
from harness.written_variables import Write, written

MAX_TABLE_BYTES = 64 << 10  # of initial values in global memory: enough for tables, too little for answers
_ZEROED, _INITIALISED = ".nv.global", ".nv.global.init"
_LIBRARY_OBJECT_BYTES = 8
_LIBRARY = re.compile(r"_ZN?K?St|(?:4cuda|18cooperative_groups|6thrust|3cub)\d")
_DECLARATION = re.compile(r"(?<!\w)\.global\b")  # of a variable; an instruction has its name right before
_DEVICE = re.compile(r"\b__(?:device|managed)__\b")
_DECLARED = re.compile(rf"{_DEVICE.pattern}|\bstatic\b|\.global\b")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
_INSTEAD = (
    "a device variable can carry a result from one launch to the next. Keep it in scratch memory: cudaMalloc it in "
    "solve(), clear it there with cudaMemsetAsync, and pass it to the kernel."
)


@dataclass(frozen=True)
class Sourced:
    """The user's file, for the lines of findings."""

    name: str
    text: str

    def line_of(self, symbol: str) -> int:
        """The line that declares a variable of that mangled name, or first names it; 0 where none does."""
        word = re.compile(rf"(?<![\w$]){re.escape(own_name(symbol))}(?![\w$])")
        found = [(number, line, at) for number, line in enumerate(self._code(), 1) if (at := word.search(line))]
        # Rather a declaration than a use, and rather a variable than a parameter.
        ranked = sorted(found, key=lambda it: (not _DECLARED.search(it[1]), "(" in it[1][: it[2].start()]))
        return ranked[0][0] if ranked else 0

    def declaration(self, symbol: str) -> str:
        """That line; "" where there is none."""
        line = self.line_of(symbol)
        return self._code()[line - 1] if line else ""

    def _code(self) -> list[str]:
        return _COMMENT.sub(lambda found: "\n" * found.group().count("\n"), self.text).split("\n")


def own_name(symbol: str) -> str:
    """The identifier that a mangled name ends in: _ZN2ns4openE -> open, _ZZ1kPfE7counter -> counter, of asm()
    $__mine__170$1 -> mine."""
    if inline := re.fullmatch(r"\$__(\w+?)__\d+\$\d+", symbol):
        return inline[1]
    if symbol.startswith("_ZZ"):
        local = re.search(r"E(?=\d+[A-Za-z_]\w*$)", symbol)
        return last_name("_Z" + symbol[local.end() :]) if local else symbol
    return last_name(symbol) or symbol


def require(ptx: str, cubin: bytes, text: str, name: str, allowed_bytes: int = 0) -> None:
    """As `check`, but raises SubmissionError with the findings where there are any."""
    findings = check(ptx, cubin, text, name, allowed_bytes)
    if findings:
        raise SubmissionError(worst(verdict_of(f.kind) for f in findings), findings[0].message, findings)


def check(ptx: str, cubin: bytes, text: str, name: str, allowed_bytes: int = 0) -> tuple[Finding, ...]:
    """Findings about a compiled submission by line, empty where there is nothing to object to.

    `text` is the user's file called `name`; `cubin` is empty where there is none; `allowed_bytes` is how much writable
    state the problem allows. A finding of kind `unsupported` says that it could not be told.
    """
    info = _inspected(cubin)
    if not info.objects and not _DECLARATION.search(ptx):
        return ()
    source = Sourced(name, text)
    try:
        module = parse(ptx, lenient=True)
        state = written(module)
    except UnsupportedPtx as error:
        message = f"The judge cannot tell whether kernels write to the device variables of {name}: {error}."
        return (Finding(FindingKind.UNSUPPORTED, message, name),)
    variables = {v.name: v for v in module.variables.values() if v.space == "global"}
    hidden = [each for each in strangers(info, module.variables) if _is_state(each, source)]
    hidden = [each for each in hidden if not (each.name.startswith("$") and own_name(each.name) in variables)]
    findings = [_written(variables[symbol], place, module, source) for symbol, place in state.items()]
    findings += [_hidden(each, source) for each in hidden]
    if sum(variables[symbol].nbytes for symbol in state) + sum(each.nbytes for each in hidden) <= allowed_bytes:
        findings = []
    findings += _too_large(variables.values(), info, source)
    return tuple(sorted(findings, key=lambda finding: (finding.line, finding.tensor)))


def _inspected(cubin: bytes) -> CubinInfo:
    try:
        return inspect(cubin) if cubin else CubinInfo((), ())
    except IncompleteCubin as error:
        raise JudgeError(f"the cubin to be checked is damaged: {error}") from error


def _is_state(each: DeviceObject, source: Sourced) -> bool:
    """Whether a variable that the PTX does not have is one that the submission means to write."""
    if each.nbytes <= _LIBRARY_OBJECT_BYTES and _LIBRARY.search(each.name):
        return False
    declaration = source.declaration(each.name)
    if re.search(r"\bconst(?:expr)?\b", declaration):
        return False
    return each.section == _ZEROED or (each.section == _INITIALISED and bool(_DEVICE.search(declaration)))


def _written(variable: Variable, place: Write, module: Module, source: Sourced) -> Finding:
    name, line = own_name(variable.name), source.line_of(variable.name) or variable.line
    where, kernel = _user_line(module, place.loc, source.name), readable(place.function)
    at = f", at line {where}," if where else ""
    message = f"{kernel}(){at} writes to {name}, which outlives the launch: {_INSTEAD}"
    return Finding(FindingKind.DEVICE_STATE, message, source.name, line, tensor=name, kernel=kernel)


def _hidden(each: DeviceObject, source: Sourced) -> Finding:
    name = own_name(each.name)
    message = (
        f"Only the compiler for this card sees the device variable {name}, so that nothing tells whether kernels write "
        f"to it: {_INSTEAD}"
    )
    return Finding(FindingKind.DEVICE_STATE, message, source.name, source.line_of(each.name), tensor=name)


def _too_large(variables: Iterable[Variable], info: CubinInfo, source: Sourced) -> list[Finding]:
    """Where initial values take more than tables need."""
    tables = sorted((v for v in variables if any(v.init)), key=lambda table: table.nbytes)
    total = max(sum(table.nbytes for table in tables), info.sections.get(_INITIALISED, 0))
    if total <= MAX_TABLE_BYTES:
        return []
    message = (
        f"Initial values of device variables take {total:,} bytes; at most {MAX_TABLE_BYTES:,} are allowed. Compute "
        "the table in solve() or in a kernel."
    )
    name = tables[-1].name if tables else ""
    line = source.line_of(name) if name else 0
    return [Finding(FindingKind.DEVICE_STATE, message, source.name, line, tensor=own_name(name))]


def _user_line(module: Module, loc: Loc | None, name: str) -> int:
    """The innermost line of the user's file; 0 where there is none."""
    while loc is not None:
        if module.files.get(loc.file, "").rpartition("/")[2] == name and loc.line:
            return loc.line
        loc = loc.inlined_at
    return 0
