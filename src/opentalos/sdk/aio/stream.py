"""Follows a table's stream, for asyncio: as one of a group, or into a replica in memory."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Final, Self

from opentalos.model.errors import Unavailable
from opentalos.sdk.aio.client import Client, attach
from opentalos.sdk.aio.consumer import TalosConsumer
from opentalos.sdk.aio.simple_consumer import SimpleConsumer
from opentalos.sdk.aio.tables import TableAdmin, TalosTable
from opentalos.sdk.config import ClientConfig
from opentalos.sdk.consumer_settings import ConsumerSettings
from opentalos.sdk.errors import ClientClosed
from opentalos.sdk.stream_decode import StreamChange, StreamDecoder
from opentalos.sdk.stream_state import Replica, StreamMark

CLOCK_SPREAD_MS: Final = 1_000  # clocks of a service's servers differ by less
MARK_PAUSE_S: Final = 0.2  # at least, between two looks at a mark that is not far enough
MARK_PAUSE_S_MAX: Final = 5.0
MARK_WAIT_S: Final = 60.0  # for a mark that is
_MS: Final = 1000


class ChangeReader:
    """The changes of a table as one worker of a consumer group: ``async for change in reader``.

    As ``TalosConsumer``: what counts as processed, and what is committed. Changes come at least
    once; those of one row in order, each that comes again with those after it. ``Replica`` sorts
    that out, or whoever keeps timestamp and sequence of each row's last change.

    Args: client: shared with other objects, or a configuration for a client of its own; topic: as
    the table's schema names it.
    """

    def __init__(
        self,
        client: Client | ClientConfig,
        table: str,
        topic: str,
        group: str,
        settings: ConsumerSettings | None = None,
    ) -> None:
        self._client, self._owned = attach(client)
        self._table = TalosTable(self._client, table)
        self._topic = topic
        self.consumer = TalosConsumer(self._client, topic, group, settings)

    async def __aenter__(self) -> Self:
        await self.consumer.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def __aiter__(self) -> AsyncGenerator[StreamChange, None]:
        """Raises: ValidationFailed: the table has no such stream; MessageFormatError."""
        decoder = StreamDecoder.of(await self._table.schema(), self._topic)
        async for record in self.consumer:
            change = decoder.record(record)
            if change.table == self._table.name:
                yield change

    async def batches(self) -> AsyncGenerator[list[StreamChange], None]:
        """What was fetched of one partition, as a list; without end until ``close``."""
        decoder = StreamDecoder.of(await self._table.schema(), self._topic)
        async with aclosing(self.consumer.batches()) as batches:
            async for records in batches:
                found = map(decoder.record, records)
                yield [change for change in found if change.table == self._table.name]

    async def commit(self) -> None:
        """Commit all that was handed out so far, also the last one. Raises: LeaseNotHeld."""
        await self.consumer.commit()

    async def close(self) -> None:
        """Commit what is processed, and give the partitions up."""
        await self.consumer.close()
        if self._owned:
            await self._client.close()


class TableFollower:
    """Keeps a replica of a table in memory, of its records as they are or of the stream from its
    start.

    A scan is joined with the stream so that nothing is missing and nothing counts twice: the scan
    tells the last change of each record, the stream is read from a mark that is older than the
    scan, and ``consistent`` says when everything up to a mark that is younger than the scan has
    been applied. Memory: the table's records, and the number of each row's last change.

    Args: client: shared with other objects, or a configuration for a client of its own; topic: as
    the table's schema names it; complete: no scan: the stream is as old as the table, and all of
    it is retained.
    """

    def __init__(
        self, client: Client | ClientConfig, table: str, topic: str, *, complete: bool = False
    ) -> None:
        self._client, self._owned = attach(client)
        self._table, self._topic, self._complete = table, topic, complete
        self._admin = TableAdmin(self._client)
        self._consumer = SimpleConsumer(self._client, topic)
        self._state: tuple[StreamDecoder, Replica] | None = None
        self._positions: dict[int, int] = {}
        self._goal: StreamMark | None = None  # behind which the replica is consistent

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def replica(self) -> Replica:
        """The table as it is known here. Raises: ClientClosed: before ``start``."""
        return self._started()[1]

    @property
    def consistent(self) -> bool:
        """Whether the replica is the table as it was at some time, row by row, and only follows
        it from now on."""
        return self._state is not None and self._goal is None

    @property
    def positions(self) -> Mapping[int, int]:
        """The offset to read next, by partition."""
        return dict(self._positions)

    async def start(self) -> None:
        """Take a mark and scan the table; does nothing if that is done.

        Raises: TableNotExist, PermissionDenied; ValidationFailed: no such stream; NotSupported: a
                stream that tells no values.
        """
        if self._state is not None:
            return
        table = TalosTable(self._client, self._table)
        schema = await table.schema(refresh=True)
        decoder = StreamDecoder.of(schema, self._topic)
        replica = Replica(schema, decoder.view)
        if self._complete:
            retained = await self._consumer.offsets()
            self._positions = {partition: one.start for partition, one in retained.items()}
        else:
            begin = await self._admin.mark(self._table, self._topic)
            self._positions = dict(begin.offsets)
            async for state in table.states(columns=schema.streams[self._topic].attributes):
                replica.restore(state)
            self._goal = await self._mark()
        self._state = decoder, replica

    async def step(self) -> int:
        """Apply what the topic's partitions have next; waits a moment if that is nothing.

        Returns: how many changes were new.
        Raises:  ChangeMissing, ChangeContradicts: begin anew with another follower;
                 PositionExpired: it came too late; MessageFormatError.
        """
        decoder, replica = self._started()
        before = replica.counters.applied
        places = sorted(self._positions.items())
        fetched = await asyncio.gather(*(self._consumer.fetch(*place) for place in places))
        for records in fetched:
            for record in records:
                found = decoder.record(record)
                if found.table == self._table:
                    replica.apply(found.change)
                self._positions[record.partition] = record.offset + 1
        if self._goal is not None and self._reached(self._goal):
            replica.resolved(self._goal.timestamp_ms)
            self._goal = None
        return replica.counters.applied - before

    async def catch_up(self) -> int:
        """Apply everything that was written before this call; the replica is consistent then.

        Returns: the time, in Unix ms, up to which nothing is missing.
        Raises:  as ``step``; Unavailable: the stream itself is behind, or cannot tell how far it
                 is.
        """
        mark = await self._mark()
        while self._goal is not None or not self._reached(mark):
            await self.step()
        self.replica.resolved(mark.timestamp_ms)
        return mark.timestamp_ms

    async def close(self) -> None:
        """Close the client if it is this object's own."""
        if self._owned:
            await self._client.close()

    async def _mark(self) -> StreamMark:
        """A mark that is younger than everything written before this call."""
        now_s = await self._admin.server_time_s()
        wanted_ms = (now_s + 1) * _MS + CLOCK_SPREAD_MS
        loop = asyncio.get_running_loop()
        until_s = loop.time() + MARK_WAIT_S
        while True:
            mark = await self._admin.mark(self._table, self._topic)
            if mark.timestamp_ms >= wanted_ms:
                for partition in mark.offsets:
                    self._positions.setdefault(partition, 0)  # the topic has got more of them
                return mark
            late_ms = wanted_ms - mark.timestamp_ms
            if loop.time() > until_s:
                text = f"the stream of {self._table} into {self._topic} is {late_ms} ms behind"
                raise Unavailable(text)
            # A mark costs servers a write for each slice, so it is not asked for in vain.
            await asyncio.sleep(min(max(MARK_PAUSE_S, late_ms / _MS), MARK_PAUSE_S_MAX))

    def _reached(self, mark: StreamMark) -> bool:
        return all(self._positions.get(one, 0) >= behind for one, behind in mark.offsets.items())

    def _started(self) -> tuple[StreamDecoder, Replica]:
        if self._state is None:
            raise ClientClosed("the follower has not been started")
        return self._state
