"""The standing kernels of a problem: bad/*.cu, each wrong in one way, and honest/*.cu, right in different ways.

A file is a submission of its own in the first dtype, and made for others by macros that are defined before it:

    ELEMENT        C type of `element`, such as __half
    KV_ELEMENT     C type of `kv_element`; ELEMENT in most tracks
    FP8_SCALES     1 where solve() takes k_scale and v_scale, else 0
    VARIANT_NAME   1 for the variant called `name`; defined for that one alone

Its header is the block of // lines on top. The first says what is wrong, or how the kernel works. Lines of the form
"// dtypes: float32, float16" and "// variants: lse" say which tracks the file is meant for: all dtypes, and the first
variant alone, where they are absent.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from harness import document
from harness.errors import ProblemError
from harness.problem import BASE, Problem

_FIELD = re.compile(r"//\s*(dtypes|variants):\s*(.*)")


@dataclass(frozen=True)
class StandingKernel:
    """One file. `dtypes` empty: all; `variants` empty: the problem's first."""

    name: str
    kind: str  # "bad", "honest" or "starter"
    path: Path
    text: str
    about: str
    dtypes: tuple[str, ...] = ()
    variants: tuple[str, ...] = ()

    def is_for(self, track: Problem) -> bool:
        """Whether the kernel is meant for this track."""
        in_variant = track.variant in self.variants if self.variants else track.variant == BASE
        return in_variant and (not self.dtypes or track.dtype in self.dtypes)


def standing(problem: Problem, kind: str) -> list[StandingKernel]:
    """The files of bad/ or honest/, by name. Raises ProblemError for a file without a header, or one that names a dtype
    or variant which the problem does not have."""
    return [_read(path, kind, problem) for path in sorted((problem.directory / kind).glob("*.cu"))]


def starters(problem: Problem) -> list[StandingKernel]:
    """What `judge.py start` writes for each dtype."""
    return [
        StandingKernel(path.name, "starter", path, document.read_text(path), "the starter", (dtype,))
        for dtype in problem.dtypes
        if (path := problem.starter_file(dtype))
    ]


def _read(path: Path, kind: str, problem: Problem) -> StandingKernel:
    text = document.read_text(path)
    header = _header(text)
    if not header:
        raise ProblemError(f"{path}: the first line must be a // comment that says what the kernel does")
    fields = {found[1]: found[2] for line in header if (found := _FIELD.match(line))}
    known = {"dtypes": set(problem.dtypes), "variants": {variant.name for variant in problem.variants}}
    values = {name: _words(path, name, text, known[name]) for name, text in fields.items()}
    about = header[0].removeprefix("//").strip()
    return StandingKernel(path.name, kind, path, text, about, values.get("dtypes", ()), values.get("variants", ()))


def _header(text: str) -> list[str]:
    lines = [line.strip() for line in text.splitlines()]
    end = next((number for number, line in enumerate(lines) if not line.startswith("//")), len(lines))
    return lines[:end]


def _words(path: Path, name: str, text: str, known: set[str]) -> tuple[str, ...]:
    words = tuple(word.strip() for word in text.split(",") if word.strip())
    unknown = [word for word in words if word not in known]
    if unknown or not words:
        found = unknown[0] if unknown else text
        raise ProblemError(f"{path}: {name}: {found!r} is none of the problem's; allowed: {', '.join(sorted(known))}")
    return words
