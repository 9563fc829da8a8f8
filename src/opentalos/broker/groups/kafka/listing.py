"""KafkaGroupListing: groups as Kafka's tools see them; those of our workers, too."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from opentalos.broker.context import BrokerContext
from opentalos.broker.groups.consumers import ConsumerService
from opentalos.broker.groups.group_names import visible_groups
from opentalos.broker.groups.kafka.consumer_protocol import CONSUMER
from opentalos.broker.groups.kafka.groups import KafkaGroups
from opentalos.broker.groups.kafka.hosted import (
    CLASSIC_TYPE,
    CONSUMER_TYPE,
    GroupName,
    Hosted,
)
from opentalos.broker.groups.kafka.scope import (
    TOPICS_AT_ONCE,
    GroupScope,
    check_coordinator,
)
from opentalos.catalog.topics.topic import Topic
from opentalos.group.coordinator import Coordinator
from opentalos.group.directory import GroupUser
from opentalos.group.kafka.values import DescribedGroup, GroupState
from opentalos.group.row_format import SEPARATOR
from opentalos.model.errors import (
    ConsumerGroupNotExist,
    ConsumerGroupWorking,
    PartitionNotServing,
)
from opentalos.model.identity import Principal

WORKERS = "talos"  # shown as the assignor of groups of our workers


class ListedGroup(NamedTuple):
    """A group as a list shows it."""

    name: str
    protocol_type: str
    state: GroupState
    type: str

    @property
    def weight(self) -> int:
        """Of groups of one name on several topics the heaviest is shown: one with members, else
        one that had members of the newer protocol."""
        return 2 * (self.state is not GroupState.EMPTY) + (self.type == CONSUMER_TYPE)


class ShownWorker(NamedTuple):
    """A worker of our own protocol as a member."""

    worker: str
    address: str
    partitions: Sequence[tuple[Topic, Sequence[int]]]


class WorkersGroup(NamedTuple):
    """A group without members of Kafka's protocol."""

    state: GroupState
    workers: Sequence[ShownWorker]


