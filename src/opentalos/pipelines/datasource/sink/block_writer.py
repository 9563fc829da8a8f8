"""Puts the blocks of one task: one at a time per partition, to several partitions at once."""

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from opentalos.model.errors import (
    OffsetOutOfRange,
    OutcomeUnknown,
    PermissionDenied,
    ProducerFenced,
    RequestError,
    SequenceGap,
    TalosError,
)
from opentalos.model.message import MessageBlock, ProducerStamp
from opentalos.pipelines.datasource.sink.block_comparison import same_messages
from opentalos.pipelines.datasource.sink.identity import Identity
from opentalos.pipelines.datasource.sink.plan import Target
from opentalos.pipelines.datasource.sink.routing import Cut
from opentalos.sdk.aio import Client
from opentalos.sdk.core.values import PutReply
from opentalos.sdk.errors import ClientClosed

PUTS_MAX: Final = 8  # in flight for one task
WAITING_BYTES_MAX: Final = 32 << 20  # of blocks of one task; a single block may be larger
ATTEMPT_S_MIN: Final = 0.1  # no further attempt with less time than this
SEARCH_MESSAGES: Final = 20_000  # of one get, while a block is searched
SEARCH_BYTES: Final = 8 << 20
_FIRST_BYTE: Final = 1  # a get returns the first block, however large

_log = logging.getLogger("opentalos.pipelines.sink")


class NotTheSameRows(RequestError):
    """Not stored: an earlier attempt of the same task stored other rows, or in another order."""


class Stored(NamedTuple):
    """The rows that one task has stored in one partition."""

    topic: str
    partition: int
    rows: int
    bytes_count: int  # of blocks, as they were sent


@dataclass(slots=True)
class _PartitionQueue:
    """The blocks of one partition, in order."""

    target: Target
    partition: int
    producer_id: int
    floor: int  # a block before this offset was stored by an earlier attempt
    sequence: int = 0  # of the next block
    bytes_count: int = 0
    unplaced: bool = False  # the last block was stored before, at an unknown offset
    waiting: deque[MessageBlock] = field(default_factory=deque)
    task: asyncio.Task[None] | None = None

    def __str__(self) -> str:
        return f"{self.target.ref.name}[{self.partition}]"


