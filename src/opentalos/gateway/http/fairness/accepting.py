"""Acceptor: the listening sockets of a port, and a bounded number of new connections per pass.

The event loops accept all that the kernel has ready in one go: with a backlog of 1,024 that is
60 ms in which nobody else is served, again and again while connections are opened without pause.
"""

import asyncio
import errno
import logging
import socket
from collections.abc import Callable, Coroutine
from typing import Any, Final

ACCEPTS_A_TURN: Final = 8  # connections in one pass of the loop, about 0.5 ms
BACKLOG: Final = 1024  # connections the kernel keeps until they are accepted
_PAUSE_S: Final = 0.5  # after the system had no room for another one
_REPORT_S: Final = 60.0  # between two log lines
_NO_ROOM: Final = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM))

_log = logging.getLogger("opentalos.http")

Adopt = Callable[[socket.socket], Coroutine[Any, Any, None]]


async def bound_sockets(host: str, port: int) -> list[socket.socket]:
    """A listening socket for each address of the host, which all have the same port.

    Raises: OSError: an address is in use, or is not of this machine.
    """
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(
        host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    sockets: list[socket.socket] = []
    failure: OSError | None = None
    try:
        for family, kind, protocol, _, address in dict.fromkeys(found):
            if port == 0 and sockets:
                address = (address[0], sockets[0].getsockname()[1], *address[2:])
            try:
                sock = socket.socket(family, kind, protocol)
            except OSError as error:  # such as IPv6 on a machine without it
                failure = error
                continue
            sockets.append(_listening(sock, address))
    except OSError:
        for sock in sockets:
            sock.close()
        raise
    if not sockets:
        raise failure or OSError(f"cannot listen at {host}:{port}: it has no address")
    return sockets


def _listening(sock: socket.socket, address: Any) -> socket.socket:
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if sock.family == socket.AF_INET6:  # IPv4 has a socket of its own
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind(address)
        sock.listen(BACKLOG)
        sock.setblocking(False)
    except OSError as error:
        sock.close()
        where = f"cannot listen at {address[0]}:{address[1]}"
        raise OSError(error.errno, f"{where}: {error.strerror}") from error
    return sock


class Acceptor:
    """Accepts from these sockets until it is closed.

    Args: adopt: makes a connection of an accepted socket; its task ends when that is done.
    lacks_room: whether a socket of this number is to be closed at once, since others need the rest.
    """

    def __init__(
        self,
        sockets: list[socket.socket],
        adopt: Adopt,
        lacks_room: Callable[[int], bool] = lambda fd: False,
    ) -> None:
        self._sockets, self._adopt, self._lacks_room = sockets, adopt, lacks_room
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()  # TLS bounds its handshakes
        self._reported_s = float("-inf")
        self._closed = False
        for sock in sockets:
            self._listen(sock)

    async def close(self) -> None:
        """Accept nothing more. Connections that were just accepted are made before."""
        self._closed = True
        for sock in self._sockets:
            if sock.fileno() >= 0:
                self._loop.remove_reader(sock.fileno())
                sock.close()
        for _ in range(3):  # makes the task, the transport, and calls the protocol
            if self._tasks:
                await asyncio.sleep(0)

    def abandon(self) -> None:
        """Give up the handshakes under way."""
        for task in self._tasks:
            task.cancel()

    def _listen(self, sock: socket.socket) -> None:
        if not self._closed:
            self._loop.add_reader(sock.fileno(), self._accept, sock)

    def _accept(self, sock: socket.socket) -> None:
        for _ in range(ACCEPTS_A_TURN):
            try:
                accepted, _ = sock.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                if error.errno in _NO_ROOM:
                    self._pause(sock, str(error))
                    return
                continue  # that connection has ended already
            if self._lacks_room(accepted.fileno()):
                accepted.close()
                self._pause(sock, "nearly all descriptors are in use")
                return
            accepted.setblocking(False)
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            task = self._loop.create_task(self._adopt(accepted))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _pause(self, sock: socket.socket, reason: str) -> None:
        """Let clients wait; the kernel keeps their connections."""
        self._loop.remove_reader(sock.fileno())
        self._loop.call_later(_PAUSE_S, self._listen, sock)
        now_s = self._loop.time()
        if now_s - self._reported_s > _REPORT_S:
            self._reported_s = now_s
            _log.error("cannot accept connections: %s; raise the limit (ulimit -n)", reason)