class KafkaGroupListing:
    """Lists, describes and deletes the groups that this server coordinates."""

    def __init__(
        self,
        context: BrokerContext,
        groups: KafkaGroups,
        coordinator: Coordinator,
        consumers: ConsumerService,
    ) -> None:
        self._context, self._groups = context, groups
        self._rows, self._leases = coordinator.rows, coordinator.kafka
        self._consumers = consumers

    async def list(self, caller: Principal) -> Sequence[ListedGroup]:
        """Groups that the caller may know of. Clients ask every server and join the answers."""
        scope = GroupScope(self._context, self._rows, caller, ())
        found: dict[str, ListedGroup] = {}
        for name, hosted in self._groups.of_tenant(caller.owner_id).items():
            found[name] = ListedGroup(name, hosted.protocol_type, hosted.state, hosted.type)
            await scope.spend(1 + len(hosted.holders))
        topics = await scope.topics()
        for start in range(0, len(topics), TOPICS_AT_ONCE):
            some = topics[start : start + TOPICS_AT_ONCE]
            for listed in await asyncio.gather(*(self._of_topic(scope, t) for t in some)):
                for name, group in listed.items():
                    known = found.get(name)
                    if known is None or known.weight < group.weight:
                        found[name] = group
        return [found[name] for name in sorted(found)]

    async def _of_topic(self, scope: GroupScope, topic: Topic) -> Mapping[str, ListedGroup]:
        """Groups of a topic that are coordinated here."""
        caller = scope.caller
        visible = visible_groups(caller, topic, await self._rows.groups(topic.uuid))
        found: dict[str, ListedGroup] = {}
        for shown, user in visible.items():
            await scope.spend(1 + topic.consumer_partitions)
            if not self._is_here(user):
                continue
            state, kind = GroupState.EMPTY, CLASSIC_TYPE
            hosted = self._hosted(user.tenant, user.key.name) if caller.admin else None
            if hosted is not None:
                state, kind = hosted.state, hosted.type
            elif await self._leases.workers(user, topic.consumer_partitions):
                state = GroupState.STABLE
            elif await self._leases.server_assigned(user):
                kind = CONSUMER_TYPE
            found[shown] = ListedGroup(shown, CONSUMER, state, kind)
        return found

    def _is_here(self, user: GroupUser) -> bool:
        try:
            self._context.ownership.check_group(user.key.name)
        except PartitionNotServing:
            return False
        return True

    def find(self, caller: Principal, group: str) -> Hosted | None:
        """The group if it has members; administrators see those of every tenant.

        Raises: NotOwner, PartitionNotServing, InvalidName.
        """
        check_coordinator(self._context, group)
        hosted = self._hosted(caller.owner_id, group)
        if hosted is not None or not caller.admin:
            return hosted
        tenant, qualified, name = group.rpartition(SEPARATOR)
        if qualified:
            return self._hosted(tenant, name)
        # To an administrator a plain name means the groups of the topics' owners.
        named = sorted(self._groups.tenants.get(name, ()))
        owners = (each for each in named if self._context.topics.owned_by(each))
        found = (self._hosted(each, name) for each in owners)
        return next((hosted for hosted in found if hosted is not None), None)

    def _hosted(self, tenant: str, name: str) -> Hosted | None:
        hosted = self._groups.find(GroupName(tenant, name))
        return hosted if hosted is not None and hosted.holders else None

    async def describe(self, scope: GroupScope, group: str) -> DescribedGroup | WorkersGroup | None:
        """A group; None: unknown, or one that the caller may not see.

        Raises: NotOwner, PartitionNotServing, InvalidName.
        """
        hosted = self.find(scope.caller, group)
        if hosted is not None:
            return await hosted.describe()
        exists, workers = False, dict[str, ShownWorker]()
        for topic, user in await scope.of(group):
            held = await self._leases.workers(user, topic.consumer_partitions)
            await scope.spend(1 + topic.consumer_partitions)
            exists = exists or held is not None
            for worker, (address, partitions) in (held or {}).items():
                shown = workers.setdefault(worker, ShownWorker(worker, address, ()))
                more = (*shown.partitions, (topic, partitions))
                workers[worker] = shown._replace(partitions=more)
        if not exists:
            return None
        state = GroupState.STABLE if workers else GroupState.EMPTY
        return WorkersGroup(state, list(workers.values()))

    async def was_server_assigned(self, scope: GroupScope, group: str) -> bool:
        """Whether a group without members had members of the newer protocol last.

        Raises: NotOwner, PartitionNotServing, InvalidName.
        """
        check_coordinator(self._context, group)
        for topic, user in await scope.of(group):
            if await self._leases.server_assigned(user):
                return True
            await scope.spend(1 + topic.consumer_partitions)
        return False

    async def delete(self, scope: GroupScope, group: str) -> None:
        """Delete a group on every topic of it that the caller may read.

        Raises: ConsumerGroupNotExist; ConsumerGroupWorking: nothing was deleted, or only on the
            topics before.
        """
        if self.find(scope.caller, group) is not None:
            raise ConsumerGroupWorking(f"consumer group {group} has members")
        found: list[Topic] = []
        for topic, user in await scope.of(group):
            held = await self._leases.workers(user, topic.consumer_partitions)
            await scope.spend(1 + topic.consumer_partitions)
            if held:
                raise ConsumerGroupWorking(f"consumer group {group} has live workers")
            if held is not None:
                found.append(topic)
        if not found:
            raise ConsumerGroupNotExist(f"no consumer group {group}")
        await self._delete(scope.caller, group, found)

    async def _delete(self, caller: Principal, group: str, topics: Iterable[Topic]) -> None:
        for topic in topics:
            await self._consumers.delete_group(caller, group, topic.resource)
