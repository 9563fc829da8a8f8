import asyncio
import logging
from dataclasses import replace

import pytest
from tests.unit.catalog.support import ALICE, BOB, CAROL, DAVE, ROOT, MovableTime
from tests.unit.matrix import matrix

from opentalos.catalog.access.authorize import Authorizer, permissions_of
from opentalos.catalog.access.grants import grant_seen, granted, grants_seen, revoked
from opentalos.catalog.topics.topic import Topic
from opentalos.model.errors import BadRequest, PermissionDenied, TopicNotExist
from opentalos.model.identity import GUEST, Grantee, GrantType, Permission, Principal
from opentalos.model.settings.security import AuthLimits

DEVELOPER, GUEST_TYPE = GrantType.DEVELOPER, GrantType.GUEST


def _topic(owner: str, **acl: int) -> Topic:
    return Topic(
        uuid="u",
        owner=owner,
        name="t",
        partitions=1,
        consumer_partitions=1,
        partitions_ever=1,
        retention_s=3_600,
        acl={Grantee(DEVELOPER, name): mask for name, mask in acl.items()},
    )


@matrix(
    ("principal", "topic", "mask"),
    [
        (ALICE, _topic("alice"), 31),
        (ROOT, _topic("alice"), 31),
        (BOB, _topic("alice"), 0),
        (BOB, _topic("alice", bob=5), 5),
        (BOB, _topic("alice", CIblue=2), 2),
        (BOB, _topic("alice", bob=1, CIblue=2), 3),
        (CAROL, _topic("CLacme"), 31),
        (DAVE, _topic("CLacme"), 31),
        (DAVE, _topic("carol"), 0),
        (CAROL, _topic("carol"), 31),
        (DAVE, _topic("alice", CLacme=6), 6),
        (DAVE, _topic("alice", CIred=6), 0),
        (GUEST, _topic("alice"), 0),
        (GUEST, _topic("alice", guest=7), 0),
        (GUEST, _topic("guest"), 0),
        (GUEST, granted(_topic("alice"), Grantee(GUEST_TYPE, ""), 2), 2),
        (BOB, granted(_topic("alice"), Grantee(GUEST_TYPE, "bob"), 2), 0),
        (DAVE, replace(_topic("alice"), bound_organisation="CLacme", bound_team="CIred"), 4),
        (CAROL, replace(_topic("alice"), bound_organisation="CLacme", bound_team="CIred"), 7),
        (BOB, replace(_topic("alice"), bound_organisation="CLacme", bound_team="CIred"), 0),
    ],
)
def test_who_may_do_what(principal: Principal, topic: Topic, mask: int) -> None:
    assert permissions_of(principal, topic) == mask


async def test_without_any_grant_a_topic_does_not_exist() -> None:
    authorizer = Authorizer(AuthLimits())
    with pytest.raises(TopicNotExist, match="topic alice#t#u does not exist"):
        authorizer.authorize(BOB, Permission.GET_MESSAGE, _topic("alice"))


async def test_with_another_grant_the_action_is_denied() -> None:
    authorizer = Authorizer(AuthLimits())
    authorizer.authorize(BOB, Permission.PUT_MESSAGE, _topic("alice", bob=5))
    with pytest.raises(PermissionDenied, match="bob lacks GET_MESSAGE"):
        authorizer.authorize(BOB, Permission.GET_MESSAGE, _topic("alice", bob=5))


async def test_every_denial_is_counted_and_logged_up_to_a_rate(
    caplog: pytest.LogCaptureFixture,
) -> None:
    time = MovableTime(asyncio.get_running_loop())
    authorizer = Authorizer(AuthLimits(denial_log_per_s_max=2))
    for _ in range(5):
        with pytest.raises(PermissionDenied):
            authorizer.authorize_admin(BOB, "set a user quota", "x" * 1_000)
    time.advance(1.0)
    with pytest.raises(PermissionDenied):
        authorizer.authorize_admin(BOB, "set a user quota", "alice")
    lines = [record for record in caplog.records if record.name == "opentalos.audit"]
    assert authorizer.denials == 6
    assert len(lines) == 3
    assert all(record.levelno == logging.WARNING for record in lines)
    assert lines[-1].__dict__["audit"] == {
        "principal": "bob",
        "action": "set a user quota",
        "resource": "alice",
        "left_out": 3,
    }
    assert len(lines[0].__dict__["audit"]["resource"]) == 200


def test_a_grant_overwrites_and_a_revoked_grantee_has_nothing() -> None:
    bob = Grantee(DEVELOPER, "bob")
    topic = granted(granted(_topic("alice"), bob, 7), bob, 1)
    assert grant_seen(ALICE, topic, bob) == 1
    assert grants_seen(ALICE, topic) == {"alice": 31, "bob": 1}
    gone = revoked(topic, bob)
    assert grant_seen(ALICE, gone, bob) == 0
    assert revoked(gone, bob) == gone


def test_a_grantee_sees_the_owner_and_what_was_granted_to_it() -> None:
    topic = _topic("alice", bob=6, CIblue=1, carol=4, CLacme=2)
    assert grants_seen(BOB, topic) == {"alice": 31, "bob": 6, "CIblue": 1}
    assert grants_seen(DAVE, topic) == {"alice": 31, "CLacme": 2}
    assert set(grants_seen(ROOT, topic)) == {"alice", "bob", "CIblue", "carol", "CLacme"}
    for grantee in ("carol", "eve"):  # with a grant or without one, the answer is the same
        assert grant_seen(BOB, topic, Grantee(DEVELOPER, grantee)) is None
    assert grant_seen(BOB, topic, Grantee(DEVELOPER, "CIblue")) == 1


def test_owners_keep_their_permissions_and_no_other_gets_them() -> None:
    topic, owner = _topic("alice"), Grantee(DEVELOPER, "alice")
    assert grant_seen(ALICE, topic, owner) == 31
    with pytest.raises(PermissionDenied):
        revoked(topic, owner)
    with pytest.raises(PermissionDenied):
        granted(topic, owner, 1)
    for mask in (8, 12, 15, 16, 31):
        with pytest.raises(PermissionDenied):
            granted(topic, Grantee(DEVELOPER, "bob"), mask)


def test_a_grant_needs_a_grantee_and_a_permission() -> None:
    for grantee, mask in (
        (Grantee(DEVELOPER, "bob"), 0),
        (Grantee(DEVELOPER, "bob"), -1),
        (Grantee(DEVELOPER, ""), 1),
        (Grantee(DEVELOPER, "x" * 257), 1),
    ):
        with pytest.raises(BadRequest):
            granted(_topic("alice"), grantee, mask)


def test_the_number_of_grants_is_bounded() -> None:
    full = _topic("alice", **{f"p{index}": 1 for index in range(1_000)})
    with pytest.raises(BadRequest, match="the limit is 1000"):
        granted(full, Grantee(DEVELOPER, "one-more"), 1)
