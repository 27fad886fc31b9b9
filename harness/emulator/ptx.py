"""PTX text -> Module: functions as flat lists of labels and instructions, variables, source locations.

Written for what NVRTC emits (PTX ISA 9.0, compute_75 to compute_90) and for inline assembly inside it.
Registers of nested scopes get unique names, `.param` scratch of call sequences too, so that a function is
one flat name space afterwards. Nothing is interpreted here; an instruction keeps its opcode as written.
"""

from __future__ import annotations

import contextlib
import re
import struct
from dataclasses import dataclass, field
from functools import lru_cache

from harness.emulator.errors import UnsupportedPtx

MAX_SCOPED_RANGE = 1024  # registers of one .reg %r<N> inside of a nested scope
POINTER_BYTES = 8
MAX_INITIALISED = 1 << 30  # bytes of a variable with an initial value
MAX_NESTING = 16  # of brackets in an operand
_MAX_DIGITS = 72  # of a number; 64 bits written with 0b take 66
FIRST_VARIABLE_ID = 16  # buffer ids of .global and .const variables: 16, 17, ... in order of appearance


@dataclass(frozen=True, slots=True)
class Loc:
    """Source position of an instruction; `inlined_at` is the call site it was inlined into."""

    file: int
    line: int
    inlined_at: Loc | None = None


@dataclass(frozen=True, slots=True)
class Reg:
    name: str


@dataclass(frozen=True, slots=True)
class Imm:
    """An immediate. `bits` is 32 or 64 where it was written as a float (0f, 0d); `value` is then its bit pattern."""

    value: int
    bits: int = 0


@dataclass(frozen=True, slots=True)
class Sym:
    """The address of a variable, function or label, plus a byte offset."""

    name: str
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Addr:
    """[base + offset]."""

    base: Reg | Sym | Imm
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Vec:
    """{a, b, ...}."""

    items: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Pair:
    """d|p: a destination and a predicate destination."""

    first: Operand
    second: Operand


@dataclass(frozen=True, slots=True)
class Not:
    """!%p as an operand."""

    reg: Reg


Operand = Reg | Imm | Sym | Addr | Vec | Pair | Not


@dataclass(slots=True)
class Ins:
    """One instruction. `op` is the opcode with its modifiers as written, `mods` its parts."""

    op: str
    args: tuple[Operand, ...]
    pred: str = ""  # guard register
    negated: bool = False
    loc: Loc | None = None
    mods: tuple[str, ...] = ()
    base: str = ""
    returns: tuple[str, ...] = ()  # of a call: names of .param variables
    targets: tuple[str, ...] = ()  # of brx.idx
    previous: dict[str, str] = field(default_factory=dict)  # guarded definition -> value it keeps (SSA)

    def __post_init__(self) -> None:
        if not self.mods:
            self.mods = tuple(self.op.split("."))
            self.base = self.mods[0]


@dataclass(frozen=True, slots=True)
class Label:
    name: str


@dataclass(frozen=True)
class Variable:
    """A module or function variable. `id` is its buffer id for global and const, 0 otherwise."""

    name: str
    space: str  # "global", "const", "shared", "local", "param"
    nbytes: int
    align: int = 4
    id: int = 0
    init: bytes = b""
    relocations: tuple[tuple[int, str, int], ...] = ()  # (offset, symbol, addend), 8 bytes each
    line: int = 0


@dataclass(frozen=True)
class Param:
    name: str
    offset: int
    nbytes: int


@dataclass
class Function:
    """A .func or .entry with a body."""

    name: str
    is_entry: bool
    params: list[Param]
    param_bytes: int
    returns: list[str] = field(default_factory=list)
    body: list[Ins | Label] = field(default_factory=list)
    reg_types: dict[str, str] = field(default_factory=dict)  # full register name -> PTX type
    variables: dict[str, Variable] = field(default_factory=dict)  # .local and .shared declared inside
    max_threads: int = 0
    min_blocks: int = 0
    loc: Loc | None = None


