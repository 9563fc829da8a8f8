"""FetchService: reads several partitions in one call, and waits for messages at all of them.

It returns blocks of Kafka's producers as they are stored and messages of other blocks decoded, each
partition's contiguous and from the block on that contains the asked offset. One future waits at all
logs, and what a wake-up adds is read from where the last read ended, so nothing is read twice.
"""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from opentalos.broker.cluster.ownership import NO_EPOCH
from opentalos.broker.context import BrokerContext
from opentalos.broker.messaging.block_reader import MessageUnreadable, Part
from opentalos.broker.messaging.messages import MessageService
from opentalos.broker.messaging.reading.stored_batches import StoredBatches
from opentalos.catalog.quota.throttle import ThrottleHandle
from opentalos.catalog.topics.topic import Topic
from opentalos.log.partition.partition_log import PartitionLog
from opentalos.log.scheduling.read_waiters import Arrivals
from opentalos.model.errors import (
    DAMAGE,
    NotOwner,
    OffsetOutOfRange,
    PartitionNotExist,
    PartitionNotServing,
    TalosError,
    ThrottleRejected,
)
from opentalos.model.identity import Permission, Principal
from opentalos.model.message import OffsetRange, PartitionKey, PayloadFormat, StoredBlock
from opentalos.wire.message.message import Message

FETCH_BYTES_MAX = 32 << 20  # of one call, unless its first block is larger
# A partition that has just arrived here has no messages for so long, instead of an error: clients
# pause for much longer after one than it takes to open.
OPENING_MAX_S = 1.0
OPENING_LOOK_S = 0.02  # between two attempts
OPENING_COUNT_MAX = 10_000
PLACES_AT_ONCE = 64  # that are looked at without a pause; about a millisecond
RUN_MESSAGES_MAX = 500  # decoded and given back as one; about a millisecond


class FetchPlace(NamedTuple):
    """Where to read from, and how much of it. ``epoch``: in which this server should lead."""

    topic: Topic
    partition: int
    offset: int
    bytes_max: int
    epoch: int = NO_EPOCH


class FetchBounds(NamedTuple):
    """``bytes_min`` are waited for, at most ``wait_s``."""

    bytes_min: int
    bytes_max: int
    wait_s: float


class MessageRun(NamedTuple):
    """Decoded messages of one block, without gaps."""

    base_offset: int
    block: StoredBlock
    messages: Sequence[Message]


class FetchedPlace:
    """What was read at one place, or why nothing could be."""

    __slots__ = (
        "bytes", "damage", "error", "full", "handle", "log", "messages", "offset", "offsets",
        "opening", "parts", "place",
    )  # fmt: skip

    def __init__(self, place: FetchPlace) -> None:
        self.place, self.offset = place, place.offset
        self.parts: list[StoredBlock | MessageRun] = []
        self.bytes = self.messages = 0
        self.offsets = OffsetRange(-1, -1)  # retained; -1: not known
        self.damage: TalosError | None = None  # why nobody knows what follows these offsets
        self.error: TalosError | None = None
        self.opening = False  # this server serves it, but not at this moment
        self.full = False  # nothing more is read
        self.log: PartitionLog | None = None
        self.handle: ThrottleHandle | None = None


class FetchResult(NamedTuple):
    """By place. ``hold_s``: the caller is over its rate, and should ask again only then."""

    places: Sequence[FetchedPlace]
    hold_s: float


