"""One assigned partition: its positions and what is prefetched; no I/O."""

import asyncio
from collections import deque

from opentalos.model.errors import BadRequest, TalosError
from opentalos.sdk.core.consumer.delivery import Chunk, Delivery
from opentalos.sdk.core.consumer.settings import StartAt


class AssignedPartition:
    """A partition from its assignment until it is revoked or its lease is lost.

    Its positions are offsets: ``position`` is the next to fetch; ``handed``, ``processed`` and
    ``committed`` are the last delivered, processed and committed ones. ``committed`` <=
    ``processed`` <= ``handed`` < ``position`` holds unless the start, or a seek, precedes the
    committed offset, or the log was truncated; ``floor`` is the first offset since then.
    Prefetched chunks are delivered in order; the application holds at most one delivery.

    ``leaving`` is set by the worker when the partition is to be released, ``lost`` when its lease
    expired or a commit was rejected; both are final. Every seek and release starts a new
    ``fetch_epoch``, so that the reply to an earlier fetch is discarded.

    Args: start: the first offset to fetch; committed: the committed offset, -1 for none; earliest:
    start wherever the log starts; starts_at: what ``start`` has to be found from first.
    """

    def __init__(
        self,
        partition: int,
        start: int,
        committed: int = -1,
        *,
        earliest: bool = False,
        starts_at: StartAt | None = None,
    ) -> None:
        self.partition = partition
        self.committed = committed
        self.paused = self.fetching = False
        self.leaving = self.lost = False
        self.failures = 0  # consecutive failed fetches
        self.waiting: object | None = None  # the current pause; no fetch before it ends
        self.idle = asyncio.Event()  # the application holds no delivery of it
        self.commit_lock = asyncio.Lock()
        self.delivery: Delivery | None = None
        self.chunks: deque[Chunk] = deque()
        self.error: TalosError | None = None
        self.damage: TalosError | None = None  # what the application is to hear of once
        self.damage_due_s = 0.0  # when it is to hear of it again, on the loop's clock
        self.starts_at: StartAt | None = None
        self.seek(start, earliest=earliest)
        self.starts_at = starts_at

    def seek(self, offset: int, *, earliest: bool = False) -> None:
        """Continue at ``offset``; discard what is prefetched or being delivered."""
        self.discard_prefetched()
        self.release_delivery()
        self.position = self.floor = offset
        self.handed = self.processed = offset - 1
        self.fetch_epoch = object()  # replies to earlier fetches are discarded
        self.at_earliest = earliest
        self.starts_at = None
        self.error = self.damage = None
        self.failures, self.waiting = 0, None

    def skip_to(self, offset: int) -> None:
        """Continue fetching at ``offset``: the next records are not retained."""
        self.position, self.at_earliest = offset, False
        self.floor = min(self.floor, offset)
        if not self.chunks and self.delivery is None:
            self.floor = offset
            self.handed = self.processed = offset - 1

    def discard_prefetched(self) -> list[Chunk]:
        """Stop delivery. Returns: the prefetched chunks."""
        if self.delivery is not None:
            self.delivery.cut()
        chunks = list(self.chunks)
        self.chunks.clear()
        return chunks

    def add(self, chunk: Chunk) -> None:
        """Add a fetched chunk."""
        self.chunks.append(chunk)
        self.position = chunk.last_offset + 1
        self.at_earliest = False
        self.failures, self.damage, self.damage_due_s = 0, None, 0.0

    def deliver(self) -> Delivery:
        """Deliver the next chunk to the application."""
        chunk = self.chunks.popleft()
        if chunk.first_offset <= self.handed:  # the log was truncated
            self.handed = self.processed = chunk.first_offset - 1
        self.delivery = Delivery(chunk)
        self.idle.clear()
        return self.delivery

    def read_progress(self) -> None:
        """Update ``handed`` and ``processed`` from the current delivery."""
        if self.delivery is not None:
            handed, processed = self.delivery.handed, self.delivery.processed
            self.handed = self.handed if handed is None else max(self.handed, handed)
            self.processed = self.processed if processed is None else max(self.processed, processed)

    def finish(self, delivery: Delivery) -> None:
        """The application requests more: its current delivery counts as processed."""
        if delivery is self.delivery:
            self.read_progress()
            self.processed = self.handed
            if left := delivery.left:  # it switched between records and batches
                self.chunks.appendleft(left)
            self.release_delivery()

    def release_delivery(self) -> None:
        """Ignore the current delivery from now on."""
        self.delivery = None
        self.idle.set()

    @property
    def uncommitted(self) -> int:
        """Number of records processed since the last commit, or since a seek backwards."""
        self.read_progress()
        if self.processed < self.floor or self.processed == self.committed:
            return 0
        known = self.floor - 1 <= self.committed < self.processed
        return self.processed - (self.committed if known else self.floor - 1)

    def check_commit(self, offset: int) -> None:
        """Raises: BadRequest: not delivered since the assignment or the last seek."""
        self.read_progress()
        if not self.floor <= offset <= self.handed:
            raise BadRequest(
                f"cannot commit partition {self.partition} at {offset}: delivered records are "
                f"{self.floor} to {self.handed}"
            )
