"""Produce in its usual shape, by hand: a client's small batches cost more to decode than to store.

``read_produce`` and ``write_produced`` know the flexible versions, one topic, no transaction and no
error. All else they leave to the generic codec, which gives the same where both know the shape.

Shape:   as ProduceRequest and ProduceResponse from version 9 on.
Source:  Apache Kafka 4.3, ProduceRequest.json and ProduceResponse.json; KIP-482.
"""

import struct
from collections.abc import Sequence
from typing import Final

from opentalos.wire.kafka._generated.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from opentalos.wire.kafka._generated.produce_response import TopicProduceResponse
from opentalos.wire.kafka.codec import Cursor

FLEXIBLE_FROM: Final = 9  # versions
IDS_FROM: Final = 13
NOBODY: Final = -1
_ID_BYTES: Final = 16
_ONE: Final = 2  # the length of an array with one item
_SHORT: Final = 0x80  # numbers below it take one byte
# Tags of the header, transactional id, acks, timeout, number of topics.
_HEAD: Final = struct.Struct(">BBhiB")
_INDEX: Final = struct.Struct(">i")
_NO_TAGS: Final = b"\0\0"  # of the topic and of the request
_LENGTH_BYTES_MAX: Final = 4  # of records; longer ones exceed every request
_ANSWER_HEAD: Final = struct.Struct(">iiBB")  # size, correlation id, tags, number of topics
# Index, error, base offset, append time, start offset; no record errors, no text, no tags.
_ANSWER_PART: Final = struct.Struct(">ihqqqBBB")
_ANSWER_END: Final = struct.Struct(">BiB")  # tags of the topic, throttle time, tags


def read_produce(version: int, cursor: Cursor) -> ProduceRequest | None:
    """A request behind its client id, whose tags are read here as well.

    None: another shape, or damaged; the cursor is where it was.
    """
    data, at = cursor.data, cursor.position
    if version < FLEXIBLE_FROM or len(data) - at < _HEAD.size + 1:
        return None
    tags, transaction, acks, timeout_ms, topics = _HEAD.unpack_from(data, at)
    if tags or transaction or topics != _ONE:
        return None
    at += _HEAD.size
    topic = TopicProduceData(partition_data=[])
    if version >= IDS_FROM:
        topic.topic_id = bytes(data[at : at + _ID_BYTES])
        at += _ID_BYTES
    else:
        size = data[at] - 1
        at += 1
        if not 0 <= size < _SHORT - 1:
            return None
        try:
            topic.name = str(data[at : at + size], "utf-8")
        except UnicodeDecodeError:
            return None
        at += size
    end = _read_parts(data, at, topic.partition_data)
    if end < 0 or bytes(data[end : end + len(_NO_TAGS)]) != _NO_TAGS:
        return None
    cursor.position = end + len(_NO_TAGS)
    return ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=[topic])


def _read_parts(data: memoryview, at: int, parts: list[PartitionProduceData]) -> int:
    """Position behind the partitions of a topic; -1: another shape."""
    total = len(data)
    count = data[at] - 1 if at < total else -1
    if not 0 <= count < _SHORT - 1:
        return -1
    at += 1
    for _ in range(count):
        if at + _INDEX.size >= total:
            return -1
        (index,) = _INDEX.unpack_from(data, at)
        at += _INDEX.size
        size = shift = 0
        while True:
            if at >= total or shift >= 7 * _LENGTH_BYTES_MAX:
                return -1
            byte = data[at]
            at += 1
            size |= (byte & 0x7F) << shift
            if byte < _SHORT:
                break
            shift += 7
        end = at + size - 1
        if not size or end >= total or data[end]:  # null, too long, or it has tags
            return -1
        parts.append(PartitionProduceData(index=index, records=data[at:end]))
        at = end + 1
    return at


def write_produced(
    version: int, correlation_id: int, topics: Sequence[TopicProduceResponse], throttle_ms: int
) -> bytearray | None:
    """A whole response with its size; None: another shape."""
    if version < FLEXIBLE_FROM or len(topics) != 1:
        return None
    topic = topics[0]
    parts = topic.partition_responses
    if version >= IDS_FROM:
        name = topic.topic_id
    else:
        name = topic.name.encode()
        if len(name) >= _SHORT - 1:
            return None
        name = bytes((len(name) + 1,)) + name
    if len(parts) >= _SHORT - 1:
        return None
    out = bytearray(_ANSWER_HEAD.size)
    out += name
    out.append(len(parts) + 1)
    for part in parts:
        if part.error_code or part.error_message is not None or part.record_errors:
            return None
        if part.current_leader.leader_id != NOBODY:
            return None
        out += _ANSWER_PART.pack(
            part.index, 0, part.base_offset, part.log_append_time_ms, part.log_start_offset, 1, 0, 0
        )
    out += _ANSWER_END.pack(0, throttle_ms, 0)
    size = len(out) - _INDEX.size
    _ANSWER_HEAD.pack_into(out, 0, size, correlation_id, 0, _ONE)
    return out
