"""Statements by which the threads of a random kernel see each other, and memory of their own.

Whole warps or blocks exchange values where they are together; cells that several threads add to are changed by one
commutative operation each, and read after a barrier; what an atomic operation returns is used only of a cell that no
other thread touches.
"""

from __future__ import annotations

from tests.random_ptx.types import BITS, WORD, C
from tests.random_ptx.writer import BLOCK, NONE, WARP, Writer

FULL = "0xffffffffu"
SHUFFLED = ("u32", "s32", "u64", "s64", "f32", "f64", "f16", "bf16", "f16x2")
_NEEDS = {
    "shuffle": WARP, "vote": WARP, "masked": WARP, "tile": WARP, "match": WARP, "redux": WARP, "warpwide": WARP,
    "warpshared": WARP, "exchange": BLOCK, "mixed": BLOCK, "count": BLOCK, "gathered": BLOCK, "atomic": NONE, "own": NONE,
    "load": NONE, "vector": NONE, "store": NONE, "reload": NONE, "floatatomic": NONE,
}  # fmt: skip
_SHUFFLES = ("__shfl_sync", "__shfl_up_sync", "__shfl_down_sync", "__shfl_xor_sync")
_COMMUTATIVE = ("Add", "Min", "Max", "And", "Or", "Xor", "Add", "Max")  # of cell n % 8
_RETURNING = ("Add", "Sub", "Exch", "Min", "Max", "And", "Or", "Xor", "Inc", "Dec", "CAS")
_VECTORS = {"uint2": "xy", "uint4": "xyzw", "ushort4": "xyzw", "uchar4": "xyzw", "float4": "xyzw", "ulonglong2": "xy", "int4": "xyzw", "short2": "xy"}
_REDUCTIONS = ("add", "min", "max", "and", "or", "xor")


