"""Random structured kernels, each written twice from one tree: as CUDA C++, and as a Python generator for one thread.

All values are unsigned 32-bit. Conditions are uniform or vary from lane to lane; loops have divergent trip counts,
break and continue; switches fall through; threads return early; helper functions are inlined or not. Where the
control flow is the same for all threads of a block, lanes also exchange values by shuffle, or by shared memory and
__syncthreads(): the generator then yields, and `expect` plays the block. An emulator that lets lanes part too early
or meet too late gives a wrong value there, or a false finding.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

MASK = 0xFFFFFFFF
VARIABLES = 4  # v0.. per thread
UNIFORMS = 3  # u0.. the same in the whole block
CELLS = 4  # of the thread's own array in local memory


@dataclass(frozen=True)
class Program:
    """One kernel: its name, the CUDA text of its helpers and itself, and the Python text of both."""

    name: str
    cuda: str
    python: str


@dataclass
class _Writer:
    """Grows both texts side by side."""

    rng: random.Random
    prefix: str
    c: list[str] = field(default_factory=list)
    py: list[str] = field(default_factory=list)
    depth: int = 1
    counter: int = 0
    loops: list[str] = field(default_factory=list)  # innermost last: "for", "do" or "switch"
    do_conditions: list[str] = field(default_factory=list)
    helpers: int = 0
    returns: bool = False  # whether threads of the kernel may return early (then nothing is exchanged)
    inside: bool = False  # a helper function

    def line(self, c: str, py: str) -> None:
        self.c.append("  " * self.depth + c)
        self.py.extend("    " * self.depth + part for part in py.split("\n"))

    def fresh(self, stem: str) -> str:
        self.counter += 1
        return f"{stem}{self.counter}"

    # -- expressions: (C, Python)

    def leaf(self, uniform: bool) -> tuple[str, str]:
        r = self.rng
        pick = r.random()
        if pick < 0.25:
            k = str(r.choice([0, 1, 2, 3, 5, 7, 31, 32, 0x80000000, MASK, r.getrandbits(32)]))
            return k + "u", k
        if uniform and not self.inside:
            name = r.choice([f"u{k}" for k in range(UNIFORMS)] + ["block"])
            return name, name
        name = r.choice([f"v{k}" for k in range(VARIABLES)] + ["lane"] + ([] if self.inside else [f"u{k}" for k in range(UNIFORMS)]))
        return name, name

    def expression(self, uniform: bool, size: int = 2) -> tuple[str, str]:
        r = self.rng
        if size == 0 or r.random() < 0.2:
            return self.leaf(uniform)
        (a, pa), (b, pb) = self.expression(uniform, size - 1), self.expression(uniform, size - 1)
        match r.randrange(12):
            case 0 | 1:
                return f"({a} + {b})", f"({pa} + {pb} & M)"
            case 2:
                return f"({a} - {b})", f"({pa} - {pb} & M)"
            case 3:
                return f"({a} * {b})", f"({pa} * {pb} & M)"
            case 4:
                return f"({a} ^ {b})", f"({pa} ^ {pb})"
            case 5:
                return f"({a} & ~{b})", f"({pa} & ~{pb})"
            case 6:
                return f"({a} << ({b} & 31))", f"({pa} << ({pb} & 31) & M)"
            case 7:
                return f"({a} >> ({b} & 31))", f"({pa} >> ({pb} & 31))"
            case 8:
                return f"({a} / (({b} & 15) + 1))", f"({pa} // (({pb} & 15) + 1))"
            case 9:
                return f"({a} % (({b} & 7) + 1))", f"({pa} % (({pb} & 7) + 1))"
            case 10:
                (c, pc) = self.condition(uniform, 1)
                return f"({c} ? {a} : {b})", f"({pa} if {pc} else {pb})"
        return f"min({a}, {b})", f"min({pa}, {pb})"

    def condition(self, uniform: bool, size: int = 2) -> tuple[str, str]:
        r = self.rng
        (a, pa), (b, pb) = self.expression(uniform, 1), self.expression(uniform, 1)
        if size > 1 and r.random() < 0.3:
            (x, px), (y, py) = self.condition(uniform, 1), self.condition(uniform, 1)
            op, word = r.choice([("&&", "and"), ("||", "or")])
            return f"({x} {op} {y})", f"({px} {word} {py})"
        match r.randrange(5):
            case 0:
                bit = 1 << r.randrange(5)
                return f"(({a} & {bit}) != 0)", f"({pa} & {bit} != 0)"
            case 1:
                return f"((int){a} < (int){b})", f"(S({pa}) < S({pb}))"
            case 2:
                return f"({a} % 3 == 1)", f"({pa} % 3 == 1)"
        op = r.choice(["<", ">=", "=="])
        return f"({a} {op} {b})", f"({pa} {op} {pb})"

    # -- statements. `together`: all threads of the block run this

    def block(self, size: int, together: bool) -> None:
        self.depth += 1
        self.py.append("    " * self.depth + "pass")
        for _ in range(size):
            self.statement(together)
        self.depth -= 1

    def statement(self, together: bool) -> None:
        r = self.rng
        deep = self.depth > (2 if self.inside else 3)
        choices = ["assign"] * 5 + ["cell"] * 2 + (["call"] * 2 if self.helpers else [])
        if not deep:
            choices += ["if"] * 5 + ["for"] * 3 + ["do"] * 2 + ["switch"] * 2
        if self.loops:
            choices += ["break"] * 2 + ["continue"]
        if self.inside or self.returns:
            choices += ["return"]
        if together and not self.inside:
            choices += ["uniform"] * 2 + ([] if self.returns else ["shuffle", "exchange", "ballot"])
        getattr(self, "_" + r.choice(choices))(together)

    def _assign(self, together: bool) -> None:
        name = f"v{self.rng.randrange(VARIABLES)}"
        c, py = self.expression(False, 2)
        self.line(f"{name} = {c};", f"{name} = {py}")

    def _uniform(self, together: bool) -> None:
        name = f"u{self.rng.randrange(UNIFORMS)}"
        c, py = self.expression(True, 2)
        self.line(f"{name} = {c};", f"{name} = {py}")

    def _cell(self, together: bool) -> None:
        (index, pindex), (c, py) = self.expression(False, 1), self.expression(False, 1)
        name = f"v{self.rng.randrange(VARIABLES)}"
        if self.inside:
            self._assign(together)
        elif self.rng.random() < 0.5:
            self.line(f"cell[{index} & {CELLS - 1}] = {c};", f"cell[{pindex} & {CELLS - 1}] = {py}")
        else:
            self.line(f"{name} += cell[{index} & {CELLS - 1}];", f"{name} = {name} + cell[{pindex} & {CELLS - 1}] & M")

    def _call(self, together: bool) -> None:
        name = f"v{self.rng.randrange(VARIABLES)}"
        (a, pa), (b, pb) = self.expression(False, 1), self.expression(False, 1)
        f = f"{self.prefix}_f{self.rng.randrange(self.helpers)}"
        self.line(f"{name} = {f}({a}, {b}, lane);", f"{name} = {f}({pa}, {pb}, lane)")

    def _if(self, together: bool) -> None:
        uniform = together and self.rng.random() < 0.4
        c, py = self.condition(uniform)
        self.line(f"if ({c}) {{", f"if {py}:")
        self.block(self.rng.randint(1, 3), uniform)
        if self.rng.random() < 0.6:
            self.line("} else {", "else:")
            self.block(self.rng.randint(1, 3), uniform)
        self.line("}", "")

    def _for(self, together: bool) -> None:
        uniform = together and self.rng.random() < 0.5
        (n, pn), i = self.expression(uniform, 1), self.fresh("i")
        limit = self.rng.choice([3, 5, 7])
        self.line(f"for (unsigned {i} = 0, n{i} = {n} % {limit}; {i} < n{i}; ++{i}) {{", f"for {i} in range({pn} % {limit}):")
        self.depth += 1
        name = f"v{self.rng.randrange(VARIABLES)}"
        self.line(f"{name} += {i};", f"{name} = {name} + {i} & M")
        self.depth -= 1
        self.loops.append("for")
        # What breaks out or continues under a divergent condition inside splits the block: nothing is exchanged then.
        self.block(self.rng.randint(1, 4), uniform and self.rng.random() < 0.5 and self._calm())
        self.loops.pop()
        self.line("}", "")

    def _calm(self) -> bool:
        """From here on no break or continue, so that the threads of the block stay together in the loop."""
        self.loops[-1] = "calm"
        return True

    def _do(self, together: bool) -> None:
        c, py = self.condition(False, 1)
        g = self.fresh("g")
        self.line(f"unsigned {g} = 0; do {{", f"{g} = 0\nwhile True:")
        leave = f"{g} += 1\nif not ({g} < 4 and {py}): break"
        self.loops.append("do")
        self.do_conditions.append(leave)
        self.block(self.rng.randint(1, 3), False)
        self.loops.pop()
        self.do_conditions.pop()
        self.depth += 1
        self.line("", leave)
        self.depth -= 1
        self.line(f"}} while (++{g} < 4 && {c});", "")

    def _switch(self, together: bool) -> None:
        uniform = together and self.rng.random() < 0.4
        (c, py), s = self.expression(uniform, 1), self.fresh("s")
        cases = self.rng.randint(3, 6)
        self.line(f"switch ({c} % {cases + 1}) {{", f"{s} = {py} % {cases + 1}; go{s} = False\nfor _ in (0,):")
        self.loops.append("switch")
        for k in range(cases):
            last = k == cases - 1
            label = "default" if last else f"case {k}"
            self.depth += 1
            self.line(f"{label}: {{", f"if go{s} or {last} or {s} == {k}:\n    go{s} = True")
            self.block(self.rng.randint(1, 2), False)
            if self.rng.random() < 0.6:
                self.depth += 1
                self.line("break;", "break")
                self.depth -= 1
            self.line("}", "")
            self.depth -= 1
        self.loops.pop()
        self.line("}", "")

    def _break(self, together: bool) -> None:
        if self.loops[-1] == "calm":
            self._assign(together)
            return
        c, py = self.condition(False, 1)
        self.line(f"if ({c}) break;", f"if {py}: break")

    def _continue(self, together: bool) -> None:
        kind = self.loops[-1]
        if kind in ("calm", "switch"):
            self._assign(together)
            return
        c, py = self.condition(False, 1)
        leave = "" if kind == "for" else "\n".join("    " + part for part in self.do_conditions[-1].split("\n")) + "\n"
        self.line(f"if ({c}) continue;", f"if {py}:\n{leave}    continue")

    def _return(self, together: bool) -> None:
        c, py = self.condition(False, 1)
        value, pvalue = self.expression(False, 1)
        if self.inside:
            self.line(f"if ({c}) return {value};", f"if {py}: return {pvalue}")
        else:
            self.line(f"if ({c}) {{ out[at] = {value}; return; }}", f"if {py}: return {pvalue}")

    def _shuffle(self, together: bool) -> None:
        a, b = (f"v{self.rng.randrange(VARIABLES)}" for _ in range(2))
        k = self.rng.choice([1, 2, 4, 8, 16, 31])
        self.line(f"{a} = __shfl_xor_sync(0xffffffffu, {b}, {k});", f"{a} = yield 'shuffle', {b}, {k}")

    def _ballot(self, together: bool) -> None:
        c, py = self.condition(False, 1)
        a = f"v{self.rng.randrange(VARIABLES)}"
        self.line(f"{a} = __ballot_sync(0xffffffffu, {c});", f"{a} = yield 'ballot', {py}, 0")

    def _exchange(self, together: bool) -> None:
        a, b = (f"v{self.rng.randrange(VARIABLES)}" for _ in range(2))
        k = self.rng.choice([1, 5, 32, 33])
        self.line(f"shared[t] = {b}; __syncthreads(); {a} = shared[(t + {k}) % T]; __syncthreads();", f"{a} = yield 'exchange', {b}, {k}")


def program(seed: int) -> Program:
    """The kernel of a seed."""
    rng = random.Random(seed)
    name = f"k{seed}_"
    cuda, python = [], []
    helpers = rng.randrange(3)
    for n in range(helpers):
        w = _Writer(rng, name, helpers=n, inside=True)
        attribute = rng.choice(["__noinline__ ", "", "__noinline__ "])
        w.c.append(f"__device__ {attribute}unsigned {name}_f{n}(unsigned v0, unsigned v1, unsigned lane) {{ unsigned v2 = v0 ^ lane, v3 = v1 + 1;")
        w.py.append(f"def {name}_f{n}(v0, v1, lane):\n    v2 = v0 ^ lane; v3 = v1 + 1 & M")
        for _ in range(rng.randint(1, 3)):
            w.statement(False)
        w.line("return v0 + 3 * v1 ^ v2 - v3; }", "return (v0 + 3 * v1) ^ (v2 - v3) & M")
        w.py[-1] = "    return (v0 + 3 * v1 & M) ^ (v2 - v3 & M)"
        cuda += w.c
        python += w.py
    w = _Writer(rng, name, helpers=helpers, returns=rng.random() < 0.4)
    arguments = "const unsigned* __restrict__ in, unsigned* out, unsigned u0, unsigned u1"
    w.c.append(f'extern "C" __global__ void {name}({arguments}) {{')
    w.c.append("  __shared__ unsigned shared[T]; const unsigned t = threadIdx.x, block = blockIdx.x, lane = t & 31, at = block * T + t;")
    w.c.append(f"  unsigned v0 = in[at], v1 = in[at] >> 3, v2 = t, v3 = 7, u2 = in[block], cell[{CELLS}] = {{1, 2, 3, 4}}; shared[t] = 0;")
    w.py.append(f"def {name}(t, block, data, u0, u1, T):\n    lane = t & 31; at = block * T + t; cell = [1, 2, 3, 4]; u2 = data[block]")
    w.py.append("    v0 = data[at]; v1 = v0 >> 3; v2 = t; v3 = 7\n    if False: yield")
    for _ in range(rng.randint(3, 5)):
        w.statement(True)
    w.line("out[at] = v0 ^ v1 * 3 ^ v2 * 5 ^ v3 * 7 ^ u0 ^ u1 ^ u2 ^ cell[v0 & 3]; }", "")
    w.py.append("    return v0 ^ v1 * 3 & M ^ v2 * 5 & M ^ v3 * 7 & M ^ u0 ^ u1 ^ u2 ^ cell[v0 & 3]")
    return Program(name, "\n".join(cuda + w.c), "\n".join(python + w.py))


def module(programs: list[Program], threads: int) -> str:
    """One CUDA text with all the kernels."""
    return f"#define T {threads}\n" + "\n".join(p.cuda for p in programs)


def expect(p: Program, data: np.ndarray, u0: int, u1: int, blocks: int, threads: int) -> np.ndarray:
    """What every thread stores, from the Python text."""
    space: dict[str, object] = {"M": MASK, "S": lambda v: v - (1 << 32) if v >> 31 else v}
    exec(p.python, space)
    values = [int(v) for v in data]
    found: list[int] = []
    for block in range(blocks):
        found += _play([space[p.name](t, block, values, u0, u1, threads) for t in range(threads)])  # type: ignore[operator]
    return np.array(found, np.uint64).astype(np.uint32)


def _play(threads: list[Iterator[tuple[str, int, int]]]) -> list[int]:
    """Run the generators of a block together: each yields what it gives and is sent what it gets."""
    done: dict[int, int] = {}
    answers: list[int | None] = [None] * len(threads)
    while len(done) < len(threads):
        asked = {}
        for n, thread in enumerate(threads):
            if n in done:
                continue
            try:
                asked[n] = thread.send(answers[n])  # type: ignore[attr-defined]
            except StopIteration as end:
                done[n] = end.value & MASK
        assert not asked or (len(asked) == len(threads) and len({(a[0], a[2]) for a in asked.values()}) == 1), "the generator parts"
        for n, (kind, _, k) in asked.items():
            if kind == "shuffle":
                answers[n] = asked[n ^ k][1]
            elif kind == "exchange":
                answers[n] = asked[(n + k) % len(threads)][1]
            else:
                answers[n] = sum(bool(asked[n // 32 * 32 + lane][1]) << lane for lane in range(32))
    return [done[n] for n in range(len(threads))]
