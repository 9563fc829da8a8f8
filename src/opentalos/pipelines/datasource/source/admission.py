"""How many rows of a backlog one trigger reads, and whether it waits for more."""

from collections.abc import Hashable, Mapping
from typing import TypeVar

_K = TypeVar("_K", bound=Hashable)


def fair_shares(backlog: Mapping[_K, int], limit: int, turn: int = 0) -> dict[_K, int]:
    """Rows to read from each partition, in total ``limit`` or the whole backlog.

    All partitions get equal shares; what one does not need goes to the others, so no partition
    waits for another one's backlog. Rows that are too few for one more of each go to the partitions
    from number ``turn`` on, around: if it grows by the rows that were read, every partition gets
    its turn, also with a limit below their number.
    """
    waiting = sorted(rows for rows in backlog.values() if rows)
    level, left = 0, limit
    for index, rows in enumerate(waiting):
        step = min(rows - level, left // (len(waiting) - index))
        level += step
        left -= step * (len(waiting) - index)
        if level < rows:
            break
    shares = {partition: min(rows, level) for partition, rows in backlog.items()}
    order = list(backlog)
    begin = turn % len(order) if order else 0
    for partition in order[begin:] + order[:begin]:
        if left and shares[partition] < backlog[partition]:
            shares[partition] += 1
            left -= 1
    return shares


class TriggerWait:
    """Lets triggers wait until there are ``rows_min`` rows, for at most ``delay_s``.

    The first trigger does not wait: a query that is restarted more often than ``delay_s`` would
    never read. Times are those of one monotonic clock.
    """

    def __init__(self, rows_min: int, delay_s: float) -> None:
        self._rows_min, self._delay_s = rows_min, delay_s
        self._last_s: float | None = None  # when rows were read

    def waits(self, rows: int, now_s: float) -> bool:
        """Whether a trigger with a backlog of ``rows`` reads nothing yet."""
        if self._last_s is None or now_s - self._last_s >= self._delay_s:
            return False
        return rows < self._rows_min

    def read(self, now_s: float) -> None:
        """A trigger reads now."""
        self._last_s = now_s
