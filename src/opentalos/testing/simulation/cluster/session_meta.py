"""SessionMetaStore: the MetaStore of one server in a cluster, with a session that can be lost.

Theory of operation. The service keeps a session while it receives heartbeats; a paused or cut-off
process sends none. When the session ends, its ephemeral records are removed and all later calls of
the client are rejected. The client learns of the end only when it reaches the service again. By its
own clock it knows earlier that the session may have ended: ``valid_until_s`` counts from the time
at which the last answered heartbeat was sent.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

from opentalos.model.errors import OutcomeUnknown, StoreUnavailable, TalosError
from opentalos.ports.meta_store import Record, Session
from opentalos.testing.simulation.cluster.network import META, Link
from opentalos.testing.simulation.loop import SimulatedProcess
from opentalos.testing.simulation.stores.faults import MetaFaults
from opentalos.testing.simulation.stores.faulty_meta import FaultyMetaStore

T = TypeVar("T")

HEARTBEATS = 3  # per session timeout
RECONNECT_S = 0.1  # between two attempts
LEARNS_S = 0.5  # a client that lost its session takes up to this long to open a new one
WATCH_BREAKS = 0.5  # of watches whose session was lost; the others continue in the new session


class ServiceSession:
    """A session on the side of the service."""

    def __init__(self, store: FaultyMetaStore, link: Link, session_s: float) -> None:
        self.store = store
        self._link, self._session_s = link, session_s
        self._loop = link.network.disk.loop
        self._heard_s = self._loop.time()
        self.ended = False
        self._check()

    def touch(self) -> None:
        """A call of the client has arrived."""
        self._heard_s = self._loop.time()

    def end(self) -> None:
        """Remove the ephemeral records; later calls of this session are rejected."""
        if not self.ended:
            self.ended = True
            self.store.end_session()

    def _check(self) -> None:
        if self.ended:
            return
        if self._link.network.down(META):
            self.touch()  # after an outage of the service every session gets its full timeout
        left_s = self._heard_s + self._session_s - self._loop.time()
        if left_s <= 0:
            self.end()
        else:
            self._link.network.disk.later(left_s, self._check)


class SessionMetaStore:
    """One server's client of the simulated coordination service."""

    def __init__(
        self, process: SimulatedProcess, faults: MetaFaults, link: Link, session_s: float
    ) -> None:
        self._process, self._faults, self._link = process, faults, link
        self._session_s = session_s
        self._disk = link.network.disk
        self._session: ServiceSession | None = None
        self._acked_s = float("-inf")  # when the last answered heartbeat was sent
        self._connected = self._lost = self._closed = False
        self._incarnation = 0
        if link.up():
            self._open()
        process.create_task(self._keep_alive(), "heartbeats")

    async def get(self, path: str) -> Record | None:
        """Linearizable; see the port."""
        return await self._call(lambda store: store.get(path), write=False)

    async def children(self, path: str) -> Sequence[str]:
        """Direct child names; see the port."""
        return await self._call(lambda store: store.children(path), write=False)

    async def create(self, path: str, value: bytes, *, ephemeral: bool = False) -> int:
        """Add a record; see the port."""
        return await self._call(
            lambda store: store.create(path, value, ephemeral=ephemeral), write=True
        )

    async def replace(self, path: str, value: bytes, expected: int) -> int:
        """Compare-and-set; see the port."""
        return await self._call(lambda store: store.replace(path, value, expected), write=True)

    async def delete(self, path: str, expected: int) -> None:
        """Compare-and-remove; see the port."""
        await self._call(lambda store: store.delete(path, expected), write=True)

    async def watch(self, prefix: str) -> AsyncIterator[Mapping[str, Record]]:
        """Waits while the service is unreachable, then continues with the latest state."""
        while not self._closed:
            session = await self._reached()
            states = session.store.watch(prefix)
            try:
                async for state in states:
                    await self._reached()
                    yield state
            finally:
                await states.aclose()  # type: ignore[attr-defined]  # it is an async generator
            if self._disk.hits(WATCH_BREAKS):
                raise StoreUnavailable("simulated: the watch ended with its session")

    def session(self) -> Session:
        """The session as this client knows it; see the port."""
        valid_until_s = self._acked_s + self._session_s
        lost = self._lost or self._closed
        return Session(valid_until_s, lost, self._incarnation, self._connected)

    async def close(self) -> None:
        """End the session; an unreachable service ends it when it expires."""
        self._closed, self._connected = True, False
        if self._session is not None and self._link.up():
            self._session.end()

    def end_session(self) -> None:
        """The service ends the session; the client learns of it at its next call."""
        if self._session is not None:
            self._session.end()

    def lose_process(self) -> None:
        """The client crashed: the service keeps the session until it expires."""

    async def _call(self, call: Callable[[FaultyMetaStore], Awaitable[T]], *, write: bool) -> T:
        if self._closed:
            raise StoreUnavailable("the meta store is closed")
        session = self._session
        if session is None or not self._connected:
            await self._disk.after(self._disk.rng.random() * LEARNS_S, lambda: None)
            session = self._session
            if session is None or not self._connected:
                raise StoreUnavailable("simulated: no connection to the meta store")

        async def at_service() -> T:
            session.touch()
            return await call(session.store)

        try:
            return await self._link.call(at_service, write=write)
        except (OutcomeUnknown, StoreUnavailable):
            if not self._link.up():
                self._connected = False
            raise

    async def _reached(self) -> ServiceSession:
        while True:
            session = self._session
            if session is not None and self._connected and self._link.up():
                return session
            await asyncio.sleep(RECONNECT_S)

    # --- heartbeats ------------------------------------------------------------------------------

    async def _keep_alive(self) -> None:
        while not self._closed:
            sent_s = self._disk.loop.time()
            try:
                alive = await self._link.call(self._beat, write=False)
            except TalosError:
                self._connected = False
                await asyncio.sleep(RECONNECT_S)
                continue
            if alive:
                self._connected, self._acked_s = True, max(self._acked_s, sent_s)
                await asyncio.sleep(self._session_s / HEARTBEATS)
            else:
                self._lost, self._connected = self._session is not None, False
                await asyncio.sleep(self._disk.rng.random() * LEARNS_S)
                if self._link.up():
                    self._open()

    async def _beat(self) -> bool:
        session = self._session
        if session is None or session.ended:
            return False
        session.touch()
        return True

    def _open(self) -> None:
        store = FaultyMetaStore(self._disk, self._process, self._faults)
        self._session = ServiceSession(store, self._link, self._session_s)
        self._acked_s = self._disk.loop.time()
        self._connected, self._lost = True, False
        self._incarnation += 1
