"""A judging process: a fresh interpreter that takes one claim after the other, and what a worker holds of it.

    JudgingProcess (in a Dask worker)            main (a process in its own session, with its own temporary folder)
    give                -- Manner, Claim ---->   imports everything at its start; judging.judge
    answered, receive   <-- Answer -----------
    end                 -- SIGTERM ---------->   unwinds: its children and temporary files are gone
                        -- SIGKILL ---------->   should it take longer than _GRACE
                        (end of the channel) >   the worker is dead: the same by itself

A process, not a thread: a judging that is cancelled half-way must unwind, and cannot be made to in a thread. Its
children are bound to it (harness/sandbox/limits.py) and it is bound to the channel, so that nothing outlives a worker
that was killed.
"""

from __future__ import annotations

import contextlib
import enum
import os
import queue
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NoReturn

from harness.streams import Stopped, unwind_on_sigterm
from web.queue.manner import Manner
from web.store.records import Claim

_ROOT = Path(__file__).resolve().parents[2]
_COMMAND = "from web.queue.process import main; main()"  # not -m, which would make a second Answer
_GRACE = 1.0  # seconds to unwind


class Answer(enum.Enum):
    """How a claim came out."""

    DONE = "it is in the store what there is to say"
    STORE = "the store took nothing for long"
    STOPPED = "somebody else asked the process to end"
    DIED = "the process is dead, unasked"


class JudgingProcess:
    """The worker's side. Warm a second after it is made; end it. Use it in one thread."""

    def __init__(self, manner: Manner, folder: str | None = None):
        self._folder = tempfile.mkdtemp(prefix="judge-", dir=folder)  # for temporary files
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", _COMMAND, str(theirs.fileno()), self._folder],
                env=_environment(self._folder), cwd=self._folder, pass_fds=[theirs.fileno()], start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            )  # fmt: skip
        self._channel = Connection(ours.detach())
        self._send(manner)

    @property
    def alive(self) -> bool:
        """Whether it can take a claim."""
        return self._process.poll() is None

    def give(self, claim: Claim) -> None:
        """The next claim; a process that has died in the meantime is noticed when its answer is read."""
        self._send(claim)

    def _send(self, message: Manner | Claim) -> None:
        with contextlib.suppress(OSError):
            self._channel.send(message)

    def answered(self, seconds: float) -> bool:
        """Wait that long for the answer, or for the end of the process."""
        with contextlib.suppress(OSError):
            return self._channel.poll(seconds)
        return True

    def receive(self) -> Answer:
        """The answer; the process is of no use after any but DONE and STORE."""
        with contextlib.suppress(EOFError, OSError):
            answer = self._channel.recv()
            assert isinstance(answer, Answer)
            return answer
        return Answer.DIED

    def end(self) -> None:
        """Have the process end, whatever it is at, and remove what it left."""
        self._process.terminate()
        try:
            self._process.wait(_GRACE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._channel.close()
        shutil.rmtree(self._folder, ignore_errors=True)


def _environment(folder: str) -> dict[str, str]:
    """Lets the process find the packages that this one finds, though its directory is another; BLAS threads would wait
    for cores that the emulator needs."""
    path = os.pathsep.join(filter(None, (str(_ROOT), os.environ.get("PYTHONPATH"))))
    threads = dict.fromkeys(("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"), "1")
    return os.environ | threads | {"PYTHONPATH": path, "TMPDIR": folder}


def main() -> None:
    """The process itself: `FILE_DESCRIPTOR FOLDER`. It removes the folder at its end, as it was told it: what tempfile
    calls the temporary folder is the whole machine's where its own takes no files, for instance on a full disk."""
    channel, folder = Connection(int(sys.argv[1])), sys.argv[2]
    claims: queue.SimpleQueue[Any] = queue.SimpleQueue()
    try:
        unwind_on_sigterm()
        threading.Thread(target=_listen, args=(channel, claims), daemon=True).start()
        _serve(channel, claims)
    except Stopped:
        with contextlib.suppress(OSError):
            channel.send(Answer.STOPPED)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _serve(channel: Connection, claims: queue.SimpleQueue[Any]) -> None:
    from sqlalchemy.exc import OperationalError

    from web.queue.judging import judge
    from web.store import engine as database
    from web.store import submissions

    manner = claims.get()
    engine = database.connect(manner.database)
    with contextlib.suppress(OperationalError):  # the first judging shall find all of it warm
        submissions.get(engine, "")
    while True:
        claim = claims.get()
        try:
            judge(engine, claim, manner)
        except OperationalError:
            channel.send(Answer.STORE)
        else:
            channel.send(Answer.DONE)


def _listen(channel: Connection, claims: queue.SimpleQueue[Any]) -> NoReturn:
    """Take claims, until the worker is gone; then this process ends, too, in the same way as when it is asked to."""
    with contextlib.suppress(EOFError, OSError):
        while True:
            claims.put(channel.recv())
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_GRACE)
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("a process outlived SIGKILL")


if __name__ == "__main__":
    main()
