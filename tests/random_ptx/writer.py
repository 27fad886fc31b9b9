"""Expressions, assignments and control flow of one random kernel.

Convergence is tracked while writing, as a level: BLOCK where all threads of the block run a statement, WARP where all
lanes of a warp do, NONE elsewhere. Conditions are made of values that are the same in the block, in the warp, or in
no group, and a statement that needs others to arrive is written only where they do.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tests.random_ptx.operations import UNIFORM, Operation
from tests.random_ptx.types import FLOATS, C, literal

NONE, WARP, BLOCK = range(3)
UNIFORMS = 3  # u0.. the same in the whole block
CELLS = 8  # of an array in local memory
_DEEPEST = {True: 2, False: 3}  # by whether it is a helper function


@dataclass(frozen=True)
class Family:
    """What kernels of a family are made of. `types`: of the variables, one for each entry; `statements`: how often
    each kind is picked besides assignments and control flow; `reinterprets`: memory is read in other types than it
    was written in, which shows what NaNs look like and so is for integers only; `drops`: groups of types of which a
    program may have to do without one."""

    name: str
    types: tuple[str, ...]
    operations: tuple[Operation, ...]
    statements: dict[str, int]
    reinterprets: bool = False
    drops: tuple[tuple[str, ...], ...] = ()

    def of(self, seed: int) -> Family:
        """The family as the program of a seed has it."""
        dropped = random.Random(f"{self.name} {seed} types").choice((*self.drops, ()))
        return replace(self, types=tuple(k for k in self.types if k not in dropped))

    def variables(self) -> list[tuple[str, str]]:
        """(name, type) of every variable of a thread."""
        return [(f"{kind}_{self.types[:n].count(kind)}", kind) for n, kind in enumerate(self.types)]


@dataclass
class Writer:
    """Grows the text of one function. `inside`: a helper function; `returns`: threads of the kernel may return early,
    so nobody waits for them."""

    rng: random.Random
    prefix: str
    family: Family
    inside: bool = False
    returns: bool = False
    helpers: list[str] = field(default_factory=list)  # types of what the helper functions return
    lines: list[str] = field(default_factory=list)
    loops: list[str] = field(default_factory=list)  # innermost last: "loop", "calm" or "switch"
    depth: int = 1
    counter: int = 0

    def line(self, text: str) -> None:
        self.lines.append("  " * self.depth + text)

    def fresh(self, stem: str) -> str:
        self.counter += 1
        return f"{stem}{self.counter}"

    # -- expressions

    def variable(self, kind: str) -> str:
        """One of the thread's own variables of a type."""
        return f"{kind}_{self.rng.randrange(self.family.types.count(kind))}"

    def kind(self, among: Sequence[str] = ()) -> str:
        """A type that the family has."""
        return self.rng.choice([k for k in self.family.types if not among or k in among])

    def leaf(self, kind: str, same: int) -> str:
        r = self.rng
        if kind == "p" or r.random() < 0.2:
            return literal(kind, r)
        if same:
            names = [f"u{k}" for k in range(UNIFORMS)] + ["block"] + (["warp", "w0"] if same == WARP else [])
            return r.choice(names)
        if kind == "u32" and r.random() < 0.3:
            return r.choice(["lane"] if self.inside else ["lane", "t", *(f"u{k}" for k in range(UNIFORMS))])
        return self.variable(kind)

    def expression(self, kind: str, size: int = 2, same: int = NONE) -> str:
        """A value of a type. same: WARP or BLOCK where it must not vary there (32-bit unsigned then)."""
        fitting = self._operations(kind, same)
        if not fitting or size == 0 or self.rng.random() < 0.1:
            return self.leaf(kind, same)
        o = self.rng.choice(fitting)
        return o(*(self.expression(k, size - 1, same) for k in o.operands))

    def _operations(self, kind: str, same: int) -> list[Operation]:
        known = {*self.family.types, "p"}
        every = UNIFORM if same else self.family.operations
        return [o for o in every if o.result == kind and set(o.operands) <= known]

    def condition(self, same: int = NONE) -> str:
        return self.expression("p", 2, same)

    def index(self, count: int) -> str:
        """An index below a power of two."""
        return f"{self.expression('u32', 1)} & {count - 1}u"

    # -- statements

    def body(self, size: int, level: int) -> None:
        self.depth += 1
        for _ in range(size):
            self.statement(level)
        self.depth -= 1

    def statement(self, level: int) -> None:
        getattr(self, "_" + self.rng.choice(self.choices(level)))(level)

    def choices(self, level: int) -> list[str]:
        """Kinds of statement that may stand here, each as often as it shall be picked."""
        picks = ["assign"] * 6 + (["call"] * 2 if self.helpers else [])
        if self.depth <= _DEEPEST[self.inside]:
            picks += ["if"] * 4 + ["for"] * 3 + ["do"] * 2 + ["switch"]
        if self.loops:
            picks += ["break"] * 2 + ["continue"]
        if self.inside or self.returns:
            picks += ["return"]
        if not self.inside:
            picks += ["cell"] * 2 + (["uniform"] * 2 if level == BLOCK else [])
            for name, (weight, needs) in self.extra().items():
                picks += [name] * weight if level >= needs and not (needs and self.returns) else []
        return picks

    def extra(self) -> dict[str, tuple[int, int]]:
        """Further kinds: name -> (weight, level that it needs)."""
        return {}

    def _assign(self, level: int) -> None:
        kind = self.kind()
        self.line(f"{self.variable(kind)} = {self.expression(kind)};")

    def _uniform(self, level: int) -> None:
        self.line(f"u{self.rng.randrange(UNIFORMS)} = {self.expression('u32', 2, BLOCK)};")

    def _cell(self, level: int) -> None:
        kind = self.family.types[0]
        if self.rng.random() < 0.5:
            self.line(f"cell[{self.index(CELLS)}] = {self.expression(kind, 1)};")
        else:
            self.line(f"{self.variable(kind)} = cell[{self.index(CELLS)}];")

    def _call(self, level: int) -> None:
        n = self.rng.randrange(len(self.helpers))
        kind = self.helpers[n]
        arguments = ", ".join(self.expression(k, 1) for k in dict.fromkeys(self.family.types))
        self.line(f"{self.variable(kind)} = {self.prefix}f{n}({arguments}, lane);")

    def _same(self, level: int) -> int:
        """How far the next condition keeps the threads together."""
        return self.rng.choice([NONE, level, level]) if level else NONE

    def _if(self, level: int) -> None:
        same = self._same(level)
        self.line(f"if ({self.condition(same)}) {{")
        self.body(self.rng.randint(1, 3), same)
        if self.rng.random() < 0.6:
            self.line("} else {")
            self.body(self.rng.randint(1, 3), same)
        self.line("}")

    def _for(self, level: int) -> None:
        same, i = self._same(level), self.fresh("i")
        limit = self.rng.choice([3, 4, 6])
        count = self.expression("u32", 1, same)
        self.line(f"for (unsigned {i} = 0, n{i} = {count} % {limit}u; {i} < n{i}; ++{i}) {{")
        self.line(f"  {self.variable('u32')} += {i};")
        # What breaks out under a divergent condition parts the threads: a loop that keeps them together has none of it.
        calm = same != NONE and self.rng.random() < 0.7
        self._looped("calm" if calm else "loop", self.rng.randint(1, 4), same if calm else NONE)
        self.line("}")

    def _looped(self, kind: str, size: int, level: int) -> None:
        self.loops.append(kind)
        self.body(size, level)
        self.loops.pop()

    def _do(self, level: int) -> None:
        g = self.fresh("g")
        self.line(f"unsigned {g} = 0; do {{")
        self._looped("loop", self.rng.randint(1, 3), NONE)
        self.line(f"}} while (++{g} < 4 && {self.condition()});")

    def _switch(self, level: int) -> None:
        same, cases = self._same(level), self.rng.randint(3, 6)
        self.line(f"switch ({self.expression('u32', 1, same)} % {cases + 1}u) {{")
        for k in range(cases):
            self.line(f"{'default' if k == cases - 1 else f'case {k}'}: {{")
            self._looped("switch", self.rng.randint(1, 2), NONE)
            self.line("} break;" if self.rng.random() < 0.6 else "}")
        self.line("}")

    def _break(self, level: int) -> None:
        if self.loops[-1] == "calm":
            self._assign(level)
        else:
            self.line(f"if ({self.condition()}) break;")

    def _continue(self, level: int) -> None:
        if self.loops[-1] != "loop":
            self._assign(level)
        else:
            self.line(f"if ({self.condition()}) continue;")

    def _return(self, level: int) -> None:
        value = self.helpers_result() if self.inside else ""
        self.line(f"if ({self.condition()}) " + (f"return {value};" if self.inside else f"{{ {self.prefix}FINISH return; }}"))

    # -- helper functions

    result: str = "u32"

    def helpers_result(self) -> str:
        return self.expression(self.result, 1)

    def function(self, name: str) -> str:
        """A whole helper function; its parameters are one variable of each type."""
        kinds = list(dict.fromkeys(self.family.types))
        attribute = self.rng.choice(["__noinline__ ", "__noinline__ ", ""])
        parameters = ", ".join(f"{C[k]} {k}_0" for k in kinds)
        self.lines.append(f"__device__ {attribute}{C[self.result]} {name}({parameters}, unsigned lane) {{")
        for variable, kind in self.family.variables():
            if not variable.endswith("_0"):
                self.line(f"{C[kind]} {variable} = {kind}_0;")
        for _ in range(self.rng.randint(1, 3)):
            self.statement(NONE)
        self.line(f"return {self.helpers_result()};")
        return "\n".join([*self.lines, "}"])


def shown(kind: str, name: str) -> str:
    """A variable's bits as one 64-bit word."""
    return f"(u64_t)raw({name})" if kind in FLOATS or kind[0] in "us" else name
