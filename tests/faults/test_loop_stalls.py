"""The largest inputs that limits allow, from one tenant, and how long each stops the event loop.

One server takes all inputs, each with its own topic and table, beside one victim that calls all the
time. What the server did is asserted; how long it took is printed, and asserted only by
``make faults``, against the same machine without an input. The server keeps its longest stall, so
the input that fails is the first one that makes it longer.
"""

import http.client
import json
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
from tests.e2e.rest.client import authorization, rest
from tests.raw_client import RawClient, RawTopic, idl
from tests.server_process import ServerProcess
from tests.waiting import elapse, limit_s

from opentalos.model.message import Compression
from opentalos.wire._generated import sds
from opentalos.wire._generated.message import GetMessageRequest, MessageBlock, PutMessageRequest
from opentalos.wire._generated.talos import SERVICES
from opentalos.wire._generated.topic import TopicAndPartition, TopicTalosResourceName
from opentalos.wire.message import Message, encode_block
from opentalos.wire.thrift import ThriftProtocol, encode_call

MIB = 1 << 20
STALL_S_MAX = 0.02
NOISE_FACTOR = 3  # of a stall without any input, on a busy machine
PAGE_S = 1.1  # a page of metrics is kept for 1 s
PAGES_S: dict[int, float] = {}  # when a server, by its port, was last asked for one
ATTACKERS = 4
ATTACK_S = 2.0
MESSAGES = "topics/{topic}/partitions/0/messages"
EVENTS = "topics/{topic}/events?from=start&limit_s=2"
RAW = {"Content-Type": "application/octet-stream"}
AS_JSON = {"Content-Type": "application/json"}
MESSAGE_SERVICE, TABLES = SERVICES["MessageService"], sds.SERVICES["TableService"]
BINARY, JSON = ThriftProtocol.BINARY, ThriftProtocol.JSON
COLUMNS = tuple("abcdefgh")  # of a table


class Input(NamedTuple):
    """``store`` is put first; then several connections send the request all the time."""

    name: str
    path: str
    body: bytes = b""
    headers: Mapping[str, str] = MappingProxyType({})
    store: Callable[["Server"], None] | None = None
    decoded_bytes_max: int | None = None  # by one read of it
    thrift: Callable[["Server"], "SignedCall"] | None = None  # makes it instead of path and body


class SignedCall(NamedTuple):
    """A Thrift call."""

    path: str
    body: bytes
    content_type: str


@dataclass
class Server:
    """The server with the topic of one input; its table has the same name."""

    process: ServerProcess
    topic: RawTopic

    def path_of(self, given: Input) -> str:
        return given.path.replace("{topic}", self.topic.name)

    @property
    def port(self) -> int:
        return self.process.port

    def put_block(self, messages: list[Message], compression: Compression) -> None:
        self.topic.client.call("message", "putMessage", self.put_request(messages, compression))

    def put_request(self, messages: list[Message], compression: Compression) -> Any:
        data = encode_block(messages, compression)
        block = idl("message").MessageBlock(
            startMessageOffset=0, messageNumber=len(messages), compressionType=int(compression),
            messageBlock=data, messageBlockSize=len(data), createTimestamp=1,
        )  # fmt: skip
        return idl("message").PutMessageRequest(
            topicAndPartition=self.topic.partition(), messageBlocks=[block],
            messageNumber=len(messages), sequenceId="x#1",
        )  # fmt: skip

    def put_raw(self, data: bytes) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=limit_s())
        headers = authorization() | RAW
        path = MESSAGES.replace("{topic}", self.topic.name)
        connection.request("POST", f"/rest/v1/{path}", data, headers)
        reply = connection.getresponse()
        assert reply.status == 200, reply.read()
        connection.close()

    def metrics(self) -> dict[str, float]:
        """A page that was made after this call began."""
        old_s = time.monotonic() - PAGES_S.get(self.port, 0.0)
        elapse("the server makes another page", max(0.0, PAGE_S - old_s))
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=limit_s())
        connection.request("GET", "/metrics", headers=authorization())
        text = connection.getresponse().read().decode()
        connection.close()
        PAGES_S[self.port] = time.monotonic()
        found = re.findall(r"^opentalos_(\w+) ([0-9.e+-]+)$", text, re.MULTILINE)
        return {name: float(value) for name, value in found}


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    process = ServerProcess(tmp_path_factory.mktemp("stalls") / "s")
    process.start()
    yield process
    process.stop()


