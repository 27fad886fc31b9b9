"""How many submissions a minute the site takes: a token bucket, full at the start."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class Bucket:
    """Holds up to `per_minute` tokens and gains as many in a minute. For many threads."""

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic):
        self._most = self._tokens = float(per_minute)
        self._clock, self._last = clock, clock()
        self._lock = threading.Lock()

    def take(self) -> float:
        """Take a token: 0. Or, where there is none: the seconds until there is one."""
        with self._lock:
            now = self._clock()
            self._tokens = min(self._most, self._tokens + (now - self._last) * self._most / 60)
            self._last = now
            if self._tokens < 1:
                return (1 - self._tokens) * 60 / self._most
            self._tokens -= 1
            return 0.0
