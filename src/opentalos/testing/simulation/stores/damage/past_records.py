"""The last changes of simulated records, so that a store can be put back to an older state.

As a copy that an operator puts back, or a store that lost the last of its transactions, has it. The
records of one partition alone may go back as well: a store that keeps files of its own for parts of
its data loses the end of one of them.
"""

from collections import deque
from dataclasses import replace
from typing import NamedTuple

from opentalos.adapters.memory.storage import StoredRecord
from opentalos.testing.simulation.stores.stored_logs import WatchedRecords

CHANGES_MAX = 40  # that can be undone


class Change(NamedTuple):
    """What a record was before a change; None: there was none."""

    path: str
    before: StoredRecord | None


class PastRecords:
    """Watches the records from now on."""

    def __init__(self, records: WatchedRecords) -> None:
        self._records = records
        self._now = {path: replace(stored) for path, stored in records.records.items()}
        self._changes: deque[Change] = deque(maxlen=CHANGES_MAX)
        records.watched = self._changed

    def changed(self, prefix: str = "") -> list[str]:
        """Paths of the records whose last changes can be undone, each once."""
        return sorted({each.path for each in self._changes if each.path.startswith(prefix)})

    def undo(self, count: int, path: str = "") -> dict[str, bytes]:
        """Undo the last changes, of one record if ``path`` is given.

        Returns the records that are older now, as they were before; those that are as before are
        left out.
        """
        values = {each: kept.record.value for each, kept in self._records.records.items()}
        kept: list[Change] = []
        undone: dict[str, None] = {}
        while count and self._changes:
            change = self._changes.pop()
            if path and change.path != path:
                kept.append(change)
                continue
            self._put_back(change)
            undone[change.path] = None
            count -= 1
        self._changes.extend(reversed(kept))
        return {
            each: values.get(each, b"")
            for each in undone
            if values.get(each) != _value(self._records.records.get(each))
        }

    def _put_back(self, change: Change) -> None:
        path, before = change
        self._records.put_back(path, None if before is None else replace(before))
        self._note(path)

    def _changed(self, path: str) -> None:
        stored = self._records.records.get(path)
        if stored is None or stored.owner is None:  # who owns a record has ended by then
            self._changes.append(Change(path, self._now.get(path)))
        self._note(path)

    def _note(self, path: str) -> None:
        stored = self._records.records.get(path)
        if stored is None:
            self._now.pop(path, None)
        elif stored.owner is None:
            self._now[path] = replace(stored)


def _value(stored: StoredRecord | None) -> bytes | None:
    return None if stored is None else stored.record.value
