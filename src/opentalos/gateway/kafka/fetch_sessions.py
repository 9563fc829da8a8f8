"""Fetch sessions: what a client reads, kept so that each request and answer names changes only.

A session belongs to the connection that opened it and ends with it. Their number is bounded, of
each tenant and in all; a client that gets none sends all its partitions in each request.

Source: Apache Kafka 4.3, KIP-227.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple
from weakref import WeakSet

from opentalos.gateway.kafka.call import ClientSession
from opentalos.wire.kafka.errors import ErrorCode

SESSIONS_MAX: Final = 2_000
SESSIONS_OF_TENANT_MAX: Final = 500
PLACES_MAX: Final = 10_000  # partitions of one session
PLACES_OF_TENANT_MAX: Final = 200_000  # of all its sessions, which take some hundred bytes each
NO_SESSION: Final = 0
EPOCH_ONCE: Final = -1  # of a request outside of any session
EPOCH_FIRST: Final = 0  # of the request that opens one
_EPOCH_MAX: Final = (1 << 31) - 1

Key = tuple[str | bytes, int]  # topic by name or id, and partition


class Wanted(NamedTuple):
    """What a client reads of a partition."""

    offset: int
    bytes_max: int
    leader_epoch: int = -1  # that the client knows


class Shown(NamedTuple):
    """What the client knows of a partition besides messages."""

    high_watermark: int
    start: int


class FetchSession:
    """The partitions of one client, in the order in which they are read."""

    def __init__(self, number: int, caller: str, tenant: str) -> None:
        self.id, self.caller, self.epoch = number, caller, 1
        self.tenant = tenant
        self.places: dict[Key, Wanted] = {}
        self.shown: dict[Key, Shown] = {}

    def change(self, wanted: dict[Key, Wanted], forgotten: Iterable[Key]) -> dict[Key, Wanted]:
        """Apply a request; what is read then."""
        for key in forgotten:
            self.places.pop(key, None)
            self.shown.pop(key, None)
        self.places.update(wanted)
        return self.places

    def read_last(self, keys: Iterable[Key]) -> None:
        """Those that had messages come after the others next time."""
        for key in keys:
            wanted = self.places.pop(key, None)
            if wanted is not None:
                self.places[key] = wanted

    def advance(self) -> None:
        """The next request has the next epoch."""
        self.epoch = 1 if self.epoch == _EPOCH_MAX else self.epoch + 1


class RefusedSession(Exception):
    """The request is not answered; the client begins again without a session."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code.name)
        self.code = code


class FetchSessions:
    """The sessions of all connections of one server."""

    def __init__(self) -> None:
        self._open: WeakSet[FetchSession] = WeakSet()
        self._last = 0

    def __len__(self) -> int:
        return len(self._open)

    def find(self, client: ClientSession, number: int, epoch: int) -> FetchSession | None:
        """The session that a request continues; None: it has none. Raises: RefusedSession."""
        session: FetchSession | None = client.state.get(FetchSession)
        if number == NO_SESSION or epoch in (EPOCH_ONCE, EPOCH_FIRST):
            client.state.pop(FetchSession, None)
            return None
        if session is None or session.id != number or session.caller != client.caller.id:
            raise RefusedSession(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != epoch:
            raise RefusedSession(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        return session

    def end(self, client: ClientSession) -> None:
        """The client begins again without a session."""
        client.state.pop(FetchSession, None)

    def change(
        self, session: FetchSession, wanted: dict[Key, Wanted], forgotten: Iterable[Key]
    ) -> dict[Key, Wanted]:
        """Apply a request to a session; what is read then. Raises: RefusedSession: too much."""
        before = len(session.places)
        places = session.change(wanted, forgotten)
        grown = len(places) > before  # few requests do that
        if grown and (len(places) > PLACES_MAX or self._crowded(session.tenant, 0)):
            session.places, session.shown = {}, {}
            raise RefusedSession(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        return places

    def _crowded(self, tenant: str, more: int) -> bool:
        held = sum(len(each.places) for each in self._open if each.tenant == tenant)
        return held + more > PLACES_OF_TENANT_MAX

    def open(self, client: ClientSession, wanted: dict[Key, Wanted]) -> FetchSession | None:
        """A new session; None: there are too many."""
        tenant = client.tenant
        mine = sum(session.tenant == tenant for session in self._open)
        if len(self._open) >= SESSIONS_MAX or mine >= SESSIONS_OF_TENANT_MAX:
            return None
        if len(wanted) > PLACES_MAX or self._crowded(tenant, len(wanted)):
            return None
        self._last = self._last % _EPOCH_MAX + 1
        session = FetchSession(self._last, client.caller.id, tenant)
        client.state[FetchSession] = session
        session.places = dict(wanted)
        self._open.add(session)
        return session
