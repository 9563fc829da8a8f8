"""The peer protocol: servers of two versions understand each other."""

import asyncio
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from opentalos.broker.peer_rpc import calls
from opentalos.broker.peer_rpc.calls import CALLS, PARTITIONS, STATUS, STREAM_PUT, PeerCall
from opentalos.broker.peer_rpc.client import PeerTooOld, call_peer
from opentalos.broker.peer_rpc.codec import decode, encode
from opentalos.broker.peer_rpc.dispatch import PeerDispatch
from opentalos.broker.peer_rpc.messages import (
    Empty,
    MutationMessage,
    MutationsRequest,
    PartitionsRequest,
    StatusReply,
    StreamPutReply,
    StreamPutRequest,
    Wanted,
)
from opentalos.model.datum import DataType, Datum
from opentalos.model.errors import (
    BadRequest,
    NotOwner,
    NotSupported,
    OutcomeUnknown,
    PartitionNotServing,
    StoreUnavailable,
    TalosError,
    TopicNotExist,
)
from opentalos.model.message import ProducerStamp
from opentalos.model.mutation import Condition, ConditionOperator, Mutation, Operation
from opentalos.ports.peers import CallRequest, Forwarded, Reply
from opentalos.wire.peer_errors import error_document, error_of

GOLDEN = Path(__file__).parents[3] / "golden" / "peer_calls_v0"
INT64, STRING, BINARY = DataType.INT64, DataType.STRING, DataType.BINARY
MUTATIONS = [
    Mutation(
        Operation.PUT,
        {"id": Datum(INT64, 1)},
        {
            "i": Datum(INT64, -(1 << 63)),
            "d": Datum(DataType.DOUBLE, math.inf),
            "s": Datum(STRING, "grün 😀"),
            "b": Datum(BINARY, b"\x00\xff"),
            "o": Datum(DataType.BOOL, True),
            "bs": Datum(DataType.BINARY_SET, (b"\x00", b"\xff")),
            "ss": Datum(DataType.STRING_SET, ("a", "b")),
            "n": Datum(STRING, None),
        },
        (),
        Condition(ConditionOperator.EQUAL, "s", Datum(STRING, "x"), None),
    ),
    Mutation(
        Operation.REMOVE,
        {"id": Datum(INT64, 2)},
        {},
        ("a", "b"),
        Condition(None, "", None, True),
    ),
    Mutation(Operation.INCREMENT, {"id": Datum(INT64, 3)}, {"i": Datum(INT64, 1)}),
]


class OneServer:
    """The Peers port: one other server, which answers by ``calls`` or fails."""

    def __init__(self, *failures: Exception) -> None:
        self.calls = PeerDispatch()
        self.requests: list[CallRequest] = []
        self._failures = list(failures)

    async def ask(self, address: str, request: CallRequest) -> bytes:
        self.requests.append(request)
        if self._failures:
            raise self._failures.pop(0)
        return await self.calls.answer(request)

    async def refuses(self, address: str) -> bool:
        raise NotImplementedError

    async def forward(self, address: str, request: Forwarded) -> Reply:
        raise NotImplementedError

    async def close(self) -> None:
        """Nothing is open."""


def golden(call: PeerCall[Any, Any], part: str) -> bytes:
    return (GOLDEN / f"{call.name}.{part}.json").read_bytes()


def contains(newer: Any, older: Any) -> bool:
    """Whether an old server finds every field that it knows, with the value that it knows."""
    if isinstance(older, dict):
        return isinstance(newer, dict) and all(
            name in newer and contains(newer[name], value) for name, value in older.items()
        )
    if isinstance(older, list):
        return len(newer) == len(older) and all(map(contains, newer, older))
    return bool(newer == older)


# --- servers without a version ------------------------------------------------------------------


@pytest.mark.parametrize(
    "call", [call for call in CALLS if not call.since], ids=lambda call: call.name
)
def test_what_the_first_servers_send_is_understood_and_sent(call: PeerCall[Any, Any]) -> None:
    for part, kind in (("request", call.request), ("reply", call.reply)):
        body = golden(call, part)
        message = decode(body, kind)
        assert contains(json.loads(encode(message)), json.loads(body))
        assert decode(encode(message), kind) == message


