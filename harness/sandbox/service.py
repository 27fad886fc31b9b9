"""The child's side: bind to the parent, take on the limits, answer requests until the channel ends.

The command line is `FD PARENT_PID LIMITS_AS_JSON`. An exception that is no answer to the submission ends the process
with a traceback on stderr; the supervisor turns that into a cause (death.py).
"""

from __future__ import annotations

import importlib
import json
import os
import socket
import sys
from collections.abc import Callable, Iterator
from typing import Any

from harness.errors import JudgeException, SubmissionError
from harness.sandbox.codec import failure_frame, refusal_frame
from harness.sandbox.frames import Frame, receive, send
from harness.sandbox.limits import ProcessLimits, apply, bind_to_parent

MAX_REQUEST = 8 << 30  # requests come from the supervisor, which is trusted

Answer = Callable[[Frame], Iterator[Frame]]


def serve(make_answer: Callable[[], Answer]) -> None:
    """Answer each request by the frames that `make_answer()(request)` yields."""
    descriptor, parent, limits = int(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[3])
    bind_to_parent(parent)
    apply(ProcessLimits(**limits))
    answer = make_answer()
    with socket.socket(fileno=descriptor) as channel:
        os.set_inheritable(descriptor, False)
        _loop(channel, answer)


def _loop(channel: socket.socket, answer: Answer) -> None:
    while (request := receive(channel, MAX_REQUEST)) is not None:
        for reply in _answers(answer, request):
            sys.stdout.flush()
            send(channel, reply)


def _answers(answer: Answer, request: Frame) -> Iterator[Frame]:
    try:
        yield from answer(request)
    except JudgeException as error:
        yield refusal_frame(error) if isinstance(error, SubmissionError) else failure_frame(error)


def load(path: str) -> Any:
    """The object at "module:name"; the paths come from the supervisor, never from a submission."""
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)
