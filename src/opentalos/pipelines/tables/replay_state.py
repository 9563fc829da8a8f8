"""The state of a structured table as rows of Parquet, and how its stream's messages change it.

The state has a row for every record ever seen: the table's columns, and columns of its own with the
record's last change, so that a repeated change has no effect. The row of a removed record remains,
with its key and ``_deleted``.
"""

import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from opentalos.model.change import Change, StreamView
from opentalos.model.datum import DataType
from opentalos.model.errors import ConfigError, ValidationFailed
from opentalos.model.table import TableSchema
from opentalos.pipelines.lake.tables import HashTable
from opentalos.sdk.core.table.stream_decode import published_name
from opentalos.sdk.stream import Replica, StoredState, StreamDecoder

SPLIT_ROWS: Final = 10_000  # of a stored part, decoded at a time
SPLIT_BYTES: Final = 8 << 20  # of them, by the average of their row group
GROUP_ROWS: Final = 100_000  # of a row group of a part
GROUP_BYTES: Final = 32 << 20  # of a row group in memory; it ends with the piece that reaches it
SCANNED_ROWS: Final = 1_000  # of a scan, in one record batch
PARTS: Final = 8  # of a table's state, by hash of the key; each is replaced atomically
PART: Final = "_part"
_TIME: Final = "_timestamp_ms"  # of the record's last change
_SEQUENCE: Final = "_sequence"
_DELETED: Final = "_deleted"
_BEGUN: Final = "_begun_ms"
MISFITS: Final = "_misfits"  # increments whose amount does not give the value in the change
_OWN: Final = (PART, _TIME, _SEQUENCE, _DELETED, _BEGUN, MISFITS)
_ARROW: Final[dict[DataType, Any]] = {
    DataType.BOOL: pa.bool_(),
    DataType.INT8: pa.int8(),
    DataType.INT16: pa.int16(),
    DataType.INT32: pa.int32(),
    DataType.INT64: pa.int64(),
    DataType.FLOAT: pa.float32(),
    DataType.DOUBLE: pa.float64(),
    DataType.STRING: pa.string(),
    DataType.BINARY: pa.binary(),
    DataType.RAWBINARY: pa.binary(),
}
_SET_STEP: Final = DataType.BOOL_SET - DataType.BOOL
MESSAGE: Final = pa.schema(
    [
        pa.field(PART, pa.int32(), nullable=False),
        pa.field("value", pa.binary(), nullable=False),
        pa.field("sequence_number", pa.string()),
    ]
)
STAGED: Final = pa.schema(
    [pa.field(PART, pa.int32(), nullable=False), pa.field("version", pa.string(), nullable=False)]
)


