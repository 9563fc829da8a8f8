"""The answer to Fetch in pieces: everything but records by the codec, records as they are given.

Shape:   as FetchResponse; in each PartitionData the records are its last field, and nothing but
         tagged fields follows, of which an answer with records has none.
Source:  Apache Kafka 4.3, FetchResponse.json.
"""

import struct
from collections.abc import Mapping
from itertools import groupby
from typing import Final, NamedTuple

from opentalos.wire.kafka._generated.fetch_response import (
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)
from opentalos.wire.kafka.apis import SIZE, Api, write_answer_head
from opentalos.wire.kafka.codec import encode, write_unsigned
from opentalos.wire.kafka.pace import Pace

Piece = bytes | bytearray | memoryview

_LENGTH: Final = struct.Struct(">i")
_NO_TAGS: Final = b"\0"
_PLACE_VALUES: Final = 15  # which take as long to write as a partition
_HEAD_BYTES: Final = 10  # of a flexible version: throttle time, error and session


class Answered(NamedTuple):
    """One partition and its record batches."""

    data: PartitionData
    pieces: list[Piece]


def write_answer(
    api: Api,
    version: int,
    correlation_id: int,
    head: FetchResponse,
    answered: Mapping[tuple[str | bytes, int], Answered],
    pace: Pace | None = None,
) -> list[Piece]:
    """A whole response with its size, by topic (name or id) and partition."""
    flexible = api.is_flexible(version)
    out = write_answer_head(api, version, correlation_id)
    start = len(out) + _HEAD_BYTES
    encode(head, version, out)
    # The array of topics is empty, and behind it are tags.
    tags = out[start + 1 :] if flexible else b""
    del out[start if flexible else -_LENGTH.size :]
    topics = [(key, list(each)) for key, each in groupby(answered, key=lambda place: place[0])]
    _write_count(out, len(topics), flexible)
    pieces: list[Piece] = [out]
    for key, places in topics:
        _write_topic(out, key, version, flexible)
        _write_count(out, len(places), flexible)
        for place in places:
            if pace is not None:
                pace.step(_PLACE_VALUES)
            out = _write_partition(pieces, out, answered[place], (version, flexible))
        if flexible:
            out += _NO_TAGS
    out += tags
    first = pieces[0]
    assert isinstance(first, bytearray)
    SIZE.pack_into(first, 0, sum(map(len, pieces)) - SIZE.size)
    return pieces


def _write_count(out: bytearray, count: int, flexible: bool) -> None:
    if flexible:
        write_unsigned(out, count + 1)
    else:
        out += _LENGTH.pack(count)


def _write_topic(out: bytearray, key: str | bytes, version: int, flexible: bool) -> None:
    """The topic up to its partitions."""
    if isinstance(key, str):
        topic = FetchableTopicResponse(topic=key)
    else:
        topic = FetchableTopicResponse(topic_id=key)
    encode(topic, version, out)
    del out[-2 if flexible else -_LENGTH.size :]


def _write_partition(
    pieces: list[Piece], out: bytearray, answered: Answered, how: tuple[int, bool]
) -> bytearray:
    """Returns what to continue with, the last piece."""
    version, flexible = how
    encode(answered.data, version, out)
    if not answered.pieces:
        return out
    size = sum(map(len, answered.pieces))
    # What it ends with are no records, and then no tags.
    del out[-2 if flexible else -_LENGTH.size :]
    _write_count(out, size, flexible)
    rest = bytearray(_NO_TAGS if flexible else b"")
    pieces += [*answered.pieces, rest]
    return rest
