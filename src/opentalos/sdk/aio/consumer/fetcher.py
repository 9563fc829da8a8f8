"""Reads ahead of the application: which partition is fetched when, within bounds.

One fetch per partition, some at once, each partition in its turn. A server holds a fetch at the
log's end for a moment, so there is no pause after an empty answer unless it came at once.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Final

from opentalos.model.errors import (
    DeadlinePassed,
    OutcomeUnknown,
    PartitionNotExist,
    TalosError,
    Unavailable,
)
from opentalos.sdk.aio.connection.client import Client
from opentalos.sdk.aio.consumer.assigned_partition import AssignedPartition
from opentalos.sdk.core.consumer.delivery import Chunk, Delivery
from opentalos.sdk.core.consumer.settings import ConsumerCounters, ConsumerSettings, Expired
from opentalos.sdk.core.values import FetchReply, OffsetRange, TopicRef
from opentalos.sdk.errors import PositionExpired
from opentalos.wire.message import MessageFormatError

_LOG = logging.getLogger("opentalos.sdk.consumer")
EMPTY_PAUSE_S: Final = 0.2  # Source: docs/protocol/consumers.md#client-settings
FAILED_PAUSE_S: Final = 0.2  # after a fetch that its own retries did not save; doubles
FAILED_PAUSE_S_MAX: Final = 5.0
_DOUBLINGS_MAX: Final = 10
_FAILING_PART: Final = 4  # partitions that failed last time get one place in so many


class Budget:
    """What is read ahead of all partitions together, and how many fetches are under way."""

    def __init__(self, settings: ConsumerSettings, connections_max: int) -> None:
        self._settings = settings
        # Renewals and commits must not wait for fetches that a server holds.
        self._fetches_max = max(1, min(settings.fetches_max, connections_max // 2))
        self.records = self.bytes_count = self.fetches = self.failing = 0

    def allows(self, held: AssignedPartition) -> bool:
        """Whether one more fetch, of this partition, stays within the bounds."""
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
        """It waits for the application."""
        self.records += chunk.records_count
        self.bytes_count += chunk.bytes_count

    def remove(self, chunk: Chunk) -> None:
        """It was handed out or given up."""
        self.records -= chunk.records_count
        self.bytes_count -= chunk.bytes_count


class Fetcher:
    """Fetches for the partitions it is given.

    Args: changed: called when there is something for the application; failed: called with an error
    that ends the whole consumer.
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
        self._to_fetch: deque[AssignedPartition] = (
            deque()
        )  # all partitions; whose turn it is comes first
        self._to_deliver: deque[AssignedPartition] = deque()  # the same ones
        self._tasks: set[asyncio.Task[None]] = set()

    def add(self, held: AssignedPartition) -> None:
        """Begin to fetch a partition."""
        self._to_fetch.append(held)
        self._to_deliver.append(held)
        self.pump()

    def drop(self, held: AssignedPartition) -> None:
        """Fetch no more of it, and give up what is here."""
        self._discard(held)
        held.fetch_epoch = object()
        if held in self._to_fetch:
            self._to_fetch.remove(held)
            self._to_deliver.remove(held)
        self.pump()

    def seek(self, held: AssignedPartition, offset: int) -> None:
        """Go on elsewhere."""
        self._discard(held)
        held.seek(offset)
        self.pump()

    def _discard(self, held: AssignedPartition) -> None:
        for chunk in held.discard_prefetched():
            self._budget.remove(chunk)

    def finish(self, held: AssignedPartition, delivery: Delivery) -> None:
        """The application asked for more; what it left of the delivery is handed out again."""
        chunks = len(held.chunks)
        held.finish(delivery)
        if len(held.chunks) > chunks:
            self._budget.add(held.chunks[0])

    def next(self) -> AssignedPartition | None:
        """The partition whose turn it is to be handed out, if any has something."""
        for held in list(self._to_deliver):
            if held.error is not None:
                raise held.error
            if held.chunks and not held.paused:
                self._to_deliver.remove(held)
                self._to_deliver.append(held)
                self._budget.remove(held.chunks[0])
                return held
        return None

    def pump(self) -> None:
        """Begin every fetch that may begin now."""
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
        if first > offset:  # the records between are gone
            retained = OffsetRange(first, chunk.last_offset + 1)
            raise PositionExpired(self._ref.name, held.partition, offset, retained)
        held.add(chunk)
        self._budget.add(chunk)
        self._changed()

    def _on_error(self, held: AssignedPartition, error: TalosError) -> None:
        passing = Unavailable | OutcomeUnknown | DeadlinePassed | PartitionNotExist
        if isinstance(error, PositionExpired):
            self._expired(held, error)
        elif isinstance(error, passing):
            self._counters.fetches_failed += 1
            pause_s = FAILED_PAUSE_S * float(1 << min(held.failures, _DOUBLINGS_MAX))
            held.failures += 1
            _LOG.info("fetch of %s[%d] failed: %s", self._ref.name, held.partition, error)
            self._wait(held, min(pause_s, FAILED_PAUSE_S_MAX))
        else:
            self._failed(error)

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
        offset = error.retained.start if to_start else error.retained.next
        if not held.at_earliest:
            self._counters.positions_expired += 1
            _LOG.warning("%s: goes on at %d, policy %s", error, offset, policy.value)
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
        """End the fetches under way."""
        for held in list(self._to_fetch):
            self.drop(held)
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
