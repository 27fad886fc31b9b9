"""A submission's text as its declarations can be read from it, without a compiler: comments and the insides of literals
are gone, and so are the branches of `#if` that nobody compiles. Lines keep their numbers.

The text may be hostile: every step takes time in proportion to its length.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterator

JOINED = "\v"  # stands for a line break inside of a comment, a literal or a continued line
_NUMBER = r"\b\d(?:'?[\w.])*+"  # 1'000 opens no character
_LEXEME = re.compile(
    rf"""{_NUMBER}
    | //(?:\\[ \t]*\n|[^\n])*+
    | /\*.*?(?:\*/|\Z)
    | (?<!\w)(?:u8|[uUL])?R"(?P<mark>[^()\\\s"]{{0,16}})\(.*?(?:\)(?P=mark)"|\Z)
    | "(?:\\.|[^"\\\n])*+"?
    | '(?:\\.|[^'\\\n])*+'?
    | \\[ \t]*\n
    | [ \t]{{2,}}""",
    re.S | re.X,
)
_SPLIT_WORD = re.compile(rf"\b\w++(?:{JOINED}++\w++)++")  # by continued lines
_DIRECTIVE = re.compile(r"\s*#\s*(if|ifdef|ifndef|elif|else|endif|define|undef)\b(.*)", re.S)
_DEFINED = re.compile(r"\bdefined\s*(?:\(\s*(\w+)\s*\)|(\w+))")
_ATOM = re.compile(r"(!?)\s*(\w+)\s*(?:(==|!=|<=|>=|<|>)\s*(\w+))?")
_COMPARE = {
    "==": operator.eq, "!=": operator.ne, "<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt,
}  # fmt: skip
_SPELLED = {True: "1", False: "0", None: "__unknown"}
_ELSEWHERE = re.compile(r"__|CU(DA|B|TLASS)?|NV|NDEBUG|WARP_SZ")  # how names begin that the compiler or headers define


def readings(text: str) -> Iterator[str]:
    """What may be compiled of `text`: once with every condition true that cannot be known, and once with them false."""
    plain = without_literals(text)
    first, sure = _live(plain, True)
    yield first
    if not sure:
        yield _live(plain, False)[0]


def without_literals(text: str) -> str:
    """Comments are a space, literals are empty but for the "C" of `extern "C"`; a run of spaces is one."""
    text = text.replace("\r\n", "\n").translate({ord(mark): " " for mark in "\r\v\f"})
    return _SPLIT_WORD.sub(_whole, _LEXEME.sub(_short, text))


def _whole(found: re.Match[str]) -> str:
    return found[0].replace(JOINED, "") + JOINED * found[0].count(JOINED)


def _short(found: re.Match[str]) -> str:
    lexeme = found[0]
    if lexeme == '"C"' or lexeme[0].isdigit():
        return lexeme
    if lexeme[0] in "/\\ \t":
        return " " * (lexeme[0] != "\\") + JOINED * lexeme.count("\n")
    return ("''" if lexeme[0] == "'" else '""') + JOINED * lexeme.count("\n")


def line_at(text: str, position: int) -> int:
    """The line of the submission, from 1, that a position of a reading is in."""
    return 1 + text.count("\n", 0, position) + text.count(JOINED, 0, position)


def _live(text: str, unknown: bool) -> tuple[str, bool]:
    """The text with dead lines blank, and whether all of its conditions are known."""
    macros: dict[str, str] = {}
    branches: list[tuple[bool, bool]] = []  # of each open #if: whether a branch was taken, whether this one is
    kept, sure, dead = [], True, 0
    for line in text.split("\n"):
        found = _DIRECTIVE.fullmatch(line)
        word, rest = found.groups() if found else ("", "")
        if word in ("if", "ifdef", "ifndef"):
            value = None if dead else _value(word, rest, macros)
            sure &= value is not None or bool(dead)
            taken = unknown if value is None else value
            branches.append((taken, taken))
            dead += not taken
        elif word in ("elif", "else") and branches:
            before, current = branches[-1]
            dead -= not current
            value = True if word == "else" or before or dead else _value("if", rest, macros)
            sure &= value is not None
            taken = not before and (unknown if value is None else value)
            branches[-1] = (before or taken, taken)
            dead += not taken
        elif word == "endif" and branches:
            dead -= not branches.pop()[1]
        elif not dead and word in ("define", "undef"):
            _note_macro(word, rest, macros)
        kept.append(JOINED * line.count(JOINED) if dead else line)
    return "\n".join(kept), sure


def _note_macro(word: str, rest: str, macros: dict[str, str]) -> None:
    name, *body = rest.split(None, 1) or [""]
    name = name.split("(")[0]
    if word == "define":
        macros[name] = body[0].strip() if body else ""
    else:
        macros.pop(name, None)


def _value(word: str, rest: str, macros: dict[str, str]) -> bool | None:
    """Of a condition; None where the text alone does not say."""
    if word != "if":
        defined = _is_defined((rest.split() or [""])[0], macros)
        return defined if word == "ifdef" or defined is None else not defined
    spelled = _DEFINED.sub(lambda found: _SPELLED[_is_defined(found[1] or found[2], macros)], rest)
    either = [[_atom(atom, macros) for atom in every.split("&&")] for every in spelled.split("||")]
    terms = [False if False in every else None if None in every else True for every in either]
    return True if True in terms else None if None in terms else False


def _is_defined(name: str, macros: dict[str, str]) -> bool | None:
    return True if name in macros else None if _ELSEWHERE.match(name) else False


def _atom(text: str, macros: dict[str, str]) -> bool | None:
    """Of `X`, `!X`, `X < Y`, whole numbers or macros of whole numbers."""
    found = _ATOM.fullmatch(text.strip())
    if not found:
        return None
    negated, left, comparison, right = found.groups()
    low, high = _number(left, macros), _number(right or "0", macros)
    if low is None or high is None or (negated and comparison):
        return None
    value = _COMPARE[comparison or "!="](low, high)
    return not value if negated else value


def _number(word: str, macros: dict[str, str]) -> int | None:
    word = macros.get(word, word)
    digits = word.rstrip("uUlL")
    if digits.isascii() and digits.isdigit() and len(digits) < 20:
        return int(digits)
    plain = word.isidentifier() and word not in macros and not _ELSEWHERE.match(word)
    return 0 if plain else None
