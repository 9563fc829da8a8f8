"""Deletion of a log's beginning: for readers at once, of files by retention, for ever."""

from dataclasses import replace

import pytest
from tests.unit.log.bed import TOPIC, Bed, crash, open_bed, payloads, put, until
from tests.unit.log.maintenance.test_upkeep import LIMITS, filled, run_pass, segment_files

from opentalos.log.maintenance.retention import Retained, droppable
from opentalos.log.manifest.deletion import ALL, delete_before
from opentalos.log.manifest.manifest import Manifest, Segment
from opentalos.log.results import TopicLogSettings
from opentalos.model.errors import OffsetOutOfRange, StoreUnavailable
from opentalos.model.message import Durability, OffsetRange


def test_a_floor_is_stored_in_a_version_that_older_servers_refuse() -> None:
    manifest = Manifest(epoch=3, segments=(Segment(0, 1, 10, 100, 1_000), Segment(10, 2)))
    plain, raised = manifest.encode(), replace(manifest, floor=7).encode()
    assert b'"floor"' not in plain
    assert Manifest.decode(raised) == replace(manifest, floor=7)
    assert Manifest.decode(raised).first == 7
    assert b'"version":5' in raised
    dropped = replace(manifest, floor=7).dropped(1)
    assert dropped.first == dropped.start == 10
    assert b'"floor"' not in dropped.encode()


def test_whole_segments_below_the_floor_are_dropped_once_they_are_metered() -> None:
    segments = (Segment(0, 1, 10, 100, 1_000), Segment(10, 1, 20, 100, 2_000), Segment(20, 1))
    kept = TopicLogSettings("t", Durability.SYNCED, 1e6)
    for floor, expected in ((0, 0), (9, 0), (10, 1), (19, 1), (20, 2), (25, 2)):
        manifest = Manifest(segments=segments, floor=floor)
        assert droppable(manifest, kept, Retained(5_000, 50, -1)) == expected
    manifest = Manifest(segments=segments, floor=20)
    assert droppable(manifest, kept, Retained(5_000, 50, 15)) == 1


async def test_what_is_deleted_is_gone_at_once_and_after_a_crash() -> None:
    bed = await filled(20)
    log, files = bed.log(), len(segment_files(bed.storage))
    assert await delete_before(log, 7) == 7
    assert await delete_before(log, 3) == 7  # it never goes back
    assert await log.offsets() == OffsetRange(7, 20)
    assert await payloads(log) == [b"%04d" % number * 50 for number in range(7, 20)]
    for offset in (0, 6):
        assert log.read_cached(offset, messages_max=1, bytes_max=1) is None
        with pytest.raises(OffsetOutOfRange):
            await log.read(offset, messages_max=1, bytes_max=1)
    hidden = await log.read(2, messages_max=1, bytes_max=1, hidden=True)  # for metering
    assert hidden.blocks[0].base_offset == 2
    assert await log.offset_at(0) == 7
    with pytest.raises(OffsetOutOfRange):
        await delete_before(log, 21)
    await crash(bed)
    again = await open_bed(bed.storage, limits=LIMITS)
    assert await put(again.log(), b"later") == 20
    assert (await again.log().offsets()).start == 7
    await run_pass(again)
    await run_pass(again)
    assert again.log().manifest.start == 6  # the segment with 6 to 8 stays
    await until(lambda: len(segment_files(again.storage)) == files + 1 - 2)
    assert (await again.log().offsets()).start == 7
    await again.store.close()


async def test_all_that_is_durable_can_be_deleted() -> None:
    bed = await open_bed()
    assert await delete_before(bed.log(), ALL) == 0  # never written
    for number in range(5):
        await put(bed.log(), b"%d" % number)
    assert await delete_before(bed.log(), ALL) == 5
    assert await payloads(bed.log()) == []
    assert await put(bed.log(), b"new") == 5
    assert await payloads(bed.log()) == [b"new"]
    await bed.store.close()


async def test_a_flushed_log_is_durable_up_to_its_floor() -> None:
    bed = await open_bed()
    bed.store.update_topic(TopicLogSettings(TOPIC.topic_uuid, Durability.FLUSHED, 1e6))
    flushed = bed.store.partition(TopicLogSettings(TOPIC.topic_uuid, Durability.FLUSHED, 1e6), 3)
    for number in range(5):
        await put(flushed, b"%d" % number)
    assert await delete_before(flushed, ALL) == 5
    assert flushed.manifest.unsealed is None
    assert await put(flushed, b"new") == 5
    await bed.store.close()


async def test_a_refused_change_deletes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    bed: Bed = await filled(3)

    async def refuse(*_: object) -> None:
        raise StoreUnavailable("away")

    with monkeypatch.context() as patched:
        patched.setattr(type(bed.store._context.manifests), "change", refuse)
        with pytest.raises(StoreUnavailable):
            await delete_before(bed.log(), 2)
    assert (await bed.log().offsets()).start == 0
    assert await delete_before(bed.log(), 2) == 2
    await bed.store.close()
