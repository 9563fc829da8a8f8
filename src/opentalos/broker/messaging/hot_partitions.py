"""HotPartitions: topics most of whose messages one partition of this server takes."""

import logging
from collections.abc import Mapping
from typing import Final, NamedTuple

from opentalos.broker.context import BrokerContext
from opentalos.catalog.topics.topic import Topic
from opentalos.log.counters import Traffic
from opentalos.model.names import SYSTEM_TENANT
from opentalos.model.settings.hot_partition import HotPartition, hot_partition

WINDOW_MS: Final = 600_000
BLOCKS_MIN: Final = 100  # producers without keys use one partition after the other, by blocks

_log = logging.getLogger(__name__)


class _Amount(NamedTuple):
    blocks: int
    messages: int


class HotPartitions:
    """Compares the partitions of each topic on this server, over windows of ``WINDOW_MS``.

    The server does not open blocks, so it counts messages with keys and without. It judges only
    topics of which it serves enough partitions: what other servers store it does not know.
    """

    def __init__(self, context: BrokerContext) -> None:
        self._context = context
        self._began_ms = 0  # 0: no window yet
        self._before: Mapping[str, Mapping[int, _Amount]] = {}  # by topic uuid and partition
        self.count = 0  # of topics with a hot partition in the last window

    def check(self, now_ms: int) -> None:
        """End the window if it is over: log each topic with a hot partition once.

        Costs some work per partition with traffic, once per window.
        """
        if 0 <= now_ms - self._began_ms < WINDOW_MS:
            return
        traffic = self._context.log.figures.traffic
        now = {
            topic.uuid: _amounts(traffic[topic.uuid])
            for topic in self._context.topics.all()
            if topic.uuid in traffic and topic.owner != SYSTEM_TENANT
        }
        if self._began_ms:
            self.count = sum(self._check_topic(topic, now) for topic in self._context.topics.all())
        self._began_ms, self._before = now_ms, now

    def _check_topic(self, topic: Topic, now: Mapping[str, Mapping[int, _Amount]]) -> bool:
        before, after = self._before.get(topic.uuid, {}), now.get(topic.uuid, {})
        if not after:
            return False
        owner = self._context.ownership.owner
        served = sum(not owner(topic.uuid, number) for number in range(topic.partitions))
        hot = _hot(before, after, served)
        if hot is None:
            return False
        _log.warning(
            "partition %d of topic %s/%s got %d%% of the %d messages that this server stored of it "
            "in %d s; if they have keys, use more different ones, or a topic with "
            "partitioner=murmur2",
            hot.partition,
            topic.owner,
            topic.name,
            hot.percent,
            hot.of_messages,
            WINDOW_MS // 1_000,
        )
        return True


def _amounts(traffic: Mapping[int, Traffic]) -> Mapping[int, _Amount]:
    return {
        partition: _Amount(counted.blocks_in, counted.messages_in)
        for partition, counted in traffic.items()
    }


def _hot(
    before: Mapping[int, _Amount], now: Mapping[int, _Amount], served: int
) -> HotPartition | None:
    """Counters that fell belong to a partition that came back to this server."""
    nothing, blocks = _Amount(0, 0), 0
    messages: dict[int, int] = {}
    for partition, amount in now.items():
        earlier = before.get(partition, nothing)
        if amount.blocks < earlier.blocks:
            earlier = nothing
        blocks += amount.blocks - earlier.blocks
        messages[partition] = amount.messages - earlier.messages
    return hot_partition(messages, served) if blocks >= BLOCKS_MIN else None
