"""Positions of groups: OffsetCommit, OffsetFetch, OffsetDelete.

A topic is named, or from version 10 on by its id. Source: Apache Kafka 4.3, protocol guide.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final, Protocol

from opentalos.broker.groups.kafka.offsets import (
    CommittedOffset,
    Committer,
    OffsetToCommit,
    Outcome,
)
from opentalos.broker.groups.kafka.requests import MemberId
from opentalos.broker.groups.kafka.scope import GroupScope
from opentalos.broker.values import Topic
from opentalos.gateway.kafka.call import KafkaCall
from opentalos.gateway.kafka.errors import code_of
from opentalos.gateway.kafka.gateway import Services
from opentalos.gateway.kafka.handlers.group.group_errors import group_code, outcome_code
from opentalos.gateway.kafka.handlers.group.group_tools import COST
from opentalos.gateway.kafka.names import id_of, name_of, topic_of, topic_of_id
from opentalos.model.errors import NothingThere, TalosError, Unavailable
from opentalos.model.identity import Permission
from opentalos.wire.kafka._generated.offset_commit_request import OffsetCommitRequest
from opentalos.wire.kafka._generated.offset_commit_response import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from opentalos.wire.kafka._generated.offset_delete_request import OffsetDeleteRequest
from opentalos.wire.kafka._generated.offset_delete_response import (
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from opentalos.wire.kafka._generated.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from opentalos.wire.kafka._generated.offset_fetch_response import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from opentalos.wire.kafka.errors import ErrorCode

IDS: Final = 10  # from this version on topics have ids instead of names
SEVERAL_GROUPS: Final = 8  # from this version of OffsetFetch on
NO_POSITION: Final = -1


class NamedTopic(Protocol):
    """A topic in a request."""

    name: str
    topic_id: bytes


def _topic(services: Services, call: KafkaCall, named: NamedTopic) -> Topic:
    """Raises: TopicNotExist, PermissionDenied, InvalidName."""
    action = Permission.GET_MESSAGE
    if call.version >= IDS:
        return topic_of_id(services, call.caller, action, named.topic_id)
    return topic_of(services, call.caller, action, named.name)


def _topic_code(call: KafkaCall, error: TalosError) -> int:
    if call.version >= IDS and isinstance(error, NothingThere):
        return int(ErrorCode.UNKNOWN_TOPIC_ID)
    return int(code_of(error))


async def commit(services: Services, call: KafkaCall) -> OffsetCommitResponse:
    """Each partition has an outcome of its own."""
    request: OffsetCommitRequest = call.request
    committer = Committer(
        group=request.group_id,
        who=MemberId(request.member_id, request.group_instance_id),
        generation=request.generation_id_or_member_epoch,
    )
    offsets: list[OffsetToCommit] = []
    codes: dict[int, int] = {}  # of topics that cannot be committed, by their place
    for place, named in enumerate(request.topics):
        await call.piece()
        try:
            topic = _topic(services, call, named)
        except TalosError as error:
            codes[place] = _topic_code(call, error)
            continue
        offsets += await call.each(named.partitions, partial(_to_commit, topic))
    outcomes: Sequence[Outcome]
    try:
        outcomes = await services.broker.kafka_groups.offsets.commit(
            call.caller, committer, offsets
        )
    except TalosError as error:
        outcomes = [error] * len(offsets)
    left = iter(outcomes)
    topics: list[OffsetCommitResponseTopic] = []
    for place, named in enumerate(request.topics):
        code = codes.get(place)

        def answered(part: Any, code: int | None = code) -> OffsetCommitResponsePartition:
            return OffsetCommitResponsePartition(
                partition_index=part.partition_index,
                error_code=outcome_code(next(left)) if code is None else code,
            )

        partitions = await call.each(named.partitions, answered)
        topics.append(
            OffsetCommitResponseTopic(
                name=named.name, topic_id=named.topic_id, partitions=partitions
            )
        )
    return OffsetCommitResponse(topics=topics)


def _to_commit(topic: Topic, part: Any) -> OffsetToCommit:
    text = part.committed_metadata or ""
    return OffsetToCommit(topic, part.partition_index, part.committed_offset, text)


async def fetch(services: Services, call: KafkaCall) -> OffsetFetchResponse:
    """Positions of groups: of the partitions that are named, or of all."""
    request: OffsetFetchRequest = call.request
    if call.version >= SEVERAL_GROUPS:
        asked = {group.group_id: group for group in request.groups}
        whole = [group.group_id for group in asked.values() if group.topics is None]
        scope = services.broker.kafka_groups.scope(call.caller, whole)
        groups = []
        for group in asked.values():
            await call.piece(COST)
            groups.append(await _group(services, call, scope, group))
        return OffsetFetchResponse(groups=groups)
    named = request.topics
    group = OffsetFetchRequestGroup(
        group_id=request.group_id,
        topics=None
        if named is None
        else [
            OffsetFetchRequestTopics(name=each.name, partition_indexes=each.partition_indexes)
            for each in named
        ],
    )
    scope = services.broker.kafka_groups.scope(call.caller, [group.group_id])
    found = await _group(services, call, scope, group)
    topics: list[OffsetFetchResponseTopic] = []
    for topic in found.topics:
        partitions = await call.each(topic.partitions, _of_one_group)
        topics.append(OffsetFetchResponseTopic(name=topic.name, partitions=partitions))
    return OffsetFetchResponse(topics=topics, error_code=found.error_code)


def _of_one_group(part: OffsetFetchResponsePartitions) -> OffsetFetchResponsePartition:
    return OffsetFetchResponsePartition(
        partition_index=part.partition_index,
        committed_offset=part.committed_offset,
        metadata=part.metadata,
        error_code=part.error_code,
    )


async def _group(
    services: Services, call: KafkaCall, scope: GroupScope, group: OffsetFetchRequestGroup
) -> OffsetFetchResponseGroup:
    try:
        refusal = services.broker.kafka_groups.offsets.check_epoch(
            call.caller, group.group_id, group.member_id, group.member_epoch
        )
        if refusal is not None:
            code = outcome_code(refusal)
            return OffsetFetchResponseGroup(group_id=group.group_id, error_code=code)
        if group.topics is None:
            topics = await _all(services, call, scope, group.group_id)
        else:
            topics = [await _of_topic(services, call, group.group_id, t) for t in group.topics]
    except TalosError as error:
        # Clients repeat this one; of the others they only know that of a wrong coordinator.
        waits = isinstance(error, Unavailable)
        code = group_code(error)
        if waits and code != ErrorCode.NOT_COORDINATOR:
            code = int(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return OffsetFetchResponseGroup(group_id=group.group_id, error_code=code)
    return OffsetFetchResponseGroup(group_id=group.group_id, topics=topics)


async def _all(
    services: Services, call: KafkaCall, scope: GroupScope, group: str
) -> list[OffsetFetchResponseTopics]:
    await services.broker.context.admin_items.admit(call.caller)  # consumers name topics
    found = await services.broker.kafka_groups.offsets.fetch_all(scope, group)
    return [
        OffsetFetchResponseTopics(
            name=name_of(services, call.caller, topic),
            topic_id=id_of(topic),
            partitions=await _partitions(call, positions, sorted(positions)),
        )
        for topic, positions in found
    ]


async def _of_topic(
    services: Services, call: KafkaCall, group: str, named: OffsetFetchRequestTopics
) -> OffsetFetchResponseTopics:
    code = 0
    positions: Mapping[int, CommittedOffset] = {}
    await call.piece(COST)
    try:
        topic = _topic(services, call, named)
    except NothingThere:  # nothing was committed there; unknown and not granted are alike
        code = int(ErrorCode.UNKNOWN_TOPIC_ID) if call.version >= IDS else 0
    except TalosError as error:
        code = _topic_code(call, error)
    else:
        # An operator's tool asks for all topics, a consumer for those that it begins to read.
        fetch = services.broker.kafka_groups.offsets.fetch
        positions = await fetch(call.caller, group, topic, named.partition_indexes)
    partitions = await _partitions(call, positions, named.partition_indexes, code)
    return OffsetFetchResponseTopics(
        name=named.name, topic_id=named.topic_id, partitions=partitions
    )


async def _partitions(
    call: KafkaCall,
    positions: Mapping[int, CommittedOffset],
    wanted: Sequence[int],
    code: int = 0,
) -> list[OffsetFetchResponsePartitions]:
    def answered(partition: int) -> OffsetFetchResponsePartitions:
        position = positions.get(partition)
        return OffsetFetchResponsePartitions(
            partition_index=partition,
            committed_offset=position.next_offset if position else NO_POSITION,
            metadata=position.metadata if position else "",
            error_code=code,
        )

    return await call.each(wanted, answered)


async def delete(services: Services, call: KafkaCall) -> OffsetDeleteResponse:
    """Forget positions while nobody works in the group."""
    request: OffsetDeleteRequest = call.request
    try:
        call.check()
    except TalosError as error:
        return OffsetDeleteResponse(error_code=group_code(error))
    topics: list[OffsetDeleteResponseTopic] = []
    for named in request.topics:
        answers: list[OffsetDeleteResponsePartition] = []
        await call.piece()
        for part in named.partitions:
            await call.piece(COST)
            code = await _deleted(services, call, named.name, part.partition_index)
            answers.append(
                OffsetDeleteResponsePartition(partition_index=part.partition_index, error_code=code)
            )
        topics.append(OffsetDeleteResponseTopic(name=named.name, partitions=answers))
    codes = {part.error_code for topic in topics for part in topic.partitions}
    whole = {int(ErrorCode.GROUP_ID_NOT_FOUND), int(ErrorCode.NOT_COORDINATOR)}
    if len(codes) == 1 and codes <= whole:
        return OffsetDeleteResponse(error_code=codes.pop())
    return OffsetDeleteResponse(topics=topics)


async def _deleted(services: Services, call: KafkaCall, name: str, partition: int) -> int:
    group = call.request.group_id
    try:
        topic = topic_of(services, call.caller, Permission.GET_MESSAGE, name)
    except TalosError as error:
        return int(code_of(error))
    try:
        outcome = await services.broker.kafka_groups.offsets.delete(
            call.caller, group, topic, partition
        )
    except TalosError as error:
        return group_code(error)
    return outcome_code(outcome)
