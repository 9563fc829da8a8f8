"""Bounded series of consumer lag: the groups that are furthest behind, all others together."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

OTHER = "other"
_KEPT_FACTOR = 2  # a group keeps its series while it is among so many times as many


class GroupOfTopic(NamedTuple):
    """Labels of a series."""

    topic: str  # OWNER/NAME
    group: str  # TENANT/NAME


class LagSeries:
    """Chooses at most ``groups_max`` groups on topics by their lag.

    The largest half always has series of its own. The other places stay with the groups that had
    them while they are among the first ``_KEPT_FACTOR`` times as many: otherwise groups of about
    the same lag would take turns, and each turn makes a new series in Prometheus.
    """

    def __init__(self, groups_max: int) -> None:
        self._groups_max = groups_max
        self._own: frozenset[GroupOfTopic] = frozenset()

    def rows(self, lags: Mapping[GroupOfTopic, int]) -> Iterable[tuple[GroupOfTopic, int]]:
        """The groups' series, largest first, and that of the others; lags in messages."""
        ordered = sorted(lags, key=lambda place: (-lags[place], place))
        largest = ordered[: (self._groups_max + 1) // 2]
        near = self._own & set(ordered[: _KEPT_FACTOR * self._groups_max])
        rest = sorted(ordered[len(largest) :], key=lambda place: place not in near)
        chosen = [*largest, *rest][: self._groups_max]
        self._own = frozenset(chosen)
        left = sum(lag for place, lag in lags.items() if place not in self._own)
        return [*((place, lags[place]) for place in chosen), (GroupOfTopic(OTHER, OTHER), left)]
