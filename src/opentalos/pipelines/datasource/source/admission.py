"""How many rows of a backlog one trigger reads, and whether it waits for more."""

import zlib
from collections.abc import Hashable, Mapping
from typing import Final, TypeVar

_K = TypeVar("_K", bound=Hashable)
_TURN_BYTES: Final = 16  # more than any sum of offsets needs


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


def rows_within(
    backlog: Mapping[_K, int], sizes: Mapping[_K, int], bytes_max: int, turn: int
) -> dict[_K, int]:
    """Rows to read from each partition, of all together at most ``bytes_max``.

    All partitions get equal shares of the bytes, as in ``fair_shares``. Of those whose share is
    smaller than a row, the first one gets its row anyway, the others if there is room: the limit is
    exceeded by at most one row, and no partition waits forever. ``turn`` decides who is first. It
    is scattered, since it may grow by the same number in each trigger.

    Args: sizes: mean bytes of a row, above 0.
    """
    shares = fair_shares({key: rows * sizes[key] for key, rows in backlog.items()}, bytes_max, turn)
    found = {key: share // sizes[key] for key, share in shares.items()}
    left = bytes_max - sum(rows * sizes[key] for key, rows in found.items())
    without = [key for key, rows in backlog.items() if rows and not found[key]]
    begin = zlib.crc32(turn.to_bytes(_TURN_BYTES, "big")) % len(without) if without else 0
    for number, key in enumerate(without[begin:] + without[:begin]):
        if number == 0 or sizes[key] <= left:
            found[key] = 1
            left -= sizes[key]
    return found


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
