"""Who calls and what may be done: principals, grantees, permissions."""

from dataclasses import dataclass
from enum import IntEnum, IntFlag


class Permission(IntFlag):
    """Permission bits per topic and grantee.

    Source: docs/protocol/administration.md#permissions.
    """

    NONE = 0
    PUT_MESSAGE = 1
    GET_MESSAGE = 2
    DESCRIBE_TOPIC = 4
    CHANGE_TOPIC = 8
    CHANGE_PERMISSION = 16
    ADMIN = 31


class TableRight(IntFlag):
    """What may be done with a structured table: the bits of Permission under a table's words."""

    NONE = 0
    WRITE = 1
    READ = 2
    DESCRIBE = 4
    ALTER = 8
    CHANGE_ACCESS = 16
    ADMIN = 31


class GrantType(IntEnum):
    """Kind of a grantee. Source: idl/authorization.thrift GrantType."""

    DEVELOPER = 1
    APP_ROOT = 2
    APP_USER = 3
    GUEST = 4


@dataclass(frozen=True, slots=True)
class Grantee:
    """Whom a topic permission is granted to: a principal, team or organisation id."""

    type: GrantType
    identifier: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """An authenticated caller, as every protocol's gateway hands it to the broker."""

    id: str  # account id; also the owner id of its topics unless it has an organisation
    number: int  # billing number, > 0; 0 is the anonymous guest
    organisation: str = ""  # "CL..." or empty
    team: str = ""  # "CI..." or empty
    admin: bool = False  # service administrator
    anonymous: bool = False

    @property
    def owner_id(self) -> str:
        """Owner of the topics this principal creates."""
        return self.organisation or self.id

    @property
    def identifiers(self) -> tuple[str, ...]:
        """Every id a grant may name to reach this principal, most specific first."""
        return tuple(name for name in (self.id, self.team, self.organisation) if name)


GUEST = Principal(id="guest", number=0, anonymous=True)
