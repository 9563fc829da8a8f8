"""PublishLane: puts the entries for one partition of one stream, a block at a time.

One block is on its way; what arrives meanwhile, or soon after it began, is the next block. So a
row's changes are stored in order (``publisher.py`` keeps a row in one lane), and load makes blocks
larger rather than more. A block is stamped by an idempotent producer: an unknown one is sent again
with the same stamp and stored once, and the log rejects the blocks of an older epoch (I2).
"""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from opentalos.broker.context import BrokerContext
from opentalos.broker.messaging.keyed_puts import digest_of
from opentalos.broker.tables.shard.counts import ShardCounts
from opentalos.broker.tables.stream.outbox import Entry
from opentalos.broker.tables.stream.stream_puts import StreamPuts, stamped_block
from opentalos.catalog.access.authorize import permissions_of, topic_not_exist
from opentalos.catalog.tables.table import StreamState
from opentalos.catalog.topics.topic import Topic
from opentalos.model.errors import (
    OutcomeUnknown,
    PermissionDenied,
    ProducerFenced,
    SequenceGap,
    TalosError,
)
from opentalos.model.identity import Permission, Principal
from opentalos.model.message import PRODUCER_ID_MAX, Compression, MessageBlock, ProducerStamp
from opentalos.model.names import ResourceName
from opentalos.model.table import TableSchema
from opentalos.wire.message import Message, encode_block

BLOCK_ENTRIES_MAX = 2_000  # of one block
BLOCK_BYTES_MAX = 1 << 20  # of one block, unless its first entry is larger
COMPRESSED_BYTES_MIN = 4 << 10  # compressing a smaller block costs more than it saves
KEY_BYTES_SHOWN = 128  # of a row's key in the partition key of its messages
PACE_S = 0.02  # between blocks of a lane: fewer and larger ones under load
RETRY_S = 0.02  # before the first retry; doubles, with jitter
RETRY_MAX_S = 1.0
THRIFT_MESSAGE = 3  # source: message.thrift MessageType
_ID_MARK = PRODUCER_ID_MAX + 1  # ids of shards never equal ids that producers choose
UNPLACED = -1  # partition of entries whose topic this server does not know yet
_JITTER_BYTES = 2


def producer_id(table_uuid: str, number: int, stream: int) -> int:
    """Id of a shard as the idempotent producer of one stream."""
    parts = (table_uuid.encode(), str(number).encode(), str(stream).encode())
    return _ID_MARK | digest_of(parts) & PRODUCER_ID_MAX


class Listener(Protocol):
    """What lanes report to their shard, without waiting.

    ``published``: the topic has these entries. ``fenced``: another server has opened the shard.
    ``renew``: a lane needs a larger epoch and waits for ``PublishLane.renewed``.
    """

    def published(self, entries: list[Entry]) -> None: ...
    def fenced(self, error: TalosError) -> None: ...
    def renew(self, lane: "PublishLane") -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Publishing:
    """What the lanes of a publisher share."""

    context: BrokerContext
    puts: StreamPuts
    listener: Listener
    counts: ShardCounts
    owner: Callable[[], Principal]  # of the table: it must have the right to put
    table_uuid: str
    number: int
    schema: TableSchema  # of the table; only its keys are used, which never change


