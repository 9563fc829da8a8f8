"""One partition while a worker holds it: what is read ahead of it, and how far it is; no I/O."""

import asyncio
from collections import deque

from opentalos.model.errors import BadRequest, TalosError
from opentalos.sdk.core.consumer.delivery import Chunk, Delivery


class AssignedPartition:
    """Positions are offsets: fetched before ``position``, handed out up to ``handed``, processed
    up to ``processed``, committed up to ``committed`` (all inclusive but the first).

    Args: start: first offset wanted; committed: what the group's checkpoint is, -1 for none;
    earliest: the start is wherever the log starts.
    """

    def __init__(
        self, partition: int, start: int, committed: int = -1, *, earliest: bool = False
    ) -> None:
        self.partition = partition
        self.committed = committed
        self.paused = self.fetching = False
        self.leaving = self.lost = False
        self.failures = 0  # fetches in a row
        self.waiting: object | None = None  # for a moment that has not come; no fetch before
        self.idle = asyncio.Event()  # nothing of it is in the application's hands
        self.commit_lock = asyncio.Lock()
        self.delivery: Delivery | None = None
        self.chunks: deque[Chunk] = deque()
        self.error: TalosError | None = None
        self.seek(start, earliest=earliest)

    def seek(self, offset: int, *, earliest: bool = False) -> None:
        """Go on at ``offset``; what was fetched or is being handed out is given up."""
        self.discard_prefetched()
        self.release_delivery()
        self.position = self.floor = offset
        self.handed = self.processed = offset - 1
        self.fetch_epoch = object()  # a fetch begun before belongs to another stay
        self.at_earliest = earliest
        self.error = None
        self.failures, self.waiting = 0, None

    def skip_to(self, offset: int) -> None:
        """Fetch on at ``offset``, since what was next is not retained."""
        self.position, self.at_earliest = offset, False
        self.floor = min(self.floor, offset)
        if not self.chunks and self.delivery is None:
            self.floor = offset
            self.handed = self.processed = offset - 1

    def discard_prefetched(self) -> list[Chunk]:
        """Hand out nothing more; what was read ahead."""
        if self.delivery is not None:
            self.delivery.cut()
        chunks = list(self.chunks)
        self.chunks.clear()
        return chunks

    def add(self, chunk: Chunk) -> None:
        """A fetch was answered."""
        self.chunks.append(chunk)
        self.position = chunk.last_offset + 1
        self.at_earliest = False
        self.failures = 0

    def deliver(self) -> Delivery:
        """The next chunk goes to the application."""
        chunk = self.chunks.popleft()
        if chunk.first_offset <= self.handed:  # the log was shorter than it had been
            self.handed = self.processed = chunk.first_offset - 1
        self.delivery = Delivery(chunk)
        self.idle.clear()
        return self.delivery

    def read_progress(self) -> None:
        """See how far the application is."""
        if self.delivery is not None:
            handed, processed = self.delivery.handed, self.delivery.processed
            self.handed = self.handed if handed is None else max(self.handed, handed)
            self.processed = self.processed if processed is None else max(self.processed, processed)

    def finish(self, delivery: Delivery) -> None:
        """The application asked for more, so it is through with what it was given."""
        if delivery is self.delivery:
            self.read_progress()
            self.processed = self.handed
            if left := delivery.left:  # it changed the way it iterates
                self.chunks.appendleft(left)
            self.release_delivery()

    def release_delivery(self) -> None:
        """Whatever the application does with what it has, it counts no more."""
        self.delivery = None
        self.idle.set()

    @property
    def uncommitted(self) -> int:
        """Records processed since the last commit; after a step back those from there on."""
        self.read_progress()
        if self.processed < self.floor or self.processed == self.committed:
            return 0
        known = self.floor - 1 <= self.committed < self.processed
        return self.processed - (self.committed if known else self.floor - 1)

    def check_commit(self, offset: int) -> None:
        """Raises: BadRequest: not handed out since the start, or the last seek."""
        self.read_progress()
        if not self.floor <= offset <= self.handed:
            raise BadRequest(
                f"commit {offset} of partition {self.partition}: records handed out end at "
                f"{self.handed} and began at {self.floor}"
            )
