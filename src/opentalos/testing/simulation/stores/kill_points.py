"""Kill points: the storage calls in the life of a streamed mutation, by name.

Each kill point is one write, or one scan, at a port. The simulated stores ask here which kill
points a call is before they apply it, so a simulation can kill a server right before or right after
any of them (``kills``) and the product needs no hooks.
"""

import json
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any

from opentalos.broker.tables.api.values import TABLES
from opentalos.broker.tables.shard.record import SHARD_RECORDS
from opentalos.model.message import PRODUCER_ID_MAX
from opentalos.model.table import TableState
from opentalos.ports.row_store import RowMutation
from opentalos.testing.simulation.stores.stored_logs import (
    BLOCK_HEADER,
    SEGMENT_HEADER_BYTES,
    SEGMENT_MAGIC,
)

ROW_TABLES = "sds."  # prefix of the row store's tables that belong to structured tables
_MESSAGES, _BLOCK_BYTES, _PRODUCER = 3, 1, 6  # indexes of fields in a block's header


class KillPoint(Enum):
    """First in the order in which a mutation passes them, then changes of streams and tables."""

    CLAIM = "claim the shard"
    READ_PENDING = "scan the pending cells when the shard opens"
    ENTRY = "put an index entry"
    WRITE = "write the row with its pending cells"
    ENTRY_GONE = "remove an old index entry"
    ANNOUNCE = "announce the epoch in the log"
    APPEND = "append the block"
    CLEAR = "clear pending cells"
    WRITE_AND_CLEAR = "clear pending cells with the next mutation of the row"
    MARK = "write the mark"
    LEAVE = "release the shard"
    STREAM_OFF = "record that a stream is disabled"
    STREAM_ON = "record that a stream is enabled"
    DROP = "record that the table is dropped"
    DROP_ROWS = "drop the table's rows"
    DROP_SHARD = "remove the record of a shard"
    DROPPED = "free the table's name"


def points_of_mutation(table: str, mutation: RowMutation) -> Iterator[KillPoint]:
    """The kill points of a write to the row store."""
    if not table.startswith(ROW_TABLES):
        return
    if is_index(table):
        yield KillPoint.ENTRY_GONE if mutation.delete else KillPoint.ENTRY
        return
    cells = mutation.pending.values()
    clears = any(cell is None for cell in cells)
    if any(cell is not None for cell in cells):
        yield KillPoint.WRITE_AND_CLEAR if clears else KillPoint.WRITE
    elif clears and not mutation.data:
        yield KillPoint.CLEAR


def is_index(table: str) -> bool:
    """Whether a table of the row store holds the entries of an index."""
    return "." in table.removeprefix(ROW_TABLES)


def uuid_of(table: str) -> str:
    """The uuid of the structured table that a table of the row store belongs to."""
    return table.removeprefix(ROW_TABLES).partition(".")[0]


def points_of_record(path: str, old: bytes | None, new: bytes | None) -> Iterator[KillPoint]:
    """The kill points of a write to the meta store; None: the record does not exist."""
    kind, _, _ = path.partition("/")
    if kind == SHARD_RECORDS:
        yield from _of_shard(_read(old), _read(new))
    elif kind == TABLES and old is not None:
        yield from _of_table(_read(old), _read(new))


def points_of_blocks(data: bytes) -> Iterator[KillPoint]:
    """The kill points of a commit to a segment file: the blocks that shards publish."""
    at = SEGMENT_HEADER_BYTES if data.startswith(SEGMENT_MAGIC) else 0
    while at + BLOCK_HEADER.size <= len(data):
        header = BLOCK_HEADER.unpack_from(data, at)
        if header[_PRODUCER] > PRODUCER_ID_MAX:
            yield KillPoint.APPEND if header[_MESSAGES] else KillPoint.ANNOUNCE
        at += max(header[_BLOCK_BYTES], BLOCK_HEADER.size)


def _of_shard(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[KillPoint]:
    if not new:
        yield KillPoint.DROP_SHARD
    elif new["epoch"] > old.get("epoch", 0):
        yield KillPoint.CLAIM
    elif not new["owner"]:
        yield KillPoint.LEAVE
    elif new["mark_ms"] > old.get("mark_ms", 0):
        yield KillPoint.MARK


def _of_table(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[KillPoint]:
    if not new:
        yield KillPoint.DROPPED
    elif new["state"] != old["state"]:
        if new["state"] == TableState.DELETING.name:
            yield KillPoint.DROP
    elif old["streams"].keys() - new["streams"].keys():
        yield KillPoint.STREAM_OFF
    elif new["streams"].keys() - old["streams"].keys():
        yield KillPoint.STREAM_ON


def _read(value: bytes | None) -> Mapping[str, Any]:
    record: Mapping[str, Any] = {} if value is None else json.loads(value)
    return record
