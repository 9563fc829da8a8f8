"""Late segments: a manifest names them before they have a file, and the journal has all of them."""

import asyncio
from dataclasses import replace

import pytest
from tests.unit.log.bed import TOPIC, Bed, crash, open_bed, payloads, put, until
from tests.unit.log.faults import FaultyFiles, FaultyMeta, Steps
from tests.unit.log.journal.journals import HEAD, LEFT, SEGMENT, Manifests, journaled
from tests.unit.log.journal.test_log_with_journal import JOURNALED, findings, manifest

from opentalos.adapters.memory import MemoryFileStore, MemoryStorage
from opentalos.log.journal.format import Kind, encode_frame, record_header
from opentalos.log.journal.former import FormerJournal, Place
from opentalos.log.journal.journaled_file import JournaledFile, given_back
from opentalos.log.journal.slots import Standing
from opentalos.log.journal.store import End, JournaledFiles
from opentalos.log.journal.upkeep import PASS_S, WRITE_OUT_AFTER_S, JournalUpkeep
from opentalos.log.log_store import DIRECT_BYTES_MIN
from opentalos.log.maintenance.registered import Registered
from opentalos.log.manifest.held_segments import HeldSegments
from opentalos.log.manifest.manifest import Manifest, Segment
from opentalos.log.segment.format import BlockHeader, BlockPlace, read_header
from opentalos.model.errors import CorruptLog, Fenced, NewerFormat, NotFound, WriterDead
from opentalos.model.message import Durability, PartitionKey
from opentalos.wire.record_crc import CRC_BYTES, with_crc

LATE = replace(JOURNALED, journal_files_open_max=6)
KEY = PartitionKey(TOPIC.topic_uuid, 0)
LARGE = bytes(DIRECT_BYTES_MIN)


async def ours(path: str) -> Standing:
    return Standing.OURS


async def late_file(files: JournaledFiles) -> JournaledFile:
    file = await files.create(SEGMENT, durability=Durability.SYNCED)
    assert isinstance(file, JournaledFile)
    assert await file.commit([HEAD]) == len(HEAD)
    return file


async def late_bed(storage: MemoryStorage | None = None) -> Bed:
    return await open_bed(storage, limits=LATE)


def segments(storage: MemoryStorage) -> list[str]:
    return sorted(path for path in storage.files if path.endswith(".log"))


async def test_a_late_segment_is_readable_and_recovered_without_a_file() -> None:
    storage = MemoryStorage()
    files = journaled(MemoryFileStore(storage), late=ours)
    file = await late_file(files)
    await file.commit([b"a"])
    assert (file.late, segments(storage)) == (True, [])
    assert await files.read(SEGMENT, position=3, bytes_max=10) == b"da"
    successor = journaled(MemoryFileStore(storage), "successor", late=ours)
    assert await successor.recover_end(SEGMENT, file.journal.name, 1.0) == End(5, 0)
    assert await successor.read(SEGMENT, position=0, bytes_max=10) == b"heada"
    assert segments(storage) == []


async def test_a_large_commit_makes_the_file_with_all_that_waits() -> None:
    storage = MemoryStorage()
    files = journaled(MemoryFileStore(storage), late=ours)
    file = await late_file(files)
    assert await file.commit([bytes(100)]) == 104
    assert bytes(storage.files[SEGMENT].content) == HEAD + bytes(100)
    assert not file.late


@pytest.mark.parametrize(
    ("standing", "left"), [(Standing.TAKEN, {SEGMENT: b""}), (Standing.GONE, {})]
)
async def test_a_file_made_after_a_successor_claimed_is_never_used(
    standing: Standing, left: dict[str, bytes]
) -> None:
    storage = MemoryStorage()

    async def whose(path: str) -> Standing:
        return standing

    files = journaled(MemoryFileStore(storage), late=whose)
    file = await late_file(files)
    with pytest.raises(Fenced):
        await file.commit([bytes(100)])
    with pytest.raises(WriterDead):
        await file.commit([b"a"])
    assert {path: bytes(storage.files[path].content) for path in segments(storage)} == left
    assert LEFT.pop() == SEGMENT


