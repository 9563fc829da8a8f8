"""Decodes blocks to Arrow tables, without an object per message; needs the extra ``arrow``.

It does no I/O: consumers pass fetched blocks.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

try:
    import numpy as np
    import pyarrow as pa
except ImportError as error:
    raise ImportError("Arrow tables need pyarrow: pip install 'opentalos[arrow]'") from error

from opentalos.model.message import Compression, StoredBlock
from opentalos.sdk.arrow import native_columns
from opentalos.sdk.arrow.message_columns import NotPlain, message_columns, message_places
from opentalos.sdk.arrow.native_columns import Content
from opentalos.sdk.core.blocks import decode_block_records, wanted_messages
from opentalos.sdk.core.values import Record
from opentalos.wire.message import MessageFormatError, decompress

__all__ = ["SCHEMA", "decode_batches", "decode_table", "rows_before"]

_TIME: Final = pa.timestamp("us", "UTC")
# The columns of Record, in order, with plain types that Spark and others accept.
SCHEMA: Final = pa.schema(
    [
        pa.field("topic", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("data", pa.binary(), nullable=False),
        pa.field("partition_key", pa.string()),
        pa.field("sequence_number", pa.string()),
        pa.field("create_time", _TIME),  # also null if out of range: 290,000 years
        pa.field("append_time", _TIME, nullable=False),
        pa.field("message_type", pa.int32()),
        pa.field("schema_fingerprint", pa.string()),
        pa.field("tag", pa.string()),
    ]
)
# Larger batches gain nothing. Source: docs/internals/spark-source.md#decoding.
_BATCH_ROWS: Final = 10_000
_BATCH_BYTES: Final = 8 << 20
_TIME_MS_MAX: Final = ((1 << 63) - 1) // 1000


def decode_table(
    topic: str, partition: int, blocks: Iterable[StoredBlock], first_offset: int
) -> Any:
    """Decode blocks to a ``pyarrow.Table`` of SCHEMA, from ``first_offset`` on.

    Raises: MessageFormatError: a block is damaged.
    """
    return pa.Table.from_batches(decode_batches(topic, partition, blocks, first_offset), SCHEMA)


def decode_batches(
    topic: str, partition: int, blocks: Iterable[StoredBlock], first_offset: int
) -> Iterator[Any]:
    """Decode blocks to ``pyarrow.RecordBatch``es, lazily.

    Each batch has several whole blocks, about 10,000 rows or 8 MiB, and at least one row.
    Raises: MessageFormatError: a block is damaged.
    """
    joined = _Joined(topic, partition, first_offset)
    for block in blocks:
        if wanted := wanted_messages(block, first_offset):
            joined.add(block, wanted)
        if joined.rows >= _BATCH_ROWS or joined.bytes_count >= _BATCH_BYTES:
            yield joined.batch()
            joined = _Joined(topic, partition, first_offset)
    if joined.rows:
        yield joined.batch()


def rows_before(batch: Any, end: int) -> Any:
    """The rows of a decoded batch before the offset ``end``; blocks are decoded whole."""
    last = batch.column("offset")[-1].as_py()
    return batch if last < end else batch.slice(0, max(0, batch.num_rows - last - 1 + end))


class _Joined:
    """Decompressed blocks that form one batch."""

    def __init__(self, topic: str, partition: int, first_offset: int) -> None:
        self._topic, self._partition, self._first_offset = topic, partition, first_offset
        self._blocks: list[StoredBlock] = []
        self._contents: list[Content] = []
        self.rows = self.bytes_count = 0

    def add(self, block: StoredBlock, wanted: int) -> None:
        """Decompress and add a block. Raises: MessageFormatError."""
        payload = block.payload
        if block.compression != Compression.NONE:
            payload = decompress(bytes(payload), block.compression)
        self._blocks.append(block)
        self._contents.append(Content(payload, block.messages, block.messages - wanted))
        self.rows += wanted
        self.bytes_count += len(payload)

    def batch(self) -> Any:
        """The batch of all records."""
        try:
            columns = self._plain_columns()
        except NotPlain:
            columns = self._columns_of_records()
        return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)

    def _plain_columns(self) -> list[Any]:
        if native_columns.NATIVE is None:
            columns = _columns_by_numpy(self._contents)
        else:
            columns = native_columns.native_columns(self._contents)
        value, key, number, created, kind, fingerprint, tag = columns
        rows = len(value)  # so many are there, whatever the blocks claim
        offsets, times = [], []
        for block, content in zip(self._blocks, self._contents, strict=True):
            _check_range(block)
            first = block.base_offset + content.skipped
            offsets.append(np.arange(first, block.next_offset, dtype=np.int64))
            times.append(np.full(len(offsets[-1]), block.append_ms * 1000, np.int64))
        return [
            pa.repeat(pa.scalar(self._topic, pa.string()), rows),
            pa.repeat(pa.scalar(self._partition, pa.int32()), rows),
            pa.array(np.concatenate(offsets)),
            *(value, key, number, created),
            pa.array(np.concatenate(times)).view(_TIME),
            *(kind, fingerprint, tag),
        ]

    def _columns_of_records(self) -> list[Any]:
        """The slow path, for every message format; reports what is wrong with a damaged block."""
        records: list[Record] = []
        for block in self._blocks:
            _check_range(block)
            records += decode_block_records(self._topic, self._partition, block, self._first_offset)
        rows = [record[: len(SCHEMA)] for record in records]  # a trace has no column
        columns = list(zip(*rows, strict=True)) or [()] * len(SCHEMA)
        return [
            pa.array(map(_microseconds, column), pa.int64()).view(_TIME)
            if field.type == _TIME
            else pa.array(column, field.type)
            for column, field in zip(columns, SCHEMA, strict=True)
        ]


def _columns_by_numpy(contents: Sequence[Content]) -> list[Any]:
    """As ``native_columns``, without the accelerator."""
    starts, ends, position = [], [], 0
    for payload, messages, skipped in contents:
        places = np.array(message_places(payload, messages), np.int64) + position
        position += len(payload)
        starts.append(places[skipped:])
        ends.append(np.append(places[1:], position)[skipped:])
    parts = [content.payload for content in contents]
    data = parts[0] if len(parts) == 1 else b"".join(parts)
    return message_columns(data, np.concatenate(starts), np.concatenate(ends))


def _check_range(block: StoredBlock) -> None:
    if not -_TIME_MS_MAX <= block.append_ms <= _TIME_MS_MAX:
        raise MessageFormatError(
            f"invalid block: the append time {block.append_ms} ms is out of range"
        )


def _microseconds(time_ms: int | None) -> int | None:
    if time_ms is None or not -_TIME_MS_MAX <= time_ms <= _TIME_MS_MAX:
        return None
    return time_ms * 1000
