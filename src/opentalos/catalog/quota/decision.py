"""Whether a request for partitions is granted, rejected or left to a person. Pure.

A request is compared with what the tenant's projected traffic needs, and the cluster's capacity
with what is given away already. Every answer has its numbers, so that whoever asked can check it.
"""

import math
from dataclasses import dataclass
from enum import Enum

from opentalos.catalog.quota.projection import Projection
from opentalos.model.limits import QuotaApprovalLimits

_UNITS = ((1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s"))


class Outcome(Enum):
    """What becomes of a request."""

    APPROVE = "approve"
    HUMAN = "human"
    REJECT = "reject"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a tenant asks for: ``total`` partitions, ``in_force`` of which it may have now."""

    total: int
    in_force: int
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What all others hold of the cluster: partitions, and bytes/s at their peaks."""

    partitions: int = 0
    bytes_per_s: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """An outcome and its reason. ``approvable``: the largest total that would be granted now.

    ``granted``: partitions that are granted anew, 0 for none; ``bytes_per_s``: the traffic that
    they are granted for.
    """

    outcome: Outcome
    reason: str
    approvable: int
    granted: int = 0
    bytes_per_s: int = 0


@dataclass(frozen=True, slots=True)
class _Need:
    """Bounds that traffic sets: granted up to ``grant``, rejected above ``reject``."""

    grant: int
    reject: float  # infinite where there is nothing to go by
    bytes_per_s: int | None  # None: what the partitions that were asked for can carry
    told: str  # the numbers
    why: str  # a person decides between the two


def decide(
    request: Request, projection: Projection | None, taken: Taken, limits: QuotaApprovalLimits
) -> Decision:
    """The outcome; with a larger total it never becomes better.

    Args: projection: of the tenant, None if there is none. taken: by all other tenants.
    """
    need = _need(request, projection, limits)
    room = _Room(taken, limits)
    approvable = max(request.in_force, min(need.grant, room.partitions_for(need.bytes_per_s)))
    if request.total <= request.in_force:
        reason = f"you may have {request.in_force} partitions already; nothing changes"
        return Decision(outcome=Outcome.APPROVE, reason=reason, approvable=approvable)
    asked = f"{need.told}; you asked for {request.total}"
    never = room.never(request.total, need.bytes_per_s)
    if never or request.total > need.reject:
        why = f"; {never}" if never else ""
        reason = f"{asked}{why}; up to {approvable} would be granted at once"
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
    """Traffic that so many partitions are enough for, in bytes/s."""
    return int(partitions * limits.partition_bytes_per_s / (1 + limits.reserve))


def needed(bytes_per_s: int, limits: QuotaApprovalLimits) -> int:
    """Partitions that are enough for so much traffic."""
    planned = bytes_per_s * (1 + limits.reserve) / limits.partition_bytes_per_s
    return max(1, math.ceil(planned))


def rate(bytes_per_s: float) -> str:
    """Bytes per second as people read them, such as "3.1 MB/s"."""
    for size, unit in _UNITS:
        if bytes_per_s >= size:
            return f"{bytes_per_s / size:.1f} {unit}"
    return f"{bytes_per_s:.0f} B/s"


def usable(projection: Projection | None, now_ms: int, limits: QuotaApprovalLimits) -> bool:
    """Whether a projection is new enough and of a long enough history to go by."""
    return (
        projection is not None
        and projection.age_days(now_ms) <= limits.projection_age_max_days
        and projection.days >= limits.history_days_min
    )


def _need(request: Request, projection: Projection | None, limits: QuotaApprovalLimits) -> _Need:
    if projection is None:
        return _small("nothing is known of your traffic", 0, limits)
    age = projection.age_days(request.at_ms)
    if age > limits.projection_age_max_days:
        told = (
            f"the last projection of your traffic is {age:.1f} days old, and only "
            f"{limits.projection_age_max_days} days count"
        )
        return _small(told, 0, limits)
    if projection.days < limits.history_days_min:
        told = (
            f"your traffic is known for {projection.days} days, which peaked at "
            f"{rate(projection.peak)}, and {limits.history_days_min} days are needed to project it"
        )
        return _small(told, projection.repeated_peak, limits)
    return _projected(request, projection, limits)


def _partitions(count: int) -> str:
    return f"{count} partition" if count == 1 else f"{count} partitions"


def _small(told: str, seen: int, limits: QuotaApprovalLimits) -> _Need:
    """Without a projection: the floor, or what the traffic takes that was there on two days."""
    grant = limits.floor_partitions
    if seen:
        grant = max(grant, int(limits.slack * needed(seen, limits)))
    return _Need(grant, math.inf, None, told, f"beyond {_partitions(grant)} a person looks at it")


def _projected(request: Request, projection: Projection, limits: QuotaApprovalLimits) -> _Need:
    floor, days = limits.floor_partitions, limits.horizon_days
    high = projection.expected(request.at_ms, days, limits.spreads)
    flat = projection.expected(request.at_ms, days, limits.spreads, growing=False)
    need = needed(high, limits)
    grant = int(limits.slack * need)
    why = "that is more than the history of your traffic shows: a person looks at it"
    if high > limits.growth_max * flat:
        grant = int(limits.slack * needed(flat, limits))
        why = (
            f"growth from {rate(flat)} within {days} days is too strong to be relied on: "
            "a person looks at it"
        )
    told = (
        f"your traffic peaked at {rate(projection.peak)} in the last 28 days and is expected to "
        f"reach {rate(high)} within {days} days; that needs {_partitions(need)} at "
        f"{rate(limits.partition_bytes_per_s)} each with {100 * limits.reserve:.0f} % reserve"
    )
    # What was sent once is no lie, though it may have been an accident.
    seen = needed(max(high, projection.peak), limits)
    return _Need(max(floor, grant), max(floor, seen * limits.exaggeration), high, told, why)


class _Room:
    """What of the cluster's capacity is left to be given away without a person."""

    def __init__(self, taken: Taken, limits: QuotaApprovalLimits) -> None:
        self._limits, self._taken = limits, taken
        self._told = limits.capacity_partitions > 0 and limits.capacity_bytes_per_s > 0
        self._partitions: float = math.inf  # to be had by everybody together
        self._bytes_per_s: float = math.inf
        if limits.capacity_partitions:
            self._partitions = limits.capacity_partitions * limits.fill_max
        if limits.capacity_bytes_per_s:
            self._bytes_per_s = limits.capacity_bytes_per_s * limits.fill_max

    def claim(self, total: int, expected: int | None) -> int:
        """What a grant takes in bytes/s: what its partitions can carry, or more if expected.

        Partitions of the floor are granted for what is expected alone, where that is known.
        """
        if expected is not None and total <= self._limits.floor_partitions:
            return expected
        return max(carried(total, self._limits), expected or 0)

    def partitions_for(self, expected: int | None) -> int:
        """The most partitions that fit, for a tenant of whom so much traffic is expected."""
        limits = self._limits
        most = self._partitions - self._taken.partitions
        if not self._told:
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
        """Why so many partitions can never fit; empty if they might."""
        limits = self._limits
        if limits.capacity_partitions and total > limits.capacity_partitions:
            return f"the whole cluster is made for {limits.capacity_partitions} partitions"
        most = limits.capacity_bytes_per_s
        if most and claim is None and carried(total, limits) > most:
            return f"so many carry more than the whole cluster, which is made for {rate(most)}"
        return ""

    def lacking(self, total: int, claim: int) -> str:
        """Why a grant needs a person; empty if it fits."""
        limits, taken = self._limits, self._taken
        if not self._told and total > limits.floor_partitions:
            return (
                "the capacity of this cluster is not configured, so beyond "
                f"{limits.floor_partitions} partitions a person looks at it"
            )
        if taken.partitions + total > self._partitions:
            return (
                f"others hold {taken.partitions} of the {limits.capacity_partitions} partitions "
                f"of this cluster, {100 * limits.fill_max:.0f} % of which may be granted without "
                "a person: a person looks at it"
            )
        if taken.bytes_per_s + claim > self._bytes_per_s:
            return (
                f"others are expected to need {rate(taken.bytes_per_s)} of the "
                f"{rate(limits.capacity_bytes_per_s)} of this cluster, "
                f"{100 * limits.fill_max:.0f} % of which may be granted without a person: a "
                "person looks at it"
            )
        return ""
