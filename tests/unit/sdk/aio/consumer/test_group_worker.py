"""Workers that come, go, hang and lose their leases, over a group without sockets."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from tests.unit.sdk.aio.consumer.test_talos_consumer import consumer, offsets, take
from tests.unit.sdk.fake_group import LEASE_S, FakeGroup
from tests.unit.sdk.fake_servers import run

from opentalos.model.errors import LeaseNotHeld, TooManyConsumers, TopicNotExist
from opentalos.sdk import Callbacks, ConsumerSettings
from opentalos.sdk.aio import TalosConsumer
from opentalos.sdk.core.values import Record
from opentalos.sdk.errors import ConnectFailed
from opentalos.testing.simulation.loop import SimulationLoop
from opentalos.wire._generated import consumer as structs

INTERVAL_S = 10.0  # check_workers_interval_s, the default
POLLS_MAX = 10


class SeenEvents:
    """The partition callbacks that an application received."""

    def __init__(self, group: FakeGroup | None = None) -> None:
        self.events: list[tuple[str, list[int]]] = []
        self.group = group

    def callbacks(self) -> Callbacks:
        return Callbacks(
            on_assigned=lambda partitions: self._note("assigned", partitions),
            on_revoked=lambda partitions: self._note("revoked", partitions),
            on_lost=lambda partitions: self._note("lost", partitions),
        )

    def _note(self, kind: str, partitions: Sequence[int]) -> None:
        self.events.append((kind, list(partitions)))
        if self.group is not None:
            self.group.log.append((kind, "", tuple(partitions)))


def watched_consumer(group: FakeGroup, seen_events: SeenEvents, **settings: Any) -> TalosConsumer:
    return TalosConsumer(
        group.client(), "demo", "g", ConsumerSettings(**settings), seen_events.callbacks()
    )


async def drain(source: TalosConsumer, seen: list[Record]) -> None:
    async for record in source:
        seen.append(record)  # noqa: PERF401  # a comprehension would bind the list only at its end


# --- rebalance ---------------------------------------------------------------------------------


def test_a_hundred_partitions_go_to_two_workers_within_one_interval() -> None:
    async def test() -> None:
        group = FakeGroup(partitions=100)
        async with consumer(group) as first:
            assert first.assignment == tuple(range(100))
            worker = first._worker
            assert worker is not None
            before = dict(worker.assigned)
            stays = {partition: held.fetch_epoch for partition, held in before.items()}
            fetches: dict[int, int] = dict.fromkeys(range(100), 0)
            calls = len(group.log)
            async with consumer(group) as second:
                group.fetched.clear()
                for _ in range(int(INTERVAL_S)):
                    await asyncio.sleep(1.0)
                    for partition, _ in group.fetched:
                        fetches[partition] += 1
                    group.fetched.clear()
                    quiet = [p for p in first.assignment if not fetches[p]]
                    assert quiet == [], "a partition that stays was not fetched for a second"
                    fetches = dict.fromkeys(range(100), 0)
                assert len(group.held_by(first.worker_id)) == 50
                assert len(group.held_by(second.worker_id)) == 50
                assert len(second.assignment) == 50
                for partition in first.assignment:
                    assert worker.assigned[partition] is before[partition]
                    assert worker.assigned[partition].fetch_epoch is stays[partition]
                assert len([item for item in group.log[calls:] if item[0] == "unlock"]) == 1
                assert len([item for item in group.log[calls:] if item[0] == "lock"]) <= 2

    run(test())


def test_nothing_is_lost_or_reordered_while_workers_come_and_go() -> None:
    async def test() -> None:
        group = FakeGroup(partitions=6)
        seen: list[Record] = []
        workers: list[tuple[TalosConsumer, asyncio.Task[None]]] = []
        for step in range(30):
            if step % 5 == 0:
                source = consumer(group, commit_interval_s=1.0)
                workers.append((source, asyncio.create_task(drain(source, seen))))
            if step % 7 == 6 and len(workers) > 1:
                source, reading = workers.pop(0)
                await source.close()
                await reading
            for partition in range(6):
                group.put(partition, 3)
            await asyncio.sleep(3.0)
        await asyncio.sleep(60)
        for source, reading in workers:
            await source.close()
            await reading
        assert set(offsets(seen)) == {(p, n) for p in range(6) for n in range(90)}
        assert len(seen) == 540, "they left in order, so nothing came twice"
        assert group.checkpoints == dict.fromkeys(range(6), 89)
        for partition in range(6):
            stored = [offset for _, p, offset, _ in group.commits if p == partition]
            assert stored == sorted(stored)

    run(test())


def test_a_revocation_is_reported_before_the_commit_and_the_unlock() -> None:
    async def test() -> None:
        group = FakeGroup(partitions=2)
        for partition in range(2):
            group.put(partition, 5)
        seen_events = SeenEvents(group)
        first = watched_consumer(group, seen_events, commit_interval_s=1e6)
        async with first:
            await take(first, 10)
            assert await first.poll(0.1) == []  # all ten are processed
            group.log.clear()
            async with consumer(group):
                await asyncio.sleep(INTERVAL_S)
        order = [item for item in group.log if item[0] in ("revoked", "commit", "unlock")]
        names = [name for name, _, partitions in order if 1 in partitions]
        assert names[:3] == ["revoked", "commit", "unlock"]
        assert seen_events.events[:2] == [("assigned", [0, 1]), ("revoked", [1])]
        assert group.checkpoints == {0: 4, 1: 4}

    run(test())


def test_a_partition_waits_for_the_batch_in_hand_and_others_do_not() -> None:
    async def test() -> None:
        group = FakeGroup(partitions=4)
        for partition in (2, 3):
            group.put(partition, 5)
        source = consumer(group, revoke_wait_s=20.0)
        async with source:
            batch = await source.poll(1.0)
            busy = batch[0].partition
            idle = 5 - busy  # the other one of 2 and 3; the highest are given up
            async with consumer(group) as other:
                await asyncio.sleep(INTERVAL_S)
                assert group.held_by(other.worker_id) == [idle]
                await source.poll(0.0)
                await asyncio.sleep(1.0)
                assert group.held_by(other.worker_id) == [2, 3]
        assert group.checkpoints[busy] == 4

    run(test())


def test_a_batch_that_takes_too_long_is_delivered_again_to_the_next_holder() -> None:
    async def test() -> None:
        group = FakeGroup(partitions=2)
        group.put(1, 5)
        async with consumer(group, revoke_wait_s=5.0) as source:
            assert len(await source.poll(1.0)) == 5
            async with consumer(group) as other:
                await asyncio.sleep(INTERVAL_S + 6)
                assert group.checkpoints == {}
                assert group.held_by(other.worker_id) == [1]
                assert [item.offset for item in await take(other, 5)] == list(range(5))
                await source.poll(0.0)
                assert group.checkpoints == {}

    run(test())


def test_a_revoked_partition_hands_out_no_more_of_what_was_fetched() -> None:
    async def test() -> None:
        group = FakeGroup(partitions=2)
        group.put(1, 100)
        seen: list[Record] = []
        async with consumer(group) as source:
            seen += await take(source, 10)
            async with consumer(group) as other:
                await asyncio.sleep(INTERVAL_S - 1)
                assert await source.poll(0.5) == []
                await asyncio.sleep(1.0)
                seen += await take(other, 90)
        assert offsets(seen) == [(1, number) for number in range(100)]

    run(test())


# --- leases ------------------------------------------------------------------------------------


def test_a_lost_lease_is_reported_and_never_committed_over() -> None:
    async def test() -> None:
        group = FakeGroup(partitions=2)
        for partition in range(2):
            group.put(partition, 5)
        seen_events = SeenEvents()
        async with watched_consumer(group, seen_events, commit_interval_s=1e6) as source:
            await take(source, 10)
            group.owners[0] = "robber", 1e9
            group.workers["robber"] = 1e9
            await asyncio.sleep(8)  # a renewal
            assert ("lost", [0]) in seen_events.events
            assert source.assignment == (1,)
            with pytest.raises(LeaseNotHeld):
                await source.commit({0: 4})
            await source.commit()
        assert group.checkpoints == {1: 4}
        assert source.counters.partitions_lost == 1

    run(test())


def test_a_rejected_commit_is_a_lost_lease() -> None:
    async def test() -> None:
        group = FakeGroup(partitions=1)
        group.put(0, 5)
        seen_events = SeenEvents()
        async with watched_consumer(group, seen_events) as source:
            await take(source, 5)
            group.owners[0] = "robber", 1e9
            with pytest.raises(LeaseNotHeld, match="rejected"):
                await source.commit()
            await asyncio.sleep(0.1)
            assert seen_events.events[-1] == ("lost", [0])
            assert source.assignment == ()
        assert group.checkpoints == {}

    run(test())


def test_without_a_renewal_for_a_lease_all_is_lost_and_taken_again_later() -> None:
    async def test() -> None:
        group = FakeGroup(partitions=3)
        group.put(0, 5)
        seen_events = SeenEvents()
        async with watched_consumer(group, seen_events) as source:
            await take(source, 2)
            group.down = ConnectFailed("away")
            await asyncio.sleep(LEASE_S + 8)
            assert seen_events.events[-1] == ("lost", [0, 1, 2])
            assert source.assignment == ()
            group.down = None
            await asyncio.sleep(INTERVAL_S + 5)
            assert seen_events.events[-1] == ("assigned", [0, 1, 2])
            assert (await anext(source)).offset == 0, "nothing of it had been committed"

    run(test())


def test_a_seat_that_is_gone_loses_all() -> None:
    async def test() -> None:
        group = FakeGroup(partitions=2)
        seen_events = SeenEvents()
        async with watched_consumer(group, seen_events) as source:
            group.heartbeat = False
            await asyncio.sleep(8)
            assert ("lost", [0, 1]) in seen_events.events
            group.heartbeat = True
            await asyncio.sleep(INTERVAL_S)
            assert source.assignment == (0, 1)

    run(test())


def test_a_paused_process_finds_its_partitions_gone_and_moves_no_checkpoint() -> None:
    loop = SimulationLoop()
    frozen = loop.process("frozen")
    group = FakeGroup(partitions=2)
    seen_events = SeenEvents()
    source: list[TalosConsumer] = []
    seen: list[Record] = []

    async def slow() -> None:
        first = watched_consumer(group, seen_events, commit_interval_s=1.0)
        source.append(first)
        await drain(first, seen)

    async def test() -> None:
        for partition in range(2):
            group.put(partition, 5)
        frozen.create_task(slow())
        await asyncio.sleep(5)
        frozen.pause()
        for partition in range(2):
            group.put(partition, 5)
        await asyncio.sleep(LEASE_S + 5)
        async with consumer(group, commit_interval_s=1.0) as other:
            mine = [(item.partition, item.offset) for item in await take(other, 10)]
            assert sorted(mine) == [(p, n) for p in range(2) for n in range(5, 10)]
            await asyncio.sleep(3)
            commits = len(group.commits)
            frozen.resume()
            await asyncio.sleep(5)
            assert ("lost", [0, 1]) in seen_events.events or ("lost", [0]) in seen_events.events
            others = [commit for commit in group.commits[commits:] if commit[0] != other.worker_id]
            assert others == []

    loop.run(test())


def test_a_worker_without_a_seat_in_the_group_gets_an_error() -> None:
    group = FakeGroup(partitions=1)

    def refused(_: Any) -> Any:
        return structs.LockWorkerResponse(registerSuccess=False)

    group.servers.on("http://s1:1", "lockWorker", refused)
    with pytest.raises(TooManyConsumers):
        run(consumer(group).start())


def test_a_lock_whose_answer_got_lost_is_not_left_behind() -> None:
    async def test() -> None:
        group = FakeGroup(partitions=3)
        async with consumer(group) as source:
            worker = source._worker
            assert worker is not None
            held = worker.assigned.pop(1)  # the server knows that it is ours, we do not
            worker._fetcher.drop(held)
            await asyncio.sleep(INTERVAL_S)
            assert source.assignment == (0, 1, 2)

    run(test())


def test_a_renewal_does_not_take_back_what_is_given_up_meanwhile() -> None:
    async def test() -> None:
        group = FakeGroup(partitions=8)
        settings = {"renew_interval_s": 0.001}  # a renewal is always under way
        async with consumer(group, **settings) as first, consumer(group, **settings) as second:
            await asyncio.sleep(INTERVAL_S)
            assert len(group.held_by(second.worker_id)) == len(second.assignment) == 4
            (unlock,) = group.calls("unlock")
            later = group.log[group.log.index(unlock) :]
            renewed = [call_ for call_ in later if call_[:2] == ("renew", first.worker_id)]
            assert not any(set(unlock[2]) & set(partitions) for _, _, partitions in renewed)

    run(test())


def test_an_unused_lease_is_released() -> None:
    async def test() -> None:
        group = FakeGroup(partitions=2)
        async with consumer(group) as first, consumer(group) as second:
            await asyncio.sleep(INTERVAL_S)
            assert len(second.assignment) == 1
            group.partitions = 3
            group.owners[2] = first.worker_id, 1e9  # as after a lost answer
            await asyncio.sleep(INTERVAL_S)
            assert group.held_by(first.worker_id) == list(first.assignment)

    run(test())


# --- the topic ---------------------------------------------------------------------------------


def test_a_recreated_topic_ends_it() -> None:
    async def test() -> None:
        group = FakeGroup(partitions=1)
        async with consumer(group) as source:
            group.resource = "root#demo#0b"
            with pytest.raises(TopicNotExist, match="recreated"):
                await anext(source)

    run(test())


def test_a_deleted_topic_ends_it_at_once() -> None:
    async def test() -> None:
        group = FakeGroup(partitions=1)
        async with consumer(group) as source:
            group.gone = True
            with pytest.raises(TopicNotExist):
                async with asyncio.timeout(5):
                    await anext(source)

    run(test())


def test_partitions_grow_and_shrink() -> None:
    async def test() -> None:
        group = FakeGroup(partitions=2)
        async with consumer(group) as source:
            group.partitions = 5
            await asyncio.sleep(61)
            assert list(source.assignment) == [0, 1, 2, 3, 4]
            group.put(4, 1)
            assert (await anext(source)).partition == 4
            group.partitions = 3
            assert await source.poll(61) == []
            assert list(source.assignment) == [0, 1, 2]

    run(test())


# --- callbacks ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["on_assigned", "on_revoked", "on_lost"])
def test_an_error_of_a_callback_reaches_the_application(kind: str) -> None:
    async def test() -> None:
        group = FakeGroup(partitions=2)

        def throw(_: Sequence[int]) -> None:
            raise ValueError(kind)

        callbacks = Callbacks(**{kind: throw})
        source = TalosConsumer(group.client(), "demo", "g", callbacks=callbacks)
        await source.start()
        if kind == "on_revoked":
            other = consumer(group)
            await other.start()
        elif kind == "on_lost":
            group.owners[0] = "robber", 1e9
        with pytest.raises(ValueError, match=kind):
            async with asyncio.timeout(INTERVAL_S):
                await anext(source)
        if kind == "on_revoked":
            with pytest.raises(ValueError, match=kind):
                await source.close()
        await source.close()
        assert group.held_by(source.worker_id) == []

    run(test())


def test_a_callback_may_be_awaited_and_commit() -> None:
    async def test() -> None:
        group = FakeGroup(partitions=2)
        group.put(1, 5)

        async def commit(partitions: Sequence[int]) -> None:
            await asyncio.sleep(1.0)
            # Partition 1 may have come back, with nothing delivered since.
            await source.commit({each: 2 for each in partitions if each not in group.checkpoints})

        source = TalosConsumer(
            group.client(), "demo", "g", ConsumerSettings(auto_commit=False),
            Callbacks(on_revoked=commit),
        )  # fmt: skip
        async with source:
            await take(source, 5)
            await source.poll(0.0)
            async with consumer(group):
                await asyncio.sleep(INTERVAL_S + 2)
                assert group.checkpoints == {1: 2}
            group.put(0, 3)
            for _ in range(POLLS_MAX):  # the first ones may have what is left of partition 1
                if any(record.partition == 0 for record in await source.poll(1.0)):
                    break
        assert group.checkpoints == {0: 2, 1: 2}

    run(test())
