"""uvicorn as the site needs it: on a socket that is ours already, patient with nobody, quiet, and safe to interrupt."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from harness.errors import UsageError
from web import peers
from web.security import hosts

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_HEAD_SECONDS = 10.0  # in which the lines of a request have to come
_HEAD_BYTES = 16 << 10
_CONNECTIONS = 100  # at once; over it: 503
_STOP_SECONDS = 3  # that answers have to their end
_PORTS = 20  # that are tried for one that is free
_log = logging.getLogger(__name__)


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens. Raises UsageError for an address that others reach too, that this machine does not have,
    or that is taken: then it names a free port."""
    if not hosts.is_loopback(host):
        raise UsageError(
            f"will not listen on {host}: submissions run as you do, so the site is for you alone, on this machine. "
            "Strangers need isolation and accounts, which it does not have yet; from elsewhere, use a tunnel: "
            f"ssh -L {port}:localhost:{port} THIS_MACHINE"
        )
    try:
        return _bound(host, port)
    except OSError as error:
        raise UsageError(_why_not(host, port, error)) from None


def _bound(host: str, port: int) -> socket.socket:
    family, address = (socket.AF_INET6, host) if ":" in host else (socket.AF_INET, host)
    # asyncio sends at once only on sockets that say they are TCP; others wait 40 ms between a head and its body
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address, port))
        listener.listen(128)  # so that a second site is told at once
    except BaseException:
        listener.close()
        raise
    return listener


def _why_not(host: str, port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        others = range(port + 1, min(port + 1 + _PORTS, 65536))
        free = next((other for other in others if _is_free(host, other)), 0)
        return f"port {port} of {host} is taken, perhaps by another site; one that is free: --port {free}"
    if error.errno == errno.EACCES:
        return f"this user may not listen on port {port}; ports from 1024 are free to all: --port 8000"
    return f"cannot listen on {host}, port {port}: {error.strerror}"


def _is_free(host: str, port: int) -> bool:
    with contextlib.suppress(OSError), _bound(host, port):
        return True
    return False


class Server(uvicorn.Server):
    """Calls `ready` when it answers, and `stopping` when a signal asks for its end; a second one does not wait for
    answers that are on their way. It returns then, and does not raise the signal again."""

    def __init__(self, app: Any, ready: Callable[[], None], stopping: Callable[[], None]):
        super().__init__(uvicorn.Config(
            app, http=PatientProtocol, ws="none", lifespan="off", log_config=None, access_log=False,
            server_header=False, proxy_headers=False, timeout_keep_alive=5, timeout_graceful_shutdown=_STOP_SECONDS,
            limit_concurrency=_CONNECTIONS, h11_max_incomplete_event_size=_HEAD_BYTES,
        ))  # fmt: skip
        self._ready, self._stopping = ready, stopping

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """As uvicorn does."""
        await super().startup(sockets)
        if self.started:
            self._ready()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """All that ask for an end, also that of a closing terminal, but for those that whoever started us ignores."""
        before = {number: signal.getsignal(number) for number in _SIGNALS} if _is_main() else {}
        heard = [number for number, handler in before.items() if handler is not signal.SIG_IGN]
        for number in heard:
            signal.signal(number, self.handle_exit)
        try:
            yield
        finally:
            for number in heard:
                signal.signal(number, before[number])

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """On a signal."""
        self._stopping()
        super().handle_exit(sig, frame)


def _is_main() -> bool:
    """Whether this is the thread that signals come to."""
    return threading.current_thread() is threading.main_thread()


class PatientProtocol(H11Protocol):
    """Closes connections of other users, and those that are open and do not say what they want: uvicorn itself waits
    for ever for the first request, and for the rest of one that has begun."""

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """As uvicorn does, but for connections of other users of this machine."""
        super().connection_made(transport)
        self._wait()
        peer, here = transport.get_extra_info("peername"), transport.get_extra_info("sockname")
        if peers.is_stranger(peer[:2], here[:2]):
            _log.warning("another user of this machine tried to connect")
            transport.abort()

    def data_received(self, data: bytes) -> None:
        """As uvicorn does."""
        super().data_received(data)
        if self.conn.their_state is h11.IDLE:
            self._wait()
        else:
            self._end_wait()

    def _should_upgrade(self) -> bool:
        """Never: to what was asked for, an answer goes as if it had not been. uvicorn would have whoever reads the log
        install something, whenever any page asks for a WebSocket."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """As uvicorn does."""
        self._end_wait()
        super().connection_lost(exc)

    def _wait(self) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(_HEAD_SECONDS, self._give_up)

    def _end_wait(self) -> None:
        if self._timer:
            self._timer.cancel()
        self._timer = None

    def _give_up(self) -> None:
        self._timer = None
        if self.conn.their_state is h11.IDLE and not self.transport.is_closing():
            self.transport.close()
