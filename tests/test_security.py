"""What another site's page, a careless program and a hostile submission cannot do to the site.

Rows about users who hide things from each other (a foreign source by its id, verdicts as an oracle for hidden data)
have no test: the site serves the one user who started it, and there are neither accounts nor contests.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from tests import api_kit
from tests.api_kit import KERNEL, PROGRAM, URL, Site
from web.security import csrf, guard, hosts, rate
from web.settings import Bounds
from web.store import submissions

HOST = {"Host": "localhost:8000"}
JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    made = api_kit.site(tmp_path_factory.mktemp("site"))
    yield made
    made.engine.dispose()


def sent(site: Site) -> int:
    return len(submissions.latest(site.engine, limit=10_000))


# The name that the site goes by


@pytest.mark.parametrize("host", ["localhost:8000", "127.0.0.1:8000", "[::1]:8000", "LOCALHOST:8000"])
def test_names_of_loopback_are_served(site: Site, host: str) -> None:
    assert site.program.get("/api/health", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8000", "localhost", "localhost:8001", "127.0.0.1.evil.example:8000",
             "localhost:8000.evil.example", "localhost:8000@evil.example", "", "0.0.0.0:8000", "localhost.:8000"],
)  # fmt: skip
@pytest.mark.parametrize("path", ["/", "/api/health", "/static/site.css"])
def test_a_spoofed_host_as_of_dns_rebinding_is_refused(site: Site, host: str, path: str) -> None:
    answer = site.program.get(path, headers={"Host": host})
    assert answer.status_code == 400
    assert "evil" not in answer.text and "set-cookie" not in answer.headers


def test_a_second_host_is_refused(site: Site) -> None:
    scope_headers = {"host": "localhost:8000", "Host": "evil.example"}  # two entries in the list of headers
    assert api_kit.raw(site.app, "GET", "/", scope_headers, api_kit.chunks([]))[0] == 400


def test_a_site_on_the_port_of_http_is_called_without_it() -> None:
    assert {"localhost", "localhost:80"} <= hosts.allowed("127.0.0.1", 80)
    assert "localhost" not in hosts.allowed("127.0.0.1", 8000)


# Requests that pages of other sites make


@pytest.mark.parametrize(
    "headers",
    [{"Origin": "https://evil.example"}, {"Origin": "null"}, {"Origin": "http://localhost:3000"}, {"Origin": ""},
     {"Origin": "https://localhost:8000"}, {"Origin": "http://localhost:8000.evil.example"},
     {"Origin": "http://127.0.0.1:8000"}, {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}],
)  # fmt: skip
def test_a_post_from_another_origin_is_refused_although_cookie_and_token_are_right(
    site: Site, headers: dict[str, str]
) -> None:
    before = sent(site)
    browser, token = site.browser()
    answer = browser.post("/api/submissions", json=api_kit.new(), headers={"X-CSRF-Token": token} | headers)
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "wrong_origin")
    assert sent(site) == before


def test_a_page_of_the_site_may_post(site: Site) -> None:
    browser, token = site.browser()
    own = {"Origin": URL, "Sec-Fetch-Site": "same-origin", "X-CSRF-Token": token}
    assert browser.post("/api/submissions", json=api_kit.new(), headers=own).status_code == 201


def test_a_form_may_bring_the_token_in_a_field(site: Site) -> None:
    browser, token = site.browser()
    answers = [
        browser.post("/", data={"source": KERNEL, "csrf_token": word}).status_code for word in (token, "", token[:-1])
    ]
    assert answers == [405, 403, 403]  # past the guard, there is nothing to post to


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize("token", [None, "", "x", "0" * 64, "ä"])
def test_a_change_without_the_pages_token_is_refused(site: Site, method: str, token: str | None) -> None:
    browser, _ = site.browser()
    headers = {} if token is None else {"X-CSRF-Token": token.encode("latin-1")}
    answer = browser.request(method, "/api/submissions", headers=headers)  # type: ignore[arg-type]
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "stale_token")


def test_the_token_of_another_browser_does_not_fit(site: Site) -> None:
    (one, own), (_, foreign) = site.browser(), site.browser()
    assert own != foreign
    headers = {"X-CSRF-Token": foreign}
    assert one.post("/api/submissions", json=api_kit.new(), headers=headers).status_code == 403


def test_whoever_plants_a_cookie_cannot_make_its_token(site: Site) -> None:
    planted = "A" * 32  # as another server on this machine can, since cookies know no ports
    client = TestClient(site.app, base_url=URL, cookies={csrf.COOKIE: planted})
    for token in (planted, csrf.token(b"", planted), csrf.token(b"\0" * 32, planted)):
        assert client.post("/api/submissions", json=api_kit.new(), headers={"X-CSRF-Token": token}).status_code == 403


def test_the_cookie_is_kept_from_scripts_and_given_once(site: Site) -> None:
    client = TestClient(site.app, base_url=URL)
    first = client.get("/").headers["set-cookie"]
    assert "HttpOnly" in first and "SameSite=Lax" in first and "Path=/" in first
    assert "set-cookie" not in client.get("/").headers
    assert "set-cookie" not in client.get("/static/site.css").headers


def test_a_preflight_is_never_granted(site: Site) -> None:
    asks = {"Origin": "https://evil.example", "Access-Control-Request-Headers": "x-judge-client"}
    answer = site.program.options("/api/submissions", headers=asks | {"Access-Control-Request-Method": "POST"})
    assert answer.status_code == 405
    assert not any(name.startswith("access-control") for name in answer.headers)


# Bodies


def test_a_long_body_is_refused_by_its_length(site: Site) -> None:
    answer = site.program.post("/api/submissions", content=b" " * (3 << 20), headers=JSON)
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "body_too_long")


def test_a_long_body_in_chunks_is_refused_while_it_is_read(site: Site) -> None:
    taken = 0

    def parts() -> Iterator[bytes]:
        nonlocal taken
        for _ in range(1000):
            taken += 1 << 20
            yield b" " * (1 << 20)

    status, body = api_kit.raw(
        site.app, "POST", "/api/submissions", HOST | PROGRAM | JSON, api_kit.chunks(parts())
    )  # fmt: skip
    assert status == 413 and taken <= 20 << 20
    assert json.loads(body)["error"]["code"] == "body_too_long"


def test_a_compressed_body_is_not_unpacked(site: Site) -> None:
    bomb = gzip.compress(b" " * (8 << 20))
    for encoding in ("gzip", "br", "identity, gzip"):
        answer = site.program.post("/api/submissions", content=bomb, headers=JSON | {"Content-Encoding": encoding})
        assert (answer.status_code, answer.json()["error"]["code"]) == (415, "compressed")


def test_a_body_that_does_not_come_is_not_waited_for(site: Site) -> None:
    impatient = guard.Guard(site.app, hosts.allowed("127.0.0.1", 8000), b"s" * 32, 1000, body_seconds=0.05)
    headers = HOST | PROGRAM | JSON
    status, body = api_kit.raw(impatient, "POST", "/api/submissions", headers, api_kit.never_ending())
    assert (status, json.loads(body)["error"]["code"]) == (408, "too_slow")


def test_a_source_over_its_limit_is_told_how_long_it_is(site: Site) -> None:
    for extra, status in ((0, 201), (1, 413)):
        source = "/" * (256 * 1024 - len("int x;") + extra) + "int x;"
        answer = site.send(source=source)
        assert answer.status_code == status
    assert "262145 bytes" in answer.json()["error"]["message"] and "262144" in answer.json()["error"]["message"]


def test_bytes_count_and_not_characters(site: Site) -> None:
    assert site.send(source="界" * (256 * 1024 // 3 + 1)).status_code == 413


# How much


def test_too_many_submissions_a_minute_are_told_when_to_come_again(tmp_path: Path) -> None:
    site = api_kit.site(tmp_path, Bounds(per_minute=3))
    assert [site.send().status_code for _ in range(4)] == [201, 201, 201, 429]
    refused = site.send()
    assert refused.json()["error"]["code"] == "too_many" and int(refused.headers["retry-after"]) >= 1
    site.engine.dispose()


def test_tokens_come_back_with_time() -> None:
    now = 0.0
    bucket = rate.Bucket(60, lambda: now)
    assert [bucket.take() for _ in range(60)] == [0.0] * 60
    assert bucket.take() == pytest.approx(1.0)
    now = 0.5
    assert bucket.take() == pytest.approx(0.5)
    now = 1.0
    assert bucket.take() == 0.0
    now = 10_000.0
    assert [bucket.take() for _ in range(61)].count(0.0) == 60


def test_a_full_queue_says_so(tmp_path: Path) -> None:
    site = api_kit.site(tmp_path, Bounds(queued=2, per_minute=1000))
    assert [site.send().status_code for _ in range(3)] == [201, 201, 503]
    refused = site.send()
    assert refused.json()["error"]["code"] == "queue_full" and int(refused.headers["retry-after"]) >= 1
    site.engine.dispose()


# What comes back


@pytest.mark.parametrize("path", ["/", "/nothing", "/api/health", "/api/nothing", "/static/site.css"])
def test_every_answer_forbids_inline_scripts_and_frames(site: Site, path: str) -> None:
    headers = site.program.get(path).headers
    policy = dict(part.strip().split(" ", 1) for part in headers["content-security-policy"].split(";"))
    assert policy["default-src"] == policy["script-src"] == policy["style-src"] == "'self'"
    assert policy["frame-ancestors"] == policy["base-uri"] == policy["object-src"] == "'none'"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cross-origin-resource-policy"] == headers["cross-origin-opener-policy"] == "same-origin"


def test_pages_are_not_kept_and_files_are_checked_again(site: Site) -> None:
    assert site.program.get("/").headers["cache-control"] == "no-store"
    style = site.program.get("/static/site.css")
    assert style.headers["cache-control"] == "no-cache"
    again = site.program.get("/static/site.css", headers={"If-None-Match": style.headers["etag"]})
    assert again.status_code == 304 and again.headers["x-content-type-options"] == "nosniff"


def test_a_failure_of_ours_has_a_number_and_no_trace(
    site: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise KeyError("/etc/secret")

    monkeypatch.setattr(submissions, "latest", fail)
    answer = site.program.get("/api/submissions")
    assert answer.status_code == 500 and "secret" not in answer.text and "Traceback" not in answer.text
    number = answer.json()["error"]["message"].split()[-1]
    assert f"error {number}: GET /api/submissions failed: KeyError" in caplog.text and "Traceback" in caplog.text
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_a_source_is_text_whatever_it_holds(site: Site) -> None:
    page = "<script>alert(1)</script>\n"
    id = site.send(source=page, name="<img src=x onerror=alert(1)>").json()["id"]
    answer = site.program.get(f"/api/submissions/{id}/source")
    assert answer.headers["content-type"] == "text/plain; charset=utf-8" and answer.text == page
    assert answer.headers["x-content-type-options"] == "nosniff"
    listed = site.program.get("/api/submissions")
    assert listed.headers["content-type"] == "application/json" and "<img" in listed.text


@pytest.mark.parametrize("name", ["a\r\nSet-Cookie: x=1", "a\nb.cu", "\x1b[2J.cu", "a\u202eb.cu", "a\0.cu"])
def test_a_name_injects_no_header_and_steers_no_terminal(site: Site, name: str) -> None:
    answer = site.send(name=name)
    assert answer.status_code == 422 and "set-cookie" not in answer.headers


@pytest.mark.parametrize("path", ["//evil.example", "//evil.example/", "/\\evil.example/", "/%0d%0aLocation:x", "/./"])
def test_no_path_redirects_elsewhere(site: Site, path: str) -> None:
    status, _ = api_kit.raw(site.app, "GET", path, HOST, api_kit.chunks([]))
    assert status == 404


def test_sql_is_inert_in_every_field(site: Site) -> None:
    before = sent(site)
    attack = "x'; DROP TABLE submission; --"
    for field in ("problem", "kind", "dtype", "variant", "device"):
        assert site.send(**{field: attack}).status_code in (404, 422)
    assert site.send(name=attack, source=attack).json()["name"] == attack
    headers = {"Idempotency-Key": attack.replace(" ", "")}
    assert site.program.post("/api/submissions", json=api_kit.new(), headers=headers).status_code == 201
    for query in ("problem", "kind", "before", "limit"):
        assert site.program.get("/api/submissions", params={query: attack}).status_code == 422
    assert site.program.get(f"/api/submissions/{attack}").status_code == 422
    assert site.program.get("/api/problems/split_k_merge/leaderboard", params={"dtype": attack}).status_code == 422
    assert sent(site) == before + 2


@pytest.mark.parametrize("name", ["../solutions", "..", "%2e%2e%2fharness", "/etc", "split_k_merge%2f..%2fpaged_decode"])
def test_a_problem_is_an_id_and_never_a_path(site: Site, name: str) -> None:
    assert site.send(problem=name).status_code == 422
    assert site.program.get(f"/api/problems/{name}").status_code in (404, 422)
