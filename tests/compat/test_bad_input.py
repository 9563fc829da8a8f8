"""Bad bytes, bad signatures, bad sizes: a documented answer, never a hang, crash or trace."""

import contextlib
import random
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.raw_client import (
    BINARY,
    COMPACT,
    JSON,
    RawClient,
    RawTopic,
    TalosError,
    block_of,
    encode_call,
    idl,
    signed_headers,
)
from tests.server_process import ROOT_KEY, Key, ServerProcess
from tests.shared_servers import SharedServers
from tests.waiting import eventually, limit_s

from opentalos.model.limits import HttpLimits

TOPIC_PATH, MESSAGE_PATH = "/v1/api/topic", "/v1/api/message"
BODY_BYTES_MAX = 32 << 20
INVALID_NAME_ERROR = 15


@pytest.fixture
def strict_server(servers: SharedServers) -> ServerProcess:
    """A server that cuts slow senders after one second."""
    return servers.get("[http]\nrequest_timeout_s = 1.0\nidle_timeout_s = 2.0\n")


@pytest.fixture
def client(strict_server: ServerProcess) -> Iterator[RawClient]:
    one = RawClient(strict_server.port)
    yield one
    one.close()


@pytest.fixture
def still_serves(client: RawClient, strict_server: ServerProcess) -> Iterator[None]:
    """After the test the server answers, kept its memory, and printed no trace."""
    before = resident_bytes(strict_server.pid)
    yield
    client.close()
    client.call("topic", "listTopics", None)
    assert resident_bytes(strict_server.pid) - before < 200 << 20
    assert "Traceback" not in strict_server.stderr()


pytestmark = pytest.mark.usefixtures("still_serves")


def resident_bytes(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * 4096


def connect(server: ServerProcess) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=limit_s())


def answer_to(server: ServerProcess, head: bytes) -> bytes:
    """What the server first says to the head of a request."""
    with connect(server) as connection:
        connection.sendall(head)
        return connection.recv(4096)


def read_all(connection: socket.socket) -> bytes:
    """Everything until the server closes."""
    received = b""
    while chunk := connection.recv(65536):
        received += chunk
    return received


@pytest.mark.parametrize("content_type", [COMPACT, BINARY, JSON])
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\x00",
        b"\x82",
        b"\x82\x21\x07\xff\xff\xff\xff\x0f",
        b"\x80\x01\x00\x01\x7f\xff\xff\xff",
        b"[1," + b"[" * 100_000,
        b"\xff" * 1000,
        b"GET / HTTP/1.1\r\n\r\n",
    ],
    ids=["empty", "byte", "start", "long name", "huge length", "deep", "ones", "http"],
)
def test_malformed_thrift_is_a_400_with_a_reason(
    client: RawClient, content_type: str, body: bytes
) -> None:
    reply = client.post(TOPIC_PATH, body, content_type=content_type)
    assert reply.status == 400
    assert reply.body
    assert b"Traceback" not in reply.body


def test_every_truncation_of_a_put_is_a_400(client: RawClient) -> None:
    topic = RawTopic.create(client, "truncated")
    request = idl("message").PutMessageRequest(
        topicAndPartition=topic.partition(),
        messageBlocks=[block_of(b"payload")],
        messageNumber=1,
        sequenceId="s#1",
    )
    whole = encode_call("message", "putMessage", request)
    for length in range(0, len(whole) - 1, 3):
        assert client.post(MESSAGE_PATH, whole[:length]).status == 400, length
    assert topic.get(0).messageBlocks == []


def test_deeply_nested_thrift_is_a_400(client: RawClient) -> None:
    head = encode_call("topic", "listTopics", None)[:-1]
    nested = head + b"\x9c" + b"\x1c" * 200_000 + b"\x00" * 200_000
    assert client.post(TOPIC_PATH, nested).status == 400
    lists = head + b"\x99" + b"\x19" * 200_000 + b"\x00"
    assert client.post(TOPIC_PATH, lists).status == 400


