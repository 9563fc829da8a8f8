"""Reads a directory of price plans; every error names its file and line."""

import re
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Final

from opentalos.model.checks import shown_value
from opentalos.model.errors import ConfigError
from opentalos.pipelines.billing.plans.price_plan import (
    AMOUNT_DECIMALS_MAX,
    COUNT_MAX,
    METERED,
    OF_BYTES,
    PRICE_DECIMALS,
    PRICE_MAX,
    TIERS_MAX,
    UNIT_MAX,
    UNITS,
    PricePlan,
    PricePlans,
    Rate,
    Resource,
    Rounding,
    Tier,
)
from opentalos.pipelines.billing.plans.toml_reader import Faults, TomlTable, read_toml

FILES_MAX: Final = 10_000
CURRENCY: Final = re.compile(r"[A-Z]{3}")  # ISO 4217
_DECIMALS: Final = 2
_FAULTS_SHOWN: Final = 20


def load_price_plans(folder: Path) -> PricePlans:
    """All plans of a directory. Raises: ConfigError: with every error, each with its line."""
    plans, faults = check_price_plans(folder)
    refuse(faults)
    return plans


def check_price_plans(folder: Path) -> tuple[PricePlans, list[str]]:
    """The valid plans, and the errors of the others as FILE:LINE: TEXT."""
    faults = Faults()
    found: list[tuple[PricePlan, TomlTable]] = []
    for path in _files(folder, faults):
        table = read_toml(path, faults)
        if table is None:
            continue
        before = len(faults.texts)
        plan = _plan(table)
        table.end()
        if plan is not None and len(faults.texts) == before:
            found.append((plan, table))
    _refuse_twice(found)
    return PricePlans(tuple(plan for plan, _ in found)), faults.texts


def refuse(faults: list[str]) -> None:
    """Raises: ConfigError: there are errors."""
    if not faults:
        return
    more = len(faults) - _FAULTS_SHOWN
    shown_value = "; ".join(faults[:_FAULTS_SHOWN])
    raise ConfigError(shown_value + (f"; and {more} more" if more > 0 else ""))


def _files(folder: Path, faults: Faults) -> list[Path]:
    if not folder.is_dir():
        faults.texts.append(f"{folder}: not a directory; give one with price plans")
        return []
    found = sorted(folder.glob("*.toml"))
    if not found:
        faults.texts.append(f"{folder}: has no file *.toml")
    if len(found) > FILES_MAX:
        faults.texts.append(f"{folder}: has {len(found):,} files; {FILES_MAX:,} are allowed")
    return found[:FILES_MAX]


def _plan(table: TomlTable) -> PricePlan | None:
    name, valid_from = table.text("plan"), table.month("valid_from")
    currency, rounding = table.text("currency"), table.text("rounding", Rounding.HALF_UP)
    decimals = table.integer("decimals", AMOUNT_DECIMALS_MAX, _DECIMALS)
    if currency is not None and not CURRENCY.fullmatch(currency):
        table.fault(f"currency is {currency!r}; write three capitals, such as EUR", "currency")
    if rounding is not None and rounding not in list(Rounding):
        table.fault(f"rounding is {rounding!r}; choose one of {', '.join(Rounding)}", "rounding")
        rounding = None
    shown_value = _DECIMALS if decimals is None else decimals
    minimum = table.amount("minimum", PRICE_MAX, shown_value, Decimal(0))
    rates = dict(_rates(table))
    if name is None or valid_from is None or currency is None or minimum is None:
        return None
    if decimals is None or rounding is None:
        return None
    return PricePlan(
        name=name,
        valid_from=valid_from,
        currency=currency,
        decimals=decimals,
        rounding=Rounding(rounding),
        minimum=minimum,
        rates=rates,
        origin=table.file,
    )


