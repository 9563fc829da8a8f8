"""KeyEnds: until when existing keys are accepted; and who may change keys."""

from dataclasses import replace
from typing import Protocol

from opentalos.broker.audit.trail import AuditTrail, audited
from opentalos.broker.values import LiveKey
from opentalos.catalog.access.authorize import Authorizer
from opentalos.catalog.access.roles import may_manage_itself
from opentalos.catalog.principals.principals import PrincipalDirectory
from opentalos.model.errors import PermissionDenied
from opentalos.model.identity import UNLIMITED, KeyLimits, Principal


class _HasKeys(Protocol):
    def key(self, key_id: str) -> LiveKey | None: ...


def owner_of_key(service: _HasKeys, key_id: str) -> str:
    """Id of the principal that has a key, for the audit; empty: nobody has it."""
    key = service.key(key_id)
    return key.principal.id if key is not None else ""


class KeyEnds:
    """Sets, moves and removes the end of a key, which keeps its secret and its other limits."""

    def __init__(
        self, directory: PrincipalDirectory, authorizer: Authorizer, audit: AuditTrail
    ) -> None:
        self._directory, self._authorizer, self._audit = directory, authorizer, audit

    def key(self, key_id: str) -> LiveKey | None:
        """The key, for the audit."""
        return self._directory.key(key_id)

    @audited("change the end of a key", "key_id", "expires_ms", owner=owner_of_key)
    async def change(self, caller: Principal, key_id: str, expires_ms: int) -> None:
        """Give a key another end, Unix time in ms; 0: none. For administrators and the principal
        itself; each server refuses the key from then on.

        Raises: PrincipalNotExist; BadRequest: the key has ended already, or the end has passed;
            PermissionDenied, also if the key could do more then than the key of the call.
        """
        key = self._directory.key(key_id)
        owner = key.principal.id if key else ""
        authorize_key(self._authorizer, caller, "change the end of a key", key_id, owner)
        limits = (key and key.limits) or UNLIMITED
        check_not_wider(caller, replace(limits, expires_ms=expires_ms))
        owner = self._directory.owner_of_key(key_id)
        await self._directory.change(owner, key_ends={key_id: expires_ms})


def authorize_key(
    authorizer: Authorizer, caller: Principal, action: str, resource: str, owner: str
) -> None:
    """Keys belong to the principal itself and to administrators. Raises: PermissionDenied."""
    if caller.id == owner and may_manage_itself(caller):
        return
    authorizer.authorize_admin(caller, action, resource)


def check_not_wider(caller: Principal, limits: KeyLimits) -> None:
    """Who has a limited key must not get rid of the limits. Raises: PermissionDenied."""
    if caller.limits is not None and not limits.within(caller.limits):
        raise PermissionDenied(
            f"{caller.id} may not issue such a key: it may do more than the key of this request; "
            "use a key without these limits"
        )