@dataclass(frozen=True)
class Kernel:
    """What a launch needs to know of an entry."""

    name: str
    params: list[Param]
    param_bytes: int
    static_shared_bytes: int
    max_threads: int
    min_blocks: int
    line: int


@dataclass
class Module:
    files: dict[int, str] = field(default_factory=dict)
    functions: dict[str, Function] = field(default_factory=dict)
    variables: dict[str, Variable] = field(default_factory=dict)
    externs: set[str] = field(default_factory=set)
    target: str = ""

    @property
    def kernels(self) -> dict[str, Kernel]:
        return {name: self.kernel(name) for name, f in self.functions.items() if f.is_entry}

    def kernel(self, name: str) -> Kernel:
        f = self.functions[name]
        shared = layout_shared(self, f)[1]
        line = f.loc.line if f.loc else 0
        return Kernel(name, f.params, f.param_bytes, shared, f.max_threads, f.min_blocks, line)


SIZES = {"pred": 1, "b8": 1, "u8": 1, "s8": 1, "b16": 2, "u16": 2, "s16": 2, "f16": 2, "bf16": 2, "b32": 4, "u32": 4,
         "s32": 4, "f32": 4, "f16x2": 4, "bf16x2": 4, "b64": 8, "u64": 8, "s64": 8, "f64": 8, "b128": 16}  # fmt: skip

_SPECIAL = re.compile(
    r"%(tid|ntid|ctaid|nctaid|laneid|warpid|nwarpid|smid|nsmid|gridid|lanemask_\w+|clock\w*|globaltimer\w*|"
    r"dynamic_smem_size|total_smem_size|aggr_smem_size|clusterid|nclusterid|cluster_\w+|is_explicit_cluster|"
    r"envreg\d+|pm\d+\w*|reserved_smem_\w+|current_graph_exec)(\.[xyz])?$"
)


def is_special(name: str) -> bool:
    return bool(_SPECIAL.match(name))


def parse(text: str, lenient: bool = False) -> Module:
    """Parse one PTX module. Raises UnsupportedPtx for a construct it does not know, with its text; lenient: an operand
    that it does not know becomes an address of each register and symbol that it names."""
    return _Parser(text, lenient).module()


@lru_cache(maxsize=2)
def parsed(text: str) -> Module:
    """The module of a text, parsed once for all who need it; nobody may change it."""
    return parse(text)


def called_functions(f: Function) -> set[str]:
    """Names that a function calls directly."""
    return {i.args[0].name for i in f.body if isinstance(i, Ins) and i.base == "call" and isinstance(i.args[0], Sym)}


def _symbols(f: Function) -> set[str]:
    found: set[str] = set()

    def visit(o: Operand) -> None:
        if isinstance(o, Sym):
            found.add(o.name)
        elif isinstance(o, Addr):
            visit(o.base)
        elif isinstance(o, Vec):
            for item in o.items:
                visit(item)

    for i in f.body:
        if isinstance(i, Ins):
            for a in i.args:
                visit(a)
    return found


def reachable(module: Module, f: Function) -> list[Function]:
    """f and every function with a body that it may call, each once."""
    seen, todo = {f.name: f}, [f]
    while todo:
        for name in sorted(called_functions(todo.pop())):
            if name in module.functions and name not in seen:
                seen[name] = module.functions[name]
                todo.append(seen[name])
    return list(seen.values())


def layout_shared(module: Module, f: Function) -> tuple[dict[str, int], int]:
    """Offsets of the static shared variables that f uses, and their total bytes. Dynamic shared memory
    (an array of unknown size) starts right behind them, aligned to 16."""
    offsets: dict[str, int] = {}
    dynamic: list[str] = []
    end = 0
    for g in reachable(module, f):
        used = _symbols(g)
        own = [v for v in g.variables.values() if v.space == "shared"]
        for v in own + [v for v in module.variables.values() if v.space == "shared" and v.name in used]:
            if v.name in offsets or v.name in dynamic:
                continue
            if v.nbytes == 0:
                dynamic.append(v.name)
                continue
            end = (end + v.align - 1) // v.align * v.align
            offsets[v.name] = end
            end += v.nbytes
    for name in dynamic:
        offsets[name] = (end + 15) // 16 * 16
    return offsets, end


