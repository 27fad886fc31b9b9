"""A site of its own processes, for tests of the queue: start it, kill it, see what it left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from web.store import engine as database
from web.store import judgings, migrate, submissions
from web.store.records import Kind, Request, StoredEvent, Submission

ROOT = Path(__file__).resolve().parents[1]
PATIENCE = 60.0  # seconds, on a busy machine; nothing is judged by it
_LISTEN = "0A"  # the state in /proc/net/tcp
T = TypeVar("T")


def wait_for(look: Callable[[], T], what: str) -> T:
    """What `look` gives, as soon as that is anything."""
    deadline = time.monotonic() + PATIENCE
    while not (seen := look()):
        assert time.monotonic() < deadline, f"{what} did not come"
        time.sleep(0.02)
    return seen


class Site:
    """A store in a folder, and at times a site that judges what is in it."""

    def __init__(self, folder: Path, problems: Path, jobs: int = 2, real: bool = False):
        self.folder = folder
        self._arguments = [str(folder), str(problems), str(jobs), *["real"] * real]
        self._process: subprocess.Popen[str] | None = None
        folder.mkdir(exist_ok=True)
        self.engine = database.connect(f"sqlite:///{folder / 'judge.sqlite3'}")
        migrate.upgrade(self.engine)

    def command(self) -> list[str]:
        """That starts it."""
        return [sys.executable, "-m", "tests.queue_site", *self._arguments]

    def start(self) -> None:
        """Begin to judge."""
        mark = {"JUDGE_TEST_SITE": str(self.folder)}  # by which all that it starts is known
        self._process = subprocess.Popen(
            self.command(), cwd=ROOT, env=os.environ | mark, stdout=subprocess.PIPE, text=True
        )  # fmt: skip
        assert self._process.stdout and self._process.stdout.readline() == "ready\n"

    def end(self, number: int = signal.SIGTERM) -> None:
        """By a signal; returns once the server is gone."""
        assert self._process
        self._process.send_signal(number)
        self._process.wait(PATIENCE)
        assert self._process.stdout
        self._process.stdout.close()
        self._process = None

    def kill(self) -> None:
        """The server alone, in one stroke; returns once nothing of it is left."""
        self.end(signal.SIGKILL)
        wait_for(lambda: not self.processes(), "the end of all processes")

    @contextmanager
    def running(self) -> Iterator[Site]:
        """Started, and ended in good order."""
        self.start()
        try:
            yield self
        finally:
            self.end()

    def send(self, source: str, kind: Kind = Kind.RUN, problem: str = "doubling") -> Submission:
        """A submission that is acknowledged."""
        sent = submissions.add(self.engine, Request(problem, source, kind, "my.cu"), 1000)[0]
        if self._process:
            self._process.send_signal(signal.SIGUSR1)
        return sent

    def now(self, sent: Submission) -> Submission:
        """How it stands."""
        found = submissions.get(self.engine, sent.id)
        assert found
        return found

    def events(self, sent: Submission, *types: str) -> list[StoredEvent]:
        """Its steps, of these types or all."""
        return [e for e in judgings.events_after(self.engine, sent.run_id, 0) if not types or e.type in types]

    def wait_event(self, sent: Submission, type_: str) -> StoredEvent:
        """The first step of that type."""
        return wait_for(lambda: self.events(sent, type_), f"{type_} of {sent.id}")[0]

    def wait_final(self, sent: Submission) -> Submission:
        """As it stands when nothing more comes."""
        wait_for(lambda: self.now(sent).state.final, f"the end of {sent.id}")
        return self.now(sent)

    def processes(self, part: str = "") -> list[int]:
        """Ids of those that the server started, and of whatever they started, whose command line has `part`."""
        mark = str(self.folder).encode()
        pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
        return [pid for pid in pids if mark in _read(pid, "environ") and part.encode() in _read(pid, "cmdline")]

    def listening(self) -> list[tuple[str, int]]:
        """Addresses and ports at which its processes take connections, as of proc(5)."""
        inodes = {inode for pid in self.processes() for inode in _sockets(pid)}
        found = []
        for table in ("tcp", "tcp6"):
            for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == _LISTEN and fields[9] in inodes:
                    host, port = fields[1].split(":")
                    found.append((_dotted(host), int(port, 16)))
        return found

    def temporary(self) -> list[Path]:
        """Folders that judgings have for their files."""
        return list(self.folder.glob("tmp/**/judge-*"))


def parent_of(pid: int) -> int:
    """The process that started it."""
    return int(_read(pid, "stat").rpartition(b")")[2].split()[1])


def _sockets(pid: int) -> list[str]:
    try:
        links = [os.readlink(entry) for entry in Path(f"/proc/{pid}/fd").iterdir()]
    except OSError:
        return []
    return [link[len("socket:[") : -1] for link in links if link.startswith("socket:[")]


def _dotted(host: str) -> str:
    """IPv4 addresses as people write them, others as they are."""
    return ".".join(str(byte) for byte in reversed(bytes.fromhex(host))) if len(host) == 8 else host


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""
