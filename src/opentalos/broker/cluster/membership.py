"""Membership: this server's ephemeral record, and what happens when coordination is away.

``Cluster`` registers the server through it at the start and removes the record at the end.
"""

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from opentalos.broker.cluster.records import (
    LeavingKind,
    LeavingRecord,
    ServerRecord,
    decode_record,
    encode_record,
)
from opentalos.broker.cluster.state import ClusterState, leaving_path, put_record, server_path
from opentalos.model.errors import (
    AlreadyExists,
    ConfigError,
    OutcomeUnknown,
    TalosError,
    VersionConflict,
)
from opentalos.model.limits import ClusterLimits
from opentalos.ports.meta_store import Session
from opentalos.ports.peers import Peers

_log = logging.getLogger("opentalos.cluster")

LEND = "lend"  # the setting; see ClusterLimits.restart
CHECK_S = 0.1  # between two checks of the session
NAME_WAIT_S = 10.0  # for the record of a session without an end
NAME_WAIT_MAX_S = 60.0  # for the record of a very long session
NAME_SLACK_S = 1.0  # a store may end a session a little late


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionCallbacks:
    """``lapsed`` begins nothing new; ``resume`` finds out what other servers took meanwhile, and
    may raise to be called again; ``returned`` follows the assignments again."""

    lapsed: Callable[[], None]
    resume: Callable[[], Awaitable[None]]
    returned: Callable[[], None]


