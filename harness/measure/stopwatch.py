"""Times one window on the card with a pair of events, and does nothing else.

    hold | event | plan, plan, ... | event

The host must not be part of the time. A kernel of ours holds the card while the host queues everything behind it; when
the first event has happened before the last one was queued, the host was too slow, and the window says nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from harness.devices.driver import TimedDriver

_FIRST_HOLD = 200e-6  # seconds; queueing a launch takes the host some 10 us
_LONGEST_HOLD = 0.05  # the driver queues about a thousand launches, so that more would not help


class Stopwatch:
    """`hold(seconds)` starts a kernel that takes so long."""

    def __init__(self, driver: TimedDriver, hold: Callable[[float], None]):
        self._driver, self._hold = driver, hold
        self._begin, self._end = driver.create_event(), driver.create_event()
        self._seconds = _FIRST_HOLD

    def window(self, plans: Sequence[Callable[[], None]], limit: float) -> float | None:
        """Seconds that the plans took together; None where the host was too slow (the next hold is longer).

        Raises DriverError as the driver does, and OutOfTime when the card still works after `limit` seconds.
        """
        driver = self._driver
        self._hold(self._seconds)
        driver.record(self._begin)
        for plan in plans:
            plan()
        driver.record(self._end)
        late = driver.happened(self._begin)
        if not driver.wait(limit):
            raise OutOfTime
        if late and self._seconds < _LONGEST_HOLD:
            self._seconds *= 2
            return None
        return driver.elapsed(self._begin, self._end)


class OutOfTime(Exception):
    """The card still worked when the window's time was over."""