class Exchanger(Writer):
    """A writer of kernels."""

    def extra(self) -> dict[str, tuple[int, int]]:
        return {name: (weight, _NEEDS[name]) for name, weight in self.family.statements.items()}

    # -- warps

    def _shuffled(self, mask: str, width: int = 32) -> None:
        kind = self.kind(SHUFFLED)
        name, r = self.rng.choice(_SHUFFLES), self.rng
        by = str(r.choice([0, 1, 2, 3, 4, 8, 15, 16, 31])) if r.random() < 0.6 else f"({self.expression('u32', 1)} & 31u)"
        if width < 32 and name == "__shfl_xor_sync":  # which may leave its part of the warp downwards
            by = f"({by} & {width - 1}u)"
        widths = [w for w in (2, 4, 8, 16, 32) if w <= width]
        self.line(f"{self.variable(kind)} = {name}({mask}, {self.expression(kind, 1)}, {by}, {r.choice([width, *widths])});")

    def _shuffle(self, level: int) -> None:
        self._shuffled(FULL)

    def _voted(self, mask: str) -> None:
        name = self.rng.choice(["__ballot_sync", "__ballot_sync", "__any_sync", "__all_sync"])
        self.line(f"{self.variable('u32')} ^= (unsigned){name}({mask}, {self.condition()});")

    def _vote(self, level: int) -> None:
        self._voted(FULL)

    def _matched(self, mask: str) -> None:
        kind = self.kind(("u32", "u64", "s32"))
        value = f"({C[kind]})({self.expression(kind, 1)} & 3)" if self.rng.random() < 0.6 else self.expression(kind, 1)
        if self.rng.random() < 0.6:
            self.line(f"{self.variable('u32')} = __match_any_sync({mask}, {value});")
        else:
            p = self.fresh("p")
            self.line(f"int {p}; {self.variable('u32')} = __match_all_sync({mask}, {value}, &{p}) + (unsigned){p};")

    def _match(self, level: int) -> None:
        self._matched(FULL)

    def _reduced(self, mask: str) -> None:
        op = self.rng.choice(_REDUCTIONS)
        kind = self.kind(("u32", "s32")) if op in ("add", "min", "max") else "u32"
        self.line(f"{self.variable(kind)} = __reduce_{op}_sync({mask}, {self.expression(kind, 1)});")

    def _redux(self, level: int) -> None:
        self._reduced(FULL)

    def _some(self, mask: str) -> None:
        """One operation by the lanes of a mask, of whose lanes any may be missing in the warp."""
        what = self.rng.choice([self._voted, self._matched, self._reduced, self._first])
        what(mask)

    def _first(self, mask: str) -> None:
        kind = self.kind(SHUFFLED)
        self.line(f"{self.variable(kind)} = __shfl_sync({mask}, {self.expression(kind, 1)}, __ffs((int){mask}) - 1);")

    def _masked(self, level: int) -> None:
        """Lanes on both sides of a divergent branch work among themselves."""
        c, m = self.fresh("c"), self.fresh("m")
        self.line(f"const bool {c} = {self.condition()}; const unsigned {m} = __ballot_sync({FULL}, {c});")
        self.line(f"if ({c}) {{")
        self.depth += 1
        for _ in range(self.rng.randint(1, 2)):
            self._some(m)
        self.depth -= 1
        self.line("} else {")
        self.depth += 1
        self._some(f"(~{m})") if self.rng.random() < 0.5 else self._assign(NONE)
        self.depth -= 1
        self.line("}")

    def _tile(self, level: int) -> None:
        """Tiles of the warp, each with a mask of its own."""
        m, size = self.fresh("m"), self.rng.choice([4, 8, 16])
        self.line(f"const unsigned {m} = {(1 << size) - 1:#x}u << (lane & {32 - size}u);")
        what = self.rng.choice([self._voted, self._matched, self._reduced, lambda mask: self._shuffled(mask, size)])
        what(m)

    def _warpwide(self, level: int) -> None:
        """A value that depends on data and is the same in the warp."""
        value, condition = self.expression("u32", 1), self.condition()
        self.line("w0 = " + self.rng.choice([
            f"__reduce_add_sync({FULL}, {value});", f"__shfl_sync({FULL}, {value}, {self.rng.randrange(32)});",
            f"__ballot_sync({FULL}, {condition});"]))  # fmt: skip

    def _warpshared(self, level: int) -> None:
        kind = self.kind()
        at = f"wrow[warp].{WORD[BITS[kind]]}"
        k = self.rng.choice([1, 5, 16, 31])
        index = f"((lane + {k}u) & 31u)" if self.rng.random() < 0.5 else f"({self.index(32)})"
        self.line(f"{at}[lane] = raw({self.expression(kind, 1)}); __syncwarp(); {self.variable(kind)} = as_{kind}({at}[{index}]); __syncwarp();")

    # -- blocks

    def _exchange(self, level: int) -> None:
        kind = self.kind()
        at = f"row.{WORD[BITS[kind]]}"
        index = f"(t + {self.rng.choice([1, 5, 32, 33])}u) % T" if self.rng.random() < 0.5 else f"{self.expression('u32', 1)} % T"
        self.line(f"{at}[t] = raw({self.expression(kind, 1)}); __syncthreads(); {self.variable(kind)} = as_{kind}({at}[{index}]); __syncthreads();")

    def _mixed(self, level: int) -> None:
        """Written in one width, read in another."""
        if not self.family.reinterprets:
            self._exchange(level)
            return
        r = self.rng
        name, letters = r.choice([("uint4", "xyzw"), ("uint2", "xy"), ("ushort4", "xyzw")])
        values = ", ".join(self.expression("u32", 1) for _ in letters)
        store = f"row.{name}_[{'t'}] = make_{name}({values});"
        if r.random() < 0.3:
            store = f"if ({self.condition()}) {{ {store} }}"
        kind = self.kind()
        word = WORD[BITS[kind]]
        read = f"{self.variable(kind)} = as_{kind}(row.{word}[{self.expression('u32', 1)} % ({16 * 8 // BITS[kind]}u * T)]);"
        if r.random() < 0.3:
            read = f"{{ const uint4 q = row.uint4_[{self.expression('u32', 1)} % T]; {self.variable('u32')} = q.x ^ q.y; {self.variable('u32')} += q.z * 3u + q.w; }}"
        self.line(f"{store} __syncthreads(); {read} __syncthreads();")

    def _count(self, level: int) -> None:
        name = self.rng.choice(["__syncthreads_count", "__syncthreads_and", "__syncthreads_or"])
        self.line(f"{self.variable('u32')} += (unsigned){name}({self.condition()});")

    def _gathered(self, level: int) -> None:
        kind = self.kind(("u32", "u64"))
        at = f"sums.u32[{self.index(32)}]" if kind == "u32" else f"sums.u64[16 + ({self.index(8)})]"
        self.line(f"__syncthreads(); {self.variable(kind)} = {at}; __syncthreads();")

    # -- atomics and memory

    def _atomic(self, level: int) -> None:
        """One of the cells that all threads change, of the block or of the grid."""
        n, place = self.rng.randrange(8), self.rng.choice(["sums", "total->"])
        place = place.removesuffix("->") + ("->" if place.endswith("->") else ".")
        wide = "u64" in self.family.types and self.rng.random() < 0.3
        kind = "u64" if wide else "s32" if n == 7 and "s32" in self.family.types else "u32"
        at = f"16 + {n}" if wide else f"8 * ({self.index(4)}) + {n}"
        self.line(f"atomic{_COMMUTATIVE[n]}(&{place}{kind}[{at}], {self.expression(kind, 1)});")

    def _own(self, level: int) -> None:
        """What atomics return, of cells of the thread's own."""
        wide = "u64" in self.family.types and self.rng.random() < 0.3
        kind = "u64" if wide else "u32"
        op = self.rng.choice([o for o in _RETURNING if not wide or o in ("Add", "Exch", "Min", "Max", "And", "Or", "Xor", "CAS")])
        shared = self.rng.random() < 0.4
        place = f"own[t].{kind}[0]" if shared else f"mine->{kind}[{self.index(16 if not wide else 8)}]"
        operands = [self.expression(kind, 1)] + ([self.expression(kind, 1)] if op == "CAS" else [])
        if op == "CAS" and not shared and self.rng.random() < 0.5:  # what is compared with is mostly not there
            operands[0] = place
        self.line(f"{self.variable(kind)} = atomic{op}(&{place}, {', '.join(operands)});")

    def _floatatomic(self, level: int) -> None:
        """A sum in a cell of the thread's own: what was there, and in global memory what is there then."""
        kind, value = self.kind(("f32", "f64")), self.variable
        if kind == "f64" or self.rng.random() < 0.5:
            self.line(f"{value(kind)} = atomicAdd(&own[t].{kind}[0], {self.expression(kind, 1)});")
            return
        place = f"mine->f32[{self.index(16)}]"
        self.line(f"{place} = {self.expression(kind, 1)}; {value(kind)} = atomicAdd(&{place}, {self.expression(kind, 1)}); {value(kind)} = {place};")

    def _load(self, level: int) -> None:
        """An input in any width."""
        kind = self.kind()
        word, count = WORD[BITS[kind]], f"WORDS * {32 // BITS[kind]}u" if BITS[kind] <= 32 else "(WORDS / 2u)"
        self.line(f"{self.variable(kind)} = as_{kind}(((const {C[word]}*)in)[{self.expression('u32', 1)} % ({count})]);")

    def _vector(self, level: int) -> None:
        r = self.rng
        fitting = [n for n in _VECTORS if n != "float4" or "f32" in self.family.types]
        name, q = r.choice(fitting), self.fresh("q")
        size = {"uint2": 8, "ushort4": 8, "uchar4": 4, "short2": 4}.get(name, 16)
        kind = {"float4": "f32", "ulonglong2": "u64"}.get(name, "u32")
        if kind not in self.family.types:
            name, size, kind = "uint4", 16, "u32"
        letters = _VECTORS[name]
        self.line(f"const {name} {q} = ((const {name}*)in)[{self.expression('u32', 1)} % (WORDS / {size // 4}u)];")
        for letter in r.sample(letters, r.randint(1, 2)):
            self.line(f"{self.variable(kind)} = ({C[kind]}){q}.{letter};")

    def _store(self, level: int) -> None:
        r = self.rng
        if self.family.reinterprets and r.random() < 0.4:
            name, count = r.choice([("uint2", 8), ("uint4", 4), ("ushort4", 8), ("uchar4", 16)])
            values = ", ".join(self.expression("u32", 1) for _ in _VECTORS[name])
            self.line(f"mine->{name}_[{self.index(count)}] = make_{name}({values});")
            return
        kind = self.kind() if self.family.reinterprets else "u32"
        self.line(f"mine->{WORD[BITS[kind]]}[{self.index(512 // BITS[kind])}] = raw({self.expression(kind, 1)});")

    def _reload(self, level: int) -> None:
        kind = self.kind() if self.family.reinterprets else "u32"
        if self.family.reinterprets and self.rng.random() < 0.3:
            q = self.fresh("q")
            self.line(f"const uint4 {q} = mine->uint4_[{self.index(4)}]; {self.variable('u32')} ^= {q}.x + {q}.y * 5u; {self.variable('u32')} = {q}.z ^ {q}.w;")
            return
        self.line(f"{self.variable(kind)} = as_{kind}(mine->{WORD[BITS[kind]]}[{self.index(512 // BITS[kind])}]);")
