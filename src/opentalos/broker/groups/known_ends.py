"""KnownEnds: how far a commit may go, without a question to the log for each."""

from typing import NamedTuple

from opentalos.broker.peer_rpc.remote_logs import PROVEN, RemoteLogs
from opentalos.broker.values import Topic
from opentalos.model.message import PartitionKey

ENDS_MAX = 100_000


class KnownEnd(NamedTuple):
    """The log's next offset when it was last read, and the log's epoch then."""

    next_offset: int
    epoch: int


class KnownEnds:
    """A log's end only grows, so a commit below a known end need not ask the log.

    Of a damaged log the known end is that of what is proven: so what was read can be committed.
    """

    def __init__(self, logs: RemoteLogs) -> None:
        self._logs = logs
        self._ends: dict[PartitionKey, KnownEnd] = {}

    async def above(self, topic: Topic, partition: int, offset: int) -> KnownEnd:
        """An end of the log; a cached one above ``offset`` suffices.

        Raises: CorruptLog: whether the log reaches beyond ``offset`` is not known; Unavailable.
        """
        key = PartitionKey(topic.uuid, partition)
        known = self._ends.get(key)
        if known is not None and offset < known.next_offset:
            return known
        facts = await self._logs.facts(topic, partition, PROVEN)
        if facts.damage is not None and offset >= facts.offsets.next:
            raise facts.damage
        if len(self._ends) >= ENDS_MAX:
            self._ends.clear()
        known = self._ends[key] = KnownEnd(facts.offsets.next, facts.epoch)
        return known
