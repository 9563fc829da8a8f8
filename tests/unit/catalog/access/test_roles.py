"""What roles and limited keys may do."""

import pytest
from tests.unit.catalog.access.test_authorize import _topic
from tests.unit.catalog.support import ALICE, ROOT
from tests.unit.catalog.tables.test_tables import table
from tests.unit.source_tree import SOURCE

from opentalos.catalog.access.authorize import Authorizer, permissions_of
from opentalos.catalog.access.roles import (
    ACTIONS,
    ROLE_NAMES,
    may_administer,
    may_coordinate,
    may_look,
    may_manage,
    may_manage_itself,
    role_name,
    with_limits,
    with_role,
)
from opentalos.catalog.topics.topic import Topic
from opentalos.model.errors import BadRequest, PermissionDenied
from opentalos.model.identity import GUEST, KeyLimits, Principal, Scope
from opentalos.model.settings.security import AuthLimits

ALL, DESCRIBE, READ, WRITE = 31, 4, 6, 5


def _system(name: str) -> Topic:
    return Topic(
        uuid="u",
        owner="system",
        name=name,
        partitions=1,
        consumer_partitions=1,
        partitions_ever=1,
        retention_s=3_600,
    )


def _as(role: str) -> Principal:
    return with_role(ALICE, role)


@pytest.mark.parametrize(
    ("role", "own", "granted", "others", "metrics", "usage"),
    [
        ("user", ALL, WRITE, 0, 0, 0),
        ("viewer", READ, DESCRIBE, DESCRIBE, DESCRIBE, DESCRIBE),
        ("operator", ALL, WRITE, DESCRIBE, DESCRIBE, DESCRIBE),
        ("billing", READ, DESCRIBE, 0, 0, READ),
        ("agent", 0, 0, 0, WRITE, 0),
        ("administrator", ALL, ALL, ALL, ALL, ALL),
    ],
)
def test_what_a_role_may_do_with_topics(
    role: str, own: int, granted: int, others: int, metrics: int, usage: int
) -> None:
    topics = (
        _topic("alice"),
        _topic("bob", alice=WRITE),
        _topic("bob"),
        _system("__metrics"),
        _system("__usage"),
    )
    masks = [permissions_of(_as(role), topic) for topic in topics]
    assert masks == [own, granted, others, metrics, usage]


def test_a_tenants_topic_named_like_a_system_topic_gives_an_agent_nothing() -> None:
    assert permissions_of(_as("agent"), _topic("alice")) == 0


@pytest.mark.parametrize(
    ("role", "allowed"),
    [
        ("viewer", {"see the cluster", "read metrics", "list principals", "list quotas"}),
        (
            "operator",
            {"see the cluster", "read metrics", "drain a server", "list principals", "list quotas"},
        ),
        ("billing", {"approve quota", "set a user quota", "list principals", "list quotas"}),
        ("agent", set()),
        ("user", set()),
    ],
)
def test_which_administrative_actions_a_role_has(role: str, allowed: set[str]) -> None:
    asked = {
        "see the cluster", "read metrics", "list principals", "list quotas", "drain a server",
        "approve quota", "set a user quota", "create a principal", "create a key",
        "change a principal", "disable a principal", "an action that nobody listed",
    }  # fmt: skip
    assert {action for action in asked if may_administer(_as(role), action)} == allowed
    assert all(may_administer(ROOT, action) for action in asked)
    assert not any(may_administer(GUEST, action) for action in asked)


def test_every_listed_action_is_asked_for_somewhere() -> None:
    sources = [path for path in SOURCE.rglob("*.py") if path.name != "roles.py"]
    text = "\n".join(path.read_text() for path in sources)
    assert [action for action in ACTIONS if f'"{action}"' not in text] == []


def test_roles_have_names_and_an_unknown_one_is_refused() -> None:
    assert [role_name(_as(name)) for name in ROLE_NAMES] == list(ROLE_NAMES)
    assert role_name(with_role(ROOT, "viewer")) == "viewer"
    with pytest.raises(BadRequest, match="use one of user, viewer, operator"):
        with_role(ALICE, "king")


