"""The contract of MetaStore, sentence by sentence, on every adapter."""

import asyncio
from collections.abc import AsyncIterator, Awaitable

import pytest
from tests.contract.openers import LOSING_META_STORES, Place, Storage, params_of
from tests.waiting import eventually_async, limit_s

from opentalos.model.errors import (
    AlreadyExists,
    OutcomeUnknown,
    RequestError,
    VersionConflict,
)
from opentalos.ports.meta_store import VALUE_BYTES_MAX, MetaStore, Record

# --- get, create, replace, delete ----------------------------------------------------------------


async def test_a_record_is_created_replaced_and_deleted(
    store: MetaStore, other: MetaStore, folder: str
) -> None:
    path = f"{folder}/a"
    assert await store.get(path) is None
    first = await store.create(path, b"one")
    assert first > 0
    assert await other.get(path) == Record(b"one", first)
    version = await other.replace(path, b"two", first)
    assert version > first
    assert await store.get(path) == Record(b"two", version)
    await store.delete(path, version)
    assert await store.get(path) is None
    assert await other.get(path) is None


async def test_versions_of_a_path_never_repeat(
    store: MetaStore, other: MetaStore, folder: str
) -> None:
    path = f"{folder}/a"
    first = await store.create(path, b"one")
    second = await store.replace(path, b"one", first)
    await store.delete(path, second)
    again = await other.create(path, b"one")
    assert again > second
    await other.delete(path, again)
    assert await store.create(path, b"two") > again


async def test_an_old_version_cannot_change_a_recreated_record(
    store: MetaStore, other: MetaStore, folder: str
) -> None:
    path = f"{folder}/a"
    former = [await store.create(path, b"one")]
    former.append(await store.replace(path, b"two", former[-1]))
    await store.delete(path, former[-1])
    for version in former:
        with pytest.raises(VersionConflict):
            await other.replace(path, b"late", version)
    recreated = await store.create(path, b"three")
    for version in former:
        with pytest.raises(VersionConflict):
            await other.replace(path, b"late", version)
        with pytest.raises(VersionConflict):
            await other.delete(path, version)
    assert await other.get(path) == Record(b"three", recreated)


async def test_a_record_says_when_the_store_wrote_it_by_a_clock_of_its_own(
    store: MetaStore, other: MetaStore, folder: str
) -> None:
    path, times = f"{folder}/a", list[int]()
    version = await store.create(path, b"one")
    found = await other.get(path)
    assert found is not None
    if found.written_ms is None:
        return  # the store has no clock: what a client wrote is all that is known

    async def shown_at_three_times() -> bool:
        nonlocal version
        found = await other.get(path)
        assert found is not None
        assert found.written_ms is not None
        assert await store.get(path) == found  # by whichever client, and however often
        times.append(found.written_ms)
        version = await store.replace(path, b"one", version)
        return len(set(times)) == 3

    await eventually_async("the store's clock moves on twice", shown_at_three_times)
    assert times == sorted(times)
    assert times[-1] < times[0] + 2 * 1_000 * limit_s()  # milliseconds


async def test_versions_grow(store: MetaStore, folder: str) -> None:
    version = await store.create(f"{folder}/a", b"")
    for number in range(5):
        newer = await store.replace(f"{folder}/a", b"%d" % number, version)
        assert newer > version
        version = newer


async def test_create_of_an_existing_record_is_refused(
    store: MetaStore, other: MetaStore, folder: str
) -> None:
    version = await store.create(f"{folder}/a", b"one")
    for client in (store, other):
        with pytest.raises(AlreadyExists):
            await client.create(f"{folder}/a", b"two")
    assert await store.get(f"{folder}/a") == Record(b"one", version)


async def test_another_version_conflicts_and_changes_nothing(
    store: MetaStore, other: MetaStore, folder: str
) -> None:
    path = f"{folder}/a"
    first = await store.create(path, b"one")
    second = await store.replace(path, b"two", first)
    for stale in (first, second + 1):
        with pytest.raises(VersionConflict):
            await other.replace(path, b"three", stale)
        with pytest.raises(VersionConflict):
            await other.delete(path, stale)
    assert await store.get(path) == Record(b"two", second)


