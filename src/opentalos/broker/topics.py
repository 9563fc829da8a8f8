"""Topic use cases: create, change, delete, describe and list topics."""

from collections.abc import Sequence

from opentalos.broker.values import AttributeChange, NewTopic, Topic, TopicDescription
from opentalos.model.identity import Principal


class TopicService:
    """Topics as callers see and change them; every method authorises first."""

    async def create_topic(self, caller: Principal, new: NewTopic) -> Topic:
        """Create a topic owned by the caller or its organisation."""
        raise NotImplementedError

    async def delete_topic(self, caller: Principal, resource: str) -> None:
        """Delete a topic by resource name; afterwards its name is free."""
        raise NotImplementedError

    async def change_attribute(
        self, caller: Principal, resource: str, change: AttributeChange
    ) -> Topic:
        """Change the fields that are set."""
        raise NotImplementedError

    async def delete_attribute(self, caller: Principal, resource: str, key: str) -> Topic:
        """Remove one key of the free attribute map."""
        raise NotImplementedError

    async def change_owner_info(
        self, caller: Principal, resource: str, charge_id: str, owner_name: str
    ) -> Topic:
        """Set the responsible person."""
        raise NotImplementedError

    def find_topic(self, caller: Principal, name: str) -> Topic:
        """The topic of getDescribeInfo (``consumer_partitions``) and getTopicAttribute."""
        raise NotImplementedError

    async def describe_topic(self, caller: Principal, name: str) -> TopicDescription:
        """Everything about a topic."""
        raise NotImplementedError

    def list_topics(self, caller: Principal) -> Sequence[Topic]:
        """Topics that the caller owns, by name."""
        raise NotImplementedError

    def bind_topics(self, caller: Principal) -> Sequence[Topic]:
        """Topics bound to the caller's organisation or team (getBindTopics)."""
        raise NotImplementedError

    async def add_sub_resource_name(
        self, caller: Principal, resource: str, organisation: str, team: str
    ) -> Topic:
        """Bind a developer's topic to an organisation and its admin team."""
        raise NotImplementedError

    def replicate_topic(self, caller: Principal) -> Topic:
        """Both replication RPCs. Raises: NotSupported."""
        raise NotImplementedError

    async def finish_shrink(self, caller: Principal, resource: str) -> Topic:
        """End a shrink now, whatever is not consumed yet; for administrators."""
        raise NotImplementedError
