"""PlainMessageService: puts and reads of single messages, for callers without blocks.

REST and group members use it; it translates to blocks and calls MessageService.
"""

import asyncio
import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from opentalos.broker.context import BrokerContext
from opentalos.broker.messaging.append_future import waiter_of
from opentalos.broker.messaging.block_reader import BlockReader, Part, Reader
from opentalos.broker.messaging.keyed_puts import KeyedPuts, PutKey, Stored
from opentalos.broker.messaging.messages import (
    LATEST_OFFSET,
    START_OFFSET,
    GetQuery,
    MessageService,
    PutTarget,
)
from opentalos.broker.messaging.reading.peer_reads import RemoteMessages
from opentalos.broker.values import Topic
from opentalos.model.errors import BadRequest, ExcessivePending, NotOwner, TalosError
from opentalos.model.identity import Permission, Principal
from opentalos.model.message import (
    UNKNOWN_OFFSET,
    Compression,
    MessageBlock,
    StoredBlock,
)
from opentalos.wire.message import Message, encode_messages

WAIT_S_MAX = 30.0  # for messages that are not there yet
QUIET_S = 0.1  # between two reads, where the log itself does not wait
FOLLOWED_MAX = 5_000  # partitions, by all streams; each is polled twice a second
ROUNDS_KEPT = 10_000  # topics whose next partition is remembered


class SeveralPartitions(BadRequest):
    """Messages of one put whose partition keys belong to different partitions."""


class Spot(NamedTuple):
    """Where to read from: ``offset`` may be START_OFFSET or LATEST_OFFSET."""

    partition: int
    offset: int


class Bounds(NamedTuple):
    """How much to read: ``bytes_max`` of data, unless the first message is larger."""

    messages_max: int
    bytes_max: int


class PlainMessage(NamedTuple):
    """A stored message."""

    partition: int
    offset: int
    append_ms: int
    message: Message


class PlainMessages(NamedTuple):
    """Messages of one partition in order. ``next_offset``: where to continue; ``lag``:
    messages in the log from there on, None: a part of the log is damaged."""

    messages: Sequence[PlainMessage]
    next_offset: int
    lag: int | None


