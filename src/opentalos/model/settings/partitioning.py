"""Which partition a key belongs to: one rule per topic, for every producer of it.

Source: docs/protocol/consumers.md#partition-of-a-key.
"""

import struct
from collections.abc import Mapping
from enum import Enum
from typing import Final

from opentalos.model import message

PARTITIONER_KEY: Final = "partitioner"  # attribute of a topic; absent: official
SEED: Final = 0x9747B28C
MULTIPLIER: Final = 0x5BD1E995
SHIFT: Final = 24
POSITIVE: Final = 0x7FFFFFFF
_MASK: Final = 0xFFFFFFFF


class Partitioning(Enum):
    """How keys are placed; the value is that of the attribute."""

    MURMUR2 = "murmur2"  # evenly, and as Kafka's producers do
    OFFICIAL = "official"  # by intervals of Java's hash code, as official SDKs do

    def partition_of(self, key: str, partitions: int) -> int:
        """The partition of a key among ``partitions``, 0 or more."""
        if self is Partitioning.OFFICIAL:
            return message.partition_of(key, partitions)
        return (murmur2(key.encode("utf-8", "surrogatepass")) & POSITIVE) % partitions


def partitioning_of(attributes: Mapping[str, str]) -> Partitioning:
    """The rule of a topic. Anything unknown, such as a note of its owner, is the official one."""
    given = attributes.get(PARTITIONER_KEY)
    return Partitioning.MURMUR2 if given == Partitioning.MURMUR2.value else Partitioning.OFFICIAL


def with_partitioner(attributes: Mapping[str, str]) -> dict[str, str]:
    """The attributes of a topic to create: its keys are spread evenly unless they say otherwise.

    Only for those who create topics for OpenTalos producers. The server never adds it to a topic
    made over the Talos protocol, because official SDKs place keys by their own rule.
    """
    return {PARTITIONER_KEY: Partitioning.MURMUR2.value} | dict(attributes)


def murmur2(data: bytes) -> int:
    """MurmurHash2 of 32 bits with the seed of Kafka's producers, 0 or more."""
    whole = len(data) & ~3
    value = SEED ^ len(data)
    for (word,) in struct.iter_unpack("<I", data[:whole]):
        word = word * MULTIPLIER & _MASK
        word = (word ^ word >> SHIFT) * MULTIPLIER & _MASK
        value = (value * MULTIPLIER & _MASK) ^ word
    if whole < len(data):
        value = (value ^ int.from_bytes(data[whole:], "little")) * MULTIPLIER & _MASK
    value = (value ^ value >> 13) * MULTIPLIER & _MASK
    return value ^ value >> 15
