"""What a month costs, unit by unit in fractions: slow, plain, and written without the product's
arithmetic."""

import math
from decimal import Decimal
from fractions import Fraction

from opentalos.pipelines.billing.plans.price_plan import PricePlan, Rate, Resource, Rounding

Line = tuple[str, int, int, Decimal]  # resource, tier (-1: free), quantity, amount


def rounded(exact: Fraction, decimals: int, rule: Rounding) -> Decimal:
    """To so many digits behind the point."""
    scaled = exact * 10**decimals
    below = math.floor(scaled)
    rest = scaled - below
    half = Fraction(1, 2)
    goes_up = {
        Rounding.DOWN: False,
        Rounding.UP: rest > 0,
        Rounding.HALF_UP: rest >= half,
        Rounding.HALF_EVEN: rest > half or (rest == half and below % 2 == 1),
    }[rule]
    return Decimal(below + goes_up).scaleb(-decimals)


def lines_of(plan: PricePlan, quantities: dict[Resource, int]) -> list[Line]:
    """The lines of one invoice."""
    lines = []
    for resource, rate in plan.rates.items():
        lines += _of_rate(plan, resource, rate, quantities.get(resource, 0))
    missing = plan.minimum - sum((line[3] for line in lines), Decimal(0))
    if missing > 0:
        lines.append((Resource.MINIMUM, 0, 1, missing))
    return lines


def _of_rate(plan: PricePlan, resource: Resource, rate: Rate, quantity: int) -> list[Line]:
    lines: list[Line] = []
    free = min(quantity, rate.free * rate.unit)
    if free:
        lines.append((resource, -1, free, Decimal(0)))
    left = quantity - free
    for number, tier in enumerate(rate.tiers):
        width = left if tier.end is None else (tier.end - tier.begin) * rate.unit
        here = min(left, width)
        left -= here
        if here:
            exact = Fraction(tier.price) * here / rate.unit
            lines.append((resource, number, here, rounded(exact, plan.decimals, plan.rounding)))
    return lines
