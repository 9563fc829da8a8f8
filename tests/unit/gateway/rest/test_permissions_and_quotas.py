"""REST of permissions, quotas and quota requests."""

from typing import Any

import pytest
from tests.unit.gateway.rest.support import Rest
from tests.unit.gateway.rest.test_topics import alice

from opentalos.model.identity import Grantee, GrantType, Permission

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
    assert (await call("POST", "topics/t/messages", sent, by="bob")).status == 200
    assert (await call("GET", "topics/t/partitions/0/messages", by="bob")).status == 403
    assert (await call("PUT", f"{PATH}/eve", grant, by="bob")).status == 403
    assert (await call("DELETE", f"{PATH}/bob", by="alice")).status == 204
    assert (await call("DELETE", f"{PATH}/bob", by="alice")).status == 204
    assert (await call("GET", "topics/t", by="bob")).status == 404


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
    assert [one["user"] for one in listed] == ["alice"]
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
    assert (await call("POST", "quota-requests/CL1/approve", {"total": 60})).status == 200
    assert (await call("POST", "quota-requests/CL1/revoke")).status == 200
    assert (await call("POST", "quota-requests/CL1/revoke")).status == 404
    assert (await call("POST", "quota-requests", {"total": 5}, by="alice")).status == 422
    other = {"total": 5, "organisation": "CL2"}
    assert (await call("POST", "quota-requests", other, by="member")).status == 403
