"""Reads a topic as a member of a consumer group, for asyncio."""

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from contextlib import aclosing
from functools import partial
from typing import Any, Literal, Self, overload

from opentalos.model.names import check_group_name
from opentalos.sdk.aio.connection.client import Client, attach
from opentalos.sdk.aio.consumer.group_worker import GroupWorker
from opentalos.sdk.core.config import ClientConfig
from opentalos.sdk.core.consumer.continuing import AsyncContinuing
from opentalos.sdk.core.consumer.delivery import Delivery
from opentalos.sdk.core.consumer.settings import Callbacks, ConsumerCounters, ConsumerSettings
from opentalos.sdk.core.values import Position, Record
from opentalos.sdk.errors import ClientClosed

Processed = Callable[[list[Record]], Awaitable[None]]


class TalosConsumer:
    """A member of a consumer group: ``async for record in consumer``.

    It joins the group with ``start``, ``async with`` or the first record requested. The group
    rebalances partitions as workers join and leave. Delivery is at least once: records may be
    redelivered; make processing idempotent.

    A record or batch counts as processed when the next one is requested. Auto-commit commits
    processed records only, so leaving a loop at a record redelivers that record, unless ``commit``
    is called.

    A damaged partition raises CorruptLog once a minute. It keeps its position, and its fetch is
    repeated; whoever requests the next record gets those of the other partitions.

    Leases are renewed in the event loop. Code that blocks the loop for longer than a lease loses
    its partitions: ``on_lost`` is called, and it cannot commit over the new owner.

    Do not use it in a forked child, and do not iterate in two tasks at once.

    Args: client: shared with other objects, or the configuration of a client of its own; topic:
    ``name`` or ``organisation/name``.
    """

    def __init__(
        self,
        client: Client | ClientConfig,
        topic: str,
        group: str,
        settings: ConsumerSettings | None = None,
        callbacks: Callbacks | None = None,
    ) -> None:
        self._settings = settings or ConsumerSettings()
        self._callbacks = callbacks or Callbacks()
        self._topic, self._group = topic, check_group_name(group)
        self._client, self._owned = attach(client)
        self._pid = os.getpid()
        self._worker: GroupWorker | None = None
        self._starting = asyncio.Lock()
        self._rest: Iterator[Record] = iter(())
        self._delivery: Delivery | None = None
        self._ending = self._closed = False

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Record:
        for record in self._rest:
            return record
        while (delivery := await self._next_delivery(self._delivery)) is not None:
            self._delivery, self._rest = delivery, delivery.open()
            for record in self._rest:
                return record
        raise StopAsyncIteration

    # --- life ----------------------------------------------------------------------------------

    async def start(self) -> None:
        """Join the group and get the first partitions; no effect if already started.

        Raises: TopicNotExist, PermissionDenied, TooManyConsumers; ClientClosed.
        """
        async with self._starting:
            self._check()
            if self._worker is not None:
                return
            ref = await self._client.topic(self._topic, refresh=True)
            worker = GroupWorker(
                self._client, self._topic, ref, self._group, self._settings, self._callbacks
            )
            try:
                await worker.start()
            except BaseException:
                await worker.close()
                raise
            self._worker = worker

    async def close(self) -> None:
        """Stop delivery, call ``on_revoked``, commit processed records, leave the group.

        Iterations end. A commit that fails here is logged, and its records are redelivered.

        Raises: the error of ``on_revoked``, after everything else is done.
        """
        if self._ending or self._pid != os.getpid():
            return
        self._ending = True
        self._rest = iter(())
        try:
            if self._worker is not None:
                await self._worker.close()
        finally:
            self._closed = True
            if self._owned:
                await self._client.close()

    # --- records ---------------------------------------------------------------------------------

    @overload
    def batches(self) -> AsyncGenerator[list[Record], None]: ...
    @overload
    def batches(self, *, arrow: Literal[True]) -> AsyncGenerator[Any, None]: ...

    def batches(self, *, arrow: bool = False) -> AsyncGenerator[Any, None]:
        """Batches of one partition each, with at least one record, until ``close``.

        An error does not end it: the next request continues with the partitions that are whole.

        Args: arrow: as a ``pyarrow.Table`` of ``opentalos.sdk.arrow.SCHEMA`` instead of a list.
        """
        return AsyncContinuing(partial(self._batches, arrow))

    async def _batches(self, arrow: bool) -> AsyncGenerator[Any, None]:
        while (delivery := await self._next_delivery(self._delivery)) is not None:
            self._rest = iter(())
            self._delivery = delivery
            yield delivery.table() if arrow else delivery.records()

    async def poll(self, timeout_s: float) -> list[Record]:
        """Poll for the next batch; empty if none arrives in time or the consumer is closed."""
        delivery = await self._next_delivery(self._delivery, timeout_s)
        if delivery is None:
            return []
        self._rest, self._delivery = iter(()), delivery
        return delivery.records()

    async def run(self, callback: Processed) -> None:
        """Await ``callback`` with batch after batch until ``close``.

        If it raises, its batch does not count as processed: the consumer commits the earlier
        ones, closes and re-raises.
        """
        try:
            async with aclosing(self.batches()) as batches:
                async for records in batches:
                    await callback(records)
        finally:
            await self.close()

    async def _next_delivery(
        self, done: Delivery | None, timeout_s: float | None = None
    ) -> Delivery | None:
        """See ``GroupWorker.next_delivery``; None also if nothing arrives in time. The
        synchronous class calls it too."""
        if self._ending:
            return None
        if self._worker is None:
            await self.start()
        try:
            async with asyncio.timeout(timeout_s):
                return await self._at_work().next_delivery(done)
        except TimeoutError:
            return None

    # --- positions -----------------------------------------------------------------------------

    async def commit(self, offsets: Mapping[int, int] | None = None) -> None:
        """Commit all records delivered so far, the current one included, or the given offsets.

        Args:    offsets: of the last processed record by partition, among those delivered since
                 the partition was assigned or sought.
        Raises:  LeaseNotHeld: not committed, the partition is not assigned (any more);
                 BadRequest: not delivered yet; Unavailable; OutcomeUnknown. Commits of other
                 partitions succeed regardless.
        """
        await self._at_work().commit(offsets)

    def position(self, partition: int) -> int:
        """The offset after that of the last record delivered. Raises: LeaseNotHeld."""
        held = self._at_work().of(partition)
        held.read_progress()
        return held.handed + 1

    async def seek(self, partition: int, position: Position) -> None:
        """Continue at another position; records delivered before are not auto-committed.

        Raises: LeaseNotHeld: the partition is not assigned to this consumer.
        """
        await self._at_work().seek(partition, position)

    def pause(self, *partitions: int) -> None:
        """Stop delivery from these partitions until ``resume``, and keep them assigned. The
        current batch is not interrupted. Raises: LeaseNotHeld."""
        self._at_work().pause(partitions, True)

    def resume(self, *partitions: int) -> None:
        """Resume delivery from paused partitions. Raises: LeaseNotHeld."""
        self._at_work().pause(partitions, False)

    @property
    def assignment(self) -> tuple[int, ...]:
        """The partitions assigned now, including those about to be released."""
        return () if self._worker is None else tuple(sorted(self._worker.assigned))

    @property
    def worker_id(self) -> str:
        """The id of this worker in the group; empty before ``start``."""
        return "" if self._worker is None else self._worker.member.worker

    @property
    def counters(self) -> ConsumerCounters:
        """Counters since the start."""
        return ConsumerCounters() if self._worker is None else self._worker.counters

    def _at_work(self) -> GroupWorker:
        self._check()
        if self._worker is None:
            raise ClientClosed("the consumer is not started; call start() first")
        return self._worker

    def _check(self) -> None:
        if self._pid != os.getpid():
            raise ClientClosed("a consumer cannot be used in a forked child; make a new one there")
        if self._closed:
            raise ClientClosed("the consumer is closed")
