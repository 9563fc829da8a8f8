"""A model of permissions: what each kind of caller may do. Pure, and written from the documents.

It shares no code with the server, so that a mistake in one is a difference between them. A new kind
of caller is one line in ``callers.py``; a new kind of rule is one function here.
Source: docs/protocol/administration.md#permissions, docs/operating/tenants.md#access,
docs/operating/authentication.md#keys and #roles, docs/reference/sds.md#codes.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum, IntFlag
from typing import Any


class Right(IntFlag):
    """Rights on a topic; those on a table are the same bits under other names."""

    NONE = 0
    PUT = WRITE = 1
    GET = READ = 2
    DESCRIBE = 4
    CHANGE = ALTER = 8
    GRANT = 16
    ALL = 31


class Outcome(Enum):
    """What a caller learns from a call."""

    PERMITTED = "permitted"  # done, or refused for a reason that is not the caller
    DENIED = "permission denied"
    HIDDEN = "does not exist"
    UNKNOWN = "not authenticated"


OWN_OF_ROLE = {
    "user": Right.ALL,
    "operator": Right.ALL,
    "viewer": Right.GET | Right.DESCRIBE,
    "billing": Right.GET | Right.DESCRIBE,
    "agent": Right.NONE,
}
LOOKING = ("viewer", "operator")  # describe every topic and table, see the cluster
SCOPES = {
    "put": Right.PUT,
    "get": Right.GET,
    "describe": Right.DESCRIBE,
    "manage": Right.CHANGE | Right.GRANT,
    "admin": Right.NONE,
}


@dataclass(frozen=True)
class Caller:
    """A kind of caller. ``known``: its key and secret are valid, here and now."""

    kind: str
    id: str = ""
    organisation: str = ""
    team: str = ""
    admin: bool = False
    anonymous: bool = False  # unsigned, where that is configured
    known: bool = True
    role: str = "user"
    scopes: tuple[str, ...] = ()  # of its key; none: all
    networks: tuple[str, ...] = ()  # of its key; none: all
    expired: bool = False  # its key


@dataclass(frozen=True)
class Resource:
    """Who owns a topic or table and whom it was granted to, by id of principal, team or
    organisation. ``guests``: callers without a key; ``everybody``: all with one."""

    owner: str
    grants: Mapping[str, Right] = field(default_factory=dict)
    guests: Right = Right.NONE
    everybody: Right = Right.NONE
    bound_organisation: str = ""
    bound_team: str = ""


@dataclass(frozen=True)
class World:
    """The resources of a call. ``organisation`` and ``tenant`` are those that calls name."""

    topic: Resource
    table: Resource
    organisation: str
    tenant: str


Need = Callable[[Caller, World], Outcome]
Sees = Callable[[Caller, World], bool]


def owns(caller: Caller, resource: Resource) -> bool:
    """Whether it is the caller's or its organisation's."""
    return not caller.anonymous and resource.owner in (caller.id, caller.organisation)


def rights(caller: Caller, resource: Resource) -> Right:
    """Everything that the caller may do with a topic or table."""
    if caller.anonymous:
        return resource.guests
    if administers(caller):
        return Right.ALL & _of_scopes(caller)
    may = Right.ALL if owns(caller, resource) else _granted(caller, resource)
    may &= OWN_OF_ROLE[caller.role]
    if caller.role in LOOKING and allows(caller, "admin"):
        may |= Right.DESCRIBE
    return may & _of_scopes(caller)


def table_rights(caller: Caller, resource: Resource) -> Right:
    """Every right on a table includes the one to describe it."""
    may = rights(caller, resource)
    return may | Right.DESCRIBE if may else may


def allows(caller: Caller, scope: str) -> bool:
    """Whether the caller's key has a scope."""
    return not caller.scopes or scope in caller.scopes


def administers(caller: Caller) -> bool:
    """Whether it is an administrator with a key that lets it be one."""
    return caller.admin and allows(caller, "admin")


def _of_scopes(caller: Caller) -> Right:
    may = Right.NONE
    for scope in caller.scopes or SCOPES:
        may |= SCOPES[scope]
    return may