class BlockWriter:
    """The writer of one task; its methods run in the SDK's event loop.

    Theory of operation. Each partition has a queue, drained by a task that puts one block at a
    time, so the order of a partition is that of the rows. The first failure stops all queues, and
    every later call raises it. If the server recognizes repeated puts, each block has a stamp made
    of the identity, so a block that another attempt stored is not stored again. The server says so,
    and if the stored block can be read, it is compared: a plan that gives other rows in each
    attempt must fail instead of losing rows. An attempt need not know of the others, and cannot:
    after a failed fetch Spark runs a stage again, and its tasks are first attempts.

    Args: identity: None: at least once; own_times: rows have their own create times, so those are
    compared as well.
    """

    def __init__(self, client: Client, identity: Identity | None, *, own_times: bool) -> None:
        self._client, self._identity, self._own_times = client, identity, own_times
        self._queues: dict[tuple[str, int], _PartitionQueue] = {}
        self._room = asyncio.Semaphore(PUTS_MAX)
        self._bytes = 0  # of blocks that wait or are in flight
        self._progress = asyncio.Event()
        self._failure: Exception | None = None

    async def add(self, cut: Cut) -> None:
        """Queue a block; waits while the queues are full. Raises: the first failure."""
        size = len(cut.block.payload)
        while self._bytes and self._bytes + size > WAITING_BYTES_MAX and self._failure is None:
            await self._next_progress()
        if self._failure is not None:
            raise self._failure
        queue = self._queue(cut)
        queue.waiting.append(cut.block)
        self._bytes += size
        if queue.task is None:
            queue.task = asyncio.create_task(self._drain(queue))

    async def finish(self) -> Sequence[Stored]:
        """Wait until every block is stored. Raises: the first failure."""
        while self._failure is None and any(queue.task for queue in self._queues.values()):
            await self._next_progress()
        if self._failure is not None:
            raise self._failure
        for queue in self._queues.values():
            if queue.unplaced:
                raise NotTheSameRows(f"{queue}: an earlier attempt stored more rows than this one")
        return [
            Stored(queue.target.ref.name, queue.partition, queue.sequence, queue.bytes_count)
            for queue in self._queues.values()
        ]

    async def abandon(self) -> None:
        """Stop; blocks in flight may be stored."""
        self._failure = self._failure or ClientClosed("the write was abandoned")
        tasks = [queue.task for queue in self._queues.values() if queue.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _next_progress(self) -> None:
        self._progress.clear()
        await self._progress.wait()

    def _queue(self, cut: Cut) -> _PartitionQueue:
        ref = cut.target.ref
        queue = self._queues.get((ref.resource, cut.partition))
        if queue is None:
            producer_id = self._identity.producer_id(ref.resource) if self._identity else 0
            floor = cut.target.floors.get(cut.partition, 0)
            queue = _PartitionQueue(cut.target, cut.partition, producer_id, floor)
            self._queues[ref.resource, cut.partition] = queue
        return queue

    async def _drain(self, queue: _PartitionQueue) -> None:
        try:
            while queue.waiting and self._failure is None:
                block = queue.waiting[0]
                async with self._room:
                    await self._put(queue, block)
                queue.waiting.popleft()
                queue.sequence += block.messages
                queue.bytes_count += len(block.payload)
                self._bytes -= len(block.payload)
                self._progress.set()
        except Exception as error:
            error.add_note(f"at row {queue.sequence} of this task for {queue}")
            self._failure = self._failure or error
        finally:
            queue.task = None
            self._progress.set()

    # --- one block ------------------------------------------------------------------------------

    async def _put(self, queue: _PartitionQueue, block: MessageBlock) -> None:
        identity = self._identity
        if identity is None:
            await self._put_at_least_once(queue, block)
            return
        stamp = ProducerStamp(queue.producer_id, identity.epoch, queue.sequence, identity.repeated)
        try:
            reply = await self._put_stamped(queue, block, stamp)
        except ProducerFenced as error:
            text = f"{queue}: a newer batch of this query has written to the partition: {error}"
            raise ProducerFenced(text) from error
        queue.unplaced = reply.base_offset is None
        if reply.base_offset is not None:
            if queue.target.floors and _may_be_of_another(reply, queue, identity):
                await self._compare(queue, block, reply.base_offset)

    async def _put_stamped(
        self, queue: _PartitionQueue, block: MessageBlock, stamp: ProducerStamp
    ) -> PutReply:
        """Put a block. A log that has forgotten the producer rejects a repeated first block; then
        the sink itself searches the partition for it."""
        ref = queue.target.ref
        try:
            return await self._client.put(ref, queue.partition, block, stamp=stamp)
        except SequenceGap as error:
            refused = error
        if not stamp.sequence and self._sees_all(queue) and not await self._is_stored(queue, block):
            first = stamp._replace(repeated=False)
            try:
                return await self._client.put(ref, queue.partition, block, stamp=first)
            except SequenceGap as error:
                refused = error
        raise _not_the_same(queue, refused) from refused

    def _sees_all(self, queue: _PartitionQueue) -> bool:
        """Whether no attempt can have stored these rows before the floor."""
        identity, target = self._identity, queue.target
        if identity is None or identity.earlier_run or not target.floors:
            return False
        return target.planned or not identity.retry

    async def _is_stored(self, queue: _PartitionQueue, block: MessageBlock) -> bool:
        """Whether the partition has such a block at or after the floor."""
        ref, offset = queue.target.ref, queue.floor
        held = await self._client.offsets(ref, [queue.partition])
        while offset < held[queue.partition].next:
            reply = await self._client.fetch(
                ref, queue.partition, offset, messages_max=SEARCH_MESSAGES, bytes_max=SEARCH_BYTES
            )
            for stored in reply.blocks:
                if same_messages(block, stored, stored.base_offset, own_times=self._own_times):
                    return True
                offset = stored.next_offset
        return False

    async def _put_at_least_once(self, queue: _PartitionQueue, block: MessageBlock) -> None:
        """Retry until the deadline, even if an attempt may have stored the block."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + self._client.config.deadline_s
        while True:
            left_s = max(deadline_s - loop.time(), ATTEMPT_S_MIN)
            try:
                await self._client.put(queue.target.ref, queue.partition, block, deadline_s=left_s)
            except OutcomeUnknown:
                pause_s = self._client.config.backoff_s
                if deadline_s - loop.time() < pause_s + ATTEMPT_S_MIN:
                    raise
                await asyncio.sleep(pause_s)
            else:
                return

    async def _compare(self, queue: _PartitionQueue, block: MessageBlock, offset: int) -> None:
        """Raises: NotTheSameRows: the block stored at the offset is another one."""
        try:
            reply = await self._client.fetch(
                queue.target.ref,
                queue.partition,
                offset,
                messages_max=block.messages,
                bytes_max=_FIRST_BYTE,
            )
        except (PermissionDenied, OffsetOutOfRange) as error:
            _log.warning("cannot compare a stored block: partition=%s error=%s", queue, error)
            return
        stored = reply.blocks[0]
        if not same_messages(block, stored, offset, own_times=self._own_times):
            raise NotTheSameRows(
                f"{queue}, offset {offset}: an earlier attempt of this task stored other rows: the "
                "plan does not give the same rows in the same order each time, or blockMessages, "
                "blockBytes, writeId or the number of partitions was changed; nothing more was "
                "stored, and delivery = at-least-once writes the rows again"
            )


def _may_be_of_another(reply: PutReply, queue: _PartitionQueue, identity: Identity) -> bool:
    """Whether another attempt may have stored the block. Older servers do not say it."""
    assert reply.base_offset is not None
    return reply.stored_before or identity.compares_all or reply.base_offset < queue.floor


def _not_the_same(queue: _PartitionQueue, error: TalosError) -> TalosError:
    if not queue.sequence:
        return NotTheSameRows(
            f"{queue}: an earlier attempt stored other rows, or the log has forgotten it "
            f"after 1,000 other producers ({error}); nothing more was stored, and "
            "delivery = at-least-once writes the rows again"
        )
    return NotTheSameRows(
        f"{queue}: an earlier attempt of this task cut its rows into other blocks ({error}): the "
        "plan does not give the same rows in the same order each time, or an option of the write "
        "was changed"
    )