def test_a_mutation_of_the_first_servers_has_every_type_of_value() -> None:
    request = decode(golden(calls.TABLE_MUTATIONS, "request"), MutationsRequest)
    assert request.table == ("0123", "alice", "people")
    assert [shown.mutation() for shown in request.mutations] == MUTATIONS
    again = MutationsRequest(request.table, [MutationMessage.of(each) for each in MUTATIONS])
    document = json.loads(encode(again))  # as older servers read it
    assert document == json.loads(golden(calls.TABLE_MUTATIONS, "request"))


@pytest.mark.parametrize("number", [math.inf, -math.inf, math.nan, 1e308, -0.0])
@pytest.mark.parametrize("kind", [DataType.FLOAT, DataType.DOUBLE, DataType.DOUBLE_SET])
def test_every_float_of_a_column_arrives_at_servers_of_either_age(
    number: float, kind: DataType
) -> None:
    value = (number, 0.5) if kind is DataType.DOUBLE_SET else number
    put = Mutation(Operation.PUT, {"id": Datum(INT64, 1)}, {"f": Datum(kind, value)})
    body = encode(MutationsRequest(("u", "o", "t"), [MutationMessage.of(put)]))
    older = json.loads(body)["mutations"][0]["columns"]["f"][1]
    assert repr(older) == repr([*value] if isinstance(value, tuple) else value)
    (shown,) = decode(body, MutationsRequest).mutations
    assert repr(shown.mutation().columns) == repr(put.columns)


def test_an_error_that_quotes_no_unicode_is_sent() -> None:
    sent = encode(error_document(BadRequest("half of a pair: \ud83d")))
    assert str(error_of(json.loads(sent))) == "half of a pair: \\ud83d"


@pytest.mark.parametrize("kind", [NotOwner, TopicNotExist, NotSupported])
def test_errors_of_the_first_servers_are_the_same_leaf(kind: type[TalosError]) -> None:
    document = json.loads((GOLDEN / f"error.{kind.__name__}.json").read_bytes())
    error = error_of(document)
    assert (type(error), str(error)) == (kind, document["text"])
    if isinstance(error, NotOwner):
        assert (error.address, error.topic_uuid) == ("s2:80", "0123")


# --- servers of two versions --------------------------------------------------------------------


class NewerReply(msgspec.Struct, frozen=True):
    counters: dict[str, int]
    uptime_s: float  # a field of the next version


async def test_fields_of_a_newer_server_are_ignored() -> None:
    other = OneServer()

    async def answer(_: Empty) -> Any:
        return NewerReply({"openings": 1}, 2.5)

    other.calls.register(STATUS, answer)
    assert await call_peer(other, "h:1", STATUS, Empty()) == StatusReply({"openings": 1})


async def test_fields_of_a_newer_caller_are_ignored() -> None:
    other = OneServer()

    async def answer(_: Empty) -> StatusReply:
        return StatusReply({})

    other.calls.register(STATUS, answer)
    request = CallRequest("status", b'{"detail":"all"}', calls.PROTOCOL_VERSION + 1)
    assert decode(await other.calls.answer(request), StatusReply) == StatusReply({})


def test_fields_that_an_older_server_does_not_send_have_defaults() -> None:
    assert decode(b'{"counters":{}}', StatusReply).recent == ()
    block = b'{"base_offset":1,"messages":1,"append_ms":0,"create_ms":0,"compression":0'
    reply = b'{"blocks":[%b,"format":1,"payload":"eA=="}],"unhandled":0}' % block
    assert decode(reply, calls.MESSAGES.reply).blocks[0].extras == b""


async def test_a_call_that_the_other_server_does_not_know_names_the_server_to_upgrade() -> None:
    """The caller may fall back; the error says that nothing was done."""
    newer = PeerCall(
        name="compact",
        request=Empty,
        reply=Empty,
        idempotent=False,
        deadline_s=1.0,
        since=calls.PROTOCOL_VERSION + 1,
    )
    for other in (OneServer(), OneServer(NotSupported("no call 'compact' between servers"))):
        with pytest.raises(PeerTooOld, match="h:1 does not know the peer call 'compact'") as caught:
            await call_peer(other, "h:1", newer, Empty())
        assert caught.value.retry_safe


