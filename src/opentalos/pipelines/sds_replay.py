"""The pipeline ``sds-replay``: a structured table's state, made of its stream, as Parquet."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from opentalos.model.errors import ConfigError
from opentalos.pipelines.pipeline import PipelineSettings
from opentalos.pipelines.replay_state import MESSAGE, PART, Replay
from opentalos.sdk import ClientConfig
from opentalos.sdk.config import split_key, split_urls
from opentalos.sdk.stream import StreamDecoder
from opentalos.sdk.tables import TableAdmin

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

TABLE: Final = "table"
TOPIC: Final = "topic"
COMPLETE: Final = "complete"
ROWS_AT_ONCE: Final = 100_000  # of the state, in the driver's memory, unless one part has more
_YES, _NO = "yes", "no"
_COLUMNS: Final = "value,sequence_number"


class SdsReplay:
    """A stream of changes into ``HOME/lake/tables/TABLE/*.parquet``: a row of each record."""

    name = "sds-replay"
    about = "a structured table's state, made of its stream, as Parquet by key"
    options: Mapping[str, str] = MappingProxyType(
        {
            TABLE: "name of the table",
            TOPIC: "topic of its stream; default: the only one that tells values",
            COMPLETE: "yes (default): the stream has every record's first change; no: take what "
            "there is",
            "starting-position": 'earliest (default), latest, or as format("talos") has it',
            "group": "consumer group that shows the progress; default: pipeline-sds-replay-TABLE",
        }
    )

    def start(self, spark: "SparkSession", settings: PipelineSettings) -> "StreamingQuery":
        """Start the stream. Raises: ConfigError: an option cannot be used; TableNotExist."""
        replay, topic = replay_of(settings)
        given = settings.options
        messages = (
            spark.readStream.format("talos")
            .option("url", settings.url)
            .option("key", settings.key)
            .option("topic", topic)
            .option("columns", _COLUMNS)
            .option("startingPosition", given.get("starting-position", "earliest"))
            .option("group", given.get("group", f"pipeline-{self.name}-{replay.table}"))
            .option("maxMessagesPerTrigger", settings.max_messages_per_trigger)
            .load()
        )
        stream = (
            messages.writeStream.queryName(self.name)
            .foreachBatch(ReplayWriter(replay, settings.home))
            .option("checkpointLocation", str(settings.checkpoint(f"{self.name}/{replay.table}")))
        )
        if settings.available_now:
            return stream.trigger(availableNow=True).start()
        return stream.trigger(processingTime=f"{settings.trigger_s} seconds").start()


class ReplayWriter:
    """Takes batches into the state; to be given to ``foreachBatch``.

    A part is replaced as a whole, and changes that it has are known by their times and numbers:
    so a batch that is repeated, after a crash between any two parts, ends the same.
    """

    def __init__(self, replay: Replay, home: Path) -> None:
        self._replay, self._lake = replay, replay.lake(home)

    def __call__(self, messages: DataFrame, batch_id: int) -> None:
        """Take one batch, entirely or (an error) again later."""
        parted = messages.mapInArrow(_parted(self._replay), from_arrow_schema(MESSAGE)).persist()
        try:
            parts = sorted(part for (part,) in parted.select(PART).distinct().collect())
            if not parts:
                return
            after = self._joined(parted, parts).persist()
            try:
                counts: dict[int, int] = dict(after.groupBy(PART).count().collect())
                for some in together(counts):
                    rows = after.where(F.col(PART).isin(some)).toArrow()
                    for part in some:
                        self._lake.replace(part, rows.filter(pc.equal(rows.column(PART), part)))
            finally:
                after.unpersist()
        finally:
            parted.unpersist()

    def _joined(self, messages: DataFrame, parts: list[int]) -> DataFrame:
        stored = self._lake.read(messages.sparkSession, parts)
        both = stored.groupBy(PART).cogroup(messages.groupBy(PART))
        schema = from_arrow_schema(self._replay.state_schema())
        joined: DataFrame = both.applyInArrow(_joined(self._replay), schema)
        return joined


def together(counts: Mapping[int, int]) -> Iterator[list[int]]:
    """Parts that are small enough to be written at once. ``counts``: rows by part."""
    some, rows = list[int](), 0
    for part, count in sorted(counts.items()):
        if some and rows + count > ROWS_AT_ONCE:
            yield some
            some, rows = [], 0
        some.append(part)
        rows += count
    if some:
        yield some


def replay_of(settings: PipelineSettings) -> tuple[Replay, str]:
    """What the options say is to be replayed, and the topic of its stream.

    Raises: ConfigError: an option is missing or wrong; TableNotExist, ValidationFailed: the table
            has no such stream; NotSupported: the stream tells no values.
    """
    given = settings.options
    table = given.get(TABLE, "")
    if not table:
        raise ConfigError(f"sds-replay needs -o sds-replay.{TABLE}=NAME")
    complete = given.get(COMPLETE, _YES)
    if complete not in (_YES, _NO):
        raise ConfigError(f"sds-replay.{COMPLETE} is {_YES} or {_NO}, not {complete!r}")
    key_id, secret = split_key(settings.key, "key")
    config = ClientConfig(endpoints=split_urls(settings.url), key_id=key_id, secret=secret)
    with TableAdmin(config) as admin:
        schema = admin.describe(table).schema
    topic = given.get(TOPIC, "")
    if not topic:
        streams = [name for name, one in schema.streams.items() if one.enabled]
        if len(streams) != 1:
            raise ConfigError(f"give sds-replay.{TOPIC}: {table} has streams into {streams}")
        (topic,) = streams
    view = StreamDecoder.of(schema, topic).view
    return Replay(table, schema, view, complete == _YES), topic


def _parted(replay: Replay) -> Any:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return replay.parted(batches)

    return run


def _joined(replay: Replay) -> Any:
    def run(key: tuple[Any, ...], stored: pa.Table, messages: pa.Table) -> pa.Table:
        return replay.joined(key[0].as_py(), stored, messages)

    return run


SDS_REPLAY = SdsReplay()
