"""Random kernels of every type, in the emulator: two compilations of one text, and one or three host threads, agree.

The same kernels are compared with a card by tests/gpu/differential.py. JUDGE_FUZZ_PTX=<first>:<last> runs other seeds
than the usual ones.
"""

from __future__ import annotations

import os
from functools import cache

import numpy as np
import pytest

from harness.emulator.errors import UnsupportedPtx
from harness.emulator.inline import flatten
from tests.emulator_kit import program_of, run
from tests.random_ptx.build import compile_text
from tests.random_ptx.compare import PAYLOAD, difference
from tests.random_ptx.families import FAMILIES
from tests.random_ptx.operations import CONVERTING, FLOATING, HALVES, INTEGERS
from tests.random_ptx.program import BLOCKS, THREADS, Program, inputs, module, prelude, program
from tests.random_ptx.types import C

FIRST, LAST = (int(n) for n in os.environ.get("JUDGE_FUZZ_PTX", "0:14").split(":"))
ENOUGH = 3 if (FIRST, LAST) == (0, 14) else LAST - FIRST  # programs of a family that are run
MOST_INSTRUCTIONS = 700  # longer kernels are left out: they take LLVM seconds

pytestmark = pytest.mark.usefixtures("quick_compiler")


@cache
def _compiled(family: str, level: str) -> tuple[list[Program], str]:
    programs = [program(family, seed) for seed in range(FIRST, LAST)]
    return programs, compile_text(module(programs), level).ptx


def _results(p: Program, text: str, launch: int, threads: int) -> list[np.ndarray]:
    """out, mine and total after a launch that nothing is wrong with."""
    ran = run(text, inputs(p, launch).arguments(), BLOCKS, THREADS, kernel=p.name, threads=threads)
    assert ran.findings == [], f"{p.name}: {ran.findings[0]}\n{p.cuda}"
    return ran.arrays[1:]


def _disagreement(p: Program, texts: dict[str, str]) -> str:
    for launch in range(2):
        mid, full, three = (_results(p, texts[level], launch, n) for level, n in (("mid", 1), ("full", 1), ("full", 3)))
        for what, other in (("the compiler's levels", mid), ("numbers of host threads", three)):
            apart = difference(p, full, other)
            if apart is not None and apart.kind != PAYLOAD:
                return f"{p.name}, launch {launch}, {what}: {apart}\n{p.cuda}"
    return ""


@pytest.mark.parametrize("family", FAMILIES)
def test_results_do_not_depend_on_the_compilers_level_or_on_host_threads(family: str) -> None:
    """Programs with an instruction that the emulator does not have are passed over."""
    texts = {level: _compiled(family, level)[1] for level in ("mid", "full")}
    ran, wrong = 0, []
    for p in _compiled(family, "mid")[0]:
        if ran < ENOUGH and all(_short(text, p) for text in texts.values()):
            try:
                wrong.append(_disagreement(p, texts))
                ran += 1
            except UnsupportedPtx:
                continue
    assert not any(wrong), "\n\n".join(w for w in wrong if w)
    assert ran


def _short(text: str, p: Program) -> bool:
    return len(flatten(program_of(text).module, p.name).body) <= MOST_INSTRUCTIONS


def test_a_program_is_the_same_for_the_same_seed() -> None:
    assert program("shared", 3) == program("shared", 3)
    assert program("shared", 3).cuda != program("shared", 4).cuda
    assert (inputs(program("warp", 1), 0).words == inputs(program("warp", 1), 0).words).all()


def _one_word(value: int) -> list[np.ndarray]:
    """out of one word, mine and total."""
    return [np.array([value], np.uint64), np.zeros(1, np.uint32), np.zeros(1, np.uint64)]


@pytest.mark.parametrize(("kind", "a", "b", "same"), [("f32", 0x7FC00000, 0x7FFFFFFF, True), ("f32", 0x7F800000, 0x7FFFFFFF, False),
    ("u32", 0x7FC00000, 0x7FFFFFFF, False), ("f16x2", 0x7E003C00, 0x7FFF3C00, True), ("f16x2", 0x7E003C00, 0x7FFF3C01, False)])  # fmt: skip
def test_only_patterns_of_nans_are_told_apart(kind: str, a: int, b: int, same: bool) -> None:
    p = Program("float", 0, "float_0_", "", (kind,))
    apart = difference(p, _one_word(a), _one_word(b))
    assert apart is not None
    assert (apart.kind == PAYLOAD) == same


_TYPES = """template<class A, class B> struct same { static constexpr bool value = false; };
template<class A> struct same<A, A> { static constexpr bool value = true; };
template<class A> __device__ A some();
"""


def test_every_operation_gives_the_type_that_it_names() -> None:
    """Else overloaded functions do not know which one is meant, and whole modules are lost."""
    lines = []
    for o in (*INTEGERS, *FLOATING, *HALVES, *CONVERTING):
        text = o(*(f"some<{C[k]}>()" for k in o.operands))
        if o.result != "p":
            lines.append(f'static_assert(same<decltype({text}), {C[o.result]}>::value, "{o.result}: {o.text}");')
    compile_text(prelude() + _TYPES + "\n".join(lines), "full")
