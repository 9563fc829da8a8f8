"""Calls through the gateway: forms of replies, hot path, refusals. The broker is a stand-in."""

import asyncio
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opentalos.broker.long_work import LongWork
from opentalos.broker.messaging.messages import GetQuery, GetResult, Target
from opentalos.gateway.http.exchange import Exchange
from opentalos.gateway.thrift_http.authentication import DigestNeeded
from opentalos.gateway.thrift_http.gateway import ADMIN_BODY_BYTES_MAX, ThriftGateway
from opentalos.gateway.thrift_http.handlers.context import CallContext
from opentalos.model.errors import (
    ClockSkewed,
    InvalidCredential,
    OffsetOutOfRange,
    OutcomeUnknown,
    PartitionNotServing,
    TalosError,
    TopicNotExist,
)
from opentalos.model.identity import Principal
from opentalos.model.message import MessageBlock, StoredBlock
from opentalos.wire._generated import message as wire_message
from opentalos.wire._generated.common import ErrorCode, Version
from opentalos.wire._generated.talos import SERVICES
from opentalos.wire._generated.topic import TopicAndPartition, TopicTalosResourceName
from opentalos.wire.signing import md5_of
from opentalos.wire.thrift import ApplicationError, ThriftProtocol, decode_reply, encode_call

ALICE = Principal(id="alice", number=7)
MESSAGE = SERVICES["MessageService"]
COMPACT = ThriftProtocol.COMPACT
DRAIN_S = 5.0


class Messages:
    """Keeps puts with their waiters; raises or returns what a test sets."""

    def __init__(self) -> None:
        self.puts: list[tuple[Target, Sequence[MessageBlock]]] = []
        self.waiters: list[Callable[[int, TalosError | None], None]] = []
        self.error: TalosError | None = None
        self.cached: GetResult | None = None
        self.later: GetResult | None = None

    def put(self, caller: Principal, target: Any, blocks: Any, waiter: Any) -> None:
        assert caller is ALICE
        if self.error is not None:
            raise self.error
        self.puts.append((target, blocks))
        self.waiters.append(waiter)

    def get_cached(self, caller: Principal, query: GetQuery) -> GetResult | None:
        if self.error is not None:
            raise self.error
        return self.cached

    async def get(self, caller: Principal, query: GetQuery) -> GetResult:
        assert self.later is not None
        return self.later


class Reply:
    """The one reply of an exchange, split."""

    def __init__(self, prefix: bytes, body: bytes, extra: bytes) -> None:
        self.status = int(prefix.split()[1])
        self.content_type = prefix.split(b"Content-Type: ")[1].split(b"\r\n")[0]
        self.body, self.extra = body, extra


class Connection:
    """Takes the reply."""

    alive, peer, network = True, "10.0.0.1", "10.0.0.1"

    def __init__(self) -> None:
        self.replies: list[Reply] = []
        self.waiting = False  # for an event

    def answer(self, exchange: Exchange, prefix: bytes, body: bytes, extra: bytes) -> None:
        self.replies.append(Reply(prefix, body, extra))

    def waits(self) -> None:
        self.waiting = True

    def answer_chunks(self, exchange: Exchange, prefix: bytes, chunks: Sequence[bytes]) -> None:
        self.replies.append(Reply(prefix, b"".join(chunks), b""))


