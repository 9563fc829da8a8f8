"""A manifest is rebuilt from the files of its partition: all that was there is there again."""

from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest
from tests.unit.log.bed import TOPIC, Bed, crash, log_records, open_bed, payloads, put
from tests.unit.log.manifest.test_leftovers import LATE, PLAIN, rolled

from opentalos.adapters.memory import MemoryFileStore, MemoryStorage
from opentalos.adapters.memory.storage import StoredRecord
from opentalos.log.journal.journal import Journal
from opentalos.log.log_store import use_positions
from opentalos.log.maintenance.verify import Kind, LogVerifier
from opentalos.log.manifest.manifest import Manifest, Segment
from opentalos.log.manifest.repair import ManifestRepair, Repair
from opentalos.log.partition.jobs import claim, open_now
from opentalos.log.segment.format import BLOCK_HEADER_BYTES, SEGMENT_HEADER_BYTES, SegmentHeader
from opentalos.model.errors import ConfigError, CorruptLog
from opentalos.model.limits import LogLimits
from opentalos.model.message import Durability, PartitionKey
from opentalos.ports.meta_store import Record

KEY = PartitionKey(TOPIC.topic_uuid, 0)
MERGING = replace(PLAIN, segment_bytes_max=16 << 10, merge_segments_min=2, delete_grace_s=0.0)


async def damage_of(storage: MemoryStorage, limits: LogLimits) -> list[str]:
    """What verify says is wrong."""
    bed = await open_bed(storage, limits=limits)
    verifier = LogVerifier(bed.files, bed.meta)
    found = [
        finding.text
        async for finding in verifier.check(KEY, lambda: None)
        if finding.kind is Kind.DAMAGE
    ]
    await crash(bed)
    return found


async def repaired(storage: MemoryStorage, *, accept_loss: bool = False) -> Repair:
    bed = await open_bed(storage, limits=PLAIN)
    repair = ManifestRepair(bed.files, bed.meta)
    plan = await repair.plan(KEY, accept_loss=accept_loss)
    await repair.make(KEY, plan, bed.clock.now_ms)
    await crash(bed)
    return plan


async def long_log(limits: LogLimits, ends: str) -> tuple[Bed, StoredRecord, list[bytes]]:
    """A log of several segments, one opened after a crash; and its manifest when it had one."""
    bed = await open_bed(limits=limits)
    sent = [b"%d" % number for number in range(12)]
    for payload in sent[:3]:
        await put(bed.log(), payload)
    (record,) = log_records(bed.storage)
    older = deepcopy(bed.storage.records[record])
    for payload in sent[3:8]:
        await rolled(bed)
        await put(bed.log(), payload)
    await crash(bed)
    bed = await open_bed(bed.storage, limits=limits)
    for payload in sent[8:]:
        await put(bed.log(), payload)
    await (bed.store.close() if ends == "closed" else crash(bed))
    return bed, older, sent


def copied(storage: MemoryStorage, source: Segment, target: Segment, **header: Any) -> None:
    """Copy a file, with other fields in its header."""
    file = storage.files[target.path(KEY)] = deepcopy(storage.files[source.path(KEY)])
    first = SegmentHeader.decode(bytes(file.content[:SEGMENT_HEADER_BYTES]))
    file.content[:SEGMENT_HEADER_BYTES] = first._replace(**header).encode()


@pytest.mark.parametrize("limits", [PLAIN, LATE], ids=["files", "late"])
@pytest.mark.parametrize("ends", ["closed", "crashed"])
@pytest.mark.parametrize("manifest", ["older", "gone", "damaged"])
async def test_every_message_is_there_again(limits: LogLimits, ends: str, manifest: str) -> None:
    bed, older, sent = await long_log(limits, ends)
    storage = bed.storage
    (record,) = log_records(storage)
    if manifest == "older":
        storage.records[record] = older
    elif manifest == "gone":
        del storage.records[record]
    else:
        storage.records[record].record = Record(b"{}", storage.records[record].record.version)
    assert await damage_of(storage, limits)
    done = await repaired(storage)
    assert done.end == len(sent)
    assert done.adopted
    assert await damage_of(storage, limits) == []
    again = await open_bed(storage, limits=limits)
    assert await payloads(again.log()) == sent
    assert await put(again.log(), b"on") == len(sent)
    await again.store.close()


