"""One partition's log, as the broker uses it."""

from opentalos.log.results import AppendWaiter, PartitionStats, ReadResult
from opentalos.model.message import MessageBlock, OffsetRange, PartitionKey


class PartitionLog:
    """Appends, reads and offset queries of one partition; opened lazily."""

    __slots__ = ("key",)

    def __init__(self, key: PartitionKey) -> None:
        self.key = key

    def append(self, block: MessageBlock, waiter: AppendWaiter) -> None:
        """Queue a block; Unavailable, RequestError: not done, the waiter is not called."""
        raise NotImplementedError

    async def read(
        self, offset: int, *, messages_max: int, bytes_max: int, hold_s: float = 0.0
    ) -> ReadResult:
        """Durable blocks from ``offset`` (-1 start, -2 end)."""
        raise NotImplementedError

    def read_cached(self, offset: int, *, messages_max: int, bytes_max: int) -> ReadResult | None:
        """Blocks from memory, or None: use ``read``."""
        raise NotImplementedError

    async def offsets(self) -> OffsetRange:
        """Retained range, confirmed against the manifest."""
        raise NotImplementedError

    async def offset_at(self, time_ms: int) -> int:
        """First offset appended at or after the time, or the next offset."""
        raise NotImplementedError

    async def stats(self) -> PartitionStats:
        """Retained and total amounts."""
        raise NotImplementedError

    async def fence_producer(self, producer_id: int, epoch: int) -> None:
        """Refuse older epochs of the producer from now on, durably."""
        raise NotImplementedError

    def set_metered(self, offset: int) -> None:
        """Metering is on and has seen everything below ``offset``; retention waits for it."""
        raise NotImplementedError