_TOKEN_LABEL = re.compile(r"([\w$]+)\s*:(?!:)")
_SPACES = re.compile(r"\s+")
_LOC = re.compile(
    r"\.loc\s+(\d+)\s+(\d+)\s+(\d+)(?:\s*,\s*function_name\s+[\w$]+(?:\s*\+\s*\d+)?\s*,\s*inlined_at\s+(\d+)\s+(\d+)\s+(\d+))?"
)
_REG_DECL = re.compile(r"\.reg\s*(?:\.v\d\s+)?\.(\w+)\s+(.*)", re.S)
_VAR_DECL = re.compile(
    r"(?:\.(?:extern|visible|weak|common)\s+)*\.(global|const|shared|local|param)\s+(?:\.attribute\([^)]*\)\s*)?"
    r"(?:\.align\s+(\d+)\s+)?(?:\.(v[24])\s+)?\.(\w+)\s+([\w$%.]+)\s*((?:\[\s*\d*\s*\])*)\s*(?:=\s*(.*))?$",
    re.S,
)
_GUARD = re.compile(r"@(!?)(%?[\w$.]+)\s+(.*)", re.S)
_PARAM = re.compile(
    r"\.param\s+(?:\.align\s+(\d+)\s+)?\.(\w+)\s+(?:\.ptr\s*(?:\.(?:global|shared|local|const)\s*)?(?:\.align\s+\d+\s*)?)?([\w$]+)\s*(\[\s*(\d*)\s*\])?"
)
_HEADER = re.compile(r"(?:\.(?:extern|visible|weak|common)\s+)*\.(entry|func)\b", re.S)


