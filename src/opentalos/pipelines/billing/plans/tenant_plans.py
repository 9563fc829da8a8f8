"""The price plan and the reserved partitions of each tenant, by month.

They are in one TOML file with a history: a change is a further entry with the month from which it
is valid, so the bill of a past month can be recomputed at any time.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from opentalos.model.errors import ConfigError
from opentalos.pipelines.billing.plans.price_plan import PricePlan, PricePlans
from opentalos.pipelines.billing.plans.price_plan_files import refuse
from opentalos.pipelines.billing.plans.toml_reader import Faults, TomlTable, read_toml
from opentalos.pipelines.lake.month import Month

NO_PLAN: Final = "none"  # as a plan's name: not a customer from that month on
RESERVED_MAX: Final = 10**9
_FIRST: Final = Month(1970, 1)


@dataclass(frozen=True, slots=True)
class TenantEntry:
    """The plan of a tenant from a month on."""

    tenant: str
    valid_from: Month
    plan: str
    reserved_partitions: int


@dataclass(frozen=True, slots=True)
class Assigned:
    """The plan of one tenant in one month; ``problem``: why it cannot be billed."""

    tenant: str
    plan: PricePlan | None
    reserved_partitions: int = 0
    problem: str = ""


class TenantPlans:
    """All entries; ``default``: the plan of tenants without one, empty for none."""

    def __init__(self, entries: tuple[TenantEntry, ...] = (), default: str = "") -> None:
        self._default = default
        self._entries: dict[str, list[TenantEntry]] = {}
        for entry in sorted(entries, key=lambda entry: (entry.tenant, entry.valid_from)):
            self._entries.setdefault(entry.tenant, []).append(entry)

    def assigned(self, tenants: set[str], month: Month, plans: PricePlans) -> list[Assigned]:
        """The plans of these tenants and of all others that have one in the month, in order."""
        known = {name for name in self._entries if self._billed(name, month)}
        return [self._one(name, month, plans) for name in sorted(tenants | known)]

    def _entry(self, tenant: str, month: Month) -> TenantEntry | None:
        held = [entry for entry in self._entries.get(tenant, ()) if entry.valid_from <= month]
        return held[-1] if held else None

    def _billed(self, tenant: str, month: Month) -> bool:
        entry = self._entry(tenant, month)
        return entry is not None and entry.plan != NO_PLAN

    def _one(self, tenant: str, month: Month, plans: PricePlans) -> Assigned:
        entry = self._entry(tenant, month)
        name = self._default if entry is None else entry.plan
        if name in ("", NO_PLAN):
            return Assigned(tenant, None, problem="no plan")
        plan = plans.at(name, month)
        if plan is None:
            return Assigned(tenant, None, problem=f"plan {name!r} has no version for {month}")
        return Assigned(tenant, plan, 0 if entry is None else entry.reserved_partitions)


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
    seen: dict[tuple[str, Month], int] = {}
    for entry in table.tables("tenant"):
        tenant, plan = entry.text("id"), entry.text("plan")
        valid_from = entry.month("valid_from", _FIRST)
        reserved = entry.integer("reserved_partitions", RESERVED_MAX, 0)
        entry.end()
        if tenant is None or plan is None or valid_from is None or reserved is None:
            continue
        if plan != NO_PLAN and plan not in plans.names():
            entry.fault(_unknown(plan, plans), "plan")
        if (tenant, valid_from) in seen:
            line = seen[tenant, valid_from]
            entry.fault(
                f"tenant {tenant!r} has two entries for one month; the other is line {line}"
            )
        seen.setdefault((tenant, valid_from), entry.line())
        entries.append(TenantEntry(tenant, valid_from, plan, reserved))
    return entries


def _unknown(name: str, plans: PricePlans) -> str:
    return f"unknown plan {name!r}; known: {', '.join(sorted(plans.names())) or 'none'}"