def test_a_body_above_the_limit_is_refused_before_it_is_read(
    strict_server: ServerProcess,
) -> None:
    with connect(strict_server) as connection:
        head = f"POST {TOPIC_PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: {BODY_BYTES_MAX + 1}\r\n"
        connection.sendall(head.encode() + b"\r\n")
        assert connection.recv(4096).startswith(b"HTTP/1.1 413 ")


@pytest.mark.parametrize("length", ["-1", "1e3", "99999999999999999999999", "5, 6"])
def test_a_senseless_content_length_is_refused(strict_server: ServerProcess, length: str) -> None:
    with connect(strict_server) as connection:
        connection.sendall(
            f"POST {TOPIC_PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n".encode()
        )
        assert read_all(connection)[:12] in (b"HTTP/1.1 400", b"HTTP/1.1 413", b"")


def test_oversized_headers_are_refused(strict_server: ServerProcess) -> None:
    with connect(strict_server) as connection, contextlib.suppress(ConnectionError):
        connection.sendall(f"POST {TOPIC_PATH} HTTP/1.1\r\nX: {'a' * 100_000}\r\n\r\n".encode())
        assert read_all(connection)[:10] in (b"HTTP/1.1 4", b"")


def test_random_bytes_get_a_reply_or_a_clean_close(strict_server: ServerProcess) -> None:
    source = random.Random(20_201)
    for _ in range(200):
        with connect(strict_server) as connection, contextlib.suppress(ConnectionError):
            connection.sendall(source.randbytes(source.randrange(1, 400)) + b"\r\n\r\n")
            connection.shutdown(socket.SHUT_WR)
            answer = read_all(connection)
            assert answer == b"" or answer.startswith(b"HTTP/1.1 4")


@pytest.mark.parametrize(
    "sent", [b"", b"POST ", b"POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\nabc"]
)
def test_a_slow_sender_is_cut(strict_server: ServerProcess, sent: bytes) -> None:
    started = time.monotonic()
    with connect(strict_server) as connection:
        connection.sendall(sent)
        answer = read_all(connection)
    took_s = time.monotonic() - started
    assert took_s < HttpLimits().request_timeout_s, "cut by its own setting, not by the default"
    assert answer == b"" or answer.startswith(b"HTTP/1.1 4")


def test_a_wrong_signature_is_401(strict_server: ServerProcess) -> None:
    for key in (Key(ROOT_KEY.key_id, "wrong"), Key("AKUNKNOWN", "any")):
        client = RawClient(strict_server.port, key)
        assert client.post(TOPIC_PATH, encode_call("topic", "listTopics", None)).status == 401
        client.close()


def test_a_body_that_is_not_the_signed_one_is_401(client: RawClient) -> None:
    body = encode_call("topic", "listTopics", None)
    headers = signed_headers(TOPIC_PATH, body, COMPACT, ROOT_KEY)
    assert client.send(TOPIC_PATH, body[:-1] + b"\x01\x00", headers).status == 401


@pytest.mark.parametrize(
    "authorization", ["", "Galaxy-V3", "Galaxy-V3 :", "Galaxy-V3 a:%%%", "Basic eDp5", "Guest x"]
)
def test_an_unusable_authorization_is_401(client: RawClient, authorization: str) -> None:
    body = encode_call("topic", "listTopics", None)
    headers = signed_headers(TOPIC_PATH, body, COMPACT, ROOT_KEY)
    headers["Authorization"] = authorization
    assert client.send(TOPIC_PATH, body, headers).status == 401


@pytest.mark.parametrize("stamp", ["", "now", "-1", "99999999999999999999", "1e9"])
def test_a_senseless_timestamp_is_401_or_412(client: RawClient, stamp: str) -> None:
    body = encode_call("topic", "listTopics", None)
    headers = signed_headers(TOPIC_PATH, body, COMPACT, ROOT_KEY)
    headers["x-xiaomi-timestamp"] = stamp
    assert client.send(TOPIC_PATH, body, headers).status in (400, 401, 412)


