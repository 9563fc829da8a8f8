"""What the metrics of journals count."""

from tests.unit.log.bed import crash, payloads, put, until
from tests.unit.log.journal.test_log_with_journal import journaled_bed

from opentalos.model.errors import Fenced


async def test_frames_bytes_and_memory_are_counted() -> None:
    bed = await journaled_bed()
    for text in (b"first", b"second", b"third"):
        await put(bed.log(), text)
    counted, now = bed.store.counters.journal, bed.store.figures.journal
    groups, times = counted.frame_groups, counted.commit_s
    assert counted.frames == sum(groups.counts) == sum(times.counts) > 0
    assert now.unwritten_bytes > 0
    assert now.stored_bytes > counted.bytes > now.unwritten_bytes  # and headers
    assert (now.files, now.full, now.recovered, counted.given_up) == (1, False, 0, 0)
    await bed.store.close()
    assert bed.store.figures.journal.unwritten_bytes == 0
    assert counted.given_up == 0


async def test_recoveries_are_counted_and_what_they_hold() -> None:
    bed = await journaled_bed()
    for text in (b"first", b"second"):
        await put(bed.log(), text)
    held = bed.store.figures.journal.unwritten_bytes
    await crash(bed)
    again = await journaled_bed(bed.storage)
    await payloads(again.log(), 0)
    assert again.store.counters.journal.recoveries == 1
    await until(lambda: again.store.figures.journal.recovered == 0, 0.1)
    assert again.store.figures.journal.recovered_bytes == 0 < held
    await again.store.close()


async def test_a_journal_that_was_fenced_is_given_up_and_writes_out_are_counted() -> None:
    bed = await journaled_bed()
    await put(bed.log(), b"first")
    await put(bed.log(), b"second")
    journals = bed.store._context.journaled
    next(iter(journals.own.values())).fail(Fenced("by another server"))
    counted = bed.store.counters.journal
    assert counted.given_up == 1
    await until(lambda: counted.write_outs > 0, 0.1)
    await crash(bed)
