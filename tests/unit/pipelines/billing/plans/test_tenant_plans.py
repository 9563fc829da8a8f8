"""Which plan a tenant has in a month is a matter of the file alone."""

from decimal import Decimal
from pathlib import Path

import pytest

from opentalos.model.errors import ConfigError
from opentalos.pipelines.billing.plans.price_plan import PricePlan, PricePlans, Rounding
from opentalos.pipelines.billing.plans.tenant_plans import Assigned, default_only, load_tenant_plans
from opentalos.pipelines.lake.periods.month import Month

ROOT = Path(__file__).resolve().parents[5]
TENANTS = """\
default_plan = "standard"

[[tenant]]
id = "CLshop"
plan = "standard"
reserved_partitions = 64

[[tenant]]
id = "CLshop"
plan = "flat"
valid_from = "2026-09"

[[tenant]]
id = "CLformer"
plan = "none"
valid_from = "2026-06"
"""


def plan(name: str, currency: str = "EUR") -> PricePlan:
    return PricePlan(
        name=name,
        valid_from=Month(2026, 1),
        currency=currency,
        decimals=2,
        rounding=Rounding.HALF_UP,
        minimum=Decimal(0),
        rates={},
        origin="",
    )


PLANS = PricePlans((plan("standard"), plan("flat")))


def assigned(folder: Path, month: str, *tenants: str) -> dict[str, Assigned]:
    path = folder / "tenants.toml"
    path.write_text(TENANTS)
    found = load_tenant_plans(path, PLANS).assigned(
        {(tenant, 0) for tenant in tenants}, Month.parse(month), PLANS
    )
    return {item.tenant: item for item in found}


def test_the_last_entry_up_to_the_month_holds(tmp_path: Path) -> None:
    shown = {}
    for month in ("2026-08", "2026-09"):
        shop = assigned(tmp_path, month)["CLshop"]
        assert shop.plan is not None
        shown[month] = shop.plan.name, shop.reserved_partitions
    assert shown == {"2026-08": ("standard", 64), "2026-09": ("flat", 0)}


def test_a_tenant_without_an_entry_has_the_default_plan(tmp_path: Path) -> None:
    other = assigned(tmp_path, "2026-03", "other")["other"]
    assert other.plan is not None
    assert (other.plan.name, other.reserved_partitions) == ("standard", 0)


def test_a_customer_without_usage_is_billed_all_the_same(tmp_path: Path) -> None:
    assert set(assigned(tmp_path, "2026-03")) == {"CLshop"}


def test_usage_of_a_former_customer_is_a_named_problem(tmp_path: Path) -> None:
    assert assigned(tmp_path, "2026-06", "CLformer")["CLformer"].problem == "no plan"
    assert assigned(tmp_path, "2026-05", "CLformer")["CLformer"].problem == ""


def test_a_plan_that_did_not_exist_yet_is_a_named_problem(tmp_path: Path) -> None:
    problem = assigned(tmp_path, "2025-12")["CLshop"].problem
    assert problem == "plan 'standard' has no version for 2025-12"


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ('plan = "flat"', 'plan = "flot"', 10, "unknown plan 'flot'; known: flat, standard"),
        ('"2026-09"', '"1970-01"', 8, "two entries from one day; the other is line 3"),
        ('default_plan = "standard"', 'default_plan = "x"', 1, "unknown plan 'x'"),
        ("reserved_partitions = 64", "reserved_partitions = -1", 6, "from 0"),
        ("reserved_partitions", "reserved", 6, "unknown key reserved"),
        ('"2026-09"', '"2026-09-31"', 11, "'2026-09-31' is not a day"),
        ('"2026-09"', '"September"', 11, "write YYYY-MM"),
        ('"2026-09"', '"2026-09"\ntime_zone = "Mars/Base"', 12, "'Mars/Base' is not known here"),
        ('"2026-09"', '"2026-09"\ntime_zone = "../UTC"', 12, "'../UTC' is not known here"),
        ('id = "CLformer"\n', "", 13, "id is missing"),
    ],
)
def test_a_fault_is_refused_with_its_line(
    tmp_path: Path, old: str, new: str, line: int, words: str
) -> None:
    path = tmp_path / "tenants.toml"
    path.write_text(TENANTS.replace(old, new, 1))
    with pytest.raises(ConfigError) as caught:
        load_tenant_plans(path, PLANS)
    assert f"{path}:{line}: " in str(caught.value)
    assert words in str(caught.value)


