"""The pipeline ``archive``: topics into Parquet files by date, each message once.

Spark writes a batch into a folder of its own beside the archive. Then the files are renamed into
the archive, under names made of the stream's id and the batch's number, and last a list of them is
written, which completes the batch. A batch that is repeated after a crash is skipped if its list
exists; otherwise its leftovers are removed first. So every reader of the files, not only Spark,
reads each message once; of the batch in progress it may read a part.

At a URL ``delta+STORE://...`` the archive is a table of Delta instead (``delta_archive``).
"""

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from opentalos.model.errors import ConfigError
from opentalos.pipelines.archive.batch_check import BatchCheck
from opentalos.pipelines.archive.batch_rows import WrittenRows
from opentalos.pipelines.archive.delta_archive import DeltaArchive
from opentalos.pipelines.archive.hadoop_files import HadoopFiles
from opentalos.pipelines.batch_description import described
from opentalos.pipelines.datasource.connection import whole_number
from opentalos.pipelines.datasource.source.columns import ALL_COLUMNS
from opentalos.pipelines.driver_place import checkpoint_of
from opentalos.pipelines.lake.layout import Batch
from opentalos.pipelines.lake.sink import stream_of
from opentalos.pipelines.lake.written_rows import check_shared
from opentalos.pipelines.pipeline import (
    CHECKPOINT,
    CHECKPOINT_AT,
    PipelineSettings,
    on_this_machine,
)
from opentalos.pipelines.session import epoch_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_PLACES: Final = "topic string, partition int, offset bigint"
_CODECS: Final = ("zstd", "snappy", "gzip", "none")
_ON_EXPIRED: Final = "on-expired"
_ON_DELETED: Final = "on-deleted"
_GONE: Final = {_ON_EXPIRED: ("fail", "skip"), _ON_DELETED: ("fail", "drop")}
_LISTS_KEPT: Final = 100  # batches; Spark repeats only the last one
_DATE: Final = "date"  # of the append time, UTC
_OWNER: Final = "stream.json"
_EPOCH: Final = "epoch-"  # begins the name of the file that notes the highest one


class Archive:
    """A stream of topics into files ``PATH/date=YYYY-MM-DD/STREAM-BATCH-N.parquet``."""

    name = "archive"
    about = "topics into Parquet by date of append time, or into a table of Delta, exactly once"
    options: Mapping[str, str] = MappingProxyType(
        {
            "topics": "names with commas between (or give topic-pattern)",
            "topic-pattern": "regular expression of names",
            "path": "folder or hdfs://HOST:PORT/PATH; default: archive below --home; or a table of "
            "Delta: delta+hdfs://HOST:PORT/PATH or delta+s3://BUCKET/PATH",
            "compression": f"{', '.join(_CODECS)}; default: {_CODECS[0]}",
            "starting-position": 'earliest (default), latest, or as format("talos") has it',
            "group": "consumer group that shows the progress; default: pipeline-archive",
            "tasks": "input partitions of a batch; default: Spark's default parallelism",
            CHECKPOINT: CHECKPOINT_AT,
            _ON_EXPIRED: "fail (default) or skip: messages that expired before they were read",
            _ON_DELETED: "fail (default) or drop: a topic of the pattern that was deleted",
        }
    )

    def start(self, spark: "SparkSession", settings: PipelineSettings) -> "StreamingQuery":
        """Start the stream. Raises: ConfigError: an option is invalid."""
        given = settings.options
        codec = given.get("compression", _CODECS[0])
        if codec not in _CODECS:
            known = ", ".join(_CODECS)
            raise ConfigError(f"archive.compression is {codec!r}: choose one of {known}")
        checkpoint = checkpoint_of(spark, settings, self.name)
        check = BatchCheck(
            checkpoint,
            given.get(_ON_EXPIRED) == "skip" or given.get(_ON_DELETED) == "drop",
        )
        path = given.get("path") or on_this_machine(settings.home / "archive")
        writer = _writer(spark, path, codec, check)
        stream = (
            spark.readStream.format("talos")
            .options(**_source(settings, spark.sparkContext.defaultParallelism))
            .load()
            .writeStream.queryName(self.name)
            .foreachBatch(described(spark, self.name, checkpoint, writer))
            .option("checkpointLocation", checkpoint)
        )
        if settings.available_now:
            return stream.trigger(availableNow=True).start()
        return stream.trigger(processingTime=f"{settings.trigger_s} seconds").start()


def _source(settings: PipelineSettings, tasks: int) -> dict[str, str]:
    """Options of the read.

    Args:   tasks: of a batch, unless that is an option.
    Raises: ConfigError: not one of topics and topic-pattern, or an invalid option.
    """
    given = settings.options
    chosen = {"topics": given.get("topics"), "topicPattern": given.get("topic-pattern")}
    read = {name: value for name, value in chosen.items() if value}
    if len(read) != 1:
        raise ConfigError("archive needs -o archive.topics=NAME,... or archive.topic-pattern=REGEX")
    for name, choices in _GONE.items():
        if given.get(name, choices[0]) not in choices:
            known = " or ".join(choices)
            raise ConfigError(f"archive.{name} is {given[name]!r}: choose {known}")
    if given.get(_ON_DELETED) == "drop" and "topicPattern" not in read:
        raise ConfigError(f"archive.{_ON_DELETED}=drop needs archive.topic-pattern")
    if "tasks" in given:
        tasks = whole_number("archive.tasks", given["tasks"])
    return {
        **read,
        "url": settings.url,
        "key": settings.key,
        "startingPosition": given.get("starting-position", "earliest"),
        "group": given.get("group", "pipeline-archive"),
        "columns": ",".join(ALL_COLUMNS),
        "onExpired": given.get(_ON_EXPIRED, "fail"),
        "onDeleted": given.get(_ON_DELETED, "fail"),
        "tasks": str(tasks),
        "maxMessagesPerTrigger": str(settings.limit_of_trigger(tasks)),
    }


