"""The SDK at a real server: what it does, what it says when it cannot, kills in the middle."""

import asyncio
import time
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from tests.e2e.sdk.conftest import config_of, moment_between, read_all
from tests.server_process import ServerProcess
from tests.tls_files import TlsFolder
from tests.waiting import elapse_async, eventually_async, limit_s, stays_async

from opentalos.model import errors
from opentalos.sdk import ClientConfig, Compression, Message, Permission, Start, TlsSettings, aio
from opentalos.sdk.core.values import (
    OffsetRange,
    PartitionQuota,
    Quota,
    TopicRef,
    TopicStatus,
    UserQuota,
)
from opentalos.sdk.errors import (
    ClientClosed,
    ConnectFailed,
    OutcomeUnknown,
    PositionExpired,
    Unavailable,
)
from opentalos.wire._generated import consumer
from opentalos.wire._generated.consumer import CONSUMER_SERVICE
from opentalos.wire._generated.topic import TopicAndPartition, TopicTalosResourceName

DAY_S = 86_400
HOUR_S = 3_600


async def test_what_was_put_is_read(sdk_config: ClientConfig) -> None:
    async with aio.Client(sdk_config) as client:
        await aio.TalosAdmin(client).topics.create("roundtrip", partitions=3)
        producer = aio.SimpleProducer(client, "roundtrip")
        whole = Message(
            b"whole", partition_key="k", sequence_number="7", create_ms=5, message_type=2,
            schema_fingerprint="f", tag="t",
        )  # fmt: skip
        began_ms = int(time.time() * 1000)
        for partition in range(3):
            assert (await producer.put([whole, b"plain"], partition=partition)).base_offset == 0
            assert (await producer.put([b"third"], partition=partition)).base_offset == 2
        ended_ms = int(time.time() * 1000)
        consumer = aio.SimpleConsumer(client, "roundtrip")
        for partition in range(3):
            first, second, third = await consumer.fetch(partition, Start.EARLIEST)
            assert third.data == b"third"
            assert first[:7] == ("roundtrip", partition, 0, b"whole", "k", "7", 5)
            assert first[8:] == (2, "f", "t", None)
            assert (second.offset, second.data, second.partition_key) == (1, b"plain", None)
            assert second.create_ms is not None
            assert began_ms <= second.append_ms <= ended_ms


async def test_large_puts_are_signed_by_a_mac_after_the_first(sdk_config: ClientConfig) -> None:
    async with aio.Client(sdk_config) as client:
        await aio.TalosAdmin(client).topics.create("by-mac", partitions=1)
        producer = aio.SimpleProducer(client, "by-mac")
        values = [bytes([number]) * (3 << 20) for number in range(3)]
        assert not client._caller._macs.accepted(sdk_config.endpoints[0], 3 << 20)
        for value in values:
            await producer.put([Message(value)], partition=0)
        assert client._caller._macs.accepted(sdk_config.endpoints[0], 3 << 20)
        consumer = aio.SimpleConsumer(client, "by-mac")
        read = [record for at in range(3) for record in await consumer.fetch(0, at, messages_max=1)]
        assert [record.data for record in read] == values


@pytest.mark.parametrize("compression", Compression, ids=lambda case: case.name)
async def test_every_compression_is_written_and_read(
    sdk_config: ClientConfig, compression: Compression
) -> None:
    name = f"packed-{compression.name}"
    async with aio.Client(sdk_config) as client:
        await aio.TalosAdmin(client).topics.create(name, partitions=1)
        data = [b"x" * length for length in (1, 100, 40_000)]
        await aio.SimpleProducer(client, name, compression=compression).put(data)
        records = await aio.SimpleConsumer(client, name).fetch(0, 0)
    assert [record.data for record in records] == data


