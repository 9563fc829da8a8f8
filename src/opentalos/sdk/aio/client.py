"""One client: signed calls to a service with retries, addressing and clock correction."""

import asyncio
import itertools
import random
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, Self, cast

from opentalos.model.errors import (
    ClockSkewed,
    ExcessivePending,
    NothingThere,
    OffsetOutOfRange,
    OutcomeUnknown,
    PartitionNotServing,
    RequestError,
    TalosError,
    Unavailable,
)
from opentalos.model.message import MessageBlock, OffsetRange, ProducerStamp
from opentalos.sdk.aio import messages
from opentalos.sdk.aio.addressing import Addressing, Endpoints
from opentalos.sdk.aio.retry import RetryPolicy
from opentalos.sdk.aio.signer import REQUEST_ID, TIMESTAMP, Signer
from opentalos.sdk.aio.transport import Reply, Transport
from opentalos.sdk.config import ClientConfig
from opentalos.sdk.errors import (
    ClientClosed,
    ConnectFailed,
    NoReply,
    PositionExpired,
    error_of_application,
    error_of_exception,
    error_of_status,
)
from opentalos.sdk.values import FetchReply, PutReply, TopicRef
from opentalos.wire._generated.common import GalaxyTalosException
from opentalos.wire._generated.message import MESSAGE_SERVICE
from opentalos.wire._generated.topic import TOPIC_SERVICE
from opentalos.wire.thrift.error import ApplicationError, ThriftError
from opentalos.wire.thrift.message import ThriftProtocol, decode_reply, encode_call, protocol_of
from opentalos.wire.thrift.spec import MethodSpec, ServiceSpec

TOPICS_MAX: Final = 1_000  # topics remembered; the one named longest ago is forgotten
TOPIC_AGE_S_MAX: Final = 60.0  # so long a topic's partition count is believed
CALLS_MAX: Final = 10_000  # under way at once; more are refused
CLOCK_CORRECTIONS_MAX: Final = 2  # of one request: a clock may jump while it is corrected
_SEQID: Final = 1
_PLACES_MAX: Final = 4  # tried in a row before the pauses of a retry grow
_TEXT_CHARS_MAX: Final = 500  # shown of a reply that is no Thrift message
# Calls that change nothing, by how their names begin.
_READS: Final = ("get", "query", "describe", "list", "lookup", "match", "check", "valid")


@dataclass(frozen=True, slots=True)
class _Operation:
    """One call with all its attempts. ``check`` finds errors inside a reply."""

    service: ServiceSpec
    method: MethodSpec
    request: Any
    repeatable: bool = False  # even if an attempt ended unknown
    topic: str = ""  # resource name of what it is about
    partition: int | None = None  # goes to the server of this partition; None: to the endpoint
    check: Callable[[Any], None] | None = None
    stamped: bool = False  # an idempotent put, which has to say when it is repeated

    @property
    def reads(self) -> bool:
        """Whether the call changes nothing."""
        return self.method.name.startswith(_READS)


class _KnownTopic(NamedTuple):
    ref: TopicRef
    asked_s: float  # by the loop's clock


