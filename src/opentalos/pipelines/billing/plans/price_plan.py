"""Price plans as values: what a tenant pays for metered usage. All amounts are Decimal."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import Final

from opentalos.pipelines.lake.periods.month import Month

# Limits of the arithmetic in pricing.py: 20 digits of a count and 17 of a price give 37 digits; a
# decimal of Spark has at most 38.
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
    """What the lines of an invoice are for, in their order."""

    RECORDS = "records"
    BYTES = "bytes"
    EGRESS = "egress"  # bytes read
    STORAGE = "storage"  # bytes kept, for a month
    PARTITIONS = "reserved_partitions"
    MINIMUM = "minimum"
    CREDIT = "credit"
    REFUND = "refund"


METERED: Final = (Resource.RECORDS, Resource.BYTES, Resource.EGRESS, Resource.STORAGE)
OF_BYTES: Final = (Resource.BYTES, Resource.EGRESS, Resource.STORAGE)


class Rounding(StrEnum):
    """How an amount is rounded to the currency's smallest unit, once for each line."""

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
    """The price of one resource. Tiers start at 0, after the free quota, without gaps."""

    unit: int  # number of records, bytes or partitions that one price is for
    unit_name: str  # for people
    free: int  # free units per month
    tiers: tuple[Tier, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PricePlan:
    """One version of a plan, valid from a month until its next version."""

    name: str
    valid_from: Month
    currency: str
    decimals: int  # of its amounts
    rounding: Rounding
    minimum: Decimal  # of an invoice
    rates: Mapping[Resource, Rate]  # other resources are free
    origin: str  # the file


class PricePlans:
    """All versions of all plans."""

    def __init__(self, versions: tuple[PricePlan, ...] = ()) -> None:
        self.versions = tuple(sorted(versions, key=lambda plan: (plan.name, plan.valid_from)))

    def names(self) -> set[str]:
        """The names of all plans."""
        return {plan.name for plan in self.versions}

    def price(self, resource: Resource, month: Month) -> bool:
        """Whether a plan has a price for the resource in a month."""
        valid = (self.at(name, month) for name in self.names())
        return any(plan is not None and resource in plan.rates for plan in valid)

    def at(self, name: str, month: Month) -> PricePlan | None:
        """The version that is valid in a month; None if there is none yet."""
        known = [plan for plan in self.versions if plan.name == name and plan.valid_from <= month]
        return known[-1] if known else None
