"""MessageService: put, get, offsets, time lookup, preview and schedule info.

Every gateway of messages calls it. Each put reports stored, not stored or unknown (promise I7), and
a get returns durable messages only (promise I4); the log keeps both.
"""

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple, Protocol

from opentalos.broker.context import BrokerContext
from opentalos.broker.messaging.append_future import append_blocks
from opentalos.broker.messaging.block_reader import Reader
from opentalos.broker.messaging.message_counters import HeldCalls, MessageCounters
from opentalos.broker.messaging.preview import PREVIEW_BYTES_MAX, PreviewedMessage, latest_messages
from opentalos.broker.peer_rpc.remote_logs import PROVEN, Found, Question, RemoteLogs, Wanted
from opentalos.catalog.quota.delayed import DelayedCalls
from opentalos.catalog.quota.throttle import ThrottleHandle
from opentalos.catalog.topics.topic import Topic
from opentalos.log.partition.partition_log import PartitionLog
from opentalos.log.results import AppendWaiter, ReadResult
from opentalos.model.address import has_tls
from opentalos.model.errors import (
    BadRequest,
    DeadlinePassed,
    PartitionNotExist,
    RequestTooLarge,
    TalosError,
    TopicNotExist,
    UnexpectedOffset,
)
from opentalos.model.identity import Permission, Principal
from opentalos.model.message import (
    UNKNOWN_OFFSET,
    MessageBlock,
    OffsetRange,
    StoredBlock,
)

START_OFFSET = -1  # of the retained log. Source: idl/message.thrift MessageOffset
LATEST_OFFSET = -2  # only messages that arrive later
BLOCKS_MAX = 1_000  # of one put; clients send one
_ROUTES_MAX = 100_000  # cached (caller, topic, partition) decisions