def _writer(
    spark: "SparkSession", path: str, codec: str, check: BatchCheck
) -> "ArchiveWriter | DeltaArchive":
    """The archive at a path or URL. Raises: ConfigError: it cannot be written from this Spark."""
    if not path.startswith("delta+"):
        local = HadoopFiles(spark, path).is_local
        check_shared(f"archive.path {path}", str(spark.sparkContext.master), local=local)
        return ArchiveWriter(path, codec, check)
    if codec != _CODECS[0]:
        raise ConfigError(
            f"archive.compression is {codec!r}: a table of Delta has {_CODECS[0]}; omit the option"
        )
    return DeltaArchive(path, check, master=str(spark.sparkContext.master))


class ArchiveWriter:
    """Writes batches into the archive; for ``foreachBatch``.

    The rows are compared with the offsets of the batch.
    """

    def __init__(self, path: str, codec: str, check: BatchCheck) -> None:
        self._path, self._codec, self._batch_check = path.rstrip("/"), codec, check

    def __call__(self, messages: DataFrame, batch_id: int) -> None:
        """Write one batch; it is complete when its list exists.

        Raises: ConfigError: the folder is the archive of another stream. LeaseNotHeld: a run with a
        higher epoch has written; this batch is not complete. RowsMissing: the files do
        not have the messages of the batch, which is not complete then.
        """
        spark = messages.sparkSession
        stream = str(stream_of(spark))
        files = HadoopFiles(spark, self._path)
        # Beside the archive, so that its readers do not see it.
        beside = f"{self._path}.batches"
        self._check_owner(files, f"{beside}/{_OWNER}", stream)
        batch = Batch(stream, batch_id, epoch_of(spark))
        self._fence(files, f"{beside}/{_EPOCH}", batch)
        listed, staged = f"{beside}/{batch_id:09}.json", f"{beside}/{batch_id:09}"
        if files.exists(listed):
            files.delete(staged)
            return
        prefix = f"{stream[:8]}-{batch_id:09}-"
        files.delete_all(f"{self._path}/{_DATE}=*/{prefix}*.parquet")
        self._write(messages, staged)
        self._check(spark, staged, batch_id)
        self._fence(files, f"{beside}/{_EPOCH}", batch)  # writing took its time
        names = self._move(files, staged, prefix)
        files.write_new(listed, json.dumps({"stream": stream, "files": names}))
        files.delete(staged)
        files.delete(f"{beside}/{batch_id - _LISTS_KEPT:09}.json")

    def _check_owner(self, files: HadoopFiles, path: str, stream: str) -> None:
        if not files.exists(path):
            files.write_new(path, json.dumps({"stream": stream}))
        owner: dict[str, Any] = json.loads(files.read(path))
        if owner["stream"] != stream:
            raise ConfigError(
                f"{self._path} is the archive of another checkpoint (stream {owner['stream']}, "
                f"not {stream}); choose another path"
            )

    def _fence(self, files: HadoopFiles, prefix: str, batch: Batch) -> None:
        """Refuse the batch of a run that another one replaced, and note its epoch if it is newer.

        Raises: LeaseNotHeld.
        """
        if not batch.epoch:
            return
        noted = files.glob(f"{prefix}*[0-9]")  # not one whose writing a crash cut off
        newest = max((int(path.rpartition("-")[2]) for path in noted), default=0)
        batch.check_epoch(f"archive at {self._path}", newest)
        if newest < batch.epoch:
            files.write_new(f"{prefix}{batch.epoch:019}", "")
            for path in noted:
                files.delete(path)

    def _write(self, messages: DataFrame, staged: str) -> None:
        dated = messages.withColumn(_DATE, F.to_date("append_time"))
        writer = dated.write.mode("overwrite").partitionBy(_DATE)
        writer.option("compression", self._codec).parquet(staged)

    def _check(self, spark: "SparkSession", staged: str, batch_id: int) -> None:
        """Compare the written rows, as everybody sees them, with the offsets of the batch."""
        places = spark.read.schema(_PLACES).parquet(staged).groupBy("topic", "partition")
        found = places.agg(F.count("*"), F.min("offset"), F.max("offset")).collect()
        self._batch_check.check(spark, batch_id, (WrittenRows(*row) for row in found))

    def _move(self, files: HadoopFiles, staged: str, prefix: str) -> list[str]:
        names = []
        for number, source in enumerate(files.glob(f"{staged}/{_DATE}=*/*.parquet")):
            folder = source.rsplit("/", 2)[1]
            name = f"{folder}/{prefix}{number:04}.parquet"
            files.rename(source, f"{self._path}/{name}")
            names.append(name)
        return names


ARCHIVE = Archive()
