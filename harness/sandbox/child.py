"""The supervisor's side of one child process.

    supervisor                                   child (own session, own directory, scrubbed environment)
    ----------                                   -----
    Child(module, ...)      -- spawn -------->   bind_to_parent, apply limits, then serve requests
    send(frame)             == socketpair ===>   receive
    receive(...)            <== socketpair ==    answer
                            <-- stdout, stderr   belong to the submission and to the libraries; bounded, never parsed
    close()                 -- SIGKILL to the whole group, reap, remove the directory

Whatever the child does instead of answering becomes a `ChildDied` with a cause (death.py). No call here waits
without a deadline. A child dies with the thread that spawned it, so spawn and use it from one thread. Outer walls
(namespaces, cgroups) are a prefix of the command line: `wrapper`.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import selectors
import shutil
import signal
import site
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from harness.sandbox.death import Cause, ChildDied, cause_of_exit
from harness.sandbox.frames import Decoder, Frame, FrameError, encode
from harness.sandbox.limits import ProcessLimits, as_json

_ROOT = Path(__file__).resolve().parents[2]
# What a compiler or a driver needs to be found. Everything else in the supervisor's environment stays there:
# NVRTC can be made to print /proc/self/environ.
_KEPT_VARIABLES = (
    "PATH", "LD_LIBRARY_PATH", "CUDA_HOME", "CUDA_PATH", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER",
)  # fmt: skip
_CHUNK = 1 << 20
_EXIT_GRACE = 1.0  # seconds between the end of the channel and the end of the process


class Child:
    """One process running `python -m module`, which must end in `harness.sandbox.service.serve`."""

    def __init__(self, module: str, limits: ProcessLimits, wrapper: Sequence[str] = ()):
        self.limits = limits
        self._pending: list[memoryview] = []
        self._captured = {"stdout": bytearray(), "stderr": bytearray()}
        self._directory = tempfile.mkdtemp(prefix="judge-")
        try:
            self._spawn(module, wrapper)
        except BaseException:
            shutil.rmtree(self._directory, ignore_errors=True)
            raise

    def _spawn(self, module: str, wrapper: Sequence[str]) -> None:
        self._channel, theirs = socket.socketpair()
        with theirs:
            arguments = [str(theirs.fileno()), str(os.getpid()), json.dumps(as_json(self.limits))]
            self._inherited = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
            self._process = subprocess.Popen(
                [*wrapper, sys.executable, "-P", "-m", module, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=_environment(self._directory),
                cwd=self._directory,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        self._channel.setblocking(False)
        assert self._process.stdout and self._process.stderr
        self._pipes = {"stdout": self._process.stdout.fileno(), "stderr": self._process.stderr.fileno()}
        for descriptor in self._pipes.values():
            os.set_blocking(descriptor, False)

    @property
    def pid(self) -> int:
        """Process id, also that of its group and session."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """False once the child was closed or was found dead."""
        return self._process.returncode is None

    def send(self, frame: Frame) -> None:
        """Queue a request; small ones leave at once, the rest while `receive` waits."""
        self._pending += encode(frame)
        with contextlib.suppress(OSError):
            self._push()

    def receive(self, seconds: float, max_payload: int) -> Frame:
        """Wait for one answer of at most `max_payload` bytes of arrays. Raises ChildDied, and closes the child then."""
        decoder = Decoder(max_payload)
        deadline = time.monotonic() + seconds
        try:
            return self._converse(decoder, deadline, seconds)
        except FrameError as error:
            raise self._died(Cause.PROTOCOL, str(error)) from None

    def take_stdout(self) -> str:
        """What was printed since the last call, with undecodable bytes replaced."""
        if self.alive:
            self._drain()
        taken = self._captured["stdout"].decode(errors="replace")
        self._captured["stdout"].clear()
        return taken

    def close(self) -> None:
        """Kill the whole group, reap, close and remove everything. May be called twice."""
        if self.alive:
            self._kill_and_reap()
        self._channel.close()
        for stream in (self._process.stdout, self._process.stderr):
            if stream:
                stream.close()
        shutil.rmtree(self._directory, ignore_errors=True)

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _converse(self, decoder: Decoder, deadline: float, seconds: float) -> Frame:
        with selectors.DefaultSelector() as selector:
            selector.register(self._channel, selectors.EVENT_READ)
            for name in list(self._pipes):
                selector.register(self._pipes[name], selectors.EVENT_READ, name)
            while True:
                events = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._pending else 0)
                selector.modify(self._channel, events)
                left = deadline - time.monotonic()
                if left <= 0:
                    raise self._died(Cause.DEADLINE, f"no answer within {seconds:.3g} s")
                for key, ready in selector.select(left):
                    if key.data and not self._read_pipe(key.data):
                        selector.unregister(key.fileobj)
                    elif not key.data and (frame := self._move(decoder, ready)):
                        return frame

    def _move(self, decoder: Decoder, ready: int) -> Frame | None:
        try:
            if ready & selectors.EVENT_WRITE:
                self._push()
            if not ready & selectors.EVENT_READ:
                return None
            count = self._channel.recv_into(decoder.wanted()[:_CHUNK])
        except BlockingIOError:
            return None
        except OSError:  # reset: the child is gone
            count = 0
        if not count:
            raise self._ended()
        return decoder.advance(count)

    def _push(self) -> None:
        while self._pending:
            sent = self._channel.send(self._pending[0])
            if sent == self._pending[0].nbytes:
                self._pending.pop(0)
            else:
                self._pending[0] = self._pending[0][sent:]

    def _read_pipe(self, name: str) -> bool:
        """Take what a pipe holds; False at its end. Raises ChildDied when the child has said too much."""
        try:
            data = os.read(self._pipes[name], 65536)
        except BlockingIOError:
            return True
        if not data:
            return False
        kept = self._captured[name]
        if len(kept) + len(data) > self.limits.output_bytes:
            kept += data[: self.limits.output_bytes - len(kept)]
            raise self._died(Cause.OUTPUT, f"more than {self.limits.output_bytes} bytes on {name}")
        kept += data
        return True

    def _drain(self) -> None:
        """Take what is in the pipes now; what exceeds the limit is dropped, since the answer has come."""
        for name, descriptor in self._pipes.items():
            with contextlib.suppress(BlockingIOError, OSError):
                data = os.read(descriptor, self.limits.output_bytes)
                room = self.limits.output_bytes - len(self._captured[name])
                self._captured[name] += data[:room]

    def _ended(self) -> ChildDied:
        """The channel is closed: find out how the process ended, ending it if need be."""
        limit = time.monotonic() + _EXIT_GRACE
        while not _has_exited(self.pid) and time.monotonic() < limit:
            time.sleep(0.005)
        lingering = not _has_exited(self.pid)
        resident = self._kill_and_reap()
        self._drain()
        if lingering:
            return self._died(Cause.EXIT, "it closed the channel without an answer")
        status = self._process.returncode
        stderr = self._captured["stderr"].decode(errors="replace")
        return self._died(*cause_of_exit(status, stderr, resident, self.limits.data))

    def _died(self, cause: Cause, message: str) -> ChildDied:
        if self.alive:
            self._kill_and_reap()
        self._drain()
        texts = {name: bytes(kept).decode(errors="replace") for name, kept in self._captured.items()}
        self.close()
        return ChildDied(cause, message, texts["stdout"], texts["stderr"])

    def _kill_and_reap(self) -> int:
        """Kill the group before the leader is reaped (its id cannot be reused until then). Peak resident bytes."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        _, status, usage = os.wait4(self.pid, 0)
        self._process.returncode = os.waitstatus_to_exitcode(status)
        peak: int = usage.ru_maxrss * 1024
        # A child's peak begins at that of the process that spawned it, and says nothing until it is beyond.
        return peak if peak > 1.02 * self._inherited else 0


def _has_exited(pid: int) -> bool:
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _import_path() -> dict[str, str]:
    """What lets the child's interpreter find the packages that this one finds, though its home is elsewhere."""
    found = {"PYTHONPATH": os.pathsep.join(filter(None, (str(_ROOT), os.environ.get("PYTHONPATH"))))}
    return found | ({"PYTHONUSERBASE": site.getuserbase()} if site.ENABLE_USER_SITE else {"PYTHONNOUSERSITE": "1"})


def _environment(directory: str) -> dict[str, str]:
    kept = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
    return (
        kept
        | _import_path()
        | {
            "HOME": directory,
            "TMPDIR": directory,
            "LANG": "C.UTF-8",
            "SOURCE_DATE_EPOCH": "0",
            "CUDA_CACHE_DISABLE": "1",
            "MALLOC_ARENA_MAX": "2",
            "OPENBLAS_NUM_THREADS": "1",
            "OMP_NUM_THREADS": "1",
        }
    )
