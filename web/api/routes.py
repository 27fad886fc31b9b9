"""The routes of the JSON API. They are plain functions where they ask the store, so that they run in threads."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request, Response
from fastapi.responses import PlainTextResponse

from harness import __version__
from harness.errors import UsageError
from web import catalogue
from web.api import intake, schemas
from web.api.streams import EventStream, Follower
from web.errors import SiteError
from web.store import judgings, rankings, submissions
from web.store.records import Kind, State

ABOUT = """Judges CUDA attention kernels: send a `.cu`, follow its judging, read the report.

A program that changes something sends the header `X-Judge-Client` with its name; pages of the site send
`X-CSRF-Token`. Whatever goes wrong is answered with `{"error": {"code", "message", "hint"}}`."""
_MOST_LISTED = 200


def _errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The answers that are no success; 400 and 403 are those of the guard (web/security)."""
    told = {
        400: "the request cannot be read, or its Host is not the site's",
        403: "another site's page sent it, or the token is missing",
        404: "there is no such thing",
        408: "the body came too slowly",
        409: "the Idempotency-Key came with another submission before",
        413: "too long",
        415: "a compressed body",
        422: "a value does not fit",
        429: "too many submissions a minute; Retry-After says when",
        503: "the queue is full, or the store does not answer; Retry-After says when",
    }
    return {status: {"model": schemas.ErrorOut, "description": told[status]} for status in statuses}


_TEXT: dict[int | str, dict[str, Any]] = {200: {"content": {"text/plain": {"schema": {"type": "string"}}}}}
_EVENTS: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}},
    204: {"description": "the judging has ended, and nothing came after that number"},
}
_READS, _CHANGES = (400, 503), (400, 403, 408, 413, 415, 503)
router = APIRouter(prefix="/api", tags=["judge"])
Id = schemas.SubmissionId


@router.get("/health", responses=_errors(*_READS))
def health(request: Request) -> schemas.Health:
    """Whether the site answers, and whether it judges."""
    queue = request.app.state.queue
    trouble = queue.trouble()
    return schemas.Health(
        judge="cuda-attention-judge", version=__version__, trouble=trouble,
        status="trouble" if trouble else "starting" if queue.starting() else "ok",
        waiting=judgings.waiting(request.app.state.engine),
    )  # fmt: skip


@router.get("/problems", responses=_errors(*_READS))
def problem_list() -> schemas.ProblemList:
    """All problems."""
    found = [schemas.ProblemOut(**schemas.problem_out(each)) for each in catalogue.problems()]
    return schemas.ProblemList(problems=found)


@router.get("/problems/{problem}", responses=_errors(*_READS, 404, 422))
def problem_details(problem: schemas.ProblemId) -> schemas.ProblemDetails:
    """One problem: its statement, limits and tracks."""
    found = catalogue.find(problem)
    return schemas.ProblemDetails(
        **schemas.problem_out(found), statement=found.statement, seconds=found.limits.seconds,
        memory_mib=found.limits.memory_mib, tracks=[schemas.track_out(track) for track in found.tracks()],
    )  # fmt: skip


@router.get("/problems/{problem}/starter", responses=_errors(*_READS, 404, 422) | _TEXT, response_class=Response)
def starter(problem: schemas.ProblemId, dtype: schemas.Track = None, variant: schemas.Track = None) -> Response:
    """What to begin with: it compiles, runs and is not accepted. 404 for a track that has none."""
    track = catalogue.track(problem, dtype, variant)
    try:
        text = track.starter_for(track.dtype, track.variant)
    except UsageError as error:
        raise SiteError(404, "no_starter", str(error), "begin with that of another track") from None
    return PlainTextResponse(text)


@router.get("/problems/{problem}/leaderboard", responses=_errors(*_READS, 404, 422))
def leaderboard(
    request: Request, problem: schemas.ProblemId, dtype: schemas.Track = None, variant: schemas.Track = None
) -> schemas.Leaderboard:
    """The best submissions in one track, the first where none is named: a ranking for each device."""
    track, engine = catalogue.track(problem, dtype, variant), request.app.state.engine
    where = track.id, track.dtype, track.variant
    boards = []
    for device, modelled in rankings.devices(engine, *where):
        rows = rankings.leaderboard(engine, *where, device, modelled)
        boards.append(schemas.Board(device=device, modelled=modelled, rows=[*map(schemas.ranked_out, rows)]))
    return schemas.Leaderboard(problem=track.id, dtype=track.dtype, variant=track.variant, boards=boards)


