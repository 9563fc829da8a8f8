"""The archive as a table of Delta, without Spark."""

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from opentalos.model.errors import ConfigError
from opentalos.pipelines.archive.batch_check import BatchCheck
from opentalos.pipelines.archive.batch_rows import WrittenRows
from opentalos.pipelines.archive.delta_archive import (
    LAYOUT,
    DeltaArchive,
    RowCounts,
)
from opentalos.pipelines.datasource.source.columns import ALL_COLUMNS

AT = datetime(2026, 11, 21, 23, tzinfo=UTC)
CHECK = BatchCheck("/checkpoint", may_lack=False)


def batch(*places: tuple[str, int, int]) -> pa.RecordBatch:
    rows = [
        {"topic": topic, "partition": partition, "offset": offset, "value": b"v",
         "append_time": AT, "date": AT.date()}
        for topic, partition, offset in places
    ]  # fmt: skip
    return pa.RecordBatch.from_pylist(rows, LAYOUT.schema)


def test_the_table_has_every_column_and_a_folder_per_topic_and_date() -> None:
    assert LAYOUT.schema.names == [*ALL_COLUMNS, "date"]
    assert LAYOUT.partition_by == ("topic", "date")


def test_rows_are_counted_by_partition_over_batches_and_tasks() -> None:
    one, two = RowCounts(), RowCounts()
    given = [batch(("a", 0, 5), ("a", 0, 6), ("b", 1, 0)), batch(("a", 0, 4))]
    assert list(one.counted(given)) == given
    assert list(two.counted([batch(("a", 0, 9))])) != []
    assert one.all() == [WrittenRows("a", 0, 3, 4, 6), WrittenRows("b", 1, 1, 0, 0)]
    both = RowCounts([*one.all(), *two.all()]).all()
    assert both == [WrittenRows("a", 0, 4, 4, 9), WrittenRows("b", 1, 1, 0, 0)]


@pytest.mark.parametrize("master", ["yarn", "spark://one:7077", "local-cluster[2,1,1024]"])
def test_a_disk_of_one_machine_is_refused_on_a_cluster(master: str) -> None:
    with pytest.raises(ConfigError, match="is a folder of one machine, and the executors of"):
        DeltaArchive("delta+file:///archive", CHECK, master=master)
    DeltaArchive("delta+hdfs://namenode:9820/archive", CHECK, master=master)
    DeltaArchive("delta+file:///archive", CHECK, master="local[2]")


def test_another_url_is_refused() -> None:
    with pytest.raises(ConfigError, match="is not the URL of a lake table"):
        DeltaArchive("delta+ftp://host/archive", CHECK, master="local")
