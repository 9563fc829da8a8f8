"""TalosConsumer, synchronous and for asyncio, at a real server."""

import asyncio
import threading
from collections.abc import Sequence
from itertools import islice
from typing import Any

import pytest
from tests.e2e.memory_cluster import memory_cluster, settled
from tests.e2e.sdk.conftest import config_of, moment_between
from tests.e2e.sdk.test_client_processes import KEY, run
from tests.server_process import ServerProcess
from tests.shared_servers import SharedServers
from tests.waiting import elapse, eventually, limit_s, stays_async

from opentalos.sdk import (
    Callbacks,
    ClientConfig,
    Compression,
    ConsumerSettings,
    LeaseNotHeld,
    Message,
    PositionExpired,
    Record,
    SimpleProducer,
    Start,
    TalosAdmin,
    TalosConsumer,
    aio,
)
from opentalos.sdk.aio.consumer.group_member import GroupMember
from opentalos.sdk.core.consumer.settings import StartAt
from opentalos.sdk.errors import TopicNotExist

LEASE_S = 4.0
QUICK: dict[str, Any] = {
    "renew_interval_s": 0.5,
    "check_workers_interval_s": 1.0,
    "lease_s": LEASE_S,
}


@pytest.fixture
def config(servers: SharedServers) -> ClientConfig:
    return config_of(servers.get(f"[group]\nlease_s = {LEASE_S}\n").url)


def filled(config: ClientConfig, topic: str, partitions: int, count: int) -> None:
    with TalosAdmin(config) as admin:
        admin.topics.create(topic, partitions=partitions)
    put(config, topic, partitions, count)


def put(config: ClientConfig, topic: str, partitions: int, count: int) -> None:
    with SimpleProducer(config, topic) as producer:
        for partition in range(partitions):
            producer.put([b"%d" % number for number in range(count)], partition=partition)


def checkpoints(config: ClientConfig, topic: str, group: str = "g") -> dict[int, int]:
    with TalosAdmin(config) as admin:
        return {item.partition: item.checkpoint for item in admin.groups.lag(topic, group)}


def quick(config: ClientConfig, topic: str, callbacks: Callbacks | None = None) -> TalosConsumer:
    return TalosConsumer(config, topic, "g", ConsumerSettings(**QUICK), callbacks)


# --- synchronous -------------------------------------------------------------------------------


def test_a_group_resumes_where_it_left(config: ClientConfig) -> None:
    filled(config, "goes-on", 2, 5)
    with quick(config, "goes-on") as first:
        records = list(islice(first, 6))
        assert {first.position(p) for p in first.assignment} <= set(range(6))
        first.commit()
    with quick(config, "goes-on") as second:
        records += list(islice(second, 4))
    assert sorted((record.partition, record.offset) for record in records) == [
        (partition, offset) for partition in range(2) for offset in range(5)
    ]
    settings = ConsumerSettings(reset_to=Start.EARLIEST, **QUICK)
    with TalosConsumer(config, "goes-on", "g", settings) as third:
        assert len(third.poll(limit_s())) == 5


def test_batches_are_lists_or_tables(config: ClientConfig) -> None:
    filled(config, "batches", 1, 5)
    with quick(config, "batches") as consumer:
        batches = consumer.batches()
        assert [item.data for item in next(batches)] == [b"0", b"1", b"2", b"3", b"4"]
        consumer.seek(0, 3)
        table = next(consumer.batches(arrow=True))
        assert table.column("offset").to_pylist() == [3, 4]
        assert table.column("data").to_pylist() == [b"3", b"4"]
        assert consumer.poll(0.1) == []
    assert checkpoints(config, "batches") == {0: 4}


def test_a_callback_that_blocks_for_longer_than_a_lease_keeps_its_partitions(
    config: ClientConfig,
) -> None:
    filled(config, "blocking", 2, 1)
    lost: list[int] = []
    first = quick(config, "blocking", Callbacks(on_lost=lost.extend))
    seen: list[Record] = []

    def process(records: list[Record]) -> None:
        if not seen:
            elapse("a lease that nobody renews would lapse", LEASE_S * 2)
        seen.extend(records)
        if len(seen) == 2:
            first.commit()
            first.close()

    first.run(process)
    assert lost == []
    assert checkpoints(config, "blocking") == {0: 0, 1: 0}


