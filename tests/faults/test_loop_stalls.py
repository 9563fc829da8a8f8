"""The largest inputs that limits allow, from one tenant, and how long each stops the event loop.

Each input has a fresh server with one victim that calls all the time. What the server did is
asserted; how long it took is printed, and asserted only by ``make faults``, against the same
machine without the input.
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
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
from tests.e2e.rest.client import authorization, rest
from tests.raw_client import BINARY, RawClient, RawTopic, encode_call, idl
from tests.server_process import ServerProcess

from opentalos.model.message import Compression
from opentalos.wire.message import Message, encode_block

pytestmark = [pytest.mark.backend, pytest.mark.timeout(600)]

MIB = 1 << 20
STALL_S_MAX = 0.02
NOISE_FACTOR = 3  # of a stall without any input, on a busy machine
PAGE_S = 1.1  # a page of metrics is kept for 1 s
ATTACKERS = 4
ATTACK_S = 3.0
MESSAGES = "topics/t/partitions/0/messages"
EVENTS = "topics/t/events?from=start&limit_s=3"
RAW = {"Content-Type": "application/octet-stream"}
AS_JSON = {"Content-Type": "application/json"}


class Input(NamedTuple):
    """``store`` is put first; then several connections send the request all the time."""

    name: str
    path: str
    body: bytes = b""
    headers: Mapping[str, str] = MappingProxyType({})
    store: Callable[["Server"], None] | None = None
    decoded_bytes_max: int | None = None  # by one read of it
    thrift: str = ""  # the content type of a signed call


@dataclass
class Server:
    """One server with a topic."""

    process: ServerProcess
    topic: RawTopic

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
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        headers = authorization() | RAW
        connection.request("POST", f"/rest/v1/{MESSAGES}", data, headers)
        reply = connection.getresponse()
        assert reply.status == 200, reply.read()
        connection.close()

    def metrics(self) -> dict[str, float]:
        time.sleep(PAGE_S)
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request("GET", "/metrics", headers=authorization())
        text = connection.getresponse().read().decode()
        connection.close()
        found = re.findall(r"^opentalos_(\w+) ([0-9.e+-]+)$", text, re.MULTILINE)
        return {name: float(value) for name, value in found}


@contextmanager
def served(folder: Path) -> Iterator[Server]:
    process = ServerProcess(folder)
    process.start()
    try:
        client = RawClient(process.port, timeout_s=60)
        yield Server(process, RawTopic.create(client, "t"))
        client.close()
    finally:
        process.stop()


def bomb(compression: Compression) -> Callable[[Server], None]:
    messages = [Message(b"\0" * 5_800)] * 10_000  # 58 MB
    return lambda server: server.put_block(messages, compression)


def many(server: Server) -> None:
    server.put_block([Message(b"")] * 100_000, Compression.ZSTD)


def stored(data: bytes) -> Callable[[Server], None]:
    return lambda server: server.put_raw(data)


def body_of(value: bytes) -> bytes:
    return b'{"messages":[{"value":' + value + b"}]}"


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
    Input("Thrift put of 20 MB", "", thrift=BINARY),
)  # fmt: skip


def send(server: Server, given: Input, until_s: float, counts: list[int]) -> None:
    """Send the request over one connection until time is over."""
    while time.monotonic() < until_s:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        try:
            if given.thrift:
                client = RawClient(server.port, timeout_s=60)
                reply = client.post("/v1/api/message", given.body, content_type=given.thrift)
                client.close()
                counts.append(reply.status)
                continue
            method = "POST" if given.body else "GET"
            path = f"/rest/v1/{given.path}"
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
    until_s = time.monotonic() + ATTACK_S
    statuses: list[int] = []
    threads = []
    if given is not None:
        threads = [
            threading.Thread(target=send, args=(server, given, until_s, statuses))
            for _ in range(ATTACKERS)
        ]
    for thread in threads:
        thread.start()
    latencies = []
    while time.monotonic() < until_s:
        began = time.monotonic()
        reply = rest(server.process, "GET", "topics")
        latencies.append(time.monotonic() - began)
        assert reply.status == 200, reply
    for thread in threads:
        thread.join()
    return statuses, sorted(latencies)


@pytest.fixture(scope="module")
def noise_s(tmp_path_factory: pytest.TempPathFactory) -> float:
    """The longest stall on this machine without any input."""
    with served(tmp_path_factory.mktemp("quiet") / "s") as server:
        attacked(server, None)
        return server.metrics()["loop_blocked_longest_seconds"]


@pytest.mark.parametrize("given", INPUTS, ids=[each.name for each in INPUTS])
def test_no_input_stops_the_event_loop(
    tmp_path: Path, noise_s: float, full: bool, given: Input
) -> None:
    with served(tmp_path / "s") as server:
        if given.thrift:
            messages = [Message(b"%010000d" % number) for number in range(2_000)]
            request = server.put_request(messages, Compression.NONE)
            body = encode_call("message", "putMessage", request, given.thrift)
            given = given._replace(body=body)
        if given.store is not None:
            given.store(server)
        before = server.metrics()
        if given.decoded_bytes_max is not None:
            rest(server.process, "GET", given.path)
            decoded = server.metrics()["decoded_bytes_total"] - before["decoded_bytes_total"]
            assert 0 < decoded <= given.decoded_bytes_max
        statuses, latencies = attacked(server, given)
        after = server.metrics()
    stall_s = after["loop_blocked_longest_seconds"]
    sys.stdout.write(
        f"\n| {given.name}: longest stall {stall_s * 1e3:.0f} ms, "
        f"without it {noise_s * 1e3:.0f} ms, {len(statuses)} calls, "
        f"victim's median {latencies[len(latencies) // 2] * 1e3:.0f} ms\n"
    )
    assert statuses
    assert set(statuses) <= {200, 409, 413, 503, 504}  # 504: a busy machine
    assert after["long_work_turns_total"] > before["long_work_turns_total"]
    if full:
        assert stall_s <= max(STALL_S_MAX, NOISE_FACTOR * noise_s)
