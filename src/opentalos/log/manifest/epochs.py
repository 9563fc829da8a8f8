"""Which epoch of a partition wrote which offsets, as far as its manifest says. Pure.

A merged segment has one epoch for all of its messages, and what retention dropped has none.
"""

from typing import NamedTuple

from opentalos.log.manifest.manifest import Manifest

NO_EPOCH = -1


class EpochEnd(NamedTuple):
    """An epoch and the offset after its last message; NO_EPOCH: none is known."""

    epoch: int
    offset: int


def end_of_epoch(manifest: Manifest, epoch: int, next_offset: int) -> EpochEnd:
    """The last epoch with messages up to ``epoch``, and where it ends.

    ``next_offset``: the high watermark, where the newest epoch ends.
    """
    if epoch < 0 or epoch > manifest.epoch:
        return EpochEnd(NO_EPOCH, NO_EPOCH)
    found, end = NO_EPOCH, manifest.start
    for segment in manifest.segments:
        if segment.epoch > epoch:
            break
        found = segment.epoch
        end = next_offset if segment.next_offset is None else segment.next_offset
    # Before the first segment: as Kafka, the asked epoch ends where the log begins.
    return EpochEnd(epoch if found == NO_EPOCH else found, end)
