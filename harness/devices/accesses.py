"""A memory access that the emulator refused -> what is wrong with it: bounds, alignment or permission."""

from __future__ import annotations

from dataclasses import replace

from harness.devices.places import LaunchPlaces, Tensors
from harness.emulator import layout as L
from harness.emulator.ptx import FIRST_VARIABLE_ID, Ins
from harness.plan import locate
from harness.results import Finding
from harness.verdict import FindingKind as K

_NEAR_NULL = 1 << 20


def explain(places: LaunchPlaces, tensors: Tensors, base: Finding, i: Ins | None, address: int, nbytes: int) -> Finding:
    """`base` with kind, message and tensor. The address is in the instruction's own state space."""
    opcode = i.base if i else ""
    space = _space(i)
    store = writes(i)
    if opcode == "cp":  # from global to shared memory: the address says which of the two it is
        space, store = "generic", address >> L.WINDOW_BITS == L.SHARED_WINDOW
    verb = "atomic update of" if opcode in ("atom", "red") else "write to" if store else "read of"
    if space == "generic" and address >> L.WINDOW_BITS in (L.SHARED_WINDOW, L.LOCAL_WINDOW):
        space = "shared" if address >> L.WINDOW_BITS == L.SHARED_WINDOW else "local"
        address &= (1 << L.WINDOW_BITS) - 1
    if space == "shared":
        return _shared(places, base, f"{verb} {nbytes} bytes", address, nbytes)
    if space == "local":
        where = f"at byte {_signed(address, 64)} of the thread's local variables"
        return replace(base, kind=K.OUT_OF_BOUNDS, message=f"Out of bounds: {verb} {nbytes} bytes {where}.")
    if opcode in ("ldmatrix", "stmatrix"):
        message = f"Out of bounds: {opcode} takes addresses of shared memory, which 0x{address:x} is not."
        return replace(base, kind=K.OUT_OF_BOUNDS, message=message)
    return _global(tensors, base, verb, opcode in ("atom", "red") or store, address, nbytes)


def writes(i: Ins | None) -> bool:
    """Whether an instruction is a store."""
    return i is not None and (i.base in ("st", "stmatrix", "cp") or i.mods[:2] == ("wmma", "store"))


def _shared(places: LaunchPlaces, base: Finding, what: str, address: int, nbytes: int) -> Finding:
    total = places.shared_bytes()
    offset = _signed(address & 0xFFFFFFFF, 32)
    spot = places.shared_spot(max(0, min(offset, max(total - 1, 0))))
    if offset >= 0 and offset + nbytes <= total:
        message = f"Misaligned: {what} at {spot.text} in shared memory; the address must be a multiple of {nbytes}."
        return replace(base, kind=K.MISALIGNED, tensor=spot.tensor, index=spot.index, message=message)
    message = f"Out of bounds: {what} at byte {offset} of the block's {total} bytes of shared memory."
    if total == 0:
        message += " The launch asks for no shared memory: is the third <<<>>> argument missing?"
    return replace(base, kind=K.OUT_OF_BOUNDS, tensor=spot.tensor, message=message)


def _global(tensors: Tensors, base: Finding, verb: str, store: bool, address: int, nbytes: int) -> Finding:
    number, offset = locate(address)
    region = tensors.memory.regions.get(number)
    if region is None or number < FIRST_VARIABLE_ID:
        what = "a null pointer" if address < _NEAR_NULL else "an address that belongs to no buffer"
        message = f"Out of bounds: {verb} {nbytes} bytes through {what} (0x{address:x})."
        return replace(base, kind=K.OUT_OF_BOUNDS, message=message)
    size, name, spot = region.buffer.nbytes, region.buffer.name, tensors.spot(number, offset)
    inside = offset >= 0 and offset + nbytes <= size
    if inside and offset % nbytes == 0 and store and not region.writable:
        kind, message = K.READ_ONLY_WRITE, f"{spot.text} is an input: a kernel must not write to it."
    elif inside:
        kind = K.MISALIGNED
        message = f"Misaligned: {verb} {nbytes} bytes at {spot.text}; the address must be a multiple of {nbytes}."
    else:
        itemsize = tensors.itemsize(number)
        element = f"element {offset // itemsize} of {size // itemsize}"
        where = f"{_outside(offset, size)} ({element})"
        message = f"Out of bounds: {verb} {nbytes} bytes of {name}, {where}."
        return replace(base, kind=K.OUT_OF_BOUNDS, tensor=name, message=message)
    return replace(base, kind=kind, tensor=name, index=spot.index, message=message)


def _outside(offset: int, size: int) -> str:
    if offset < 0:
        return f"{-offset} bytes before its start"
    return f"{offset - size} bytes behind its end" if offset >= size else "across its end"


def _space(i: Ins | None) -> str:
    for m in i.mods[1:] if i else ():
        space = m.split("::")[0]
        if space in ("global", "const", "shared", "local"):
            return space
    return "generic"


def _signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> (bits - 1) else value
