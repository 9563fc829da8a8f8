"""What several memory clients share: the files, records and rows themselves."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from opentalos.adapters.row_rules import RowState
from opentalos.ports.meta_store import Record

CAPACITY_BYTES = 1 << 40  # of the file store unless a test asks for less


@dataclass(slots=True)
class StoredFile:
    """One file's bytes. Once ``fenced``, they never change again."""

    content: bytearray = field(default_factory=bytearray)
    fenced: bool = False


@dataclass(slots=True)
class StoredRecord:
    """One record; ``owner`` is the client whose end removes it, if it is ephemeral."""

    record: Record
    owner: object | None = None


class MemoryStorage:
    """Plays the disk, the coordination service and the table service for any number of clients.

    All clients must live on one event loop.
    """

    def __init__(
        self, *, capacity_bytes: int = CAPACITY_BYTES, wall_ms: Callable[[], int] | None = None
    ) -> None:
        self.capacity_bytes = capacity_bytes
        self.wall_ms = wall_ms  # the coordination service's own clock; None: it has none
        self.used_bytes = 0
        self.files: dict[str, StoredFile] = {}
        self.records: dict[str, StoredRecord] = {}
        self.version_floor = 0  # the largest version of any record that was removed
        self.tables: dict[str, dict[bytes, RowState]] = {}
        self._watchers: dict[asyncio.Event, str] = {}  # ordered, so that wake-ups are repeatable

    def add_watcher(self, changed: asyncio.Event, prefix: str) -> None:
        """Set ``changed`` when a record changes whose path starts with ``prefix``."""
        self._watchers[changed] = prefix

    def remove_watcher(self, changed: asyncio.Event) -> None:
        """Undo ``add_watcher``."""
        self._watchers.pop(changed, None)

    def record(self, value: bytes, version: int) -> Record:
        """A record that is written now."""
        return Record(bytes(value), version, self.wall_ms() if self.wall_ms is not None else None)

    def record_changed(self, path: str) -> None:
        """Wake the watchers of ``path``."""
        for changed, prefix in self._watchers.items():
            if path.startswith(prefix):
                changed.set()
