"""Requests for another server: what is forwarded, the answer, and the error without one."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from tests.unit.gateway.thrift_http.test_gateway import (
    ALICE,
    COMPACT,
    MESSAGE,
    Connection,
    Messages,
    get_body,
    put_body,
    result,
    target,
)

from opentalos.broker.long_work import LongWork
from opentalos.gateway.http.exchange import Exchange
from opentalos.gateway.peer.forwarding import Forwarding
from opentalos.gateway.thrift_http.gateway import ThriftGateway
from opentalos.model.errors import (
    InvalidCredential,
    NotOwner,
    OutcomeUnknown,
    PartitionNotServing,
    StoreUnavailable,
    TalosError,
    TopicNotExist,
)
from opentalos.ports.peers import Forwarded, Reply
from opentalos.wire._generated.common import ErrorCode
from opentalos.wire._generated.message import DeleteMessageIndexRequest
from opentalos.wire.peer_proof import TRANSFER
from opentalos.wire.thrift import encode_call

ELSEWHERE = NotOwner("served by s2", "10.0.0.2:9420", "uuid")
REPLY = Reply(
    400,
    (
        (b"Content-Type", b"application/x-thrift-compact"),
        (b"Content-Length", b"8"),
        (b"Date", b"then"),
        (b"X-More", b"1"),
    ),
    b"verbatim",
)
DRAIN_S = 5.0


class Peers:
    """Keeps what is forwarded; answers or fails as a test says."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, Forwarded]] = []
        self.reply: Reply | TalosError = REPLY

    async def forward(self, address: str, request: Forwarded) -> Reply:
        self.sent.append((address, request))
        if isinstance(self.reply, TalosError):
            raise self.reply
        return self.reply


class Bench:
    """A gateway in a cluster; ``proof`` says whether forwarded requests prove themselves."""

    def __init__(self) -> None:
        self.messages, self.peers = Messages(), Peers()
        self.handlers: dict[str, dict[str, Any]] = {"MessageService": {}, "ConsumerService": {}}
        self.proof, self.authentications = True, 0
        self.caught_up: list[str] = []
        self.on_catch_up: Callable[[], None] = lambda: None
        proofs: Any = SimpleNamespace(transfer=self._transfer, refused=0)
        ownership: Any = SimpleNamespace(catch_up=self._catch_up)
        peers: Any = self.peers
        self.forwarding = Forwarding(peers, proofs, ownership)
        broker: Any = SimpleNamespace(messages=self.messages, work=LongWork(None, waiting_max=8))
        authenticator: Any = SimpleNamespace(caller=self._caller)
        self.gateway = ThriftGateway(broker, authenticator, self.handlers, self.forwarding)

    def _transfer(self, exchange: Exchange) -> None:
        if not self.proof:
            raise InvalidCredential("no valid proof")
        exchange.forwarder, exchange.client = "s3", "10.0.0.9"

    def _caller(self, exchange: Exchange) -> Any:
        self.authentications += 1
        return ALICE

    async def _catch_up(self, topic_uuid: str) -> None:
        self.caught_up.append(topic_uuid)
        self.on_catch_up()

    def send(self, body: bytes, *, transferred: bool = False) -> tuple[Exchange, Connection]:
        connection = Connection()
        stand_in: Any = connection
        headers = {b"content-type": b"application/x-thrift-compact", b"x-a": b"1"}
        if transferred:
            headers[TRANSFER] = b"proof"
        exchange = Exchange(stand_in, b"POST", b"/v1/api/message?id=0a", headers)
        exchange.body = body
        self.gateway.routes()[b"/v1/api/message"](exchange)
        return exchange, connection

    async def reply(self, body: bytes, *, transferred: bool = False) -> Any:
        """The one reply to a request, however long it takes."""
        _, connection = self.send(body, transferred=transferred)
        await self.gateway.drain(DRAIN_S)
        (reply,) = connection.replies
        return reply


def index_body() -> bytes:
    request = DeleteMessageIndexRequest(topicAndPartition=target(), startOffset=0, endOffset=1)
    return encode_call(COMPACT, MESSAGE.methods["deleteMessageIndex"], 9, request)


def code_of(reply: Any) -> int:
    return int(result(reply, "putMessage").error.errorCode)


@pytest.mark.parametrize("body", [put_body(), get_body()], ids=["put", "get"])
async def test_a_request_for_another_server_is_forwarded_as_it_came(body: bytes) -> None:
    bench = Bench()
    bench.messages.error = ELSEWHERE
    reply = await bench.reply(body)
    ((address, request),) = bench.peers.sent
    assert address == "10.0.0.2:9420"
    assert request.target == b"/v1/api/message?id=0a"
    assert (request.method, request.body, request.peer) == (b"POST", body, "10.0.0.1")
    assert request.headers[b"x-a"] == b"1"
    assert (reply.status, reply.body, reply.extra) == (400, b"verbatim", b"X-More: 1\r\n")
    assert reply.content_type == b"application/x-thrift-compact"
    counters = bench.forwarding.counters()
    assert (counters["requests"], counters["failures"]) == (1, 0)
    assert (counters["bytes_out"], counters["bytes_in"]) == (len(body), 8)


