"""Tenants of several kinds whose traffic is known for half a year, for the replay of requests."""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

HISTORY_DAYS = 60  # before the first request is decided
REPLAY_DAYS = 90
HORIZON_DAYS = 30  # that a request is judged by
DAYS = HISTORY_DAYS + REPLAY_DAYS + HORIZON_DAYS
MB = 1e6
MEDIAN_PEAK = 8 * MB  # bytes/s of the busiest minute of a day
PEAK_SIGMA = 1.3  # of its logarithm: some are a hundred times as large
EXAGGERATED = (4.0, 50.0)  # times what is needed
Series = NDArray[np.float64]


class Kind(StrEnum):
    """The traffic pattern of a tenant, or that it asks for far too much."""

    STEADY = "steady"
    GROWING = "growing"
    WEEKLY = "weekly"
    BURSTY = "bursty"
    LAUNCHING = "launching"
    DYING = "dying"
    SURPRISING = "surprising"
    LIAR = "liar"


SHARES = {
    Kind.STEADY: 0.24,
    Kind.GROWING: 0.22,
    Kind.WEEKLY: 0.18,
    Kind.BURSTY: 0.10,
    Kind.LAUNCHING: 0.06,
    Kind.DYING: 0.06,
    Kind.LIAR: 0.14,
}


@dataclass(frozen=True, eq=False)
class Tenant:
    """``offered``: bytes/s of the busiest minute of each day; 0 before day ``start``.

    ``planned`` is the same without accidents, which cannot be foreseen and need no partitions.
    """

    name: str
    kind: Kind
    start: int
    offered: Series
    planned: Series

    def highest(self, day: int, days: int = HORIZON_DAYS) -> float:
        """The most it plans to send in the days from this one on."""
        return float(self.planned[day : day + days].max(initial=0.0))


def tenants(count: int, random: np.random.Generator) -> list[Tenant]:
    """Generate tenants in the proportions of ``SHARES``."""
    kinds = random.choice(list(SHARES), size=count, p=list(SHARES.values()))
    return [_tenant(f"CL{number}", Kind(kind), random) for number, kind in enumerate(kinds)]


def surprised(tenant: Tenant, random: np.random.Generator) -> Tenant:
    """The same tenant, with multiplied traffic from a random day on, without a sign before."""
    days = np.arange(DAYS)
    jump = np.where(days >= random.integers(HISTORY_DAYS + 10, DAYS - 10), random.uniform(3, 15), 1)
    return Tenant(
        tenant.name, Kind.SURPRISING, tenant.start, tenant.offered * jump, tenant.planned * jump
    )


def _tenant(name: str, kind: Kind, random: np.random.Generator) -> Tenant:
    peak = MEDIAN_PEAK * random.lognormal(0.0, PEAK_SIGMA)
    days = np.arange(DAYS, dtype=np.float64)
    noise = random.lognormal(0.0, random.uniform(0.03, 0.15), DAYS)
    shape, start = np.ones(DAYS), 0
    match kind:
        case Kind.GROWING:
            a_day = random.uniform(0.003, 0.02)
            shape = (1 + a_day) ** days if random.random() < 0.5 else 1 + 2 * a_day * days
        case Kind.WEEKLY:
            quiet = random.uniform(0.2, 0.7)
            weekend = (np.arange(DAYS) + random.integers(7)) % 7 >= 5
            shape = np.where(weekend, quiet, 1.0) * (1 + random.uniform(0, 0.004) * days)
        case Kind.BURSTY:
            bursts = random.random(DAYS) < random.uniform(0.05, 0.3)
            shape = np.where(bursts, random.uniform(1.5, 5.0, DAYS), 1.0)
        case Kind.LAUNCHING:
            start = int(random.integers(HISTORY_DAYS - 10, HISTORY_DAYS + 70))
            shape = np.clip((days - start + 1) / random.uniform(1, 25), 0.0, 1.0)
        case Kind.DYING:
            ends = random.integers(HISTORY_DAYS - 20, HISTORY_DAYS + 80)
            shape = np.exp(-np.clip(days - ends, 0, None) / random.uniform(3, 30))
            shape[days > ends + 60] = 0.0
        case Kind.STEADY | Kind.LIAR:
            shape = 1 + random.uniform(-0.001, 0.001) * days
    if kind is not Kind.LAUNCHING and random.random() < 0.2:  # came while others were there
        start = int(random.integers(0, HISTORY_DAYS + 60))
    planned = peak * shape * noise
    gap = random.integers(DAYS)
    if random.random() < 0.2:  # nothing was recorded, or nothing was sent
        planned[gap : gap + 2] = 0.0
    planned[:start] = 0.0
    offered = planned.copy()
    if random.random() < 0.15:  # such as a client that sends all again
        offered[random.integers(DAYS)] *= random.uniform(3, 30)
    return Tenant(name, kind, start, offered, planned)
