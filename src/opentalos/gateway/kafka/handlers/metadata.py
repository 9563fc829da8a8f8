"""Metadata and DescribeTopicPartitions: topics, their partitions, and which server leads each."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from heapq import merge
from typing import Any, NamedTuple, cast

from opentalos.broker.cluster.kafka_nodes import Leaders
from opentalos.broker.cluster.ownership import NO_EPOCH
from opentalos.broker.values import NewTopic, Topic
from opentalos.gateway.kafka.call import KafkaCall
from opentalos.gateway.kafka.errors import code_of
from opentalos.gateway.kafka.gateway import Services
from opentalos.gateway.kafka.handlers.cluster import cluster_operations, this_node
from opentalos.gateway.kafka.names import NO_ID, id_of, is_internal, just_made, name_of
from opentalos.model.errors import PermissionDenied, TalosError, TopicExists, TopicNotExist
from opentalos.model.identity import Permission, Principal
from opentalos.model.settings.partitioning import with_partitioner
from opentalos.wire.kafka._generated.describe_topic_partitions_request import (
    DescribeTopicPartitionsRequest,
)
from opentalos.wire.kafka._generated.describe_topic_partitions_response import (
    Cursor,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from opentalos.wire.kafka._generated.metadata_request import (
    MetadataRequest,
    MetadataRequestTopic,
)
from opentalos.wire.kafka._generated.metadata_response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from opentalos.wire.kafka.codec import EncodedItems, encode
from opentalos.wire.kafka.errors import ErrorCode
from opentalos.wire.kafka.pace import WRITTEN_BYTES_MAX, MessageTooLarge

UNKNOWN_LEADER = -1
IDS_FROM = 12  # of Metadata: from this version on topics may be named by their ids
PIECE = 64  # partitions that are encoded at once
_COST = 4  # of a topic or partition, in items of a piece
_SORTED_AT_ONCE = 1_024  # names
PARTITIONS_MAX = 2_000  # in one answer to DescribeTopicPartitions
# Bits of Kafka's operations on a topic. Source: AclOperation of Apache Kafka 4.3.
_READ, _WRITE, _DELETE, _ALTER, _DESCRIBE = 1 << 3, 1 << 4, 1 << 6, 1 << 7, 1 << 8
_DESCRIBE_CONFIGS, _ALTER_CONFIGS = 1 << 10, 1 << 11


async def handle(services: Services, call: KafkaCall) -> MetadataResponse:
    """Servers, and the topics that are asked for; null, or in version 0 none: all topics."""
    request: MetadataRequest = call.request
    wanted = request.topics
    if call.version < IDS_FROM and any(await call.each(wanted or (), _needs_ids)):
        return await _refused(call, wanted or ())
    topics = _Topics(call)
    if wanted is None or (call.version == 0 and not wanted):
        for topic in await services.broker.overview.usable_topics(call.caller):
            await topics.add(_listed(services, call, topic))
    else:
        asked: set[tuple[bytes, str | None]] = set()
        for item in wanted:
            await call.piece(_COST)
            key = (item.topic_id, item.name)
            if key in asked:
                continue
            asked.add(key)
            if item.name is None:
                await topics.add(_by_id(services, call, item.topic_id))
            else:
                await topics.add(await _by_name(services, call, item.name))
    response = MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=node.number, host=node.host, port=node.port)
            for node in services.broker.kafka_nodes.nodes()
        ],
        cluster_id=services.cluster,
        controller_id=this_node(services),
        topics=cast(Any, topics.encoded),
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = cluster_operations(call.caller)
    return response


def _needs_ids(item: MetadataRequestTopic) -> bool:
    return item.name is None or item.topic_id != NO_ID


async def _refused(call: KafkaCall, wanted: Sequence[MetadataRequestTopic]) -> MetadataResponse:
    """Versions 10 and 11 have fields for ids that nobody may use. Source: Apache Kafka 4.3 refuses
    the whole request so; the name in the answer may not be null."""
    code = int(ErrorCode.INVALID_REQUEST)

    def refused(item: MetadataRequestTopic) -> MetadataResponseTopic:
        return MetadataResponseTopic(
            error_code=code, name=item.name or "", topic_id=item.topic_id, partitions=[]
        )

    return MetadataResponse(brokers=[], topics=await call.each(wanted, refused))


class _Listed(NamedTuple):
    """A topic, and where its partitions are."""

    topic: MetadataResponseTopic
    leaders: Leaders = Leaders(NO_EPOCH, ())


class _Topics:
    """Topics of an answer, encoded in pieces: there may be very many partitions."""

    def __init__(self, call: KafkaCall) -> None:
        self._call, self._count, self._out = call, 0, bytearray()

    @property
    def encoded(self) -> EncodedItems:
        """All of them."""
        return EncodedItems(self._count, self._out)

    async def add(self, listed: _Listed) -> None:
        """Append a topic. Raises: MessageTooLarge."""
        topic, leaders = listed
        out, version, count = bytearray(), self._call.version, len(leaders.numbers)
        for start in range(0, max(1, count), PIECE):
            piece = range(start, min(start + PIECE, count))
            await self._call.piece(_COST * (1 + len(piece)))
            for number in piece:
                encode(_partition(number, leaders.numbers[number], leaders.epoch), version, out)
        topic.partitions = cast(Any, EncodedItems(count, out))
        encode(topic, version, self._out)
        self._count += 1
        if len(self._out) > WRITTEN_BYTES_MAX:
            raise MessageTooLarge(f"more than {WRITTEN_BYTES_MAX} bytes")


def _listed(services: Services, call: KafkaCall, topic: Topic) -> _Listed:
    return _described(services, call, topic, name_of(services, call.caller, topic))


def _by_id(services: Services, call: KafkaCall, topic_id: bytes) -> _Listed:
    overview = services.broker.overview
    try:
        topic = overview.usable_topic_of_uuid(call.caller, topic_id.hex())
    except TopicNotExist:
        code = int(ErrorCode.UNKNOWN_TOPIC_ID)
        return _Listed(MetadataResponseTopic(error_code=code, name=None, topic_id=topic_id))
    return _listed(services, call, topic)


async def _by_name(services: Services, call: KafkaCall, name: str) -> _Listed:
    """Under the name that the client knows."""
    try:
        topic = await _found(services, call.caller, name)
        if topic is None:
            auto = services.port.settings.auto_create_topics
            if not (auto and call.request.allow_auto_topic_creation):
                return _missing(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            topic = await _made(services, call.caller, name)
    except (TopicExists, PermissionDenied):
        # It is nobody's business that there is one.
        return _missing(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    except TalosError as error:
        return _missing(name, code_of(error))
    return _described(services, call, topic, name)


async def _found(services: Services, caller: Principal, name: str) -> Topic | None:
    """None: it does not exist. Raises: InvalidName, Unavailable."""
    usable_topic = services.broker.overview.usable_topic
    try:
        return usable_topic(caller, name)
    except TopicNotExist as error:
        if not await just_made(services, error):
            return None
    try:
        return usable_topic(caller, name)
    except TopicNotExist:
        return None


async def _made(services: Services, caller: Principal, name: str) -> Topic:
    """Raises: TalosError."""
    limits = services.broker.context.config.topic
    new = NewTopic(name=name, partitions=limits.partitions_default, attributes=with_partitioner({}))
    return await services.broker.topics.create_topic(caller, new)


def _missing(name: str, code: ErrorCode) -> _Listed:
    return _Listed(MetadataResponseTopic(error_code=int(code), name=name, topic_id=NO_ID))


def _described(services: Services, call: KafkaCall, topic: Topic, name: str) -> _Listed:
    described = MetadataResponseTopic(
        name=name,
        topic_id=id_of(topic),
        is_internal=is_internal(topic),
    )
    if call.request.include_topic_authorized_operations:
        described.topic_authorized_operations = _operations(services, call.caller, topic)
    return _Listed(described, services.broker.kafka_nodes.leaders(topic.uuid, topic.partitions))


def _partition(number: int, leader: int, epoch: int) -> MetadataResponsePartition:
    """Storage replicates, not servers: the leader is the only replica that clients know of."""
    if leader == UNKNOWN_LEADER:
        return MetadataResponsePartition(
            error_code=int(ErrorCode.LEADER_NOT_AVAILABLE),
            partition_index=number,
            leader_id=UNKNOWN_LEADER,
            leader_epoch=epoch,
        )
    return MetadataResponsePartition(
        partition_index=number,
        leader_id=leader,
        leader_epoch=epoch,
        replica_nodes=[leader],
        isr_nodes=[leader],
    )


def _operations(services: Services, caller: Principal, topic: Topic) -> int:
    allowed = services.broker.overview.permissions(caller, topic)
    bits = _DESCRIBE
    for permission, operations in (
        (Permission.GET_MESSAGE, _READ),
        (Permission.PUT_MESSAGE, _WRITE),
        (Permission.DESCRIBE_TOPIC, _DESCRIBE_CONFIGS),
        (Permission.CHANGE_TOPIC, _DELETE | _ALTER | _ALTER_CONFIGS),
    ):
        if permission in allowed:
            bits |= operations
    return bits


async def describe_partitions(
    services: Services, call: KafkaCall
) -> DescribeTopicPartitionsResponse:
    """Topics in the order of their names, a bounded number of partitions, and where to go on."""
    request: DescribeTopicPartitionsRequest = call.request
    caller, left = call.caller, min(PARTITIONS_MAX, max(1, request.response_partition_limit))
    response = DescribeTopicPartitionsResponse(topics=[])
    cursor = request.cursor
    known = None if request.topics else await _usable_by_name(services, call)
    before = None
    for name in await _in_order(call, known or [item.name for item in request.topics]):
        await call.piece(_COST)
        if name == before or (cursor is not None and name < cursor.topic_name):
            continue
        before = name
        first = cursor.partition_index if cursor and name == cursor.topic_name else 0
        if not left:
            response.next_cursor = Cursor(topic_name=name, partition_index=first)
            break
        topic = known[name] if known is not None else await _by_any_name(services, caller, name)
        if topic is None:
            code = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            response.topics.append(DescribeTopicPartitionsResponseTopic(error_code=code, name=name))
            continue
        leaders = services.broker.kafka_nodes.leaders(topic.uuid, topic.partitions)
        numbers = range(max(0, first), len(leaders.numbers))[:left]
        left -= len(numbers)
        response.topics.append(
            DescribeTopicPartitionsResponseTopic(
                name=name,
                topic_id=id_of(topic),
                is_internal=is_internal(topic),
                partitions=await call.each(numbers, partial(_partition_of, leaders)),
                topic_authorized_operations=_operations(services, caller, topic),
            )
        )
        if numbers.stop < len(leaders.numbers):
            response.next_cursor = Cursor(topic_name=name, partition_index=numbers.stop)
            break
    return response


async def _usable_by_name(services: Services, call: KafkaCall) -> Mapping[str, Topic]:
    usable = await services.broker.overview.usable_topics(call.caller)
    return dict(
        await call.each(usable, lambda topic: (name_of(services, call.caller, topic), topic))
    )


async def _by_any_name(services: Services, caller: Principal, name: str) -> Topic | None:
    """None: there is none that the caller may use."""
    try:
        return await _found(services, caller, name)
    except TalosError:
        return None


async def _in_order(call: KafkaCall, names: Iterable[str]) -> Iterator[str]:
    """Sorted in pieces: mostly, only some of the first are needed."""
    whole, runs = list(names), list[list[str]]()
    for start in range(0, len(whole), _SORTED_AT_ONCE):
        await call.piece(_SORTED_AT_ONCE // 4)
        runs.append(sorted(whole[start : start + _SORTED_AT_ONCE]))
    return merge(*runs)


def _partition_of(leaders: Leaders, number: int) -> DescribeTopicPartitionsResponsePartition:
    leader, epoch = leaders.numbers[number], leaders.epoch
    known = leader != UNKNOWN_LEADER
    return DescribeTopicPartitionsResponsePartition(
        error_code=int(ErrorCode.NONE if known else ErrorCode.LEADER_NOT_AVAILABLE),
        partition_index=number,
        leader_id=leader,
        leader_epoch=epoch,
        replica_nodes=[leader] if known else [],
        isr_nodes=[leader] if known else [],
        eligible_leader_replicas=[],  # Java's clients fail on null
        last_known_elr=[],
    )
