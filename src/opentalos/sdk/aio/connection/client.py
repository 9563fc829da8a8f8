"""The asyncio client: topics, puts, gets and any other call, shared by the objects using it."""

import itertools
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple, Self

from opentalos.model.errors import NothingThere, OffsetOutOfRange, TalosError
from opentalos.model.message import MessageBlock, OffsetRange, ProducerStamp
from opentalos.sdk.aio.connection import messages
from opentalos.sdk.aio.connection.caller import Caller
from opentalos.sdk.core.config import ClientConfig
from opentalos.sdk.core.operation import Operation
from opentalos.sdk.core.values import DamagedRange, FetchReply, PutReply, TopicRef
from opentalos.sdk.errors import PositionExpired
from opentalos.wire._generated.message import MESSAGE_SERVICE
from opentalos.wire._generated.topic import TOPIC_SERVICE
from opentalos.wire.thrift.spec import ServiceSpec

TOPICS_MAX: Final = 1_000  # cached topics; the oldest entry is evicted
TOPIC_AGE_S_MAX: Final = 60.0  # a cached topic is used this long


class _KnownTopic(NamedTuple):
    ref: TopicRef
    asked_s: float  # on the loop's clock


class Client:
    """Connections, clock offset, addresses and topics, shared by the objects that use it.

    Belongs to the event loop it is first used on. Every error states its outcome by its branch:
    RequestError and Unavailable mean not done, OutcomeUnknown means done or not. Unavailable is
    retried with full jitter until the deadline, OutcomeUnknown only for idempotent calls. After
    ``close`` every call raises ClientClosed.

    Args: wall_s: this machine's clock; a skewed one is corrected to the server's.
    """

    def __init__(self, config: ClientConfig, *, wall_s: Callable[[], float] = time.time) -> None:
        self.config = config
        self.id = secrets.token_hex(4)  # part of the sequence ids servers see
        self._caller = Caller(config, wall_s)
        self._topics: dict[str, _KnownTopic] = {}
        self._numbers = itertools.count(1)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def call(
        self,
        service: ServiceSpec,
        method: str,
        request: Any,
        *,
        deadline_s: float | None = None,
        retry_unknown: bool = False,
    ) -> Any:
        """One RPC to the endpoint; ``request`` is None for a method without arguments.

        Args:    deadline_s: including retries; retry_unknown: also retry after an unknown outcome,
                 as is always done for calls that only read.
        Returns: the result struct, None for a void method.
        """
        operation = Operation(service, service.methods[method], request, retry_unknown)
        return await self._run(operation, deadline_s)

    async def topic(self, name: str, *, refresh: bool = False) -> TopicRef:
        """Look up a topic (``name`` or ``organisation/name``), cached until it expires or a server
        reports that the topic or one of its partitions does not exist.

        Raises: TopicNotExist, PermissionDenied, InvalidName.
        """
        now_s = self._caller.own_loop().time()
        known = self._topics.get(name)
        if known is not None and not refresh and now_s - known.asked_s < TOPIC_AGE_S_MAX:
            return known.ref
        found = await self._look_up(name)
        self._topics.pop(name, None)
        if len(self._topics) >= TOPICS_MAX:
            del self._topics[next(iter(self._topics))]
        self._topics[name] = _KnownTopic(found, now_s)
        return found

    async def put(
        self,
        topic: TopicRef,
        partition: int,
        block: MessageBlock,
        *,
        stamp: ProducerStamp | None = None,
        deadline_s: float | None = None,
    ) -> PutReply:
        """Store one block; on return it is durable.

        Args:    stamp: makes the put idempotent: an attempt with unknown outcome is retried, and
                 the block is stored once.
        Raises:  TopicNotExist, PartitionNotExist, PermissionDenied, QuotaExceeded: not stored.
                 OutcomeUnknown: stored or not.
        """
        sequence_id = f"{self.id}#{next(self._numbers)}"
        request = messages.put_request(topic, partition, block, sequence_id, stamp)
        operation = Operation(
            MESSAGE_SERVICE, MESSAGE_SERVICE.methods["putMessage"], request,
            repeatable=stamp is not None, stamped=stamp is not None,
            topic=topic.resource, partition=partition,
        )  # fmt: skip
        return messages.put_reply(await self._run(operation, deadline_s))

    async def fetch(
        self,
        topic: TopicRef,
        partition: int,
        offset: int,
        *,
        messages_max: int,
        bytes_max: int,
        deadline_s: float | None = None,
    ) -> FetchReply:
        """Whole blocks, starting with the one that contains ``offset``; -1 is the start of the
        log, -2 its end. Empty at the end of the log, after a short wait on the server. Payloads of
        a threaded client are views of the reply, so one block keeps all of them alive.

        Args:    messages_max, bytes_max: of the reply; the first block is always returned.
        Raises:  PositionExpired: the offset is not retained. CorruptLog: what is stored there is
                 damaged, or may be: the log's end is not known.
        """
        sequence_id = f"{self.id}#{next(self._numbers)}"
        request = messages.get_request(topic, partition, offset, sequence_id)
        request.maxGetMessageNumber, request.maxGetMessageBytes = messages_max, bytes_max
        operation = Operation(
            MESSAGE_SERVICE, MESSAGE_SERVICE.methods["getMessage"], request,
            topic=topic.resource, partition=partition,
            views=self.config.threaded,
        )  # fmt: skip
        try:
            return messages.fetch_reply(await self._run(operation, deadline_s))
        except OffsetOutOfRange as error:
            retained = await self._retained(topic, partition)
            raise PositionExpired(topic.name, partition, offset, retained) from error

    async def offsets(self, topic: TopicRef, partitions: Sequence[int]) -> dict[int, OffsetRange]:
        """The retained offsets by partition.

        Raises: the error of the first failing partition; CorruptLog: it is damaged, so its end is
                not known.
        """
        found = await self._offsets(topic, partitions, messages.check_offsets)
        return {number: there for number, there in found.items() if isinstance(there, OffsetRange)}

    async def known_offsets(
        self, topic: TopicRef, partitions: Sequence[int]
    ) -> dict[int, OffsetRange | DamagedRange]:
        """What is known of the retained offsets by partition, also of damaged ones.

        Raises: the error of the first partition that fails without being damaged.
        """
        return await self._offsets(topic, partitions, messages.check_undamaged)

    async def first_offsets(self, topic: TopicRef, partitions: Sequence[int]) -> dict[int, int]:
        """The first retained offset by partition, also of one that is damaged after it. Raises:
        the error of the first failing partition."""
        found = await self.known_offsets(topic, partitions)
        return {number: there.start for number, there in found.items()}

    async def _offsets(
        self, topic: TopicRef, partitions: Sequence[int], check: Callable[[Any], None]
    ) -> dict[int, OffsetRange | DamagedRange]:
        request = messages.offsets_request(topic, partitions)
        method = MESSAGE_SERVICE.methods["getPartitionsOffset"]
        operation = Operation(MESSAGE_SERVICE, method, request, check=check, topic=topic.resource)
        return messages.offsets_of(await self._run(operation))

    async def offsets_at(self, topic: TopicRef, times_ms: Mapping[int, int]) -> dict[int, int]:
        """By partition, the offset of the first message stored at or after a time, else the end
        offset. ``times_ms``: Unix milliseconds by partition."""
        request = messages.checkpoint_request(topic, times_ms)
        method = MESSAGE_SERVICE.methods["getTopicCheckpoint"]
        operation = Operation(MESSAGE_SERVICE, method, request, topic=topic.resource)
        return dict((await self._run(operation)).partitionsCheckPoint)

    def now_ms(self) -> int:
        """Unix milliseconds, corrected to the server's clock if the two differed."""
        return self._caller.signer.now_ms()

    async def close(self) -> None:
        """Close all connections; the outcome of calls in flight is unknown."""
        await self._caller.close()

    async def _run(self, operation: Operation, deadline_s: float | None = None) -> Any:
        try:
            return await self._caller.run(operation, deadline_s)
        except NothingThere:
            self._forget(operation.topic)
            raise

    def _forget(self, resource: str) -> None:
        """Evict the topic, so that the next lookup asks the server."""
        gone = [name for name, kept in self._topics.items() if kept.ref.resource == resource]
        for name in gone:
            del self._topics[name]

    async def _look_up(self, name: str) -> TopicRef:
        request = messages.attribute_request(name)
        found = await self.call(TOPIC_SERVICE, "getTopicAttribute", request)
        ref = messages.topic_of(found)
        if messages.has_shrunk(found):
            info = await self.call(
                TOPIC_SERVICE, "getDescribeInfo", messages.describe_info_request(name)
            )
            ref = replace(ref, consumer_partitions=info.partitionNumber)
        return ref

    async def _retained(self, topic: TopicRef, partition: int) -> OffsetRange | DamagedRange | None:
        try:
            return (await self.known_offsets(topic, [partition])).get(partition)
        except TalosError:
            return None


def attach(client: Client | ClientConfig) -> tuple[Client, bool]:
    """The client to use, and whether the caller owns it and must close it."""
    if isinstance(client, Client):
        return client, False
    return Client(client), True
