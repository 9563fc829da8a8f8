"""What a structured table is: its schema and what its owner decides about it; values only.

Source: docs/protocol/sds.md#data-model.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum

from opentalos.model.change import StreamView
from opentalos.model.datum import DataType

NEVER = -1  # a time to live that does not end


class TableState(IntEnum):
    """States of a table's life, as clients number them."""

    CREATING = 1
    ENABLING = 2
    ENABLED = 3
    DISABLING = 4
    DISABLED = 5
    DELETING = 6
    DELETED = 7
    LAZY_DELETE = 8
    RENAMING = 9
    RECOVERING = 10


class IndexMode(IntEnum):
    """When entries of a local index are looked after."""

    LAZY = 0
    EAGER = 1
    IMMUTABLE = 2


@dataclass(frozen=True, slots=True)
class KeyPart:
    """One column of a key, and its direction."""

    attribute: str
    ascending: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalIndex:
    """A secondary index inside an entity group. ``projections``: columns it may answer alone."""

    columns: tuple[KeyPart, ...]
    projections: tuple[str, ...] = ()
    mode: IndexMode = IndexMode.LAZY
    unique: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSpec:
    """A stream into one topic. ``attributes``: columns beside the key; empty: all."""

    enabled: bool = True
    view: StreamView = StreamView.MUTATE_LOG
    attributes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSchema:
    """Keys, columns, indexes and streams. A record's full key is ``group`` then ``primary``."""

    primary: tuple[KeyPart, ...]
    group: tuple[KeyPart, ...] = ()
    hashed: bool = False  # records lie by (hash of the group, group, primary)
    attributes: Mapping[str, DataType] = field(default_factory=dict)
    indexes: Mapping[str, LocalIndex] = field(default_factory=dict)
    streams: Mapping[str, StreamSpec] = field(
        default_factory=dict
    )  # by topic as its owner named it
    ttl_s: int = NEVER  # after a record's last write
    shards: int = 1  # > 1 only if hashed; never changes
    version: int = 0  # set by the server

    @property
    def key_columns(self) -> tuple[str, ...]:
        """Names of the full key's columns, in order."""
        return tuple(part.attribute for part in (*self.group, *self.primary))


class AppRight(IntEnum):
    """A canned right of an application, as clients number it.

    Source: docs/protocol/sds.md#data-model.
    """

    APP_SECRET_READ = 1
    APP_SECRET_WRITE = 2
    APP_USER_ENTITY_GROUP_READ = 3
    APP_USER_ENTITY_GROUP_WRITE = 4
    APP_USER_READ = 5
    APP_USER_WRITE = 6
    PUBLIC_READ = 7
    PUBLIC_WRITE = 8


class TeamRight(IntEnum):
    """A right of a team, as clients number it. Source: docs/protocol/sds.md#data-model."""

    READ = 1
    WRITE = 2
    ADMIN = 3
    QUOTA_ADMIN = 4
    DESCRIBE_ADMIN = 5


class WhenFull(StrEnum):
    """What happens when the topic of a stream takes nothing for long.

    REFUSE: writes to the table are refused, so that no change is missing. GAP: the stream stops
    and says since when it lacks changes; the table continues.
    """

    REFUSE = "refuse"
    GAP = "gap"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSpec:
    """What the owner decides about a table, as create and alter take it."""

    schema: TableSchema
    description: str = ""
    read_capacity: int | None = None  # units per second; None: the server's default
    write_capacity: int | None = None
    app_acl: Mapping[str, tuple[AppRight, ...]] = field(default_factory=dict)
    team_acl: Mapping[str, tuple[TeamRight, ...]] = field(default_factory=dict)
    when_full: WhenFull | None = None  # None: on create the server's default, on alter as it was
    quota_bytes: int | None = None  # that its rows may take, about; None: no limit
