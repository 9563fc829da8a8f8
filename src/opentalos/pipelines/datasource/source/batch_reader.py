"""A bounded read: everything between two positions, resolved when the read is planned."""

from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from opentalos.pipelines.datasource.connection import client_of
from opentalos.pipelines.datasource.source.batch_range import BatchRange, ReadRange
from opentalos.pipelines.datasource.source.columns import Projection
from opentalos.pipelines.datasource.source.next_batch import bounded_batch
from opentalos.pipelines.datasource.source.options import ReadOptions
from opentalos.pipelines.datasource.source.range_reader import RangeReader
from opentalos.pipelines.datasource.source.task_split import split_tasks
from opentalos.pipelines.datasource.source.topic_snapshot import (
    find_topics,
    positions_at,
    retained_by,
)
from opentalos.pipelines.datasource.task_process import keep_imports_out_of_collections
from opentalos.sdk.aio import Client


class RangesPartition(InputPartition):
    """The ranges of one task."""

    def __init__(self, ranges: Sequence[ReadRange]) -> None:
        super().__init__(tuple(ranges))


def read_ranges(
    reader: RangeReader, projection: Projection, partition: InputPartition
) -> Iterator[Any]:
    """The record batches of a task; Spark adds an empty partition if there are no rows."""
    for batch in reader.read(partition.value or ()):
        yield projection(batch)
    keep_imports_out_of_collections()


class TalosReader(DataSourceReader):
    """Plans a bounded read; its copies in the tasks read.

    Raises: ConfigError: a column of the schema is unknown or of another type.
    """

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._projection = Projection(schema)
        self._ranges = RangeReader(options.config, options.skip_expired)

    def partitions(self) -> Sequence[InputPartition]:
        """The offset ranges of each task. Raises: as ``find_topics`` and ``positions_at``, and
        OffsetOutOfRange: a position is not retained."""
        batch = client_of(self._options.config).run(self._plan)
        return [RangesPartition(ranges) for ranges in split_tasks(batch)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The record batches of one task."""
        return read_ranges(self._ranges, self._projection, partition)

    async def _plan(self, client: Client) -> BatchRange:
        options = self._options
        topics = await find_topics(client, options)
        start = await positions_at(client, options, options.start, topics)
        stop = await positions_at(client, options, options.end, topics)
        retained = await retained_by(client, topics)
        return bounded_batch(start, stop, retained, options.skip_expired, options.tasks)
