"""A stream of topics: the driver plans the offset ranges of each micro-batch."""

import asyncio
import logging
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from opentalos.model.names import ResourceName
from opentalos.pipelines.datasource.connection import client_of
from opentalos.pipelines.datasource.source.admission import TriggerWait
from opentalos.pipelines.datasource.source.batch_range import BatchRange, Positions
from opentalos.pipelines.datasource.source.batch_reader import RangesPartition, read_ranges
from opentalos.pipelines.datasource.source.columns import Projection
from opentalos.pipelines.datasource.source.group_progress import GroupProgress
from opentalos.pipelines.datasource.source.message_sizes import MessageSizes
from opentalos.pipelines.datasource.source.next_batch import (
    Bounds,
    Place,
    Retained,
    backlog_rows,
    next_batch,
    unread,
)
from opentalos.pipelines.datasource.source.options import ReadOptions
from opentalos.pipelines.datasource.source.range_reader import RangeReader
from opentalos.pipelines.datasource.source.task_split import split_tasks
from opentalos.pipelines.datasource.source.topic_snapshot import (
    deleted,
    deleted_among,
    find_topics,
    positions_at,
    retained_by,
)
from opentalos.sdk import TopicRef
from opentalos.sdk.aio import Client

_LOG: Final = logging.getLogger("opentalos.datasource")
# Topics and partitions are refreshed at this interval only, since an idle query polls every 10 ms.
REFRESH_S: Final = 1.0
REFRESH_S_PER_TOPIC: Final = 0.01  # additional, so that a pattern over many topics is no load


class TalosStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans micro-batches; its copies in the tasks read.

    It keeps no state that a batch needs: after a restart Spark creates a new reader and has
    everything in the offsets (``batch_range``).

    Raises: ConfigError: a column of the schema is unknown or of another type.
    """

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._projection = Projection(schema)
        self._ranges = RangeReader(options.config, options.skip_expired, options.drop_deleted)
        self._dropped: frozenset[str] = frozenset()  # deleted topics of the last batch
        self._target: Positions | None = None  # of Trigger.AvailableNow
        self._ends: Positions = {}  # of the log, at the last poll
        self._topics: tuple[TopicRef, ...] = ()
        self._refreshed_s: float | None = None  # by the loop's clock
        self._wait = TriggerWait(options.messages_min, options.trigger_delay_s)
        self._sizes = MessageSizes()  # only how much a batch has depends on it
        self._progress = GroupProgress(options.config, options.group) if options.group else None

    def initialOffset(self) -> dict[str, Any]:
        """Where a query without a checkpoint starts."""
        return client_of(self._options.config).run(self._begin).as_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        """One of the limits of a trigger, or none.

        Spark passes it back, but not for a trigger that has to read everything: then no limit
        applies, otherwise all of them.
        """
        most, least = self._options.messages_max, self._options.messages_min
        if most is not None:
            return ReadMaxRows(most)
        if self._options.bytes_max is not None:
            return ReadMaxBytes(self._options.bytes_max)
        return ReadMinRows(least) if least else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        """Messages that are stored from now on are not read by this run."""
        self._target = _nexts(self._poll())

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """The end of the next batch; ``start`` if there is nothing to read.

        Spark calls this when everything before ``start`` is processed, also at the end of a run,
        and ``commit`` only when it starts the next batch: so progress is committed here.

        Raises: TopicNotExist: a topic was deleted; OffsetOutOfRange: a position is not retained;
        CorruptLog: a partition is damaged, so what there is to read is not known.
        """
        last = BatchRange.parse(start)
        if self._progress is not None:
            self._progress.reached(_without(last.end, self._dropped))
        retained = self._poll()
        self._check_deleted(_without(last.end, retained.keys()))
        self._ends = _nexts(retained)
        batch = None
        if not self._waits(last, retained, limit):
            batch = next_batch(last, retained, self._bounds(last, retained, limit))
        if batch is not None:
            self._wait.read(time.monotonic())
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
        """The offset ranges of each task, from ``end`` only; none if it equals the start."""
        if start == end:
            return []
        return [RangesPartition(ranges) for ranges in split_tasks(BatchRange.parse(end))]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The record batches of one task."""
        return read_ranges(self._ranges, self._projection, partition)

    def _waits(self, last: BatchRange, retained: Retained, limit: ReadLimit) -> bool:
        """Whether this trigger waits for more messages; never one that has to read everything."""
        if self._target is not None or isinstance(limit, ReadAllAvailable):
            return False
        return self._wait.waits(backlog_rows(last, retained), time.monotonic())

    def _bounds(self, last: BatchRange, retained: Retained, limit: ReadLimit) -> Bounds:
        """What limits the next batch."""
        options = self._options
        everything = isinstance(limit, ReadAllAvailable)
        bytes_max = None if everything else options.bytes_max
        return Bounds(
            rows_max=None if everything else options.messages_max,
            skip_expired=options.skip_expired,
            tasks=options.tasks,
            target=self._target,
            bytes_max=bytes_max,
            sizes={} if bytes_max is None else self._learned(last, retained, bytes_max),
        )

    def _learned(self, last: BatchRange, retained: Retained, bytes_max: int) -> Mapping[Place, int]:
        """Sizes of the waiting messages; if no server gives one, a batch has one message."""
        waiting = unread(last, retained)
        if waiting:
            client_of(self._options.config).run(lambda it: self._sizes.learn(it, waiting))
        return self._sizes.sizes(waiting, bytes_max)

    def _check_deleted(self, missing: Positions) -> None:
        """Raises: TopicNotExist: a topic was deleted and may not be dropped."""
        dropped = frozenset[str]()
        if missing and self._options.drop_deleted:
            dropped = client_of(self._options.config).run(lambda it: deleted_among(it, missing))
        for resource in sorted(missing):
            if resource not in dropped:
                raise deleted(ResourceName.parse(resource).topic)
            if resource not in self._dropped:
                _LOG.warning("topic %s was deleted; the stream continues without it", resource)
        self._dropped = dropped

    async def _begin(self, client: Client) -> BatchRange:
        options = self._options
        topics = await find_topics(client, options)
        start = await positions_at(client, options, options.start, topics)
        return BatchRange(begin=start, end=start, tasks=options.tasks)

    def _poll(self) -> Retained:
        return client_of(self._options.config).run(self._retained)

    async def _retained(self, client: Client) -> Retained:
        now_s = asyncio.get_running_loop().time()
        wait_s = REFRESH_S + REFRESH_S_PER_TOPIC * len(self._topics)
        if self._refreshed_s is None or now_s - self._refreshed_s >= wait_s:
            self._topics, self._refreshed_s = await find_topics(client, self._options), now_s
        drops = self._options.drop_deleted
        return await retained_by(client, self._topics, drop_deleted=drops)


def _without(positions: Positions, resources: Collection[str]) -> Positions:
    return {name: offsets for name, offsets in positions.items() if name not in resources}


def _nexts(retained: Retained) -> Mapping[str, Mapping[int, int]]:
    return {
        resource: {partition: there.next for partition, there in ranges.items()}
        for resource, ranges in retained.items()
    }
