"""MetaStore: small versioned records for control data (SQLite, ZooKeeper)."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

VALUE_BYTES_MAX = 512 << 10  # below ZooKeeper's default 1 MiB packet


@dataclass(frozen=True, slots=True)
class Record:
    """A value with the version that a compare-and-set expects.

    Versions of a path grow and never repeat, also when the record is deleted and created again; so
    an old compare-and-set cannot hit a successor. Only ephemeral records may begin again: they go
    with the one session that may write them.

    ``written_ms``: Unix time of this version's write by the store's own clock, which no client's
    clock can move; None: the store has none (it lives in the server's process).
    """

    value: bytes
    version: int
    written_ms: int | None = field(default=None, compare=False)


class Session(NamedTuple):
    """The store's view of this client: ephemeral records live as long as the session."""

    valid_until_s: float  # on the running loop's clock; ``inf`` where sessions cannot lapse
    lost: bool
    incarnation: int  # grows when a new session replaced a lost one
    connected: bool = True  # False: suspended; nothing new may be begun until it is back


class MetaStore(Protocol):
    """Versioned records by path; each write carries a nonce, so an unknown CAS is resolved.

    Paths look like ``topics/alice/clicks``: relative, ``/``-separated, parents need not exist.
    ``get`` is linearizable: it sees every change that returned before it began, also while servers
    of the store are cut off, as "out of range" and offsets rest on it alone; None: absent.
    ``create``: AlreadyExists. ``replace`` and ``delete`` apply only to the expected version, else
    VersionConflict (an absent record too). ``create`` and ``replace`` return the new version.
    ``children`` returns the direct child names, sorted. ``watch`` yields the current state of all
    records below a prefix, then the latest states; it may skip states, never goes back. CorruptLog:
    a record is damaged; with a ``record_version``, ``replace`` can write it again.
    RequestError for a value above VALUE_BYTES_MAX. Not done: Unavailable; unknown (only when the
    nonce could not be read back): OutcomeUnknown.
    """

    async def get(self, path: str) -> Record | None: ...
    async def create(self, path: str, value: bytes, *, ephemeral: bool = False) -> int: ...
    async def replace(self, path: str, value: bytes, expected: int) -> int: ...
    async def delete(self, path: str, expected: int) -> None: ...
    async def children(self, path: str) -> Sequence[str]: ...
    def watch(self, prefix: str) -> AsyncIterator[Mapping[str, Record]]: ...
    def session(self) -> Session: ...
    async def close(self) -> None: ...
