"""The producer table of a partition: what makes idempotent puts exactly once."""

from collections import deque
from typing import NamedTuple

from opentalos.model.errors import ProducerFenced, SequenceGap, TalosError
from opentalos.model.message import UNKNOWN_OFFSET, ProducerStamp

BATCHES_KEPT = 5  # per producer, so many puts may be in flight and still be answered exactly
# Per partition; the one unused for longest is forgotten. What it stored is not known any more, so
# of an unknown producer only a first attempt at sequence 0 is accepted.
PRODUCERS_MAX = 1_000


class Batch(NamedTuple):
    """One stored block of a producer."""

    sequence: int
    messages: int
    base_offset: int


class Producer:
    """Newest epoch of one producer, its next sequence and its last batches."""

    __slots__ = ("batches", "epoch", "next_sequence")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.next_sequence = 0
        self.batches: deque[Batch] = deque(maxlen=BATCHES_KEPT)


class ProducerTable:
    """Decides if an idempotent block is new, a duplicate, or refused.

    Pure: the log asks ``check`` when it forms a group and calls ``note`` for each block it puts
    in, so duplicates inside one group are found too. After a failed commit the table is rebuilt
    from the recovered log.
    """

    __slots__ = ("_producers", "forgotten")

    def __init__(self) -> None:
        self._producers: dict[int, Producer] = {}  # in order of last use
        self.forgotten = False  # True: a producer was dropped, so one not known may be old

    def __len__(self) -> int:
        return len(self._producers)

    def items(self) -> list[tuple[int, Producer]]:
        """All producers, the one unused for longest first."""
        return list(self._producers.items())

    def check(self, stamp: ProducerStamp, messages: int) -> int | TalosError | None:
        """None: append it. An int: a duplicate, its base offset or -1. An error: refuse it."""
        producer = self._producers.get(stamp.producer_id)
        if producer is not None and stamp.epoch < producer.epoch:
            return ProducerFenced(f"epoch {stamp.epoch}, the log knows {producer.epoch}")
        if not messages:
            return None  # announces its epoch
        if producer is None:
            if stamp.sequence:
                return SequenceGap(f"first sequence {stamp.sequence} of this producer, expected 0")
            if stamp.repeated and self.forgotten:
                return SequenceGap("a repeated first block of a producer that may be forgotten")
            return None
        expected = producer.next_sequence if stamp.epoch == producer.epoch else 0
        if stamp.sequence == expected:
            return None
        if stamp.epoch == producer.epoch and stamp.sequence + messages <= expected:
            for batch in producer.batches:
                if batch.sequence == stamp.sequence and batch.messages == messages:
                    return batch.base_offset
            if not producer.batches or stamp.sequence < producer.batches[0].sequence:
                return UNKNOWN_OFFSET
        return SequenceGap(f"sequence {stamp.sequence}, expected {expected}")

    def note(self, stamp: ProducerStamp, messages: int, base_offset: int) -> None:
        """A block with this stamp is in the log; with no messages it announces the epoch."""
        producer = self._producers.pop(stamp.producer_id, None)
        if producer is None or producer.epoch < stamp.epoch:
            producer = Producer(stamp.epoch)
        self._producers[stamp.producer_id] = producer
        if messages:
            producer.batches.append(Batch(stamp.sequence, messages, base_offset))
            producer.next_sequence = stamp.sequence + messages
        if len(self._producers) > PRODUCERS_MAX:
            del self._producers[next(iter(self._producers))]
            self.forgotten = True

    def restore(self, producer_id: int, producer: Producer) -> None:
        """Put a decoded producer back, as the one used last."""
        self._producers[producer_id] = producer
