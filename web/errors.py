"""SiteError: whatever the site answers a request with instead of what was asked for, in one shape."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class SiteError(Exception):
    """`code` is for programs and does not change, `message` says what is wrong, `hint` what to do; for people."""

    def __init__(self, status: int, code: str, message: str, hint: str = "", headers: Mapping[str, str] | None = None):
        super().__init__(message)
        self.status, self.code, self.message, self.hint = status, code, message, hint
        self.headers = dict(headers or {})

    def as_json(self) -> dict[str, Any]:
        """The body of the answer."""
        return {"error": {"code": self.code, "message": self.message, "hint": self.hint}}


def later(status: int, code: str, message: str, seconds: float) -> SiteError:
    """Not now, but in `seconds`: for 429 and 503."""
    wait = max(1, round(seconds + 0.5))
    return SiteError(status, code, message, f"try again in {wait} s", {"Retry-After": str(wait)})
