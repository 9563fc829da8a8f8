"""One client over servers without sockets, in virtual time."""

import asyncio
from typing import Any

import pytest
from tests.unit.sdk.fake_servers import (
    S1,
    S2,
    TOPIC,
    FakeServers,
    client_of,
    config,
    connect,
    in_turn,
    raises,
    run,
    schedule,
    stored,
)

from opentalos.model import errors
from opentalos.model.errors import OutcomeUnknown, ThrottleRejected
from opentalos.model.message import MessageBlock, OffsetRange, ProducerStamp
from opentalos.sdk.aio.connection.caller import CLOCK_CORRECTIONS_MAX
from opentalos.sdk.aio.connection.client import TOPIC_AGE_S_MAX, Client
from opentalos.sdk.aio.producer.simple_producer import SimpleProducer
from opentalos.sdk.core.operation import Reply
from opentalos.sdk.errors import ClientClosed, NoReply, PositionExpired
from opentalos.wire._generated import message, topic
from opentalos.wire._generated.topic import TOPIC_SERVICE
from opentalos.wire.signing import MAC_BODY_BYTES_MIN

BLOCK = MessageBlock(b"payload", 1)
STAMP = ProducerStamp(7, 0, 0)
NOW_S = 1_700_000_000
SKEWED_BODY = b"the request's clock is off"


@pytest.fixture
def servers() -> FakeServers:
    found = FakeServers()
    found.on(S1, "getScheduleInfo", schedule(S1, S2))
    return found


def skewed(timestamp: str | None) -> Reply:
    headers = {"Content-Type": "text/plain"}
    return Reply(
        412, headers | ({"X-Xiaomi-Timestamp": timestamp} if timestamp else {}), SKEWED_BODY
    )


# --- retries ---------------------------------------------------------------------------------


def test_what_is_not_done_for_now_is_tried_until_it_is_done(servers: FakeServers) -> None:
    servers.on(S1, "putMessage", in_turn(*[raises(ThrottleRejected("x"))] * 5, stored))
    run(client_of(servers).put(TOPIC, 0, BLOCK))
    assert servers.count("putMessage") == 6


def test_an_operation_ends_at_its_deadline(servers: FakeServers) -> None:
    servers.on(S1, "putMessage", raises(ThrottleRejected("too much")))

    async def scenario() -> float:
        start_s = asyncio.get_running_loop().time()
        with pytest.raises(ThrottleRejected, match="too much"):
            await client_of(servers).put(TOPIC, 0, BLOCK, deadline_s=7.0)
        return asyncio.get_running_loop().time() - start_s

    assert run(scenario()) <= 7.0
    assert servers.count("putMessage") > 3


def test_a_put_with_an_unknown_outcome_is_sent_once(servers: FakeServers) -> None:
    servers.on(S1, "putMessage", raises(NoReply("cut")))
    with pytest.raises(OutcomeUnknown, match="cut"):
        run(client_of(servers).put(TOPIC, 0, BLOCK))
    assert servers.count("putMessage") == 1


def test_an_idempotent_put_is_repeated_after_an_unknown_outcome(servers: FakeServers) -> None:
    servers.on(S1, "putMessage", in_turn(raises(NoReply("cut")), stored))
    run(client_of(servers).put(TOPIC, 0, BLOCK, stamp=STAMP))
    assert servers.count("putMessage", S1) == 2


def test_an_idempotent_put_says_when_it_may_be_stored_already(servers: FakeServers) -> None:
    said: list[tuple[int | None, int | None, int | None, bool]] = []

    def noted(then: Any) -> Any:
        def answer(put: message.PutMessageRequest) -> Any:
            stamp = put.producerId, put.producerEpoch, put.firstSequence, bool(put.repeated)
            said.append(stamp)
            return then(put)

        return answer

    answers = raises(ThrottleRejected("later")), raises(NoReply("cut")), stored
    servers.on(S1, "putMessage", in_turn(*map(noted, answers)))
    run(client_of(servers).put(TOPIC, 0, BLOCK, stamp=STAMP))
    assert said == [(7, 0, 0, False), (7, 0, 0, False), (7, 0, 0, True)]


def test_an_idempotent_put_never_turns_from_unknown_to_not_done(servers: FakeServers) -> None:
    denied = raises(errors.PermissionDenied("revoked"))
    servers.on(S1, "putMessage", in_turn(raises(NoReply("cut")), denied))
    with pytest.raises(OutcomeUnknown, match="cut; then PermissionDenied: revoked"):
        run(client_of(servers).put(TOPIC, 0, BLOCK, stamp=STAMP))


