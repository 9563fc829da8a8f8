"""Metering: usage events of the partitions that this server has, written to the topic __usage.

The log counts (log/metering/meter.py); here the counts become events. An event may be written
again, with more messages of the same minute or after a take-over with the same: the larger
``next_offset`` counts. While __usage takes nothing, nothing is lost: the log keeps what is not
metered.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from opentalos.broker.context import BrokerContext
from opentalos.broker.quota.kept import KeptReports
from opentalos.catalog.topics.topic import Topic
from opentalos.catalog.topics.topics import topic_by_uuid
from opentalos.log.log_store import metered_logs
from opentalos.log.metering.meter import Minute
from opentalos.log.metering.recount import count_all, count_on
from opentalos.log.partition.partition_log import PartitionLog
from opentalos.model.errors import TalosError
from opentalos.model.message import PartitionKey
from opentalos.wire.metrics.usage import UsageEvent

_LOG = logging.getLogger("opentalos.metering")

EVENTS_PER_PUT_MAX: Final = 1_000
CHECKS_PER_TURN: Final = 50  # partitions checked before yielding to the event loop
READS_PER_PASS_MAX: Final = (
    256  # steps, see log/metering/recount.py, that count what no commit counted
)
READ_S: Final = 2.0  # for one partition in one pass
READ_RETRY_S: Final = 5.0  # until a log that could not be read is tried again
RETRIES_MAX: Final = 10_000  # logs that are known to wait
AGAIN_S: Final = 1.0  # after a pass that left something, and after the first failure
BACKOFF_MAX_S: Final = 60.0
LATE_S: Final = 300.0  # a finished minute that waits longer is reported
LAST_MAX: Final = 10_000  # events of deleted topics that wait
_USUAL_INTERVALS: Final = 2  # so long a finished minute may wait
LAST_EVENTS_S: Final = 1.0  # for the last events at a deletion or at the server's stop

PutEvents = Callable[[Sequence[bytes]], Awaitable[None]]


@dataclass(slots=True)
class MeteringFigures:
    """What metering did, and its backlog in the latest pass."""

    events: int = 0  # durable in __usage
    failures: int = 0  # passes that could not write
    lost_events: int = 0  # of deleted topics, for which there was no room
    egress_lost_bytes: int = 0  # read, for which there was no counter
    kept_failures: int = 0  # reports of kept messages that have to be made again
    partitions_unmetered: int = 0  # with finished minutes without a durable event
    oldest_unmetered_s: float = 0.0  # since the end of the oldest of these minutes


class _Due(NamedTuple):
    """An event, and the minutes that it reports."""

    log: PartitionLog
    minute: Minute
    event: UsageEvent


class Metering:
    """One loop per server, over the partitions whose logs are in memory here (promise I9)."""

    def __init__(self, context: BrokerContext, interval_s: float, put: PutEvents) -> None:
        self._context, self._interval_s, self._put = context, interval_s, put
        self.figures = MeteringFigures()
        settings = context.config.metering
        interval_s = settings.storage_interval_s if settings is not None else 0.0
        self._kept = KeptReports(context, interval_s, self._put_lines)
        self._last: dict[tuple[str, int, int], UsageEvent] = {}  # of deleted topics
        self._retry_s: dict[PartitionKey, float] = {}  # loop time from which it is read again
        self._reads_left = 0
        self._closing = False
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start the loop."""
        self._task = asyncio.create_task(self._run(), name="metering")

    async def close(self) -> None:
        """Stop after a last, bounded attempt; the next owner counts the rest from the log."""
        if self._task is None:
            return
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._closing = True
        try:
            async with asyncio.timeout(LAST_EVENTS_S):
                await self.run_once()
        except (TalosError, TimeoutError) as error:
            _LOG.info("could not meter the last minutes; the next start does: %r", error)

    async def run_once(self) -> bool:
        """One pass; whether nothing is left to be counted now.

        Raises: TalosError: an event may not be durable; its minutes are reported again.
        """
        late = _Late(self._context.clock.wall_ms(), self._interval_s)
        try:
            return await self._pass(late)
        finally:
            late.report(self.figures)

    async def _pass(self, late: "_Late") -> bool:
        self._reads_left = READS_PER_PASS_MAX
        waiting: list[_Due] = []
        kept: list[tuple[PartitionLog, Topic]] = []
        caught_up = True
        for number, log in enumerate(metered_logs(self._context.log)):
            if number % CHECKS_PER_TURN == 0:
                await asyncio.sleep(0)
            topic = topic_by_uuid(self._context.topics, log.key.topic_uuid)
            if topic is None:
                continue
            caught_up &= await self._caught_up(log)
            due = _due_of(log, topic)
            waiting += due
            if not due:
                self._settle(log)
            late.look_at(log)
            if self._kept.is_due(log, topic):
                kept.append((log, topic))
            if len(waiting) >= EVENTS_PER_PUT_MAX:
                await self._report(waiting)
                waiting = []
        await self._report(waiting)
        await self._report_last()
        await self._report_egress()
        caught_up &= await self._kept.write(kept)
        self.figures.kept_failures = self._kept.failures
        return caught_up

    async def before_removal(self, dead: Topic) -> None:
        """A topic's logs are about to be removed: report their usage since the latest event."""
        try:
            async with asyncio.timeout(LAST_EVENTS_S):
                for log in self._logs_of(dead):
                    await count_all(log)
                self.keep_last(dead)
                await self._report_last()
                await self._kept.write_deleted()
        except (TalosError, TimeoutError) as error:
            _LOG.warning(
                "could not report the last usage of topic %s, will retry: %r", dead.resource, error
            )
            self.keep_last(dead)

    def topic_gone(self, gone: Topic) -> None:
        """A topic was deleted or is not known here any more, whichever server did it."""
        self.keep_last(gone)
        self._kept.topic_deleted(gone, self._logs_of(gone))

    def keep_last(self, gone: Topic) -> None:
        """Keep the events of a topic whose logs leave memory, to report them later."""
        for log in self._logs_of(gone):
            for due in _due_of(log, gone):
                if len(self._last) >= LAST_MAX:
                    self.figures.lost_events += 1
                    _LOG.error(
                        "lost the last usage of topic %s: too many unreported events", gone.resource
                    )
                    return
                self._last[due.event.key] = due.event

    # --- inside ---------------------------------------------------------------------------------

    async def _run(self) -> None:
        delay_s, failures = self._interval_s, 0
        while True:
            await asyncio.sleep(delay_s)
            try:
                caught_up = await self.run_once()
            except TalosError as error:
                delay_s = min(AGAIN_S * 2.0**failures, BACKOFF_MAX_S)
                failures = min(failures + 1, 10)
                self.figures.failures += 1
                _LOG.warning("metering failed, next attempt in %.0f s: %s", delay_s, error)
            except Exception:
                # Nothing would be billed, and nothing deleted, without this loop.
                delay_s = BACKOFF_MAX_S
                _LOG.exception("metering failed unexpectedly, next attempt in %.0f s", delay_s)
            else:
                failures = 0
                delay_s = self._interval_s if caught_up else min(AGAIN_S, self._interval_s)

    def _logs_of(self, topic: Topic) -> list[PartitionLog]:
        return [log for log in metered_logs(self._context.log) if log.key.topic_uuid == topic.uuid]

    async def _caught_up(self, log: PartitionLog) -> bool:
        """Count what no commit counted, in bounded steps; whether nothing more can be counted."""
        meter, loop = log.meter, asyncio.get_running_loop()
        if meter is None or meter.next_offset >= log.high_watermark:
            return True
        if loop.time() < self._retry_s.get(log.key, 0.0):
            return True
        try:
            async with asyncio.timeout(READ_S):
                while self._reads_left > 0:
                    self._reads_left -= 1
                    if not await count_on(log):
                        break
        except (TalosError, TimeoutError) as error:
            if len(self._retry_s) >= RETRIES_MAX:
                self._retry_s.clear()
            self._retry_s[log.key] = loop.time() + READ_RETRY_S
            _LOG.warning("could not read %s for metering: %r", log.key, error)
            return True
        self._retry_s.pop(log.key, None)
        return meter.next_offset >= log.high_watermark

    async def _report(self, waiting: list[_Due]) -> None:
        """Write events; once they are durable, the marks of their partitions may move."""
        for at in range(0, len(waiting), EVENTS_PER_PUT_MAX):
            part = waiting[at : at + EVENTS_PER_PUT_MAX]
            await self._put([due.event.encode() for due in part])
            self.figures.events += len(part)
            for log, minute, event in part:
                minute.note_reported(event.next_offset)
                self._settle(log)

    async def _report_last(self) -> None:
        while self._last:
            part = list(self._last.values())[:EVENTS_PER_PUT_MAX]
            await self._put([event.encode() for event in part])
            self.figures.events += len(part)
            for event in part:
                if self._last.get(event.key) == event:
                    del self._last[event.key]

    async def _put_lines(self, lines: list[bytes]) -> None:
        await self._put(lines)
        self.figures.events += len(lines)

    async def _report_egress(self) -> None:
        """What was read in the minutes that are over; when the server stops, in the last one, too.

        After a failed put the same events are written again, so each counts once.
        """
        egress = self._context.egress
        if egress is None:
            return
        self.figures.egress_lost_bytes = egress.lost_bytes
        unfinished = self._closing
        while part := egress.due(EVENTS_PER_PUT_MAX, unfinished=unfinished):
            await self._put([event.encode() for event in part])
            self.figures.events += len(part)
            egress.written(part)
            unfinished = False  # reads that go on would keep it here

    def _settle(self, log: PartitionLog) -> None:
        """Move the mark. Only where no block can come to light whose append time is past."""
        meter = log.meter
        if meter is None or not log.served:
            return
        quiet = log.settled() and meter.next_offset == log.high_watermark
        meter.settle(self._context.log.time.append_ms(), quiet=quiet)


