"""ExplainService: why a consumer group does not move, from all that its coordinator knows."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

from opentalos.broker.context import BrokerContext
from opentalos.broker.figures.service import SeriesService
from opentalos.broker.groups.group_names import plain_name, shown_name, visible_groups
from opentalos.broker.groups.lag.ends import PIECE, Ends, TopicEnds
from opentalos.catalog.topics.topic import Topic
from opentalos.group.coordinator import Coordinator
from opentalos.group.directory import GroupUser
from opentalos.group.explanation import (
    GRANTS_MAX,
    PARTITIONS_SHOWN_MAX,
    Delay,
    Explanation,
    GroupView,
    PartitionView,
    State,
    explain,
)
from opentalos.group.row_format import NO_CHECKPOINT, SEPARATOR
from opentalos.group.state import GroupState
from opentalos.model.errors import DAMAGE, ConsumerGroupNotExist, TalosError
from opentalos.model.identity import Permission, Principal
from opentalos.model.message import OffsetRange
from opentalos.model.names import check_group_name

__all__ = ["PARTITIONS_SHOWN_MAX", "ExplainService", "Explanation", "State"]

RECENT_S: Final = 300.0  # for rates and reads


class ExplainService:
    """Only a group's coordinator knows its workers; any other server raises NotOwner."""

    def __init__(
        self, context: BrokerContext, groups: Coordinator, series: SeriesService, ends: TopicEnds
    ) -> None:
        self._context, self._groups, self._series = context, groups, series
        self._ends = ends

    async def explain(self, caller: Principal, group: str, resource: str) -> Explanation:
        """The reasons, the most important first.

        Raises: ConsumerGroupNotExist: unknown, or another tenant's: both answer alike. NotOwner.
        """
        name = plain_name(group)
        self._context.ownership.check_group(name)
        topic = self._context.topic(caller, Permission.DESCRIBE_TOPIC, resource)
        check_group_name(name)
        rows = await self._groups.rows.groups(topic.uuid)
        user = visible_groups(caller, topic, rows).get(shown_name(caller, topic, group))
        state = await self._groups.directory.find(user) if user is not None else None
        if user is None or state is None:
            raise ConsumerGroupNotExist(f"no consumer group {name}")
        ends = await self._ends.read(topic)
        fetches = await self._series.fetches(topic.uuid, RECENT_S)
        named = user.tenant + SEPARATOR + user.key.name
        now_s = asyncio.get_running_loop().time()
        partitions = await self._partitions(state, ends, fetches, now_s)
        holdings = state.holdings(now_s, topic.consumer_partitions)
        return explain(
            GroupView(
                partitions=partitions,
                unremarkable=topic.consumer_partitions - len(partitions),
                workers=len(holdings),
                delays=self._delays(topic, user, now_s),
                lag_per_s=await self._series.lag_per_s(topic.uuid, named, RECENT_S),
                fetches_s=RECENT_S,
            )
        )

    async def _partitions(
        self, state: GroupState, ends: Ends, fetches: Mapping[int, int] | None, now_s: float
    ) -> Sequence[PartitionView]:
        """Those of which there may be something to say."""
        found: list[PartitionView] = []
        for number, (start, following) in enumerate(zip(ends.starts, ends.nexts, strict=True)):
            if number % PIECE == PIECE - 1:
                await self._context.work.pause()
            part = state.partitions.get(number)
            grants = part.recent_grants(now_s) if part is not None else 0
            checkpoint = part.value.checkpoint if part is not None else NO_CHECKPOINT
            read = checkpoint == following - 1 or (checkpoint < 0 and start == following)
            if read and grants <= GRANTS_MAX and number not in ends.errors:
                continue
            fact = ends.errors.get(number) or OffsetRange(start, following)
            found.append(_partition(state, number, fact, fetches, now_s))
        return found

    def _delays(self, topic: Topic, user: GroupUser, now_s: float) -> Sequence[Delay]:
        """Quotas of this server that the group's reads wait for."""
        subjects = {topic.uuid, f"user/{user.tenant}", f"organisation/{user.tenant}"}
        subjects |= {f"{topic.uuid}/{number}" for number in range(topic.consumer_partitions)}
        return [Delay(*each) for each in self._context.throttle.delayed_gets(subjects, now_s)]


def _partition(
    state: GroupState,
    number: int,
    fact: OffsetRange | TalosError,
    fetches: Mapping[int, int] | None,
    now_s: float,
) -> PartitionView:
    part = state.partitions.get(number)
    if isinstance(fact, DAMAGE):
        return PartitionView(partition=number, damage=str(fact))
    if isinstance(fact, TalosError):
        return PartitionView(partition=number, unreachable=str(fact))
    start, end = fact
    read = None if fetches is None else fetches.get(number, 0)
    if part is None:
        return PartitionView(partition=number, start=start, next=end, fetches=read)
    return PartitionView(
        partition=number,
        worker=part.holder(now_s),
        checkpoint=part.value.checkpoint,
        start=start,
        next=end,
        idle_s=max(0.0, now_s - max(part.active_s, state.loaded_s)),
        grants=part.recent_grants(now_s),
        fetches=read,
    )
