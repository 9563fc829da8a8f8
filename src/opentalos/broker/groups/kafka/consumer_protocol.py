"""What clients of the protocol type ``consumer`` write into subscriptions and assignments.

Shape:   [version i16][struct of that version]; a later version only adds fields behind.
"""

import struct
from collections.abc import Mapping, Sequence
from typing import Final, TypeVar

from opentalos.wire.kafka._generated.consumer_protocol_assignment import (
    VERSIONS as ASSIGNMENT_VERSIONS,
)
from opentalos.wire.kafka._generated.consumer_protocol_assignment import (
    ConsumerProtocolAssignment,
    TopicPartition,
)
from opentalos.wire.kafka._generated.consumer_protocol_subscription import (
    VERSIONS as SUBSCRIPTION_VERSIONS,
)
from opentalos.wire.kafka._generated.consumer_protocol_subscription import (
    ConsumerProtocolSubscription,
)
from opentalos.wire.kafka.codec import Cursor, KafkaFormatError, decode, encode
from opentalos.wire.kafka.spec import KafkaStruct, Versions

CONSUMER: Final = "consumer"
_VERSION: Final = struct.Struct(">h")
T = TypeVar("T", bound=KafkaStruct)


def subscribed_topics(metadata: bytes) -> Sequence[str]:
    """Topics that a member subscribes to; none if the bytes are something else."""
    found = _read(ConsumerProtocolSubscription, SUBSCRIPTION_VERSIONS, metadata)
    return list(found.topics) if found else []


def assigned_partitions(assignment: bytes) -> Mapping[str, Sequence[int]]:
    """Partitions by topic; none if the bytes are something else."""
    found = _read(ConsumerProtocolAssignment, ASSIGNMENT_VERSIONS, assignment)
    if found is None:
        return {}
    return {topic.topic: list(topic.partitions) for topic in found.assigned_partitions}


def write_assignment(partitions: Mapping[str, Sequence[int]]) -> bytes:
    """An assignment as clients and tools read it."""
    out = bytearray(_VERSION.pack(0))
    listed = [TopicPartition(topic=name, partitions=list(p)) for name, p in partitions.items()]
    encode(ConsumerProtocolAssignment(assigned_partitions=listed), 0, out)
    return bytes(out)


def _read(kind: type[T], versions: Versions, data: bytes) -> T | None:
    if len(data) < _VERSION.size:
        return None
    (version,) = _VERSION.unpack_from(data)
    if version < versions[0]:
        return None
    try:
        return decode(kind, min(version, versions[1]), Cursor(data, _VERSION.size))
    except KafkaFormatError:
        return None
