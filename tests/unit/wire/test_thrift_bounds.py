"""Bad bytes: every message is decoded or refused with one readable error, within bounds."""

import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opentalos.model.errors import BadRequest
from opentalos.wire._generated.authorization import Grantee
from opentalos.wire._generated.message import (
    GetDataPreviewResponse,
    MessageBlock,
    OffsetInfo,
    PutMessageRequest,
)
from opentalos.wire._generated.talos import SERVICES
from opentalos.wire._generated.topic import (
    DescribeTopicRequest,
    RevokePermissionRequest,
    TopicAndPartition,
    TopicTalosResourceName,
)
from opentalos.wire.thrift import (
    ApplicationError,
    ApplicationErrorKind,
    MethodSpec,
    ThriftError,
    ThriftProtocol,
    decode_call,
    decode_reply,
    encode_call,
    encode_reply,
    protocol_of,
)
from opentalos.wire.thrift.compact import read_struct, write_struct
from opentalos.wire.thrift.reader import CALL_VALUES_MAX, DEPTH_MAX, Cursor

TOPIC, MESSAGE = SERVICES["TopicService"], SERVICES["MessageService"]
COMPACT, BINARY, JSON = ThriftProtocol.COMPACT, ThriftProtocol.BINARY, ThriftProtocol.JSON
RESOURCE = TopicTalosResourceName(topicTalosResourceName="CL1#t#u")
TARGET = TopicAndPartition(topicName="t", topicTalosResourceName=RESOURCE, partitionId=0)
BLOCK = MessageBlock(startMessageOffset=0, messageNumber=1, messageBlock=b"abc", tag="x")
PUT = PutMessageRequest(
    topicAndPartition=TARGET, messageBlocks=[BLOCK], messageNumber=1, sequenceId="s#1"
)
PUT_BODIES = {
    protocol: encode_call(protocol, MESSAGE.methods["putMessage"], 1, PUT)
    for protocol in ThriftProtocol
}
DESCRIBE_HEAD = b"\x82\x21\x01\x0ddescribeTopic"


def refuse(protocol: ThriftProtocol, body: bytes, match: str) -> None:
    with pytest.raises(ThriftError, match=match) as caught:
        decode_call(protocol, TOPIC, body)
    assert isinstance(caught.value, BadRequest)


@pytest.mark.parametrize("protocol", ThriftProtocol)
@settings(max_examples=80, deadline=None)
@given(body=st.binary(max_size=120), whole=st.booleans())
def test_any_bytes_are_decoded_or_refused(
    protocol: ThriftProtocol, body: bytes, whole: bool
) -> None:
    heads = {
        COMPACT: DESCRIBE_HEAD,
        BINARY: b"\x80\x01\x00\x01\x00\x00\x00\x0ddescribeTopic\x00\x00\x00\x01",
        JSON: b'[1,"describeTopic",1,1,{"1":{"rec":',
    }
    for data in (body, heads[protocol] + body):
        reason = "decoded"
        try:
            decode_call(protocol, TOPIC, data)
        except ThriftError as error:
            reason = str(error)
        assert 0 < len(reason) < 200
        try:
            decode_reply(protocol, TOPIC.methods["describeTopic"], data)
        except ThriftError:
            pass


