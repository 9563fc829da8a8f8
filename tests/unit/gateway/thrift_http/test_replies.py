"""Large calls and replies: in pieces, with the same replies as small ones."""

import asyncio
from typing import Any

import pytest
from tests.unit.gateway.thrift_http.test_gateway import (
    COMPACT,
    DRAIN_S,
    MESSAGE,
    Bench,
    result,
    target,
)

from opentalos.gateway.thrift_http.handlers.context import CallContext
from opentalos.model.errors import OutcomeUnknown
from opentalos.model.identity import Principal
from opentalos.wire._generated import message as wire_message
from opentalos.wire._generated.common import ErrorCode
from opentalos.wire._generated.talos import SERVICES
from opentalos.wire._generated.topic import ListTopicsResponse, TopicInfo
from opentalos.wire.thrift import ThriftProtocol, decode_reply, encode_call
from opentalos.wire.thrift.spec import (
    STRING,
    Field,
    MethodSpec,
    ThriftStruct,
    struct_of,
    struct_spec,
)


class Older(ThriftStruct, kw_only=True):
    """CreateReplicationTopicRequest of talos-python3 3.1.8, whose field 2 is no list."""

    topicName: str
    sourceClusterList: str | None = None


Older.SPEC = struct_spec(
    Older, Field(1, "topicName", STRING), Field(2, "sourceClusterList", STRING)
)
TOPICS = SERVICES["TopicService"]


@pytest.fixture
def bench() -> Bench:
    return Bench()


def large_put(protocol: ThriftProtocol) -> bytes:
    """A put that takes long to decode."""
    block = wire_message.MessageBlock(
        startMessageOffset=0, messageNumber=2, messageBlock=b"x", createTimestampList=[5] * 10_000
    )  # fmt: skip
    request = wire_message.PutMessageRequest(
        topicAndPartition=target(), messageBlocks=[block], messageNumber=2, sequenceId="c#1"
    )
    return encode_call(protocol, MESSAGE.methods["putMessage"], 9, request)


@pytest.mark.parametrize("protocol", ThriftProtocol)
async def test_a_large_call_is_decoded_in_pieces_before_its_handler_runs(
    bench: Bench, protocol: ThriftProtocol
) -> None:
    async def handler(broker: Any, caller: Principal, request: Any, _: CallContext) -> Any:
        assert len(request.messageBlocks[0].createTimestampList) == 10_000
        return wire_message.PutMessageResponse(sequenceId=request.sequenceId)

    bench.handlers["MessageService"]["putMessage"] = handler
    content_type = protocol.value.encode()
    reply = await bench.call(large_put(protocol), content_type=content_type)
    assert (reply.status, reply.content_type) == (200, content_type)
    assert result(reply, "putMessage", protocol).result.sequenceId == "c#1"
    assert bench.work.counters.turns == 1
    assert bench.work.counters.pauses > 5


async def test_a_large_call_that_is_late_gets_its_exception_and_does_nothing(bench: Bench) -> None:
    ran: list[Any] = []
    bench.handlers["MessageService"]["putMessage"] = lambda *_: ran.append(1)
    async with bench.work.turn("a"), bench.work.turn("b"):
        exchange, connection = bench.send(large_put(COMPACT))
        await asyncio.sleep(0)
        assert exchange.late is not None
        exchange.late(OutcomeUnknown("timeout: outcome unknown"))
    await bench.gateway.drain(DRAIN_S)
    (reply,) = connection.replies
    assert reply.status == 200
    assert result(reply, "putMessage").error.errorCode == ErrorCode.UNEXPECTED_ERROR
    assert ran == []


async def test_a_large_call_that_cannot_be_read_is_refused_as_a_small_one(bench: Bench) -> None:
    bench.handlers["MessageService"]["putMessage"] = lambda *_: None
    for bad in (large_put(COMPACT)[:-1], large_put(COMPACT) + b"x"):
        assert (await bench.call(bad)).status == 400
    assert bench.gateway.failures == 2


@pytest.mark.parametrize("protocol", ThriftProtocol)
@pytest.mark.parametrize(
    ("request_", "why"),
    [
        (Older(topicName="t", sourceClusterList="c"), "sourceTopicInfoList of Create"),
        (Older(topicName="t"), "required field sourceTopicInfoList"),
    ],
    ids=["type", "missing"],
)
async def test_a_call_of_other_definitions_gets_the_exception_that_its_method_declares(
    bench: Bench, protocol: ThriftProtocol, request_: Older, why: str
) -> None:
    """Clients show it with its text; another status than 200 is a lost call to them."""
    ran: list[Any] = []
    bench.handlers["TopicService"]["createReplicationTopic"] = lambda *_: ran.append(1)
    older = MethodSpec(
        "createReplicationTopic", (Field(1, "request", struct_of(Older)),), None, None
    )
    body = encode_call(protocol, older, 9, request_)
    content_type = protocol.value.encode()
    reply = await bench.call(body, path=TOPICS.path.encode(), content_type=content_type)
    method = TOPICS.methods["createReplicationTopic"]
    error: Any = decode_reply(protocol, method, reply.body).error
    assert (reply.status, error.errorCode) == (200, ErrorCode.BAD_REQUEST)
    assert why in error.errMsg
    assert (ran, bench.gateway.failures) == ([], 1)


async def test_a_large_reply_is_encoded_in_pieces(bench: Bench) -> None:
    info = TopicInfo(
        topicName="t", topicTalosResourceName=target().topicTalosResourceName, ownerId="alice"
    )

    async def handler(*_: Any) -> Any:
        return ListTopicsResponse(topicInfos=[info] * 5_000)

    bench.handlers["TopicService"]["listTopics"] = handler
    body = encode_call(COMPACT, TOPICS.methods["listTopics"], 9)
    reply = await bench.call(body, path=TOPICS.path.encode())
    decoded: Any = decode_reply(COMPACT, TOPICS.methods["listTopics"], reply.body)
    assert len(decoded.result.topicInfos) == 5_000
    assert bench.work.counters.turns == 1
    assert bench.work.counters.pauses > 5