async def test_reads_start_at_an_offset_a_time_or_an_end(sdk_config: ClientConfig) -> None:
    async with aio.Client(sdk_config) as client:
        await aio.TalosAdmin(client).topics.create("starts", partitions=1)
        producer = aio.SimpleProducer(client, "starts")
        consumer = aio.SimpleConsumer(client, "starts")
        await producer.put([b"0", b"1", b"2"])
        between = await moment_between()
        await producer.put([b"3", b"4"])

        async def data(position: int | Start | datetime) -> list[bytes]:
            return [record.data for record in await consumer.fetch(0, position)]

        assert await data(1) == [b"1", b"2", b"3", b"4"]  # inside a block
        assert await data(4) == [b"4"]
        assert await data(5) == []
        assert await data(Start.EARLIEST) == [b"0", b"1", b"2", b"3", b"4"]
        assert await data(Start.LATEST) == []
        assert await data(between) == [b"3", b"4"]
        assert await data(between - timedelta(days=1)) == [b"0", b"1", b"2", b"3", b"4"]
        assert await data(between + timedelta(days=1)) == []
        with pytest.raises(ValueError, match="zone"):
            await data(datetime(2020, 1, 1))
        with pytest.raises(PositionExpired) as failure:
            await data(6)
        assert (failure.value.offset, failure.value.retained) == (6, OffsetRange(0, 5))
        some = await consumer.fetch(0, 0, messages_max=1)
        assert [record.data for record in some] == [b"0", b"1", b"2"]  # blocks come whole


async def test_a_wrong_key_is_refused_at_once(sdk_server: ServerProcess) -> None:
    for key in (("AKNOBODY", "x"), ("AKROOTTEST", "wrong")):
        config = ClientConfig(endpoints=(sdk_server.url,), key_id=key[0], secret=key[1])
        async with aio.TalosAdmin(config) as admin:
            with pytest.raises(errors.InvalidCredential):
                await admin.topics.list()


async def test_what_does_not_exist_is_named(sdk_config: ClientConfig) -> None:
    async with aio.Client(sdk_config) as client:
        admin = aio.TalosAdmin(client)
        with pytest.raises(errors.TopicNotExist, match="nothing-here"):
            await admin.topics.describe("nothing-here")
        with pytest.raises(errors.TopicNotExist):
            await aio.SimpleProducer(client, "nothing-here").put([b"x"])
        with pytest.raises(errors.InvalidName):
            await admin.topics.create("no spaces", partitions=1)
        ref = await admin.topics.create("few", partitions=1)
        with pytest.raises(errors.TopicExists):
            await admin.topics.create("few", partitions=1)
        with pytest.raises(errors.PartitionNotExist):
            await aio.SimpleProducer(client, "few", 7).put([b"x"])
        with pytest.raises(errors.PartitionNotExist):
            await client.offsets(ref, [0, 7])
        with pytest.raises(errors.BadRequest, match="at least one message"):
            await aio.SimpleProducer(client, "few").put([])
        with pytest.raises(errors.ConsumerGroupNotExist):
            await admin.groups.delete("few", "nobody")


async def test_a_block_beyond_every_bound_is_not_done(sdk_config: ClientConfig) -> None:
    async with aio.Client(sdk_config) as client:
        ref = await aio.TalosAdmin(client).topics.create("large", partitions=1)
        producer = aio.SimpleProducer(client, "large", compression=Compression.NONE)
        for length in (21 << 20, 40 << 20):  # of a block, and of a request
            with pytest.raises(errors.RequestError):
                await producer.put([b"x" * length])
        await producer.put([b"y"])
        assert (await client.offsets(ref, [0]))[0].next == 1


async def test_a_recreated_topic_is_found_again(sdk_config: ClientConfig) -> None:
    async with aio.Client(sdk_config) as client:
        admin = aio.TalosAdmin(client)
        first = await admin.topics.create("again", partitions=1)
        producer = aio.SimpleProducer(client, "again")
        await producer.put([b"old"])
        await admin.topics.delete(first)
        async with aio.TalosAdmin(sdk_config) as other:
            second = await other.topics.create("again", partitions=1)
        await producer.put([b"new"])
        assert second.resource != first.resource
        with pytest.raises(errors.TopicNotExist):
            await admin.topics.delete(first)  # does not hit the new one
        assert (await client.offsets(second, [0]))[0].next == 1


