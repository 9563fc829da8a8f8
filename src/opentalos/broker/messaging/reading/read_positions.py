"""How far groups have read a partition: what the end of its log is compared with."""

import asyncio
from collections.abc import Mapping

from opentalos.group.group_rows import GroupRows
from opentalos.model.errors import StoreUnavailable
from opentalos.model.message import PartitionKey

# Many partitions of a topic are opened at the same time. A position only proves that messages were
# there, so an older one proves less and nothing wrong.
KEPT_S = 30.0
TOPICS_MAX = 1_000
ANSWER_S = 2.0  # an opening waits no longer for the row store


class ReadPositions:
    """Reads the positions of a topic's groups once for all its partitions."""

    def __init__(self, rows: GroupRows) -> None:
        self._rows = rows
        self._known: dict[str, tuple[float, asyncio.Task[Mapping[int, int]]]] = {}

    async def read_by_groups(self, key: PartitionKey) -> int:
        """The first offset that no group has read; 0: there is no group. Raises: Unavailable."""
        now_s = asyncio.get_running_loop().time()
        known = self._known.get(key.topic_uuid)
        if known is None or now_s - known[0] > KEPT_S or _failed(known[1]):
            if len(self._known) >= TOPICS_MAX:
                self._known.clear()
            task = asyncio.ensure_future(self._read(key.topic_uuid))
            task.add_done_callback(_failed)  # whoever waits has the error, too
            known = self._known[key.topic_uuid] = now_s, task
        return (await asyncio.shield(known[1])).get(key.partition, 0)

    async def _read(self, topic_uuid: str) -> Mapping[int, int]:
        try:
            async with asyncio.timeout(ANSWER_S):
                return await self._rows.read_to(topic_uuid)
        except TimeoutError as error:
            raise StoreUnavailable("the positions of groups were not read in time") from error


def _failed(task: asyncio.Task[Mapping[int, int]]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)
