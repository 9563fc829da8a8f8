"""Messages that wait to be sent, by partition: bounded in bytes, safe for threads, without I/O."""

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from opentalos.model.errors import RequestTooLarge, TalosError
from opentalos.sdk.core.producer.partitioner import RoundRobin
from opentalos.sdk.core.producer.settings import OnError, OnSuccess, ProducerSettings, outcome_of
from opentalos.sdk.core.values import Message, MessageBlock
from opentalos.sdk.errors import BufferFull, ClientClosed

MESSAGE_BYTES: Final = 250  # that the objects of one message take besides its data; measured
WATCH_BYTES: Final = 120  # that its callbacks take

_log = logging.getLogger("opentalos.sdk.producer")


class Watcher(NamedTuple):
    """Whom to tell about one message of a batch, or about all its rows."""

    place: int  # of the message in the batch
    on_success: OnSuccess | None
    on_error: OnError | None


Watch = tuple[OnSuccess | None, OnError | None]


class Batch:
    """What becomes one block: messages, or rows of a table that are encoded already."""

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
        self.block: MessageBlock | None = None  # encoded with the first attempt
        self.rows: Sequence[int] = ()
        self.keyed = False  # of rows: their key chose the partition
        self.bytes_count = 0  # that count for the buffer
        self.room = room  # bytes of data that it still takes
        self.sealed = False  # takes no more messages
        self.watchers: list[Watcher] = []

    def call_back(self, base_offset: int | None, error: TalosError | None) -> None:
        """Call everybody who wants to know. A callback that raises is logged and harms no other."""
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
                    _log.exception("a callback of a producer raised")
        if failures > 1:
            _log.error("callbacks of a producer raised %d times in this batch", failures)


class _Queue:
    """The batches of one partition, oldest first; the last may still be open."""

    __slots__ = ("batches", "busy")

    def __init__(self) -> None:
        self.batches: deque[Batch] = deque()
        self.busy = False  # one of them is on its way


