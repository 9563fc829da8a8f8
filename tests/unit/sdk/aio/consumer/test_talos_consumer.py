"""A consumer over a group without sockets, in virtual time: positions, commits, read ahead."""

import asyncio
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pytest
from tests.unit.sdk.fake_group import FakeGroup
from tests.unit.sdk.fake_servers import S1, run

from opentalos.model.errors import BadRequest, ConfigError, LeaseNotHeld
from opentalos.sdk import ConsumerSettings, Expired, Start
from opentalos.sdk.aio import TalosConsumer
from opentalos.sdk.core.values import Record
from opentalos.sdk.errors import ConnectFailed, PositionExpired
from opentalos.wire.message import MessageFormatError


def consumer(group: FakeGroup, **settings: Any) -> TalosConsumer:
    return TalosConsumer(group.client(), "demo", "g", ConsumerSettings(**settings))


async def take(source: TalosConsumer, count: int) -> list[Record]:
    """So many records; the last one is still in hand."""
    return [await anext(source) for _ in range(count)]


def offsets(records: list[Record]) -> list[tuple[int, int]]:
    return sorted((record.partition, record.offset) for record in records)


def scenario(test: Callable[[FakeGroup], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """A test in virtual time with a group of one partition."""

    def in_virtual_time() -> None:
        run(test(FakeGroup(partitions=1)))

    in_virtual_time.__name__ = test.__name__
    return in_virtual_time


# --- where it starts ---------------------------------------------------------------------------


@scenario
async def test_first_at_the_start_then_after_the_last_commit(group: FakeGroup) -> None:
    group.put(0, 3)
    async with consumer(group) as first:
        assert [item.offset for item in await take(first, 3)] == [0, 1, 2]
        await first.commit()
    group.put(0, 2)
    async with consumer(group, first_start=Start.LATEST) as second:
        assert [item.data for item in await take(second, 2)] == [b"0:3", b"0:4"]


@pytest.mark.parametrize(
    ("start", "first"),
    [
        (Start.EARLIEST, 2),
        (Start.LATEST, 6),
        (3, 3),
        ({0: 5}, 5),
        ({7: 5}, 2),  # not named: the start
        (datetime.fromtimestamp(4.5, UTC), 4),  # appended at 5 s
    ],
)
@pytest.mark.parametrize("setting", ["first_start", "reset_to"])
def test_a_start_is_an_end_a_time_or_offsets(start: Any, first: int, setting: str) -> None:
    async def test() -> None:
        group = FakeGroup(partitions=1)
        group.put(0, 1, blocks=6)
        group.trim(0, 2)
        if setting == "reset_to":
            group.checkpoints[0] = 3
        async with consumer(group, **{setting: start}) as source:
            assert source.position(0) == first
            group.put(0, 1)
            assert (await anext(source)).offset == first

    run(test())


def test_a_reset_counts_once_for_each_partition() -> None:
    async def test() -> None:
        group = FakeGroup(partitions=1)
        group.put(0, 10)
        group.checkpoints[0] = 7
        async with consumer(group, reset_to=Start.EARLIEST, commit_interval_s=1.0) as source:
            await take(source, 5)
            await asyncio.sleep(2)
            assert group.checkpoints[0] == 3
            group.owners[0] = "a robber", 0.0  # the lease is over
            group.checkpoints[0] = 5
            source._worker.lose([0])  # type: ignore[union-attr]
            await asyncio.sleep(0)
            assert (await take(source, 1))[0].offset == 6

    run(test())


@pytest.mark.parametrize(
    "settings",
    [
        {"commit_interval_s": 0},
        {"fetches_max": 0},
        {"renew_interval_s": 30.0},
        {"prefetch_bytes": 1},
        {"revoke_wait_s": -1},
        {"first_start": datetime(2020, 1, 1)},
        {"reset_to": datetime(2020, 1, 1)},
    ],
)
def test_settings_that_cannot_work_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        ConsumerSettings(**settings)


# --- commits -----------------------------------------------------------------------------------


@scenario
async def test_a_record_is_processed_when_the_next_is_asked_for(group: FakeGroup) -> None:
    group.put(0, 10)
    async with consumer(group) as source:
        await take(source, 5)
    assert group.checkpoints == {0: 3}


@scenario
async def test_a_batch_is_processed_when_the_next_is_asked_for(group: FakeGroup) -> None:
    group.put(0, 4, size=100)
    group.put(0, 4, size=100)
    async with consumer(group, fetch_bytes=100) as source:
        batches = source.batches()
        assert [item.offset for item in await anext(batches)] == [0, 1, 2, 3]
        assert [item.offset for item in await anext(batches)] == [4, 5, 6, 7]
    assert group.checkpoints == {0: 3}
    async with consumer(group) as source:
        async for _ in source:
            break
    assert group.checkpoints == {0: 3}, "nothing was asked for after the first record"


@scenario
async def test_commits_by_time(group: FakeGroup) -> None:
    group.put(0, 100)
    async with consumer(group, commit_interval_s=2.0) as source:
        for _ in range(10):
            await anext(source)
            await asyncio.sleep(1.0)
        times = [at_s for *_, at_s in group.commits]
        assert len(times) == 5
        pauses = [after - before for before, after in pairwise(times)]
        assert pauses == pytest.approx([2.0] * 4, abs=0.05)
        committed = [offset for _, _, offset, _ in group.commits]
        assert committed == sorted(set(committed))
        assert committed[-1] in (8, 9)


@scenario
async def test_commits_by_count(group: FakeGroup) -> None:
    for _ in range(6):
        group.put(0, 100, size=100)
    async with consumer(
        group, commit_interval_s=1e6, commit_records=250, fetch_bytes=100
    ) as source:
        await take(source, 401)
        await asyncio.sleep(0.1)
        assert [offset for _, _, offset, _ in group.commits] == [299]


@scenario
async def test_nothing_is_committed_unless_asked_for(group: FakeGroup) -> None:
    group.put(0, 10)
    async with consumer(group, auto_commit=False, commit_interval_s=0.1) as source:
        await take(source, 5)
        await asyncio.sleep(10)
        assert group.commits == []
        await source.commit()
        assert group.checkpoints == {0: 4}, "also the record in hand"
        await take(source, 3)
        await source.commit({0: 5})
        assert group.checkpoints == {0: 5}
    assert group.checkpoints == {0: 5}


@scenario
async def test_a_commit_by_hand_is_not_undone_by_the_next_of_its_own(group: FakeGroup) -> None:
    group.put(0, 10)
    async with consumer(group, commit_interval_s=1.0) as source:
        await take(source, 5)
        await source.commit()
        await asyncio.sleep(5)
    assert [offset for _, _, offset, _ in group.commits] == [4]


@scenario
async def test_only_what_was_handed_out_can_be_committed(group: FakeGroup) -> None:
    group.put(0, 10)
    group.checkpoints[0] = 1
    async with consumer(group) as source:
        await take(source, 3)
        for offset in (5, 99, 1, -1):
            with pytest.raises(BadRequest):
                await source.commit({0: offset})
        with pytest.raises(LeaseNotHeld):
            await source.commit({1: 0})
        assert group.commits == []
        await source.commit({0: 4})


@scenario
async def test_a_commit_that_got_no_answer_is_made_later(group: FakeGroup) -> None:
    group.put(0, 10)
    async with consumer(group, commit_interval_s=5.0) as source:
        await take(source, 5)
        group.down = ConnectFailed("away")
        await asyncio.sleep(16)
        assert source.counters.commits_failed > 0
        group.down = None
        await asyncio.sleep(20)
        assert group.checkpoints == {0: 3}


# --- positions ---------------------------------------------------------------------------------


@scenario
async def test_seek_goes_back_and_on_and_commits_follow(group: FakeGroup) -> None:
    group.put(0, 10)
    async with consumer(group, commit_interval_s=1.0) as source:
        await take(source, 8)
        await asyncio.sleep(2)
        assert group.checkpoints == {0: 6}
        await source.seek(0, 2)
        assert source.position(0) == 2
        assert [item.offset for item in await take(source, 3)] == [2, 3, 4]
        await asyncio.sleep(2)
        assert group.checkpoints == {0: 3}, "a holder may go back"
        await source.seek(0, Start.LATEST)
        group.put(0, 1)
        assert (await anext(source)).offset == 10


@scenario
async def test_a_way_of_iterating_may_change_and_nothing_is_skipped(group: FakeGroup) -> None:
    group.put(0, 10)
    async with consumer(group) as source:
        seen = await take(source, 3)
        seen += await anext(source.batches())
        assert [item.offset for item in seen] == list(range(10))
        assert await source.poll(1.0) == []
        group.put(0, 2)
        assert [item.offset for item in await source.poll(1.0)] == [10, 11]


@scenario
async def test_a_cancelled_wait_loses_nothing(group: FakeGroup) -> None:
    async with consumer(group) as source:
        for number in range(20):
            waiting = asyncio.create_task(anext(source))
            await asyncio.sleep(0.05)
            group.put(0, 1)
            await asyncio.sleep(number * 0.011)
            waiting.cancel()
            outcome = (await asyncio.gather(waiting, return_exceptions=True))[0]
            record = outcome if isinstance(outcome, Record) else await anext(source)
            assert record.offset == number


@scenario
async def test_a_batch_that_was_chosen_and_never_arrived_is_redelivered(group: FakeGroup) -> None:
    """As when Ctrl-C ends the wait of a synchronous loop just then."""
    group.put(0, 3)
    async with consumer(group) as source:
        worker = source._worker
        assert worker is not None
        chosen = await worker.next_delivery(None)
        assert await worker.next_delivery(None) is chosen
        assert [item.offset for item in await source.poll(1.0)] == [0, 1, 2]


def test_a_paused_partition_keeps_its_position_and_the_others_continue() -> None:
    async def test() -> None:
        group = FakeGroup(partitions=2)
        for partition in range(2):
            group.put(partition, 5)
        async with consumer(group) as source:
            source.pause(0)
            assert {item.partition for item in await take(source, 5)} == {1}
            assert await source.poll(5.0) == []
            source.resume(0)
            assert offsets(await take(source, 5)) == [(0, n) for n in range(5)]
            with pytest.raises(LeaseNotHeld):
                source.pause(7)

    run(test())


def test_an_expired_position_fails_by_name_until_a_seek() -> None:
    async def test() -> None:
        group = FakeGroup(partitions=1)
        group.put(0, 1, blocks=10)
        group.checkpoints[0] = 2
        group.trim(0, 6)
        async with consumer(group) as source:
            for _ in range(2):
                with pytest.raises(PositionExpired) as failure:
                    await anext(source)
                error = failure.value
                assert (error.partition, error.offset, error.retained) == (0, 3, (6, 10))
            assert source.counters.positions_expired == 1
            await source.seek(0, Start.EARLIEST)
            assert (await anext(source)).offset == 6

    run(test())


@pytest.mark.parametrize(
    ("checkpoint", "policy", "first"),
    [
        (2, Expired.EARLIEST, 6),
        (2, Expired.LATEST, 10),
        (50, Expired.EARLIEST, 6),  # the log was cut
        (50, Expired.LATEST, 10),
    ],
)
def test_a_policy_repairs_the_position_and_is_counted(
    checkpoint: int, policy: Expired, first: int, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        group = FakeGroup(partitions=1)
        group.put(0, 1, blocks=10)
        group.trim(0, 6)
        group.checkpoints[0] = checkpoint
        async with consumer(group, expired=policy, commit_interval_s=1.0) as source:
            await asyncio.sleep(1)
            group.put(0, 2)
            assert [item.offset for item in await take(source, 2)] == [first, first + 1]
            await asyncio.sleep(2)
            assert source.counters.positions_expired == 1
        assert group.checkpoints[0] == first
        assert policy.value in caplog.text

    run(test())


@scenario
async def test_a_start_that_expires_before_the_first_fetch_fires_no_event(group: FakeGroup) -> None:
    group.put(0, 1, blocks=5)
    source = consumer(group)
    getting = group.servers.handlers[S1]["getMessage"]

    def trimmed(request: Any) -> Any:
        """Retention is quicker than the first fetch."""
        group.servers.on(S1, "getMessage", getting)
        group.trim(0, 3)
        return getting(request)

    group.servers.on(S1, "getMessage", trimmed)
    assert (await anext(source)).offset == 3
    assert source.counters.positions_expired == 0
    await source.close()


@scenario
async def test_records_that_vanish_between_fetches_are_an_expired_position(
    group: FakeGroup,
) -> None:
    group.put(0, 1, blocks=4)
    del group.logs[0][1]
    async with consumer(group, fetch_bytes=1) as source:
        assert (await anext(source)).offset == 0
        with pytest.raises(PositionExpired, match="offset 1 "):
            await anext(source)


@scenario
async def test_a_damaged_block_is_reported_each_time_and_can_be_skipped(group: FakeGroup) -> None:
    group.put(0, 2, blocks=3)
    group.logs[0][1].messageBlock = b"not messages"
    async with consumer(group, fetch_bytes=1) as source:
        await take(source, 2)
        for _ in range(2):
            with pytest.raises(MessageFormatError):
                await anext(source)
        with pytest.raises(MessageFormatError):
            await anext(source.batches())
        await source.seek(0, 4)
        assert (await anext(source)).offset == 4


# --- read ahead --------------------------------------------------------------------------------


def test_read_ahead_is_bounded_and_resumes_when_there_is_room() -> None:
    async def test() -> None:
        group = FakeGroup(partitions=8)
        for partition in range(8):
            group.put(partition, 1, blocks=200, size=1000)
        settings = {
            "fetch_bytes": 10_000, "prefetch_bytes": 100_000, "partition_prefetch_bytes": 30_000
        }  # fmt: skip
        async with consumer(group, **settings) as source:
            await asyncio.sleep(30)
            worker = source._worker
            assert worker is not None
            ahead = [
                sum(chunk.bytes_count for chunk in held.chunks) for held in worker.assigned.values()
            ]
            assert 50_000 < sum(ahead) <= 120_000  # a block is 1,020 B: a fetch is a bit larger
            assert max(ahead) <= 50_000
            assert len(offsets(await take(source, 1600))) == 1600

    run(test())


def test_so_many_fetches_are_under_way_and_every_partition_gets_its_turn() -> None:
    async def test() -> None:
        group = FakeGroup(partitions=20)
        group.servers.delay_s = 0.5
        async with consumer(group, fetches_max=4) as source:
            worker = source._worker
            assert worker is not None
            group.fetched.clear()
            for _ in range(62):  # a little more than a round of every partition twice
                await asyncio.sleep(0.1)
                assert sum(held.fetching for held in worker.assigned.values()) <= 4
            turns = [partition for partition, _ in group.fetched]
            assert {turns.count(partition) for partition in range(20)} <= {2, 3}

    run(test())


@scenario
async def test_a_server_that_is_away_is_asked_ever_less_often(group: FakeGroup) -> None:
    group.put(0, 5)
    async with consumer(group) as source:
        await take(source, 5)
        group.down = ConnectFailed("away")
        before = group.servers.count("getMessage")
        await asyncio.sleep(25)
        assert group.servers.count("getMessage") - before < 60
        group.down = None
        group.put(0, 1)
        assert (await anext(source)).offset == 5
        assert source.counters.fetches_failed > 0