async def test_topics_are_described_and_changed(sdk_config: ClientConfig) -> None:
    async with aio.TalosAdmin(sdk_config) as admin:
        await admin.topics.create(
            "changing", partitions=2, retention_s=7_200, attributes={"a": "1", "b": "2"},
            permissions={"bob": Permission.GET_MESSAGE | Permission.DESCRIBE_TOPIC},
        )  # fmt: skip
        await admin.topics.change("changing", partitions=3, attributes={"c": "3"})
        await admin.topics.delete_attribute("changing", "a")
        await admin.topics.set_owner("changing", "Ada", "dep-1")
        found = await admin.topics.describe("changing")
        assert (found.partitions, found.old_partitions, found.retention_s) == (3, 2, 7_200)
        assert found.status is TopicStatus.ACTIVE
        assert "a" not in found.attributes
        assert found.attributes["c"] == "3"
        assert found.info.owner_name == "Ada"
        assert found.permissions["bob"] == Permission.GET_MESSAGE | Permission.DESCRIBE_TOPIC
        assert [state.partition for state in found.states] == [0, 1, 2]
        assert "changing" in [info.name for info in await admin.topics.list()]
        assert (await admin.offsets("changing")) == {n: OffsetRange(0, 0) for n in range(3)}
        assert "opentalos" in await admin.server_version()


async def test_permissions_are_granted_and_revoked(sdk_config: ClientConfig) -> None:
    async with aio.TalosAdmin(sdk_config) as admin:
        await admin.topics.create("granted", partitions=1)
        both = Permission.PUT_MESSAGE | Permission.DESCRIBE_TOPIC
        await admin.permissions.grant("granted", "bob", both)
        assert (await admin.permissions.list("granted"))["bob"] == both
        assert await admin.permissions.get("granted", "bob") == both
        await admin.permissions.revoke("granted", "bob")
        assert await admin.permissions.get("granted", "bob") == Permission.NONE


async def test_quotas_are_set_asked_for_and_decided(sdk_config: ClientConfig) -> None:
    async with aio.TalosAdmin(sdk_config) as admin:
        await admin.topics.create("limited", partitions=1)
        before = await admin.quotas.topic("limited")
        await admin.quotas.set_topic("limited", Quota(space_bytes=1 << 30, put_requests_per_s=9))
        found = await admin.quotas.topic("limited")
        assert (found.space_bytes, found.put_requests_per_s) == (1 << 30, 9)
        assert found.used_bytes == 0
        await admin.quotas.reset_topic("limited")
        assert await admin.quotas.topic("limited") == before
        await admin.quotas.set_user("bob", UserQuota(quota=Quota(space_bytes=1 << 20), topics=3))
        assert (await admin.quotas.users())["bob"].topics == 3
        await admin.quotas.reset_user("bob")
        assert "bob" not in await admin.quotas.users()
        assert (await admin.quotas.own()).quota.space_bytes is not None
        wanted = PartitionQuota(organisation="CLsdk", total=40, reason="growth")
        await admin.quotas.apply(wanted)
        assert [item.organisation for item in await admin.quotas.pending()] == ["CLsdk"]
        assert await admin.quotas.approve(wanted) == ()


async def test_groups_and_previews_are_shown(sdk_config: ClientConfig) -> None:
    async with aio.Client(sdk_config) as client:
        admin = aio.TalosAdmin(client)
        topic = await admin.topics.create("watched", partitions=2)
        await aio.SimpleProducer(client, "watched", 0).put([b"seen", b"unseen"])
        (first, second) = await admin.preview("watched", 0)
        assert (first["offset"], second["message"]) == ("0", "unseen")
        assert await admin.groups.list("watched") == ()
        assert await admin.groups.workers("watched", "g") == {}
        await work(client, topic)
        assert await admin.groups.list("watched") == ("g",)
        done, idle = await admin.groups.lag("watched", "g")
        assert (done.partition, done.checkpoint, done.lag) == (0, 0, 1)
        assert (idle.partition, idle.checkpoint, idle.lag) == (1, -1, 0)
        assert done.address
        assert await admin.groups.lags(topic) == {"g": (done, idle)}
        assert await admin.groups.workers(topic, "g") == {"w": (0,)}
        with pytest.raises(errors.ConsumerGroupWorking):
            await admin.groups.delete("watched", "g")


