"""What can go wrong, split by who must act.

    JudgeException
    +-- UsageError         the command line or a problem directory is wrong: exit code 2
    |   +-- NoDeviceError  this machine lacks the device
    |   +-- ProblemError   a problem directory breaks the schema
    +-- SubmissionError    the submission cannot be judged as it is; carries the verdict and findings
    +-- JudgeError         our own fault; never charged to the user: exit code 3
        +-- StartError     before it had to do with the submission: worth another try
"""

from __future__ import annotations

from collections.abc import Sequence

from harness.results import Finding
from harness.verdict import Verdict


class JudgeException(Exception):
    """Base of all exceptions that this package raises on purpose."""


class UsageError(JudgeException):
    """The caller asked for something that does not exist or makes no sense."""


class NoDeviceError(UsageError):
    """This machine does not have the device that was asked for, or has it no more."""


class ProblemError(UsageError):
    """A problem directory breaks the schema; the message names file, key and what is allowed."""


class SubmissionError(JudgeException):
    """The submission ends here, with this verdict."""

    def __init__(self, verdict: Verdict, message: str, findings: Sequence[Finding] = (), log: str = ""):
        super().__init__(message)
        self.verdict = verdict
        self.findings = tuple(findings)
        self.log = log


class JudgeError(JudgeException):
    """The judge failed; the submission is not to blame."""


class StartError(JudgeError):
    """A process of the judge ended before it had anything to do with the submission: it may be tried again."""
