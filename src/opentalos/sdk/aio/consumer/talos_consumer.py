"""Reads a topic as one of a group of workers, which share its partitions and their checkpoints."""

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from contextlib import aclosing
from typing import Any, Literal, Self, overload

from opentalos.model.names import check_name
from opentalos.sdk.aio.connection.client import Client, attach
from opentalos.sdk.aio.consumer.group_worker import GroupWorker
from opentalos.sdk.core.config import ClientConfig
from opentalos.sdk.core.consumer.delivery import Delivery
from opentalos.sdk.core.consumer.settings import Callbacks, ConsumerCounters, ConsumerSettings
from opentalos.sdk.core.values import Position, Record
from opentalos.sdk.errors import ClientClosed

Processed = Callable[[list[Record]], Awaitable[None]]


class TalosConsumer:
    """One worker of a consumer group: ``async for record in consumer``.

    It starts with the first record that is asked for, or ``start``, or ``async with``. Partitions
    come and go as workers do; each record is delivered at least once. A record counts as processed
    when the next one is asked for, a batch likewise; only what is processed is committed by
    itself. So the record during which a loop is left is delivered again, to the next holder, unless
    ``commit`` is called.

    Leases are renewed in the event loop: code that blocks it for longer than a lease loses its
    partitions, is told so by ``on_lost``, and cannot commit over the next holder.

    Not for use in a forked child, nor by two tasks that iterate at once.

    Args: client: shared with other objects, or a configuration for a client of its own; topic:
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
        self._topic, self._group = topic, check_name(group, "consumer group")
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
        """Register and take the first partitions; does nothing if that is done.

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
        """Hand out nothing more, tell ``on_revoked``, commit what is processed, give up all
        partitions. Iterations end. A commit that fails now is logged, and its records are
        delivered again.

        Raises: what ``on_revoked`` raises, when all else is done.
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

    async def batches(self, *, arrow: bool = False) -> AsyncGenerator[Any, None]:
        """What was fetched of one partition, at least one record, as a list or a
        ``pyarrow.Table`` (``opentalos.sdk.arrow.SCHEMA``); without end until ``close``."""
        while (delivery := await self._next_delivery(self._delivery)) is not None:
            self._rest = iter(())
            self._delivery = delivery
            yield delivery.table() if arrow else delivery.records()

    async def poll(self, timeout_s: float) -> list[Record]:
        """The next batch; empty if none arrives in time, or the consumer is closed."""
        delivery = await self._next_delivery(self._delivery, timeout_s)
        if delivery is None:
            return []
        self._rest, self._delivery = iter(()), delivery
        return delivery.records()

    async def run(self, callback: Processed) -> None:
        """Await ``callback`` with one batch after the other until ``close``.

        If it raises, its batch is not processed: the consumer closes, committing what was, and
        the error goes on.
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
        """Also for the synchronous class: see ``GroupWorker.next_delivery``; None as well if
        nothing arrives in time."""
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
        """Commit all records handed out so far, also the last one; or the given offsets.

        Args:    offsets: of the last processed record by partition, among those handed out since
                 the partition was taken or sought.
        Raises:  LeaseNotHeld: not done, the partition is not ours (any more); BadRequest: not
                 handed out; Unavailable; OutcomeUnknown. Commits of other partitions are done.
        """
        await self._at_work().commit(offsets)

    def position(self, partition: int) -> int:
        """Offset behind the last record handed out. Raises: LeaseNotHeld."""
        held = self._at_work().of(partition)
        held.read_progress()
        return held.handed + 1

    async def seek(self, partition: int, position: Position) -> None:
        """Go on elsewhere; what was handed out before and is not committed counts no more.

        Raises: LeaseNotHeld: the partition is not ours.
        """
        await self._at_work().seek(partition, position)

    def pause(self, *partitions: int) -> None:
        """Hand out nothing more of them until ``resume``, but keep them. A batch in hand goes
        on. Raises: LeaseNotHeld."""
        self._at_work().pause(partitions, True)

    def resume(self, *partitions: int) -> None:
        """End of a pause. Raises: LeaseNotHeld."""
        self._at_work().pause(partitions, False)

    @property
    def assignment(self) -> tuple[int, ...]:
        """Partitions held now, also those on their way out."""
        return () if self._worker is None else tuple(sorted(self._worker.assigned))

    @property
    def worker_id(self) -> str:
        """As the group knows this consumer; empty before the start."""
        return "" if self._worker is None else self._worker.member.worker

    @property
    def counters(self) -> ConsumerCounters:
        """What happened since the start."""
        return ConsumerCounters() if self._worker is None else self._worker.counters

    def _at_work(self) -> GroupWorker:
        self._check()
        if self._worker is None:
            raise ClientClosed("the consumer has not been started")
        return self._worker

    def _check(self) -> None:
        if self._pid != os.getpid():
            raise ClientClosed("a consumer cannot be used in a forked child; make a new one there")
        if self._closed:
            raise ClientClosed("the consumer is closed")
