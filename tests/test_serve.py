"""`judge.py serve`: what it refuses to start with, and a real site from its start to its end."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import httpx2
import pytest
from sqlalchemy import inspect

import judge
from tests import api_kit
from web import editor_bundle, log, options, peers, serve, server, site_folder
from web.security import hosts
from web.settings import Settings
from web.store import engine as database
from web.store import migrate

ROOT = Path(__file__).parent.parent
GOOD = ROOT / "tests" / "submissions" / "split_k_merge" / "good.cu"
_MARK = "JUDGE_TEST_SITE"  # a variable that all processes of a site inherit
_PATIENCE = 90.0  # seconds; a bound for what hangs, not a measurement


class Process:
    """A site in a process of its own."""

    def __init__(self, folder: Path, *words: str, cache: Path | None = None):
        self.mark = f"{folder}-{time.monotonic_ns()}"
        self._log = (folder / "stderr").open("w")
        command = [sys.executable, str(ROOT / "judge.py"), "serve", "--port", "0", "--no-editor", "--device", "cpu"]
        self._process = subprocess.Popen(
            [*command, "--folder", str(folder / "data"), *words], stdout=subprocess.PIPE, stderr=self._log, text=True,
            env=os.environ | {_MARK: self.mark} | ({"XDG_CACHE_HOME": str(cache)} if cache else {}),
        )  # fmt: skip
        assert self._process.stdout
        self.stdout: IO[str] = self._process.stdout
        self.first_line = self.stdout.readline()
        found = re.match(r"serving on (http://127\.0\.0\.1:\d+)/ ", self.first_line)
        assert found, (folder / "stderr").read_text()
        self.url = found[1]

    def end(self, *signals: int) -> tuple[int, str]:
        """Send signals; exit code, and what was printed since the first line."""
        for number in signals:
            self._process.send_signal(number)
        rest, _ = self._process.communicate(timeout=_PATIENCE)
        self._log.close()
        return self._process.returncode, rest

    def left(self) -> list[int]:
        """Processes of this site that still run."""
        found = []
        for directory in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if self.mark.encode() in (directory / "environ").read_bytes():
                    found.append(int(directory.name))
        return found


@contextlib.contextmanager
def started(folder: Path, *words: str, cache: Path | None = None) -> Iterator[Process]:
    process = Process(folder, *words, cache=cache)
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process._process.kill()
        process._process.wait()
        process.stdout.close()
        process._log.close()


def submit(url: str, file: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "judge.py"), "submit", "split_k_merge", str(file), "--server", url, *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE, check=False)


def until_gone(process: Process) -> None:
    deadline = time.monotonic() + _PATIENCE
    while process.left() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert process.left() == []


def follow(site: Process, path: str, types: list[str]) -> None:
    """Gather the types of events until the stream ends; then "end", or what went wrong."""
    try:
        with httpx2.stream("GET", f"{site.url}{path}", timeout=_PATIENCE) as answer:
            for line in answer.iter_lines():
                if line.startswith("event: "):
                    types.append(line.removeprefix("event: "))
        types.append("end")
    except httpx2.HTTPError as error:
        types.append(repr(error))


def test_a_site_judges_ends_at_ctrl_c_and_goes_on_at_its_next_start(tmp_path: Path) -> None:
    with started(tmp_path, "--jobs", "1") as site:
        good = submit(site.url, GOOD, "--run", "--json", "-")
        assert good.returncode == 0, good.stderr
        report = json.loads(good.stdout)
        assert (report["verdict"], report["submission"]) == ("accepted", "good.cu")
        assert "repeat: " in good.stderr and f"--seed {report['seed']}" in good.stderr and "--cases samples" in good.stderr
        assert httpx2.get(f"{site.url}/").status_code == 200
        body = api_kit.new(source=GOOD.read_text(), kind="submit")
        sent = [httpx2.post(f"{site.url}/api/submissions", json=body, headers=api_kit.PROGRAM).json() for _ in range(2)]
        seen: list[str] = []
        reader = threading.Thread(target=follow, args=(site, sent[1]["events_url"], seen), daemon=True)
        reader.start()
        deadline = time.monotonic() + _PATIENCE
        while not seen and time.monotonic() < deadline:
            time.sleep(0.01)
        code, rest = site.end(signal.SIGINT, signal.SIGTERM)
        reader.join(_PATIENCE)
        assert code == 0 and seen == ["queued", "end"]
        assert re.fullmatch(r"stopped; (2 judgings go|1 judging goes) on at the next start\n", rest), rest
        until_gone(site)
    with started(tmp_path) as site:
        for each in sent:
            again: list[str] = []
            follow(site, each["events_url"], again)
            assert again[-2:] == ["finished", "end"] and again.count("finished") == 1
        assert site.end(signal.SIGTERM) == (0, "")
    said = (tmp_path / "stderr").read_text()
    assert "Traceback" not in said


# What it does not start with


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What `serve` says before it gives up."""
    assert judge.main(["serve", *words]) == 2
    said = capsys.readouterr()
    assert said.out == "" and said.err.startswith("judge.py: ") and said.err.count("\n") == 1
    return said.err


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org", "8.8.8.8", "localhost.example.org"])
def test_an_address_that_others_reach_is_refused_with_the_reason(capsys: pytest.CaptureFixture[str], host: str) -> None:
    said = refused(capsys, "--host", host, "--port", "0")
    assert f"will not listen on {host}" in said and "run as you do" in said and "ssh -L" in said


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "127.1.2.3"])
def test_loopback_is_listened_on(host: str) -> None:
    with contextlib.closing(server.listen(host, 0)) as listener:
        assert hosts.is_loopback(host) and listener.getsockname()[1] > 0


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_answers_are_sent_at_once(host: str) -> None:
    """Not held back until the other side has acknowledged the head."""

    async def delayed() -> bool:
        found: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

        def connected(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            connection = writer.get_extra_info("socket")
            found.set_result(not connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            writer.close()

        async with await asyncio.start_server(connected, sock=listener):
            with socket.create_connection(listener.getsockname()[:2]):
                return await found

    listener = server.listen(host, 0)
    assert not asyncio.run(delayed())


def test_a_taken_port_is_told_with_one_that_is_free(capsys: pytest.CaptureFixture[str]) -> None:
    with contextlib.closing(server.listen("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        said = refused(capsys, "--port", str(port))
    assert f"port {port} of 127.0.0.1 is taken" in said
    found = re.search(r"--port (\d+)", said)
    assert found and int(found[1]) != port
    server.listen("127.0.0.1", int(found[1])).close()


@pytest.mark.parametrize("word", ["-1", "65536", "http", ""])
def test_a_port_is_a_number(word: str) -> None:
    with pytest.raises(SystemExit) as stopped:
        judge.main(["serve", "--port", word])
    assert stopped.value.code == 2


def test_a_folder_that_takes_no_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    assert "it is no folder" in refused(capsys, "--port", "0", "--folder", str(tmp_path / "file"))
    for impossible in ("/proc/judge", str(tmp_path / "file" / "below")):
        said = refused(capsys, "--port", "0", "--folder", impossible)
        assert f"cannot keep submissions in {impossible}" in said and "--folder" in said


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(site_folder.tempfile, "TemporaryFile", full)
    assert "No space left on device" in refused(capsys, "--port", "0", "--folder", str(tmp_path))


def test_a_database_that_is_damaged_or_of_a_newer_judge(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "judge.sqlite3"
    file.write_bytes(b"not a database " * 100)
    assert "file is not a database" in refused(capsys, "--port", "0", "--folder", str(tmp_path))
    file.unlink()
    engine = database.connect(f"sqlite:///{file}")
    migrate.upgrade(engine)
    engine.dispose()
    with contextlib.closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    assert "newer judge" in refused(capsys, "--port", "0", "--folder", str(tmp_path))


@pytest.mark.parametrize("url", ["nonsense", "sqlite:////proc/none/judge.sqlite3", "mysql://localhost/judge"])
def test_a_database_that_cannot_be_used(tmp_path: Path, capsys: pytest.CaptureFixture[str], url: str) -> None:
    said = refused(capsys, "--port", "0", "--folder", str(tmp_path), "--database", url)
    assert "database" in said


def test_a_second_site_on_a_store_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from web.store.lock import SiteLock

    engine = database.connect(f"sqlite:///{tmp_path / 'judge.sqlite3'}")
    held = SiteLock(engine)
    assert "another site is using this store" in refused(capsys, "--port", "0", "--folder", str(tmp_path))
    assert not inspect(engine).get_table_names()  # a judge of another version has not changed the schema either
    held.close()
    engine.dispose()


@pytest.mark.parametrize("name", ["why?", "100%41", "a b#c", "a@b:c;d"])
def test_a_folder_may_have_any_name(tmp_path: Path, name: str) -> None:
    engine = database.connect(Settings(folder=tmp_path / name).url)
    assert engine.url.database == str(tmp_path.resolve() / name / "judge.sqlite3")


@pytest.mark.parametrize("package", ["fastapi", "distributed", "httpx2"])
def test_a_missing_extra_is_named_with_what_installs_it(package: str) -> None:
    code = f"import sys; sys.modules[{package!r}] = None; import judge; sys.exit(judge.main(sys.argv[1:]))"
    command = "submit" if package == "httpx2" else "serve"
    words = [command, "split_k_merge", str(GOOD)] if command == "submit" else [command, "--port", "0"]
    done = subprocess.run(
        [sys.executable, "-c", code, *words], cwd=ROOT, capture_output=True, text=True, timeout=_PATIENCE, check=False
    )
    assert done.returncode == 2
    assert done.stderr.startswith(f"judge.py: the package '{package}' of the site is missing; install all of them: ")
    assert done.stderr.endswith("[web]'\n") or done.stderr.endswith("[web]\n")


# Its parts


def test_the_secret_stays_and_is_its_users_own(tmp_path: Path) -> None:
    first = site_folder.secret(tmp_path)
    assert len(first) == 32 and site_folder.secret(tmp_path) == first
    assert (tmp_path / "secret").stat().st_mode & 0o777 == 0o600
    (tmp_path / "secret").write_bytes(b"short")
    assert site_folder.secret(tmp_path) not in (first, b"short")


def test_a_new_folder_is_its_users_own(tmp_path: Path) -> None:
    site_folder.prepare(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").stat().st_mode & 0o777 == 0o700
    assert not list((tmp_path / "a" / "b").iterdir())


def test_options_become_settings(tmp_path: Path) -> None:
    words = ["--folder", str(tmp_path), "--jobs", "3", "--device", "cpu", "--card", "T4", "--no-editor", "--port", "9"]
    settings = options.settings_of(options.serve_parser().parse(words))
    assert (settings.folder, settings.jobs, settings.device, settings.card, settings.port) == (tmp_path, 3, "cpu", "T4", 9)
    assert not settings.editor and settings.url == f"sqlite:///{tmp_path / 'judge.sqlite3'}"


@contextlib.contextmanager
def logging_to(path: Path) -> Iterator[None]:
    """As of a site, and then as before."""
    loggers = [logging.getLogger(name) for name in log._LOGGERS]
    before = [(each.handlers, each.level, each.propagate) for each in loggers]
    log.to_terminal_and_file(path, debug=False)
    try:
        yield
    finally:
        for handler in loggers[0].handlers:
            with contextlib.suppress(OSError):  # what a full disk has not taken
                handler.close()
        for each, (handlers, level, propagate) in zip(loggers, before, strict=True):
            each.handlers, each.level, each.propagate = handlers, level, propagate


def test_traces_go_to_the_file_and_a_line_to_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with logging_to(tmp_path / "errors.log"):
        try:
            raise ValueError("why\x1b[2J")
        except ValueError as error:
            logging.getLogger("web.failures").error("error 12ab: it \x1b[2J failed\nhere", exc_info=error)
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "error 12ab" in said and "\x1b" not in said and "Traceback" not in said
    kept = (tmp_path / "errors.log").read_text()
    assert "Traceback" in kept and "\x1b" not in kept


def test_a_log_on_a_full_disk_costs_no_more_than_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    with logging_to(Path("/dev/full")):
        logging.getLogger("web.failures").error("the store: database or disk is full")
    assert capsys.readouterr().err.count("\n") == 1


@contextlib.contextmanager
def in_thread(app: Any) -> Iterator[int]:
    """The server in this process; its port."""
    ready = threading.Event()
    listener = server.listen("127.0.0.1", 0)
    running = server.Server(app, ready.set, lambda: None)
    thread = threading.Thread(target=lambda: running.run(sockets=[listener]), daemon=True)
    thread.start()
    try:
        assert ready.wait(_PATIENCE)
        yield listener.getsockname()[1]
    finally:
        running.should_exit = True
        thread.join(_PATIENCE)
    assert not thread.is_alive()


async def hello(scope: Any, receive: Any, send: Any) -> None:
    """The smallest application."""
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"hi"})


@pytest.mark.parametrize("head", [b"", b"GET / HTTP/1.1\r\nHost: localh"])
def test_a_head_that_does_not_come_is_not_waited_for(monkeypatch: pytest.MonkeyPatch, head: bytes) -> None:
    monkeypatch.setattr(server, "_HEAD_SECONDS", 0.2)
    with in_thread(hello) as port, socket.create_connection(("127.0.0.1", port), timeout=_PATIENCE) as connection:
        connection.sendall(head)
        assert connection.recv(4096) == b""  # an end, or a timeout


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_other_users_of_the_machine_are_not_served(monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    with contextlib.closing(server.listen(host, 0)) as listener:
        here = listener.getsockname()[:2]
        with socket.create_connection(here) as client, listener.accept()[0] as accepted:
            peer = client.getsockname()[:2]
            assert peers.owner(peer, here) == os.getuid() and accepted.getpeername()[:2] == peer
            assert not peers.is_stranger(peer, here)
            monkeypatch.setattr(peers, "trusted", lambda: {os.getuid() + 1})
            assert peers.is_stranger(peer, here)
        monkeypatch.setattr(peers, "trusted", lambda: {os.getuid()})
        assert peers.owner(peer, here) is None and peers.is_stranger(peer, here)  # closed: it is nobody's any more


def test_a_connection_of_another_user_is_ended(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(peers, "trusted", lambda: {os.getuid() + 1})
    with in_thread(hello) as port, pytest.raises(httpx2.TransportError):
        httpx2.get(f"http://127.0.0.1:{port}/")
    assert "another user of this machine tried to connect" in caplog.text


def test_where_users_are_not_to_be_seen_everybody_is_served(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(peers, "_LISTS", (str(tmp_path / "none"),))
    peers._visible.cache_clear()
    assert not peers.is_stranger(("127.0.0.1", 1), ("127.0.0.1", 2))
    peers._visible.cache_clear()


def test_a_long_head_is_refused() -> None:
    with in_thread(hello) as port, socket.create_connection(("127.0.0.1", port), timeout=_PATIENCE) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nX-Long: " + b"a" * (64 << 10))
        assert connection.recv(4096).startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize("protocol", ["websocket", "h2c"])
def test_whoever_asks_for_another_protocol_is_answered_in_this_one(
    caplog: pytest.LogCaptureFixture, protocol: str
) -> None:
    """And whoever runs the site is not told to install anything."""
    with in_thread(hello) as port:
        headers = {"Upgrade": protocol, "Connection": "Upgrade"}
        assert httpx2.get(f"http://127.0.0.1:{port}/", headers=headers).text == "hi"
    assert not caplog.records


def test_nothing_tells_what_serves(tmp_path: Path) -> None:
    site = api_kit.site(tmp_path)
    with in_thread(site.app) as port:
        answer = httpx2.get(f"http://127.0.0.1:{port}/api/health")
        assert answer.status_code == 400 and "server" not in answer.headers  # this site goes by port 8000
    site.engine.dispose()


def test_the_editor_is_served_under_the_digest_of_its_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(editor_bundle.build, "bundle", lambda build=False: None)
    site = api_kit.site(tmp_path)
    assert site.app.state.editor.url == ""
    assert site.program.get("/editor/abc/editor.js").status_code == 404
    file = tmp_path / "abc" / "editor.js"
    file.parent.mkdir()
    file.write_text("export {};\n")
    monkeypatch.setattr(editor_bundle.build, "bundle", lambda build=False: file)
    assert site.app.state.editor.url == "/editor/abc/editor.js"
    answer = site.program.get("/editor/abc/editor.js")
    assert answer.text == "export {};\n" and answer.headers["content-type"].startswith("text/javascript")
    assert "immutable" in answer.headers["cache-control"]
    assert site.program.get("/editor/abd/editor.js").status_code == 404
    site.engine.dispose()


def test_help_needs_no_extra(capsys: pytest.CaptureFixture[str]) -> None:
    for parser in (options.serve_parser, options.submit_parser):
        with pytest.raises(SystemExit) as stopped:
            parser().parse(["--help"])
        assert stopped.value.code == 0
    assert "--scheduler" in capsys.readouterr().out
    assert serve.__doc__
