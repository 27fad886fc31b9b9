"""A graded session -> JUnit XML, which GitHub, GitLab and Jenkins render. Written by junitparser.

    testsuite   one: "judge.py grade", with the device and the seed as properties
    testcase    one a file: name = the file, classname = the problem, time = seconds of judging, file (GitLab links it)
      failure   not as declared, or not accepted: what was declared, what came, then the findings as file:line
      error     the judge failed
      skipped   not for this device, or not run
"""

from __future__ import annotations

import re

from junitparser import Attr, Error, Failure, JUnitXml, Skipped, TestCase, TestSuite

from harness.grading import wording
from harness.grading.discovery import Entry
from harness.grading.graded import Graded, Status
from harness.grading.session import Session
from harness.report.excerpt import printable

START = b"<?xml"  # what a file of ours starts with
_NO_XML = re.compile("[\ud800-\udfff\ufffe\uffff]")  # characters that XML has no place for; printable() takes the rest
_RESULTS = {
    Status.SURPRISE: Failure,
    Status.JUDGE_ERROR: Error,
    Status.SKIPPED: Skipped,
    Status.NOT_RUN: Skipped,
}


class _Case(TestCase):
    """With the attribute by which GitLab links the file."""

    file = Attr()


def render(session: Session) -> str:
    """The session as an XML document."""
    options = session.settings.options
    suite = TestSuite("judge.py grade")
    for name, value in (("device", options.device), ("seed", str(options.seed))):
        suite.add_property(name, value)
    suite.add_testcases([_case(entry, graded) for entry, graded in session.rows])
    document = JUnitXml("judge.py grade")
    document.add_testsuite(suite)
    document.update_statistics()
    text = document.tostring()
    return f'<?xml version="1.0" encoding="utf-8"?>\n{text.decode() if isinstance(text, bytes) else text}\n'


def _case(entry: Entry, graded: Graded) -> TestCase:
    case = _Case(_plain(wording.name(entry.name)), entry.problem.id, round(graded.seconds, 3))
    case.file = _plain(wording.name(str(entry.source)))
    kind = _RESULTS.get(graded.status)
    if kind:
        result = kind(_plain(wording.line("; ".join(graded.reasons))), graded.verdict or graded.status)
        result.text = _plain("\n".join(_text(entry, graded)))
        case.result = [result]
    return case


def _text(entry: Entry, graded: Graded) -> list[str]:
    """What was declared and where, what came, why."""
    where = f"  ({wording.name(entry.declared.where)})" if entry.declared.where else ""
    track = f"  {wording.track(graded)}" if graded.dtype else ""
    must = "declared" if entry.declared.given else "must be"
    head = [f"{must}: {wording.declared(entry.declared)}{where}", f"got: {wording.verdict(graded)}{track}"]
    reasons = graded.reasons if graded.verdict == entry.declared.verdict else ()
    return [*head, *reasons, *wording.explanation(entry, graded)]


def _plain(text: str) -> str:
    return _NO_XML.sub(lambda match: f"\\u{ord(match[0]):04x}", printable(text))
