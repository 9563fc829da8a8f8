"""The one access decision: what a principal may do with a topic or table; the audit of denials."""

import asyncio
import logging
from collections.abc import Callable
from typing import NoReturn

from opentalos.catalog.access.governed import Governed
from opentalos.catalog.access.roles import (
    may_administer,
    may_manage,
    may_manage_itself,
    narrowed,
)
from opentalos.catalog.topics.topic import Topic
from opentalos.model.errors import InvalidName, PermissionDenied, TableNotExist, TopicNotExist
from opentalos.model.identity import Permission, Principal, TableRight
from opentalos.model.names import SYSTEM_TENANT, ResourceName
from opentalos.model.settings.security import AuthLimits

_AUDIT = logging.getLogger("opentalos.audit")
_ALL = int(Permission.ADMIN)
# A topic that was bound to an organisation shows itself to its members; its admin team may do
# everything that can be granted to another principal than the owner.
_BOUND_ORGANISATION = int(Permission.DESCRIBE_TOPIC)
_BOUND_TEAM = int(Permission.PUT_MESSAGE | Permission.GET_MESSAGE | Permission.DESCRIBE_TOPIC)
_DESCRIBE = int(TableRight.DESCRIBE)
_RESOURCE_CHARS_MAX = 200  # of a caller's text in an audit line


def permissions_of(principal: Principal, topic: Governed) -> int:
    """Mask of what the principal may do with the topic or table; pure."""
    if principal.anonymous:
        return topic.guest_mask
    owner, organisation = topic.owner, principal.organisation
    if owner == principal.id or owner == organisation or principal.admin:
        # A principal of that name may be older than the rule against it.
        mask = _ALL if principal.admin or owner != SYSTEM_TENANT else 0
    else:
        mask = _granted(principal, topic)
    if principal.role or principal.limits is not None:
        mask = narrowed(principal, owner, topic.name, mask)
        # No row can be read or written without the schema, so every right on a table includes it.
        return mask | _DESCRIBE if mask and not isinstance(topic, Topic) else mask
    return mask


def _granted(principal: Principal, topic: Governed) -> int:
    """What a principal has that neither owns the topic or table nor administers the service."""
    organisation = principal.organisation
    mask, masks = topic.public_mask, topic.masks
    if masks:
        mask |= masks.get(principal.id, 0)
        if principal.team:
            mask |= masks.get(principal.team, 0)
        if organisation:
            mask |= masks.get(organisation, 0)
    if topic.bound_organisation and topic.bound_organisation == organisation:
        mask |= _BOUND_ORGANISATION
    if topic.bound_team and topic.bound_team == principal.team:
        mask |= _BOUND_TEAM
    return mask


class Authorizer:
    """Decides, and writes every denial to the audit log, at most so many lines per second.

    Args: denied: called for each line: caller, action, resource, denials left out before it.
    """

    def __init__(
        self,
        limits: AuthLimits,
        denied: Callable[[Principal, str, str, int], None] | None = None,
    ) -> None:
        self._denied = denied
        self._lines_max = limits.denial_log_per_s_max
        self._window_s = float("-inf")
        self._lines = 0
        self._left_out = 0  # since the last line
        self.denials = 0  # ever

    def authorize(
        self, principal: Principal, action: Permission | TableRight, topic: Governed
    ) -> None:
        """Return if the principal may do this to the topic or table; the only decision point.

        Raises: TopicNotExist, TableNotExist if it was granted nothing at all, so that it cannot
            tell the topic or table from an unknown one; PermissionDenied otherwise.
        """
        mask = permissions_of(principal, topic)
        # On an enum, ``&`` costs more than all the rest of the decision.
        if mask == _ALL or int.__and__(mask, action) == action:
            return
        self._deny(principal, action.name or str(int(action)), topic.resource)
        if not isinstance(topic, Topic):
            if mask == 0:
                raise table_not_exist(topic.name)
            raise PermissionDenied(f"{principal.id} lacks {action.name} on table {topic.name}")
        if mask == 0:
            raise topic_not_exist(topic.resource, known=topic)
        raise PermissionDenied(f"{principal.id} lacks {action.name} on topic {topic.name}")

    def authorize_admin(self, principal: Principal, action: str, resource: str = "") -> None:
        """Return if the principal's role has this action, as ``catalog/access/roles.py`` lists.

        Raises: PermissionDenied.
        """
        if not may_administer(principal, action):
            self.refuse(principal, action, resource)

    def authorize_own(self, principal: Principal, action: str, resource: str) -> None:
        """Return if the principal may create and change resources of its own.

        Raises: PermissionDenied: it is a guest, or its role or key does not allow that.
        """
        if not may_manage(principal):
            self.refuse(principal, action, resource)

    def authorize_itself(self, principal: Principal, action: str, resource: str) -> None:
        """Return if the principal may change what is about itself alone. Raises: PermissionDenied:
        it is a guest or an agent, or its key does not allow that."""
        if not may_manage_itself(principal):
            self.refuse(principal, action, resource)

    def refuse(self, principal: Principal, action: str, resource: str) -> NoReturn:
        """Deny what another rule than a topic permission forbids. Raises: PermissionDenied."""
        self._deny(principal, action, resource)
        raise PermissionDenied(f"{principal.id} is not allowed to {action}")

    def _deny(self, principal: Principal, action: str, resource: str) -> None:
        self.denials += 1
        now_s = asyncio.get_running_loop().time()
        if now_s - self._window_s >= 1.0:
            self._window_s, self._lines = now_s, 0
        if self._lines >= self._lines_max:
            self._left_out += 1
            return
        self._lines += 1
        left_out, self._left_out = self._left_out, 0
        fields = {
            "principal": principal.id,
            "action": action,
            "resource": resource[:_RESOURCE_CHARS_MAX],
            "left_out": left_out,
        }
        _AUDIT.warning(
            "denied principal=%r action=%r resource=%r left_out=%d",
            *fields.values(),
            extra={"audit": fields},
        )
        if self._denied is not None:
            self._denied(principal, action, resource, left_out)


def topic_not_exist(name: str, *owners: str, known: Topic | None = None) -> TopicNotExist:
    """The one answer for unknown and not granted: both must read alike.

    Args: owners: whose topics a plain ``name`` may mean; any other name includes its owner. known:
        the topic, if it is there but nothing is granted.
    """
    text = f"topic {name[:_RESOURCE_CHARS_MAX]} does not exist"
    if owners:
        return TopicNotExist(text, tuple((owner, name, None) for owner in dict.fromkeys(owners)))
    owner, slash, plain = name.rpartition("/")
    if slash:
        return TopicNotExist(text, ((owner, plain, None),))
    try:
        resource = ResourceName.parse(name)
    except InvalidName:
        return TopicNotExist(text)
    return TopicNotExist(text, ((resource.owner, resource.topic, known),))


def table_not_exist(name: str) -> TableNotExist:
    """The one answer for unknown and not granted, as with topics."""
    return TableNotExist(f"table {name[:_RESOURCE_CHARS_MAX]} does not exist")
