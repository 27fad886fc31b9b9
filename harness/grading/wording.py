"""What the table, the summary and the files say in the same words of a file and of all."""

from __future__ import annotations

import re
from collections import Counter

from harness.grading.declaration import Declaration
from harness.grading.discovery import Entry
from harness.grading.graded import Graded, Status, place
from harness.grading.session import Session
from harness.report import figures
from harness.report.excerpt import printable
from harness.report.grouping import Group
from harness.verdict import Verdict

_FAILED = "FAILED"
_RESULTS = {
    Status.OK: "OK",
    Status.SURPRISE: "SURPRISE",
    Status.REPORTED: "",
    Status.SKIPPED: "skipped",
    Status.JUDGE_ERROR: "JUDGE ERROR",
    Status.NOT_RUN: "not run",
}
_COUNTED = {  # (how it stands, whether anything is declared): of one, of several
    (Status.OK, True): ("as declared", "as declared"),
    (Status.OK, False): ("accepted", "accepted"),
    (Status.SURPRISE, True): ("surprise", "surprises"),
    (Status.SURPRISE, False): ("failed", "failed"),
    (Status.REPORTED, False): ("judged", "judged"),
    (Status.SKIPPED, False): ("skipped", "skipped"),
    (Status.JUDGE_ERROR, False): ("judge error", "judge errors"),
    (Status.NOT_RUN, False): ("not run", "not run"),
}
NOTHING = figures.NOTHING
_COMMAND = re.compile(r"^(\s*:)(?=:)|(#)(?=#\[)", re.M)  # "::error::...", which CI systems obey at the start of a line
_BREAKS = re.compile(r"[\t\r\n\ud800-\udfff]")
_LOOKS = re.compile(r"(?<= ) |(?<=:):")  # like another cell; like a command, where a table folds the name


def name(path: str) -> str:
    """A file's name on one line, with what could forge a row of a table or steer a terminal escaped: `\\x0a`."""
    return _LOOKS.sub(_code, line(path))


def line(text: str) -> str:
    """Text on one line; see `plain`."""
    return plain(_BREAKS.sub(_code, text))


def _code(match: re.Match[str]) -> str:
    return f"\\x{ord(match[0]):02x}"


def plain(text: str) -> str:
    """Text of several lines that steers neither a terminal nor a CI system, which takes commands from a log."""
    return _COMMAND.sub(r"\1\2\\", printable(text))


def declares(session: Session) -> bool:
    """Whether a column says what is declared."""
    return not session.settings.report_only and any(entry.declared.given for entry in session.entries)


def result(entry: Entry, graded: Graded) -> str:
    """How a file stands, in a word. Nobody is surprised where nothing was declared."""
    return _FAILED if graded.status is Status.SURPRISE and not entry.declared.given else _RESULTS[graded.status]


def track(graded: Graded) -> str:
    """ "bfloat16", "bfloat16 lse"."""
    variant = "" if graded.variant in ("", "base") else f" {graded.variant}"
    return f"{graded.dtype}{variant}" or NOTHING


def verdict(graded: Graded) -> str:
    """What came."""
    return graded.verdict or NOTHING


def declared(declaration: Declaration) -> str:
    """ "data_race", "accepted, score>=40"."""
    return declaration.verdict + ("" if declaration.score is None else f", score>={declaration.score:g}")


def score(graded: Graded) -> str:
    """The overall score, and whether it is only a model's."""
    if graded.score is None:
        return NOTHING
    return figures.score(graded.score) + (" modelled" if graded.modelled else "")


def counts(session: Session) -> str:
    """ "10 files: 7 as declared, 1 surprise, 2 skipped"; where nothing is declared "7 accepted, 1 failed"."""
    told = (Status.OK, Status.SURPRISE)
    found = Counter((one.status, one.status in told and entry.declared.given) for entry, one in session.rows)
    files = f"{len(session.entries)} file{'s' * (len(session.entries) != 1)}"
    parts = (f"{found[key]} {words[found[key] > 1]}" for key, words in _COUNTED.items() if found[key])
    return f"{files}: {', '.join(parts)}"


def verdicts(session: Session) -> str:
    """ "5 accepted, 2 data_race", in the order of the vocabulary."""
    found = [graded.verdict for _, graded in session.rows]
    return ", ".join(f"{found.count(one)} {one}" for one in Verdict if one in found)


def finding(entry: Entry, group: Group) -> str:
    """One finding in a line: "solutions/a.cu:12: data_race in one_token: Race on ..."."""
    cases = f" in {', '.join(group.cases[:3])}{', ...' * (len(group.cases) > 3)}" if group.cases else ""
    return f"{name(place(group.finding, entry.source))}: {group.finding.kind}{cases}: {group.finding.message}"


def explanation(entry: Entry, graded: Graded) -> list[str]:
    """What led to the verdict: all findings, those with a place first, then what only the compiler said."""
    groups = sorted(graded.findings, key=lambda group: not group.finding.line)
    return [finding(entry, group) for group in groups] + compiler_lines(graded)


def compiler_lines(graded: Graded) -> list[str]:
    """The compiler's own lines where it refused the file; what the judge adds to them is among the findings."""
    if graded.verdict is not Verdict.COMPILE_ERROR:
        return []
    messages = [group.finding.message.split("\n") for group in graded.findings]
    rows = (row for row in graded.log.split("\n") if row.strip())
    return [row for row in rows if not any((said[0] and said[0] in row) or row in said for said in messages)]
