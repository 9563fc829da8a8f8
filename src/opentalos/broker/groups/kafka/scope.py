"""Which topics and groups a Kafka client means and may see."""

from collections.abc import Sequence
from typing import Final

from opentalos.broker.context import BrokerContext
from opentalos.broker.groups.group_names import may_manage, plain_name, user_of
from opentalos.catalog.access.authorize import permissions_of
from opentalos.catalog.topics.topic import Topic
from opentalos.group.directory import GroupUser
from opentalos.group.row_format import SEPARATOR
from opentalos.model.identity import Permission, Principal
from opentalos.model.names import check_group_name

TOPICS_AT_ONCE: Final = 32  # whose rows are read at the same time for one call


def check_coordinator(context: BrokerContext, group: str) -> None:
    """Raises: InvalidName; NotOwner, PartitionNotServing: another server coordinates the group."""
    name = plain_name(group)
    check_group_name(name)
    context.ownership.check_group(name)


def readable_topics(context: BrokerContext, caller: Principal) -> Sequence[Topic]:
    """The topics that the caller may read."""
    return [
        topic
        for topic in context.topics.all()
        if permissions_of(caller, topic) & Permission.GET_MESSAGE
    ]


def manager_if_allowed(caller: Principal, topic: Topic, group: str) -> GroupUser | None:
    """Whose group the name means on the topic; None: one that the caller may not see."""
    tenant, qualified, name = group.rpartition(SEPARATOR)
    user = user_of(caller, topic, name)
    if not qualified or tenant == user.tenant:
        return user
    return user._replace(tenant=tenant) if may_manage(caller, topic) else None
