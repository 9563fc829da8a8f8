"""Bounded series by topic: the busiest topics have their own, all others share one."""

from collections.abc import Iterable, Mapping
from typing import Protocol

OTHER = "other"
_FIELDS = ("messages_in", "bytes_in", "messages_out", "bytes_out")


class Traffic(Protocol):
    """Counters of one topic: ``log/counters.py``."""

    messages_in: int
    bytes_in: int
    messages_out: int
    bytes_out: int


class TopicSeries:
    """Counters that never decrease, although topics are created, deleted and leave "other".

    A topic keeps its series until it is deleted. Its counts from before belong to "other".
    """

    def __init__(self, topics_max: int) -> None:
        self._topics_max = topics_max
        self._seen: dict[str, tuple[int, ...]] = {}  # by uuid
        self._own: dict[str, tuple[int, ...]] = {}  # by uuid; at most topics_max
        self._other: tuple[int, ...] = (0,) * len(_FIELDS)

    def update(self, traffic: Mapping[str, Traffic]) -> None:
        """Add the growth of the counters since the last update."""
        grown: dict[str, tuple[int, ...]] = {}
        for uuid, counters in traffic.items():
            now = tuple(getattr(counters, name) for name in _FIELDS)
            before = self._seen.get(uuid, (0,) * len(_FIELDS))
            if now != before:
                # Counters that fell belong to a topic that was dropped from memory and reopened.
                grown[uuid] = tuple(map(_growth, now, before))
                self._seen[uuid] = now
        for uuid in self._seen.keys() - traffic.keys():
            del self._seen[uuid]
            self._own.pop(uuid, None)
        busiest_first = sorted(grown, key=lambda uuid: -grown[uuid][1] - grown[uuid][3])
        for uuid in busiest_first:
            if uuid in self._own:
                self._own[uuid] = _sum(self._own[uuid], grown[uuid])
            elif len(self._own) < self._topics_max:
                self._own[uuid] = grown[uuid]
            else:
                self._other = _sum(self._other, grown[uuid])

    def rows(self, names: Mapping[str, str]) -> Iterable[tuple[str, Mapping[str, int]]]:
        """Label and counters of each series."""
        for uuid, counts in self._own.items():
            if uuid in names:
                yield names[uuid], dict(zip(_FIELDS, counts, strict=True))
        yield OTHER, dict(zip(_FIELDS, self._other, strict=True))


def _growth(now: int, before: int) -> int:
    return now - before if now >= before else now


def _sum(left: tuple[int, ...], right: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(a + b for a, b in zip(left, right, strict=True))
