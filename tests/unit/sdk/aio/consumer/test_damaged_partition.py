"""A consumer of a topic with a damaged partition: it says so, keeps its position, and reads on."""

import asyncio
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.unit.sdk.fake_group import FakeGroup
from tests.unit.sdk.fake_servers import run

from opentalos.sdk import ConsumerSettings, DamagedRange, Expired, Start
from opentalos.sdk.aio import SimpleConsumer, TalosConsumer
from opentalos.sdk.aio.consumer.fetcher import DAMAGE_REPORTED_S
from opentalos.sdk.core.values import Record
from opentalos.sdk.errors import CorruptLog, PositionExpired

BAD, GOOD = 0, 1


def scenario(test: Callable[[FakeGroup], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """A test in virtual time: three messages of partition 0 are whole, those behind are not."""

    def in_virtual_time() -> None:
        group = FakeGroup(partitions=2)
        group.put(BAD, 3)
        group.damaged[BAD] = False
        group.put(GOOD, 2)
        run(test(group))

    in_virtual_time.__name__ = test.__name__
    return in_virtual_time


def consumer(group: FakeGroup, **settings: Any) -> TalosConsumer:
    return TalosConsumer(group.client(), "demo", "g", ConsumerSettings(**settings))


async def polled(source: TalosConsumer, times: int) -> tuple[list[tuple[int, int]], int]:
    """Partition and offset of the records of so many polls, and how often damage was raised."""
    records, raised = list[Record](), list[str]()
    for _ in range(times):
        try:
            records += await source.poll(1.0)
        except CorruptLog as error:
            raised.append(str(error))
    assert set(raised) <= {"partition 0 is damaged"}
    return [(record.partition, record.offset) for record in records], len(raised)


@scenario
async def test_what_is_whole_is_delivered_then_the_damage_is_raised(group: FakeGroup) -> None:
    async with consumer(group) as source:
        found, raised = await polled(source, 6)
        assert sorted(found) == [(BAD, 0), (BAD, 1), (BAD, 2), (GOOD, 0), (GOOD, 1)]
        assert raised == 1
        assert source.position(BAD) == 3


@scenario
async def test_the_other_partitions_continue(group: FakeGroup) -> None:
    async with consumer(group) as source:
        await polled(source, 6)
        for _ in range(3):
            group.put(GOOD, 1)
            found, raised = await polled(source, 1)
            assert found == [(GOOD, group.next(GOOD) - 1)]
            assert not raised
        await source.commit()
    assert group.checkpoints == {BAD: 2, GOOD: 4}


@scenario
async def test_the_damage_is_raised_again_after_a_while_and_not_in_a_loop(group: FakeGroup) -> None:
    async with consumer(group) as source:
        await polled(source, 6)
        assert (await polled(source, 5))[1] == 0
        await asyncio.sleep(DAMAGE_REPORTED_S)
        assert (await polled(source, 20))[1] == 1
    fetches = [offset for partition, offset in group.fetched if partition == BAD and offset == 3]
    assert 5 < len(fetches) < 30


@scenario
async def test_a_repaired_partition_continues_where_it_was(group: FakeGroup) -> None:
    async with consumer(group) as source:
        await polled(source, 6)
        del group.damaged[BAD]
        group.put(BAD, 2)
        found, raised = await polled(source, 10)
        assert found == [(BAD, 3), (BAD, 4)]
        assert not raised


@pytest.mark.parametrize("unknown", [False, True])
@pytest.mark.parametrize(
    "start", [Start.EARLIEST, Start.LATEST, datetime(2020, 1, 1, tzinfo=UTC), {GOOD: 0}]
)
def test_a_consumer_starts_although_the_start_of_a_partition_is_not_known(
    start: Any, unknown: bool
) -> None:
    async def test() -> None:
        group = FakeGroup(partitions=2)
        group.damaged[BAD] = unknown
        async with consumer(group, first_start=start) as source:
            assert source.assignment == (BAD, GOOD)
            await asyncio.sleep(1)
            group.put(GOOD, 1)
            found, raised = await polled(source, 4)
            assert found == [(GOOD, 0)]
            assert raised == 1
            await source.commit()
            assert BAD not in group.checkpoints
            del group.damaged[BAD]
            await asyncio.sleep(10)
            group.put(BAD, 1)
            assert await polled(source, 10) == ([(BAD, 0)], 0)

    run(test())


@scenario
async def test_a_position_that_has_expired_is_not_moved_to_an_end_that_nobody_knows(
    group: FakeGroup,
) -> None:
    group.trim(BAD, 3)
    group.checkpoints[BAD] = 0
    async with consumer(group, expired=Expired.LATEST) as source:
        _, raised = await polled(source, 5)
        assert raised == 1
        assert source.position(BAD) == 1


@scenario
async def test_a_position_that_has_expired_moves_to_the_start_that_is_known(
    group: FakeGroup,
) -> None:
    group.put(BAD, 2)
    group.trim(BAD, 3)
    group.checkpoints[BAD] = 0
    async with consumer(group, expired=Expired.EARLIEST) as source:
        found, raised = await polled(source, 6)
        assert sorted(found) == [(BAD, 3), (BAD, 4), (GOOD, 0), (GOOD, 1)]
        assert raised == 1


@scenario
async def test_a_reader_of_an_expired_position_gets_the_start_and_the_damage(
    group: FakeGroup,
) -> None:
    group.put(BAD, 2)
    group.trim(BAD, 3)
    async with SimpleConsumer(group.client(), "demo") as source:
        with pytest.raises(PositionExpired, match="are 3 to an unknown end: partition 0") as raised:
            await source.fetch(BAD, 1)
    retained = raised.value.retained
    assert isinstance(retained, DamagedRange)
    assert retained.start == 3
    with pytest.raises(CorruptLog, match="partition 0 is damaged"):
        _ = retained.next


@scenario
async def test_a_seek_to_the_end_is_refused(group: FakeGroup) -> None:
    async with consumer(group) as source:
        with pytest.raises(CorruptLog):
            await source.seek(BAD, Start.LATEST)
        await source.seek(BAD, Start.EARLIEST)
        found, _ = await polled(source, 6)
        assert (BAD, 0) in found


@scenario
async def test_a_paused_partition_does_not_report(group: FakeGroup) -> None:
    async with consumer(group) as source:
        source.pause(BAD)
        assert (await polled(source, 6))[1] == 0


@scenario
async def test_reads_without_a_group_raise_the_damage(group: FakeGroup) -> None:
    async with SimpleConsumer(group.client(), "demo") as source:
        assert [record.offset for record in await source.fetch(BAD, Start.EARLIEST)] == [0, 1, 2]
        for position in (3, Start.LATEST):
            with pytest.raises(CorruptLog, match="partition 0 is damaged"):
                await source.fetch(BAD, position)
        with pytest.raises(CorruptLog):
            await source.offsets()
        assert len(await source.fetch(GOOD, Start.EARLIEST)) == 2


@scenario
async def test_a_range_is_read_if_nothing_of_it_is_damaged(group: FakeGroup) -> None:
    async with SimpleConsumer(group.client(), "demo") as source:
        for end in (3, datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)):
            table = await source.read_range(Start.EARLIEST, end, partitions=[BAD])
            assert table["offset"].to_pylist() == list(range(3 if end == 3 else 0))
        assert (await source.read_range(partitions=[GOOD])).num_rows == 2


@pytest.mark.parametrize("end", [4, 10**9, Start.LATEST, datetime(2020, 1, 1, tzinfo=UTC)])
def test_a_range_that_ends_beyond_what_is_proven_is_refused_whole(end: Any) -> None:
    @scenario
    async def test(group: FakeGroup) -> None:
        async with SimpleConsumer(group.client(), "demo") as source:
            with pytest.raises(CorruptLog, match="partition 0 is damaged"):
                await source.read_range(Start.EARLIEST, end)

    test()


@scenario
async def test_an_iteration_of_batches_continues_after_the_damage(group: FakeGroup) -> None:
    async with consumer(group) as source:
        batches = source.batches()
        assert [len(await anext(batches)) for _ in range(2)] == [3, 2]
        for offset in (2, 3):
            with pytest.raises(CorruptLog, match="partition 0 is damaged"):
                await anext(batches)
            group.put(GOOD, 1)
            (record,) = await anext(batches)
            assert (record.partition, record.offset) == (GOOD, offset)
        await batches.aclose()
        with pytest.raises(StopAsyncIteration):
            await anext(batches)
