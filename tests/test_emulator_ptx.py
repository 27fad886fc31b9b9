"""The PTX parser: what NVRTC and inline assembly write, and that nothing else does more than raise UnsupportedPtx."""

from __future__ import annotations

import random
import re

import numpy as np
import pytest

from harness.emulator.errors import UnsupportedPtx
from harness.emulator.inline import flatten
from harness.emulator.launch import shape_of
from harness.emulator.program import Program, lower
from harness.emulator.ptx import Addr, Imm, Ins, Label, Loc, Module, Pair, Reg, Sym, Vec, layout_shared, parse
from tests import ptx_table, test_emulator_control, test_emulator_integer
from tests.emulator_kit import ptx_of, run

HEADER = ".version 9.0\n.target sm_90\n.address_size 64\n"


def _kernel(body: str, declarations: str = "", params: str = ".param .u64 a") -> Module:
    return parse(f"{HEADER}{declarations}\n.visible .entry k({params})\n{{\n{body}\nret;\n}}\n")


def _instructions(module: Module, name: str = "k") -> list[Ins]:
    return [i for i in module.functions[name].body if isinstance(i, Ins)]


def test_operands_of_every_form() -> None:
    body = """.reg .pred %p<3>; .reg .b32 %r<9>; .reg .f32 %f<3>; .reg .b64 %rd<4>; .reg .b16 named;
    @!%p1 setp.lt.and.s32 %p0|%p2, %r1, -5, !%p1;
    ld.global.v4.u32 {%r1, %r2, _, %r4}, [%rd1+-16];
    st.shared.b32 [buffer+8], 0x1F;
    mov.b64 {%r1, %r2}, %rd2;
    mov.f32 %f1, 0f3F800000;
    mov.u64 %rd3, buffer+4;
    cvt.u16.u32 named, 017;
    mov.u32 %r3, %ctaid.x;
    ld.global.u32 %r1, [%rd1+0x10];
    add.s32 %r3, %r3, WARP_SZ;"""
    ins = _instructions(_kernel(body, ".shared .align 4 .b8 buffer[64];"))
    assert ins[0].pred == "%p1"
    assert ins[0].negated
    assert ins[0].args[0] == Pair(Reg("%p0"), Reg("%p2"))
    assert ins[0].args[2] == Imm(-5)
    assert ins[1].args == (Vec((Reg("%r1"), Reg("%r2"), Sym("_"), Reg("%r4"))), Addr(Reg("%rd1"), -16))
    assert ins[2].args == (Addr(Sym("buffer"), 8), Imm(31))
    assert ins[3].args[0] == Vec((Reg("%r1"), Reg("%r2")))
    assert ins[4].args[1] == Imm(0x3F800000, 32)
    assert ins[5].args[1] == Sym("buffer", 4)
    assert ins[6].args == (Reg("named"), Imm(15))
    assert ins[7].args[1] == Reg("%ctaid.x")
    assert ins[8].args[1] == Addr(Reg("%rd1"), 16)
    assert ins[9].args[2] == Imm(32)


def test_nested_scopes_have_registers_of_their_own() -> None:
    body = """.reg .b32 %r<4>; .reg .b32 t;
    mov.u32 t, 1;
    { .reg .b32 t; .reg .f32 %x<2>; mov.u32 t, 2; mov.f32 %x1, 0f00000000; }
    { .reg .b64 t; .reg .b32 %x<2>; mov.u64 t, 3; mov.u32 %x1, 4; }
    mov.u32 %r1, t;"""
    module = _kernel(body)
    names = [i.args[0].name for i in _instructions(module)[:5] if isinstance(i.args[0], Reg)]
    assert len(set(names)) == 5
    types = module.functions["k"].reg_types
    assert [types[n] for n in names] == ["b32", "b32", "f32", "b64", "b32"]
    assert _instructions(module)[5].args[1] == Reg(names[0])