class Bench:
    """A gateway on stand-ins; ``caller`` may be an error to raise."""

    def __init__(self) -> None:
        self.messages = Messages()
        self.caller: Principal | TalosError = ALICE
        self.digests = False
        self.handlers: dict[str, dict[str, Any]] = {"MessageService": {}, "TopicService": {}}
        self.contexts: list[CallContext] = []
        self.work = LongWork(None, waiting_max=8)
        broker: Any = SimpleNamespace(messages=self.messages, work=self.work)
        authenticator: Any = SimpleNamespace(caller=self._caller)
        self.gateway = ThriftGateway(broker, authenticator, self.handlers)

    def _caller(self, exchange: Exchange) -> Principal:
        if self.digests and not exchange.body_md5:
            raise DigestNeeded("alice")
        if isinstance(self.caller, TalosError):
            raise self.caller
        return self.caller

    def send(
        self,
        body: bytes,
        path: bytes = b"/v1/api/message",
        content_type: bytes = b"application/x-thrift-compact",
        method: bytes = b"POST",
    ) -> tuple[Exchange, Connection]:
        connection = Connection()
        stand_in: Any = connection
        headers = {b"content-type": content_type}
        exchange = Exchange(stand_in, method, path + b"?id=0a&type=hint", headers)
        exchange.body = body
        self.gateway.routes()[path](exchange)
        return exchange, connection

    async def call(self, body: bytes, **more: Any) -> Reply:
        _, connection = self.send(body, **more)
        await self.gateway.drain(DRAIN_S)
        (reply,) = connection.replies
        return reply


@pytest.fixture
def bench() -> Bench:
    return Bench()


def target() -> TopicAndPartition:
    name = TopicTalosResourceName(topicTalosResourceName="alice#t#1")
    return TopicAndPartition(topicName="t", topicTalosResourceName=name, partitionId=3)


def put_body(protocol: ThriftProtocol = COMPACT) -> bytes:
    block = wire_message.MessageBlock(
        startMessageOffset=0, messageNumber=2, compressionType=0, messageBlock=b"payload",
        messageBlockSize=7, createTimestamp=5,
    )  # fmt: skip
    request = wire_message.PutMessageRequest(
        topicAndPartition=target(), messageBlocks=[block], messageNumber=2, sequenceId="c#1"
    )
    return encode_call(protocol, MESSAGE.methods["putMessage"], 9, request)


def get_body() -> bytes:
    request = wire_message.GetMessageRequest(
        topicAndPartition=target(), messageOffset=4, sequenceId="c#2"
    )
    return encode_call(COMPACT, MESSAGE.methods["getMessage"], 9, request)


def result(reply: Reply, method: str, protocol: ThriftProtocol = COMPACT) -> Any:
    decoded = decode_reply(protocol, MESSAGE.methods[method], reply.body)
    assert decoded.seqid == 9
    return decoded


def test_a_put_is_answered_when_its_waiter_says_durable(bench: Bench) -> None:
    _, connection = bench.send(put_body())
    ((to, blocks),) = bench.messages.puts
    assert (to.resource, to.partition, to.deadline_ms) == ("alice#t#1", 3, 0)
    assert [(b.payload, b.messages, b.principal) for b in blocks] == [(b"payload", 2, 7)]
    assert connection.replies == []
    bench.messages.waiters[0](5, None)
    (reply,) = connection.replies
    assert (reply.status, reply.content_type) == (200, b"application/x-thrift-compact")
    assert result(reply, "putMessage").result.sequenceId == "c#1"


@pytest.mark.parametrize("late", [False, True])
def test_a_put_that_fails_has_its_error_in_the_reply(bench: Bench, late: bool) -> None:
    if late:
        _, connection = bench.send(put_body())
        bench.messages.waiters[0](-1, TopicNotExist("gone"))
    else:
        bench.messages.error = TopicNotExist("gone")
        _, connection = bench.send(put_body())
    (reply,) = connection.replies
    assert reply.status == 200
    error = result(reply, "putMessage").error
    assert (error.errorCode, error.errMsg) == (ErrorCode.TOPIC_NOT_EXIST, "gone")


def test_a_put_that_takes_too_long_is_unknown_and_its_late_answer_ignored(bench: Bench) -> None:
    exchange, connection = bench.send(put_body())
    assert exchange.late is not None
    exchange.late(OutcomeUnknown("slow"))
    bench.messages.waiters[0](5, None)
    (reply,) = connection.replies
    assert result(reply, "putMessage").error.errorCode == ErrorCode.UNEXPECTED_ERROR


