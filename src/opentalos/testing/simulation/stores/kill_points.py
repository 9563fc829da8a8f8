"""The steps of a streamed mutation's life, named as storage sees them.

Each step is one write, or one scan, at a port; the simulated stores ask here what a call is before
they apply it. So a simulation can kill a server right before or right after any of them (``kills``)
and the product needs no hooks.
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

ROW_TABLES = "sds."  # beginning of the names of tables of the row store
_MESSAGES, _BLOCK_BYTES, _PRODUCER = 3, 1, 6  # places in a block's header


class Step(Enum):
    """In the order in which a mutation meets them, and then what changes streams and tables."""

    CLAIM = "claim the shard"
    LOOK = "look for pending cells at the opening"
    ENTRY = "put an index entry"
    WRITE = "write the row with its pending cells"
    ENTRY_GONE = "remove an old index entry"
    ANNOUNCE = "announce the epoch in the log"
    APPEND = "append the block"
    CLEAR = "clear pending cells"
    WRITE_AND_CLEAR = "clear pending cells with the next mutation of the row"
    MARK = "write the mark"
    LEAVE = "give the shard up"
    STREAM_OFF = "record that a stream is disabled"
    STREAM_ON = "record that a stream is enabled"
    DROP = "record that the table is dropped"
    DROP_ROWS = "drop the table's rows"
    DROP_SHARD = "remove the record of a shard"
    DROPPED = "free the table's name"


def steps_of_mutation(table: str, mutation: RowMutation) -> Iterator[Step]:
    """What a write to the row store is."""
    if not table.startswith(ROW_TABLES):
        return
    if is_index(table):
        yield Step.ENTRY_GONE if mutation.delete else Step.ENTRY
        return
    cells = mutation.pending.values()
    told = any(cell is None for cell in cells)
    if any(cell is not None for cell in cells):
        yield Step.WRITE_AND_CLEAR if told else Step.WRITE
    elif told and not mutation.data:
        yield Step.CLEAR


def is_index(table: str) -> bool:
    """Whether a table of the row store has the entries of an index."""
    return "." in table.removeprefix(ROW_TABLES)


def uuid_of(table: str) -> str:
    """Of the structured table that a table of the row store belongs to."""
    return table.removeprefix(ROW_TABLES).partition(".")[0]


def steps_of_record(path: str, old: bytes | None, new: bytes | None) -> Iterator[Step]:
    """What a write to the meta store is; None: the record is not there."""
    kind, _, _ = path.partition("/")
    if kind == SHARD_RECORDS:
        yield from _of_shard(_read(old), _read(new))
    elif kind == TABLES and old is not None:
        yield from _of_table(_read(old), _read(new))


def steps_of_blocks(data: bytes) -> Iterator[Step]:
    """What a commit to a segment file is: the blocks of shards that it has."""
    at = SEGMENT_HEADER_BYTES if data.startswith(SEGMENT_MAGIC) else 0
    while at + BLOCK_HEADER.size <= len(data):
        header = BLOCK_HEADER.unpack_from(data, at)
        if header[_PRODUCER] > PRODUCER_ID_MAX:
            yield Step.APPEND if header[_MESSAGES] else Step.ANNOUNCE
        at += max(header[_BLOCK_BYTES], BLOCK_HEADER.size)


def _of_shard(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Step]:
    if not new:
        yield Step.DROP_SHARD
    elif new["epoch"] > old.get("epoch", 0):
        yield Step.CLAIM
    elif not new["owner"]:
        yield Step.LEAVE
    elif new["mark_ms"] > old.get("mark_ms", 0):
        yield Step.MARK


def _of_table(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Step]:
    if not new:
        yield Step.DROPPED
    elif new["state"] != old["state"]:
        if new["state"] == TableState.DELETING.name:
            yield Step.DROP
    elif old["streams"].keys() - new["streams"].keys():
        yield Step.STREAM_OFF
    elif new["streams"].keys() - old["streams"].keys():
        yield Step.STREAM_ON


def _read(value: bytes | None) -> Mapping[str, Any]:
    record: Mapping[str, Any] = {} if value is None else json.loads(value)
    return record
