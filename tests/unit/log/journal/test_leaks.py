"""What a server remembers of journals ends with the segments, however those end."""

import asyncio
from dataclasses import replace

from tests.unit.log.bed import LIMITS, TOPIC, Bed, crash, open_bed, payloads, put
from tests.unit.log.journal.journals import OTHER, SEGMENT, journaled, segment
from tests.unit.log.journal.test_upkeep import needs, upkeep

from opentalos.adapters.memory import MemoryFileStore, MemoryStorage
from opentalos.log.journal.store import READ_GRACE_S, JournaledFiles
from opentalos.log.journal.upkeep import CHECK_RECOVERED_S, CHECKED_PER_PASS
from opentalos.model.errors import NotOwner, OutcomeUnknown
from opentalos.model.message import PartitionKey

JOURNALED = replace(LIMITS, journal="on", journals=1, segment_bytes_max=2 << 10)


def kept(files: JournaledFiles) -> list[str]:
    """All that a server remembers of segments and journals, but for the one that it writes."""
    written = [series.journal for series in files._series]
    own = [name for name, journal in files.own.items() if journal not in written]
    return [*own, *files.open, *files.formers, *files._reading, *files.recovered]


async def taken(bed: Bed, partition: int) -> None:
    """The server stops serving a partition without having sealed it."""
    bed.store.drop(PartitionKey(TOPIC.topic_uuid, partition), NotOwner("taken"))


async def test_after_many_openings_seals_and_deletions_nothing_is_remembered() -> None:
    storage = MemoryStorage()
    witness = await open_bed(storage, limits=JOURNALED)
    for number in range(6):
        other = await open_bed(storage, limits=JOURNALED)
        for partition in range(4):  # unasked: it fences the witness's journal, and reads it
            for at in range(8):
                await put(other.log(partition), b"%d-%d" % (number, at) + bytes(200))
        for partition in range(4):
            await taken(witness, partition)
        await other.store.hand_off(PartitionKey(TOPIC.topic_uuid, 0), NotOwner("moved"))
        await crash(other)
        await asyncio.sleep(2)
        for partition in range(4):
            await put(witness.log(partition), b"witness")
    assert len(await payloads(witness.log(1), 0)) == 6 * 9
    await witness.store.delete_topic(TOPIC.topic_uuid, 4)
    await asyncio.sleep(CHECK_RECOVERED_S + READ_GRACE_S + 5)
    assert kept(witness.store._context.journaled) == []
    await witness.store.close()
    assert witness.store._context.journaled.own == {}


async def test_a_recovery_that_another_server_finished_is_forgotten() -> None:
    storage = MemoryStorage()
    file = await segment(journaled(MemoryFileStore(storage)))
    await file.commit([b"a"])
    files = journaled(MemoryFileStore(storage), "successor")
    await files.recover_end(SEGMENT, file.journal.name, 1.0)  # and its opening fails
    await upkeep(files, needs(SEGMENT)).run_pass()
    assert kept(files) != []
    await upkeep(files, needs()).run_pass()
    await asyncio.sleep(READ_GRACE_S + 1)
    assert kept(files) == []


async def test_a_damaged_journal_is_forgotten_once_no_segment_needs_it() -> None:
    storage = MemoryStorage()
    file = await segment(journaled(MemoryFileStore(storage)))
    for _ in range(3):
        await file.commit([b"a"])
    path = f"journal/{file.journal.name}/00000001.jnl"
    storage.files[path].content[len(storage.files[path].content) // 2] ^= 1
    files = journaled(MemoryFileStore(storage), "successor")
    assert (await files.read_former(file.journal.name, 1.0)).damage
    await upkeep(files, needs()).run_pass()
    assert kept(files) == []
    assert path in storage.files  # for whoever repairs it


async def test_segments_that_stay_keep_no_other_one_from_being_forgotten() -> None:
    files = journaled(MemoryFileStore())
    paths = [f"topic/{at}/00000000000000000000-1.log" for at in range(CHECKED_PER_PASS)]
    for path in (*paths, OTHER.replace("/1/", "/9999/")):
        (await segment(files, path)).give_up(OutcomeUnknown("taken"))
    care = upkeep(files, needs(*paths))
    await care.run_pass()
    await care.run_pass()
    assert list(files.open) == paths
