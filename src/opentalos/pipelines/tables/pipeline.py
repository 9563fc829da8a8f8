"""The pipeline ``sds-replay``: a structured table's state, replayed from its stream, as Parquet."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema

from opentalos.model.errors import ConfigError, Unavailable
from opentalos.model.table import TableSchema
from opentalos.pipelines.batch_description import described
from opentalos.pipelines.lake.folder_writers import fence, writing
from opentalos.pipelines.lake.sink import runs
from opentalos.pipelines.lake.tables import GRACE_S, HashTable
from opentalos.pipelines.lake.written_rows import check_shared
from opentalos.pipelines.pipeline import PipelineSettings, on_this_machine
from opentalos.pipelines.session import epoch_of
from opentalos.pipelines.tables.replay_start import ReplayStart, store, stored
from opentalos.pipelines.tables.replay_state import (
    MESSAGE,
    PART,
    STAGED,
    Replay,
    staged,
    stored_pieces,
)
from opentalos.sdk import ClientConfig
from opentalos.sdk.core.config import split_key, split_urls
from opentalos.sdk.core.table.stream_decode import stream_key, topic_name
from opentalos.sdk.stream import StreamDecoder, StreamMark
from opentalos.sdk.tables import TableAdmin, TableRange, TalosTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

TABLE: Final = "table"
TOPIC: Final = "topic"
COMPLETE: Final = "complete"
BOOTSTRAP: Final = "bootstrap"
MISFITS: Final = "misfits"
POSITION: Final = "starting-position"
_YES, _NO = "yes", "no"
_NONE, _SCAN = "none", "scan"
_STOP, _COUNT = "stop", "count"
_COLUMNS: Final = "value,sequence_number"


class SdsReplay:
    """A stream of changes into ``HOME/lake/tables/TABLE/*.parquet``: one row per record."""

    name = "sds-replay"
    about = "a structured table's state, replayed from its stream, as Parquet by key"
    options: Mapping[str, str] = MappingProxyType(
        {
            TABLE: "name of the table",
            TOPIC: "topic of its stream; default: the only stream with values",
            BOOTSTRAP: "scan: start with the table's current records, for a stream that is "
            "younger than the table; none (default): at the stream's start",
            COMPLETE: "yes (default): the stream has every record's first change; no: use the "
            "changes that exist",
            MISFITS: "stop (default): fail if an increment's amount does not give its value; "
            "count: use the value, and count it in _misfits",
            POSITION: 'earliest (default), latest, or as format("talos") has it',
            "group": "consumer group that shows the progress; default: pipeline-sds-replay-TABLE",
        }
    )

    def start(self, spark: "SparkSession", settings: PipelineSettings) -> "StreamingQuery":
        """Start the stream; the first start with ``bootstrap`` scans the table before.

        Raises: ConfigError: an option is invalid, or executors are on other machines;
                TableNotExist: also if the table is not the one of the first start.
        """
        check_shared(
            f"the state of a table, below {settings.home},",
            str(spark.sparkContext.master),
            local=True,
            give="--master local[*]",
        )
        followed = followed_by(settings)
        given, table = settings.options, followed.replay.table
        writer = ReplayWriter(followed.replay, settings.home, followed.current_schema)
        begun = _begun(spark, settings, followed, writer)
        first = given.get(POSITION, "earliest") if begun.offsets is None else begun.position
        messages = (
            spark.readStream.format("talos")
            .option("url", settings.url)
            .option("key", settings.key)
            .option("topic", followed.topic)
            .option("columns", _COLUMNS)
            .option("startingPosition", first)
            .option("group", given.get("group", f"pipeline-{self.name}-{table}"))
            .option("maxMessagesPerTrigger", settings.max_messages_per_trigger)
            .load()
        )
        place = on_this_machine(checkpoint(settings, table))
        stream = (
            messages.writeStream.queryName(self.name)
            .foreachBatch(described(spark, self.name, place, writer))
            .option("checkpointLocation", place)
        )
        if settings.available_now:
            return stream.trigger(availableNow=True).start()
        return stream.trigger(processingTime=f"{settings.trigger_s} seconds").start()


def checkpoint(settings: PipelineSettings, table: str) -> Path:
    """The folder of the Spark checkpoint of a table's replay."""
    return settings.checkpoint(f"{SdsReplay.name}/{table}")


def _begun(
    spark: "SparkSession", settings: PipelineSettings, followed: "Followed", writer: "ReplayWriter"
) -> ReplayStart:
    """How the replay started; the first time it starts here."""
    table, home = followed.replay.table, settings.home
    scan = _choice(settings.options, BOOTSTRAP, (_NONE, _SCAN)) == _SCAN
    if scan and POSITION in settings.options:
        raise ConfigError(
            f"sds-replay.{BOOTSTRAP}={_SCAN} and {POSITION} exclude each other: remove one"
        )
    known = stored(home, table)
    if known is not None:
        known.check(table, followed.begun)
    if scan and (checkpoint(settings, table).exists() if known is None else known.offsets is None):
        raise ConfigError(
            f"the replay of {table} started without a scan; choose another --home to use one"
        )
    if known is not None:
        return known
    begun = followed.begun
    if scan:
        mark = followed.mark()
        writer.begin(followed.scanned(spark))
        followed.current_schema()  # still the table of the mark
        begun = replace(begun, offsets=mark.offsets, enabling=mark.enabling)
    store(home, table, begun)
    return begun


class ReplayWriter:
    """Applies batches to the state; for ``foreachBatch``.

    A part is replaced atomically, and it identifies applied changes by their times and numbers, so
    a batch that is repeated after a crash between any two parts gives the same result.

    Args: current_schema: returns the table's schema; it may raise.
    """

    def __init__(
        self, replay: Replay, home: Path, current_schema: Callable[[], TableSchema] | None = None
    ) -> None:
        self._replay, self._home, self._current_schema = replay, home, current_schema
        self._lake = replay.lake(home)
        self._widened = False

    def __call__(self, messages: DataFrame, batch_id: int) -> None:
        """Apply one batch; after an error Spark repeats it."""
        self._follow_schema(messages.sparkSession)
        parted = messages.mapInArrow(_parted(self._replay), from_arrow_schema(MESSAGE)).persist()
        try:
            parts = sorted(part for (part,) in parted.select(PART).distinct().collect())
            if parts:
                self._publish(self._joined(parted), parts)
        finally:
            parted.unpersist()

    def begin(self, scanned: DataFrame) -> None:
        """Replace the whole state by a scan's rows, each part by one task, whose rows are sorted by
        Spark, which spills."""
        parts = self._replay.parts
        sorted_rows = scanned.repartitionById(parts, PART).sortWithinPartitions(PART)
        written = sorted_rows.mapInArrow(_staged(self._lake), from_arrow_schema(STAGED))
        self._publish(written, range(parts))

    def _follow_schema(self, spark: "SparkSession") -> None:
        """Add new columns of the table to every part, so that all files have the same columns."""
        schema = self._current_schema() if self._current_schema is not None else self._replay.schema
        if schema != self._replay.schema:
            self._replay, self._widened = replace(self._replay, schema=schema), False
            self._lake = self._replay.lake(self._home)
        if not self._widened:
            wanted = set(self._replay.state_schema().names)
            files = zip(self._lake.parts(), self._lake.files(), strict=True)
            narrow = [part for part, file in files if wanted - set(pq.read_schema(file).names)]
            if narrow:
                numbers = spark.createDataFrame([(part,) for part in narrow], f"{PART} int")
                self._publish(self._joined(numbers), narrow)
            self._widened = True

    def _publish(self, written: DataFrame, parts: Iterable[int]) -> None:
        """Replace these parts by versions that workers have written; none: without rows.

        Nothing is replaced before all are written, and no row passes through the driver. A run that
        was replaced has joined its batch to a state that may be old by now: it publishes nothing.
        """
        epoch = epoch_of(written.sparkSession)
        empty = self._replay.state_schema().empty_table()
        versions = {row[PART]: row.version for row in written.collect()}
        folder, what = self._lake.folder, f"the state of {self._replay.table}"
        with writing(folder, what):
            fence(folder, what, SdsReplay.name, epoch)
            for part in sorted(parts):
                self._lake.publish(part, versions.get(part) or self._lake.stage(part, empty))
        self._lake.sweep(GRACE_S)

    def _joined(self, messages: DataFrame) -> DataFrame:
        """Messages, or rows with only their part, joined to the state, which tasks read."""
        work = _joined(self._replay, self._lake)
        joined: DataFrame = messages.groupBy(PART).applyInArrow(work, from_arrow_schema(STAGED))
        return joined


@dataclass(frozen=True, slots=True)
class Followed:
    """The table and stream that the options name."""

    replay: Replay
    topic: str  # by the name that readers use
    config: ClientConfig
    begun: ReplayStart  # of a replay that starts now, without a scan

    @property
    def stream(self) -> str:
        """The topic by its name in the table's schema."""
        return stream_key(self.replay.schema, self.replay.table, self.topic)

    def current_schema(self) -> TableSchema:
        """The table's schema. Raises: as ``ReplayStart.check``."""
        found = followed_table(self.config, self.replay, self.topic)
        self.begun.check(self.replay.table, found.begun)
        return found.replay.schema

    def mark(self) -> StreamMark:
        """The stream's mark. Raises: Unavailable: there is none now."""
        with TableAdmin(self.config) as admin:
            return admin.mark(self.replay.table, self.stream)

    def scanned(self, spark: "SparkSession") -> DataFrame:
        """All records as rows of the state, also removed ones: a task for each shard, page by
        page."""
        with TalosTable(self.config, self.replay.table) as table:
            parts = table.splits()
        schema = from_arrow_schema(self.replay.state_schema())
        numbers = spark.range(0, len(parts), 1, len(parts))
        found: DataFrame = numbers.mapInArrow(_scanned(self, parts), schema)
        return found


def followed_by(settings: PipelineSettings) -> Followed:
    """What the options say is to be replayed, and the topic of its stream.

    Raises: ConfigError: an option is missing or wrong; TableNotExist, ValidationFailed: the table
            has no such stream; NotSupported: the stream has no values.
    """
    given = settings.options
    table = given.get(TABLE, "")
    if not table:
        raise ConfigError(f"the table is missing: give -o sds-replay.{TABLE}=NAME")
    complete = _choice(given, COMPLETE, (_YES, _NO)) == _YES
    strict = _choice(given, MISFITS, (_STOP, _COUNT)) == _STOP
    key_id, secret = split_key(settings.key, "key")
    config = ClientConfig(endpoints=split_urls(settings.url), key_id=key_id, secret=secret)
    with TalosTable(config, table) as opened:
        schema = opened.schema()
    topic = given.get(TOPIC, "")
    if not topic:
        streams = [name for name, spec in schema.streams.items() if spec.enabled]
        if len(streams) != 1:
            known = ", ".join(streams) or "none"
            raise ConfigError(
                f"table {table} has {len(streams)} enabled streams ({known}): "
                f"choose one with sds-replay.{TOPIC}"
            )
        topic = topic_name(table, *streams)
    view = StreamDecoder.of(schema, topic, table).view
    return followed_table(config, Replay(table, schema, view, complete, strict), topic)


def followed_table(config: ClientConfig, replay: Replay, topic: str) -> Followed:
    """The current table of a replay. Raises: as ``followed_by``."""
    with TalosTable(config, replay.table) as table:
        uuid, schema = table.identity()
    now = replace(replay, schema=schema)
    found = Followed(now, topic, config, ReplayStart(uuid, topic, None))
    try:
        return replace(found, begun=replace(found.begun, enabling=found.mark().enabling))
    except Unavailable:  # a shard has just moved; the next check finds out
        return found


def _choice(given: Mapping[str, str], name: str, choices: tuple[str, str]) -> str:
    """An option of two values; the first is its default. Raises: ConfigError."""
    chosen = given.get(name, choices[0])
    if chosen not in choices:
        raise ConfigError(f"sds-replay.{name} is {chosen!r}: choose {' or '.join(choices)}")
    return chosen


def _scanned(followed: Followed, parts: Sequence[TableRange]) -> Any:
    columns = followed.replay.schema.streams[followed.stream].attributes

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        numbers = [number for batch in batches for number in batch.column(0).to_pylist()]
        with TalosTable(followed.config, followed.replay.table) as table:
            for number in numbers:
                yield from followed.replay.scanned(table.states(parts[number], columns))

    return run


def _parted(replay: Replay) -> Any:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return replay.parted(batches)

    return run


def _joined(replay: Replay, lake: HashTable) -> Any:
    def run(key: tuple[Any, ...], messages: pa.Table) -> pa.Table:
        part = key[0].as_py()
        stored = (piece for file in lake.files([part]) for piece in stored_pieces(file))
        given = messages if "value" in messages.column_names else MESSAGE.empty_table()
        version = staged(lake, part, replay.joined(part, stored, given))
        return pa.Table.from_batches([version])

    return run


def _staged(lake: HashTable) -> Any:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for part, rows in runs(batches, PART):
            yield staged(lake, part, map(_table, rows))

    return run


def _table(batch: pa.RecordBatch) -> pa.Table:
    return pa.Table.from_batches([batch])


SDS_REPLAY = SdsReplay()
