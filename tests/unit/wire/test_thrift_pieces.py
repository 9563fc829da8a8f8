"""Large messages are decoded and encoded in pieces that are bounded, and become the same."""

import base64
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opentalos.model.errors import BadRequest
from opentalos.wire._generated import sds
from opentalos.wire._generated.message import GetMessageResponse, MessageBlock, PutMessageRequest
from opentalos.wire._generated.talos import SERVICES
from opentalos.wire._generated.topic import TopicAndPartition, TopicTalosResourceName
from opentalos.wire.thrift import (
    LongCall,
    LongMessage,
    ThriftError,
    ThriftProtocol,
    compact,
    decode_call,
    decode_reply,
    decode_short_call,
    encode_call,
    encode_reply,
    encode_short_reply,
    output,
    reader,
)
from opentalos.wire.thrift.block_extras import Extras, encode_extras
from opentalos.wire.thrift.json_format import _read_text
from opentalos.wire.thrift.message import SHORT_REPLY_VALUES
from opentalos.wire.thrift.output import APART_BYTES
from opentalos.wire.thrift.reader import CALL_TEXT_BYTES_MAX, PIECE_BYTES, Cursor

MESSAGE, TABLE = SERVICES["MessageService"], sds.SERVICES["TableService"]
PUT, GET = MESSAGE.methods["putMessage"], MESSAGE.methods["getMessage"]
BATCH, SCAN = TABLE.methods["batch"], TABLE.methods["scan"]
JSON = ThriftProtocol.JSON
RESOURCE = TopicTalosResourceName(topicTalosResourceName="CL1#t#u")
TARGET = TopicAndPartition(topicName="t", topicTalosResourceName=RESOURCE, partitionId=0)
NOW_MS = 1_732_500_000_000


def put_of(*blocks: MessageBlock) -> PutMessageRequest:
    return PutMessageRequest(
        topicAndPartition=TARGET, messageBlocks=list(blocks), messageNumber=1, sequenceId="s#1"
    )


def block(data: bytes = b"x", times: list[int] | None = None) -> MessageBlock:
    return MessageBlock(
        startMessageOffset=0, messageNumber=1, messageBlock=data, createTimestampList=times
    )


def datum(number: int) -> sds.Datum:
    return sds.Datum(type=sds.DataType.INT64, value=sds.Value(int64Value=number))


def record(number: int) -> dict[str, sds.Datum]:
    return {name: datum(number) for name in ("key", "a", "b")}


def batch_of(items: int) -> sds.BatchRequest:
    puts = [sds.PutRequest(tableName="t", record=record(number)) for number in range(items)]
    return sds.BatchRequest(
        items=[
            sds.BatchRequestItem(action=sds.BatchOp.PUT, request=sds.Request(putRequest=put))
            for put in puts
        ]
    )


CALLS = {
    "times": (MESSAGE, PUT, put_of(block(times=[NOW_MS + n for n in range(20_000)]))),
    "blocks": (MESSAGE, PUT, put_of(*[block()] * 3_000)),
    "batch": (TABLE, BATCH, batch_of(500)),
}


