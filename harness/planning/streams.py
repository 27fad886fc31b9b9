"""Streams and events: which of the earlier steps are certain to be over when a step begins.

A set of steps is an int with a bit for each. The rules are those of the CUDA C++ programming guide, "Streams",
"Implicit Synchronization" and "Default Stream": the legacy default stream waits for all blocking streams and they wait
for it. Whatever synchronises with the host counts as a synchronisation with the whole device.
"""

from __future__ import annotations

_LEGACY = (0, 1)  # cudaStreamLegacy, also by default
_NON_BLOCKING = 1  # cudaStreamNonBlocking


class Streams:
    """What has been issued so far, by the host's handles of streams and events."""

    def __init__(self) -> None:
        self._done: dict[int, int] = {}  # stream -> what comes before its next step
        self._events: dict[int, int] = {}
        self._non_blocking: set[int] = set()
        self._host = self._issued = self._blocking = self._legacy = 0

    def created(self, stream: int, flags: int) -> None:
        """A stream has been made; a later step names it."""
        if flags & _NON_BLOCKING:
            self._non_blocking.add(stream)

    def before(self, stream: int) -> int:
        """The steps that are over before the next one of the stream begins."""
        done = self._done.get(stream, 0) | self._host
        if stream in _LEGACY:
            return done | self._blocking | self._legacy
        return done if stream in self._non_blocking else done | self._legacy

    def issue(self, stream: int, number: int) -> int:
        """The next step of the stream has this number: the set of those that are over before it begins."""
        before, own = self.before(stream), 1 << number
        self._done[stream] = before | own
        self._issued |= own
        if stream in _LEGACY:
            self._legacy = before | own
        elif stream not in self._non_blocking:
            self._blocking |= before | own
        return before

    def record(self, event: int, stream: int) -> None:
        """cudaEventRecord."""
        self._events[event] = self.before(stream)

    def wait(self, stream: int, event: int) -> None:
        """cudaStreamWaitEvent."""
        self._done[stream] = self._done.get(stream, 0) | self._events.get(event, 0)

    def synchronise(self) -> None:
        """The host waits for the device."""
        self._host = self._issued
