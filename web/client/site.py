"""A site as a program sees it: its JSON API over HTTP, with patience where the site asks for some.

    UsageError    the address is none, nobody answers there, it is no site of this judge, or it refuses the request

What answers may be anything: it is read up to a bound, and nothing of it is used that is not what a site of this judge
says.
"""

from __future__ import annotations

import contextlib
import json
import re
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httpx2

from harness import __version__
from harness.errors import UsageError
from harness.report.excerpt import printable
from web.security import hosts

_FINAL = ("finished", "cancelled")
_TIMEOUT = httpx2.Timeout(20.0, connect=5.0)
_SILENCE_SECONDS = 45.0  # of a stream, which shows every 15 s that somebody is there
_PATIENCE_SECONDS = 60.0  # without a word of the site
_BUSY_SECONDS = 600.0  # that a full queue is waited for
_PAUSES = (0.5, 1.0, 2.0, 4.0, 8.0)
_MOST_EVENT = 16 << 20  # bytes
_MOST_BYTES = 64 << 20  # of another answer; reports are the longest
_MOST_QUOTED, _MOST_WORDS = 100, 2000  # characters of what is told on
_STATE = re.compile(r"(?:queued|running|finished|cancelled)\Z")
_ID = re.compile(r"[A-Za-z0-9_-]{1,24}\Z")


@dataclass(frozen=True)
class _Answer:
    """To a request, with as much of its body as there may be."""

    status: int
    headers: Mapping[str, str]
    text: str