async def test_a_merged_segment_stands_for_those_that_were_deleted() -> None:
    bed = await open_bed(limits=PLAIN)
    sent = [b"%d" % number for number in range(8)]
    for payload in sent:
        await put(bed.log(), payload)
        await rolled(bed)
    await bed.store.close()
    (record,) = log_records(bed.storage)
    older = deepcopy(bed.storage.records[record])
    bed = await open_bed(bed.storage, limits=MERGING)
    assert await payloads(bed.log()) == sent
    for _ in range(3):
        await bed.store.upkeep.run_pass()
        await bed.store._context.background.drain()
    assert len(Manifest.decode(bed.storage.records[record].record.value).segments) == 1
    await bed.store.close()
    bed.storage.records[record] = older
    assert "is missing" in " ".join(await damage_of(bed.storage, PLAIN))
    await repaired(bed.storage)
    again = await open_bed(bed.storage, limits=PLAIN)
    assert await payloads(again.log()) == sent
    await again.store.close()


@pytest.mark.parametrize("originals", ["deleted", "kept"])
async def test_a_merged_file_of_a_newer_epoch_is_not_taken_for_the_open_segment(
    originals: str,
) -> None:
    bed = await open_bed(limits=PLAIN)
    sent = [*(b"%d" % number for number in range(8)), b"9" * (12 << 10)]  # the last is not small
    for payload in sent:
        await put(bed.log(), payload)
        await rolled(bed)
    await bed.store.close()
    before = deepcopy(bed.storage.files)
    bed = await open_bed(bed.storage, limits=MERGING)
    await payloads(bed.log())
    await bed.log().writer.run(lambda: claim(bed.log().writer))
    for _ in range(3):
        await bed.store.upkeep.run_pass()
        await bed.store._context.background.drain()
    (record,) = log_records(bed.storage)
    merged, last = Manifest.decode(bed.storage.records[record].record.value).segments
    assert merged.epoch > last.epoch
    await crash(bed)
    if originals == "kept":
        bed.storage.files.update(before)
    del bed.storage.records[record]
    assert (await repaired(bed.storage)).end == len(sent)
    again = await open_bed(bed.storage, limits=PLAIN)
    assert await payloads(again.log()) == sent
    await again.store.close()


async def test_a_file_of_another_partition_is_not_adopted() -> None:
    bed, _, sent = await long_log(PLAIN, "closed")
    (record,) = log_records(bed.storage)
    segments = Manifest.decode(bed.storage.records.pop(record).record.value).segments
    copied(bed.storage, segments[0], Segment(12, 7), partition=1, base_offset=12, epoch=7)
    copied(bed.storage, segments[0], Segment(12, 8))
    plan = await repaired(bed.storage)
    assert (plan.end, plan.after.epoch) == (len(sent), 8)
    again = await open_bed(bed.storage, limits=PLAIN)
    assert await payloads(again.log()) == sent
    await again.store.close()


@pytest.mark.parametrize("damage", ["missing", "shorter"])
@pytest.mark.parametrize("manifest", ["kept", "gone"])
async def test_a_segment_in_the_middle_that_only_a_journal_has_gets_a_file(
    monkeypatch: pytest.MonkeyPatch, damage: str, manifest: str
) -> None:
    """The journal does not know yet that its file had everything."""
    monkeypatch.setattr(Journal, "note_written", lambda journal, path, position: None)
    bed, _, sent = await long_log(LATE, "crashed")
    (record,) = log_records(bed.storage)
    segments = Manifest.decode(bed.storage.records[record].record.value).segments
    hurt = segments[2].path(KEY)
    if damage == "missing":
        del bed.storage.files[hurt]
    else:
        del bed.storage.files[hurt].content[100:]
    if manifest == "gone":
        del bed.storage.records[record]
    plan = await repaired(bed.storage)
    assert [copy.source for copy in plan.written] == [hurt]
    again = await open_bed(bed.storage, limits=LATE)
    assert await put(again.log(), b"on") == len(sent)
    assert await payloads(again.log()) == [*sent, b"on"]
    await again.store.close()
    assert await damage_of(bed.storage, LATE) == []


