"""Permissions of topics as access control lists of Kafka, and back.

A permission is what a principal, team or organisation may do with one topic. So each list entry is
of a topic by its name, allows, and holds from any host; the owner's rights are no entries, since
nobody can change them. Some entries of Kafka allow what is allowed here without them, such as READ
on a group: they can be created, are stored nowhere, and match nothing in a filter. What else Kafka
can express is refused when it is created, and matches nothing in a filter either.

Source: Apache Kafka 4.3, org.apache.kafka.common.acl and .resource, for the numbers.
"""

from enum import IntEnum
from typing import Any, Final, NamedTuple

from opentalos.gateway.kafka.handlers.admin.outcome import Refused
from opentalos.model.errors import InvalidName
from opentalos.model.identity import GUEST, Permission
from opentalos.model.names import check_group_name
from opentalos.wire.kafka.errors import ErrorCode

ANY: Final = 1  # in a filter, of every kind below
ANY_HOST: Final = "*"
_ANY_NAME: Final = "*"
_CLUSTER: Final = "kafka-cluster"  # the only name of a cluster
_USER: Final = "User:"
_ANONYMOUS: Final = "ANONYMOUS"
_SHOWN_MAX: Final = 100


class ResourceType(IntEnum):
    """What an entry is about."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """How an entry names it. MATCH is a filter's: every entry that concerns the name."""

    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class AclOperation(IntEnum):
    """What may be done."""

    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12


class PermissionType(IntEnum):
    """Whether it is allowed."""

    DENY = 2
    ALLOW = 3


BITS: Final = {
    AclOperation.READ: Permission.GET_MESSAGE,
    AclOperation.WRITE: Permission.PUT_MESSAGE,
    AclOperation.DESCRIBE: Permission.DESCRIBE_TOPIC,
}
_ANY_RIGHT: Final = Permission.GET_MESSAGE | Permission.PUT_MESSAGE | Permission.DESCRIBE_TOPIC
# Entries of topics that are no permission, and which one of the grantee must have to be allowed.
_IMPLIED: Final = {
    AclOperation.CREATE: (
        _ANY_RIGHT,
        "the topic exists, and only who has a right on it may know that; grant READ, WRITE or "
        "DESCRIBE with it",
    ),
    AclOperation.DESCRIBE_CONFIGS: (
        Permission.DESCRIBE_TOPIC,
        "DESCRIBE includes the settings; grant it as well",
    ),
}
_OF_GROUPS: Final = (AclOperation.READ, AclOperation.DESCRIBE)  # what everybody may do with them
_MASKS: Final = [(operation, int(bit)) for operation, bit in BITS.items()]  # an enum's & is slow
_WHY_NOT: Final = {
    AclOperation.ALL: "only the owner may do everything: grant READ, WRITE and DESCRIBE",
    AclOperation.DELETE: "only the owner deletes a topic",
    AclOperation.ALTER: "only the owner changes a topic",
    AclOperation.ALTER_CONFIGS: "only the owner changes the settings of a topic",
}


class Entry(NamedTuple):
    """One entry as Kafka shows it, and the grant behind it."""

    topic: str  # as the caller names it
    resource: str
    identifier: str
    operation: AclOperation

    @property
    def principal(self) -> str:
        """With the kind of principal in front."""
        return principal_of(self.identifier)


class Grant(NamedTuple):
    """What one entry to create asks for.

    ``needs``: the entry is no permission, and is allowed to whoever has one of these; ``unmet``:
    what to say to others. Without a topic it is allowed to everybody.
    """

    topic: str | None  # as the caller names it
    identifier: str = ""
    permission: Permission = Permission.NONE
    needs: Permission = Permission.NONE
    unmet: str = ""


class Filter(NamedTuple):
    """Which entries. An empty name or principal stands for any."""

    topic: str
    identifier: str
    permission: Permission  # NONE: nothing can match


def principal_of(identifier: str) -> str:
    """The principal of a grantee; callers without a key are Kafka's anonymous user."""
    return _USER + (_ANONYMOUS if identifier == GUEST.id else identifier)


def entries_of(topic: str, resource: str, identifier: str, mask: int) -> list[Entry]:
    """The entries of one grant."""
    return [
        Entry(topic, resource, identifier, operation) for operation, bit in _MASKS if mask & bit
    ]


def grant_of(asked: Any) -> Grant:
    """The grant of an AclCreation. Raises: Refused: permissions cannot express it.

    The text names the entry: tools add several at once, and show the first text alone.
    """
    try:
        return _grant_of(asked)
    except Refused as error:
        raise _refused(f"no permission is {_entry_text(asked)}: {error}") from error


