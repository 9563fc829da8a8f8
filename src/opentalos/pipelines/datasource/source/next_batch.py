"""Plans the next batch from the retained offsets of the partitions; no I/O."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar

from opentalos.model.errors import ConfigError, OffsetOutOfRange
from opentalos.model.message import OffsetRange
from opentalos.model.names import ResourceName
from opentalos.pipelines.datasource.source.admission import fair_shares, rows_within
from opentalos.pipelines.datasource.source.batch_range import BatchRange, Positions
from opentalos.sdk.core.values import DamagedRange

_LOG: Final = logging.getLogger("opentalos.datasource")
# By resource name and partition; the end of a damaged one raises the damage where it is needed.
Retained = Mapping[str, Mapping[int, OffsetRange | DamagedRange]]
Place = tuple[str, int]  # resource name and partition
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Limits of a batch. ``target``: read nothing beyond it; None: read all that is retained.

    ``sizes``: mean bytes of the messages of each partition that has some to read; only with
    ``bytes_max``.
    """

    rows_max: int | None
    skip_expired: bool
    tasks: int
    target: Positions | None = None
    bytes_max: int | None = None
    sizes: Mapping[Place, int] = field(default_factory=dict)


def next_batch(last: BatchRange, retained: Retained, bounds: Bounds) -> BatchRange | None:
    """The batch after ``last``; None if there is nothing to read.

    Partitions that ``last`` does not have start at their first message; removed partitions keep
    their position.

    Raises: OffsetOutOfRange: a position is not retained and may not be skipped; CorruptLog: a
    partition is damaged, so its end is not known.
    """
    begin: dict[str, dict[int, int]] = {}
    backlog: dict[Place, int] = {}
    skipped = 0
    for resource, ranges in retained.items():
        known = last.end.get(resource, {})
        begin[resource] = dict(known)
        for partition, there in ranges.items():
            wanted = known.get(partition, there.start)
            first = retained_from(resource, partition, wanted, there, bounds.skip_expired)
            skipped += max(0, first - wanted)
            begin[resource][partition] = first
            stop = _stop(bounds.target, resource, partition, there.next)
            backlog[resource, partition] = max(0, stop - first)
    # What was read so far is in the checkpoint, so the turn continues after a restart.
    turn = sum(offset for offsets in last.end.values() for offset in offsets.values())
    shares = _shares(backlog, bounds, turn)
    end = {
        resource: {
            partition: offset + shares.get((resource, partition), 0)
            for partition, offset in offsets.items()
        }
        for resource, offsets in begin.items()
    }
    moved = any(
        offset != last.end.get(resource, {}).get(partition, begin[resource][partition])
        for resource, offsets in end.items()
        for partition, offset in offsets.items()
    )
    if not moved:
        return None
    return BatchRange(begin=begin, end=end, tasks=bounds.tasks, skipped=last.skipped + skipped)


def _shares(backlog: Mapping[Place, int], bounds: Bounds, turn: int) -> Mapping[Place, int]:
    """The rows of each partition within both limits."""
    if bounds.rows_max is not None:
        backlog = fair_shares(backlog, bounds.rows_max, turn)
    if bounds.bytes_max is None:
        return backlog
    waiting = {place: rows for place, rows in backlog.items() if rows}
    return rows_within(waiting, bounds.sizes, bounds.bytes_max, turn)


def retained_from(
    resource: str, partition: int, wanted: int, there: OffsetRange | DamagedRange, skip: bool
) -> int:
    """The first offset to read: ``wanted``, or the next retained one if skipping is allowed.

    Raises: OffsetOutOfRange.
    """
    if isinstance(there, DamagedRange):  # whoever reads beyond what is proven gets the damage
        there = OffsetRange(there.start, max(wanted, there.start))
    if there.start <= wanted <= there.next:
        return wanted
    name = ResourceName.parse(resource).topic
    place = f"{name}[{partition}]: position {wanted}"
    what = (
        f"{place} has expired, the log starts at {there.start}"
        if wanted < there.start
        else f"{place} is beyond the end of the log, {there.next}: the log was truncated"
    )
    if not skip:
        raise OffsetOutOfRange(f"{what}; onExpired = skip continues at the next retained message")
    first = min(max(wanted, there.start), there.next)
    _LOG.warning("%s; skipped=%d", what, max(0, first - wanted))
    return first


def _stop(target: Positions | None, resource: str, partition: int, following: int) -> int:
    """A partition that is not in the target is newer and has to wait."""
    if target is None:
        return following
    return min(following, target.get(resource, {}).get(partition, 0))


def unread(last: BatchRange, retained: Retained) -> dict[Place, OffsetRange]:
    """The retained messages after ``last``, of the partitions that have some."""
    found = {
        (resource, partition): OffsetRange(
            max(there.start, last.end.get(resource, {}).get(partition, 0)), there.next
        )
        for resource, ranges in retained.items()
        for partition, there in ranges.items()
    }
    return {place: there for place, there in found.items() if there.start < there.next}


def backlog_rows(last: BatchRange, retained: Retained) -> int:
    """The number of retained messages after ``last``."""
    return sum(there.next - there.start for there in unread(last, retained).values())


def only_partitions(
    positions: Mapping[str, Mapping[int, _T]], wanted: frozenset[int] | None
) -> Mapping[str, Mapping[int, _T]]:
    """What is known of these partitions; None: all.

    Raises: ConfigError: no topic has one of them.
    """
    if wanted is None:
        return positions
    known = {partition for offsets in positions.values() for partition in offsets}
    if positions and not wanted <= known:
        raise ConfigError(f"no topic of this read has partition {min(wanted - known)}")
    return {
        resource: {
            partition: offset for partition, offset in offsets.items() if partition in wanted
        }
        for resource, offsets in positions.items()
    }


def bounded_batch(
    start: Positions, stop: Positions, retained: Retained, skip: bool, tasks: int
) -> BatchRange:
    """Everything from ``start`` to before ``stop``; empty where ``stop`` precedes ``start``.

    Raises: OffsetOutOfRange: a position is not retained and may not be skipped; CorruptLog: of a
    damaged partition not even the start is known.
    """
    begin: dict[str, dict[int, int]] = {}
    end: dict[str, dict[int, int]] = {}
    for resource, offsets in start.items():
        ranges = retained[resource]
        begin[resource] = {
            partition: retained_from(resource, partition, offset, ranges[partition], skip)
            for partition, offset in offsets.items()
        }
        end[resource] = {
            partition: max(
                first,
                retained_from(
                    resource, partition, stop[resource][partition], ranges[partition], skip
                ),
            )
            for partition, first in begin[resource].items()
        }
    return BatchRange(begin=begin, end=end, tasks=tasks)
