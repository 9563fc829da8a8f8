"""Partitions that nobody uses are recovered after a crash, so that the journal is not kept."""

import asyncio
import logging
from collections.abc import Hashable
from dataclasses import replace

import pytest
from tests.unit.log.bed import TOPIC, Bed, crash, open_bed, payloads, put, until
from tests.unit.log.faults import FaultyFiles, FaultyMeta, Steps
from tests.unit.log.journal.journals import journal_files
from tests.unit.log.journal.test_log_with_journal import JOURNALED, manifest

from opentalos.adapters.memory import MemoryStorage
from opentalos.log.context import LogContext
from opentalos.log.journal.upkeep import PASS_S, SEARCH_FIRST_S
from opentalos.log.maintenance import unrecovered as unrecovered_module
from opentalos.log.maintenance.unrecovered import AGAIN_S, AT_ONCE_MAX, JOB_S_MAX
from opentalos.model.errors import NotOwner, StoreUnavailable, TalosError
from opentalos.model.message import PartitionKey
from opentalos.ports.file_store import AppendFile

# The upkeep's own passes, which load what is unread, come too late to be mistaken for it.
LIMITS = replace(JOURNALED, retention_interval_s=1e6)
PARTITIONS = 6
SOON_S = SEARCH_FIRST_S + 3 * PASS_S


async def crashed(partitions: int = PARTITIONS) -> MemoryStorage:
    """What a killed server left, with three messages in each partition."""
    bed = await open_bed(limits=LIMITS)
    for number in range(3):
        for at in range(partitions):
            await put(bed.log(at), b"%d-%d" % (at, number))
    await crash(bed)
    assert len(journal_files(bed.storage)) == 1
    return bed.storage


async def started(storage: MemoryStorage, steps: Steps | None = None) -> Bed:
    """The next start; no partition is used."""
    steps = steps or Steps()
    files, meta = FaultyFiles(storage, steps), FaultyMeta(storage, steps)
    bed = await open_bed(storage, limits=LIMITS, files=files, meta=meta)
    bed.store.update_topic(TOPIC)
    return bed


def former_files(bed: Bed) -> list[str]:
    """Files of journals that other processes made."""
    instance = bed.store._context.manifests.instance
    files = [path for path in bed.storage.files if path.endswith(".jnl")]
    return [path for path in files if not path.startswith(f"journal/{instance}-")]


async def all_there(bed: Bed, partitions: int = PARTITIONS) -> bool:
    found = [await payloads(bed.log(at), 0) for at in range(partitions)]
    return found == [[b"%d-%d" % (at, number) for number in range(3)] for at in range(partitions)]


async def test_the_journal_of_a_killed_server_is_deleted_although_nothing_is_used() -> None:
    storage = await crashed()
    bed = await started(storage)
    await asyncio.sleep(SOON_S)
    assert former_files(bed) == []
    assert bed.store.counters.journal.unused_recovered == PARTITIONS
    assert bed.store.figures.open_partitions == 0
    assert await all_there(bed)
    await bed.store.close()


async def test_few_are_open_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    bed = await started(await crashed(40))
    counts: list[int] = []
    real = LogContext.note_opened

    def note_opened(context: LogContext, partition: Hashable) -> None:
        real(context, partition)
        counts.append(len(context.open_partitions))

    monkeypatch.setattr(LogContext, "note_opened", note_opened)
    await asyncio.sleep(SOON_S)
    assert len(counts) == 40
    assert max(counts) <= AT_ONCE_MAX
    await bed.store.close()


async def test_nothing_is_read_before_the_server_is_ready() -> None:
    storage = await crashed()
    steps = Steps()
    bed = await started(storage, steps)
    count = steps.count
    await asyncio.sleep(SEARCH_FIRST_S - PASS_S)
    assert steps.count == count
    await crash(bed)


async def test_one_that_fails_is_tried_again_and_stops_no_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    storage = await crashed()
    bed = await started(storage)
    failing = True
    real = bed.files.create

    async def create(path: str, **options: object) -> AppendFile:
        if failing and path.startswith("topic-uuid/0/"):
            raise StoreUnavailable("a bad day")
        return await real(path, **options)  # type: ignore[arg-type]

    bed.files.create = create  # type: ignore[method-assign]
    await asyncio.sleep(SOON_S)
    counted = bed.store.counters.journal
    assert counted.unused_recovered == PARTITIONS - 1
    assert counted.unused_failures > 0
    assert bed.store.figures.journal.unrecovered == 1
    assert "partition 0: not recovered: " in caplog.text
    failing = False
    await until(lambda: bed.store.figures.journal.unrecovered == 0, AGAIN_S)
    assert await all_there(bed)
    await bed.store.close()


async def test_one_that_fails_for_ever_is_left_to_its_first_use(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unrecovered_module, "ATTEMPTS_MAX", 3)
    bed = await started(await crashed(1))
    real = bed.files.create

    async def create(path: str, **options: object) -> AppendFile:
        raise StoreUnavailable("a bad day")

    bed.files.create = create  # type: ignore[method-assign]
    await asyncio.sleep(SOON_S + 10 * AGAIN_S)
    assert bed.store.counters.journal.unused_failures == 3
    assert [record.levelno for record in caplog.records if "stays" in record.getMessage()] == [
        logging.ERROR
    ]
    bed.files.create = real  # type: ignore[method-assign]
    assert await all_there(bed, 1)
    await bed.store.close()