class FetchService:
    """Reads for clients that follow many partitions; authorizes each of them in each call."""

    def __init__(self, context: BrokerContext, messages: MessageService) -> None:
        self._context, self._messages = context, messages
        self._batches = StoredBatches(context.work)
        self.waiting = 0  # calls that wait for messages
        self._opening_s: dict[PartitionKey, float] = {}  # since when they could not be read

    async def fetch(
        self, caller: Principal, places: Sequence[FetchPlace], bounds: FetchBounds
    ) -> FetchResult:
        """Messages of the places in their order, at least one block if there is any message."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + bounds.wait_s
        found = await self._open(caller, places)
        bytes_max = max(1, min(bounds.bytes_max, FETCH_BYTES_MAX))
        while True:
            total = sum(each.bytes for each in found)
            for number, each in enumerate(found, 1):
                if each.error is None and not each.full and total < bytes_max:
                    before = each.bytes
                    await self._read(caller, each, total, bytes_max)
                    total += each.bytes - before
                if number % PLACES_AT_ONCE == 0:
                    await self._context.work.pause()
            enough = total >= min(bounds.bytes_min, bytes_max)
            if enough or loop.time() >= deadline_s or any(map(_fails_now, found)):
                return FetchResult(found, self._charge(caller, found))
            if any(each.opening for each in found):
                await asyncio.sleep(min(OPENING_LOOK_S, deadline_s - loop.time()))
            elif not await self._arrival(found, deadline_s):
                deadline_s = 0.0  # one more round: retained offsets may have changed

    async def _open(
        self, caller: Principal, places: Sequence[FetchPlace]
    ) -> Sequence[FetchedPlace]:
        epochs, found = self._context.epochs, list[FetchedPlace]()
        for start in range(0, len(places), PLACES_AT_ONCE):
            if start:
                await self._context.work.pause()
            some = places[start : start + PLACES_AT_ONCE]
            for uuid, epoch in {(place.topic.uuid, place.epoch) for place in some}:
                if epoch > epochs.of(uuid):
                    await epochs.confirm(uuid, epoch)
            found += [self._opened(caller, place) for place in some]
        return found

    def _opened(self, caller: Principal, place: FetchPlace) -> FetchedPlace:
        found, context = FetchedPlace(place), self._context
        try:
            topic = context.topic(caller, Permission.GET_MESSAGE, place.topic.resource)
            if not 0 <= place.partition < topic.consumer_partitions:
                raise PartitionNotExist(f"topic {topic.name} has no partition {place.partition}")
            if place.offset < 0:
                raise OffsetOutOfRange(f"offset {place.offset}")
            found.log = context.partition_log(topic, place.partition)
            context.epochs.check(found.log.key, place.epoch)
            found.handle = context.throttle.handle(caller, topic, place.partition)
        except TalosError as error:
            found.error, found.full = error, True
        return found

    async def _read(self, caller: Principal, found: FetchedPlace, total: int, most: int) -> None:
        """Read on at a place, from memory where that is possible."""
        log, place = found.log, found.place
        assert log is not None
        found.opening = False
        known = found.offsets.next == found.offset == log.high_watermark
        if known and log.served and log.damage is None:
            return  # looked at before, and nothing has arrived
        bytes_max = min(place.bytes_max - found.bytes, most - total)
        if bytes_max <= 0 and total:
            found.full = True
            return
        limits = self._context.config.message
        many, few = limits.get_messages_max, max(1, min(bytes_max, limits.get_bytes_max))
        try:
            read = log.read_cached(found.offset, messages_max=many, bytes_max=few)
            if read is None or not read.blocks:
                read = await log.read(found.offset, messages_max=many, bytes_max=few)
            found.offsets, found.damage = read.range, read.damage
            if self._opening_s:
                self._opening_s.pop(log.key, None)
            await self._take(caller, found, read.blocks, (total, bytes_max))
        except TalosError as error:
            if log.served and self._may_open(error, log.key):
                found.opening = True
                return
            found.full = True
            if not found.parts:
                found.error = error

    def _may_open(self, error: TalosError, key: PartitionKey) -> bool:
        """Whether it may be over in a moment; another owner is none of that."""
        if not isinstance(error, PartitionNotServing) or isinstance(error, NotOwner):
            return False
        if len(self._opening_s) >= OPENING_COUNT_MAX:
            self._opening_s.clear()
        now_s = asyncio.get_running_loop().time()
        if now_s - self._opening_s.setdefault(key, now_s) < OPENING_MAX_S:
            return True
        del self._opening_s[key]
        return False

    async def _take(
        self,
        caller: Principal,
        found: FetchedPlace,
        blocks: Sequence[StoredBlock],
        room: tuple[int, int],
    ) -> None:
        """Add blocks while there is room; the first of a call is added whatever its size."""
        total, left = room
        for block in blocks:
            batch = block.format == PayloadFormat.KAFKA
            if not batch and self._batches.may_be(block):
                topic, partition = found.place.topic, found.place.partition
                reader = self._messages.reader(caller, topic, partition)
                batch = await self._batches.holds(reader, block)
            if batch:
                size = len(block.payload)
                if size > left and (total or found.bytes):
                    found.full = True
                    return
                found.parts.append(block)
                found.messages += block.messages
                found.bytes += size
                found.offset = block.next_offset
                left -= size
            else:
                left = await self._decode(caller, found, block, left)
            if left <= 0:
                found.full = True
                return

    async def _decode(
        self, caller: Principal, found: FetchedPlace, block: StoredBlock, left: int
    ) -> int:
        """Add messages of a block in runs; returns the room that is left."""
        topic, partition = found.place.topic, found.place.partition
        reader = self._messages.reader(caller, topic, partition)
        while found.offset < block.next_offset and (left > 0 or not found.parts):
            part = Part(found.offset, RUN_MESSAGES_MAX, max(1, left))
            messages = await self._context.blocks.read(reader, block, part)
            if not messages:
                raise MessageUnreadable(f"offset {found.offset} is in no message of its block")
            size = sum(len(message.data) for message in messages)
            first = max(found.offset, block.base_offset)
            found.parts.append(MessageRun(first, block, messages))
            found.messages += len(messages)
            found.bytes += size
            found.offset = first + len(messages)
            left -= size
            await asyncio.sleep(0)  # much shorter than a piece of long work
        return left

    async def _arrival(self, found: Sequence[FetchedPlace], deadline_s: float) -> bool:
        """Wait until there is something at one of the places; False: the deadline came first."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        joined: list[Arrivals] = []
        self.waiting += 1
        try:
            for number, each in enumerate(found, 1):
                if each.full or each.log is None:
                    continue
                # It may have come, or the log may have left, while others were read.
                if each.offsets.next != each.log.high_watermark or not each.log.served:
                    return True
                each.log.arrivals.join(future)
                joined.append(each.log.arrivals)
                if number % PLACES_AT_ONCE == 0:
                    await self._context.work.pause()
            async with asyncio.timeout_at(deadline_s):
                await future
        except TimeoutError:
            if joined:
                await joined[0].late()
            return False
        finally:
            self.waiting -= 1
            for arrivals in joined:
                arrivals.leave(future)
        return True

    def _charge(self, caller: Principal, found: Sequence[FetchedPlace]) -> float:
        """Count and charge what is returned; seconds by which the caller is over its rate.

        Places of a caller that is over it by more than the quota allows are returned empty.
        """
        context, now_s, hold_s = self._context, asyncio.get_running_loop().time(), 0.0
        counters = self._messages.counters
        for each in found:
            if not each.parts or each.handle is None:
                continue
            try:
                hold_s = max(hold_s, each.handle.admit_get(now_s))
            except ThrottleRejected:
                counters.gets_throttled += 1
                hold_s = context.config.quota.throttle_max_s
                each.parts, each.messages, each.bytes = [], 0, 0
                continue
            topic, partition = each.place.topic, each.place.partition
            traffic = context.log.traffic_of(topic.uuid, partition)
            counters.gets += 1
            counters.get_messages += each.messages
            counters.get_bytes += each.bytes
            traffic.gets += 1
            traffic.messages_out += each.messages
            traffic.bytes_out += each.bytes
            each.handle.charge_get(now_s, each.bytes)
            if context.egress is not None:
                context.egress.add(topic, caller, each.messages, each.bytes)
        return hold_s


def _fails_now(found: FetchedPlace) -> bool:
    """Whether the client should hear of an error at once. Damage stays: clients repeat without a
    pause, so the answer waits for messages of other places as if this one had none."""
    return found.error is not None and not isinstance(found.error, DAMAGE)
