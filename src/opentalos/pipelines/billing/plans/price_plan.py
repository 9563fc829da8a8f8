"""Price plans as values: what a tenant pays for what was metered. All amounts are Decimal."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import Final

from opentalos.pipelines.lake.month import Month

# What fits the arithmetic of pricing.py: 20 digits of a count times 17 of a price are 37 of the
# 38 that a decimal of Spark can have.
COUNT_DIGITS: Final = 20
COUNT_MAX: Final = 10**COUNT_DIGITS - 1
PRICE_DIGITS: Final = 17
PRICE_DECIMALS: Final = 10
PRICE_MAX: Final = Decimal(10) ** (PRICE_DIGITS - PRICE_DECIMALS) - 1
UNIT_MAX: Final = 1 << 50
AMOUNT_DECIMALS_MAX: Final = 4  # of the smallest unit of a currency
TIERS_MAX: Final = 100  # of one resource
UNITS: Final = {
    "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
    "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40,
}  # fmt: skip


class Resource(StrEnum):
    """What costs money, in the order of an invoice's lines."""

    RECORDS = "records"
    BYTES = "bytes"
    PARTITIONS = "reserved_partitions"
    MINIMUM = "minimum"


class Rounding(StrEnum):
    """How an amount is brought to the currency's smallest unit, once for each line."""

    HALF_UP = "half_up"
    HALF_EVEN = "half_even"
    UP = "up"
    DOWN = "down"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tier:
    """A range of a month's usage with one price; counts are in the resource's units."""

    begin: int
    end: int | None  # None: all above
    price: Decimal  # of one unit


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """What one resource costs. Tiers begin at 0, after the free quota, and leave no gap."""

    unit: int  # how many records, bytes or partitions one price is for
    unit_name: str  # for people
    free: int  # units of each month
    tiers: tuple[Tier, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PricePlan:
    """One version of a plan, in force from a month on until its next version."""

    name: str
    valid_from: Month
    currency: str
    decimals: int  # of its amounts
    rounding: Rounding
    minimum: Decimal  # of an invoice
    rates: Mapping[Resource, Rate]  # what is not there costs nothing
    origin: str  # the file


class PricePlans:
    """All versions of all plans."""

    def __init__(self, versions: tuple[PricePlan, ...] = ()) -> None:
        self.versions = tuple(sorted(versions, key=lambda plan: (plan.name, plan.valid_from)))

    def names(self) -> set[str]:
        """Of plans with at least one version."""
        return {plan.name for plan in self.versions}

    def at(self, name: str, month: Month) -> PricePlan | None:
        """The version in force in a month, None if there was none yet."""
        known = [plan for plan in self.versions if plan.name == name and plan.valid_from <= month]
        return known[-1] if known else None
