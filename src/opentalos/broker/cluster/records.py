"""Control records of a cluster in the MetaStore: their paths and JSON forms. Pure.

| path | made by | life |
| --- | --- | --- |
| cluster/identity | the first server | permanent: which cluster this is, and a check of its key |
| servers/NAME | each server | ephemeral: it is there |
| control/leader | the controller | ephemeral: who it is |
| control/ring | the controller | who takes part, with virtual nodes; places consumer groups |
| control/weights | an operator or pipeline | virtual nodes that were asked for |
| leaving/NAME | a server that restarts, or an operator | announced restart, or drain |
| assignment/TOPIC UUID | the controller | which server serves each partition |
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import Any, TypeVar

from opentalos.model.errors import CorruptLog, NewerFormat
from opentalos.placement.values import Nodes

FORMAT_VERSION = 1
IDENTITY = "cluster/identity"
SERVERS = "servers"
CONTROL = "control"
LEADER = "control/leader"
RING = "control/ring"
WEIGHTS = "control/weights"
LEAVING = "leaving"
ASSIGNMENT = "assignment"
NUMBERED_SINCE_MS = 1_577_836_800_000  # 2020-01-01, so that 31 bits of seconds last until 2087
NUMBERED_BY_TIME_MAX = (1 << 31) - (1 << 24)  # room for changes under a clock that is far ahead


class LeavingKind(Enum):
    """Why a server should not get or keep partitions."""

    RESTART = "restart"  # back soon: its partitions are reserved for ``wait_s``
    LEND = "lend"  # back soon: others serve its partitions, for ``wait_s`` after it has gone
    DRAIN = "drain"  # an operator empties it; its partitions move while it serves


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Which cluster this is. ``key_check``: to compare a server's key.

    ``complete``: the other stores bear the cluster's mark, so one without it is another store.
    """

    id: str
    key_check: str
    complete: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerRecord:
    """A registered server. ``incarnation`` differs after each start.

    ``session``: of that process, to recognise a record that a lost session left.
    """

    name: str
    incarnation: str
    address: str  # host:port for clients and peers
    started_ms: int
    session: int = 0
    kafka: str = ""  # host:port for clients of Kafka; written only if there is such a port


@dataclass(frozen=True, slots=True, kw_only=True)
class Leader:
    """The controller. ``session``: in which it was elected; a later one is another term."""

    name: str
    incarnation: str
    session: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RingRecord:
    """Virtual nodes by server. ``number`` grows with each change."""

    number: int
    servers: Mapping[str, Nodes]


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsRecord:
    """Virtual nodes that an operator set, by server."""

    servers: Mapping[str, Nodes]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeavingRecord:
    """An announced restart or a drain. ``incarnation``: of the process that leaves."""

    name: str
    kind: str  # of LeavingKind
    incarnation: str
    wait_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignmentRecord:
    """Owner by partition of one topic; "": not served.

    ``number`` grows with each change (``number_after``). ``moved_from``: partition, as text, to the
    server that served it before a planned move; the new owner lets it seal first. ``lent``:
    partition, as text, to the restarting server that takes it back; written only if there are any,
    which older versions cannot read.
    """

    number: int
    owners: tuple[str, ...]
    moved_from: Mapping[str, str] = field(default_factory=dict)
    lent: Mapping[str, str] = field(default_factory=dict)


def number_after(before: int, wall_ms: int) -> int:
    """The number of an assignment that replaces one with the number ``before``; 0: there is none.

    It is the leader epoch of clients of Kafka, which ignore an older one for as long as they run.
    So it begins with the time: a record that is made again after a loss, or in another cluster
    from a backup, is newer than what it replaces.
    """
    seconds = (wall_ms - NUMBERED_SINCE_MS) // 1000
    return max(before + 1, min(seconds, NUMBERED_BY_TIME_MAX))


ControlRecord = Leader | RingRecord | WeightsRecord  # below ``control``
RecordT = TypeVar("RecordT", bound=Any)
_NEWER = ("lent", "kafka")  # fields that older versions cannot read, left out when empty
_KINDS: Mapping[str, type[Any]] = {
    kind.__name__: kind
    for kind in (
        Identity,
        ServerRecord,
        Leader,
        RingRecord,
        WeightsRecord,
        LeavingRecord,
        AssignmentRecord,
    )
}


def encode_record(record: Any) -> bytes:
    """The record's value; keys in order, so that equal records have equal bytes."""
    content = {"version": FORMAT_VERSION, "record": type(record).__name__, **asdict(record)}
    for name in _NEWER:
        if not content.get(name, True):
            del content[name]
    return json.dumps(content, separators=(",", ":"), sort_keys=True).encode()


def decode_record(wanted: type[RecordT], value: bytes) -> RecordT:
    """Read a record of one kind. Raises: NewerFormat; CorruptLog for anything else."""
    record = decode_any(value)
    if not isinstance(record, wanted):
        raise CorruptLog(f"a {type(record).__name__} where {wanted.__name__} belongs")
    return record


def decode_any(value: bytes) -> Any:
    """Read a record by the kind it names. Raises: NewerFormat, CorruptLog."""
    try:
        content = json.loads(value)
        version, name = content.pop("version"), content.pop("record")
        if version > FORMAT_VERSION:
            raise NewerFormat(f"{name} of format {version}, this version reads up to 1")
        if "owners" in content:
            content["owners"] = tuple(content["owners"])
        return _KINDS[name](**content)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CorruptLog(f"unreadable control record: {error!r}") from error
