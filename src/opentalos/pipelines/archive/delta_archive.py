"""The archive as a table of Delta, for clusters: partitioned by topic and date of append time.

Tasks write files where they run, and count their rows by partition of a topic. The driver reads
the footer of each file, compares the counts with the offsets of the batch, and commits the files
with the stream's id and the batch's number. So rows pass neither through the driver nor through
Java, and a batch is visible as a whole or not at all. Files of a batch that was not committed are
invisible; ``talos lake vacuum`` removes them.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from opentalos.pipelines.archive.batch_check import BatchCheck
from opentalos.pipelines.archive.batch_rows import WrittenRows
from opentalos.pipelines.datasource.source.columns import ALL_COLUMNS, spark_schema
from opentalos.pipelines.lake.delta.files import DeltaFileWriter
from opentalos.pipelines.lake.delta.table import DeltaLakeTable
from opentalos.pipelines.lake.layout import Batch, DataFile, Layout
from opentalos.pipelines.lake.opening import delta_url
from opentalos.pipelines.lake.sink import stream_of
from opentalos.pipelines.lake.written_rows import check_files, check_shared
from opentalos.pipelines.session import epoch_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DATE: Final = pa.field("date", pa.date32(), nullable=False)  # of the append time, UTC
LAYOUT: Final = Layout(
    "archive",
    pa.schema([*to_arrow_schema(spark_schema(ALL_COLUMNS), timezone="UTC"), DATE]),
    "append_time",
    partition_by=("topic", "date"),
)
_RESULT: Final = pa.schema([("result", pa.string())])
_NO_OPTIONS: Final[Mapping[str, str]] = MappingProxyType({})


class DeltaArchive:
    """Writes batches into the archive; for ``foreachBatch``.

    Args:   url: delta+STORE://...; options: storage options that the environment does not give.
    Raises: ConfigError: not such a URL, or executors of ``master`` do not reach it.
    """

    def __init__(
        self,
        url: str,
        check: BatchCheck,
        *,
        master: str,
        options: Mapping[str, str] = _NO_OPTIONS,
    ) -> None:
        self._url, self._check, self._options = delta_url(url), check, dict(options)
        self._table: DeltaLakeTable | None = None
        local = DeltaFileWriter(LAYOUT, self._url).local
        check_shared(f"archive.path {url}", master, local=local)

    def __call__(self, messages: "DataFrame", batch_id: int) -> None:
        """Write one batch; it is complete when it is committed.

        Raises: ConfigError: the table is the archive of another stream, or has other columns.
        RowsMissing: the files do not have the messages of the batch, which is not committed then.
        """
        spark = messages.sparkSession
        stream = str(stream_of(spark))
        if self._table is None:
            # The first stream owns the table: another one would add the same messages again.
            self._table = DeltaLakeTable(self._url, LAYOUT, self._options, owner=stream)
        batch = Batch(stream, batch_id, epoch_of(spark))
        if self._table.has(batch):
            return
        writer = self._table.writer()
        files, written = _write(messages.withColumn(DATE.name, F.to_date("append_time")), writer)
        check_files("the archive", writer, files)
        self._check.check(spark, batch_id, written)
        self._table.commit(batch, files)


class RowCounts:
    """Counts rows by partition of a topic, and notes their first and last offset."""

    def __init__(self, counts: Iterable[WrittenRows] = ()) -> None:
        self._counts: dict[tuple[str, int], WrittenRows] = {}
        for found in counts:
            self._add(found)

    def counted(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Pass batches on."""
        for batch in batches:
            groups = pa.Table.from_batches([batch]).group_by(["topic", "partition"])
            for row in groups.aggregate(
                [("offset", "count"), ("offset", "min"), ("offset", "max")]
            ).to_pylist():
                bounds = row["offset_count"], row["offset_min"], row["offset_max"]
                self._add(WrittenRows(row["topic"], row["partition"], *bounds))
            yield batch

    def all(self) -> list[WrittenRows]:
        """The counts, by topic and partition."""
        return [found for _, found in sorted(self._counts.items())]

    def _add(self, found: WrittenRows) -> None:
        place = (found.topic, found.partition)
        known = self._counts.get(place)
        if known is not None:
            found = found._replace(
                rows=known.rows + found.rows,
                first=min(known.first, found.first),
                last=max(known.last, found.last),
            )
        self._counts[place] = found


def _write(
    messages: "DataFrame", writer: DeltaFileWriter
) -> tuple[list[DataFile], list[WrittenRows]]:
    """Write the rows where they are; the files and counts of each task's successful attempt."""

    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        counts = RowCounts()
        files = [asdict(file) for file in writer.write(counts.counted(batches))]
        result = json.dumps({"files": files, "rows": counts.all()})
        yield pa.RecordBatch.from_pylist([{"result": result}], _RESULT)

    results = [
        json.loads(row.result) for row in messages.mapInArrow(task, "result string").collect()
    ]
    files = [DataFile.of(file) for result in results for file in result["files"]]
    counts = RowCounts(WrittenRows(*found) for result in results for found in result["rows"])
    return files, counts.all()
