"""Topic group use cases."""

from collections.abc import Mapping, Sequence

from opentalos.broker.values import TopicGroup
from opentalos.model.identity import Principal


class TopicGroupService:
    """Named sets and patterns of topics; each belongs to the caller that made it."""

    async def create_topic_group(self, caller: Principal, group: TopicGroup) -> TopicGroup:
        """Store a group; ``group.owner`` is ignored: the caller owns it."""
        raise NotImplementedError

    def describe_topic_group(self, caller: Principal, name: str) -> TopicGroup:
        """The caller's group of that name."""
        raise NotImplementedError

    async def update_topic_group(self, caller: Principal, group: TopicGroup) -> None:
        """Replace the definition."""
        raise NotImplementedError

    async def delete_topic_group(self, caller: Principal, name: str) -> None:
        """Remove the group."""
        raise NotImplementedError

    def list_topic_groups(self, caller: Principal) -> Sequence[TopicGroup]:
        """The caller's groups, by name."""
        raise NotImplementedError

    def lookup_topics(self, caller: Principal, name: str) -> Mapping[str, int]:
        """Resource name to partition count of the group's topics that the caller may read."""
        raise NotImplementedError

    def match_topics(self, caller: Principal, pattern: str, team: str) -> Sequence[str]:
        """Names of the team's topics that match and that the caller may see."""
        raise NotImplementedError
