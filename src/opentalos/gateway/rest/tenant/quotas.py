"""REST of quotas: of topics, of users, and partition requests of organisations."""

from typing import Any

from opentalos.broker.values import (
    BaseQuota,
    Outcome,
    PartitionQuota,
    PendingQuotas,
    QuotaUse,
    UserQuota,
    UserQuotaUse,
)
from opentalos.gateway.rest.routing.call import Answer, Call
from opentalos.gateway.rest.routing.errors import Unusable
from opentalos.gateway.rest.routing.forms import NAME, PRINCIPAL_ID
from opentalos.gateway.rest.routing.route import Body, Route
from opentalos.gateway.rest.routing.schema import (
    boolean,
    fields,
    integer,
    items,
    nullable,
    one_of,
    text,
)
from opentalos.gateway.rest.topic.naming import topic_of
from opentalos.model.identity import Permission

PARTITIONS_MAX = 10_000_000  # of one organisation
_RATES = {name: integer(about="0: no limit.") for name in BaseQuota.__slots__}
_SENT = {name: nullable(integer(about="0: no limit.")) for name in BaseQuota.__slots__}
_TOPICS = integer(about="Number of topics that the user may own.")
_USE = fields(**_RATES, used_bytes=integer())
_USER_USE = fields(**_RATES, used_bytes=integer(), topics=_TOPICS)
_SHORT = text(chars_max=1_000)
_TOTAL = integer(1, PARTITIONS_MAX, about="Total partitions of the organisation.")
_REQUEST = fields(
    organisation=text(), total=integer(), used=integer(), reason=text(), organisation_name=text(),
    note=text(about="Why it requires manual approval."),
)  # fmt: skip
_GRANT = fields(
    organisation=text(),
    total=integer(about="Partitions; the default of the service if none were granted."),
    used=integer(),
    reason=text(about="Of the request."),
    organisation_name=text(),
    note=text(about="Why it was granted."),
    granted_ms=integer(about="0: the default of the service."),
    bytes_per_s=integer(about="Traffic that it was granted for; 0: what the partitions carry."),
)
_WHY = text(chars_max=1_000, about="Why, for the organisation: in its grant and in the audit.")
_PENDING = fields(requests=items(_REQUEST), admin=boolean("The caller may approve."))
_DECISION = fields(
    outcome=one_of(*(outcome.value for outcome in Outcome)),
    reason=text(about="With the numbers behind the decision."),
    approvable=integer(about="Largest total that would be granted automatically."),
)
_ASKED = fields(
    requests=items(_REQUEST), admin=boolean("The caller may approve."),
    optional={"decision": _DECISION},
)  # fmt: skip


async def get_topic_quota(call: Call) -> Answer:
    """The quota in force, including defaults."""
    topic = topic_of(call, Permission.CHANGE_TOPIC)
    return Answer(_use(call.broker.quotas.query_topic_quota(call.caller, topic.resource)))


async def set_topic_quota(call: Call) -> Answer:
    """Set these limits; missing fields take the default."""
    topic = topic_of(call, Permission.CHANGE_TOPIC)
    quota = BaseQuota(**call.document)
    await call.broker.quotas.set_topic_quota(call.caller, topic.resource, quota)
    return Answer()


async def delete_topic_quota(call: Call) -> Answer:
    """Return to the defaults."""
    topic = topic_of(call, Permission.CHANGE_TOPIC)
    await call.broker.quotas.delete_topic_quota(call.caller, topic.resource)
    return Answer()


async def get_own_quota(call: Call) -> Answer:
    """Of the caller."""
    return Answer(_user_use(call.broker.quotas.query_user_quota(call.caller)))


async def list_user_quotas(call: Call) -> Answer:
    """All that were set."""
    found = call.broker.quotas.list_user_quota(call.caller)
    return Answer({"users": [{"user": name} | _user_use(use) for name, use in found.items()]})


async def set_user_quota(call: Call) -> Answer:
    """Set these limits; missing fields take the default."""
    rates = {name: value for name, value in call.document.items() if name != "topics"}
    quota = UserQuota(rates=BaseQuota(**rates), topics=call.document.get("topics"))
    await call.broker.quotas.set_user_quota(call.caller, call.places["user"], quota)
    return Answer()


async def delete_user_quota(call: Call) -> Answer:
    """Return to the defaults."""
    await call.broker.quotas.delete_user_quota(call.caller, call.places["user"])
    return Answer()


async def list_grants(call: Call) -> Answer:
    """What organisations may use, and do."""
    found = call.broker.partition_quotas.list_quota(call.caller)
    shown = [
        {name: getattr(quota, name) for name in PartitionQuota.__slots__} for quota in found.quotas
    ]
    return Answer({"organisations": shown})


async def list_requests(call: Call) -> Answer:
    """Pending requests."""
    return Answer(_pending(call.broker.partition_quotas.list_pending_quota(call.caller)))


