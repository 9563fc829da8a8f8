"""Behaviours of a tenant with a key: large inputs, streams, floods of calls."""

import contextlib
import itertools
import socket
import uuid

from bench.client import BenchTopic, Client
from bench.noisy.attacker import BOMBS, SHORT_S, TABLE, TOPIC, Attacker
from bench.noisy.victim import put_body
from opentalos.wire._generated.message import MESSAGE_SERVICE
from opentalos.wire._generated.topic import TOPIC_SERVICE
from opentalos.wire.thrift import ThriftProtocol, encode_call

THREADS = 4
POLLS = 1_000
STREAMS = 300
MESSAGES = f"topics/{TOPIC}/partitions/0/messages"
JSON_TYPE = "Content-Type: application/json"
JSON_BYTES = 4_000_000  # below the limit of a body with messages
DESCRIBE_HEAD = b"\x82\x21\x01\x0ddescribeTopic"
LIST_HEAD = b"\x82\x21\x01\x20changeReplicationTopicSourceInfo\x1c"
VALUES = 400_000
FETCH_BYTES = 10 << 20


def _json_body(attacker: Attacker, body: bytes) -> None:
    head = attacker.head("POST", MESSAGES, JSON_TYPE, f"Content-Length: {len(body)}")
    attacker.together(THREADS, lambda: attacker.once(head, b"\r\n", body))


def deep_json(attacker: Attacker) -> None:
    """Put a document of nothing but brackets."""
    _json_body(attacker, b'{"messages":[{"value":' + b"[" * JSON_BYTES)


