"""Roles: the one table of what each may do in the whole service, and how limits of a key narrow it.

An administrator may do everything. Every other role starts from what a tenant may do with its own
resources and with what it was granted: ``_OWN`` narrows that, ``_EVERYWHERE`` and ``_SYSTEM`` add
to it, and ``ACTIONS`` lists the administrative actions, which are for administrators only unless
they are listed here. docs/adr/0044-ways-to-be-known.md gives the reasons.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from opentalos.model.errors import BadRequest
from opentalos.model.identity import KeyLimits, Permission, Principal, Role, Scope
from opentalos.model.names import METRICS_TOPIC, SYSTEM_TENANT, USAGE_TOPIC

ADMINISTRATOR: Final = "administrator"
ROLE_NAMES: Final = (*(role.name.lower() for role in Role), ADMINISTRATOR)

_LOOK = frozenset({Role.VIEWER, Role.OPERATOR})
_LOOK_OR_BILL = _LOOK | {Role.BILLING}
_OPERATE = frozenset({Role.OPERATOR})
_BILL = frozenset({Role.BILLING})
ACTIONS: Final[Mapping[str, frozenset[Role]]] = {
    "see the cluster": _LOOK,
    "use the cluster": _LOOK,  # of a single server: its status
    "list the servers of partitions": _LOOK,
    "read metrics": _LOOK,
    "see encryption": _LOOK,
    "list principals": _LOOK_OR_BILL,
    "list user quotas": _LOOK_OR_BILL,
    "list quotas": _LOOK_OR_BILL,
    "see invoices": _LOOK_OR_BILL,  # of every tenant; each sees its own
    "list quota projections": _LOOK_OR_BILL,
    "drain a server": _OPERATE,
    "end the drain of a server": _OPERATE,
    "set weights": _OPERATE,
    "set a user quota": _BILL,
    "delete a user quota": _BILL,
    "store quota projections": _BILL,
    "approve quota": _BILL,
    "revoke quota": _BILL,
}

_ALL = int(Permission.ADMIN)
_READ = int(Permission.GET_MESSAGE | Permission.DESCRIBE_TOPIC)
_WRITE = int(Permission.PUT_MESSAGE | Permission.DESCRIBE_TOPIC)
_OWN: Final[Mapping[Role, int]] = {
    Role.USER: _ALL,
    Role.VIEWER: _READ,
    Role.OPERATOR: _ALL,
    Role.BILLING: _READ,
    Role.AGENT: 0,
}
_EVERYWHERE: Final[Mapping[Role, int]] = {
    Role.VIEWER: int(Permission.DESCRIBE_TOPIC),
    Role.OPERATOR: int(Permission.DESCRIBE_TOPIC),
}
_SYSTEM: Final[Mapping[tuple[Role, str], int]] = {
    (Role.BILLING, USAGE_TOPIC): _READ,
    (Role.AGENT, METRICS_TOPIC): _WRITE,
}


def narrowed(principal: Principal, owner: str, name: str, mask: int) -> int:
    """The mask of a topic or table after role and key. ``mask``: without regard to both."""
    role = principal.role
    if role and not principal.admin:
        mask &= _OWN[role]
        # An agent's one right is all that it has, so it needs no scope.
        if role is Role.AGENT or _allows(principal, Scope.ADMIN):
            mask |= _EVERYWHERE.get(role, 0)
            if owner == SYSTEM_TENANT:
                mask |= _SYSTEM.get((role, name), 0)
    return mask if principal.limits is None else mask & principal.limits.mask


def may_manage(principal: Principal) -> bool:
    """Whether the principal may create and change resources of its own."""
    if principal.anonymous or not _allows(principal, Scope.MANAGE):
        return False
    return principal.admin or _OWN[principal.role] == _ALL


def may_look(principal: Principal) -> bool:
    """Whether the principal may see what is known about its tenant."""
    if principal.anonymous or not _allows(principal, Scope.DESCRIBE):
        return False
    return principal.admin or bool(_OWN[principal.role] & Permission.DESCRIBE_TOPIC)


def may_coordinate(principal: Principal) -> bool:
    """Whether the principal may hold leases of its tenant: like consumer groups, for readers."""
    if principal.anonymous or not _allows(principal, Scope.GET):
        return False
    return principal.admin or bool(_OWN[principal.role] & Permission.GET_MESSAGE)


def may_manage_itself(principal: Principal) -> bool:
    """Whether the principal may change its own keys, and what plain names mean to it."""
    manages = not principal.anonymous and _allows(principal, Scope.MANAGE)
    return manages and principal.role is not Role.AGENT


def may_administer(principal: Principal, action: str) -> bool:
    """Whether an administrative action is allowed."""
    if not _allows(principal, Scope.ADMIN):
        return False
    return principal.admin or (
        not principal.anonymous and principal.role in ACTIONS.get(action, frozenset())
    )


def with_limits(principal: Principal, limits: KeyLimits | None) -> Principal:
    """The principal as the caller who used a key with these limits."""
    if limits is None or limits == KeyLimits():
        return principal
    admin = principal.admin and limits.allows(Scope.ADMIN)
    return replace(principal, admin=admin, limits=limits)


def role_name(principal: Principal) -> str:
    """One of ROLE_NAMES."""
    return ADMINISTRATOR if principal.admin else principal.role.name.lower()


def with_role(principal: Principal, name: str) -> Principal:
    """The principal with the role of that name. Raises: BadRequest."""
    if name not in ROLE_NAMES:
        raise BadRequest(f"unknown role {name[:40]}: use one of {', '.join(ROLE_NAMES)}")
    if name == ADMINISTRATOR:
        return replace(principal, admin=True, role=Role.USER)
    return replace(principal, admin=False, role=Role[name.upper()])


def _allows(principal: Principal, scope: Scope) -> bool:
    return principal.limits is None or principal.limits.allows(scope)
