"""KafkaGroups: the groups of Kafka clients that this server coordinates now, in memory."""

import asyncio
import logging
from collections.abc import Coroutine, Mapping
from typing import Any

from opentalos.broker.context import BrokerContext
from opentalos.broker.groups.group_names import user_of
from opentalos.broker.groups.kafka.hosted import GroupName, Hosted, HostedGroup
from opentalos.broker.groups.kafka.hosted_consumer import HostedConsumerGroup
from opentalos.broker.groups.kafka.member_bytes import MemberBytes
from opentalos.broker.groups.kafka.scope import readable_topic
from opentalos.catalog.topics.topic import Topic
from opentalos.group.coordinator import Coordinator
from opentalos.group.directory import GroupUser
from opentalos.group.kafka.classic import ClassicGroup
from opentalos.group.kafka.consumer import ConsumerGroup
from opentalos.group.kafka.leases import worker_of
from opentalos.log.scheduling.read_waiters import WakeUps
from opentalos.model.errors import PartitionNotServing, TooManyConsumers
from opentalos.model.identity import Principal
from opentalos.model.names import check_group_name

_LOG = logging.getLogger("opentalos.group")
# A group's first epoch is below. librdkafka takes the first byte of an epoch, which must be zero,
# for the end of the member id before it.
EPOCHS = 1 << 22
_TOKEN_BYTES = 12  # of a member id; it must fit no other coordinator's member


class KafkaGroups:
    """Finds and makes groups. A group without members is not kept: its offsets are rows."""

    def __init__(self, context: BrokerContext, groups: Coordinator) -> None:
        self._context = context
        self.leases, self.work = groups.kafka, context.work
        self._groups: dict[GroupName, Hosted] = {}
        self._by_tenant: dict[str, dict[str, Hosted]] = {}  # by tenant and name
        self.tenants: dict[str, set[str]] = {}  # those whose group has members, by its name
        self._members: dict[str, set[Hosted]] = {}  # by worker id, which clients may choose
        self._of_group: dict[Hosted, set[str]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.memory = MemberBytes(context.config.kafka_group)
        self.wake_ups = WakeUps()
        self._stopping = False
        groups.kafka.follow(self._forget)

    def name_of(self, caller: Principal, group: str) -> GroupName:
        """The caller's group of a name, at its coordinator.

        Raises: InvalidName; NotOwner: at another server; PartitionNotServing: this one stops.
        """
        check_group_name(group)
        self._context.ownership.check_group(group)
        if self._stopping:
            raise PartitionNotServing("this server stops")
        return GroupName(caller.owner_id, group)

    def find(self, name: GroupName) -> Hosted | None:
        """The group if it has members."""
        return self._groups.get(name)

    def open(self, name: GroupName) -> HostedGroup:
        """A group without members as one whose members decide. Raises: TooManyConsumers."""
        self._check_room(name)
        made = HostedGroup(name, ClassicGroup(self._context.config.kafka_group), self)
        self._keep(made)
        return made

    def open_consumer(self, name: GroupName) -> HostedConsumerGroup:
        """A group without members as one whose server decides. Raises: TooManyConsumers."""
        self._check_room(name)
        # Ids of members outlive a coordinator; epochs must not fit the next one.
        first_epoch = self._context.clock.wall_ms() // 1000 % EPOCHS
        machine = ConsumerGroup(self._context.config.kafka_group, first_epoch)
        made = HostedConsumerGroup(name, machine, self)
        self._keep(made)
        return made

    def _keep(self, group: Hosted) -> None:
        self._groups[group.name] = group
        self._by_tenant.setdefault(group.name.tenant, {})[group.name.name] = group
        self.tenants.setdefault(group.name.name, set()).add(group.name.tenant)

    def _check_room(self, name: GroupName) -> None:
        limits = self._context.config.kafka_group
        _check("this server", len(self._groups), limits.groups_max)
        of_tenant = len(self._by_tenant.get(name.tenant, ()))
        _check(f"tenant {name.tenant}", of_tenant, limits.groups_of_tenant_max)

    def of_tenant(self, tenant: str) -> Mapping[str, Hosted]:
        """A tenant's groups with members, by name."""
        return dict(self._by_tenant.get(tenant, {}))

    def fresh_id(self, prefix: str) -> str:
        """A member id that nobody has or had, of a client's name."""
        token = self._context.clock.token(_TOKEN_BYTES).hex()
        return f"{prefix[:64]}-{token}" if prefix else token

    def stop(self) -> None:
        """The server stops: calls that wait return now, and members find the next coordinator."""
        self._stopping = True
        self._forget(lambda group: False)

    async def close(self) -> None:
        """End the tasks."""
        self.stop()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # --- what groups need ------------------------------------------------------------------------

    def topic_user(
        self, caller: Principal, name: str, topic_name: str
    ) -> tuple[Topic, GroupUser] | None:
        """The topic and the group on it, if the caller may read it."""
        topic = readable_topic(self._context, caller, topic_name)
        return None if topic is None else (topic, user_of(caller, topic, name))

    def is_elsewhere(self, worker: str, group: object) -> bool:
        """Whether a worker id is of a live member of another group."""
        groups = self._members.get(worker, ())
        return bool(groups) and group not in groups

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """A task that ends with the server."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            _LOG.error("%s failed", task.get_name(), exc_info=task.exception())

    def changed(self, group: Hosted) -> None:
        """Members may have joined or left."""
        if group.forgotten:
            return
        before = self._of_group.get(group, set())
        now = {worker_of(member) for member in group.holders}
        for worker in before - now:
            self._leave(worker, group)
        for worker in now - before:
            self._members.setdefault(worker, set()).add(group)
        self._of_group[group] = now
        self.memory.count(group.name.tenant, group, group.memory_bytes)
        if group.idle:
            self._drop(group)

    def _drop(self, group: Hosted) -> None:
        self.memory.count(group.name.tenant, group, 0)
        for worker in self._of_group.pop(group, ()):
            self._leave(worker, group)
        if self._groups.get(group.name) is group:
            del self._groups[group.name]
            named = self._by_tenant[group.name.tenant]
            del named[group.name.name]
            if not named:
                del self._by_tenant[group.name.tenant]
            tenants = self.tenants[group.name.name]
            tenants.remove(group.name.tenant)
            if not tenants:
                del self.tenants[group.name.name]

    def _leave(self, worker: str, group: Hosted) -> None:
        groups = self._members.get(worker, set())
        groups.discard(group)
        if not groups:
            self._members.pop(worker, None)

    def _forget(self, keeps: Any) -> None:
        for group in list(self._groups.values()):
            if not keeps(group.name.name):
                self._drop(group)
                group.forget()


def _check(whose: str, measured: int, limit: int) -> None:
    if measured >= limit:
        raise TooManyConsumers(
            f"consumer groups of Kafka clients with members, of {whose}: limit {limit}, "
            f"measured {measured}"
        )
