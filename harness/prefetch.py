"""One item ahead: the next case's inputs and reference are built while the current one runs in the child."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

T = TypeVar("T")


class Prefetch(Generic[T]):
    """Iterates over `source`, of which a thread holds at most one finished item in advance.

    Exceptions of the source come out where its item would have. Close it, or use it in a with statement.
    """

    def __init__(self, source: Iterator[T]):
        self._source = source
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="prefetch")
        self._next: Future[T | None] = self._pool.submit(next, source, None)

    def __iter__(self) -> Iterator[T]:
        while (item := self._next.result()) is not None:
            self._next = self._pool.submit(next, self._source, None)
            yield item

    def close(self) -> None:
        """Stop after the item that is being built."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def __enter__(self) -> Prefetch[T]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
