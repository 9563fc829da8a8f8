"""Read and write units of tables: token buckets per table and per owner on each server.

An owner decides the capacity of its tables, so they share a bucket that its operator decides.
"""

import asyncio
from dataclasses import dataclass

from opentalos.catalog.quota.throttle import DELAY_MIN_S, Bucket, charge, refund, reject
from opentalos.catalog.tables.table import Table
from opentalos.model.settings.tables import SdsLimits

TABLES_MAX = 10_000  # with buckets in memory, and as many owners; beyond it all are dropped
_Buckets = tuple[Bucket, ...]  # of a table, and of its owner if it has a limit


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
        self._buckets: dict[str, tuple[_Buckets, _Buckets]] = {}  # reads, writes; by table uuid
        self._of_owners: dict[str, tuple[_Buckets, _Buckets]] = {}

    def admit(self, table: Table, reads: int, writes: int, delay_max_s: float) -> float:
        """Charge a call; return the seconds to delay it (0.0: no delay).

        Raises: ThrottleRejected: the delay would exceed ``delay_max_s``; nothing charged.
        """
        of_reads, of_writes = self._of(table)
        used = [
            (buckets, units) for buckets, units in ((of_reads, reads), (of_writes, writes)) if units
        ]
        now_s = asyncio.get_running_loop().time()
        delay_s = max((charge(buckets, now_s, units) for buckets, units in used), default=0.0)
        if delay_s > delay_max_s and delay_s > DELAY_MIN_S:
            for buckets, units in used:
                refund(buckets, units)
            self.counters.rejected += 1
            reject(tuple(bucket for buckets, _ in used for bucket in buckets), now_s)
        self.counters.read_units += reads
        self.counters.write_units += writes
        if delay_s <= DELAY_MIN_S:
            return 0.0
        self.counters.held += 1
        return delay_s

    def admit_now(self, table: Table, reads: int, writes: int) -> bool:
        """Charge a call if it needs no delay. False: nothing charged."""
        of_reads, of_writes = self._of(table)
        now_s = asyncio.get_running_loop().time()
        if (reads and _spent(of_reads, now_s)) or (writes and _spent(of_writes, now_s)):
            return False
        if reads:
            charge(of_reads, now_s, reads)
            self.counters.read_units += reads
        if writes:
            charge(of_writes, now_s, writes)
            self.counters.write_units += writes
        return True

    def charge_reads(self, table: Table, reads: int) -> float:
        """Charge reads that were done; return the seconds until the buckets refill."""
        buckets = self._of(table)[0]
        now_s = asyncio.get_running_loop().time()
        charge(buckets, now_s, reads)
        self.counters.read_units += reads
        return max(0.0, *(bucket.spent_until_s - now_s for bucket in buckets))

    def forget(self, table_uuid: str) -> None:
        """Drop the buckets of a deleted table."""
        self._buckets.pop(table_uuid, None)

    def _of(self, table: Table) -> tuple[_Buckets, _Buckets]:
        limits = self._limits
        reads = table.read_capacity or limits.read_units_per_s
        writes = table.write_capacity or limits.write_units_per_s
        found = self._buckets.get(table.uuid)
        if found is None or (found[0][0].limit, found[1][0].limit) != (reads, writes):
            if len(self._buckets) >= TABLES_MAX:
                self._buckets.clear()
            owner_reads, owner_writes = self._of_owner(table.owner)
            found = self._buckets[table.uuid] = (
                (Bucket(f"reads of table {table.name}", "units/s", reads), *owner_reads),
                (Bucket(f"writes of table {table.name}", "units/s", writes), *owner_writes),
            )
        return found

    def _of_owner(self, owner: str) -> tuple[_Buckets, _Buckets]:
        found = self._of_owners.get(owner)
        if found is None:
            if len(self._of_owners) >= TABLES_MAX:
                self._of_owners.clear()
            limits = self._limits
            found = self._of_owners[owner] = (
                _limited(f"reads of all tables of {owner}", limits.user_read_units_per_s),
                _limited(f"writes of all tables of {owner}", limits.user_write_units_per_s),
            )
        return found


def _limited(name: str, limit: int) -> _Buckets:
    return (Bucket(name, "units/s", limit),) if limit else ()


def _spent(buckets: _Buckets, now_s: float) -> bool:
    for bucket in buckets:  # any() with a generator costs more than the check
        if bucket.spent_until_s > now_s:
            return True
    return False
