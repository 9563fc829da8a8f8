"""KafkaMembershipService: Kafka clients join, stay in and leave groups."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from opentalos.broker.context import BrokerContext
from opentalos.broker.groups.kafka.consumer_protocol import CONSUMER, SHORT_BYTES, subscribed_topics
from opentalos.broker.groups.kafka.groups import KafkaGroups
from opentalos.broker.groups.kafka.hosted import (
    LOOKED_UP_AT_ONCE,
    GroupConnection,
    GroupName,
    HostedGroup,
)
from opentalos.broker.groups.kafka.scope import has_workers, readable_topic
from opentalos.broker.values import Topic
from opentalos.group.kafka.values import (
    JoinOutcome,
    JoinRequest,
    MemberId,
    Refusal,
    SyncOutcome,
    SyncRequest,
)
from opentalos.model.identity import Principal
from opentalos.wire.kafka.pace import Pace

TOPICS_CHECKED_MAX = 1_000  # of one join, for workers that read them


class KafkaMembershipService:
    """Who is a member of which group. A name means a group of the caller's tenant.

    Every call raises NotOwner or PartitionNotServing where another server coordinates the group,
    and InvalidName.
    """

    def __init__(self, context: BrokerContext, groups: KafkaGroups) -> None:
        self._context, self._groups = context, groups

    async def join(
        self,
        caller: Principal,
        group: str,
        request: JoinRequest,
        connection: GroupConnection | None = None,
    ) -> JoinOutcome:
        """Returns once the generation begins; if the connection ends before, the member goes.

        Raises: TooManyConsumers: too many groups.
        """
        name = self._groups.name_of(caller, group)
        if await self._has_workers(caller, name, request):
            return JoinOutcome(
                refusal=Refusal.INCONSISTENT_GROUP_PROTOCOL, member=request.who.member
            )
        self._groups.name_of(caller, group)  # it may have moved meanwhile
        hosted = self._groups.find(name)
        if (hosted is None and request.who.member) or (connection and connection.closed):
            return JoinOutcome(refusal=Refusal.UNKNOWN_MEMBER_ID, member=request.who.member)
        if hosted is not None and not isinstance(hosted, HostedGroup):
            return JoinOutcome(
                refusal=Refusal.INCONSISTENT_GROUP_PROTOCOL, member=request.who.member
            )
        fresh_id = self._groups.fresh_id(request.who.instance or request.client_id)
        hosted = hosted or self._groups.open(name)
        if connection is not None:
            connection.joins(hosted)
        return await hosted.join(caller, replace(request, fresh_id=fresh_id, connection=connection))

    async def _has_workers(self, caller: Principal, name: GroupName, request: JoinRequest) -> bool:
        """Whether workers of our own protocol read a topic under the group's name."""
        limit = self._context.config.kafka_group.metadata_bytes_max
        if request.protocol_type != CONSUMER or not request.is_small(limit):
            return False  # the group refuses what is too large
        found: list[Topic] = []
        async for some in self._context.work.pieces(
            await self._subscribed(caller, request), LOOKED_UP_AT_ONCE
        ):
            topics = (readable_topic(self._context, caller, topic) for topic in some)
            found += [topic for topic in topics if topic is not None]
        return await has_workers(self._context, self._groups.leases, caller, name.name, found)

    async def _subscribed(self, caller: Principal, request: JoinRequest) -> Sequence[str]:
        data = [metadata for _, metadata in request.protocols]

        def read(pause: Callable[[], None] | None = None) -> Sequence[str]:
            pace = Pace(pause) if pause else None
            topics = {topic for each in data for topic in subscribed_topics(each, pace)}
            return sorted(topics)[:TOPICS_CHECKED_MAX]

        if sum(map(len, data)) <= SHORT_BYTES:
            return read()
        async with self._context.work.turn(caller.id, patient=True) as turn:
            return await turn.in_pieces(read)

    async def sync(self, caller: Principal, group: str, request: SyncRequest) -> SyncOutcome:
        """Returns once the leader's decision was granted."""
        hosted = self._classic(caller, group)
        if hosted is None:
            return SyncOutcome(refusal=Refusal.UNKNOWN_MEMBER_ID)
        return await hosted.sync(request)

    def heartbeat(
        self, caller: Principal, group: str, who: MemberId, generation: int
    ) -> Refusal | None:
        """A member is alive; None: nothing changed."""
        hosted = self._classic(caller, group)
        if hosted is None:
            return Refusal.UNKNOWN_MEMBER_ID
        return hosted.heartbeat(who, generation)

    def leave(
        self, caller: Principal, group: str, leaving: Sequence[MemberId]
    ) -> Sequence[Refusal | None]:
        """Members leave; an operator names static ones by their instance."""
        hosted = self._classic(caller, group)
        if hosted is None:
            return [Refusal.UNKNOWN_MEMBER_ID] * len(leaving)
        return hosted.leave(leaving)

    def _classic(self, caller: Principal, group: str) -> HostedGroup | None:
        hosted = self._groups.find(self._groups.name_of(caller, group))
        return hosted if isinstance(hosted, HostedGroup) else None
