"""Ended sessions stay ended, on every server, in one bounded record of each principal."""

import pytest
from tests.unit.catalog.support import CountingClock

from opentalos.adapters.memory import MemoryMetaStore, MemoryStorage
from opentalos.catalog.principals.ended_sessions import (
    SESSIONS_MAX,
    Ended,
    EndedSessions,
    Lifetime,
    decode_ended,
    encode_ended,
)
from opentalos.model.errors import CorruptLog, NewerFormat


async def test_two_servers_end_sessions_of_one_principal_at_once() -> None:
    storage, clock = MemoryStorage(), CountingClock()
    one, other = (EndedSessions(MemoryMetaStore(storage), clock) for _ in range(2))
    await one.start()
    await other.start()
    lifetime = Lifetime(1, clock.now_ms + 1_000)
    await one.add("alice", "a", lifetime)
    await other.add("alice", "b", lifetime)
    assert other.has("alice", "a", 1)
    assert other.has("alice", "b", 1)
    assert not other.has("alice", "c", 1)
    assert not other.has("bob", "a", 1)
    await one.close()
    await other.close()


async def test_what_would_have_ended_is_dropped_and_what_overflows_is_covered() -> None:
    storage, clock = MemoryStorage(), CountingClock()
    ended = EndedSessions(MemoryMetaStore(storage), clock)
    await ended.start()
    start_ms = clock.now_ms
    await ended.add("alice", "old", Lifetime(start_ms - 9, start_ms + 1))
    clock.now_ms += 2
    for number in range(SESSIONS_MAX):
        await ended.add("alice", f"s{number}", Lifetime(start_ms + number, start_ms + 1_000))
    assert not ended.has("alice", "old", start_ms - 9)  # its time is over anyway
    await ended.add("alice", "last", Lifetime(start_ms + 500, start_ms + 2_000))
    assert ended.has("alice", "s0", start_ms)
    assert ended.has("alice", "unknown", start_ms)
    assert not ended.has("alice", "unknown", start_ms + SESSIONS_MAX)
    await ended.close()


def test_records_come_back_and_others_are_named() -> None:
    ended = Ended({"a": Lifetime(1, 2)}, 3)
    assert decode_ended(encode_ended(ended)) == ended
    with pytest.raises(NewerFormat):
        decode_ended(b'{"version": 2}')
    for value in (b"", b"[]", b'{"version": 1}', b'{"version": 1, "sessions": {"a": 1}}'):
        with pytest.raises(CorruptLog):
            decode_ended(value)
