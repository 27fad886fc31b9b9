"""Which device variables of a PTX module its kernels may write, by following addresses from where they are named.

Theory of operation. Every register and parameter of every function that a kernel reaches is a node, and so is the
memory of each state space as a whole. An instruction moves what its sources hold to its destination; a variable's name
puts that variable in. Where a node is used as an address that the instruction writes to, all variables in it are
written. Order, guards and calling contexts are ignored, so that the answer errs towards "written", but for addresses
that are cut into pieces and stored, or rebuilt bit by bit from comparisons: no compiler makes those. (This is points-to
analysis by inclusion in its plainest form, after L. O. Andersen, 1994.)
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from harness.emulator.ptx import Addr, Function, Ins, Loc, Module, Operand, Pair, Reg, Sym, Variable, Vec

# Instructions with an operand [address], and how many of those, from the left, they write to. All others write to each.
_WRITTEN = {"ld": 0, "ldu": 0, "ldmatrix": 0, "prefetch": 0, "prefetchu": 0, "applypriority": 0, "tex": 0, "tld4": 0,
            "wmma.load": 0, "multimem.ld_reduce": 0, "fence": 0, "createpolicy": 0,
            "cp.async": 1, "cp.reduce": 1, "cp.async.bulk.prefetch": 0}  # fmt: skip
_NO_RESULT = {"st", "red", "bar", "barrier", "membar", "fence", "bra", "brx", "ret", "exit", "trap", "prefetch",
              "setp", "set", "isspacep", "call"}  # fmt: skip
_HARMLESS_CALLS = {"vprintf", "__assertfail", "malloc", "free"}
_SPACES = ("local", "shared", "global", "const")
_STRINGS = ("$str", "__unnamed_")  # literals, whose addresses are stored as arguments of printf; nobody writes there
_POINTER_TYPES = ("b64", "u64", "s64", "b128")


def _memory(space: str) -> str:
    """The node of a state space; global and const memory are one, as a generic address may be either."""
    return f"[{space if space in ('local', 'shared') else 'global'}]"


_MEMORIES = frozenset(_memory(space) for space in _SPACES)


@dataclass(frozen=True)
class Write:
    """One place where a variable may be written. `function` is a mangled name."""

    function: str
    loc: Loc | None


@dataclass
class _Flow:
    """What flows where. `writes`: node -> the first place that uses it as an address to write to."""

    edges: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    holds: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    writes: dict[str, Write] = field(default_factory=dict)

    def spread(self) -> None:
        """Move everything along the edges until nothing changes."""
        todo = list(self.holds)
        while todo:
            node = todo.pop()
            for target in self.edges.get(node, ()):
                new = self.holds[node] - self.holds[target]
                if target in _MEMORIES:
                    new = {name for name in new if not name.startswith(_STRINGS)}
                if new:
                    self.holds[target] |= new
                    todo.append(target)


def written(module: Module) -> dict[str, Write]:
    """Name of each .global variable that a kernel may write -> a place that may do it."""
    flow = _Flow()
    functions = _used(module)
    by_arity = _targets(functions.values())
    for variable in module.variables.values():
        flow.holds[_memory("global")] |= {name for name, _ in _relocations(variable) if name in module.variables}
    for function in functions.values():
        walk = _Walk(module, function, functions, by_arity, flow)
        for item in function.body:
            if isinstance(item, Ins):
                walk.instruction(item)
    flow.spread()
    found: dict[str, Write] = {}
    for node, place in flow.writes.items():
        for name in flow.holds.get(node, ()):
            found.setdefault(name, place)
    return {name: place for name, place in found.items() if module.variables[name].space == "global"}


def _relocations(variable: Variable) -> Iterator[tuple[str, int]]:
    return ((name, addend) for _, name, addend in variable.relocations)


def _used(module: Module) -> dict[str, Function]:
    """Functions with a body that a kernel calls or names, or a table of pointers holds; kernels included."""
    todo = [name for name, function in module.functions.items() if function.is_entry]
    todo += [name for variable in module.variables.values() for name, _ in _relocations(variable)]
    found: dict[str, Function] = {}
    while todo:
        name = todo.pop()
        if name in module.functions and name not in found:
            found[name] = module.functions[name]
            todo += [symbol for item in found[name].body if isinstance(item, Ins) for symbol in _named(item.args)]
    return found


def _targets(functions: Iterable[Function]) -> dict[int, list[Function]]:
    """Number of parameters -> the functions that a call through a pointer may mean."""
    found: dict[int, list[Function]] = defaultdict(list)
    for function in functions:
        if not function.is_entry:
            found[len(function.params)].append(function)
    return found


def _named(operands: Iterable[Operand]) -> Iterator[str]:
    for operand in operands:
        match operand:
            case Sym(name, _) | Addr(Sym(name, _), _):
                yield name
            case Vec(items):
                yield from _named(items)
            case Pair(first, second):
                yield from _named((first, second))


class _Walk:
    """The instructions of one function."""

    def __init__(self, module: Module, function: Function, functions: dict[str, Function],
                 by_arity: dict[int, list[Function]], flow: _Flow):  # fmt: skip
        self._module, self._function, self._functions = module, function, functions
        self._by_arity, self._flow = by_arity, flow

    def instruction(self, i: Ins) -> None:
        """Add what one instruction moves and writes."""
        if i.base == "call":
            self._call(i)
        elif i.base in ("ld", "st") and i.mods[1:2] == ("param",):
            self._parameter(i)
        else:
            self._addresses(i)
            if i.base in ("ld", "ldu", "atom"):
                self._load(i)
            if i.base in ("st", "atom", "red"):
                self._store(i)
            elif i.base not in _NO_RESULT and i.base not in ("ld", "ldu"):
                sources = i.args[1:2] if i.base == "sub" else i.args[1:]  # pointer - pointer is no address
                self._move(sources, i.args[:1])

    def _node(self, name: str, function: Function | None = None) -> str:
        return f"{(function or self._function).name} {name}"

    def _nodes(self, operands: Iterable[Operand]) -> list[str]:
        """Registers and variables among operands; predicates carry no address."""
        found = []
        for operand in operands:
            match operand:
                case Reg(name) if self._function.reg_types.get(name) != "pred":
                    found.append(self._node(name))
                case Sym(name, _):
                    found.append(self._variable(name))
                case Vec(items):
                    found += self._nodes(items)
                case Pair(first, _):
                    found += self._nodes([first])
        return found

    def _variable(self, name: str) -> str:
        if name in self._module.variables:
            self._flow.holds[f"&{name}"] = {name}
        return f"&{name}"

    def _move(self, sources: Iterable[Operand], targets: Iterable[Operand]) -> None:
        self._connect(self._nodes(sources), self._nodes(targets))

    def _connect(self, sources: Iterable[str], targets: Iterable[str]) -> None:
        targets = list(targets)
        for source in sources:
            self._flow.edges[source].update(targets)

    def _addresses(self, i: Ins) -> None:
        addresses = [a for a in i.args if isinstance(a, Addr)]
        for address in addresses[: _written_addresses(i)]:
            for node in self._nodes([address.base]):
                self._flow.writes.setdefault(node, Write(self._function.name, i.loc))

    def _load(self, i: Ins) -> None:
        if i.mods[-1] in _POINTER_TYPES:
            self._connect(_read_from(i), self._nodes(i.args[:1]))

    def _store(self, i: Ins) -> None:
        if i.mods[-1] in _POINTER_TYPES:
            values = [a for a in i.args[1 if i.base != "atom" else 2 :] if not isinstance(a, Addr)]
            space = _space(i)
            targets = [_memory(space)] if space else [_memory(each) for each in _SPACES]
            self._connect(self._nodes(values), targets)

    def _parameter(self, i: Ins) -> None:
        """ld.param and st.param: parameters and results of calls are nodes like registers."""
        load = i.base == "ld"
        address, value = (i.args[1], i.args[0]) if load else (i.args[0], i.args[1])
        if not isinstance(address, Addr):
            return
        place = [self._node(address.base.name)] if isinstance(address.base, Sym) else self._nodes([address.base])
        if load:
            self._connect(place, self._nodes([value]))
        else:
            self._connect(self._nodes([value]), place)

    def _call(self, i: Ins) -> None:
        target = i.args[0]
        arguments = [self._node(a.name) for a in i.args[1:] if isinstance(a, Sym)]
        name = target.name if isinstance(target, Sym) else ""
        if name in self._functions:
            callees = [self._functions[name]]
        else:
            callees = [] if name else self._by_arity.get(len(arguments), [])
        for callee in callees:
            for argument, parameter in zip(arguments, callee.params, strict=False):
                self._connect([argument], [self._node(parameter.name, callee)])
            for result, own in zip(i.returns, callee.returns, strict=False):
                self._connect([self._node(own, callee)], [self._node(result)])
        if not callees and name not in _HARMLESS_CALLS:
            for node in arguments:
                self._flow.writes.setdefault(node, Write(self._function.name, i.loc))


def _written_addresses(i: Ins) -> int:
    """How many of its addresses, from the left, an instruction writes to."""
    for length in (4, 3, 2, 1):
        name = ".".join(i.mods[:length])
        if name in _WRITTEN:
            return _WRITTEN[name]
    return len(i.args)


def _space(i: Ins) -> str:
    """The state space of a load or store; "" for a generic address."""
    return next((mod.partition("::")[0] for mod in i.mods if mod.partition("::")[0] in _SPACES), "")


def _read_from(i: Ins) -> list[str]:
    space = _space(i)
    return [_memory(space)] if space else [_memory(each) for each in _SPACES]
