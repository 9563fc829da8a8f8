"""The rate of administrative changes: one token bucket per tenant on each server.

Every use case that writes a record of a topic, table, grant or topic group asks first. Such a write
costs a synced change of the MetaStore, which all tenants share, and every server follows it.
Administrators of the service are not limited.
"""

import asyncio

from opentalos.catalog.quota.throttle import BURST_S, DELAY_MIN_S, Bucket, charge, refund, reject
from opentalos.model.identity import Principal
from opentalos.model.limits import QuotaLimits

TENANTS_MAX = 10_000  # with buckets in memory; beyond it full ones are dropped
HELD_MAX = 1_000  # calls that are delayed at once, whole server; more are rejected


class ChangeRates:
    """Delays a call over its tenant's rate, then rejects it."""

    def __init__(self, limits: QuotaLimits) -> None:
        self._rate, self._delay_max_s = limits.tenant_changes_per_s, limits.throttle_max_s
        self._buckets: dict[str, Bucket] = {}  # by tenant
        self._held = 0

    async def admit(self, caller: Principal) -> None:
        """Charge one change to the caller's tenant; return when it may be done.

        Raises: ThrottleRejected: the delay would be too long; nothing charged.
        """
        if not self._rate or caller.admin:
            return
        buckets = (self._of(caller.owner_id),)
        now_s = asyncio.get_running_loop().time()
        delay_s = charge(buckets, now_s, 1)
        if delay_s <= DELAY_MIN_S:
            return
        if delay_s > self._delay_max_s or self._held >= HELD_MAX:
            refund(buckets, 1)
            reject(buckets, now_s)
        self._held += 1
        try:
            await asyncio.sleep(delay_s)
        finally:
            self._held -= 1

    def _of(self, tenant: str) -> Bucket:
        bucket = self._buckets.get(tenant)
        if bucket is None:
            if len(self._buckets) >= TENANTS_MAX:
                self._drop_full()
            bucket = Bucket(f"changes by {tenant}", "changes/s", self._rate)
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