class Site:
    """One site. `tell` gets a line when something takes its time; `sleep` waits."""

    def __init__(
        self, url: str, tell: Callable[[str], None], transport: httpx2.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ):  # fmt: skip
        self.url = _address(url)
        self._tell, self._sleep = tell, sleep
        host = urlsplit(self.url).hostname or ""
        self._client = httpx2.Client(
            base_url=self.url, timeout=_TIMEOUT, headers={"X-Judge-Client": f"judge.py/{__version__}"},
            transport=transport, trust_env=not hosts.is_loopback(host),  # no proxy reaches our loopback
        )  # fmt: skip

    def close(self) -> None:
        """Close its connections."""
        self._client.close()

    def check(self) -> None:
        """Raises UsageError where there is no site of this judge."""
        try:
            health = self._request("GET", "/api/health")
        except httpx2.RequestError as error:
            hint = "`judge.py serve` starts one on this machine"
            raise UsageError(f"no site answers at {self.url}: {_in_words(error)}; {hint}") from None
        if health.status == 503:
            health = self._answer("GET", "/api/health")
        found = _object(health.text) if health.status == 200 else {}
        if found.get("judge") != "cuda-attention-judge":
            why = _refusal(health) or f"it answers {health.status} to /api/health"
            raise UsageError(f"{self.url} is no site of this judge: {why}")
        if found.get("trouble"):
            self._tell(f"the site cannot judge at the moment: {printable(str(found['trouble']))}")

    def submit(self, fields: dict[str, Any]) -> str:
        """Send a submission, once whatever happens on the way: its id."""
        headers = {"Idempotency-Key": secrets.token_urlsafe(16)}
        answer = self._answer("POST", "/api/submissions", json=fields, headers=headers)
        return self._checked(_object(answer.text).get("id"), _ID)

    def page(self, id: str) -> str:
        """The address that shows a submission in a browser."""
        return f"{self.url}/submissions/{id}"

    def state(self, id: str) -> str:
        """How far it has come."""
        answer = self._answer("GET", f"/api/submissions/{id}")
        return self._checked(_object(answer.text).get("state"), _STATE)

    def report(self, id: str) -> str:
        """The JSON text of the report."""
        return self._answer("GET", f"/api/submissions/{id}/report").text

    def cancel(self, id: str) -> None:
        """Ask for the end of a judging; that is all that can be done, so nothing is raised."""
        with contextlib.suppress(httpx2.HTTPError, UsageError):
            self._request("POST", f"/api/submissions/{id}/cancel", timeout=5.0)

    def events(self, id: str) -> Iterator[dict[str, Any]]:
        """The steps of a judging to its end, whatever connections they come over, and its place while it waits."""
        seq, failed_since, pauses = 0, time.monotonic(), iter(_PAUSES)
        while True:
            try:
                for event in self._stream(id, seq):
                    seq, failed_since, pauses = event["seq"], time.monotonic(), iter(_PAUSES)
                    yield event
                    if event["type"] in _FINAL:
                        return
                if self.state(id) in _FINAL:
                    return
            except httpx2.RequestError as error:
                if time.monotonic() - failed_since > _PATIENCE_SECONDS:
                    message = f"the site does not answer any more: {_in_words(error)}"
                    raise UsageError(f"{message}; the judging goes on at {self.page(id)}") from None
                self._tell("the connection is lost; trying again")
            self._sleep(next(pauses, _PAUSES[-1]))

    def _stream(self, id: str, seq: int) -> Iterator[dict[str, Any]]:
        """Events behind number `seq`, as long as one connection lasts."""
        timeout = httpx2.Timeout(_SILENCE_SECONDS, connect=5.0)
        headers = {"Last-Event-ID": str(seq)}
        path = f"/api/submissions/{id}/events"
        with self._client.sse(path, headers=headers, timeout=timeout, max_event_size=_MOST_EVENT) as source:
            if source.response.status_code == 503:
                self._sleep(_retry_after(source.response.headers))
            elif source.response.status_code == 200:
                for event in source:
                    if event.data:
                        yield self._event(event.data)
            elif source.response.status_code != 204:
                raise UsageError(f"{self.url} does not show the judging: {_refusal(self._read(source.response))}")

    def _event(self, text: str) -> dict[str, Any]:
        found = _object(text)
        if type(found.get("seq")) is not int or not isinstance(found.get("type"), str):
            raise self._foreign(text)
        return found

    def _checked(self, value: object, form: re.Pattern[str]) -> str:
        if not isinstance(value, str) or not form.match(value):
            raise self._foreign(repr(value))
        return value

    def _foreign(self, said: str) -> UsageError:
        said = printable(said[:_MOST_QUOTED])
        return UsageError(f"{self.url} says what no site of this version of the judge says: {said}")

    def _answer(self, method: str, path: str, **options: Any) -> _Answer:
        """That to a request which may be sent again: when the site asks for it, and when the line is cut."""
        deadline, pauses = time.monotonic() + _BUSY_SECONDS, iter(_PAUSES)
        while True:
            try:
                answer = self._request(method, path, **options)
            except httpx2.RequestError as error:
                pause = next(pauses, None)
                if pause is None:
                    raise UsageError(f"{self.url} does not answer: {_in_words(error)}") from None
            else:
                if 200 <= answer.status < 300:
                    return answer
                pause = _retry_after(answer.headers)
                if answer.status not in (429, 503) or time.monotonic() + pause > deadline:
                    raise UsageError(f"{self.url} refuses it: {_refusal(answer) or f'it answers {answer.status}'}")
                self._tell(_refusal(answer) or "the site is busy")
            self._sleep(pause)

    def _request(self, method: str, path: str, **options: Any) -> _Answer:
        with self._client.stream(method, path, **options) as response:
            return self._read(response)

    def _read(self, response: httpx2.Response) -> _Answer:
        body = bytearray()
        for part in response.iter_bytes():
            body += part
            if len(body) > _MOST_BYTES:
                raise UsageError(f"{self.url} answers with over {_MOST_BYTES >> 20} MiB, more than is read")
        return _Answer(response.status_code, response.headers, body.decode(errors="replace"))


def _object(text: str) -> dict[str, Any]:
    """The JSON object that a text is; an empty one for any other."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _address(url: str) -> str:
    """Scheme and place. Raises UsageError."""
    try:
        parts = urlsplit(url)
        fits = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        fits = False
    if not fits or parts.username is not None or parts.path not in ("", "/") or parts.query or parts.fragment:
        raise UsageError(f"{printable(url)!r} is no address of a site; one looks like http://127.0.0.1:8000")
    return f"{parts.scheme}://{parts.netloc}"


def _retry_after(headers: Mapping[str, str]) -> float:
    given = headers.get("retry-after", "")
    return float(min(int(given), 120)) if given.isascii() and given.isdigit() and len(given) < 10 else 5.0


def _refusal(answer: _Answer) -> str:
    """What the site says of an error; "" where it is none of its own."""
    error = _object(answer.text).get("error")
    if not isinstance(error, dict):
        return ""
    words = "; ".join(str(error[part]) for part in ("message", "hint") if error.get(part))
    return printable(words[:_MOST_WORDS])


def _in_words(error: Exception) -> str:
    return printable(str(error)) or type(error).__name__
