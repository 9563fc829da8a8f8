"""UsageService: usage of a partition counted from its log, to reconcile the bill (promise I9)."""

from typing import NamedTuple

from opentalos.broker.context import BrokerContext
from opentalos.broker.values import Topic
from opentalos.log.metering.meter import Minute
from opentalos.log.metering.recount import minutes_of
from opentalos.model.errors import PartitionNotExist
from opentalos.model.identity import Permission, Principal

READ_BYTES_MAX = 64 << 20  # payload that one call reads from the log
NOT_METERED = -1


class PartitionUsage(NamedTuple):
    """Usage by the log of one partition. ``next_page``: the offset to continue at, or None."""

    topic: Topic
    partition: int
    start_offset: int
    next_offset: int
    metered_offset: int  # below it, __usage has every message; NOT_METERED
    metered_since: int  # from it on; larger than 0 if messages went while metering was off
    total_bytes: int  # ever appended, with the log's own headers
    minutes: list[Minute]
    next_page: int | None


class UsageService:
    """For administrators and a topic's owner."""

    def __init__(self, context: BrokerContext) -> None:
        self._context = context

    async def partition_usage(
        self, caller: Principal, resource: str, partition: int, *, offset: int, minutes_max: int
    ) -> PartitionUsage:
        """Minutes of the messages that are still kept, from the block with ``offset`` on.

        Raises: PartitionNotExist; NotOwner: another server has it; CorruptLog, Unavailable.
        """
        topic = self._context.topic(caller, Permission.ADMIN, resource)
        if not 0 <= partition < topic.partitions_ever:
            raise PartitionNotExist(
                f"topic {topic.name} never had a partition {partition}",
                ((topic.owner, topic.name, topic),),
            )
        log = self._context.partition_log(topic, partition)
        # Read first, so that a caller who pages through a growing log reaches an end.
        # What is proven of a damaged log: its tenant's usage is known up to there, and no damage of
        # one partition keeps the month of all others open.
        start, end = await log.proven()
        first = min(offset, end)  # who asks for what follows gets the end
        found = await minutes_of(log, first, bytes_max=READ_BYTES_MAX, minutes_max=minutes_max)
        stats = await log.stats()
        meter = log.meter
        return PartitionUsage(
            topic,
            partition,
            start,
            max(end, found.next_offset),
            NOT_METERED if meter is None else meter.mark.offset,
            0 if meter is None else meter.mark.since,
            stats.total_bytes,
            found.found,
            found.next_offset if found.next_offset < end else None,
        )
