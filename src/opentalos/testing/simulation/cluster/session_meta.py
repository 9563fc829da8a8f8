"""SessionMetaStore: the MetaStore of one server in a cluster, with a session that can be lost.

The service keeps a session as long as it hears of the client; a paused or cut-off process is not
heard. When the session ends, its ephemeral records go, and whatever the client still sends is
refused. The client learns of it only when it reaches the service again, but by its own clock it
knows at once that the session may be over: ``valid_until_s`` counts from the sending of the last
heartbeat that was answered.
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

HEARTBEATS = 3  # within the time of a session
RECONNECT_S = 0.1  # between two tries
LEARNS_S = 0.5  # a client that lost its session takes up to so long for a new one
WATCH_BREAKS = 0.5  # of watches whose session was lost; the others go on under the new one


class ServiceSession:
    """A session as the service keeps it."""

    def __init__(self, store: FaultyMetaStore, link: Link, session_s: float) -> None:
        self.store = store
        self._link, self._session_s = link, session_s
        self._loop = link.network.disk.loop
        self._heard_s = self._loop.time()
        self.ended = False
        self._look()

    def touch(self) -> None:
        """The client was heard."""
        self._heard_s = self._loop.time()

    def end(self) -> None:
        """The ephemeral records go; nothing of this session is applied any more."""
        if not self.ended:
            self.ended = True
            self.store.end_session()

    def _look(self) -> None:
        if self.ended:
            return
        if self._link.network.down(META):
            self.touch()  # a service that comes back gives everybody the full time
        left_s = self._heard_s + self._session_s - self._loop.time()
        if left_s <= 0:
            self.end()
        else:
            self._link.network.disk.later(left_s, self._look)


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
        """Stands still while the service is out of reach, then goes on with the latest state."""
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
        """What this client knows; see the port."""
        valid_until_s = self._acked_s + self._session_s
        lost = self._lost or self._closed
        return Session(valid_until_s, lost, self._incarnation, self._connected)

    async def close(self) -> None:
        """End the session; a service that is out of reach finds out by itself."""
        self._closed, self._connected = True, False
        if self._session is not None and self._link.up():
            self._session.end()

    def lose_process(self) -> None:
        """The client crashed: the service goes on believing in it until the session's end."""

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
