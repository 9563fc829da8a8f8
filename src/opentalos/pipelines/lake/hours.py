"""Hours of a lake table that are merged where the rows are, and replaced as a whole.

A pipeline reads the stored rows of the hours that a batch touches, merges them with the batch's in
Spark, and writes the result into new files. On a cluster neither stored nor merged rows pass
through the driver, which commits the names of the files. A batch that is repeated, or of which
another writer was first, changes nothing.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.fs as pa_fs
import pyarrow.parquet as pq
from pyspark.sql import Column
from pyspark.sql import functions as F

from opentalos.model.errors import BadRequest, StoreUnavailable
from opentalos.pipelines.lake.file_writer import FileWriter, LocalFileWriter, dataset_of
from opentalos.pipelines.lake.lake_table import LakeTable
from opentalos.pipelines.lake.layout import Batch, DataFile, Layout, Seen, Span, inside
from opentalos.pipelines.lake.sink import files_frame, write_files
from opentalos.pipelines.lake.tables import HOUR_MS
from opentalos.pipelines.lake.written_rows import check_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SMALL_VALUES: Final = 1_000_000  # of all columns of some hours; the driver takes 0.5 s for them
_HOUR: Final = "_hour"
_OTHERS: Final = -1  # rows of other hours, of files that have rows of both


def hour_of_row(time: str) -> Column:
    """The start of the hour of a column of time, Unix milliseconds."""
    at = F.unix_millis(time)
    return at - at % HOUR_MS


def _values(path: str) -> int:
    """Of all columns of a file, by its footer; entries of maps count, too."""
    groups = pq.read_metadata(path).to_dict()["row_groups"]
    return sum(column["num_values"] for group in groups for column in group["columns"])


class Hours:
    """The files that have rows of some hours, as they are now.

    Args:   hours: Unix ms of their starts.
    Raises: BadRequest: no hour is given; StoreUnavailable.
    """

    def __init__(self, table: LakeTable, layout: Layout, hours: Sequence[int]) -> None:
        if not hours:
            raise BadRequest(f"no hour of table {layout.name} is to be replaced; give one")
        self._table, self._layout, self._hours = table, layout, sorted(hours)
        spans = tuple(Span(hour, hour + HOUR_MS) for hour in self._hours)
        self._seen = Seen(spans, tuple(table.files(*spans)))

    def stored(self, spark: "SparkSession") -> "DataFrame":
        """All rows of these files; a file of a compacted table has rows of other hours, too."""
        return files_frame(spark, self._seen.files, self._layout)

    def stored_rows(self) -> pa.Table:
        """As ``stored``, in this process's memory, of a table of one machine; a column that files
        of earlier releases lack is null. Raises: StoreUnavailable."""
        with self._reading():
            paths = self._local_paths()
            return dataset_of(paths, pa_fs.LocalFileSystem(), self._layout.schema).to_table()

    @property
    def are_small(self) -> bool:
        """Whether they are so few rows of one machine's table that this process merges them
        fastest. Raises: StoreUnavailable."""
        if not isinstance(self._table.writer(), LocalFileWriter):
            return False
        with self._reading():
            return sum(map(_values, self._local_paths())) <= SMALL_VALUES

    def replace(self, batch: Batch, rows: "DataFrame") -> bool:
        """Replace the files by ``rows``: all of ``stored``, merged with the batch's.

        Rows of other hours get files of their own, so compacted ones are not cut up.

        Raises: RowsMissing: executors wrote to disks that this machine does not have;
                StoreUnavailable: another writer was first; as ``LakeTable.replace``.
        """
        writer = self._table.writer()
        if isinstance(writer, LocalFileWriter):
            files = self._by_driver(writer, rows)
        else:
            files = self._by_executors(writer, rows)
        return self._replace(batch, writer, files)

    def replace_by(self, batch: Batch, rows: pa.Table) -> bool:
        """As ``replace``, by rows in memory, all of these hours. Raises: as ``replace``."""
        writer = self._table.writer()
        files: list[DataFile] = []
        for span in self._seen.spans:
            files += writer.write(rows.filter(inside(self._layout.time, span)).to_batches())
        return self._replace(batch, writer, files)

    def _replace(self, batch: Batch, writer: FileWriter, files: Sequence[DataFile]) -> bool:
        check_files(f"table {self._layout.name}", writer, files)
        return self._table.replace(batch, self._seen, files)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:  # such as a file that another writer has replaced long ago
            raise StoreUnavailable(f"could not read table {self._layout.name}: {error}") from error

    def _local_paths(self) -> list[str]:
        return [unquote(urlsplit(file).path) for file in self._seen.files]

    def _by_driver(self, writer: FileWriter, rows: "DataFrame") -> list[DataFile]:
        """On one machine, whose driver rewrites each hour's file anyway: no Python worker."""
        files: list[DataFile] = []
        for hour_ms in self._hours:
            of_hour = rows.where(hour_of_row(self._layout.time) == hour_ms)
            files += writer.write(of_hour.select(*self._layout.schema.names).toArrow().to_batches())
        return files

    def _by_executors(self, writer: FileWriter, rows: "DataFrame") -> list[DataFile]:
        hour = hour_of_row(self._layout.time)
        apart = F.when(hour.isin(self._hours), hour).otherwise(F.lit(_OTHERS))
        whole = rows.select(*self._layout.schema.names, apart.alias(_HOUR))
        # Tasks of similar size, however many rows an hour has.
        tasks = whole.hint("rebalance", F.col(_HOUR))
        order = (_HOUR, *(self._layout.key or (self._layout.time,)))
        return write_files(tasks.sortWithinPartitions(*order), writer, by=_HOUR)
