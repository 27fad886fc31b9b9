"""Who is at the other end of a loopback connection. A machine may have several users, and all of them reach 127.0.0.1,
while submissions run as the one who started the site.

Linux lists the sockets of both ends, with the user of each (proc(5), /proc/net/tcp). A socket that its process has
closed already has no user any more, so only established ones count.
"""

from __future__ import annotations

import contextlib
import functools
import os
import socket
import struct
from collections.abc import Iterable, Iterator

_LISTS = ("/proc/net/tcp", "/proc/net/tcp6")
_ESTABLISHED = "01"
_LOCAL, _REMOTE, _STATE, _USER = 1, 2, 3, 7  # columns
_ROOT = 0
Address = tuple[str, int]


def is_stranger(peer: Address, here: Address) -> bool:
    """Whether the connection from `peer` to our socket at `here` is another user's. Never, where that is not to be
    seen at all."""
    return _visible() and owner(peer, here) not in trusted()


def trusted() -> set[int | None]:
    """Users who may do anything here anyway."""
    return {os.getuid(), _ROOT}


def owner(peer: Address, here: Address) -> int | None:
    """The user of the socket at the other end; None where there is none, or none any more."""
    wanted = [(_written(peer, family), _written(here, family)) for family in (socket.AF_INET, socket.AF_INET6)]
    for columns in _rows(_LISTS):
        if columns[_STATE] == _ESTABLISHED and (columns[_LOCAL], columns[_REMOTE]) in wanted:
            return int(columns[_USER])
    return None


def _rows(files: Iterable[str]) -> Iterator[list[str]]:
    for file in files:
        with contextlib.suppress(OSError), open(file, encoding="ascii") as lines:
            next(lines, None)
            yield from map(str.split, lines)


def _written(address: Address, family: socket.AddressFamily) -> str:
    """As the kernel lists it: 32-bit words of this machine's byte order, and the port. An IPv4 address may be one of
    an IPv6 socket, too."""
    host, port = address
    if family == socket.AF_INET6 and ":" not in host:
        host = f"::ffff:{host}"
    try:
        packed = socket.inet_pton(family, host)
    except OSError:
        return ""
    words = struct.unpack(f"={len(packed) // 4}I", packed)
    return "".join(f"{word:08X}" for word in words) + f":{port:04X}"


@functools.cache
def _visible() -> bool:
    """Whether the kernel shows us a connection of our own."""
    try:
        with (
            socket.create_server(("127.0.0.1", 0)) as listener,
            socket.create_connection(listener.getsockname()) as client,
            listener.accept()[0] as accepted,
        ):
            return owner(client.getsockname(), accepted.getsockname()) == os.getuid()
    except OSError:
        return False
