"""PermissionService: the access list of a topic."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import reduce
from operator import or_

from opentalos.broker.audit.trail import audited
from opentalos.broker.context import BrokerContext
from opentalos.broker.values import Topic
from opentalos.catalog.access.authorize import permissions_of
from opentalos.catalog.access.grants import (
    grant_seen,
    granted,
    granted_several,
    grants_seen,
    revoked,
)
from opentalos.catalog.access.plain_names import accepted_by
from opentalos.model.identity import GUEST, Grantee, GrantType, Permission, Principal


class PermissionService:
    """The access list of a topic. Source: docs/protocol/administration.md#permissions."""

    def __init__(self, context: BrokerContext) -> None:
        self._context, self._audit = context, context.audit

    @audited("grant", "resource", "grantee", "permission")
    async def set_permission(
        self, caller: Principal, resource: str, grantee: Grantee, permission: Permission
    ) -> None:
        """Overwrite the grantee's permissions.

        Raises: BadRequest, PermissionDenied: not grantable; TopicNotExist.
        """
        topic = self._context.topic(caller, Permission.CHANGE_PERMISSION, resource)
        await self._context.changes.admit(caller)
        mask = int(permission)
        await self._context.topics.change(topic, lambda now: granted(now, grantee, mask))

    @audited("revoke", "resource", "grantee")
    async def revoke_permission(self, caller: Principal, resource: str, grantee: Grantee) -> None:
        """Revoke all permissions; a grantee without a grant is no error."""
        topic = self._context.topic(caller, Permission.CHANGE_PERMISSION, resource)
        await self._context.changes.admit(caller)
        await self._context.topics.change(topic, lambda now: revoked(now, grantee))

    @audited("grant", "resource", "identifier", "permission")
    async def grant_to(
        self, caller: Principal, resource: str, identifier: str, permission: Permission
    ) -> None:
        """Overwrite an identifier's permissions, whatever its grantee type; ``guest`` stands for
        callers without a key.

        Raises: BadRequest, PermissionDenied: not grantable; TopicNotExist.
        """
        topic = self._context.topic(caller, Permission.CHANGE_PERMISSION, resource)
        await self._context.changes.admit(caller)
        mask = int(permission)

        def overwrite(now: Topic) -> Topic:
            changed = granted(now, _kinds_of(now, identifier)[0], mask)
            for other in _kinds_of(now, identifier)[1:]:
                changed = revoked(changed, other)
            return changed

        await self._context.topics.change(topic, overwrite)

    @audited("revoke", "resource", "identifier")
    async def revoke_from(self, caller: Principal, resource: str, identifier: str) -> None:
        """Revoke all permissions of an identifier; one without a grant is no error."""
        topic = self._context.topic(caller, Permission.CHANGE_PERMISSION, resource)
        await self._context.changes.admit(caller)

        def without(now: Topic) -> Topic:
            for grantee in _kinds_of(now, identifier):
                now = revoked(now, grantee)
            return now

        await self._context.topics.change(topic, without)

    @audited("grant", "resource", "identifier", "permission")
    async def grant_more(
        self, caller: Principal, resource: str, identifier: str, permission: Permission
    ) -> None:
        """Add permissions to those of an identifier; like ``grant_to`` otherwise."""
        topic = self._context.topic(caller, Permission.CHANGE_PERMISSION, resource)
        await self._context.changes.admit(caller)

        def add(now: Topic) -> Topic:
            grantee = _kinds_of(now, identifier)[0]
            return granted(now, grantee, now.acl.get(grantee, 0) | int(permission))

        await self._context.topics.change(topic, add)

    def try_grants(
        self, caller: Principal, resource: str, grants: Mapping[str, Permission]
    ) -> Mapping[str, Permission]:
        """What each identifier would have after ``grant_more``; nothing is changed or audited.

        Args: grants: by identifier; NONE: it is given nothing more.
        Raises: as ``grant_more``, for any of them.
        """
        topic = self._context.topic(caller, Permission.CHANGE_PERMISSION, resource)
        of: dict[str, list[Grantee]] = {}
        for grantee in topic.acl:
            of.setdefault(grantee.identifier, []).append(grantee)
        changed, after = dict[Grantee, int](), dict[str, Permission]()
        for identifier, permission in grants.items():
            kinds = _kinds_among(of.get(identifier, ()), identifier)
            first = topic.acl.get(kinds[0], 0) | int(permission)
            if permission:
                changed[kinds[0]] = first
            others = (topic.acl.get(grantee, 0) for grantee in kinds[1:])
            after[identifier] = Permission(reduce(or_, others, first))
        granted_several(topic, changed)
        return after

    @audited("revoke", "resource", "identifier", "permission")
    async def revoke_some(
        self, caller: Principal, resource: str, identifier: str, permission: Permission
    ) -> None:
        """Take permissions from an identifier; those it does not have are no error."""
        topic = self._context.topic(caller, Permission.CHANGE_PERMISSION, resource)
        await self._context.changes.admit(caller)

        def without(now: Topic) -> Topic:
            for grantee in _kinds_of(now, identifier):
                kept = now.acl.get(grantee, 0) & ~int(permission)
                now = granted(now, grantee, kept) if kept else revoked(now, grantee)
            return now

        await self._context.topics.change(topic, without)

    async def set_accepted(self, caller: Principal, name: str, accepted: bool) -> None:
        """Accept the grants that the caller has on a topic, or take the acceptance back.

        Once accepted, the topic's plain name means this topic to the caller. Revoking the grant
        revokes the acceptance.
        Raises: TopicNotExist, InvalidName, PermissionDenied, and as ``accepted_by``.
        """
        topics, topic = self._context.topics, self._granted_topic(caller, name)
        self._context.authorizer.authorize_itself(caller, "accept a grant", topic.resource)
        await self._context.changes.admit(caller)
        await topics.change(
            topic,
            lambda now: replace(now, accepted=accepted_by(topics.names, caller, now, accepted)),
        )

    def list_permission(self, caller: Principal, resource: str) -> Mapping[str, int]:
        """Identifier to mask, the owner included; to grantees, only what concerns them."""
        return grants_seen(caller, self._context.topic(caller, Permission.DESCRIBE_TOPIC, resource))

    def get_permission(self, caller: Principal, resource: str, grantee: Grantee) -> int:
        """Mask of one grantee; 0 if nothing was granted.

        Raises: PermissionDenied: a grantee asks for another one, whether it has a grant or not.
        """
        topic = self._context.topic(caller, Permission.DESCRIBE_TOPIC, resource)
        mask = grant_seen(caller, topic, grantee)
        if mask is None:
            self._context.authorizer.refuse(caller, "read grants of others", resource)
        return mask

    def _granted_topic(self, caller: Principal, name: str) -> Topic:
        """The topic, if the caller has any right on it. Raises: TopicNotExist, InvalidName."""
        mask = permissions_of(caller, self._context.topics.find(caller, name))
        lowest = Permission(mask & -mask) if mask else Permission.DESCRIBE_TOPIC
        return self._context.find_topic(caller, lowest, name)


def _kinds_of(topic: Topic, identifier: str) -> list[Grantee]:
    """The grantees of that name, at least one: a developer if it has no grant yet."""
    return _kinds_among(topic.acl, identifier)


def _kinds_among(grantees: Iterable[Grantee], identifier: str) -> list[Grantee]:
    if identifier == GUEST.id:
        return [Grantee(GrantType.GUEST, identifier)]
    found = [
        grantee
        for grantee in grantees
        if grantee.identifier == identifier and grantee.type != GrantType.GUEST
    ]
    return found or [Grantee(GrantType.DEVELOPER, identifier)]
