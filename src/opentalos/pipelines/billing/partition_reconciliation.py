"""Compares what the table "usage" has of one partition with the partition's log.

The sums, and the rows that something may be wrong with, come from ``UsageChains``; here it is
decided what a fault is.

Three things must hold. The minutes of a partition are contiguous from offset 0 (or from where
metering began on an older log), so every record is in exactly one; they do not extend beyond the
log; and every minute that the log still has completely is equal in records, bytes and offsets.
Records that the table does not have yet are pending, not a difference.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from opentalos.pipelines.metering.chain_bucket import Chain, Pair
from opentalos.pipelines.metering.usage_lake import MinuteUse

FAULTS_MAX: Final = 20  # texts kept per partition; all of them are counted


@dataclass(frozen=True, slots=True, kw_only=True)
class LogUsage:
    """The usage according to the log of one partition. ``minutes``: those retained, in order."""

    topic: str
    name: str
    tenant: str
    partition: int
    start_offset: int
    next_offset: int
    metered_offset: int  # usage events cover every message before it; -1: [metering] is off
    metered_since: int  # metering starts here; above 0 if messages expired while it was off
    total_bytes: int  # ever appended, with the headers of blocks
    minutes: Sequence[MinuteUse]


@dataclass(slots=True, kw_only=True)
class PartitionResult:
    """The result for one partition."""

    topic: str
    name: str
    tenant: str
    partition: int
    deleted: bool = False  # the topic was deleted: only contiguity was checked
    records: int = 0  # in the table
    bytes: int = 0
    next_offset: int = 0  # of the log
    start_offset: int = 0  # likewise
    pending: int = 0  # records of the log that the table does not have yet
    unmetered: int = 0  # of these, those that no usage event covers yet
    minutes_compared: int = 0
    difference_records: int = 0  # sum of the absolute deviations
    difference_bytes: int = 0
    faults: list[str] = field(default_factory=list)

    @property
    def differs(self) -> bool:
        """Whether there is any deviation."""
        return bool(self.difference_records or self.difference_bytes)

    def fault(self, text: str, *, records: int = 0, count: int = 0) -> None:
        """Note a deviation of ``records`` records and ``count`` bytes."""
        self.difference_records += abs(records)
        self.difference_bytes += abs(count)
        if len(self.faults) < FAULTS_MAX:
            self.faults.append(text)


def compare_chain(log: LogUsage, chain: Chain) -> PartitionResult:
    """Compare a partition's chain and its end; ``compare_minutes`` does the rest.

    Args: chain: read before the log, so it cannot be ahead of it.
    """
    found = PartitionResult(
        topic=log.topic,
        name=log.name,
        tenant=log.tenant,
        partition=log.partition,
        next_offset=log.next_offset,
        start_offset=log.start_offset,
    )
    _check_chain(found, chain, log.metered_since)
    reached = _reached(log, chain)
    found.pending = max(0, log.next_offset - reached)
    found.unmetered = max(0, log.next_offset - max(reached, log.metered_offset))
    if reached > log.next_offset:
        more = reached - log.next_offset
        found.fault(f"the table has {more} records more than the log ever had", records=more)
    if not found.pending and found.bytes > log.total_bytes:
        more = found.bytes - log.total_bytes
        found.fault(f"the table has {more} bytes more than the log ever had", count=more)
    return found


def complete_minutes(log: LogUsage, chain: Chain) -> Sequence[MinuteUse]:
    """The minutes of the log that the table must have; the end of the next one is pending."""
    reached = _reached(log, chain)
    for number, minute in enumerate(log.minutes):
        if minute.next_offset > reached:
            return log.minutes[:number]
    return log.minutes


def compare_minutes(found: PartitionResult, equal: int, pairs: Iterable[Pair]) -> None:
    """Compare the complete minutes of the log with those of the table.

    Args: found: of ``compare_chain``; equal: minutes that are equal; pairs: all others, in order.
    """
    chained = not found.difference_records
    found.minutes_compared += equal
    for minute, row in pairs:
        if row is None:
            records = minute.records if chained else 0  # otherwise the gap was counted already
            found.fault(f"{_at(minute)} is missing", records=records, count=minute.bytes)
        elif row.first_offset < minute.first_offset == found.start_offset:
            _check_cut(found, row, minute)
        else:
            _note_deviation(found, row, minute, chained=chained)


def compare_kept(found: PartitionResult, start: int) -> None:
    """Compare the largest start offset that a report of what is kept has, read before the log."""
    more = start - found.start_offset
    if more > 0:
        begin = found.start_offset
        text = f"a report says that the log begins at offset {start}, but it begins at {begin}"
        found.fault(text, records=more)


def compare_deleted(chain: Chain) -> PartitionResult:
    """Check a partition of a deleted topic: only that its rows are contiguous."""
    found = PartitionResult(
        topic=chain.topic, name=chain.name, tenant="", partition=chain.partition, deleted=True
    )
    found.next_offset = chain.next_offset
    _check_chain(found, chain, 0)
    return found


def _reached(log: LogUsage, chain: Chain) -> int:
    """The offset that the next record of the table will have."""
    return max(chain.next_offset, log.metered_since)


def _check_chain(found: PartitionResult, chain: Chain, since: int) -> None:
    """Take its sums, note overlaps and gaps from ``since`` on."""
    found.records, found.bytes = chain.records, chain.bytes
    for row in chain.breaks:
        wanted, first = max(row.reached, since), row.first_offset
        if first > wanted:
            found.fault(f"offsets {wanted} to {first - 1} are in no minute", records=first - wanted)
        elif first < row.reached:
            found.fault(
                f"offsets {first} to {row.reached - 1} are in two minutes",
                records=row.reached - first,
            )
        wrong = row.records - (row.next_offset - row.first_offset)
        if wrong:
            text = f"minute {row.minute_ms}: {row.records} records do not match its offsets"
            found.fault(text, records=wrong)


def _check_cut(found: PartitionResult, row: MinuteUse, minute: MinuteUse) -> None:
    """Compare the end of a minute whose beginning has expired in the log."""
    if row.next_offset != minute.next_offset:
        records = row.next_offset - minute.next_offset
        text = f"{_at(row)} ends at offset {row.next_offset}, in the log at {minute.next_offset}"
        found.fault(text, records=records)
    if row.bytes < minute.bytes:
        count = minute.bytes - row.bytes
        found.fault(f"{_at(row)} has {count} bytes fewer than the log", count=count)


def _note_deviation(
    found: PartitionResult, row: MinuteUse, minute: MinuteUse, *, chained: bool
) -> None:
    records = row.records - minute.records
    # The same number of records at other offsets is a deviation as well.
    moved = abs(row.first_offset - minute.first_offset) if not records else records
    found.fault(
        f"{_at(row)}: the table has offsets {row.first_offset} to {row.next_offset} and "
        f"{row.bytes} bytes, the log {minute.first_offset} to {minute.next_offset} and "
        f"{minute.bytes}",
        records=moved if chained else 0,
        count=row.bytes - minute.bytes,
    )


def _at(minute: MinuteUse) -> str:
    return f"minute {minute.minute_ms}"