@pytest.mark.parametrize("protocol", ThriftProtocol)
@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_a_damaged_message_is_decoded_or_refused(
    protocol: ThriftProtocol, data: st.DataObject
) -> None:
    body = bytearray(PUT_BODIES[protocol])
    for _ in range(data.draw(st.integers(1, 3))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    try:
        call = decode_call(protocol, MESSAGE, bytes(body))
    except ThriftError:
        return
    assert call.method.name in MESSAGE.methods


@pytest.mark.parametrize("protocol", ThriftProtocol)
def test_every_truncation_and_every_trailing_byte_is_refused(protocol: ThriftProtocol) -> None:
    body = PUT_BODIES[protocol]
    for length in range(len(body)):
        with pytest.raises(ThriftError):
            decode_call(protocol, MESSAGE, body[:length])
    with pytest.raises(ThriftError, match="1 bytes follow"):
        decode_call(protocol, MESSAGE, body + b"x")


def test_a_container_larger_than_the_message_is_refused_before_it_is_allocated() -> None:
    # changeReplicationTopicSourceInfo's field 2 is a list; here of 2^31 - 1 structs.
    size = b"\xff\xff\xff\xff\x07"
    name = b"\x82\x21\x01\x20changeReplicationTopicSourceInfo\x1c"
    refuse(COMPACT, name + b"\x29\xfc" + size, "container of 2147483647 items")
    refuse(COMPACT, name + b"\x18\xff\xff\xff\xff\x07", "wrong type 8")
    unknown = name + b"\x7b" + size + b"\x88"  # field 7: a map of as many strings
    refuse(COMPACT, unknown, "container of 2147483647 items")
    binary = b"\x80\x01\x00\x01\x00\x00\x00\x0ddescribeTopic\x00\x00\x00\x01\x0c\x00\x01"
    refuse(BINARY, binary + b"\x0f\x00\x07\x0a\x7f\xff\xff\xff", "container of 2147483647 items")
    refuse(BINARY, binary + b"\x0f\x00\x07\x0a\xff\xff\xff\xff", "container of -1 items")
    refuse(BINARY, binary + b"\x0b\x00\x01\xff\xff\xff\xff", "string of -1 bytes")
    refuse(BINARY, binary + b"\x0f\x00\x07\x63\x00\x00\x00\x01\x00", "unknown item type")
    text = b'[1,"describeTopic",1,1,{"1":{"rec":{"7":{"lst":["i32",2147483647,1]}}}}]'
    refuse(JSON, text, "container of 2147483647 items")


def test_nesting_is_bounded() -> None:
    deep = DEPTH_MAX + 5
    refuse(COMPACT, DESCRIBE_HEAD + b"\x1c\x7c" + b"\x1c" * deep, "nested deeper than 32")
    refuse(COMPACT, DESCRIBE_HEAD + b"\x1c\x79" + b"\x19" * deep, "nested deeper than 32")
    head = b"\x80\x01\x00\x01\x00\x00\x00\x0ddescribeTopic\x00\x00\x00\x01"
    refuse(BINARY, head + b"\x0c\x00\x07" * deep, "nested deeper than 32")
    text = b'[1,"describeTopic",1,1,' + b'{"7":{"rec":' * deep + b"{}"
    refuse(JSON, text, "nested deeper than 32")


def test_the_number_of_values_is_bounded() -> None:
    items = CALL_VALUES_MAX + 1
    size = struct.pack("BBB", items & 0x7F | 0x80, items >> 7 & 0x7F | 0x80, items >> 14)
    body = DESCRIBE_HEAD + b"\x1c\x79\xf1" + size + b"\x01" * items + b"\0\0\0"
    refuse(COMPACT, body, "too many values")
    refuse(COMPACT, DESCRIBE_HEAD + b"\x1c\x71" + b"\x11" * items + b"\0\0", "too many values")


def test_numbers_outside_their_type_are_refused() -> None:
    varint = b"\xff" * 9
    refuse(COMPACT, DESCRIBE_HEAD + b"\x1c\x26" + varint + b"\x02\0\0", "longer than 64 bits")
    refuse(COMPACT, DESCRIBE_HEAD + b"\x1c\x26" + varint + b"\xff\x7f\0\0", "longer than 64 bits")
    cursor = Cursor(b"\x15" + b"\xff\xff\xff\xff\x1f\0", 10)
    with pytest.raises(ThriftError, match="exceeds i32"):
        read_struct(cursor, OffsetInfo.SPEC)
    out = bytearray()
    with pytest.raises(ThriftError, match="exceeds i32"):
        write_struct(out, OffsetInfo.SPEC, OffsetInfo(partitionId=2**31))


@pytest.mark.parametrize("protocol", ThriftProtocol)
def test_a_value_that_does_not_fit_is_refused_when_encoding(protocol: ThriftProtocol) -> None:
    method = MESSAGE.methods["putMessage"]
    if protocol is not JSON:
        with pytest.raises(ThriftError):
            encode_call(
                protocol,
                method,
                1,
                PutMessageRequest(
                    topicAndPartition=TARGET, messageBlocks=[], messageNumber=2**31, sequenceId=""
                ),
            )
    with pytest.raises(ThriftError, match="does not fit its schema"):
        encode_reply(protocol, method, 1, None)


@pytest.mark.parametrize("protocol", ThriftProtocol)
def test_a_missing_required_field_is_named(protocol: ThriftProtocol) -> None:
    method = TOPIC.methods["describeTopic"]
    body = encode_call(protocol, method, 1, DescribeTopicRequest(topicName="topic"))
    empty = {
        COMPACT: body.replace(b"\x18\x05topic", b""),
        BINARY: body.replace(b"\x0b\x00\x01\x00\x00\x00\x05topic", b""),
        JSON: body.replace(b'"1":{"str":"topic"}', b""),
    }
    refuse(protocol, empty[protocol], r"required field topicName \(1\) of DescribeTopicRequest")


def test_invalid_utf8_is_refused() -> None:
    refuse(COMPACT, DESCRIBE_HEAD + b"\x1c\x18\x01\xff\0\0", "not UTF-8")
    text = b'[1,"describeTopic",1,1,{"1":{"rec":{"1":{"str":"%b"}}}}]'
    for bad in (rb"\ud800", b"\xff", rb"\x"):
        refuse(JSON, text % bad, "bad string")
    call = decode_call(JSON, TOPIC, text % rb"\ud83d\ude00\/\u00e9")
    assert call.request.topicName == "😀/é"


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"\x82\x21\x01\x04nope\0", ApplicationErrorKind.UNKNOWN_METHOD),
        (b"\x82\x41\x01\x0ddescribeTopic\0", ApplicationErrorKind.INVALID_MESSAGE_TYPE),
        (b"\x82\x81\x01\x0ddescribeTopic\0", ApplicationErrorKind.INVALID_MESSAGE_TYPE),
        (b"\x82\x21\x01\x0ddescribeTopic\0", ApplicationErrorKind.PROTOCOL_ERROR),
    ],
)
def test_a_call_that_no_method_takes_is_an_application_error(
    body: bytes, kind: ApplicationErrorKind
) -> None:
    with pytest.raises(ApplicationError) as caught:
        decode_call(COMPACT, TOPIC, body)
    assert (caught.value.kind, caught.value.seqid) == (kind, 1)


