"""Lag of one group over the partitions of a topic, without an object for each; pure.

A topic may have 10,000 partitions, and a list of groups shows one line of each group. So offsets
are arrays by partition, and a summary is one pass over them.
"""

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import nlargest
from typing import Final, NamedTuple, TypeAlias

from opentalos.group.row_format import NO_CHECKPOINT

LARGEST_MAX: Final = 4  # partitions with the greatest lag that a summary names
Offsets: TypeAlias = "array[int]"  # by partition, signed 64 bits


class Unread(NamedTuple):
    """A partition with lag: its messages from ``offset`` on are not processed."""

    lag: int
    partition: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LagSummary:
    """Lag in messages. ``most``: of one partition; ``behind``: partitions with lag; ``largest``:
    those with the greatest lag, at most ``LARGEST_MAX``, the greatest first. ``damaged``: so many
    further partitions are damaged, and their lag is not known; the figures are those of the rest.
    """

    lag: int = 0
    most: int = 0
    behind: int = 0
    largest: Sequence[Unread] = ()
    damaged: int = 0


def offsets_of(known: Mapping[int, int], partitions: int, otherwise: int) -> Offsets:
    """An array of so many partitions; of those that are not known, ``otherwise``."""
    found = array("q", [otherwise]) * partitions
    for partition, offset in known.items():
        if partition < partitions:
            found[partition] = offset
    return found


def checkpoints_of(known: Mapping[int, int], partitions: int) -> Offsets:
    """Checkpoints by partition; -1: none."""
    return offsets_of(known, partitions, NO_CHECKPOINT)


def lags_of(starts: Offsets, nexts: Offsets, checkpoints: Offsets) -> Mapping[int, Unread]:
    """Partitions that have lag, in their order.

    Args: starts: first retained offsets; nexts: those of the next message; all of one length.
    """
    found: dict[int, Unread] = {}
    places = zip(starts, nexts, checkpoints, strict=True)
    for partition, (start, following, checkpoint) in enumerate(places):
        if following > start and checkpoint < following - 1:
            offset = checkpoint + 1 if checkpoint >= start else start
            found[partition] = Unread(following - offset, partition, offset)
    return found


def summary_of(lags: Mapping[int, Unread], damaged: int = 0) -> LagSummary:
    """The sums of ``lags_of``. ``damaged``: partitions that are."""
    largest = nlargest(LARGEST_MAX, lags.values())
    return LagSummary(
        lag=sum(unread.lag for unread in lags.values()),
        most=largest[0].lag if largest else 0,
        behind=len(lags),
        largest=largest,
        damaged=damaged,
    )
