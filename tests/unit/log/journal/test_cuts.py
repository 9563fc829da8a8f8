"""Journal files that came back shorter than they were: damage, or a cut that is heard."""

import asyncio
from dataclasses import replace

import pytest
from tests.unit.log.bed import LIMITS, Bed, crash, open_bed, put
from tests.unit.log.journal.test_late import LATE
from tests.unit.log.journal.test_log_with_journal import JOURNALED, findings

from opentalos.adapters.memory import MemoryFileStore
from opentalos.log.journal.upkeep import PASS_S, SEARCH_FIRST_S, WRITE_OUT_AFTER_S
from opentalos.log.maintenance.verify import Kind
from opentalos.log.partition.partition_log import PartitionLog
from opentalos.log.results import TopicLogSettings
from opentalos.log.segment.format import SEGMENT_HEADER_BYTES, SegmentHeader
from opentalos.log.segment.scan import valid_blocks
from opentalos.model.errors import CorruptLog
from opentalos.model.limits import LogLimits
from opentalos.model.message import Durability

# So small that the journal continues in a second file.
CONTINUED = replace(JOURNALED, journal_bytes_max=4 << 10, journals=1)
PAGE_BYTES = 4096
FLUSHED = TopicLogSettings("flushed-uuid", Durability.FLUSHED, 86_400.0)


def parts(bed: Bed) -> list[str]:
    """Files of the journals with frames."""
    return sorted(path for path in bed.storage.files if path.endswith(".jnl"))


async def crashed(limits: LogLimits, messages: int = 10) -> Bed:
    bed = await open_bed(limits=limits)
    for number in range(messages):
        await put(bed.log(), b"%04d" % number * 20)
    await crash(bed)
    return bed


@pytest.mark.parametrize("length", [0, 1, SEGMENT_HEADER_BYTES - 1])
@pytest.mark.parametrize("limits", [JOURNALED, LATE], ids=["files", "late"])
async def test_a_journal_cut_to_nothing_is_damage(limits: LogLimits, length: int) -> None:
    """Its header was synced before anything named it, so nobody was making it."""
    bed = await crashed(limits)
    (path,) = parts(bed)
    del bed.storage.files[path].content[length:]
    again = await open_bed(bed.storage, limits=limits)
    with pytest.raises(CorruptLog, match=rf"{path} has {length} bytes, 64 were synced"):
        await put(again.log(), b"given twice")
    with pytest.raises(CorruptLog):
        await again.log().offsets()
    assert path in bed.storage.files
    await again.store.close()
    assert path in bed.storage.files


async def test_a_file_that_next_names_is_damage_if_it_is_cut_to_nothing() -> None:
    bed = await crashed(CONTINUED, 40)
    files = parts(bed)
    assert len(files) > 1
    del bed.storage.files[files[-1]].content[:]
    again = await open_bed(bed.storage, limits=CONTINUED)
    with pytest.raises(CorruptLog, match="0 bytes, 64 were synced"):
        await put(again.log(), b"given twice")
    await again.store.close()


async def test_a_late_segment_without_its_beginning_is_damage() -> None:
    bed = await crashed(LATE)
    (path,) = parts(bed)
    del bed.storage.files[path].content[SEGMENT_HEADER_BYTES:]
    again = await open_bed(bed.storage, limits=LATE)
    with pytest.raises(CorruptLog, match="is missing"):
        await put(again.log(), b"given twice")
    await again.store.close()


async def test_a_frame_that_is_cut_off_is_heard(caplog: pytest.LogCaptureFixture) -> None:
    """The 22 last of 40 messages were gone without a line or a count."""
    bed = await crashed(JOURNALED)
    (path,) = parts(bed)
    content = bed.storage.files[path].content
    del content[content.rindex(b"0008") :]
    (note,) = [found for found in await findings(bed) if "journal" in found.text]
    assert (note.kind, "log-tail-cut" in note.text) == (Kind.NOTE, False)
    assert path in note.text
    again = await open_bed(bed.storage, limits=JOURNALED)
    await again.log().offsets()
    assert again.store.counters.journal.tails_cut == 1
    assert [r.getMessage() for r in caplog.records if "log-tail-cut" in r.getMessage()]
    await again.store.close()


async def written_out(log: PartitionLog, bed: Bed) -> str:
    """Ten messages, which the journal gave to the segment's file; its path."""
    for number in range(10):
        await put(log, b"%04d" % number * 20)
    await asyncio.sleep(WRITE_OUT_AFTER_S + 2 * PASS_S)
    await crash(bed)
    (path,) = [path for path in bed.storage.files if path.endswith(".log")]
    return path


async def shorten(bed: Bed, path: str) -> None:
    """The file ends after a whole block."""
    content = bed.storage.files[path].content
    seed = SegmentHeader.decode(bytes(content)).seed
    files, length = MemoryFileStore(bed.storage), len(content)
    blocks = [
        block async for block in valid_blocks(files, path, seed, SEGMENT_HEADER_BYTES, length)
    ]
    del content[blocks[-5].position :]


@pytest.mark.parametrize("used", [True, False], ids=["used", "unused"])
async def test_a_file_shorter_than_what_its_journal_gave_it_is_damage(used: bool) -> None:
    """The journal does not keep those bytes, so the last messages were gone in silence."""
    bed = await open_bed(limits=JOURNALED)
    path = await written_out(bed.log(), bed)
    await shorten(bed, path)
    assert [found.text for found in await findings(bed) if found.kind is Kind.DAMAGE]
    again = await open_bed(bed.storage, limits=JOURNALED)
    if not used:
        await asyncio.sleep(SEARCH_FIRST_S + 2 * PASS_S)
    with pytest.raises(CorruptLog, match=f"{path}: bytes before position .* are missing"):
        await put(again.log(), b"given twice")
    with pytest.raises(CorruptLog):
        await again.log().offsets()
    await again.store.close()


async def test_a_loss_of_power_may_take_what_a_file_was_given_if_it_was_flushed() -> None:
    bed = await open_bed(limits=JOURNALED)
    path = await written_out(bed.store.partition(FLUSHED, 0), bed)
    await shorten(bed, path)
    again = await open_bed(bed.storage, limits=JOURNALED)
    await put(again.store.partition(FLUSHED, 0), b"accepted")
    await again.store.close()


async def test_what_a_loss_of_power_left_of_a_flushed_log_refuses_it_at_no_start() -> None:
    """The cut log is sealed again where an end mark ends it, and a later block is still there."""
    bed = await open_bed(limits=LIMITS)
    log = bed.store.partition(FLUSHED, 0)
    for payload in (b"a", b"b"):
        await put(log, payload)
    await asyncio.sleep(1.0)  # an end mark
    for payload in (b"lost" * 5_000, b"left"):
        await put(log, payload)
    await crash(bed)
    (path,) = [path for path in bed.storage.files if path.endswith(".log")]
    content = bed.storage.files[path].content
    page = -(-content.index(b"lost") // PAGE_BYTES) * PAGE_BYTES
    content[page : page + PAGE_BYTES] = bytes(PAGE_BYTES)
    for _ in range(2):
        again = await open_bed(bed.storage, limits=LIMITS)
        offsets = await again.store.partition(FLUSHED, 0).offsets()
        assert offsets.next == 2
        await again.store.close()
    again = await open_bed(bed.storage, limits=LIMITS)
    assert await put(again.store.partition(FLUSHED, 0), b"c") == 2
    await again.store.close()