@pytest.mark.parametrize(
    ("scopes", "own", "granted"),
    [
        ((), ALL, WRITE),
        ((Scope.PUT,), 1, 1),
        ((Scope.GET, Scope.DESCRIBE), READ, DESCRIBE),
        ((Scope.MANAGE,), 24, 0),
        ((Scope.ADMIN,), 0, 0),
    ],
)
def test_a_scope_narrows_what_the_principal_may_do(
    scopes: tuple[Scope, ...], own: int, granted: int
) -> None:
    caller = with_limits(ALICE, KeyLimits(scopes=scopes))
    assert permissions_of(caller, _topic("alice")) == own
    assert permissions_of(caller, _topic("bob", alice=WRITE)) == granted


async def test_an_administrators_key_is_one_only_with_the_scope() -> None:
    plain = with_limits(ROOT, KeyLimits(scopes=(Scope.GET,)))
    assert not plain.admin
    assert permissions_of(plain, _topic("alice")) == 0
    with pytest.raises(PermissionDenied):
        Authorizer(AuthLimits()).authorize_admin(plain, "create a principal", "eve")
    full = with_limits(ROOT, KeyLimits(scopes=(Scope.ADMIN, Scope.GET)))
    assert permissions_of(full, _topic("alice")) == 2
    assert may_administer(full, "create a principal")
    assert not may_manage(full)


async def test_a_viewers_key_without_the_scope_sees_only_its_own() -> None:
    caller = with_limits(_as("viewer"), KeyLimits(scopes=(Scope.GET, Scope.DESCRIBE)))
    assert permissions_of(caller, _topic("bob")) == 0
    assert permissions_of(caller, _topic("alice")) == READ
    assert not may_administer(caller, "see the cluster")


def test_who_may_create_resources_change_itself_and_look() -> None:
    scoped = with_limits(ALICE, KeyLimits(scopes=(Scope.PUT, Scope.GET)))
    manager = with_limits(ALICE, KeyLimits(scopes=(Scope.MANAGE,)))
    callers = (ALICE, ROOT, _as("operator"), manager, _as("viewer"), _as("agent"), scoped, GUEST)
    assert [may_manage(caller) for caller in callers] == [True] * 4 + [False] * 4
    assert [may_manage_itself(caller) for caller in callers] == [True] * 5 + [False] * 3
    describer = with_limits(ALICE, KeyLimits(scopes=(Scope.DESCRIBE,)))
    assert [may_look(caller) for caller in (ALICE, ROOT, _as("viewer"), describer)] == [True] * 4
    assert not any(may_look(caller) for caller in (scoped, manager, _as("agent"), GUEST))


def test_readers_may_hold_leases() -> None:
    reader = with_limits(ALICE, KeyLimits(scopes=(Scope.GET,)))
    may = (ALICE, ROOT, _as("viewer"), _as("billing"), _as("operator"), reader)
    assert all(map(may_coordinate, may))
    putter = with_limits(ALICE, KeyLimits(scopes=(Scope.PUT, Scope.MANAGE)))
    assert not any(map(may_coordinate, (putter, _as("agent"), GUEST)))


def test_a_keys_scope_on_a_table_includes_its_schema() -> None:
    mine = table("alice")
    for scope, mask in ((Scope.PUT, 5), (Scope.GET, 6), (Scope.MANAGE, 28), (Scope.ADMIN, 0)):
        caller = with_limits(ALICE, KeyLimits(scopes=(scope,)))
        assert permissions_of(caller, mine) == mask
    assert permissions_of(_as("agent"), mine) == 0


def test_a_key_without_limits_leaves_the_principal_as_it_is() -> None:
    assert with_limits(ALICE, None) is ALICE
    assert with_limits(ALICE, KeyLimits()) is ALICE
