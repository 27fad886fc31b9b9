"""Findings as a page shows them: what was seen, and the code of both sides next to each other."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from markupsafe import Markup

from harness.report import finding_pictures
from harness.report.grouping import Group, group_findings
from harness.results import Access, Finding, Report
from harness.verdict import FindingKind, Verdict, verdict_of
from web.pages import vocabulary
from web.queue.diagnostics import diagnostics
from web.rendering import code

MOST = 100  # in a page; the JSON report has all
_NOT_COMPILED = Verdict.COMPILE_ERROR
_ERROR = re.compile(r"\berror\b[^:]*: ")
_MOST_ERRORS = 20  # of the compiler's, with code; the log beside them has all


@dataclass(frozen=True)
class Side:
    """One place in the code. `sign` is "1" or "2" where there are two of them; `line` 0: it is not known; texts are ""
    where they are not known, too."""

    sign: str
    line: int
    file: str
    access: str  # of the other side: "read", "write", or "missing" where a barrier waits for it
    kernel: str
    element: str  # "out[3, 0]", unless the message says it
    block: str
    thread: str
    callers: tuple[str, ...]
    code: Markup
    message: str = ""  # of a compiler's error


@dataclass(frozen=True)
class Shown:
    """A group of findings, seen in `cases`, or what the compiler said, with a side for each error. `picture` is SVG,
    empty where there is none; `title` is to be translated."""

    title: str
    verdict: Verdict
    cases: tuple[str, ...]
    message: str
    sides: tuple[Side, ...]
    picture: Markup
    caption: str


def shown(report: Report, source: str, words: str) -> list[Shown]:
    """All groups, causes first, at most MOST. `words` is the language of the site."""
    groups = group_findings(report)
    if report.verdict is _NOT_COMPILED:
        return _not_compiled(report, [group.finding for group in groups], source, words)
    pictures = finding_pictures.of_groups(report, groups[:MOST])
    return [_shown(group, source, words, *picture) for group, picture in zip(groups, pictures, strict=False)]


def without(report: Report, message: str) -> Report:
    """The report less the findings of no case that say just this."""
    return replace(report, findings=tuple(finding for finding in report.findings if finding.message != message))


def log(report: Report) -> str:
    """What the compiler said; "" where its log holds no more than what a finding says anyway."""
    said = report.compile.log.strip()
    return "" if any(finding.message.strip() == said for finding in report.findings) else said


def _not_compiled(report: Report, findings: Sequence[Finding], source: str, words: str) -> list[Shown]:
    """The judge's own words, and the compiler's errors on other lines; a finding that only repeats an error is left
    out."""
    errors = [said for said in diagnostics(report.compile.log, report.submission) if said["severity"] == "error"]
    own = [finding for finding in findings if not any(_repeats(finding, said) for said in errors)]
    explained = {finding.line for finding in own}
    found = [_own_words(finding, source, words) for finding in own]
    sides = tuple(
        _in_file(said["line"], report.submission, said["message"], source, words)
        for said in errors[:_MOST_ERRORS] if said["line"] not in explained
    )  # fmt: skip
    if sides:
        found.append(Shown(vocabulary.verdict(_NOT_COMPILED), _NOT_COMPILED, (), "", sides, Markup(), ""))
    return found


def _repeats(finding: Finding, said: dict[str, Any]) -> bool:
    """Of a finding without a line, which is the first line of the compiler's first error."""
    *_, words = _ERROR.split(finding.message, maxsplit=1)
    return not finding.line and str(said["message"]).startswith(words)


def _own_words(finding: Finding, source: str, words: str) -> Shown:
    """Why it does not compile, as the judge says it."""
    title = vocabulary.verdict(_NOT_COMPILED)
    if finding.kind is not FindingKind.NOTE:
        title = vocabulary.finding(finding.kind)
    sides = (_in_file(finding.line, finding.file, "", source, words),) if finding.line else ()
    return Shown(title, _NOT_COMPILED, (), finding.message, sides, Markup(), "")


def _in_file(line: int, file: str, message: str, source: str, words: str) -> Side:
    excerpt = code.excerpt(source, line, 1, "error", words=words)
    return Side("", line, file, "", "", "", "", "", (), excerpt, message)


def marks(report: Report) -> dict[int, str]:
    """Which lines of the source findings name, and as what; a line that is one's own place is not another's second."""
    found: dict[int, str] = {}
    for group in reversed(group_findings(report)):
        finding = group.finding
        if finding.other and finding.other.line:
            found.setdefault(finding.other.line, "other")
        if finding.line:
            found[finding.line] = _mark(finding, report)
    return found


def _mark(finding: Finding, report: Report) -> str:
    """A note is no error, unless it is why nothing was compiled."""
    return "info" if finding.kind is FindingKind.NOTE and report.verdict is not _NOT_COMPILED else "error"


def compiler_marks(report: Report) -> dict[int, str]:
    """Which lines of the source the compiler's log names, and as what; an error before a warning."""
    found: dict[int, str] = {}
    for said in diagnostics(report.compile.log, report.submission):
        if found.get(said["line"]) != "error":
            found[said["line"]] = said["severity"]
    return found


def _shown(group: Group, source: str, words: str, picture: Markup, caption: str) -> Shown:
    finding = group.finding
    return Shown(
        vocabulary.finding(finding.kind), verdict_of(finding.kind), group.cases, finding.message,
        tuple(_sides(finding, source, words)), picture, caption,
    )  # fmt: skip


def _sides(finding: Finding, source: str, words: str) -> Iterator[Side]:
    other = finding.other
    if finding.line or finding.kernel or finding.block or finding.thread or other:
        kind = "info" if finding.kind is FindingKind.NOTE else "error"
        yield Side(
            "1" if other else "", finding.line, finding.file, "", finding.kernel, _element(finding),
            _place(finding.block), _place(finding.thread), finding.call_stack, _code(finding, source, kind, words),
        )  # fmt: skip
    if other:
        access = "missing" if other.missing else "write" if other.write else "read"
        kernel = finding.kernel if other.block or other.missing else ""  # without a block it may be in another kernel
        yield Side(
            "2", other.line, other.file, access, kernel, "", _place(other.block), _place(other.thread), (),
            _code(other, source, "other", words),
        )  # fmt: skip


def _element(finding: Finding) -> str:
    element = f"{finding.tensor}[{', '.join(map(str, finding.index))}]"
    return element if finding.tensor and finding.index and element not in finding.message else ""


def _place(indices: tuple[int, int, int] | None) -> str:
    return f"({', '.join(map(str, indices))})" if indices is not None else ""


def _code(place: Finding | Access, source: str, kind: str, words: str) -> Markup:
    return code.excerpt(source, place.line, 3, kind, words=words) if place.line else Markup()
