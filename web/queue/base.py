"""What the rest of the site knows of the queue."""

from __future__ import annotations

from typing import Protocol


class Queue(Protocol):
    """Takes waiting judgings from the store. The store decides; these are only nudges."""

    def wake(self) -> None:
        """Something was added."""

    def cancel(self, submission_id: str) -> None:
        """Somebody asked in the store for the end of a judging."""

    def trouble(self) -> str:
        """Why nothing is judged at the moment, for people; empty while all is well."""

    def close(self) -> None:
        """Stop judging; what is unfinished goes back into the store's queue."""


class NoQueue:
    """Nothing is ever judged: for pages and their tests."""

    def wake(self) -> None: ...

    def cancel(self, submission_id: str) -> None: ...

    def trouble(self) -> str:
        return ""

    def close(self) -> None: ...