async def test_the_request_says_which_version_the_caller_speaks() -> None:
    other = OneServer()
    with pytest.raises(PeerTooOld) as caught:
        await call_peer(other, "h:1", STATUS, Empty())
    assert other.requests[0].version == calls.PROTOCOL_VERSION
    assert f"the caller {calls.PROTOCOL_VERSION}" in str(caught.value.__cause__)


# --- one rule for failures ----------------------------------------------------------------------

PUT = StreamPutRequest("a#b#c", 0, b"x", 1, 0, 0, ProducerStamp(1, 0, 0))
LOOK = PartitionsRequest("a#b#c", [0], Wanted.OFFSETS, [0])


async def test_a_write_without_a_whole_reply_is_unknown_and_sent_once() -> None:
    other = OneServer(OutcomeUnknown("closed without a reply"))
    with pytest.raises(OutcomeUnknown, match="without a reply"):
        await call_peer(other, "h:1", STREAM_PUT, PUT)
    assert len(other.requests) == 1


async def test_a_read_without_a_reply_is_sent_again_once() -> None:
    lost = OutcomeUnknown("closed without a reply")
    other = OneServer(lost)

    async def answer(_: Empty) -> StatusReply:
        return StatusReply({})

    other.calls.register(STATUS, answer)
    assert await call_peer(other, "h:1", STATUS, Empty()) == StatusReply({})
    assert len(other.requests) == 2
    dead = OneServer(lost, lost, lost)
    with pytest.raises(PartitionNotServing, match="without a reply"):
        await call_peer(dead, "h:1", STATUS, Empty())
    assert len(dead.requests) == 2


async def test_an_invalid_reply_to_a_write_is_unknown_and_to_a_read_not_done() -> None:
    other = OneServer()

    async def nonsense(_: object) -> Any:
        return {"odd": 1}

    other.calls.register(STREAM_PUT, nonsense)
    other.calls.register(PARTITIONS, nonsense)
    with pytest.raises(OutcomeUnknown, match="h:1 sent an invalid reply to stream-put"):
        await call_peer(other, "h:1", STREAM_PUT, PUT)
    with pytest.raises(PartitionNotServing, match="h:1 sent an invalid reply to partitions"):
        await call_peer(other, "h:1", PARTITIONS, LOOK)


async def test_a_call_without_a_reply_ends_at_its_deadline() -> None:
    other = OneServer()

    async def hang(_: object) -> Any:
        await asyncio.Event().wait()

    other.calls.register(STREAM_PUT, hang)
    other.calls.register(PARTITIONS, hang)
    put, look = replace(STREAM_PUT, deadline_s=0.01), replace(PARTITIONS, deadline_s=0.01)
    with pytest.raises(OutcomeUnknown, match=r"no reply within 0\.01 s"):
        await call_peer(other, "h:1", put, PUT)
    with pytest.raises(PartitionNotServing, match=r"no reply within 0\.01 s"):
        await call_peer(other, "h:1", look, LOOK)


@pytest.mark.parametrize("error", [StoreUnavailable("refused"), TopicNotExist("no topic")])
async def test_an_error_of_the_other_server_is_raised_as_it_is(error: TalosError) -> None:
    with pytest.raises(type(error)):
        await call_peer(OneServer(error), "h:1", STREAM_PUT, PUT)
    with pytest.raises(type(error)):
        await call_peer(OneServer(error), "h:1", PARTITIONS, LOOK)


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"\xff", b"[" * 100_000])
async def test_an_invalid_request_body_is_refused(body: bytes) -> None:
    other = OneServer()

    async def answer(_: PartitionsRequest) -> Any:
        raise AssertionError

    other.calls.register(PARTITIONS, answer)
    with pytest.raises(BadRequest, match="invalid request of peer call partitions"):
        await other.calls.answer(CallRequest("partitions", body, 1))


def test_calls_have_different_names() -> None:
    assert len({call.name for call in CALLS}) == len(CALLS)
    assert all(call.since <= calls.PROTOCOL_VERSION for call in CALLS)


async def test_a_put_says_where_it_is_stored() -> None:
    other = OneServer()

    async def store(request: StreamPutRequest) -> StreamPutReply:
        assert request == PUT
        return StreamPutReply(41)

    other.calls.register(STREAM_PUT, store)
    assert (await call_peer(other, "h:1", STREAM_PUT, PUT)).offset == 41
