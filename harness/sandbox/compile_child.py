"""The compile child: `python -m harness.sandbox.compile_child`; one source in, PTX (and a cubin) or a refusal out; or
the resources of its kernels."""

from __future__ import annotations

from collections.abc import Iterator

from harness import cards
from harness.errors import JudgeError
from harness.sandbox.codec import compiled_frame
from harness.sandbox.frames import Frame
from harness.sandbox.resource_codec import resources_frame
from harness.sandbox.service import load, serve


def answer(request: Frame) -> Iterator[Frame]:
    """One "compile" request -> one "compiled" frame; one "measure" request -> one "resources" frame; or the compiler's
    SubmissionError."""
    try:
        yield _measure(**request.fields) if request.kind == "measure" else _compile(**request.fields)
    except JudgeError as error:
        if "OUT_OF_MEMORY" in str(error):  # the compiler ran into this process's own limit
            raise MemoryError(str(error)) from error
        raise


def _compile(text: str, name: str, declaration: str, card: str, arch: str, compiler: str, gpu_compiler: str) -> Frame:
    compiled = load(compiler)(text, name, declaration, cards.get(card))
    if not gpu_compiler:
        return compiled_frame(compiled.ptx, b"", compiled.log, compiled.seconds)
    cubin = load(gpu_compiler)(text, name, declaration, arch)
    return compiled_frame(compiled.ptx, cubin.bytes, compiled.log + cubin.log, compiled.seconds + cubin.seconds)


def _measure(text: str, name: str, declaration: str, card: str, meter: str) -> Frame:
    return resources_frame(load(meter)(text, name, declaration, cards.get(card)))


if __name__ == "__main__":
    serve(lambda: answer)
