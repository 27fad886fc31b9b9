"""A little builder for functions written by hand in LLVM IR text."""

from __future__ import annotations

import struct
from collections.abc import Callable

from harness.emulator import layout as L
from harness.emulator.types import immediate_text


class Fn:
    """Lines of one function; `let` names a result, `get` and `put` reach fields of layout structures."""

    def __init__(self, header: str = "") -> None:
        self.lines: list[str] = [header] if header else []
        self.n = 0

    def __call__(self, text: str) -> None:
        self.lines.append(text)

    def let(self, text: str) -> str:
        self.n += 1
        self.lines.append(f"  %t{self.n} = {text}")
        return f"%t{self.n}"

    def new_label(self) -> str:
        self.n += 1
        return f"L{self.n}"

    def at(self, base: str, structure: type, name: str, index: str = "") -> str:
        offset, _ = L.field(structure, name)
        p = self.let(f"getelementptr i8, ptr {base}, i64 {offset}")
        return self.let(f"getelementptr i32, ptr {p}, i32 {index}") if index else p

    def get(self, base: str, structure: type, name: str, pointer: bool = False, constant: bool = False) -> str:
        kind = "ptr" if pointer else L.field(structure, name)[1]
        tail = ", !invariant.load !1" if constant else ""
        return self.let(f"load {kind}, ptr {self.at(base, structure, name)}{tail}")

    def put(self, base: str, structure: type, name: str, value: str) -> None:
        self(f"  store {L.field(structure, name)[1]} {value}, ptr {self.at(base, structure, name)}")

    def when(self, condition: str, body: Callable[[], None], likely: bool | None = None) -> None:
        """Run body if the condition holds, then go on."""
        yes, on = self.new_label(), self.new_label()
        weight = {None: "", False: ", !prof !0", True: ", !prof !2"}[likely]
        self(f"  br i1 {condition}, label %{yes}, label %{on}{weight}\n{yes}:")
        body()
        self(f"  br label %{on}\n{on}:")

    def each_lane(self, mask: str, body: Callable[[str], None]) -> None:
        """Run body for every lane in the mask (i32), lowest first; body gets the lane as i32."""

        def turn(left: str, lane: str) -> str:
            less = self.let(f"sub i32 {left}, 1")
            rest = self.let(f"and i32 {left}, {less}")
            body(lane)
            return rest

        self.while_lanes(mask, turn)

    def while_lanes(self, mask: str, turn: Callable[[str, str], str]) -> None:
        """Run turn while lanes of the mask (i32) are left; it gets these and the lowest of them (both i32), and says
        which are left after it."""
        self.n += 1
        rest = f"%rest{self.n}"
        self.lines.insert(2, f"  {rest} = alloca i32")
        head, do, on = self.new_label(), self.new_label(), self.new_label()
        self(f"  store i32 {mask}, ptr {rest}\n  br label %{head}\n{head}:")
        left = self.let(f"load i32, ptr {rest}")
        self(f"  br i1 {self.let(f'icmp eq i32 {left}, 0')}, label %{on}, label %{do}\n{do}:")
        after = turn(left, self.let(f"call i32 @llvm.cttz.i32(i32 {left}, i1 true)"))
        self(f"  store i32 {after}, ptr {rest}\n  br label %{head}\n{on}:")

    def repeat(self, count: str, body: Callable[[str], None]) -> None:
        """Run body `count` times (i32); body gets 0, 1, ... as i32."""
        self.n += 1
        turn = f"%turn{self.n}"
        self.lines.insert(2, f"  {turn} = alloca i32")
        head, do, on = self.new_label(), self.new_label(), self.new_label()
        self(f"  store i32 0, ptr {turn}\n  br label %{head}\n{head}:")
        k = self.let(f"load i32, ptr {turn}")
        self(f"  br i1 {self.let(f'icmp ult i32 {k}, {count}')}, label %{do}, label %{on}\n{do}:")
        self(f"  store i32 {self.let(f'add i32 {k}, 1')}, ptr {turn}")
        body(k)
        self(f"  br label %{head}\n{on}:")

    def text(self) -> str:
        return "\n".join(self.lines) + "\n}\n"


class Scalar(Fn):
    """A function that also computes with single values, as the arithmetic of the opcodes does (types.Writer)."""

    vec = False

    def T(self, kind: str) -> str:
        return kind

    def constant(self, value: int | float | str, kind: str) -> str:
        if kind in ("float", "double") and not isinstance(value, str):
            return immediate_text(struct.unpack(">Q", struct.pack(">d", value))[0], 64, kind)
        return str(value)

    def call(self, name: str, kind: str, *args: str) -> str:
        short = {"float": "f32", "double": "f64", "half": "f16"}.get(kind, kind)
        return self.let(f"call {kind} @llvm.{name}.{short}({', '.join(f'{kind} {a}' for a in args)})")

    def declare(self, text: str) -> None:
        """Intrinsics that a text calls are declared when it is compiled (jit.declare_intrinsics)."""