def _granted(caller: Caller, resource: Resource) -> Right:
    may = resource.everybody
    for name in filter(None, (caller.id, caller.team, caller.organisation)):
        may |= resource.grants.get(name, Right.NONE)
    if caller.organisation and caller.organisation == resource.bound_organisation:
        may |= Right.DESCRIBE
    if caller.team and caller.team == resource.bound_team:
        may |= Right.PUT | Right.GET | Right.DESCRIBE
    return may


def _decided(may: Right, needed: Right) -> Outcome:
    if may & needed == needed:
        return Outcome.PERMITTED
    return Outcome.DENIED if may else Outcome.HIDDEN


def topic(needed: Right) -> Need:
    """Needs these rights on the topic."""
    return lambda caller, world: _decided(rights(caller, world.topic), needed)


def table(needed: Right) -> Need:
    """Needs these rights on the table."""
    return lambda caller, world: _decided(table_rights(caller, world.table), needed)


def each(*needs: Need) -> Need:
    """Needs all of these; the first that is missing decides."""

    def decide(caller: Caller, world: World) -> Outcome:
        found = (need(caller, world) for need in needs)
        return next((one for one in found if one is not Outcome.PERMITTED), Outcome.PERMITTED)

    return decide


def hidden_unless(need: Need) -> Need:
    """What does not exist for a caller that lacks the need."""

    def decide(caller: Caller, world: World) -> Outcome:
        found = need(caller, world)
        return Outcome.HIDDEN if found is Outcome.DENIED else found

    return decide


def of_owners_groups(caller: Caller, world: World) -> Outcome:
    """Groups of the topic's owner: its own, or those of a topic that one may change."""
    own = owns(caller, world.topic) or administers(caller)
    return Outcome.PERMITTED if own else topic(Right.CHANGE)(caller, world)


def any_right_on_topic(caller: Caller, world: World) -> Outcome:
    """Whoever was granted anything; to all others the topic does not exist."""
    return Outcome.PERMITTED if rights(caller, world.topic) else Outcome.HIDDEN


def anybody(_: Caller, __: World) -> Outcome:
    """It is about the caller's own things, or about nothing."""
    return Outcome.PERMITTED


def any_key(caller: Caller, _: World) -> Outcome:
    """Whoever has a key."""
    return _permitted(not caller.anonymous)


def looks(caller: Caller, _: World) -> Outcome:
    """Whoever may describe what is its own."""
    own = administers(caller) or Right.DESCRIBE in OWN_OF_ROLE[caller.role]
    return _permitted(not caller.anonymous and own and allows(caller, "describe"))


def coordinates(caller: Caller, _: World) -> Outcome:
    """Whoever may read what is its own, as a worker of a consumer group does."""
    own = administers(caller) or Right.GET in OWN_OF_ROLE[caller.role]
    return _permitted(not caller.anonymous and own and allows(caller, "get"))


def manages(caller: Caller, _: World) -> Outcome:
    """Whoever may create and change things of its own."""
    everything = administers(caller) or OWN_OF_ROLE[caller.role] == Right.ALL
    return _permitted(not caller.anonymous and everything and allows(caller, "manage"))


def manages_itself(caller: Caller, _: World) -> Outcome:
    """Whoever may change what is about itself alone, as what plain names mean to it."""
    agent = caller.role == "agent" and not caller.admin
    return _permitted(not caller.anonymous and not agent and allows(caller, "manage"))


def manages_own_keys(caller: Caller, world: World) -> Outcome:
    """Whoever may change itself; administrators may do so with any key."""
    return _permitted(administers(caller) or manages_itself(caller, world) is Outcome.PERMITTED)


def unlimited_key(caller: Caller, _: World) -> Outcome:
    """Nobody creates a key that may do more than the one of the call."""
    return _permitted(not caller.scopes and not caller.networks)


def administrator(caller: Caller, _: World) -> Outcome:
    """Administrators of the service alone."""
    return _permitted(administers(caller))


