"""Damage for tests/test_fuzz.py: edits of PTX text, as Hypothesis draws and shrinks them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from hypothesis import strategies as st

TOKEN = re.compile(r"%?[\w$.]+|[^\w\s]")
_HUGE = ("9" * 5000, "0x" + "f" * 40, "-" + "9" * 30, "18446744073709551616", "2147483648", "-2147483649", "010", "08", "٣")
_ODD = (
    "", "%", "%r", "%p", "%tid.x", "%CC", "WARP_SZ", "_", "0f7FC00000", "0d7FF0000000000000", "1e999", "1.5", "|", "%r1|%r2",
    "a|b|c", "((((", "[[[[", "{{{{", "}", "{", ";", ":", "@", "@!", "/*", "*/", "//", '"', "\\", "\0", "é", "<", ">", "+-",
    ".align 0", ".align 3", ".b128", ".pred", ".v4", ".reg .b32 %r<99999999999>;", ".shared .align 0 .b8 z[8];",
    ".global .b8 g[99999999999999] = {1};", "brx.idx", "ret;", "exit;", "bra", "call", ".loc", ".file", ".func", ".entry",
    ".branchtargets", ".extern", ".section", ".version", ".f16x2", ".cc", ".sat", ".ftz", ".volatile", ".noreturn",
    "inlined_at", "function_name", "generic(", "cvta", "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", "st", "ld",
)  # fmt: skip


@dataclass(frozen=True)
class Edit:
    """One damage. Places are fractions of the text, so that they stay valid whatever was cut before."""

    how: str
    place: float
    other: float
    text: str


def edits(pool: list[str], kinds: Sequence[str] = (), most: int = 5) -> st.SearchStrategy[list[Edit]]:
    """One to `most` edits of these kinds, of all kinds where none is given; `pool` are tokens that do occur."""
    tokens = st.one_of(st.sampled_from(pool), st.sampled_from(_ODD), st.sampled_from(_HUGE), st.text(max_size=3))
    fraction = st.floats(0, 1, exclude_max=True)
    return st.lists(st.builds(Edit, st.sampled_from(kinds or list(_EDITS)), fraction, fraction, tokens), min_size=1, max_size=most)


def damaged(text: str, changes: list[Edit]) -> str:
    """The text after all edits."""
    for change in changes:
        text = _EDITS[change.how](text, change)
    return text


def _tokens(text: str, how: Edit) -> tuple[list[re.Match[str]], int, int]:
    tokens = list(TOKEN.finditer(text))
    return tokens, int(how.place * len(tokens)), int(how.other * len(tokens))


def _replace(text: str, how: Edit) -> str:
    tokens, at, _ = _tokens(text, how)
    return text[: tokens[at].start()] + how.text + text[tokens[at].end() :] if tokens else how.text


def _insert(text: str, how: Edit) -> str:
    tokens, at, _ = _tokens(text, how)
    return text[: tokens[at].start()] + how.text + " " + text[tokens[at].start() :] if tokens else how.text


def _delete(text: str, how: Edit) -> str:
    tokens, at, _ = _tokens(text, how)
    return text[: tokens[at].start()] + text[tokens[at].end() :] if tokens else text


def _swap(text: str, how: Edit) -> str:
    """Exchange two neighbouring operands of one statement."""
    lines = text.split("\n")
    n = int(how.place * len(lines))
    parts = lines[n].split(",")
    k = int(how.other * len(parts))
    parts[k], parts[k - 1] = parts[k - 1], parts[k]
    lines[n] = ",".join(parts)
    return "\n".join(lines)


def _modifiers(text: str, how: Edit) -> str:
    """Take a modifier out of an opcode, or put one in."""
    tokens, at, _ = _tokens(text, how)
    if not tokens:
        return text
    parts = tokens[at].group().split(".")
    k = int(how.other * (len(parts) + 1))
    parts[k : k + 1] = [] if how.text.startswith("%") else [how.text.strip(".")]
    return text[: tokens[at].start()] + ".".join(parts) + text[tokens[at].end() :]


def _double(text: str, how: Edit) -> str:
    lines = text.split("\n")
    n, m = int(how.place * len(lines)), int(how.other * len(lines))
    return "\n".join([*lines[:n], lines[m], *lines[n:]])


def _drop(text: str, how: Edit) -> str:
    lines = text.split("\n")
    n = int(how.place * len(lines))
    return "\n".join(lines[:n] + lines[n + 1 :])


def _cut(text: str, how: Edit) -> str:
    return text[: int((0.3 + 0.7 * how.place) * len(text))]


def _repeat(text: str, how: Edit) -> str:
    """One token many times: deep nesting, long lists."""
    return _insert(text, Edit("", how.place, 0, (how.text[:20] or "{") * (20_000 if how.other > 0.9 else 300)))


def _chain(text: str, how: Edit) -> str:
    """Source positions, each inlined into the one before."""
    chain = pairwise(range(1, 3000 if how.other > 0.9 else 30))
    return _insert(text, Edit("", how.place, 0, "\n".join(
        f".loc 1 {b} 1, function_name $L__info_string0, inlined_at 1 {a} 1" for a, b in chain) + "\n"))  # fmt: skip


_EDITS = {
    "replace": _replace, "insert": _insert, "delete": _delete, "swap": _swap, "modifiers": _modifiers, "double": _double,
    "drop": _drop, "cut": _cut, "repeat": _repeat, "chain": _chain,
}  # fmt: skip
