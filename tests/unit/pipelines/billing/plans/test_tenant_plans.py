"""Which plan a tenant has in a month is a matter of the file alone."""

from decimal import Decimal
from pathlib import Path

import pytest

from opentalos.model.errors import ConfigError
from opentalos.pipelines.billing.plans.price_plan import PricePlan, PricePlans, Rounding
from opentalos.pipelines.billing.plans.tenant_plans import Assigned, default_only, load_tenant_plans
from opentalos.pipelines.lake.month import Month

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


def plan(name: str) -> PricePlan:
    return PricePlan(
        name=name,
        valid_from=Month(2026, 1),
        currency="EUR",
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
    found = load_tenant_plans(path, PLANS).assigned(set(tenants), Month.parse(month), PLANS)
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
        ('"2026-09"', '"1970-01"', 8, "two entries for one month; the other is line 3"),
        ('default_plan = "standard"', 'default_plan = "x"', 1, "unknown plan 'x'"),
        ("reserved_partitions = 64", "reserved_partitions = -1", 6, "from 0"),
        ("reserved_partitions", "reserved", 6, "unknown key reserved"),
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
    assert default_only("", PLANS).assigned({"t"}, Month(2026, 1), PLANS)[0].problem == "no plan"


def test_the_tenants_of_the_examples_are_right() -> None:
    found = load_tenant_plans(ROOT / "examples" / "billing" / "tenants.toml", PLANS)
    assert len(found.assigned(set(), Month(2026, 5), PLANS)) == 1
