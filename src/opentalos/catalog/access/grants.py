"""Pure rules of a topic's access list."""

from collections.abc import Mapping
from dataclasses import replace

from opentalos.catalog.access.authorize import permissions_of
from opentalos.catalog.access.governed import Governed
from opentalos.catalog.topics.topic import Topic
from opentalos.model.errors import BadRequest, PermissionDenied
from opentalos.model.identity import GUEST, Grantee, GrantType, Permission, Principal

IDENTIFIER_CHARS_MAX = 256
GRANTABLE = int(Permission.PUT_MESSAGE | Permission.GET_MESSAGE | Permission.DESCRIBE_TOPIC)
GRANTS_MAX = 1_000  # per topic
_CHANGE_PERMISSION = int(Permission.CHANGE_PERMISSION)


def check_grant(owner: str, grantee: Grantee, mask: int) -> Grantee:
    """Return the grantee as it is stored.

    Raises: BadRequest: no identifier or nothing granted; PermissionDenied: a bit that only the
        owner can have, or a grant to the owner, whose permissions cannot change.
    """
    grantee = check_grantee(grantee)
    if mask <= 0:
        raise BadRequest("the permission to grant must be above 0; revoke grants instead")
    if mask & ~GRANTABLE:
        raise PermissionDenied("CHANGE_TOPIC and CHANGE_PERMISSION cannot be granted")
    _refuse_owner(owner, grantee)
    return grantee


def check_grantee(grantee: Grantee) -> Grantee:
    """Return the grantee with the guest's identifier filled in. Raises: BadRequest."""
    if grantee.type == GrantType.GUEST:
        return Grantee(GrantType.GUEST, GUEST.id)
    if not 0 < len(grantee.identifier) <= IDENTIFIER_CHARS_MAX:
        raise BadRequest(f"a grantee identifier must have 1 to {IDENTIFIER_CHARS_MAX} characters")
    return grantee


def granted(topic: Topic, grantee: Grantee, mask: int) -> Topic:
    """The topic after setPermission, which overwrites."""
    return granted_several(topic, {grantee: mask})


def granted_several(topic: Topic, masks: Mapping[Grantee, int]) -> Topic:
    """The topic after each of these; raises what ``check_grant`` raises."""
    stored = {check_grant(topic.owner, grantee, mask): mask for grantee, mask in masks.items()}
    acl = {**topic.acl, **stored}
    if len(acl) > GRANTS_MAX:
        raise BadRequest(
            f"topic {topic.name} has {len(topic.acl)} grants; the limit is {GRANTS_MAX}"
        )
    return replace(topic, acl=acl)


def revoked(topic: Topic, grantee: Grantee) -> Topic:
    """The topic after revokePermission; a grantee without a grant changes nothing."""
    stored = check_grantee(grantee)
    _refuse_owner(topic.owner, stored)
    return replace(topic, acl={key: mask for key, mask in topic.acl.items() if key != stored})


def grant_seen(caller: Principal, topic: Topic, grantee: Grantee) -> int | None:
    """Mask of one grantee; the owner has everything. None: it does not concern the caller."""
    stored = check_grantee(grantee)
    if not concerns(caller, topic, stored.identifier):
        return None
    if stored.type != GrantType.GUEST and stored.identifier == topic.owner:
        return int(Permission.ADMIN)
    return topic.acl.get(stored, 0)


def grants_seen(caller: Principal, topic: Topic) -> Mapping[str, int]:
    """Identifier to mask, the owner first; grants to one identifier of several types add up.

    A grantee sees only what concerns it; see ``concerns``.
    """
    masks = {topic.owner: int(Permission.ADMIN)}
    sees_all = bool(permissions_of(caller, topic) & _CHANGE_PERMISSION)
    known = {topic.owner, *caller.identifiers}
    for grantee, mask in topic.acl.items():
        if sees_all or grantee.identifier in known:
            masks[grantee.identifier] = masks.get(grantee.identifier, 0) | mask
    return masks


def concerns(caller: Principal, resource: Governed, identifier: str) -> bool:
    """Whether the caller may see a grant to that identifier on a topic or table.

    Who may change grants sees all; others see the owner and what was granted to them, not which
    other tenants use the resource.
    """
    return (
        identifier == resource.owner
        or identifier in caller.identifiers
        or bool(permissions_of(caller, resource) & _CHANGE_PERMISSION)
    )


def _refuse_owner(owner: str, grantee: Grantee) -> None:
    if grantee.type != GrantType.GUEST and grantee.identifier == owner:
        raise PermissionDenied("the owner's permissions cannot be changed")