@pytest.mark.parametrize("protocol", ThriftProtocol)
def test_unknown_fields_of_every_type_are_skipped(protocol: ThriftProtocol) -> None:
    """A newer peer's reply read with an older schema: getDataPreview read as describeTopic."""
    preview = GetDataPreviewResponse(
        schemaTitleList=["a"], messageLists=[{"k": "v"}], messageNumber=3, isTransfer=False
    )
    method = MESSAGE.methods["getDataPreview"]
    body = encode_reply(protocol, method, 1, preview)
    older = MethodSpec("getDataPreview", (), None, None)
    assert decode_reply(protocol, older, body) == (1, None, None)


@pytest.mark.parametrize("protocol", ThriftProtocol)
def test_unknown_enum_values_survive_as_numbers(protocol: ThriftProtocol) -> None:
    method = MESSAGE.methods["putMessage"]
    known = decode_call(protocol, MESSAGE, PUT_BODIES[protocol]).request
    assert known.messageBlocks[0].compressionType.name == "NONE"
    block = MessageBlock(
        startMessageOffset=0, messageNumber=1, compressionType=77, messageBlock=b""
    )
    request = PutMessageRequest(
        topicAndPartition=TARGET, messageBlocks=[block], messageNumber=1, sequenceId=""
    )
    body = encode_call(protocol, method, 1, request)
    decoded: Any = decode_call(protocol, MESSAGE, body).request
    assert type(decoded.messageBlocks[0].compressionType) is int
    assert decoded == request


def test_set_permission_without_a_permission_is_decoded() -> None:
    """What talos-python3 sends for revoke_permission: a setPermission without field 3."""
    request = RevokePermissionRequest(
        topicResourceName=RESOURCE, grant=Grantee(type=1, identifier="bob")
    )
    body = encode_call(COMPACT, TOPIC.methods["revokePermission"], 0, request)
    body = body.replace(b"\x10revokePermission", b"\x0dsetPermission")
    decoded = decode_call(COMPACT, TOPIC, body).request
    assert decoded.permission is None


def test_content_types_name_protocols() -> None:
    assert protocol_of("application/x-thrift-compact") is COMPACT
    assert protocol_of("Application/X-Thrift-Binary; charset=utf-8") is BINARY
    assert protocol_of("application/x-thrift") is JSON
    assert protocol_of("text/plain") is None
