"""A site as a program sees it: its JSON API over HTTP, with patience where the site asks for some.

    UsageError    the address is none, nobody answers there, it is no site of this judge, or it refuses the request
"""

from __future__ import annotations

import contextlib
import json
import secrets
import time
from collections.abc import Callable, Iterator
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
            health = self._client.get("/api/health")
            found = health.json() if health.status_code == 200 else {}
        except httpx2.TransportError as error:
            hint = "`judge.py serve` starts one on this machine"
            raise UsageError(f"no site answers at {self.url}: {_in_words(error)}; {hint}") from None
        except ValueError:
            found = {}
        if not isinstance(found, dict) or found.get("judge") != "cuda-attention-judge":
            why = _refusal(health) or f"it answers {health.status_code} to /api/health"
            raise UsageError(f"{self.url} is no site of this judge: {why}")
        if found.get("trouble"):
            self._tell(f"the site cannot judge at the moment: {printable(str(found['trouble']))}")

    def submit(self, fields: dict[str, Any]) -> dict[str, Any]:
        """Send a submission, once whatever happens on the way: what the site says of it."""
        headers = {"Idempotency-Key": secrets.token_urlsafe(16)}
        return self._asked(lambda: self._client.post("/api/submissions", json=fields, headers=headers))

    def submission(self, id: str) -> dict[str, Any]:
        """How far it has come."""
        return self._asked(lambda: self._client.get(f"/api/submissions/{id}"))

    def report(self, id: str) -> str:
        """The JSON text of the report."""
        return self._answer(lambda: self._client.get(f"/api/submissions/{id}/report")).text

    def cancel(self, id: str) -> None:
        """Ask for the end of a judging; that is all that can be done, so nothing is raised."""
        with contextlib.suppress(httpx2.HTTPError):
            self._client.post(f"/api/submissions/{id}/cancel", timeout=5.0)

    def events(self, id: str) -> Iterator[dict[str, Any]]:
        """The steps of a judging to its end, whatever connections they come over."""
        seq, failed_since, pauses = 0, time.monotonic(), iter(_PAUSES)
        while True:
            try:
                for event in self._stream(id, seq):
                    seq, failed_since, pauses = event["seq"], time.monotonic(), iter(_PAUSES)
                    yield event
                    if event["type"] in _FINAL:
                        return
                if self.submission(id)["state"] in _FINAL:
                    return
            except httpx2.TransportError as error:
                if time.monotonic() - failed_since > _PATIENCE_SECONDS:
                    message = f"the site does not answer any more: {_in_words(error)}"
                    raise UsageError(f"{message}; the judging goes on at {self.url}/submissions/{id}") from None
                self._tell("the connection is lost; trying again")
            self._sleep(next(pauses, _PAUSES[-1]))

    def _stream(self, id: str, seq: int) -> Iterator[dict[str, Any]]:
        """Events behind number `seq`, as long as one connection lasts."""
        timeout = httpx2.Timeout(_SILENCE_SECONDS, connect=5.0)
        headers = {"Last-Event-ID": str(seq)}
        path = f"/api/submissions/{id}/events"
        with self._client.sse(path, headers=headers, timeout=timeout, max_event_size=_MOST_EVENT) as source:
            if source.response.status_code == 503:
                self._sleep(_retry_after(source.response))
            elif source.response.status_code == 200:
                for event in source:
                    if event.data:
                        yield json.loads(event.data)
            elif source.response.status_code != 204:
                source.response.read()
                raise UsageError(f"{self.url} does not show the judging: {_refusal(source.response)}")

    def _asked(self, request: Callable[[], httpx2.Response]) -> dict[str, Any]:
        found = self._answer(request).json()
        assert isinstance(found, dict)
        return found

    def _answer(self, request: Callable[[], httpx2.Response]) -> httpx2.Response:
        """The answer of a request that may be sent again: when the site asks for it, and when the line is cut."""
        deadline, pauses = time.monotonic() + _BUSY_SECONDS, iter(_PAUSES)
        while True:
            try:
                response = request()
            except httpx2.TransportError as error:
                pause = next(pauses, None)
                if pause is None:
                    raise UsageError(f"{self.url} does not answer: {_in_words(error)}") from None
            else:
                if response.is_success:
                    return response
                pause = _retry_after(response)
                if response.status_code not in (429, 503) or time.monotonic() + pause > deadline:
                    raise UsageError(f"{self.url} refuses it: {_refusal(response)}")
                self._tell(f"{_refusal(response)}")
            self._sleep(pause)


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


def _retry_after(response: httpx2.Response) -> float:
    given = response.headers.get("retry-after", "")
    return float(min(int(given), 120)) if given.isascii() and given.isdigit() else 5.0


def _refusal(response: httpx2.Response) -> str:
    """What the site says of an error; "" where it is none of its own."""
    try:
        error = response.json()["error"]
        words = "; ".join(str(error[part]) for part in ("message", "hint") if error[part])
    except (ValueError, KeyError, TypeError, httpx2.ResponseNotRead):
        return ""
    return printable(words)


def _in_words(error: Exception) -> str:
    return printable(str(error)) or type(error).__name__
