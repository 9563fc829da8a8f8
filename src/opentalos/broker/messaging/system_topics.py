"""SystemTopics: the service's own topics, written by the servers themselves.

``__metrics`` has what servers, machines and clients measured, ``__usage`` what tenants stored,
``__audit`` who changed what. They belong to the reserved tenant "system": only administrators see
them, they cannot be deleted, no other can be created, and what the servers put there is neither
charged nor metered.
"""

import asyncio
import zlib
from collections.abc import Sequence
from typing import Final

from opentalos.broker.context import BrokerContext
from opentalos.broker.messaging.append_future import waiter_of
from opentalos.broker.peer_rpc.calls import SYSTEM_PUT
from opentalos.broker.peer_rpc.client import call_peer
from opentalos.broker.peer_rpc.messages import Empty, SystemPutRequest
from opentalos.broker.values import NewTopic, Topic
from opentalos.catalog.topics.change import new_topic
from opentalos.catalog.topics.topic import TopicStatus
from opentalos.model.errors import (
    AlreadyExists,
    BadRequest,
    NotOwner,
    OutcomeUnknown,
    PartitionNotServing,
    RequestTooLarge,
    StoreUnavailable,
)
from opentalos.model.limits import SystemTopicSettings
from opentalos.model.message import Compression, MessageBlock
from opentalos.model.names import (
    AUDIT_TOPIC,
    METRICS_TOPIC,
    SYSTEM_TENANT,
    SYSTEM_TOPICS,
    USAGE_TOPIC,
)
from opentalos.model.settings.topic_attributes import RETENTION_BYTES_KEY
from opentalos.wire.message import Message, encode_block

PUT_BYTES_MAX: Final = 1 << 20  # of the messages of one put
PUT_MESSAGES_MAX: Final = 5_000  # of one put
PUT_S: Final = 10.0  # until a put into an own partition that is not stored is unknown
UUID_BYTES: Final = 16
_GZIP_BYTES_MAX: Final = 64 << 10  # packed on the loop, at most 2 ms


class SystemTopics:
    """Creates missing topics, and puts into them at whichever server has the partition."""

    def __init__(self, context: BrokerContext) -> None:
        self._context = context
        self._making = asyncio.Lock()

    async def ensure(self, name: str) -> Topic:
        """The topic, created if it is missing; another server may create it at the same time.

        Raises: StoreUnavailable and other Unavailable: try again.
        """
        topic = self._known(name)
        if topic is not None:
            return topic
        async with self._making:  # one at a time: the others find it
            return self._known(name) or await self._make(name)

    async def put(self, topic: str, messages: Sequence[bytes], *, key: str) -> None:
        """Store all messages as one block; returns when they are durable. A key always leads to the
        same partition, so messages of one key are in order.

        Not done: RequestTooLarge: more than PUT_BYTES_MAX or PUT_MESSAGES_MAX; PartitionNotServing,
        StoreUnavailable and other Unavailable: try again. Not known: OutcomeUnknown: a repeat may
        store them twice.
        """
        _check_size(messages)
        found = await self.ensure(topic)
        # Audit events have one order, also if an administrator adds partitions.
        ordered = topic == AUDIT_TOPIC
        partition = 0 if ordered else zlib.crc32(key.encode()) % found.partitions
        try:
            async with asyncio.timeout(PUT_S):
                try:
                    await self._append(found, partition, messages, key)
                except NotOwner as error:
                    if not error.address:
                        raise
                    await self._ask(error.address, found, partition, (messages, key))
        except TimeoutError as error:
            text = f"partition {partition} of {topic}: not stored within {PUT_S:g} s"
            raise OutcomeUnknown(text) from error

    async def answer(self, request: SystemPutRequest) -> Empty:
        """Another server puts into a partition that this one serves. Raises: BadRequest; as put."""
        if request.topic not in SYSTEM_TOPICS:
            raise BadRequest(f"{request.topic[:40]!r} is not a topic of the service")
        _check_size(request.messages)
        topic = await self.ensure(request.topic)
        if not 0 <= request.partition < topic.partitions:
            raise PartitionNotServing(f"{request.topic} has no partition {request.partition}")
        await self._append(topic, request.partition, request.messages, request.key)
        return Empty()

    def _append(
        self, topic: Topic, partition: int, messages: Sequence[bytes], key: str
    ) -> asyncio.Future[int]:
        """The offset, once the block is durable. Raises: NotOwner and others: not done."""
        now_ms = self._context.clock.wall_ms()
        made = [Message(data, partition_key=key, create_ms=now_ms) for data in messages]
        # Rows are similar to each other. The other codecs cost an idle server 3 MB of memory.
        small = sum(map(len, messages)) < _GZIP_BYTES_MAX
        compression = Compression.GZIP if small else Compression.SNAPPY
        block = MessageBlock(encode_block(made, compression), len(made), compression, now_ms)
        durable: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._context.partition_log(topic, partition).append(block, waiter_of(durable))
        return durable

    async def _ask(
        self, address: str, topic: Topic, partition: int, what: tuple[Sequence[bytes], str]
    ) -> None:
        messages, key = what
        request = SystemPutRequest(topic.name, partition, key, list(messages))
        try:
            await call_peer(self._context.peers, address, SYSTEM_PUT, request)
        except NotOwner as error:  # the partition is moving; one server does not know yet
            raise PartitionNotServing(f"server {address}: {error}") from error

    def _known(self, name: str) -> Topic | None:
        record = self._context.topics.record(SYSTEM_TENANT, name)
        return record if record is not None and record.status == TopicStatus.ACTIVE else None

    async def _make(self, name: str) -> Topic:
        context = self._context
        limits, settings = context.config.topic, self._settings(name)
        retention_s = min(settings.retention_s, limits.retention_max_s)
        new = NewTopic(
            name=name,
            partitions=min(settings.partitions, limits.partitions_max),
            retention_s=max(retention_s, limits.retention_min_s),
            attributes={RETENTION_BYTES_KEY: str(settings.retention_bytes)}
            if settings.retention_bytes
            else {},
        )
        uuid, now_ms = context.clock.token(UUID_BYTES).hex(), context.clock.wall_ms()
        topic = new_topic(new, (SYSTEM_TENANT, name), uuid, now_ms, limits)
        await context.keys.ensure((SYSTEM_TENANT,))
        try:
            await context.topics.create(topic)
        except AlreadyExists:  # another server was faster
            await context.topics.unseen.look([(SYSTEM_TENANT, name, None)])
        made = self._known(name)
        if made is None:
            raise StoreUnavailable(f"topic {name} was created but is not visible yet; try again")
        await context.ownership.settled(made.uuid, made.partitions)
        return made

    def _settings(self, name: str) -> SystemTopicSettings:
        config = self._context.config
        audit = SystemTopicSettings(
            partitions=1,
            retention_s=config.audit.retention_s,
            retention_bytes=config.audit.retention_bytes,
        )
        return {
            METRICS_TOPIC: config.metrics_topic,
            USAGE_TOPIC: config.usage_topic,
            AUDIT_TOPIC: audit,
        }[name]


def _check_size(messages: Sequence[bytes]) -> None:
    """Raises: RequestTooLarge, BadRequest."""
    size = sum(map(len, messages))
    if size > PUT_BYTES_MAX or len(messages) > PUT_MESSAGES_MAX:
        raise RequestTooLarge(
            f"{len(messages)} messages of {size} bytes, at most {PUT_MESSAGES_MAX} of "
            f"{PUT_BYTES_MAX} bytes together"
        )
    if not messages:
        raise BadRequest("a put needs a message")