async def test_an_absent_record_conflicts(store: MetaStore, folder: str) -> None:
    with pytest.raises(VersionConflict):
        await store.replace(f"{folder}/a", b"x", 1)
    with pytest.raises(VersionConflict):
        await store.delete(f"{folder}/a", 1)
    assert await store.get(f"{folder}/a") is None


async def test_of_many_writers_at_one_version_one_wins(
    store: MetaStore, other: MetaStore, folder: str
) -> None:
    path = f"{folder}/a"
    version = await store.create(path, b"")
    results = await asyncio.gather(
        *(
            client.replace(path, b"%d" % number, version)
            for number, client in enumerate([store, other] * 8)
        ),
        return_exceptions=True,
    )
    won = [number for number, result in enumerate(results) if isinstance(result, int)]
    lost = [result for result in results if isinstance(result, BaseException)]
    assert len(won) == 1
    assert {type(error) for error in lost} == {VersionConflict}
    record = await other.get(path)
    assert record is not None
    assert (record.value, record.version) == (b"%d" % won[0], results[won[0]])


async def test_no_increment_is_lost_between_two_clients(
    store: MetaStore, other: MetaStore, folder: str
) -> None:
    path = f"{folder}/count"
    await store.create(path, b"0")

    async def add(client: MetaStore) -> None:
        added = 0
        while added < 10:
            record = await client.get(path)
            assert record is not None
            try:
                await client.replace(path, b"%d" % (int(record.value) + 1), record.version)
                added += 1
            except VersionConflict:
                await asyncio.sleep(0)

    await asyncio.gather(add(store), add(other), add(store))
    record = await store.get(path)
    assert record is not None
    assert record.value == b"30"


async def test_of_two_creates_at_once_one_wins(
    store: MetaStore, other: MetaStore, folder: str
) -> None:
    results = await asyncio.gather(
        store.create(f"{folder}/a", b"store"),
        other.create(f"{folder}/a", b"other"),
        return_exceptions=True,
    )
    assert sorted(type(result).__name__ for result in results) == ["AlreadyExists", "int"]


async def test_get_sees_every_write_that_returned_to_anyone(
    store: MetaStore, other: MetaStore, folder: str
) -> None:
    version = await store.create(f"{folder}/a", b"0")
    clients = [store, other]
    for number in range(1, 11):
        value = b"%d" % number
        version = await clients[number % 2].replace(f"{folder}/a", value, version)
        assert await clients[(number + 1) % 2].get(f"{folder}/a") == Record(value, version)


async def test_parents_need_not_exist_and_keep_their_own_record(
    store: MetaStore, other: MetaStore, folder: str
) -> None:
    below = await store.create(f"{folder}/a/b/c", b"below")
    assert await other.get(f"{folder}/a/b") is None
    assert await other.get(f"{folder}/a") is None
    middle = await other.create(f"{folder}/a", b"middle")
    assert await store.get(f"{folder}/a") == Record(b"middle", middle)
    await store.delete(f"{folder}/a", middle)
    assert await store.get(f"{folder}/a") is None
    assert await other.get(f"{folder}/a/b/c") == Record(b"below", below)
    again = await other.create(f"{folder}/a", b"again")
    assert await store.get(f"{folder}/a") == Record(b"again", again)


async def test_any_bytes_up_to_the_bound_are_kept(store: MetaStore, folder: str) -> None:
    for name, value in (
        ("empty", b""),
        ("all", bytes(range(256))),
        ("largest", b"x" * VALUE_BYTES_MAX),
    ):
        version = await store.create(f"{folder}/{name}", value)
        assert await store.get(f"{folder}/{name}") == Record(value, version)


async def test_a_value_above_the_bound_is_refused(store: MetaStore, folder: str) -> None:
    large = b"x" * (VALUE_BYTES_MAX + 1)
    with pytest.raises(RequestError):
        await store.create(f"{folder}/a", large)
    version = await store.create(f"{folder}/a", b"small")
    with pytest.raises(RequestError):
        await store.replace(f"{folder}/a", large, version)
    assert await store.get(f"{folder}/a") == Record(b"small", version)


