"""ConsumerService: worker leases, partition leases and checkpoints of groups on one topic.

The gateways call it for every protocol. Only the holder of a partition commits its offset
(promise I5), and a commit beyond the log's end is refused.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial

from opentalos.broker.audit.trail import audited
from opentalos.broker.context import BrokerContext
from opentalos.broker.groups.group_names import coordinated_topic, manager_of, user_of
from opentalos.broker.groups.known_ends import KnownEnds
from opentalos.broker.long_work import SHORT_ITEMS
from opentalos.broker.messaging.position_events import PositionEvents
from opentalos.broker.peer_rpc.remote_logs import RemoteLogs
from opentalos.broker.values import (
    CheckpointKey,
    Commit,
    ConsumeUnit,
    LockedPartitions,
    Topic,
)
from opentalos.catalog.access.authorize import permissions_of
from opentalos.group import coordinator
from opentalos.group.coordinator import Coordinator, WorkerSeat
from opentalos.group.row_format import NO_CHECKPOINT
from opentalos.model.errors import (
    BadRequest,
    PartitionNotExist,
    TooManyConsumers,
    UnexpectedOffset,
)
from opentalos.model.identity import Permission, Principal
from opentalos.model.limits import PARTITIONS_MAX

_AUDIT = logging.getLogger("opentalos.audit")
WORKER_ID_CHARS_MAX = 256


class ConsumerService:
    """Behaviour per call: docs/protocol/consumers.md#server-behaviour. All need GET_MESSAGE.

    A group has one coordinator in the cluster, chosen by its name; at any other server every call
    raises NotOwner with the coordinator's address. ``org_offsets`` is answered by any server.
    """

    def __init__(self, context: BrokerContext, groups: Coordinator) -> None:
        self.context, self._groups, self._audit = context, groups, context.audit
        self._logs = RemoteLogs(context)
        self.positions = PositionEvents(self._logs)
        self.ends = KnownEnds(self._logs)

    async def check_register(self, caller: Principal, unit: ConsumeUnit) -> bool:
        """Whether one more worker may join."""
        topic = self._topic(caller, unit.group, unit.resource)
        user = user_of(caller, topic, unit.group)
        return await self._groups.can_register(user, unit.worker)

    async def lock_worker(self, caller: Principal, unit: ConsumeUnit, address: str) -> bool:
        """Create or refresh a worker lease.

        Raises: TooManyConsumers: the safe refusal, since Go fails on a plain False.
        """
        topic = self._topic(caller, unit.group, unit.resource)
        user = user_of(caller, topic, unit.group)
        await self._groups.lock_worker(user, _seat(unit, address))
        return True

    async def lock_partitions(
        self, caller: Principal, unit: ConsumeUnit, address: str
    ) -> LockedPartitions:
        """Take each listed partition that is free or already the worker's."""
        topic = self._topic(caller, unit.group, unit.resource)
        listed = _listed(unit)
        user, seat = user_of(caller, topic, unit.group), _seat(unit, address)
        locked = await self._in_parts(
            _existing(topic, listed), partial(self._groups.lock_partitions, user, seat)
        )
        failed = [partition for partition in listed if partition not in locked]
        return LockedPartitions(tuple(locked), tuple(failed))

    async def unlock_partitions(self, caller: Principal, unit: ConsumeUnit) -> None:
        """Drop the worker's leases on the listed partitions; others are ignored."""
        topic = self._topic(caller, unit.group, unit.resource)
        user = user_of(caller, topic, unit.group)

        async def unlock(partitions: Sequence[int]) -> Sequence[int]:
            await self._groups.unlock_partitions(user, unit.worker, partitions)
            return ()

        await self._in_parts(list(_listed(unit)), unlock)

    async def renew(
        self, caller: Principal, unit: ConsumeUnit, address: str
    ) -> tuple[bool, Sequence[int]]:
        """Refresh the worker and its partitions: (heartbeat, listed partitions it lost).

        The heartbeat is False only if the worker's lease expired and its seat was taken.
        """
        topic = self._topic(caller, unit.group, unit.resource)
        listed = _listed(unit)
        wanted = _existing(topic, listed)
        try:
            user, seat = user_of(caller, topic, unit.group), _seat(unit, address)
            failed = await self._in_parts(wanted, partial(self._groups.renew, user, seat))
        except TooManyConsumers:
            return False, list(listed)
        known = set(wanted)
        return True, [*failed, *(partition for partition in listed if partition not in known)]

    async def _in_parts(
        self,
        partitions: Sequence[int],
        call: Callable[[Sequence[int]], Awaitable[Sequence[int]]],
    ) -> dict[int, None]:
        """What the calls return together, in order. One is made for no partitions as well."""
        found: dict[int, None] = {}
        for start in range(0, max(1, len(partitions)), SHORT_ITEMS):
            if start:
                await self.context.work.pause()
            found |= dict.fromkeys(await call(partitions[start : start + SHORT_ITEMS]))
        return found

    async def query_workers(
        self, caller: Principal, group: str, resource: str
    ) -> Mapping[str, Sequence[int]]:
        """All live workers with the partitions they hold, idle ones too."""
        topic = self._topic(caller, group, resource)
        user = manager_of(self.context, caller, topic, group)
        return await self._groups.holdings(user, topic.consumer_partitions)

    async def query_offset(
        self, caller: Principal, group: str, resource: str, partition: int
    ) -> int:
        """Last committed offset; -1 if none."""
        topic = self._topic(caller, group, resource)
        _check_partition(topic, partition)
        user = user_of(caller, topic, group)
        stored = await self._groups.progress.checkpoint(user, partition)
        await self.positions.check(topic, partition, f"{user.tenant}/{group}", stored)
        return stored.offset

    async def update_offset(self, caller: Principal, commit: Commit) -> bool:
        """Commit a checkpoint; False if the worker does not hold the partition.

        Raises: UnexpectedOffset: negative, or beyond the log's end; Unavailable; OutcomeUnknown.
        """
        topic = self._topic(caller, commit.group, commit.resource)
        _check_partition(topic, commit.partition)
        if commit.offset < 0:
            raise UnexpectedOffset(f"checkpoint {commit.offset} is negative")
        end = await self.ends.above(topic, commit.partition, commit.offset)
        user = user_of(caller, topic, commit.group)
        return await self._groups.commit(
            user,
            coordinator.Commit(
                partition=commit.partition,
                worker=commit.worker,
                offset=commit.offset,
                next_offset=end.next_offset,
                last_offset=commit.last_offset,
                epoch=end.epoch,
            ),
        )

    async def worker_id(self, caller: Principal, group: str, resource: str, partition: int) -> str:
        """The worker that holds the partition; empty: none."""
        topic = self._topic(caller, group, resource)
        _check_partition(topic, partition)
        user = user_of(caller, topic, group)
        progress = await self._groups.progress.of_group(user)
        return progress[partition].worker if partition in progress else ""

    async def org_offsets(
        self, caller: Principal, prefix: str, organisation: str
    ) -> Mapping[CheckpointKey, int]:
        """All checkpoints of an organisation's groups whose name starts with ``prefix``.

        Only for members and administrators, and only on topics the caller may read.
        """
        member = not caller.anonymous and organisation == caller.organisation
        if not organisation or not (member or caller.admin):
            self.context.authorizer.refuse(caller, "query an organisation's offsets", organisation)
        resources = {
            topic.uuid: topic.resource
            for topic in self.context.topics.all()
            if permissions_of(caller, topic) & int(Permission.GET_MESSAGE)
        }
        found = await self._groups.rows.checkpoints(organisation, prefix)
        return {
            CheckpointKey(key.name, resources[key.topic_uuid], partition): offset
            for key, partition, offset in found
            if key.topic_uuid in resources
        }

    @audited("delete a group", "resource", "group")
    async def delete_group(self, caller: Principal, group: str, resource: str) -> None:
        """Delete a group, which the topic's owner may do with every tenant's.

        Raises: ConsumerGroupWorking, ConsumerGroupNotExist.
        """
        topic = self._topic(caller, group, resource)
        user = manager_of(self.context, caller, topic, group)
        await self._groups.directory.delete_group(user)

    @audited("reset a checkpoint", "key.resource", "key.group", "key.partition", "offset")
    async def reset_checkpoint(self, caller: Principal, key: CheckpointKey, offset: int) -> None:
        """Audited reset: revokes the lease and sets the checkpoint in one write.

        ``offset`` is the last offset that counts as processed; -1 forgets the checkpoint.

        Raises: UnexpectedOffset: beyond the log's end; ConsumerGroupNotExist.
        """
        topic = self._topic(caller, key.group, key.resource)
        _check_partition(topic, key.partition)
        end = await self.ends.above(topic, key.partition, offset)
        if not NO_CHECKPOINT <= offset < end.next_offset:
            raise UnexpectedOffset(f"checkpoint {offset} is beyond the log's end")
        user = manager_of(self.context, caller, topic, key.group)
        revoked = await self._groups.reset(user, key.partition, offset, end.epoch)
        fields = {
            "principal": caller.id,
            "action": "reset checkpoint",
            "resource": f"{key.resource}/{key.partition}/{key.group}",
            "offset": offset,
            "revoked": revoked,
        }
        _AUDIT.warning("reset %s", fields, extra={"audit": fields})

    def _topic(self, caller: Principal, group: str, resource: str) -> Topic:
        return coordinated_topic(self.context, caller, group, resource)


def _seat(unit: ConsumeUnit, address: str) -> WorkerSeat:
    if not 0 < len(unit.worker) <= WORKER_ID_CHARS_MAX:
        raise BadRequest(f"a worker id has 1 to {WORKER_ID_CHARS_MAX} characters")
    return WorkerSeat(unit.worker, address)


def _listed(unit: ConsumeUnit) -> dict[int, None]:
    """The listed partitions, each once. Raises: BadRequest: more than any topic has."""
    if len(unit.partitions) > PARTITIONS_MAX:
        raise BadRequest(
            f"{len(unit.partitions)} partitions in one call; the limit is {PARTITIONS_MAX}"
        )
    return dict.fromkeys(unit.partitions)


def _existing(topic: Topic, partitions: Iterable[int]) -> list[int]:
    """Those of the partitions that consumers may hold."""
    return [partition for partition in partitions if 0 <= partition < topic.consumer_partitions]


def _check_partition(topic: Topic, partition: int) -> None:
    if not 0 <= partition < topic.consumer_partitions:
        raise PartitionNotExist(
            f"topic {topic.name} has {topic.consumer_partitions} partitions, none is {partition}",
            ((topic.owner, topic.name, topic),),
        )