def test_a_default_plan_must_exist() -> None:
    with pytest.raises(ConfigError, match="unknown plan 'x'"):
        default_only("x", PLANS)
    assert (
        default_only("", PLANS).assigned({("t", 0)}, Month(2026, 1), PLANS)[0].problem == "no plan"
    )


def test_the_tenants_of_the_examples_are_right() -> None:
    found = load_tenant_plans(ROOT / "examples" / "billing" / "tenants.toml", PLANS)
    assert len(found.assigned(set(), Month(2026, 5), PLANS)) == 1


def parts(
    folder: Path, *entries: tuple[str, str, int], used: tuple[int, ...] = (), default: str = ""
) -> list[tuple[object, ...]]:
    """Of the tenant "t" in 2026-03: first day, end, plan, reserved partitions and problem."""
    text = "".join(
        f'[[tenant]]\nid = "t"\nvalid_from = "{day}"\nplan = "{name}"\n'
        f"reserved_partitions = {reserved}\n"
        for day, name, reserved in entries
    )
    path = folder / "tenants.toml"
    path.write_text(text)
    plans = PricePlans((plan("a"), plan("b"), plan("dollars", "USD")))
    month = Month(2026, 3)
    days = {("t", day) for day in used}
    found = load_tenant_plans(path, plans, default).assigned(days, month, plans)
    return [
        (*part.days[:2], part.plan and part.plan.name, part.reserved_partitions,
         part.problem_of(month))
        for part in found
    ]  # fmt: skip


def test_a_change_within_a_month_splits_it_at_the_day(tmp_path: Path) -> None:
    assert parts(tmp_path, ("2026-01", "a", 4), ("2026-03-10", "a", 6), ("2026-03-21", "b", 6)) == [
        (0, 9, "a", 4, ""),
        (9, 20, "a", 6, ""),
        (20, 31, "b", 6, ""),
    ]


def test_an_entry_that_changes_nothing_splits_nothing(tmp_path: Path) -> None:
    assert parts(tmp_path, ("2026-01", "a", 4), ("2026-03-10", "a", 4)) == [(0, 31, "a", 4, "")]
    assert parts(tmp_path, ("2026-03", "a", 4), ("2026-04", "b", 4)) == [(0, 31, "a", 4, "")]


def test_usage_of_days_without_a_plan_is_a_problem_with_these_days(tmp_path: Path) -> None:
    late = ("2026-03-10", "a", 0)
    assert parts(tmp_path, late) == [(9, 31, "a", 0, "")]
    problem = "no plan from 2026-03-01 to before 2026-03-10"
    assert parts(tmp_path, late, used=(0,)) == [(0, 9, None, 0, problem), (9, 31, "a", 0, "")]
    assert parts(tmp_path, late, used=(0,), default="b") == [
        (0, 9, "b", 0, ""),
        (9, 31, "a", 0, ""),
    ]
    gone = ("2026-03-21", "none", 0)
    assert parts(tmp_path, late, gone, used=(9,)) == [(9, 20, "a", 0, "")]
    assert parts(tmp_path, late, gone, used=(20,))[1][4] == (
        "no plan from 2026-03-21 to before 2026-04-01"
    )


def test_a_month_has_one_currency(tmp_path: Path) -> None:
    ((_, _, name, _, problem),) = parts(tmp_path, ("2026-01", "a", 0), ("2026-03-10", "dollars", 0))
    assert name is None
    assert problem == "its plans of one month have different currencies: EUR, USD"


def test_the_time_zone_is_the_last_one_of_the_month(tmp_path: Path) -> None:
    path = tmp_path / "tenants.toml"
    zone = 'time_zone = "Europe/Berlin"\n'
    path.write_text(
        TENANTS.replace("reserved_partitions = 64\n", "reserved_partitions = 64\n" + zone)
    )
    plans = load_tenant_plans(path, PLANS)
    zones = [plans.assigned((), Month(2026, number), PLANS)[-1].time_zone for number in (8, 9)]
    assert zones == ["Europe/Berlin", ""]


def test_the_month_is_split_where_any_tenant_has_an_entry(tmp_path: Path) -> None:
    path = tmp_path / "tenants.toml"
    path.write_text(
        TENANTS.replace('"2026-09"', '"2026-03-15"').replace('"2026-06"', '"2026-03-08"')
    )
    plans = load_tenant_plans(path, PLANS)
    assert [span[:2] for span in plans.spans(Month(2026, 3))] == [(0, 7), (7, 14), (14, 31)]
    assert [span[:2] for span in plans.spans(Month(2026, 2))] == [(0, 28)]