@pytest.mark.parametrize("path", ["", "/a", "a//b", "a/", "a/../b", ".", "a\0b", "x" * 2000])
async def test_a_path_outside_the_rule_is_refused(store: MetaStore, path: str) -> None:
    for call in (
        store.get(path),
        store.create(path, b""),
        store.replace(path, b"", 1),
        store.delete(path, 1),
    ):
        with pytest.raises(RequestError):
            await call


@pytest.mark.parametrize("name", ["CL1234%23x", "a b", "é", "Uid~+=@:,;!", "x" * 200])
async def test_names_may_hold_what_percent_quoting_leaves(
    store: MetaStore, other: MetaStore, folder: str, name: str
) -> None:
    version = await store.create(f"{folder}/{name}", b"v")
    assert await other.get(f"{folder}/{name}") == Record(b"v", version)
    assert await other.children(folder) == [name]


async def test_a_reopened_client_sees_what_was_written(
    storage: Storage[MetaStore], folder: str
) -> None:
    first = await storage.client()
    version = await first.replace(f"{folder}/a", b"two", await first.create(f"{folder}/a", b"one"))
    await first.close()
    second = await storage.client()
    assert await second.get(f"{folder}/a") == Record(b"two", version)


# --- a reply that is lost -------------------------------------------------------------------------


@pytest.fixture(params=params_of(LOSING_META_STORES))
async def losing(request: pytest.FixtureRequest, place: Place) -> AsyncIterator[Storage[MetaStore]]:
    """A storage that can lose the reply of a write that took effect."""
    async with LOSING_META_STORES[request.param](place) as opened:
        assert opened.lose_reply is not None
        yield opened


async def outcome(write: Awaitable[int | None]) -> int | None:
    """The result; None also for unknown. Any other error is a lie: the write took effect."""
    try:
        return await write
    except OutcomeUnknown:
        return None


async def test_a_write_never_conflicts_with_itself_when_its_reply_is_lost(
    losing: Storage[MetaStore], folder: str
) -> None:
    store, path = await losing.client(), f"{folder}/a"
    lose_reply = losing.lose_reply
    assert lose_reply is not None
    lose_reply()
    created = await outcome(store.create(path, b"one"))
    record = await store.get(path)
    assert record is not None
    assert created in (None, record.version)
    lose_reply()
    replaced = await outcome(store.replace(path, b"two", record.version))
    record = await store.get(path)
    assert record is not None
    assert record.value == b"two"
    assert replaced in (None, record.version)
    lose_reply()
    await outcome(store.delete(path, record.version))
    assert await store.get(path) is None


async def test_a_lost_reply_among_rivals_makes_no_caller_win_twice(
    losing: Storage[MetaStore], folder: str
) -> None:
    store, other, path = await losing.client(), await losing.client(), f"{folder}/a"
    version = await store.create(path, b"")
    assert losing.lose_reply is not None
    losing.lose_reply()
    results = await asyncio.gather(
        *(
            client.replace(path, b"%d" % number, version)
            for number, client in enumerate([store, other] * 4)
        ),
        return_exceptions=True,
    )
    record = await store.get(path)
    assert record is not None
    for number, result in enumerate(results):
        if number == int(record.value):
            assert isinstance(result, OutcomeUnknown) or result == record.version
        else:  # unknown too if its store could not find out about calls that it committed together
            assert isinstance(result, VersionConflict | OutcomeUnknown)


# --- children ---------------------------------------------------------------------------------


async def test_children_are_direct_and_sorted(
    store: MetaStore, other: MetaStore, folder: str
) -> None:
    for name in ("b", "a", "c/deep/er", "a/x", "ab", "B", "c-1", "c0"):
        await store.create(f"{folder}/{name}", b"")
    assert await other.children(folder) == ["B", "a", "ab", "b", "c", "c-1", "c0"]
    assert await other.children(f"{folder}/c") == ["deep"]
    assert await other.children(f"{folder}/a") == ["x"]
    assert await other.children(f"{folder}/b") == []
    assert await other.children(f"{folder}/nothing") == []
    assert folder in await other.children("")


async def test_children_follow_creates_and_deletes(
    store: MetaStore, other: MetaStore, folder: str
) -> None:
    version = await store.create(f"{folder}/a", b"")
    await store.create(f"{folder}/b", b"")
    await other.delete(f"{folder}/a", version)
    assert await store.children(folder) == ["b"]
