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
"""

from __future__ import annotations

import signal
from enum import StrEnum

from harness.errors import JudgeError, JudgeException, SubmissionError
from harness.results import Finding
from harness.verdict import FindingKind, Verdict, verdict_of

_CRASHES = {signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGILL, signal.SIGFPE}
_MEMORY_WORDS = ("bad_alloc", "out of memory", "MemoryError", "Cannot allocate memory")
_NEAR_LIMIT = 0.8


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
    detail = f" Last words: {death.stderr.strip()[-2000:]}" if death.stderr.strip() else ""
    return Verdict.JUDGE_ERROR, Finding(FindingKind.NOTE, f"The judge's own run process failed: {death}.{detail}")


def of_compile(death: ChildDied) -> SubmissionError | JudgeError:
    """The exception that the (second) death of the compile child stands for."""
    if death.cause in (Cause.EXIT, Cause.PROTOCOL):
        return JudgeError(f"the compile process failed: {death}. {death.stderr.strip()[-2000:]}".strip())
    words = "the compiler crashed on this source" if death.cause is Cause.CRASH else "a compile limit was reached"
    message = f"{words}: {death}"
    kind = _RUN_KINDS.get(death.cause)
    finding = (Finding(kind, f"Compiling was stopped: {death}."),) if kind else ()
    return SubmissionError(Verdict.COMPILE_ERROR, message, finding, log=death.stderr)
