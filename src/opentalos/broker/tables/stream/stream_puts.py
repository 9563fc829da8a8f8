"""StreamPuts: puts blocks of streams into partitions, here or at the server that serves them."""

import asyncio

from opentalos.broker.context import BrokerContext
from opentalos.broker.messaging.append_future import waiter_of
from opentalos.broker.peer_rpc.calls import STREAM_PUT
from opentalos.broker.peer_rpc.client import call_peer
from opentalos.broker.peer_rpc.messages import StreamPutReply, StreamPutRequest
from opentalos.catalog.access.authorize import topic_not_exist
from opentalos.catalog.topics.topic import Topic
from opentalos.log.results import AppendWaiter
from opentalos.model.errors import (
    NotOwner,
    PartitionNotServing,
    TalosError,
)
from opentalos.model.message import (
    UNKNOWN_OFFSET,
    Compression,
    MessageBlock,
    PayloadFormat,
    ProducerStamp,
)


class StreamPuts:
    """Appends with the stamp of an idempotent producer; the caller has the right to put.

    A block without messages announces its stamp's epoch.
    """

    def __init__(self, context: BrokerContext) -> None:
        self._context = context
        self._tasks: dict[asyncio.Task[None], None] = {}

    def put(self, topic: Topic, partition: int, block: MessageBlock, waiter: AppendWaiter) -> None:
        """Append; ``waiter`` is called once, later: the base offset, or the error."""
        try:
            self._append(topic, partition, block, waiter)
        except NotOwner as error:
            if not error.address or self._context.peers is None:
                _later(waiter, error)
                return
            asking = self._ask(error.address, (topic, partition, block), waiter)
            task = asyncio.get_running_loop().create_task(asking, name="stream-put")
            self._tasks[task] = None
            task.add_done_callback(self._ended)
        except TalosError as error:
            _later(waiter, error)

    async def close(self) -> None:
        """Cancel the puts to other servers; their outcome is unknown."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def answer(self, request: StreamPutRequest) -> StreamPutReply:
        """Another server puts into a partition that this one serves. Raises: as the log does."""
        topic = self._context.topics.by_resource(request.topic)
        if topic is None:
            raise topic_not_exist(request.topic)
        block = stamped_block(
            request.payload,
            request.messages,
            request.producer,
            compression=request.compression,
            create_ms=request.create_ms,
        )
        durable: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._append(topic, request.partition, block, waiter_of(durable))
        return StreamPutReply(int(await durable))

    def _append(
        self, topic: Topic, partition: int, block: MessageBlock, waiter: AppendWaiter
    ) -> None:
        log = self._context.partition_log(topic, partition)
        if block.messages:
            log.append(block, waiter)
        else:
            log.announce(block, waiter)

    async def _ask(
        self, address: str, what: tuple[Topic, int, MessageBlock], waiter: AppendWaiter
    ) -> None:
        error: TalosError
        try:
            offset = await self._asked(address, what)
        except NotOwner as moved:
            error = PartitionNotServing(f"server {address}: {moved}")
            await self._catch_up(what[0])
        except TalosError as other:
            error = other
        else:
            waiter(offset, None)
            return
        waiter(UNKNOWN_OFFSET, error)

    async def _asked(self, address: str, what: tuple[Topic, int, MessageBlock]) -> int:
        topic, partition, block = what
        assert block.producer is not None
        request = StreamPutRequest(
            topic=topic.resource,
            partition=partition,
            payload=block.payload,
            messages=block.messages,
            compression=block.compression,
            create_ms=block.create_ms,
            producer=block.producer,
        )
        reply = await call_peer(self._context.peers, address, STREAM_PUT, request)
        return reply.offset

    async def _catch_up(self, topic: Topic) -> None:
        """Refresh the assignment: one of the two servers has an old one."""
        try:
            await self._context.ownership.catch_up(topic.uuid)
        except TalosError:
            return  # the next attempt reports it

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task, None)


def _later(waiter: AppendWaiter, error: TalosError) -> None:
    asyncio.get_running_loop().call_soon(waiter, UNKNOWN_OFFSET, error)


def stamped_block(
    payload: bytes,
    messages: int,
    stamp: ProducerStamp,
    *,
    compression: int = Compression.NONE,
    create_ms: int = 0,
) -> MessageBlock:
    """A block of an idempotent producer; without messages it announces the stamp's epoch."""
    return MessageBlock(
        payload,
        messages,
        compression,
        create_ms,
        PayloadFormat.TALOS if messages else PayloadFormat.STATE,
        producer=stamp,
    )
