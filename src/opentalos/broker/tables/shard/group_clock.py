"""Timestamps of a shard's changes, and the marks that they stay above. Sans-io."""

from collections.abc import Callable, Iterable


class GroupClock:
    """Every change is later than every mark that was issued, also if the wall clock goes back.

    A mark at T promises that all changes up to T are in the topic. So T stays below the group that
    is being written and below the oldest entry that is not published, and later groups stay above.

    Args: time_ms: Unix time; sane, since a time in the future would stay in the rows and marks.
    """

    def __init__(self, time_ms: Callable[[], int]) -> None:
        self._time_ms = time_ms
        self._floor_ms = 0  # all changes to come are later
        self._group_ms: int | None = None  # earliest time of the group that is being written

    def now_ms(self) -> int:
        """Time of changes that are decided now; from the first call on a group is under way."""
        now_ms = max(self._time_ms(), self._floor_ms + 1)
        if self._group_ms is None:
            self._group_ms = now_ms
        return now_ms

    def group_ended(self) -> None:
        """The group was written or failed."""
        self._group_ms = None

    def stay_above(self, mark_ms: int) -> None:
        """A former owner issued this mark."""
        self._floor_ms = max(self._floor_ms, mark_ms)

    def mark_ms(self, unpublished_ms: Iterable[int]) -> int:
        """The latest possible mark; changes to come are later from now on."""
        times = [entry_ms - 1 for entry_ms in unpublished_ms]
        if self._group_ms is not None:
            times.append(self._group_ms - 1)
        mark_ms = max(0, min([self._time_ms(), *times]))
        self.stay_above(mark_ms)
        return mark_ms
