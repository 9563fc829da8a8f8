"""LagFigures: lags of groups as sums, and the part of a group's partitions that a page shows.

``MetricService`` has the progress of each partition, which costs an object for each.
"""

import asyncio
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from opentalos.broker.context import BrokerContext
from opentalos.broker.groups.group_names import plain_name, shown_name, visible_groups
from opentalos.broker.groups.lag.ages import LagAges
from opentalos.broker.groups.lag.brief_cache import BriefCache
from opentalos.broker.groups.lag.ends import KEPT_S, QUICK_PARTITIONS, TopicEnds
from opentalos.broker.values import PartitionConsumeUnit
from opentalos.catalog.topics.topic import Topic
from opentalos.group.coordinator import Coordinator
from opentalos.group.directory import GroupUser
from opentalos.group.lag import (
    LARGEST_MAX,
    LagSummary,
    Offsets,
    Unread,
    checkpoints_of,
    lags_of,
    summary_of,
)
from opentalos.group.state import GroupState
from opentalos.model.errors import ConsumerGroupNotExist, PartitionNotServing
from opentalos.model.identity import Permission, Principal
from opentalos.model.names import check_group_name

__all__ = ["LARGEST_MAX", "GroupFigures", "LagFigures", "LagSummary", "Order", "Window"]

GROUPS_KEPT: Final = 128  # checkpoints of wide groups of other coordinators; 80 KB for each
MEMBERS_MAX: Final = 200  # listed of one group
MEMBER_PARTITIONS_MAX: Final = 40  # listed of one member


class Order(StrEnum):
    """In which order partitions are listed; by lag, the greatest first."""

    PARTITION = "partition"
    LAG = "lag"
    WORKER = "worker"


class Window(NamedTuple):
    """Which part of a list: so many from this place on."""

    start: int
    limit: int
    order: Order = Order.PARTITION


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A worker or Kafka member. ``partitions``: the first that it holds, of ``count``. ``lag``:
    None: one of them is damaged."""

    worker: str
    address: str
    partitions: Sequence[int]
    count: int
    lag: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFigures:
    """A group as a page shows it. ``held``: partitions with a live lease; ``members``: the first,
    of ``members_count``; ``shown``: the window's partitions, of ``partitions``."""

    summary: LagSummary
    age_s: float | None
    partitions: int
    held: int
    members: Sequence[Member]
    members_count: int
    shown: Sequence[PartitionConsumeUnit]


