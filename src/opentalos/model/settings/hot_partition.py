"""When one partition takes most of a topic's messages: one rule for server, SDK and command line.

Such a topic gains nothing from its other partitions, nor from more servers.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

SHARE_MAX: Final = 0.5  # of the messages; above it a partition is hot
PARTITIONS_MIN: Final = 4  # below it such a share is not unusual
MESSAGES_MIN: Final = 1_000  # below it the share says little


class HotPartition(NamedTuple):
    """A partition with more than ``SHARE_MAX`` of the messages."""

    partition: int
    messages: int
    of_messages: int  # of all partitions that were counted

    @property
    def percent(self) -> int:
        """Its share, rounded down."""
        return 100 * self.messages // self.of_messages


def hot_partition(messages: Mapping[int, int], partitions: int) -> HotPartition | None:
    """The hot partition, if there is one.

    Args: messages: by partition; partitions: how many could have got them.
    """
    total = sum(messages.values())
    if partitions < PARTITIONS_MIN or total < MESSAGES_MIN:
        return None
    fullest = max(messages, key=lambda partition: messages[partition])
    if messages[fullest] <= SHARE_MAX * total:
        return None
    return HotPartition(fullest, messages[fullest], total)
