"""Batches of a Spark stream into a table of the lake, each once; and the table as a DataFrame.

Rows are written by Spark's Python workers, where they are; the driver receives the names of files.
"""

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from opentalos.model.errors import BadRequest
from opentalos.pipelines.lake.file_writer import FileWriter
from opentalos.pipelines.lake.lake_table import LakeTable
from opentalos.pipelines.lake.layout import ALL, Batch, DataFile, Layout, Span
from opentalos.pipelines.lake.written_rows import check_shared
from opentalos.pipelines.session import epoch_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_QUERY_ID: Final = "sql.streaming.queryId"  # of the checkpoint, the same after a restart
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


def write_files(rows: "DataFrame", writer: FileWriter) -> list[DataFile]:
    """Write the rows where they are, and return the files of each task's successful attempt."""

    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found = [asdict(file) for file in writer.write(batches)]
        yield pa.RecordBatch.from_pylist(found, _WRITTEN)

    written = rows.mapInArrow(task, from_arrow_schema(_WRITTEN)).collect()
    return [DataFile.of(row.asDict()) for row in written]


def table_frame(
    spark: "SparkSession", table: LakeTable, layout: Layout, span: Span = ALL
) -> "DataFrame":
    """The rows of a span as a DataFrame; Spark's workers read the files.

    For s3:// Spark needs hadoop-aws and ``spark.hadoop.fs.s3.impl``.
    """
    schema = from_arrow_schema(layout.schema)
    paths = table.files(span)
    if not paths:
        return spark.createDataFrame([], schema)
    time = F.unix_millis(layout.time)
    inside = (time >= span.start_ms) & (time < span.end_ms)
    reader = spark.read.schema(schema)
    if layout.partition_by:  # whose values are in the paths below the table's folder
        marker = f"/{layout.partition_by[0]}="
        reader = reader.option("basePath", paths[0].partition(marker)[0])
    return reader.parquet(*paths).select(*layout.schema.names).where(inside)
