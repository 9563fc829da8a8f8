"""QuotaService: quotas of users, partition quotas of organisations."""

from typing import Final

from opentalos.broker.broker import Broker
from opentalos.broker.values import PartitionQuota, UserQuota, UserQuotaUse
from opentalos.gateway.thrift_http.handlers import values
from opentalos.gateway.thrift_http.handlers.context import CallContext, Handler
from opentalos.model.identity import Principal
from opentalos.wire._generated import quota


def _user_quota(use: UserQuotaUse) -> quota.UserQuota:
    topics = min(use.topics, values.I32_MAX)
    return quota.UserQuota(baseQuota=values.base_quota(use.use), topicNumberQuota=topics)


def _wanted(value: quota.PartitionQuotaInfo) -> PartitionQuota:
    return PartitionQuota(
        organisation=value.orgId,
        total=value.totalQuota,
        reason=value.applyReason or "",
        organisation_name=value.orgName or "",
    )


def _infos(quotas: tuple[PartitionQuota, ...]) -> list[quota.PartitionQuotaInfo]:
    return [
        quota.PartitionQuotaInfo(
            orgId=item.organisation,
            totalQuota=item.total,
            usedOuota=item.used,
            applyReason=item.reason,
            orgName=item.organisation_name,
        )
        for item in quotas
    ]


async def set_user_quota(
    broker: Broker, caller: Principal, request: quota.SetUserQuotaRequest, _: CallContext
) -> None:
    """Set a user's quota."""
    sent = request.userQuota
    wanted = UserQuota(rates=values.quota_of(sent.baseQuota), topics=sent.topicNumberQuota)
    await broker.quotas.set_user_quota(caller, request.developerId, wanted)


async def list_user_quota(
    broker: Broker, caller: Principal, _: None, __: CallContext
) -> quota.ListUserQuotaResponse:
    """Every quota that was set."""
    found = broker.quotas.list_user_quota(caller)
    return quota.ListUserQuotaResponse(
        userQuotaList={user: _user_quota(use) for user, use in found.items()}
    )


async def query_user_quota(
    broker: Broker, caller: Principal, _: None, __: CallContext
) -> quota.QueryUserQuotaResponse:
    """The caller's own quota."""
    use = broker.quotas.query_user_quota(caller)
    return quota.QueryUserQuotaResponse(userQuota=_user_quota(use))


async def delete_user_quota(
    broker: Broker, caller: Principal, request: quota.DeleteUserQuotaRequest, _: CallContext
) -> None:
    """Back to the defaults."""
    await broker.quotas.delete_user_quota(caller, request.developerId)


async def apply_quota(
    broker: Broker, caller: Principal, request: quota.ApplyQuotaRequest, _: CallContext
) -> None:
    """Ask for partitions."""
    await broker.partition_quotas.apply_quota(caller, _wanted(request.quotaInfo))


async def auto_apply_quota(
    broker: Broker, caller: Principal, request: quota.AutoApplyQuotaRequest, _: CallContext
) -> None:
    """Request partitions and get an immediate decision."""
    await broker.partition_quotas.auto_apply_quota(caller, _wanted(request.quotaInfo))


async def list_quota(
    broker: Broker, caller: Principal, _: None, __: CallContext
) -> quota.ListQuotaResponse:
    """Partition quota of the caller's organisation."""
    found = broker.partition_quotas.list_quota(caller)
    return quota.ListQuotaResponse(
        quotaList=_infos(found.quotas), approvedTotalQuota=min(found.approved, values.I32_MAX)
    )


async def list_pending_quota(
    broker: Broker, caller: Principal, _: None, __: CallContext
) -> quota.ListPendingQuotaResponse:
    """Requests that wait."""
    found = broker.partition_quotas.list_pending_quota(caller)
    return quota.ListPendingQuotaResponse(
        pendingQuotaList=_infos(found.quotas), talosAdmin=found.admin
    )


async def approve_quota(
    broker: Broker, caller: Principal, request: quota.ApproveQuotaRequest, _: CallContext
) -> quota.ApproveQuotaResponse:
    """Grant partitions."""
    found = await broker.partition_quotas.approve_quota(caller, _wanted(request.quotaInfo))
    return quota.ApproveQuotaResponse(pendingQuotaList=_infos(found.quotas), talosAdmin=found.admin)


async def revoke_quota(
    broker: Broker, caller: Principal, request: quota.RevokeQuotaRequest, _: CallContext
) -> quota.RevokeQuotaResponse:
    """Refuse a request or take an approval back."""
    found = await broker.partition_quotas.revoke_quota(caller, _wanted(request.quotaInfo))
    return quota.RevokeQuotaResponse(pendingQuotaList=_infos(found.quotas), talosAdmin=found.admin)


HANDLERS: Final[dict[str, Handler]] = {
    "setUserQuota": set_user_quota,
    "listUserQuota": list_user_quota,
    "queryUserQuota": query_user_quota,
    "deleteUserQuota": delete_user_quota,
    "applyQuota": apply_quota,
    "autoApplyQuota": auto_apply_quota,
    "listQuota": list_quota,
    "listPendingQuota": list_pending_quota,
    "approveQuota": approve_quota,
    "revokeQuota": revoke_quota,
}
