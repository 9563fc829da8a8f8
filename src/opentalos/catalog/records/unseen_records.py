"""Reads of records that another server has just changed, before the watch reports them."""

import asyncio
from collections.abc import Sequence
from typing import Generic, TypeVar

from opentalos.catalog.records.record_index import RecordIndex, record_path

T = TypeVar("T")
READS_PER_S_MAX = 50  # limits reads of records that do not exist, which any caller may cause
RECORD_NAME_CHARS_MAX = 128  # of an owner or a name; longer ones have no record


class UnseenRecords(Generic[T]):
    """Refreshes single records, with a limit; the watch reports what is skipped.

    Args: prefix: the records lie at prefix/owner/name.
    """

    def __init__(self, records: RecordIndex[T], prefix: str) -> None:
        self._records, self._prefix = records, prefix
        self._reads, self._since_s = 0, float("-inf")

    async def look(self, names: Sequence[tuple[str, str, object]]) -> bool:
        """Refresh records by owner and name; True if one of them has changed.

        Raises: Unavailable.
        """
        changed = False
        for owner, name, known in names:
            if not _may_exist(owner) or not _may_exist(name) or not self._may_look():
                continue
            path = record_path(self._prefix, owner, name)
            await self._records.refresh(path)
            changed = changed or self._records.get(path) is not known
        return changed

    def _may_look(self) -> bool:
        now_s = asyncio.get_running_loop().time()
        if now_s - self._since_s >= 1.0:
            self._since_s, self._reads = now_s, 0
        self._reads += 1
        return self._reads <= READS_PER_S_MAX


def _may_exist(name: str) -> bool:
    return 0 < len(name) <= RECORD_NAME_CHARS_MAX
