"""The hand-written codec of the data path agrees with the generic one, or steps aside."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from opentalos.model.message import (
    PRODUCER_ID_MAX,
    MessageBlock,
    ProducerStamp,
    StoredBefore,
    StoredBlock,
)
from opentalos.wire._generated import message, topic
from opentalos.wire._generated.talos import SERVICES
from opentalos.wire.thrift import (
    ThriftError,
    ThriftProtocol,
    decode_call,
    decode_reply,
    encode_call,
    encode_reply,
)
from opentalos.wire.thrift.block_extras import Extras, encode_extras
from opentalos.wire.thrift.hot import (
    UNKNOWN,
    HotGet,
    HotPut,
    decode_get,
    decode_put,
    get_reply_chunks,
    put_reply,
)

COMPACT = ThriftProtocol.COMPACT
SERVICE = SERVICES["MessageService"]
PUT, GET = SERVICE.methods["putMessage"], SERVICE.methods["getMessage"]
NAMES = st.text(st.characters(codec="utf-8"), max_size=150)
OFFSETS = st.integers(-2, 2**62)
TIMES = st.none() | st.integers(0, 2**41)
TARGETS = st.builds(
    topic.TopicAndPartition,
    topicName=NAMES,
    topicTalosResourceName=st.builds(topic.TopicTalosResourceName, topicTalosResourceName=NAMES),
    partitionId=st.integers(0, 300),
)
STAMPS: st.SearchStrategy[dict[str, Any] | None] = st.none() | st.fixed_dictionaries(
    {
        "producerId": st.integers(1, PRODUCER_ID_MAX),
        "producerEpoch": st.integers(0, 2**31 - 1),
        "firstSequence": st.integers(0, 2**62),
        "repeated": st.none() | st.booleans(),
    }
)
PUTS = st.builds(
    lambda target, block, sequence, timeout, stamp: message.PutMessageRequest(
        topicAndPartition=target,
        messageBlocks=[block],
        messageNumber=block.messageNumber,
        sequenceId=sequence,
        timeoutTimestamp=timeout,
        **(stamp or {}),
    ),
    TARGETS,
    st.builds(
        message.MessageBlock,
        startMessageOffset=st.just(0),
        messageNumber=st.integers(1, 3000),
        compressionType=st.sampled_from(message.MessageCompressionType),
        messageBlock=st.binary(max_size=300),
        messageBlockSize=st.none() | st.integers(0, 2**31 - 1),
        appendTimestamp=TIMES,
        createTimestamp=TIMES,
        transactionId=st.none() | st.just(0),
    ),
    NAMES,
    TIMES,
    STAMPS,
)
GETS = st.builds(
    message.GetMessageRequest,
    topicAndPartition=TARGETS,
    messageOffset=OFFSETS,
    maxGetMessageNumber=st.integers(1, 20_000),
    maxGetMessageBytes=st.integers(1, 10 << 20),
    showUnHandledMessageNumber=st.booleans(),
    sequenceId=NAMES,
    timeoutTimestamp=TIMES,
)
SEQIDS = st.sampled_from([0, 1, 127])


def stamp_of(request: message.PutMessageRequest) -> ProducerStamp | None:
    if request.producerId is None:
        return None
    assert request.producerEpoch is not None
    assert request.firstSequence is not None
    return ProducerStamp(
        request.producerId, request.producerEpoch, request.firstSequence, bool(request.repeated)
    )


def put_of(seqid: int, request: message.PutMessageRequest) -> HotPut:
    block = request.messageBlocks[0]
    target = request.topicAndPartition
    return HotPut(
        seqid,
        target.topicName,
        target.topicTalosResourceName.topicTalosResourceName,
        target.partitionId,
        MessageBlock(
            block.messageBlock,
            block.messageNumber,
            int(block.compressionType),
            block.createTimestamp or 0,
            principal=42,
            producer=stamp_of(request),
        ),
        request.sequenceId.encode(),
        request.timeoutTimestamp or 0,
    )


def get_of(seqid: int, request: message.GetMessageRequest) -> HotGet:
    target = request.topicAndPartition
    return HotGet(
        seqid,
        target.topicName,
        target.topicTalosResourceName.topicTalosResourceName,
        target.partitionId,
        request.messageOffset,
        request.maxGetMessageNumber,
        request.maxGetMessageBytes,
        request.sequenceId.encode(),
        request.timeoutTimestamp or 0,
    )


@settings(max_examples=50, deadline=None)
@given(
    request=PUTS,
    seqid=SEQIDS,
    base=st.none() | st.integers(0, 2**62),
    transferred=st.booleans(),
    before=st.booleans(),
)
def test_every_ordinary_put_is_decoded_by_hand(
    request: message.PutMessageRequest,
    seqid: int,
    base: int | None,
    transferred: bool,
    before: bool,
) -> None:
    body = encode_call(COMPACT, PUT, seqid, request)
    decoded = decode_put(body, 42)
    assert decoded == put_of(seqid, request)
    assert decoded is not None
    assert type(decoded.block.payload) is bytes
    response = message.PutMessageResponse(
        sequenceId=request.sequenceId,
        isTransfer=transferred or None,
        baseOffset=base,
        storedBefore=before or None,
    )
    reply = encode_reply(COMPACT, PUT, seqid, response)
    offset = -1 if base is None else base
    offset = StoredBefore(offset) if before else offset
    assert put_reply(seqid, decoded.sequence_id, offset, transferred=transferred) == reply


@settings(max_examples=40, deadline=None)
@given(request=GETS, seqid=SEQIDS)
def test_every_ordinary_get_is_decoded_by_hand(
    request: message.GetMessageRequest, seqid: int
) -> None:
    assert decode_get(encode_call(COMPACT, GET, seqid, request)) == get_of(seqid, request)


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_a_damaged_call_is_decoded_alike_or_left_to_the_generic_codec(data: st.DataObject) -> None:
    request: Any = data.draw(st.one_of(PUTS, GETS))
    method = PUT if isinstance(request, message.PutMessageRequest) else GET
    body = bytearray(encode_call(COMPACT, method, 1, request))
    for _ in range(data.draw(st.integers(1, 2))):
        place = data.draw(st.integers(0, len(body) - 1))
        change = data.draw(st.sampled_from(["set", "cut", "insert"]))
        values = [0, 1, 6, 0x0F, 0x11, 0x12, 0x7F, 0x80, 0xD2, 0xFF, 0x15, 0x16, 0x18, 0x1C]
        value = data.draw(st.sampled_from(values))
        if change == "set":
            body[place] = value
        elif change == "insert":
            body.insert(place, value)
        elif len(body) > 1:
            del body[place]
    put, get = decode_put(bytes(body), 42), decode_get(bytes(body))
    if put is None and get is None:
        return
    call = decode_call(COMPACT, SERVICE, bytes(body))  # raises if only the hot one accepts
    expected = put_of if call.method is PUT else get_of
    assert (put or get) == expected(call.seqid, call.request)


@given(body=st.binary(max_size=60))
def test_any_bytes_are_left_alone_or_decoded(body: bytes) -> None:
    for data in (body, b"\x82\x21\x01\x0aputMessage\x1c\x1c\x18" + body):
        assert decode_put(data) is None
        assert decode_get(data) is None


def test_shapes_with_more_meaning_are_left_to_the_generic_codec() -> None:
    target = topic.TopicAndPartition(
        topicName="t",
        topicTalosResourceName=topic.TopicTalosResourceName(topicTalosResourceName="o#t#u"),
        partitionId=0,
    )
    plain: dict[str, Any] = {"startMessageOffset": 0, "messageNumber": 1, "messageBlock": b"x"}
    odd: list[dict[str, Any]] = [
        {"tag": "t"},
        {"tagCode": 1},
        {"createTimestampList": [1]},
        {"transactionId": 7},
        {"compressionType": 5},
        {"messageNumber": 0},
        {"messageNumber": -1},
        {"createTimestamp": -1},
    ]
    for change in odd:
        block = message.MessageBlock(**{**plain, **change})
        request = message.PutMessageRequest(
            topicAndPartition=target,
            messageBlocks=[block],
            messageNumber=block.messageNumber,
            sequenceId="s",
        )
        assert decode_put(encode_call(COMPACT, PUT, 1, request)) is None, change
    stamps = [(1, 0, None), (None, 0, 0), (0, 0, 0), (PRODUCER_ID_MAX + 1, 0, 0), (1, -1, 0)]
    for stamp in [*stamps, (1, 0, -1)]:
        request = message.PutMessageRequest(
            topicAndPartition=target,
            messageBlocks=[message.MessageBlock(**plain)],
            messageNumber=1,
            sequenceId="s",
            producerId=stamp[0],
            producerEpoch=stamp[1],
            firstSequence=stamp[2],
        )
        assert decode_put(encode_call(COMPACT, PUT, 1, request)) is None, stamp
    tagged = message.GetMessageRequest(
        topicAndPartition=target, messageOffset=0, sequenceId="s", messageTags={"a"}
    )
    assert decode_get(encode_call(COMPACT, GET, 1, tagged)) is None


EXTRAS = [Extras(), Extras([1, 2, 3], None, None), Extras(None, "blue", 7), Extras([5], "x", -1)]


@settings(max_examples=40, deadline=None)
@given(
    blocks=st.lists(
        st.builds(
            StoredBlock,
            base_offset=st.integers(0, 2**62),
            messages=st.integers(1, 2**31 - 1),
            append_ms=st.integers(0, 2**41),
            create_ms=st.integers(0, 2**41),
            compression=st.integers(0, 4),
            format=st.just(1),
            payload=st.binary(max_size=300)
            | st.binary(max_size=9).map(lambda data: memoryview(data)),
            extras=st.sampled_from(EXTRAS).map(encode_extras),
        ),
        max_size=20,
    ),
    unhandled=st.just(UNKNOWN) | st.integers(0, 2**62),
    sequence_id=NAMES,
    seqid=st.sampled_from([0, 1, 300, -1]),
)
def test_a_get_reply_made_by_hand_reads_like_a_generic_one(
    blocks: list[StoredBlock], unhandled: int, sequence_id: str, seqid: int
) -> None:
    blocks = [block._replace(messages=block.messages % 1000 + 1) for block in blocks]
    chunks = get_reply_chunks(seqid, sequence_id.encode(), blocks, unhandled)
    payloads = [block.payload for block in blocks]
    assert [chunk for chunk in chunks if any(chunk is p for p in payloads)] == payloads
    reply = decode_reply(COMPACT, GET, b"".join(chunks))
    assert reply.seqid == seqid
    result: message.GetMessageResponse = reply.result
    assert result.messageNumber == sum(block.messages for block in blocks)
    assert (result.unHandledMessageNumber, result.sequenceId) == (unhandled, sequence_id)
    for sent, block in zip(result.messageBlocks, blocks, strict=True):
        assert sent.startMessageOffset == block.base_offset
        assert sent.messageNumber == block.messages
        assert sent.compressionType == block.compression
        assert sent.messageBlock == bytes(block.payload)
        assert sent.messageBlockSize == len(block.payload)
        assert sent.appendTimestamp == block.append_ms
        assert (sent.createTimestamp or 0) == block.create_ms
        found = Extras(sent.createTimestampList, sent.tag, sent.tagCode)
        assert encode_extras(found) == block.extras


def test_the_hot_decoder_refuses_what_the_generic_one_refuses() -> None:
    body = b"\x82\x21\x01\x0aputMessage\x1c\x1c\x18\x01\xff"
    assert decode_put(body) is None
    try:
        decode_call(COMPACT, SERVICE, body)
    except ThriftError as error:
        reason = str(error)
    assert "not UTF-8" in reason