class _Parser:
    def __init__(self, text: str, lenient: bool = False):
        self.lenient = lenient
        self.m = Module()
        for number, path in re.findall(r'^\s*\.file\s+(\d+)\s+"((?:[^"\\]|\\.)*)"', text, re.M):
            self.m.files[_number(number)] = path
        text = re.sub(r"^\s*\.file\s.*$", "", text, flags=re.M)
        self.text = re.sub(r"/\*.*?\*/", "", re.sub(r"//[^\n]*", "", text), flags=re.S)
        self.pos = 0
        self.next_id = FIRST_VARIABLE_ID
        self.sites: dict[tuple[int, int, int], Loc] = {}
        self.loc: Loc | None = None
        self.unique = 0

    # -- module level

    def module(self) -> Module:
        while self._skip_space():
            rest = self.text[self.pos : self.pos + 40]
            if rest.startswith((".version", ".target", ".address_size")):
                line = self._until("\n")
                if line.startswith(".target"):
                    self.m.target = line.removeprefix(".target").strip().split(",")[0]
            elif rest.startswith((".loc ", ".loc\t")):
                self._loc_directive()
            elif rest.startswith(".section"):
                self._section()
            elif rest.startswith((".pragma", ".alias")):
                self._until(";")
            elif _HEADER.match(self.text, self.pos):
                self._function()
            elif rest.startswith("."):
                self._variable(self._until(";"), self.m.variables)
            elif rest.startswith((";", "}")):
                self.pos += 1
            else:
                raise UnsupportedPtx(f"PTX at module level: {rest.splitlines()[0]!r}")
        return self.m

    def _skip_space(self) -> bool:
        if m := _SPACES.match(self.text, self.pos):
            self.pos = m.end()
        return self.pos < len(self.text)

    def _until(self, mark: str) -> str:
        end = self.text.find(mark, self.pos)
        if end < 0:
            raise UnsupportedPtx(f"PTX ends inside {self.text[self.pos : self.pos + 40]!r}")
        part = self.text[self.pos : end].strip()
        self.pos = end + len(mark)
        return part

    def _section(self) -> None:
        self._until("{")
        self._until("}")

    def _variable(self, text: str, into: dict[str, Variable], prefix: str = "") -> Variable | None:
        m = _VAR_DECL.match(text)
        if not m:
            raise UnsupportedPtx(f"PTX declaration: {text[:80]!r}")
        space, align, vector, kind, name, dims, init = m.groups()
        count = 1
        for d in re.findall(r"\[\s*(\d*)\s*\]", dims or ""):
            count *= _number(d or "0")
        size = SIZES.get(kind)
        if size is None:
            raise UnsupportedPtx(f"variable of type .{kind}: {text[:60]!r}")
        size *= int(vector[1]) if vector else 1
        if init and size * count > MAX_INITIALISED:
            raise UnsupportedPtx(f"variable of {size * count} bytes with an initial value: {text[:60]!r}")
        data, relocations = _initializer(init, size, count) if init else (b"", ())
        number = 0
        if space in ("global", "const"):
            number, self.next_id = self.next_id, self.next_id + 1
        v = Variable(name, space, size * count, _alignment(align, size), number, data, relocations,
                     self.loc.line if self.loc else 0)  # fmt: skip
        into[prefix + name] = v
        return v

    # -- functions

    def _function(self) -> None:
        start = self.pos
        end = re.compile(r"[{;]").search(self.text, start)
        if not end:
            raise UnsupportedPtx("PTX ends inside a function header")
        header = self.text[start : end.start()]
        self.pos = end.end()
        m = re.match(
            r"(?:\.(?:extern|visible|weak|common)\s+)*\.(entry|func)\s*(?:\(([^)]*)\)\s*)?([\w$]+)\s*(?:\(([^)]*)\))?(.*)",
            header,
            re.S,
        )
        if not m:
            raise UnsupportedPtx(f"PTX function header: {header[:80]!r}")
        kind, returns, name, params, attributes = m.groups()
        if end.group() == ";":
            if name not in self.m.functions:
                self.m.externs.add(name)
            return
        self.m.externs.discard(name)
        f = Function(name, kind == "entry", *_params(params or ""))
        f.returns = [p.name for p in _params(returns or "")[0]]
        if t := re.search(r"\.(?:maxntid|reqntid)\s+(\d+)(?:\s*,\s*(\d+))?(?:\s*,\s*(\d+))?", attributes):
            f.max_threads = _number(t[1]) * _number(t[2] or "1") * _number(t[3] or "1")
        if t := re.search(r"\.minnctapersm\s+(\d+)", attributes):
            f.min_blocks = _number(t[1])
        f.loc = self.loc
        self._body(f)
        self.m.functions[name] = f

    def _body(self, f: Function) -> None:
        self.scopes: list[dict[str, str]] = [{}]
        self.ranges: list[tuple[str, int, str]] = []  # (prefix, count, type) of .reg %r<N>
        self.f = f
        branch_targets: dict[str, tuple[str, ...]] = {}
        first_loc = True
        starts, labels = [0], [set[str]()]  # of each scope: where its instructions start, and its labels
        while True:
            if not self._skip_space():
                raise UnsupportedPtx(f"PTX ends inside {f.name}", self.loc)
            c = self.text[self.pos]
            if c == "{":
                self.pos += 1
                self.scopes.append({})
                starts.append(len(f.body))
                labels.append(set())
            elif c == "}":
                self.pos += 1
                self.scopes.pop()
                if not self.scopes:
                    break
                self._close_labels(f.body, starts.pop(), labels.pop())
            elif self.text.startswith((".loc ", ".loc\t"), self.pos):
                self._loc_directive()
                if first_loc and self.loc and self.loc.line:
                    f.loc, first_loc = self.loc, False
            elif m := _TOKEN_LABEL.match(self.text, self.pos):
                self.pos = m.end()
                self._skip_space()
                if self.text.startswith(".branchtargets", self.pos):
                    names = self._until(";").removeprefix(".branchtargets")
                    branch_targets[m[1]] = tuple(n.strip() for n in names.split(","))
                elif self.text.startswith(".callprototype", self.pos):
                    self._until(";")
                else:
                    labels[-1].add(m[1])
                    f.body.append(Label(m[1]))
            else:
                self._statement(self._until(";"))
        for i in f.body:
            if isinstance(i, Ins) and i.base == "brx":
                table = i.args[1] if len(i.args) == 2 else None
                if not isinstance(table, Sym) or table.name not in branch_targets:
                    raise UnsupportedPtx(f"{i.op} without a table of labels", i.loc)
                i.targets = branch_targets[table.name]

    def _close_labels(self, body: list[Ins | Label], start: int, labels: set[str]) -> None:
        """Labels of a scope are its own: inline assembly that is inlined twice has the same ones twice."""
        if not labels:
            return
        self.unique += 1
        own = {name: f"{name}${self.unique}" for name in labels}
        for at in range(start, len(body)):
            item = body[at]
            if isinstance(item, Label):
                body[at] = Label(own.get(item.name, item.name))
            elif item.base in ("bra", "brx"):
                symbols = (Sym(own.get(a.name, a.name), a.offset) if isinstance(a, Sym) else a for a in item.args)
                item.args = tuple(symbols)

    def _loc_directive(self) -> None:
        m = _LOC.match(self.text, self.pos)
        if not m:
            raise UnsupportedPtx(f"PTX directive {self.text[self.pos : self.pos + 40]!r}")
        self.pos = m.end()
        file, line, column = _number(m[1]), _number(m[2]), _number(m[3])
        parent = None
        if m[4]:
            parent = self._site(_number(m[4]), _number(m[5]), _number(m[6]))
        self.loc = Loc(file, line, parent)
        self.sites[file, line, column] = self.loc

    def _site(self, file: int, line: int, column: int) -> Loc:
        """A call site: as it was named last, or else as it is named further down, since blocks are not in the order of
        the source."""
        place = (file, line, column)
        if place not in self.sites:
            self.sites[place] = Loc(file, line)  # should it refer to itself
            numbers = r"\s+(\d+)\s+(\d+)\s+(\d+)"
            later = re.compile(rf"\.loc\s+{file}\s+{line}\s+{column}\s*,[^\n]*inlined_at{numbers}")
            if m := later.search(self.text, self.pos):
                self.sites[place] = Loc(file, line, self._site(_number(m[1]), _number(m[2]), _number(m[3])))
        return self.sites[place]

    def _statement(self, text: str) -> None:
        if not text:
            return
        if text.startswith("."):
            if m := _REG_DECL.match(text):
                self._declare_registers(m[1], m[2])
            elif text.startswith((".pragma", ".branchtargets", ".callprototype", ".noreturn")):
                pass
            else:
                self._declare_variable(text)
            return
        pred, negated = "", False
        if m := _GUARD.match(text):
            negated, pred, text = m[1] == "!", self._declared(m[2]), m[3]
        parts = text.split(None, 1)
        op = parts[0]
        if op == "call" or op.startswith("call."):
            self.f.body.append(self._call(op, parts[1] if len(parts) > 1 else "", pred, negated))
            return
        args = tuple(o for a in split_commas(parts[1]) for o in self._operands(a)) if len(parts) > 1 else ()
        self.f.body.append(Ins(op, self._with_carry(op.split("."), args), pred, negated, self.loc))

    def _with_carry(self, mods: list[str], args: tuple[Operand, ...]) -> tuple[Operand, ...]:
        """The operands of a carry chain's instruction, the carry flag among them."""
        carry = Reg("%CC")
        if mods[0] in ("addc", "subc", "madc"):
            args = (*args, carry)
        if "cc" in mods[1:] and args:
            args = (Pair(args[0], carry), *args[1:])
        if carry in args or (args and isinstance(args[0], Pair) and args[0].second == carry):
            self.f.reg_types[carry.name] = "pred"
        return args

    def _call(self, op: str, text: str, pred: str, negated: bool) -> Ins:
        parts = split_commas(text)
        returns: tuple[str, ...] = ()
        if parts and parts[0].startswith("("):
            returns = tuple(self._scoped(n.strip()) for n in parts.pop(0)[1:-1].split(",") if n.strip())
        if not parts:
            raise UnsupportedPtx(f"{op} of nothing", self.loc)
        target = self._operand(parts.pop(0))
        names: tuple[Sym, ...] = ()
        if parts and parts[0].startswith("("):
            names = tuple(Sym(self._scoped(n.strip())) for n in parts[0][1:-1].split(",") if n.strip())
        return Ins(op, (target, *names), pred, negated, self.loc, returns=returns)

    def _declare_registers(self, kind: str, names: str) -> None:
        if kind not in SIZES:
            raise UnsupportedPtx(f"register of type .{kind}", self.loc)
        for name in names.split(","):
            name = name.strip()
            m = re.match(r"(%?[\w$]+)<(\d+)>$", name)
            if m and len(self.scopes) == 1:
                self.ranges.append((m[1], _number(m[2]), kind))
            elif m:
                for n in range(min(_number(m[2]), MAX_SCOPED_RANGE)):
                    self.f.reg_types[self._declare(f"{m[1]}{n}")] = kind
            else:
                self.f.reg_types[self._declare(name)] = kind

    def _declare(self, name: str) -> str:
        if len(self.scopes) == 1:
            self.scopes[0][name] = name
            return name
        self.unique += 1
        self.scopes[-1][name] = f"{name}.{self.unique}"
        return self.scopes[-1][name]

    def _declare_variable(self, text: str) -> None:
        holder: dict[str, Variable] = {}
        v = self._variable(text, holder)
        assert v is not None
        if v.space in ("global", "const"):
            self.m.variables[v.name] = v
        else:
            self.f.variables[self._declare(v.name)] = v

    def _scoped(self, name: str) -> str:
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        return name

    def _reg_name(self, name: str) -> str:
        full = self._scoped(name)
        if full not in self.f.reg_types:
            for prefix, count, kind in self.ranges:
                number = full[len(prefix) :]
                if full.startswith(prefix) and number.isdecimal() and _number(number) < count:
                    self.f.reg_types[full] = kind
                    break
        return full

    def _declared(self, name: str) -> str:
        """Full name of a register that must exist."""
        full = self._reg_name(name)
        if full not in self.f.reg_types and not is_special(full):
            raise UnsupportedPtx(f"register {name}, which is not declared", self.loc)
        return full

    def _operands(self, text: str) -> list[Operand]:
        """The operand; where it is unknown and that may be, an address of each name in it."""
        try:
            return [self._operand(text)]
        except UnsupportedPtx:
            if not self.lenient:
                raise
        names = [self._reg_name(name) for name in re.findall(r"%?[A-Za-z_$][\w$]*", text)]
        return [Addr(Reg(name) if name in self.f.reg_types else Sym(name)) for name in names]

    def _operand(self, text: str) -> Operand:
        text = text.strip()
        if sum(map(text.count, "[{(|")) > MAX_NESTING:
            raise UnsupportedPtx(f"operand {text[:40]!r}", self.loc)
        c = text[0] if text else ""
        if c == "%" and "|" not in text and "+" not in text:
            return Reg(self._declared(text))
        if c == "[":
            return self._address(text[1:-1].strip())
        if c == "{":
            return Vec(tuple(self._operand(t) for t in split_commas(text[1:-1])))
        if c == "!":
            return Not(Reg(self._declared(text[1:].strip())))
        if c == "(":
            return self._operand(text[1:-1])
        if "|" in text:
            a, _, b = text.partition("|")
            return Pair(self._operand(a), self._operand(b))
        if (value := _immediate(text)) is not None:
            return value
        if m := re.match(r"([\w$%.]+)\s*\+\s*(-?\d+)$", text):
            return Sym(self._scoped(m[1]), _number(m[2]))
        if text == "WARP_SZ":
            return Imm(32)
        name = self._reg_name(text)
        if name in self.f.reg_types:
            return Reg(name)
        if re.match(r"[\w$%.]+$", text):
            return Sym(name)
        raise UnsupportedPtx(f"operand {text!r}", self.loc)

    def _address(self, text: str) -> Addr:
        if "," in text or "{" in text:
            raise UnsupportedPtx(f"address [{text}]", self.loc)
        m = re.match(r"(.*?)\s*\+\s*(-?(?:0x[0-9a-fA-F]+|\d+))$", text)
        base = self._operand(m[1] if m else text)
        if not isinstance(base, Reg | Sym | Imm):
            raise UnsupportedPtx(f"address [{text}]", self.loc)
        return Addr(base, _number(m[2], 0) if m else 0)