async def test_a_topic_that_is_being_deleted_is_not_repaired() -> None:
    bed, _, _ = await long_log(PLAIN, "closed")
    (record,) = log_records(bed.storage)
    manifest = Manifest.decode(bed.storage.records[record].record.value)
    version = bed.storage.records[record].record.version
    bed.storage.records[record].record = Record(manifest.tombstone("s1").encode(), version)
    with pytest.raises(ConfigError, match="the topic is being deleted"):
        await repaired(bed.storage, accept_loss=True)


async def test_when_retention_began_to_count_is_not_forgotten() -> None:
    bed, _, sent = await long_log(PLAIN, "closed")
    (record,) = log_records(bed.storage)
    stored = bed.storage.records[record].record
    manifest = Manifest.decode(stored.value).recounted({0: 77})
    bed.storage.records[record].record = Record(manifest.encode(), stored.version)
    plan = await repaired(bed.storage)
    assert plan.after.segments[0] == manifest.segments[0]
    assert plan.end == len(sent)


async def test_files_that_retention_has_not_deleted_yet_are_no_gap() -> None:
    bed, _, sent = await long_log(PLAIN, "closed")
    (record,) = log_records(bed.storage)
    stored = bed.storage.records[record].record
    manifest = Manifest.decode(stored.value).dropped(2)
    bed.storage.records[record].record = Record(manifest.encode(), stored.version)
    plan = await repaired(bed.storage)
    assert (plan.after.start, plan.end) == (manifest.start, len(sent))
    assert not plan.adopted


async def test_what_retention_deleted_is_left_out_only_if_that_is_accepted() -> None:
    bed, older, sent = await long_log(PLAIN, "closed")
    (record,) = log_records(bed.storage)
    bed.storage.records[record] = older
    for path in [path for path in bed.storage.files if f"/0/{0:020d}-" in path]:
        del bed.storage.files[path]
    with pytest.raises(ConfigError, match="offsets 3 to 11, but the manifest begins at 0"):
        await repaired(bed.storage)
    await repaired(bed.storage, accept_loss=True)
    again = await open_bed(bed.storage, limits=PLAIN)
    assert await payloads(again.log()) == sent[3:]
    await again.store.close()


async def test_a_loss_that_is_accepted_no_longer_refuses() -> None:
    bed = await open_bed(limits=PLAIN)
    await put(bed.log(), b"a")
    await bed.store.close()

    async def read_to(key: PartitionKey) -> int:
        return 6

    again = await open_bed(bed.storage, limits=PLAIN)
    use_positions(again.store, read_to)
    with pytest.raises(CorruptLog):
        await again.log().offsets()
    await again.store.close()
    await repaired(bed.storage, accept_loss=True)
    again = await open_bed(bed.storage, limits=PLAIN)
    use_positions(again.store, read_to)
    assert await put(again.log(), b"b") == 1
    await again.store.close()


async def test_a_partition_without_files_cannot_be_repaired() -> None:
    with pytest.raises(ConfigError, match="no segment with messages"):
        await repaired(MemoryStorage())