def _rates(table: TomlTable) -> Iterator[tuple[Resource, Rate]]:
    for resource in METERED:
        below = table.table(resource)
        if below is not None:
            rate = _metered(below, resource)
            below.end()
            if rate is not None:
                yield resource, rate
    below = table.table(Resource.PARTITIONS)
    if below is not None:
        price = below.amount("price", PRICE_MAX, PRICE_DECIMALS)
        free = below.integer("included", COUNT_MAX, 0)
        below.end()
        if price is not None and free is not None:
            tiers = (Tier(begin=0, end=None, price=price),)
            yield Resource.PARTITIONS, Rate(unit=1, unit_name="", free=free, tiers=tiers)


def _metered(table: TomlTable, resource: Resource) -> Rate | None:
    unit = _unit(table, resource)
    free = table.integer("free", COUNT_MAX, 0)
    read = [(_tier(below), below) for below in table.tables("tier")]
    if not read:
        table.fault(f"[{resource}] has no tier; add [[{resource}.tier]] with from and price")
    if len(read) > TIERS_MAX:
        table.fault(f"[{resource}] has {len(read)} tiers; {TIERS_MAX} are allowed")
    tiers = [(tier, below) for tier, below in read if tier is not None]
    if len(tiers) == len(read):
        _check_chain(tiers)
    if unit is None or free is None or not tiers:
        return None
    count, name = unit
    largest = free + max(tier.end or tier.begin for tier, _ in tiers)
    if largest * count > COUNT_MAX:
        table.fault(f"a limit of {largest:,} units of {count:,} is too large to be counted")
    return Rate(unit=count, unit_name=name, free=free, tiers=tuple(tier for tier, _ in tiers))


def _unit(table: TomlTable, resource: Resource) -> tuple[int, str] | None:
    value = table.raw("unit")
    if value is None:
        return 1, ""
    if resource in OF_BYTES and isinstance(value, str) and value in UNITS:
        return UNITS[value], value
    if type(value) is int and 1 <= value <= UNIT_MAX:
        return value, ""
    names = f", or one of {', '.join(UNITS)}" if resource in OF_BYTES else ""
    rule = f"must be an integer from 1 to {UNIT_MAX:,}{names}"
    table.fault(f"unit {rule}, not {shown_value(value)}", "unit")
    return None


def _tier(table: TomlTable) -> Tier | None:
    begin = table.integer("from", COUNT_MAX)
    end = table.integer("up_to", COUNT_MAX) if "up_to" in table else None
    price = table.amount("price", PRICE_MAX, PRICE_DECIMALS)
    whole = begin is not None and price is not None and ("up_to" in table) == (end is not None)
    table.end()
    if not whole or begin is None or price is None:
        return None
    if end is not None and end <= begin:
        table.fault(f"up_to {end:,} must be larger than from {begin:,}", "up_to")
        return None
    return Tier(begin=begin, end=end, price=price)


def _check_chain(tiers: list[tuple[Tier, TomlTable]]) -> None:
    """Each tier starts where the preceding one ends; only the last has no end."""
    reached: int | None = 0
    for tier, table in tiers:
        if reached is None:
            table.fault(f"tier from {tier.begin:,} overlaps the preceding one, which has no up_to")
        elif tier.begin < reached:
            table.fault(f"tier from {tier.begin:,} overlaps the preceding one, up to {reached:,}")
        elif tier.begin > reached:
            table.fault(f"units between {reached:,} and this tier's {tier.begin:,} have no price")
        reached = tier.end
    if tiers and reached is not None:
        tiers[-1][1].fault(f"units above {reached:,} have no price; the last tier takes no up_to")


def _refuse_twice(found: list[tuple[PricePlan, TomlTable]]) -> None:
    seen: dict[tuple[str, object], str] = {}
    for plan, table in found:
        key = plan.name, plan.valid_from
        place = f"{table.file}:{table.line('valid_from')}"
        if key in seen:
            text = f"plan {plan.name!r} has two versions from {plan.valid_from}"
            table.fault(f"{text}; the other is at {seen[key]}", "valid_from")
        seen.setdefault(key, place)
