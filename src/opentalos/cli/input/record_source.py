"""Sources of the records that `talos consume` prints: by offset, or as a worker of a group."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from opentalos.cli.counts import counted
from opentalos.cli.input.times import Position as StartPosition
from opentalos.cli.input.times import unix_ms
from opentalos.sdk import ConsumerSettings, Start, aio
from opentalos.sdk.core.values import OffsetRange, Position, Record
from opentalos.sdk.errors import PartitionNotExist, PositionExpired, TalosError

_FETCH_BYTES: Final = 2 << 20
_FETCHES_MAX: Final = 16  # concurrent fetches
_AHEAD: Final = 16  # fetched batches that may wait to be written
_POLL_S: Final = 0.5
_STARTS: Final = {"start": Start.EARLIEST, "end": Start.LATEST}


@dataclass(frozen=True, slots=True)
class Wanted:
    """The records to read."""

    topic: str
    start: StartPosition
    partitions: Sequence[int] = ()  # empty: all
    follow: bool = False  # keep waiting for new records
    group: str | None = None
    idle_s: float = 0.0  # without follow, a group reader ends after this time without a record


class OffsetSource:
    """Reads partitions concurrently from a position to the end; with follow it never ends."""

    def __init__(self, client: aio.Client, wanted: Wanted) -> None:
        self._client, self._wanted = client, wanted
        self._consumer = aio.SimpleConsumer(client, wanted.topic)
        self._queue: asyncio.Queue[list[Record] | TalosError | None] = asyncio.Queue(_AHEAD)
        self._fetches = asyncio.Semaphore(_FETCHES_MAX)
        self.total: int | None = None  # number of records; known once reading has begun

    async def batches(self) -> AsyncGenerator[list[Record], None]:
        """Batches, each of one partition. Raises: PositionExpired; TalosError."""
        retained = await self._retained()
        starts = await self._starts(retained)
        if not self._wanted.follow:
            self.total = sum(
                max(0, retained[partition].next - offset) for partition, offset in starts.items()
            )
        readers = [
            asyncio.create_task(self._read(partition, offset, retained[partition].next))
            for partition, offset in starts.items()
        ]
        try:
            running = len(readers)
            while running:
                batch = await self._queue.get()
                if isinstance(batch, TalosError):
                    raise batch
                if batch is None:
                    running -= 1
                else:
                    yield batch
        finally:
            for reader in readers:
                reader.cancel()

    async def written(self, record: Record) -> None:
        """Nothing to do: there is no committed offset."""

    async def close(self) -> None:
        """Nothing to release."""

    async def _retained(self) -> Mapping[int, OffsetRange]:
        ref = await self._client.topic(self._wanted.topic)
        chosen = self._wanted.partitions or range(ref.consumer_partitions)
        missing = [partition for partition in chosen if partition >= ref.consumer_partitions]
        if missing:
            raise PartitionNotExist(
                f"topic {ref.name} has no partition {missing[0]}: it has "
                f"{counted(ref.consumer_partitions, 'partition')}"
            )
        return await self._client.offsets(ref, list(chosen))

    async def _starts(self, retained: Mapping[int, OffsetRange]) -> Mapping[int, int]:
        start = self._wanted.start
        if isinstance(start, datetime):
            ref = await self._client.topic(self._wanted.topic)
            return await self._client.offsets_at(ref, dict.fromkeys(retained, unix_ms(start)))
        if start == "start":
            return {partition: range_.start for partition, range_ in retained.items()}
        if start == "end":
            return {partition: range_.next for partition, range_ in retained.items()}
        assert isinstance(start, int), "the other types are handled above"
        for partition, range_ in retained.items():
            if not range_.start <= start <= range_.next:
                raise PositionExpired(self._wanted.topic, partition, start, range_)
        return dict.fromkeys(retained, start)

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


class GroupSource:
    """Reads as a worker of a consumer group and commits what was written.

    The SDK's consumer commits every batch that ``poll`` returned before the current one, every few
    seconds and when a partition is revoked. ``close`` commits the current batch as far as written.
    """

    def __init__(self, client: aio.Client, wanted: Wanted) -> None:
        assert wanted.group is not None
        start: Position = _STARTS[wanted.start] if isinstance(wanted.start, str) else wanted.start
        settings = ConsumerSettings(first_start=start)
        self._consumer = aio.TalosConsumer(client, wanted.topic, wanted.group, settings)
        self._wanted = wanted
        self._written: dict[int, int] = {}  # last written offset of the batch, by partition
        self.total: int | None = None  # unknown: other workers share the partitions

    async def batches(self) -> AsyncGenerator[list[Record], None]:
        """Batches of the partitions assigned to this worker. Raises: TalosError."""
        loop = asyncio.get_running_loop()
        until_s = loop.time() + self._wanted.idle_s
        while self._wanted.follow or loop.time() < until_s:
            found = await self._consumer.poll(_POLL_S)
            self._written = {}
            if found:
                yield found
                until_s = loop.time() + self._wanted.idle_s

    async def written(self, record: Record) -> None:
        """Record that this record and the preceding ones of its batch are written."""
        self._written = {record.partition: record.offset}

    async def close(self) -> None:
        """Commit, then leave the group."""
        try:
            if self._written.keys() <= set(self._consumer.assignment) and self._written:
                await self._consumer.commit(self._written)
        finally:
            await self._consumer.close()


def source_of(client: aio.Client, wanted: Wanted) -> OffsetSource | GroupSource:
    """The source for these records."""
    return OffsetSource(client, wanted) if wanted.group is None else GroupSource(client, wanted)
