"""The list of behaviours, what a server answers to each, and what they find when they start."""

import time
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from bench.client import Client, Key
from bench.noisy import kafka_attacks, strangers, tenants
from bench.noisy.attacker import BOMBS, CLOSED, TABLE, TOPIC, Attacker, Ports, ports_of
from bench.noisy.kafka_link import CODES, UNREAD
from bench.server import ServerProcess
from opentalos.model.message import Compression
from opentalos.sdk.core.config import ClientConfig
from opentalos.sdk.rest_client import RestClient
from opentalos.wire._generated.message import (
    MESSAGE_SERVICE,
    MessageBlock,
    MessageCompressionType,
    PutMessageRequest,
)
from opentalos.wire.kafka.errors import ErrorCode
from opentalos.wire.message import Message, encode_block

ROWS = 1_000
LARGE_BLOCKS = 20
LARGE_BYTES = 1 << 20


class Behaviour(NamedTuple):
    """``refused``: statuses of which at least one must be seen; ``allowed``: the others. Of Kafka,
    ``CODES`` and an error code are counted as a status."""

    name: str
    attack: Callable[[Attacker], None]
    refused: frozenset[int] = frozenset()
    allowed: frozenset[int] = frozenset({200, 429, 503})


def _of(name: str, attack: Callable[[Attacker], None], *refused: int, also: str = "") -> Behaviour:
    allowed = frozenset(map(int, also.split())) | {0, 429, 503}
    return Behaviour(name, attack, frozenset(refused), allowed)


_ANSWERS = (
    ErrorCode.NONE,
    ErrorCode.MEMBER_ID_REQUIRED,
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)


def _kafka(name: str, attack: Callable[[Attacker], None]) -> Behaviour:
    allowed = frozenset({CLOSED, UNREAD, *(CODES + code for code in _ANSWERS)})
    return Behaviour(f"Kafka: {name}", attack, allowed=allowed)


BEHAVIOURS = (
    _of("bodies of strangers", strangers.bodies, 503),
    _of("heads byte by byte", strangers.slow_heads),
    _of("bodies byte by byte", strangers.slow_bodies),
    _of("connection flood", strangers.connection_flood),
    _of("huge headers", strangers.huge_headers, 431),
    _of("malformed HTTP", strangers.malformed, 400),
    _of("pipelined requests", strangers.pipelined, also="200 404"),
    _of("Upgrade with a hidden request", strangers.upgrades, also="400 401 501"),
    _of("wrong secrets", strangers.wrong_secrets, 401),
    _of("half requests", strangers.half_closed, also="400 408"),
    _of("compressed bodies", strangers.compressed_bodies, also="200 400 401 403 413 415"),
    _of("deep JSON", tenants.deep_json, also="400 413"),
    _of("giant JSON array", tenants.giant_json, also="200 400 413"),
    _of("Thrift list of 2^31 items", tenants.thrift_claims, also="200 400"),
    _of("giant Thrift container", tenants.thrift_containers, also="200 400"),
    _of("half-closed long polls", tenants.half_closed_polls),
    _of("event streams by the hundred", tenants.event_streams, also="200"),
    _of("decompression bombs", tenants.bombs, also="200"),
    _of("random group names", tenants.group_names, also="201 409"),
    _of("retries without pause", tenants.retries, 404),
    _of("metadata listings", tenants.listings, also="200 401 403 404"),
    _of("audit reading", tenants.audit_reading, also="200 404"),
    _of("grants churn", tenants.grants_churn, also="204 404 409"),
    _of("topic churn", tenants.topic_churn, also="201 204 404 409"),
    _of("table scans with a long filter", tenants.table_scans, also="200"),
    _of("idempotency keys", tenants.idempotency_keys, also="200"),
    _of("producer ids", tenants.producer_ids, also="200"),
    _of("put flood", tenants.put_flood, also="200"),
    _of("large fetches", tenants.large_fetches, also="200"),
    _of("slow readers", tenants.slow_readers, also="200"),
    _kafka("expensive patterns", kafka_attacks.patterns),
    _kafka("20,000 topics", kafka_attacks.topic_names),
    _kafka("20,000 groups", kafka_attacks.group_names),
    _kafka("gzip to a missing topic", kafka_attacks.packed_to_missing),
    _kafka("gzip without a right", kafka_attacks.packed_without_right),
    _kafka("joins and hang-ups", kafka_attacks.joins),
    _kafka("announced requests", kafka_attacks.announced),
    _kafka("idle connections", kafka_attacks.idle),
    _kafka("pipelined puts", kafka_attacks.pipelined_puts),
    _kafka("puts, topics and unread fetches", kafka_attacks.puts_topics_fetches),
    _kafka("patterns, joins and gzip", kafka_attacks.patterns_joins_batches),
    _kafka("strangers and puts", kafka_attacks.strangers_and_puts),
)
BY_NAME = {behaviour.name: behaviour for behaviour in BEHAVIOURS}


def attack(name: str, ports: Ports, key: Key, seconds: float) -> Counter[int]:
    """Behave so for so long; what was seen, by status."""
    attacker = Attacker(ports, key, time.monotonic() + seconds)
    BY_NAME[name].attack(attacker)
    return attacker.seen


def unexpected(name: str, seen: Counter[int]) -> str:
    """What is wrong with these statuses; empty: nothing."""
    behaviour = BY_NAME[name]
    if strange := set(seen) - behaviour.allowed - behaviour.refused:
        return f"statuses {sorted(strange)} are not expected"
    if behaviour.refused and not behaviour.refused & set(seen):
        return f"none of the statuses {sorted(behaviour.refused)}: {dict(seen)}"
    return ""


def prepare(server: ServerProcess, key: Key) -> None:
    """The attacking tenant's topics and table. The first client of Kafka comes, which is slow: what
    serves it is imported then."""
    kafka_attacks.greet(Attacker(ports_of(server), key, 0.0))
    client = Client(server.port, key)
    client.create_topic(TOPIC, 8)
    bombs = client.create_topic(BOMBS, 1)
    messages = [Message(b"\0" * 5_800)] * 10_000
    data = encode_block(messages, Compression.ZSTD)
    block = MessageBlock(
        startMessageOffset=0, messageNumber=len(messages), messageBlock=data,
        compressionType=MessageCompressionType(int(Compression.ZSTD)),
        messageBlockSize=len(data), createTimestamp=1,
    )  # fmt: skip
    request = PutMessageRequest(
        topicAndPartition=bombs.partition(0), messageBlocks=[block],
        messageNumber=len(messages), sequenceId="noisy#1",
    )  # fmt: skip
    client.call(MESSAGE_SERVICE, "putMessage", request)
    large = client.create_topic(BOMBS + "_large", 1)
    for _ in range(LARGE_BLOCKS):
        client.raw_put(large.put_body(0, LARGE_BYTES))
    client.close()
    rest = RestClient(ClientConfig(endpoints=(server.url,), key_id=key.id, secret=key.secret))
    columns = {"id": "int64", "note": "string"}
    rest("POST", "tables", {"name": TABLE, "key": ["id"], "columns": columns})
    rows = [{"put": {"row": {"id": number, "note": "n" * 100}}} for number in range(ROWS)]
    for first in range(0, ROWS, 50):
        rest("POST", f"tables/{TABLE}/rows/batch", {"items": rows[first : first + 50]})
