"""Keeps a replica of a table in memory, for asyncio."""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final, Self

from opentalos.model.change import Change
from opentalos.model.errors import TableNotExist, Unavailable, ValidationFailed
from opentalos.sdk.aio.connection.client import Client, attach
from opentalos.sdk.aio.consumer.simple_consumer import SimpleConsumer
from opentalos.sdk.aio.tables import TableAdmin, TalosTable
from opentalos.sdk.core.config import ClientConfig
from opentalos.sdk.core.table.stream_decode import (
    StreamDecoder,
    published_name,
    stream_key,
)
from opentalos.sdk.core.table.stream_state import Replica, StreamMark
from opentalos.sdk.errors import ChangeMissing, ClientClosed

CLOCK_SPREAD_MS: Final = 1_000  # clocks of a service's servers differ by less
MARK_PAUSE_S: Final = 0.2  # at least, between two looks at a mark that is not far enough
MARK_PAUSE_S_MAX: Final = 5.0
MARK_WAIT_S: Final = 60.0  # for a mark that is
TABLE_CHECK_S: Final = 10.0  # between two looks at the table
TABLE_CHECK_WAIT_S: Final = 2.0  # for what a look asks
WAITING_MAX: Final = 10_000  # changes that wait for the one before them, once the topic has grown
_MS: Final = 1000