class Client:
    """Connections, clock, addresses and topics that all objects made with it share.

    Belongs to the event loop it is first used on. Every method raises by the branches of the error
    tree: RequestError and Unavailable are not done, OutcomeUnknown may be either. Unavailable is
    retried with full jitter until the deadline, OutcomeUnknown only where a second time does no
    harm. After ``close`` everything raises ClientClosed.

    Args: wall_s: this machine's clock; a wrong one is corrected by the server's.
    """

    def __init__(self, config: ClientConfig, *, wall_s: Callable[[], float] = time.time) -> None:
        self.config = config
        self.id = secrets.token_hex(4)  # shown to servers, in sequence ids
        self._transport = Transport(config)
        self._signer = Signer(config.key_id, config.secret, wall_s)
        self._endpoints = Endpoints(config.endpoints)
        self._addressing = Addressing("https" if config.secure else "http")
        self._topics: dict[str, _KnownTopic] = {}
        self._refreshes: dict[str, asyncio.Task[None]] = {}  # by resource, one at a time each
        self._numbers = itertools.count(1)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._under_way = 0
        self._closed = False

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
        """One RPC at the endpoint; ``request`` is None for one without arguments.

        Args:    deadline_s: with all retries; retry_unknown: also repeat what may have been done.
                 Calls that only read always are.
        Returns: the result struct, None for a void method.
        """
        operation = _Operation(service, service.methods[method], request, retry_unknown)
        return await self._run(operation, deadline_s)

    async def topic(self, name: str, *, refresh: bool = False) -> TopicRef:
        """The topic of that name (``name`` or ``organisation/name``); remembered for a while, or
        until a server says that it, or a partition of it, does not exist.

        Raises: TopicNotExist, PermissionDenied, InvalidName.
        """
        now_s = self._own_loop().time()
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

        Args:    stamp: makes the put idempotent: also an unknown attempt is repeated, and stored
                 once.
        Raises:  TopicNotExist, PartitionNotExist, PermissionDenied, QuotaExceeded: not done.
                 OutcomeUnknown: stored or not.
        """
        sequence_id = f"{self.id}#{next(self._numbers)}"
        request = messages.put_request(topic, partition, block, sequence_id, stamp)
        operation = _Operation(
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
        """Whole blocks from the one that contains ``offset`` on; -1 is the start of the log, -2
        its end. Empty at the end of the log, after the server waited a moment for more.

        Args:    messages_max, bytes_max: of the reply, but a first block is always given.
        Raises:  PositionExpired: the offset is not retained.
        """
        sequence_id = f"{self.id}#{next(self._numbers)}"
        request = messages.get_request(topic, partition, offset, sequence_id)
        request.maxGetMessageNumber, request.maxGetMessageBytes = messages_max, bytes_max
        operation = _Operation(
            MESSAGE_SERVICE, MESSAGE_SERVICE.methods["getMessage"], request,
            topic=topic.resource, partition=partition,
        )  # fmt: skip
        try:
            return messages.fetch_reply(await self._run(operation, deadline_s))
        except OffsetOutOfRange as error:
            retained = await self._retained(topic, partition)
            raise PositionExpired(topic.name, partition, offset, retained) from error

    async def offsets(self, topic: TopicRef, partitions: Sequence[int]) -> dict[int, OffsetRange]:
        """Retained offsets by partition. Raises: the error of the first partition that has one."""
        request = messages.offsets_request(topic, partitions)
        method = MESSAGE_SERVICE.methods["getPartitionsOffset"]
        operation = _Operation(
            MESSAGE_SERVICE, method, request, check=messages.check_offsets, topic=topic.resource
        )
        return messages.offsets_of(await self._run(operation, None))

    async def offsets_at(self, topic: TopicRef, times_ms: Mapping[int, int]) -> dict[int, int]:
        """By partition the offset of the first message stored at or after a time, else the next
        offset. ``times_ms``: Unix milliseconds by partition."""
        request = messages.checkpoint_request(topic, times_ms)
        method = MESSAGE_SERVICE.methods["getTopicCheckpoint"]
        operation = _Operation(MESSAGE_SERVICE, method, request, topic=topic.resource)
        return dict((await self._run(operation, None)).partitionsCheckPoint)

    def now_ms(self) -> int:
        """Unix milliseconds by the server's clock, as far as it is known."""
        return self._signer.now_ms()

    async def close(self) -> None:
        """Cut all connections; what is under way ends as unknown."""
        self._closed = True
        for task in list(self._refreshes.values()):
            task.cancel()
        await self._transport.close()

    # --- attempts --------------------------------------------------------------------------------

    async def _run(self, operation: _Operation, deadline_s: float | None) -> Any:
        if self._under_way >= CALLS_MAX:
            raise ExcessivePending(f"{CALLS_MAX} calls of this client are under way")
        self._under_way += 1
        try:
            return await self._try_until_done(operation, deadline_s)
        finally:
            self._under_way -= 1

    async def _try_until_done(self, operation: _Operation, deadline_s: float | None) -> Any:
        loop = self._own_loop()
        allowed_s = self.config.deadline_s if deadline_s is None else deadline_s
        policy = RetryPolicy(
            pause_s=(self.config.backoff_s, self.config.backoff_s_max),
            deadline_s=loop.time() + allowed_s,
            repeatable=operation.repeatable,
            reads=operation.reads,
            places=min(self._endpoints.count, _PLACES_MAX),
            random=random.random,
        )
        body = _encoded(operation)
        while True:
            url = await self._url_of(operation, policy.left_s(loop.time()))
            timeout_s = min(self.config.request_timeout_s, policy.left_s(loop.time()))
            try:
                result = await self._attempt(url, operation, body, timeout_s)
            except TalosError as error:
                self._learn_from(error, url, operation)
                await asyncio.sleep(policy.pause_after(error, loop.time()))
                if isinstance(error, OutcomeUnknown) and operation.stamped:
                    operation.request.repeated = True
                    body = _encoded(operation)
                continue
            if operation.partition is not None and result.isTransfer:
                self._addressing.distrust(operation.topic)
            return result

    async def _attempt(self, url: str, operation: _Operation, body: bytes, timeout_s: float) -> Any:
        """One request, repeated only where the server refused it for its clock."""
        target = f"{url}{operation.service.path}?type={operation.method.name}"
        for _ in range(CLOCK_CORRECTIONS_MAX + 1):
            if self._closed:
                raise ClientClosed("the client is closed")
            headers = self._signer.headers(operation.service.path, body)
            try:
                reply = await self._transport.post(target, headers, body, timeout_s)
                result = _result_of(url, operation.method, reply)
                if operation.check is not None:
                    operation.check(result)
            except ClockSkewed as error:
                skewed = error
                if not self._signer.correct(reply.headers.get(TIMESTAMP)):
                    break
            except TalosError as error:
                error.add_note(f"request {headers[REQUEST_ID]}")  # as the server's log names it
                raise
            else:
                return result
        raise skewed

    def _learn_from(self, error: TalosError, url: str, operation: _Operation) -> None:
        """Where not to send the next attempt."""
        silent = isinstance(error, ConnectFailed | NoReply)
        refused = isinstance(error, PartitionNotServing) or type(error) is Unavailable
        if silent:
            self._addressing.drop_server(url)
        elif refused and operation.partition is not None:
            self._addressing.drop_partition(operation.topic, operation.partition)
        if silent or refused:
            self._endpoints.failed(url)
        if isinstance(error, NothingThere) and operation.topic:
            gone = [n for n, kept in self._topics.items() if kept.ref.resource == operation.topic]
            for name in gone:
                del self._topics[name]  # whoever asks again learns what the name means now

    # --- addresses -------------------------------------------------------------------------------

    async def _url_of(self, operation: _Operation, left_s: float) -> str:
        """Server to ask next. A new map is waited for only if the partition's server is not
        known."""
        resource, partition = operation.topic, operation.partition
        if partition is None or not self.config.direct:
            return self._endpoints.url
        url = self._addressing.url(resource, partition)
        running = self._refreshes.get(resource)
        if running is None and self._addressing.due(resource, self._own_loop().time()):
            running = asyncio.create_task(self._refresh(resource))
            self._refreshes[resource] = running
        if running is not None and url is None:
            await asyncio.wait([running], timeout=left_s)
            url = self._addressing.url(resource, partition)
        return url or self._endpoints.url

    async def _refresh(self, resource: str) -> None:
        """Look at a topic's map once; without a new one, the endpoint serves what is missing."""
        method = MESSAGE_SERVICE.methods["getScheduleInfo"]
        operation = _Operation(MESSAGE_SERVICE, method, messages.schedule_request(resource))
        body = _encoded(operation)
        url = self._endpoints.url
        try:
            found = await self._attempt(url, operation, body, self.config.request_timeout_s)
        except RequestError:
            self._addressing.learn(resource, {})  # no map for us, such as of a topic that is gone
        except TalosError as error:
            self._learn_from(error, url, operation)
        else:
            servers = self._addressing.learn(resource, messages.addresses_of(found))
            self._endpoints.learn(servers)
        finally:
            del self._refreshes[resource]

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

    async def _retained(self, topic: TopicRef, partition: int) -> OffsetRange | None:
        try:
            return (await self.offsets(topic, [partition])).get(partition)
        except TalosError:
            return None

    def _own_loop(self) -> asyncio.AbstractEventLoop:
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = loop
        elif self._loop is not loop:
            raise RuntimeError("a client belongs to the event loop it was first used on")
        return loop


