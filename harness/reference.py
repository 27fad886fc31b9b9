"""A problem's reference.py, loaded and called so that whatever goes wrong in it names file, line and function."""

from __future__ import annotations

import importlib.util
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from harness.errors import ProblemError
from harness.problem import CaseSpec, Problem

FUNCTIONS = ("make_inputs", "expected", "honest", "cost")  # and, optional, "disguise"


def load_reference(problem: Problem) -> ModuleType:
    """The problem's reference.py as a module. Raises ProblemError where it does not load or lacks a function."""
    file = problem.directory / "reference.py"
    name = f"judge_reference_{problem.id}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ProblemError(f"{file}: cannot be loaded as Python")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses in it look themselves up there
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        if _interrupts(error):
            raise
        raise ProblemError(f"{_place(file, error)}: {_in_words(error)}") from error
    missing = [function for function in FUNCTIONS if not callable(getattr(module, function, None))]
    if missing:
        raise ProblemError(f"{file}: no function {missing[0]}; it must define {', '.join(FUNCTIONS)}")
    return module


@dataclass(frozen=True)
class Caller:
    """Calls the functions of one problem's reference, for one case where it is known which."""

    problem: Problem
    spec: CaseSpec | None = None

    def error(self, function: str, message: str) -> ProblemError:
        """For what a function returned."""
        file = self.problem.directory / "reference.py"
        return ProblemError(f"{file}: {self._call(function)}: {message}")

    def __call__(self, name: str, function: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return function(*arguments)
        except BaseException as error:  # sys.exit() in a reference must not end the judge
            if _interrupts(error):
                raise
            where = _place(self.problem.directory / "reference.py", error)
            raise ProblemError(f"{where}: {self._call(name)}: {_in_words(error)}") from error

    def _call(self, function: str) -> str:
        return f"{function}() on case {self.spec.name}" if self.spec else f"{function}()"


def _interrupts(error: BaseException) -> bool:
    """Whether this is the user's Ctrl-C and not the reference's doing. Signals arrive in the main thread only; a
    handler other than Python's own raises an exception of its own class."""
    if not isinstance(error, KeyboardInterrupt) or threading.current_thread() is not threading.main_thread():
        return False
    return type(error) is not KeyboardInterrupt or signal.getsignal(signal.SIGINT) is signal.default_int_handler


def _place(file: Path, error: BaseException) -> str:
    """`file`, with the line of it that the exception came through last, where it came through it."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == str(file)]
    return f"{file}:{lines[-1]}" if lines else str(file)


def _in_words(error: BaseException) -> str:
    """`KeyError: 'm'`, on one line."""
    return ": ".join(filter(None, (type(error).__name__, " ".join(str(error).split()))))