async def test_a_segment_without_file_and_journal_is_missing() -> None:
    storage = MemoryStorage()
    files = journaled(MemoryFileStore(storage), late=ours)
    name = (await late_file(files)).journal.name
    successor = journaled(MemoryFileStore(storage), "successor", late=ours)
    with pytest.raises(NotFound):
        await successor.recover_end(SEGMENT.replace("/0/", "/9/"), name, 1.0)
    for path in [path for path in storage.files if path.endswith(".jnl")]:
        del storage.files[path]
    third = journaled(MemoryFileStore(storage), "third", late=ours)
    with pytest.raises(CorruptLog):
        await third.recover_end(SEGMENT, name, 1.0)


async def test_an_abandoned_late_segment_makes_no_file() -> None:
    storage = MemoryStorage()
    files = journaled(MemoryFileStore(storage), late=ours)
    file = await late_file(files)
    await given_back(file)
    assert file.dead is not None
    assert segments(storage) == []
    assert await files.recover_end(SEGMENT, file.journal.name, 1.0) == End(4, 0)


async def test_a_quiet_late_segment_waits_until_the_journal_needs_room() -> None:
    storage = MemoryStorage()
    files = journaled(MemoryFileStore(storage), late=ours, bytes_max=400)

    async def needed(path: str) -> bool:
        return True

    rolled: list[str] = []

    async def roll(path: str) -> None:
        rolled.append(path)

    manifests = Manifests(needed)
    care = JournalUpkeep(
        *(files._files, files, manifests, lambda path: None),
        *(roll, manifests),
    )
    file = await late_file(files)
    await asyncio.sleep(WRITE_OUT_AFTER_S + 1)
    await care.run_pass()
    assert rolled == []
    while file.journal.total_bytes <= 400:
        await file.journal.append("topic/1/00000000000000000000-1.log", 0, bytes(50))
    await care.run_pass()
    await until(lambda: rolled == [SEGMENT])
    assert segments(storage) == []
    await care.close()


async def test_partitions_of_a_server_have_no_files_until_they_are_sealed() -> None:
    bed = await late_bed()
    for at in range(3):
        for number in range(2):
            await put(bed.log(at), b"%d-%d" % (at, number))
    assert segments(bed.storage) == []
    assert manifest(bed.storage).late
    assert await payloads(bed.log(1)) == [b"1-0", b"1-1"]
    await bed.store.close()
    assert len(segments(bed.storage)) == 3
    assert not manifest(bed.storage).late
    plain = await open_bed(bed.storage)
    assert await payloads(plain.log(2)) == [b"2-0", b"2-1"]


async def test_a_crashed_server_loses_nothing_of_late_segments() -> None:
    bed = await late_bed()
    for number in range(3):
        await put(bed.log(), b"%d" % number)
    await crash(bed)
    assert [finding for finding in await findings(bed) if finding.problem] == []
    again = await late_bed(bed.storage)
    assert await put(again.log(), b"3") == 3
    assert await payloads(again.log()) == [b"0", b"1", b"2", b"3"]
    assert segments(bed.storage) == []
    assert [row.base_offset for row in manifest(bed.storage).segments] == [0]
    await crash(again)
    plain = await open_bed(bed.storage)  # without the setting
    assert await payloads(plain.log()) == [b"0", b"1", b"2", b"3"]
    assert len(segments(bed.storage)) == 1


async def test_a_late_segment_whose_journal_is_missing_is_damage() -> None:
    bed = await late_bed()
    await put(bed.log(), b"0")
    await crash(bed)
    for path in [path for path in bed.storage.files if path.endswith(".jnl")]:
        del bed.storage.files[path]
    texts = [finding.text for finding in await findings(bed) if finding.problem]
    assert any("is missing" in text for text in texts)
    again = await late_bed(bed.storage)
    with pytest.raises(CorruptLog):
        await put(again.log(), b"1")


async def test_a_zombie_of_a_late_segment_acknowledges_nothing() -> None:
    bed = await late_bed()
    await put(bed.log(), b"0")
    successor = await late_bed(bed.storage)
    assert await put(successor.log(), b"1") == 1
    segment = bed.log().writer.segment
    assert segment is not None
    with pytest.raises(Fenced):
        await segment.file.commit([LARGE])
    assert segments(bed.storage) == []  # what it made is gone
    assert await payloads(successor.log()) == [b"0", b"1"]