def test_parameters_are_laid_out_by_their_alignment() -> None:
    module = _kernel("", params=".param .u32 n, .param .u64 .ptr .global .align 16 p, .param .align 8 .b8 s[12], .param .u8 c, .param .f64 d")
    kernel = module.kernels["k"]
    assert [(p.name, p.offset, p.nbytes) for p in kernel.params] == [("n", 0, 4), ("p", 8, 8), ("s", 16, 12), ("c", 28, 1), ("d", 32, 8)]
    assert kernel.param_bytes == 40


def test_launch_bounds() -> None:
    text = HEADER + ".visible .entry k(.param .u64 a)\n.maxntid 64, 2, 1\n.minnctapersm 3\n{\nret;\n}\n"
    kernel = parse(text).kernels["k"]
    assert (kernel.max_threads, kernel.min_blocks) == (128, 3)


def test_variables_with_initial_values() -> None:
    module = _kernel("", """
.visible .global .align 4 .u32 counter = 7;
.const .align 8 .f64 table[3] = {0d3FF0000000000000, 0d4000000000000000};
.global .align 1 .b8 text[6] = {104, 105, 0x21, 10};
.global .align 8 .u64 pointers[2] = {generic(text)+1, counter};
.global .align 4 .v4 .f32 wide;
.shared .align 16 .b8 room[256];
.extern .shared .align 16 .b8 dynamic[];""")  # fmt: skip
    v = module.variables
    assert v["counter"].init == (7).to_bytes(4, "little")
    assert (v["table"].space, v["table"].nbytes, v["table"].init[7], v["table"].init[16:]) == ("const", 24, 0x3F, bytes(8))
    assert v["text"].init == b"hi!\n\0\0"
    assert v["pointers"].relocations == ((0, "text", 1), (8, "counter", 0))
    assert v["wide"].nbytes == 16
    assert (v["room"].nbytes, v["dynamic"].nbytes) == (256, 0)
    ids = [x.id for x in v.values() if x.space in ("global", "const")]
    assert len(set(ids)) == len(ids)
    assert 0 not in ids


def test_static_and_dynamic_shared_memory_of_a_kernel() -> None:
    """Only what the kernel and its callees use counts; dynamic memory starts behind it at a multiple of 16."""
    text = HEADER + """
.shared .align 4 .b8 mine[20];
.shared .align 16 .b8 helpers[8];
.shared .align 4 .b8 others[1000];
.extern .shared .align 16 .b8 dynamic[];
.func helper() { .reg .b64 %rd<2>; mov.u64 %rd1, helpers; ret; }
.visible .entry k() { .reg .b64 %rd<3>; mov.u64 %rd1, mine; mov.u64 %rd2, dynamic; call.uni helper, (); ret; }
.visible .entry other() { .reg .b64 %rd<2>; mov.u64 %rd1, others; ret; }"""
    module = parse(text)
    offsets, total = layout_shared(module, module.functions["k"])
    assert (offsets["mine"], offsets["helpers"], total, offsets["dynamic"]) == (0, 32, 40, 48)
    assert module.kernels["other"].static_shared_bytes == 1000


def test_source_positions_with_the_places_they_were_inlined_at() -> None:
    text = HEADER + """.visible .entry k()
{
.reg .b32 %r<3>;
.loc 1 10 3
mov.u32 %r1, 1;
.loc 1 4 5, function_name $L__info0, inlined_at 1 10 3
mov.u32 %r1, 2;
.loc 2 99 1, function_name $L__info1+16, inlined_at 1 4 5
mov.u32 %r1, 3;
ret;
}
.file 1 "/somewhere/kernel.cu"
.file 2 "other \\"quoted\\".h", 12345, 678
.section .debug_str { $L__info0: .b8 107 }"""
    module = parse(text)
    locs = [i.loc for i in _instructions(module)]
    assert locs[0] == Loc(1, 10)
    assert locs[1] == Loc(1, 4, Loc(1, 10))
    assert locs[2] == Loc(2, 99, Loc(1, 4, Loc(1, 10)))
    assert module.files[1] == "/somewhere/kernel.cu"
    assert module.functions["k"].loc == Loc(1, 10)


