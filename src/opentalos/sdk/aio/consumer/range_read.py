"""Reads everything between two positions of a topic as one Arrow table."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from opentalos.model.errors import BadRequest
from opentalos.sdk.aio.connection.client import Client
from opentalos.sdk.aio.consumer.start_positions import offsets_of
from opentalos.sdk.core.values import DamagedRange, OffsetRange, Position, TopicRef
from opentalos.sdk.errors import PositionExpired

RANGE_ROWS_MAX: Final = 10_000_000  # of one table, unless the caller sets another limit
FETCH_MESSAGES: Final = 20_000  # the servers' limit of a get
FETCH_BYTES: Final = 10 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeRead:
    """What to read: from ``start`` to before ``end``, in some partitions; None: in all.

    ``columns``: names of ``opentalos.sdk.arrow.SCHEMA``; None: all.
    """

    start: Position
    end: Position
    partitions: Sequence[int] | None
    columns: Sequence[str] | None
    rows_max: int

    async def table(self, client: Client, ref: TopicRef) -> Any:
        """The ``pyarrow.Table``, by partition and offset. Raises: as ``read_range``."""
        import pyarrow as pa  # large and optional

        from opentalos.sdk.arrow import SCHEMA

        names = SCHEMA.names if self.columns is None else list(self.columns)
        if not names or (unknown := sorted(set(names) - set(SCHEMA.names))):
            shown = "none" if not names else ", ".join(unknown)
            raise BadRequest(f"no such column: {shown}; known: {', '.join(SCHEMA.names)}")
        schema = pa.schema([SCHEMA.field(name) for name in names])
        batches: list[Any] = []
        for partition, begin, end in await self._spans(client, ref):
            found = self._batches(client, ref, partition, begin, end)
            batches += [batch.select(names) async for batch in found]
        return pa.Table.from_batches(batches, schema)

    async def _spans(self, client: Client, ref: TopicRef) -> list[tuple[int, int, int]]:
        """Partition, first and following offset; messages that are stored from now on are none."""
        wanted = range(ref.consumer_partitions) if self.partitions is None else self.partitions
        numbers = sorted(set(wanted))
        retained = await client.known_offsets(ref, numbers)
        begins = await offsets_of(client, ref, dict.fromkeys(numbers, self.start))
        ends = await offsets_of(client, ref, dict.fromkeys(numbers, self.end))
        spans: list[tuple[int, int, int]] = []
        for number in numbers:
            begin, end, there = begins[number], ends[number], retained[number]
            self._check_begin(ref, number, begin, there)
            if isinstance(there, OffsetRange):
                end = min(end, there.next)
            elif begin < end:  # the range ends before the damage, or this raises it
                await client.fetch(ref, number, end - 1, messages_max=1, bytes_max=1)
            spans.append((number, begin, end))
        rows = sum(max(0, end - begin) for _, begin, end in spans)
        if rows > self.rows_max:
            raise BadRequest(
                f"the range has {rows} messages, more than rows_max = {self.rows_max}; "
                "read fewer at a time"
            )
        return [span for span in spans if span[1] < span[2]]

    def _check_begin(
        self, ref: TopicRef, partition: int, begin: int, there: OffsetRange | DamagedRange
    ) -> None:
        """Raises: PositionExpired: the caller named an offset that is not retained; CorruptLog."""
        if not isinstance(self.start, int):
            return
        beyond = isinstance(there, OffsetRange) and begin > there.next
        if begin < there.start or beyond:
            raise PositionExpired(ref.name, partition, begin, there)

    async def _batches(
        self, client: Client, ref: TopicRef, partition: int, begin: int, end: int
    ) -> AsyncIterator[Any]:
        """The decoded batches of one partition."""
        from opentalos.sdk.arrow import decode_batches, rows_before

        offset = begin
        while offset < end:
            try:
                reply = await client.fetch(
                    ref,
                    partition,
                    offset,
                    messages_max=min(FETCH_MESSAGES, end - offset),
                    bytes_max=FETCH_BYTES,
                )
            except PositionExpired as error:
                # An end of the log and a time mean what is retained; a gap after that is an error.
                first = error.retained.start if error.retained is not None else 0
                if offset > begin or isinstance(self.start, int) or first <= offset:
                    raise
                begin = offset = first
                continue
            if not reply.blocks:
                raise PositionExpired(ref.name, partition, offset, None)
            for batch in decode_batches(ref.name, partition, iter(reply.blocks), offset):
                yield rows_before(batch, end)
            offset = reply.blocks[-1].next_offset
