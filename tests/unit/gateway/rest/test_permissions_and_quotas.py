"""REST of permissions, quotas and quota requests."""

from typing import Any

import pytest
from tests.unit.gateway.rest.support import Rest, rest
from tests.unit.gateway.rest.topic.test_topics import alice

from opentalos.model.identity import Grantee, GrantType, Permission
from opentalos.model.limits import QuotaApprovalLimits, QuotaLimits

PATH = "topics/t/permissions"


@pytest.fixture
async def resource(call: Rest) -> str:
    await call.user("bob")
    return (await call.world.topic(alice(call))).resource


@pytest.mark.usefixtures("resource")
async def test_permissions_are_set_listed_used_and_taken_back(call: Rest) -> None:
    grant = {"permissions": ["PUT_MESSAGE", "DESCRIBE_TOPIC"]}
    assert (await call("PUT", f"{PATH}/bob", grant, by="alice")).status == 204
    listed = (await call("GET", PATH, by="alice")).document["permissions"]
    assert listed["bob"] == grant["permissions"]
    assert "CHANGE_PERMISSION" in listed["alice"]
    sent = {"messages": [{"text": "x"}]}
    assert (await call("POST", "topics/alice%2Ft/messages", sent, by="bob")).status == 200
    assert (await call("GET", "topics/alice%2Ft/partitions/0/messages", by="bob")).status == 403
    assert (await call("PUT", "topics/alice%2Ft/permissions/eve", grant, by="bob")).status == 403
    assert (await call("DELETE", f"{PATH}/bob", by="alice")).status == 204
    assert (await call("DELETE", f"{PATH}/bob", by="alice")).status == 204
    assert (await call("GET", "topics/alice%2Ft", by="bob")).status == 404


async def test_a_granted_topic_has_its_plain_name_once_it_is_accepted(
    call: Rest, resource: str
) -> None:
    grant = {"permissions": ["PUT_MESSAGE", "DESCRIBE_TOPIC"]}
    await call("PUT", f"{PATH}/bob", grant, by="alice")
    await call("PUT", f"{PATH}/eve", grant, by="alice")
    unknown = await call("GET", "topics/t", by="bob")
    assert unknown.status == 404
    assert "write alice/t, or accept the grant" in unknown.document["detail"]
    assert (await call("PUT", "topics/alice%2Ft/acceptance", by="bob")).status == 204
    assert (await call("GET", "topics/t", by="bob")).document["resource"] == resource
    seen = (await call("GET", PATH, by="bob")).document["permissions"]
    assert sorted(seen) == ["alice", "bob"]
    assert (await call("DELETE", "topics/alice%2Ft/acceptance", by="bob")).status == 204
    assert (await call("GET", "topics/t", by="bob")).status == 404
    assert (await call("PUT", "topics/alice%2Ft/acceptance", by="alice")).status == 422


@pytest.mark.usefixtures("resource")
async def test_what_was_not_granted_cannot_be_accepted_and_looks_unknown(call: Rest) -> None:
    known = await call("PUT", "topics/alice%2Ft/acceptance", by="bob")
    unknown = await call("PUT", "topics/alice%2Fu/acceptance", by="bob")
    invalid = await call("PUT", "topics/alice%2F.u/acceptance", by="bob")
    assert known.status == unknown.status == invalid.status == 404
    assert known.document["detail"] == unknown.document["detail"].replace("/u", "/t")


async def test_a_grant_of_another_kind_is_overwritten_not_added_to(
    call: Rest, resource: str
) -> None:
    permissions = call.world.broker.permissions
    for kind in (GrantType.APP_USER, GrantType.APP_ROOT):
        grantee = Grantee(kind, "bob")
        await permissions.set_permission(alice(call), resource, grantee, Permission.GET_MESSAGE)
    await call("PUT", f"{PATH}/bob", {"permissions": ["PUT_MESSAGE"]}, by="alice")
    listed = (await call("GET", PATH, by="alice")).document["permissions"]
    assert listed["bob"] == ["PUT_MESSAGE"]


@pytest.mark.usefixtures("resource")
@pytest.mark.parametrize(
    ("grantee", "permissions", "status"),
    [("bob", [], 400), ("bob", ["CHANGE_TOPIC"], 400), ("bob", "PUT_MESSAGE", 400),
     ("alice", ["PUT_MESSAGE"], 403), ("guest", ["GET_MESSAGE"], 204)],
)  # fmt: skip
async def test_what_cannot_be_granted_is_refused(
    call: Rest, grantee: str, permissions: Any, status: int
) -> None:
    replied = await call("PUT", f"{PATH}/{grantee}", {"permissions": permissions}, by="alice")
    assert replied.status == status


@pytest.mark.usefixtures("resource")
async def test_the_quota_of_a_topic_is_set_shown_and_deleted(call: Rest) -> None:
    path = "topics/t/quota"
    default = (await call("GET", path, by="alice")).document
    assert (await call("DELETE", path, by="alice")).status == 404
    quota = {"space_bytes": 5, "put_bytes_per_s": None}
    assert (await call("PUT", path, quota, by="alice")).status == 204
    assert (await call("GET", path, by="alice")).document == default | {"space_bytes": 5}
    assert (await call("DELETE", path, by="alice")).status == 204
    assert (await call("GET", path, by="alice")).document == default
    assert (await call("PUT", path, {"space_bytes": -1}, by="alice")).status == 400
    assert (await call("GET", path, by="bob")).status == 404