@dataclass(frozen=True, slots=True)
class Replay:
    """The replay of one table's stream. Sent to Spark's Python workers.

    ``complete``: every record's first change must be in the stream; ``strict``: an amount that does
    not fit its value fails the run; ``parts``: must stay the same for a lake.
    """

    table: str
    schema: TableSchema
    view: StreamView
    complete: bool = True
    strict: bool = True
    parts: int = PARTS

    def __post_init__(self) -> None:
        for name in _OWN:
            if name in self.schema.attributes:
                raise ConfigError(f"column {name} of the table cannot be replayed: reserved name")
        Replica(self.schema, self.view)  # raises if the stream cannot be replayed

    def lake(self, home: Path) -> HashTable:
        """The table of the state."""
        return HashTable(home, f"tables/{self.table}", self.state_schema())

    def state_schema(self) -> pa.Schema:
        """Columns of the state: the key's, the others by name, then its own."""
        key = self.schema.key_columns
        others = sorted(name for name in self.schema.attributes if name not in key)
        fields = [pa.field(name, _arrow(self.schema.attributes[name]), False) for name in key]
        fields += [pa.field(name, _arrow(self.schema.attributes[name])) for name in others]
        fields += [pa.field(PART, pa.int32(), False)]
        fields += [pa.field(_TIME, pa.int64(), False), pa.field(_SEQUENCE, pa.int64(), False)]
        fields += [pa.field(_DELETED, pa.bool_(), False), pa.field(_BEGUN, pa.int64(), False)]
        fields += [pa.field(MISFITS, pa.int32())]  # null in states from before the column existed
        return pa.schema(fields)

    def scanned(self, states: Iterable[StoredState]) -> Iterator[pa.RecordBatch]:
        """A scan's records as rows of the state."""
        states = iter(states)
        while some := list(islice(states, SCANNED_ROWS)):
            rows = [self._row_of(self._part_of(state.key.values()), state) for state in some]
            yield pa.RecordBatch.from_pylist(rows, self.state_schema())

    def states(self, rows: pa.Table) -> Iterator[StoredState]:
        """Rows of the state as they were stored."""
        return map(self._state_of, rows.to_pylist())

    def _part_of(self, key: Iterable[Any]) -> int:
        # Falsy values become 0, because 0.0 and -0.0 are the same key.
        return zlib.crc32(repr([value or 0 for value in key]).encode()) % self.parts

    def parted(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Messages of this table with the part of their record.

        Raises: MessageFormatError: a message is not of the stream.
        """
        decoder = StreamDecoder(self.schema, self.view)
        for batch in batches:
            values, numbers = batch.column("value"), batch.column("sequence_number")
            rows = []
            for value, number in zip(values.to_pylist(), numbers.to_pylist(), strict=True):
                table, change = decoder.payload(value, number)
                if table == published_name(self.table):
                    part = self._part_of(change.key[name].value for name in self.schema.key_columns)
                    rows.append({PART: part, "value": value, "sequence_number": number})
            yield pa.RecordBatch.from_pylist(rows, MESSAGE)

    def joined(
        self, part: int, stored: Iterable[pa.Table], messages: pa.Table
    ) -> Iterator[pa.Table]:
        """The state of one part after more messages, in any order, possibly repeated; in pieces.

        Only rows that the messages change become objects of Python, and of the others one piece at
        a time is in memory, so that grows with the batch, not with the table.

        Args:   stored: the state before, in pieces; may lack columns that are new.
        Raises: ChangeMissing, ChangeContradicts; ValidationFailed: the schema has changed.
        """
        changes = self._changes(messages)
        touched = _Touched.of(self, changes)
        replica = Replica(self.schema, self.view, complete=self.complete, strict=self.strict)
        for piece in stored:
            known, others = touched.split(self._widened(piece))
            if known.num_rows:
                for state in self.states(known):
                    replica.restore(state)
            yield others
        for change in changes:
            replica.apply(change)
        states = replica.states()
        while some := list(islice(states, SCANNED_ROWS)):
            rows = [self._row_of(part, state) for state in some]
            yield pa.Table.from_pylist(rows, self.state_schema())

    def _changes(self, messages: pa.Table) -> list[Change]:
        """Ordered by their times, also if the topic's partitions have changed."""
        decoder = StreamDecoder(self.schema, self.view)
        values, numbers = (messages.column(name) for name in ("value", "sequence_number"))
        payloads = zip(values.to_pylist(), numbers.to_pylist(), strict=True)
        changes = [decoder.payload(value, number)[1] for value, number in payloads]
        for change in changes:
            for name in (*change.columns, *change.image):
                if name not in self.schema.attributes:
                    raise ValidationFailed(
                        f"the table has a new column {name}; restart the pipeline"
                    )
        return sorted(changes, key=lambda change: change.timestamp_ms)

    def identity(self, change: Change) -> tuple[Any, ...]:
        """The values of the key's columns."""
        return tuple(change.key[name].value for name in self.schema.key_columns)

    def _widened(self, rows: pa.Table) -> pa.Table:
        """With all columns; those that the rows lack are null."""
        schema, known = self.state_schema(), set(rows.column_names)
        columns = [
            rows.column(each.name) if each.name in known else pa.nulls(rows.num_rows, each.type)
            for each in schema
        ]
        return pa.table(columns, names=schema.names).cast(schema)

    def _state_of(self, row: dict[str, Any]) -> StoredState:
        times = row.pop(_TIME), row.pop(_SEQUENCE)
        deleted, begun_ms, misfits = row.pop(_DELETED), row.pop(_BEGUN), row.pop(MISFITS) or 0
        row.pop(PART)
        record = {name: tuple(v) if isinstance(v, list) else v for name, v in row.items()}
        key = {name: record[name] for name in self.schema.key_columns}
        known = {name: value for name, value in record.items() if value is not None}
        return StoredState(key, None if deleted else known, *times, begun_ms, misfits)

    def _row_of(self, part: int, state: StoredState) -> dict[str, Any]:
        _, record, timestamp_ms, sequence, begun_ms, misfits = state
        own = (part, timestamp_ms, sequence, record is None, begun_ms, misfits)
        return {**state.key, **(record or {}), **dict(zip(_OWN, own, strict=True))}


@dataclass(frozen=True, slots=True)
class _Touched:
    """The keys that a batch changes."""

    names: Sequence[str]
    keys: frozenset[tuple[Any, ...]]
    values: Sequence[pa.Array]  # of each column, of all keys

    @classmethod
    def of(cls, replay: Replay, changes: Iterable[Change]) -> "_Touched":
        """The keys of these changes."""
        names, schema = replay.schema.key_columns, replay.state_schema()
        keys = frozenset(map(replay.identity, changes))
        columns = zip(*keys, strict=True) if keys else ([] for _ in names)
        values = [
            _plain(pa.array(column, schema.field(name).type))
            for name, column in zip(names, columns, strict=True)
        ]
        return cls(names, keys, values)

    def split(self, rows: pa.Table) -> tuple[pa.Table, pa.Table]:
        """Rows with these keys, and all others, which stay columns of Arrow.

        Keys become objects of Python only if each of their columns has a value of some change.
        """
        rows = rows.combine_chunks()
        maybe: Any = None
        for name, values in zip(self.names, self.values, strict=True):
            found = pc.is_in(_plain(rows.column(name)), value_set=values)
            maybe = found if maybe is None else pc.and_(maybe, found)
        places = pc.indices_nonzero(maybe)
        likely = rows.select(self.names).take(places)
        keys = zip(*(column.to_pylist() for column in likely.columns), strict=True)
        sure = [key in self.keys for key in keys]
        if not any(sure):
            return rows.slice(0, 0), rows
        chosen = np.zeros(rows.num_rows, bool)
        chosen[places.to_numpy()[sure]] = True
        return rows.filter(pa.array(chosen)), rows.filter(pa.array(~chosen))


def _plain(column: Any) -> Any:
    """0.0 and -0.0 are the same key, but not the same value of Arrow."""
    return pc.add(column, 0.0).cast(column.type) if pa.types.is_floating(column.type) else column


def stored_pieces(file: Path) -> Iterator[pa.Table]:
    """The rows of a part's file, a piece of bounded size at a time."""
    with pq.ParquetFile(file) as opened:
        for number in range(opened.num_row_groups):
            group = opened.metadata.row_group(number)
            rows = max(SPLIT_BYTES * group.num_rows // max(group.total_byte_size, 1), 1)
            for batch in opened.iter_batches(min(rows, SPLIT_ROWS), row_groups=[number]):
                yield pa.Table.from_batches([batch])


def staged(lake: HashTable, part: int, pieces: Iterable[pa.Table]) -> pa.RecordBatch:
    """Write a part of the state where its rows are; the version, for the driver to publish."""
    schema = lake.schema
    assert schema is not None
    with lake.staging(part, schema) as staging:
        for rows in _groups(pieces):
            staging.write(rows.select(schema.names).cast(schema))
    return pa.RecordBatch.from_pylist([{PART: part, "version": staging.version}], STAGED)


def _groups(pieces: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """The same rows, put together to row groups."""
    waiting: list[pa.Table] = []
    rows = size = 0
    for piece in pieces:
        waiting.append(piece)
        rows, size = rows + piece.num_rows, size + piece.nbytes
        if rows >= GROUP_ROWS or size >= GROUP_BYTES:
            yield pa.concat_tables(waiting)
            waiting, rows, size = [], 0, 0
    if waiting:
        yield pa.concat_tables(waiting)


def _arrow(kind: DataType) -> Any:
    if kind in _ARROW:
        return _ARROW[kind]
    return pa.list_(_ARROW[DataType(kind - _SET_STEP)])
