"""The contract of MetaStore, its sessions and watches."""

import asyncio
from collections.abc import Callable, Mapping

import pytest
from tests.contract.openers import Storage
from tests.waiting import eventually_async, within_limit

from opentalos.model.errors import (
    AlreadyExists,
    TalosError,
)
from opentalos.ports.meta_store import MetaStore, Record


class Watch:
    """One watch and every state it showed."""

    def __init__(self, store: MetaStore, prefix: str) -> None:
        self._states = store.watch(prefix)
        self.seen: list[Mapping[str, Record]] = []

    async def until(self, holds: Callable[[Mapping[str, Record]], bool]) -> Mapping[str, Record]:
        """The first state that ``holds``; states before it may be any."""
        if self.seen and holds(self.seen[-1]):
            return self.seen[-1]
        async with within_limit("a watch shows the state"):
            async for state in self._states:
                self.seen.append(state)
                if holds(state):
                    return state
        raise AssertionError("the watch ended")


# --- ephemeral ----------------------------------------------------------------------------------


async def test_an_ephemeral_record_ends_with_its_session(
    storage: Storage[MetaStore], other: MetaStore, folder: str
) -> None:
    owner = await storage.client()
    version = await owner.create(f"{folder}/live", b"me", ephemeral=True)
    await owner.create(f"{folder}/kept", b"me")
    assert await other.get(f"{folder}/live") == Record(b"me", version)
    assert await other.children(folder) == ["kept", "live"]
    await owner.close()

    async def gone() -> bool:
        return await other.get(f"{folder}/live") is None

    await eventually_async("the record of a closed session is gone", gone)
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
    version = await store.create(f"{folder}/live", b"me", ephemeral=True)
    passer_by = await storage.client()
    await passer_by.create(f"{folder}/brief", b"", ephemeral=True)
    await passer_by.close()

    async def gone() -> bool:
        return await other.get(f"{folder}/brief") is None

    await eventually_async("the record of a closed session is gone", gone)
    assert await other.get(f"{folder}/live") == Record(b"me", version)


async def test_a_live_session_is_valid(store: MetaStore) -> None:
    session = store.session()
    assert not session.lost
    assert session.valid_until_s > asyncio.get_running_loop().time()
    assert session.incarnation >= 0


# --- watch ----------------------------------------------------------------------------------------


async def test_watch_begins_with_the_current_state(
    store: MetaStore, other: MetaStore, folder: str
) -> None:
    near = await store.create(f"{folder}/w/a", b"1")
    deep = await store.create(f"{folder}/w/deep/b", b"2")
    await store.create(f"{folder}/wider", b"not below")
    await store.create(f"{folder}/w", b"not below either")
    for client in (store, other):
        state = await Watch(client, f"{folder}/w").until(lambda _state: True)
        assert state == {
            f"{folder}/w/a": Record(b"1", near),
            f"{folder}/w/deep/b": Record(b"2", deep),
        }


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
        assert await watch.until(lambda state: state == latest) == latest
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
        async with within_limit("a watch of a closed store ends"):
            await waiting
    with pytest.raises(TalosError):
        await store.get(f"{folder}/a")
    with pytest.raises(TalosError):
        await store.create(f"{folder}/a", b"")
    assert store.session().lost
