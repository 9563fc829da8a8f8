"""The buffer of a producer: batches by partition, bounded in bytes, thread-safe; no I/O."""

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from opentalos.model.errors import RequestTooLarge, TalosError
from opentalos.sdk.core.producer.partitioner import Partitioner, RoundRobin, official_partition_of
from opentalos.sdk.core.producer.settings import Outcome, ProducerSettings, outcome_of
from opentalos.sdk.core.values import Message, MessageBlock
from opentalos.sdk.errors import BufferFull, ClientClosed

MESSAGE_BYTES: Final = 250  # memory of a message beside its data; measured
WATCH_BYTES: Final = 120  # memory of its callbacks
LINGER_S: Final = 0.005  # unless set: what a message may wait for others while puts are in flight
# Batches in flight below which a partition without any sends at once. Above it there are many
# messages, and larger batches cost client and server less.
QUICK_MAX: Final = 2

_log = logging.getLogger("opentalos.sdk.producer")


# Callbacks of messages or of rows: which of both a batch has is known where they are called.
WhenStored = Callable[[Any, int, int | None], object]
WhenFailed = Callable[[Any, TalosError, Outcome], object]
Watch = tuple[WhenStored | None, WhenFailed | None]


class Watcher(NamedTuple):
    """The callbacks of one message of a batch, or of all its rows."""

    place: int  # of the message in the batch
    on_success: WhenStored | None
    on_error: WhenFailed | None


class Batch:
    """A future block: messages, or already encoded rows of an Arrow table."""

    __slots__ = (
        "block",
        "born_s",
        "bytes_count",
        "keyed",
        "messages",
        "partition",
        "room",
        "rows",
        "sealed",
        "ticket",
        "watchers",
    )

    def __init__(self, partition: int, ticket: int, born_s: float, room: int) -> None:
        self.partition, self.ticket, self.born_s = partition, ticket, born_s
        self.messages: list[Message] = []
        self.block: MessageBlock | None = None  # encoded for the first attempt
        self.rows: Sequence[int] = ()
        self.keyed = False  # rows whose keys chose the partition
        self.bytes_count = 0  # counted for the buffer
        self.room = room  # bytes of data it still accepts
        self.sealed = False  # accepts no more messages
        self.watchers: list[Watcher] = []

    @property
    def count(self) -> int:
        """Its messages or rows."""
        return len(self.rows) if self.rows else len(self.messages)

    @property
    def unwatched(self) -> int:
        """Those whose failure no ``on_error`` would report."""
        watched = sum(1 for watcher in self.watchers if watcher.on_error is not None)
        return self.count - (self.count if self.rows and watched else watched)

    def call_back(self, base_offset: int | None, error: TalosError | None) -> None:
        """Run the callbacks. An error in a callback is logged and does not stop the others."""
        failures = 0
        for place, on_success, on_error in self.watchers:
            sent = self.rows or self.messages[place]
            try:
                if error is not None:
                    if on_error is not None:
                        on_error(sent, error, outcome_of(error))
                elif on_success is not None:
                    offset = None if base_offset is None else base_offset + place
                    on_success(sent, self.partition, offset)
            except Exception:
                failures += 1
                if failures == 1:
                    _log.exception("producer callback failed")
        if failures > 1:
            _log.error("producer callbacks failed: count=%d", failures)


class _Queue:
    """The batches of one partition, oldest first; the last may still be open."""

    __slots__ = ("batches", "busy")

    def __init__(self) -> None:
        self.batches: deque[Batch] = deque()
        self.busy = False  # one of them is in flight


