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

CLOCK_SPREAD_MS: Final = 1_000  # clocks of the servers differ by less
MARK_PAUSE_S: Final = 0.2  # at least, between two polls for a mark
MARK_PAUSE_S_MAX: Final = 5.0
MARK_WAIT_S: Final = 60.0  # for a mark that is recent enough
TABLE_CHECK_S: Final = 10.0  # between two checks of the table
TABLE_CHECK_WAIT_S: Final = 2.0  # for one check
WAITING_MAX: Final = 10_000  # changes whose predecessor is missing, after partitions were added
_MS: Final = 1000


class TableFollower:
    """Keeps a replica of a table in memory, from a scan and then the table's change stream.

    Scan and stream are joined so that no change is lost or applied twice: the scan returns the
    sequence number of the last change per row, the stream is read from a mark taken before the
    scan, and ``consistent`` turns true once everything up to a mark taken after the scan has been
    applied. Memory: all rows, and the last sequence number of each row ever seen.

    Args: client: shared with other objects, or the configuration of a client of its own; topic:
    as in the table's schema, or OWNER/TOPIC if the table is OWNER/TABLE; complete: skip the scan;
    the stream must be as old as the table and fully retained.
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
        self._stream = topic  # its key in the schema
        self._enabling: int | None = None  # generation of the stream; grows each time it is enabled
        self._checked_s = 0.0
        self._positions: dict[int, int] = {}
        self._initial_partitions = 0  # partitions
        self._waiting: list[Change] = []  # read before their predecessors
        self._goal: StreamMark | None = None  # once reached, the replica is consistent

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def replica(self) -> Replica:
        """The table as known so far. Raises: ClientClosed: before ``start``."""
        return self._started()[1]

    @property
    def consistent(self) -> bool:
        """Whether each row of the replica has been a row of the table at some time. Once true, it
        stays true."""
        return self._state is not None and self._goal is None

    @property
    def positions(self) -> Mapping[int, int]:
        """The next offset to read, by partition."""
        return dict(self._positions)

    async def start(self) -> None:
        """Take a mark and scan the table; no effect if already done.

        Raises: TableNotExist, PermissionDenied; ValidationFailed: no such stream; NotSupported:
                the stream carries keys only.
        """
        if self._state is not None:
            return
        self._uuid, schema = await self._followed.identity()
        decoder = StreamDecoder.of(schema, self._topic, self._table)
        self._stream = stream_key(schema, self._table, self._topic)
        replica = Replica(schema, decoder.view)
        if self._complete:
            ref = await self._client.topic(self._topic)
            partitions = range(ref.consumer_partitions)
            self._positions = await self._client.first_offsets(ref, partitions)
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
        """Fetch once from every partition and apply the changes; waits briefly if there are none.
        Periodically checks the table for new columns and partitions.

        Returns: the number of new changes.
        Raises:  ChangeMissing, ChangeContradicts: start again with a new follower; TableNotExist:
                 dropped, or recreated; ValidationFailed: the stream is disabled or has stopped;
                 PositionExpired: fell behind retention; CorruptLog: a partition is damaged, and
                 each step applies what the others have; MessageFormatError.
        """
        decoder, replica = self._started()
        await self._check_if_due()
        before = replica.counters.applied
        places = sorted(self._positions.items())
        fetches = (self._consumer.fetch(*place) for place in places)
        fetched = await asyncio.gather(*fetches, return_exceptions=True)
        failures = [found for found in fetched if isinstance(found, BaseException)]
        for records in fetched:
            for record in () if isinstance(records, BaseException) else records:
                found = decoder.record(record)
                if found.table == published_name(self._table):
                    await self._apply(found.change)
                self._positions[record.partition] = record.offset + 1
        self._apply_waiting()
        if self._goal is not None and self._reached(self._goal):
            self._resolve(self._goal)
            self._goal = None
        if failures:
            raise failures[0]  # what the others had is applied
        return replica.counters.applied - before

    async def catch_up(self) -> int:
        """Apply everything written before this call; the replica is consistent afterwards.

        Returns: the time, in Unix ms, up to which the replica is complete.
        Raises:  as ``step``; Unavailable: the stream lags, or its progress is unknown.
        """
        await self._check_table()
        mark = await self._mark()
        while self._goal is not None or not self._reached(mark):
            await self.step()
        self._resolve(mark)
        return mark.timestamp_ms

    async def close(self) -> None:
        """Close the client, unless it is shared."""
        if self._owned:
            await self._client.close()

    async def _mark(self) -> StreamMark:
        """A mark taken after everything written before this call."""
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
                stream = f"the stream of {self._table} into {self._topic}"
                raise Unavailable(f"no recent mark: {stream} lags {late_ms} ms; try again")
            # A mark costs a write per shard: wait as long as the stream lags.
            await asyncio.sleep(min(max(MARK_PAUSE_S, late_ms / _MS), MARK_PAUSE_S_MAX))

    async def _latest_mark(self) -> StreamMark:
        """The current mark. Raises: ChangeMissing: the stream was disabled meanwhile."""
        mark = await self._admin.mark(self._table, self._stream)
        if self._enabling is None:
            self._enabling = mark.enabling
        elif mark.enabling != self._enabling:
            raise ChangeMissing(
                f"the stream of {self._table} into {self._topic} was disabled or stopped "
                "meanwhile: changes are missing; start a new follower"
            )
        return mark

    async def _check_if_due(self) -> None:
        """Check at intervals that table and stream are unchanged."""
        now_s = asyncio.get_running_loop().time()
        if now_s - self._checked_s < TABLE_CHECK_S:
            return
        self._checked_s = now_s
        try:
            async with asyncio.timeout(TABLE_CHECK_WAIT_S):
                await self._check_table()
                self._extend((await self._latest_mark()).offsets)
        except (Unavailable, TimeoutError):  # such as a shard that has just moved
            return  # keep reading; the next check decides

    async def _check_table(self) -> None:
        uuid, schema = await self._followed.identity()
        if uuid != self._uuid:
            raise TableNotExist(
                f"the table {self._table} was dropped and recreated; start a new follower"
            )
        decoder, replica = self._started()
        if StreamDecoder.of(schema, self._topic, self._table).view is not decoder.view:
            raise ValidationFailed(
                f"the view of the stream into {self._topic} has changed; start a new follower"
            )
        replica.schema = schema

    async def _apply(self, change: Change) -> None:
        """Apply a change; if partitions were added, its predecessor may be in another one."""
        replica = self.replica
        try:
            replica.apply(change)
        except ChangeMissing:
            if len(self._waiting) >= WAITING_MAX or not await self._has_grown():
                raise
            self._waiting.append(change)

    def _apply_waiting(self) -> None:
        """Apply waiting changes whose predecessor has arrived."""
        waiting, self._waiting = sorted(self._waiting, key=lambda change: change.timestamp_ms), []
        for change in waiting:
            try:
                self.replica.apply(change)
            except ChangeMissing:
                self._waiting.append(change)

    def _resolve(self, mark: StreamMark) -> None:
        """Everything before the mark was read. Raises: ChangeMissing: a change is not there."""
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
            raise ClientClosed("the follower is not started; call start() first")
        return self._state