@pytest.mark.parametrize(
    ("error", "phrase"),
    [
        (OffsetOutOfRange("x"), b"Message out range"),
        (PartitionNotServing("x"), b"partition not serving error"),
    ],
)
def test_codes_14_and_21_go_out_as_400_with_the_phrase(
    bench: Bench, error: TalosError, phrase: bytes
) -> None:
    bench.messages.error = error
    _, connection = bench.send(get_body())
    (reply,) = connection.replies
    assert (reply.status, reply.content_type) == (400, b"application/x-thrift-compact")
    assert phrase in reply.body
    assert result(reply, "getMessage").error.errorCode in (14, 21)


async def test_a_get_is_answered_from_the_cache_or_later(bench: Bench) -> None:
    block = StoredBlock(4, 2, 77, 5, 0, 1, b"payload")
    answer = GetResult([block], 2, 6)
    for bench.messages.cached, bench.messages.later in ((answer, None), (None, answer)):
        reply = await bench.call(get_body())
        got = result(reply, "getMessage").result
        assert (got.messageNumber, got.unHandledMessageNumber) == (2, 6)
        assert got.messageBlocks[0].startMessageOffset == 4
        assert got.messageBlocks[0].messageBlock == b"payload"


async def test_a_get_that_takes_too_long_is_given_up(bench: Bench) -> None:
    ended: list[bool] = []

    async def hang(caller: Principal, query: GetQuery) -> GetResult:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)
        raise AssertionError

    bench.messages.get = hang  # type: ignore[method-assign]
    exchange, connection = bench.send(get_body())
    await asyncio.sleep(0)
    assert exchange.late is not None
    exchange.late(OutcomeUnknown("slow"))
    assert result(connection.replies[0], "getMessage").error.errorCode == ErrorCode.UNEXPECTED_ERROR
    await bench.gateway.drain(DRAIN_S)
    assert ended
    assert len(connection.replies) == 1


@pytest.mark.parametrize(
    ("method", "given_up"), [("getServiceVersion", True), ("putMessage", False)]
)
async def test_other_reads_are_given_up_and_writes_run_on(
    bench: Bench, method: str, given_up: bool
) -> None:
    release, ended = asyncio.Event(), list[bool]()

    async def handler(*_: Any) -> Any:
        try:
            await release.wait()
        finally:
            ended.append(release.is_set())
        return wire_message.PutMessageResponse(sequenceId="c#1")

    bench.handlers["MessageService"][method] = handler
    version = encode_call(COMPACT, MESSAGE.methods["getServiceVersion"], 9)
    binary = ThriftProtocol.BINARY
    exchange, connection = (
        bench.send(version)
        if given_up
        else bench.send(put_body(binary), content_type=binary.value.encode())
    )
    await asyncio.sleep(0)
    assert exchange.late is not None
    exchange.late(OutcomeUnknown("slow"))
    if not given_up:
        release.set()
    await bench.gateway.drain(DRAIN_S)
    assert ended == [not given_up]
    assert len(connection.replies) == 1


@pytest.mark.parametrize("protocol", [ThriftProtocol.BINARY, ThriftProtocol.JSON])
async def test_other_calls_run_their_handler_in_the_protocol_of_the_request(
    bench: Bench, protocol: ThriftProtocol
) -> None:
    async def handler(broker: Any, caller: Principal, request: Any, context: CallContext) -> Any:
        assert caller is ALICE
        bench.contexts.append(context)
        return wire_message.PutMessageResponse(sequenceId=request.sequenceId)

    bench.handlers["MessageService"]["putMessage"] = handler
    content_type = protocol.value.encode()
    reply = await bench.call(put_body(protocol), content_type=content_type)
    assert reply.content_type == content_type
    assert result(reply, "putMessage", protocol).result.sequenceId == "c#1"
    assert bench.contexts == [CallContext(peer="10.0.0.1", rpc_hint="hint")]