@contextmanager
def served(process: ServerProcess, topic: str) -> Iterator[Server]:
    client = RawClient(process.port)
    try:
        yield Server(process, RawTopic.create(client, topic))
    finally:
        client.close()


def bomb(compression: Compression) -> Callable[[Server], None]:
    messages = [Message(b"\0" * 5_800)] * 10_000  # 58 MB
    return lambda server: server.put_block(messages, compression)


def many(server: Server) -> None:
    server.put_block([Message(b"")] * 100_000, Compression.ZSTD)


def stored(data: bytes) -> Callable[[Server], None]:
    return lambda server: server.put_raw(data)


def body_of(value: bytes) -> bytes:
    return b'{"messages":[{"value":' + value + b"}]}"


def partition_of(server: Server) -> TopicAndPartition:
    sent = server.topic.partition()
    resource = sent.topicTalosResourceName.topicTalosResourceName
    return TopicAndPartition(
        topicName=sent.topicName, partitionId=0,
        topicTalosResourceName=TopicTalosResourceName(topicTalosResourceName=resource),
    )  # fmt: skip


def thrift_put(protocol: ThriftProtocol, *blocks: MessageBlock) -> Callable[[Server], SignedCall]:
    """A put of these blocks in a protocol; the server may refuse it, but must decode it."""

    def make(server: Server) -> SignedCall:
        request = PutMessageRequest(
            topicAndPartition=partition_of(server),
            messageBlocks=list(blocks), messageNumber=len(blocks), sequenceId="x#1",
        )  # fmt: skip
        body = encode_call(protocol, MESSAGE_SERVICE.methods["putMessage"], 1, request)
        return SignedCall(MESSAGE_SERVICE.path, body, protocol.value)

    return make


def thrift_get(server: Server) -> SignedCall:
    request = GetMessageRequest(
        topicAndPartition=partition_of(server), messageOffset=0,
        sequenceId="x#1",
    )  # fmt: skip
    body = encode_call(JSON, MESSAGE_SERVICE.methods["getMessage"], 1, request)
    return SignedCall(MESSAGE_SERVICE.path, body, JSON.value)


def of_block(data: bytes, times: int = 0) -> MessageBlock:
    return MessageBlock(
        startMessageOffset=0, messageNumber=1, messageBlock=data,
        createTimestampList=[1_732_500_000_000] * times or None,
    )  # fmt: skip


def table(server: Server) -> None:
    columns = {"key": "int64", **dict.fromkeys(COLUMNS, "int64")}
    document = {"name": server.topic.name, "key": ["key"], "columns": columns}
    made = rest(server.process, "POST", "tables", document)
    assert made.status == 201, made


def record(number: int) -> dict[str, sds.Datum]:
    value = sds.Datum(type=sds.DataType.INT64, value=sds.Value(int64Value=number))
    return dict.fromkeys(("key", *COLUMNS), value)


def sds_call(protocol: ThriftProtocol, rpc: str, request: Any) -> SignedCall:
    body = encode_call(protocol, TABLES.methods[rpc], 1, request)
    return SignedCall(TABLES.path, body, protocol.value)