class TableFollower:
    """Keeps a replica of a table in memory, of its records as they are or of the stream from its
    start.

    A scan is joined with the stream so that nothing is missing and nothing counts twice: the scan
    tells the last change of each record, the stream is read from a mark that is older than the
    scan, and ``consistent`` says when everything up to a mark that is younger than the scan has
    been applied. Memory: the table's records, and the number of each row's last change.

    Args: client: shared with other objects, or a configuration for a client of its own; topic: as
    the table's schema names it, or OWNER/TOPIC if the table is OWNER/TABLE; complete: no scan: the
    stream is as old as the table, and all of it is retained.
    """

    def __init__(
        self, client: Client | ClientConfig, table: str, topic: str, *, complete: bool = False
    ) -> None:
        self._client, self._owned = attach(client)
        self._table, self._topic, self._complete = table, topic, complete
        self._admin = TableAdmin(self._client)
        self._followed = TalosTable(self._client, table)
        self._consumer = SimpleConsumer(self._client, topic)
        self._state: tuple[StreamDecoder, Replica] | None = None
        self._uuid = ""  # of the table
        self._stream = topic  # as its schema names it
        self._enabling: int | None = None  # of the stream
        self._checked_s = 0.0
        self._positions: dict[int, int] = {}
        self._initial_partitions = 0  # partitions
        self._waiting: list[Change] = []  # read before those that they follow
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
        self._uuid, schema = await self._followed.identity()
        decoder = StreamDecoder.of(schema, self._topic, self._table)
        self._stream = stream_key(schema, self._table, self._topic)
        replica = Replica(schema, decoder.view)
        if self._complete:
            retained = await self._consumer.offsets()
            self._positions = {partition: offsets.start for partition, offsets in retained.items()}
            self._initial_partitions = len(self._positions)
        else:
            self._positions = dict((await self._latest_mark()).offsets)
            self._initial_partitions = len(self._positions)
            async for state in self._followed.states(
                columns=schema.streams[self._stream].attributes
            ):
                replica.restore(state)
            self._goal = await self._mark()
        self._checked_s = asyncio.get_running_loop().time()
        self._state = decoder, replica

    async def step(self) -> int:
        """Apply what the topic's partitions have next; waits a moment if that is nothing. Now and
        then it looks at the table, and takes new columns and partitions over.

        Returns: how many changes were new.
        Raises:  ChangeMissing, ChangeContradicts: begin anew with another follower;
                 TableNotExist: also if another table has its name; ValidationFailed: the stream is
                 off or has stopped; PositionExpired: it came too late; MessageFormatError.
        """
        decoder, replica = self._started()
        await self._check_if_due()
        before = replica.counters.applied
        places = sorted(self._positions.items())
        fetched = await asyncio.gather(*(self._consumer.fetch(*place) for place in places))
        for records in fetched:
            for record in records:
                found = decoder.record(record)
                if found.table == published_name(self._table):
                    await self._apply(found.change)
                self._positions[record.partition] = record.offset + 1
        self._apply_waiting()
        if self._goal is not None and self._reached(self._goal):
            self._resolve(self._goal)
            self._goal = None
        return replica.counters.applied - before

    async def catch_up(self) -> int:
        """Apply everything that was written before this call; the replica is consistent then.

        Returns: the time, in Unix ms, up to which nothing is missing.
        Raises:  as ``step``; Unavailable: the stream itself is behind, or cannot tell how far it
                 is.
        """
        await self._check_table()
        mark = await self._mark()
        while self._goal is not None or not self._reached(mark):
            await self.step()
        self._resolve(mark)
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
            mark = await self._latest_mark()
            if mark.timestamp_ms >= wanted_ms:
                self._extend(mark.offsets)
                return mark
            late_ms = wanted_ms - mark.timestamp_ms
            if loop.time() > until_s:
                text = f"the stream of {self._table} into {self._topic} is {late_ms} ms behind"
                raise Unavailable(text)
            # A mark costs servers a write for each shard, so it is not asked for in vain.
            await asyncio.sleep(min(max(MARK_PAUSE_S, late_ms / _MS), MARK_PAUSE_S_MAX))

    async def _latest_mark(self) -> StreamMark:
        """Any mark of the same enabling of the stream. Raises: ChangeMissing: of a later one."""
        mark = await self._admin.mark(self._table, self._stream)
        if self._enabling is None:
            self._enabling = mark.enabling
        elif mark.enabling != self._enabling:
            raise ChangeMissing(
                f"the stream of {self._table} into {self._topic} was off or has stopped in "
                "between: changes are missing; begin anew with a scan"
            )
        return mark

    async def _check_if_due(self) -> None:
        """See whether table and stream are still the same."""
        now_s = asyncio.get_running_loop().time()
        if now_s - self._checked_s < TABLE_CHECK_S:
            return
        self._checked_s = now_s
        try:
            async with asyncio.timeout(TABLE_CHECK_WAIT_S):
                await self._check_table()
                self._extend((await self._latest_mark()).offsets)
        except (Unavailable, TimeoutError):  # such as a shard that has just moved
            return  # reading goes on meanwhile; the next look tells

    async def _check_table(self) -> None:
        uuid, schema = await self._followed.identity()
        if uuid != self._uuid:
            raise TableNotExist(
                f"the table {self._table} that was followed does not exist; another one has its "
                "name: begin anew with another follower"
            )
        decoder, replica = self._started()
        if StreamDecoder.of(schema, self._topic, self._table).view is not decoder.view:
            raise ValidationFailed(f"the stream into {self._topic} has another view now")
        replica.schema = schema

    async def _apply(self, change: Change) -> None:
        """Apply it; if the topic has grown, the one before it may lie in another partition."""
        replica = self.replica
        try:
            replica.apply(change)
        except ChangeMissing:
            if len(self._waiting) >= WAITING_MAX or not await self._has_grown():
                raise
            self._waiting.append(change)

    def _apply_waiting(self) -> None:
        """Those whose turn it is now."""
        waiting, self._waiting = sorted(self._waiting, key=lambda change: change.timestamp_ms), []
        for change in waiting:
            try:
                self.replica.apply(change)
            except ChangeMissing:
                self._waiting.append(change)

    def _resolve(self, mark: StreamMark) -> None:
        """Everything below the mark was read. Raises: ChangeMissing: one is not there."""
        for change in self._waiting:
            if change.timestamp_ms <= mark.timestamp_ms:
                self.replica.apply(change)
        self.replica.resolved(mark.timestamp_ms)

    async def _has_grown(self) -> bool:
        if len(self._positions) == self._initial_partitions:
            topic = await self._client.topic(self._topic, refresh=True)
            self._extend(range(topic.consumer_partitions))
        return len(self._positions) > self._initial_partitions

    def _extend(self, partitions: Iterable[int]) -> None:
        for partition in partitions:
            self._positions.setdefault(partition, 0)

    def _reached(self, mark: StreamMark) -> bool:
        return all(
            self._positions.get(partition, 0) >= behind
            for partition, behind in mark.offsets.items()
        )

    def _started(self) -> tuple[StreamDecoder, Replica]:
        if self._state is None:
            raise ClientClosed("the follower has not been started")
        return self._state
