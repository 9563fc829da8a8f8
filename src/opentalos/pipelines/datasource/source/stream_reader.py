"""A stream of topics: which rows each micro-batch has, decided in the driver."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from opentalos.model.names import ResourceName
from opentalos.pipelines.datasource.connection import client_of
from opentalos.pipelines.datasource.source.batch_range import BatchRange, Positions
from opentalos.pipelines.datasource.source.batch_reader import RangesPartition, read_ranges
from opentalos.pipelines.datasource.source.columns import Projection
from opentalos.pipelines.datasource.source.group_progress import GroupProgress
from opentalos.pipelines.datasource.source.next_batch import Bounds, Retained, next_batch
from opentalos.pipelines.datasource.source.options import ReadOptions
from opentalos.pipelines.datasource.source.range_reader import RangeReader
from opentalos.pipelines.datasource.source.task_split import split_tasks
from opentalos.pipelines.datasource.source.topic_snapshot import (
    deleted,
    find_topics,
    positions_at,
    retained_by,
)
from opentalos.sdk import TopicRef
from opentalos.sdk.aio import Client

# New partitions, new topics of a pattern and deleted ones are seen after so long: an idle query
# asks every 10 ms whether there is more to read.
LOOK_S: Final = 1.0
LOOK_S_PER_TOPIC: Final = 0.01  # on top, so that a pattern over many topics is no load


class TalosStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans micro-batches; its copies in the tasks read.

    Nothing that a batch needs is kept here: Spark makes the reader anew at a restart, and has
    all of it in the offsets.

    Raises: ConfigError: a column of the schema is unknown or of another type.
    """

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._projection = Projection(schema)
        self._ranges = RangeReader(options.config, options.skip_expired)
        self._target: Positions | None = None  # of Trigger.AvailableNow
        self._ends: Positions = {}  # of the log, when it was last looked at
        self._topics: tuple[TopicRef, ...] = ()
        self._looked_s: float | None = None  # by the loop's clock
        self._progress = GroupProgress(options.config, options.group) if options.group else None

    def initialOffset(self) -> dict[str, Any]:
        """Where a query without a checkpoint begins."""
        return client_of(self._options.config).run(self._begin).as_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        """``maxMessagesPerTrigger``, if it is set."""
        limit = self._options.messages_max
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    def prepareForTriggerAvailableNow(self) -> None:
        """Whatever is stored from now on is not read by this run."""
        self._target = _nexts(self._look())

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """The end of the next batch; ``start`` if there is nothing to read.

        Spark asks when everything before ``start`` is processed, also at the end of a run, and
        calls ``commit`` only when it begins the batch behind: so the group is told here.

        Raises: TopicNotExist: a topic was deleted; OffsetOutOfRange: a position is not retained.
        """
        last = BatchRange.parse(start)
        if self._progress is not None:
            self._progress.reached(last.end)
        retained = self._look()
        for resource in last.end.keys() - retained.keys():
            raise deleted(ResourceName.parse(resource).topic)
        self._ends = _nexts(retained)
        bounds = Bounds(
            rows_max=limit.max_rows if isinstance(limit, ReadMaxRows) else None,
            skip_expired=self._options.skip_expired,
            tasks=self._options.tasks,
            target=self._target,
        )
        batch = next_batch(last, retained, bounds)
        if batch is not None:
            return batch.as_json()
        if self._progress is not None:
            self._progress.settle()
        return start

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """The end of the log, for the progress of the query."""
        if not self._ends:
            return None
        return BatchRange(begin=self._ends, end=self._ends, tasks=self._options.tasks).as_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """What each task reads, told by ``end`` alone; nothing if it is the start."""
        if start == end:
            return []
        return [RangesPartition(ranges) for ranges in split_tasks(BatchRange.parse(end))]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The record batches of one task."""
        return read_ranges(self._ranges, self._projection, partition)

    async def _begin(self, client: Client) -> BatchRange:
        options = self._options
        topics = await find_topics(client, options)
        start = await positions_at(client, options, options.start, topics)
        return BatchRange(begin=start, end=start, tasks=options.tasks)

    def _look(self) -> Retained:
        return client_of(self._options.config).run(self._retained)

    async def _retained(self, client: Client) -> Retained:
        now_s = asyncio.get_running_loop().time()
        wait_s = LOOK_S + LOOK_S_PER_TOPIC * len(self._topics)
        if self._looked_s is None or now_s - self._looked_s >= wait_s:
            self._topics, self._looked_s = await find_topics(client, self._options), now_s
        return await retained_by(client, self._topics)


def _nexts(retained: Retained) -> Mapping[str, Mapping[int, int]]:
    return {
        resource: {partition: there.next for partition, there in ranges.items()}
        for resource, ranges in retained.items()
    }
