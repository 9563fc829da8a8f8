"""What says that a journal has ended stays as long as an opening may ask for it, and no longer."""

import asyncio

import pytest
from tests.unit.log.bed import TOPIC, crash, payloads, put
from tests.unit.log.journal.journals import OTHER, SEGMENT, journaled, segment
from tests.unit.log.journal.test_log_with_journal import journaled_bed
from tests.unit.log.journal.test_upkeep import needs, upkeep

from opentalos.adapters.memory import MemoryFileStore, MemoryStorage
from opentalos.log.journal import series as series_module
from opentalos.log.journal import upkeep as upkeep_module
from opentalos.log.journal.format import ended_path
from opentalos.log.journal.journal import end_journal
from opentalos.log.journal.series import PROVEN_S
from opentalos.log.journal.upkeep import ENDED_KEPT_S
from opentalos.model.errors import NotOwner
from opentalos.model.message import Durability, PartitionKey

ENDED = ended_path("server-1")


async def ended(storage: MemoryStorage) -> None:
    """A journal of a server that is gone, which has ended."""
    file = await segment(journaled(MemoryFileStore(storage)))
    await end_journal(MemoryFileStore(storage), file.journal.name)
    assert ENDED in storage.files


async def test_an_ended_journal_is_forgotten_when_no_manifest_named_it_for_long() -> None:
    storage = MemoryStorage()
    await ended(storage)
    care = upkeep(journaled(MemoryFileStore(storage), "other"), needs())
    await care.search()
    await asyncio.sleep(ENDED_KEPT_S - 1)
    await care.search()
    assert ENDED in storage.files
    await asyncio.sleep(1)
    await care.search()
    assert [path for path in storage.files if path.startswith("journal/")] == []


async def test_an_ended_journal_that_a_manifest_names_is_remembered() -> None:
    storage = MemoryStorage()
    await ended(storage)
    named = {"server-1"}
    care = upkeep(journaled(MemoryFileStore(storage), "other"), needs(), named)
    for _ in range(3):
        await care.search()
        await asyncio.sleep(ENDED_KEPT_S)
    named.clear()
    await care.search()
    await asyncio.sleep(ENDED_KEPT_S / 2)
    named.add("server-1")  # by a server that did not know of its end
    await care.search()
    named.clear()
    await asyncio.sleep(ENDED_KEPT_S / 2)
    await care.search()
    assert ENDED in storage.files


async def test_files_that_a_crash_left_beside_it_are_deleted_first() -> None:
    storage = MemoryStorage()
    await ended(storage)
    left = await MemoryFileStore(storage).create(
        "journal/server-1/00000001.jnl", durability=Durability.SYNCED
    )
    await left.close()
    care = upkeep(journaled(MemoryFileStore(storage), "other"), needs())
    await care.search()
    await care.run_pass()
    assert [path for path in storage.files if path.startswith("journal/")] == [ENDED]


async def test_no_new_segment_names_a_journal_that_ended_long_ago() -> None:
    storage = MemoryStorage()
    files = journaled(MemoryFileStore(storage))
    first = (await segment(files)).journal
    ahead = await files.create(OTHER, durability=Durability.SYNCED)  # and used much later
    await end_journal(MemoryFileStore(storage), first.name)
    await asyncio.sleep(PROVEN_S)
    assert (await segment(files, "topic/2/00000000000000000000-1.log")).journal is not first
    await ahead.commit([b"head"])
    assert files.open[OTHER].journal is not first
    assert first.fenced


async def test_a_journal_that_lives_is_used_on() -> None:
    files = journaled(MemoryFileStore())
    first = (await segment(files, SEGMENT)).journal
    await asyncio.sleep(PROVEN_S)
    assert (await segment(files, OTHER)).journal is first


async def test_a_server_that_was_idle_for_days_writes_and_is_recovered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(upkeep_module, "SEARCH_S", 10.0)
    monkeypatch.setattr(upkeep_module, "ENDED_KEPT_S", 40.0)
    monkeypatch.setattr(series_module, "PROVEN_S", 20.0)
    bed = await journaled_bed()
    await put(bed.log(0), b"a")
    await bed.store.hand_off(PartitionKey(TOPIC.topic_uuid, 0), NotOwner("moved"))
    other = await journaled_bed(bed.storage)
    await asyncio.sleep(80)
    assert [path for path in bed.storage.files if path.startswith("journal/")] == []
    assert await put(bed.log(0), b"b") == 1
    assert await put(bed.log(0), b"c") == 2
    await crash(bed)
    assert await payloads(other.log(0), 0) == [b"a", b"b", b"c"]
    await other.store.close()
