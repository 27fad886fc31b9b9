"""The JSON API: what programs send and get."""

from __future__ import annotations

import asyncio
import json
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi import Request
from pydantic import ValidationError
from sqlalchemy import text
from sqlalchemy.exc import OperationalError

from harness.results import CaseResult, CompileResult, Report
from harness.verdict import Verdict
from tests import api_kit
from tests.api_kit import KERNEL, PROGRAM, Site, StateOfQueue
from web.api import schemas, streams
from web.api.streams import Follower, Streams
from web.errors import SiteError
from web.store import engine as database
from web.store import judgings, submissions
from web.store.records import Kind


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = api_kit.site(tmp_path)
    yield made
    made.engine.dispose()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """For tests that do not ask what else was sent."""
    made = api_kit.site(tmp_path_factory.mktemp("site"))
    yield made
    made.engine.dispose()


def get(site: Site, path: str, **options: Any) -> Any:
    answer = site.program.get(path, **options)
    assert answer.status_code == 200, answer.text
    return answer.json()


def error(answer: Any) -> tuple[int, str]:
    found = answer.json()["error"]
    assert set(found) == {"code", "message", "hint"} and found["message"]
    return answer.status_code, found["code"]


def accepted(score: float | None = None) -> Report:
    compiled = CompileResult(ok=True)
    cases = (CaseResult("one", Verdict.ACCEPTED),)
    return Report(
        "split_k_merge", "my.cu", "emulator (H100)", "float32", 7, Verdict.ACCEPTED, compiled, cases, score=score,
        variant="base",
    )  # fmt: skip


def judge(site: Site, report: Report, **fields: Any) -> str:
    """Send, and write the verdict as a worker would; the id."""
    id: str = site.send(**fields).json()["id"]
    claim = judgings.claim(site.engine, "test")
    assert claim and claim.submission_id == id
    assert judgings.finish(site.engine, claim, report)
    return id


# Problems


def test_problems_are_listed_and_described(shared: Site) -> None:
    listed = {each["id"]: each for each in get(shared, "/api/problems")["problems"]}
    assert set(listed) == {"flash_attention", "paged_decode", "split_k_merge"}
    one = get(shared, "/api/problems/paged_decode")
    assert one.items() >= listed["paged_decode"].items()
    assert {(track["dtype"], track["variant"]) for track in one["tracks"]} == {
        (dtype, variant["name"]) for dtype in one["dtypes"] for variant in one["variants"]
    }
    assert "void solve(" in one["tracks"][0]["declaration"] and one["tracks"][0]["tests"]


def test_the_starter_of_a_track(shared: Site) -> None:
    answer = shared.program.get("/api/problems/split_k_merge/starter", params={"dtype": "float16"})
    assert answer.status_code == 200 and answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert "__half" in answer.text
    lacking = shared.program.get("/api/problems/paged_decode/starter", params={"variant": "lse"})
    assert error(lacking) == (404, "no_starter")


@pytest.mark.parametrize("path", ["", "/starter", "/leaderboard"])
def test_an_unknown_problem_is_answered_with_those_that_there_are(shared: Site, path: str) -> None:
    answer = shared.program.get(f"/api/problems/unknown{path}")
    assert error(answer) == (404, "unknown_problem")
    assert "flash_attention, paged_decode, split_k_merge" in answer.json()["error"]["hint"]


@pytest.mark.parametrize("what", ["dtype", "variant"])
@pytest.mark.parametrize("path", ["starter", "leaderboard"])
def test_an_unknown_track_is_answered_with_those_that_there_are(shared: Site, what: str, path: str) -> None:
    answer = shared.program.get(f"/api/problems/split_k_merge/{path}", params={what: "float7"})
    assert error(answer) == (422, f"unknown_{what}")
    assert {"dtype": "float32", "variant": "base"}[what] in answer.json()["error"]["hint"]


