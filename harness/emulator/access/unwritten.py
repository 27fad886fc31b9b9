"""Which lanes read what was never written, asked before a load whose report must wait for a use of its value."""

from __future__ import annotations

from harness.emulator.access.base import Needs, need
from harness.emulator.irtext import Fn
from harness.emulator.layout import Context, Warp


def unwritten(m: Needs, space: str, nbytes: int) -> str:
    """Name of the helper: (ctx, warp, i32 address, mask) -> the lanes of the mask that would read, from one address in
    local or shared memory, a word (local) or granule (shared) that was never written. None where the address is out of
    bounds: the load says so."""

    def build(m: Needs, name: str) -> str:
        f = Fn(f"define internal i32 @{name}(ptr %ctx, ptr %warp, i32 %a, i32 %mask) noinline {{")
        f("entry:")
        size = f.get("%ctx", Context, f"{space}_bytes")
        end = f.let(f"zext i32 {f.let(f'add i32 %a, {nbytes}')} to i64")
        f(f"  br i1 {f.let(f'icmp ule i64 {end}, {size}')}, label %inside, label %outside")
        f("outside:\n  ret i32 0\ninside:")
        step = 4 if space == "local" else m.granule
        lanes = "0"
        for k in range(max(1, nbytes // step)):
            at = f.let(f"lshr i32 {f.let(f'add i32 %a, {k * step}')}, {step.bit_length() - 1}")
            lanes = f.let(f"or i32 {lanes}, {_LANES[space](f, at)}")
        f(f"  ret i32 {f.let(f'and i32 {lanes}, %mask')}")
        return f.text()

    return need(m, f"{space}_unwritten_{nbytes}", build)


def _of_word(f: Fn, word: str) -> str:
    shadow = f.get("%warp", Warp, "local_shadow", pointer=True)
    written = f.let(f"load i32, ptr {f.let(f'getelementptr i32, ptr {shadow}, i32 {word}')}")
    return f.let(f"xor i32 {written}, -1")


def _of_granule(f: Fn, granule: str) -> str:
    tags = f.get("%ctx", Context, "wtag", pointer=True)
    tag = f.let(f"load i32, ptr {f.let(f'getelementptr i32, ptr {tags}, i32 {granule}')}")
    never = f.let(f"icmp ult i32 {tag}, {f.get('%ctx', Context, 'start_tag')}")
    return f.let(f"sext i1 {never} to i32")


_LANES = {"local": _of_word, "shared": _of_granule}
