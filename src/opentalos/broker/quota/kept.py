"""KeptReports: reports of how long messages are kept, written to the topic __usage.

See log/metering/kept.py for what a report says. A server reports a partition when it gets it, at
regular intervals, when retention waits for it, and when its topic is deleted.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, NamedTuple

from opentalos.broker.context import BrokerContext
from opentalos.catalog.topics.topic import Topic, TopicStatus
from opentalos.log.metering.kept import Kept
from opentalos.log.partition.partition_log import PartitionLog
from opentalos.model.errors import TalosError
from opentalos.model.message import PartitionKey
from opentalos.wire.metrics.kept import KeptEvent

_LOG = logging.getLogger("opentalos.metering")

REPORTS_PER_PASS_MAX: Final = 256  # each reads a manifest
DELETED_MAX: Final = 10_000  # partitions of deleted topics that wait for their last report
READ_S: Final = 2.0  # for one manifest
FAILURES_PER_PASS_MAX: Final = 4  # then others would fail as well, each after its time
FAILED_MAX: Final = 1_000  # partitions whose last attempt failed, which come last
_MS_PER_S: Final = 1_000

PutLines = Callable[[list[bytes]], Awaitable[None]]


class _Report(NamedTuple):
    kept: Kept
    until_ms: int
    asked: bool
    event: KeptEvent


class KeptReports:
    """Of the partitions whose logs are in memory at this server."""

    def __init__(self, context: BrokerContext, interval_s: float, put: PutLines) -> None:
        self._context, self._put = context, put
        self._interval_ms = int(interval_s * _MS_PER_S)
        self._deleted: dict[PartitionLog, tuple[Topic, int]] = {}  # with when it was deleted
        self._last: dict[PartitionKey, KeptEvent] = {}  # of these, not known to be durable
        self._failed: set[PartitionKey] = set()
        self.failures = 0  # reports that were due and could not be made; they are tried again

    def is_due(self, log: PartitionLog, topic: Topic) -> bool:
        """Whether a report is to be made; without messages there is nothing to report."""
        kept, bounds = _kept_of(log), log.range()
        if kept is None or bounds.start >= bounds.next or topic.status != TopicStatus.ACTIVE:
            return False
        return kept.due(self._now_ms(), self._interval_ms)

    def topic_deleted(self, topic: Topic, logs: Iterable[PartitionLog]) -> None:
        """Its messages were kept until now. Beyond ``DELETED_MAX`` the regular reports count."""
        if topic.status != TopicStatus.ACTIVE:
            return  # it was deleted earlier
        now_ms = self._now_ms()
        for log in logs:
            if _kept_of(log) is not None and len(self._deleted) + len(self._last) < DELETED_MAX:
                self._deleted.setdefault(log, (topic, now_ms))

    async def write(self, due: list[tuple[PartitionLog, Topic]]) -> bool:
        """Report logs that are due, at most so many at once; whether none is left.

        Raises: TalosError: a report may not be durable; it is made again.
        """
        await self.write_deleted()
        reports, failures_max = [], self.failures + FAILURES_PER_PASS_MAX
        for log, topic in sorted(due, key=self._order)[:REPORTS_PER_PASS_MAX]:
            if self.failures >= failures_max:
                break
            kept = _kept_of(log)
            if kept is not None:
                asked, until_ms = kept.asked, self._now_ms()
                event = await self._event(log, topic, until_ms)
                if event is not None:
                    reports.append(_Report(kept, until_ms, asked, event))
        if reports:
            await self._put([report.event.encode() for report in reports])
        for kept, until_ms, asked, event in reports:
            kept.reported(event.start_offset, until_ms, asked=asked)
        return len(due) <= REPORTS_PER_PASS_MAX

    async def write_deleted(self) -> None:
        """Report deleted topics, before their logs are gone. Raises: as ``write``."""
        for log, (topic, until_ms) in list(self._deleted.items()):
            event = await self._event(log, topic, until_ms)
            if self._deleted.pop(log, None) is not None and event is not None:
                self._last[log.key] = event
        while part := list(self._last.items())[:REPORTS_PER_PASS_MAX]:
            await self._put([event.encode() for _, event in part])
            for key, _ in part:
                self._last.pop(key, None)

    async def _event(self, log: PartitionLog, topic: Topic, until_ms: int) -> KeptEvent | None:
        """What the manifest proves that is read after ``until_ms``."""
        try:
            async with asyncio.timeout(READ_S):
                start = await log.stored_start()
        except (TalosError, TimeoutError) as error:
            self.failures += 1
            if len(self._failed) < FAILED_MAX:
                self._failed.add(log.key)
            _LOG.debug("cannot report what %s keeps: %r", log.key, error)
            return None
        self._failed.discard(log.key)
        return KeptEvent(
            topic=topic.uuid,
            name=topic.name,
            tenant=topic.owner,
            partition=log.key.partition,
            minute_ms=until_ms - until_ms % self._context.config.minute_ms,
            start_offset=start,
        )

    def _order(self, due: tuple[PartitionLog, Topic]) -> tuple[bool, bool]:
        """Retention comes first, what failed last."""
        kept = _kept_of(due[0])
        return due[0].key in self._failed, kept is None or not kept.asked

    def _now_ms(self) -> int:
        """Now, or rather too early while the clock is in doubt: that favours the tenant."""
        time = self._context.log.time
        now_ms = time.retention_ms()
        if now_ms is None:
            seen = time.last_seen()
            now_ms = min(seen.time_ms, seen.wall_ms)
        return now_ms


def _kept_of(log: PartitionLog) -> Kept | None:
    return None if log.meter is None else log.meter.kept