class Accumulator:
    """Takes messages from any thread, and gives batches to the one sender.

    A batch is open, then sealed: when it is full, has lingered, or is flushed; unless ``linger_s``
    is set, also as soon as its partition has no batch in flight and the producer few. The
    sender takes it (``take``), at most one per partition is in flight, and ends that with
    ``release``, or with ``move`` if its partition is gone. ``finish`` frees its bytes once its
    callbacks have returned, so the limit covers batches in flight and pending callbacks. One lock
    guards all state.

    Args: now_s: a monotonic clock; random: chooses the first partition of messages without key.
    """

    def __init__(
        self, settings: ProducerSettings, now_s: Callable[[], float], random: Callable[[], float]
    ) -> None:
        self.settings = settings
        self._bytes_max = settings.waiting_bytes_max
        self.partitions = 1  # of the topic; set before the first message
        # Of keys: the user's own, or the topic's, which is set with the number of partitions.
        self.partitioner: Partitioner = settings.partitioner or official_partition_of
        self.on_progress: Callable[[], None] = _nothing  # called after each ``finish``
        self._now_s = now_s
        self._changed = threading.Condition(threading.Lock())
        self._round_robin = RoundRobin(random)
        self._queues: dict[int, _Queue] = {}  # partitions with waiting or sent batches
        self._keyless: Batch | None = None  # the open batch for messages without a key
        self._unfinished: dict[Batch, None] = {}
        self._tickets = 0
        self._flushed = 0  # batches up to this ticket are due
        self._sent = 0  # batches in flight
        self._linger_s = LINGER_S if settings.linger_s is None else settings.linger_s
        self.bytes_count = 0  # counted for the buffer now
        self._closed = False

    # --- the putting side -----------------------------------------------------------------------

    def add(self, message: Message, watch: Watch | None = None) -> bool:
        """Add one message. Returns: whether to wake the sender.

        Raises: BufferFull, RequestTooLarge, ClientClosed.
        """
        size = size_of(message, watch)
        with self._changed:
            if self.bytes_count + size > self._bytes_max or self._closed:
                self._refuse(size)
            return self._add(message, size, watch)

    def add_all(self, messages: Sequence[Message], watch: Watch | None = None) -> bool:
        """Add all messages or none, in order; otherwise like ``add``."""
        sizes = [size_of(message, watch) for message in messages]
        total = sum(sizes)
        alike = watch is None and not [message for message in messages if message[1] is not None]
        with self._changed:
            if self.bytes_count + total > self._bytes_max or self._closed:
                self._refuse(total)
            if alike:
                self._add_run(messages, sizes)
            else:
                for message, size in zip(messages, sizes, strict=True):
                    self._add(message, size, watch)
        return True

    def add_block(
        self, block: MessageBlock, rows: Sequence[int], partition: int | None, watch: Watch | None
    ) -> bool:
        """Add an encoded block of rows; otherwise like ``add``.

        Args: partition: chosen by their keys; None: round-robin.
        """
        size = len(block.payload) + MESSAGE_BYTES
        with self._changed:
            if self.bytes_count + size > self._bytes_max or self._closed:
                self._refuse(size)
            chosen = self._round_robin.next(self.partitions) if partition is None else partition
            batch = self._new(chosen)
            batch.block, batch.rows, batch.keyed = block, rows, partition is not None
            batch.bytes_count = size
            self.bytes_count += size
            if watch is not None:
                batch.watchers.append(Watcher(0, *watch))
            batch.sealed = True
        return True

    def _refuse(self, size: int) -> None:
        limit = self._bytes_max
        if self._closed:
            raise ClientClosed("put failed: the producer is closed")
        if size > limit:
            raise RequestTooLarge(
                f"put of {size} bytes exceeds the producer buffer of {limit} bytes; "
                "raise buffer_bytes_max"
            )
        raise BufferFull(
            f"producer buffer full: {self.bytes_count} of {limit} bytes are waiting; put later"
        )

    def _add(self, message: Message, size: int, watch: Watch | None) -> bool:
        made = self._tickets
        key, data_bytes = message[1], size - MESSAGE_BYTES
        if watch is not None:
            data_bytes -= WATCH_BYTES
        if key is not None:
            batch = self._open_batch(self._place(key), data_bytes)
        else:
            batch = self._keyless_batch(data_bytes)
        messages = batch.messages
        if watch is not None:
            batch.watchers.append(Watcher(len(messages), *watch))
        messages.append(message)
        batch.bytes_count += size
        batch.room -= data_bytes
        self.bytes_count += size
        if len(messages) >= self.settings.batch_messages_max or batch.room <= 0:
            batch.sealed = True
            return True
        return self._tickets != made  # a new batch: the previous one may be full, this one lingers

    def _add_run(self, messages: Sequence[Message], sizes: list[int]) -> None:
        """The same for messages without keys and callbacks, as many at once as fit."""
        at, total = 0, len(messages)
        while at < total:
            batch = self._keyless_batch(sizes[at] - MESSAGE_BYTES)
            room, counted = batch.room, 0
            end, last = at, min(total, at + self.settings.batch_messages_max - len(batch.messages))
            while end < last and (end == at or sizes[end] - MESSAGE_BYTES <= room):
                room -= sizes[end] - MESSAGE_BYTES
                counted += sizes[end]
                end += 1
            batch.messages += messages[at:end]
            batch.room = room
            batch.bytes_count += counted
            self.bytes_count += counted
            if len(batch.messages) >= self.settings.batch_messages_max or room <= 0:
                batch.sealed = True
            at = end

    def _keyless_batch(self, data_bytes: int) -> Batch:
        """The batch for messages without a key: the same until it is full."""
        turn = self._keyless
        if turn is not None and not turn.sealed:
            if data_bytes <= turn.room:
                return turn
            turn.sealed = True
        self._keyless = self._open_batch(self._round_robin.next(self.partitions), data_bytes)
        return self._keyless

    def _place(self, key: str) -> int:
        """The partition of a key. A custom partitioner may return any number."""
        return self.partitioner(key, self.partitions) % self.partitions

    def _open_batch(self, partition: int, data_bytes: int) -> Batch:
        """The open batch of the partition, if the message fits; else a new batch."""
        queue = self._queues.get(partition)
        if queue is not None and queue.batches:
            last = queue.batches[-1]
            if not last.sealed and data_bytes <= last.room:
                return last
        return self._new(partition)

    def _new(self, partition: int, ticket: int | None = None, born_s: float | None = None) -> Batch:
        if ticket is None:
            self._tickets += 1
        batch = Batch(
            partition,
            self._tickets if ticket is None else ticket,
            self._now_s() if born_s is None else born_s,
            self.settings.batch_bytes_max,
        )
        queue = self._queues.get(partition)
        if queue is None:
            queue = self._queues[partition] = _Queue()
        elif queue.batches and not queue.batches[-1].sealed:
            queue.batches[-1].sealed = True  # order is kept: only the last one is open
        queue.batches.append(batch)
        self._unfinished[batch] = None
        return batch

    def wait_for_room(self, size: int, timeout_s: float) -> bool:
        """Block this thread until there is space, or it is closed; False: timed out."""
        limit = self._bytes_max

        def usable() -> bool:
            return self._closed or self.bytes_count + size <= limit

        with self._changed:
            return self._changed.wait_for(usable, timeout_s)

    # --- flush and close ------------------------------------------------------------------------

    def flush(self) -> int:
        """Make all batches due. Returns: the ticket for ``wait_until_done``."""
        with self._changed:
            self._flushed = self._tickets
            return self._flushed

    def _pending(self, ticket: int) -> bool:
        return any(batch.ticket <= ticket for batch in self._unfinished)

    @property
    def unfinished(self) -> int:
        """Messages and rows without an outcome, or whose callbacks have not returned."""
        with self._changed:
            return sum(batch.count for batch in self._unfinished)

    def wait_until_done(self, ticket: int, timeout_s: float | None) -> bool:
        """Block this thread until all batches up to the ticket are finished; False: timed out."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._pending(ticket), timeout_s)

    def close(self) -> None:
        """Accept nothing more; waiting puts raise ClientClosed."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    # --- the sending side -----------------------------------------------------------------------

    def due(self) -> tuple[list[int], float | None]:
        """Partitions with due batches, and when to check again; None: when woken."""
        now_s, linger_s = self._now_s(), self._linger_s
        ready: list[int] = []
        next_s: float | None = None
        with self._changed:
            quick = self._quick()
            for partition, queue in self._queues.items():
                if queue.busy or not queue.batches:
                    continue
                first = queue.batches[0]
                at_s = first.born_s + linger_s
                if first.sealed or first.ticket <= self._flushed or at_s <= now_s:
                    ready.append(partition)
                elif quick > 0:
                    quick -= 1
                    ready.append(partition)
                elif next_s is None or at_s < next_s:
                    next_s = at_s
        return ready, next_s

    def take(self, partition: int) -> Batch | None:
        """Take the next due batch of a partition; no other one is taken until ``release`` or
        ``move``."""
        now_s = self._now_s()
        with self._changed:
            queue = self._queues.get(partition)
            if queue is None or queue.busy or not queue.batches:
                return None
            batch = queue.batches[0]
            if not batch.sealed:
                waits = now_s < batch.born_s + self._linger_s and self._quick() <= 0
                if waits and batch.ticket > self._flushed:
                    return None
                batch.sealed = True
            queue.batches.popleft()
            queue.busy = True
            self._sent += 1
            return batch

    def _quick(self) -> int:
        """How many batches may be sent without lingering."""
        return QUICK_MAX - self._sent if self.settings.linger_s is None else 0

    def release(self, batch: Batch) -> None:
        """The batch has its outcome; its callbacks may still be pending."""
        with self._changed:
            self._idle(batch.partition)

    def finish(self, batch: Batch) -> None:
        """Free the bytes of a batch after its callbacks have returned."""
        with self._changed:
            self.bytes_count -= batch.bytes_count
            del self._unfinished[batch]
            self._changed.notify_all()
        self.on_progress()

    def _idle(self, partition: int) -> None:
        queue = self._queues[partition]
        queue.busy = False
        self._sent -= 1
        if not queue.batches:
            del self._queues[partition]

    def move(self, batch: Batch) -> None:
        """The partition of the batch is gone: distribute its messages over the remaining ones, by
        key as before, and those of all waiting batches of removed partitions."""
        with self._changed:
            spread = [(batch, self._places(batch))]
            for queue in self._gone(first=batch.partition):
                spread += [(moved, self._places(moved)) for moved in queue]
            # Nothing raises from here on; a custom partitioner may raise above.
            self._idle(batch.partition)
            for moved, places in spread:
                if moved is not batch:
                    self._queues[moved.partition].batches.remove(moved)
                    if not self._queues[moved.partition].batches:
                        del self._queues[moved.partition]
                moved.sealed = True
                del self._unfinished[moved]
                self._spread(moved, places)

    def _gone(self, first: int) -> list[list[Batch]]:
        """Waiting batches of removed partitions, those of partition ``first`` first."""
        found = []
        for partition, queue in sorted(self._queues.items(), key=lambda item: item[0] != first):
            gone = partition >= self.partitions and (partition == first or not queue.busy)
            if gone and not any(batch.keyed for batch in queue.batches):
                found.append(list(queue.batches))
        return found

    def _places(self, batch: Batch) -> list[int]:
        """The partitions of the messages of a batch, or of all its rows."""
        turn = self._round_robin.next(self.partitions)
        if batch.rows:
            return [turn]
        keys = [message.partition_key for message in batch.messages]
        return [turn if key is None else self._place(key) for key in keys]

    def _spread(self, batch: Batch, places: list[int]) -> None:
        if batch.rows:
            again = self._new(places[0], batch.ticket, batch.born_s)
            again.block, again.rows, again.watchers = batch.block, batch.rows, batch.watchers
            again.bytes_count = batch.bytes_count
            again.sealed = True
            return
        watched = {watcher.place: watcher for watcher in batch.watchers}
        made: dict[int, Batch] = {}
        for index, (message, place) in enumerate(zip(batch.messages, places, strict=True)):
            again = made.get(place) or self._new(place, batch.ticket, batch.born_s)
            made[place] = again
            watcher = watched.get(index)
            if watcher is not None:
                again.watchers.append(watcher._replace(place=len(again.messages)))
            again.messages.append(message)
            again.bytes_count += size_of(message, watcher)
        for again in made.values():
            again.sealed = True


def size_of(message: Message, watch: object = None) -> int:
    """Bytes that a message, with its callbacks, counts for the buffer."""
    size = len(message[0]) + MESSAGE_BYTES
    if message[1] is not None:
        size += len(message[1])
    return size if watch is None else size + WATCH_BYTES


def _nothing() -> None:
    """No one waits for progress."""