def role(*roles: str) -> Need:
    """Administrators, and these roles with a key that lets them use their role."""

    def decide(caller: Caller, _: World) -> Outcome:
        has_it = caller.role in roles and not caller.anonymous and allows(caller, "admin")
        return _permitted(has_it or administers(caller))

    return decide


def hidden_without(*needs: Need) -> Need:
    """What does not exist for a caller that has none of the needs."""

    def decide(caller: Caller, world: World) -> Outcome:
        found = {need(caller, world) for need in needs}
        return Outcome.PERMITTED if Outcome.PERMITTED in found else Outcome.HIDDEN

    return decide


def _permitted(is_it: bool) -> Outcome:
    return Outcome.PERMITTED if is_it else Outcome.DENIED


def member(caller: Caller, world: World) -> Outcome:
    """Members of the organisation that the call names, and administrators."""
    is_one = not caller.anonymous and caller.organisation == world.organisation
    return _permitted(is_one or administers(caller))


def outside_organisations(caller: Caller, _: World) -> Outcome:
    """Topics are bound by developers, not by members of an organisation."""
    return Outcome.DENIED if caller.organisation else Outcome.PERMITTED


def of_tenant(caller: Caller, world: World) -> Outcome:
    """The tenant that the call names, and administrators."""
    is_one = not caller.anonymous and world.tenant in (caller.id, caller.organisation)
    return _permitted(is_one or administers(caller))


def sees_owned(caller: Caller, world: World) -> bool:
    """Lists of one's own topics."""
    return owns(caller, world.topic) and Right.DESCRIBE in rights(caller, world.topic)


def sees_topic(caller: Caller, world: World) -> bool:
    """Lists of what one may describe."""
    return Right.DESCRIBE in rights(caller, world.topic)


def sees_table(caller: Caller, world: World) -> bool:
    """Lists of tables that one may describe."""
    return Right.DESCRIBE in table_rights(caller, world.table)


def sees_owned_or_granted_table(caller: Caller, world: World) -> bool:
    """Like ``sees_table``, but an administrator gets its own tables only."""
    return owns(caller, world.table) if administers(caller) else sees_table(caller, world)


def sees_bound(caller: Caller, world: World) -> bool:
    """Lists of topics bound to the caller's organisation or team."""
    bound = world.topic
    return Right.DESCRIBE in rights(caller, bound) and (
        bool(caller.organisation and caller.organisation == bound.bound_organisation)
        or bool(caller.team and caller.team == bound.bound_team)
    )


def sees_grants(grantee: str) -> Sees:
    """Lists of grants: who may change them sees all, a grantee its own."""

    def sees(caller: Caller, world: World) -> bool:
        own = grantee in (caller.id, caller.team, caller.organisation)
        return grantee in world.topic.grants and (own or Right.GRANT in rights(caller, world.topic))

    return sees


def sees_as(need: Need) -> Sees:
    """Lists of everything for those that have the need."""
    return lambda caller, world: need(caller, world) is Outcome.PERMITTED


@dataclass(frozen=True)
class Line:
    """One call: what it needs, and how it is made.

    ``arguments``: of the stage, see ``stage.py``; for Talos and SDS the arguments of the RPC by
    name, for REST path and document. ``sees``: whether a reply shows what the stage's
    ``shown`` names. ``hidden``: names of errors that say that something does not exist; ``misses``:
    whether a reply without an error says so. ``fails``: why it fails for everybody here.
    """

    name: str
    need: Need
    arguments: Callable[..., Any]
    variant: str = ""
    sees: Sees | None = None
    shown: str = "topic_name"
    hidden: tuple[str, ...] = ("TopicNotExist", "TableNotExist")
    misses: Callable[[Any], bool] | None = None
    fails: str = ""
    public: bool = False
    last: bool = False  # removes what other calls need

    @property
    def title(self) -> str:
        """For people."""
        return f"{self.name} ({self.variant})" if self.variant else self.name


def expected(caller: Caller, line: Line, world: World) -> Outcome:
    """What the model says."""
    if line.public:
        return Outcome.PERMITTED
    if not caller.known or (caller.anonymous and " " in line.name):  # REST has no guests
        return Outcome.UNKNOWN
    return line.need(caller, world)