def split_commas(text: str) -> list[str]:
    """Split at commas outside brackets of any kind."""
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        if c in "[{(<":
            depth += 1
        elif c in "]})>":
            depth -= 1
        elif c == "," and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    last = text[start:].strip()
    return [*parts, last] if last else parts


def _number(text: str, base: int = 10) -> int:
    """A whole number. Raises UnsupportedPtx for one that is endless, or with digits of another base."""
    if len(text) <= _MAX_DIGITS:
        with contextlib.suppress(ValueError):
            return int(text, base)
    raise UnsupportedPtx(f"the number {text[:_MAX_DIGITS]!r}")


def _alignment(text: str | None, usual: int) -> int:
    """The bytes of an .align directive. Raises UnsupportedPtx for what is no power of two."""
    align = _number(text) if text else usual
    if align <= 0 or align & (align - 1):
        raise UnsupportedPtx(f"alignment to {align} bytes")
    return align


def _immediate(text: str) -> Imm | None:
    if re.match(r"0[fF][0-9a-fA-F]{8}$", text):
        return Imm(int(text[2:], 16), 32)
    if re.match(r"0[dD][0-9a-fA-F]{16}$", text):
        return Imm(int(text[2:], 16), 64)
    if m := re.match(r"(-?)(0[xX][0-9a-fA-F]+|0[bB][01]+|\d+)U?$", text):
        digits = m[2]
        if re.match(r"0\d+$", digits):
            return None if set(digits) & {"8", "9"} else Imm(_number(m[1] + digits, 8))
        value = _number(digits, 0)
        return Imm(-value if m[1] else value)
    if re.match(r"-?\d+\.\d*(?:[eE][-+]?\d+)?$", text):
        return Imm(struct.unpack(">Q", struct.pack(">d", float(text)))[0], 64)
    return None