def test_a_callback_that_throws_comes_out_and_its_batch_comes_again(config: ClientConfig) -> None:
    filled(config, "throwing", 1, 3)

    def process(records: list[Record]) -> None:
        raise ValueError(f"cannot do {len(records)}")

    with pytest.raises(ValueError, match="cannot do 3"):
        quick(config, "throwing").run(process)
    with quick(config, "throwing") as again:
        assert len(again.poll(limit_s())) == 3


def test_callbacks_run_in_the_thread_that_iterates_and_may_commit(config: ClientConfig) -> None:
    filled(config, "callbacks", 2, 3)
    calls: list[tuple[str, list[int], threading.Thread]] = []

    def assigned(partitions: Sequence[int]) -> None:
        calls.append(("assigned", list(partitions), threading.current_thread()))

    def revoked(partitions: Sequence[int]) -> None:
        first.commit()
        calls.append(("revoked", list(partitions), threading.current_thread()))

    settings = ConsumerSettings(**QUICK, auto_commit=False)
    callbacks = Callbacks(on_assigned=assigned, on_revoked=revoked)
    first = TalosConsumer(config, "callbacks", "g", settings, callbacks)
    with first:
        for _ in range(2):
            assert len(first.poll(limit_s())) == 3
        with quick(config, "callbacks") as second:
            second.start()

            def shared() -> bool:
                assert first.poll(0.1) == []
                return len(calls) >= 2 and len(second.assignment) >= 1

            eventually("the workers share the topic", shared)
            assert first.assignment == (0,)
            assert second.assignment == (1,)
    here = threading.current_thread()
    assert calls == [
        ("assigned", [0, 1], here), ("revoked", [1], here), ("revoked", [0], here)
    ]  # fmt: skip
    assert checkpoints(config, "callbacks") == {0: 2, 1: 2}


def test_a_callback_that_throws_comes_out_where_the_application_waits(
    config: ClientConfig,
) -> None:
    filled(config, "throwing-callbacks", 1, 3)

    def throw(partitions: Sequence[int]) -> None:
        raise ValueError(f"partitions {partitions}")

    with pytest.raises(ValueError, match=r"partitions \[0\]"):
        quick(config, "throwing-callbacks", Callbacks(on_assigned=throw)).start()
    consumer = quick(config, "throwing-callbacks", Callbacks(on_revoked=throw))
    assert len(consumer.poll(limit_s())) == 3
    assert consumer.poll(0.1) == []
    with pytest.raises(ValueError, match=r"partitions \[0\]"):
        consumer.close()
    assert checkpoints(config, "throwing-callbacks") == {0: 2}, "it closed all the same"


def test_close_in_another_thread_ends_the_loop(config: ClientConfig) -> None:
    filled(config, "closed-elsewhere", 1, 3)
    consumer = quick(config, "closed-elsewhere")
    seen: list[Record] = []
    thread = threading.Thread(target=lambda: seen.extend(consumer), daemon=True)
    thread.start()
    eventually("all records are consumed", lambda: consumer.counters.records == 3)
    consumer.close()
    eventually("the loop ends", lambda: not thread.is_alive())
    assert len(seen) == 3
    assert checkpoints(config, "closed-elsewhere") == {0: 2}


def test_a_forked_child_is_refused_and_the_parent_continues(config: ClientConfig) -> None:
    filled(config, "forked-consumer", 1, 10)
    said = run("forking_consumer", config.endpoints[0], KEY)
    assert said == f"seen {list(range(10))}, refusals in the child 3\n"
    assert checkpoints(config, "forked-consumer") == {0: 9}


def test_a_script_that_closes_nothing_commits_and_leaves_the_group(config: ClientConfig) -> None:
    filled(config, "left-consumer", 1, 10)
    assert run("leaving_consumer", config.endpoints[0], KEY) == "end\n"
    assert checkpoints(config, "left-consumer") == {0: 2}
    with quick(config, "left-consumer") as other:
        assert other.assignment == (0,), "its lease was given back"


# --- asyncio -----------------------------------------------------------------------------------


async def test_all_compressions_in_one_partition(config: ClientConfig) -> None:
    async with aio.Client(config) as client:
        await aio.TalosAdmin(client).topics.create("packed", partitions=1)
        for compression in Compression:
            producer = aio.SimpleProducer(client, "packed", compression=compression)
            await producer.put([Message(compression.name.encode() * 50), b"second"])
        async with aio.TalosConsumer(client, "packed", "g") as consumer:
            records = [await anext(consumer) for _ in range(2 * len(Compression))]
        async with aio.TalosConsumer(client, "packed", "tables") as consumer:
            rows = 0
            async for table in consumer.batches(arrow=True):
                rows += table.num_rows
                if rows == len(records):
                    break
    assert [record.offset for record in records] == list(range(len(records)))
    assert [record.data for record in records[::2]] == [
        item.name.encode() * 50 for item in Compression
    ]


