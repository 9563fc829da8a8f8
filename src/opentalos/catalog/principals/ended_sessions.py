"""EndedSessions: which sessions were ended before their time, known to all servers of a cluster.

One record per principal, so there are never more records than principals. A record lists the last
ended sessions. When it is full, the oldest of them is covered by a time instead: all sessions of
this principal that were opened by then are over. So it is bounded, and what ended stays ended.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from opentalos.catalog.records.record_format import decode_record, encode_record
from opentalos.catalog.records.record_index import Codec, RecordIndex, record_path
from opentalos.ports.clock import Clock
from opentalos.ports.meta_store import MetaStore

PREFIX: Final = "ended-sessions"
FORMAT_VERSION: Final = 1
SESSIONS_MAX: Final = 64  # listed of one principal


class Lifetime(NamedTuple):
    """Of a session, in Unix milliseconds."""

    opened_ms: int
    ends_ms: int  # at the latest


@dataclass(frozen=True, slots=True)
class Ended:
    """Of one principal."""

    sessions: Mapping[str, Lifetime] = field(default_factory=dict)  # by id
    until_ms: int = 0  # all that were opened by then are over as well; 0: none


def encode_ended(ended: Ended) -> bytes:
    """The record's value."""
    sessions = dict(ended.sessions)
    return encode_record(FORMAT_VERSION, sessions=sessions, until_ms=ended.until_ms)


def decode_ended(value: bytes) -> Ended:
    """Read a record. Raises: NewerFormat, CorruptLog."""
    return decode_record(value, FORMAT_VERSION, "ended sessions", _ended)


def _ended(record: Any) -> Ended:
    sessions = {
        str(name): Lifetime(int(opened_ms), int(ends_ms))
        for name, (opened_ms, ends_ms) in record["sessions"].items()
    }
    return Ended(sessions, int(record["until_ms"]))


class EndedSessions:
    """The records of all principals, in memory."""

    def __init__(self, meta: MetaStore, clock: Clock) -> None:
        self._clock = clock
        self._records = RecordIndex(meta, PREFIX, Codec(encode_ended, decode_ended))

    async def start(self) -> None:
        """Load all records."""
        await self._records.start()

    async def close(self) -> None:
        """Stop following changes of other servers."""
        await self._records.close()

    def has(self, principal_id: str, session_id: str, opened_ms: int) -> bool:
        """Whether the session was ended."""
        ended = self._records.get(record_path(PREFIX, principal_id))
        return ended is not None and (opened_ms <= ended.until_ms or session_id in ended.sessions)

    async def add(self, principal_id: str, session_id: str, lifetime: Lifetime) -> None:
        """End a session. Raises: as the store."""
        now_ms = self._clock.wall_ms()

        def with_it(before: Ended) -> Ended:
            sessions = {name: of for name, of in before.sessions.items() if of.ends_ms > now_ms}
            sessions[session_id] = lifetime
            until_ms = before.until_ms
            while len(sessions) > SESSIONS_MAX:
                name = min(sessions, key=lambda name: sessions[name])
                until_ms = max(until_ms, sessions.pop(name).opened_ms)
            return Ended(sessions, until_ms)

        await self._records.put(record_path(PREFIX, principal_id), Ended(), with_it)
