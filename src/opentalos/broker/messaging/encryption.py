"""EncryptionService: the state of encryption at rest, and new versions of data keys."""

from collections.abc import Sequence

from opentalos.broker.audit.trail import audited, of_service
from opentalos.broker.context import BrokerContext
from opentalos.catalog.encryption.tenant_keys import KeyFigures
from opentalos.model.errors import BadRequest
from opentalos.model.identity import Principal


class EncryptionService:
    """For administrators."""

    def __init__(self, context: BrokerContext) -> None:
        self._context, self._audit = context, context.audit

    def show(self, caller: Principal) -> KeyFigures:
        """What is encrypted from now on, and how many keys there are. Raises: PermissionDenied."""
        self._context.authorizer.authorize_admin(caller, "see encryption")
        return self._context.keys.figures

    @audited("rotate data keys", "", "tenants", owner=of_service)
    async def rotate(self, caller: Principal, tenants: Sequence[str] = ()) -> int:
        """New versions of these tenants' data keys, or of all; how many. Nothing is rewritten.

        Raises: PermissionDenied; BadRequest: encryption is not enabled, or a tenant has no key;
            QuotaExceeded, Unavailable: some may have a new version.
        """
        self._context.authorizer.authorize_admin(caller, "rotate data keys")
        keys = self._context.keys
        if not keys.enabled:
            raise BadRequest(
                "encryption is not enabled; set [encryption] key_file or key_command, and restart"
            )
        unknown = [tenant for tenant in tenants if not keys.has(tenant)]
        if unknown:
            raise BadRequest(f"no data key of {', '.join(unknown)}: nothing of theirs is stored")
        return await keys.rotate(tenants or None)
