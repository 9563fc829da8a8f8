"""MembershipService: workers see at once who joins or leaves a group, and leave at once."""

from dataclasses import replace

from opentalos.broker.context import BrokerContext
from opentalos.broker.groups.consumers import ConsumerService
from opentalos.broker.groups.group_names import coordinated_topic, manager_of, user_of
from opentalos.broker.values import ConsumeUnit
from opentalos.group.coordinator import Coordinator
from opentalos.group.members import Members
from opentalos.model.identity import Principal


class MembershipService:
    """What clients of this project ask beyond ``ConsumerService``; both see the same leases."""

    def __init__(
        self, context: BrokerContext, consumers: ConsumerService, groups: Coordinator
    ) -> None:
        self._context, self._consumers, self._groups = context, consumers, groups

    async def changed_workers(
        self,
        caller: Principal,
        group: str,
        resource: str,
        *,
        known: int | None,
        wait_s: float,
    ) -> Members:
        """As ``query_workers``, once the reply differs from the one marked ``known``.

        Returns after ``wait_s`` at the latest, 3 s at most.
        """
        topic = coordinated_topic(self._context, caller, group, resource)
        user = manager_of(self._context, caller, topic, group)
        return await self._groups.members.changed(user, topic.consumer_partitions, known, wait_s)

    async def leave(self, caller: Principal, unit: ConsumeUnit) -> None:
        """End the worker's lease and release all it holds, the listed partitions among them.

        A worker that has already left is no error. Raises: Unavailable, OutcomeUnknown: partitions
        may be left, which a repetition releases; else their leases expire.
        """
        topic = coordinated_topic(self._context, caller, unit.group, unit.resource)
        user = user_of(caller, topic, unit.group)
        held = await self._groups.members.vacate(user, unit.worker)
        everything = tuple({*unit.partitions, *held})
        await self._consumers.unlock_partitions(caller, replace(unit, partitions=everything))