async def work(client: aio.Client, topic: TopicRef) -> None:
    """A worker of group g takes partition 0 and processes its first message."""
    name = TopicTalosResourceName(topicTalosResourceName=topic.resource)
    for method, request, partitions in (
        ("lockWorker", consumer.LockWorkerRequest, []),
        ("lockPartition", consumer.LockPartitionRequest, [0]),
    ):
        unit = consumer.ConsumeUnit(
            consumerGroup="g", topicTalosResourceName=name, partitionIdList=partitions, workerId="w"
        )
        await client.call(CONSUMER_SERVICE, method, request(consumeUnit=unit))
    place = TopicAndPartition(topicName=topic.name, topicTalosResourceName=name, partitionId=0)
    checkpoint = consumer.CheckPoint(
        consumerGroup="g", topicAndPartition=place, msgOffset=0, workerId="w", lastCommitOffset=-1
    )
    commit = consumer.UpdateOffsetRequest(checkpoint=checkpoint)
    assert (await client.call(CONSUMER_SERVICE, "updateOffset", commit)).success


def wrong_by(skew_s: int) -> float:
    """What a clock shows that is wrong."""
    return time.time() + skew_s  # the claim is about time


@pytest.mark.parametrize("skew_s", [-DAY_S, DAY_S, 40 * 365 * DAY_S])
async def test_a_client_whose_clock_is_wrong_works(sdk_config: ClientConfig, skew_s: int) -> None:
    async with aio.Client(sdk_config, wall_s=lambda: wrong_by(skew_s)) as client:
        await aio.TalosAdmin(client).topics.list()
        error_s = client.now_ms() / 1000 - time.time()
        assert abs(error_s) < HOUR_S


async def test_a_clock_that_jumps_is_followed(sdk_config: ClientConfig) -> None:
    skew_s = [0]
    async with aio.Client(sdk_config, wall_s=lambda: wrong_by(skew_s[0])) as client:
        admin = aio.TalosAdmin(client)
        for jump_s in (0, DAY_S, 0, -3 * DAY_S, 0):
            skew_s[0] = jump_s
            await admin.topics.list()


async def test_the_first_endpoint_that_answers_is_used(sdk_server: ServerProcess) -> None:
    config = config_of("http://127.0.0.1:1", "http://nobody.invalid:80", sdk_server.url)
    async with aio.TalosAdmin(config) as admin:
        for _ in range(3):
            await admin.topics.list()


async def follow(client: aio.Client, ref: TopicRef) -> None:
    """A call is always under way: nothing is there, so the server holds it, and then the next."""
    while True:
        await client.fetch(ref, 0, 0, messages_max=1, bytes_max=1)


async def test_closing_ends_what_is_under_way(sdk_config: ClientConfig) -> None:
    client = aio.Client(sdk_config)
    ref = await aio.TalosAdmin(client).topics.create("closing", partitions=1)
    reading = asyncio.create_task(follow(client, ref))
    await stays_async("the reader follows", lambda: not reading.done())
    await client.close()
    with pytest.raises(ClientClosed):
        await reading


async def test_a_cancelled_call_leaves_the_client_usable(sdk_config: ClientConfig) -> None:
    async with aio.Client(sdk_config) as client:
        ref = await aio.TalosAdmin(client).topics.create("cancelled", partitions=1)
        for pause_s in (0.0, 0.0, 0.001, 0.01, 0.1):
            reading = asyncio.create_task(follow(client, ref))
            await elapse_async("a call may be cancelled at any moment", pause_s)
            reading.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reading
            assert (await client.offsets(ref, [0]))[0] == OffsetRange(0, 0)


async def test_an_unreachable_server_is_named_at_the_deadline() -> None:
    async with aio.TalosAdmin(config_of("http://127.0.0.1:1", deadline_s=0.5)) as admin:
        with pytest.raises(ConnectFailed, match=r"127\.0\.0\.1:1"):
            await admin.topics.list()