async def test_a_server_stopped_at_any_step_of_a_recovery_loses_nothing() -> None:
    step, ended = 0, False
    while not ended:
        bed = await late_bed()
        for number in range(2):
            await put(bed.log(), b"%d" % number)
        await crash(bed)
        steps = Steps(stop_at=step)
        files, meta = FaultyFiles(bed.storage, steps), FaultyMeta(bed.storage, steps)
        opened = asyncio.ensure_future(open_bed(bed.storage, limits=LATE, files=files, meta=meta))
        stopped = asyncio.ensure_future(steps.stopped.wait())
        await asyncio.wait([opened, stopped], return_when=asyncio.FIRST_COMPLETED)
        if opened.done():
            wrote = asyncio.ensure_future(put(opened.result().log(), b"x"))
            await asyncio.wait([wrote, stopped], return_when=asyncio.FIRST_COMPLETED)
            ended = wrote.done() and not steps.stopped.is_set()
            await crash(opened.result())
            wrote.cancel()
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        again = await late_bed(bed.storage)
        assert (await payloads(again.log()))[:2] == [b"0", b"1"], step
        await again.store.close()
        step += 1
    assert step > 10


def frame_of(path: str, data: bytes) -> tuple[bytes, BlockHeader]:
    """A frame with one group, and its header."""
    name = path.encode()
    parts = [record_header(Kind.NAME, 0, 0, len(name)), name]
    parts += [record_header(Kind.GROUP, 0, 0, len(data)), data]
    raw = encode_frame(parts, 0, BlockPlace(1, 0, 0))
    return raw, read_header(raw, 0)


async def test_a_journal_is_not_ended_between_a_group_and_its_registration() -> None:
    bed = await late_bed()
    context, path = bed.store._context, Segment(0, 1).path(KEY)
    manifests = context.manifests
    registered, wanted = Registered(manifests), list[PartitionKey]()

    async def settled() -> bool:
        former = FormerJournal("j")
        former.take(Place(1, 0), *frame_of(path, HEAD))
        held = HeldSegments(context, wanted.extend)
        done = await held.forget_if_settled(former, path)
        assert done is not former.has(path)
        return done

    assert not await registered.needed(path)  # there is no manifest at all
    claimed = Manifest().next_epoch("s1", manifests.instance)
    versioned = await manifests.change(KEY, (await manifests.load(KEY)), claimed)
    assert await registered.needed(path)
    assert await registered.standing(path) is Standing.OURS
    assert await settled()
    with pytest.raises(Exception, match="another owner changed"):
        await manifests.change(KEY, versioned, claimed.registered(Segment(0, 1), "j", late=True))
    versioned = await manifests.load(KEY)
    assert versioned.manifest == replace(claimed, instance=manifests.instance, change=1)
    versioned = await manifests.change(
        KEY, versioned, claimed.registered(Segment(0, 1), "j", late=True)
    )
    assert not await settled()
    await manifests.change(KEY, versioned, versioned.manifest.next_epoch("s2", "other"))
    assert await registered.standing(path) is Standing.TAKEN
    assert not wanted
    await crash(bed)


def test_older_servers_refuse_a_manifest_with_a_late_segment() -> None:
    late = Manifest().registered(Segment(0, 1), "j", late=True)
    assert Manifest.decode(late.encode()) == late
    assert b'"version":4' in late.encode()
    assert b'"version":3' in replace(late, late=False).encode()
    plain = late.encode()[: -CRC_BYTES - 1] + b"}"
    with pytest.raises(NewerFormat):
        Manifest.decode(with_crc(plain.replace(b'"version":4', b'"version":6')))
    assert not late.with_last_sealed(None).late


async def test_the_journal_of_a_closed_server_with_late_segments_is_ended() -> None:
    bed = await late_bed()
    await put(bed.log(), b"0")
    await bed.store.close()
    again = await late_bed(bed.storage)
    assert await put(again.log(), b"1") == 1
    await asyncio.sleep(2 * PASS_S)
    await again.store.close()
    assert [path for path in bed.storage.files if path.endswith(".jnl")] == []