class Accumulator:
    """Takes messages from any thread, gives batches to the one sender.

    A batch is due when it is full, has waited ``linger_s``, or is flushed. Messages count until
    ``finish``, so the bound holds for what is on its way and what waits for its callbacks, too.

    Args: now_s: a steady clock; random: of the first partition of messages without a key.
    """

    def __init__(
        self, settings: ProducerSettings, now_s: Callable[[], float], random: Callable[[], float]
    ) -> None:
        self.settings = settings
        self._bytes_max = settings.waiting_bytes_max
        self.partitions = 1  # of the topic; set before the first message
        self.on_progress: Callable[[], None] = _nothing  # called after each ``finish``
        self._now_s = now_s
        self._changed = threading.Condition(threading.Lock())
        self._round_robin = RoundRobin(random)
        self._queues: dict[int, _Queue] = {}  # of partitions with batches that wait or are sent
        self._keyless: Batch | None = None  # takes messages without a key, until it is sealed
        self._unfinished: dict[Batch, None] = {}
        self._tickets = 0
        self._flushed = 0  # batches up to this ticket are due at once
        self.bytes_count = 0  # that count for the buffer now
        self._closed = False

    # --- the putting side -----------------------------------------------------------------------

    def add(self, message: Message, watch: Watch | None = None) -> bool:
        """Take one message. True: the sender has to look.

        Raises: BufferFull, RequestTooLarge, ClientClosed.
        """
        size = size_of(message, watch)
        with self._changed:
            if self.bytes_count + size > self._bytes_max or self._closed:
                self._refuse(size)
            return self._add(message, size, watch)

    def add_all(self, messages: Sequence[Message], watch: Watch | None = None) -> bool:
        """Take all messages or none, in order; otherwise like ``add``."""
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
        """Take rows of a table as the block they are; otherwise like ``add``.

        Args: partition: that their keys chose; None: the one whose turn it is.
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
            raise ClientClosed("the producer is closed")
        if size > limit:
            raise RequestTooLarge(f"{size} bytes at once are above the buffer's {limit}")
        raise BufferFull(f"{self.bytes_count} of {limit} bytes are waiting to be stored")

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
        return self._tickets != made  # another may be full, and its own time is to be watched

    def _add_run(self, messages: Sequence[Message], sizes: list[int]) -> None:
        """The same for messages without keys and watches, as many at once as fit."""
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
        """The batch for messages without a key: the same until one has no room in it."""
        turn = self._keyless
        if turn is not None and not turn.sealed:
            if data_bytes <= turn.room:
                return turn
            turn.sealed = True
        self._keyless = self._open_batch(self._round_robin.next(self.partitions), data_bytes)
        return self._keyless

    def _place(self, key: str) -> int:
        """The partition of a key. A partitioner of the user's may give any number."""
        return self.settings.partitioner(key, self.partitions) % self.partitions

    def _open_batch(self, partition: int, data_bytes: int) -> Batch:
        """The partition's batch that has room for a message; a new one takes any."""
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
        """Block this thread until so many bytes have room, or it is closed; False: no room."""
        limit = self._bytes_max

        def usable() -> bool:
            return self._closed or self.bytes_count + size <= limit

        with self._changed:
            return self._changed.wait_for(usable, timeout_s)

    # --- flush and close ------------------------------------------------------------------------

    def flush(self) -> int:
        """Make everything due that is in here; the ticket for ``wait_until_done``."""
        with self._changed:
            self._flushed = self._tickets
            return self._flushed

    def _pending(self, ticket: int) -> bool:
        return any(batch.ticket <= ticket for batch in self._unfinished)

    def wait_until_done(self, ticket: int, timeout_s: float | None) -> bool:
        """Block this thread until everything up to the ticket is finished; False: it is not."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._pending(ticket), timeout_s)

    def close(self) -> None:
        """Take nothing more; who waits for room is refused."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    # --- the sending side -----------------------------------------------------------------------

    def due(self) -> tuple[list[int], float | None]:
        """Partitions to send to now, and the time at which to look again; None: on a wake-up."""
        now_s, linger_s = self._now_s(), self.settings.linger_s
        ready: list[int] = []
        next_s: float | None = None
        with self._changed:
            for partition, queue in self._queues.items():
                if queue.busy or not queue.batches:
                    continue
                first = queue.batches[0]
                at_s = first.born_s + linger_s
                if first.sealed or first.ticket <= self._flushed or at_s <= now_s:
                    ready.append(partition)
                elif next_s is None or at_s < next_s:
                    next_s = at_s
        return ready, next_s

    def take(self, partition: int) -> Batch | None:
        """The partition's next batch that is due; it stays the only one on its way until
        ``finish``, ``move`` or ``release``."""
        now_s = self._now_s()
        with self._changed:
            queue = self._queues.get(partition)
            if queue is None or queue.busy or not queue.batches:
                return None
            batch = queue.batches[0]
            if not batch.sealed:
                waits = now_s < batch.born_s + self.settings.linger_s
                if waits and batch.ticket > self._flushed:
                    return None
                batch.sealed = True
            queue.batches.popleft()
            queue.busy = True
            return batch

    def release(self, batch: Batch) -> None:
        """The batch has its outcome, though its callbacks are still to be called."""
        with self._changed:
            self._idle(batch.partition)

    def finish(self, batch: Batch) -> None:
        """Nobody needs the batch any more: its bytes are free."""
        with self._changed:
            self.bytes_count -= batch.bytes_count
            del self._unfinished[batch]
            self._changed.notify_all()
        self.on_progress()

    def _idle(self, partition: int) -> None:
        queue = self._queues[partition]
        queue.busy = False
        if not queue.batches:
            del self._queues[partition]

    def move(self, batch: Batch) -> None:
        """The batch's partition is gone: its messages go to those there are, by key as before,
        and so do all that wait for partitions that are gone."""
        with self._changed:
            spread = [(batch, self._places(batch))]
            for queue in self._gone(first=batch.partition):
                spread += [(moved, self._places(moved)) for moved in queue]
            # From here on nothing raises: places are the user's partitioner's.
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
        """Waiting batches by partition that is no more, those of partition ``first`` first."""
        found = []
        for partition, queue in sorted(self._queues.items(), key=lambda item: item[0] != first):
            gone = partition >= self.partitions and (partition == first or not queue.busy)
            if gone and not any(batch.keyed for batch in queue.batches):
                found.append(list(queue.batches))
        return found

    def _places(self, batch: Batch) -> list[int]:
        """Where the messages of a batch go, or all its rows."""
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
    """Bytes that a message counts for the buffer, with its callbacks if it has any."""
    size = len(message[0]) + MESSAGE_BYTES
    if message[1] is not None:
        size += len(message[1])
    return size if watch is None else size + WATCH_BYTES


def _nothing() -> None:
    """Nobody waits for progress."""