class Values:
    """Counts the values between two pauses, by the cursor that the decoder moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.pauses = 0
        self.longest = self.now = 0
        values = self

        class Counting(Cursor):
            __slots__ = ()

            def take(self, length: int) -> bytes:
                values.note()
                return super().take(length)

        monkeypatch.setattr("opentalos.wire.thrift.message.Cursor", Counting)

    def note(self) -> None:
        self.now += 1
        self.longest = max(self.longest, self.now)

    def pause(self) -> None:
        self.pauses += 1
        self.now = 0


@pytest.mark.parametrize("protocol", ThriftProtocol)
@pytest.mark.parametrize("name", CALLS)
def test_a_large_call_is_decoded_in_pieces_and_is_the_same(
    protocol: ThriftProtocol, name: str
) -> None:
    service, method, request = CALLS[name]
    body = encode_call(protocol, method, 7, request)
    pauses: list[None] = []
    call = decode_call(protocol, service, body, pause=lambda: pauses.append(None))
    assert call == decode_call(protocol, service, body) == (method, 7, (request,))
    values = {"times": 20_000, "blocks": 3_000 * 5, "batch": 500 * 15}[name]
    pieces = values // reader.PIECE_VALUES
    assert len(pauses) >= (8 * pieces if protocol is JSON else pieces)


def test_a_piece_has_few_values(monkeypatch: pytest.MonkeyPatch) -> None:
    values = Values(monkeypatch)
    body = encode_call(ThriftProtocol.BINARY, PUT, 1, put_of(*[block()] * 3_000))
    decode_call(ThriftProtocol.BINARY, MESSAGE, body, pause=values.pause)
    assert values.pauses > 10
    assert 0 < values.longest <= reader.PIECE_VALUES


@pytest.mark.parametrize("protocol", ThriftProtocol)
@pytest.mark.parametrize("name", CALLS)
def test_a_large_call_is_noticed_before_its_values_are_read(
    protocol: ThriftProtocol, name: str
) -> None:
    service, method, request = CALLS[name]
    body = encode_call(protocol, method, 7, request)
    with pytest.raises(LongCall) as caught:
        decode_short_call(protocol, service, body)
    assert (caught.value.method, caught.value.seqid) == (method, 7)


@pytest.mark.parametrize("protocol", ThriftProtocol)
def test_a_small_call_is_decoded_at_once(protocol: ThriftProtocol) -> None:
    request = put_of(block(times=[NOW_MS] * 100))
    body = encode_call(protocol, PUT, 7, request)
    assert decode_short_call(protocol, MESSAGE, body).request == request


@pytest.mark.parametrize("protocol", ThriftProtocol)
def test_a_large_block_of_few_values_is_long_in_json_alone(protocol: ThriftProtocol) -> None:
    body = encode_call(protocol, PUT, 7, put_of(block(b"\xff" * 1_000_000)))
    if protocol is not JSON:
        assert decode_short_call(protocol, MESSAGE, body).seqid == 7
        return
    with pytest.raises(LongCall):
        decode_short_call(protocol, MESSAGE, body)
    pauses: list[None] = []
    decode_call(protocol, MESSAGE, body, pause=lambda: pauses.append(None))
    assert len(pauses) >= len(body) // PIECE_BYTES


def test_a_bound_on_values_holds_in_pieces_too() -> None:
    items = reader.CALL_VALUES_MAX + 1
    body = encode_call(ThriftProtocol.COMPACT, PUT, 1, put_of(block(times=[1] * items)))
    for pause in (None, lambda: None):
        with pytest.raises(ThriftError, match="too many values"):
            decode_call(ThriftProtocol.COMPACT, MESSAGE, body, pause=pause)


@pytest.mark.parametrize("protocol", ThriftProtocol)
def test_a_text_that_no_client_sends_is_refused(protocol: ThriftProtocol) -> None:
    request = put_of(block())
    request.sequenceId = "x" * (CALL_TEXT_BYTES_MAX + 1)
    body = encode_call(protocol, PUT, 1, request)
    with pytest.raises(ThriftError, match="a text of 1048577 bytes"):
        decode_call(protocol, MESSAGE, body)
    request.sequenceId = "x" * CALL_TEXT_BYTES_MAX
    body = encode_call(protocol, PUT, 1, request)
    assert decode_call(protocol, MESSAGE, body).request == request


def json_put(text: bytes) -> bytes:
    """A put whose block is this text in a JSON string."""
    body = encode_call(JSON, PUT, 1, put_of(block(b"marked")))
    return body.replace(base64.b64encode(b"marked"), text)


@pytest.mark.parametrize("size", [PIECE_BYTES - 1, PIECE_BYTES, 3 * PIECE_BYTES + 5])
@pytest.mark.parametrize("strip", [False, True])
def test_long_base64_with_escapes_at_any_place_is_read(size: int, strip: bool) -> None:
    data = b"\xff\xff\xfe" * (size // 3) + b"\xff" * (size % 3)  # "/" in nearly every place
    text = base64.b64encode(data).replace(b"/", b"\\/")
    call = decode_call(JSON, MESSAGE, json_put(text.rstrip(b"=") if strip else text))
    assert call.request.messageBlocks[0].messageBlock == data


@pytest.mark.parametrize("end", [b"=A==", b"!", b"\\n", b"A", b"\\", b'"', b"\\u0041"], ids=repr)
def test_wrong_long_base64_is_refused(end: bytes) -> None:
    for before in (PIECE_BYTES, 2 * PIECE_BYTES - 4):
        with pytest.raises(ThriftError):
            decode_call(JSON, MESSAGE, json_put(b"A" * before + end))
        with pytest.raises(ThriftError):
            decode_call(JSON, MESSAGE, json_put(b"A" * before + end + b"A" * PIECE_BYTES))
    with pytest.raises(ThriftError):
        decode_call(JSON, MESSAGE, json_put(b"A" * PIECE_BYTES)[: PIECE_BYTES + 50])


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from([b"a", b"\\\\", b'\\"', b"\\u00e9", b"\xc3\xa9", b"\\/"])))
def test_a_long_text_is_the_short_one(parts: list[bytes]) -> None:
    text = b"".join(parts)
    fill = b"z" * PIECE_BYTES
    alone, after, before = (
        _read_text(Cursor(b'"%b"' % inside, 1)) for inside in (text, fill + text, text + fill)
    )
    assert (after, before) == ("z" * PIECE_BYTES + alone, alone + "z" * PIECE_BYTES)


def test_create_times_are_encoded_until_there_are_too_many() -> None:
    read: list[int] = []

    class Times(list[int]):
        def __iter__(self) -> Iterator[int]:
            for value in super().__iter__():
                read.append(value)
                yield value

    with pytest.raises(BadRequest, match="above 64 KiB"):
        encode_extras(Extras(Times([NOW_MS] * 60_000)))
    assert len(read) < 20_000
    with pytest.raises(BadRequest, match="above 64 KiB"):
        encode_extras(Extras([0] * 100_000))


REPLIES = {
    "scan": (SCAN, sds.ScanResult(records=[record(number) for number in range(1_000)])),
    "times": (
        GET,
        GetMessageResponse(
            messageBlocks=[block(times=[NOW_MS] * 20_000)], messageNumber=1,
            unHandledMessageNumber=0, sequenceId="s",
        ),
    ),
}  # fmt: skip


@pytest.mark.parametrize("protocol", ThriftProtocol)
@pytest.mark.parametrize("name", REPLIES)
def test_a_large_reply_is_encoded_in_pieces_and_is_the_same(
    protocol: ThriftProtocol, name: str
) -> None:
    method, result = REPLIES[name]
    pauses: list[None] = []
    body = encode_reply(protocol, method, 7, result, pause=lambda: pauses.append(None))
    assert body == encode_reply(protocol, method, 7, result)
    assert decode_reply(protocol, method, body).result == result
    values = {"scan": 1_000 * 3 * 20, "times": 20_000}[name]
    assert len(pauses) >= (values - SHORT_REPLY_VALUES) // output.PIECE_VALUES
    with pytest.raises(LongMessage):
        encode_short_reply(protocol, method, 7, result)


@pytest.mark.parametrize("protocol", ThriftProtocol)
def test_a_small_reply_is_encoded_at_once(protocol: ThriftProtocol) -> None:
    result = sds.ScanResult(records=[record(number) for number in range(10)])
    body = encode_short_reply(protocol, SCAN, 7, result)
    assert body == encode_reply(protocol, SCAN, 7, result)


def test_a_reply_of_many_bytes_is_long_in_json_alone() -> None:
    result = GetMessageResponse(
        messageBlocks=[block(b"\xff" * 1_000_001)], messageNumber=1, unHandledMessageNumber=0,
        sequenceId="s",
    )  # fmt: skip
    for protocol in (ThriftProtocol.COMPACT, ThriftProtocol.BINARY):
        assert encode_short_reply(protocol, GET, 1, result)
    with pytest.raises(LongMessage):
        encode_short_reply(JSON, GET, 1, result)
    body = encode_reply(JSON, GET, 1, result, pause=lambda: None)
    assert decode_reply(JSON, GET, body).result == result


@pytest.mark.parametrize(
    "sizes", [(APART_BYTES,), (APART_BYTES - 1, 1 << 20), (1 << 20, 0, 1 << 20)]
)
def test_values_that_are_set_apart_are_where_they_belong(
    sizes: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    request = put_of(*(block(bytes([number]) * size, [1]) for number, size in enumerate(sizes)))

    def encoded() -> bytes:
        return encode_call(ThriftProtocol.COMPACT, PUT, 1, request)

    found = encoded()
    monkeypatch.setattr(compact, "APART_BYTES", 1 << 40)
    assert found == encoded()


def test_a_long_tag_of_a_block_is_not_set_apart() -> None:
    with pytest.raises(BadRequest, match="above 64 KiB"):
        encode_extras(Extras(tag="x" * (APART_BYTES + 1)))
