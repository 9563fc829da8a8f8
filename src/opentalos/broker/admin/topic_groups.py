"""TopicGroupService: named sets and patterns of topics."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from opentalos.broker.admin.overview import visible_in_pieces
from opentalos.broker.audit.trail import audited
from opentalos.broker.context import BrokerContext
from opentalos.broker.values import Topic, TopicGroup
from opentalos.catalog.topics.groups import TopicGroupCatalog
from opentalos.catalog.topics.pattern import topic_pattern
from opentalos.model.identity import Permission, Principal

NAMES_PER_TURN = 4  # a pattern may take 2 ms per name; other requests get their turn in between


class TopicGroupService:
    """Named sets and patterns of topics; each belongs to the caller's organisation or itself."""

    def __init__(self, context: BrokerContext, groups: TopicGroupCatalog) -> None:
        self._context, self._groups, self._audit = context, groups, context.audit

    @audited("create a topic group", "group.name")
    async def create_topic_group(self, caller: Principal, group: TopicGroup) -> TopicGroup:
        """Store a group; ``group.owner`` is ignored: the caller owns it.

        Raises: TopicGroupExists, InvalidName, BadRequest (an unsupported pattern).
        """
        owned = self._owned(caller, group)
        await self._context.changes.admit(caller)
        await self._groups.create(owned)
        return owned

    def describe_topic_group(self, caller: Principal, name: str) -> TopicGroup:
        """The caller's group of that name. Raises: TopicGroupNotExist."""
        return self._groups.get(caller.owner_id, name)

    @audited("change a topic group", "group.name")
    async def update_topic_group(self, caller: Principal, group: TopicGroup) -> None:
        """Replace the definition. Raises: TopicGroupNotExist."""
        owned = self._owned(caller, group)
        await self._context.changes.admit(caller)
        await self._groups.update(owned)

    @audited("delete a topic group", "name")
    async def delete_topic_group(self, caller: Principal, name: str) -> None:
        """Remove the group. Raises: TopicGroupNotExist."""
        self._context.authorizer.authorize_own(caller, "delete a topic group", name)
        await self._context.changes.admit(caller)
        await self._groups.delete(caller.owner_id, name)

    def list_topic_groups(self, caller: Principal) -> Sequence[TopicGroup]:
        """The caller's groups, by name."""
        return self._groups.owned_by(caller.owner_id)

    async def lookup_topics(self, caller: Principal, name: str) -> Mapping[str, int]:
        """Resource name to partition count of the group's topics that the caller may read."""
        matches = self._groups.get(caller.owner_id, name).matcher()
        meant = self._context.topics.names.meant
        found = [
            topic
            for topic in await self._matching(caller, Permission.GET_MESSAGE, matches)
            # A group consists of plain names; another owner cannot add a topic to it by a grant.
            if meant(caller, topic.name) is topic
        ]
        return {topic.resource: topic.consumer_partitions for topic in found}

    async def match_topics(self, caller: Principal, pattern: str, team: str) -> Sequence[str]:
        """Names of a team's topics that match and that the caller may describe.

        A topic is the team's if it is bound or granted to it; without a team, every topic counts.
        """
        matches = topic_pattern(pattern).matches
        found = await self._matching(caller, Permission.DESCRIBE_TOPIC, matches)
        return sorted({topic.name for topic in found if not team or _is_of_team(topic, team)})

    def _owned(self, caller: Principal, group: TopicGroup) -> TopicGroup:
        self._context.authorizer.authorize_own(caller, "own a topic group", group.name)
        return replace(group, owner=caller.owner_id)

    async def _matching(
        self, caller: Principal, action: Permission, matches: Callable[[str], bool]
    ) -> Sequence[Topic]:
        visible = await visible_in_pieces(self._context, caller, action)
        found: list[Topic] = []
        for index, topic in enumerate(visible):
            if index % NAMES_PER_TURN == NAMES_PER_TURN - 1:
                await self._context.work.pause()
            if matches(topic.name):
                found.append(topic)
        return found


def _is_of_team(topic: Topic, team: str) -> bool:
    granted = any(grantee.identifier == team for grantee in topic.acl)
    return granted or topic.bound_team == team or topic.owner == team
