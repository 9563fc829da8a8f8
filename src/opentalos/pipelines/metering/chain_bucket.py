"""A bucket of partitions of the table "usage": their chains, and their minutes beside the logs'.

Made by ``UsageChains``. Nothing is decided here: it returns sums, and the rows that something may
be wrong with.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, Final, NamedTuple

import duckdb
import pyarrow as pa

from opentalos.pipelines.metering.usage_lake import MinuteUse

BUCKETS: Final = 64  # of 16 million rows, if logs have a billion
HELD: Final = pa.schema(
    [("place", pa.int32()), *((name, pa.int64()) for name in MinuteUse._fields)]
)
_LOGGED: Final = HELD.append(pa.field("number", pa.int64()))
_MINUTES_AT_ONCE: Final = 100_000  # of logs, in Python
_ROWS_AT_ONCE: Final = 10_000  # of results, in Python
_CHAINS: Final = f"""
    SELECT place, topic, partition, name, records, bytes, next_offset
    FROM places JOIN sums USING (place) WHERE place % {BUCKETS} = ? ORDER BY place"""
_BREAKS: Final = f"""
    SELECT place, reached, minute_ms, records, first_offset, next_offset
    FROM breaks WHERE place % {BUCKETS} = ?
    ORDER BY place, minute_ms, first_offset, next_offset, records, bytes"""
_HELD: Final = "CREATE OR REPLACE TABLE held AS SELECT * FROM copied"
# Of several rows of a minute, which the table should not have, the last one counts.
_LAST_OF_MINUTE: Final = """
    QUALIFY row_number() OVER (PARTITION BY place, minute_ms
        ORDER BY first_offset DESC, next_offset DESC, records DESC, bytes DESC) = 1"""
_CONTENT: Final = ("records", "bytes", "first_offset", "next_offset")
_SAME: Final = " AND ".join(f"logged.{name} = held.{name}" for name in _CONTENT)
_EQUAL: Final = f"""
    SELECT place, count(*) FROM logged JOIN held USING (place, minute_ms)
    WHERE {_SAME} GROUP BY place"""
_DIFFERENT: Final = f"""
    SELECT logged.place, {", ".join(f"logged.{name}" for name in MinuteUse._fields)},
        {", ".join(f"held.{name}" for name in MinuteUse._fields)}
    FROM logged LEFT JOIN held
        ON held.place = logged.place AND held.minute_ms = logged.minute_ms
    WHERE NOT coalesce({_SAME}, false)
    ORDER BY logged.place, number"""


class Break(NamedTuple):
    """A row that does not begin at ``reached``, the end of all before it, or is inconsistent.

    After a gap it may stand for a run: then all is that of the run but ``minute_ms``, its first.
    """

    reached: int
    minute_ms: int
    records: int
    first_offset: int
    next_offset: int


class Chain(NamedTuple):
    """All minutes of a partition in the table. ``breaks``: by time, to be read once."""

    place: int  # number of the partition
    topic: str
    partition: int
    name: str
    records: int
    bytes: int
    next_offset: int
    breaks: Iterator[Break]


class Pair(NamedTuple):
    """A minute of the log, and the other one that the table has; None: it has none."""

    logged: MinuteUse
    stored: MinuteUse | None


class Difference(NamedTuple):
    """The log's minutes of a partition beside the table's. ``pairs``: by time, to be read once."""

    place: int
    equal: int  # minutes
    pairs: Iterator[Pair]


class Bucket:
    """Some partitions; its caller first reads all ``chains``, then all ``differences``.

    Args: engine: with the tables of ``UsageChains``; copy: a stream of Arrow, rows of ``HELD`` that
          logs may still have, or no file; tangled: there may be several rows of a minute.
    """

    def __init__(
        self, engine: duckdb.DuckDBPyConnection, number: int, copy: Path, *, tangled: bool
    ) -> None:
        self._engine, self._number, self._copy = engine, number, copy
        self._held = _HELD + _LAST_OF_MINUTE if tangled else _HELD
        self._batches: list[pa.RecordBatch] = []  # of logs, not in the engine yet
        self._places: list[int] = []  # that were added
        self._minutes = 0  # of them

    def chains(self) -> Iterator[Chain]:
        """Each partition once; the breaks of one are read before the next one comes."""
        chains = self._engine.execute(_CHAINS, [self._number]).fetchall()
        breaks = _ByPlace(self._engine.cursor().execute(_BREAKS, [self._number]))
        for row in chains:
            faulty = (Break(*found) for found in breaks.of(row[0]))
            yield Chain(*(*row, faulty))

    def add(self, place: int, minutes: Sequence[MinuteUse]) -> None:
        """Minutes of a partition's log, to be compared; places ascend."""
        self._places.append(place)
        for start in range(0, len(minutes), _MINUTES_AT_ONCE):
            part = minutes[start : start + _MINUTES_AT_ONCE]
            columns = [[place] * len(part), *zip(*part, strict=True)]
            columns.append(range(self._minutes, self._minutes + len(part)))
            arrays = [pa.array(*of) for of in zip(columns, _LOGGED.types, strict=True)]
            self._batches.append(pa.record_batch(arrays, schema=_LOGGED))
            self._minutes += len(part)
        if sum(batch.num_rows for batch in self._batches) >= _MINUTES_AT_ONCE:
            self._flush()

    def differences(self) -> Iterator[Difference]:
        """One of each partition that was added; its pairs are read before the next one comes."""
        equal, different = dict[int, int](), None
        if self._minutes:
            self._flush()
            self._load()
            equal = dict(self._engine.execute(_EQUAL).fetchall())
            if sum(equal.values()) < self._minutes:
                different = self._engine.cursor().execute(_DIFFERENT)
        pairs = _ByPlace(different)
        for place in self._places:
            yield Difference(place, equal.get(place, 0), map(_pair, pairs.of(place)))
        self._engine.execute("TRUNCATE logged")

    def _flush(self) -> None:
        self._engine.register("added", pa.Table.from_batches(self._batches, _LOGGED))
        self._engine.execute("INSERT INTO logged SELECT * FROM added")
        self._engine.unregister("added")
        self._batches.clear()

    def _load(self) -> None:
        with ExitStack() as opened:
            rows: pa.Table | pa.RecordBatchReader = HELD.empty_table()
            if self._copy.exists():
                file = opened.enter_context(pa.OSFile(str(self._copy)))
                rows = pa.ipc.open_stream(file)
            self._engine.register("copied", rows)
            self._engine.execute(self._held)
            self._engine.unregister("copied")


class _ByPlace:
    """Rows that are ordered by their first column, a place, without this column."""

    def __init__(self, result: duckdb.DuckDBPyConnection | None) -> None:
        self._groups = groupby(() if result is None else _rows(result), itemgetter(0))
        self._next = next(self._groups, None)

    def of(self, place: int) -> Iterator[Sequence[Any]]:
        """The rows of a place; places ascend, and what is of smaller ones is not needed."""
        while self._next is not None and self._next[0] < place:
            self._next = next(self._groups, None)
        if self._next is not None and self._next[0] == place:
            for row in self._next[1]:
                yield row[1:]


def _rows(result: duckdb.DuckDBPyConnection) -> Iterator[Sequence[Any]]:
    while rows := result.fetchmany(_ROWS_AT_ONCE):
        yield from rows


def _pair(row: Sequence[Any]) -> Pair:
    fields = len(MinuteUse._fields)
    stored = None if row[fields] is None else MinuteUse(*row[fields:])
    return Pair(MinuteUse(*row[:fields]), stored)
