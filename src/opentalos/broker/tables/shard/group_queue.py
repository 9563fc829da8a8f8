"""Mutations that wait while a group of their shard is being written. Sans-io."""

from collections import deque

from opentalos.broker.tables.rows.row_work import Waiting, settle
from opentalos.model.errors import ExcessivePending, TalosError
from opentalos.model.settings.tables import SdsLimits


class GroupQueue:
    """First in, first out, within ``waiting_max``; each group takes what queued up, bounded."""

    def __init__(self, limits: SdsLimits) -> None:
        self._limits = limits
        self._queue: deque[Waiting] = deque()

    def __len__(self) -> int:
        return len(self._queue)

    @property
    def full(self) -> bool:
        """``put`` would raise."""
        return len(self._queue) >= self._limits.waiting_max

    def put(self, waiting: Waiting) -> None:
        """Queue a mutation. Raises: ExcessivePending: not done."""
        if len(self._queue) >= self._limits.waiting_max:
            raise ExcessivePending(f"{len(self._queue)} mutations of this shard wait")
        self._queue.append(waiting)

    def take(self) -> list[Waiting]:
        """The next group: at least one mutation if any waits, else within the group's limits."""
        group: list[Waiting] = []
        size, queue, limits = 0, self._queue, self._limits
        while queue and len(group) < limits.group_rows_max:
            size += queue[0].bytes
            if group and size > limits.group_bytes_max:
                break
            group.append(queue.popleft())
        return group

    def refuse(self, error: TalosError) -> int:
        """Answer every waiting mutation with this error; return how many."""
        count = len(self._queue)
        while self._queue:
            settle(self._queue.popleft(), error)
        return count
