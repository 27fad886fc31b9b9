"""Calls -> one flat function: bodies of called functions are copied into the caller.

Parameters and results travel through *slots*: each (.param variable, byte offset) pair becomes a register of
its own, written by `st.slot` and read by `ld.slot`. What remains as a call afterwards is external: the device
runtime (vprintf, __assertfail) or, in solve(), the runtime API. Recursion and calls through pointers are unsupported.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from harness.emulator.errors import UnsupportedPtx
from harness.emulator.ptx import SIZES, Addr, Function, Imm, Ins, Label, Module, Not, Operand, Pair, Reg, Sym, Vec

MAX_DEPTH = 32
MAX_INSTRUCTIONS = 400_000


def flatten(module: Module, entry: str) -> Function:
    """The entry with everything that it calls inlined. Raises UnsupportedPtx for recursion, indirect calls and
    an entry that is not there."""
    if entry not in module.functions:
        raise UnsupportedPtx(f"{entry}, which the PTX does not define")
    f = module.functions[entry]
    flat = Function(f.name, f.is_entry, f.params, f.param_bytes, max_threads=f.max_threads, min_blocks=f.min_blocks,
                    loc=f.loc)  # fmt: skip
    _Inliner(module, flat).expand(f, "", {}, None, 0)
    _resolve_slots(flat)
    return flat


class _Inliner:
    def __init__(self, module: Module, flat: Function):
        self.module, self.flat, self.copies = module, flat, 0

    def expand(self, f: Function, prefix: str, bound: dict[str, str], end: str | None, depth: int) -> None:
        """Append f's body. `bound` maps f's .param names to the caller's slots; `end` is the label behind the call."""
        if depth > MAX_DEPTH:
            raise UnsupportedPtx(f"recursive call of {f.name}", f.loc)
        flat = self.flat
        for name, kind in f.reg_types.items():
            flat.reg_types[prefix + name] = kind
        for name, v in f.variables.items():
            if v.space == "local":
                flat.variables[prefix + name] = replace(v, name=prefix + name)
            elif v.space == "shared":
                flat.variables[name] = v
        rename = _Renamer(f, prefix)
        for item in f.body:
            if isinstance(item, Label):
                flat.body.append(Label(prefix + item.name))
            elif item.base == "call":
                self._call(item, f, prefix, rename, depth)
            elif end is not None and item.base == "ret":
                flat.body.append(Ins("bra.uni", (Sym(end),), rename.name(item.pred), item.negated, item.loc))
            elif slot := self._slot(item, f, prefix, bound):
                self._transfer(item, slot, rename)
            else:
                flat.body.append(rename.instruction(item))
        if len(flat.body) > MAX_INSTRUCTIONS:
            raise UnsupportedPtx(f"{f.name} grows beyond {MAX_INSTRUCTIONS} instructions when inlined", f.loc)

    def _slot(self, item: Ins, f: Function, prefix: str, bound: dict[str, str]) -> str | None:
        """Slot prefix that a ld.param or st.param refers to; None for the entry's own parameters and other opcodes."""
        if item.base not in ("ld", "st") or item.mods[1:2] != ("param",):
            return None
        address = item.args[item.base == "ld"] if len(item.args) == 2 else None
        if not isinstance(address, Addr) or not isinstance(address.base, Sym):
            raise UnsupportedPtx(f"instruction {item.op}: parameter space through a register", item.loc)
        name = address.base.name
        if name in bound:
            return bound[name]
        if not prefix and any(p.name == name for p in f.params):
            return None
        return prefix + name

    def _transfer(self, item: Ins, slot: str, rename: _Renamer) -> None:
        load = item.base == "ld"
        address, value = (item.args[1], item.args[0]) if load else (item.args[0], item.args[1])
        assert isinstance(address, Addr)
        assert isinstance(address.base, Sym)
        kind = item.mods[-1]
        if kind not in SIZES:
            raise UnsupportedPtx(f"instruction {item.op}", item.loc)
        values = value.items if isinstance(value, Vec) else (value,)
        for n, v in enumerate(values):
            key = f"{slot}+{address.base.offset + address.offset + n * SIZES[kind]}"
            reg = Reg(key)
            args = (rename.operand(v), reg) if load else (reg, rename.operand(v))
            if not load:
                self.flat.reg_types[key] = f"b{8 * SIZES[kind]}"
            self.flat.body.append(Ins(f"{item.base}.slot.{kind}", args, rename.name(item.pred), item.negated, item.loc))

    def _call(self, item: Ins, f: Function, prefix: str, rename: _Renamer, depth: int) -> None:
        target = item.args[0]
        if not isinstance(target, Sym):
            raise UnsupportedPtx("call through a function pointer", item.loc)
        arguments = [prefix + a.name for a in item.args[1:] if isinstance(a, Sym)]
        callee = self.module.functions.get(target.name)
        if callee is None:
            args = (target, *(Sym(a) for a in arguments))
            returns = tuple(f"{prefix}{r}+0" for r in item.returns)
            self.flat.body.append(Ins("call", args, rename.name(item.pred), item.negated, item.loc, returns=returns))
            return
        if item.pred:
            raise UnsupportedPtx("guarded call", item.loc)
        self.copies += 1
        if len(arguments) != len(callee.params) or len(item.returns) != len(callee.returns):
            raise UnsupportedPtx(f"call of {target.name} with another number of arguments than it takes", item.loc)
        bound = {p.name: a for p, a in zip(callee.params, arguments, strict=True)}
        bound |= {r: prefix + a for r, a in zip(callee.returns, item.returns, strict=True)}
        end = f"$call_end{self.copies}"
        self.expand(callee, f"i{self.copies}:", bound, end, depth + 1)
        self.flat.body.append(Label(end))


