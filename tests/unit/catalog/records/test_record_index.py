import asyncio

import pytest
from tests.unit.catalog.support import MovableTime

from opentalos.adapters.memory import MemoryMetaStore, MemoryStorage
from opentalos.catalog.records.record_index import (
    FOLLOW_INTERVAL_S,
    Codec,
    RecordIndex,
    record_path,
)
from opentalos.model.errors import AlreadyExists, CorruptLog, NotFound


def _decode(value: bytes) -> str:
    if value == b"bad":
        raise CorruptLog("unreadable")
    return value.decode()


_TEXT = Codec(str.encode, _decode)
Heard = list[tuple[str, str | None, str | None]]


async def _open(storage: MemoryStorage) -> tuple[RecordIndex[str], Heard]:
    heard: Heard = []
    index = RecordIndex(
        MemoryMetaStore(storage), "a", _TEXT, lambda path, old, new: heard.append((path, old, new))
    )
    await index.start()
    return index, heard


async def test_what_was_stored_before_is_there_after_start() -> None:
    storage = MemoryStorage()
    first, _ = await _open(storage)
    await first.create("a/b", "one")
    second, heard = await _open(storage)
    assert second.get("a/b") == "one"
    assert heard == [("a/b", None, "one")]
    await first.close()
    await second.close()


async def test_own_writes_show_at_once_and_are_heard_once() -> None:
    index, heard = await _open(MemoryStorage())
    await index.create("a/b", "one")
    assert await index.change("a/b", lambda old: old + "!") == "one!"
    await index.remove("a/b", "one!")
    assert index.get("a/b") is None
    for _ in range(5):
        await asyncio.sleep(0)
    assert heard == [("a/b", None, "one"), ("a/b", "one", "one!"), ("a/b", "one!", None)]
    await index.close()


async def test_a_change_that_lost_the_race_is_decided_again_on_the_new_value() -> None:
    storage = MemoryStorage()
    mine, _ = await _open(storage)
    other, _ = await _open(storage)
    await mine.create("a/b", "x")
    await other.refresh("a/b")
    await other.change("a/b", lambda old: old + "o")
    assert await mine.change("a/b", lambda old: old + "m") == "xom"
    await mine.close()
    await other.close()


async def test_other_servers_writes_and_removals_arrive_by_the_watch() -> None:
    time = MovableTime(asyncio.get_running_loop())
    storage = MemoryStorage()
    mine, _ = await _open(storage)
    other, _ = await _open(storage)
    await other.create("a/b", "x")
    await _until(time, lambda: mine.get("a/b") == "x")
    await other.remove("a/b", "x")
    await _until(time, lambda: mine.get("a/b") is None)
    await mine.close()
    await other.close()


async def test_a_create_that_another_server_won_shows_its_record() -> None:
    storage = MemoryStorage()
    mine, _ = await _open(storage)
    other, _ = await _open(storage)
    await other.create("a/b", "theirs")
    with pytest.raises(AlreadyExists):
        await mine.create("a/b", "mine")
    assert mine.get("a/b") == "theirs"
    await mine.close()
    await other.close()


async def test_a_removal_leaves_a_value_alone_that_it_did_not_expect() -> None:
    index, _ = await _open(MemoryStorage())
    await index.create("a/b", "new")
    await index.remove("a/b", "old")
    assert index.get("a/b") == "new"
    with pytest.raises(NotFound):
        await index.change("a/c", lambda old: old)
    await index.close()


async def test_an_unreadable_record_stops_the_start_and_is_named() -> None:
    storage = MemoryStorage()
    await MemoryMetaStore(storage).create("a/b", b"bad")
    with pytest.raises(CorruptLog, match="record a/b: unreadable"):
        await _open(storage)


def test_odd_characters_of_ids_are_quoted() -> None:
    assert record_path("topics", "CL#1/ü", "x") == "topics/CL%231%2F%C3%BC/x"


async def _until(time: MovableTime, condition: object) -> None:
    assert callable(condition)
    for _ in range(20):
        if condition():
            return
        time.advance(FOLLOW_INTERVAL_S)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    raise AssertionError("the watch did not bring it")
