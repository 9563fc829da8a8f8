"""What a partition's meter counts: each message that is in the log, once, whatever happened."""

import asyncio
from dataclasses import replace

import pytest
from tests.unit.log.bed import LIMITS, TOPIC, Answers, Bed, block, crash, open_bed, put_block, until
from tests.unit.log.faults import FailOnce, FaultyFiles, FaultyMeta, Steps

from opentalos.adapters.memory import MemoryStorage
from opentalos.log.metering.meter import Mark, Meter, Minutes
from opentalos.log.metering.recount import count_on, minutes_of
from opentalos.log.partition.partition_log import PartitionLog
from opentalos.model.errors import OutcomeUnknown
from opentalos.model.message import ProducerStamp

METERED = replace(TOPIC, minute_ms=60_000)
Row = tuple[int, int, int]


def metered_log(bed: Bed) -> PartitionLog:
    return bed.store.partition(METERED, 0)


def meter_of(bed: Bed) -> Meter:
    meter = metered_log(bed).writer.meter
    assert meter is not None
    return meter


def rows(minutes: Minutes) -> list[Row]:
    return [(item.first_offset, item.next_offset, item.bytes) for item in minutes.found]


async def counted(bed: Bed) -> list[Row]:
    """What the meter has, which has to be what the log has."""
    log = metered_log(bed)
    while await count_on(log):
        pass
    true = await minutes_of(log, 0, bytes_max=1 << 20, minutes_max=100)
    assert rows(meter_of(bed)) == rows(true)
    return rows(true)


def test_minutes_chain_and_take_only_what_follows() -> None:
    minutes = Minutes(5, most=2)
    assert minutes.add(5, 2, 59_999, 10)
    assert not minutes.add(5, 2, 59_999, 10)
    assert not minutes.add(8, 1, 59_999, 10)
    assert minutes.add(7, 1, 60_000, 1)
    assert minutes.add(8, 1, 119_999, 2)
    assert not minutes.add(9, 1, 120_000, 4)  # it is counted later
    assert rows(minutes) == [(5, 7, 10), (7, 9, 3)]
    assert minutes.next_offset == 9


def test_append_times_that_go_back_stay_in_the_later_minute() -> None:
    minutes = Minutes()
    minutes.add(0, 1, 60_000, 1)
    minutes.add(1, 1, 10, 1)
    assert rows(minutes) == [(0, 2, 2)]


def test_a_minute_ends_with_a_later_block_or_by_the_clock_if_all_is_quiet() -> None:
    meter = Meter(60_000)
    meter.restart(Mark(), 0)
    meter.add(0, 1, 1_000, 1)
    meter.settle(999_000, quiet=True)
    assert meter.mark == Mark(0, 0)  # no usage event yet
    meter.found[0].reported_offset = 1
    meter.settle(999_000, quiet=False)
    assert meter.mark == Mark(0, 0)
    meter.settle(59_999, quiet=True)
    assert meter.mark == Mark(0, 0)
    meter.settle(60_000, quiet=True)
    assert meter.mark == Mark(1, 60_000)
    meter.add(1, 1, 61_000, 1)
    meter.add(2, 1, 121_000, 1)
    meter.found[0].reported_offset = 2
    meter.settle(0, quiet=False)
    assert meter.mark == Mark(2, 120_000)
    assert rows(meter) == [(2, 3, 1)]


async def test_fences_duplicates_and_states_are_no_messages() -> None:
    bed = await open_bed()
    log, stamp = metered_log(bed), ProducerStamp(9, 0, 0)
    await log.fence_producer(9, 0)
    await put_block(log, block(b"once", 3, stamp))
    await put_block(log, block(b"once", 3, stamp._replace(repeated=True)))
    await put_block(log, block(b"x", 1))
    assert await counted(bed) == [(0, 4, 5)]
    await bed.store.close()