def attach(client: Client | ClientConfig) -> tuple[Client, bool]:
    """The client to use, and whether whoever asks owns it and has to close it."""
    if isinstance(client, Client):
        return client, False
    return Client(client), True


def _encoded(operation: _Operation) -> bytes:
    arguments = (operation.request,) if operation.method.arguments else ()
    return encode_call(ThriftProtocol.COMPACT, operation.method, _SEQID, *arguments)


def _result_of(url: str, method: MethodSpec, reply: Reply) -> Any:
    """The result of a reply. Raises: the error it carries; OutcomeUnknown: it is no reply."""
    where = f"{method.name} at {url}"
    if protocol_of(reply.headers.get("Content-Type", "")) is not ThriftProtocol.COMPACT:
        text = reply.body[:_TEXT_CHARS_MAX].decode("utf-8", "replace").strip()
        raise error_of_status(reply.status, text, where)
    try:
        decoded = decode_reply(ThriftProtocol.COMPACT, method, reply.body)
    except ApplicationError as error:
        raise error_of_application(error) from error
    except ThriftError as error:
        raise OutcomeUnknown(f"{where}: an unreadable reply: {error}") from error
    if decoded.seqid != _SEQID:
        raise OutcomeUnknown(f"{where}: the reply to another call")
    if decoded.error is not None:
        raise error_of_exception(method.name, cast(GalaxyTalosException, decoded.error))
    return decoded.result
