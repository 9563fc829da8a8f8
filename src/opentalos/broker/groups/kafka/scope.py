"""Which topics and groups a Kafka client means and may see."""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from opentalos.broker.context import BrokerContext
from opentalos.broker.groups.group_names import (
    may_manage,
    plain_name,
    user_of,
    viewer_of,
    visible_groups,
)
from opentalos.broker.long_work import SHORT_ITEMS
from opentalos.catalog.access.authorize import permissions_of
from opentalos.catalog.topics.topic import Topic
from opentalos.group.directory import GroupUser
from opentalos.group.group_rows import GroupRows, own_rows
from opentalos.group.kafka.leases import KafkaLeases
from opentalos.group.row_format import SEPARATOR
from opentalos.model.errors import InvalidName, TalosError
from opentalos.model.identity import Permission, Principal
from opentalos.model.names import check_group_name

TOPICS_AT_ONCE: Final = 32  # whose rows are read at the same time for one call
# Names of one call that are looked up on each topic; for more of them its groups are listed.
LOOKED_UP_MAX: Final = 8
_LOOKUP_ITEMS: Final = 4  # finding a group on a topic takes as long as so many partitions
TOPICS_PER_ITEM: Final = 64  # examined for the price of one item of an administrative call


class FoundGroup(NamedTuple):
    """A topic that has a group, and whose group it is."""

    topic: Topic
    user: GroupUser


class GroupScope:
    """The topics that a caller may read, and which of them have the groups that a call names.

    Made for one call. Topics and rows are read once for all of its names, so a call costs topics
    and names, not one times the other. A group that is made after that is not in it; who uses one
    reads its state again.
    """

    def __init__(
        self, context: BrokerContext, rows: GroupRows, caller: Principal, groups: Collection[str]
    ) -> None:
        self._context, self._rows, self.caller = context, rows, caller
        self._named = groups
        self._found: Mapping[str, Sequence[FoundGroup]] | None = None  # by name, as asked for
        self._failed: TalosError | None = None
        self._spent = 0

    async def of(self, group: str) -> Sequence[FoundGroup]:
        """Where a group of the call is. Raises: Unavailable: for each name of the call."""
        if self._failed is not None:
            raise self._failed
        if self._found is None:
            try:
                self._found = await self._find()
            except TalosError as error:
                self._failed = error
                raise
        return self._found.get(group, ())

    async def topics(self) -> Sequence[Topic]:
        """Those that the caller may read; so many were examined, and are charged."""
        context = self._context
        context.admin_items.add(self.caller, len(context.topics.all()) // TOPICS_PER_ITEM)
        return await readable_topics(context, self.caller)

    async def spend(self, items: int) -> None:
        """Topics, groups or partitions were worked through: pause after each piece."""
        self._spent += items
        if self._spent >= SHORT_ITEMS:
            self._spent = 0
            await self._context.work.pause()

    async def _find(self) -> Mapping[str, Sequence[FoundGroup]]:
        found: dict[str, list[FoundGroup]] = {}
        topics = await self.topics()
        if not topics:
            return found
        groups = tuple(dict.fromkeys(self._named))
        plain = await self._context.work.each(self.caller.id, groups, plain_name)
        names = frozenset(plain)
        for start in range(0, len(topics), TOPICS_AT_ONCE):
            some = topics[start : start + TOPICS_AT_ONCE]
            if len(groups) <= LOOKED_UP_MAX:
                reads = [self._looked_up(some, groups)]
            else:
                reads = [self._listed(topic, names) for topic in some]
            for listed in await asyncio.gather(*reads):
                for group, match in listed:
                    found.setdefault(group, []).append(match)
                await self.spend(1 + len(listed))
        return found

    async def _looked_up(
        self, topics: Sequence[Topic], groups: Sequence[str]
    ) -> Sequence[tuple[str, FoundGroup]]:
        """Few names, by the keys of their rows."""
        asked = [
            (group, FoundGroup(topic, user))
            for topic in topics
            for group in groups
            if (user := manager_if_allowed(self.caller, topic, group)) is not None
        ]
        keys = [key for _, match in asked for key in match.user.keys()]
        rows = iter(await own_rows(self._rows, keys))
        return [
            (group, match)
            for group, match in asked
            # Both rows of each are taken from the iterator.
            if match.user.tenant in [row.tenant for row in (next(rows), next(rows)) if row]
        ]

    async def _listed(
        self, topic: Topic, names: Collection[str]
    ) -> Sequence[tuple[str, FoundGroup]]:
        """Many names: those of the topic's groups that have one of them."""
        rows = await self._rows.groups(topic.uuid)
        named = {group: row for group, row in rows.items() if plain_name(group) in names}
        viewer = viewer_of(self.caller, topic)
        found: list[tuple[str, FoundGroup]] = []
        for shown, user in visible_groups(self.caller, topic, named).items():
            match = FoundGroup(topic, user)
            found.append((shown, match))
            if user.tenant == viewer:  # one's own may be named with one's tenant as well
                found.append((user.tenant + SEPARATOR + shown, match))
        return found


def check_coordinator(context: BrokerContext, group: str) -> None:
    """Raises: InvalidName; NotOwner, PartitionNotServing: another server coordinates the group."""
    name = plain_name(group)
    check_group_name(name)
    context.ownership.check_group(name)


async def readable_topics(context: BrokerContext, caller: Principal) -> Sequence[Topic]:
    """The topics that the caller may read; many are examined in pieces."""

    def is_readable(topic: Topic) -> bool:
        return bool(permissions_of(caller, topic) & Permission.GET_MESSAGE)

    topics = list(context.topics.all())
    readable = await context.work.each(caller.id, topics, is_readable)
    return [topic for topic, may_read in zip(topics, readable, strict=True) if may_read]


def readable_topic(context: BrokerContext, caller: Principal, name: str) -> Topic | None:
    """The topic of a name, if the caller may read it."""
    try:
        return context.find_topic(caller, Permission.GET_MESSAGE, name)
    except TalosError:
        return None


async def has_workers(
    context: BrokerContext,
    leases: KafkaLeases,
    caller: Principal,
    group: str,
    topics: Iterable[Topic],
) -> bool:
    """Whether workers of our own protocol read one of them under the group's name; in pieces."""
    spent = 0
    for topic in topics:
        spent += _LOOKUP_ITEMS + topic.consumer_partitions
        if spent > SHORT_ITEMS:
            spent = 0
            await context.work.pause()
        user = user_of(caller, topic, group)
        if await leases.workers(user, topic.consumer_partitions):
            return True
    return False


def manager_if_allowed(caller: Principal, topic: Topic, group: str) -> GroupUser | None:
    """Whose group the name means on the topic; None: one that the caller may not see, or that
    nobody can have."""
    tenant, qualified, name = group.rpartition(SEPARATOR)
    try:
        user = user_of(caller, topic, name)
    except InvalidName:
        return None
    if not qualified or tenant == user.tenant:
        return user
    return user._replace(tenant=tenant) if may_manage(caller, topic) else None