async def test_quotas_of_users_are_for_administrators(call: Rest) -> None:
    quota = {"topics": 1, "get_requests_per_s": 9}
    assert (await call("PUT", "quotas/users/alice", quota, by="alice")).status == 403
    assert (await call("PUT", "quotas/users/alice", quota)).status == 204
    own = (await call("GET", "quota", by="alice")).document
    assert (own["topics"], own["get_requests_per_s"]) == (1, 9)
    listed = (await call("GET", "quotas/users")).document["users"]
    assert [item["user"] for item in listed] == ["alice"]
    assert (await call("GET", "quotas/users", by="alice")).status == 403
    assert (await call("DELETE", "quotas/users/alice")).status == 204
    assert (await call("DELETE", "quotas/users/alice")).status == 404
    assert (await call("PUT", "quotas/users/a%2Fb", quota)).status == 404


async def test_partitions_are_asked_for_approved_and_revoked(call: Rest) -> None:
    await call.user("member", organisation="CL1")
    asked = await call("POST", "quota-requests", {"total": 50, "reason": "growth"}, by="member")
    assert asked.status == 201
    assert (await call("POST", "quota-requests/CL1/approve", {}, by="member")).status == 403
    waiting = (await call("GET", "quota-requests")).document
    assert (waiting["admin"], waiting["requests"][0]["total"]) == (True, 50)
    assert (await call("POST", "quota-requests/CL1/approve")).document["requests"] == []
    assert (await call("POST", "quota-requests/CL1/approve", {})).status == 404
    why = {"total": 60, "reason": "as agreed"}
    assert (await call("POST", "quota-requests/CL1/approve", why)).status == 200
    await call.user("other", organisation="CL2")
    for by, expected in (("root", ["CL1"]), ("member", ["CL1"]), ("other", ["CL2"]), ("alice", [])):
        found = (await call("GET", "quotas/organisations", by=by)).document["organisations"]
        assert [quota["organisation"] for quota in found] == expected
        if expected == ["CL1"]:
            assert [(quota["total"], quota["note"]) for quota in found] == [(60, "as agreed")]
    wrong = {"reason": "x" * 1_001}
    assert (await call("POST", "quota-requests/CL1/revoke", wrong)).status == 400
    assert (await call("POST", "quota-requests/CL1/revoke", {"reason": "unused"})).status == 200
    assert (await call("POST", "quota-requests/CL1/revoke")).status == 404
    assert (await call("POST", "quota-requests", {"total": 5}, by="alice")).status == 422
    other = {"total": 5, "organisation": "CL2"}
    assert (await call("POST", "quota-requests", other, by="member")).status == 403


def _projection(**fields: Any) -> dict[str, Any]:
    return {
        "tenant": "CL1", "made_ms": 1_700_000_000_000, "days": 60, "level": 30_000_000,
        "trend_per_day": -5, "season": [1_000] * 7, "spread": 0, "peak": 31_000_000,
    } | fields  # fmt: skip


async def test_requests_are_decided_at_once_by_what_is_projected() -> None:
    limits = QuotaApprovalLimits(capacity_partitions=100, capacity_bytes_per_s=200_000_000)
    quota = QuotaLimits(organisation_partitions=2)
    async with rest(quota=quota, quota_approval=limits) as call:
        await call.user("member", organisation="CL1")
        sent = {"projections": [_projection(), _projection(tenant="alice", mean=7)]}
        assert (await call("PUT", "quota-projections", sent)).status == 204

        async def asked(total: int) -> Any:
            wanted = {"total": total, "auto": True}
            found = await call("POST", "quota-requests", wanted, by="member")
            assert found.status == 201
            return found.document

        rejected = (await asked(64))["decision"]
        assert (rejected["outcome"], rejected["approvable"]) == ("reject", 13)
        assert "peaked at 31.0 MB/s in the last 28 days" in rejected["reason"]
        waiting = await asked(14)
        assert waiting["decision"]["outcome"] == "human"
        assert [request["note"] for request in waiting["requests"]] == [
            waiting["decision"]["reason"]
        ]
        granted = await asked(9)
        assert (granted["decision"]["outcome"], granted["requests"]) == ("approve", [])
        plain = await call("POST", "quota-requests", {"total": 9, "auto": False}, by="member")
        assert "decision" not in plain.document


async def test_projections_are_stored_shown_in_pages_and_checked(call: Rest) -> None:
    await call.user("member", organisation="CL1")
    several = [_projection(tenant=name) for name in ("b", "CL1", "a@x+y")]
    assert (await call("PUT", "quota-projections", {"projections": several})).status == 204
    page = (await call("GET", "quota-projections?limit=2")).document
    assert [projection["tenant"] for projection in page["projections"]] == ["CL1", "a@x+y"]
    assert page["next"] == "a@x+y"
    last = (await call("GET", "quota-projections?limit=2&after=a%40x%2By")).document
    assert ([projection["tenant"] for projection in last["projections"]], last["next"]) == (
        ["b"],
        "",
    )
    own = (await call("GET", "quota-projections", by="member")).document["projections"]
    assert own == [_projection() | {"mean": 0, "repeated_peak": 0}]
    assert (await call("GET", "quota-projections/CL1", by="member")).document == own[0]
    assert (await call("GET", "quota-projections/b", by="member")).status == 404
    for wrong in ({"level": -1}, {"season": [1] * 6}, {"level": 1.5}, {"days": None}, {"x": 1}):
        sent = {"projections": [_projection(**wrong)]}
        assert (await call("PUT", "quota-projections", sent)).status == 400
    denied = await call("PUT", "quota-projections", {"projections": several}, by="member")
    assert denied.status == 403
