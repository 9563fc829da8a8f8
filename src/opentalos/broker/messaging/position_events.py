"""PositionEvents: reports a group's position that the log does not retain (promise I6).

``ConsumerService`` calls it when a worker asks where to start. The server never moves a position;
the consumer's policy decides. Each such position is logged and counted once, so that a reset is
never silent.
"""

import asyncio
import logging
from dataclasses import dataclass

from opentalos.broker.peer_rpc.remote_logs import PROVEN, RemoteLogs
from opentalos.catalog.topics.topic import Topic
from opentalos.group.progress import StoredOffset
from opentalos.model.errors import TalosError

_LOG = logging.getLogger("opentalos.group")
CHECK_S = 0.5  # a slower log must not delay the consumer
REPORTED_MAX = 10_000  # positions remembered as reported


@dataclass(slots=True)
class PositionCounters:
    """Events since the start."""

    positions_expired: int = 0  # retention removed messages that the group had not read
    logs_truncated: int = 0  # a flushed log lost its visible end below a checkpoint


class PositionEvents:
    """Compares a checkpoint with the log when a worker asks where to start."""

    def __init__(self, logs: RemoteLogs) -> None:
        self._logs = logs
        self._reported: dict[tuple[str, int, str], int] = {}
        self.counters = PositionCounters()

    async def check(self, topic: Topic, partition: int, group: str, stored: StoredOffset) -> None:
        """Report a checkpoint outside the log; nothing if the log does not answer now."""
        key, checkpoint = (topic.uuid, partition, group), stored.offset
        if checkpoint < 0 or self._reported.get(key) == checkpoint:
            return
        try:
            async with asyncio.timeout(CHECK_S):
                facts = await self._logs.facts(topic, partition, PROVEN)
        except (TalosError, TimeoutError):
            return
        offsets = facts.offsets
        if checkpoint >= offsets.next and facts.damage is None:
            self.counters.logs_truncated += 1
            event = "log-truncated"
        elif checkpoint + 1 < offsets.start:
            self.counters.positions_expired += 1
            event = "position-expired"
        else:
            return
        if len(self._reported) >= REPORTED_MAX:
            self._reported.clear()
        self._reported[key] = checkpoint
        _LOG.warning(
            "%s topic=%s partition=%d group=%s checkpoint=%d of epoch=%d start=%d end=%d epoch=%d",
            event,
            topic.resource,
            partition,
            group,
            checkpoint,
            stored.epoch,
            offsets.start,
            offsets.end,
            facts.epoch,
        )