def test_rankings_never_mix_devices(site: Site) -> None:
    judge(site, accepted(12.5), kind="submit", name="slow.cu")
    best = judge(site, accepted(50.0), kind="submit", name="fast.cu")
    board = get(site, "/api/problems/split_k_merge/leaderboard")
    assert (board["dtype"], board["variant"]) == ("float32", "base")
    assert [each["device"] for each in board["boards"]] == ["emulator (H100)"]
    rows = board["boards"][0]["rows"]
    assert [(row["rank"], row["name"], row["score"]) for row in rows] == [(1, "fast.cu", 50.0), (2, "slow.cu", 12.5)]
    assert rows[0]["url"] == f"/submissions/{best}"
    assert get(site, "/api/problems/split_k_merge/leaderboard", params={"dtype": "float16"})["boards"] == []


# Sending


def test_a_submission_is_in_the_store_before_it_is_acknowledged(site: Site) -> None:
    woken = []
    site.app.state.queue = type("Woken", (), {"wake": lambda self: woken.append(1)})()
    answer = site.send(name="my.cu", kind="submit", dtype="float16", device="cpu")
    assert answer.status_code == 201 and woken == [1]
    taken = answer.json()
    assert answer.headers["location"] == taken["url"] == f"/submissions/{taken['id']}"
    found = submissions.get(site.engine, taken["id"])
    assert found and (found.name, found.kind, found.asked_dtype, found.asked_device) == (
        "my.cu", Kind.SUBMIT, "float16", "cpu",
    )  # fmt: skip
    assert site.program.get(taken["source_url"]).text == KERNEL
    assert get(site, f"/api/submissions/{taken['id']}") == taken


@pytest.mark.parametrize(
    ("fields", "status", "code"),
    [
        ({"problem": "unknown"}, 404, "unknown_problem"),
        ({"problem": "../x"}, 422, "invalid"),
        ({"dtype": "float7"}, 422, "unknown_dtype"),
        ({"variant": "lse"}, 422, "unknown_variant"),
        ({"kind": "look"}, 422, "invalid"),
        ({"device": "tpu"}, 422, "invalid"),
        ({"source": ""}, 422, "invalid"),
        ({"source": " \n\t"}, 422, "no_source"),
        ({"source": "int x;\0"}, 422, "no_source"),
        ({"source": 7}, 422, "invalid"),
        ({"name": ""}, 201, ""),
        ({"name": "/"}, 422, "invalid"),
        ({"name": ".."}, 422, "invalid"),
        ({"name": "x" * 201}, 422, "invalid"),
        ({"kernel": "int x;"}, 422, "invalid"),
    ],
)
def test_each_field_is_checked(shared: Site, fields: dict[str, Any], status: int, code: str) -> None:
    answer = shared.send(**fields)
    assert answer.status_code == status
    if code:
        assert error(answer) == (status, code)


@pytest.mark.parametrize(
    ("queue", "status"),
    [(StateOfQueue(), 422), (StateOfQueue(card=True), 201), (StateOfQueue(starting=True), 201), (StateOfQueue("x"), 201)],
)
def test_a_gpu_is_asked_for_where_there_is_one_or_may_be_one(site: Site, queue: StateOfQueue, status: int) -> None:
    """Before the workers are there nobody knows; the judging will."""
    site.app.state.queue = queue
    found = site.send(device="gpu")
    assert found.status_code == status
    if status == 422:
        assert error(found) == (422, "no_gpu") and "this site has no GPU" in found.json()["error"]["message"]
    assert site.send(device="auto").status_code == 201


def test_what_does_not_fit_is_named(shared: Site) -> None:
    message = shared.send(kind="look", device="tpu").json()["error"]["message"]
    assert message == "kind must be 'run' or 'submit'; device must be 'auto', 'cpu' or 'gpu'"


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"source": ""}, "source must not be empty"),
        ({"source": 7}, "source must be text"),
        ({"name": "x" * 201}, "name must have at most 200 characters"),
        ({"kernel": "int x;"}, "the body has a field that is none of: problem, source, kind, "),
        ({"problem": "problems/split_k_merge"}, "problem must be the id of a problem of this site"),
    ],
)
def test_what_is_allowed_is_said_in_plain_words(shared: Site, fields: dict[str, Any], says: str) -> None:
    told = shared.send(**fields).json()["error"]
    assert told["message"].startswith(says)
    assert ("split_k_merge" in told["hint"]) == ("problem" in fields)


