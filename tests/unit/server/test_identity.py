"""Stores and keys of one cluster are accepted, everything else is refused with its reason."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import pytest

from opentalos.adapters.memory import (
    MemoryFileStore,
    MemoryMetaStore,
    MemoryRowStore,
    MemoryStorage,
)
from opentalos.broker.cluster.records import IDENTITY
from opentalos.model.errors import ConfigError
from opentalos.server.config import StorageSettings
from opentalos.server.identity import Cluster, join_cluster
from opentalos.server.stores import Stores

KEY = b"k" * 32
STORAGE = StorageSettings(
    files="hdfs://n:1/files", meta="zookeeper://z:1/meta", rows="hbase://z:1/rows"
)


@dataclass
class World:
    """Three stores that can be exchanged."""

    files: MemoryStorage = field(default_factory=MemoryStorage)
    meta: MemoryStorage = field(default_factory=MemoryStorage)
    rows: MemoryStorage = field(default_factory=MemoryStorage)
    asked: list[bool] = field(default_factory=list)
    ids: int = 0

    async def join(self, key: bytes = KEY) -> Cluster:
        stores = Stores(
            MemoryFileStore(self.files), MemoryMetaStore(self.meta), MemoryRowStore(self.rows)
        )

        def key_of(new_cluster: bool) -> bytes:
            self.asked.append(new_cluster)
            return key

        self.ids += 1
        try:
            return await join_cluster(stores, STORAGE, key_of, f"id{self.ids}")
        finally:
            await stores.close()


async def test_the_first_server_makes_the_cluster_and_the_others_join_it() -> None:
    world = World()
    first = await world.join()
    assert [await world.join() for _ in range(3)] == [first] * 3
    assert first == Cluster("id1", KEY)
    assert world.asked == [True, False, False, False]  # a key is made for a new cluster only


async def test_servers_that_start_together_make_one_cluster() -> None:
    world = World()
    joined = await asyncio.gather(*(world.join() for _ in range(5)))
    assert len({cluster.id for cluster in joined}) == 1


async def test_a_server_whose_look_at_the_rows_takes_long_joins_what_was_made_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    open_table, slow = MemoryRowStore.open_table, asyncio.Event()

    async def open_slowly(
        self: MemoryRowStore, table: str, *, splits: Sequence[bytes] = ()
    ) -> None:
        if not slow.is_set():
            slow.set()
            await asyncio.sleep(0.05)
        await open_table(self, table, splits=splits)

    monkeypatch.setattr(MemoryRowStore, "open_table", open_slowly)
    late = asyncio.create_task(world.join())
    await slow.wait()
    first = await world.join()
    assert await late == first


async def test_another_key_is_refused() -> None:
    world = World()
    await world.join()
    with pytest.raises(ConfigError, match="cannot join cluster id1 at zookeeper://z:1/meta"):
        await world.join(b"x" * 32)


def lose_meta(world: World) -> None:
    world.meta = MemoryStorage()


def lose_files(world: World) -> None:
    world.files = MemoryStorage()


def lose_rows(world: World) -> None:
    world.rows = MemoryStorage()


@pytest.mark.parametrize(
    ("lose", "complaint"),
    [
        (
            lose_meta,
            "hdfs://n:1/files belongs to cluster id1, but zookeeper://z:1/meta has no",
        ),
        (lose_files, "hdfs://n:1/files has no mark of cluster id1"),
        (lose_rows, "hbase://z:1/rows has no mark of cluster id1"),
    ],
)
async def test_a_store_that_lost_its_records_is_refused(
    lose: Callable[[World], None], complaint: str
) -> None:
    world = World()
    await world.join()
    lose(world)
    with pytest.raises(ConfigError, match=complaint):
        await world.join()


@pytest.mark.parametrize("shared", ["files", "rows"])
async def test_two_clusters_on_one_root_are_refused(shared: str) -> None:
    first, other = World(), World(ids=7)
    await first.join()
    await other.join()
    setattr(other, shared, getattr(first, shared))
    with pytest.raises(ConfigError, match=r"belongs to cluster id1, .* to cluster id8"):
        await other.join()


async def test_a_start_that_was_cut_short_is_completed() -> None:
    """The record is made first; a crash before the marks must not lock the cluster out."""
    world = World()
    await world.join()
    record = world.meta.records[IDENTITY].record
    value = record.value.replace(b'"complete":true', b'"complete":false')
    world.meta.records[IDENTITY].record = replace(record, value=value)
    world.rows = MemoryStorage()
    await world.join()
    assert b'"complete":true' in world.meta.records[IDENTITY].record.value
    await world.join()
