"""The reference of reconciliation: plain Python, one row after the other, all of them in memory.

``UsageChains`` and ``partition_reconciliation`` must find the same.
"""

from collections.abc import Sequence

from opentalos.pipelines.billing.partition_reconciliation import LogUsage, PartitionResult
from opentalos.pipelines.metering.usage_lake import MinuteUse


def compare(log: LogUsage, rows: Sequence[MinuteUse]) -> PartitionResult:
    """Compare a partition.

    Args: rows: of the table, by minute; read before the log, so they cannot be ahead of it.
    """
    found = PartitionResult(
        topic=log.topic,
        name=log.name,
        tenant=log.tenant,
        partition=log.partition,
        next_offset=log.next_offset,
        start_offset=log.start_offset,
    )
    reached = max(_check_chain(found, rows, log.metered_since), log.metered_since)
    found.pending = max(0, log.next_offset - reached)
    found.unmetered = max(0, log.next_offset - max(reached, log.metered_offset))
    if reached > log.next_offset:
        more = reached - log.next_offset
        found.fault(f"the table has {more} records more than the log ever had", records=more)
    if not found.pending and found.bytes > log.total_bytes:
        more = found.bytes - log.total_bytes
        found.fault(f"the table has {more} bytes more than the log ever had", count=more)
    _check_minutes(found, log, rows, reached)
    return found


def compare_deleted(key: tuple[str, int], name: str, rows: Sequence[MinuteUse]) -> PartitionResult:
    """Check a partition of a deleted topic: only that its rows are contiguous."""
    found = PartitionResult(topic=key[0], name=name, tenant="", partition=key[1], deleted=True)
    found.next_offset = _check_chain(found, rows, 0)
    return found


def _check_chain(found: PartitionResult, rows: Sequence[MinuteUse], since: int) -> int:
    """Sum up the rows, note overlaps and gaps from ``since`` on; returns the next offset."""
    reached = 0
    for row in rows:
        found.records += row.records
        found.bytes += row.bytes
        wanted, first = max(reached, since), row.first_offset
        if first > wanted:
            found.fault(f"offsets {wanted} to {first - 1} are in no minute", records=first - wanted)
        elif first < reached:
            found.fault(
                f"offsets {first} to {reached - 1} are in two minutes", records=reached - first
            )
        if row.records != row.next_offset - row.first_offset:
            wrong = row.records - (row.next_offset - row.first_offset)
            found.fault(
                f"{_at(row)}: {row.records} records do not match its offsets", records=wrong
            )
        reached = max(reached, row.next_offset)
    return reached


def _check_minutes(
    found: PartitionResult, log: LogUsage, rows: Sequence[MinuteUse], reached: int
) -> None:
    """Compare each complete minute of the log that the table must have."""
    table = {row.minute_ms: row for row in rows}
    chained = not found.difference_records
    for minute in log.minutes:
        if minute.next_offset > reached:
            break  # at least its end is pending
        row = table.get(minute.minute_ms)
        if row == minute:
            found.minutes_compared += 1
        elif row is None:
            records = minute.records if chained else 0  # otherwise the gap was counted already
            found.fault(f"{_at(minute)} is missing", records=records, count=minute.bytes)
        elif row.first_offset < minute.first_offset == log.start_offset:
            _check_cut(found, row, minute)
        else:
            _note_deviation(found, row, minute, chained=chained)


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
