"""Why a child ended without an answer, and what that means: the one place where deaths become verdicts.

Causes, and the verdict of either child:

    cause       run child        compile child    seen by
    deadline    time_limit       compile_error    the supervisor's wall clock; also SIGXCPU
    output      output_limit     compile_error    more on stdout or stderr than allowed
    memory      memory_limit     compile_error    MemoryError, bad_alloc, or death close to the memory limit
    crash       judge_error      compile_error*   SIGSEGV, SIGABRT, SIGBUS, SIGILL, SIGFPE
    exit        judge_error      judge_error      any other end: an exception, a foreign SIGKILL, a closed channel
    protocol    judge_error      judge_error      bytes that are no frame, or not the frame that was due

    * when a second child crashes on the same source; a crash of the emulator is the judge's own fault.

What a child wrote to stderr names files of this machine: no report repeats it. An exception's class is taken from it,
and all of it goes to this module's logger at the level DEBUG.
"""

from __future__ import annotations

import logging
import re
import signal
from enum import StrEnum

from harness.errors import JudgeError, JudgeException, SubmissionError
from harness.results import Finding
from harness.verdict import FindingKind, Verdict, verdict_of

_CRASHES = {signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGILL, signal.SIGFPE}
_MEMORY_WORDS = ("bad_alloc", "out of memory", "MemoryError", "Cannot allocate memory")
_NEAR_LIMIT = 0.8
_TRACEBACK = "Traceback (most recent call last):\n"
_RAISED = re.compile(r"^(?:[A-Za-z_]\w*\.)*([A-Za-z_]\w*)(?::|$)", re.MULTILINE)
_FOLDERS = re.compile(r"(?<![\w.])/(?:[^\s/'\":,;()]+/)+")
_log = logging.getLogger(__name__)


class Cause(StrEnum):
    """Why there is no answer."""

    DEADLINE = "deadline"
    OUTPUT = "output"
    MEMORY = "memory"
    CRASH = "crash"
    EXIT = "exit"
    PROTOCOL = "protocol"


class ChildDied(JudgeException):
    """A child ended (or was ended) before it answered. `stdout` is what the submission had printed."""

    def __init__(self, cause: Cause, message: str, stdout: str = "", stderr: str = ""):
        super().__init__(message)
        self.cause = cause
        self.stdout = stdout
        self.stderr = stderr
        if stderr.strip():
            _log.debug("a child ended: %s; its standard error:\n%s", message, stderr)

    @property
    def reason(self) -> str:
        """Why it ended, fit for a report: the class of the exception that ended it, if one did, and no folders."""
        raised = _exception(self.stderr) if self.cause is Cause.EXIT else ""
        return raised or without_folders(str(self))


def without_folders(text: str) -> str:
    """The text with absolute paths cut to their last part: where things lie on this machine is nobody's business."""
    return _FOLDERS.sub("", text)


def _exception(stderr: str) -> str:
    """The class of the last exception that Python reported there; empty where it reported none."""
    _, found, last = stderr.rpartition(_TRACEBACK)
    raised = _RAISED.search(last) if found else None
    return raised[1] if raised else ""


def cause_of_exit(status: int, stderr: str, resident: int, memory_limit: int) -> tuple[Cause, str]:
    """Cause and words for a child that ended by itself.

    `status` as of Popen.returncode (negative: a signal), `resident` its peak and `memory_limit` in bytes (0: none).
    """
    words = _ending(status)
    starved = memory_limit and resident >= _NEAR_LIMIT * memory_limit
    if status and (starved or any(word in stderr for word in _MEMORY_WORDS)):
        return Cause.MEMORY, f"out of memory ({words})"
    if status == -signal.SIGXCPU:
        return Cause.DEADLINE, "used up its processor time"
    if status < 0 and -status in _CRASHES:
        return Cause.CRASH, words
    return Cause.EXIT, words


def _ending(status: int) -> str:
    if status >= 0:
        return f"exit status {status}"
    try:
        return f"killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"killed by signal {-status}"


_RUN_KINDS = {
    Cause.DEADLINE: FindingKind.TIME_LIMIT,
    Cause.OUTPUT: FindingKind.OUTPUT_LIMIT,
    Cause.MEMORY: FindingKind.MEMORY_LIMIT,
}


def of_run(death: ChildDied) -> tuple[Verdict, Finding]:
    """What the death of the run child says of the case that it was running."""
    kind = _RUN_KINDS.get(death.cause)
    if kind:
        return verdict_of(kind), Finding(kind, f"The run was stopped: {death}.")
    message = f"The judge's own run process failed ({death.reason}). This is not the submission's fault."
    return Verdict.JUDGE_ERROR, Finding(FindingKind.NOTE, message)


def of_compile(death: ChildDied) -> SubmissionError | JudgeError:
    """The exception that the (second) death of the compile child stands for."""
    if death.cause in (Cause.EXIT, Cause.PROTOCOL):
        return JudgeError(f"the compile process failed ({death.reason})")
    words = "the compiler crashed on this source" if death.cause is Cause.CRASH else "a compile limit was reached"
    message = f"{words}: {death}"
    kind = _RUN_KINDS.get(death.cause)
    finding = (Finding(kind, f"Compiling was stopped: {death}."),) if kind else ()
    return SubmissionError(Verdict.COMPILE_ERROR, message, finding)