@pytest.mark.parametrize(
    "name",
    ["a/b", "..", "a\x00b", "a b", "", "__a", "-a", ".a", "a#b", "ä", "a" * 121, "a" * 10_240],
)
def test_a_bad_topic_name_is_an_invalid_name_error(client: RawClient, name: str) -> None:
    with pytest.raises(TalosError) as caught:
        RawTopic.create(client, name)
    assert caught.value.code == INVALID_NAME_ERROR


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("messageNumber", 0),
        ("messageNumber", -1),
        ("block messageNumber", 0),
        ("block messageNumber", -1),
        ("block messageNumber", -(1 << 31)),
        ("messageBlockSize", -1),
    ],
)
def test_senseless_numbers_in_a_put_are_refused(client: RawClient, field: str, value: int) -> None:
    topic = RawTopic.create(client, f"numbers-{field.replace(' ', '-')}{value}")
    block = block_of(b"payload")
    request = idl("message").PutMessageRequest(
        topicAndPartition=topic.partition(),
        messageBlocks=[block],
        messageNumber=1,
        sequenceId="s#1",
    )
    setattr(block if field != "messageNumber" else request, field.split()[-1], value)
    reply = client.post(MESSAGE_PATH, encode_call("message", "putMessage", request))
    assert reply.status in (200, 400)
    with pytest.raises((TalosError, AssertionError)):
        client.call("message", "putMessage", request)
    assert topic.get(0).messageBlocks == []


@pytest.mark.parametrize(("number", "size"), [(0, 1024), (-5, 1024), (10, -1), (10, 0)])
def test_senseless_bounds_of_a_get_are_refused_or_clipped(
    client: RawClient, number: int, size: int
) -> None:
    topic = RawTopic.create(client, f"bounds-{number}-{size}".replace("--", "-minus-"))
    topic.put(b"one")
    request = idl("message").GetMessageRequest(
        topicAndPartition=topic.partition(),
        messageOffset=0,
        sequenceId="s#1",
        maxGetMessageNumber=number,
        maxGetMessageBytes=size,
    )
    reply = client.post(MESSAGE_PATH, encode_call("message", "getMessage", request))
    assert reply.status in (200, 400)


def test_an_unknown_path_is_404(client: RawClient) -> None:
    assert client.post("/v1/api/nothing", b"").status == 404


def test_pipelined_garbage_after_a_good_request_keeps_the_good_answer(
    strict_server: ServerProcess,
) -> None:
    body = encode_call("topic", "listTopics", None)
    headers = signed_headers(TOPIC_PATH, body, COMPACT, ROOT_KEY)
    head = f"POST {TOPIC_PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n"
    head += "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    with connect(strict_server) as connection:
        connection.sendall(head.encode() + b"\r\n" + body + b"\x00\x01garbage\r\n\r\n")
        assert read_all(connection).startswith(b"HTTP/1.1 200 ")


def test_bytes_in_flight_have_a_budget_for_the_whole_server(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    config = f"[http]\nbodies_bytes_total_max = {BODY_BYTES_MAX + (1 << 20)}\n"
    server = ServerProcess(tmp_path_factory.mktemp("budget"), config).start()
    head = f"POST {TOPIC_PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: {BODY_BYTES_MAX}\r\n"
    try:
        with connect(server) as first, connect(server) as second:
            first.sendall(head.encode() + b"\r\n" + b"x" * (2 << 20))
            asking = head.encode() + b"Expect: 100-continue\r\n\r\n"
            eventually(
                "the first body is in the budget, which has no room for a second one",
                lambda: answer_to(server, asking).startswith(b"HTTP/1.1 503 "),
            )
            second.sendall(head.encode() + b"\r\n")
            assert second.recv(4096).startswith(b"HTTP/1.1 503 ")
        client = RawClient(server.port)
        client.call("topic", "listTopics", None)
        client.close()
    finally:
        server.stop()