@router.post("/submissions", status_code=201, responses=_errors(*_CHANGES, 404, 409, 422, 429))
def submit(
    request: Request,
    response: Response,
    new: schemas.NewSubmission,
    idempotency_key: Annotated[schemas.IdempotencyKey | None, Header()] = None,
) -> schemas.SubmissionOut:
    """Take a file in. It is on the disk when this answers, and will be judged whatever happens to the site.

    A client that may have to send it twice gives an `Idempotency-Key`: the second time it gets the same submission."""
    wanted = intake.Wanted(**new.model_dump(mode="json"), idempotency_key=idempotency_key)
    taken = _out(request, intake.take(request.app.state, wanted)[0])
    response.headers["Location"] = taken.url
    return taken


@router.get("/submissions", responses=_errors(*_READS, 404, 422))
def submission_list(
    request: Request,
    problem: Annotated[schemas.ProblemId | None, Query()] = None,
    kind: Kind | None = None,
    before: Annotated[schemas.SubmissionId | None, Query(description="older than this submission")] = None,
    limit: Annotated[int, Query(ge=1, le=_MOST_LISTED)] = 50,
) -> schemas.SubmissionList:
    """Submissions, newest first."""
    engine = request.app.state.engine
    if before is not None and submissions.get(engine, before) is None:
        raise intake.unknown()
    found = submissions.latest(engine, problem, kind, before, limit)
    return schemas.SubmissionList(submissions=[schemas.submission_out(each) for each in found])


@router.get("/submissions/{id}", responses=_errors(*_READS, 404, 422))
def submission(request: Request, id: Id) -> schemas.SubmissionOut:
    """One submission."""
    return _out(request, _found(request, id))


@router.get("/submissions/{id}/source", responses=_errors(*_READS, 404, 422) | _TEXT, response_class=Response)
def source(request: Request, id: Id) -> Response:
    """The text that was sent."""
    text = submissions.source(request.app.state.engine, id)
    if text is None:
        raise intake.unknown()
    return PlainTextResponse(text)


@router.get("/submissions/{id}/report", responses=_errors(*_READS, 404, 422))
def report(request: Request, id: Id) -> dict[str, Any]:
    """The whole report, as `judge.py --json` writes it."""
    found = _found(request, id)
    text = submissions.report_json(request.app.state.engine, id)
    if text is None:
        hint = "follow its events until it is finished"
        raise SiteError(404, "no_report", f"there is no report: the judging is {found.state}", hint)
    return Response(text, media_type="application/json")  # type: ignore[return-value]


@router.get(
    "/submissions/{id}/events",
    status_code=200,
    response_class=Response,
    responses=_errors(*_READS, 404, 422) | _EVENTS,
)
def events(
    request: Request,
    id: Id,
    after: Annotated[int, Query(ge=0, le=2**31 - 1, description="begin behind this number")] = 0,
    last_event_id: Annotated[int | None, Header(ge=0, le=2**31 - 1)] = None,
) -> Response:
    """The steps of the judging as server-sent events, those that were and those that come. `id` is the number, `event`
    the type, `data` a JSON object that has both as `seq` and `type`. The stream ends behind `finished` or `cancelled`;
    behind `restarted`, everything before it counts no more.

    While the judging waits, its place comes again whenever it has changed, as `position` with `position` in its data:
    no step, so without an `id`, and `seq` is that of the last step."""
    state, found = request.app.state, _found(request, id)
    seq = after if last_event_id is None else last_event_id
    if found.state.final and not judgings.events_after(state.engine, found.run_id, seq, 1):
        return Response(status_code=204)
    return EventStream(Follower(request, state.engine, state.streams, found.id, found.run_id, seq))


@router.post("/submissions/{id}/cancel", status_code=202, responses=_errors(*_CHANGES, 404, 422))
def cancel(request: Request, id: Id) -> schemas.SubmissionOut:
    """Ask for the end of a judging. One that waits ends at once, one that runs soon after; one that has ended stays
    as it is."""
    return _out(request, intake.cancel(request.app.state, id))


def _out(request: Request, found: submissions.Submission) -> schemas.SubmissionOut:
    waits = found.state is State.QUEUED
    return schemas.submission_out(found, judgings.position(request.app.state.engine, found.run_id) if waits else None)


def _found(request: Request, id: str) -> submissions.Submission:
    found = submissions.get(request.app.state.engine, id)
    if found is None:
        raise intake.unknown()
    return found
