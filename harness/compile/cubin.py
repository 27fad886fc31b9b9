"""Reads a cubin, which is an ELF file: is it complete, which kernels has it, what does it want from outside.

nvcc returns 0 with a cut-off cubin where a file-size limit stops its writing, so completeness is checked here
before any driver sees the file.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

_MAGIC = b"\x7fELF\x02\x01"  # 64-bit, little-endian
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_NOBITS, _SYMTAB, _OBJECT, _FUNC, _KERNEL_FLAG = 8, 2, 1, 2, 0x10
_SECTION_BOUND = 65_536


class IncompleteCubin(ValueError):
    """The file is no cubin or only the beginning of one; the message says what is wrong."""


@dataclass(frozen=True)
class DeviceObject:
    """A variable. `section`: ".nv.global" for one that starts as zeros, ".nv.global.init", ".nv.constant3"."""

    name: str  # mangled
    section: str
    nbytes: int


@dataclass(frozen=True)
class CubinInfo:
    """`kernels` and `variables`: mangled names. `undefined`: functions that the driver's run time must supply, as
    "vprintf". `sections`: bytes of each by its name."""

    kernels: tuple[str, ...]
    undefined: tuple[str, ...]
    variables: tuple[str, ...] = ()
    objects: tuple[DeviceObject, ...] = ()  # the same variables
    sections: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class _Section:
    name: str
    kind: int
    offset: int
    size: int
    link: int


def inspect(cubin: bytes) -> CubinInfo:
    """Check that all of the file is there and list its functions. Raises IncompleteCubin."""
    sections = _sections(cubin)
    kernels: list[str] = []
    undefined: list[str] = []
    objects: list[DeviceObject] = []
    for table in (section for section in sections if section.kind == _SYMTAB):
        if table.link >= len(sections):
            raise IncompleteCubin(f"not a cubin: its symbols name section {table.link} of {len(sections)}")
        strings = sections[table.link]
        for name, kind, other, index, nbytes in _symbols(cubin, table, strings):
            if kind == _FUNC and index == 0:
                undefined.append(name)
            elif kind == _FUNC and other & _KERNEL_FLAG:
                kernels.append(name)
            elif kind == _OBJECT and index:
                objects.append(DeviceObject(name, sections[index].name if index < len(sections) else "", nbytes))
    sizes = {section.name: section.size for section in sections if section.name}
    variables = tuple(each.name for each in objects)
    return CubinInfo(tuple(kernels), tuple(undefined), variables, tuple(objects), sizes)


def match(symbol: str, candidates: tuple[str, ...]) -> str | None:
    """The cubin's name for a kernel or variable that another compiler mangled: equal, or equal but for the
    file-dependent part of an anonymous namespace's name. None where there is no or more than one such symbol."""
    if symbol in candidates:
        return symbol
    alike = [name for name in candidates if _neutral(name) == _neutral(symbol)]
    return alike[0] if len(alike) == 1 else None


def strangers(info: CubinInfo, known: Iterable[str]) -> list[DeviceObject]:
    """The variables that have no counterpart (`match`) among the names of another compiler."""
    names = {_neutral(name) for name in known}
    return [each for each in info.objects if _neutral(each.name) not in names]


_UNIQUE = re.compile(r"(\d+)(_GLOBAL__N_|_INTERNAL_)")


def _neutral(mangled: str) -> str:
    """The mangled name with each `33_GLOBAL__N__9e609c31_4_a_cu_solve` cut down to `_GLOBAL__N_`, and likewise the
    `_INTERNAL_` that stands before variables of one file."""
    parts, position = [], 0
    while found := _UNIQUE.search(mangled, position):
        parts += [mangled[position : found.start()], found[2]]
        position = found.end(1) + int(found[1])
    return "".join(parts) + mangled[position:]


def _sections(cubin: bytes) -> list[_Section]:
    if not cubin.startswith(_MAGIC) or len(cubin) < _HEADER.size:
        raise IncompleteCubin(f"not a cubin: {len(cubin)} bytes, no 64-bit ELF header")
    fields = _HEADER.unpack_from(cubin)
    table, entry_size, count = fields[6], fields[11], fields[12]
    if entry_size != _SECTION.size or not 0 < count < _SECTION_BOUND:
        raise IncompleteCubin(f"not a cubin: {count} sections of {entry_size} bytes")
    end = max(table + count * entry_size, fields[5] + fields[9] * fields[10])  # of section and program headers
    if end > len(cubin):
        raise IncompleteCubin(f"cut off at {len(cubin)} bytes: its tables would end at {end}")
    rows = [_SECTION.unpack_from(cubin, table + index * entry_size) for index in range(count)]
    names = rows[fields[13]][4] if fields[13] < count else 0  # where the table of section names begins
    return [_section(cubin, row, names) for row in rows]


def _section(cubin: bytes, row: tuple[int, ...], names: int) -> _Section:
    name, kind, _, _, offset, size, link, _, _, _ = row
    if kind != _NOBITS and offset + size > len(cubin):
        raise IncompleteCubin(f"cut off at {len(cubin)} bytes: a section would end at {offset + size}")
    return _Section(_text(cubin, names + name, len(cubin)) if names else "", kind, offset, size, link)


def _text(cubin: bytes, start: int, end: int) -> str:
    """The string there, up to its NUL byte or to `end`."""
    stop = cubin.find(b"\0", start, end)
    return cubin[start : stop if stop >= 0 else end].decode(errors="replace")


def _symbols(cubin: bytes, table: _Section, strings: _Section) -> list[tuple[str, int, int, int, int]]:
    """(name, type, st_other, section index, bytes) of each symbol."""
    found = []
    for at in range(table.offset, table.offset + table.size - _SYMBOL.size + 1, _SYMBOL.size):
        name, info, other, index, _, nbytes = _SYMBOL.unpack_from(cubin, at)
        text = _text(cubin, strings.offset + name, strings.offset + strings.size)
        found.append((text, info & 15, other, index, nbytes))
    return found
