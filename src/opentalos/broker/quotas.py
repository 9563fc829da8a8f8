"""Quota use cases of users and topics."""

from collections.abc import Mapping

from opentalos.broker.values import BaseQuota, QuotaUse, UserQuota, UserQuotaUse
from opentalos.model.identity import Principal


class QuotaService:
    """Rates, space and topic counts. Source: talos-admin.md section 4."""

    async def set_user_quota(self, caller: Principal, user: str, quota: UserQuota) -> None:
        """Set a user's quota; for administrators."""
        raise NotImplementedError

    def list_user_quota(self, caller: Principal) -> Mapping[str, UserQuotaUse]:
        """Every user quota that was set; for administrators."""
        raise NotImplementedError

    def query_user_quota(self, caller: Principal) -> UserQuotaUse:
        """The caller's own quota in force."""
        raise NotImplementedError

    async def delete_user_quota(self, caller: Principal, user: str) -> None:
        """Back to the defaults; for administrators. Raises: QuotaNotExist."""
        raise NotImplementedError

    async def set_topic_quota(self, caller: Principal, resource: str, quota: BaseQuota) -> None:
        """Set a topic's quota; its owner or an administrator."""
        raise NotImplementedError

    def query_topic_quota(self, caller: Principal, resource: str) -> QuotaUse:
        """A topic's quota in force."""
        raise NotImplementedError

    async def delete_topic_quota(self, caller: Principal, resource: str) -> None:
        """Back to the defaults. Raises: QuotaNotExist."""
        raise NotImplementedError
