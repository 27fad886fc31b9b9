"""CUDA C++ -> tokens, in time linear in the text whatever the text is.

Pygments' own lexer of CUDA takes quadratic time on text such as `#/* /* /* ...` or `R"( R"( ...`: minutes for a file of
256 KiB, which anybody may submit. This one is told by Pygments what words mean, and has rules of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import ClassVar

from pygments.lexer import RegexLexer
from pygments.lexers.c_like import CudaLexer
from pygments.token import Comment, Keyword, Name, Number, Operator, Punctuation, String, Text, _TokenType

_KEYWORDS = """
    alignas alignof asm break case catch class concept const consteval constexpr constinit const_cast continue decltype
    default delete do dynamic_cast else enum explicit export extern final for friend goto if inline mutable namespace
    new noexcept operator override private protected public register reinterpret_cast requires return sizeof static
    static_assert static_cast struct switch template this thread_local throw try typedef typeid typename union using
    virtual volatile while __asm__ __restrict__
"""
_TYPES = """
    auto bool char char8_t char16_t char32_t double float int long short signed unsigned void wchar_t
    __half __half2 half half2 __nv_bfloat16 __nv_bfloat162 __nv_fp8_e4m3 __nv_fp8_e5m2
"""
_QUALIFIERS = CudaLexer.function_qualifiers | {"__device__", "__constant__", "__shared__", "__launch_bounds__"}
_BUILTIN = CudaLexer.variables | {"true", "false", "nullptr", "NULL"}
_OTHER_TYPES = CudaLexer.vector_types | CudaLexer.stdlib_types | CudaLexer.c99_types
_MEANING: dict[str, _TokenType] = {
    **dict.fromkeys(_OTHER_TYPES.union(_TYPES.split()), Keyword.Type),
    **dict.fromkeys(_KEYWORDS.split(), Keyword),
    **dict.fromkeys(_QUALIFIERS, Keyword.Reserved),
    **dict.fromkeys(_BUILTIN, Name.Builtin),
}


class LinearCudaLexer(RegexLexer):
    """Each rule either matches, and what it matched is done with, or fails within a bounded number of characters or
    within its line."""

    name = "CUDA in linear time"
    flags = re.MULTILINE
    tokens: ClassVar = {
        "root": [
            (r"[^\S\n]+", Text),
            (r"\n", Text),
            (r"/\*", Comment.Multiline, "comment"),
            (r"//(?:\\\n|[^\n])*", Comment.Single),
            (r'^(#[^\S\n]{0,80}include\b)([^\S\n]{0,80})(<[^>\n]{0,400}>|"[^"\n]{0,400}")?', Comment.Preproc),
            (r"#[^\S\n]{0,80}\w*", Comment.Preproc),
            (r'(?:u8|[uUL])?R"([^\s()\\"]{0,16})\([\s\S]*?(?:\)\1"|\Z)', String),
            (r'(?:u8|[uUL])?"(?:\\[\s\S]|[^"\\\n])*"?', String),
            (r"(?:u8|[uUL])?'(?:\\[\s\S]|[^'\\\n])*'?", String.Char),
            (r"\.?\d(?:[eEpP][+-]|'?\w|\.)*", Number),
            (r"[^\W\d]\w*(?=[^\S\n]{0,8}\()", Name.Function),
            (r"[^\W\d]\w*", Name),
            (r"[~!%^&*+=|?:<>/-]", Operator),
            (r"[()\[\]{},;.]", Punctuation),
            (r"[\s\S]", Text),
        ],
        "comment": [
            (r"[^*]+", Comment.Multiline),
            (r"\*/", Comment.Multiline, "#pop"),
            (r"\*", Comment.Multiline),
        ],
    }

    def get_tokens_unprocessed(
        self, text: str, stack: Iterable[str] = ("root",)
    ) -> Iterator[tuple[int, _TokenType, str]]:
        for index, kind, value in super().get_tokens_unprocessed(text, stack):
            yield index, _MEANING.get(value, kind) if kind in (Name, Name.Function) else kind, value