def _entry_text(asked: Any) -> str:
    """As people write it."""
    operation = _name_of(AclOperation, asked.operation)
    kind = _name_of(ResourceType, asked.resource_type).lower()
    principal, name = asked.principal[:_SHOWN_MAX], asked.resource_name[:_SHOWN_MAX]
    return f"{operation} of {principal} on {kind} {name!r}"


def _name_of(kind: type[IntEnum], value: int) -> str:
    return kind(value).name if value in list(kind) else f"{kind.__name__} {value}"


def _grant_of(asked: Any) -> Grant:
    kind = asked.resource_type
    if kind == ResourceType.TOPIC and (
        asked.resource_pattern_type != PatternType.LITERAL or asked.resource_name == _ANY_NAME
    ):
        raise _refused("permissions are of one topic: name it, without a pattern")
    if asked.permission_type != PermissionType.ALLOW:
        raise _refused("permissions only allow: take the entry that allows it away")
    if asked.host != ANY_HOST:
        raise _refused("permissions hold from any host (*); restrict the addresses of a key")
    try:
        operation = AclOperation(asked.operation)
    except ValueError:
        raise _refused(f"there is no operation {asked.operation}") from None
    if kind == ResourceType.GROUP:
        return _of_group(asked, operation)
    if kind == ResourceType.CLUSTER:
        return _of_cluster(asked, operation)
    if kind != ResourceType.TOPIC:
        raise _refused("only topics have permissions")
    identifier = identifier_of(asked.principal)
    if operation in _IMPLIED:
        needs, why = _IMPLIED[operation]
        unmet = f"no permission is {_entry_text(asked)}: {why}"
        return Grant(asked.resource_name, identifier, needs=needs, unmet=unmet)
    if operation not in BITS:
        why = _WHY_NOT.get(operation, "it is no operation on topics")
        raise _refused(f"{operation.name} cannot be granted: {why}")
    return Grant(asked.resource_name, identifier, BITS[operation])


def _of_group(asked: Any, operation: AclOperation) -> Grant:
    """Everybody reads in groups of their tenant, of any name, what they may read anyway."""
    if operation not in _OF_GROUPS:
        raise _refused(f"{operation.name} of a group cannot be granted: groups have no permissions")
    if asked.resource_pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        raise _refused("a group has a name, or the beginning of one")
    _named(asked.principal)
    if asked.resource_name != _ANY_NAME:
        try:
            check_group_name(asked.resource_name)
        except InvalidName as error:
            raise _refused(f"nobody can use this group: {error}") from error
    return Grant(topic=None)


def _of_cluster(asked: Any, operation: AclOperation) -> Grant:
    """Who may write to a topic may do so as an idempotent producer."""
    if operation is not AclOperation.IDEMPOTENT_WRITE or asked.resource_name != _CLUSTER:
        raise _refused("only topics have permissions")
    _named(asked.principal)
    return Grant(topic=None)


def identifier_of(principal: str) -> str:
    """The grantee of a principal. Raises: Refused."""
    name = _named(principal)
    if name == _ANY_NAME:
        raise _refused("nothing can be granted to everybody: name principals or an organisation")
    return GUEST.id if name == _ANONYMOUS else name


def _named(principal: str) -> str:
    """The name of a principal. Raises: Refused."""
    name = principal.removeprefix(_USER)
    if name == principal or not name:
        raise _refused(f"{principal[:_SHOWN_MAX]!r} is no principal: write User:NAME")
    return name


def filter_of(asked: Any) -> Filter | None:
    """The filter of a DescribeAcls request or a DeleteAclsFilter; None: nothing can match it.

    Raises: Refused: it is none.
    """
    kinds = (
        (asked.resource_type_filter, ResourceType),
        (asked.pattern_type_filter, PatternType),
        (asked.operation, AclOperation),
        (asked.permission_type, PermissionType),
    )
    for value, kind in kinds:
        if value != ANY and value not in list(kind):
            raise _refused(f"the filter has an unknown {kind.__name__}: {value}")
    principal, name = asked.principal_filter, asked.resource_name_filter
    patterns = (ANY, PatternType.LITERAL, PatternType.MATCH)
    impossible = (
        asked.resource_type_filter not in (ANY, ResourceType.TOPIC)
        or asked.pattern_type_filter not in patterns
        or asked.permission_type not in (ANY, PermissionType.ALLOW)
        or asked.host_filter not in (None, ANY_HOST)
        or (principal is not None and not principal.startswith(_USER))
        or (asked.operation != ANY and asked.operation not in BITS)
        or name in ("", _ANY_NAME)
        or principal in (_USER, _USER + _ANY_NAME)
    )
    if impossible:
        return None
    permission = _ANY_RIGHT if asked.operation == ANY else BITS[asked.operation]
    return Filter(name or "", "" if principal is None else identifier_of(principal), permission)


def _refused(text: str) -> Refused:
    return Refused(ErrorCode.INVALID_REQUEST, text)
