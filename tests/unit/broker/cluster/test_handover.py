"""Handover: partitions move between brokers; nothing is lost, and no answer is wrong."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial

import pytest
from tests.unit.broker.cluster.cluster_bed import JOURNALED, ClusterBed, Server, in_cluster

from opentalos.broker.values import Topic
from opentalos.log.partition.jobs import seal
from opentalos.model.errors import NotOwner, OutcomeUnknown, PartitionNotServing, TalosError
from opentalos.model.message import ProducerStamp

Scenario = Callable[[ClusterBed], Awaitable[None]]
Run = Callable[[Scenario], None]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    return lambda scenario: in_cluster(monkeypatch, scenario)


async def two_servers(bed: ClusterBed) -> tuple[Server, Server, Topic]:
    """Two servers; the first one serves the only partition of a topic."""
    a, b = await bed.server("a"), await bed.server("b")
    return a, b, await bed.topic(a, ["a"])


def test_a_server_refuses_what_another_serves_and_names_it(run: Run) -> None:
    async def scenario(bed: ClusterBed) -> None:
        _, b, topic = await two_servers(bed)
        with pytest.raises(NotOwner) as caught:
            await b.put(topic, b"x")
        assert caught.value.address == "a:1"

    run(scenario)


def test_a_planned_move_loses_no_put_and_leaves_none_unknown(run: Run) -> None:
    async def scenario(bed: ClusterBed) -> None:
        a, b, topic = await two_servers(bed)
        acked: list[bytes] = []
        pauses: list[float] = []
        loop = asyncio.get_running_loop()

        async def produce(number: int) -> None:
            server, last_s = a, loop.time()
            for count in range(200):
                payload = b"%d-%d" % (number, count)
                while True:
                    try:
                        await server.put(topic, payload)
                    except NotOwner as error:
                        server = bed.servers[error.address.partition(":")[0]]
                        await asyncio.sleep(0.001)
                    else:
                        break
                acked.append(payload)
                pauses.append(loop.time() - last_s)
                last_s = loop.time()

        async def move() -> None:
            await asyncio.sleep(0.3)
            await bed.assign(topic.uuid, ["b"], {"0": "a"})

        await asyncio.gather(move(), *(produce(number) for number in range(4)))
        assert b.broker.context.log.counters.commits > 0
        assert sorted(await b.payloads(topic)) == sorted(acked)
        assert not b.files.recovered  # it was sealed, so nothing had to be recovered
        assert max(pauses) < 0.15

    run(scenario)


def test_an_owner_that_cannot_seal_is_recovered_after_the_hand_over_time(run: Run) -> None:
    async def scenario(bed: ClusterBed) -> None:
        a, b, topic = await two_servers(bed)
        await a.put(topic, b"kept")
        a.files.held = bed.loop.create_future()
        stuck = a.put(topic, b"stuck")
        await asyncio.sleep(0.1)
        began_s = bed.loop.time()
        await bed.assign(topic.uuid, ["b"], {"0": "a"})
        await asyncio.sleep(0.1)
        await b.put(topic, b"new")
        assert 1.9 < bed.loop.time() - began_s < 2.5
        with pytest.raises(OutcomeUnknown):
            await stuck
        assert await b.payloads(topic) == [b"kept", b"new"]
        a.files.held.set_result(None)
        await asyncio.sleep(1)

    run(scenario)


def test_an_owner_with_a_journal_has_longer_to_seal(run: Run) -> None:
    """A recovery would fence the journal, and all its partitions would open again."""

    async def scenario(bed: ClusterBed) -> None:
        bed.log = JOURNALED
        a, b, topic = await two_servers(bed)
        await a.put(topic, b"kept")
        a.files.held, a.files.held_suffix = bed.loop.create_future(), ".log"
        began_s = bed.loop.time()
        await bed.assign(topic.uuid, ["b"], {"0": "a"})
        bed.loop.call_later(4.0, a.files.held.set_result, None)
        await asyncio.sleep(0.1)
        await b.put(topic, b"new")
        assert 3.9 < bed.loop.time() - began_s < 4.5
        assert await b.payloads(topic) == [b"kept", b"new"]
        assert not [path for path in b.files.recovered if path.endswith(".log")]

    run(scenario)


def test_an_owner_with_a_journal_that_cannot_seal_is_recovered_at_last(run: Run) -> None:
    async def scenario(bed: ClusterBed) -> None:
        bed.log = JOURNALED
        a, b, topic = await two_servers(bed)
        await a.put(topic, b"kept")
        a.files.held, a.files.held_suffix = bed.loop.create_future(), ".log"
        began_s = bed.loop.time()
        await bed.assign(topic.uuid, ["b"], {"0": "a"})
        await asyncio.sleep(0.1)
        await b.put(topic, b"new")
        assert 7.9 < bed.loop.time() - began_s < 8.5
        assert await b.payloads(topic) == [b"kept", b"new"]

    run(scenario)


def test_a_crashed_owner_is_not_waited_for(run: Run) -> None:
    async def scenario(bed: ClusterBed) -> None:
        a, b, topic = await two_servers(bed)
        await a.put(topic, b"kept")
        a.crash()
        began_s = bed.loop.time()
        await bed.assign(topic.uuid, ["b"])
        while True:
            try:
                await b.put(topic, b"new")
            except NotOwner:
                await asyncio.sleep(0.001)
            else:
                break
        assert bed.loop.time() - began_s < 0.2
        assert await b.payloads(topic) == [b"kept", b"new"]

    run(scenario)


def test_a_waiting_read_ends_at_once_when_the_partition_moves(run: Run) -> None:
    async def scenario(bed: ClusterBed) -> None:
        a, _, topic = await two_servers(bed)
        await a.put(topic, b"x")
        log = next(iter(a.broker.context.log._partitions.values()))
        reading = asyncio.create_task(
            a.run(lambda: log.read(1, messages_max=1, bytes_max=100, hold_s=60.0))
        )
        await asyncio.sleep(1)
        began_s = bed.loop.time()
        await bed.assign(topic.uuid, ["b"], {"0": "a"})
        with pytest.raises(NotOwner):
            await reading
        assert bed.loop.time() - began_s < 0.1

    run(scenario)


def test_many_recoveries_wait_at_the_same_time(run: Run) -> None:
    async def scenario(bed: ClusterBed) -> None:
        a, b = await bed.server("a"), await bed.server("b")
        topic = await bed.topic(a, ["a"] * 250)
        await asyncio.gather(*(a.put(topic, b"kept", number) for number in range(250)))
        b.files.recover_s = 1.0
        a.crash()
        await bed.assign(topic.uuid, ["b"] * 250)
        await asyncio.sleep(3.0)
        assert sum(log.writer.readable for log in b.broker.context.log._partitions.values()) == 250

    run(scenario)


def test_sealed_partitions_are_readable_at_once_and_hold_no_file(run: Run) -> None:
    async def scenario(bed: ClusterBed) -> None:
        a, b = await bed.server("a"), await bed.server("b")
        topic = await bed.topic(a, ["a"] * 200)
        await asyncio.gather(*(a.put(topic, b"kept", number) for number in range(200)))
        await a.close()
        began_s = bed.loop.time()
        await bed.assign(topic.uuid, ["b"] * 200)
        await asyncio.sleep(0.5)
        for number in range(200):
            assert await b.payloads(topic, number) == [b"kept"]
        assert bed.loop.time() - began_s < 125.0  # each empty read at the end is held for 0.5 s
        assert not b.broker.context.log._context.open_partitions
        assert not b.files.recovered

    run(scenario)


def test_a_returning_partition_is_served_again(run: Run) -> None:
    async def scenario(bed: ClusterBed) -> None:
        a, b, topic = await two_servers(bed)
        await a.put(topic, b"1")
        await bed.assign(topic.uuid, ["b"], {"0": "a"})
        await asyncio.sleep(0.5)
        await b.put(topic, b"2")
        await bed.assign(topic.uuid, ["a"], {"0": "b"})
        await asyncio.sleep(0.5)
        await a.put(topic, b"3")
        assert await a.payloads(topic) == [b"1", b"2", b"3"]

    run(scenario)


def test_a_paused_owner_never_acknowledges_after_a_take_over(run: Run) -> None:
    async def scenario(bed: ClusterBed) -> None:
        a, b, topic = await two_servers(bed)
        await a.put(topic, b"kept")
        a.process.pause()
        a.meta.expire()
        await bed.assign(topic.uuid, ["b"])
        await asyncio.sleep(10)
        await b.put(topic, b"new")
        first = a.put(topic, b"zombie")  # withheld with all else, so it comes first
        a.meta.lost = True
        a.process.resume()
        with pytest.raises(TalosError):
            await first
        assert await b.payloads(topic) == [b"kept", b"new"]
        for _ in range(20):
            with pytest.raises((NotOwner, PartitionNotServing)):
                await a.put(topic, b"zombie")
            await asyncio.sleep(0.05)
        assert await b.payloads(topic) == [b"kept", b"new"]

    run(scenario)


def test_puts_that_wait_for_an_opening_are_refused_when_the_partition_leaves(run: Run) -> None:
    async def scenario(bed: ClusterBed) -> None:
        a, b, topic = await two_servers(bed)
        await a.put(topic, b"kept")
        a.crash()
        b.files.recover_s = 5.0
        await bed.assign(topic.uuid, ["b"])
        await asyncio.sleep(0.1)
        waiting = [b.put(topic, b"waits") for _ in range(3)]
        c = await bed.server("c")
        await asyncio.sleep(0.1)
        await bed.assign(topic.uuid, ["c"])
        answers = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(error) for error in answers] == [NotOwner] * 3
        assert [getattr(error, "address", "") for error in answers] == ["c:1"] * 3
        await asyncio.sleep(1)
        await c.put(topic, b"new")
        assert await c.payloads(topic) == [b"kept", b"new"]

    run(scenario)


def test_only_the_owner_reports_an_idempotent_refusal(run: Run) -> None:
    async def scenario(bed: ClusterBed) -> None:
        a, b, topic = await two_servers(bed)
        await a.put_stamped(topic, b"0", ProducerStamp(7, 1, 0))
        a.process.pause()
        await bed.assign(topic.uuid, ["b"])
        await asyncio.sleep(0.5)
        await b.put_stamped(topic, b"1", ProducerStamp(7, 1, 1))
        gap = a.put_stamped(topic, b"2", ProducerStamp(7, 1, 2))
        a.process.resume()
        with pytest.raises(PartitionNotServing):  # by its old table it would call this a gap
            await gap
        await b.put_stamped(topic, b"2", ProducerStamp(7, 1, 2))
        assert await b.payloads(topic) == [b"0", b"1", b"2"]

    run(scenario)


def test_a_file_that_the_new_owner_dropped_is_not_called_corrupt(run: Run) -> None:
    async def scenario(bed: ClusterBed) -> None:
        a, b, topic = await two_servers(bed)
        await a.put(topic, b"x" * 100)
        log = next(iter(a.broker.context.log._partitions.values()))
        a.process.pause()
        await bed.assign(topic.uuid, ["b"])
        await asyncio.sleep(0.5)
        b.broker.context.log._context.limits = replace(
            b.broker.context.log._context.limits, delete_grace_s=0.0
        )
        await b.put(topic, b"y")
        bed.clock.now_ms += 1
        await b.run(lambda: b.broker.context.log.upkeep._delete_due(bed.loop.time() + 1))
        log.writer.tail.clear()  # else memory answers
        reading = asyncio.create_task(a.run(lambda: log.read(0, messages_max=1, bytes_max=100)))
        await asyncio.sleep(0)
        a.process.resume()
        with pytest.raises(PartitionNotServing):
            await reading

    run(scenario)


def test_an_opening_that_a_move_overtakes_hides_nothing_from_readers(run: Run) -> None:
    async def scenario(bed: ClusterBed) -> None:
        a, b, topic = await two_servers(bed)
        await a.put(topic, b"1")
        log = next(iter(a.broker.context.log._partitions.values()))
        await a.run(lambda: log.writer.run(partial(seal, log.writer)))
        a.meta.write_s = 0.3
        late = a.put(topic, b"2")  # it opens, slowly
        await asyncio.sleep(0.4)  # between the two changes of the manifest
        await bed.assign(topic.uuid, ["b"], {"0": "a"})
        await asyncio.sleep(0.05)
        shown = await b.payloads(topic)
        answer = (await asyncio.gather(late, return_exceptions=True))[0]
        expected = [b"1", b"2"] if answer is None else [b"1"]
        assert shown in ([b"1"], expected)
        assert await b.payloads(topic) == expected
        await asyncio.sleep(3)
        assert await b.payloads(topic) == expected
        await b.put(topic, b"3")
        assert await b.payloads(topic) == [*expected, b"3"]

    run(scenario)


def test_a_server_whose_assignments_are_old_takes_nothing_back(run: Run) -> None:
    async def scenario(bed: ClusterBed) -> None:
        a, b, topic = await two_servers(bed)
        await a.put(topic, b"1")
        follow = a.cluster.state.assignments.task
        assert follow is not None
        follow.cancel()  # its watch never catches up
        await bed.assign(topic.uuid, ["b"])
        await asyncio.sleep(0.5)
        await b.put(topic, b"2")
        with pytest.raises(TalosError):
            await a.put(topic, b"zombie")
        with pytest.raises(NotOwner):
            await a.put(topic, b"zombie")
        assert await b.payloads(topic) == [b"1", b"2"]

    run(scenario)


def test_a_partition_that_returns_at_once_is_sealed_first(run: Run) -> None:
    async def scenario(bed: ClusterBed) -> None:
        a, _, topic = await two_servers(bed)
        await a.put(topic, b"1")
        flying = [a.put(topic, b"%d" % number) for number in (2, 3)]
        a.meta.write_s = 0.3  # the seal takes a while
        await bed.assign(topic.uuid, ["b"], {"0": "a"})
        await asyncio.sleep(0.05)
        await bed.assign(topic.uuid, ["a"])
        await asyncio.sleep(0.05)
        with pytest.raises(PartitionNotServing, match="last step"):
            await a.put(topic, b"4")
        await asyncio.gather(*flying)
        await asyncio.sleep(1)
        await a.put(topic, b"4")
        assert await a.payloads(topic) == [b"1", b"2", b"3", b"4"]
        assert not a.files.recovered

    run(scenario)


def test_an_empty_partition_has_no_end_by_time_alone(run: Run) -> None:
    """A server that does not know that it lost the partition must not call it empty later."""

    async def scenario(bed: ClusterBed) -> None:
        a, b, topic = await two_servers(bed)
        assert not await a.payloads(topic)
        follow = a.cluster.state.assignments.task
        assert follow is not None
        follow.cancel()  # its watch never catches up
        await bed.assign(topic.uuid, ["b"])
        await asyncio.sleep(20)
        await b.put(topic, b"1")
        log = next(iter(a.broker.context.log._partitions.values()))
        reading = a.run(lambda: log.read(0, messages_max=1, bytes_max=100))
        with pytest.raises(PartitionNotServing):
            await reading

    run(scenario)
