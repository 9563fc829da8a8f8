"""What a tenant's leases become when one is taken, renewed or released. Pure.

A lease says who may act under a name, until it expires. That alone keeps nobody from acting late: a
paused holder does not notice that its time is over. So each change of the holder has a higher
epoch, and whatever the holder writes refuses an epoch below the highest it has seen.

All leases of a tenant are one record with one counter, so an epoch never returns, not even after a
lease was released. A record has no time: whether a lease has expired is what ``leases`` observes.
"""

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final

from opentalos.catalog.records.record_format import decode_record, encode_record
from opentalos.model.errors import BadRequest, LeaseHeld, LeaseNotHeld, QuotaExceeded
from opentalos.model.names import check_name

FORMAT_VERSION: Final = 1
LEASES_MAX: Final = 100  # of one tenant: their record is rewritten by each renewal
HOLDER_CHARS_MAX: Final = 200
TTL_MS_MIN: Final = 1_000
TTL_MS_MAX: Final = 3_600_000
EPOCH_SEEN_MAX: Final = 1 << 53  # that a holder may name; far below the 64 bits of an epoch


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A lease that is held, or was and expired. ``renewals``: since this holder has it."""

    name: str
    holder: str
    epoch: int
    ttl_ms: int
    renewals: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRequest:
    """Who wants a lease, and for how long it is not renewed at most.

    Args:   holder: unique to a process, so that a later one of the same host is another holder;
            seen: the highest epoch that this holder knows, by which an epoch is granted that is
            higher also if the service was restored from an older backup or replaced.
    Raises: InvalidName, BadRequest.
    """

    name: str
    holder: str
    ttl_ms: int
    seen: int = 0

    def __post_init__(self) -> None:
        check_name(self.name, "lease name")
        printable = self.holder.isascii() and self.holder.isprintable()
        if not (0 < len(self.holder) <= HOLDER_CHARS_MAX and printable):
            raise BadRequest(
                f"a holder must have 1 to {HOLDER_CHARS_MAX} printable ASCII characters"
            )
        if not TTL_MS_MIN <= self.ttl_ms <= TTL_MS_MAX:
            raise BadRequest(f"ttl_ms must be {TTL_MS_MIN} to {TTL_MS_MAX}, not {self.ttl_ms}")
        if not 0 <= self.seen <= EPOCH_SEEN_MAX:
            raise BadRequest(f"an epoch must be 0 to {EPOCH_SEEN_MAX}, not {self.seen}")


@dataclass(frozen=True, slots=True)
class TenantLeases:
    """A tenant's record. ``epoch``: the highest that any of its leases ever had."""

    epoch: int = 0
    leases: Mapping[str, Lease] = field(default_factory=lambda: MappingProxyType({}))


NO_LEASES: Final = TenantLeases()


def taken(stored: TenantLeases, request: LeaseRequest, *, expired: Collection[str]) -> TenantLeases:
    """The record after a holder took the lease; one that has it already only renews it.

    Args:   expired: names of stored leases; they are dropped if there are too many leases.
    Raises: LeaseHeld, QuotaExceeded.
    """
    now = stored.leases.get(request.name)
    if now is not None and now.holder == request.holder and request.seen <= now.epoch:
        return _with(stored, replace(now, ttl_ms=request.ttl_ms, renewals=now.renewals + 1))
    if now is not None and now.holder != request.holder and request.name not in expired:
        raise held(now)
    leases = {name: lease for name, lease in stored.leases.items() if name != request.name}
    if len(leases) >= LEASES_MAX:
        leases = {name: lease for name, lease in leases.items() if name not in expired}
    if len(leases) >= LEASES_MAX:
        raise QuotaExceeded(
            f"leases: limit {LEASES_MAX}, measured {len(leases)}; release unused ones"
        )
    epoch = max(stored.epoch, request.seen) + 1
    lease = Lease(name=request.name, holder=request.holder, epoch=epoch, ttl_ms=request.ttl_ms)
    return _with(TenantLeases(epoch, leases), lease)


def renewed(stored: TenantLeases, request: LeaseRequest, epoch: int) -> TenantLeases:
    """The record after a renewal. Raises: LeaseNotHeld: another holder took it, or nobody has it.

    One that expired may be renewed as long as nobody took it: no other epoch was granted since.
    """
    now = stored.leases.get(request.name)
    if now is None or (now.holder, now.epoch) != (request.holder, epoch):
        raise not_held(request.name, epoch, now)
    return _with(stored, replace(now, ttl_ms=request.ttl_ms, renewals=now.renewals + 1))


def released(stored: TenantLeases, name: str, epoch: int | None) -> TenantLeases:
    """The record without the lease; without an ``epoch`` whoever holds it.

    Raises: LeaseNotHeld: it is not held under that epoch.
    """
    now = stored.leases.get(name)
    if now is None or epoch not in (None, now.epoch):
        raise not_held(name, epoch, now)
    left = {key: lease for key, lease in stored.leases.items() if key != name}
    return replace(stored, leases=left)


def held(lease: Lease) -> LeaseHeld:
    """The error for a lease of another holder."""
    return LeaseHeld(
        f"lease {lease.name} is held by {lease.holder} under epoch {lease.epoch}; it is free when "
        f"it was not renewed for {lease.ttl_ms} ms"
    )


def not_held(name: str, epoch: int | None, now: Lease | None) -> LeaseNotHeld:
    """The error for a lease that the caller does not hold."""
    which = f"lease {name}" if epoch is None else f"epoch {epoch} of lease {name}"
    holds = "nobody holds it" if now is None else f"{now.holder} holds it under epoch {now.epoch}"
    return LeaseNotHeld(f"{which} is not held: {holds}; stop what it allowed, and take it again")


def encode_leases(stored: TenantLeases) -> bytes:
    """The record's value."""
    leases = [asdict(lease) for lease in stored.leases.values()]
    return encode_record(FORMAT_VERSION, epoch=stored.epoch, leases=leases)


def decode_leases(value: bytes) -> TenantLeases:
    """Read a record. Raises: NewerFormat, CorruptLog."""
    return decode_record(value, FORMAT_VERSION, "leases", _parse)


def _parse(record: Any) -> TenantLeases:
    leases = [Lease(**fields) for fields in record["leases"]]
    return TenantLeases(int(record["epoch"]), {lease.name: lease for lease in leases})


def _with(stored: TenantLeases, lease: Lease) -> TenantLeases:
    return replace(stored, leases={**stored.leases, lease.name: lease})