async def test_a_get_that_is_not_answered_at_once_waits_for_an_event(bench: Bench) -> None:
    bench.messages.later = GetResult([], 0, 0)
    _, connection = bench.send(get_body())
    assert connection.waiting
    await bench.gateway.drain(DRAIN_S)
    bench.messages.cached = GetResult([], 0, 0)
    _, connection = bench.send(get_body())
    assert not connection.waiting


async def test_the_json_alias_is_echoed(bench: Bench) -> None:
    body = encode_call(ThriftProtocol.JSON, MESSAGE.methods["getServiceVersion"], 9)
    reply = await bench.call(body, content_type=b"application/x-thrift")
    assert reply.content_type == b"application/x-thrift"


async def test_an_unexpected_error_is_a_500_with_a_number_and_one_log_line(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    async def handler(*_: Any) -> Version:
        raise RuntimeError("a secret detail")

    bench.handlers["MessageService"]["getServiceVersion"] = handler
    body = encode_call(COMPACT, MESSAGE.methods["getServiceVersion"], 9)
    reply = await bench.call(body)
    assert (reply.status, reply.body) == (500, b"internal error, request 0a-1\n")
    assert len(caplog.records) == 1


@pytest.mark.parametrize("body", [put_body(), get_body()])
async def test_an_unexpected_error_of_the_hot_path_is_the_same(
    bench: Bench, body: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    broken: Any = RuntimeError("a secret detail")
    bench.messages.error = broken
    reply = await bench.call(body)
    assert (reply.status, reply.body) == (500, b"internal error, request 0a-1\n")
    assert len(caplog.records) == 1


async def test_draining_ends_calls_that_hang(bench: Bench) -> None:
    ended = asyncio.Event()

    async def handler(*_: Any) -> Version:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        raise AssertionError

    bench.handlers["MessageService"]["getServiceVersion"] = handler
    bench.send(encode_call(COMPACT, MESSAGE.methods["getServiceVersion"], 9))
    await asyncio.sleep(0)
    await bench.gateway.drain(0.0)
    await asyncio.wait_for(ended.wait(), DRAIN_S)


async def test_an_error_of_a_handler_is_declared_in_the_reply(bench: Bench) -> None:
    async def handler(*_: Any) -> Version:
        raise TopicNotExist("gone")

    bench.handlers["MessageService"]["getServiceVersion"] = handler
    body = encode_call(COMPACT, MESSAGE.methods["getServiceVersion"], 9)
    error = result(await bench.call(body), "getServiceVersion").error
    assert error.errorCode == ErrorCode.TOPIC_NOT_EXIST


async def test_an_unknown_rpc_is_an_application_exception(bench: Bench) -> None:
    body = encode_call(COMPACT, SERVICES["TopicService"].methods["listTopics"], 9)
    reply = await bench.call(body)
    assert reply.status == 200
    with pytest.raises(ApplicationError):
        result(reply, "getServiceVersion")


@pytest.mark.parametrize(
    ("body", "content_type"),
    [(b"", b"application/x-thrift-compact"), (b"\x82\x21", b"application/x-thrift-compact"),
     (b"nonsense", b"application/x-thrift-json"), (put_body(), b"text/plain"), (put_body(), b""),
     (put_body()[:-9], b"application/x-thrift-compact")],
)  # fmt: skip
async def test_an_invalid_call_is_a_400_with_a_reason(
    bench: Bench, body: bytes, content_type: bytes
) -> None:
    reply = await bench.call(body, content_type=content_type)
    assert reply.status == 400
    assert reply.content_type.startswith(b"text/plain")
    assert reply.body.strip()


async def test_refused_callers_get_the_status_and_header_that_clients_need(bench: Bench) -> None:
    bench.caller = ClockSkewed("late")
    reply = await bench.call(put_body())
    assert reply.status == 412
    assert reply.extra.startswith(b"X-Xiaomi-Timestamp: ")
    bench.caller = InvalidCredential("who")
    reply = await bench.call(put_body())
    assert (reply.status, reply.body) == (401, b"who\n")


async def test_only_posts_of_a_sane_size_are_calls(bench: Bench) -> None:
    assert (await bench.call(put_body(), method=b"GET")).status == 400
    large = b"x" * (ADMIN_BODY_BYTES_MAX + 1)
    assert (await bench.call(large, path=b"/v1/api/topic")).status == 413


async def test_a_get_over_its_rate_is_answered_after_its_hold(bench: Bench) -> None:
    bench.messages.cached = GetResult([], 0, 0, hold_s=1e-9)
    _, connection = bench.send(get_body())
    assert connection.replies == []
    for _ in range(1000):
        await asyncio.sleep(0)
        if connection.replies:
            return
    raise AssertionError("no reply")


def damaged(whole: bytes) -> st.SearchStrategy[bytes]:
    """The body cut, with some bytes changed, or with bytes put in."""
    positions = st.integers(0, len(whole) - 1)
    changes = st.lists(st.tuples(positions, st.binary(max_size=3)), max_size=4)

    def build(drawn: tuple[int, list[tuple[int, bytes]]]) -> bytes:
        cut, edits = drawn
        body = whole
        for position, patch in edits:
            body = body[:position] + patch + body[position + 1 :]
        return body[:cut]

    return st.tuples(st.integers(0, len(whole) + 8), changes).map(build)


@settings(max_examples=200, deadline=None)
@given(
    body=st.one_of(st.binary(max_size=300), damaged(put_body()), damaged(get_body())),
    content_type=st.sampled_from([protocol.value.encode() for protocol in ThriftProtocol]),
)
async def test_any_body_gets_exactly_one_reply(body: bytes, content_type: bytes) -> None:
    bench = Bench()
    bench.messages.later = GetResult([], 0, 0)
    _, connection = bench.send(body, content_type=content_type)
    for waiter in bench.messages.waiters:
        waiter(5, None)
    await bench.gateway.drain(DRAIN_S)
    (reply,) = connection.replies
    assert reply.status in (200, 400)
    assert b"Traceback" not in reply.body


async def test_a_put_whose_digest_needs_a_thread_is_served_after_it(bench: Bench) -> None:
    bench.digests = True
    exchange, connection = bench.send(put_body())
    assert bench.messages.puts == []
    for _ in range(5):
        await asyncio.sleep(0)
    assert exchange.body_md5 == md5_of(put_body())
    bench.messages.waiters[0](5, None)
    assert [reply.status for reply in connection.replies] == [200]


async def test_a_client_that_leaves_before_its_digest_is_known_puts_nothing(bench: Bench) -> None:
    bench.digests = True
    exchange, connection = bench.send(put_body())
    assert exchange.late is not None
    exchange.late(OutcomeUnknown("the client disconnected"))
    for _ in range(5):
        await asyncio.sleep(0)
    assert (bench.messages.puts, len(connection.replies)) == ([], 1)


@pytest.mark.parametrize("protocol", ThriftProtocol)
async def test_a_put_that_is_late_before_its_digest_is_known_gets_its_exception(
    bench: Bench, protocol: ThriftProtocol
) -> None:
    bench.digests = True
    exchange, connection = bench.send(put_body(protocol), content_type=protocol.value.encode())
    assert exchange.late is not None
    exchange.late(OutcomeUnknown("timeout: outcome unknown"))
    (reply,) = connection.replies
    assert reply.status == 200
    assert "outcome unknown" in result(reply, "putMessage", protocol).error.errMsg
    await asyncio.sleep(0)
    bad, connection = bench.send(b"no call")
    assert bad.late is not None
    bad.late(OutcomeUnknown("timeout: outcome unknown"))
    assert [reply.status for reply in connection.replies] == [400]
