"""Warns when most of a producer's messages with keys go to one partition; no I/O."""

import logging
from collections import Counter
from collections.abc import Callable
from typing import Final

from opentalos.model.settings.hot_partition import hot_partition
from opentalos.sdk.core.producer.accumulator import Batch

WINDOW_S: Final = 300.0

_log = logging.getLogger("opentalos.sdk.producer")


class KeySpread:
    """Counts stored messages with keys by partition, and logs a hot partition once per window.

    It counts batches, not messages, so that a put costs nothing more. A batch in which the first
    message has no key is not counted.

    Args: now_s: a monotonic clock.
    """

    def __init__(self, topic: str, now_s: Callable[[], float]) -> None:
        self._topic, self._now_s = topic, now_s
        self._began_s = now_s()
        self._messages: Counter[int] = Counter()  # by partition, in this window

    def count(self, batch: Batch, partitions: int) -> None:
        """A batch was stored in a topic of so many partitions."""
        if self._now_s() >= self._began_s + WINDOW_S:
            self.end(partitions)
        if batch.keyed or (batch.messages and batch.messages[0].partition_key is not None):
            self._messages[batch.partition] += batch.count

    def end(self, partitions: int) -> None:
        """End the window: log, and begin the next one. Also when the producer closes."""
        hot = hot_partition(self._messages, partitions)
        if hot is not None:
            _log.warning(
                "partition %d of topic %s got %d%% of %d messages with keys; other partitions are "
                "of little use: use more different keys, or a topic with partitioner=murmur2",
                hot.partition,
                self._topic,
                hot.percent,
                hot.of_messages,
            )
        self._messages.clear()
        self._began_s = self._now_s()