def test_a_thousand_unknown_fields_are_one_fault(shared: Site) -> None:
    answer = shared.send(**{f"field_{number}": number for number in range(1000)})
    assert error(answer) == (422, "invalid") and answer.json()["error"]["message"].count("has a field") == 1
    with pytest.raises(ValidationError) as found:
        schemas.NewSubmission.model_validate(dict.fromkeys(map(str, range(1000))))
    assert found.value.error_count() == 1


@pytest.mark.parametrize(
    ("body", "status"),
    [(b"", 422), (b"{", 422), (b"[]", 422), (b"null", 422), (b'"\xff"', 400), (b"[" * 100_000, 400),
     (b'{"source": ' + b"9" * 5000 + b"}", 400), (b'{"a": NaN}', 422)],
)  # fmt: skip
def test_a_body_that_is_no_submission(shared: Site, body: bytes, status: int) -> None:
    headers = {"Content-Type": "application/json"}
    assert error(shared.program.post("/api/submissions", content=body, headers=headers))[0] == status


@pytest.mark.parametrize("type_", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"])
def test_a_body_of_another_type_is_not_read_as_json(shared: Site, type_: str) -> None:
    body = json.dumps(api_kit.new()).encode()
    assert shared.program.post("/api/submissions", content=body, headers={"Content-Type": type_}).status_code == 422


def test_half_a_surrogate_pair_is_no_text(shared: Site) -> None:
    for field in ("source", "name", "kind", "problem"):
        body = json.dumps(api_kit.new(**{field: "a\ud800b"}))
        answer = shared.program.post("/api/submissions", content=body, headers={"Content-Type": "application/json"})
        assert error(answer) == (422, "invalid")


def test_folders_before_a_name_are_left_out(shared: Site) -> None:
    assert shared.send(name="/home/me/flash.cu").json()["name"] == "flash.cu"
    assert shared.send(name="C:\\work\\flash.cu").json()["name"] == "flash.cu"


def test_other_alphabets_come_back_as_they_were_sent(shared: Site) -> None:
    source = "// 注意力 \U0001f600\n" + KERNEL
    taken = shared.send(name="注意力.cu", source=source).json()
    assert taken["name"] == "注意力.cu"
    assert shared.program.get(taken["source_url"]).text == source


def test_the_same_key_twice_is_the_same_submission(site: Site) -> None:
    headers = {"Idempotency-Key": "try-1"}
    sent = [site.program.post("/api/submissions", json=api_kit.new(), headers=headers) for _ in range(3)]
    assert [answer.status_code for answer in sent] == [201] * 3
    assert len({answer.json()["id"] for answer in sent}) == 1
    assert len(get(site, "/api/submissions")["submissions"]) == 1


def test_a_key_that_comes_many_times_at_once_is_one_submission(site: Site) -> None:
    found: list[str] = []

    def send() -> None:
        answer = site.program.post("/api/submissions", json=api_kit.new(), headers={"Idempotency-Key": "at-once"})
        found.append(answer.json()["id"])

    threads = [threading.Thread(target=send) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8 and len(set(found)) == 1


@pytest.mark.parametrize(
    "other", [{"source": "int y;"}, {"kind": "submit"}, {"name": "b.cu"}, {"dtype": "float16"}, {"device": "cpu"}]
)
def test_the_same_key_with_other_content_is_refused(site: Site, other: dict[str, Any]) -> None:
    headers = {"Idempotency-Key": "try-1"}
    first = site.program.post("/api/submissions", json=api_kit.new(), headers=headers).json()["id"]
    answer = site.program.post("/api/submissions", json=api_kit.new(**other), headers=headers)
    assert error(answer) == (409, "key_reused") and first in answer.json()["error"]["message"]


@pytest.mark.parametrize("key", ["", " ", "a b", "x" * 201, "ü"])
def test_a_key_is_short_and_printable(shared: Site, key: str) -> None:
    headers = {"Idempotency-Key": key.encode("latin-1")}
    answer = shared.program.post("/api/submissions", json=api_kit.new(), headers=headers)  # type: ignore[arg-type]
    assert error(answer) == (422, "invalid")


def test_a_store_that_is_locked_or_full_takes_nothing_and_says_so(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OperationalError("INSERT", {}, Exception("database or disk is full"))

    monkeypatch.setattr(submissions, "add", fail)
    answer = site.send()
    assert error(answer) == (503, "store_unavailable") and "retry-after" in answer.headers
    assert "database or disk is full" in answer.json()["error"]["message"]
    assert "INSERT" not in answer.text


# Asking


def test_submissions_are_listed_newest_first_and_page_by_page(site: Site) -> None:
    ids = [site.send(kind=kind).json()["id"] for kind in ("run", "submit", "run")]
    newest = [each["id"] for each in get(site, "/api/submissions")["submissions"]]
    assert newest == ids[::-1]
    page = get(site, "/api/submissions", params={"before": ids[2], "limit": 1})["submissions"]
    assert [each["id"] for each in page] == [ids[1]]
    runs = get(site, "/api/submissions", params={"kind": "run", "problem": "split_k_merge"})["submissions"]
    assert [each["id"] for each in runs] == [ids[2], ids[0]]
    assert get(site, "/api/submissions", params={"problem": "paged_decode"})["submissions"] == []


@pytest.mark.parametrize(
    ("query", "status"),
    [({"limit": 0}, 422), ({"limit": 201}, 422), ({"limit": "x"}, 422), ({"limit": 10**30}, 422),
     ({"before": "a b"}, 422), ({"before": "unknown"}, 404), ({"kind": "x"}, 422), ({"problem": "X"}, 422)],
)  # fmt: skip
def test_each_parameter_of_the_list_is_checked(shared: Site, query: dict[str, Any], status: int) -> None:
    assert error(shared.program.get("/api/submissions", params=query))[0] == status


@pytest.mark.parametrize("path", ["", "/source", "/report", "/events"])
def test_an_unknown_submission(shared: Site, path: str) -> None:
    assert error(shared.program.get(f"/api/submissions/unknown{path}")) == (404, "unknown_submission")


def test_the_report_is_there_when_the_judging_is_finished(site: Site) -> None:
    id = site.send().json()["id"]
    answer = site.program.get(f"/api/submissions/{id}/report")
    assert error(answer) == (404, "no_report") and "queued" in answer.json()["error"]["message"]
    claim = judgings.claim(site.engine, "test")
    assert claim and judgings.finish(site.engine, claim, accepted())
    report = get(site, f"/api/submissions/{id}/report")
    assert (report["schema"], report["verdict"], report["seed"]) == (1, "accepted", 7)
    found = get(site, f"/api/submissions/{id}")
    assert (found["state"], found["verdict"], found["passed"], found["total"]) == ("finished", "accepted", 1, 1)


@pytest.mark.parametrize("packed", [b"no zlib", zlib.compress(b"{}")[:-3], zlib.compress(b"\xff")])
def test_a_report_that_is_damaged_in_the_store_is_told_of(site: Site, packed: bytes) -> None:
    id = site.send().json()["id"]
    claim = judgings.claim(site.engine, "test")
    assert claim and judgings.finish(site.engine, claim, accepted())
    with database.writing(site.engine) as session:
        session.execute(text("UPDATE run SET report = :packed"), {"packed": packed})
    assert error(site.program.get(f"/api/submissions/{id}/report")) == (500, "unreadable_report")
    page = site.program.get(f"/submissions/{id}/compare/{id}")
    assert page.status_code == 500 and "damaged in the store" in page.text
    assert site.program.get(f"/submissions/{id}").status_code == 200  # with its source


def test_cancelling(site: Site) -> None:
    asked = []
    site.app.state.queue = type("Asked", (), {"wake": lambda self: None, "cancel": lambda self, id: asked.append(id)})()
    waits = site.send().json()["id"]
    answer = site.program.post(f"/api/submissions/{waits}/cancel")
    assert (answer.status_code, answer.json()["state"], asked) == (202, "cancelled", [waits])
    runs = site.send().json()["id"]
    claim = judgings.claim(site.engine, "test")
    assert claim and site.program.post(f"/api/submissions/{runs}/cancel").json()["state"] == "running"
    assert judgings.cancel_requested(site.engine, claim)
    assert error(site.program.post("/api/submissions/unknown/cancel")) == (404, "unknown_submission")


def test_health_says_why_nothing_is_judged(site: Site) -> None:
    assert get(site, "/api/health")["status"] == "ok"
    site.send()
    site.app.state.queue = StateOfQueue(starting=True)
    found = get(site, "/api/health")
    assert (found["status"], found["trouble"]) == ("starting", "")
    site.app.state.queue = StateOfQueue("the scheduler is gone")
    found = get(site, "/api/health")
    assert (found["status"], found["trouble"], found["waiting"]) == ("trouble", "the scheduler is gone", 1)
    assert found["judge"] == "cuda-attention-judge"


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [("DELETE", "/api/submissions", "GET, HEAD, POST"), ("POST", "/api/health", "GET, HEAD"), ("GET", "/api/submissions/x/cancel", "POST")],
)  # fmt: skip
def test_another_method_is_answered_with_those_that_there_are(shared: Site, method: str, path: str, allowed: str) -> None:
    answer = shared.program.request(method, path)
    assert error(answer) == (405, "method_not_allowed") and answer.headers["allow"] == allowed


@pytest.mark.parametrize("path", ["/", "/submissions", "/problems/split_k_merge", "/api/health", "/static/site.css", "/none"])
def test_head_is_get_without_a_body(shared: Site, path: str) -> None:
    head, whole = shared.program.head(path), shared.program.get(path)
    assert head.content == b"" and whole.content != b""
    for same in ("content-type", "content-length", "content-security-policy"):
        assert head.headers.get(same) == whole.headers.get(same)
    assert head.status_code == whole.status_code


def test_head_of_a_stream_ends(shared: Site) -> None:
    answer = shared.program.head(shared.send().json()["events_url"])
    assert answer.status_code == 200 and answer.content == b"" and shared.app.state.streams.open == 0
    assert shared.program.head("/api/submissions/x/cancel").status_code == 405


# Events


def events(text: str) -> list[dict[str, Any]]:
    """Those of a stream, each checked to be whole."""
    found = []
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith((":", "retry")))
        if fields:
            event = json.loads(fields["data"])
            assert (str(event["seq"]), event["type"]) == (fields["id"], fields["event"])
            found.append(event)
    return found


def test_the_events_of_a_judging_in_their_order(site: Site) -> None:
    id = judge(site, accepted())
    answer = site.program.get(f"/api/submissions/{id}/events")
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["cache-control"] == "no-store"
    assert [(event["seq"], event["type"]) for event in events(answer.text)] == [(1, "queued"), (2, "finished")]
    assert events(answer.text)[1]["verdict"] == "accepted"


@pytest.mark.parametrize(("query", "header"), [({"after": 1}, {}), ({"after": 0}, {"Last-Event-ID": "1"})])
def test_a_stream_goes_on_where_it_was_cut(site: Site, query: dict[str, int], header: dict[str, str]) -> None:
    id = judge(site, accepted())
    answer = site.program.get(f"/api/submissions/{id}/events", params=query, headers=header)
    assert [event["seq"] for event in events(answer.text)] == [2]


def test_behind_the_end_there_is_nothing_to_come_back_for(site: Site) -> None:
    id = judge(site, accepted())
    for seq in ("2", "99"):
        assert site.program.get(f"/api/submissions/{id}/events", headers={"Last-Event-ID": seq}).status_code == 204


@pytest.mark.parametrize("seq", ["x", "-1", str(2**40), "1; --"])
def test_a_number_of_an_event_is_a_number(shared: Site, seq: str) -> None:
    id = shared.send().json()["id"]
    assert shared.program.get(f"/api/submissions/{id}/events", headers={"Last-Event-ID": seq}).status_code == 422
    assert shared.program.get(f"/api/submissions/{id}/events", params={"after": seq}).status_code == 422


class Client:
    """Somebody who follows a judging, in this process."""

    def __init__(self, site: Site, id: str, seq: int = 0):
        found = submissions.get(site.engine, id)
        assert found
        self.gone = False
        self.streams = Streams()
        request = Request({"type": "http", "headers": [], "method": "GET", "path": "/"}, self._receive)
        self.lines = Follower(request, site.engine, self.streams, id, found.run_id, seq).lines()

    async def _receive(self) -> dict[str, Any]:
        if not self.gone:
            await asyncio.Event().wait()
        return {"type": "http.disconnect"}

    async def next(self) -> str:
        """What comes next, whenever it comes; for a stream that hangs there is an end."""
        return await asyncio.wait_for(anext(self.lines), 20)


def test_a_judging_is_followed_while_it_runs_and_starts_again(site: Site) -> None:
    id = site.send().json()["id"]

    async def follow() -> list[str]:
        client = Client(site, id)
        seen = [await client.next(), await client.next()]
        claim = judgings.claim(site.engine, "test")
        assert claim and judgings.add_events(site.engine, claim, [("compiling", {"seed": 1}), ("compiled", {"ok": True})])
        seen += [await client.next(), await client.next()]
        judgings.release(site.engine, claim, "its worker died")
        seen.append(await client.next())
        again = judgings.claim(site.engine, "test")
        assert again and judgings.finish(site.engine, again, accepted())
        seen += [line async for line in client.lines]
        return seen

    found = events("".join(asyncio.run(follow())))
    assert [event["type"] for event in found] == ["queued", "compiling", "compiled", "restarted", "finished"]
    assert [event["seq"] for event in found] == [1, 2, 3, 4, 5]
    assert found[3]["why"] == "its worker died"


def test_the_place_in_the_queue_counts_down(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "PLACE_SECONDS", 0.0)
    first, second = site.send().json(), site.send(kind="submit").json()
    assert (first["position"], second["position"]) == (1, 2)

    async def follow() -> list[str]:
        client = Client(site, second["id"])
        seen = [await client.next(), await client.next()]
        claim = judgings.claim(site.engine, "test")
        assert claim and claim.submission_id == first["id"]
        seen.append(await client.next())
        again = judgings.claim(site.engine, "test")
        assert again and judgings.add_events(site.engine, again, [("compiling", {"seed": 1})])
        return [*seen, await client.next()]

    _, queued, place, compiling = asyncio.run(follow())
    assert place == 'event: position\ndata: {"seq": 1, "type": "position", "position": 1}\n\n'
    assert [event["seq"] for event in events(queued + compiling)] == [1, 2]
    assert get(site, f"/api/submissions/{second['id']}")["position"] is None


@pytest.mark.parametrize("how", ["client", "site"])
def test_a_stream_ends_with_its_client_and_with_the_site(site: Site, how: str) -> None:
    id = site.send().json()["id"]

    async def follow() -> None:
        client = Client(site, id)
        await client.next()
        await client.next()
        if how == "client":
            client.gone = True
        else:
            client.streams.close()
        with pytest.raises(StopAsyncIteration):
            await client.next()

    asyncio.run(follow())


def test_silence_is_broken_by_a_comment(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "HEARTBEAT_SECONDS", 0.0)
    id = site.send().json()["id"]

    async def follow() -> list[str]:
        client = Client(site, id)
        return [await client.next() for _ in range(4)]

    assert asyncio.run(follow())[2:] == [":\n\n", ":\n\n"]


def test_streams_are_counted_and_let_go(site: Site) -> None:
    held = Streams(most=1)
    with held.slot():
        with pytest.raises(SiteError, match="1 streams are open already"), held.slot():
            pass
        site.app.state.streams = held
        id = judge(site, accepted())
        answer = site.program.get(f"/api/submissions/{id}/events")
        assert error(answer) == (503, "too_many_streams") and "retry-after" in answer.headers
    assert site.program.get(f"/api/submissions/{id}/events").status_code == 200
    assert held.open == 0


def test_the_description_names_every_answer(shared: Site) -> None:
    described = get(shared, "/api/openapi.json")
    assert not [path for path in described["paths"] if not path.startswith("/api/")]
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            assert operation.get("description"), f"{method} {path}"
            assert {"400", "503"} <= set(operation["responses"])


def test_programs_need_no_cookie_and_get_none(shared: Site) -> None:
    answer = shared.program.get("/api/problems", headers=PROGRAM)
    assert "set-cookie" not in answer.headers
