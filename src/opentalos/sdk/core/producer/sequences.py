"""Sequence numbers of an idempotent producer; no I/O."""

from dataclasses import dataclass

from opentalos.model.message import ProducerStamp


@dataclass(slots=True)
class _Partition:
    resource: str  # of the topic that these numbers belong to
    epoch: int = 0
    sequence: int = 0  # of the next message


class Sequences:
    """Epoch and next sequence number of one producer id in each partition.

    A partition has one put at a time: from ``stamp`` until its outcome is known.
    """

    def __init__(self, producer_id: int) -> None:
        self._id = producer_id
        self._partitions: dict[int, _Partition] = {}

    def stamp(self, resource: str, partition: int) -> ProducerStamp:
        """The stamp of the next put to a partition of the topic with this resource name."""
        state = self._partitions.get(partition)
        if state is None:
            state = self._partitions[partition] = _Partition(resource)
        elif state.resource != resource:  # recreated: it knows no producer
            state.resource = resource
            self.renew(partition)
        return ProducerStamp(self._id, state.epoch, state.sequence)

    def stored(self, partition: int, messages: int) -> None:
        """The put with the last stamp is stored."""
        self._partitions[partition].sequence += messages

    def renew(self, partition: int) -> None:
        """The next sequence is unknown: start a new epoch, which fences puts in flight."""
        state = self._partitions[partition]
        state.epoch += 1
        state.sequence = 0
