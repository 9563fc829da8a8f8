"""Lags of the consumer groups that this server coordinates, for metrics."""

import asyncio
import math
from collections import Counter
from collections.abc import Mapping
from typing import Final, NamedTuple

from opentalos.broker.context import BrokerContext
from opentalos.broker.groups.lag.ends import Ends, TopicEnds
from opentalos.broker.long_work import SHORT_ITEMS
from opentalos.group.directory import GroupDirectory, GroupOnTopic, checkpoints_of
from opentalos.model.message import OffsetRange

PARTITIONS_MAX: Final = 10_000  # of one call; further topics are left out
READ_S: Final = 3.0  # for all of them together


LagOfPartition = Mapping[tuple[str, int], "Lag"]  # by topic uuid and partition


class Lag(NamedTuple):
    """Lag on one partition, in messages."""

    total: int  # of all groups together
    largest: int  # of the group with the largest lag


class GroupLags:
    """Lags of the groups that this server coordinates, as of the last ``read``."""

    def __init__(self, context: BrokerContext, directory: GroupDirectory, ends: TopicEnds) -> None:
        self._context, self._directory, self._ends = context, directory, ends
        self.by_group: Mapping[GroupOnTopic, int] = {}  # messages of all partitions together
        # Of each group; NaN: the partition is damaged, so nobody knows.
        self.by_partition: Mapping[tuple[GroupOnTopic, int], float] = {}

    async def read(self) -> LagOfPartition:
        """From what this server has in memory of its groups, and from the logs' ends.

        Left out is what cannot be read in time, since another server does not answer; and of the
        sums the groups that read a damaged partition.
        """
        topics = {topic.uuid: topic for topic in self._context.topics.all()}
        found: dict[tuple[str, int], Lag] = {}
        by_group: Counter[GroupOnTopic] = Counter()
        by_partition: dict[tuple[GroupOnTopic, int], float] = {}
        unknown: set[GroupOnTopic] = set()
        checked = 0
        try:
            async with asyncio.timeout(READ_S):
                for topic_uuid, checkpoints in checkpoints_of(self._directory).items():
                    topic = topics.get(topic_uuid)
                    if topic is None or checked + len(checkpoints) > PARTITIONS_MAX:
                        continue
                    checked += len(checkpoints)
                    ends = await self._ends.read(topic)
                    for partition, lags in (await self._of_topic(ends, checkpoints)).items():
                        found[topic_uuid, partition] = Lag(sum(lags.values()), max(lags.values()))
                        by_group.update(lags)
                        for group, lag in lags.items():
                            by_partition[group, partition] = lag
                    for partition in ends.damaged:
                        for group in checkpoints.get(partition, ()):
                            by_partition[group, partition] = math.nan
                            unknown.add(group)
        except TimeoutError:
            pass
        self.by_group = {group: lag for group, lag in by_group.items() if group not in unknown}
        self.by_partition = by_partition
        return found

    async def _of_topic(
        self, ends: Ends, checkpoints: Mapping[int, Mapping[GroupOnTopic, int]]
    ) -> Mapping[int, Mapping[GroupOnTopic, int]]:
        """Each group's lag by partition."""
        partitions = [number for number in checkpoints if number < len(ends.nexts)]
        found: dict[int, Mapping[GroupOnTopic, int]] = {}
        for number, partition in enumerate(partitions):
            if number % SHORT_ITEMS == SHORT_ITEMS - 1:
                await self._context.work.pause()
            if partition not in ends.errors:
                offsets = OffsetRange(ends.starts[partition], ends.nexts[partition])
                found[partition] = {
                    group: offsets.lag(checkpoint)
                    for group, checkpoint in checkpoints[partition].items()
                }
        return found