class LagFigures:
    """``ends``: of topics, shared by all that shows lag."""

    def __init__(self, context: BrokerContext, groups: Coordinator) -> None:
        self._context, self._groups = context, groups
        self.ends = TopicEnds(context)
        self._ages = LagAges(context)
        self._kept: BriefCache[tuple[GroupUser, int], Offsets] = BriefCache(KEPT_S, GROUPS_KEPT)

    async def of_topic(self, caller: Principal, topic: Topic) -> Mapping[str, LagSummary]:
        """Lags of the topic's groups that the caller may know of, by group.

        Raises: Unavailable: a partition or a group cannot be read now. Damaged partitions are
            only counted.
        """
        topic = self._context.topic(caller, Permission.DESCRIBE_TOPIC, topic.resource)
        rows = await self._groups.rows.groups(topic.uuid)
        visible = visible_groups(caller, topic, rows)
        if not visible:
            return {}
        ends = await self.ends.read(topic)
        ends.check()
        damaged = len(ends.damaged)
        found: dict[str, LagSummary] = {}
        for group, user in visible.items():
            checkpoints = await self._checkpoints(user, topic.consumer_partitions)
            found[group] = summary_of(lags_of(ends.starts, ends.nexts, checkpoints), damaged)
            await asyncio.sleep(0)  # other work of the loop
        return found

    async def ages(
        self, topic: Topic, groups: Mapping[str, LagSummary]
    ) -> Mapping[str, float | None]:
        """Of what ``of_topic`` found, by group: how long the oldest message that is not processed
        has waited, of the partitions with the greatest lag. None: it cannot be read now."""
        return await self._ages.of(topic, groups)

    async def of_group(
        self, caller: Principal, group: str, topic: Topic, window: Window
    ) -> GroupFigures:
        """One group, from what its coordinator knows.

        Raises: ConsumerGroupNotExist: unknown, or another tenant's: both answer alike. NotOwner.
        """
        name = plain_name(group)
        self._context.ownership.check_group(name)
        topic = self._context.topic(caller, Permission.DESCRIBE_TOPIC, topic.resource)
        check_group_name(name)
        rows = await self._groups.rows.groups(topic.uuid)
        user = visible_groups(caller, topic, rows).get(shown_name(caller, topic, group))
        if user is None:
            raise ConsumerGroupNotExist(f"no consumer group {name}")
        ends = await self.ends.read(topic)
        ends.check()
        count = topic.consumer_partitions
        state = await self._groups.directory.find(user) or GroupState.empty(user.key)
        known = {number: part.value.checkpoint for number, part in state.partitions.items()}
        checkpoints = checkpoints_of(known, count)
        lags = lags_of(ends.starts, ends.nexts, checkpoints)
        await asyncio.sleep(0)
        holders = _holders(state, asyncio.get_running_loop().time(), count)
        damaged = dict.fromkeys(ends.damaged)

        def unit(number: int) -> PartitionConsumeUnit:
            worker, unread = holders.get(number, ""), lags.get(number)
            lag = unread.lag if unread is not None else None if number in damaged else 0
            address = _address(state, number, worker)
            return PartitionConsumeUnit(number, address, checkpoints[number], lag, worker)

        members = _members(state, holders, lags, damaged)
        summary = summary_of(lags, len(damaged))
        ages = await self._ages.of(topic, {group: summary})
        return GroupFigures(
            summary=summary,
            age_s=ages[group],
            partitions=count,
            held=len(holders),
            members=members[:MEMBERS_MAX],
            members_count=len(members),
            shown=await self._context.work.each(
                caller.id, _window(window, count, [*damaged, *_by_lag(lags)], holders), unit
            ),
        )

    async def _checkpoints(self, user: GroupUser, count: int) -> Offsets:
        progress = self._groups.progress
        try:
            self._context.ownership.check_group(user.key.name)
        except PartitionNotServing:  # another server coordinates the group
            if count <= QUICK_PARTITIONS:
                return await progress.stored_checkpoints(user, count)
            key = user, count
            return await self._kept.get(key, lambda: progress.stored_checkpoints(user, count))
        return await progress.checkpoints(user, count)


def _holders(state: GroupState, now_s: float, count: int) -> Mapping[int, str]:
    """Workers with a live lease by the partition that they hold, in the order of partitions."""
    found = {
        number: holder
        for number, part in state.partitions.items()
        if number < count and (holder := part.holder(now_s))
    }
    return dict(sorted(found.items()))


def _members(
    state: GroupState,
    holders: Mapping[int, str],
    lags: Mapping[int, Unread],
    damaged: Collection[int],
) -> Sequence[Member]:
    """By name; those without a partition are none."""
    held: dict[str, list[int]] = {}
    behind: Counter[str] = Counter()
    for partition, worker in holders.items():
        held.setdefault(worker, []).append(partition)
    for partition, unread in lags.items():
        behind[holders.get(partition, "")] += unread.lag
    unknown = {holders.get(partition, "") for partition in damaged}
    return [
        Member(
            worker=worker,
            address=_address(state, held[worker][0], worker),
            partitions=held[worker][:MEMBER_PARTITIONS_MAX],
            count=len(held[worker]),
            lag=None if worker in unknown else behind[worker],
        )
        for worker in sorted(held)
    ]


def _address(state: GroupState, partition: int, holder: str) -> str:
    worker = state.workers.get(holder)
    if worker is not None:
        return worker.address
    return state.partition(partition).value.address if holder else ""


def _by_lag(lags: Mapping[int, Unread]) -> Sequence[int]:
    """Partitions with lag, the greatest first."""
    ordered = sorted(lags.values(), key=lambda unread: (-unread.lag, unread.partition))
    return [unread.partition for unread in ordered]


def _window(
    window: Window, count: int, behind: Sequence[int], holders: Mapping[int, str]
) -> Sequence[int]:
    """Numbers of the partitions that are shown. ``behind``: those that have lag, in order."""
    numbers: Sequence[int] = range(count)
    if window.order is Order.LAG:
        if window.start + window.limit <= len(behind):
            numbers = behind
        else:
            known = frozenset(behind)
            numbers = [*behind, *(number for number in range(count) if number not in known)]
    elif window.order is Order.WORKER:
        numbers = sorted(range(count), key=lambda number: holders.get(number, ""))
    return numbers[window.start : window.start + window.limit]
