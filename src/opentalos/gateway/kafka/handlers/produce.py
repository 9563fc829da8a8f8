"""Produce: each partition's batch becomes one block of the log; answered once all are durable.

Batches of one connection reach the log in their order. What takes long to check is checked on a
thread, and later requests of the connection wait for it.

An answer says stored, not stored, or unknown (promise I7). Not stored has a code that clients
retry. Unknown has one only where the producer is idempotent; else the client must not send the
batch again by itself, as it would be stored twice.

Source: docs/adr/0061-kafka-records.md; KIP-98 (sequences), KIP-467 (record errors), KIP-951 (new
leaders).
"""

import asyncio
import logging
from collections import deque
from contextlib import suppress
from functools import partial
from typing import Final, NamedTuple

from opentalos.broker.messaging.messages import PutTarget
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
from opentalos.wire.kafka._generated.produce_request import PartitionProduceData
from opentalos.wire.kafka._generated.produce_response import (
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from opentalos.wire.kafka.errors import ErrorCode
from opentalos.wire.kafka.produce_codec import write_produced
from opentalos.wire.kafka.records import (
    ReceivedBatch,
    RefusedRecords,
    prove_now,
    prove_records,
    read_batch,
)

ACKS: Final = (-1, 0, 1)  # all the same here: durable as the topic says

_STORED: Final = (int(ErrorCode.NONE), int(ErrorCode.DUPLICATE_SEQUENCE_NUMBER))

_log = logging.getLogger("opentalos.kafka")


class _Part(NamedTuple):
    """One partition of a request."""

    key: str | bytes  # of its topic
    answer: PartitionProduceResponse
    received: ReceivedBatch | None  # None: refused already
    proven: bool

    @property
    def lost(self) -> bool:
        """Whether its records are not stored, or nobody knows."""
        return self.answer.error_code not in _STORED


class _Order:
    """Requests of one connection that wait for a long check; in the state of its session."""

    def __init__(self) -> None:
        self.waiting: deque[_Produce] = deque()
        self.task: asyncio.Task[None] | None = None


def handle(services: Services, call: KafkaCall) -> None:
    """Check what is short, then store it at once, or after what the connection sent before."""
    order = call.session.state.get(_Order)
    if order is None:
        order = call.session.state[_Order] = _Order()
    produce = _Produce(services, call)
    if order.task is None and produce.proven:
        produce.store()
        return
    order.waiting.append(produce)
    if order.task is None:
        order.task = asyncio.get_running_loop().create_task(_run(order))


async def _run(order: _Order) -> None:
    try:
        while order.waiting:
            produce = order.waiting[0]
            try:
                await produce.prove()
                produce.store()
            except Exception as error:
                _log.exception("PRODUCE failed with an internal error", exc_info=error)
                produce.fail(error)
            order.waiting.popleft()
    finally:
        order.task = None


class _Produce:
    """One request, from its bytes to its answer."""

    def __init__(self, services: Services, call: KafkaCall) -> None:
        self._services, self._call = services, call
        self._throttle_ms, self._leaders = 0, NewLeaders(services)
        self._parts: list[_Part] = []
        self._topics: list[TopicProduceResponse] = []
        request = call.request
        refused = None
        if request.acks not in ACKS:
            text = f"acks={request.acks}"
            refused = RefusedRecords(ErrorCode.INVALID_REQUIRED_ACKS, text)
        elif request.transactional_id is not None:
            text = "transactions are not served"
            refused = RefusedRecords(ErrorCode.INVALID_TXN_STATE, text)
        for topic in request.topic_data:
            key = topic.name if topic.topic_id == NO_ID else topic.topic_id
            parts = [self._part(key, part, refused) for part in topic.partition_data]
            self._parts += parts
            answers = [part.answer for part in parts]
            self._topics.append(
                TopicProduceResponse(
                    name=topic.name, topic_id=topic.topic_id, partition_responses=answers
                )
            )
        self._left = len(self._parts)

    def _part(
        self, key: str | bytes, part: PartitionProduceData, refused: RefusedRecords | None
    ) -> _Part:
        answer = PartitionProduceResponse(index=part.index, base_offset=-1)
        try:
            if refused is not None:
                raise refused
            received = read_batch(part.records)
            if received.head.producer_id > PRODUCER_ID_MAX:
                text = f"the producer id {received.head.producer_id} is none of this server"
                raise RefusedRecords(ErrorCode.INVALID_PRODUCER_ID_MAPPING, text)
            return _Part(key, answer, received, prove_now(received))
        except RefusedRecords as error:
            answer.error_code, answer.error_message = int(error.code), str(error)
            return _Part(key, answer, None, True)

    @property
    def proven(self) -> bool:
        """Whether nothing is left to check."""
        return all(part.proven for part in self._parts)

    async def prove(self) -> None:
        """Check on a thread what takes long."""
        caller, work = self._call.caller.id, self._services.broker.context.work
        for index, part in enumerate(self._parts):
            if part.proven or part.received is None:
                continue
            try:
                async with work.turn(caller, patient=True) as turn:
                    await turn.off_loop(prove_records, part.received)
                self._parts[index] = part._replace(proven=True)
            except RefusedRecords as error:
                part.answer.error_code, part.answer.error_message = int(error.code), str(error)
                self._parts[index] = part._replace(received=None, proven=True)

    def store(self) -> None:
        """Put every block; the last one that is done answers the call."""
        self._left += 1  # so that none of them answers before all are put
        deadline_ms = 0
        if self._call.request.timeout_ms > 0:
            now_ms = self._services.broker.context.clock.wall_ms()
            deadline_ms = now_ms + self._call.request.timeout_ms
        for part in self._parts:
            if part.received is None:
                self._done(1)
                continue
            try:
                self._put(part, part.received, deadline_ms)
            except TalosError as error:
                self._stored(part, None, -1, error)
        self._done(1)

    def _put(self, part: _Part, received: ReceivedBatch, deadline_ms: int) -> None:
        services, caller, head = self._services, self._call.caller, received.head
        topic = named_topic(services, self._call, Permission.PUT_MESSAGE, part.key)
        stamp = None
        if head.producer_id > 0:
            stamp = ProducerStamp(head.producer_id, head.producer_epoch, head.sequence)
        block = MessageBlock(
            received.payload,
            head.records,
            create_ms=max(0, head.first_ms),
            format=PayloadFormat.KAFKA,
            principal=caller.number,
            producer=stamp,
        )
        target = PutTarget(topic.resource, part.answer.index, deadline_ms)
        services.broker.messages.put(caller, target, [block], partial(self._stored, part, topic))

    def _stored(
        self, part: _Part, topic: Topic | None, offset: BaseOffset, error: TalosError | None
    ) -> None:
        """A block is durable, or not, or nobody knows. ``topic``: it was put there."""
        answer = part.answer
        if error is None:
            answer.base_offset = int(offset)
            if offset < 0 and isinstance(offset, StoredBefore):
                answer.error_code = int(ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
        else:
            idempotent = part.received is not None and part.received.head.producer_id > 0
            code = missing_code(error, part.key) or put_code(error, idempotent=idempotent)
            answer.error_code, answer.error_message = int(code), str(error)
            self._name_leader(part, error)
            if isinstance(error, ThrottleRejected):
                wait_s = self._services.broker.context.config.quota.throttle_max_s
                self._throttle_ms = int(wait_s * 1000)
        if topic is not None:
            self._set_start(topic, answer)
        self._done(1)

    def _name_leader(self, part: _Part, error: TalosError) -> None:
        """Where the client should go instead."""
        if not isinstance(error, NotOwner):
            return
        try:
            topic = named_topic(self._services, self._call, Permission.PUT_MESSAGE, part.key)
        except TalosError:
            return
        leader = part.answer.current_leader
        leader.leader_id, leader.leader_epoch = self._leaders.of(topic, part.answer.index, error)

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
