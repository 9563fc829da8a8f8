"""Workers that see at once who joins and leaves, and what they ask other servers."""

import asyncio

from tests.unit.sdk.aio.consumer.test_talos_consumer import consumer, take
from tests.unit.sdk.fake_group import FakeGroup
from tests.unit.sdk.fake_servers import S1, run

from opentalos.sdk.aio import TalosConsumer
from opentalos.sdk.errors import ConnectFailed

SOON_S = 2.0  # a survivor continues
JOINED_S = 3.0
CALM_S = 60.0


async def until_held(source: TalosConsumer, count: int) -> float:
    """Seconds until a worker holds so many partitions."""
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    while len(source.assignment) != count:
        await asyncio.sleep(0.05)
        assert loop.time() < began_s + CALM_S
    return loop.time() - began_s


def test_the_survivor_of_a_clean_exit_takes_over_at_once() -> None:
    async def test() -> None:
        group = FakeGroup(partitions=4)
        survivor, other = consumer(group), consumer(group)
        async with survivor:
            async with other:
                assert await until_held(other, 2) <= JOINED_S
                await asyncio.sleep(CALM_S)
            assert await until_held(survivor, 4) <= SOON_S

    run(test())


def test_a_worker_that_left_is_not_waited_for_by_the_next() -> None:
    async def test() -> None:
        group = FakeGroup(partitions=4)
        for _ in range(3):
            async with consumer(group) as source:
                assert source.assignment == (0, 1, 2, 3)
        assert group.workers == {}

    run(test())


def test_a_leaving_worker_commits_before_it_unlocks() -> None:
    async def test() -> None:
        group = FakeGroup(partitions=1)
        group.put(0, 5)
        async with consumer(group, commit_interval_s=1e6) as source:
            await take(source, 5)
            assert await source.poll(0.1) == []  # all five are processed
            group.log.clear()
        assert [name for name, _, _ in group.log] == ["commit", "unlock"]
        assert group.checkpoints == {0: 4}

    run(test())


def test_a_lock_that_is_late_does_not_join_again() -> None:
    async def test() -> None:
        group = FakeGroup(partitions=4)
        group.servers.delay_s = 0.2
        first, second = consumer(group), consumer(group)
        async with first:
            async with second:
                await until_held(first, 2)
            # ``second`` may have been about to lock what ``first`` released.
        await asyncio.sleep(1.0)
        assert group.workers == {}
        assert group.held_by(first.worker_id) == group.held_by(second.worker_id) == []

    run(test())


def test_a_calm_group_is_asked_seldom() -> None:
    async def test() -> None:
        group = FakeGroup(partitions=2)
        async with consumer(group):
            await asyncio.sleep(5.0)
            before = group.servers.count("queryWorker")
            await asyncio.sleep(CALM_S)
            assert group.servers.count("queryWorker") - before <= CALM_S / 2

    run(test())


def test_other_servers_are_asked_once_in_an_interval_and_told_nothing_new() -> None:
    async def test() -> None:
        group = FakeGroup(partitions=4, official=True)
        survivor, other = consumer(group), consumer(group)
        async with survivor:
            async with other:
                await until_held(other, 2)
                await asyncio.sleep(10.0)
                before = group.servers.count("queryWorker")
                await asyncio.sleep(CALM_S)
                assert group.servers.count("queryWorker") - before <= 2 * (CALM_S / 6.0 + 1)
            assert await until_held(survivor, 4) > SOON_S  # the lease of the worker expires

    run(test())


def test_a_server_that_is_away_does_not_keep_a_program_from_ending() -> None:
    async def test() -> None:
        group = FakeGroup(partitions=1)
        source = consumer(group)
        await source.start()
        group.servers.handlers[S1].clear()  # refuses every connection
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        await source.close()
        assert loop.time() - began_s < 10.0

    run(test())


def test_a_worker_that_could_not_join_does_not_leave() -> None:
    async def test() -> None:
        group = FakeGroup(partitions=1)

        def refuse(_: object) -> None:
            raise ConnectFailed("refused")

        group.servers.on(S1, "lockWorker", refuse)
        source = consumer(group)
        try:
            await source.start()
        except ConnectFailed:
            pass
        assert group.calls("unlock") == []

    run(test())