class Membership:
    """Keeps this server registered under a live session.

    States: not registered, member, away. One task checks the session every ``CHECK_S`` and
    whenever the own record changes. A member whose session ended, or whose record is gone, is
    away: other servers may take over what it serves, and it cannot know. Open partitions continue
    all the same, for as long as storage accepts their commits, which is what makes one writer (I2).
    The task then registers under the new session, reads all control records again and looks what
    was taken over, however long that takes; only then it is a member, and ``returned`` is called.
    """

    def __init__(
        self, state: ClusterState, peers: Peers, limits: ClusterLimits, me: ServerRecord
    ) -> None:
        self._state, self._peers, self._limits, self._me = state, peers, limits, me
        self._path = server_path(me.name)
        self._registered = False
        self._away = False  # others may have taken over what is served here
        self._serves = False  # requests are answered
        self._noted = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def me(self) -> ServerRecord:
        """This server's record as it was last registered."""
        return self._me

    @property
    def valid(self) -> bool:
        """Whether this server is a member now."""
        return self._member and self._holds(self._state.meta.session())

    @property
    def steady(self) -> bool:
        """Whether new work may start: this server is a member, and coordination answers."""
        session = self._state.meta.session()
        return self._member and session.connected and self._holds(session)

    def record_changed(self, path: str) -> None:
        """A control record changed."""
        if path == self._path:
            self._noted.set()

    async def register(self) -> None:
        """Become a member. Raises: ConfigError: another server of this name is alive."""
        session = self._state.meta.session()
        left_s = session.valid_until_s - asyncio.get_running_loop().time()
        wait_s = min(left_s, NAME_WAIT_MAX_S) + NAME_SLACK_S
        await self._register(NAME_WAIT_S if math.isinf(left_s) else max(wait_s, NAME_SLACK_S))
        await self._remove_restart()

    def serves(self) -> None:
        """Requests are answered from now on: what was lent for the restart may come back."""
        self._serves = True
        self._noted.set()

    def watch(self, callbacks: SessionCallbacks) -> None:
        """Check the session from now on."""
        self._task = asyncio.create_task(self._watch(callbacks), name="membership")

    async def announce_restart(self) -> None:
        """Ask the others to reserve this server's partitions, or to serve them meanwhile.

        Raises: TalosError.
        """
        path = leaving_path(self._me.name)
        found = self._state.leaving.get(path)
        if not self._registered or (found and found.kind == LeavingKind.DRAIN.value):
            return
        record = LeavingRecord(
            name=self._me.name,
            kind=(LeavingKind.LEND if self._limits.restart == LEND else LeavingKind.RESTART).value,
            incarnation=self._me.incarnation,
            wait_s=self._limits.restart_s,
        )
        await put_record(self._state.leaving, path, record)

    async def close(self) -> None:
        """Stop, and remove the record, so that others need not wait for the session to expire."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        if self._registered:
            self._registered = False
            found = await self._state.meta.get(self._path)
            if found is not None and found.value == encode_record(self._me):
                await self._state.meta.delete(self._path, found.version)

    # --- inside ---------------------------------------------------------------------------------

    @property
    def _member(self) -> bool:
        return self._registered and not self._away

    def _holds(self, session: Session) -> bool:
        return (
            not session.lost
            and session.incarnation == self._me.session
            and asyncio.get_running_loop().time() <= session.valid_until_s
        )

    async def _register(self, wait_s: float) -> None:
        """Create the record, after a record left by an earlier process was removed."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + wait_s
        self._me = replace(self._me, session=self._state.meta.session().incarnation)
        value = encode_record(self._me)
        while True:
            try:
                await self._state.meta.create(self._path, value, ephemeral=True)
                break
            except (AlreadyExists, OutcomeUnknown):
                found = await self._state.meta.get(self._path)
            if found is None:
                continue
            if found.value == value:
                break
            other = decode_record(ServerRecord, found.value)
            if await self._is_dead(other):
                await self._remove_record(found.version)
            elif loop.time() >= deadline_s:
                raise ConfigError(
                    f"a server named {other.name} is alive at {other.address}: names must be "
                    "unique; set another name"
                )
            else:
                await asyncio.sleep(CHECK_S)
        await self._state.servers.refresh(self._path)
        self._registered = True

    async def _is_dead(self, other: ServerRecord) -> bool:
        """Whether a record of this name is left over from a process that has ended."""
        mine = other.incarnation == self._me.incarnation or other.address == self._me.address
        return mine or await self._peers.refuses(other.address)

    async def _remove_record(self, version: int) -> None:
        try:
            await self._state.meta.delete(self._path, version)
        except VersionConflict:  # it expired or was replaced: read it again
            _log.debug("the record of server %s changed meanwhile", self._me.name)

    async def _remove_restart(self) -> None:
        """This server is back: remove its announcement."""
        path = leaving_path(self._me.name)
        found = self._state.leaving.get(path)
        if found is not None and found.kind == LeavingKind.RESTART.value:
            await self._state.leaving.remove(path, found)

    async def _take_back(self) -> None:
        """This server serves again: remove the announcement by which its partitions are lent."""
        path = leaving_path(self._me.name)
        found = self._state.leaving.get(path)
        former = found is not None and found.incarnation != self._me.incarnation
        if found is not None and former and found.kind == LeavingKind.LEND.value:
            try:
                await self._state.leaving.remove(path, found)
            except TalosError as error:
                _log.info("what was lent for the restart does not come back yet: %s", error)

    async def _watch(self, callbacks: SessionCallbacks) -> None:
        while True:
            try:
                async with asyncio.timeout(CHECK_S):
                    await self._noted.wait()
            except TimeoutError:
                pass
            self._noted.clear()
            try:
                await self._check(callbacks)
                if self._serves:
                    await self._take_back()
            except Exception:
                # Without this loop a lapse would never be noticed.
                _log.exception("could not check the session, next check in %.1f s", CHECK_S)

    async def _check(self, callbacks: SessionCallbacks) -> None:
        """If the session lapsed: begin nothing new, register again, start again."""
        if self._away or not self._registered:
            pass  # the last check failed half-way
        elif not self._holds(self._state.meta.session()):
            _log.warning(
                "the session with the cluster lapsed: open partitions continue as long as storage "
                "accepts their commits, nothing else is opened"
            )
        elif self._state.servers.get(self._path) != self._me:
            _log.warning("the record of this server is gone, registering again")
        else:
            return
        self._away = True
        callbacks.lapsed()
        await self._come_back(callbacks.resume)
        callbacks.returned()

    async def _come_back(self, resume: Callable[[], Awaitable[None]]) -> None:
        """Register under the new session and learn what changed, however long it takes."""
        while self._away:
            self._registered = False
            try:
                session = self._state.meta.session()
                if session.connected and not session.lost:
                    await self._register(0.0)
                    await self._remove_restart()
                    await self._state.reload()
                    await resume()
                    self._away = not self._holds(self._state.meta.session())
                    continue
            except TalosError as error:
                _log.warning("could not rejoin the cluster yet: %s", error)
            await asyncio.sleep(CHECK_S)
        _log.warning("this server is a member of the cluster again")
