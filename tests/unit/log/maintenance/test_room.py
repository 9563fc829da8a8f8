"""More partitions in use than segments may be open: what is sealed, and how rarely."""

import asyncio
from dataclasses import replace

import pytest
from tests.unit.log.bed import TOPIC, Bed, open_bed, payloads, put, until

from opentalos.log.maintenance.room import IDLE_S, surplus
from opentalos.model.limits import SEGMENTS_HARD_FACTOR, LogLimits

OPEN_MAX = 24


def limits(open_max: int = OPEN_MAX) -> LogLimits:
    return LogLimits(segments_open_max=open_max, space_reserve_bytes=0, retention_interval_s=1e6)


def segments(bed: Bed, partition: int) -> int:
    return len(bed.log(partition).writer.versioned.manifest.segments)


async def quiet(bed: Bed) -> None:
    """Wait until nothing is being sealed."""
    await until(lambda: not bed.store.upkeep.making_room())


def test_nothing_is_surplus_below_the_bound_or_while_all_are_in_use() -> None:
    puts = {number: 100.0 - number / 10 for number in range(30)}
    assert surplus(puts, 30, 100.0 + IDLE_S * 2) == []
    assert surplus(puts, 24, 100.0) == []


def test_idle_ones_are_surplus_down_to_a_share_below_the_bound() -> None:
    puts = dict.fromkeys(range(25), 50.0) | {7: 10.0, 3: 11.0, 20: 12.0, 9: 13.0, 1: 14.0}
    assert surplus(puts, 24, 50.0) == [7, 3, 20, 9]  # one too many, and three of room
    assert surplus(puts, 24, 10.0 + IDLE_S) == [7]  # the others had puts a moment ago


def test_above_the_hard_bound_the_idlest_are_surplus_though_in_use() -> None:
    puts = {number: 100.0 + number / 100 for number in range(SEGMENTS_HARD_FACTOR * 8 + 1)}
    assert surplus(puts, 8, 101.0) == [0, 1]


async def test_partitions_in_use_beyond_the_bound_are_opened_once() -> None:
    """They took turns: each put opened one partition and sealed another."""
    bed = await open_bed(limits=limits())
    for turn in range(12):
        for partition in range(28):
            assert await put(bed.log(partition), b"%d" % turn) == turn
    await quiet(bed)
    assert bed.store.counters.openings <= 28 + 2
    assert max(segments(bed, partition) for partition in range(28)) <= 2
    assert len(await payloads(bed.log(5))) == 12
    await bed.store.close()


async def test_idle_partitions_make_room_in_batches() -> None:
    bed = await open_bed(limits=limits())
    for partition in range(OPEN_MAX):
        await put(bed.log(partition), b"x")
        await asyncio.sleep(1.0)
    await put(bed.log(OPEN_MAX), b"x")
    await quiet(bed)
    sealed = [n for n in range(OPEN_MAX + 1) if bed.log(n).writer.segment is None]
    assert sealed == [0, 1, 2, 3]
    for partition in range(100, 103):
        await put(bed.log(partition), b"x")
    await quiet(bed)
    assert bed.store.counters.seals == 4  # there was room for them
    await bed.store.close()


async def test_open_segments_have_a_hard_bound() -> None:
    bed = await open_bed(limits=limits(open_max=8))
    for partition in range(64):
        await put(bed.log(partition), b"x")
        await quiet(bed)
        assert bed.store.figures.open_partitions <= SEGMENTS_HARD_FACTOR * 8
    await bed.store.close()


async def test_an_automatic_bound_is_never_zero() -> None:
    bed = await open_bed(limits=limits(open_max=0))
    for partition in range(300):
        await put(bed.log(partition), b"x")
    assert bed.store.counters.seals == 0
    assert bed.store.figures.open_partitions_max >= 4_096
    await bed.store.close()


def hang(monkeypatch: pytest.MonkeyPatch, bed: Bed, partitions: range) -> None:
    """Every close of these partitions' files hangs, and with it their seals."""
    for partition in partitions:
        segment = bed.log(partition).writer.segment
        assert segment is not None

        async def close() -> None:
            await asyncio.get_running_loop().create_future()

        monkeypatch.setattr(segment.file, "close", close)


async def test_seals_that_hang_do_not_stop_the_making_of_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bed = await open_bed(limits=replace(limits(320), close_s=0.1))
    for partition in range(320):
        await put(bed.log(partition), b"x")
    hang(monkeypatch, bed, range(40))  # the idlest: a whole batch
    await asyncio.sleep(IDLE_S + 1)
    for partition in range(1_000, 1_080):
        await put(bed.log(partition), b"x")
        await asyncio.sleep(1.0)
    await asyncio.sleep(IDLE_S)
    counters = bed.store.counters
    assert counters.hung_commits == 40  # given up, so they hold no open segment either
    assert counters.seals >= 40
    assert bed.store.figures.open_partitions <= 320
    await bed.store.close()


async def test_jobs_that_hang_do_not_stop_a_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    bed = await open_bed(limits=replace(limits(), segments_open_max=0, idle_seal_s=1, close_s=0.1))
    other = replace(TOPIC, topic_uuid="other-uuid", tenant="other")
    for partition in range(260):
        await put(bed.log(partition), b"x")
    await put(bed.store.partition(other, 0), b"x")
    hang(monkeypatch, bed, range(260))
    await asyncio.sleep(2.0)
    passing = asyncio.create_task(bed.store.upkeep.run_pass())
    await asyncio.sleep(10.0)
    assert passing.done()
    assert bed.store.partition(other, 0).writer.segment is None
    assert bed.store.counters.seals == 1
    await bed.store.close()
