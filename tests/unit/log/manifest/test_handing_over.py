"""A planned move: the manifest has all that the next owner needs; the file is closed later."""

import asyncio
from dataclasses import replace

import pytest
from tests.unit.log.bed import TOPIC, block, crash, open_bed, payloads, put, put_block, until

from opentalos.adapters.memory import MemoryFileStore, MemoryStorage
from opentalos.log.manifest.manifest import Manifest
from opentalos.log.manifest.store import ManifestStore
from opentalos.log.partition import jobs as partition_jobs
from opentalos.log.partition import opening
from opentalos.model.errors import NotOwner, WriterDead
from opentalos.model.message import Durability, PartitionKey, ProducerStamp

KEY = PartitionKey(TOPIC.topic_uuid, 0)
ELSEWHERE = NotOwner("served by s2", "s2:1")
NEVER_S = 3600.0


class WatchedFiles(MemoryFileStore):
    """Notes which files are recovered."""

    def __init__(self, storage: MemoryStorage) -> None:
        super().__init__(storage)
        self.recovered: list[str] = []

    async def recover(self, path: str, *, deadline_s: float) -> int:
        self.recovered.append(path)
        return await super().recover(path, deadline_s=deadline_s)


def indexes(storage: MemoryStorage) -> list[str]:
    return [path for path in storage.files if path.endswith(".idx")]


async def test_the_next_owner_waits_for_no_close(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_jobs, "FINISH_AFTER_S", NEVER_S)
    former = await open_bed()
    await put(former.log(), b"one")
    await former.store.hand_off(KEY, ELSEWHERE)
    versioned = await ManifestStore(former.meta, "test").load(KEY)
    assert versioned.manifest.unsealed is None
    assert versioned.manifest.handed_over
    assert not indexes(former.storage)
    after = await open_bed(former.storage)
    assert await put(after.log(), b"two") == 1
    assert await payloads(after.log()) == [b"one", b"two"]
    await crash(former)
    await after.store.close()


async def test_the_former_owner_closes_and_indexes_afterwards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(partition_jobs, "FINISH_AFTER_S", 0.0)
    bed = await open_bed()
    await put(bed.log(), b"one")
    file = bed.log().writer.segment.file  # type: ignore[union-attr]
    closed = asyncio.Event()
    real = file.close

    async def close() -> int:
        closed.set()
        return await real()

    monkeypatch.setattr(type(file), "close", lambda self: close())
    await bed.store.hand_off(KEY, ELSEWHERE)
    await closed.wait()
    monkeypatch.undo()
    await until(lambda: len(indexes(bed.storage)) == 1)
    await bed.store.close()


async def test_an_unclosed_file_is_ended_by_the_next_owner(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(partition_jobs, "FINISH_AFTER_S", NEVER_S)
    monkeypatch.setattr(opening, "CLOSED_AFTER_S", 0.0)
    former = await open_bed()
    await put(former.log(), b"one")
    await former.store.hand_off(KEY, ELSEWHERE)
    await crash(former)
    files = WatchedFiles(former.storage)
    after = await open_bed(former.storage, files=files)
    await put(after.log(), b"two")
    await until(lambda: len(files.recovered) == 1)
    assert files.recovered[0].endswith("00000000000000000000-1.log")
    assert await payloads(after.log()) == [b"one", b"two"]
    await after.store.close()


async def test_a_flushed_segment_is_closed_before_the_manifest_names_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(partition_jobs, "FINISH_AFTER_S", NEVER_S)
    flushed = replace(TOPIC, topic_uuid="flushed-uuid", durability=Durability.FLUSHED)
    bed = await open_bed()
    log = bed.store.partition(flushed, 0)
    await put(log, b"one")
    file = log.writer.segment.file  # type: ignore[union-attr]
    key = PartitionKey(flushed.topic_uuid, 0)
    await bed.store.hand_off(key, ELSEWHERE)
    manifest = (await ManifestStore(bed.meta, "test").load(key)).manifest
    assert manifest.unsealed is None
    assert not manifest.handed_over
    with pytest.raises(WriterDead):
        await file.commit([b"more"])
    await bed.store.close()


async def test_a_retry_after_the_move_stores_no_second_message() -> None:
    former = await open_bed()
    once = block(b"one", producer=ProducerStamp(7, 0, 0))
    assert await put_block(former.log(), once) == 0
    await former.store.hand_off(KEY, ELSEWHERE)
    after = await open_bed(former.storage)
    assert await put_block(after.log(), once) == 0
    assert await payloads(after.log()) == [b"one"]
    await former.store.close()
    await after.store.close()


async def test_a_state_too_large_for_the_manifest_goes_into_the_side_index(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(partition_jobs, "END_STATE_BYTES_MAX", 0)
    bed = await open_bed()
    await put(bed.log(), b"one")
    await bed.store.hand_off(KEY, ELSEWHERE)
    assert len(indexes(bed.storage)) == 1
    manifest = (await ManifestStore(bed.meta, "test").load(KEY)).manifest
    assert not manifest.end_state
    assert not manifest.handed_over
    await bed.store.close()


async def test_the_state_of_an_end_goes_with_it() -> None:
    bed = await open_bed()
    await put(bed.log(), b"one")
    await bed.store.hand_off(KEY, ELSEWHERE)
    handed = (await ManifestStore(bed.meta, "test").load(KEY)).manifest
    assert handed.end_state
    assert Manifest.decode(handed.encode()) == handed
    after = await open_bed(bed.storage)
    await put(after.log(), b"two")
    manifest = after.log().writer.versioned.manifest
    assert not manifest.end_state
    assert not manifest.handed_over
    await bed.store.close()
    await after.store.close()
