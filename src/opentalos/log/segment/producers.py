"""The producer table of a partition: what makes idempotent puts exactly once."""

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from opentalos.model.errors import ProducerFenced, SequenceGap, TalosError
from opentalos.model.message import (
    ENCRYPTED,
    PRODUCER_ID_MAX,
    UNKNOWN_OFFSET,
    PayloadFormat,
    ProducerStamp,
    StoredBefore,
)

BATCHES_KEPT = 5  # per producer, so many puts may be in flight and still be answered exactly
# Per partition and principal; its producer unused for longest is forgotten. What that stored is
# not known any more, so of an unknown producer only a first attempt at sequence 0 is accepted.
PRODUCERS_OF_PRINCIPAL_MAX = 1_000
# Per partition: room for two full shares, a quarter of a megabyte in each state block, which is
# encoded at every roll. Above it the principal with the most producers loses one, so whoever has
# few keeps them.
PRODUCERS_MAX = 2_000
WRAPPED_SEQUENCES = 1 << 31  # of Kafka's producers, whose numbers begin again at 0 behind them
# Shares that are no principal's; real numbers are far below.
SERVER_SHARE = (1 << 64) - 1  # producers of the server itself: table shards that publish
UNOWNED_SHARE = (1 << 64) - 2  # from state blocks of older servers, which name no principal


def _is_behind(sequence: int, messages: int, end: int, wraps: bool) -> bool:
    """Whether so many messages from a sequence on lie before another sequence."""
    if not wraps:
        return sequence + messages <= end
    return messages <= (end - sequence) % WRAPPED_SEQUENCES < WRAPPED_SEQUENCES // 2


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


class ProducerShare:
    """The producers of one principal, in order of last use."""

    __slots__ = ("forgotten", "producers")

    def __init__(self) -> None:
        self.producers: dict[int, Producer] = {}  # by id
        self.forgotten = False  # True: one was dropped, so one not known may be old


def share_of(principal: int, producer_id: int) -> int:
    """Number of the share that a block's producer belongs to.

    Guests and the server's own producers both have no principal. Only the server uses ids beyond
    those that a client may choose.
    """
    return principal if principal or producer_id <= PRODUCER_ID_MAX else SERVER_SHARE