def sds_batch(protocol: ThriftProtocol, items: int) -> Callable[[Server], SignedCall]:
    def make(server: Server) -> SignedCall:
        name = server.topic.name
        puts = [sds.PutRequest(tableName=name, record=record(n)) for n in range(items)]
        wanted = [
            sds.BatchRequestItem(action=sds.BatchOp.PUT, request=sds.Request(putRequest=put))
            for put in puts
        ]
        return sds_call(protocol, "batch", sds.BatchRequest(items=wanted))

    return make


def table_of_records(server: Server) -> None:
    table(server)
    client = RawClient(server.port)
    call = sds_batch(ThriftProtocol.BINARY, 900)(server)
    assert client.post(call.path, call.body, content_type=call.content_type).status == 200
    client.close()


def sds_scan(server: Server) -> SignedCall:
    request = sds.ScanRequest(tableName=server.topic.name, limit=1_000, condition="a >= 0")
    return sds_call(ThriftProtocol.BINARY, "scan", request)


AT = "offset=0&messages_max=200&bytes_max=262144"
INPUTS = (
    *(
        Input(
            f"{kind.name} block of 58 MB, its first messages", f"{MESSAGES}?{AT}",
            store=bomb(kind), decoded_bytes_max=most,
        )
        for kind, most in (
            (Compression.ZSTD, MIB), (Compression.GZIP, MIB), (Compression.SNAPPY, MIB),
            (Compression.LZ4, 64 * MIB),
        )
    ),
    Input(
        "ZSTD block of 58 MB, its last messages", f"{MESSAGES}?offset=9990",
        store=bomb(Compression.ZSTD),
    ),
    Input("ZSTD block of 58 MB as a stream", EVENTS, store=bomb(Compression.ZSTD)),
    Input("block of 100,000 empty messages", f"{MESSAGES}?offset=99000", store=many),
    Input(
        "message of 10 MB of brackets as JSON", f"{MESSAGES}?encoding=json",
        store=stored(b"[" + b"[]," * 3_300_000 + b"1]"),
    ),
    Input(
        "message of 10 MB of numbers as JSON", f"{MESSAGES}?encoding=json",
        store=stored(b"[" + b"1.5," * 2_500_000 + b"1]"),
    ),
    Input(
        "message of 10 MB of line feeds as a JSON stream", f"{EVENTS}&encoding=json",
        store=stored(b"[" + b"\n" * 10_000_000 + b"]"),
    ),
    Input("message of 10 MB as base64", MESSAGES, store=stored(b"\xff" * 10_000_000)),
    Input(
        "message of 10 MB as text", f"{MESSAGES}?encoding=text", store=stored(b"\x01" * 10_000_000)
    ),
    Input(
        "body of 4 MB of numbers", MESSAGES, body_of(b"[" + b"1.5," * 1_000_000 + b"1]"), AS_JSON
    ),
    Input(
        "body with an object of 300,000 fields", MESSAGES,
        body_of(json.dumps({str(number): 1 for number in range(300_000)}).encode()), AS_JSON,
    ),
    Input(
        "body of 4 MB of base64", MESSAGES,
        b'{"messages":[{"base64":"' + b"A" * 4_000_000 + b'"}]}', AS_JSON,
    ),
    Input(
        "raw body of 10 MB with an idempotency key", MESSAGES, b"x" * 10_000_000,
        {**RAW, "Idempotency-Key": "k"},
    ),
    *(
        Input(
            f"Thrift put of 20 MB in {kind.name}", "",
            thrift=thrift_put(kind, of_block(b"\xff" * 20_000_000)),
        )
        for kind in (BINARY, JSON)
    ),
    *(
        Input(
            f"Thrift put of 100,000 create times in {kind.name}", "",
            thrift=thrift_put(kind, of_block(b"x", 100_000)),
        )
        for kind in ThriftProtocol
    ),
    Input(
        "Thrift put of 16,000 blocks in JSON", "",
        thrift=thrift_put(JSON, *[of_block(b"x")] * 16_000),
    ),
    Input(
        "Thrift get of 9 MB in JSON", "", thrift=thrift_get, store=stored(b"\xff" * 9_000_000)
    ),
    *(
        Input(
            f"SDS batch of 900 puts in {kind.name}", "", store=table, thrift=sds_batch(kind, 900)
        )
        for kind in (BINARY, ThriftProtocol.COMPACT)
    ),
    Input("SDS scan of 900 records", "", store=table_of_records, thrift=sds_scan),
)  # fmt: skip


