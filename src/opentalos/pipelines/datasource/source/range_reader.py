"""Reads the offset ranges of a task: a coroutine fetches ahead while the task decodes."""

import asyncio
import itertools
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from opentalos.model.errors import CorruptLog, OffsetOutOfRange, TopicNotExist
from opentalos.model.message import StoredBlock
from opentalos.model.names import ResourceName
from opentalos.pipelines.datasource.connection import client_of
from opentalos.pipelines.datasource.source.batch_range import ReadRange
from opentalos.pipelines.datasource.source.next_batch import retained_from
from opentalos.pipelines.datasource.source.topic_snapshot import deleted
from opentalos.sdk import Client, ClientConfig, PositionExpired, TopicRef
from opentalos.sdk.aio import Client as AsyncClient
from opentalos.sdk.aio.consumer.range_read import FETCH_BYTES, FETCH_MESSAGES
from opentalos.sdk.arrow import decode_batches, rows_before
from opentalos.sdk.sync.loop_thread import LoopThread
from opentalos.wire.message import MessageFormatError

FETCHES_AHEAD_MAX: Final = 2  # replies that wait to be decoded

_LOG: Final = logging.getLogger("opentalos.datasource")
_Item = list[StoredBlock] | Exception | None  # None: the offset range ends


@dataclass(frozen=True, slots=True)
class RangeReader:
    """Reads exactly the offsets of ranges, or fails. It is sent to the tasks."""

    config: ClientConfig
    skip_expired: bool
    drop_deleted: bool = False  # what a deleted topic had is left out

    def read(self, ranges: Sequence[ReadRange]) -> Iterator[Any]:
        """Record batches of ``opentalos.sdk.arrow.SCHEMA``, range by range, by offset.

        Raises: TopicNotExist: the topic was deleted; OffsetOutOfRange: offsets expired since the
        batch was planned; MessageFormatError, CorruptLog: a block is damaged; PermissionDenied;
        Unavailable: no server answered within the client's deadline.
        """
        thread = LoopThread.shared()
        ahead = _Ahead(self, ranges)
        task = thread.submit(ahead.run(client_of(self.config), thread))
        try:
            for span in ranges:
                yield from _decoded(span, _blocks(thread, ahead))
        finally:
            task.cancel()


def _blocks(thread: LoopThread, ahead: "_Ahead") -> Iterator[StoredBlock]:
    while (item := thread.run(ahead.next())) is not None:
        if isinstance(item, Exception):
            raise item
        yield from item


def _decoded(span: ReadRange, blocks: Iterator[StoredBlock]) -> Iterator[Any]:
    name = ResourceName.parse(span.resource).topic
    try:
        for batch in decode_batches(name, span.partition, blocks, span.begin):
            yield rows_before(batch, span.end)
    except MessageFormatError as error:
        place = f"{name}[{span.partition}], offsets {span.begin} to {span.end}"
        raise MessageFormatError(f"{place}: a damaged block: {error}") from error


class _Ahead:
    """The fetches of one task, in order. Belongs to the loop."""

    def __init__(self, reader: RangeReader, ranges: Sequence[ReadRange]) -> None:
        self._skip_expired, self._drop_deleted = reader.skip_expired, reader.drop_deleted
        self._ranges = ranges
        self._queue: asyncio.Queue[_Item] = asyncio.Queue(FETCHES_AHEAD_MAX)

    async def next(self) -> _Item:
        """Blocks of the offset range, waiting for them."""
        return await self._queue.get()

    async def run(self, client: Client, thread: LoopThread) -> None:
        """Fetch all; an error is the last item."""
        try:
            for span in self._ranges:
                await self._fetch(client.on(thread), span)
                await self._queue.put(None)
        except Exception as error:
            await self._queue.put(error)

    async def _fetch(self, client: AsyncClient, span: ReadRange) -> None:
        name = ResourceName.parse(span.resource).topic
        ref = TopicRef(name, span.resource, span.partition + 1)
        offset = span.begin
        while offset < span.end:
            try:
                reply = await client.fetch(
                    ref,
                    span.partition,
                    offset,
                    messages_max=min(FETCH_MESSAGES, span.end - offset),
                    bytes_max=FETCH_BYTES,
                )
            except PositionExpired as error:
                offset = self._after_expired(span, offset, error)
                continue
            except TopicNotExist as error:
                if not self._drop_deleted:
                    raise deleted(name) from error
                lost = span.end - offset
                _LOG.warning("topic %s was deleted while it was read; lost=%d", name, lost)
                return
            _check(name, span, offset, reply.blocks)
            await self._queue.put(reply.blocks)
            offset = reply.blocks[-1].next_offset

    def _after_expired(self, span: ReadRange, offset: int, error: PositionExpired) -> int:
        """The next offset to read after expired ones. Raises: OffsetOutOfRange."""
        if error.retained is None:
            raise error
        first = retained_from(
            span.resource,
            span.partition,
            offset,
            error.retained,
            self._skip_expired,
        )
        return first if first > offset else span.end


def _check(name: str, span: ReadRange, offset: int, blocks: Sequence[StoredBlock]) -> None:
    """Raises: the blocks are not those that follow each other from ``offset`` on."""
    if not blocks:
        raise OffsetOutOfRange(
            f"{name}[{span.partition}] ends at {offset}, before {span.end}: the log was truncated"
        )
    if not blocks[0].base_offset <= offset < blocks[0].next_offset:
        raise CorruptLog(f"{name}[{span.partition}]: no block with offset {offset}")
    for former, block in itertools.pairwise(blocks):
        if block.base_offset != former.next_offset:
            raise CorruptLog(f"{name}[{span.partition}]: no block with offset {former.next_offset}")