class ProducerTable:
    """Decides if an idempotent block is new, a duplicate, or refused.

    A producer is known by its principal and id, so no principal can fence, repeat or evict those
    of another one. An entry of an older server, without a principal, counts for the first one that
    continues it, which owns it from then on.

    Pure: the log asks ``check`` when it forms a group and calls ``note`` for each block it puts
    in, so duplicates inside one group are found too. After a failed commit the table is rebuilt
    from the recovered log.
    """

    __slots__ = ("_count", "_shares", "forgotten")

    def __init__(self) -> None:
        self._shares: dict[int, ProducerShare] = {}  # by principal
        self._count = 0
        self.forgotten = False  # True: a producer of any principal may have been dropped

    def __len__(self) -> int:
        return self._count

    def shares(self) -> list[tuple[int, ProducerShare]]:
        """All shares, with their principals."""
        return list(self._shares.items())

    def producers(self) -> Iterator[tuple[int, int, Producer]]:
        """All producers: principal, id and state; of one principal the unused ones first."""
        for principal, share in self._shares.items():
            for producer_id, producer in share.producers.items():
                yield principal, producer_id, producer

    def find(self, principal: int, producer_id: int) -> Producer | None:
        """What is known of a producer."""
        for number in (share_of(principal, producer_id), UNOWNED_SHARE):
            share = self._shares.get(number)
            if share is not None and producer_id in share.producers:
                return share.producers[producer_id]
        return None

    def check(
        self,
        principal: int,
        stamp: ProducerStamp,
        messages: int,
        payload_format: int = PayloadFormat.TALOS,
    ) -> StoredBefore | TalosError | None:
        """None: append it. StoredBefore: a duplicate; -1: its place is unknown. Else refuse it.

        Args: payload_format: of the block; Kafka's sequences begin again after WRAPPED_SEQUENCES.
        """
        producer = self.find(principal, stamp.producer_id)
        if producer is not None and stamp.epoch < producer.epoch:
            return ProducerFenced(f"epoch {stamp.epoch}, the log knows {producer.epoch}")
        if not messages:
            return None  # announces its epoch
        if producer is None:
            if stamp.sequence:
                text = f"first sequence {stamp.sequence} of this producer, expected 0"
                return SequenceGap(text, producer_known=False)
            if stamp.repeated and self._may_have_forgotten(principal, stamp):
                text = "a repeated first block of a producer that may be forgotten"
                return SequenceGap(text, producer_known=False)
            return None
        expected = producer.next_sequence if stamp.epoch == producer.epoch else 0
        wraps = payload_format & ~ENCRYPTED == PayloadFormat.KAFKA
        if wraps:
            expected %= WRAPPED_SEQUENCES
        if stamp.sequence == expected:
            return None
        if stamp.epoch == producer.epoch and _is_behind(stamp.sequence, messages, expected, wraps):
            for batch in producer.batches:
                if batch.sequence == stamp.sequence and batch.messages == messages:
                    return StoredBefore(batch.base_offset)
            if not producer.batches or _is_behind(
                stamp.sequence, 1, producer.batches[0].sequence, wraps
            ):
                return StoredBefore(UNKNOWN_OFFSET)
        return SequenceGap(f"sequence {stamp.sequence}, expected {expected}")

    def note(self, principal: int, stamp: ProducerStamp, messages: int, base_offset: int) -> None:
        """A block with this stamp is in the log; with no messages it announces the epoch."""
        number = share_of(principal, stamp.producer_id)
        share = self.share(number)
        producer = share.producers.pop(stamp.producer_id, None)
        added = producer is None
        if producer is None:
            producer = self._adopt(stamp)
        if producer is None or producer.epoch < stamp.epoch:
            producer = Producer(stamp.epoch)
        share.producers[stamp.producer_id] = producer
        if messages:
            producer.batches.append(Batch(stamp.sequence, messages, base_offset))
            producer.next_sequence = stamp.sequence + messages
        if added:
            self._count += 1
            self._make_room(number, share)

    def share(self, number: int) -> ProducerShare:
        """A principal's share; made on first use."""
        found = self._shares.get(number)
        if found is None:
            found = self._shares[number] = ProducerShare()
        return found

    def restore(self, number: int, producer_id: int, producer: Producer) -> None:
        """Put a decoded producer back, as the one of its share that was used last."""
        self.share(number).producers[producer_id] = producer
        self._count += 1

    # --- inside ---------------------------------------------------------------------------------

    def _may_have_forgotten(self, principal: int, stamp: ProducerStamp) -> bool:
        share = self._shares.get(share_of(principal, stamp.producer_id))
        return self.forgotten or (share is not None and share.forgotten)

    def _adopt(self, stamp: ProducerStamp) -> Producer | None:
        """The entry without principal that this block continues or fences; it is so no more."""
        unowned = self._shares.get(UNOWNED_SHARE)
        known = None if unowned is None else unowned.producers.get(stamp.producer_id)
        if unowned is None or known is None or known.epoch > stamp.epoch:
            return None
        self._drop(UNOWNED_SHARE, unowned, stamp.producer_id)
        return known

    def _make_room(self, number: int, mine: ProducerShare) -> None:
        """Forget a producer if ``mine``, which has a new one, or the whole table is too large."""
        largest = mine
        if len(mine.producers) <= PRODUCERS_OF_PRINCIPAL_MAX:
            if self._count <= PRODUCERS_MAX:
                return
            for other, share in self._shares.items():
                # The new one itself stays, also where every principal has just one.
                more = len(share.producers) - len(largest.producers)
                if more > 0 or (more == 0 and largest is mine and len(mine.producers) == 1):
                    number, largest = other, share
        largest.forgotten = True
        self._drop(number, largest, next(iter(largest.producers)))

    def _drop(self, number: int, share: ProducerShare, producer_id: int) -> None:
        del share.producers[producer_id]
        self._count -= 1
        if number == UNOWNED_SHARE and share.forgotten:
            self.forgotten, share.forgotten = True, False
        if not share.producers:
            self.forgotten = self.forgotten or share.forgotten
            del self._shares[number]
