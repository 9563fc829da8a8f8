"""What kazoo lacks: persistent recursive watches, replies without a worker thread in between, and
the session's length as the servers granted it. Pinned to the parts of kazoo named here."""

import contextlib
import logging
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

from kazoo.client import KazooClient
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.connection import ConnectionHandler
from kazoo.protocol.serialization import Watch, write_string
from kazoo.protocol.states import KazooState, KeeperState
from kazoo.retry import KazooRetry

from opentalos.model.errors import StoreUnavailable

PERSISTENT_RECURSIVE = 1
ANY_WATCH = 3
RECONNECT_DELAY_S = 0.05  # doubles up to the maximum
RECONNECT_DELAY_MAX_S = 0.5
_INT = struct.Struct("!i")
_log = logging.getLogger(f"{__name__}.kazoo")
_log.setLevel(logging.ERROR)  # it logs every attempt to connect; we log every change


@dataclass(frozen=True)
class AddWatch:
    """A watch that stays and covers all nodes below. Source: ZooKeeper 3.6, AddWatchRequest."""

    path: str
    type: ClassVar[int] = 106

    def serialize(self) -> bytes:
        """The request's body."""
        return bytes(write_string(self.path)) + _INT.pack(PERSISTENT_RECURSIVE)

    @classmethod
    def deserialize(cls, _buffer: bytes, _offset: int) -> bool:
        """The answer says nothing more."""
        return True


@dataclass(frozen=True)
class RemoveWatches:
    """End every watch of this client on a path. Source: ZooKeeper 3.5, RemoveWatchesRequest."""

    path: str
    type: ClassVar[int] = 18

    def serialize(self) -> bytes:
        """The request's body."""
        return bytes(write_string(self.path)) + _INT.pack(ANY_WATCH)

    @classmethod
    def deserialize(cls, _buffer: bytes, _offset: int) -> bool:
        """The answer says nothing more."""
        return True


class Reply(Protocol):
    """Takes one request's outcome, on kazoo's connection thread; the first one counts."""

    def set(self, value: Any = None) -> None: ...
    def set_exception(self, exception: BaseException) -> None: ...


class Listener(NamedTuple):
    """The listener, called on kazoo's connection thread in order of events."""

    connected: Callable[[int, float], None]  # session id, session length in seconds
    disconnected: Callable[[], None]  # before the requests under way fail
    session_lost: Callable[[], None]
    watch_event: Callable[[str], None]  # path of the node that changed


class _Kazoo(KazooClient):  # type: ignore[misc]  # kazoo has no types
    listener: Listener

    def _notify_pending(self, state: str) -> None:
        self.listener.disconnected()
        super()._notify_pending(state)


class _Connection(ConnectionHandler):  # type: ignore[misc]  # kazoo has no types
    listener: Listener

    def _connect(self, host: str, hostip: str, port: int) -> tuple[float, float]:
        read_timeout_ms, connect_timeout_ms = super()._connect(host, hostip, port)
        session_s = read_timeout_ms * 1.5 / 1000  # kazoo reads for two thirds of the session
        self.listener.connected(self.client._session_id, session_s)
        return read_timeout_ms, connect_timeout_ms

    def _read_watch_event(self, buffer: bytes, offset: int) -> None:
        watch, _ = Watch.deserialize(buffer, offset)
        if watch.type > 0:
            self.listener.watch_event(watch.path)


class _Threads(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo has no types
    """A host that does not answer must leave time for the others before the session ends."""

    connect_timeout_s: float

    def create_connection(self, *args: Any, timeout: float, **named: Any) -> socket.socket:
        timeout = min(timeout, self.connect_timeout_s)
        connection: socket.socket = super().create_connection(*args, timeout=timeout, **named)
        return connection


class Client:
    """A kazoo client that never repeats a request and always reconnects."""

    def __init__(
        self, hosts: str, session_s: float, auth: tuple[str, str] | None, listener: Listener
    ) -> None:
        threads = _Threads()
        threads.connect_timeout_s = session_s / (2 * len(hosts.split(",")))
        self._kazoo = _Kazoo(
            hosts=hosts,
            timeout=session_s,
            handler=threads,
            logger=_log,
            auth_data=[auth] if auth else None,
            command_retry=KazooRetry(max_tries=1),
            connection_retry=KazooRetry(
                max_tries=-1, delay=RECONNECT_DELAY_S, max_delay=RECONNECT_DELAY_MAX_S
            ),
        )
        connection = _Connection(
            self._kazoo, self._kazoo._conn_retry.copy(), logger=self._kazoo.logger
        )
        connection.listener = listener
        self._kazoo._connection = connection
        self._kazoo.listener = listener
        self._kazoo.add_listener(
            lambda state: listener.session_lost() if state == KazooState.LOST else None
        )

    @property
    def is_refused(self) -> bool:
        """Whether the servers did not take the credential; kazoo then connects no more."""
        return bool(self._kazoo.client_state == KeeperState.AUTH_FAILED)

    def start(self) -> None:
        """Begin to connect; does not wait. Raises: StoreUnavailable: no thread or descriptor."""
        try:
            self._kazoo.start_async()
        except (RuntimeError, OSError) as error:
            raise StoreUnavailable(f"cannot start the ZooKeeper client: {error}") from error

    def send(self, request: Any, reply: Reply) -> None:
        """Queue a request; does not wait. Requests are sent and answered in order."""
        self._kazoo._call(request, reply)

    def drop_connection(self) -> None:
        """Make kazoo see a connection that answers no more as lost."""
        connection = self._kazoo._connection._socket
        if connection is not None:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def stop(self) -> None:
        """End the session and the threads. Blocks."""
        self._kazoo.stop()
        self._kazoo.close()