async def test_a_put_that_waits_while_its_partition_moves_is_forwarded() -> None:
    bench = Bench()
    _, connection = bench.send(put_body())
    assert connection.replies == []
    bench.messages.waiters[0](-1, ELSEWHERE)
    await bench.gateway.drain(DRAIN_S)
    assert [reply.body for reply in connection.replies] == [b"verbatim"]


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (StoreUnavailable("cannot reach"), ErrorCode.PARTITION_NOT_SERVING),
        (OutcomeUnknown("no reply"), ErrorCode.UNEXPECTED_ERROR),
        (Reply(503, ((b"Content-Type", b"text/plain"),), b"starting"), 21),
        (Reply(403, (), b"no proof"), 21),
    ],
)
async def test_not_sent_is_not_done_and_sent_without_answer_is_unknown(
    failure: Any, code: int
) -> None:
    bench = Bench()
    bench.messages.error = ELSEWHERE
    bench.peers.reply = failure
    reply = await bench.reply(put_body())
    assert code_of(reply) == code
    assert bench.forwarding.counters()["failures"] == 1


@pytest.mark.parametrize("error", [NotOwner("owner unknown"), PartitionNotServing("opening")])
async def test_without_an_address_nothing_is_forwarded(error: TalosError) -> None:
    bench = Bench()
    bench.messages.error = error
    reply = await bench.reply(put_body())
    assert code_of(reply) == 21
    assert bench.peers.sent == []


async def test_a_forwarded_request_is_never_forwarded_again() -> None:
    bench = Bench()
    bench.messages.error = ELSEWHERE
    reply = await bench.reply(put_body(), transferred=True)
    assert code_of(reply) == 21
    assert bench.caught_up == ["uuid"]
    assert bench.peers.sent == []
    assert bench.authentications == 1


async def test_a_forwarded_put_is_run_again_once_this_server_knows_better() -> None:
    bench = Bench()
    bench.messages.error = ELSEWHERE

    def owns() -> None:
        bench.messages.error = None
        asyncio.get_running_loop().call_soon(lambda: bench.messages.waiters[0](5, None))

    bench.on_catch_up = owns
    reply = await bench.reply(put_body(), transferred=True)
    assert result(reply, "putMessage").result.isTransfer is True
    assert (len(bench.messages.puts), bench.authentications) == (1, 1)
    assert bench.forwarding.counters()["received"] == 1


async def test_a_forwarded_request_says_so_in_its_reply_and_a_direct_one_does_not() -> None:
    bench = Bench()
    for transferred in (True, False):
        _, connection = bench.send(put_body(), transferred=transferred)
        bench.messages.waiters.pop()(5, None)
        (reply,) = connection.replies
        assert bool(result(reply, "putMessage").result.isTransfer) is transferred


async def test_without_a_valid_proof_no_caller_is_looked_up() -> None:
    bench = Bench()
    bench.proof = False
    reply = await bench.reply(put_body(), transferred=True)
    assert reply.status == 403
    assert bench.authentications == 0


async def test_a_topic_that_only_the_forwarder_knows_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("opentalos.gateway.peer.forwarding.TOPIC_LOOK_S", 0.0)
    bench = Bench()
    seen: list[int] = []

    async def known_late(*_: Any) -> Any:
        seen.append(1)
        if len(seen) < 3:
            raise TopicNotExist("not yet")

    bench.handlers["MessageService"]["deleteMessageIndex"] = known_late
    reply = await bench.reply(index_body(), transferred=True)
    assert (reply.status, len(seen)) == (200, 3)

    async def missing(*_: Any) -> Any:
        raise TopicNotExist("not yet")

    bench.handlers["MessageService"]["deleteMessageIndex"] = missing
    reply = await bench.reply(index_body(), transferred=True)
    assert b"does not know the topic" in reply.body


async def test_a_handlers_request_is_forwarded_and_knows_its_client() -> None:
    bench = Bench()
    contexts: list[Any] = []

    async def handle(_: Any, __: Any, ___: Any, context: Any) -> Any:
        contexts.append(context)
        if not context.transferred:
            raise ELSEWHERE

    bench.handlers["MessageService"]["deleteMessageIndex"] = handle
    assert (await bench.reply(index_body())).body == b"verbatim"
    assert (await bench.reply(index_body(), transferred=True)).status == 200
    assert [context.peer for context in contexts] == ["10.0.0.1", "10.0.0.9"]


async def test_the_principal_of_a_certificate_goes_with_the_request() -> None:
    bench = Bench()

    def certified(exchange: Exchange) -> Any:
        exchange.named = "alice"
        return ALICE

    bench.gateway._authenticator.caller = certified  # type: ignore[method-assign]

    async def handle(*_: Any) -> Any:
        raise ELSEWHERE

    bench.handlers["MessageService"]["deleteMessageIndex"] = handle
    await bench.reply(index_body())
    assert bench.peers.sent[0][1].peer == "10.0.0.1 alice"
