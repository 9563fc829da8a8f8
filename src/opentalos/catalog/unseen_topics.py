"""Topics that another server has made or changed and this server's watch has not shown yet."""

import asyncio
from collections.abc import Sequence

from opentalos.catalog.record_index import RecordIndex, record_path
from opentalos.catalog.topic import Topic

TOPICS = "topics"  # where their records lie
LOOKS_PER_S_MAX = 50  # reads of records, of which anybody may ask for some that do not exist
RECORD_NAME_CHARS_MAX = 128  # of an owner or a name; longer ones have no record


def topic_path(owner: str, name: str) -> str:
    """Where a topic's record lies."""
    return record_path(TOPICS, owner, name)


class UnseenTopics:
    """Reads single records anew, within a bound; what is left out the watch will show."""

    def __init__(self, records: RecordIndex[Topic]) -> None:
        self._records = records
        self._looks, self._since_s = 0, float("-inf")

    async def look(self, topics: Sequence[tuple[str, str, object]]) -> bool:
        """Read records anew, by owner and name; True if one is not what it was known as.

        Raises: Unavailable.
        """
        changed = False
        for owner, name, known in topics:
            if not _may_exist(owner) or not _may_exist(name) or not self._may_look():
                continue
            path = topic_path(owner, name)
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
