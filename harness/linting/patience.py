"""A time limit for code of a reference that may never end, in whatever thread it runs.

A thread beside it first says that it takes long, then raises TookTooLong in the thread that runs the code, as
PyThreadState_SetAsyncExc of Python's C API does: between two steps of the interpreter, hence not within one call of
NumPy.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from types import TracebackType

_SAID_AFTER = 10.0  # seconds


class TookTooLong(Exception):
    """The code did not end in time."""

    def __str__(self) -> str:
        return "it did not end in time"


class Patience:
    """`with Patience(seconds, say):` raises TookTooLong inside the block after `seconds`. `say` is called once, from
    another thread, when the block takes long."""

    def __init__(self, seconds: float, say: Callable[[], None]):
        self._seconds, self._say = seconds, say
        self._target = threading.get_ident()
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._raised = False

    def __enter__(self) -> Patience:
        threading.Thread(target=self._watch, name="patience", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._ended.set()
            if self._raised:  # take back what has not arrived yet
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self._target), None)

    def _watch(self) -> None:
        first = min(_SAID_AFTER, self._seconds / 2)
        if self._ended.wait(first):
            return
        self._say()
        if self._ended.wait(self._seconds - first):
            return
        with self._lock:
            if not self._ended.is_set():
                self._raised = True
                raised = ctypes.py_object(TookTooLong)
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self._target), raised)