def test_tables_of_indexed_branches_and_labels() -> None:
    module = parse(test_emulator_control.BRANCH_TABLE)
    branch = next(i for i in _instructions(module) if i.base == "brx")
    assert branch.targets == ("ONE", "TWO", "ONE", "FOUR")
    assert [i.name for i in module.functions["k"].body if isinstance(i, Label)] == ["ONE", "TWO", "FOUR", "END"]


def test_comments_pragmas_and_declarations_are_skipped() -> None:
    module = parse(HEADER + """// a comment with { and ;
.extern .func (.param .b32 r) vprintf (.param .b64 f, .param .b64 a);
.visible .entry k() /* here
too */ { .pragma "nounroll"; .reg .b32 %r<2>; mov.u32 %r1, /* one */ 1; // done
ret; }""")  # fmt: skip
    assert [i.op for i in _instructions(module)] == ["mov.u32", "ret"]
    assert module.externs == {"vprintf"}


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("frobnicate.u32 %r1, %r2;", "frobnicate.u32"),
        ("add.u32 %r1, %r2, %r99;", "%r99"),
        ("add.u32 %r1, %r2;", "add.u32"),
        ("mov.u32 %r1, nowhere;", "nowhere"),
        ("bra NOWHERE;", "NOWHERE"),
        ("@%p9 mov.u32 %r1, 1;", "%p9"),
        ("mov.u32 5, %r1;", "mov.u32"),
        ("mov.u32 %r1, [%rd1];", "mov.u32"),
        ("ld.global.u32 %r1, %rd1;", "ld.global.u32"),
        ("st.global.b128 [%rd1], %rd1;", "st.global.b128"),
        ("call helper, (%r1);", "helper"),
        ("wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 %r1, %r1, %r1, %r1;", "wmma"),
        ("brx.idx %r1, NOTABLE;", "brx.idx"),
        ("ld.global.u32 %r1, [%rd1+%rd1];", "%rd1+%rd1"),
        (".reg .b256 %wide;", "b256"),
    ],
)
def test_what_is_not_known_is_named_with_its_line(body: str, text: str) -> None:
    """The line is that of the .loc before it."""
    with pytest.raises(UnsupportedPtx) as caught:
        module = _kernel(f".reg .pred %p<3>; .reg .b32 %r<9>; .reg .b64 %rd<3>;\n.loc 1 42 7\n{body}")
        Program(module).kernel("k", shape_of((32, 1, 1)))
    assert text in caught.value.what
    assert isinstance(caught.value.loc, Loc)
    assert caught.value.loc.line == 42


@pytest.mark.parametrize("text", [".visible .entry k(", "nonsense", ".global .foo x;", HEADER + ".entry k() { mov.u32 %r1, 1", ".entry k(.param .q8 a) { ret; }"])
def test_broken_modules(text: str) -> None:
    with pytest.raises(UnsupportedPtx):
        parse(text)


RECURSION = """__device__ __noinline__ int f(int n) { return n < 2 ? n : f(n - 1) + f(n - 2); }
__global__ void k(int* out) { out[0] = f(out[1]); }"""
POINTERS = """__device__ __noinline__ int f(int n) { return n + 1; }
__device__ __noinline__ int g(int n) { return n * 2; }
__global__ void k(int* out) { int (*p)(int) = out[0] ? f : g; out[1] = p(out[2]); }"""


@pytest.mark.parametrize(("source", "what"), [(RECURSION, "recursive call"), (POINTERS, "function pointer")])
def test_calls_that_cannot_be_inlined_are_named(source: str, what: str) -> None:
    module = parse(ptx_of(source))
    name = next(n for n in module.kernels if "k" in n)
    with pytest.raises(UnsupportedPtx, match=what):
        flatten(module, name)


# -- mutations of real texts

TOKEN = re.compile(r"[%\w$.]+|\S")
WARP_OPS = """__global__ void k(int* a) {
    __shared__ float s[64]; __shared__ unsigned char b[8]; int t = threadIdx.x, local[6];
    s[t] = __shfl_xor_sync(~0u, (float)a[t], 1); b[t & 7] = t; local[t % 6] = a[t] / 3;
    if (__syncthreads_count(t) > 3) printf("%d %f", t, s[t]);
    switch (a[t]) { case 0: a[1] = 2; break; case 1: a[2] = local[t % 3]; case 2: a[3] = 1; break; case 3: a[t] = 9; break; case 7: a[5] = 0; }
    a[t] = __ballot_sync(~0u, t > 3) + __match_any_sync(~0u, t) + __reduce_add_sync(~0u, t) + atomicAdd(a, 1); assert(t < 64);
}"""


