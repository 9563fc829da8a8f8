"""Rules of tables besides their schema, and the table that a change results in. Sans-io."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from opentalos.catalog.access.authorize import permissions_of
from opentalos.catalog.access.grants import concerns
from opentalos.catalog.tables.table import StreamState, Table, encode_table
from opentalos.catalog.topics.change import check_text
from opentalos.catalog.topics.topic import Topic
from opentalos.model.errors import NotSupported, QuotaExceeded, SizeExceeded, ValidationFailed
from opentalos.model.identity import Principal, TableRight
from opentalos.model.settings.tables import SdsLimits
from opentalos.model.table import AppRight, TableSpec, TableState, WhenFull

IDENTIFIER_CHARS_MAX = 128
GRANTS_MAX = 1_000
CAPACITY_MAX = 1 << 31  # units per second
QUOTA_BYTES_MAX = (1 << 63) - 1
_CHANGE_ACCESS = int(TableRight.CHANGE_ACCESS)
_PUBLIC = (AppRight.PUBLIC_READ, AppRight.PUBLIC_WRITE)
_OF_APPLICATION_USERS = (
    AppRight.APP_USER_ENTITY_GROUP_READ,
    AppRight.APP_USER_ENTITY_GROUP_WRITE,
    AppRight.APP_USER_READ,
    AppRight.APP_USER_WRITE,
)


def check_spec(spec: TableSpec, limits: SdsLimits) -> None:
    """Refuse what no table can have, the schema aside.

    Raises: ValidationFailed, SizeExceeded, BadRequest; NotSupported: rights of an application's
        users, who have no accounts here.
    """
    check_text(spec.description, "description")
    for what, capacity in (("read", spec.read_capacity), ("write", spec.write_capacity)):
        if capacity is not None and not 0 < capacity <= CAPACITY_MAX:
            raise ValidationFailed(f"{what} capacity {capacity} is not in 1..{CAPACITY_MAX}")
    if spec.quota_bytes is not None and not 0 < spec.quota_bytes <= QUOTA_BYTES_MAX:
        raise ValidationFailed(f"quota of {spec.quota_bytes} bytes is not in 1..{QUOTA_BYTES_MAX}")
    if len(spec.app_acl) + len(spec.team_acl) > GRANTS_MAX:
        grants = len(spec.app_acl) + len(spec.team_acl)
        raise SizeExceeded(f"{grants} grants, at most {GRANTS_MAX}")
    for identifier in (*spec.app_acl, *spec.team_acl):
        if not 0 < len(identifier) <= IDENTIFIER_CHARS_MAX:
            raise ValidationFailed(f"a grant needs an id of 1 to {IDENTIFIER_CHARS_MAX} characters")
    for application, rights in spec.app_acl.items():
        for right in rights:
            if right in _OF_APPLICATION_USERS:
                raise NotSupported(
                    f"{right.name} of application {application}: rights of an application's users "
                    "are not supported, grant APP_SECRET_READ and APP_SECRET_WRITE"
                )


def new_table(
    spec: TableSpec, owner_and_name: tuple[str, str], uuid: str, now_ms: int, limits: SdsLimits
) -> Table:
    """The table that create makes, without its streams. Raises: SizeExceeded."""
    owner, name = owner_and_name
    table = Table(
        uuid=uuid,
        owner=owner,
        name=name,
        schema=replace(spec.schema, version=1),
        state=TableState.CREATING,
        created_ms=now_ms,
        altered_ms=now_ms,
        description=spec.description,
        read_capacity=spec.read_capacity,
        write_capacity=spec.write_capacity,
        quota_bytes=spec.quota_bytes,
        app_acl=spec.app_acl,
        team_acl=spec.team_acl,
        when_full=spec.when_full or WhenFull(limits.when_full),
    )
    return _checked(table, limits)


def with_streams(table: Table, topics: Mapping[str, Topic], now_ms: int) -> Table:
    """The table with exactly these streams enabled; one that stays enabled keeps its state."""
    streams, next_id = dict[str, StreamState](), table.next_stream_id
    for name, topic in topics.items():
        former = table.streams.get(name)
        if former is not None and former.topic_uuid == topic.uuid:
            streams[name] = former
            continue
        streams[name] = StreamState(next_id, topic.uuid, topic.owner, topic.name, now_ms)
        next_id += 1
    return replace(table, streams=streams, next_stream_id=next_id)


def altered_table(
    table: Table, spec: TableSpec, topics: Mapping[str, Topic], now_ms: int, limits: SdsLimits
) -> Table:
    """The table after alter; the same one if nothing changes. Raises: SizeExceeded.

    Args: topics: of the enabled streams, by their name in the schema; a stream that stopped
        because its topic was deleted is left out.
    """
    kept = {name: state for name, state in table.streams.items() if name in spec.schema.streams}
    changed = replace(
        table,
        schema=replace(spec.schema, version=table.schema.version),
        description=spec.description,
        read_capacity=spec.read_capacity,
        write_capacity=spec.write_capacity,
        quota_bytes=spec.quota_bytes,
        app_acl=spec.app_acl,
        team_acl=spec.team_acl,
        when_full=spec.when_full or table.when_full,
    )
    changed = with_streams(changed, topics, now_ms)
    for name, state in kept.items():
        if name not in changed.streams and spec.schema.streams[name].enabled and not state.live:
            changed = replace(changed, streams={**changed.streams, name: state})
    if changed == table:
        return table
    schema = replace(changed.schema, version=table.schema.version + 1)
    return _checked(replace(changed, schema=schema, altered_ms=now_ms), limits)


def check_owner_quota(
    table: Table, quota_bytes: int | None, others: Iterable[Table], limits: SdsLimits
) -> None:
    """Check a table's new storage quota against what its owner's tables may have together.

    Args: others: all tables; those of other owners do not count.
    Raises: ValidationFailed: it needs a quota; QuotaExceeded.
    """
    limit = limits.user_quota_bytes
    if not limit:
        return
    if quota_bytes is None:
        raise ValidationFailed(
            f"table {table.name} needs a storage quota: the tables of {table.owner} may have "
            f"{limit} bytes together; set quota_bytes"
        )
    used = sum(
        other.quota_bytes or 0
        for other in others
        if other.owner == table.owner and other.uuid != table.uuid
    )
    if used + quota_bytes > limit:
        raise QuotaExceeded(
            f"storage quotas of the tables of {table.owner}: limit {limit} bytes, measured {used} "
            f"bytes, requested {quota_bytes} bytes more"
        )


def as_seen_by(caller: Principal, table: Table) -> Table:
    """The table with the grants that concern the caller, and the public ones; all grants for a
    caller who may change them."""
    if permissions_of(caller, table) & _CHANGE_ACCESS:
        return table
    shared = {
        who: rights if concerns(caller, table, who) else _public(rights)
        for who, rights in table.app_acl.items()
    }
    return replace(
        table,
        app_acl={who: rights for who, rights in shared.items() if rights},
        team_acl={
            who: rights for who, rights in table.team_acl.items() if concerns(caller, table, who)
        },
        accepted={},
    )


def _public(rights: tuple[AppRight, ...]) -> tuple[AppRight, ...]:
    return tuple(right for right in rights if right in _PUBLIC)


def _checked(table: Table, limits: SdsLimits) -> Table:
    size = len(encode_table(replace(table, accepted={})))  # grantees add those, not the owner
    if size > limits.schema_bytes_max:
        raise SizeExceeded(f"a table's record of {size} bytes, at most {limits.schema_bytes_max}")
    return table
