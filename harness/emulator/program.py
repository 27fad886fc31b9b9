"""One kernel, compiled for one shape of launch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

from harness import plan
from harness.emulator import (
    jit,
    ops_arith,
    ops_async,
    ops_atomic,
    ops_bits,
    ops_convert,
    ops_limbs,
    ops_matrix,
    ops_memory,
    ops_packed,
    ops_video,
    ops_warp,
    schedule,
    sharing,
    speculation,
    ssa,
    undefined,
    uniform,
)
from harness.emulator import layout as L
from harness.emulator.census import Census
from harness.emulator.cfg import build
from harness.emulator.emitter import Layout
from harness.emulator.errors import UnsupportedPtx
from harness.emulator.inline import flatten
from harness.emulator.lower import Lowered, Lowering
from harness.emulator.ptx import Function, Ins, Module, Variable, layout_shared
from harness.emulator.uniform import Shape

_HANDLER_MODULES = (
    ops_arith,
    ops_async,
    ops_atomic,
    ops_bits,
    ops_convert,
    ops_limbs,
    ops_matrix,
    ops_memory,
    ops_packed,
    ops_video,
    ops_warp,
)  # importing them fills the table
KERNEL_ADDRESS = 3 << L.WINDOW_BITS  # the value of a kernel's address in solve(): KERNEL_ADDRESS + number
OUTLINE_ABOVE = 2500  # instructions; larger functions call the memory helpers instead of inlining them
UNOPTIMISED_ABOVE = 12_000  # lines of IR; LLVM's passes take half a minute on large branchy functions


@dataclass(frozen=True)
class Compiled:
    """Native code of one kernel and what is needed to launch it and to explain its findings."""

    name: str
    native: jit.Native
    instructions: list[Ins]
    frame_bytes: int
    local_bytes: int
    static_shared: int
    dynamic_offset: int
    shared: dict[str, int]
    local: dict[str, int]
    function: Function
    shape: Shape
    granule: int
    exact: bool
    copies: bool
    census: Census

    @cached_property
    def communicates(self) -> bool:
        """Whether its blocks can wait for each other."""
        return sharing.communicates(self.function)

    @cached_property
    def run_blocks(self) -> Callable[[int], int]:
        """The block scheduler around this kernel: takes the address of a Context, returns a code of layout.py."""
        return jit.function(self.native.address(jit.ENTRY))


@dataclass
class Program:
    """A parsed module and the kernels compiled from it so far."""

    module: Module
    traced: bool = False  # whether its kernels keep single requests (access/tracing.py); they are slower
    compiled: dict[tuple[str, Shape], Compiled] = field(default_factory=dict)

    @cached_property
    def variables(self) -> dict[str, Variable]:
        """Global and const variables by name."""
        return {n: v for n, v in self.module.variables.items() if v.space in ("global", "const")}

    @cached_property
    def kernel_addresses(self) -> dict[str, int]:
        names = [n for n, f in self.module.functions.items() if f.is_entry]
        return {n: KERNEL_ADDRESS + k for k, n in enumerate(names)}

    def kernel(self, name: str, shape: Shape) -> Compiled:
        """Compile a kernel for a shape, once. Raises UnsupportedPtx for what the emulator does not know."""
        key = (name, shape)
        if key not in self.compiled:
            self.compiled[key] = self._compile(name, shape)
        return self.compiled[key]

    def _compile(self, name: str, shape: Shape) -> Compiled:
        f = flatten(self.module, name)
        places, static, dynamic = self._layout(name, f)
        lowered = lower(self.module, f, places, shape, self.traced)
        text = lowered.ir + schedule.scheduler_ir()
        small = text.count("\n") < UNOPTIMISED_ABOVE
        native = jit.compile_ir(text, passes=2 if small else 0, codegen=2 if small else 1)
        return Compiled(name, native, lowered.instructions, lowered.frame_bytes, places.local_bytes, static, dynamic,
                        places.shared, places.local, f, shape, lowered.granule, lowered.exact, lowered.copies,
                        lowered.census)  # fmt: skip

    def _layout(self, name: str, f: Function) -> tuple[Layout, int, int]:
        shared, static = layout_shared(self.module, self.module.functions[name])
        local: dict[str, int] = {}
        end = 0
        for v in f.variables.values():
            if v.space == "local":
                end = (end + v.align - 1) // v.align * v.align
                local[v.name] = end
                end += v.nbytes
        variables = {n: plan.address(v.id) for n, v in self.variables.items()}
        dynamic = (static + 15) // 16 * 16
        return Layout(shared, local, (end + 15) // 16 * 16, variables, self.kernel_addresses), static, dynamic


def lower(module: Module, f: Function, places: Layout, shape: Shape, traced: bool = False) -> Lowered:
    """All steps from a flat PTX function to IR."""
    blocks = build(f, suspend_at_calls=shape.single)
    for b in blocks:
        if b.branch is not None and b.branch.base == "bra" and b.branch.pred not in f.reg_types:
            raise UnsupportedPtx(f"branch on {b.branch.pred}", b.branch.loc)
    gaps = ssa.convert(blocks, f.reg_types) and not shape.single
    deferred = [] if shape.single else speculation.restore(blocks, f.reg_types)
    sources = [*([ssa.UNDEFINED] if gaps else []), *(d.name for d in deferred)]
    unset = undefined.analyse(blocks, f.reg_types, sources) if sources else frozenset()
    flow = uniform.analyse(blocks, f.reg_types, shape)
    count = sum(len(b.ins) for b in blocks)
    outline = traced or count > OUTLINE_ABOVE
    return Lowering(module, f, blocks, flow, shape, places, outline=outline, traced=traced, undefined=unset,
                    deferred=deferred).run()  # fmt: skip
