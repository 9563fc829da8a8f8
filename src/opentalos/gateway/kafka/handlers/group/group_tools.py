"""Groups for tools: DescribeGroups, ListGroups, DeleteGroups.

Source: Apache Kafka 4.3, protocol guide; KIP-518 (states), KIP-848 (types).
"""

from typing import Final

from opentalos.broker.groups.kafka.consumer_protocol import CONSUMER, write_assignment
from opentalos.broker.groups.kafka.listing import WORKERS, WorkersGroup
from opentalos.broker.groups.kafka.requests import DescribedMember, GroupState
from opentalos.broker.groups.kafka.scope import GroupScope
from opentalos.gateway.kafka.call import KafkaCall
from opentalos.gateway.kafka.gateway import Services
from opentalos.gateway.kafka.handlers.group.group_errors import group_code
from opentalos.gateway.kafka.names import name_of
from opentalos.model.errors import TalosError
from opentalos.wire.kafka._generated.delete_groups_request import DeleteGroupsRequest
from opentalos.wire.kafka._generated.delete_groups_response import (
    DeletableGroupResult,
    DeleteGroupsResponse,
)
from opentalos.wire.kafka._generated.describe_groups_request import DescribeGroupsRequest
from opentalos.wire.kafka._generated.describe_groups_response import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsResponse,
)
from opentalos.wire.kafka._generated.list_groups_request import ListGroupsRequest
from opentalos.wire.kafka._generated.list_groups_response import ListedGroup, ListGroupsResponse
from opentalos.wire.kafka.errors import ErrorCode

UNKNOWN_IS_AN_ERROR: Final = 6  # from this version of DescribeGroups on
COST: Final = 16  # of looking at a group, in items of a piece


async def describe(services: Services, call: KafkaCall) -> DescribeGroupsResponse:
    """Members of groups; workers of our own protocol are shown as members."""
    request: DescribeGroupsRequest = call.request
    scope = services.broker.kafka_groups.scope(call.caller, request.groups)
    groups: list[DescribedGroup] = []
    for group in dict.fromkeys(request.groups):
        await call.piece(COST)
        groups.append(await _described(services, call, scope, group))
    return DescribeGroupsResponse(groups=groups)


async def _described(
    services: Services, call: KafkaCall, scope: GroupScope, group: str
) -> DescribedGroup:
    try:
        call.check()
        found = await services.broker.kafka_groups.listing.describe(scope, group)
    except TalosError as error:
        return DescribedGroup(group_id=group, error_code=group_code(error))
    if found is None:
        return _unknown(call, group)
    if isinstance(found, WorkersGroup):
        return await _workers(services, call, group, found)
    return DescribedGroup(
        group_id=group,
        group_state=found.state.value,
        protocol_type=found.protocol_type,
        protocol_data=found.protocol,
        members=await call.each(found.members, _member),
    )


def _member(member: DescribedMember) -> DescribedGroupMember:
    return DescribedGroupMember(
        member_id=member.who.member,
        group_instance_id=member.who.instance,
        client_id=member.client_id,
        client_host=member.host,
        member_metadata=member.metadata,
        member_assignment=member.assignment,
    )


def _unknown(call: KafkaCall, group: str) -> DescribedGroup:
    code, text = ErrorCode.NONE, None
    if call.version >= UNKNOWN_IS_AN_ERROR:
        code, text = ErrorCode.GROUP_ID_NOT_FOUND, f"no consumer group {group}"
    state = GroupState.DEAD.value
    return DescribedGroup(
        group_id=group, error_code=int(code), error_message=text, group_state=state
    )


async def _workers(
    services: Services, call: KafkaCall, group: str, found: WorkersGroup
) -> DescribedGroup:
    members = []
    for shown in found.workers:
        await call.piece(1 + sum(len(held) for _, held in shown.partitions))
        held = {name_of(services, call.caller, topic): held for topic, held in shown.partitions}
        members.append(
            DescribedGroupMember(
                member_id=shown.worker,
                client_id=shown.worker,
                client_host=shown.address,
                member_assignment=write_assignment(held),
            )
        )
    return DescribedGroup(
        group_id=group,
        group_state=found.state.value,
        protocol_type=CONSUMER,
        protocol_data=WORKERS if members else "",
        members=members,
    )


async def list_all(services: Services, call: KafkaCall) -> ListGroupsResponse:
    """Groups that this server coordinates; clients ask every server."""
    request: ListGroupsRequest = call.request
    states = {state.lower() for state in request.states_filter}
    types = {kind.lower() for kind in request.types_filter}
    try:
        call.check()
        found = await services.broker.kafka_groups.listing.list(call.caller)
    except TalosError as error:
        return ListGroupsResponse(error_code=group_code(error))
    groups: list[ListedGroup] = []
    for group in found:
        await call.piece()
        if (not states or group.state.value.lower() in states) and (
            not types or group.type in types
        ):
            listed = ListedGroup(
                group_id=group.name,
                protocol_type=group.protocol_type,
                group_state=group.state.value,
                group_type=group.type,
            )
            groups.append(listed)
    return ListGroupsResponse(groups=groups)


async def delete(services: Services, call: KafkaCall) -> DeleteGroupsResponse:
    """Delete groups without members."""
    request: DeleteGroupsRequest = call.request
    results: list[DeletableGroupResult] = []
    scope = services.broker.kafka_groups.scope(call.caller, request.groups_names)
    for group in dict.fromkeys(request.groups_names):
        code = int(ErrorCode.NONE)
        await call.piece(COST)
        try:
            call.check()
            await services.broker.kafka_groups.listing.delete(scope, group)
        except TalosError as error:
            code = group_code(error)
        results.append(DeletableGroupResult(group_id=group, error_code=code))
    return DeleteGroupsResponse(results=results)
