"""The state of a structured table as rows of Parquet, and how its stream's messages change it.

The state has a row for every record ever seen: the table's columns, and columns of its own with the
record's last change, so that a repeated change has no effect. The row of a removed record remains,
with its key and ``_deleted``.
"""

import zlib
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from opentalos.model.change import Change, StreamView
from opentalos.model.datum import DataType
from opentalos.model.errors import ConfigError, ValidationFailed
from opentalos.model.table import TableSchema
from opentalos.pipelines.lake.tables import HashTable
from opentalos.sdk.core.table.stream_decode import published_name
from opentalos.sdk.stream import Replica, StoredState, StreamDecoder

SPLIT_ROWS: Final = 10_000  # whose keys are objects of Python at a time
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

    def joined(self, part: int, stored: pa.Table, messages: pa.Table) -> pa.Table:
        """The state of one part after more messages, in any order, possibly repeated.

        Only rows that the messages change become objects of Python, so those grow with the batch,
        not with the table.

        Raises: ChangeMissing, ChangeContradicts; ValidationFailed: the schema has changed.
        """
        changes = self._changes(messages)
        touched = {self._identity(change) for change in changes}
        known, others = self._split(stored, touched)
        replica = Replica(self.schema, self.view, complete=self.complete, strict=self.strict)
        for state in self.states(known):
            replica.restore(state)
        for change in changes:
            replica.apply(change)
        rows = [self._row_of(part, state) for state in replica.states()]
        return pa.concat_tables([others, pa.Table.from_pylist(rows, self.state_schema())])

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

    def _identity(self, change: Change) -> tuple[Any, ...]:
        return tuple(change.key[name].value for name in self.schema.key_columns)

    def _split(self, stored: pa.Table, touched: Set[tuple[Any, ...]]) -> tuple[pa.Table, pa.Table]:
        """Rows with these keys, and all others, which stay columns of Arrow.

        As objects of Python they would need many times the memory.
        """
        stored = stored.cast(self.state_schema())
        mask = list[bool]()
        for batch in stored.select(self.schema.key_columns).to_batches(SPLIT_ROWS):
            keys = zip(*(column.to_pylist() for column in batch.columns), strict=True)
            mask += [key in touched for key in keys]
        chosen = pa.array(mask, pa.bool_())
        return stored.filter(chosen), stored.filter(pc.invert(chosen))

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


def staged(lake: HashTable, part: int, rows: pa.Table) -> pa.Table:
    """Write a part of the state where its rows are; the version, for the driver to publish."""
    return pa.Table.from_pylist([{PART: part, "version": lake.stage(part, rows)}], STAGED)


def _arrow(kind: DataType) -> Any:
    if kind in _ARROW:
        return _ARROW[kind]
    return pa.list_(_ARROW[DataType(kind - _SET_STEP)])
