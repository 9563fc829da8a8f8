"""The leases of all tenants, one record each in the MetaStore, changed only by compare-and-set.

Any server answers for any lease, since each call reads the record again. Whether a lease has
expired needs no wall clock, which might be wrong: a server counts one as expired when it has seen
the same renewal for the whole ttl by its loop's clock. Its holder counts the same ttl from before
it sent that renewal, so it stops first, unless it is paused or its clock runs slower; then the
epoch protects what it writes. A server that has just started has to wait for the ttl again.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from opentalos.catalog.leases.lease import (
    NO_LEASES,
    Lease,
    LeaseRequest,
    TenantLeases,
    decode_leases,
    encode_leases,
    held,
    released,
    renewed,
    taken,
)
from opentalos.catalog.records.record_index import record_path
from opentalos.model.errors import AlreadyExists, StoreUnavailable, VersionConflict
from opentalos.ports.meta_store import MetaStore

PREFIX: Final = "leases"
CAS_ATTEMPTS_MAX: Final = 16  # against renewals of the same tenant
OBSERVED_MAX: Final = 20_000  # leases; a forgotten one is observed again, so it expires later
_MS_PER_S: Final = 1_000


class ObservedLease(NamedTuple):
    """A lease, and for how long this server has seen no renewal of it."""

    lease: Lease
    unrenewed_ms: int

    @property
    def expired(self) -> bool:
        """Whether another holder may take it."""
        return self.unrenewed_ms >= self.lease.ttl_ms


@dataclass(frozen=True, slots=True)
class _Seen:
    epoch: int
    renewals: int
    since_s: float  # on the loop's clock


class _Observations:
    """Since when this server has seen the current renewal of each lease."""

    def __init__(self) -> None:
        self._seen: OrderedDict[tuple[str, str], _Seen] = OrderedDict()

    def observe(self, owner: str, lease: Lease) -> ObservedLease:
        """The lease as it is stored now."""
        key, now_s = (owner, lease.name), asyncio.get_running_loop().time()
        seen = self._seen.get(key)
        if seen is None or (seen.epoch, seen.renewals) != (lease.epoch, lease.renewals):
            seen = self._seen[key] = _Seen(lease.epoch, lease.renewals, now_s)
            if len(self._seen) > OBSERVED_MAX:
                self._seen.popitem(last=False)
        self._seen.move_to_end(key)
        return ObservedLease(lease, int((now_s - seen.since_s) * _MS_PER_S))


class LeaseCatalog:
    """Takes, renews and releases leases by the decisions of ``lease``."""

    def __init__(self, meta: MetaStore) -> None:
        self._meta = meta
        self._observations = _Observations()

    async def all(self, owner: str) -> Sequence[ObservedLease]:
        """A tenant's leases by name. Raises: Unavailable, NewerFormat, CorruptLog."""
        stored, _ = await self._load(owner)
        return [
            self._observations.observe(owner, lease) for _, lease in sorted(stored.leases.items())
        ]

    async def check_free(self, owner: str, request: LeaseRequest) -> None:
        """Return if the holder may take the lease now. Raises: LeaseHeld; as ``all``."""
        for found in await self.all(owner):
            lease = found.lease
            if lease.name == request.name and lease.holder != request.holder:
                if not found.expired:
                    raise held(lease)

    async def take(self, owner: str, request: LeaseRequest) -> Lease:
        """Take the lease if it is free, expired or the holder's own.

        Raises: LeaseHeld, QuotaExceeded; StoreUnavailable: too many changes at the same time;
            OutcomeUnknown: a repetition by the same holder finds out.
        """

        def change(stored: TenantLeases) -> TenantLeases:
            seen = [self._observations.observe(owner, each) for each in stored.leases.values()]
            expired = {found.lease.name for found in seen if found.expired}
            return taken(stored, request, expired=expired)

        return (await self._change(owner, change)).leases[request.name]

    async def renew(self, owner: str, request: LeaseRequest, epoch: int) -> Lease:
        """Renew the lease that is held under ``epoch``. Raises: LeaseNotHeld; as ``take``."""
        stored = await self._change(owner, lambda stored: renewed(stored, request, epoch))
        return stored.leases[request.name]

    async def release(self, owner: str, name: str, epoch: int | None) -> None:
        """Make it free at once; without an ``epoch`` whoever holds it.

        Raises: LeaseNotHeld; as ``take``.
        """
        await self._change(owner, lambda stored: released(stored, name, epoch))

    async def _change(
        self, owner: str, change: Callable[[TenantLeases], TenantLeases]
    ) -> TenantLeases:
        path = record_path(PREFIX, owner)
        for _ in range(CAS_ATTEMPTS_MAX):
            stored, version = await self._load(owner)
            after = change(stored)
            content = encode_leases(after)
            try:
                if version is None:
                    await self._meta.create(path, content)
                else:
                    await self._meta.replace(path, content, version)
            except (AlreadyExists, VersionConflict):
                continue
            for lease in after.leases.values():
                self._observations.observe(owner, lease)
            return after
        raise StoreUnavailable(
            f"could not change the leases of {owner}: too many concurrent changes; retry"
        )

    async def _load(self, owner: str) -> tuple[TenantLeases, int | None]:
        """The record and its version; None: there is none."""
        record = await self._meta.get(record_path(PREFIX, owner))
        if record is None:
            return NO_LEASES, None
        return decode_leases(record.value), record.version
