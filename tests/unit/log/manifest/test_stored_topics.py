"""What is stored of a topic: its partitions, and whether they have messages."""

from tests.unit.log.bed import TOPIC, Bed, crash, open_bed, put

from opentalos.adapters.memory.storage import StoredFile
from opentalos.log.manifest.manifest import Manifest
from opentalos.log.manifest.stored_topics import on_stopped_storage
from opentalos.log.segment.format import SEGMENT_HEADER_BYTES
from opentalos.model.message import PartitionKey

UUID = TOPIC.topic_uuid
KEY = PartitionKey(UUID, 0)
RECORD = f"log/{UUID}/0"
FIRST = b"first" * 20


async def written() -> tuple[Bed, str]:
    """A partition with two messages in one sealed segment; the segment's path."""
    bed = await open_bed()
    await put(bed.log(), FIRST)
    await put(bed.log(), b"second" * 20)
    await bed.store.close()
    (path,) = [path for path in bed.storage.files if path.endswith(".log")]
    return bed, path


async def holds(bed: Bed, content: bytes | None) -> bool:
    """Whether a partition without a manifest has messages, if its file has this content."""
    path = f"{UUID}/0/{0:020d}-1.log"
    bed.storage.files.clear()
    bed.storage.records.pop(RECORD, None)
    if content is not None:
        bed.storage.files[path] = StoredFile(bytearray(content))
    return await on_stopped_storage(bed.files, bed.meta).has_messages(KEY, [path])


async def test_partitions_are_those_with_files_and_those_with_a_manifest() -> None:
    bed, path = await written()
    stored = on_stopped_storage(bed.files, bed.meta)
    for other in ("journal/17/ended", "warm/s1", f"aside/{UUID}/0/1-a.log", f"{UUID}/notes/a"):
        bed.storage.files[other] = StoredFile(bytearray(b"x"))
    bed.storage.files["lost/3/a.log"] = StoredFile(bytearray(b"x"))
    bed.storage.records[f"log/{UUID}/7"] = bed.storage.records[RECORD]
    files = await stored.with_files()
    assert files == {"lost": {3: ["lost/3/a.log"]}, UUID: {0: [path[:-4] + ".idx", path]}}
    assert await stored.with_manifests() == [UUID]
    assert list(await stored.partitions(UUID, files[UUID])) == [0, 7]
    assert list(await stored.partitions("lost", files["lost"])) == [3]


async def test_a_file_has_messages_from_its_first_whole_block_on() -> None:
    bed, path = await written()
    content = bytes(bed.storage.files[path].content)
    end = content.index(FIRST) + len(FIRST)
    assert await holds(bed, content)
    assert await holds(bed, content[:end])
    for length in (0, 9, SEGMENT_HEADER_BYTES, SEGMENT_HEADER_BYTES + 9, 200, end - 1):
        assert not await holds(bed, content[:length]), length  # as a crash leaves it
    assert not await holds(bed, None)


async def test_a_file_with_a_wrong_byte_counts_as_one_with_messages() -> None:
    bed, path = await written()
    content = bytes(bed.storage.files[path].content)
    content = content[: content.index(FIRST) + len(FIRST)]
    for place in range(len(content)):
        rotten = bytearray(content)
        rotten[place] ^= 4
        assert await holds(bed, bytes(rotten)), place


async def test_a_manifest_that_names_segments_or_cannot_be_read_stands_for_messages() -> None:
    bed, _ = await written()
    stored, record = on_stopped_storage(bed.files, bed.meta), bed.storage.records[RECORD]
    bed.storage.files.clear()
    assert await stored.has_messages(KEY, [])
    assert not await stored.without_manifest(KEY, [])
    manifest = Manifest.decode(record.record.value)
    record.record = bed.storage.record(manifest.tombstone("i").encode(), 9)
    assert not await stored.has_messages(KEY, [])
    record.record = bed.storage.record(Manifest().encode(), 10)
    assert not await stored.has_messages(KEY, [])
    record.record = bed.storage.record(b"rot", 11)
    assert await stored.has_messages(KEY, [])
    assert await stored.without_manifest(KEY, [])


async def test_a_manifest_is_missing_only_where_there_are_messages() -> None:
    bed, path = await written()
    stored = on_stopped_storage(bed.files, bed.meta)
    assert not await stored.without_manifest(KEY, [path])
    del bed.storage.records[RECORD]
    assert await stored.without_manifest(KEY, [path])
    assert not await stored.without_manifest(KEY, [])


async def test_an_open_segment_in_a_journal_counts_by_its_manifest() -> None:
    bed = await open_bed()
    await put(bed.log(), b"x")
    await crash(bed)
    bed.storage.files.clear()
    assert await on_stopped_storage(bed.files, bed.meta).has_messages(KEY, [])