class Target(Protocol):
    """Where a put goes. ``deadline_ms`` is Unix time; 0: none."""

    @property
    def resource(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def deadline_ms(self) -> int: ...


class PutTarget(NamedTuple):
    """A ``Target``, for callers whose request is none by itself."""

    resource: str
    partition: int
    deadline_ms: int = 0


class GetQuery(NamedTuple):
    """What to read. ``offset`` may be START_OFFSET or LATEST_OFFSET."""

    resource: str
    partition: int
    offset: int
    messages_max: int
    bytes_max: int
    deadline_ms: int = 0


class GetResult(NamedTuple):
    """Contiguous blocks; the first contains the requested offset.

    ``unhandled``: messages after the last returned one; None: the log is damaged there.
    """

    blocks: Sequence[StoredBlock]
    messages: int
    unhandled: int | None
    hold_s: float = 0.0  # delay of the reply: the caller is over its rate


class PutRoute(NamedTuple):
    """An access decision and the log it leads to; holds while both objects are current.

    The rate handle holds while the version of all quotas is ``quotas``.
    """

    caller: Principal
    topic: Topic
    log: PartitionLog
    handle: ThrottleHandle
    quotas: int


class PutRoutes:
    """Decides who may put where, and finds the log; also before what is to be put is known."""

    def __init__(self, context: BrokerContext) -> None:
        self._context = context
        self._routes: dict[tuple[str, str, int], PutRoute] = {}

    def __len__(self) -> int:
        return len(self._routes)

    def find(self, caller: Principal, resource: str, partition: int) -> PutRoute:
        """The decision for this caller; made again when the topic or the caller changed.

        Both are immutable and replaced on any change, so the same two objects have the same
        answer; only a positive one is kept, so every denial is audited.

        Raises: TopicNotExist, PermissionDenied, PartitionNotExist, NotOwner, Unavailable leaves.
        """
        key = (caller.id, resource, partition)
        route = self._routes.get(key)
        if (
            route is not None
            and route.caller is caller
            and route.topic is self._context.topics.by_resource(resource)
            and route.log.accepts() is None  # else the partition has a new log
        ):
            if route.quotas != self._context.throttle.version:
                route = self._keep(key, caller, route.topic, route.log)
            return route
        topic = self._context.topic(caller, Permission.PUT_MESSAGE, resource)
        _check_partition(topic, partition, topic.partitions)
        if len(self._routes) >= _ROUTES_MAX:
            self._routes.clear()
        return self._keep(key, caller, topic, self._context.partition_log(topic, partition))

    def check_room(self, route: PutRoute, bytes_count: int) -> None:
        """Whether so many bytes would be stored now by rate and space, before any work is done for
        them; the put itself charges them. Raises: QuotaExceeded, ThrottleRejected."""
        route.handle.check_put(asyncio.get_running_loop().time(), bytes_count)

    def _keep(
        self, key: tuple[str, str, int], caller: Principal, topic: Topic, log: PartitionLog
    ) -> PutRoute:
        """Keep the route with the rate handle of now."""
        throttle = self._context.throttle
        handle = throttle.handle(caller, topic, key[2])
        route = self._routes[key] = PutRoute(caller, topic, log, handle, throttle.version)
        return route

    def forget(self) -> None:
        """A topic was deleted: no route may keep its logs in memory."""
        self._routes.clear()


class MessageService:
    """Reads and writes messages; every method authorises first.

    The hot path is synchronous: a put costs no task and no future.

    Source: docs/internals/hot-path.md#rule-4.
    """

    def __init__(self, context: BrokerContext) -> None:
        self._context = context
        self._limits, self._egress = context.config.message, context.egress
        self._logs = RemoteLogs(context)
        self.routes = PutRoutes(context)
        self._delayed = DelayedCalls(context.config.quota.throttled_bytes_max)  # puts
        self._holds = 0  # gets that wait for new messages
        self.counters = MessageCounters()

    # --- put ---------------------------------------------------------------------------------

    def put(
        self,
        caller: Principal,
        target: Target,
        blocks: Sequence[MessageBlock],
        waiter: AppendWaiter,
        route: PutRoute | None = None,
    ) -> None:
        """Append blocks; ``waiter`` gets the offset of the first once all are durable, or an error.

        Args:   route: if the caller has found it in this pass of the loop.
        Raises: RequestError, Unavailable leaves: not done, and the waiter is not called. An
            OutcomeUnknown given to the waiter: some of the blocks may be stored.
        """
        if route is None:
            route = self.routes.find(caller, target.resource, target.partition)
        bytes_count = self._check_blocks(blocks)
        if target.deadline_ms:
            self._check_deadline(target.deadline_ms)
        hold_s = route.handle.admit_put(asyncio.get_running_loop().time(), bytes_count)
        counters = self.counters
        counters.puts += 1
        counters.put_bytes += bytes_count
        if hold_s > 0.0 or (self._delayed.bytes and _key(caller, target) in self._delayed):
            counters.puts_throttled += 1
            begin = partial(self._end_delay, caller, target, blocks, waiter)
            self._delayed.add(_key(caller, target), hold_s, bytes_count, begin)
        else:
            append_blocks(route.log, blocks, waiter)

    def _check_blocks(self, blocks: Sequence[MessageBlock]) -> int:
        """Payload bytes of all blocks. Raises: BadRequest, RequestTooLarge."""
        limits, bytes_count = self._limits, 0
        for block in blocks:
            size = len(block.payload)
            if not 0 < block.messages <= limits.block_messages_max:
                raise BadRequest(
                    f"messageNumber is {block.messages}, need 1 to {limits.block_messages_max}"
                )
            if size > limits.block_bytes_max:
                raise RequestTooLarge(f"a block of {size} bytes is above {limits.block_bytes_max}")
            if not size:
                raise BadRequest("messageBlock is empty")
            if block.create_ms < 0:
                raise BadRequest(f"createTimestamp is negative: {block.create_ms}")
            bytes_count += size
        if not 0 < len(blocks) <= BLOCKS_MAX:
            raise BadRequest(f"{len(blocks)} message blocks, need 1 to {BLOCKS_MAX}")
        return bytes_count

    def _check_deadline(self, deadline_ms: int) -> None:
        late_ms = self._context.clock.wall_ms() - deadline_ms
        if late_ms > 0:
            raise DeadlinePassed(f"the request's deadline passed {late_ms} ms ago")

    def _end_delay(
        self,
        caller: Principal,
        target: Target,
        blocks: Sequence[MessageBlock],
        waiter: AppendWaiter,
    ) -> None:
        try:
            if target.deadline_ms:
                self._check_deadline(target.deadline_ms)
            route = self.routes.find(caller, target.resource, target.partition)
            append_blocks(route.log, blocks, waiter)
        except TalosError as error:
            waiter(UNKNOWN_OFFSET, error)

    # --- get ---------------------------------------------------------------------------------

    def get_cached(self, caller: Principal, query: GetQuery) -> GetResult | None:
        """Answer from the tail cache without waiting; None: use ``get``.

        Raises: RequestError, Unavailable leaves.
        """
        topic = self._readable(caller, query.resource, query.partition)
        self._check_query(query)
        if query.offset < 0:
            return None
        read = self._context.partition_log(topic, query.partition).read_cached(
            query.offset,
            messages_max=min(query.messages_max, self._limits.get_messages_max),
            bytes_max=min(query.bytes_max, self._limits.get_bytes_max),
        )
        if read is None or not read.blocks:
            return None
        handle = self._context.throttle.handle(caller, topic, query.partition)
        now_s = asyncio.get_running_loop().time()
        result = _result(read, handle.admit_get(now_s))
        bytes_count = self._count(topic, query.partition, result)
        handle.charge_get(now_s, bytes_count)
        if self._egress is not None:
            self._egress.add(topic, caller, result.messages, bytes_count)
        return result

    async def get(self, caller: Principal, query: GetQuery, *, whole: bool = True) -> GetResult:
        """Read blocks; waits up to ``get_wait_s`` for messages at the log's end.

        Args:   whole: the caller gets whole blocks; otherwise it counts itself what it returns.
        Raises: OffsetOutOfRange, PartitionNotServing, CorruptLog, ThrottleRejected and others.
        """
        topic = self._readable(caller, query.resource, query.partition)
        self._check_query(query)
        loop = asyncio.get_running_loop()
        handle = self._context.throttle.handle(caller, topic, query.partition)
        hold_s = handle.admit_get(loop.time())
        if hold_s > 0.0:
            self.counters.gets_throttled += 1
            await asyncio.sleep(hold_s)
            # Topic or permission may be gone and the deadline passed by now.
            topic = self._readable(caller, query.resource, query.partition)
            self._check_query(query)
        hold_s = 0.0 if hold_s else self._limits.get_wait_s
        if self._holds >= self._limits.get_waiting_max:
            hold_s = 0.0
        self._holds += 1
        try:
            read = await self._context.partition_log(topic, query.partition).read(
                query.offset,
                messages_max=min(query.messages_max, self._limits.get_messages_max),
                bytes_max=min(query.bytes_max, self._limits.get_bytes_max),
                hold_s=hold_s,
            )
        finally:
            self._holds -= 1
        result = _result(read)
        bytes_count = self._count(topic, query.partition, result)
        handle.charge_get(loop.time(), bytes_count)
        if self._egress is not None and whole:
            self._egress.add(topic, caller, result.messages, bytes_count)
        return result

    def _count(self, topic: Topic, partition: int, result: GetResult) -> int:
        """Count what a get gives back; its payload bytes."""
        bytes_count = sum(len(block.payload) for block in result.blocks)
        counters = self.counters
        traffic = self._context.log.traffic_of(topic.uuid, partition)
        counters.gets += 1
        counters.gets_throttled += result.hold_s > 0.0
        counters.get_messages += result.messages
        counters.get_bytes += bytes_count
        traffic.gets += 1
        traffic.messages_out += result.messages
        traffic.bytes_out += bytes_count
        return bytes_count

    @property
    def held(self) -> HeldCalls:
        """Calls that wait now."""
        return HeldCalls(self._delayed.bytes, self._holds)

    def _readable(self, caller: Principal, resource: str, partition: int) -> Topic:
        topic = self._context.topic(caller, Permission.GET_MESSAGE, resource)
        _check_partition(topic, partition, topic.consumer_partitions)
        return topic

    def _check_query(self, query: GetQuery) -> None:
        if query.messages_max <= 0 or query.bytes_max <= 0:
            raise BadRequest(
                "maxGetMessageNumber and maxGetMessageBytes must be above 0, not "
                f"{query.messages_max} and {query.bytes_max}"
            )
        if query.offset < LATEST_OFFSET:
            raise UnexpectedOffset(f"message offset {query.offset}, need -2 or more")
        if query.deadline_ms:
            self._check_deadline(query.deadline_ms)

    # --- offsets and the rest ------------------------------------------------------------------

    async def offsets(self, caller: Principal, resource: str, partition: int) -> OffsetRange:
        """Retained offsets of one partition, whichever server serves it.

        Raises: CorruptLog: it is damaged, so its end is not known.
        """
        (found,) = await self.offsets_of(caller, resource, [partition])
        if isinstance(found, TalosError):
            raise found
        return found

    async def offsets_of(
        self, caller: Principal, resource: str, partitions: Sequence[int]
    ) -> Sequence[OffsetRange | TalosError]:
        """Retained offsets of each partition, or its error, which its damage is as well."""
        return [
            fact if isinstance(fact, TalosError) else fact.damage or fact.offsets
            for fact in await self.facts_of(caller, resource, partitions)
        ]

    async def facts_of(
        self,
        caller: Principal,
        resource: str,
        partitions: Sequence[int] | None = None,
        question: Question = PROVEN,
    ) -> Sequence[Found]:
        """Offsets of each partition (None: all), of a damaged one what is proven, or its error."""
        topic = await self._found(caller, resource)
        if partitions is None:
            partitions = range(topic.consumer_partitions)
        return await self._look(topic, partitions, question)

    async def offset_at(
        self, caller: Principal, resource: str, partition: int, time_ms: int
    ) -> int:
        """First offset stored at or after a time, or the next offset."""
        return (await self.offsets_at(caller, resource, {partition: time_ms}))[partition]

    async def offsets_at(
        self, caller: Principal, resource: str, times: Mapping[int, int]
    ) -> Mapping[int, int]:
        """Like ``offset_at`` for many partitions. Raises: the first partition's error."""
        offsets: dict[int, int] = {}
        found = await self.facts_of(caller, resource, list(times), Question(Wanted.TIMES, times))
        for partition, fact in zip(times, found, strict=True):
            if isinstance(fact, TalosError):
                raise fact
            offsets[partition] = fact.found
        return offsets

    async def _found(self, caller: Principal, resource: str) -> Topic:
        """The topic, also if another server has just created it."""
        try:
            return self._context.topic(caller, Permission.GET_MESSAGE, resource)
        except TopicNotExist as error:
            if not await self._context.appeared(error):
                raise
        return self._context.topic(caller, Permission.GET_MESSAGE, resource)

    async def _look(
        self, topic: Topic, partitions: Sequence[int], question: Question
    ) -> Sequence[Found]:
        """Like RemoteLogs.read; a partition that does not exist is an error there."""
        count = topic.consumer_partitions
        existing = [number for number in partitions if 0 <= number < count]
        looked = await self._logs.read(topic, list(dict.fromkeys(existing)), question)
        found = dict(zip(dict.fromkeys(existing), looked, strict=True))
        return [found.get(number) or _no_partition(topic, number, count) for number in partitions]

    async def preview(
        self, caller: Principal, resource: str, partition: int
    ) -> Sequence[PreviewedMessage]:
        """The latest messages of a partition, decoded. Raises: PreviewFailed."""
        topic = self._readable(caller, resource, partition)
        log = self._context.partition_log(topic, partition)
        offsets = await log.offsets()
        wanted = self._limits.preview_messages_max
        first = max(offsets.start, offsets.next - wanted)
        if first == offsets.next:
            return []
        read = await log.read(first, messages_max=wanted, bytes_max=PREVIEW_BYTES_MAX)
        reader = self.reader(caller, topic, partition)
        return await latest_messages(self._context.work, reader, read.blocks, wanted)

    def reader(self, caller: Principal, topic: Topic, partition: int) -> Reader:
        """For decoding blocks: decompressed bytes are charged like those of a reply."""
        handle = self._context.throttle.handle(caller, topic, partition)
        loop = asyncio.get_running_loop()
        return Reader(
            caller.id, topic.uuid, partition, lambda count: handle.charge_get(loop.time(), count)
        )

    def schedule_info(self, caller: Principal, resource: str) -> tuple[Topic, Sequence[str]]:
        """The topic and the address that serves each of its partitions, by partition id.

        No address if one of them has TLS: official clients dial what they find here by plain HTTP.
        """
        topic = self._context.topic(caller, Permission.DESCRIBE_TOPIC, resource)
        addresses = self._context.ownership.addresses(topic.uuid, topic.consumer_partitions)
        return topic, () if any(map(has_tls, addresses)) else addresses


def _key(caller: Principal, target: Target) -> tuple[str, str, int]:
    return caller.id, target.resource, target.partition


def _check_partition(topic: Topic, partition: int, count: int) -> None:
    if not 0 <= partition < count:
        raise _no_partition(topic, partition, count)


def _no_partition(topic: Topic, partition: int, count: int) -> PartitionNotExist:
    text = f"topic {topic.name} has {count} partitions, none is {partition}"
    return PartitionNotExist(text, ((topic.owner, topic.name, topic),))


def _result(read: ReadResult, hold_s: float = 0.0) -> GetResult:
    blocks, offsets, damage = read
    if not blocks:
        return GetResult([], 0, 0, hold_s)
    messages = sum(block.messages for block in blocks)
    left = max(0, offsets.next - blocks[-1].next_offset) if damage is None else None
    return GetResult(blocks, messages, left, hold_s)
