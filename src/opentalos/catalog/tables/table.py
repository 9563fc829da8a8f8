"""A structured table as the catalog keeps it, and its record in the MetaStore (JSON, versioned)."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from opentalos.catalog.access.acceptance import (
    Accepted,
    decode_accepted,
    encode_accepted,
    still_granted,
)
from opentalos.catalog.tables.schema_record import decode_schema, encode_schema
from opentalos.model.errors import CorruptLog, NewerFormat
from opentalos.model.identity import TableRight
from opentalos.model.names import ResourceName
from opentalos.model.table import (
    AppRight,
    TableSchema,
    TableSpec,
    TableState,
    TeamRight,
    WhenFull,
)
from opentalos.wire.record_crc import checked, with_crc

FORMAT_VERSION = 1
_APP_RIGHTS = {
    AppRight.APP_SECRET_READ: TableRight.READ | TableRight.DESCRIBE,
    AppRight.APP_SECRET_WRITE: TableRight.WRITE | TableRight.DESCRIBE,
}
_PUBLIC_RIGHTS = {
    AppRight.PUBLIC_READ: TableRight.READ | TableRight.DESCRIBE,
    AppRight.PUBLIC_WRITE: TableRight.WRITE | TableRight.DESCRIBE,
}
_TEAM_RIGHTS = {
    TeamRight.READ: TableRight.READ | TableRight.DESCRIBE,
    TeamRight.WRITE: TableRight.WRITE | TableRight.DESCRIBE,
    TeamRight.ADMIN: TableRight.ADMIN,
    TeamRight.QUOTA_ADMIN: TableRight.DESCRIBE,
    TeamRight.DESCRIBE_ADMIN: TableRight.DESCRIBE,
}


class StreamState(NamedTuple):
    """An enabled stream. Each enabling uses a new ``id``, which the table never uses again."""

    id: int
    topic_uuid: str
    topic_owner: str
    topic_name: str
    since_ms: int  # changes from then on are published
    gap_ms: int | None = None  # it stopped: no missing change is older
    error: str = ""  # why it stopped

    @property
    def live(self) -> bool:
        """Whether changes are published."""
        return self.gap_ms is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """One table. A recreated table has another uuid, and so other rows."""

    uuid: str
    owner: str
    name: str
    schema: TableSchema
    state: TableState = TableState.ENABLED
    created_ms: int = 0
    altered_ms: int = 0
    description: str = ""
    read_capacity: int | None = None  # units per second; None: the server's default
    write_capacity: int | None = None
    quota_bytes: int | None = None
    app_acl: Mapping[str, tuple[AppRight, ...]] = field(default_factory=dict)
    team_acl: Mapping[str, tuple[TeamRight, ...]] = field(default_factory=dict)
    accepted: Accepted = field(default_factory=dict)  # whose plain name may mean this table
    streams: Mapping[str, StreamState] = field(default_factory=dict)  # enabled; keys as in schema
    next_stream_id: int = 1
    when_full: WhenFull = WhenFull.REFUSE
    resource: str = field(init=False)
    # See Governed: how the one access decision sees a table.
    masks: Mapping[str, int] = field(init=False, repr=False, compare=False)
    public_mask: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        masks: dict[str, int] = {}
        public = 0
        for identifier, rights in self.app_acl.items():
            for right in rights:
                masks[identifier] = masks.get(identifier, 0) | int(_APP_RIGHTS.get(right, 0))
                public |= int(_PUBLIC_RIGHTS.get(right, 0))
        for identifier, team_rights in self.team_acl.items():
            for team_right in team_rights:
                masks[identifier] = masks.get(identifier, 0) | int(_TEAM_RIGHTS[team_right])
        resource = str(ResourceName(self.owner, self.name, self.uuid))
        object.__setattr__(self, "resource", resource)
        object.__setattr__(self, "masks", masks)
        object.__setattr__(self, "public_mask", public)
        object.__setattr__(self, "accepted", still_granted(self, self.accepted))

    @property
    def guest_mask(self) -> int:
        """Callers without a key have no rights of their own."""
        return self.public_mask

    @property
    def bound_organisation(self) -> str:
        """Tables are not bound as topics are."""
        return ""

    @property
    def bound_team(self) -> str:
        """Tables are not bound as topics are."""
        return ""

    @property
    def spec(self) -> TableSpec:
        """What its owner decided, as create and alter take it."""
        return TableSpec(
            schema=self.schema,
            description=self.description,
            read_capacity=self.read_capacity,
            write_capacity=self.write_capacity,
            app_acl=self.app_acl,
            team_acl=self.team_acl,
            when_full=self.when_full,
            quota_bytes=self.quota_bytes,
        )


_PLAIN_FIELDS = (
    "uuid", "owner", "name", "created_ms", "altered_ms", "description", "read_capacity",
    "write_capacity", "quota_bytes", "next_stream_id",
)  # fmt: skip


def encode_table(table: Table) -> bytes:
    """The record's value."""
    record: dict[str, Any] = {name: getattr(table, name) for name in _PLAIN_FIELDS}
    record["version"] = FORMAT_VERSION
    record["schema"] = encode_schema(table.schema)
    record["state"] = table.state.name
    record["app_acl"] = {
        name: [right.name for right in rights] for name, rights in table.app_acl.items()
    }
    record["team_acl"] = {
        name: [right.name for right in rights] for name, rights in table.team_acl.items()
    }
    if table.accepted:
        record["accepted"] = encode_accepted(table.accepted)
    record["streams"] = {topic: state._asdict() for topic, state in table.streams.items()}
    record["when_full"] = table.when_full.value
    return with_crc(json.dumps(record, separators=(",", ":"), sort_keys=True).encode())


def decode_table(value: bytes) -> Table:
    """Read a record. Raises: NewerFormat; CorruptLog if it is not a table record."""
    try:
        record = json.loads(checked(value))
        version = record["version"]
        if version != FORMAT_VERSION:
            raise NewerFormat(f"table record of format {version}, this version reads up to 1")
        plain = {name: record[name] for name in _PLAIN_FIELDS}
        apps, teams = record["app_acl"], record["team_acl"]
        return Table(
            **plain,
            schema=decode_schema(record["schema"]),
            state=TableState[record["state"]],
            app_acl={who: tuple(AppRight[name] for name in may) for who, may in apps.items()},
            team_acl={
                who: tuple(TeamRight[name] for name in names) for who, names in teams.items()
            },
            accepted=decode_accepted(record.get("accepted", {})),  # absent in older records
            streams={topic: StreamState(**state) for topic, state in record["streams"].items()},
            when_full=WhenFull(record["when_full"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CorruptLog(f"unreadable table record: {error}") from error


def stopped_stream(table: Table, topic: str, stream_id: int, gap_ms: int, error: str = "") -> Table:
    """The table after one of its streams stopped. For one that had already stopped, the gap may
    move to an older change; a newer enabling is not touched."""
    state = table.streams.get(topic)
    if state is None or state.id != stream_id:
        return table
    if state.gap_ms is not None and state.gap_ms <= gap_ms:
        return table
    stopped = state._replace(gap_ms=gap_ms, error=state.error or error)
    return replace(table, streams={**table.streams, topic: stopped})


def dead_table(table: Table) -> Table:
    """The record of a table whose deletion has begun; it only has to name its rows."""
    return replace(table, state=TableState.DELETING, app_acl={}, team_acl={}, streams={})
