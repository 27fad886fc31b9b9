"""The kernels under tests/checks: what their comments say must be found, and what a run of their solve() finds."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from harness import cards
from harness.compile.build import compile_submission
from harness.devices.base import Argument, Program, RunLimits, RunResult
from harness.devices.cpu import EmulatorDevice
from harness.results import Finding

ROOT = Path(__file__).parent / "checks"
FAULTS = {str(p.relative_to(ROOT / "faults")): p for p in sorted((ROOT / "faults").glob("*/*.cu"))}
CLEAN = {str(p.relative_to(ROOT / "clean")): p for p in sorted((ROOT / "clean").glob("*/*.cu"))}

CARD = "H100"
LIMITS = RunLimits(seconds=20.0, instructions=64_000_000, scratch_bytes=64 << 20, threads=1)
DIM = 32  # floats of a row of q, k, v and of a slot of the cache
PAGE = 16  # slots of a page
PAGES_PER_SEQ = 4
_LENGTHS = (37, 16, 50)  # tokens of a sequence, in turn
_UNORDERED = frozenset({"data_race", "async_hazard"})
_EXPECT = re.compile(r"// expect: (\w+)")
_OTHER = re.compile(r"// other$")


@dataclass(frozen=True)
class Marks:
    """What the comments of a file announce; lines count from 1."""

    kinds: frozenset[str]  # of harness.verdict.FindingKind
    expected: frozenset[int]
    other: frozenset[int]

    @property
    def lines(self) -> frozenset[int]:
        """Every marked line."""
        return self.expected | self.other

    def tells(self, finding: Finding) -> bool:
        """Whether this is the planted fault: its line, and for a race also the other one, in either order."""
        if not self.other:
            return finding.line in self.expected
        a, b = finding.line, finding.other.line if finding.other else 0
        return (a in self.expected and b in self.other) or (b in self.expected and a in self.other)

    def allow(self, finding: Finding) -> bool:
        """Whether the finding stands on marked lines. What else an asynchronous copy without order leads to is found
        too: the same place as a race and as a hazard of the copy."""
        if finding.kind not in self.kinds and not (self.kinds <= _UNORDERED and finding.kind in _UNORDERED):
            return False
        return finding.line in self.lines


def marks(text: str) -> Marks:
    """The markers of a fixture's text."""
    kinds: set[str] = set()
    expected: set[int] = set()
    other: set[int] = set()
    for number, line in enumerate(text.splitlines(), 1):
        if found := _EXPECT.search(line):
            kinds.add(found[1])
            expected.add(number)
        if _OTHER.search(line):
            other.add(number)
    return Marks(frozenset(kinds), frozenset(expected), frozenset(other))


def _flat(n: int, rng: np.random.Generator) -> list[Argument]:
    return [_tensor("in", rng.standard_normal(n, np.float32)), _out(n)]


def _halves(n: int, rng: np.random.Generator) -> list[Argument]:
    return [_tensor("in", rng.standard_normal(n, np.float32).astype(np.float16), ctype="__half"), _out(n)]


def _attention(n: int, rng: np.random.Generator) -> list[Argument]:
    return [*(_tensor(name, rng.standard_normal((n, DIM), np.float32)) for name in "qkv"), _out(n, DIM)]


def _paged(n: int, rng: np.random.Generator) -> list[Argument]:
    """Pages in any order, each of one sequence; -1 where a sequence needs no more."""
    lengths = np.array([_LENGTHS[s % len(_LENGTHS)] for s in range(n)], np.int32)
    used = -(-lengths // PAGE)
    order = rng.permutation(int(used.sum())).astype(np.int32)
    pages = np.full((n, PAGES_PER_SEQ), -1, np.int32)
    pages[np.arange(PAGES_PER_SEQ) < used[:, None]] = order
    return [
        _tensor("q", rng.standard_normal((n, DIM), np.float32)),
        _tensor("cache", rng.standard_normal((len(order), PAGE, DIM), np.float32)),
        _tensor("pages", pages, ctype="int"),
        _tensor("lengths", lengths, ctype="int"),
        _out(n, DIM),
    ]  # fmt: skip


def _tensor(name: str, value: np.ndarray, ctype: str = "float") -> Argument:
    return Argument(name, value, "in", ctype)


def _out(*shape: int) -> Argument:
    return Argument("out", np.empty(shape, np.float32), "out", "float")


# Parameters of solve() -> the arguments before n.
SIGNATURES: dict[str, Callable[[int, np.random.Generator], list[Argument]]] = {
    "const float* in, float* out, int n": _flat,
    "const __half* in, float* out, int n": _halves,
    "const float* q, const float* k, const float* v, float* out, int n": _attention,
    "const float* q, const float* cache, const int* pages, const int* lengths, float* out, int n": _paged,
}


def signature(text: str) -> str:
    """The parameter list of solve(), a key of SIGNATURES."""
    found = re.search(r'extern "C" void solve\(([^)]*)\)', text)
    assert found, "no solve()"
    return " ".join(found[1].split())


def size(text: str) -> int:
    """n, as the file asks for it."""
    found = re.search(r"^// n = (\d+)$", text, re.M)
    return int(found[1]) if found else 128


@cache
def run(path: Path) -> RunResult:
    """Compile the file and run its solve() once in the emulator."""
    text = path.read_text()
    parameters, n = signature(text), size(text)
    declaration = f'#include <cuda_fp16.h>\nextern "C" void solve({parameters});'
    if "__half" not in parameters:
        declaration = declaration.split("\n")[1]
    ptx = compile_submission(text, path.name, declaration, cards.get(CARD)).ptx
    arguments = [*SIGNATURES[parameters](n, np.random.default_rng(n)), Argument("n", n, "scalar", "int")]
    return EmulatorDevice().run(Program(path.name, ptx, CARD), arguments, LIMITS, seed=0)


def described(result: RunResult) -> list[str]:
    """The findings, for the message of a failed assertion."""
    return [
        f"{f.kind} at line {f.line}" + (f", other at line {f.other.line}" if f.other else "") + f": {f.message}"
        for f in result.findings
    ]  # fmt: skip