class PlainMessageService:
    """Translates between messages and blocks; MessageService authorises and limits."""

    def __init__(self, context: BrokerContext, messages: MessageService) -> None:
        self._context, self._messages = context, messages
        self._remote = RemoteMessages(context)
        self._keyed = KeyedPuts()
        self._followed: Counter[str] = Counter()  # partitions, by tenant
        self._rounds: dict[str, itertools.count[int]] = {}

    # --- put ------------------------------------------------------------------------------------

    async def put(
        self,
        caller: Principal,
        name: str,
        partition: int | None,
        messages: Sequence[Message],
        key: PutKey | None = None,
    ) -> Stored:
        """Store all messages in one partition, as one block; returns when they are durable.

        Without a partition, their partition keys choose it, else round robin. With ``key`` a
        repeat gets the first answer, and is stored once even after a restart or a failover.

        Raises: NotOwner; KeyReused; SeveralPartitions.
        """
        topic = self._context.find_topic(caller, Permission.PUT_MESSAGE, name)
        if partition is None:
            partition = self._choose(topic, messages, key)
        block = MessageBlock(
            encode_messages(messages),
            len(messages),
            Compression.NONE,
            min((message.create_ms for message in messages if message.create_ms), default=0),
            principal=caller.number,
        )
        if key is None:
            return await self._store(caller, topic, partition, block)
        self._context.ownership.check(topic.uuid, partition)  # its owner keeps the key
        stamped = block._replace(producer=key.stamp(caller, topic.resource))
        chosen = partition
        return await self._keyed.once(
            caller, topic.resource, key, lambda: self._store(caller, topic, chosen, stamped)
        )

    def _choose(self, topic: Topic, messages: Sequence[Message], key: PutKey | None) -> int:
        keys = {message.partition_key for message in messages if message.partition_key}
        place = topic.partitioning.partition_of
        chosen = {place(each, topic.partitions) for each in keys}
        if len(chosen) > 1:
            raise SeveralPartitions(
                "the partition keys belong to several partitions; send one request for each"
            )
        if chosen:
            return chosen.pop()
        if key is not None:
            return key.number() % topic.partitions
        if len(self._rounds) >= ROUNDS_KEPT:
            self._rounds.clear()
        turn = next(self._rounds.setdefault(topic.uuid, itertools.count()))
        owner = self._context.ownership.owner
        # A server that received a forwarded request must choose a partition of its own.
        own = [number for number in range(topic.partitions) if not owner(topic.uuid, number)]
        return own[turn % len(own)] if own else turn % topic.partitions

    async def _store(
        self, caller: Principal, topic: Topic, partition: int, block: MessageBlock
    ) -> Stored:
        durable: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        target = PutTarget(topic.resource, partition)
        self._messages.put(caller, target, [block], waiter_of(durable))
        base_offset = await durable
        known = None if base_offset == UNKNOWN_OFFSET else int(base_offset)
        return Stored(partition, known, block.messages)

    # --- read -----------------------------------------------------------------------------------

    async def get(
        self, caller: Principal, name: str, spot: Spot, bounds: Bounds, wait_s: float = 0.0
    ) -> PlainMessages:
        """Messages from an offset on; if there are none, the first that arrive within ``wait_s``.

        Raises: NotOwner: another server has the partition; OffsetOutOfRange, Unavailable.
        """
        topic = self._context.find_topic(caller, Permission.GET_MESSAGE, name)
        return await self._wait(caller, topic, spot, (bounds, wait_s), remote=False)

    async def get_anywhere(
        self, caller: Principal, resource: str, spot: Spot, bounds: Bounds, wait_s: float = 0.0
    ) -> PlainMessages:
        """Like ``get``, for a partition of any server."""
        topic = self._context.topic(caller, Permission.GET_MESSAGE, resource)
        return await self._wait(caller, topic, spot, (bounds, wait_s), remote=True)

    @contextmanager
    def following(self, tenant: str, partitions: int) -> Iterator[None]:
        """Count partitions of an endless read; a tenant has as many as stay free for others.

        Raises: ExcessivePending.
        """
        followed = self._followed
        mine, free = followed[tenant] + partitions, FOLLOWED_MAX - followed.total() - partitions
        if free < 0 or (mine > free and followed[tenant]):
            raise ExcessivePending(
                f"too many followed partitions: limit {FOLLOWED_MAX}, measured "
                f"{followed.total()}, of {tenant} {followed[tenant]}"
            )
        followed[tenant] += partitions
        try:
            yield
        finally:
            followed[tenant] -= partitions
            if not followed[tenant]:
                del followed[tenant]

    async def _wait(
        self,
        caller: Principal,
        topic: Topic,
        spot: Spot,
        how: tuple[Bounds, float],
        *,
        remote: bool,
    ) -> PlainMessages:
        loop = asyncio.get_running_loop()
        bounds, wait_s = how
        until_s = loop.time() + min(wait_s, WAIT_S_MAX)
        spot = await self._settled(caller, topic, spot)
        while True:
            started_s = loop.time()
            blocks, lag = await self._blocks(caller, topic, spot, bounds, remote=remote)
            now_s = loop.time()
            if blocks or now_s >= until_s:
                reader = self._messages.reader(caller, topic, spot.partition)
                found = await _plain(self._context.blocks, reader, blocks, (spot, bounds, lag))
                self._meter(topic, caller, found.messages)
                return found
            if now_s - started_s < QUIET_S:  # the log did not wait for new messages
                await asyncio.sleep(min(QUIET_S, until_s - now_s))

    def _meter(self, topic: Topic, caller: Principal, messages: Sequence[PlainMessage]) -> None:
        """Egress is what is returned: a page may be a small part of the block that was read."""
        if self._context.egress is not None:
            bytes_count = sum(len(each.message.data) for each in messages)
            self._context.egress.add(topic, caller, len(messages), bytes_count)

    async def _settled(self, caller: Principal, topic: Topic, spot: Spot) -> Spot:
        """The spot with a real offset, so that nothing is missed between two reads."""
        if spot.offset not in (START_OFFSET, LATEST_OFFSET):
            return spot
        (fact,) = await self._messages.facts_of(caller, topic.resource, [spot.partition])
        if isinstance(fact, TalosError):
            raise fact
        if spot.offset == START_OFFSET:
            return Spot(spot.partition, fact.offsets.start)
        if fact.damage is not None:
            raise fact.damage
        return Spot(spot.partition, fact.offsets.next)

    async def _blocks(
        self, caller: Principal, topic: Topic, spot: Spot, bounds: Bounds, *, remote: bool
    ) -> tuple[Sequence[StoredBlock], int | None]:
        """Blocks, and the messages that follow the last of them; None: not known."""
        query = GetQuery(topic.resource, *spot, *bounds)
        try:
            found = await self._messages.get(caller, query, whole=False)
        except NotOwner as error:
            if not remote or not error.address:
                raise
            return await self._remote.read(error.address, query)
        return found.blocks, found.unhandled


async def _plain(
    block_reader: BlockReader,
    reader: Reader,
    blocks: Sequence[StoredBlock],
    read: tuple[Spot, Bounds, int | None],
) -> PlainMessages:
    """Decode as much as is wanted; yields to other requests after each block."""
    spot, bounds, lag = read
    found: list[PlainMessage] = []
    offset, left_bytes = spot.offset, bounds.bytes_max
    for block in blocks:
        part = Part(offset, bounds.messages_max - len(found), max(1, left_bytes))
        messages = await block_reader.read(reader, block, part)
        for index, message in enumerate(messages, max(offset, block.base_offset)):
            left_bytes -= len(message.data)
            if found and left_bytes < 0:
                break
            append_ms = message.append_ms or block.append_ms
            found.append(PlainMessage(spot.partition, index, append_ms, message))
            offset = index + 1
        if offset < block.next_offset or len(found) >= bounds.messages_max:
            break
        await asyncio.sleep(0)
    if lag is not None and blocks:
        lag += blocks[-1].next_offset - offset
    return PlainMessages(found, offset, lag)
