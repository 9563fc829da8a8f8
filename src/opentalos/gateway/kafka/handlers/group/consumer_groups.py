"""Groups whose assignments the server decides: ConsumerGroupHeartbeat, ConsumerGroupDescribe.

Source: Apache Kafka 4.3, protocol guide; KIP-848.
"""

from collections.abc import Sequence
from functools import partial
from typing import Final

from opentalos.broker.groups.kafka.hosted_consumer import HostedConsumerGroup
from opentalos.broker.groups.kafka.requests import (
    ConsumerHeartbeat,
    GroupState,
    MemberId,
    Parts,
    TopicPart,
)
from opentalos.broker.groups.kafka.scope import GroupScope
from opentalos.gateway.kafka.call import KafkaCall
from opentalos.gateway.kafka.gateway import Services
from opentalos.gateway.kafka.handlers.group.group_errors import group_code, outcome_code
from opentalos.gateway.kafka.handlers.group.group_tools import COST
from opentalos.gateway.kafka.names import name_of
from opentalos.model.errors import TalosError
from opentalos.wire.kafka._generated import (
    consumer_group_describe_response as described,
)
from opentalos.wire.kafka._generated.consumer_group_describe_request import (
    ConsumerGroupDescribeRequest,
)
from opentalos.wire.kafka._generated.consumer_group_heartbeat_request import (
    ConsumerGroupHeartbeatRequest,
)
from opentalos.wire.kafka._generated.consumer_group_heartbeat_response import (
    Assignment,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from opentalos.wire.kafka.errors import ErrorCode

_CONSUMER_MEMBER: Final = 1  # the type of a member of this protocol


async def heartbeat(services: Services, call: KafkaCall) -> ConsumerGroupHeartbeatResponse:
    """A member joins, stays or leaves, and learns what it may read."""
    request: ConsumerGroupHeartbeatRequest = call.request
    names, regex = request.subscribed_topic_names, request.subscribed_topic_regex
    owned: set[TopicPart] = set()
    for each in request.topic_partitions or ():
        await call.piece()
        part_of = partial(TopicPart, each.topic_id.hex())
        owned.update(await call.each(each.partitions, part_of))
    asked = ConsumerHeartbeat(
        who=MemberId(request.member_id, request.instance_id),
        epoch=request.member_epoch,
        client_id=call.header.client_id or "",
        host=call.session.peer,
        rack=request.rack_id,
        rebalance_s=None
        if request.rebalance_timeout_ms < 0
        else request.rebalance_timeout_ms / 1000,
        names=None if names is None else tuple(names),
        regex=regex,
        assignor=request.server_assignor,
        owned=None if request.topic_partitions is None else frozenset(owned),
    )
    service = services.broker.kafka_groups.consumers
    try:
        found = await service.heartbeat(
            call.caller,
            request.group_id,
            asked,
            lambda topic: name_of(services, call.caller, topic),
        )
    except TalosError as error:
        return ConsumerGroupHeartbeatResponse(
            error_code=group_code(error), error_message=str(error), member_id=request.member_id
        )
    interval_s = services.broker.context.config.kafka_group.heartbeat_s
    return ConsumerGroupHeartbeatResponse(
        error_code=outcome_code(found.refusal),
        error_message=found.text or None,
        member_id=found.member or request.member_id,
        member_epoch=found.epoch,
        heartbeat_interval_ms=round(interval_s * 1000),
        assignment=None
        if found.assignment is None
        else Assignment(
            topic_partitions=[
                TopicPartitions(topic_id=bytes.fromhex(uuid), partitions=partitions)
                for uuid, partitions in await _by_topic(call, found.assignment)
            ]
        ),
    )


async def _by_topic(call: KafkaCall, parts: Parts) -> Sequence[tuple[str, list[int]]]:
    found: dict[str, list[int]] = {}
    for uuid, partition in parts:
        await call.piece()
        found.setdefault(uuid, []).append(partition)
    return [(uuid, sorted(found[uuid])) for uuid in sorted(found)]


async def describe(services: Services, call: KafkaCall) -> described.ConsumerGroupDescribeResponse:
    """Members of groups, what they read, and what they will read."""
    request: ConsumerGroupDescribeRequest = call.request
    scope = services.broker.kafka_groups.scope(call.caller, request.group_ids)
    groups = []
    for group in dict.fromkeys(request.group_ids):
        await call.piece(COST)
        groups.append(await _described(services, call, scope, group))
    return described.ConsumerGroupDescribeResponse(groups=groups)


async def _described(
    services: Services, call: KafkaCall, scope: GroupScope, group: str
) -> described.DescribedGroup:
    listing = services.broker.kafka_groups.listing
    try:
        call.check()
        hosted = listing.find(call.caller, group)
        if hosted is None and await listing.was_server_assigned(scope, group):
            return described.DescribedGroup(group_id=group, group_state=GroupState.EMPTY.value)
    except TalosError as error:
        return described.DescribedGroup(group_id=group, error_code=group_code(error))
    if not isinstance(hosted, HostedConsumerGroup):
        return described.DescribedGroup(
            group_id=group,
            error_code=int(ErrorCode.GROUP_ID_NOT_FOUND),
            error_message=f"no consumer group {group} whose assignments the server decides",
        )
    machine = hosted.machine
    members = []
    for name, member in list(machine.members.items()):
        assigned, target = member.assigned, machine.target.get(name, frozenset())
        await call.piece(1 + len(member.names))
        members.append(
            described.Member(
                member_id=name,
                instance_id=member.who.instance,
                rack_id=member.rack,
                member_epoch=member.epoch,
                client_id=member.client_id,
                client_host=member.host,
                subscribed_topic_names=list(member.names),
                subscribed_topic_regex=member.regex,
                assignment=await _assignment(services, call, hosted, assigned),
                target_assignment=await _assignment(services, call, hosted, target),
                member_type=_CONSUMER_MEMBER,
            )
        )
    return described.DescribedGroup(
        group_id=group,
        group_state=hosted.state.value,
        group_epoch=machine.epoch,
        assignment_epoch=machine.target_epoch,
        assignor_name=machine.assignor,
        members=members,
    )


async def _assignment(
    services: Services, call: KafkaCall, hosted: HostedConsumerGroup, parts: Parts
) -> described.Assignment:
    listed = [
        described.TopicPartitions(
            topic_id=bytes.fromhex(uuid),
            topic_name=name_of(services, call.caller, hosted.topics[uuid]),
            partitions=partitions,
        )
        for uuid, partitions in await _by_topic(call, parts)
        if uuid in hosted.topics
    ]
    return described.Assignment(topic_partitions=listed)
