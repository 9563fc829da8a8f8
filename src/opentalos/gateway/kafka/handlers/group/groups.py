"""Membership of groups: JoinGroup, SyncGroup, Heartbeat, LeaveGroup.

Source: Apache Kafka 4.3, protocol guide.
"""

from typing import Final

from opentalos.broker.groups.kafka.offsets import Outcome
from opentalos.broker.groups.kafka.requests import (
    GroupConnection,
    JoinedMember,
    JoinRequest,
    MemberId,
    SyncRequest,
)
from opentalos.broker.long_work import SHORT_ITEMS
from opentalos.gateway.kafka.call import KafkaCall
from opentalos.gateway.kafka.gateway import Services
from opentalos.gateway.kafka.handlers.group.group_errors import group_code, outcome_code
from opentalos.model.errors import TalosError
from opentalos.wire.kafka._generated.heartbeat_request import HeartbeatRequest
from opentalos.wire.kafka._generated.heartbeat_response import HeartbeatResponse
from opentalos.wire.kafka._generated.join_group_request import JoinGroupRequest
from opentalos.wire.kafka._generated.join_group_response import (
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from opentalos.wire.kafka._generated.leave_group_request import LeaveGroupRequest
from opentalos.wire.kafka._generated.leave_group_response import LeaveGroupResponse, MemberResponse
from opentalos.wire.kafka._generated.sync_group_request import SyncGroupRequest
from opentalos.wire.kafka._generated.sync_group_response import SyncGroupResponse

IDS_FIRST: Final = 4  # from this version of JoinGroup on a new member gets its id first
NO_NAME_ALLOWED: Final = 7  # from this version on a protocol's name may be null
SKIPS: Final = 9  # from this version on a leader understands that it must not decide
SEVERAL_LEAVE: Final = 3  # from this version of LeaveGroup on
LEAVE_AT_ONCE: Final = 64  # members; as many as are a piece of work


async def join(services: Services, call: KafkaCall) -> JoinGroupResponse:
    """A member joins; answered once the generation begins."""
    request: JoinGroupRequest = call.request
    no_name = None if call.version >= NO_NAME_ALLOWED else ""
    rebalance_ms = request.rebalance_timeout_ms
    asked = JoinRequest(
        who=MemberId(request.member_id, request.group_instance_id),
        client_id=call.header.client_id or "",
        host=call.session.peer,
        session_s=request.session_timeout_ms / 1000,
        rebalance_s=(rebalance_ms if rebalance_ms >= 0 else request.session_timeout_ms) / 1000,
        protocol_type=request.protocol_type,
        protocols=tuple(
            await call.each(request.protocols, lambda each: (each.name, each.metadata))
        ),
        fresh_id="",
        ids_required=call.version >= IDS_FIRST,
        skips=call.version >= SKIPS,
    )
    try:
        found = await services.broker.kafka_groups.members.join(
            call.caller, request.group_id, asked, _connection(call)
        )
    except TalosError as error:
        return JoinGroupResponse(
            error_code=group_code(error), protocol_name=no_name, member_id=request.member_id
        )
    return JoinGroupResponse(
        error_code=outcome_code(found.refusal),
        generation_id=found.generation,
        protocol_type=found.protocol_type,
        protocol_name=no_name if found.protocol is None else found.protocol,
        leader=found.leader,
        skip_assignment=found.skip_assignment,
        member_id=found.member,
        members=await call.each(found.members, _member),
    )


def _member(member: JoinedMember) -> JoinGroupResponseMember:
    return JoinGroupResponseMember(
        member_id=member.who.member,
        group_instance_id=member.who.instance,
        metadata=member.metadata,
    )


def _connection(call: KafkaCall) -> GroupConnection:
    """With which members go that have not been in a generation."""
    session = call.session
    found: GroupConnection | None = session.state.get(GroupConnection)
    if found is None:
        found = session.state[GroupConnection] = GroupConnection()
        session.closers.append(found.close)
        if session.closed:
            found.close()
    return found


async def sync(services: Services, call: KafkaCall) -> SyncGroupResponse:
    """A member gets its assignment; answered once the leader has decided."""
    request: SyncGroupRequest = call.request
    assignments: dict[str, bytes] = {}
    for each in request.assignments:
        await call.piece()
        assignments[each.member_id] = each.assignment
    asked = SyncRequest(
        who=MemberId(request.member_id, request.group_instance_id),
        generation=request.generation_id,
        protocol_type=request.protocol_type,
        protocol=request.protocol_name,
        assignments=assignments,
    )
    try:
        found = await services.broker.kafka_groups.members.sync(
            call.caller, request.group_id, asked
        )
    except TalosError as error:
        return SyncGroupResponse(error_code=group_code(error))
    return SyncGroupResponse(
        error_code=outcome_code(found.refusal),
        protocol_type=found.protocol_type,
        protocol_name=found.protocol,
        assignment=found.assignment,
    )


def heartbeat(services: Services, call: KafkaCall) -> None:
    """A member is alive."""
    request: HeartbeatRequest = call.request
    who = MemberId(request.member_id, request.group_instance_id)
    members = services.broker.kafka_groups.members
    try:
        refusal = members.heartbeat(call.caller, request.group_id, who, request.generation_id)
        code = outcome_code(refusal)
    except TalosError as error:
        code = group_code(error)
    call.answer(HeartbeatResponse(error_code=code))


async def leave(services: Services, call: KafkaCall) -> LeaveGroupResponse:
    """Members leave."""
    request: LeaveGroupRequest = call.request
    members, group = services.broker.kafka_groups.members, request.group_id
    answers: list[MemberResponse] = []
    try:
        if call.version < SEVERAL_LEAVE:
            (outcome,) = members.leave(call.caller, group, [MemberId(request.member_id)])
            return LeaveGroupResponse(error_code=outcome_code(outcome))
        for start in range(0, len(request.members), LEAVE_AT_ONCE):
            some = request.members[start : start + LEAVE_AT_ONCE]
            await call.piece(SHORT_ITEMS)
            leaving = [MemberId(each.member_id, each.group_instance_id) for each in some]
            outcomes = members.leave(call.caller, group, leaving)
            answers += map(_left, leaving, outcomes)
    except TalosError as error:
        return LeaveGroupResponse(error_code=group_code(error))
    return LeaveGroupResponse(members=answers)


def _left(who: MemberId, outcome: Outcome) -> MemberResponse:
    return MemberResponse(
        member_id=who.member, group_instance_id=who.instance, error_code=outcome_code(outcome)
    )
