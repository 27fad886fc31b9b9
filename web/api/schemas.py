"""What the JSON API takes and gives, as it describes itself in /api/openapi.json."""

from __future__ import annotations

import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from harness.problem import Problem
from web.api.intake import KEY_LENGTH, NAME_LENGTH
from web.store.records import Kind, Ranked, State, Submission

Device = Literal["auto", "cpu", "gpu"]
_KERNEL = 'extern "C" void solve(const float* q, /* ... */ float* out, float scale) {}\n'
ProblemId = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$", max_length=100, examples=["split_k_merge"])]
Track = Annotated[str | None, Field(max_length=64, examples=[None])]
SubmissionId = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,24}$", examples=["mS1pYxQ7c0aB"])]
IdempotencyKey = Annotated[str, Field(min_length=1, max_length=KEY_LENGTH, pattern=r"^[\x21-\x7e]+$")]


class NewSubmission(BaseModel):
    """A `.cu` file to judge."""

    model_config = ConfigDict(json_schema_extra={"additionalProperties": False})
    problem: ProblemId
    source: str = Field(
        min_length=1, examples=[_KERNEL], description="the text of the file, at most 256 KiB of UTF-8, without NUL"
    )
    kind: Kind = Field(description="`run`: the problem's samples; `submit`: all tests, then benchmarks for a score")
    name: str = Field("solution.cu", max_length=NAME_LENGTH, description="of the file; folders before it are left out")
    dtype: Track = Field(None, description="the track; left out: what solve() is written for")
    variant: Track = Field(None, description="the form of the task; left out: what solve() is written for")
    device: Device = Field("auto", description="`cpu` is the emulator; `auto`: a GPU where the site has one")

    @model_validator(mode="before")
    @classmethod
    def _known(cls, given: Any) -> Any:
        """One fault however many fields there are that nobody knows: a fault for each takes seconds for thousands."""
        if isinstance(given, dict) and not given.keys() <= cls.model_fields.keys():
            raise PydanticCustomError("unknown_field", f"has a field that is none of: {', '.join(cls.model_fields)}")
        return given


class SubmissionOut(BaseModel):
    """A submission, and how far its judging has come. What is not known yet is null."""

    id: str
    url: str = Field(description="of its page")
    events_url: str = Field(description="server-sent events of its judging")
    source_url: str
    report_url: str = Field(description="404 until the judging is finished")
    problem: str
    kind: Kind
    name: str
    state: State
    position: int | None = Field(description="in the queue, by age, which runs of samples may pass; null in lists")
    created: datetime.datetime
    started: datetime.datetime | None
    finished: datetime.datetime | None
    asked_dtype: str | None
    asked_variant: str | None
    asked_device: str
    dtype: str | None = Field(description="of the track that was judged")
    variant: str | None
    device: str | None = Field(description="what it ran on, for people")
    verdict: str | None
    passed: int | None = Field(description="cases that were accepted")
    total: int | None
    seconds: float | None = Field(description="that the judging took")
    score: float | None
    modelled: bool | None = Field(description="the score is a model's, nothing was timed on a card")
    tier: str | None
    seed: int | None = Field(description="repeats the inputs: `judge.py PROBLEM FILE --seed N`")


class SubmissionList(BaseModel):
    """Submissions, newest first. The next page: `before` the last id."""

    submissions: list[SubmissionOut]


class VariantOut(BaseModel):
    """A form of the task that solve() has parameters of its own for."""

    name: str
    about: str


class ProblemOut(BaseModel):
    """A problem in short."""

    id: str
    title: str
    difficulty: str
    tags: list[str]
    dtypes: list[str] = Field(description="the first is the usual one")
    variants: list[VariantOut]
    url: str = Field(description="of its page")


class TrackOut(BaseModel):
    """A dtype of a problem in one of its variants."""

    dtype: str
    variant: str
    declaration: str = Field(description="the C prototype of solve(), with the #include lines that its types need")
    tests: list[str]
    benchmarks: list[str]
    tiers: dict[str, float] = Field(description="name of a tier -> least score")


class ProblemDetails(ProblemOut):
    """A problem with its tracks."""

    statement: str = Field(description="Markdown with TeX math")
    seconds: float = Field(description="that one case may take")
    memory_mib: int = Field(description="of all tensors of a case")
    tracks: list[TrackOut]


class ProblemList(BaseModel):
    """All problems, by id."""

    problems: list[ProblemOut]


class RankedOut(BaseModel):
    """The best submission under one name."""

    rank: int
    submission_id: str
    url: str
    name: str
    created: datetime.datetime
    score: float
    tier: str


class Board(BaseModel):
    """A ranking on one device. Measured and modelled scores never stand in the same one."""

    device: str
    modelled: bool
    rows: list[RankedOut]


class Leaderboard(BaseModel):
    """All rankings of one track, measured ones first."""

    problem: str
    dtype: str
    variant: str
    boards: list[Board]


class Health(BaseModel):
    """Whether the site works."""

    judge: Literal["cuda-attention-judge"]
    version: str
    status: Literal["ok", "starting", "trouble"]
    trouble: str = Field(description="why nothing is judged at the moment; empty while all is well, or only starting")
    waiting: int = Field(description="submissions in the queue")


class ErrorDetail(BaseModel):
    """What went wrong."""

    code: str = Field(description="for programs", examples=["unknown_problem"])
    message: str = Field(description="what is wrong, for people")
    hint: str = Field(description="what to do; may be empty")


class ErrorOut(BaseModel):
    """Every answer that is no success."""

    error: ErrorDetail


def submission_out(found: Submission, position: int | None = None) -> SubmissionOut:
    """A stored submission with its addresses."""
    api = f"/api/submissions/{found.id}"
    return SubmissionOut.model_validate(
        vars(found) | {
            "url": f"/submissions/{found.id}", "events_url": f"{api}/events", "source_url": f"{api}/source",
            "report_url": f"{api}/report", "position": position,
        }
    )  # fmt: skip


def ranked_out(row: Ranked) -> RankedOut:
    """A stored row with its address."""
    return RankedOut.model_validate(vars(row) | {"url": f"/submissions/{row.submission_id}"})


def problem_out(found: Problem) -> dict[str, Any]:
    """The fields of ProblemOut."""
    variants = [{"name": each.name, "about": each.about} for each in found.variants]
    return {
        "id": found.id, "title": found.title, "difficulty": found.difficulty, "tags": list(found.tags),
        "dtypes": list(found.dtypes), "variants": variants, "url": f"/problems/{found.id}",
    }  # fmt: skip


def track_out(track: Problem) -> TrackOut:
    """One track of a problem."""
    return TrackOut(
        dtype=track.dtype, variant=track.variant, declaration=track.declaration(),
        tests=[case.name for case in track.tests], benchmarks=[case.name for case in track.benchmarks],
        tiers=dict(track.tiers),
    )  # fmt: skip