class _Renamer:
    """Puts a prefix before the registers, labels and local variables of one inlined copy."""

    def __init__(self, f: Function, prefix: str):
        self.f, self.prefix = f, prefix
        self.own = {n for n, v in f.variables.items() if v.space == "local"}
        self.own |= {i.name for i in f.body if isinstance(i, Label)}

    def name(self, name: str) -> str:
        return self.prefix + name if name else ""

    def operand(self, o: Operand) -> Operand:
        if not self.prefix:
            return o
        match o:
            case Reg(name) if name in self.f.reg_types:
                return Reg(self.prefix + name)
            case Not(reg):
                return Not(Reg(self.prefix + reg.name))
            case Sym(name, offset) if name in self.own:
                return Sym(self.prefix + name, offset)
            case Addr(base, offset):
                renamed = self.operand(base)
                assert isinstance(renamed, Reg | Sym | Imm)
                return Addr(renamed, offset)
            case Vec(items):
                return Vec(tuple(self.operand(i) for i in items))
            case Pair(first, second):
                return Pair(self.operand(first), self.operand(second))
        return o

    def instruction(self, i: Ins) -> Ins:
        args = tuple(self.operand(a) for a in i.args)
        targets = tuple(self.prefix + t for t in i.targets)
        return Ins(i.op, args, self.name(i.pred), i.negated, i.loc, i.mods, i.base, targets=targets)


def _resolve_slots(flat: Function) -> None:
    """Give every read of a slot a written one, and external calls the slots that make up each argument."""
    pieces: dict[str, list[int]] = {}
    for name in flat.reg_types:
        slot, plus, offset = name.rpartition("+")
        if plus:
            pieces.setdefault(slot, []).append(int(offset))
    returned = {r for i in flat.body if isinstance(i, Ins) for r in i.returns}
    for i in flat.body:
        if not isinstance(i, Ins):
            continue
        if i.base == "ld" and i.mods[1:2] == ("slot",):
            _resolve_load(flat, i, pieces, returned)
        elif i.base == "call":
            names = [a.name for a in i.args[1:] if isinstance(a, Sym)]
            args = [Vec(tuple(Reg(f"{n}+{o}") for o in sorted(pieces.get(n, ())))) for n in names]
            i.args = (i.args[0], *args)
    for i in flat.body:
        if isinstance(i, Ins) and i.base == "call":
            i.returns = tuple(r for r in i.returns if r in flat.reg_types)


def _resolve_load(flat: Function, i: Ins, pieces: dict[str, list[int]], returned: set[str]) -> None:
    key = i.args[1]
    assert isinstance(key, Reg)
    size = SIZES[i.mods[-1]]
    if key.name in returned:
        flat.reg_types.setdefault(key.name, f"b{8 * size}")
        return
    slot, _, text = key.name.rpartition("+")
    offset = int(text)
    for start in pieces.get(slot, ()):
        if start <= offset and offset + size <= start + SIZES[flat.reg_types[f"{slot}+{start}"]]:
            i.args = (i.args[0], Reg(f"{slot}+{start}"), Imm(8 * (offset - start)))
            return
    if slot in pieces:
        raise UnsupportedPtx("function argument read at another width than it was passed", i.loc)
    flat.reg_types[key.name] = f"b{8 * size}"  # never passed: an undefined value


@dataclass(frozen=True)
class CallArgument:
    """One argument of an external call in the call buffer: its place and size in bytes, and the registers that it is
    made of, each with its own place."""

    place: int
    nbytes: int
    pieces: tuple[tuple[Reg, int], ...]


def call_places(call: Ins, types: dict[str, str]) -> list[CallArgument]:
    """Where the arguments of an external call lie in the call buffer, each at a multiple of 16."""
    arguments, place = [], 0
    for a in call.args[1:]:
        assert isinstance(a, Vec)
        pieces, end = [], 0
        for r in a.items:
            assert isinstance(r, Reg)
            offset = int(r.name.split("#")[0].rpartition("+")[2])
            pieces.append((r, place + offset))
            end = max(end, offset + SIZES[types[r.name]])
        arguments.append(CallArgument(place, end, tuple(pieces)))
        place += (max(end, 1) + 15) // 16 * 16
    return arguments