class PublishLane:
    """One partition of one stream.

    At most one thing is awaited at a time (``_busy``): the answer to a put, a pause, or a larger
    epoch. The first put of an epoch is an announcement, a block without messages: from then on the
    log rejects former owners. ``moved`` takes the entries when they belong to another partition.

    | Answer to a put | The lane |
    | --- | --- |
    | stored | reports its entries and sends the next block |
    | outcome unknown | sends the same block again, marked as repeated |
    | rejected | retries with exponential backoff; ``refused_since_s`` says since when |
    | the producer is unknown to the log (SequenceGap) | asks for a larger epoch |
    | an older epoch (ProducerFenced) | reports it; the shard ends |
    """

    def __init__(
        self,
        publishing: Publishing,
        stream: StreamState,
        partition: int,
        epoch: int,
        moved: "Callable[[PublishLane], None]",
    ) -> None:
        self._with, self.stream, self.partition = publishing, stream, partition
        self._moved = moved
        self._producer = producer_id(publishing.table_uuid, publishing.number, stream.id)
        self._epoch, self._sequence = epoch, 0
        self._announced = False
        self._queue: deque[Entry] = deque()
        self._entries: list[Entry] = []  # of the block on its way
        self._block: MessageBlock | None = None
        self._busy = False  # a put, a pause or a larger epoch is awaited
        self._timer: asyncio.TimerHandle | None = None
        self._attempts = 0
        self._next_s = 0.0  # on the loop's clock: a new block begins then at the earliest
        self._closed = False
        self.refused_since_s: float | None = None  # on the loop's clock
        self.refusal: TalosError | None = None

    def add(self, entry: Entry) -> None:
        """Queue an entry, to be sent by ``kick``."""
        self._queue.append(entry)

    def kick(self) -> None:
        """Send what is queued, unless the lane waits for something or has just sent a block."""
        if self._busy or self._closed or not (self._block or self._queue):
            return
        loop = asyncio.get_running_loop()
        if loop.time() < self._next_s:
            self._busy = True
            self._timer = loop.call_at(self._next_s, self._again)
            return
        try:
            topic = topic_of(self._with.context, self._with.owner(), self.stream)
        except TalosError as error:
            self._refused(error)
            return
        if not 0 <= self.partition < topic.consumer_partitions:
            self._moved(self)
            return
        self._busy = True
        self._with.puts.put(topic, self.partition, self._next_block(), self._answered)

    def close(self) -> list[Entry]:
        """Send nothing more; return the entries that are not known to be published."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        left = [*self._entries, *self._queue]
        self._queue.clear()
        self._entries = []
        return left

    def renewed(self, epoch: int) -> None:
        """Continue with a larger epoch: announce it and send the block again."""
        self._epoch, self._sequence, self._announced = epoch, 0, False
        self._queue.extendleft(reversed(self._entries))
        self._entries, self._block, self._busy = [], None, False
        self.kick()

    @property
    def idle(self) -> bool:
        """Nothing is queued and nothing is on its way."""
        return not self._queue and not self._entries

    def _next_block(self) -> MessageBlock:
        if not self._announced:
            return stamped_block(b"", 0, ProducerStamp(self._producer, self._epoch, 0))
        if self._block is None:
            self._next_s = asyncio.get_running_loop().time() + PACE_S
            self._block = self._take()
        return self._block

    def _take(self) -> MessageBlock:
        entries, queue, size = self._entries, self._queue, 0
        while queue and len(entries) < BLOCK_ENTRIES_MAX:
            size += queue[0].bytes
            if entries and size > BLOCK_BYTES_MAX:
                break
            entries.append(queue.popleft())
        messages = [
            Message(
                entry.message,
                partition_key=entry.key[:KEY_BYTES_SHOWN].hex(),
                sequence_number=str(entry.sequence),
                create_ms=entry.timestamp_ms,
                message_type=THRIFT_MESSAGE,
            )
            for entry in entries
        ]
        small = size < COMPRESSED_BYTES_MIN
        compression = Compression.NONE if small else Compression.SNAPPY
        return stamped_block(
            encode_block(messages, compression),
            len(messages),
            ProducerStamp(self._producer, self._epoch, self._sequence),
            compression=compression,
            create_ms=entries[-1].timestamp_ms,
        )

    def _answered(self, _: int, error: TalosError | None) -> None:
        if self._closed:
            return
        if error is None:
            self._done()
        elif isinstance(error, ProducerFenced):
            self._with.counts.fenced += 1
            self._with.listener.fenced(error)
        elif isinstance(error, SequenceGap):
            self._with.counts.resent += len(self._entries)
            self._with.listener.renew(self)  # busy until then
        else:
            block = self._block
            unknown = isinstance(error, OutcomeUnknown)
            if block is not None and block.producer is not None and unknown:
                self._with.counts.resent += len(self._entries)
                self._block = block._replace(producer=block.producer._replace(repeated=True))
            self._refused(error)

    def _done(self) -> None:
        self._busy, self._attempts = False, 0
        self.refused_since_s = self.refusal = None
        if not self._announced:
            self._announced = True
        else:
            entries, self._entries, self._block = self._entries, [], None
            self._sequence += len(entries)
            self._with.counts.published += len(entries)
            self._with.counts.blocks += 1
            self._with.listener.published(entries)
        self.kick()

    def _refused(self, error: TalosError) -> None:
        """Try again after a pause."""
        loop = asyncio.get_running_loop()
        if self.refused_since_s is None:
            self.refused_since_s = loop.time()
        self.refusal = error
        self._busy = True
        pause_s = min(RETRY_S * 2 ** min(self._attempts, 10), RETRY_MAX_S)
        self._attempts += 1
        jitter = int.from_bytes(self._with.context.clock.token(_JITTER_BYTES)) / (1 << 16)
        self._timer = loop.call_later(pause_s * (0.5 + jitter), self._again)

    def _again(self) -> None:
        self._busy, self._timer = False, None
        self.kick()


def resource_of(stream: StreamState) -> str:
    """The resource name of a stream's topic."""
    return str(ResourceName(stream.topic_owner, stream.topic_name, stream.topic_uuid))


def topic_of(context: BrokerContext, owner: Principal, stream: StreamState) -> Topic:
    """The topic of a stream, if the table's owner may put into it.

    Raises: TopicNotExist: it was deleted. PermissionDenied: the right was revoked.
    """
    topic = context.topics.by_resource(resource_of(stream))
    if topic is None:
        raise topic_not_exist(f"{stream.topic_owner}/{stream.topic_name}")
    if not permissions_of(owner, topic) & int(Permission.PUT_MESSAGE):
        raise PermissionDenied(f"{owner.id} may no longer put into topic {stream.topic_name}")
    return topic