async def test_everything_works_over_tls(tmp_path: Path) -> None:
    folder = TlsFolder(tmp_path / "tls")
    server = ServerProcess(tmp_path / "server", folder.section()).start()
    try:
        plain = config_of(server.url)
        config = ClientConfig(
            endpoints=plain.endpoints, key_id=plain.key_id, secret=plain.secret,
            tls=TlsSettings(ca_file=str(folder.ca)),
        )  # fmt: skip
        async with aio.Client(config) as client:
            await aio.TalosAdmin(client).topics.create("secret", partitions=2)
            producer = aio.SimpleProducer(client, "secret")
            for _ in range(4):
                await producer.put([b"x"])
            assert len(await aio.SimpleConsumer(client, "secret").fetch(1, 0)) == 2
        async with aio.TalosAdmin(plain) as stranger:
            with pytest.raises(errors.ConfigError, match="certificate"):
                await stranger.topics.list()
    finally:
        server.stop()


# --- the server ends in the middle -----------------------------------------------------------


@pytest.fixture
def server(tmp_path: Path) -> ServerProcess:
    return ServerProcess(tmp_path).start()


async def test_no_put_lies_when_the_server_is_killed(server: ServerProcess) -> None:
    """Every acknowledged message is there once, none of those reported as not done is."""
    done: set[bytes] = set()
    not_done: set[bytes] = set()
    unknown: set[bytes] = set()
    stop = asyncio.Event()

    async def writer(client: aio.Client, number: int) -> None:
        producer = aio.SimpleProducer(client, "killed")
        for count in range(100_000):
            if stop.is_set():
                return
            data = b"%d-%d" % (number, count)
            try:
                await producer.put([data])
                done.add(data)
            except OutcomeUnknown:
                unknown.add(data)
            except Unavailable:
                not_done.add(data)

    async def more(outcomes: set[bytes], count: int) -> None:
        wanted = len(outcomes) + count
        await eventually_async("more puts end so", lambda: len(outcomes) >= wanted)

    try:
        async with aio.TalosAdmin(config_of(server.url)) as admin:
            await admin.topics.create("killed", partitions=2)
        async with aio.Client(config_of(server.url, deadline_s=0.3, backoff_s=0.01)) as client:
            writers = [asyncio.create_task(writer(client, number)) for number in range(8)]
            for _ in range(3):
                await more(done, 20)
                server.kill()
                await more(not_done, 1)
                await asyncio.to_thread(server.start)
            await more(done, 20)
            stop.set()
            await asyncio.gather(*writers)
        async with aio.Client(config_of(server.url)) as client:
            stored = [data for n in range(2) for data in await read_all(client, "killed", n)]
    finally:
        server.kill()
    counts = {data: stored.count(data) for data in set(stored)}
    assert {data for data in done if counts.get(data) != 1} == set()
    assert not_done & counts.keys() == set()
    assert counts.keys() - done <= unknown


async def test_a_put_outlasts_a_restart(server: ServerProcess) -> None:
    async with aio.Client(config_of(server.url, deadline_s=limit_s())) as client:
        await aio.TalosAdmin(client).topics.create("restarted", partitions=1)
        producer = aio.SimpleProducer(client, "restarted")
        await producer.put([b"before"])
        server.stop()
        waiting = asyncio.create_task(producer.put([b"after"]))
        await stays_async("the put waits for the server", lambda: not waiting.done())
        await asyncio.to_thread(server.start)
        await waiting
        assert await read_all(client, "restarted", 0) == [b"before", b"after"]
    server.stop()


async def test_a_read_outlasts_a_server_that_hangs(server: ServerProcess) -> None:
    async with aio.TalosAdmin(config_of(server.url)) as admin:
        await admin.topics.create("hanging", partitions=1)
    async with aio.Client(config_of(server.url, request_timeout_s=0.3)) as client:
        await aio.SimpleProducer(client, "hanging").put([b"x"])  # however long it takes
        producer = aio.SimpleProducer(client, "hanging", idempotent=False)
        server.pause()
        reading = asyncio.create_task(aio.SimpleConsumer(client, "hanging").fetch(0, 0))
        with pytest.raises(OutcomeUnknown):
            await producer.put([b"y"])
        server.resume()
        assert (await reading)[0].data == b"x"
    server.stop()
