"""Behaviours of a tenant with a key, or of a stranger, at the Kafka port."""

import contextlib
import gzip
import itertools
import struct
import threading
import uuid
from collections.abc import Callable

from bench.noisy.attacker import BOMBS, TOPIC, Attacker
from bench.noisy.kafka_link import KafkaLink, Request, repeat
from opentalos.wire.kafka._generated.describe_topic_partitions_request import TopicRequest
from opentalos.wire.kafka._generated.fetch_request import FetchPartition, FetchTopic
from opentalos.wire.kafka._generated.join_group_request import JoinGroupRequestProtocol
from opentalos.wire.kafka._generated.metadata_request import MetadataRequestTopic
from opentalos.wire.kafka._generated.produce_request import PartitionProduceData, TopicProduceData
from opentalos.wire.kafka.apis import ApiKey
from opentalos.wire.message.kafka_batch import HEAD, set_crc
from opentalos.wire.message.kafka_format import encode_kafka_batch
from opentalos.wire.message.message import Message

THREADS = 4
NAMES = 20_000
PIPELINES, PIPELINED = 100, 32
IDLE = 2_000
ANNOUNCED = 300
ANNOUNCED_BYTES = 30 << 20  # [kafka] request_bytes_max is 32 MiB
PACKED_BYTES = 100 << 10  # of a batch, decompressed
BATCHES = 300  # of a request
FETCH_BYTES = 10 << 20
READERS = 50
PATTERN = "(a|a?)+" * 8 + "b"
MISSING = "absent"
OF_VICTIM = "alice/victim"
SESSION_MS = 6_000
_ATTRIBUTES_AT, _LENGTH_AT, _LENGTH_END, _GZIP = 21, 8, 12, 1


def greet(attacker: Attacker) -> None:
    """Authenticate, and ask for one missing topic."""
    with KafkaLink(attacker) as link:
        link.ask(Request(ApiKey.METADATA, 12, topics=[MetadataRequestTopic(name=MISSING)]))


def _patterns(attacker: Attacker) -> None:
    with contextlib.suppress(OSError), KafkaLink(attacker) as link:
        while attacker.running and link.open:
            link.ask(
                Request(
                    ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, group_id=uuid.uuid4().hex,
                    member_id=uuid.uuid4().hex, rebalance_timeout_ms=60_000,
                    subscribed_topic_regex=PATTERN + uuid.uuid4().hex, topic_partitions=[],
                )
            )  # fmt: skip


def patterns(attacker: Attacker) -> None:
    """Subscribe to another pattern each time, which matches in exponentially many ways."""
    attacker.together(THREADS, lambda: _patterns(attacker))


def _names() -> list[str]:
    return [f"topic-{number}" for number in range(NAMES)]


def _metadata_of_names() -> Request:
    topics = [MetadataRequestTopic(name=name) for name in _names()]
    return Request(ApiKey.METADATA, 12, topics=topics, allow_auto_topic_creation=False)


def topic_names(attacker: Attacker) -> None:
    """Ask for 20,000 topics that do not exist."""
    topics = [TopicRequest(name=name) for name in _names()]
    requests = itertools.cycle(
        (_metadata_of_names(), Request(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, topics=topics))
    )
    attacker.together(THREADS, lambda: repeat(attacker, next(requests)))


def group_names(attacker: Attacker) -> None:
    """Ask for 20,000 groups that do not exist."""
    requests = itertools.cycle(
        (
            Request(ApiKey.DESCRIBE_GROUPS, 5, groups=_names()),
            Request(ApiKey.FIND_COORDINATOR, 4, coordinator_keys=_names()),
            Request(ApiKey.CONSUMER_GROUP_DESCRIBE, 1, group_ids=_names()),
        )
    )
    attacker.together(THREADS, lambda: repeat(attacker, next(requests)))


def _batch(value: bytes, *, packed: bool = False) -> bytes:
    batch = encode_kafka_batch([Message(value, create_ms=5_000)])
    if packed:
        batch[HEAD.size :] = gzip.compress(bytes(batch[HEAD.size :]))
        struct.pack_into(">h", batch, _ATTRIBUTES_AT, _GZIP)
        struct.pack_into(">i", batch, _LENGTH_AT, len(batch) - _LENGTH_END)
        set_crc(batch)
    return bytes(batch)