def _params(text: str) -> tuple[list[Param], int]:
    params, offset = [], 0
    for align, kind, name, array, count in _PARAM.findall(text):
        if kind not in SIZES:
            raise UnsupportedPtx(f"parameter {name} of type .{kind}")
        size = SIZES[kind] * (_number(count or "0") if array else 1)
        step = _alignment(align, SIZES[kind])
        offset = (offset + step - 1) // step * step
        params.append(Param(name, offset, size))
        offset += size
    return params, offset


def _initializer(text: str, size: int, count: int) -> tuple[bytes, tuple[tuple[int, str, int], ...]]:
    data, relocations = bytearray(), []
    for item in re.sub(r"[{}]", " ", text).split(","):
        item = item.strip()
        if not item:
            continue
        if value := _immediate(item):
            data += (value.value & ((1 << 8 * size) - 1)).to_bytes(size, "little")
        elif m := re.match(r"(?:generic\(\s*)?([\w$]+)\s*\)?\s*(?:\+\s*(\d+))?$", item):
            if size != POINTER_BYTES:
                raise UnsupportedPtx(f"address as an initial value of {size} bytes: {item[:40]!r}")
            relocations.append((len(data), m[1], _number(m[2] or "0")))
            data += bytes(size)
        else:
            raise UnsupportedPtx(f"initial value {item[:40]!r}")
    if len(data) > size * count:
        raise UnsupportedPtx(f"more initial values than the variable holds: {text[:40]!r}")
    return bytes(data).ljust(size * count, b"\0"), tuple(relocations)
