"""A source's PTX and cubin, from the cache or from a compile child. Only the supervisor writes the cache."""

from __future__ import annotations

import json

from harness.compile import cache as store
from harness.sandbox.supervisor import Artefacts, Source, Toolchain, compile_source


def compiled(source: Source, toolchain: Toolchain, seconds: float, cache: bool) -> tuple[Artefacts, bool]:
    """The artefacts, and whether they came from the cache. Raises as `compile_source` does; failures are not cached."""
    if not cache:
        return compile_source(source, toolchain, seconds), False
    key = store.key(source.text, source.name, source.declaration, source.card, source.arch, toolchain.compiler)
    known = _unpack(store.get(key))
    if known:
        return known, True
    artefacts = compile_source(source, toolchain, seconds)
    store.put(key, _pack(artefacts))
    return artefacts, False


def _pack(artefacts: Artefacts) -> bytes:
    fields = {"ptx": artefacts.ptx, "cubin": artefacts.cubin.hex(), "log": artefacts.log, "seconds": artefacts.seconds}
    return json.dumps(fields).encode()


def _unpack(value: bytes | None) -> Artefacts | None:
    """The artefacts in a cache entry; None for no entry, and for one that another version wrote."""
    try:
        fields = json.loads(value or b"")
        return Artefacts(fields["ptx"], bytes.fromhex(fields["cubin"]), fields["log"], fields["seconds"])
    except (ValueError, KeyError, TypeError):
        return None
