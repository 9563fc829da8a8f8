import asyncio

import pytest

from opentalos.adapters.memory import MemoryMetaStore, MemoryStorage
from opentalos.catalog.records.record_format import encode_record
from opentalos.catalog.topics.change import tombstone
from opentalos.catalog.topics.deleted import (
    FOLDER_RECORDS_MAX,
    KEPT_MS,
    DeletedTopic,
    DeletedTopics,
    deleted_path,
)
from opentalos.catalog.topics.topic import Topic
from opentalos.catalog.topics.topics import Existence, TopicCatalog, existence
from opentalos.model.errors import CorruptLog, NewerFormat, StoreUnavailable

NOW_MS = 1_700_000_000_000


def topic(uuid: str = "aa01", name: str = "t") -> Topic:
    return Topic(
        uuid=uuid,
        owner="alice",
        name=name,
        partitions=1,
        consumer_partitions=1,
        partitions_ever=1,
        retention_s=3_600,
    )


@pytest.fixture
async def meta() -> MemoryMetaStore:
    return MemoryMetaStore(MemoryStorage())


@pytest.fixture
async def deleted(meta: MemoryMetaStore) -> DeletedTopics:
    return DeletedTopics(meta)


async def sweep(deleted: DeletedTopics, now_ms: int, *stored: str) -> int:
    counts = [await deleted.sweep(name, now_ms, stored) for name in await deleted.folders()]
    return sum(counts)


async def test_a_deletion_is_found_by_the_uuid_of_its_topic(deleted: DeletedTopics) -> None:
    await deleted.add(topic(), NOW_MS)
    await deleted.add(topic(), NOW_MS + 5)  # the deletion was completed once more
    assert await deleted.find("aa01") == DeletedTopic("aa01", "alice", "t", NOW_MS)
    assert await deleted.find("aa02") is None


async def test_a_deletion_is_forgotten_after_thirty_days(deleted: DeletedTopics) -> None:
    await deleted.add(topic("aa01"), NOW_MS)
    await deleted.add(topic("bb01"), NOW_MS + 1)
    assert await sweep(deleted, NOW_MS + KEPT_MS - 1) == 0
    assert await sweep(deleted, NOW_MS + KEPT_MS) == 1
    assert await deleted.find("aa01") is None
    assert await deleted.find("bb01") is not None


async def test_a_deletion_is_kept_as_long_as_something_of_the_topic_is_stored(
    deleted: DeletedTopics,
) -> None:
    await deleted.add(topic(), NOW_MS)
    assert await sweep(deleted, NOW_MS + 2 * KEPT_MS, "aa01") == 0
    assert await sweep(deleted, NOW_MS + 2 * KEPT_MS, "aa02") == 1


async def test_too_many_deletions_are_forgotten_the_oldest_first(deleted: DeletedTopics) -> None:
    for number in range(FOLDER_RECORDS_MAX + 3):
        await deleted.add(topic(f"aa{number:04d}"), NOW_MS - number)
    await deleted.add(topic("bb0000"), NOW_MS - KEPT_MS // 2)  # of another folder
    assert await sweep(deleted, NOW_MS) == 3
    last = FOLDER_RECORDS_MAX + 2
    gone = [f"aa{number:04d}" for number in range(last - 2, last + 1)]
    assert [await deleted.find(uuid) for uuid in gone] == [None] * 3
    assert await deleted.find("aa0000") is not None


async def test_a_record_that_cannot_be_read_proves_no_deletion_and_stays(
    deleted: DeletedTopics, meta: MemoryMetaStore
) -> None:
    fields = {"owner": "alice", "name": "t", "deleted_ms": 1}
    await meta.create(deleted_path("aa01"), b"{")
    await meta.create(deleted_path("aa02"), encode_record(2, uuid="aa02", **fields))
    await meta.create(deleted_path("aa03"), encode_record(1, uuid="aa04", **fields))
    for uuid, error in (("aa01", CorruptLog), ("aa02", NewerFormat), ("aa03", CorruptLog)):
        with pytest.raises(error):
            await deleted.find(uuid)
    await sweep(deleted, NOW_MS)
    assert await meta.get(deleted_path("aa01")) is not None
    assert await meta.get(deleted_path("aa02")) is not None


async def test_the_deletion_is_on_record_before_the_topics_record_goes(
    meta: MemoryMetaStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = TopicCatalog(meta)
    await catalog.start()
    await catalog.create(topic())
    dead = await catalog.change(topic(), tombstone)
    delete, gone = meta.delete, asyncio.Event()

    async def delete_fails(path: str, expected: int) -> None:
        if path.startswith("topics/") and not gone.is_set():
            raise StoreUnavailable("away")
        await delete(path, expected)

    monkeypatch.setattr(meta, "delete", delete_fails)
    with pytest.raises(StoreUnavailable):
        await catalog.remove(dead, NOW_MS)
    assert await catalog.deleted.find("aa01") is not None
    gone.set()
    await catalog.remove(dead, NOW_MS)
    assert catalog.record("alice", "t") is None
    await catalog.close()


async def test_a_topic_without_a_record_was_deleted_only_if_that_is_on_record(
    meta: MemoryMetaStore,
) -> None:
    catalog = TopicCatalog(meta)
    await catalog.start()

    async def state() -> Existence:
        return await existence(catalog, "aa01", "alice", "t")

    assert await state() is Existence.UNKNOWN
    await catalog.create(topic())
    assert await state() is Existence.EXISTS
    dead = await catalog.change(topic(), tombstone)
    assert await state() is Existence.DELETED
    await catalog.remove(dead, NOW_MS)
    assert await state() is Existence.DELETED
    await catalog.create(topic("aa02"))  # again, of the same name
    assert await state() is Existence.DELETED
    record = await meta.get(deleted_path("aa01"))
    assert record is not None
    await meta.replace(deleted_path("aa01"), b"rot", record.version)
    assert await state() is Existence.UNKNOWN
    await catalog.close()