def _produce(topic: str, batch: bytes, count: int = 1) -> Request:
    parts = [PartitionProduceData(index=0, records=batch)] * count
    data = [TopicProduceData(name=topic, partition_data=parts)]
    return Request(ApiKey.PRODUCE, 12, acks=-1, timeout_ms=30_000, topic_data=data)


def _packed(attacker: Attacker, topic: str) -> None:
    request = _produce(topic, _batch(bytes(PACKED_BYTES), packed=True), BATCHES)
    attacker.together(THREADS, lambda: repeat(attacker, request))


def packed_to_missing(attacker: Attacker) -> None:
    """Put 300 gzip batches at once to a topic that does not exist."""
    _packed(attacker, MISSING)


def packed_without_right(attacker: Attacker) -> None:
    """Put 300 gzip batches at once to the victim's topic."""
    _packed(attacker, OF_VICTIM)


def _join() -> Request:
    protocols = [JoinGroupRequestProtocol(name="range", metadata=bytes(60_000))]
    return Request(
        ApiKey.JOIN_GROUP, 3, group_id=uuid.uuid4().hex, session_timeout_ms=SESSION_MS,
        rebalance_timeout_ms=SESSION_MS, protocol_type="consumer", protocols=protocols,
    )  # fmt: skip


def _join_and_hang_up(attacker: Attacker) -> None:
    with contextlib.suppress(OSError), KafkaLink(attacker) as link:
        link.send(_join().frame)
        attacker.seen[0] += 1


def joins(attacker: Attacker) -> None:
    """Join a group of another name each time and hang up."""
    attacker.together(THREADS, lambda: _join_and_hang_up(attacker))


def announced(attacker: Attacker) -> None:
    """Announce requests of 30 MiB over hundreds of connections and send nothing of them."""
    with contextlib.ExitStack() as held:
        for _ in range(ANNOUNCED):
            if not attacker.running:
                break
            with contextlib.suppress(OSError):
                held.enter_context(KafkaLink(attacker)).send(struct.pack(">i", ANNOUNCED_BYTES))
        attacker.wait()


def idle(attacker: Attacker) -> None:
    """Hold thousands of connections that send nothing, and open and close further ones."""
    with contextlib.ExitStack() as held:
        for _ in range(IDLE):
            if not attacker.running:
                break
            with contextlib.suppress(OSError):
                held.enter_context(KafkaLink(attacker, known=False))
        while attacker.running:
            with contextlib.suppress(OSError):
                KafkaLink(attacker, known=False).socket.close()


def pipelined_puts(attacker: Attacker) -> None:
    """Put over 100 connections, 32 requests at once on each."""
    request = _produce(TOPIC, _batch(b"n" * 100))
    attacker.together(PIPELINES, lambda: repeat(attacker, request, PIPELINED))


def _slow_fetches(attacker: Attacker) -> None:
    part = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=FETCH_BYTES)
    topics = [FetchTopic(topic=BOMBS + "_large", partitions=[part])]
    request = Request(ApiKey.FETCH, 11, max_bytes=FETCH_BYTES, min_bytes=1, topics=topics)
    with contextlib.ExitStack() as held:
        for _ in range(READERS):
            if not attacker.running:
                break
            with contextlib.suppress(OSError):
                held.enter_context(KafkaLink(attacker)).send(request.frame * 4)
        attacker.wait()


def _at_once(attacker: Attacker, *attacks: Callable[[Attacker], None]) -> None:
    threads = [threading.Thread(target=attack, args=(attacker,), daemon=True) for attack in attacks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def puts_topics_fetches(attacker: Attacker) -> None:
    """Pipeline puts, ask for 20,000 topics, and fetch 10 MiB without reading, all at once."""
    _at_once(attacker, pipelined_puts, topic_names, _slow_fetches)


def patterns_joins_batches(attacker: Attacker) -> None:
    """Subscribe to patterns, join and hang up, and put gzip batches to a missing topic at once."""
    _at_once(attacker, patterns, joins, packed_to_missing)


def strangers_and_puts(attacker: Attacker) -> None:
    """Hold announced requests and idle connections, and pipeline puts, all at once."""
    _at_once(attacker, announced, idle, pipelined_puts)