def test_a_read_is_repeated_after_an_unknown_outcome(servers: FakeServers) -> None:
    def found(_: Any) -> message.GetMessageResponse:
        return message.GetMessageResponse(messageBlocks=[], messageNumber=0, sequenceId="x")

    servers.on(
        S1, "getMessage", in_turn(raises(NoReply("cut")), raises(OutcomeUnknown("?")), found)
    )
    reply = run(client_of(servers).fetch(TOPIC, 0, 0, messages_max=1, bytes_max=1))
    assert reply == ([], 0)


def test_an_administrative_write_with_an_unknown_outcome_is_sent_once(
    servers: FakeServers,
) -> None:
    servers.on(S1, "deleteTopic", raises(NoReply("cut")))
    name = topic.TopicTalosResourceName(topicTalosResourceName=TOPIC.resource)
    request = topic.DeleteTopicRequest(topicTalosResourceName=name)
    with pytest.raises(OutcomeUnknown):
        run(client_of(servers).call(TOPIC_SERVICE, "deleteTopic", request))
    assert servers.count("deleteTopic") == 1


@pytest.mark.parametrize(
    "reply",
    [
        Reply(200, {"Content-Type": "text/html"}, b"<html>"),
        Reply(200, {"Content-Type": "application/x-thrift-compact"}, b"\x82\x41\x01"),
        Reply(200, {}, b""),
        Reply(500, {"Content-Type": "text/plain"}, b"internal error, request 5"),
    ],
)
def test_a_reply_that_is_none_leaves_a_put_unknown(servers: FakeServers, reply: Reply) -> None:
    async def scenario() -> None:
        client = client_of(servers, direct=False)
        servers.raw.append(reply)
        await client.put(TOPIC, 0, BLOCK)

    with pytest.raises(OutcomeUnknown):
        run(scenario())
    assert servers.count("putMessage") == 1


# --- clock -----------------------------------------------------------------------------------


def times_of(servers: FakeServers) -> list[int]:
    return [int(headers["x-xiaomi-timestamp"]) for headers in servers.headers]


def test_a_wrong_clock_is_corrected_by_the_servers(servers: FakeServers) -> None:
    servers.on(S1, "putMessage", stored)

    async def scenario() -> None:
        client = client_of(servers, direct=False)
        servers.raw.append(skewed(str(NOW_S + 5_000)))
        await client.put(TOPIC, 0, BLOCK)
        await client.put(TOPIC, 0, BLOCK)
        assert client.now_ms() == (NOW_S + 5_000) * 1000

    run(scenario())
    assert times_of(servers) == [NOW_S, NOW_S + 5_000, NOW_S + 5_000]


def test_a_clock_that_jumps_later_is_corrected_again(servers: FakeServers) -> None:
    servers.on(S1, "putMessage", stored)
    wall_s = [float(NOW_S)]

    async def scenario() -> None:
        client = connect(Client(config(direct=False), wall_s=lambda: wall_s[0]), servers)
        servers.raw.append(skewed(str(NOW_S + 5_000)))
        await client.put(TOPIC, 0, BLOCK)
        wall_s[0] += 5_000  # the clock is corrected
        servers.raw.append(skewed(str(NOW_S + 5_000)))
        await client.put(TOPIC, 0, BLOCK)

    run(scenario())
    assert times_of(servers)[-1] == NOW_S + 5_000


@pytest.mark.parametrize("timestamp", [None, "soon", "-5", "9" * 40])
def test_a_refusal_without_a_valid_time_is_final(
    servers: FakeServers, timestamp: str | None
) -> None:
    async def scenario() -> None:
        client = client_of(servers, direct=False)
        servers.raw.append(skewed(timestamp))
        await client.put(TOPIC, 0, BLOCK)

    with pytest.raises(errors.ClockSkewed):
        run(scenario())
    assert servers.count("putMessage") == 1


def test_corrections_are_bounded(servers: FakeServers) -> None:
    async def scenario() -> None:
        client = client_of(servers, direct=False)
        servers.raw += [skewed(str(NOW_S + number)) for number in range(20)]
        await client.put(TOPIC, 0, BLOCK)

    with pytest.raises(errors.ClockSkewed):
        run(scenario())
    assert servers.count("putMessage") == 1 + CLOCK_CORRECTIONS_MAX


# --- topics and offsets ----------------------------------------------------------------------


def attributes(resource: str, partitions: int, old: int | None = None) -> Any:
    name = topic.TopicTalosResourceName(topicTalosResourceName=resource)
    attribute = topic.TopicAttribute(partitionNumber=partitions, oldPartitionNumber=old)
    return topic.GetTopicAttributeResponse(topicTalosResourceName=name, topicAttribute=attribute)


