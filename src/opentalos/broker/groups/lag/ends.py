"""TopicEnds: the offsets that the logs of a whole topic retain, for figures about lag."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from opentalos.broker.context import BrokerContext
from opentalos.broker.groups.lag.brief_cache import BriefCache
from opentalos.broker.peer_rpc.remote_logs import Question, RemoteLogs, Wanted
from opentalos.catalog.topics.topic import Topic
from opentalos.group.lag import Offsets, offsets_of
from opentalos.model.errors import DAMAGE, NotOwner, TalosError

QUICK_PARTITIONS: Final = 500  # of so many the offsets are read at each call
KEPT_S: Final = 2.0  # how old those of more partitions may be
TOPICS_MAX: Final = 64  # kept; 160 KB for each 10,000 partitions
PIECE: Final = 200  # partitions of one pass of the loop, in less than 1 ms
_REMEMBERED = Question(Wanted.AMOUNTS)


class Ends(NamedTuple):
    """By partition: the first retained offset, and that of the next message.

    ``errors``: why partitions cannot be read now; their two offsets are 0.
    """

    starts: Offsets
    nexts: Offsets
    errors: Mapping[int, TalosError]

    @property
    def damaged(self) -> Sequence[int]:
        """Partitions whose end nobody knows until they are repaired."""
        return [number for number, error in self.errors.items() if isinstance(error, DAMAGE)]

    def check(self) -> None:
        """Raises: why a partition cannot be read now, although it is not damaged."""
        for error in self.errors.values():
            if not isinstance(error, DAMAGE):
                raise error


class TopicEnds:
    """Offsets as the logs' servers remember them: no manifest is read to confirm them, so they are
    for figures, and decide nothing."""

    def __init__(self, context: BrokerContext) -> None:
        self._context = context
        self._logs = RemoteLogs(context)
        self._kept: BriefCache[tuple[str, int], Ends] = BriefCache(KEPT_S, TOPICS_MAX)

    async def read(self, topic: Topic) -> Ends:
        """Of all partitions; of a topic with many of them at most ``KEPT_S`` old."""
        if topic.consumer_partitions <= QUICK_PARTITIONS:
            return await self._read(topic)
        key = topic.uuid, topic.consumer_partitions
        return await self._kept.get(key, lambda: self._read(topic))

    async def _read(self, topic: Topic) -> Ends:
        count = topic.consumer_partitions
        starts, nexts = offsets_of({}, count, 0), offsets_of({}, count, 0)
        unopened: list[int] = []
        remote: list[int] = []
        errors: dict[int, TalosError] = {}
        for number in range(count):
            if number % PIECE == PIECE - 1:
                await self._context.work.pause()
            try:
                log = self._context.partition_log(topic, number)
            except NotOwner:
                remote.append(number)
                continue
            except TalosError as error:
                errors[number] = error
                continue
            known = log.known_range
            if known is not None:
                starts[number], nexts[number] = known
            else:
                unopened.append(number)
        found = [(unopened, await self._logs.read(topic, unopened))] if unopened else []
        if remote:
            found.append((remote, await self._logs.read(topic, remote, _REMEMBERED)))
        for numbers, facts in found:
            for number, fact in zip(numbers, facts, strict=True):
                if isinstance(fact, TalosError):
                    errors[number] = fact
                else:
                    starts[number], nexts[number] = fact.offsets
        return Ends(starts, nexts, dict(sorted(errors.items())))
