"""Taking a submission in, whoever sends it: the JSON API, or the form of a page. Everything is checked here."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass

from starlette.datastructures import State as AppState

from harness import submission as source_file
from harness.errors import SubmissionError
from harness.report.excerpt import printable
from web import catalogue
from web.errors import SiteError, later
from web.store import judgings, submissions
from web.store.records import Kind, Request, Submission

NAME_LENGTH, KEY_LENGTH = 200, 200
DEVICES = ("auto", "cpu", "gpu")
_log = logging.getLogger(__name__)
_KEY = re.compile(r"[\x21-\x7e]{1,200}\Z")
_FULL_SECONDS = 15.0  # after which a full queue is worth another try


@dataclass(frozen=True)
class Wanted:
    """What somebody sends, as it came; empty strings and None alike leave the choice to the judge."""

    problem: str
    source: str
    kind: str
    name: str = ""
    dtype: str | None = None
    variant: str | None = None
    device: str = ""
    idempotency_key: str | None = None


def take(state: AppState, wanted: Wanted) -> tuple[Submission, bool]:
    """The submission, which is on the disk now, and whether it is new: a key that comes twice gives the same one.
    `state` is that of the application. Raises SiteError 404, 409, 413, 422, 429 and 503."""
    bounds = state.settings.bounds
    request = checked(wanted, bounds.source_bytes)
    _check_device(state, request.device)
    if seconds := state.rate.take():
        raise later(429, "too_many", f"over {bounds.per_minute} submissions a minute", seconds)
    try:
        taken, new = submissions.add(state.engine, request, bounds.queued)
    except submissions.QueueFull:
        message = f"{bounds.queued} submissions wait already, as many as the site takes on"
        raise later(503, "queue_full", message, _FULL_SECONDS) from None
    if new:
        _log.info("%s %s %s: /submissions/%s", taken.kind, taken.problem, taken.name, taken.id)
        state.queue.wake()
    elif _content(taken, submissions.source(state.engine, taken.id)) != _wanted_content(request):
        message = f"this Idempotency-Key came with another submission before, {taken.id}"
        raise SiteError(409, "key_reused", message, "take a new key for each submission")
    return taken, new


def checked(wanted: Wanted, most_bytes: int) -> Request:
    """The same, fit for the store. Raises SiteError 404, 413 and 422."""
    catalogue.track(wanted.problem, wanted.dtype or None, wanted.variant or None)
    if wanted.kind not in tuple(Kind):
        raise _unfit("kind", f"must be one of: {', '.join(Kind)}")
    device = wanted.device or "auto"
    if device not in DEVICES:
        raise _unfit("device", f"must be one of: {', '.join(DEVICES)}")
    name = _name(wanted.name or "solution.cu")
    if wanted.idempotency_key is not None and not _KEY.match(wanted.idempotency_key):
        raise _unfit("Idempotency-Key", f"must have 1 to {KEY_LENGTH} printable ASCII characters and no space")
    _check_source(wanted.source, name, most_bytes)
    return Request(
        wanted.problem, wanted.source, Kind(wanted.kind), name, wanted.dtype or None, wanted.variant or None, device,
        wanted.idempotency_key,
    )  # fmt: skip


def _name(given: str) -> str:
    """The last part of a path, as browsers and programs send one."""
    name = re.split(r"[/\\]", given)[-1].strip()
    if not 1 <= len(name) <= NAME_LENGTH or name in (".", ".."):
        raise _unfit("name", f"must be a file name of 1 to {NAME_LENGTH} characters")
    if printable(name) != name or "\n" in name or not _is_unicode(name):
        raise _unfit("name", "has characters that steer a terminal or do not print")
    return name


def _check_device(state: AppState, device: str) -> None:
    """A card is known of once the workers are there; before that, and while there are none, the judging itself says
    that there is none."""
    queue = state.queue
    if device == "gpu" and not (queue.has_card() or queue.starting() or queue.trouble()):
        hint = 'take "cpu", which is the emulator, or "auto"; `judge.py doctor` says what a GPU lacks'
        raise SiteError(422, "no_gpu", "this site has no GPU that it can judge on", hint)


def _check_source(source: str, name: str, most_bytes: int) -> None:
    """What harness/submission.py asks of a file."""
    if not _is_unicode(source):
        raise _unfit("source", "is no Unicode text: it has half of a surrogate pair")
    content = source.encode()
    if len(content) > most_bytes:
        message = f"the source has {len(content)} bytes; {most_bytes} are allowed"
        raise SiteError(413, "source_too_long", message, "leave out what the kernel does not need")
    try:
        source_file.from_bytes(name, content)
    except SubmissionError as error:
        raise SiteError(422, "no_source", printable(str(error)), "send the text of one .cu file") from None


def _is_unicode(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _unfit(field: str, why: str) -> SiteError:
    return SiteError(422, "invalid", f"{field} {why}", "see /api/openapi.json")


def _content(taken: Submission, source: str | None) -> tuple[object, ...]:
    asked = taken.asked_dtype, taken.asked_variant, taken.asked_device
    return taken.problem, taken.kind, taken.name, *asked, source


def _wanted_content(request: Request) -> tuple[object, ...]:
    return (
        request.problem, request.kind, request.name, request.dtype, request.variant, request.device, request.source,
    )  # fmt: skip


def cancel(state: AppState, submission_id: str) -> Submission:
    """Ask for the end of a judging; the submission as it is then. Raises SiteError 404."""
    if judgings.request_cancel(state.engine, submission_id) is None:
        raise unknown()
    state.queue.cancel(submission_id)
    found = submissions.get(state.engine, submission_id)
    assert found
    return found


def unknown() -> SiteError:
    """No submission has the id that was asked for."""
    return SiteError(404, "unknown_submission", "there is no such submission", "/submissions lists them")
