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
from opentalos.wire.kafka.pace import Pace, Paced
from opentalos.wire.kafka.spec import KafkaStruct, Versions

CONSUMER: Final = "consumer"
SHORT_BYTES: Final = 8 << 10  # so many are decoded in less than 1 ms
_VERSION: Final = struct.Struct(">h")
T = TypeVar("T", bound=KafkaStruct)


def subscribed_topics(metadata: bytes, pace: Pace | None = None) -> Sequence[str]:
    """Topics that a member subscribes to; none if the bytes are something else."""
    found = _read(ConsumerProtocolSubscription, SUBSCRIPTION_VERSIONS, metadata, pace)
    return list(found.topics) if found else []


def assigned_partitions(assignment: bytes, pace: Pace | None = None) -> Mapping[str, Sequence[int]]:
    """Partitions by topic; none if the bytes are something else."""
    found = _read(ConsumerProtocolAssignment, ASSIGNMENT_VERSIONS, assignment, pace)
    if found is None:
        return {}
    return {topic.topic: list(topic.partitions) for topic in found.assigned_partitions}


def write_assignment(partitions: Mapping[str, Sequence[int]], pace: Pace | None = None) -> bytes:
    """An assignment as clients and tools read it."""
    out = Paced(pace) if pace is not None else bytearray()
    out += _VERSION.pack(0)
    listed = [TopicPartition(topic=name, partitions=list(p)) for name, p in partitions.items()]
    encode(ConsumerProtocolAssignment(assigned_partitions=listed), 0, out)
    return bytes(out)


def _read(kind: type[T], versions: Versions, data: bytes, pace: Pace | None) -> T | None:
    if len(data) < _VERSION.size:
        return None
    (version,) = _VERSION.unpack_from(data)
    if version < versions[0]:
        return None
    try:
        return decode(kind, min(version, versions[1]), Cursor(data, _VERSION.size, pace))
    except KafkaFormatError:
        return None