def _texts() -> list[str]:
    rows = test_emulator_integer.TABLES["moves"] + test_emulator_integer.TABLES["carry"] + test_emulator_integer.TABLES["short"][:20]
    return [test_emulator_control.BRANCH_TABLE, ptx_table.kernel_text(rows, "branch"), ptx_of(WARP_OPS), ptx_of(POINTERS)]


def _mutated(text: str, pool: list[str], rng: random.Random) -> str:
    """One to three small damages: a token replaced, dropped or shuffled, a line dropped, doubled or moved, a cut."""
    lines = text.split("\n")
    for _ in range(rng.choice([1, 1, 2, 3])):
        n, m = rng.randrange(len(lines)), rng.randrange(len(lines))
        tokens = list(TOKEN.finditer(lines[n]))
        how = rng.randrange(8)
        if how == 0:
            lines[n] = ""
        elif how == 1:
            lines[n] += "\n" + lines[m]
        elif how == 2:
            lines[n], lines[m] = lines[m], lines[n]
        elif how == 3 and len(lines) > 9:
            lines = lines[: max(n, 9)]
        elif how == 4 and lines[n]:
            k = rng.randrange(len(lines[n]))
            lines[n] = lines[n][:k] + rng.choice('.,;{}[]()|!@%+-0x9_$ \t:"') + lines[n][k + 1 :]
        elif tokens:
            t = rng.choice(tokens)
            parts = t.group().split(".")
            rng.shuffle(parts)
            new = {5: rng.choice(pool), 6: "", 7: ".".join(parts)}.get(how, rng.choice(pool))
            lines[n] = lines[n][: t.start()] + new + lines[n][t.end() :]
    return "\n".join(lines)


def _all_stages(text: str) -> None:
    module = parse(text)
    program = Program(module)
    for name in module.kernels:
        f = flatten(module, name)
        lower(module, f, program._layout(name, f)[0], shape_of((32, 1, 1)))


def test_damaged_texts_raise_nothing_but_unsupported() -> None:
    texts = _texts()
    pool = [t for text in texts for t in TOKEN.findall(text)]
    for text in texts[:3]:
        _all_stages(text)
    for seed in range(400):
        rng = random.Random(seed)
        text = _mutated(rng.choice(texts), pool, rng)
        try:
            _all_stages(text)
        except UnsupportedPtx as known:
            assert known.what
        except Exception as error:
            raise AssertionError(f"seed {seed}") from error


def test_labels_of_a_scope_are_its_own() -> None:
    """Inline assembly with a label, inlined twice: each branch goes to the label of its own scope."""
    text = """__device__ unsigned half_or_more(unsigned v) { unsigned r;
        asm volatile("{ .reg .pred p; mov.u32 %0, 1; setp.lt.u32 p, %1, 50; @p bra L; mov.u32 %0, 2; L: add.u32 %0, %0, 10; }" : "=&r"(r) : "r"(v));
        return r; }
        __global__ void k(unsigned* out) { unsigned t = threadIdx.x; out[t] = half_or_more(2 * t) * 100 + half_or_more(t); }"""
    ran = run(text, [np.zeros(64, np.uint32)], block=64)
    assert ran.findings == []
    assert ran.arrays[0].tolist() == [(11 if 2 * t < 50 else 12) * 100 + (11 if t < 50 else 12) for t in range(64)]


def test_the_address_of_a_parameter_is_unsupported() -> None:
    text = """struct P { float* p; int n; }; __device__ __noinline__ int size(const P& p) { return p.n; }
        __global__ void k(const __grid_constant__ P p) { p.p[threadIdx.x] = *(volatile const int*)&p.n; }"""
    with pytest.raises(UnsupportedPtx, match="parameter"):
        run(text, [np.zeros(32, np.float32), 5], block=32)
