"""The price plan and the reserved partitions of each tenant, by day.

They are in one TOML file with a history: a change is a further entry with the day of UTC from which
it is valid, so the bill of a past month can be recomputed at any time.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo

from opentalos.model.errors import ConfigError
from opentalos.pipelines.billing.plans.days import WHOLE, Days, day_number, days_of
from opentalos.pipelines.billing.plans.price_plan import PricePlan, PricePlans
from opentalos.pipelines.billing.plans.price_plan_files import refuse
from opentalos.pipelines.billing.plans.toml_reader import Faults, TomlTable, read_toml
from opentalos.pipelines.lake.periods.month import Month

NO_PLAN: Final = "none"  # as a plan's name: not a customer from that day on
RESERVED_MAX: Final = 10**9
_FIRST: Final = date(1970, 1, 1)

Used = Iterable[tuple[str, int]]  # tenant, and a day of the month, from 0


@dataclass(frozen=True, slots=True)
class TenantEntry:
    """The plan of a tenant from a day on; ``time_zone``: for display, empty for UTC."""

    tenant: str
    valid_from: date
    plan: str
    reserved_partitions: int
    time_zone: str = ""


@dataclass(frozen=True, slots=True)
class Assigned:
    """The plan of one tenant in a part of a month; ``problem``: why it cannot be billed."""

    tenant: str
    plan: PricePlan | None
    reserved_partitions: int = 0
    problem: str = ""
    days: Days = WHOLE
    time_zone: str = ""

    def problem_of(self, month: Month) -> str:
        """The problem, with the days if they are not the whole month; empty if there is none."""
        if not self.problem or self.days.whole:
            return self.problem
        begin, end = self.days.dates(month)
        return f"{self.problem} from {begin} to before {end}"

    def continues(self, other: "Assigned") -> bool:
        """Whether nothing that is billed changes from ``other`` to this part."""
        return self.problem == other.problem and (self.plan, self.reserved_partitions) == (
            other.plan,
            other.reserved_partitions,
        )


class TenantPlans:
    """All entries; ``default``: the plan of tenants without one, empty for none."""

    def __init__(self, entries: tuple[TenantEntry, ...] = (), default: str = "") -> None:
        self._default = default
        self._entries: dict[str, list[TenantEntry]] = {}
        for entry in sorted(entries, key=lambda entry: (entry.tenant, entry.valid_from)):
            self._entries.setdefault(entry.tenant, []).append(entry)

    def spans(self, month: Month) -> list[Days]:
        """The month, split wherever a tenant has an entry: within a span no plan changes."""
        starts = {
            day_number(entry.valid_from, month)
            for entries in self._entries.values()
            for entry in entries
        }
        return days_of(month, starts)

    def assigned(self, used: Used, month: Month, plans: PricePlans) -> list[Assigned]:
        """The plans of all tenants with usage or with a plan in the month, by tenant and day.

        Args: used: the days on which a tenant has usage; of a span any day is enough.
        """
        days: dict[str, set[int]] = {}
        for tenant, day in used:
            days.setdefault(tenant, set()).add(day)
        found: list[Assigned] = []
        for tenant in sorted(days.keys() | self._entries.keys()):
            parts = self._parts(tenant, days.get(tenant, set()), month, plans)
            found += _one_currency(list(_joined(parts)))
        return found

    def _parts(
        self, tenant: str, used: set[int], month: Month, plans: PricePlans
    ) -> Iterator[Assigned]:
        entries = self._entries.get(tenant, [])
        starts = [day_number(entry.valid_from, month) for entry in entries]
        for days in days_of(month, set(starts)):
            valid = [
                entry for entry, start in zip(entries, starts, strict=True) if start <= days.begin
            ]
            entry = valid[-1] if valid else None
            booked = entry is not None and entry.plan != NO_PLAN
            if booked or any(days.begin <= day < days.end for day in used):
                yield replace(self._one(tenant, entry, month, plans), days=days)

    def _one(
        self, tenant: str, entry: TenantEntry | None, month: Month, plans: PricePlans
    ) -> Assigned:
        name = self._default if entry is None else entry.plan
        zone = "" if entry is None else entry.time_zone
        if name in ("", NO_PLAN):
            return Assigned(tenant, None, problem="no plan", time_zone=zone)
        plan = plans.at(name, month)
        if plan is None:
            problem = f"plan {name!r} has no version for {month}"
            return Assigned(tenant, None, problem=problem, time_zone=zone)
        reserved = 0 if entry is None else entry.reserved_partitions
        return Assigned(tenant, plan, reserved, time_zone=zone)


def _joined(parts: Iterable[Assigned]) -> Iterator[Assigned]:
    """An entry that changes nothing does not split the month."""
    last: Assigned | None = None
    for part in parts:
        if last is not None and part.continues(last) and last.days.end == part.days.begin:
            part = replace(part, days=part.days._replace(begin=last.days.begin))
        elif last is not None:
            yield last
        last = part
    if last is not None:
        yield last


def _one_currency(parts: list[Assigned]) -> list[Assigned]:
    """An invoice has one total, so it cannot have two currencies."""
    currencies = sorted({part.plan.currency for part in parts if part.plan is not None})
    if len(currencies) <= 1:
        return parts
    problem = f"its plans of one month have different currencies: {', '.join(currencies)}"
    return [Assigned(parts[0].tenant, None, problem=problem)]


def load_tenant_plans(path: Path, plans: PricePlans, default: str = "") -> TenantPlans:
    """Read the file. Raises: ConfigError: with every error, each with its line.

    Args: default: overrides the file's ``default_plan``.
    """
    found, faults = check_tenant_plans(path, plans, default)
    refuse(faults)
    return found


def check_tenant_plans(
    path: Path, plans: PricePlans, default: str = ""
) -> tuple[TenantPlans, list[str]]:
    """The entries of the file, and its errors as FILE:LINE: TEXT."""
    faults = Faults()
    table = read_toml(path, faults)
    entries: list[TenantEntry] = []
    if table is not None:
        named = table.text("default_plan", "") or ""
        default = default or named
        if default and default not in plans.names():
            table.fault(f"default_plan: {_unknown(default, plans)}", "default_plan")
        entries = _entries(table, plans)
        table.end()
    return TenantPlans(tuple(entries), default), faults.texts


def default_only(default: str, plans: PricePlans) -> TenantPlans:
    """One plan for all tenants. Raises: ConfigError: there is no such plan."""
    if default and default not in plans.names():
        raise ConfigError(f"default-plan: {_unknown(default, plans)}")
    return TenantPlans((), default)


def _entries(table: TomlTable, plans: PricePlans) -> list[TenantEntry]:
    entries = []
    seen: dict[tuple[str, date], int] = {}
    for entry in table.tables("tenant"):
        tenant, plan = entry.text("id"), entry.text("plan")
        valid_from = entry.day("valid_from", _FIRST)
        reserved = entry.integer("reserved_partitions", RESERVED_MAX, 0)
        zone = _time_zone(entry)
        entry.end()
        if tenant is None or plan is None or valid_from is None or reserved is None:
            continue
        if plan != NO_PLAN and plan not in plans.names():
            entry.fault(_unknown(plan, plans), "plan")
        if (tenant, valid_from) in seen:
            line = seen[tenant, valid_from]
            entry.fault(f"tenant {tenant!r} has two entries from one day; the other is line {line}")
        seen.setdefault((tenant, valid_from), entry.line())
        entries.append(TenantEntry(tenant, valid_from, plan, reserved, zone))
    return entries


def _time_zone(entry: TomlTable) -> str:
    name = entry.text("time_zone", "") or ""
    try:
        return ZoneInfo(name).key if name else ""
    except (ValueError, OSError, LookupError):  # by form, of a directory, unknown
        entry.fault(
            f"time_zone {name!r} is not known here; write a name such as Europe/Berlin", "time_zone"
        )
        return ""


def _unknown(name: str, plans: PricePlans) -> str:
    return f"unknown plan {name!r}; known: {', '.join(sorted(plans.names())) or 'none'}"
