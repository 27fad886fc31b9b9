"""Static shared memory of each kernel, checked as the linker would: the compiler stops before linking.

The limit is 48 KB on every card, as CUDA documents it; the assembler enforces it for sm_90 but not for sm_90a, our
target. The share of a kernel is every .shared variable that it, or a function that it reaches, names.
"""

from __future__ import annotations

import re

from harness.cards import Card
from harness.compile import callgraph
from harness.errors import SubmissionError
from harness.results import Finding
from harness.verdict import FindingKind, Verdict

_SHARED = re.compile(r"^\s*(?:\.weak |\.visible )*\.shared\s+\.align (\d+) \.[busf](\d+) ([\w$]+)((?:\[\d+\])*)", re.M)


def check(ptx: str, card: Card, name: str) -> None:
    """Raises SubmissionError (compile_error) for a kernel over the card's limit of static shared memory."""
    sizes = {variable: size for variable, size in _variables(ptx).items() if size}
    if sum(sizes.values()) <= card.shared_per_block:
        return
    for kernel, used in callgraph.symbols(ptx, set(sizes)).items():
        total = sum(sizes[variable] for variable in used)
        if total > card.shared_per_block:
            raise _too_much(kernel, total, card, name)


def _variables(ptx: str) -> dict[str, int]:
    found = {}
    for align, bits, variable, dims in _SHARED.findall(ptx):
        size = int(bits) // 8
        for extent in re.findall(r"\d+", dims):
            size *= int(extent)
        found[variable] = -(-size // int(align)) * int(align)
    return found


def _too_much(kernel: str, total: int, card: Card, name: str) -> SubmissionError:
    message = (
        f"{name}: error: kernel {callgraph.last_name(kernel)} uses too much static shared memory: {total} bytes, "
        f"{card.shared_per_block} at most; take more as dynamic shared memory (extern __shared__), after "
        "cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes)"
    )
    finding = Finding(FindingKind.NOTE, message, name, kernel=callgraph.last_name(kernel))
    return SubmissionError(Verdict.COMPILE_ERROR, message, [finding], log=message + "\n")
