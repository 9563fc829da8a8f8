"""Values of groups of Kafka clients that gateways make and read."""

from opentalos.broker.groups.kafka.hosted import GroupConnection
from opentalos.group.kafka.assignors import TopicPart
from opentalos.group.kafka.consumer_member import ConsumerAnswer, ConsumerHeartbeat, Parts
from opentalos.group.kafka.values import (
    DescribedMember,
    GroupState,
    JoinedMember,
    JoinOutcome,
    JoinRequest,
    MemberId,
    Refusal,
    SyncOutcome,
    SyncRequest,
)

__all__ = [
    "ConsumerAnswer",
    "ConsumerHeartbeat",
    "DescribedMember",
    "GroupConnection",
    "GroupState",
    "JoinOutcome",
    "JoinRequest",
    "JoinedMember",
    "MemberId",
    "Parts",
    "Refusal",
    "SyncOutcome",
    "SyncRequest",
    "TopicPart",
]
