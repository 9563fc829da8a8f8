"""EgressCounters: what tenants read at this server, until it is durable in __usage.

Reads are in no log, so this is measured and no function of the log: a killed server loses what it
had not written, at most the minutes that were open, and never bills anything twice.
"""

from itertools import islice
from typing import Final

from opentalos.catalog.topics.topic import Topic
from opentalos.model.identity import Principal
from opentalos.model.names import SYSTEM_TENANT
from opentalos.ports.clock import Clock
from opentalos.wire.metrics.egress import EgressEvent

# Counters and events in memory together, a few hundred bytes each. Each topic, reading tenant and
# minute has one; what has none is not billed.
COUNTERS_MAX: Final = 50_000
_NOBODY: Final = "anonymous"

_Key = tuple[str, str, int]  # topic uuid, reader, first millisecond of the minute


class _Counter:
    __slots__ = ("bytes", "messages", "topic")

    def __init__(self, topic: Topic) -> None:
        self.topic = topic
        self.messages = self.bytes = 0


class EgressCounters:
    """Counts by topic, reading tenant and minute; a minute that is over becomes events.

    Args: source: names this process and no other; minute_ms: length of a minute.
    """

    def __init__(self, clock: Clock, source: str, minute_ms: int) -> None:
        self._clock, self._source, self._minute_ms = clock, source, minute_ms
        self._counters: dict[_Key, _Counter] = {}
        self._due: dict[int, EgressEvent] = {}  # by number: not known to be durable
        self._next_number = 0
        self.lost_bytes = 0  # of counters for which there was no room

    def add(self, topic: Topic, caller: Principal, messages: int, bytes_count: int) -> None:
        """Messages were returned to a caller; hot path. The service's own topics do not count."""
        if not bytes_count or topic.owner == SYSTEM_TENANT:
            return
        reader, minute_ms = caller.owner_id or _NOBODY, self._minute()
        key = (topic.uuid, reader, minute_ms)
        counter = self._counters.get(key)
        if counter is None:
            if len(self._counters) + len(self._due) >= COUNTERS_MAX:
                self.lost_bytes += bytes_count
                return
            counter = self._counters[key] = _Counter(topic)
        counter.messages += messages
        counter.bytes += bytes_count

    def due(self, most: int, *, unfinished: bool = False) -> list[EgressEvent]:
        """Events that are not durable, oldest first; they stay due until ``written``.

        Args: unfinished: also of the current minute, which may get further events.
        """
        self._finish(most, unfinished=unfinished)
        return [event for _, event in zip(range(most), self._due.values(), strict=False)]

    def written(self, events: list[EgressEvent]) -> None:
        """These events are durable."""
        for event in events:
            self._due.pop(event.number, None)

    def _finish(self, most: int, *, unfinished: bool) -> None:
        """Counters become events, which never change. A counter ahead of a clock that was put back
        does, too: its minute may have several events. So many at once as are written at once: all
        counters of a full table would hold up the loop."""
        now_ms = self._minute()
        over = (key for key in self._counters if unfinished or key[2] != now_ms)
        for key in list(over if unfinished else islice(over, most)):
            counter, topic = self._counters[key], self._counters[key].topic
            self._due[self._next_number] = EgressEvent(
                topic=topic.uuid,
                name=topic.name,
                tenant=topic.owner,
                reader=key[1],
                minute_ms=key[2],
                source=self._source,
                number=self._next_number,
                messages=counter.messages,
                bytes=counter.bytes,
            )
            self._next_number += 1
            del self._counters[key]

    def _minute(self) -> int:
        now_ms = self._clock.wall_ms()
        return now_ms - now_ms % self._minute_ms