class _Late:
    """How many partitions of one pass wait for longer than usual, and since when."""

    def __init__(self, now_ms: int, interval_s: float) -> None:
        self._now_ms, self._partitions, self._oldest_ms = now_ms, 0, now_ms
        self._usual_ms = int(interval_s * _USUAL_INTERVALS * 1_000)

    def look_at(self, log: PartitionLog) -> None:
        meter = log.meter
        if meter is None:
            return
        ended_ms = meter.found[0].minute_ms + meter.unit_ms if meter.found else self._now_ms
        late = ended_ms + self._usual_ms < self._now_ms
        if late:
            self._oldest_ms = min(self._oldest_ms, ended_ms)
        if late or meter.next_offset < log.high_watermark:
            self._partitions += 1

    def report(self, figures: MeteringFigures) -> None:
        figures.partitions_unmetered = self._partitions
        figures.oldest_unmetered_s = (self._now_ms - self._oldest_ms) / 1_000
        if figures.oldest_unmetered_s > LATE_S:
            _LOG.warning(
                "%d partitions wait to be metered, the oldest since %.0f s; their retention waits",
                *(figures.partitions_unmetered, figures.oldest_unmetered_s),
            )


def _due_of(log: PartitionLog, topic: Topic) -> list[_Due]:
    """Events of all minutes without a durable event."""
    meter, key = log.meter, log.key
    return [
        _Due(
            log,
            minute,
            UsageEvent(
                topic=topic.uuid,
                name=topic.name,
                tenant=topic.owner,
                partition=key.partition,
                minute_ms=minute.minute_ms,
                records=minute.records,
                bytes=minute.bytes,
                first_offset=minute.first_offset,
                next_offset=minute.next_offset,
            ),
        )
        for minute in (meter.found if meter is not None else ())
        if minute.reported_offset < minute.next_offset
    ]
