"""Values of one function under way to LLVM IR: registers, operands, special registers, faults.

A varying register is a <32 x T>, a uniform one a scalar; the opcode handlers (ops_*.py) ask for operands in the width
of the current instruction (`get`) and define results (`put`), whatever the registers are.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field

from harness.emulator import layout as L
from harness.emulator import origins
from harness.emulator.census import Census
from harness.emulator.cfg import Block
from harness.emulator.errors import UnsupportedPtx
from harness.emulator.layout import Context, Warp
from harness.emulator.ptx import SIZES, Addr, Function, Imm, Ins, Module, Not, Operand, Reg, Sym, Vec, is_special
from harness.emulator.sharing import communicates, unit
from harness.emulator.ssa import UNDEFINED, registers
from harness.emulator.types import BITS, IOTA, LANE_MASKS, LL_TYPES, immediate_text
from harness.emulator.uniform import Flow, Shape, special_varies

Handler = Callable[["Emitter", Ins], None]
HANDLERS: dict[str, Handler] = {}  # base opcode -> lowering; filled by the ops_* modules
MEMORY_LIKE: set[str] = set()  # opcodes that must not run for lanes whose guard is false


def handles(*bases: str, guarded_by_branch: bool = False) -> Callable[[Handler], Handler]:
    """Register the lowering of opcodes."""

    def register(handler: Handler) -> Handler:
        for base in bases:
            HANDLERS[base] = handler
            if guarded_by_branch:
                MEMORY_LIKE.add(base)
        return handler

    return register


@dataclass(frozen=True)
class Layout:
    """Where the function's variables are."""

    shared: dict[str, int]  # static and dynamic shared variables -> byte offset
    local: dict[str, int]  # local variables -> byte offset
    local_bytes: int
    variables: dict[str, int] = field(default_factory=dict)  # module variable -> opaque address
    functions: dict[str, int] = field(default_factory=dict)  # kernel -> the value of its address


def _roots(blocks: list[Block]) -> dict[str, Operand]:
    """Registers that only rename another register or a symbol."""
    renaming = (i for b in blocks for i in b.ins if i.base in ("mov", "cvta") and len(i.args) == 2 and not i.pred)
    pairs = (i.args for i in renaming)
    return {to.name: of for to, of in pairs if isinstance(to, Reg) and isinstance(of, Reg | Sym)}


def _compared(blocks: list[Block]) -> Compared:
    roots = _roots(blocks)
    cas = (i for b in blocks for i in b.ins if i.base == "atom" and "cas" in i.mods)
    return Compared(roots, frozenset(_root(i.args[1], roots) for i in cas))


def _root(o: Operand, roots: dict[str, Operand]) -> tuple[Operand, int]:
    """What an address is made of, behind any renaming, and its offset."""
    base, offset = (o.base, o.offset) if isinstance(o, Addr) else (o, 0)
    while isinstance(base, Reg) and base.name in roots:
        base = roots[base.name]  # type: ignore[assignment]
    return base, offset


@dataclass(frozen=True)
class Compared:
    """The addresses of a function's compare-and-swaps. A plain read of one is the usual start of its loop, and
    harmless: a stale value only makes the first attempt fail."""

    roots: dict[str, Operand]
    places: frozenset[tuple[Operand, int]]

    def __contains__(self, address: Operand) -> bool:
        return _root(address, self.roots) in self.places


_RELEASES = {"acquire", "release", "acq_rel"}


def synchronisation(blocks: list[Block]) -> tuple[int, bool, bool, bool]:
    """(granule, publishes, exact, restarts): bytes of the smallest access that may be to shared memory, at most 4;
    whether warps may synchronise by fences; by anything but __syncthreads() and __syncwarp(); and whether a warp's
    interval may change without a suspension (access/clocks.py)."""
    granule, publishes, partial, syncwarps = 4, False, False, False
    for i in (i for b in blocks for i in b.ins):
        spaces = {m.split("::")[0] for m in i.mods}
        if i.base in ("ld", "st", "atom", "red") and not spaces & {"global", "const", "param", "local", "slot"}:
            granule = min(granule, SIZES.get(i.mods[-1], 4))
        publishes |= i.base in ("membar", "fence") or bool(_RELEASES & spaces)
        partial |= "mbarrier" in i.mods or (i.base in ("bar", "barrier") and not _whole_block(i))
        partial |= any(m.startswith("mbarrier::") for m in i.mods)
        syncwarps |= i.base in ("bar", "barrier") and "warp" in i.mods
    return granule, publishes, publishes or partial, publishes or partial or syncwarps