def test_a_topic_is_cached_until_it_is_requested_again(servers: FakeServers) -> None:
    answers = [attributes("root#demo#0a", 2), attributes("root#demo#0b", 4)]
    servers.on(S1, "getTopicAttribute", lambda _: answers.pop(0))

    async def scenario() -> None:
        client = client_of(servers)
        first = await client.topic("org/demo")
        assert (first.name, first.partitions, first.consumer_partitions) == ("demo", 2, 2)
        assert await client.topic("org/demo") is first
        assert (await client.topic("org/demo", refresh=True)).resource == "root#demo#0b"

    run(scenario())


def test_consumers_see_the_partitions_that_a_shrink_drains(servers: FakeServers) -> None:
    name = topic.TopicTalosResourceName(topicTalosResourceName="root#demo#0a")
    info = topic.GetDescribeInfoResponse(topicTalosResourceName=name, partitionNumber=4)
    servers.on(S1, "getTopicAttribute", lambda _: attributes("root#demo#0a", 2, old=4))
    servers.on(S1, "getDescribeInfo", lambda _: info)
    found = run(client_of(servers).topic("demo"))
    assert (found.partitions, found.consumer_partitions) == (2, 4)


def test_a_remembered_topic_is_asked_for_again_after_a_while(servers: FakeServers) -> None:
    answers = [attributes("root#demo#0a", 2), attributes("root#demo#0a", 4)]
    servers.on(S1, "getTopicAttribute", lambda _: answers.pop(0))

    async def scenario() -> None:
        client = client_of(servers)
        await client.topic("demo")
        await asyncio.sleep(TOPIC_AGE_S_MAX - 1)
        assert (await client.topic("demo")).partitions == 2
        await asyncio.sleep(2)
        assert (await client.topic("demo")).partitions == 4

    run(scenario())


@pytest.mark.parametrize("kind", [errors.TopicNotExist, errors.PartitionNotExist])
def test_a_topic_that_a_server_does_not_know_is_forgotten(
    servers: FakeServers, kind: type[errors.NothingThere]
) -> None:
    answers = [attributes("root#demo#0a", 2), attributes("root#demo#0b", 1)]
    servers.on(S1, "getTopicAttribute", lambda _: answers.pop(0))
    servers.on(S1, "getMessage", raises(kind("gone")))

    async def scenario() -> None:
        client = client_of(servers)
        ref = await client.topic("demo")
        with pytest.raises(kind):
            await client.fetch(ref, 0, 0, messages_max=1, bytes_max=1)
        assert (await client.topic("demo")).resource == "root#demo#0b"

    run(scenario())


def test_a_put_follows_a_topic_that_shrank(servers: FakeServers) -> None:
    answers = [attributes("root#demo#0a", 3), attributes("root#demo#0a", 1)]
    servers.on(S1, "getTopicAttribute", lambda _: answers.pop(0))

    def put(request: message.PutMessageRequest) -> Any:
        if request.topicAndPartition.partitionId > 0:
            raise errors.PartitionNotExist("shrunk")
        return stored(request)

    servers.on(S1, "putMessage", put)

    async def scenario() -> None:
        client = client_of(servers, direct=False)
        producer = SimpleProducer(client, "demo", idempotent=False)
        for _ in range(4):
            await producer.put([b"x"])
        with pytest.raises(errors.PartitionNotExist):
            await producer.put([b"x"], partition=2)

    answers.append(attributes("root#demo#0a", 1))
    run(scenario())


def test_calls_under_way_are_bounded(servers: FakeServers, monkeypatch: Any) -> None:
    monkeypatch.setattr("opentalos.sdk.aio.connection.caller.CALLS_MAX", 3)
    servers.on(S1, "putMessage", stored)

    async def scenario() -> list[Any]:
        client = client_of(servers, direct=False)
        calls = [client.put(TOPIC, 0, BLOCK) for _ in range(5)]
        found = await asyncio.gather(*calls, return_exceptions=True)
        await client.put(TOPIC, 0, BLOCK)
        return found

    found = run(scenario())
    assert [isinstance(item, errors.ExcessivePending) for item in found] == [False] * 3 + [True] * 2


def offsets(*infos: message.OffsetInfo) -> Any:
    return message.GetPartitionsOffsetResponse(offsetInfoList=list(infos))


def test_a_position_that_is_not_retained_names_what_is(servers: FakeServers) -> None:
    servers.on(S1, "getMessage", raises(errors.OffsetOutOfRange("x")))
    retained = message.OffsetInfo(partitionId=0, startOffset=5, endOffset=9)
    servers.on(S1, "getPartitionsOffset", lambda _: offsets(retained))
    with pytest.raises(PositionExpired, match=r"offset 3 of demo\[0\]") as failure:
        run(client_of(servers).fetch(TOPIC, 0, 3, messages_max=1, bytes_max=1))
    assert failure.value.retained == OffsetRange(5, 10)


