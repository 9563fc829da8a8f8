"""Topics and tables that another server has made or changed and no watch here has shown yet."""

import asyncio
from collections.abc import Sequence
from typing import Generic, TypeVar

from opentalos.catalog.records.record_index import RecordIndex, record_path

T = TypeVar("T")
LOOKS_PER_S_MAX = 50  # reads of records, of which anybody may ask for some that do not exist
RECORD_NAME_CHARS_MAX = 128  # of an owner or a name; longer ones have no record


class UnseenRecords(Generic[T]):
    """Reads single records anew, within a bound; what is left out the watch will show.

    Args: prefix: the records lie at prefix/owner/name.
    """

    def __init__(self, records: RecordIndex[T], prefix: str) -> None:
        self._records, self._prefix = records, prefix
        self._looks, self._since_s = 0, float("-inf")

    async def look(self, names: Sequence[tuple[str, str, object]]) -> bool:
        """Read records anew, by owner and name; True if one is not what it was known as.

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
            self._since_s, self._looks = now_s, 0
        self._looks += 1
        return self._looks <= LOOKS_PER_S_MAX


def _may_exist(name: str) -> bool:
    return 0 < len(name) <= RECORD_NAME_CHARS_MAX