def giant_json(attacker: Attacker) -> None:
    """Put an array of a million numbers."""
    _json_body(attacker, b'{"messages":[{"value":[' + b"1.5," * (JSON_BYTES // 4) + b"1]}]}")


def _thrift_body(attacker: Attacker, body: bytes) -> None:
    request = attacker.thrift(TOPIC_SERVICE.path, body)
    attacker.together(THREADS, lambda: attacker.once(request))


def thrift_claims(attacker: Attacker) -> None:
    """Send a Thrift list that claims to have 2^31 - 1 items."""
    _thrift_body(attacker, LIST_HEAD + b"\x29\xfc\xff\xff\xff\xff\x07" + b"\0" * 64)


def thrift_containers(attacker: Attacker) -> None:
    """Send a Thrift list that does have hundreds of thousands of items, in an unknown field."""
    size = bytes((VALUES & 0x7F | 0x80, VALUES >> 7 & 0x7F | 0x80, VALUES >> 14))
    _thrift_body(attacker, DESCRIBE_HEAD + b"\x1c\x79\xf1" + size + b"\x01" * VALUES + b"\0\0\0")


def half_closed_polls(attacker: Attacker) -> None:
    """Start long polls by the thousand and close the sending side."""
    request = attacker.head("GET", f"{MESSAGES}?at=end&wait_s=30") + b"\r\n"
    with contextlib.ExitStack() as held:
        for _ in range(POLLS):
            if not attacker.running:
                break
            connection = held.enter_context(attacker.connect())
            with contextlib.suppress(OSError):
                connection.sendall(request)
                connection.shutdown(socket.SHUT_WR)
        attacker.wait()


def event_streams(attacker: Attacker) -> None:
    """Hold streams of server-sent events by the hundred, on blocks that decode to much."""
    request = attacker.head("GET", f"topics/{BOMBS}/events?from=start") + b"\r\n"
    with contextlib.ExitStack() as held:
        for _ in range(STREAMS):
            if not attacker.running:
                break
            connection = held.enter_context(attacker.connect(SHORT_S))
            connection.sendall(request)
            attacker.status(connection)
        attacker.wait()


def bombs(attacker: Attacker) -> None:
    """Read a block of kilobytes that decodes to 58 MB, in small parts."""
    request = attacker.head("GET", f"topics/{BOMBS}/partitions/0/messages?offset=9990") + b"\r\n"
    attacker.together(THREADS, lambda: attacker.once(request))


def group_names(attacker: Attacker) -> None:
    """Join a group of another name each time."""

    def join() -> None:
        connection = attacker.kept()
        while attacker.running:
            name = uuid.uuid4().hex
            attacker.call(connection, "POST", f"topics/{TOPIC}/groups/{name}/workers")
        connection.close()

    attacker.together(THREADS, join)


def _rest_calls(attacker: Attacker, *calls: tuple[str, str, object]) -> None:
    def repeat() -> None:
        connection = attacker.kept()
        for method, path, document in itertools.cycle(calls):
            if not attacker.running:
                break
            attacker.call(connection, method, path, document)
        connection.close()

    attacker.together(THREADS, repeat)


def retries(attacker: Attacker) -> None:
    """Repeat a call that fails without pause."""
    _rest_calls(attacker, ("GET", "topics/absent/partitions/0/messages", None))


def listings(attacker: Attacker) -> None:
    """List metadata in a loop."""
    paths = ("topics?scope=visible", "openapi.json", "tables", f"topics/{TOPIC}/offsets", "status")
    _rest_calls(attacker, *(("GET", path, None) for path in paths))


def audit_reading(attacker: Attacker) -> None:
    """Read the audit log from its start in a loop."""
    _rest_calls(attacker, ("GET", "audit?since_ms=0&limit=1000", None))


def grants_churn(attacker: Attacker) -> None:
    """Grant and revoke a permission in a loop."""
    path = f"topics/{TOPIC}/permissions/guest"
    granted = {"permissions": ["DESCRIBE_TOPIC"]}
    _rest_calls(attacker, ("PUT", path, granted), ("DELETE", path, None))


def topic_churn(attacker: Attacker) -> None:
    """Create and delete topics in a loop."""

    def repeat() -> None:
        connection = attacker.kept()
        while attacker.running:
            name = f"t{uuid.uuid4().hex}"
            attacker.call(connection, "POST", "topics", {"name": name, "partitions": 1})
            attacker.call(connection, "DELETE", f"topics/{name}")
        connection.close()

    attacker.together(2, repeat)


def table_scans(attacker: Attacker) -> None:
    """Scan a table with a long filter that no row passes."""
    condition = " OR ".join(f"note = 'x{number}'" for number in range(200))
    scan = {"filter": condition, "limit": 10_000}
    _rest_calls(attacker, ("POST", f"tables/{TABLE}/rows/scan", scan))


def idempotency_keys(attacker: Attacker) -> None:
    """Put with another idempotency key each time."""

    def repeat() -> None:
        connection = attacker.kept()
        while attacker.running:
            headers = attacker.authorization | {
                "Content-Type": "application/octet-stream",
                "Idempotency-Key": uuid.uuid4().hex,
            }
            attacker.raw_call(connection, "POST", f"/rest/v1/{MESSAGES}", b"x", headers)
        connection.close()

    attacker.together(THREADS, repeat)


def _puts(attacker: Attacker, topic: BenchTopic, producer: int | None) -> None:
    client = Client(attacker.ports.http, attacker.key)
    numbers = itertools.count(1)
    while attacker.running:
        number = next(numbers)
        stamp = None if producer is None else producer + number
        try:
            client.raw_put(put_body(topic, number % topic.partitions, b"n" * 1_000, stamp))
            attacker.seen[200] += 1
        except RuntimeError:
            attacker.seen[500] += 1


def producer_ids(attacker: Attacker) -> None:
    """Put as another idempotent producer each time."""
    topic = attacker.topic(TOPIC)
    starts = itertools.count(1, 1 << 32)
    attacker.together(THREADS, lambda: _puts(attacker, topic, next(starts)))


def put_flood(attacker: Attacker) -> None:
    """Put as fast as it can."""
    topic = attacker.topic(TOPIC)
    attacker.together(THREADS, lambda: _puts(attacker, topic, None))


def _fetch(topic: BenchTopic, attacker: Attacker) -> bytes:
    method = MESSAGE_SERVICE.methods["getMessage"]
    request = topic.get(0, 0, bytes_max=FETCH_BYTES)
    return attacker.thrift(
        MESSAGE_SERVICE.path, encode_call(ThriftProtocol.COMPACT, method, 1, request)
    )


def large_fetches(attacker: Attacker) -> None:
    """Fetch 10 MiB again and again and read it."""
    request = _fetch(attacker.topic(BOMBS + "_large"), attacker)

    def fetch() -> None:
        with contextlib.suppress(OSError), attacker.connect() as connection:
            connection.sendall(request.replace(b"Host: ", b"Connection: close\r\nHost: ", 1))
            attacker.status(connection)
            while attacker.running and connection.recv(1 << 20):
                pass

    attacker.together(THREADS, fetch)


def slow_readers(attacker: Attacker) -> None:
    """Fetch 10 MiB over many connections and read none of it."""
    request = _fetch(attacker.topic(BOMBS + "_large"), attacker)
    with contextlib.ExitStack() as held:
        for _ in range(100):
            if not attacker.running:
                break
            connection = held.enter_context(attacker.connect(SHORT_S))
            with contextlib.suppress(OSError):
                connection.sendall(request * 4)
            attacker.status(connection)
        attacker.wait()
