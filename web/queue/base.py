"""What the rest of the site knows of the queue."""

from __future__ import annotations

from typing import Protocol


class Queue(Protocol):
    """Takes waiting judgings from the store. The store decides; these are only nudges."""

    def wake(self) -> None:
        """Something was added."""

    def cancel(self, submission_id: str) -> None:
        """Somebody asked in the store for the end of a judging."""

    def starting(self) -> bool:
        """Whether it has yet to begin, which takes some seconds."""

    def trouble(self) -> str:
        """Why nothing is judged at the moment, for people; empty while all is well, or only starting."""

    def has_card(self) -> bool:
        """Whether some worker has a GPU that it can use; not before it is known."""

    def close(self) -> None:
        """Stop judging; what is unfinished goes back into the store's queue."""


class NoQueue:
    """Nothing is ever judged: for pages and their tests."""

    def wake(self) -> None: ...

    def cancel(self, submission_id: str) -> None: ...

    def starting(self) -> bool:
        return False

    def trouble(self) -> str:
        return ""

    def has_card(self) -> bool:
        return False

    def close(self) -> None: ...