async def test_a_log_whose_messages_retention_has_deleted_continues_behind_them() -> None:
    bed = await open_bed(limits=PLAIN)
    for payload in (b"a", b"b"):
        await put(bed.log(), payload)
    await bed.store.close()
    bed = await open_bed(bed.storage, limits=PLAIN)
    await bed.log().writer.run(lambda: open_now(bed.log().writer))
    await crash(bed)
    (record,) = log_records(bed.storage)
    manifest = Manifest.decode(bed.storage.records.pop(record).record.value)
    for segment in manifest.sealed:
        del bed.storage.files[segment.path(KEY)]
    assert (await repaired(bed.storage)).after.start == 2
    again = await open_bed(bed.storage, limits=PLAIN)
    assert await put(again.log(), b"c") == 2
    assert await payloads(again.log()) == [b"c"]
    await again.store.close()


async def test_what_the_manifest_knows_is_not_left_out_unless_that_is_accepted() -> None:
    """The file of its last segment is gone."""
    bed, _, sent = await long_log(PLAIN, "closed")
    (record,) = log_records(bed.storage)
    segments = Manifest.decode(bed.storage.records[record].record.value).segments
    del bed.storage.files[segments[-1].path(KEY)]
    with pytest.raises(ConfigError, match="the manifest knows of messages up to 11"):
        await repaired(bed.storage)
    plan = await repaired(bed.storage, accept_loss=True)
    assert segments[-1].base_offset <= plan.end < len(sent)


async def test_a_gap_behind_good_messages_is_not_left_out_unless_that_is_accepted() -> None:
    """Also if the manifest is gone."""
    bed, _, _ = await long_log(PLAIN, "closed")
    (record,) = log_records(bed.storage)
    segments = Manifest.decode(bed.storage.records.pop(record).record.value).segments
    del bed.storage.files[segments[2].path(KEY)]
    with pytest.raises(ConfigError, match="messages from offset 0 on, and a gap between"):
        await repaired(bed.storage)


async def test_other_files_prove_more_than_the_segment_that_seems_to_be_the_last() -> None:
    bed, _, _ = await long_log(PLAIN, "closed")
    (record,) = log_records(bed.storage)
    manifest = Manifest.decode(bed.storage.records[record].record.value)
    first, last = manifest.segments[0], manifest.segments[-1]
    newer = first._replace(epoch=last.epoch + 1)
    copied(bed.storage, first, newer, epoch=newer.epoch)
    del bed.storage.records[record]
    with pytest.raises(ConfigError, match="other files prove messages up to"):
        await repaired(bed.storage)


async def test_the_epoch_is_above_that_of_every_file() -> None:
    bed, older, sent = await long_log(PLAIN, "closed")
    (record,) = log_records(bed.storage)
    bed.storage.records[record] = older
    files = MemoryFileStore(bed.storage)
    await files.create(Segment(12, 9).path(KEY), durability=Durability.SYNCED)
    assert (await repaired(bed.storage)).after.epoch == 9
    again = await open_bed(bed.storage, limits=PLAIN)
    assert await put(again.log(), b"next") == len(sent)
    await again.store.close()


async def test_a_side_index_proves_more_than_its_segment() -> None:
    """The manifest is gone, and the last segment is cut at the end of a block."""
    bed, _, _ = await long_log(PLAIN, "closed")
    (record,) = log_records(bed.storage)
    manifest = Manifest.decode(bed.storage.records.pop(record).record.value)
    content = bed.storage.files[manifest.segments[-1].path(KEY)].content
    del content[content.index(b"11") - BLOCK_HEADER_BYTES :]
    with pytest.raises(ConfigError, match=r"\.idx ends at 11: --accept-loss"):
        await repaired(bed.storage)


async def test_the_segment_that_was_written_last_is_not_left_out_unless_that_is_accepted() -> None:
    bed, _, _ = await long_log(PLAIN, "crashed")
    (record,) = log_records(bed.storage)
    unsealed = Manifest.decode(bed.storage.records[record].record.value).unsealed
    assert unsealed is not None
    del bed.storage.files[unsealed.path(KEY)]
    with pytest.raises(ConfigError, match="which was written last: the file is missing"):
        await repaired(bed.storage)
