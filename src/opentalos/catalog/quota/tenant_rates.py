"""Rates of what a tenant does to administer its resources: a token bucket each, on each server.

Changes: every use case that writes a record of a topic, table, grant or topic group asks first.
Such a write costs a synced change of the MetaStore, which all tenants share, and every server
follows it. Items: the gateway for Kafka asks before it answers a call that names groups or
resources, as many as a client likes. Administrators of the service are not limited.
"""

import asyncio

from opentalos.catalog.quota.throttle import BURST_S, DELAY_MIN_S, Bucket, charge, refund, reject
from opentalos.model.identity import Principal

TENANTS_MAX = 10_000  # with buckets in memory; beyond it full ones are dropped
HELD_MAX = 1_000  # calls that are delayed at once, whole server; more are rejected


class TenantRates:
    """Delays a call over its tenant's rate, then rejects it.

    Args: what: is counted, for texts. rate: units per second of each tenant; 0: no limit.
        delay_max_s: a call that would have to wait longer is rejected.
    """

    def __init__(self, what: str, rate: int, delay_max_s: float) -> None:
        self._what, self._rate, self._delay_max_s = what, rate, delay_max_s
        self._buckets: dict[str, Bucket] = {}  # by tenant
        self._held = 0

    async def admit(self, caller: Principal, units: int = 1) -> None:
        """Charge units to the caller's tenant; return when the work may be done.

        Raises: ThrottleRejected: the delay would be too long; nothing charged.
        """
        if not self._rate or caller.admin:
            return
        buckets = (self._of(caller.owner_id),)
        now_s = asyncio.get_running_loop().time()
        delay_s = charge(buckets, now_s, units)
        if delay_s <= DELAY_MIN_S:
            return
        if delay_s > self._delay_max_s or self._held >= HELD_MAX:
            refund(buckets, units)
            reject(buckets, now_s)
        self._held += 1
        try:
            await asyncio.sleep(delay_s)
        finally:
            self._held -= 1

    def add(self, caller: Principal, units: int) -> None:
        """Charge what a call turned out to cost; the tenant's next ones are delayed for it."""
        if self._rate and not caller.admin:
            charge((self._of(caller.owner_id),), asyncio.get_running_loop().time(), units)

    def _of(self, tenant: str) -> Bucket:
        bucket = self._buckets.get(tenant)
        if bucket is None:
            if len(self._buckets) >= TENANTS_MAX:
                self._drop_full()
            bucket = Bucket(f"{self._what} by {tenant}", f"{self._what}/s", self._rate)
            self._buckets[tenant] = bucket
        return bucket

    def _drop_full(self) -> None:
        """A full bucket equals a new one."""
        earliest_s = asyncio.get_running_loop().time() - BURST_S
        self._buckets = {
            tenant: bucket
            for tenant, bucket in self._buckets.items()
            if bucket.spent_until_s > earliest_s
        }
