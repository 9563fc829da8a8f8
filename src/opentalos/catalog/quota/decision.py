"""Whether a partition request is granted, rejected or requires manual approval. Pure.

A request is compared with what the tenant's projected traffic needs, and the cluster's capacity
with what is granted already. Every decision names its numbers, so that the requester can check it.
"""

import math
from dataclasses import dataclass
from enum import Enum

from opentalos.catalog.quota.projection import Projection
from opentalos.model.limits import QuotaApprovalLimits

_UNITS = ((1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s"))


class Outcome(Enum):
    """The outcome of a request."""

    APPROVE = "approve"
    HUMAN = "human"
    REJECT = "reject"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A tenant's request for ``total`` partitions; its quota now is ``in_force``."""

    total: int
    in_force: int
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """The use of all other tenants: partitions, and bytes/s at their peaks."""

    partitions: int = 0
    bytes_per_s: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """An outcome and its reason. ``approvable``: the largest total that is granted automatically.

    ``granted``: newly granted partitions, 0 for none; ``bytes_per_s``: the traffic that
    they are granted for.
    """

    outcome: Outcome
    reason: str
    approvable: int
    granted: int = 0
    bytes_per_s: int = 0


@dataclass(frozen=True, slots=True)
class _Need:
    """Limits by traffic: granted up to ``grant``, rejected above ``reject``."""

    grant: int
    reject: float  # infinite without history
    bytes_per_s: int | None  # None: the capacity of the requested partitions
    numbers: str
    why: str  # manual approval is required between the two limits


def decide(
    request: Request, projection: Projection | None, taken: Taken, limits: QuotaApprovalLimits
) -> Decision:
    """The outcome; a larger total never has a better one.

    Args: projection: of the tenant, or None. taken: by all other tenants.
    """
    need = _need(request, projection, limits)
    room = _Room(taken, limits)
    approvable = max(request.in_force, min(need.grant, room.partitions_for(need.bytes_per_s)))
    if request.total <= request.in_force:
        reason = f"your quota is already {_partitions(request.in_force)}; nothing changes"
        return Decision(outcome=Outcome.APPROVE, reason=reason, approvable=approvable)
    asked = f"{need.numbers}; you requested {request.total}"
    never = room.never(request.total, need.bytes_per_s)
    if never or request.total > need.reject:
        why = f"; {never}" if never else ""
        reason = f"{asked}{why}; up to {approvable} would be granted automatically"
        return Decision(outcome=Outcome.REJECT, reason=reason, approvable=approvable)
    if request.total > need.grant:
        return Decision(outcome=Outcome.HUMAN, reason=f"{asked}; {need.why}", approvable=approvable)
    claim = room.claim(request.total, need.bytes_per_s)
    lacking = room.lacking(request.total, claim)
    if lacking:
        return Decision(outcome=Outcome.HUMAN, reason=f"{asked}; {lacking}", approvable=approvable)
    return Decision(
        outcome=Outcome.APPROVE, reason=f"{asked}; granted", approvable=approvable,
        granted=request.total,
        bytes_per_s=claim,
    )  # fmt: skip


def carried(partitions: int, limits: QuotaApprovalLimits) -> int:
    """The traffic in bytes/s that this many partitions can carry."""
    return int(partitions * limits.partition_bytes_per_s / (1 + limits.reserve))


def needed(bytes_per_s: int, limits: QuotaApprovalLimits) -> int:
    """Partitions needed for this traffic."""
    planned = bytes_per_s * (1 + limits.reserve) / limits.partition_bytes_per_s
    return max(1, math.ceil(planned))


def rate(bytes_per_s: float) -> str:
    """Bytes per second with a unit, such as "3.1 MB/s"."""
    for size, unit in _UNITS:
        if bytes_per_s >= size:
            return f"{bytes_per_s / size:.1f} {unit}"
    return f"{bytes_per_s:.0f} B/s"


def usable(projection: Projection | None, now_ms: int, limits: QuotaApprovalLimits) -> bool:
    """Whether a projection is recent enough and based on enough history."""
    return (
        projection is not None
        and projection.age_days(now_ms) <= limits.projection_age_max_days
        and projection.days >= limits.history_days_min
    )


def _need(request: Request, projection: Projection | None, limits: QuotaApprovalLimits) -> _Need:
    if projection is None:
        return _small("the history of your traffic is unknown", 0, limits)
    age = projection.age_days(request.at_ms)
    if age > limits.projection_age_max_days:
        numbers = (
            f"the last projection of your traffic is {age:.1f} days old; the limit is "
            f"{limits.projection_age_max_days} days"
        )
        return _small(numbers, 0, limits)
    if projection.days < limits.history_days_min:
        numbers = (
            f"your traffic is known for {projection.days} days, which peaked at "
            f"{rate(projection.peak)}, and {limits.history_days_min} days are needed to project it"
        )
        return _small(numbers, projection.repeated_peak, limits)
    return _projected(request, projection, limits)


def _partitions(count: int) -> str:
    return f"{count} partition" if count == 1 else f"{count} partitions"


def _small(numbers: str, seen: int, limits: QuotaApprovalLimits) -> _Need:
    """Without a projection: the floor, or the need of traffic that occurred on two days."""
    grant = limits.floor_partitions
    if seen:
        grant = max(grant, int(limits.slack * needed(seen, limits)))
    why = f"more than {_partitions(grant)} requires manual approval"
    return _Need(grant, math.inf, None, numbers, why)


def _projected(request: Request, projection: Projection, limits: QuotaApprovalLimits) -> _Need:
    floor, days = limits.floor_partitions, limits.horizon_days
    high = projection.expected(request.at_ms, days, limits.spreads)
    flat = projection.expected(request.at_ms, days, limits.spreads, growing=False)
    need = needed(high, limits)
    grant = int(limits.slack * need)
    why = "that is more than the history of your traffic shows, which requires manual approval"
    if high > limits.growth_max * flat:
        grant = int(limits.slack * needed(flat, limits))
        why = (
            f"growth from {rate(flat)} within {days} days is too strong for an automatic grant; it "
            "requires manual approval"
        )
    numbers = (
        f"your traffic peaked at {rate(projection.peak)} in the last 28 days and is expected to "
        f"reach {rate(high)} within {days} days; that needs {_partitions(need)} at "
        f"{rate(limits.partition_bytes_per_s)} each with {100 * limits.reserve:.0f} % reserve"
    )
    # Traffic of a single peak is real, though it may have been an accident.
    seen = needed(max(high, projection.peak), limits)
    return _Need(max(floor, grant), max(floor, seen * limits.exaggeration), high, numbers, why)


class _Room:
    """The capacity of the cluster that is left for automatic grants."""

    def __init__(self, taken: Taken, limits: QuotaApprovalLimits) -> None:
        self._limits, self._taken = limits, taken
        self._known = limits.capacity_partitions > 0 and limits.capacity_bytes_per_s > 0
        self._partitions: float = math.inf  # for all tenants together
        self._bytes_per_s: float = math.inf
        if limits.capacity_partitions:
            self._partitions = limits.capacity_partitions * limits.fill_max
        if limits.capacity_bytes_per_s:
            self._bytes_per_s = limits.capacity_bytes_per_s * limits.fill_max

    def claim(self, total: int, expected: int | None) -> int:
        """The bytes/s that a grant claims: the capacity of its partitions, or more if expected.

        Partitions of the floor claim only the expected traffic, if it is known.
        """
        if expected is not None and total <= self._limits.floor_partitions:
            return expected
        return max(carried(total, self._limits), expected or 0)

    def partitions_for(self, expected: int | None) -> int:
        """The most partitions that fit, for a tenant with this expected traffic."""
        limits = self._limits
        most = self._partitions - self._taken.partitions
        if not self._known:
            most = min(most, limits.floor_partitions)
        free = self._bytes_per_s - self._taken.bytes_per_s
        if (expected or 0) > free:
            return 0
        if free < math.inf:
            fitting = free * (1 + limits.reserve) / limits.partition_bytes_per_s
            if expected is not None:
                fitting = max(fitting, limits.floor_partitions)
            most = min(most, fitting)
        return max(0, math.floor(most))

    def never(self, total: int, claim: int | None) -> str:
        """Why this many partitions can never fit; empty if they might."""
        limits = self._limits
        if limits.capacity_partitions and total > limits.capacity_partitions:
            return f"the whole cluster has a capacity of {_partitions(limits.capacity_partitions)}"
        most = limits.capacity_bytes_per_s
        if most and claim is None and carried(total, limits) > most:
            return f"they carry more than the whole cluster, whose capacity is {rate(most)}"
        return ""

    def lacking(self, total: int, claim: int) -> str:
        """Why a grant requires manual approval; empty if it fits."""
        limits, taken = self._limits, self._taken
        if not self._known and total > limits.floor_partitions:
            return (
                "the capacity of this cluster is not configured, so more than "
                f"{_partitions(limits.floor_partitions)} requires manual approval"
            )
        if taken.partitions + total > self._partitions:
            return (
                f"others hold {taken.partitions} of the {limits.capacity_partitions} partitions "
                f"of this cluster, {100 * limits.fill_max:.0f} % of which may be granted "
                "automatically; more requires manual approval"
            )
        if taken.bytes_per_s + claim > self._bytes_per_s:
            return (
                f"others are expected to need {rate(taken.bytes_per_s)} of the "
                f"{rate(limits.capacity_bytes_per_s)} of this cluster, "
                f"{100 * limits.fill_max:.0f} % of which may be granted automatically; more "
                "requires manual approval"
            )
        return ""
