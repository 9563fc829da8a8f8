"""Journal files that came back shorter than they were: damage, or a cut that is heard."""

from dataclasses import replace

import pytest
from tests.unit.log.bed import Bed, crash, open_bed, put
from tests.unit.log.journal.test_late import LATE
from tests.unit.log.journal.test_log_with_journal import JOURNALED, findings

from opentalos.log.maintenance.verify import Kind
from opentalos.log.segment.format import SEGMENT_HEADER_BYTES
from opentalos.model.errors import CorruptLog
from opentalos.model.limits import LogLimits

# So small that the journal continues in a second file.
CONTINUED = replace(JOURNALED, journal_bytes_max=4 << 10, journals=1)


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