def send(
    server: Server,
    given: Input,
    call: SignedCall | None,
    over: threading.Event,
    counts: list[int],
) -> None:
    """Send the request again and again until the attack is over and something was answered."""
    while not (counts and over.is_set()):
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=limit_s())
        try:
            if call is not None:
                client = RawClient(server.port)
                reply = client.post(call.path, call.body, content_type=call.content_type)
                client.close()
                counts.append(reply.status)
                continue
            method = "POST" if given.body else "GET"
            path = f"/rest/v1/{server.path_of(given)}"
            connection.request(
                method, path, given.body or None, {**authorization(), **given.headers}
            )
            answer = connection.getresponse()
            while answer.read(MIB):
                pass
            counts.append(answer.status)
        except OSError:
            counts.append(0)
        finally:
            connection.close()


def attacked(server: Server, given: Input | None) -> tuple[list[int], list[float]]:
    """Statuses of the attackers and latencies of a victim."""
    call = given.thrift(server) if given is not None and given.thrift is not None else None
    over = threading.Event()
    threads: list[threading.Thread] = [threading.Timer(ATTACK_S, over.set)]
    statuses: list[int] = []
    if given is not None:
        threads += [
            threading.Thread(target=send, args=(server, given, call, over, statuses))
            for _ in range(ATTACKERS)
        ]
    for thread in threads:
        thread.start()
    latencies: list[float] = []
    while not (latencies and over.is_set()):
        began = time.monotonic()
        reply = rest(server.process, "GET", "topics")
        latencies.append(time.monotonic() - began)
        assert reply.status == 200, reply
    for thread in threads:
        thread.join()
    return statuses, sorted(latencies)


@pytest.fixture(scope="module")
def noise_s(process: ServerProcess) -> float:
    """The longest stall on this machine without any input."""
    with served(process, "quiet") as server:
        attacked(server, None)
        return server.metrics()["loop_blocked_longest_seconds"]


@pytest.mark.parametrize("number", range(len(INPUTS)), ids=[each.name for each in INPUTS])
def test_no_input_stops_the_event_loop(
    process: ServerProcess, noise_s: float, full: bool, number: int
) -> None:
    given = INPUTS[number]
    with served(process, f"t{number}") as server:
        if given.store is not None:
            given.store(server)
        before = server.metrics()
        if given.decoded_bytes_max is not None:
            rest(server.process, "GET", server.path_of(given))
            decoded = server.metrics()["decoded_bytes_total"] - before["decoded_bytes_total"]
            assert 0 < decoded <= given.decoded_bytes_max
        statuses, latencies = attacked(server, given)
        after = server.metrics()
    longest, recent = "loop_blocked_longest_seconds", "loop_blocked_recent_seconds"
    sys.stdout.write(
        f"\n| {given.name}: longest stall of the last minute {after[recent] * 1e3:.0f} ms, "
        f"without an input {noise_s * 1e3:.0f} ms, {len(statuses)} calls, "
        f"victim's median {latencies[len(latencies) // 2] * 1e3:.0f} ms\n"
    )
    assert statuses
    assert set(statuses) <= {200, 409, 413, 503, 504}  # 504: a busy machine
    assert after["long_work_turns_total"] > before["long_work_turns_total"]
    assert after[longest] >= after[recent]
    if full and after[longest] > before[longest]:
        assert after[longest] <= max(STALL_S_MAX, NOISE_FACTOR * noise_s)
