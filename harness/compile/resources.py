"""Registers, spills, stack and shared memory of each kernel, as the assembler reports them; no GPU is needed.

The figures are those of full optimisation: at the level that judging compiles at, they say nothing of a real card.
That compilation takes 0.1 s for most kernels and half a minute for a fully unrolled one, hence it is one of its own.

With -ewp (extensible whole program) in place of -rdc=true, each kernel is assembled together with the functions that
it calls, as nvcc does for a program of one file, and its shared variables are counted. Relocatable code would be
assembled function by function: other registers, and no shared memory for a template's variables.
"""

from __future__ import annotations

import re

from harness.cards import Card
from harness.compile import build, explain, includes
from harness.compile.nvrtc import nvrtc
from harness.devices.names import with_arguments
from harness.results import KernelResources
from harness.submission import safe_name

# Lines of `ptxas --verbose`. They begin with "ptxas"; what the front end says of the source, which could imitate them,
# is either switched off or begins with a file's name.
_LINE = re.compile(r"^ptxas[^:.\n]*[:.] *(.*)$", re.M)
_ENTRY = re.compile(r"Compiling entry function '([\w$]+)'")
_PROPERTIES = re.compile(r"Function properties for ([\w$]+)")
_AMOUNTS = {
    "registers": re.compile(r"Used (\d+) registers"),
    "barriers": re.compile(r"used (\d+) barriers"),
    "stack_bytes": re.compile(r"(\d+) bytes (?:stack frame|cumulative stack size)"),  # the second counts callees, too
    "spill_store_bytes": re.compile(r"(\d+) bytes spill stores"),
    "spill_load_bytes": re.compile(r"(\d+) bytes spill loads"),
    "static_shared_bytes": re.compile(r"(\d+) bytes smem"),
    "constant_bytes": re.compile(r"(\d+) bytes cmem\[\d+\]"),
}


def measure(text: str, name: str, declaration: str, card: Card) -> tuple[KernelResources, ...]:
    """Resources of every kernel of a source that `build.compile_submission` has compiled; arguments as there.

    Raises SubmissionError where the compiler refuses it all the same, UsageError where there is no compiler.
    """
    name, text = safe_name(name), includes.without_line_directives(text)
    compiler = nvrtc()
    folders = compiler.toolkit.include
    headers = includes.covered(text, folders) | build.shim_headers()
    options = [option for option in build.options(compiler, card, "full") if option != "-rdc=true"]
    options += ["--extensible-whole-program", "--disable-warnings", "--ptxas-options=--verbose"]
    output = compiler.compile(build.unit_of(text, name, declaration), name, headers, options)
    if not output.ok:
        raise explain.compile_error(output.log, name, text, declaration, folders)
    return parse(output.log)


def parse(log: str) -> tuple[KernelResources, ...]:
    """The kernels that a log of the assembler tells of, in its order."""
    found: dict[str, dict[str, int]] = {}
    kernel = function = ""
    for line in _LINE.findall(log):
        if entry := _ENTRY.search(line):
            kernel = function = entry[1]
        elif properties := _PROPERTIES.search(line):
            function = properties[1]
        elif kernel and (function == kernel or "registers" in line):
            found.setdefault(kernel, {}).update(_amounts(line))
    complete = {name: amounts for name, amounts in found.items() if "registers" in amounts}
    return tuple(KernelResources(name, with_arguments(name), **amounts) for name, amounts in complete.items())


def _amounts(line: str) -> dict[str, int]:
    found = {name: pattern.findall(line) for name, pattern in _AMOUNTS.items()}
    return {name: sum(map(int, numbers)) for name, numbers in found.items() if numbers}
