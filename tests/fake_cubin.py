"""The smallest ELF file that looks like a cubin: a symbol table with the given kernels, and nothing to run."""

from __future__ import annotations

import struct


def fake_cubin(*kernels: str, undefined: tuple[str, ...] = ()) -> bytes:
    """A complete cubin with these (mangled) kernel names, which calls these functions that it does not have; its
    section table is at the end."""
    names = b"\0" + b"".join(name.encode() + b"\0" for name in kernels + undefined)
    symbols, position = bytes(24), 1
    for name in kernels + undefined:
        symbols += struct.pack("<IBBHQQ", position, 0x12, *((0x10, 1, 0, 128) if name in kernels else (0, 0, 0, 0)))
        position += len(name) + 1
    strings_at, symbols_at = 64, 64 + len(names)
    table_at = symbols_at + len(symbols)
    sections = [(3, strings_at, len(names), 0), (2, symbols_at, len(symbols), 1)]
    table = bytes(64) + b"".join(
        struct.pack("<IIQQQQIIQQ", 0, kind, 0, 0, offset, size, link, 0, 1, 0) for kind, offset, size, link in sections
    )
    identity = b"\x7fELF\x02\x01\x01" + bytes(9)
    header = struct.pack("<16sHHIQQQIHHHHHH", identity, 2, 190, 1, 0, 0, table_at, 0, 64, 56, 0, 64, 3, 0)
    return header + names + symbols + table
