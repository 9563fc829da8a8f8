"""Read and write units of tables: two token buckets per table on each server."""

import asyncio
from dataclasses import dataclass

from opentalos.catalog.quota.throttle import DELAY_MIN_S, Bucket, charge, refund, reject
from opentalos.catalog.tables.table import Table
from opentalos.model.sds_limits import SdsLimits

TABLES_MAX = 10_000  # with buckets in memory; beyond it all are dropped


@dataclass(slots=True)
class TableRateCounters:
    """Over all tables, since the start."""

    read_units: int = 0
    write_units: int = 0
    held: int = 0  # calls
    rejected: int = 0  # calls


class TableRates:
    """Decides how long a call is delayed; the caller waits."""

    def __init__(self, limits: SdsLimits) -> None:
        self._limits = limits
        self.counters = TableRateCounters()
        self._buckets: dict[str, tuple[Bucket, Bucket]] = {}  # reads, writes; by table uuid

    def admit(self, table: Table, reads: int, writes: int, delay_max_s: float) -> float:
        """Charge a call; return the seconds to delay it (0.0: no delay).

        Raises: ThrottleRejected: the delay would exceed ``delay_max_s``; nothing charged.
        """
        read, write = self._of(table)
        buckets = (*((read,) if reads else ()), *((write,) if writes else ()))
        now_s = asyncio.get_running_loop().time()
        units = {read: reads, write: writes}
        delay_s = max((charge((bucket,), now_s, units[bucket]) for bucket in buckets), default=0.0)
        if delay_s > delay_max_s and delay_s > DELAY_MIN_S:
            for bucket in buckets:
                refund((bucket,), units[bucket])
            self.counters.rejected += 1
            reject(buckets, now_s)
        self.counters.read_units += reads
        self.counters.write_units += writes
        if delay_s <= DELAY_MIN_S:
            return 0.0
        self.counters.held += 1
        return delay_s

    def admit_now(self, table: Table, reads: int, writes: int) -> bool:
        """Charge a call if it needs no delay. False: nothing charged."""
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
        """Charge reads that were done; return the seconds until the bucket refills."""
        bucket = self._of(table)[0]
        now_s = asyncio.get_running_loop().time()
        charge((bucket,), now_s, reads)
        self.counters.read_units += reads
        return max(0.0, bucket.spent_until_s - now_s)

    def forget(self, table_uuid: str) -> None:
        """Drop the buckets of a deleted table."""
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
