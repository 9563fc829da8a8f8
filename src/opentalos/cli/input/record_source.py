"""Sources of the records that `talos consume` prints: by offset, or as a worker of a group."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import click

from opentalos.cli.counts import counted
from opentalos.cli.input.times import Position as StartPosition
from opentalos.cli.input.times import unix_ms
from opentalos.model.errors import DAMAGE
from opentalos.sdk import ConsumerSettings, Start, aio
from opentalos.sdk.core.values import DamagedRange, OffsetRange, Position, Record
from opentalos.sdk.errors import PartitionNotExist, PositionExpired, TalosError

_FETCH_BYTES: Final = 2 << 20
_FETCHES_MAX: Final = 16  # concurrent fetches
_AHEAD: Final = 16  # fetched batches that may wait to be written
_POLL_S: Final = 0.5
_STARTS: Final = {"start": Start.EARLIEST, "end": Start.LATEST}
_Retained = Mapping[int, OffsetRange | DamagedRange]  # by partition


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
    """Reads partitions concurrently from a position to the end; with follow it never ends.

    Of a damaged partition nobody knows the end: it is read until the server reports the damage,
    which is raised when the other partitions are read.
    """

    def __init__(self, client: aio.Client, wanted: Wanted) -> None:
        self._client, self._wanted = client, wanted
        self._consumer = aio.SimpleConsumer(client, wanted.topic)
        self._queue: asyncio.Queue[list[Record] | TalosError | None] = asyncio.Queue(_AHEAD)
        self._fetches = asyncio.Semaphore(_FETCHES_MAX)
        self.total: int | None = None  # number of records; known once reading has begun, if at all

    async def batches(self) -> AsyncGenerator[list[Record], None]:
        """Batches, each of one partition. Raises: PositionExpired; CorruptLog, at the end;
        TalosError."""
        retained = await self._retained()
        starts = await self._starts(retained)
        self.total = None if self._wanted.follow else _total(retained, starts)
        readers = [
            asyncio.create_task(self._read(partition, start, retained[partition]))
            for partition, start in starts.items()
        ]
        damage: TalosError | None = None
        try:
            running = len(readers)
            while running:
                batch = await self._queue.get()
                if batch is None:
                    running -= 1
                elif isinstance(batch, DAMAGE):
                    running -= 1
                    damage = damage or batch
                    if running:
                        _show(batch)
                elif isinstance(batch, TalosError):
                    raise batch
                else:
                    yield batch
            if damage is not None:
                raise damage
        finally:
            for reader in readers:
                reader.cancel()

    async def written(self, record: Record) -> None:
        """Nothing to do: there is no committed offset."""

    async def close(self) -> None:
        """Nothing to release."""

    async def _retained(self) -> _Retained:
        ref = await self._client.topic(self._wanted.topic)
        chosen = self._wanted.partitions or range(ref.consumer_partitions)
        missing = [partition for partition in chosen if partition >= ref.consumer_partitions]
        if missing:
            raise PartitionNotExist(
                f"topic {ref.name} has no partition {missing[0]}: it has "
                f"{counted(ref.consumer_partitions, 'partition')}"
            )
        return await self._client.known_offsets(ref, list(chosen))

    async def _starts(self, retained: _Retained) -> dict[int, int | TalosError]:
        """The first offset by partition, or the damage because of which it is not known."""
        start = self._wanted.start
        if isinstance(start, datetime):
            whole = [number for number, there in retained.items() if isinstance(there, OffsetRange)]
            found: dict[int, int | TalosError] = {**await self._at(start, whole)}
            for partition in retained.keys() - found.keys():
                try:
                    found |= await self._at(start, [partition])
                except DAMAGE as damage:
                    found[partition] = damage
            return found
        return {partition: self._start(partition, there) for partition, there in retained.items()}

    async def _at(self, time: datetime, partitions: Sequence[int]) -> Mapping[int, int]:
        if not partitions:
            return {}
        ref = await self._client.topic(self._wanted.topic)
        return await self._client.offsets_at(ref, dict.fromkeys(partitions, unix_ms(time)))

    def _start(self, partition: int, there: OffsetRange | DamagedRange) -> int | TalosError:
        """Where a partition begins that is not read from a time. Raises: PositionExpired."""
        start = self._wanted.start
        try:
            if start == "start":
                return there.start
            if start == "end":
                return there.next
            assert isinstance(start, int), "times are handled by the caller"
            beyond = isinstance(there, OffsetRange) and start > there.next
            if start < there.start or beyond:
                raise PositionExpired(self._wanted.topic, partition, start, there)
        except DAMAGE as damage:
            return damage
        return start

    async def _read(
        self, partition: int, start: int | TalosError, there: OffsetRange | DamagedRange
    ) -> None:
        try:
            if isinstance(start, TalosError):
                raise start
            offset = start
            endless = self._wanted.follow or isinstance(there, DamagedRange)
            while endless or offset < there.next:
                async with self._fetches:
                    records = await self._consumer.fetch(partition, offset, bytes_max=_FETCH_BYTES)
                if not endless:
                    records = [record for record in records if record.offset < there.next]
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
        """Batches of the partitions assigned to this worker. Raises: CorruptLog, at the end;
        TalosError."""
        loop = asyncio.get_running_loop()
        until_s = loop.time() + self._wanted.idle_s
        damage: TalosError | None = None
        while self._wanted.follow or loop.time() < until_s:
            found: list[Record] = []
            try:
                found = await self._consumer.poll(_POLL_S)
            except DAMAGE as error:
                damage = error
                _show(error)
            self._written = {}
            if found:
                yield found
                until_s = loop.time() + self._wanted.idle_s
        if damage is not None:
            raise damage

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


def _total(retained: _Retained, starts: Mapping[int, int | TalosError]) -> int | None:
    """The number of records to read; None: nobody knows, a partition is damaged."""
    total = 0
    for partition, start in starts.items():
        there = retained[partition]
        if isinstance(there, DamagedRange) or isinstance(start, TalosError):
            return None
        total += max(0, there.next - start)
    return total


def _show(damage: TalosError) -> None:
    click.echo(f"talos: {damage}; the other partitions are read", err=True)


def source_of(client: aio.Client, wanted: Wanted) -> OffsetSource | GroupSource:
    """The source for these records."""
    return OffsetSource(client, wanted) if wanted.group is None else GroupSource(client, wanted)
