"""Pool: the connections to one other server, bounded and reused, first come, first served."""

import asyncio
import contextlib
import ssl
from collections import deque
from collections.abc import AsyncIterator, Callable

from opentalos.adapters.peer_http.connection import PeerConnection
from opentalos.model.address import has_tls, split_address
from opentalos.model.errors import ExcessivePending, StoreUnavailable

ClientTls = Callable[[], ssl.SSLContext]

WAITERS_MAX = 4_096  # requests that wait for a connection, per server
TAKE_S_MAX = 3.0  # below a client's timeout, so that it gets "not done": nothing was written
CONNECT_S_MAX = 1.0  # servers of a cluster are near each other
TLS_CONNECT_S_MAX = 2.0  # with the handshake, which takes processor time on both sides
TLS_CLOSE_S = 1.0
IDLE_S_MAX = 60.0  # below the other side's idle_timeout_s, so that it seldom closes first


def place_of(address: str) -> tuple[str, int]:
    """Host and port. Raises: StoreUnavailable: it is no address."""
    try:
        return split_address(address)
    except ValueError as error:
        raise StoreUnavailable(str(error)) from error


class Pool:
    """Connections to ``address``, at most ``connections_max``; an idle one is closed in time.

    ``tls`` gives the context for the next connection to an address with TLS.
    """

    def __init__(self, address: str, connections_max: int, tls: ClientTls) -> None:
        self.address, self._tls = address, tls
        self._connections_max = connections_max
        self._idle: list[PeerConnection] = []  # the one used last at the end
        self._open: set[PeerConnection] = set()
        self._connecting = 0
        self._closed = False
        self._waiters: deque[asyncio.Future[None]] = deque()

    @property
    def empty(self) -> bool:
        """Whether there is no connection and no waiting request."""
        return not self._open and not self._connecting and not self._waiters

    @contextlib.asynccontextmanager
    async def connection(self) -> AsyncIterator[PeerConnection]:
        """One connection for one request. Raises: StoreUnavailable, ExcessivePending: not done."""
        try:
            async with asyncio.timeout(TAKE_S_MAX):
                taken = await self._take()
        except TimeoutError as error:
            text = f"server {self.address} keeps all {self._connections_max} connections busy"
            raise StoreUnavailable(text) from error
        try:
            yield taken
        finally:
            if taken.usable:
                taken.idle_since_s = asyncio.get_running_loop().time()
                self._idle.append(taken)
            self._wake()

    async def _take(self) -> PeerConnection:
        if self._waiters:
            await self._wait()  # behind those who came before
        while True:
            while self._idle:
                found = self._idle.pop()
                if found.usable:
                    return found
            if len(self._open) + self._connecting < self._connections_max:
                return await self._connect()
            await self._wait()

    async def _wait(self) -> None:
        if len(self._waiters) >= WAITERS_MAX:
            raise ExcessivePending(f"{WAITERS_MAX} requests wait for {self.address}")
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._wake()  # the turn was ours; it is the next one's now
            elif turn in self._waiters:
                self._waiters.remove(turn)
            raise

    def _wake(self) -> None:
        """Wake the request that has waited longest."""
        while self._waiters:
            turn = self._waiters.popleft()
            if not turn.done():
                turn.set_result(None)
                return

    async def _connect(self) -> PeerConnection:
        host, port = place_of(self.address)
        tls = self._tls() if has_tls(self.address) else None
        self._connecting += 1
        made = False
        try:
            async with asyncio.timeout(TLS_CONNECT_S_MAX if tls else CONNECT_S_MAX):
                _, connection = await asyncio.get_running_loop().create_connection(
                    lambda: PeerConnection(self.address, self._lost),
                    host,
                    port,
                    ssl=tls,
                    ssl_shutdown_timeout=TLS_CLOSE_S if tls else None,
                )
            made = True
            self._open.add(connection)
            if self._closed:  # meanwhile; nothing else would cut it
                connection.abort()
        except (OSError, TimeoutError) as error:
            reason = str(error) or "no answer"
            raise StoreUnavailable(f"cannot reach server {self.address}: {reason}") from error
        finally:
            self._connecting -= 1
            if not made:
                self._wake()
        return connection

    def _lost(self, connection: PeerConnection) -> None:
        self._open.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)
        self._wake()

    def close_idle(self, now_s: float) -> None:
        """Close what was not used for a long time."""
        idle = [kept for kept in self._idle if now_s - kept.idle_since_s > IDLE_S_MAX]
        for connection in idle:
            self._idle.remove(connection)
            connection.abort()

    def close(self) -> None:
        """Cut everything; those who wait are refused by the next connect or the abort."""
        self._closed = True
        for connection in list(self._open):
            connection.abort()
        self._idle.clear()
