"""The judge's closed vocabularies as words for people, to be translated by templates: _(vocabulary.verdict(v))."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from harness.report import html
from harness.verdict import FindingKind, Verdict


def N_(text: str) -> str:
    """Marks a text for the catalogues; it is translated where it is shown."""
    return text


_VERDICTS = {
    Verdict.ACCEPTED: N_("accepted"),
    Verdict.WRONG_ANSWER: N_("wrong answer"),
    Verdict.COMPILE_ERROR: N_("compile error"),
    Verdict.RUNTIME_ERROR: N_("runtime error"),
    Verdict.DATA_RACE: N_("data race"),
    Verdict.TIME_LIMIT: N_("time limit"),
    Verdict.MEMORY_LIMIT: N_("memory limit"),
    Verdict.OUTPUT_LIMIT: N_("output limit"),
    Verdict.POLICY_VIOLATION: N_("policy violation"),
    Verdict.UNSUPPORTED: N_("unsupported here"),
    Verdict.JUDGE_ERROR: N_("judge error"),
}
_KINDS = {
    FindingKind.OUT_OF_BOUNDS: N_("out of bounds"),
    FindingKind.MISALIGNED: N_("misaligned address"),
    FindingKind.UNINITIALIZED_READ: N_("uninitialized read"),
    FindingKind.READ_ONLY_WRITE: N_("write to an input"),
    FindingKind.DEVICE_STATE: N_("state kept on the device"),
    FindingKind.TOO_FAST: N_("too fast to be true"),
    FindingKind.DATA_RACE: N_("data race"),
    FindingKind.BARRIER_DIVERGENCE: N_("barrier divergence"),
    FindingKind.INVALID_BARRIER: N_("invalid barrier"),
    FindingKind.DEADLOCK: N_("deadlock"),
    FindingKind.INVALID_SHUFFLE: N_("invalid shuffle"),
    FindingKind.ASYNC_HAZARD: N_("asynchronous hazard"),
    FindingKind.TRAP: N_("trap"),
    FindingKind.INVALID_LAUNCH: N_("invalid launch"),
    FindingKind.HOST_ERROR: N_("error in solve()"),
    FindingKind.UNWRITTEN_OUTPUT: N_("output not written"),
    FindingKind.MISMATCH: N_("mismatch"),
    FindingKind.TIME_LIMIT: N_("time limit"),
    FindingKind.MEMORY_LIMIT: N_("memory limit"),
    FindingKind.OUTPUT_LIMIT: N_("output limit"),
    FindingKind.UNSUPPORTED: N_("unsupported"),
    FindingKind.NOTE: N_("note"),
}
_DIFFICULTIES = {"easy": N_("easy"), "medium": N_("medium"), "hard": N_("hard")}
_PROGRESS = {"new": N_("not tried"), "tried": N_("tried"), "solved": N_("solved")}
_BENCHMARK_KINDS = {"bandwidth": N_("bandwidth"), "compute": N_("compute"), "latency": N_("latency")}
_BOUNDS = {"memory": N_("memory"), "arithmetic": N_("arithmetic")}
_PARAGRAPHS = {
    "Idea": N_("Idea"), "Cost": N_("Cost"), "Gain": N_("Gain"), "Measured": N_("Measured"), "Modelled": N_("Modelled"),
    "Tried": N_("Tried"), "Beware": N_("Beware"),
}  # fmt: skip
_STATES = {
    "queued": N_("queued"), "running": N_("running"), "finished": N_("finished"), "cancelled": N_("cancelled"),
}  # fmt: skip
_KINDS_OF_SUBMISSION = {"run": N_("run of the samples"), "submit": N_("submission")}


def verdict(value: str) -> str:
    """wrong_answer -> wrong answer."""
    return _VERDICTS[Verdict(value)]


def mark(value: str) -> str:
    """The sign beside a verdict."""
    return html.mark(Verdict(value))


def tone(value: str) -> str:
    """The class that colours a verdict."""
    return html.tone(Verdict(value))


def finding(value: str) -> str:
    """barrier_divergence -> barrier divergence."""
    return _KINDS[FindingKind(value)]


def _named(words: Mapping[str, str]) -> Callable[[str], str]:
    """From a value to its words; a value that is not among them stands for itself."""
    return lambda value: words.get(value, value)


difficulty = _named(_DIFFICULTIES)  # of a problem
progress = _named(_PROGRESS)  # how far the reader has come with a problem
benchmark_kind = _named(_BENCHMARK_KINDS)  # what a benchmark is about
bound = _named(_BOUNDS)  # what limits a benchmark at the speed of light
state = _named(_STATES)  # of a judging
kind = _named(_KINDS_OF_SUBMISSION)  # what a submission was sent for
paragraph = _named(_PARAGRAPHS)  # of a solution's header: the word that it begins with