async def create_request(call: Call) -> Answer:
    """A new request; replaces a pending one."""
    sent: dict[str, Any] = call.document
    organisation = sent.get("organisation", call.caller.organisation)
    if not organisation:
        raise Unusable("organisation is required, because the caller has none")
    wanted = PartitionQuota(
        organisation=organisation,
        total=sent["total"],
        reason=sent.get("reason", ""),
        organisation_name=sent.get("organisation_name", ""),
    )
    quotas, shown = call.broker.partition_quotas, {}
    if sent.get("auto", False):
        decision = await quotas.decide_quota(call.caller, wanted)
        shown["decision"] = {
            "outcome": decision.outcome.value,
            "reason": decision.reason,
            "approvable": decision.approvable,
        }
    else:
        await quotas.apply_quota(call.caller, wanted)
    return Answer(_pending(quotas.list_pending_quota(call.caller)) | shown)


async def approve_request(call: Call) -> Answer:
    """Grant this total, or the requested one."""
    quotas, name = call.broker.partition_quotas, call.places["name"]
    total, note = call.document.get("total"), call.document.get("reason", "")
    return Answer(_pending(await quotas.approve_request(call.caller, name, total, note)))


async def revoke_request(call: Call) -> Answer:
    """Reject the request, or revoke the grant."""
    note = call.document.get("reason", "") if call.document else ""
    wanted = PartitionQuota(organisation=call.places["name"], total=1, note=note)
    quotas = call.broker.partition_quotas
    return Answer(_pending(await quotas.revoke_quota(call.caller, wanted)))


def _use(use: QuotaUse) -> dict[str, Any]:
    shown = {name: getattr(use.quota, name) for name in BaseQuota.__slots__}
    return shown | {"used_bytes": use.used_bytes}


def _user_use(found: UserQuotaUse) -> dict[str, Any]:
    return _use(found.use) | {"topics": found.topics}


def _pending(pending: PendingQuotas) -> dict[str, Any]:
    shown = [
        {
            "organisation": quota.organisation,
            "total": quota.total,
            "used": quota.used,
            "reason": quota.reason,
            "organisation_name": quota.organisation_name,
            "note": quota.note,
        }
        for quota in pending.quotas
    ]
    return {"requests": shown, "admin": pending.admin}


_TAG = "quotas"
_TOPIC = "topics/{topic}/quota"
_USERS = {"user": text(PRINCIPAL_ID)}
ROUTES = (
    Route(
        method="GET", path=_TOPIC, handler=get_topic_quota, tag=_TAG,
        summary="Show the quota of a topic and its use.", reply=_USE,
    ),
    Route(
        method="PUT", path=_TOPIC, handler=set_topic_quota, tag=_TAG, status=204,
        summary="Set the quota of a topic; missing and null fields take the default.",
        body=Body(fields(optional=_SENT)), statuses=(409,),
    ),
    Route(
        method="DELETE", path=_TOPIC, handler=delete_topic_quota, tag=_TAG, status=204,
        summary="Return a topic to the default quota.", statuses=(409,),
    ),
    Route(
        method="GET", path="quota", handler=get_own_quota, tag=_TAG,
        summary="Show the caller's own quota and its use.", reply=_USER_USE,
    ),
    Route(
        method="GET", path="quotas/users", handler=list_user_quotas, tag=_TAG,
        summary="List the quotas of users that were set; for administrators.",
        reply=fields(
            users=items(fields(user=text(), **_RATES, used_bytes=integer(), topics=_TOPICS))
        ),
    ),
    Route(
        method="PUT", path="quotas/users/{user}", handler=set_user_quota, tag=_TAG, status=204,
        summary="Set the quota of a user; missing and null fields take the default.",
        body=Body(fields(optional={**_SENT, "topics": nullable(_TOPICS)})), places=_USERS,
        statuses=(409, 422),
    ),
    Route(
        method="DELETE", path="quotas/users/{user}", handler=delete_user_quota, tag=_TAG,
        status=204, summary="Return a user to the default quota.", places=_USERS, statuses=(409,),
    ),
    Route(
        method="GET", path="quotas/organisations", handler=list_grants, tag=_TAG,
        summary="List the partition quotas of organisations and their use.",
        reply=fields(organisations=items(_GRANT)),
        notes="Administrators get all organisations that have one; others their own.",
    ),
    Route(
        method="GET", path="quota-requests", handler=list_requests, tag=_TAG,
        summary="List pending partition requests.", reply=_PENDING,
    ),
    Route(
        method="POST", path="quota-requests", handler=create_request, tag=_TAG, status=201,
        summary="Request partitions; replaces a pending request.", reply=_ASKED,
        body=Body(
            fields(
                total=_TOTAL,
                optional={
                    "organisation": text(NAME, about="Default: the caller's."),
                    "reason": _SHORT,
                    "organisation_name": _SHORT,
                    "auto": boolean(
                        "Decide automatically: granted, rejected, or pending manual approval, each "
                        "with a reason."
                    ),
                },
            )
        ),
        statuses=(409, 422),
    ),
    Route(
        method="POST", path="quota-requests/{name}/approve", handler=approve_request, tag=_TAG,
        summary="Approve a request, possibly with another total; for administrators.",
        body=Body(fields(optional={"total": _TOTAL, "reason": _WHY}), optional=True),
        reply=_PENDING,
        statuses=(409,),
    ),
    Route(
        method="POST", path="quota-requests/{name}/revoke", handler=revoke_request, tag=_TAG,
        summary="Reject a pending request, else revoke the grant; for administrators.",
        body=Body(fields(optional={"reason": _WHY}), optional=True),
        reply=_PENDING, statuses=(409,),
    ),
)  # fmt: skip