def _whole_block(i: Ins) -> bool:
    """Whether a barrier is __syncthreads(), one of its kind with votes, or __syncwarp()."""
    if "warp" in i.mods:
        return True
    operands = i.args[1:-1] if "red" in i.mods else i.args
    return "arrive" not in i.mods and len(operands) == 1 and isinstance(operands[0], Imm) and operands[0].value == 0


class Emitter:
    """The state of one function's text, and what the opcode handlers write it with."""

    def __init__(self, module: Module, f: Function, blocks: list[Block], flow: Flow, shape: Shape, places: Layout,
                 outline: bool, traced: bool = False):  # fmt: skip
        """outline: memory accesses as calls, for functions too large to inline them; traced: see access/tracing.py."""
        self.module, self.f, self.blocks, self.flow, self.shape, self.places = module, f, blocks, flow, shape, places
        self.types = f.reg_types
        self.outline = outline
        self.granule, self.publishes, self.exact, self.restarts = synchronisation(blocks)
        self.copies = any(i.base in ("cp", "mbarrier") for b in blocks for i in b.ins)
        self.alone = shape.single
        self.communicates = not shape.single and communicates(f)
        self.unit = unit(f)
        self.counted = not shape.single  # whether traffic and instructions are counted
        self.traced = traced and not shape.single
        self.census, self.block_number, self.guarded = Census(), -1, False  # of what, and where the lowering is in it
        self.lines: list[str] = []
        self.entry: list[str] = []
        self.allocas: dict[str, str] = {}
        self.context_values: dict[tuple[str, str], str] = {}
        self.helpers: dict[str, str] = {}
        self.declares: set[str] = set()
        self.n = 0
        self.instructions: list[Ins] = []
        self.cache: dict[object, str] = {}
        self.products: dict[str, tuple[str, str, bool]] = {}  # result of a contractible mul -> its factors
        self.use_count: dict[str, int] = {}
        self.origins = origins.Origins() if shape.single else origins.find(blocks, f.reg_types)
        self.compared = _compared(blocks)  # places that a compare-and-swap updates
        self.crossing: set[str] = set()  # registers that live in allocas
        self.mask = "-1"
        self.ins: Ins = Ins("nop", ())
        self.vec = False

    # -- text

    def emit(self, text: str) -> None:
        self.lines.append("  " + text)

    def let(self, text: str) -> str:
        self.n += 1
        self.lines.append(f"  %t{self.n} = {text}")
        return f"%t{self.n}"

    def label(self, name: str) -> None:
        self.lines.append(f"{name}:")

    def new_label(self) -> str:
        self.n += 1
        return f"L{self.n}"

    def number(self, i: Ins) -> int:
        """The number under which faults and hazards name this instruction."""
        if not self.instructions or self.instructions[-1] is not i:
            self.instructions.append(i)
        return len(self.instructions) - 1

    def T(self, kind: str) -> str:
        return f"<32 x {kind}>" if self.vec else kind

    def intrinsic(self, name: str, kind: str, arity: int, result: str | None = None) -> str:
        """Full name of an overloaded intrinsic for the current width."""
        short = {"float": "f32", "double": "f64", "half": "f16"}.get(kind, kind)
        full = f"@llvm.{name}.{'v32' if self.vec else ''}{short}"
        self.declare(f"declare {self.T(result or kind)} {full}({', '.join([self.T(kind)] * arity)})")
        return full

    def call(self, name: str, kind: str, *args: str) -> str:
        """Call an intrinsic whose operands and result have one type."""
        full = self.intrinsic(name, kind, len(args))
        return self.let(f"call {self.T(kind)} {full}({', '.join(f'{self.T(kind)} {a}' for a in args)})")

    def declare(self, text: str) -> None:
        self.declares.add(text)

    def splat(self, value: str, kind: str) -> str:
        if not value.startswith("%"):
            return f"splat ({kind} {value})"
        first = self.let(f"insertelement <32 x {kind}> poison, {kind} {value}, i32 0")
        return self.let(f"shufflevector <32 x {kind}> {first}, <32 x {kind}> poison, <32 x i32> zeroinitializer")

    def constant(self, value: int | float | str, kind: str) -> str:
        """An integer, or a float given by value, in the current width."""
        text = str(value)
        if kind in ("float", "double") and not isinstance(value, str):
            text = immediate_text(struct.unpack(">Q", struct.pack(">d", value))[0], 64, kind)
        return f"splat ({kind} {text})" if self.vec else text

    def cast(self, value: str, source: str, target: str, vec: bool, signed: bool = False) -> str:
        """Reinterpret bits; widths may differ (truncate, or extend by zero or sign)."""
        if source == target:
            return value

        def t(kind: str) -> str:
            return f"<32 x {kind}>" if vec else kind

        a, b = BITS[source], BITS[target]
        if a == b:
            return self.let(f"bitcast {t(source)} {value} to {t(target)}")
        integer = f"i{a}"
        value = self.cast(value, source, integer, vec)
        if a > b:
            value = self.let(f"trunc {t(integer)} {value} to {t(f'i{b}')}")
        else:
            value = self.let(f"{'sext' if signed else 'zext'} {t(integer)} {value} to {t(f'i{b}')}")
        return self.cast(value, f"i{b}", target, vec)

    def rest(self, polls: int = 1) -> None:
        """The warp waits for others: it gives way at a loop header, after so many calls, and is not charged for it."""
        raise NotImplementedError

    # -- registers and operands

    def ll(self, name: str) -> str:
        """LLVM scalar type of a register."""
        return LL_TYPES[self.types[name]]

    def get(self, o: Operand, kind: str, vec: bool | None = None) -> str:
        """An operand as a value of LLVM type `kind`; vec defaults to the width of the current instruction."""
        vec = self.vec if vec is None else vec
        match o:
            case Reg(name) if name == UNDEFINED:
                # Never written: all bits set, a NaN where it is a float, so that it does not pass for a result.
                text = (
                    "-1"
                    if kind.startswith("i")
                    else {"float": "0xFFFFFFFFE0000000", "double": "0xFFFFFFFFFFFFFFFF"}.get(kind, "0")
                )
                return f"splat ({kind} {text})" if vec else text
            case Reg(name) if name in self.types:
                if name in self.flow.thread_x and not vec and name in self.flow.varying:
                    return self.cast(self.warp_value("tid_x0"), "i32", kind, vec=False)
                value, own = self.register_value(name, vec), self.ll(name)
                if name in self.origins.computed and kind.startswith("i") and not origins.copied(self.ins):
                    value = self._canonical(value, own, vec)
                return self.cast(value, own, kind, vec)
            case Reg(name) if is_special(name):
                return self.cast(self._special(name, vec), self._special_type(name), kind, vec)
            case Imm(number, bits):
                text = immediate_text(number, bits, kind)
                return f"splat ({kind} {text})" if vec else text
            case Sym(name, offset):
                text = str(self.symbol(name) + offset)
                return f"splat ({kind} {text})" if vec else text
            case Not(reg):
                value = self.get(reg, "i1", vec)
                return self.let(f"xor {'<32 x i1>' if vec else 'i1'} {value}, {'splat (i1 true)' if vec else 'true'}")
        raise UnsupportedPtx(f"operand {o} of {self.ins.op}", self.ins.loc)

    def _canonical(self, value: str, kind: str, vec: bool) -> str:
        """A float of 32 bits with the one pattern that the cards give a NaN."""
        number, bits = self.cast(value, kind, "float", vec), self.cast(value, kind, "i32", vec)
        t, b, f = ("<32 x i32>", "<32 x i1>", "<32 x float>") if vec else ("i32", "i1", "float")
        nan = self.let(f"fcmp uno {f} {number}, {number}")
        one = f"splat (i32 {0x7FFFFFFF})" if vec else str(0x7FFFFFFF)
        return self.cast(self.let(f"select {b} {nan}, {t} {one}, {t} {bits}"), "i32", kind, vec)

    def put(self, o: Operand, value: str, kind: str, scalar: bool = False, signed: bool = False) -> None:
        """Define a destination register with a value of LLVM type `kind`."""
        if isinstance(o, Sym) and o.name == "_":  # thrown away
            return
        if isinstance(o, Vec):
            raise UnsupportedPtx(f"vector destination of {self.ins.op}", self.ins.loc)
        if not isinstance(o, Reg):
            raise UnsupportedPtx(f"destination of {self.ins.op}", self.ins.loc)
        name, own = o.name, self.ll(o.name)
        varying = name in self.flow.varying and not self.shape.single
        if varying and (scalar or not self.vec):
            value = self.splat(value, kind)
        value = self.cast(value, kind, own, varying, signed)
        if name in self.origins.eager and origins.computes(self.ins):
            value = self._canonical(value, own, varying)
        old = self.ins.previous.get(name)
        t = f"<32 x {own}>" if varying else own
        if old is not None and self.ins.base not in MEMORY_LIKE:
            guard = self.get(Not(Reg(self.ins.pred)) if self.ins.negated else Reg(self.ins.pred), "i1", varying)
            keep = self.get(Reg(old), own, varying)
            value = self.let(f"select {'<32 x i1>' if varying else 'i1'} {guard}, {t} {value}, {t} {keep}")
        elif old is not None and varying:
            keep = self.get(Reg(old), own, True)
            value = self.let(f"select <32 x i1> {self.lane_vector(self.mask)}, {t} {value}, {t} {keep}")
        if name in self.flow.blended:
            variable = self.alloca_of(name)
            before = self.let(f"load {t}, ptr %{variable}")
            value = self.let(f"select <32 x i1> {self.lane_vector(self.mask)}, {t} {value}, {t} {before}")
        if not value.startswith("%"):
            value = self.let(f"bitcast {t} {value} to {t}")
        self.cache[name] = value
        self.cache.pop(("splat", name), None)
        if name in self.crossing:
            self.store_register(name, value)

    def is_uniform(self, o: Operand) -> bool:
        if self.shape.single:
            return True
        for name in registers(o):
            if name in self.flow.varying or (is_special(name) and special_varies(name, self.shape)):
                return False
        return True

    def lane_bits(self, o: Operand, negated: bool = False) -> str:
        """A predicate as a mask of lanes (i32); lanes outside of the running mask may have any value."""
        if self.is_uniform(o):
            p = self.get(o, "i1", vec=False)
            bits = self.let(f"select i1 {p}, i32 -1, i32 0")
        else:
            bits = self.let(f"bitcast <32 x i1> {self.get(o, 'i1', vec=True)} to i32")
        return self.let(f"xor i32 {bits}, -1") if negated else bits

    def lane_vector(self, mask: str) -> str:
        if mask == "-1":
            return "splat (i1 true)"
        key = ("lanes", mask)
        if key not in self.cache:
            self.cache[key] = self.let(f"bitcast i32 {mask} to <32 x i1>")
        return self.cache[key]

    def symbol(self, name: str) -> int:
        """The address of a variable in its own state space, or of a kernel."""
        places = self.places
        for table in (places.shared, places.local, places.variables, places.functions):
            if name in table:
                return table[name]
        for p in self.f.params:  # in parameter space; taken by __grid_constant__ even where nobody uses it
            if p.name == name:
                if self._reaches_a_use(self.ins):
                    raise UnsupportedPtx("the address of a kernel's parameter, as of __grid_constant__", self.ins.loc)
                return p.offset
        raise UnsupportedPtx(f"symbol {name}", self.ins.loc)

    def _reaches_a_use(self, i: Ins) -> bool:
        """Whether anything but another move uses what an instruction moves."""
        todo, seen = list(registers(i.args[0])), set[str]()
        while todo:
            name = todo.pop()
            if name in seen:
                continue
            seen.add(name)
            for user in (x for b in self.blocks for x in [*b.ins, *([b.branch] if b.branch else [])]):
                if any(name in registers(a) for a in user.args[1:]):
                    if user.base not in ("mov", "cvta"):
                        return True
                    todo += registers(user.args[0])
        return False

    def register_value(self, name: str, vec: bool) -> str:
        """The register's own value, as a vector if asked for."""
        varying = name in self.flow.varying and not self.shape.single
        if name not in self.cache:
            if name not in self.crossing:
                raise AssertionError(f"{name} is used before its definition")
            variable = self.alloca_of(name)
            self.cache[name] = self.let(f"load {self.allocas[variable]}, ptr %{variable}")
        if vec and not varying:
            key = ("splat", name)
            if key not in self.cache:
                self.cache[key] = self.splat(self.cache[name], self.ll(name))
            return self.cache[key]
        if varying and not vec:
            raise AssertionError(f"{name} varies and is wanted as a scalar by {self.ins.op}")
        return self.cache[name]

    def alloca_of(self, name: str) -> str:
        key = ("alloca", name)
        if key not in self.context_values:
            variable = f"v{len(self.context_values)}"
            self.context_values[key] = variable
            kind = self.ll(name)
            varying = name in self.flow.varying and not self.shape.single
            self.allocas[variable] = f"<32 x {kind}>" if varying else kind
        return self.context_values[key]

    def store_register(self, name: str, value: str) -> None:
        variable = self.alloca_of(name)
        self.emit(f"store {self.allocas[variable]} {value}, ptr %{variable}")

    # -- fields of the context and of the warp

    def context(self, name: str, pointer: bool = False) -> str:
        return self._once("%ctx", Context, name, pointer)

    def warp_value(self, name: str, pointer: bool = False) -> str:
        return self._once("%warp", Warp, name, pointer)

    def _once(self, base: str, structure: type, name: str, pointer: bool) -> str:
        """A field that does not change during the call: loaded at the entry."""
        key = (base, name)
        if key not in self.context_values:
            _, kind = L.field(structure, name)
            p = self.field_pointer(base, structure, name, self.entry)
            self.n += 1
            value = f"%c{self.n}"
            self.entry.append(f"  {value} = load {'ptr' if pointer else kind}, ptr {p}, !invariant.load !1")
            self.context_values[key] = value
        return self.context_values[key]

    def field_pointer(self, base: str, structure: type, name: str, into: list[str]) -> str:
        offset, _ = L.field(structure, name)
        self.n += 1
        into.append(f"  %p{self.n} = getelementptr i8, ptr {base}, i64 {offset}")
        return f"%p{self.n}"

    def all_lanes(self) -> str:
        return "-1" if self.shape.full_warps else self.warp_value("initial")

    # -- faults

    def fault(self, kind: int, i: Ins) -> None:
        """Record a fault for the running lanes and leave."""
        fields: dict[str, int | str] = {
            "kind": kind, "insn": self.number(i), "mask": self.mask, "warp": self.warp_value("number"),
        }  # fmt: skip
        if kind in (L.F_BARRIER_MASK, L.F_SHUFFLE):
            fields["other"], fields["absent"] = self.missing_lanes()
        for name, value in fields.items():
            self.emit(f"store i32 {value}, ptr {self.field_pointer('%ctx', Context, f'fault_{name}', self.lines)}")
        self.emit("br label %fail")

    def missing_lanes(self) -> tuple[str, str]:
        """(an instruction that lanes which are not running here are about to run, or have run last; those lanes)."""
        return "0", "0"

    def fault_unless(self, ok: str, kind: int, i: Ins) -> None:
        good, bad = self.new_label(), self.new_label()
        self.emit(f"br i1 {ok}, label %{good}, label %{bad}, !prof !2")
        self.label(bad)
        self.fault(kind, i)
        self.label(good)

    def go_on_if(self, ok: str) -> None:
        """Continue where a helper said ok; it has recorded the fault where it did not."""
        good = self.new_label()
        self.emit(f"br i1 {ok}, label %{good}, label %fail, !prof !2")
        self.label(good)

    # -- special registers

    def _special_type(self, name: str) -> str:
        return "i64" if name in ("%clock64", "%globaltimer", "%gridid") else "i32"

    def _special(self, name: str, vec: bool) -> str:
        kind = self._special_type(name)
        if name.startswith("%tid.") and not self.shape.single:
            return self._thread_index(name[-1], vec)
        if name == "%laneid" and not self.shape.single:
            return IOTA
        if name.startswith("%lanemask_") and not self.shape.single:
            return LANE_MASKS[name[10:]]
        value = self._scalar_special(name)
        return self.splat(value, kind) if vec else value

    def _thread_index(self, axis: str, vec: bool) -> str:
        if not self.shape.whole_rows:
            p = self.field_pointer("%warp", Warp, f"tid_{axis}", self.lines)
            return self.let(f"load <32 x i32>, ptr {p}, align 4")
        base = self.warp_value(f"tid_{axis}0")
        if axis != "x":
            return self.splat(base, "i32") if vec else base
        if not vec:
            return base  # only where Flow.lane_base allows: bits above the lane number
        key = ("tid", axis)
        if key not in self.cache:
            self.cache[key] = self.let(f"add nuw nsw <32 x i32> {self.splat(base, 'i32')}, {IOTA}")
        return self.cache[key]

    def _scalar_special(self, name: str) -> str:
        head, _, axis = name[1:].partition(".")
        if head in ("ntid", "ctaid", "nctaid"):
            return self.context(f"{head}_{axis}")
        match head:
            case "warpid":
                return self.warp_value("number")
            case "nwarpid":
                return self.context("nwarps")
            case "dynamic_smem_size":
                return self.context("dynamic_shared")
            case "total_smem_size":
                return self.let(f"trunc i64 {self.context('shared_bytes')} to i32")
            case "clock64" | "globaltimer":
                return self._clock()
            case "clock" | "clock_hi" | "globaltimer_lo" | "globaltimer_hi":
                shifted = self.let(f"lshr i64 {self._clock()}, {32 if head.endswith('hi') else 0}")
                return self.let(f"trunc i64 {shifted} to i32")
            case "tid" | "laneid" | "gridid" | "smid":
                return "0"
            case "nsmid":
                return "132"
            case "envreg1" | "envreg2":  # the driver's workspace of a cooperative launch: high and low half
                workspace = self.context("grid_workspace")
                half = self.let(f"lshr i64 {workspace}, {32 if head == 'envreg1' else 0}")
                return self.let(f"trunc i64 {half} to i32")
        raise UnsupportedPtx(f"special register {name}", self.ins.loc)

    def _clock(self) -> str:
        """Warp-instructions so far: it grows from each reading to the next, which is all that a kernel may rely on. A
        reading takes those since the last one in its block from the fuel, which the loops' headers do not."""
        p = self.field_pointer("%ctx", Context, "used", self.lines)
        used = self.let(f"load i64, ptr {p}")
        before = self.let("load i64, ptr %fuel")
        left = self.let(f"sub i64 {before}, {self._since_clock()}")
        self.emit(f"store i64 {left}, ptr %fuel")
        total = self.let(f"add i64 {used}, {self.context('fuel_slice')}")
        unused = self.let(f"add i64 {left}, {self.let('load i64, ptr %debt')}")
        return self.let(f"sub i64 {total}, {unused}")

    def _since_clock(self) -> int:
        """Instructions from the last reading of a clock in this block, or from its start, to this one."""
        block = next((b for b in self.blocks if any(i is self.ins for i in b.ins)), None)
        before = 0
        for n, i in enumerate(block.ins if block else ()):
            if i is self.ins:
                return max(1, n - before)
            if any(r.startswith(("%clock", "%globaltimer")) for a in i.args for r in registers(a)):
                before = n
        return 1