@pytest.mark.parametrize("after", [False, True])
async def test_blocks_of_a_failed_commit_count_once(after: bool) -> None:
    storage, steps = MemoryStorage(), Steps()
    files, meta = FaultyFiles(storage, steps), FaultyMeta(storage, steps)
    bed = await open_bed(storage, files=files, meta=meta, limits=LIMITS)
    log, answers = metered_log(bed), Answers()
    await put_block(log, block(b"first"))
    steps.script = FailOnce("commit", OutcomeUnknown("sync failed"), after=after, times=1)
    log.append(block(b"in flight"), answers)
    await asyncio.sleep(0)
    log.append(block(b"queued", 2), answers)
    await until(lambda: not log.writer.busy())
    assert answers.bases == [1, 2]
    assert await counted(bed) == [(0, 4, 20)]
    await bed.store.close()


async def test_a_crash_leaves_all_after_the_stored_mark_to_be_counted_again() -> None:
    bed = await open_bed()
    await put_block(metered_log(bed), block(b"one"))
    bed.clock.now_ms += 60_000
    await put_block(metered_log(bed), block(b"three", 2))
    meter = meter_of(bed)
    meter.found[0].reported_offset = 1
    meter.settle(0, quiet=False)
    assert meter.mark.offset == 1
    await crash(bed)
    again = await open_bed(bed.storage, clock=bed.clock)
    await metered_log(again).offsets()
    assert meter_of(again).mark.offset == 0  # no manifest was written since
    assert await counted(again) == [(0, 1, 3), (1, 3, 5)]
    await again.store.close()


async def test_the_mark_and_its_floor_come_back_with_the_manifest() -> None:
    bed = await open_bed()
    await put_block(metered_log(bed), block(b"one"))
    meter = meter_of(bed)
    meter.found[0].reported_offset = 1
    end_ms = meter.found[0].minute_ms + 60_000
    meter.settle(end_ms, quiet=True)
    await bed.store.close()
    bed.clock.now_ms -= 3_600_000  # the next server's clock is an hour behind
    again = await open_bed(bed.storage, clock=bed.clock)
    await metered_log(again).offsets()
    assert meter_of(again).mark == Mark(1, end_ms)
    await put_block(metered_log(again), block(b"two"))
    assert [item.minute_ms for item in meter_of(again).found] == [end_ms]
    await again.store.close()


def test_a_log_that_lost_its_end_is_counted_from_there() -> None:
    meter = Meter(60_000)
    meter.restart(Mark(9, 60_000), 0)
    meter.cut(9)
    assert meter.mark == Mark(9, 60_000)
    meter.cut(7)
    assert (meter.mark, meter.next_offset) == (Mark(7, 60_000), 7)


def test_a_mark_says_where_metering_started() -> None:
    meter = Meter(60_000)
    meter.restart(Mark(), 40)
    assert (meter.mark, meter.next_offset) == (Mark(40, 0, 40), 40)
    meter.add(40, 1, 1_000, 1)
    meter.found[0].reported_offset = 41
    meter.settle(60_000, quiet=True)
    assert meter.mark == Mark(41, 60_000, 40)
    meter.restart(meter.mark, 41)
    assert meter.mark.since == 40


def test_a_minute_in_the_far_future_ends_by_passes_and_keeps_its_order() -> None:
    now_ms = 1_700_000_000_000
    meter = metered_meter(now_ms + 86_400_000)
    future = meter.found[0]
    future.note_reported(future.next_offset)
    meter.settle(now_ms, quiet=False)
    assert meter.found
    meter.settle(now_ms, quiet=True)
    assert not meter.found
    # Later blocks belong to a later minute, so what was reported is whole.
    assert meter.mark.floor_ms == future.minute_ms + 60_000


def metered_meter(append_ms: int) -> Meter:
    meter = Meter(60_000)
    meter.restart(Mark(), 0)
    assert meter.add(0, 3, append_ms, 10)
    return meter