async def test_one_that_is_damaged_keeps_its_journal_and_no_other_partition(
    caplog: pytest.LogCaptureFixture,
) -> None:
    storage = await crashed()
    path = next(path for path in storage.files if path.startswith("topic-uuid/0/"))
    del storage.files[path]
    bed = await started(storage)
    await asyncio.sleep(SOON_S + 10 * AGAIN_S)
    assert bed.store.counters.journal.unused_recovered == PARTITIONS - 1
    assert bed.store.counters.journal.unused_failures == 1
    assert any(manifest(storage).journal in path for path in storage.files)
    assert "its journal stays until" in caplog.text
    await bed.store.close()


async def test_one_whose_storage_hangs_stops_no_other() -> None:
    storage = await crashed()
    bed = await started(storage)
    real, hung = bed.files.create, asyncio.Event()

    async def create(path: str, **options: object) -> AppendFile:
        if path.startswith("topic-uuid/0/"):
            await hung.wait()
        return await real(path, **options)  # type: ignore[arg-type]

    bed.files.create = create  # type: ignore[method-assign]
    await asyncio.sleep(SOON_S)
    assert bed.store.counters.journal.unused_recovered == PARTITIONS - 1
    await asyncio.sleep(JOB_S_MAX)
    assert bed.store.counters.journal.unused_failures == 1
    hung.set()
    await until(lambda: bed.store.figures.journal.unrecovered == 0, AGAIN_S)
    assert await all_there(bed)
    await bed.store.close()


async def test_one_of_a_topic_that_is_not_known_yet_waits_for_it() -> None:
    storage = await crashed()
    bed = await open_bed(storage, limits=LIMITS)
    await asyncio.sleep(SOON_S)
    assert bed.store.counters.journal.unused_recovered == 0
    bed.store.update_topic(TOPIC)
    await until(lambda: bed.store.figures.journal.unrecovered == 0, AGAIN_S)
    assert bed.store.counters.journal.unused_recovered == PARTITIONS
    await bed.store.close()


async def test_a_topic_that_is_deleted_meanwhile_leaves_nothing() -> None:
    storage = await crashed(40)
    bed = await started(storage)
    await until(lambda: bed.store.counters.journal.unused_recovered > 3, 0.001)
    await bed.store.delete_topic(TOPIC.topic_uuid, 40)
    await asyncio.sleep(SOON_S + 70 * AGAIN_S)
    assert bed.store.figures.journal.unrecovered == 0
    assert [path for path in storage.files if path.startswith("topic-uuid/")] == []
    assert former_files(bed) == []
    await bed.store.close()


async def test_a_stop_in_the_middle_leaves_the_rest_to_the_next_start() -> None:
    storage = await crashed(40)
    bed = await started(storage)
    await until(lambda: bed.store.counters.journal.unused_recovered > 3, 0.001)
    await bed.store.close()
    assert 3 < bed.store.counters.journal.unused_recovered < 40
    assert len(journal_files(storage)) == 1
    again = await started(storage)
    await asyncio.sleep(SOON_S)
    assert await all_there(again, 40)
    await again.store.close()
    assert journal_files(storage) == []


async def test_a_partition_that_is_used_meanwhile_stays_open() -> None:
    bed = await started(await crashed(1))
    real = bed.files.create
    puts: list[asyncio.Future[int]] = []

    async def create(path: str, **options: object) -> AppendFile:
        if path.startswith("topic-uuid/0/") and not puts:
            puts.append(asyncio.ensure_future(put(bed.log(), b"more")))
            await asyncio.sleep(0.1)
        return await real(path, **options)  # type: ignore[arg-type]

    bed.files.create = create  # type: ignore[method-assign]
    await asyncio.sleep(SOON_S)
    assert await puts[0] == 3
    assert bed.store.counters.journal.unused_recovered == 1
    assert bed.store.figures.open_partitions == 1
    await bed.store.close()


async def test_a_partition_of_another_server_is_left_to_it() -> None:
    storage = await crashed()
    bed = await started(storage)

    class Elsewhere:
        """The assignment gives every second partition to another server."""

        def __init__(self) -> None:
            self.real = bed.store._context.guard

        def refusal(self, key: PartitionKey) -> TalosError | None:
            return NotOwner("another server") if key.partition % 2 else None

        def __getattr__(self, name: str) -> object:
            return getattr(self.real, name)

    bed.store._context.guard = Elsewhere()  # type: ignore[assignment]
    epochs = [manifest(storage, at).epoch for at in range(PARTITIONS)]
    await asyncio.sleep(SOON_S)
    grown = [manifest(storage, at).epoch - epochs[at] for at in range(PARTITIONS)]
    assert grown == [1, 0] * (PARTITIONS // 2)
    assert bed.store.figures.journal.unrecovered == 0
    assert manifest(storage, 1).journal in {path.split("/")[1] for path in storage.files}
    await crash(bed)
