"""Prefetches the assigned partitions, round-robin and within limits, for ``GroupWorker``.

At most one fetch per partition is in flight. At the end of the log the server holds a fetch for a
moment, so the client pauses after an empty reply only if that came at once.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Final

from opentalos.model.errors import (
    CorruptLog,
    DeadlinePassed,
    OutcomeUnknown,
    PartitionNotExist,
    TalosError,
    Unavailable,
)
from opentalos.sdk.aio.connection.client import Client
from opentalos.sdk.aio.consumer.assigned_partition import AssignedPartition
from opentalos.sdk.aio.consumer.start_positions import resolve
from opentalos.sdk.core.consumer.delivery import Chunk, Delivery
from opentalos.sdk.core.consumer.settings import ConsumerCounters, ConsumerSettings, Expired
from opentalos.sdk.core.values import DamagedRange, FetchReply, OffsetRange, TopicRef
from opentalos.sdk.errors import PositionExpired
from opentalos.wire.message import MessageFormatError

_LOG = logging.getLogger("opentalos.sdk.consumer")
EMPTY_PAUSE_S: Final = 0.2  # Source: docs/protocol/consumers.md#client-settings
FAILED_PAUSE_S: Final = 0.2  # after a fetch failed with all its retries; doubles
FAILED_PAUSE_S_MAX: Final = 5.0
DAMAGE_REPORTED_S: Final = 60.0  # between two errors for the application about one partition
_DOUBLINGS_MAX: Final = 10
_FAILING_PART: Final = 4  # failing partitions get one in this many fetch slots


class Budget:
    """The prefetch limits over all partitions, and the number of fetches in flight."""

    def __init__(self, settings: ConsumerSettings, connections_max: int) -> None:
        self._settings = settings
        # Renewals and commits must not wait for connections of long-polling fetches.
        self._fetches_max = max(1, min(settings.fetches_max, connections_max // 2))
        self.records = self.bytes_count = self.fetches = self.failing = 0

    def allows(self, held: AssignedPartition) -> bool:
        """Whether one more fetch, from this partition, stays within the limits."""
        bounds = self._settings
        if self.fetches >= self._fetches_max:
            return False
        if held.failures and self.failing >= max(1, self._fetches_max // _FAILING_PART):
            return False
        reserved = (self.fetches + 1) * bounds.fetch_bytes
        if self.bytes_count + reserved > bounds.prefetch_bytes and self.fetches + self.records:
            return False
        if self.records >= bounds.prefetch_records:
            return False
        ahead = held.chunks
        return (
            sum(chunk.bytes_count for chunk in ahead) < bounds.partition_prefetch_bytes
            and sum(chunk.records_count for chunk in ahead) < bounds.partition_prefetch_records
        )

    def add(self, chunk: Chunk) -> None:
        """Count a prefetched chunk."""
        self.records += chunk.records_count
        self.bytes_count += chunk.bytes_count

    def remove(self, chunk: Chunk) -> None:
        """A chunk was delivered or discarded."""
        self.records -= chunk.records_count
        self.bytes_count -= chunk.bytes_count


class Fetcher:
    """Fetches from the partitions it is given.

    Args: changed: called when there is a chunk or an error for the application; failed: called
    with an error that ends the consumer.
    """

    def __init__(
        self,
        client: Client,
        ref: TopicRef,
        settings: ConsumerSettings,
        counters: ConsumerCounters,
        changed: Callable[[], None],
        failed: Callable[[TalosError], None],
    ) -> None:
        self._client, self._ref, self._settings = client, ref, settings
        self._counters, self._changed, self._failed = counters, changed, failed
        self._budget = Budget(settings, client.config.connections_max)
        self._to_fetch: deque[AssignedPartition] = deque()  # all partitions; next one first
        self._to_deliver: deque[AssignedPartition] = deque()  # the same, in delivery order
        self._tasks: set[asyncio.Task[None]] = set()

    def add(self, held: AssignedPartition) -> None:
        """Start fetching a partition."""
        self._to_fetch.append(held)
        self._to_deliver.append(held)
        self.pump()

    def drop(self, held: AssignedPartition) -> None:
        """Stop fetching a partition, and discard what is prefetched."""
        self._discard(held)
        held.fetch_epoch = object()
        if held in self._to_fetch:
            self._to_fetch.remove(held)
            self._to_deliver.remove(held)
        self.pump()

    def seek(self, held: AssignedPartition, offset: int) -> None:
        """Continue at another offset."""
        self._discard(held)
        held.seek(offset)
        self.pump()

    def _discard(self, held: AssignedPartition) -> None:
        for chunk in held.discard_prefetched():
            self._budget.remove(chunk)

    def finish(self, held: AssignedPartition, delivery: Delivery) -> None:
        """The application requests more; what it left of the delivery is delivered again."""
        chunks = len(held.chunks)
        held.finish(delivery)
        if len(held.chunks) > chunks:
            self._budget.add(held.chunks[0])

    def next(self) -> AssignedPartition | None:
        """The next partition with a chunk to deliver, round-robin; None: there is none.

        Raises: PositionExpired, MessageFormatError: repeatedly; CorruptLog: once for a while, and
        only if nothing can be delivered.
        """
        for held in list(self._to_deliver):
            if held.error is not None:
                raise held.error
            if held.chunks and not held.paused:
                self._to_deliver.remove(held)
                self._to_deliver.append(held)
                self._budget.remove(held.chunks[0])
                return held
        for held in self._to_deliver:
            if held.damage is not None and not held.paused:
                damage, held.damage = held.damage, None
                raise damage
        return None

    def pump(self) -> None:
        """Start every fetch that the limits allow."""
        for held in list(self._to_fetch):
            ready = not (held.fetching or held.paused or held.waiting or held.error)
            if ready and self._budget.allows(held):
                self._to_fetch.remove(held)
                self._to_fetch.append(held)
                self._begin(held)

    def _begin(self, held: AssignedPartition) -> None:
        held.fetching = True
        failing = held.failures > 0
        self._budget.fetches += 1
        self._budget.failing += failing
        task = asyncio.create_task(self._run(held, failing), name=f"fetch {held.partition}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, held: AssignedPartition, failing: bool) -> None:
        try:
            await self._fetch(held)
        finally:
            self._budget.fetches -= 1
            self._budget.failing -= failing
            held.fetching = False
        self.pump()

    async def _fetch(self, held: AssignedPartition) -> None:
        loop = asyncio.get_running_loop()
        fetch_epoch, offset, began_s = held.fetch_epoch, held.position, loop.time()
        try:
            if held.starts_at is not None:
                await resolve(self._client, self._ref, held)
                return
            reply = await self._client.fetch(
                self._ref,
                held.partition,
                offset,
                messages_max=self._settings.fetch_records,
                bytes_max=self._settings.fetch_bytes,
                deadline_s=self._client.config.request_timeout_s,
            )
            if held.fetch_epoch is fetch_epoch:
                self._on_reply(held, offset, reply, loop.time() - began_s)
        except TalosError as error:
            if held.fetch_epoch is fetch_epoch:
                self._on_error(held, error)

    def _on_reply(
        self, held: AssignedPartition, offset: int, reply: FetchReply, took_s: float
    ) -> None:
        self._counters.fetches += 1
        try:
            chunk = Chunk(self._ref.name, held.partition, offset, reply.blocks)
        except MessageFormatError as error:
            held.error = error
            self._changed()
            return
        if not chunk.records_count:
            held.failures = 0
            self._wait(held, max(0.0, EMPTY_PAUSE_S - took_s))
            return
        first = reply.blocks[0].base_offset
        if first > offset:  # the records in between are not retained
            retained = OffsetRange(first, chunk.last_offset + 1)
            raise PositionExpired(self._ref.name, held.partition, offset, retained)
        held.add(chunk)
        self._budget.add(chunk)
        self._changed()

    def _on_error(self, held: AssignedPartition, error: TalosError) -> None:
        passing = Unavailable | OutcomeUnknown | DeadlinePassed | PartitionNotExist
        if isinstance(error, PositionExpired):
            self._expired(held, error)
        elif isinstance(error, CorruptLog):
            self._damaged(held, error)
        elif isinstance(error, passing):
            self._counters.fetches_failed += 1
            pause_s = FAILED_PAUSE_S * float(1 << min(held.failures, _DOUBLINGS_MAX))
            held.failures += 1
            _LOG.info(
                "fetch failed: topic=%s partition=%d error=%s",
                self._ref.name,
                held.partition,
                error,
            )
            self._wait(held, min(pause_s, FAILED_PAUSE_S_MAX))
        else:
            self._failed(error)

    def _damaged(self, held: AssignedPartition, error: TalosError) -> None:
        """Keep the position and try again: only a repair helps, and the others continue."""
        self._counters.fetches_failed += 1
        held.failures += 1
        now_s = asyncio.get_running_loop().time()
        if now_s >= held.damage_due_s:
            held.damage, held.damage_due_s = error, now_s + DAMAGE_REPORTED_S
            _LOG.warning(
                "partition damaged, its position is kept: topic=%s partition=%d error=%s",
                self._ref.name,
                held.partition,
                error,
            )
            self._changed()
        self._wait(held, FAILED_PAUSE_S_MAX)

    def _expired(self, held: AssignedPartition, error: PositionExpired) -> None:
        policy = Expired.EARLIEST if held.at_earliest else self._settings.expired
        if policy is Expired.FAIL:
            self._counters.positions_expired += 1
            held.error = error
            self._changed()
            return
        if error.retained is None:
            self._wait(held, FAILED_PAUSE_S)
            return
        to_start = policy is Expired.EARLIEST
        if isinstance(error.retained, DamagedRange) and (
            error.retained.first is None or not to_start
        ):
            self._damaged(held, error.retained.damage)  # no policy may choose what nobody knows
            return
        offset = error.retained.start if to_start else error.retained.next
        if not held.at_earliest:
            self._counters.positions_expired += 1
            _LOG.warning("%s; continuing at %d by policy %s", error, offset, policy.value)
        held.skip_to(offset)

    def _wait(self, held: AssignedPartition, pause_s: float) -> None:
        if pause_s:
            held.waiting = wait = object()
            asyncio.get_running_loop().call_later(pause_s, self._waited, held, wait)

    def _waited(self, held: AssignedPartition, wait: object) -> None:
        if held.waiting is wait:
            held.waiting = None
            self.pump()

    async def close(self) -> None:
        """Cancel the fetches in flight."""
        for held in list(self._to_fetch):
            self.drop(held)
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
