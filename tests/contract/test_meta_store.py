"""The contract of MetaStore, sentence by sentence, on every adapter."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path

import pytest
from tests.contract.openers import LOSING_META_STORES, META_STORES, PATIENCE_S, Storage

from opentalos.model.errors import (
    AlreadyExists,
    OutcomeUnknown,
    RequestError,
    TalosError,
    VersionConflict,
)
from opentalos.ports.meta_store import VALUE_BYTES_MAX, MetaStore, Record

POLL_S = 0.02


@pytest.fixture(params=list(META_STORES))
async def storage(
    request: pytest.FixtureRequest, tmp_path: Path
) -> AsyncIterator[Storage[MetaStore]]:
    async with META_STORES[request.param](tmp_path) as opened:
        yield opened


@pytest.fixture
async def store(storage: Storage[MetaStore]) -> MetaStore:
    return await storage.client()


@pytest.fixture
async def other(storage: Storage[MetaStore]) -> MetaStore:
    """A second client of the same storage."""
    return await storage.client()


@pytest.fixture
def folder() -> str:
    """A folder that no other case uses."""
    return f"case-{uuid.uuid4().hex}"


async def eventually(holds: Callable[[], Awaitable[bool]]) -> None:
    """Return as soon as ``holds`` does; fail when patience ends."""
    async with asyncio.timeout(PATIENCE_S):
        while not await holds():  # noqa: ASYNC110 - the other side is another system
            await asyncio.sleep(POLL_S)


class Watch:
    """One watch and every state it showed."""

    def __init__(self, store: MetaStore, prefix: str) -> None:
        self._states = store.watch(prefix)
        self.seen: list[Mapping[str, Record]] = []

    async def until(self, holds: Callable[[Mapping[str, Record]], bool]) -> Mapping[str, Record]:
        """The first state that ``holds``; states before it may be any."""
        if self.seen and holds(self.seen[-1]):
            return self.seen[-1]
        async with asyncio.timeout(PATIENCE_S):
            async for state in self._states:
                self.seen.append(state)
                if holds(state):
                    return state
        raise AssertionError("the watch ended")


# --- get, create, replace, delete ----------------------------------------------------------------


async def test_a_record_is_created_replaced_and_deleted(
    store: MetaStore, other: MetaStore, folder: str
) -> None:
    path = f"{folder}/a"
    assert await store.get(path) is None
    assert await store.create(path, b"one") == 1
    assert await other.get(path) == Record(b"one", 1)
    version = await other.replace(path, b"two", 1)
    assert version > 1
    assert await store.get(path) == Record(b"two", version)
    await store.delete(path, version)
    assert await store.get(path) is None
    assert await other.get(path) is None


async def test_a_deleted_record_can_be_created_again(store: MetaStore, folder: str) -> None:
    path = f"{folder}/a"
    await store.delete(path, await store.create(path, b"one"))
    version = await store.create(path, b"two")
    assert version >= 1
    assert await store.get(path) == Record(b"two", version)


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


@pytest.fixture(params=list(LOSING_META_STORES))
async def losing(
    request: pytest.FixtureRequest, tmp_path: Path
) -> AsyncIterator[Storage[MetaStore]]:
    """A storage that can lose the reply of a write that took effect."""
    async with LOSING_META_STORES[request.param](tmp_path) as opened:
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


async def test_a_reply_lost_in_a_crowd_makes_nobody_win_twice(
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
        else:
            assert isinstance(result, VersionConflict)


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


# --- ephemeral ----------------------------------------------------------------------------------


async def test_an_ephemeral_record_ends_with_its_session(
    storage: Storage[MetaStore], other: MetaStore, folder: str
) -> None:
    owner = await storage.client()
    await owner.create(f"{folder}/live", b"me", ephemeral=True)
    await owner.create(f"{folder}/kept", b"me")
    assert await other.get(f"{folder}/live") == Record(b"me", 1)
    assert await other.children(folder) == ["kept", "live"]
    await owner.close()

    async def gone() -> bool:
        return await other.get(f"{folder}/live") is None

    await eventually(gone)
    assert await other.children(folder) == ["kept"]
    assert await other.create(f"{folder}/live", b"you", ephemeral=True) >= 1


async def test_an_ephemeral_record_is_written_like_any_other(
    store: MetaStore, other: MetaStore, folder: str
) -> None:
    version = await store.create(f"{folder}/live", b"one", ephemeral=True)
    with pytest.raises(AlreadyExists):
        await other.create(f"{folder}/live", b"two", ephemeral=True)
    version = await other.replace(f"{folder}/live", b"two", version)
    assert await store.get(f"{folder}/live") == Record(b"two", version)
    await other.delete(f"{folder}/live", version)
    assert await store.get(f"{folder}/live") is None


async def test_other_sessions_end_no_record(
    storage: Storage[MetaStore], store: MetaStore, other: MetaStore, folder: str
) -> None:
    await store.create(f"{folder}/live", b"me", ephemeral=True)
    passer_by = await storage.client()
    await passer_by.create(f"{folder}/brief", b"", ephemeral=True)
    await passer_by.close()

    async def gone() -> bool:
        return await other.get(f"{folder}/brief") is None

    await eventually(gone)
    assert await other.get(f"{folder}/live") == Record(b"me", 1)


async def test_a_live_session_is_valid(store: MetaStore) -> None:
    session = store.session()
    assert not session.lost
    assert session.valid_until_s > asyncio.get_running_loop().time()
    assert session.incarnation >= 0


# --- watch ----------------------------------------------------------------------------------------


async def test_watch_begins_with_the_current_state(
    store: MetaStore, other: MetaStore, folder: str
) -> None:
    await store.create(f"{folder}/w/a", b"1")
    await store.create(f"{folder}/w/deep/b", b"2")
    await store.create(f"{folder}/wider", b"not below")
    await store.create(f"{folder}/w", b"not below either")
    for client in (store, other):
        state = await Watch(client, f"{folder}/w").until(lambda _state: True)
        assert state == {f"{folder}/w/a": Record(b"1", 1), f"{folder}/w/deep/b": Record(b"2", 1)}


async def test_watch_of_nothing_is_an_empty_state(store: MetaStore, folder: str) -> None:
    assert await Watch(store, f"{folder}/w").until(lambda _state: True) == {}


async def test_watch_reaches_the_latest_state(
    store: MetaStore, other: MetaStore, folder: str
) -> None:
    watches = [Watch(store, folder), Watch(other, folder)]
    version = await store.create(f"{folder}/a", b"0")
    for watch in watches:
        await watch.until(lambda state: f"{folder}/a" in state)
    for number in range(1, 6):
        version = await other.replace(f"{folder}/a", b"%d" % number, version)
    latest = {f"{folder}/a": Record(b"5", version)}
    for watch in watches:
        await watch.until(lambda state: state == latest)
    await store.delete(f"{folder}/a", version)
    for watch in watches:
        await watch.until(lambda state: not state)


async def test_watch_never_goes_back(store: MetaStore, other: MetaStore, folder: str) -> None:
    watches = [Watch(store, folder), Watch(other, folder)]
    version = await store.create(f"{folder}/a", b"0")

    async def change() -> int:
        last = version
        for number in range(1, 40):
            last = await (store, other)[number % 2].replace(f"{folder}/a", b"%d" % number, last)
            await store.create(f"{folder}/n{number}", b"")
        return last

    changing = asyncio.ensure_future(change())
    for watch in watches:
        await watch.until(lambda state: len(state) == 40 and state[f"{folder}/a"].value == b"39")
    await changing
    for watch in watches:
        versions = [s[f"{folder}/a"].version for s in watch.seen if f"{folder}/a" in s]
        sizes = [len(state) for state in watch.seen]
        assert versions == sorted(versions)
        assert sizes == sorted(sizes)


async def test_watch_shows_the_end_of_a_session(
    storage: Storage[MetaStore], other: MetaStore, folder: str
) -> None:
    owner = await storage.client()
    await owner.create(f"{folder}/live", b"me", ephemeral=True)
    watch = Watch(other, folder)
    await watch.until(lambda state: f"{folder}/live" in state)
    await owner.close()
    await watch.until(lambda state: not state)


async def test_a_state_once_shown_does_not_change(store: MetaStore, folder: str) -> None:
    watch = Watch(store, folder)
    first = await watch.until(lambda state: True)
    await store.create(f"{folder}/a", b"")
    await watch.until(lambda state: bool(state))
    assert first == {}


# --- close ----------------------------------------------------------------------------------------


async def test_a_closed_store_refuses_calls_and_ends_its_watches(
    storage: Storage[MetaStore], folder: str
) -> None:
    store = await storage.client()
    watch = store.watch(folder)
    assert await anext(watch) == {}
    waiting = asyncio.ensure_future(anext(watch))
    await asyncio.sleep(0)
    await store.close()
    await store.close()
    with pytest.raises((TalosError, StopAsyncIteration)):
        async with asyncio.timeout(PATIENCE_S):
            await waiting
    with pytest.raises(TalosError):
        await store.get(f"{folder}/a")
    with pytest.raises(TalosError):
        await store.create(f"{folder}/a", b"")
    assert store.session().lost
