"""Read and write units of tables: two token buckets per table, on each server for itself."""

import asyncio
from dataclasses import dataclass

from opentalos.catalog.quota.throttle import HOLD_MIN_S, Bucket, charge, refund, reject
from opentalos.catalog.tables.table import Table
from opentalos.model.limits import SdsLimits

TABLES_MAX = 10_000  # with buckets at hand; above it they start anew


@dataclass(slots=True)
class TableRateCounters:
    """Over all tables, since the start."""

    read_units: int = 0
    write_units: int = 0
    held: int = 0  # calls
    rejected: int = 0  # calls


class TableRates:
    """Decides how long a call is held; whoever asks does the holding."""

    def __init__(self, limits: SdsLimits) -> None:
        self._limits = limits
        self.counters = TableRateCounters()
        self._buckets: dict[str, tuple[Bucket, Bucket]] = {}  # reads, writes; by table uuid

    def admit(self, table: Table, reads: int, writes: int, hold_max_s: float) -> float:
        """Charge a call; return the seconds to hold it before it is done (0.0: go).

        Raises: ThrottleRejected: it would be held for longer; nothing charged.
        """
        read, write = self._of(table)
        buckets = (*((read,) if reads else ()), *((write,) if writes else ()))
        now_s = asyncio.get_running_loop().time()
        units = {read: reads, write: writes}
        hold_s = max((charge((one,), now_s, units[one]) for one in buckets), default=0.0)
        if hold_s > hold_max_s and hold_s > HOLD_MIN_S:
            for one in buckets:
                refund((one,), units[one])
            self.counters.rejected += 1
            reject(buckets, now_s)
        self.counters.read_units += reads
        self.counters.write_units += writes
        if hold_s <= HOLD_MIN_S:
            return 0.0
        self.counters.held += 1
        return hold_s

    def admit_now(self, table: Table, reads: int, writes: int) -> bool:
        """Charge a call if it need not be held at all. False: nothing charged."""
        read, write = self._of(table)
        now_s = asyncio.get_running_loop().time()
        if (reads and read.spent_until_s > now_s) or (writes and write.spent_until_s > now_s):
            return False
        if reads:
            charge((read,), now_s, reads)
            self.counters.read_units += reads
        if writes:
            charge((write,), now_s, writes)
            self.counters.write_units += writes
        return True

    def charge_reads(self, table: Table, reads: int) -> float:
        """Charge reads that were done; return by how many seconds the table is in debt now."""
        bucket = self._of(table)[0]
        now_s = asyncio.get_running_loop().time()
        charge((bucket,), now_s, reads)
        self.counters.read_units += reads
        return max(0.0, bucket.spent_until_s - now_s)

    def forget(self, table_uuid: str) -> None:
        """A table is gone."""
        self._buckets.pop(table_uuid, None)

    def _of(self, table: Table) -> tuple[Bucket, Bucket]:
        limits = self._limits
        reads = table.read_capacity or limits.read_units_per_s
        writes = table.write_capacity or limits.write_units_per_s
        found = self._buckets.get(table.uuid)
        if found is None or (found[0].limit, found[1].limit) != (reads, writes):
            if len(self._buckets) >= TABLES_MAX:
                self._buckets.clear()
            found = self._buckets[table.uuid] = (
                Bucket(f"reads of table {table.name}", "units/s", reads),
                Bucket(f"writes of table {table.name}", "units/s", writes),
            )
        return found
