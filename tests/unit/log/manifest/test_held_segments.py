"""What journals have of topics that neither a manifest nor a deletion on record accounts for."""

import asyncio
from dataclasses import replace

import pytest
from tests.unit.log.bed import LIMITS, TOPIC, Bed, crash, open_bed, put

from opentalos.log.journal.upkeep import PASS_S, SEARCH_FIRST_S
from opentalos.log.log_store import stored_topics, use_deletions
from opentalos.log.manifest.stored_topics import StoredTopics, on_stopped_storage
from opentalos.log.segment.format import segment_path
from opentalos.model.limits import LogLimits
from opentalos.model.message import PartitionKey

KEY = PartitionKey(TOPIC.topic_uuid, 0)
JOURNALED = replace(LIMITS, journal="on")
LATE = replace(JOURNALED, journal_files_open_max=6)  # the journal has all of a segment


async def lost(limits: LogLimits) -> Bed:
    """A partition whose manifest is gone after a crash, and whose messages a journal has."""
    bed = await open_bed(limits=limits)
    await put(bed.log(), b"x")
    await crash(bed)
    del bed.storage.records[f"log/{TOPIC.topic_uuid}/0"]
    return bed


def journals(bed: Bed) -> list[str]:
    return [path for path in bed.storage.files if path.endswith(".jnl")]


async def has_messages(stored: StoredTopics) -> bool:
    files = await stored.with_files()
    assert files == {TOPIC.topic_uuid: {0: [segment_path(*KEY, 0, 1)]}}
    return await stored.has_messages(KEY, files[TOPIC.topic_uuid][0])


@pytest.mark.parametrize("limits", [JOURNALED, LATE], ids=["journaled", "late"])
async def test_a_journal_stays_for_a_topic_that_was_lost_and_ends_for_one_that_was_deleted(
    limits: LogLimits,
) -> None:
    bed = await lost(limits)
    assert await has_messages(on_stopped_storage(bed.files, bed.meta))
    again, deleted = await open_bed(bed.storage, limits=limits), False

    async def is_deleted(topic_uuid: str) -> bool:
        assert topic_uuid == TOPIC.topic_uuid
        return deleted

    use_deletions(again.store, is_deleted)
    assert await has_messages(stored_topics(again.store))
    kept = journals(bed)
    await asyncio.sleep(SEARCH_FIRST_S + 5 * PASS_S)
    assert kept
    assert journals(bed) == kept
    deleted = True
    await asyncio.sleep(5 * PASS_S)
    assert journals(bed) == []
    await again.store.close()


async def test_without_messages_a_journal_ends_although_no_deletion_is_on_record() -> None:
    bed = await lost(JOURNALED)
    del bed.storage.files[segment_path(*KEY, 0, 1)]  # its beginning, which no journal has

    async def is_deleted(_: str) -> bool:
        return False

    again = await open_bed(bed.storage, limits=JOURNALED)
    use_deletions(again.store, is_deleted)
    await asyncio.sleep(SEARCH_FIRST_S + 5 * PASS_S)
    assert journals(bed) == []
    await again.store.close()
