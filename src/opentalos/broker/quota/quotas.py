"""QuotaService: quotas of users and topics."""

from collections.abc import Mapping
from dataclasses import replace

from opentalos.broker.audit.trail import audited, itself
from opentalos.broker.context import BrokerContext
from opentalos.broker.values import BaseQuota, QuotaUse, Topic, UserQuota, UserQuotaUse
from opentalos.catalog.principals.principals import check_principal
from opentalos.catalog.quota.quotas import check_quota, check_user_quota, topic_rates, user_rates
from opentalos.catalog.quota.records import QuotaCatalog
from opentalos.model.errors import QuotaNotExist
from opentalos.model.identity import GUEST, Permission, Principal


class QuotaService:
    """Rates, space and topic counts. Source: docs/protocol/administration.md#quotas."""

    def __init__(self, context: BrokerContext, quotas: QuotaCatalog) -> None:
        self._context, self._quotas, self._audit = context, quotas, context.audit

    @audited("set a user quota", "user", "quota", owner=itself)
    async def set_user_quota(self, caller: Principal, user: str, quota: UserQuota) -> None:
        """Set a user's quota; for administrators. Raises: PermissionDenied, BadRequest."""
        self._context.authorizer.authorize_admin(caller, "set a user quota", user)
        if user != GUEST.id:
            check_principal(user, "", "")
        check_user_quota(quota)
        await self._quotas.set_user(user, quota)

    def list_user_quota(self, caller: Principal) -> Mapping[str, UserQuotaUse]:
        """Every user quota that was set; for administrators."""
        self._context.authorizer.authorize_admin(caller, "list user quotas")
        return {user: self._of_user(user) for user in sorted(self._quotas.users())}

    def query_user_quota(self, caller: Principal) -> UserQuotaUse:
        """The quota in force of the caller: its rates, and the space and topics of their owner.

        Topics of an organisation's members are the organisation's, and count against its quota.
        """
        own, owner = self._of_user(caller.id), self._of_user(caller.owner_id)
        space = replace(own.use.quota, space_bytes=owner.use.quota.space_bytes)
        return UserQuotaUse(QuotaUse(space, owner.use.used_bytes), owner.topics)

    @audited("delete a user quota", "user", owner=itself)
    async def delete_user_quota(self, caller: Principal, user: str) -> None:
        """Restore the defaults; for administrators. Raises: QuotaNotExist."""
        self._context.authorizer.authorize_admin(caller, "delete a user quota", user)
        await self._quotas.delete_user(user)

    @audited("set a topic quota", "resource", "quota")
    async def set_topic_quota(self, caller: Principal, resource: str, quota: BaseQuota) -> None:
        """Set a topic's quota; its owner or an administrator."""
        topic = self._context.topic(caller, Permission.CHANGE_TOPIC, resource)
        check_quota(quota)
        await self._context.changes.admit(caller)
        await self._context.topics.change(topic, lambda now: replace(now, quota=quota))

    def query_topic_quota(self, caller: Principal, resource: str) -> QuotaUse:
        """A topic's quota in force."""
        return self.of_topic(self._context.topic(caller, Permission.CHANGE_TOPIC, resource))

    @audited("delete a topic quota", "resource")
    async def delete_topic_quota(self, caller: Principal, resource: str) -> None:
        """Restore the defaults. Raises: QuotaNotExist."""
        topic = self._context.topic(caller, Permission.CHANGE_TOPIC, resource)

        def without_quota(now: Topic) -> Topic:
            if now.quota is None:
                raise QuotaNotExist(f"no quota was set for topic {now.name}")
            return replace(now, quota=None)

        await self._context.changes.admit(caller)
        await self._context.topics.change(topic, without_quota)

    def of_topic(self, topic: Topic) -> QuotaUse:
        """A topic's quota in force, for a caller that was authorised to see the topic."""
        rates = topic_rates(self._context.config.quota, topic.quota)
        return QuotaUse(rates, self._context.spaces.used(topic))

    def _of_user(self, user: str) -> UserQuotaUse:
        limits, quota = self._context.config.quota, self._quotas.user(user)
        use = QuotaUse(user_rates(limits, quota), self._context.spaces.used_by_owner(user))
        topics = quota.topics if quota and quota.topics is not None else limits.user_topics
        return UserQuotaUse(use, topics)
