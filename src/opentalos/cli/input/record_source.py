"""Records of a topic for `talos consume`: by offset, or as a worker of a group."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from opentalos.cli.input.times import Place, unix_ms
from opentalos.sdk import ConsumerSettings, Start, aio
from opentalos.sdk.core.values import OffsetRange, Position, Record
from opentalos.sdk.errors import PartitionNotExist, PositionExpired, TalosError

_FETCH_BYTES: Final = 2 << 20
_FETCHES_MAX: Final = 16  # under way at once
_AHEAD: Final = 16  # fetched batches that wait to be written
_POLL_S: Final = 0.5
_STARTS: Final = {"start": Start.EARLIEST, "end": Start.LATEST}


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which records of a topic are wanted."""

    topic: str
    place: Place  # where to begin
    partitions: Sequence[int] = ()  # none: all
    follow: bool = False  # also what comes later
    group: str | None = None
    idle_s: float = 0.0  # a group that does not follow ends when nothing came for so long


class Offsets:
    """Reads partitions side by side from a place to the end there was, or for ever."""

    def __init__(self, client: aio.Client, wanted: Wanted) -> None:
        self._client, self._wanted = client, wanted
        self._consumer = aio.SimpleConsumer(client, wanted.topic)
        self._queue: asyncio.Queue[list[Record] | TalosError | None] = asyncio.Queue(_AHEAD)
        self._fetches = asyncio.Semaphore(_FETCHES_MAX)
        self.total: int | None = None  # records there are; known once reading began

    async def batches(self) -> AsyncGenerator[list[Record], None]:
        """Records of one partition after the other. Raises: PositionExpired; TalosError."""
        retained = await self._retained()
        starts = await self._starts(retained)
        if not self._wanted.follow:
            self.total = sum(max(0, retained[one].next - at) for one, at in starts.items())
        readers = [
            asyncio.create_task(self._read(one, at, retained[one].next))
            for one, at in starts.items()
        ]
        try:
            left = len(readers)
            while left:
                found = await self._queue.get()
                if isinstance(found, TalosError):
                    raise found
                if found is None:
                    left -= 1
                else:
                    yield found
        finally:
            for reader in readers:
                reader.cancel()

    async def written(self, record: Record) -> None:
        """Nothing remembers it."""

    async def close(self) -> None:
        """Nothing is held."""

    async def _retained(self) -> Mapping[int, OffsetRange]:
        ref = await self._client.topic(self._wanted.topic)
        chosen = self._wanted.partitions or range(ref.consumer_partitions)
        missing = [one for one in chosen if one >= ref.consumer_partitions]
        if missing:
            raise PartitionNotExist(
                f"topic {ref.name} has {ref.consumer_partitions} partitions, none is {missing[0]}"
            )
        return await self._client.offsets(ref, list(chosen))

    async def _starts(self, retained: Mapping[int, OffsetRange]) -> Mapping[int, int]:
        place = self._wanted.place
        if isinstance(place, datetime):
            ref = await self._client.topic(self._wanted.topic)
            return await self._client.offsets_at(ref, dict.fromkeys(retained, unix_ms(place)))
        if place == "start":
            return {one: range_.start for one, range_ in retained.items()}
        if place == "end":
            return {one: range_.next for one, range_ in retained.items()}
        assert isinstance(place, int), "the other kinds of place were looked at"
        for one, range_ in retained.items():
            if not range_.start <= place <= range_.next:
                raise PositionExpired(self._wanted.topic, one, place, range_)
        return dict.fromkeys(retained, place)

    async def _read(self, partition: int, offset: int, end: int) -> None:
        try:
            while self._wanted.follow or offset < end:
                async with self._fetches:
                    records = await self._consumer.fetch(partition, offset, bytes_max=_FETCH_BYTES)
                if not self._wanted.follow:
                    records = [record for record in records if record.offset < end]
                if records:
                    offset = records[-1].offset + 1
                    await self._queue.put(records)
        except TalosError as error:
            await self._queue.put(error)
        else:
            await self._queue.put(None)


class Group:
    """Reads as one worker of a consumer group, which commits what was written.

    The consumer commits by itself what is done with, every few seconds and when a partition goes;
    that is every batch but the one in hand.
    """

    def __init__(self, client: aio.Client, wanted: Wanted) -> None:
        assert wanted.group is not None
        place = wanted.place
        start: Position = _STARTS[place] if isinstance(place, str) else place
        settings = ConsumerSettings(first_start=start)
        self._consumer = aio.TalosConsumer(client, wanted.topic, wanted.group, settings)
        self._wanted = wanted
        self._in_hand: dict[int, int] = {}  # the last written offset of the batch by partition
        self.total: int | None = None  # nobody knows what other workers take

    async def batches(self) -> AsyncGenerator[list[Record], None]:
        """Records of the partitions that this worker holds. Raises: TalosError."""
        loop = asyncio.get_running_loop()
        until_s = loop.time() + self._wanted.idle_s
        while self._wanted.follow or loop.time() < until_s:
            found = await self._consumer.poll(_POLL_S)
            self._in_hand = {}
            if found:
                yield found
                until_s = loop.time() + self._wanted.idle_s

    async def written(self, record: Record) -> None:
        """This record and those before it in its batch are written."""
        self._in_hand = {record.partition: record.offset}

    async def close(self) -> None:
        """Commit, and let go of the partitions."""
        try:
            if self._in_hand.keys() <= set(self._consumer.assignment) and self._in_hand:
                await self._consumer.commit(self._in_hand)
        finally:
            await self._consumer.close()


def source_of(client: aio.Client, wanted: Wanted) -> Offsets | Group:
    """The way to read that is wanted."""
    return Offsets(client, wanted) if wanted.group is None else Group(client, wanted)
