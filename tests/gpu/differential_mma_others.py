"""Matrix instructions whose sums the probe does not search a model for, and a record of fp8 results.

`compare` runs m8n8k4 of halves, which sm_90 has no tensor cores for, f64, and the shapes of wmma on random registers,
and compares the card's with the emulator's bit for bit. `dump` writes what a card makes of tiles of fp8 to fp8.json, as
hexadecimal text, so that models can be tried where there is no card: in each shape's entry A, B, C and D are registers
[tile][register][lane] as little-endian words.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from tests.gpu import differential_mma
from tests.gpu.differential_children import RAN, Assemble, Child, Reply, Run
from tests.gpu.differential_shapes import LANES, Shape, encode, fragments, kernel_text
from tests.matrix_kit import instruction_kernel

Array = np.ndarray
Fragment = tuple[str, int]  # (kind, registers a lane)
_SECONDS = 60.0
_DRAWS = 24  # of random registers for each instruction
_EIGHTS = [Shape(k, a, b, c) for k, a, b, c in ((32, "e4m3", "e4m3", "f32"), (32, "e5m2", "e5m2", "f32"), (32, "e4m3", "e5m2", "f32"),
                                                (16, "e4m3", "e4m3", "f32"), (16, "e4m3", "e4m3", "f16"), (32, "e4m3", "e4m3", "f16"))]  # fmt: skip
_PATTERNS = 20  # tiles of any bit patterns, beside 12 of numbers


def _m8n8k4() -> dict[str, list[Fragment]]:
    """Instructions and the fragments of D, A, B and C."""
    found = {}
    for d, c in (("f32", "f32"), ("f32", "f16"), ("f16", "f16")):
        for majors in ("row.row", "row.col", "col.row", "col.col"):
            counts = [(d, 8 if d == "f32" else 4), ("f16", 2), ("f16", 2), (c, 8 if c == "f32" else 4)]
            found[f"mma.sync.aligned.m8n8k4.{majors}.{d}.f16.f16.{c}"] = counts
    return found


def _doubles() -> dict[str, list[Fragment]]:
    sizes = {"m8n8k4": (2, 1, 1), "m16n8k4": (4, 2, 1), "m16n8k8": (4, 4, 2), "m16n8k16": (4, 8, 4)}
    return {
        f"mma.sync.aligned.{shape}.row.col.f64.f64.f64.f64": [("f64", d), ("f64", a), ("f64", b), ("f64", d)]
        for shape, (d, a, b) in sizes.items()
    }


def _wmma() -> dict[str, list[Fragment]]:
    found = {}
    for shape, (a, b) in {"m16n16k16": (4, 4), "m32n8k16": (8, 2), "m8n32k16": (2, 8)}.items():
        counts = [("f32", 8), ("bf16", a), ("bf16", b), ("f32", 8)]
        found[f"wmma.mma.sync.aligned.row.col.{shape}.f32.bf16.bf16.f32"] = counts
    found["wmma.mma.sync.aligned.row.col.m16n16k8.f32.tf32.tf32.f32"] = [("f32", 8), ("tf32", 4), ("tf32", 4), ("f32", 8)]
    return found


def _registers(kind: str, count: int, rng: np.random.Generator) -> Array:
    """(count, lanes) words of numbers around one; in f64 with all bits."""
    values = rng.normal(size=(count, 2 * LANES)) * np.exp2(rng.integers(-4, 5, (count, 2 * LANES)))
    if kind == "f64":
        return values[:, :LANES].copy().view(np.uint64)
    if kind == "f16":
        return values.astype(np.float16).view(np.uint32)
    words = values.astype(np.float32).view(np.uint32)
    return words[:, :LANES].copy() if kind != "bf16" else words[:, :LANES] >> np.uint32(16) | words[:, LANES:] & np.uint32(0xFFFF0000)


def compare(emulator: Child, other: Child, folder: Path) -> dict[str, str]:
    """For each instruction how many registers differ."""
    instructions = {**_m8n8k4(), **_doubles(), **_wmma()}
    return {op: _compared(op, parts, emulator, other, folder / f"other_{n}") for n, (op, parts) in enumerate(instructions.items())}


def _compared(op: str, parts: list[Fragment], emulator: Child, other: Child, stem: Path) -> str:
    result, *operands = parts
    stem.with_suffix(".ptx").write_text(instruction_kernel(op, result, operands))
    built = emulator.call(Assemble(stem), _SECONDS)
    rng, total, first = np.random.default_rng(1), 0, ""
    for draw in range(_DRAWS):
        words = [_registers(kind, count, rng) for kind, count in operands]
        out = np.zeros((result[1], LANES), np.uint64 if result[0] == "f64" else np.uint32)
        request = Run(stem, "k", (out, *words), 1, LANES)
        replies = [built] if built.status != RAN else [child.call(request, _SECONDS) for child in (emulator, other)]
        if lost := next((r for r in replies if r.status != RAN), None):
            return f"lost: {lost.status} {lost.note[-200:]}"
        ours, card = (reply.arrays[0] for reply in replies)
        apart = np.argwhere(ours != card)
        total += len(apart)
        if len(apart) and not first:
            r, lane = apart[0]
            first = f", the first: draw {draw}, register {r}, lane {lane}: emulator {int(ours[r, lane]):#x}, card {int(card[r, lane]):#x}"
    return f"{total} of {_DRAWS * out.size} unequal{first}"


def probe(emulator: Child, other: Child, folder: Path, out: Path) -> bool:
    """The probe of differential_mma.py, and the comparison; its results go to mma_others.json."""
    differs = differential_mma.probe(emulator, other, folder, out)
    found = compare(emulator, other, folder)
    for op, text in found.items():
        print(f"{op}\n   {text}")
    (out / "mma_others.json").write_text(json.dumps(found, indent=1))
    return differs or not all(text.startswith("0 ") for text in found.values())


def dump(emulator: Child, other: Child, folder: Path, out: Path) -> bool:
    """Write fp8.json; whether something was lost."""
    found: dict[str, Any] = {}
    for n, shape in enumerate(_EIGHTS):
        stem = folder / f"fp8_{n}"
        stem.with_suffix(".ptx").write_text(kernel_text(shape))
        registers = _tiles(shape)
        request = Run(stem, "k", (*registers, np.zeros_like(registers[2])), len(registers[0]), LANES)
        reply: Reply = emulator.call(Assemble(stem), _SECONDS)
        reply = reply if reply.status != RAN else other.call(request, _SECONDS)
        if reply.status != RAN:
            found[shape.opcode] = {"lost": reply.note}
            continue
        found[shape.opcode] = {x: words.astype("<u4").tobytes().hex() for x, words in zip("ABCD", reply.arrays, strict=True)}
        print(f"{shape.opcode}: {len(registers[0])} tiles")
    (out / "fp8.json").write_text(json.dumps(found))
    return any("lost" in entry for entry in found.values())


def _tiles(shape: Shape) -> tuple[Array, Array, Array]:
    """Registers of 12 tiles of numbers of three kinds, and of some of any bit patterns; a file of all is half a megabyte."""
    numbers = [encode(x[::2], kind) for x, kind in zip(differential_mma.data(shape), (shape.a, shape.b, shape.c), strict=True)]
    bits = [np.concatenate(both) for both in zip(numbers, differential_mma.patterns(shape, _PATTERNS), strict=True)]
    return fragments(shape, *bits)
