"""Batches of a Spark stream into a table of the lake, each once; and the table as a DataFrame.

Rows are written by Spark's Python workers, where they are; the driver receives the names of files.
A frame is read by the JVM, or by the workers if they reduce its rows anyway (``scanned_frame``).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from opentalos.model.errors import BadRequest
from opentalos.pipelines.lake.file_writer import FileWriter, dataset_of
from opentalos.pipelines.lake.lake_table import LakeTable
from opentalos.pipelines.lake.layout import ALL, Batch, DataFile, Layout, Span, inside
from opentalos.pipelines.lake.opening import pipeline_table, table_place
from opentalos.pipelines.lake.written_rows import check_shared
from opentalos.pipelines.pipeline import PipelineSettings
from opentalos.pipelines.session import epoch_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_QUERY_ID: Final = "sql.streaming.queryId"  # of the checkpoint, the same after a restart
_REMOTE: Final = ("delta+hdfs://", "delta+s3://")
_GIVE: Final = "--lake delta+hdfs://HOST:PORT/PATH or --lake delta+s3://BUCKET/PATH"
_TASKS_PER_CORE: Final = 4  # of a scan: files differ in size
_SCANNED_ROWS: Final = 50_000  # of a scan, in one batch
_WRITTEN: Final = pa.schema(
    [
        ("path", pa.string()),
        ("size_bytes", pa.int64()),
        ("rows", pa.int64()),
        ("first_us", pa.int64()),
        ("last_us", pa.int64()),
        ("partition", pa.list_(pa.string())),
    ]
)


def stream_of(spark: "SparkSession") -> str | None:
    """Id of the stream in whose ``foreachBatch`` this is called; a restart does not change it."""
    found: str | None = spark.sparkContext.getLocalProperty(_QUERY_ID)
    return found


class LakeSink:
    """For ``foreachBatch``: appends each batch of the stream to the table once.

    Args: merge: rows replace those of the same key; they pass through the driver's memory.
    """

    def __init__(self, table: LakeTable, *, merge: bool = False) -> None:
        self._table, self._merge = table, merge

    def __call__(self, rows: "DataFrame", batch_id: int) -> None:
        """Write one batch; after an error Spark repeats it.

        Raises: ConfigError: workers of other machines cannot reach the table.
        """
        spark = rows.sparkSession
        query = stream_of(spark)
        if query is None:
            raise BadRequest("a LakeSink takes the batches of a stream; use it with foreachBatch")
        batch = Batch(query, batch_id, epoch_of(spark))
        if self._merge:
            self._table.merge(batch, rows.toArrow())
            return
        writer = self._table.writer()
        what = f"table {writer.layout.name} at {writer.root}"
        check_shared(what, str(spark.sparkContext.master), local=writer.local)
        self._table.commit(batch, write_files(rows, writer))


def batch_of(spark: "SparkSession", number: int, writer: str) -> Batch:
    """The batch of a pipeline's stream; ``writer`` names what has no stream, such as a test."""
    return Batch(stream_of(spark) or writer, number, epoch_of(spark))


def run_table(spark: "SparkSession", settings: PipelineSettings, layout: Layout) -> LakeTable:
    """The table of a run, which is created if there is none.

    Raises: ConfigError: workers of other machines cannot reach it; as ``open_lake_table``.
    """
    place = table_place(settings.home, settings.lake, layout.name)
    check_lake(spark, settings, f"table {layout.name} at {place}")
    return pipeline_table(settings.home, settings.lake, layout, create=True)


def check_lake(spark: "SparkSession", settings: PipelineSettings, what: str) -> None:
    """Raises: ConfigError: workers of other machines cannot reach the lake, with ``what`` in it."""
    local = not settings.lake.startswith(_REMOTE)
    check_shared(what, str(spark.sparkContext.master), local=local, give=_GIVE)


def write_files(rows: "DataFrame", writer: FileWriter, *, by: str = "") -> list[DataFile]:
    """Write the rows where they are, and return the files of each task's successful attempt.

    Args: by: a column by whose values a task's rows are sorted: each value has files of its own.
    """

    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        parts = (rows for _, rows in runs(batches, by)) if by else [batches]
        found = [asdict(file) for rows in parts for file in writer.write(rows)]
        yield pa.RecordBatch.from_pylist(found, _WRITTEN)

    written = rows.mapInArrow(task, from_arrow_schema(_WRITTEN)).collect()
    return [DataFile.of(row.asDict()) for row in written]


def runs(
    batches: Iterable[pa.RecordBatch], column: str
) -> Iterator[tuple[Any, Iterator[pa.RecordBatch]]]:
    """The values of a column by which the rows are sorted, each with its rows; take these first."""
    parts = (part for batch in batches for part in _cut(batch, column))
    yield from groupby(parts, key=lambda part: part.column(column)[0].as_py())


def _cut(batch: pa.RecordBatch, column: str) -> Iterator[pa.RecordBatch]:
    """Pieces whose rows have the same value."""
    start = 0
    for end in pc.run_end_encode(batch.column(column)).run_ends.to_pylist():
        yield batch.slice(start, end - start)
        start = end


def table_frame(
    spark: "SparkSession", table: LakeTable, layout: Layout, span: Span = ALL
) -> "DataFrame":
    """The rows of a span as a DataFrame; Spark's workers read the files.

    For s3:// Spark needs hadoop-aws and ``spark.hadoop.fs.s3.impl``.
    """
    rows = files_frame(spark, table.files(span), layout)
    time = F.col(layout.time)
    if span.start_ms > ALL.start_ms:
        rows = rows.where(time >= F.timestamp_millis(F.lit(span.start_ms)))
    if span.end_ms < ALL.end_ms:
        rows = rows.where(time < F.timestamp_millis(F.lit(span.end_ms)))
    return rows


def files_frame(spark: "SparkSession", files: Sequence[str], layout: Layout) -> "DataFrame":
    """The rows of files, as ``LakeTable.files`` names them; Spark's workers read them."""
    schema = from_arrow_schema(layout.schema)
    if not files:
        return spark.createDataFrame([], schema)
    # Spark takes a path as it is, and would look for a folder whose name has "%20" in it.
    paths = [unquote(urlsplit(file).path) if file.startswith("file:") else file for file in files]
    reader = spark.read.schema(schema)
    if layout.partition_by:  # whose values are in the paths below the table's folder
        marker = f"/{layout.partition_by[0]}="
        reader = reader.option("basePath", paths[0].partition(marker)[0])
    return reader.parquet(*paths).select(*layout.schema.names)


def scanned_frame(
    spark: "SparkSession",
    stored: ds.Dataset,
    layout: Layout,
    span: Span,
    work: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    found: pa.Schema,
) -> "DataFrame":
    """What ``work`` makes of the rows of some files at a time, as rows of the schema ``found``.

    Python workers read the files of ``LakeTable.scan`` themselves, so a row costs the JVM nothing.
    """
    files, system, schema = stored.files, stored.filesystem, stored.schema
    tasks = min(len(files), _TASKS_PER_CORE * spark.sparkContext.defaultParallelism)
    if not tasks:
        return spark.createDataFrame([], from_arrow_schema(found))

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number in (number for batch in batches for number in batch.column(0).to_pylist()):
            first, end = (len(files) * each // tasks for each in (number, number + 1))
            read = dataset_of(files[first:end], system, schema)
            scan = read.scanner(
                filter=inside(layout.time, span), batch_size=_SCANNED_ROWS, use_threads=False
            )
            yield from work(scan.to_batches())

    return spark.range(0, tasks, 1, tasks).mapInArrow(task, from_arrow_schema(found))
