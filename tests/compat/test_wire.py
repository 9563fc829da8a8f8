"""What is on the wire: content types, forms of errors, headers, seen below any SDK."""

import contextlib
import http.client
import json
from collections.abc import Iterator

import pytest
from tests.raw_client import (
    BINARY,
    COMPACT,
    JSON,
    JSON_ALIAS,
    RawClient,
    RawTopic,
    Reply,
    TalosError,
    block_of,
    decode_reply,
    encode_call,
    idl,
    service_of,
    signed_headers,
)
from tests.server_process import ROOT_KEY, ServerProcess
from tests.waiting import limit_s
from thriftpy2.thrift import TApplicationException

MESSAGE_OFFSET_OUT_OF_RANGE = 14
TOPIC_NOT_EXIST = 5
MESSAGE_PATH = "/v1/api/message"


@pytest.fixture
def client(server: ServerProcess) -> Iterator[RawClient]:
    raw = RawClient(server.port)
    yield raw
    raw.close()


@pytest.mark.parametrize("content_type", [COMPACT, BINARY, JSON, JSON_ALIAS])
def test_each_thrift_protocol_puts_and_gets(client: RawClient, content_type: str) -> None:
    name = "wire-" + content_type.replace("/", "-").replace("application-", "")
    topic = RawTopic.create(client, name)
    topic.put(b"by compact")
    if content_type in (COMPACT, BINARY):  # thriftpy2's JSON takes binary fields for text
        topic.put(b"\x00\xff", content_type=content_type)
        got = topic.get(0, content_type=content_type)
        assert [block.startMessageOffset for block in got.messageBlocks] == [0, 1]
        assert got.unHandledMessageNumber == 0
        assert got.messageBlocks[1].messageBlock == block_of(b"\x00\xff").messageBlock
    request = idl("topic").GetDescribeInfoRequest(topicName=name)
    described = client.call("topic", "getDescribeInfo", request, content_type)
    assert described.partitionNumber == 1


def test_binary_fields_are_base64_in_json(client: RawClient) -> None:
    topic = RawTopic.create(client, "wire-json-bytes")
    topic.put(b"\x00\x01\xfe")
    request = idl("message").GetMessageRequest(
        topicAndPartition=topic.partition(), messageOffset=0, sequenceId="s#1"
    )
    body = encode_call("message", "getMessage", request, JSON)
    reply = client.post(MESSAGE_PATH, body, content_type=JSON)
    assert reply.status == 200
    blocks = json.loads(reply.body)[4]["0"]["rec"]["1"]["lst"]
    assert blocks[:2] == ["rec", 1]
    assert isinstance(blocks[2]["4"]["str"], str)


def test_an_offset_out_of_range_has_the_form_that_go_recognises(client: RawClient) -> None:
    topic = RawTopic.create(client, "wire-range")
    topic.put(b"one")
    request = idl("message").GetMessageRequest(
        topicAndPartition=topic.partition(), messageOffset=99, sequenceId="s#1"
    )
    reply = client.post(MESSAGE_PATH, encode_call("message", "getMessage", request))
    assert reply.status == 400
    assert reply.headers["Content-Type"] == COMPACT
    assert b"Message out range" in reply.body
    with pytest.raises(TalosError) as caught:
        topic.get(99)
    assert caught.value.code == MESSAGE_OFFSET_OUT_OF_RANGE


def test_an_unknown_topic_is_a_reply_with_status_200(client: RawClient) -> None:
    request = idl("topic").GetDescribeInfoRequest(topicName="no-such-topic")
    with pytest.raises(TalosError) as caught:
        client.call("topic", "getDescribeInfo", request)
    assert (caught.value.code, caught.value.status) == (TOPIC_NOT_EXIST, 200)


def test_two_host_headers_are_accepted(server: ServerProcess) -> None:
    body = encode_call("topic", "listTopics", None)
    path = "/v1/api/topic"
    opened = http.client.HTTPConnection("127.0.0.1", server.port, timeout=limit_s())
    with contextlib.closing(opened) as connection:
        connection.putrequest("POST", path)  # adds the first Host header
        connection.putheader("Host", "127.0.0.1")
        connection.putheader("Content-Length", str(len(body)))
        for name, value in signed_headers(path, body, COMPACT, ROOT_KEY).items():
            connection.putheader(name, value)
        connection.endheaders(body)
        assert connection.getresponse().read()[:1] == b"\x82"


def test_header_names_count_in_any_case(client: RawClient) -> None:
    path, body = "/v1/api/topic", encode_call("topic", "listTopics", None)
    headers = signed_headers(path, body, COMPACT, ROOT_KEY)
    loud = {name.title(): value for name, value in headers.items()}
    assert client.send(path, body, loud).status == 200


def test_a_skewed_clock_gets_412_with_the_servers_time(client: RawClient) -> None:
    path, body = "/v1/api/topic", encode_call("topic", "listTopics", None)
    headers = signed_headers(path, body, COMPACT, ROOT_KEY, skew_s=-3600)
    reply = client.send(path, body, headers)
    assert reply.status == 412
    assert abs(int(reply.headers["X-Xiaomi-Timestamp"]) - int(headers["x-xiaomi-timestamp"])) > 3000
    within = signed_headers(path, body, COMPACT, ROOT_KEY, skew_s=800)
    assert client.send(path, body, within).status == 200


def test_an_unknown_rpc_is_a_thrift_exception(client: RawClient) -> None:
    body = encode_call("topic", "listTopics", None).replace(b"listTopics", b"listTopicz")
    reply = client.post("/v1/api/topic", body)
    assert reply.status == 200
    with pytest.raises(TApplicationException) as caught:
        decode_reply("topic", "listTopicz", reply)
    assert caught.value.type == TApplicationException.UNKNOWN_METHOD


def test_every_service_reports_its_version(client: RawClient) -> None:
    for service in ("topic", "message", "consumer", "quota", "metric"):
        version = client.call(service, "getServiceVersion", None)
        assert version.major is not None


def every_rpc() -> list[tuple[str, str]]:
    """All methods of the definitions, with those that a service inherits."""
    found = []
    for service in ("topic", "message", "consumer", "quota", "metric"):
        definition = service_of(idl(service), service)
        parents = [*definition.__mro__]
        methods = {item for each in parents for item in getattr(each, "thrift_services", ())}
        found += [(service, method) for method in sorted(methods)]
    return found


@pytest.mark.parametrize(("service", "rpc"), every_rpc())
def test_every_method_of_the_definitions_is_known(
    client: RawClient, service: str, rpc: str
) -> None:
    reply = client.post(f"/v1/api/{service}", encode_call(service, rpc, None))
    assert reply.status in (200, 400), reply
    if reply.headers["Content-Type"] == COMPACT:
        assert kind_of_failure(service, rpc, reply) != TApplicationException.UNKNOWN_METHOD


def kind_of_failure(service: str, rpc: str, reply: Reply) -> int | None:
    """The type of a Thrift exception; None for a result or an error of the protocol."""
    try:
        decode_reply(service, rpc, reply)
    except TApplicationException as error:
        return int(error.type)
    except TalosError:
        return None
    return None
