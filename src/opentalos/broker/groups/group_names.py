"""Whose consumer group a name means: one's own, unless it is written TENANT/name."""

from collections.abc import Mapping

from opentalos.broker.context import BrokerContext
from opentalos.catalog.access.authorize import permissions_of
from opentalos.catalog.topics.topic import Topic
from opentalos.group.directory import GroupUser
from opentalos.group.row_format import SEPARATOR, GroupKey, GroupRow
from opentalos.model.errors import ConsumerGroupNotExist
from opentalos.model.identity import Permission, Principal
from opentalos.model.names import check_group_name

_TENANT_CHARS_MAX = 128  # as of every id


def coordinated_topic(
    context: BrokerContext, caller: Principal, group: str, resource: str
) -> Topic:
    """The topic, at the coordinator of the group. Raises: NotOwner at another server."""
    context.ownership.check_group(plain_name(group))
    return context.topic(caller, Permission.GET_MESSAGE, resource)


def plain_name(group: str) -> str:
    """The name without a tenant; the group's coordinator follows from it."""
    return group.rpartition(SEPARATOR)[2]


def user_of(caller: Principal, topic: Topic, group: str) -> GroupUser:
    """The caller as a user of a group; service administrators use those of the topic's owner."""
    key = GroupKey(topic.uuid, check_group_name(group))
    return GroupUser(key, viewer_of(caller, topic), topic.owner)


def manager_of(context: BrokerContext, caller: Principal, topic: Topic, group: str) -> GroupUser:
    """Like ``user_of``; who may change the topic may also name another tenant's group.

    Raises: PermissionDenied, which is audited.
    """
    tenant, qualified, name = group.rpartition(SEPARATOR)
    user = user_of(caller, topic, name)
    if not qualified or tenant == user.tenant:
        return user
    if not may_manage(caller, topic):
        resource = f"{topic.resource}/{name}"
        context.authorizer.refuse(caller, "use another tenant's group", resource)
    if not 0 < len(tenant) <= _TENANT_CHARS_MAX or not tenant.isprintable():
        raise ConsumerGroupNotExist(f"no consumer group {name} of such a tenant")
    return user._replace(tenant=tenant)


def may_manage(caller: Principal, topic: Topic) -> bool:
    """Whether the caller sees and deletes every tenant's groups."""
    return bool(permissions_of(caller, topic) & Permission.CHANGE_TOPIC)


def viewer_of(caller: Principal, topic: Topic) -> str:
    """The tenant whose groups need no prefix."""
    return topic.owner if caller.admin else caller.owner_id


def shown_name(caller: Principal, topic: Topic, group: str) -> str:
    """A group's name as in ``visible_groups``, where one's own tenant is left out."""
    return group.removeprefix(viewer_of(caller, topic) + SEPARATOR)


def visible_groups(
    caller: Principal, topic: Topic, groups: Mapping[str, GroupRow]
) -> Mapping[str, GroupUser]:
    """The groups that the caller may know of, by the names that the caller uses, sorted."""
    viewer, manages = viewer_of(caller, topic), may_manage(caller, topic)
    found: dict[str, GroupUser] = {}
    for group, row in groups.items():
        own = row.tenant == viewer
        if own or manages:
            name = plain_name(group)
            shown = name if own else row.tenant + SEPARATOR + name
            found[shown] = GroupUser(GroupKey(topic.uuid, name), row.tenant, topic.owner)
    return dict(sorted(found.items()))
