"""Produce: each partition's batch becomes one block of the log; answered once all are durable.

Whether the client may put to a partition, by permission, rate and space, and whether it is served
here, is decided before anything of its batch is read, so what is refused costs no more than a
look-up. Batches of one connection reach the log in their order. They are checked and put in pieces
of ``PIECE_COST``, between which others are served; a batch that takes long is checked on a thread.
Later requests of the connection wait for that.

An answer says stored, not stored, or unknown (promise I7). Not stored has a code that clients
retry. Unknown has one only where the producer is idempotent; else the client must not send the
batch again by itself, as it would be stored twice.

Source: docs/adr/0061-kafka-records.md; KIP-98 (sequences), KIP-467 (record errors), KIP-951 (new
leaders).
"""

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from opentalos.broker.long_work import SHORT_ITEMS, Turn
from opentalos.broker.messaging.messages import PutRoute, PutTarget
from opentalos.broker.values import Topic
from opentalos.gateway.kafka.call import KafkaCall
from opentalos.gateway.kafka.errors import code_of
from opentalos.gateway.kafka.gateway import Services
from opentalos.gateway.kafka.names import NO_ID
from opentalos.gateway.kafka.topics import NewLeaders, missing_code, named_topic
from opentalos.model.errors import (
    CorruptLog,
    NotOwner,
    OutcomeUnknown,
    PartitionNotServing,
    SequenceGap,
    StorageFull,
    TalosError,
    ThrottleRejected,
    Unavailable,
)
from opentalos.model.identity import Permission
from opentalos.model.message import (
    PRODUCER_ID_MAX,
    BaseOffset,
    MessageBlock,
    PayloadFormat,
    ProducerStamp,
    StoredBefore,
)
from opentalos.wire.kafka._generated.produce_request import (
    PartitionProduceData,
    TopicProduceData,
)
from opentalos.wire.kafka._generated.produce_response import (
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from opentalos.wire.kafka.errors import ErrorCode
from opentalos.wire.kafka.produce_codec import write_produced
from opentalos.wire.kafka.records import (
    EASY_BYTES,
    ReceivedBatch,
    RefusedRecords,
    is_packed,
    prove_now,
    prove_records,
    read_batch,
    reading_cost,
    unpacking_cost,
)

ACKS: Final = (-1, 0, 1)  # all the same here: durable as the topic says

# Bytes decompressed, or what takes as long, after which a piece ends: three milliseconds. The last
# batch may go beyond it, by what ``prove_now`` does at most and what reading it costs.
PIECE_COST: Final = 3 * EASY_BYTES
_PART_COST: Final = 4 << 10  # of any partition: look-up, put and answer

_STORED: Final = (int(ErrorCode.NONE), int(ErrorCode.DUPLICATE_SEQUENCE_NUMBER))

_log = logging.getLogger("opentalos.kafka")


class _Part:
    """One partition of a request, from its bytes to its answer."""

    __slots__ = ("answer", "key", "received", "records", "route", "topic")

    def __init__(self, key: str | bytes, part: PartitionProduceData) -> None:
        self.key = key  # of its topic
        self.answer = PartitionProduceResponse(index=part.index, base_offset=-1)
        self.records = part.records
        self.topic: Topic | None = None
        self.route: PutRoute | None = None
        self.received: ReceivedBatch | None = None  # None: not read yet, or refused

    def refuse(self, error: RefusedRecords) -> None:
        """Its records are not stored."""
        self.answer.error_code, self.answer.error_message = int(error.code), str(error)
        self.received = None

    @property
    def lost(self) -> bool:
        """Whether its records are not stored, or nobody knows."""
        return self.answer.error_code not in _STORED


class _Order:
    """Requests of one connection that wait for a long check, and what those of this pass of the
    loop have cost; in the state of its session."""

    def __init__(self) -> None:
        self.waiting: deque[_Produce] = deque()
        self.task: asyncio.Task[None] | None = None
        self.spent = 0
        self.renews = False

    def renew_soon(self) -> None:
        """In the next pass of the loop."""
        self.renews = True
        asyncio.get_running_loop().call_soon(self.renew)

    def renew(self) -> None:
        """Another pass of the loop, or another piece."""
        self.spent, self.renews = 0, False


def handle(services: Services, call: KafkaCall) -> None:
    """Check and put what is short at once, or after what the connection sent before."""
    order = call.session.state.get(_Order)
    if order is None:
        order = call.session.state[_Order] = _Order()
    produce = _Produce(services, call, order)
    if call.items <= SHORT_ITEMS:
        produce.take_all()
        if order.task is None and produce.advance():
            return
    order.waiting.append(produce)
    if order.task is None:
        order.task = asyncio.get_running_loop().create_task(_run(order))


async def _run(order: _Order) -> None:
    try:
        while order.waiting:
            produce = order.waiting[0]
            try:
                await produce.finish()
            except Exception as error:
                _log.exception("PRODUCE failed with an internal error", exc_info=error)
                produce.fail(error)
            order.waiting.popleft()
    finally:
        order.task = None


class _Produce:
    """One request, from its bytes to its answer."""

    def __init__(self, services: Services, call: KafkaCall, order: _Order) -> None:
        self._services, self._call, self._order = services, call, order
        self._throttle_ms, self._leaders = 0, NewLeaders(services)
        self._parts: list[_Part] = []
        self._topics: list[TopicProduceResponse] = []
        self._next = 0  # of the parts
        self._key: str | bytes | None = None  # of the topic that was found last
        self._topic: Topic | TalosError
        self._taken = False  # all parts of the request are here
        self._left = 1  # none answers before all are put
        self._refusal: RefusedRecords | None = None  # of the whole request
        request = call.request
        if request.acks not in ACKS:
            text = f"acks={request.acks}"
            self._refusal = RefusedRecords(ErrorCode.INVALID_REQUIRED_ACKS, text)
        elif request.transactional_id is not None:
            text = "transactions are not served"
            self._refusal = RefusedRecords(ErrorCode.INVALID_TXN_STATE, text)

    def take_all(self) -> None:
        """Take the parts of the request, which are few."""
        for topic in self._call.request.topic_data:
            self._take(self._answer(topic), topic.partition_data)
        self._taken = True

    async def _take_pieces(self) -> None:
        for topic in self._call.request.topic_data:
            answer, parts = self._answer(topic), topic.partition_data
            for start in range(0, max(1, len(parts)), SHORT_ITEMS):
                some = parts[start : start + SHORT_ITEMS]
                await self._call.piece(1 + len(some))
                self._take(answer, some)
        self._taken = True

    def _answer(self, topic: TopicProduceData) -> TopicProduceResponse:
        answer = TopicProduceResponse(
            name=topic.name, topic_id=topic.topic_id, partition_responses=[]
        )
        self._topics.append(answer)
        return answer

    def _take(self, answer: TopicProduceResponse, given: Sequence[PartitionProduceData]) -> None:
        key = answer.name if answer.topic_id == NO_ID else answer.topic_id
        parts = [_Part(key, part) for part in given]
        self._parts += parts
        answer.partition_responses += [part.answer for part in parts]
        if self._refusal is None:
            self._left += len(parts)
            return
        for part in parts:
            part.refuse(self._refusal)
        self._next = len(self._parts)

    # --- checks ------------------------------------------------------------------------------

    def advance(self) -> bool:
        """Check and put parts until all are; False: the piece ends before, or one takes long.

        The last one that is durable or refused answers the call.
        """
        order, deadline_ms = self._order, self._deadline_ms()
        for part in self._parts[self._next :] if self._next else self._parts:
            if part.received is not None or order.spent >= PIECE_COST:
                return False
            cost = self._check_part(part)
            if not cost:
                return False
            order.spent += cost + _PART_COST
            if order.spent > EASY_BYTES and not order.renews:
                order.renew_soon()
            self._next += 1
            self._put(part, deadline_ms)
        self._done(1)
        return True

    async def finish(self) -> None:
        """The rest in pieces, each in a turn of its own, so that others have theirs in between."""
        if not self._taken:
            await self._take_pieces()
        tenant, work = self._call.session.tenant, self._services.broker.context.work
        while self._next < len(self._parts):
            async with work.turn(tenant, patient=True) as turn:
                if self._parts[self._next].received is None:
                    await turn.pause()
                    self._order.renew()
                    if self.advance():
                        return
                part = self._parts[self._next]
                if part.received is not None:
                    await self._check_long(part, part.received, turn)
        self.advance()

    async def _check_long(self, part: _Part, received: ReceivedBatch, turn: Turn) -> None:
        assert part.route is not None
        try:
            # Since it was asked, others may have taken what there was.
            routes = self._services.broker.messages.routes
            routes.check_room(part.route, len(part.records or b""))
            await turn.off_loop(prove_records, received)
        except TalosError as error:
            self._set_error(part, error)
            part.received = None
        except RefusedRecords as error:
            part.refuse(error)
        part.route = None  # it may not hold any more
        self._next += 1
        self._put(part, self._deadline_ms())

    def _deadline_ms(self) -> int:
        """Of puts that begin now; 0: none."""
        timeout_ms = self._call.request.timeout_ms
        return self._services.broker.context.clock.wall_ms() + timeout_ms if timeout_ms > 0 else 0

    def _check_part(self, part: _Part) -> int:
        """Decide whether the client may put there, then check what it sent.

        Returns: the cost, of which ``prove_now`` has the unit; 0: it takes long.
        """
        topic = self._topic if part.key is self._key else self._find(part.key)
        if isinstance(topic, TalosError):
            self._set_error(part, topic)
            return _PART_COST
        part.topic = topic
        try:
            routes = self._services.broker.messages.routes
            part.route = routes.find(self._call.caller, topic.resource, part.answer.index)
            if is_packed(part.records):
                routes.check_room(part.route, len(part.records or b""))
            received = read_batch(part.records)
            if received.head.producer_id > PRODUCER_ID_MAX:
                text = f"the producer id {received.head.producer_id} is none of this server"
                raise RefusedRecords(ErrorCode.INVALID_PRODUCER_ID_MAPPING, text)
            part.received = received
            return prove_now(received)
        except TalosError as error:
            self._set_error(part, error)
            return _PART_COST
        except RefusedRecords as error:
            # Of a batch that was read, all that is easy may have come out before.
            cost = reading_cost(part.records)
            if part.received is not None:
                cost += EASY_BYTES + unpacking_cost(part.received)
            part.refuse(error)
            return cost

    def _find(self, key: str | bytes) -> Topic | TalosError:
        """The topic of parts that follow each other, or why the client may not put there."""
        self._key = key
        try:
            self._topic = named_topic(self._services, self._call, Permission.PUT_MESSAGE, key)
        except TalosError as error:
            self._topic = error
        return self._topic

    # --- storing -----------------------------------------------------------------------------

    def _put(self, part: _Part, deadline_ms: int) -> None:
        """Put a part that was not refused."""
        topic, received = part.topic, part.received
        if topic is None or received is None:
            self._done(1)
            return
        head, stamp = received.head, None
        if head.producer_id > 0:
            stamp = ProducerStamp(head.producer_id, head.producer_epoch, head.sequence)
        caller = self._call.caller
        block = MessageBlock(
            received.payload,
            head.records,
            create_ms=max(0, head.first_ms),
            format=PayloadFormat.KAFKA,
            principal=caller.number,
            producer=stamp,
        )
        target = PutTarget(topic.resource, part.answer.index, deadline_ms)
        waiter = partial(self._stored, part, topic)
        try:
            self._services.broker.messages.put(caller, target, [block], waiter, part.route)
        except TalosError as error:
            self._set_error(part, error)
            self._done(1)

    def _stored(
        self, part: _Part, topic: Topic, offset: BaseOffset, error: TalosError | None
    ) -> None:
        """A block is durable, or not, or nobody knows."""
        answer = part.answer
        if error is None:
            answer.base_offset = int(offset)
            if offset < 0 and isinstance(offset, StoredBefore):
                answer.error_code = int(ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
        else:
            self._set_error(part, error)
        self._set_start(topic, answer)
        self._done(1)

    def _set_error(self, part: _Part, error: TalosError) -> None:
        answer = part.answer
        idempotent = part.received is not None and part.received.head.producer_id > 0
        code = missing_code(error, part.key) or put_code(error, idempotent=idempotent)
        answer.error_code, answer.error_message = int(code), str(error)
        self._name_leader(part, error)
        if isinstance(error, ThrottleRejected):
            wait_s = self._services.broker.context.config.quota.throttle_max_s
            self._throttle_ms = int(wait_s * 1000)

    def _name_leader(self, part: _Part, error: TalosError) -> None:
        """Where the client should go instead."""
        if not isinstance(error, NotOwner) or part.topic is None:
            return
        found = self._leaders.of(part.topic, part.answer.index, error)
        leader = part.answer.current_leader
        leader.leader_id, leader.leader_epoch = found

    def _set_start(self, topic: Topic, answer: PartitionProduceResponse) -> None:
        """The log's start, by which clients decide what a gap in their sequence means."""
        with suppress(TalosError):
            log = self._services.broker.context.partition_log(topic, answer.index)
            answer.log_start_offset = log.range().start

    def _done(self, count: int) -> None:
        self._left -= count
        if self._left or self._call.answered:
            return
        if not self._call.request.acks:
            # Nothing is answered, so only the end of the connection says that records are lost.
            self._call.session.ends |= any(part.lost for part in self._parts)
            self._call.answer_raw([])
            return
        call, topics, throttle_ms = self._call, self._topics, self._throttle_ms
        nodes = self._leaders.nodes
        if not nodes:
            raw = write_produced(call.version, call.header.correlation_id, topics, throttle_ms)
            if raw is not None:
                call.answer_raw([raw])
                return
        response = ProduceResponse(
            responses=topics,
            throttle_time_ms=throttle_ms,
            node_endpoints=[
                NodeEndpoint(node_id=node.number, host=node.host, port=node.port, rack=None)
                for node in nodes
            ],
        )
        call.answer(response)

    def fail(self, error: Exception) -> None:
        """Answer after a defect of ours: nobody knows what is stored."""
        for part in self._parts:
            part.answer.error_code = int(code_of(error))
        self._left = 1
        self._done(1)


def put_code(error: TalosError, *, idempotent: bool) -> ErrorCode:
    """The code of a put that failed. Clients repeat by themselves what may be repeated."""
    if isinstance(error, OutcomeUnknown):
        return ErrorCode.REQUEST_TIMED_OUT if idempotent else ErrorCode.UNKNOWN_SERVER_ERROR
    if isinstance(error, SequenceGap) and not error.producer_known:
        return ErrorCode.UNKNOWN_PRODUCER_ID
    if isinstance(error, PartitionNotServing | StorageFull | CorruptLog):
        return code_of(error)
    if isinstance(error, Unavailable):
        return ErrorCode.NOT_ENOUGH_REPLICAS  # the one that says: not stored, try again
    return code_of(error)
