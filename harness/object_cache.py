"""Native code of a program's kernels, kept between runs. Only the supervisor writes the cache.

An entry holds all objects of one PTX text: digests of their IR (harness/emulator/jit.py) with the code. Its key is made
of what the supervisor knows for itself: the PTX, the emulator's own files, LLVM and the processor. What a run child
hands back is kept under the key of the PTX that it was given, hence can never serve another source, version or
machine.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from harness import emulator, plan
from harness.compile import cache as store
from harness.emulator.objects import MAX_BYTES

FORMAT = "1"  # raised when entries of older versions must not be used
_SAME_FOR_ALL = ("vendor_id", "cpu family", "model", "stepping", "flags",  # in /proc/cpuinfo, on x86
                 "CPU implementer", "CPU architecture", "CPU variant", "CPU part", "Features")  # fmt: skip  # on ARM


def known(ptx: str) -> dict[str, bytes]:
    """The objects that are kept for this PTX, by name; none where the entry is absent or damaged."""
    return _unpack(store.get(key(ptx)))


def keep(ptx: str, fresh: Mapping[str, bytes]) -> None:
    """Add what a run of this PTX compiled. Of two judges that end at the same moment one may be forgotten."""
    if not fresh:
        return
    objects = {**known(ptx), **fresh}
    if sum(map(len, objects.values())) > MAX_BYTES:
        objects = dict(fresh)
    store.put(key(ptx), _pack(objects))


def key(ptx: str) -> str:
    """Name of the cache entry of this PTX, for this emulator on this processor."""
    return store.digest("objects", FORMAT, ptx, _emulator(), _llvm(), _processor())


@cache
def _emulator() -> str:
    """The emulator's code: what it makes of a PTX text."""
    files = [path for folder in emulator.__path__ for path in Path(folder).rglob("*.py")]
    return store.files_digest([*files, Path(plan.__file__)])


def _llvm() -> str:
    """LLVM's identity without loading it."""
    spec = find_spec("llvmlite")
    if spec is None or spec.origin is None:
        return "none"
    libraries = sorted((Path(spec.origin).parent / "binding").glob("*llvmlite.*"))
    return " ".join(f"{library} {library.stat().st_size} {library.stat().st_mtime_ns}" for library in libraries)


def _processor() -> str:
    """What the first processor is and can do; the child asks LLVM itself (jit.py), this only keeps entries apart."""
    try:
        with open("/proc/cpuinfo", "rb") as file:
            first = file.read(16384).decode(errors="replace").split("\n\n")[0]
    except OSError:
        return "unknown"
    fields = (line.partition(":") for line in first.splitlines())
    return "\n".join(f"{name.strip()}:{value}" for name, _, value in fields if name.strip() in _SAME_FOR_ALL)


def _pack(objects: Mapping[str, bytes]) -> bytes:
    """A line of JSON, [[name, bytes]...], then the objects."""
    sizes = [[name, len(data)] for name, data in objects.items()]
    return json.dumps(sizes).encode() + b"\n" + b"".join(objects.values())


def _unpack(payload: bytes | None) -> dict[str, bytes]:
    """The objects of an entry; none for no entry, and for one that is not of this form."""
    head, _, body = (payload or b"").partition(b"\n")
    objects, start = {}, 0
    try:
        for name, size in json.loads(head):
            objects[str(name)] = body[start : start + int(size)]
            start += int(size)
    except (ValueError, TypeError):
        return {}
    return objects if start == len(body) else {}