async def test_a_first_launch_starts_at_the_given_position(config: ClientConfig) -> None:
    async with aio.Client(config) as client:
        await aio.TalosAdmin(client).topics.create("started", partitions=1)
        producer = aio.SimpleProducer(client, "started")
        await producer.put([b"0", b"1"])
        between = await moment_between()
        await producer.put([b"2"])
        starts: list[tuple[StartAt, bytes]] = [
            (Start.EARLIEST, b"0"), (between, b"2"), ({0: 1}, b"1"), (Start.LATEST, b"new")
        ]  # fmt: skip
        for number, (start, first) in enumerate(starts):
            settings = ConsumerSettings(first_start=start)
            async with aio.TalosConsumer(client, "started", f"g{number}", settings) as consumer:
                if start is Start.LATEST:
                    await producer.put([b"new"])
                assert (await anext(consumer)).data == first
        async with aio.TalosConsumer(
            client, "started", "beyond", ConsumerSettings(first_start=99)
        ) as consumer:
            with pytest.raises(PositionExpired, match="offset 99 "):
                await anext(consumer)


async def test_a_killed_server_is_waited_for(tmp_path_factory: pytest.TempPathFactory) -> None:
    server = ServerProcess(tmp_path_factory.mktemp("killed")).start()
    try:
        async with aio.Client(config_of(server.url)) as client:
            await aio.TalosAdmin(client).topics.create("waited", partitions=2)
            producer = aio.SimpleProducer(client, "waited")
            await producer.put([b"before"], partition=0)
            async with aio.TalosConsumer(client, "waited", "g") as consumer:
                assert (await anext(consumer)).data == b"before"
                waiting = asyncio.ensure_future(anext(consumer))
                server.kill()
                await stays_async("the consumer waits", lambda: not waiting.done())
                await asyncio.to_thread(server.start)
                await producer.put([b"after"], partition=1)
                assert (await waiting).data == b"after"
                await consumer.commit()
    finally:
        server.kill()


async def test_a_topic_that_is_deleted_and_recreated_ends_it(config: ClientConfig) -> None:
    async with aio.Client(config) as client:
        topics = aio.TalosAdmin(client).topics
        await topics.create("again", partitions=1)
        async with aio.TalosConsumer(client, "again", "g", ConsumerSettings(**QUICK)) as consumer:
            await topics.delete("again")
            await topics.create("again", partitions=1)
            await aio.SimpleProducer(client, "again").put([b"of the new one"])
            with pytest.raises(TopicNotExist):
                await anext(consumer)


async def test_a_robbed_worker_cannot_commit(config: ClientConfig) -> None:
    async with aio.Client(config) as client:
        topic = await aio.TalosAdmin(client).topics.create("robbed", partitions=1)
        await aio.SimpleProducer(client, "robbed").put([b"x"])
        settings = ConsumerSettings(auto_commit=False)
        async with aio.TalosConsumer(client, "robbed", "g", settings) as consumer:
            await anext(consumer)
            await GroupMember(client, topic, "g", consumer.worker_id).unlock([0])
            robber = GroupMember(client, topic, "g", "robber")
            assert await robber.lock([0]) == [0]
            with pytest.raises(LeaseNotHeld):
                await consumer.commit()
            assert await robber.checkpoints([0]) == {0: -1}


async def test_a_group_outlives_any_server_of_a_cluster() -> None:
    async with memory_cluster() as servers:
        urls = [f"http://127.0.0.1:{server.port}" for server in servers]
        async with aio.Client(config_of(*urls)) as client:
            topic = await aio.TalosAdmin(client).topics.create("cluster", partitions=6)
            await settled(servers, topic.resource.rsplit("#", 1)[1], 6)
            producer = aio.SimpleProducer(client, "cluster")
            seen: list[tuple[int, int]] = []
            async with aio.TalosConsumer(client, "cluster", "g") as consumer:
                for turn, server in enumerate([*servers, None]):
                    for partition in range(6):
                        await producer.put([b"x"], partition=partition)
                    for _ in range(6):
                        record = await anext(consumer)
                        seen.append((record.partition, record.offset))
                    await consumer.commit()
                    assert sorted(seen) == [(p, n) for p in range(6) for n in range(turn + 1)]
                    if server is not None:
                        await server.stop()
                        await server.start()
