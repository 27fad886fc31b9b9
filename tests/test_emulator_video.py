"""The video instructions of the emulator against plain Python, in every shape (tests/ptx_table.py)."""

from __future__ import annotations

import pytest

from tests.ptx_table import Model, Row, cells, check

THREE = ("b32",) * 3


def signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def _video(name: str, parts: int, kinds: tuple[str, str, str], mods: tuple[str, ...] = ()) -> Model:
    """vadd, vadd2, vadd4 and their like, part by part as the PTX ISA spells them. kinds: of d, a and b."""
    width = 32 // parts
    operations: dict[str, Model] = {
        "vadd": lambda x, y: x + y, "vsub": lambda x, y: x - y, "vmin": min, "vmax": max, "vabsdiff": lambda x, y: abs(x - y),
        "vavrg": lambda x, y: (x + y + (x + y >= 0)) >> 1,
        "vset": lambda x, y: {"lt": x < y, "ne": x != y, "ge": x >= y}[mods[0]],
    }  # fmt: skip

    def part(value: int, k: int, kind: str) -> int:
        field = value >> width * k & ((1 << width) - 1)
        return signed(field, width) if kind == "s32" else field

    def saturated(value: int) -> int:
        low, high = (-(1 << width - 1), (1 << width - 1) - 1) if kinds[0] == "s32" else (0, (1 << width) - 1)
        if kinds[0] == "u32" and parts == 1:  # as ptxas has it for sm_90: what is too large wraps
            high = max(value, 0)
        return min(max(value, low), high) if "sat" in mods else value

    def model(a: int, b: int, c: int) -> int:
        found = [saturated(operations[name](part(a, k, kinds[1]), part(b, k, kinds[2]))) for k in range(parts)]
        if "add" in mods:
            return c + sum(found)
        if {"min", "max"} & set(mods):
            pick: Model = min if "min" in mods else max
            value = signed(found[0], 32) if name in ("vadd", "vsub") else found[0]
            if kinds[0] == "u32":  # as ptxas has it for sm_90: compared in 64 bits
                return int(pick(value & (1 << 64) - 1, c & 0xFFFFFFFF)) & 0xFFFFFFFF
            return int(pick(value, signed(c, 32)))
        return sum((v & ((1 << width) - 1)) << width * k for k, v in enumerate(found))

    return model


def _video_rows() -> list[Row]:
    rows = []
    for name in ("vadd", "vsub", "vmin", "vmax", "vabsdiff", "vavrg"):
        for parts in (1, 2, 4) if name != "vavrg" else (2, 4):
            for kinds in (("u32", "u32", "u32"), ("s32", "u32", "s32")):
                for mods in ((), ("sat",), ("max",), ("sat", "min")) if parts == 1 else ((), ("sat",), ("add",)):
                    op = ".".join([f"{name}{parts if parts > 1 else ''}", *kinds, *mods])
                    rows.append(Row(f"{op} {{d}}, {{a}}, {{b}}, {{c}}", "b32", THREE, _video(name, parts, kinds, mods)))
    for parts in (2, 4):
        for a, b in (("u32", "u32"), ("s32", "s32"), ("u32", "s32")):
            for mods in (("lt",), ("ne",), ("ge", "add")):
                op = ".".join([f"vset{parts}", a, b, *mods])
                rows.append(Row(op, "b32", THREE, _video("vset", parts, ("u32", a, b), mods)))
    return rows


TABLES = {"video": _video_rows()}


@pytest.mark.parametrize(("table", "shape"), cells(TABLES))
def test_video_instructions(table: str, shape: str, request: pytest.FixtureRequest) -> None:
    check(TABLES[table], shape, request)