def test_an_error_of_one_partition_is_retried_or_raised(servers: FakeServers) -> None:
    good = message.OffsetInfo(partitionId=0, startOffset=0, endOffset=-1)
    later = message.OffsetInfo(partitionId=1, errorCode=21, errorMsg="opening")
    done = message.OffsetInfo(partitionId=1, startOffset=2, endOffset=7)
    answers = [offsets(good, later), offsets(good, done)]
    servers.on(S1, "getPartitionsOffset", lambda _: answers.pop(0))
    found = run(client_of(servers).offsets(TOPIC, [0, 1]))
    assert found == {0: OffsetRange(0, 0), 1: OffsetRange(2, 8)}
    wrong = message.OffsetInfo(partitionId=9, errorCode=22, errorMsg="no such partition")
    servers.on(S1, "getPartitionsOffset", lambda _: offsets(wrong))
    with pytest.raises(errors.PartitionNotExist):
        run(client_of(servers).offsets(TOPIC, [9]))


# --- ends ------------------------------------------------------------------------------------


def test_a_closed_client_refuses(servers: FakeServers) -> None:
    async def scenario() -> None:
        client = client_of(servers)
        await client.close()
        await client.put(TOPIC, 0, BLOCK)

    with pytest.raises(ClientClosed):
        run(scenario())
    assert servers.requests == []


def test_a_client_belongs_to_one_loop(servers: FakeServers) -> None:
    servers.on(S1, "putMessage", stored)
    client = client_of(servers)
    run(client.put(TOPIC, 0, BLOCK))
    with pytest.raises(RuntimeError, match="loop"):
        run(client.put(TOPIC, 0, BLOCK))


def test_every_request_has_an_id_of_its_own(servers: FakeServers) -> None:
    servers.on(S1, "putMessage", in_turn(*[raises(ThrottleRejected("x"))] * 3, stored))
    run(client_of(servers, direct=False).put(TOPIC, 0, BLOCK))
    ids = [headers["x-xiaomi-request-id"] for headers in servers.headers]
    assert len(set(ids)) == len(ids) == 4


# --- the MAC of large bodies -------------------------------------------------------------------

LARGE = MessageBlock(b"x" * MAC_BODY_BYTES_MIN, 1)
OFFER = {"X-OpenTalos-Content-MAC": "poly1305"}


def _kinds(servers: FakeServers) -> list[str]:
    """How each put covered its body."""
    sent = zip(servers.requests, servers.headers, strict=True)
    puts = [headers for (_, rpc), headers in sent if rpc == "putMessage"]
    return ["mac" if "x-xiaomi-content-poly1305" in headers else "md5" for headers in puts]


def test_large_bodies_have_a_mac_once_the_server_offers_it(servers: FakeServers) -> None:
    servers.on(S1, "putMessage", stored)
    servers.reply_headers = OFFER

    async def scenario() -> None:
        client = client_of(servers)
        for block in (BLOCK, LARGE, LARGE, BLOCK):
            await client.put(TOPIC, 0, block)

    run(scenario())
    assert _kinds(servers) == ["md5", "md5", "mac", "md5"]


def test_a_server_that_offers_no_mac_gets_none(servers: FakeServers) -> None:
    servers.on(S1, "putMessage", stored)

    async def scenario() -> None:
        client = client_of(servers)
        for _ in range(3):
            await client.put(TOPIC, 0, LARGE)

    run(scenario())
    assert _kinds(servers) == ["md5"] * 3


def test_a_refused_mac_costs_one_request_and_is_not_tried_again(servers: FakeServers) -> None:
    """For example an older server that passes requests on to a newer one."""
    answers = in_turn(stored, raises(errors.InvalidCredential("MD5")), stored)
    servers.on(S1, "putMessage", answers)
    servers.reply_headers = OFFER

    async def scenario() -> None:
        client = client_of(servers)
        for _ in range(4):
            await client.put(TOPIC, 0, LARGE)

    run(scenario())
    assert _kinds(servers) == ["md5", "mac", "md5", "md5", "md5"]


def test_a_wrong_secret_is_reported_after_a_refused_mac(servers: FakeServers) -> None:
    servers.on(S1, "putMessage", in_turn(stored, raises(errors.InvalidCredential("wrong"))))
    servers.reply_headers = OFFER

    async def scenario() -> None:
        client = client_of(servers)
        await client.put(TOPIC, 0, LARGE)
        with pytest.raises(errors.InvalidCredential, match="wrong"):
            await client.put(TOPIC, 0, LARGE)

    run(scenario())
    assert _kinds(servers) == ["md5", "mac", "md5"]
