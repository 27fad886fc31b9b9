"""`judge.py submit` against sites that are busy, gone, cut off, of another kind or of another version."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

import judge
from harness.errors import UsageError
from harness.report import json as report_json
from harness.results import CompileResult, Report
from harness.verdict import Verdict
from tests import sample_reports
from web.client import command
from web.client import site as client
from web.client.site import Site

Handler = Callable[[httpx2.Request], httpx2.Response]
HEALTH = {"judge": "cuda-attention-judge", "version": "0.1.0", "status": "ok", "trouble": "", "waiting": 0}
BUSY = {"error": {"code": "queue_full", "message": "100 submissions wait already", "hint": "try again in 7 s"}}


class Fake:
    """A site that answers one request after the other as it is told, and remembers what was asked."""

    def __init__(self, *answers: httpx2.Response | BaseException):
        self._answers = list(answers)
        self.requests: list[httpx2.Request] = []
        self.slept: list[float] = []
        self.told: list[str] = []

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(request)
        answer = self._answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def site(self, url: str = "http://127.0.0.1:8000") -> Site:
        return Site(url, self.told.append, httpx2.MockTransport(self), self.slept.append)


def answer(status: int = 200, body: Any = None, **headers: str) -> httpx2.Response:
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx2.Response(status, json=body, headers=given)


def stream(*events: dict[str, Any]) -> httpx2.Response:
    lines = ["retry: 2000\n\n", ":\n\n"]
    lines += [f"id: {event['seq']}\nevent: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events]
    return httpx2.Response(200, text="".join(lines), headers={"Content-Type": "text/event-stream"})


def event(seq: int, type: str, **data: Any) -> dict[str, Any]:
    return {"seq": seq, "type": type} | data


CUT = httpx2.ReadError("the line is cut")


@pytest.mark.parametrize(
    "url", ["", "127.0.0.1:8000", "ftp://127.0.0.1", "file:///etc/passwd", "http://", "http://me:word@host", "http://h/x",
            "http://h?x", "http://h:x", "http://h:99999", "javascript:alert(1)"],
)  # fmt: skip
def test_only_addresses_of_sites_are_taken(url: str) -> None:
    with pytest.raises(UsageError, match="is no address of a site; one looks like http://"):
        Fake().site(url)


def test_a_last_slash_and_ipv6_are_fine() -> None:
    assert Fake().site("http://localhost:8000/").url == "http://localhost:8000"
    assert Fake().site("http://[::1]:8000").url == "http://[::1]:8000"


def test_a_site_that_is_not_there_is_told_with_what_starts_one() -> None:
    with pytest.raises(UsageError, match=r"no site answers at http://127.0.0.1:8000: refused; `judge.py serve`"):
        Fake(httpx2.ConnectError("refused")).site().check()


@pytest.mark.parametrize(
    "found", [answer(404, {"detail": "Not Found"}), httpx2.Response(200, text="<html>"), answer(200, [1]),
              answer(200, {"judge": "another"}), httpx2.Response(500)],
)  # fmt: skip
def test_what_is_no_judge_is_told(found: httpx2.Response) -> None:
    with pytest.raises(UsageError, match="is no site of this judge"):
        Fake(found).site().check()


def test_the_sites_own_refusal_is_told() -> None:
    refusal = {"error": {"code": "wrong_host", "message": "not by that name", "hint": "use localhost\x1b[2J"}}
    with pytest.raises(UsageError, match=r"not by that name; use localhost\\x1b"):
        Fake(answer(400, refusal)).site().check()


def test_trouble_is_told() -> None:
    fake = Fake(answer(200, HEALTH | {"trouble": "the scheduler is gone"}))
    fake.site().check()
    assert fake.told == ["the site cannot judge at the moment: the scheduler is gone"]


def test_a_busy_site_is_asked_again_when_it_says_and_gets_the_submission_once() -> None:
    fake = Fake(answer(503, BUSY, Retry_After="7"), answer(429, BUSY, Retry_After="3"), CUT, answer(201, {"id": "a"}))
    assert fake.site().submit({"source": "x"}) == "a"
    assert fake.slept[:2] == [7.0, 3.0] and len(fake.slept) == 3
    keys = {request.headers["Idempotency-Key"] for request in fake.requests}
    assert len(fake.requests) == 4 and len(keys) == 1
    assert all(request.headers["X-Judge-Client"].startswith("judge.py/") for request in fake.requests)
    assert fake.told == ["100 submissions wait already; try again in 7 s"] * 2


def test_a_site_that_is_busy_at_first_is_a_site() -> None:
    fake = Fake(httpx2.Response(503, text="Service Unavailable"), answer(503, BUSY, Retry_After="7"), answer(200, HEALTH))
    fake.site().check()
    assert fake.slept == [7.0] and len(fake.told) == 1


@pytest.mark.parametrize(("header", "seconds"), [("soon", 5.0), ("", 5.0), ("-1", 5.0), ("99999", 120.0), ("0", 0.0), ("9" * 5000, 5.0)])
def test_any_retry_after_is_taken_with_care(header: str, seconds: float) -> None:
    fake = Fake(answer(503, BUSY, Retry_After=header), answer(201, {"id": "a"}))
    fake.site().submit({})
    assert fake.slept == [seconds]


def test_a_refusal_is_not_sent_again() -> None:
    fake = Fake(answer(413, {"error": {"code": "x", "message": "too long", "hint": "shorten it"}}))
    with pytest.raises(UsageError, match="refuses it: too long; shorten it"):
        fake.site().submit({})
    assert len(fake.requests) == 1


def test_a_line_that_stays_cut_is_given_up() -> None:
    fake = Fake(*[CUT] * 10)
    with pytest.raises(UsageError, match="does not answer: the line is cut"):
        fake.site().submit({})


def test_events_go_on_where_the_line_was_cut() -> None:
    fake = Fake(
        stream(event(1, "queued"), event(2, "compiling")), answer(200, {"state": "running"}),  # the site closes it
        CUT, answer(503, BUSY, Retry_After="4"), answer(200, {"state": "running"}),
        stream(event(3, "restarted", why="its worker died"), event(4, "finished")),
    )  # fmt: skip
    seen = [each["seq"] for each in fake.site().events("a")]
    assert seen == [1, 2, 3, 4]
    streams = [request for request in fake.requests if request.url.path.endswith("/events")]
    assert [request.headers["Last-Event-ID"] for request in streams] == ["0", "2", "2", "2"]
    assert 4.0 in fake.slept and fake.told == ["the connection is lost; trying again"]


def test_the_place_in_the_queue_is_no_step_of_its_own() -> None:
    fake = Fake(
        stream(event(1, "queued", position=3), event(1, "position", position=2)), answer(200, {"state": "queued"}),
        stream(event(1, "position", position=1), event(2, "finished")),
    )  # fmt: skip
    said = [command.step(each) for each in fake.site().events("a")]
    assert said == [*(f"waiting in the queue, place {place}" for place in (3, 2, 1)), ""]
    assert [request.headers["Last-Event-ID"] for request in fake.requests if "events" in str(request.url)] == ["0", "1"]


def test_a_judging_that_ended_meanwhile_has_no_events_left() -> None:
    fake = Fake(httpx2.Response(204), answer(200, {"state": "finished"}))
    assert list(fake.site().events("a")) == []


def test_a_site_that_stays_away_is_given_up_with_where_it_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_PATIENCE_SECONDS", -1.0)
    with pytest.raises(UsageError, match=r"does not answer any more.*http://127.0.0.1:8000/submissions/a"):
        list(Fake(CUT).site().events("a"))


def test_a_submission_that_the_site_forgot() -> None:
    refusal = {"error": {"code": "x", "message": "there is no such submission", "hint": ""}}
    with pytest.raises(UsageError, match="there is no such submission"):
        list(Fake(answer(404, refusal)).site().events("a"))


STRANGE: list[tuple[str, httpx2.Response]] = [
    ("health", httpx2.Response(200, text="[" * 100_000)),
    ("health", answer(200, ["judge"])),
    ("health", httpx2.Response(200, content=iter([b"no gzip"]), headers={"Content-Encoding": "gzip"})),
    ("submit", httpx2.Response(201, text="<html>welcome</html>")),
    ("submit", answer(201, {"id": "../../admin\x1b[2J"})),
    ("submit", answer(201, {"id": ["a"]})),
    ("submit", answer(201, {})),
    ("submit", answer(302, None, location="http://127.0.0.1:8000/api/submissions")),
    ("submit", answer(400, {"error": {"message": "\x1b]0;mine\x07"}})),
    ("events", stream({"seq": "1", "type": "queued"})),
    ("events", stream({"type": ["queued"], "seq": 1})),
    ("events", httpx2.Response(200, text="data: [1\n\n", headers={"Content-Type": "text/event-stream"})),
    ("state", answer(200, {"state": {"cancelled": 1}})),
    ("state", httpx2.Response(200, text="null")),
    ("report", httpx2.Response(200, text="{" * 100_000)),
]


@pytest.mark.parametrize(("what", "strange"), STRANGE)
def test_what_no_site_of_this_judge_says_is_told_in_a_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], file: Path, what: str, strange: httpx2.Response
) -> None:
    """And none of it reaches the terminal as it came, or becomes a part of an address."""
    at = ["health", "submit", "events", "state", "report"].index(what)
    fake = Fake(*finished(Verdict.ACCEPTED)[:at], strange)
    assert run(monkeypatch, fake, str(file)) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "http://127.0.0.1:8000" in said and "\x1b" not in said
    assert len(fake.requests) == at + 1


def test_an_answer_without_end_is_not_read_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_MOST_BYTES", 1 << 20)
    given: list[int] = []

    def endless() -> Iterator[bytes]:
        while True:
            given.append(1)
            yield b" " * 65536

    with pytest.raises(UsageError, match="over 1 MiB"):
        Fake(httpx2.Response(200, content=endless())).site().check()
    assert len(given) == 17


def test_a_report_steers_no_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], file: Path) -> None:
    """Nor does any of its texts that a judge of our own would have chosen itself."""
    report = sample_reports.measured()
    planted = dataclasses.replace(report, dtype="float32\x1b[2J", device="a card\x1b]0;mine\x07", variant="base\u202e")
    text = httpx2.Response(200, text=report_json.render(planted))
    assert run(monkeypatch, Fake(*finished(Verdict.ACCEPTED)[:-1], text), str(file)) == 0
    printed = capsys.readouterr().out
    assert "float32\\x1b[2J" in printed and not set("\x1b\x07\u202e") & set(printed)


def test_markup_in_a_step_is_text(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with command._progress() as show:
        show(event(1, "restarted", why="[/bold] [red]its[/red] worker died"))


# The command


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "my.cu"
    path.write_text('extern "C" void solve() {}\n')
    return path


def run(monkeypatch: pytest.MonkeyPatch, fake: Fake, *words: str) -> int:
    monkeypatch.setattr(command, "Site", lambda url, tell: Site(url, tell, httpx2.MockTransport(fake), fake.slept.append))
    return judge.main(["submit", "split_k_merge", *words])


def taken() -> httpx2.Response:
    return answer(201, {"id": "a", "url": "/submissions/a", "state": "queued"})


def finished(verdict: Verdict) -> list[httpx2.Response]:
    """What a site answers from the submission to the report."""
    report = Report("split_k_merge", "my.cu", "emulator (H100)", "float32", 7, verdict, CompileResult(True))
    text = httpx2.Response(200, text=report_json.render(report))
    return [answer(200, HEALTH), taken(), stream(event(1, "finished")), answer(200, {"state": "finished"}), text]


@pytest.mark.parametrize(
    ("verdict", "code"),
    [(Verdict.ACCEPTED, 0), (Verdict.WRONG_ANSWER, 1), (Verdict.JUDGE_ERROR, 3), (Verdict.UNSUPPORTED, 4)],
)
def test_exit_codes_are_those_of_judging_here(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], file: Path, verdict: Verdict, code: int
) -> None:
    assert run(monkeypatch, Fake(*finished(verdict)), str(file), "--run", "--dtype", "float16") == code
    printed = capsys.readouterr().out
    assert verdict in printed and "--seed 7 --cases samples --dtype float16" in printed


def test_what_is_sent(monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
    fake = Fake(*finished(Verdict.ACCEPTED))
    assert run(monkeypatch, fake, str(file), "--name", "mine.cu", "--device", "cpu", "--variant", "base") == 0
    assert json.loads(fake.requests[1].content) == {
        "problem": "split_k_merge", "source": file.read_text(), "kind": "submit", "name": "mine.cu", "dtype": None,
        "variant": "base", "device": "cpu",
    }  # fmt: skip


def test_the_report_as_json_goes_where_it_is_wanted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], file: Path, tmp_path: Path
) -> None:
    assert run(monkeypatch, Fake(*finished(Verdict.ACCEPTED)), str(file), "--json", "-") == 0
    printed = capsys.readouterr().out
    assert run(monkeypatch, Fake(*finished(Verdict.ACCEPTED)), str(file), "--json", str(tmp_path / "r.json")) == 0
    assert json.loads(printed) == json.loads((tmp_path / "r.json").read_text())
    assert run(monkeypatch, Fake(), str(file), "--json", str(file)) == 2


def test_without_waiting_only_the_address_is_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], file: Path
) -> None:
    assert run(monkeypatch, Fake(answer(200, HEALTH), taken()), str(file), "--no-wait") == 0
    assert capsys.readouterr().out == "http://127.0.0.1:8000/submissions/a\n"


def test_a_judging_that_somebody_cancelled(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], file: Path
) -> None:
    answers = [answer(200, HEALTH), taken(), stream(event(1, "cancelled")), answer(200, {"state": "cancelled"})]
    assert run(monkeypatch, Fake(*answers), str(file)) == 1
    assert "was cancelled: http://127.0.0.1:8000/submissions/a" in capsys.readouterr().err


def test_ctrl_c_cancels_the_judging(monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
    fake = Fake(answer(200, HEALTH), taken(), KeyboardInterrupt(), answer(202, {}))
    assert run(monkeypatch, fake, str(file)) == 130
    assert (fake.requests[-1].method, fake.requests[-1].url.path) == ("POST", "/api/submissions/a/cancel")


def test_a_site_of_another_version(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], file: Path) -> None:
    answers = finished(Verdict.ACCEPTED)[:-1]
    assert run(monkeypatch, Fake(*answers, answer(200, {"schema": 99})), str(file)) == 2
    assert "is of another version of the judge" in capsys.readouterr().err


def test_what_is_no_source_is_judged_without_a_site(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    empty = tmp_path / "empty.cu"
    empty.write_text(" ")
    assert run(monkeypatch, Fake(), str(empty)) == 1
    assert "compile_error" in capsys.readouterr().out
    assert run(monkeypatch, Fake(), str(tmp_path / "none.cu")) == 2


def test_steps_in_words_steer_no_terminal() -> None:
    assert command.step(event(1, "case_started", name="a\x1b[2J", number=1, total=3)) == "case 1/3  a\\x1b[2J"
    assert command.step(event(1, "restarted", why="its worker died")) == "starting again: its worker died"
    assert command.step(event(1, "case_started")) == command.step(event(1, "unheard_of")) == ""
