"""Price plans are read exactly, or refused with the file and the line."""

import re
from decimal import Decimal
from pathlib import Path

import pytest
from tests.unit.matrix import matrix

from opentalos.model.errors import ConfigError
from opentalos.pipelines.billing.plans.price_plan import PricePlan, Resource, Rounding
from opentalos.pipelines.billing.plans.price_plan_files import check_price_plans, load_price_plans
from opentalos.pipelines.lake.periods.month import Month

ROOT = Path(__file__).resolve().parents[5]
PLAN = """\
plan = "standard"
valid_from = "2026-01"
currency = "EUR"

[records]
unit = 1_000
free = 5

[[records.tier]]
from = 0
up_to = 10
price = 0.1

[[records.tier]]
from = 10
price = 0.05
"""


def faults_of(folder: Path, text: str) -> list[str]:
    (folder / "plan.toml").write_text(text)
    return [plan.removeprefix(f"{folder}/plan.toml:") for plan in check_price_plans(folder)[1]]


def plan_of(folder: Path, text: str) -> PricePlan:
    (folder / "plan.toml").write_text(text)
    return load_price_plans(folder).versions[0]


def test_a_price_is_exactly_what_is_written(tmp_path: Path) -> None:
    rate = plan_of(tmp_path, PLAN).rates[Resource.RECORDS]
    assert [tier.price for tier in rate.tiers] == [Decimal("0.1"), Decimal("0.05")]
    assert str(rate.tiers[0].price) == "0.1"
    assert (rate.unit, rate.free) == (1_000, 5)
    assert [(tier.begin, tier.end) for tier in rate.tiers] == [(0, 10), (10, None)]


def test_what_is_left_out_costs_nothing(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, 'plan = "free"\nvalid_from = "2026-01"\ncurrency = "EUR"\n')
    assert (plan.rates, plan.minimum, plan.rounding) == ({}, Decimal(0), Rounding.HALF_UP)


def test_units_of_bytes_have_names(tmp_path: Path) -> None:
    text = PLAN.replace("records", "bytes").replace("unit = 1_000", 'unit = "GiB"')
    assert plan_of(tmp_path, text).rates[Resource.BYTES].unit == 1 << 30


def test_the_latest_version_up_to_a_month_is_in_force(tmp_path: Path) -> None:
    (tmp_path / "new.toml").write_text(PLAN.replace("2026-01", "2026-04"))
    (tmp_path / "old.toml").write_text(PLAN)
    plans = load_price_plans(tmp_path)
    versions = {
        text: plans.at("standard", Month.parse(text))
        for text in ("2025-12", "2026-01", "2026-03", "2026-04", "2030-01")
    }
    found = {text: item and str(item.valid_from) for text, item in versions.items()}
    assert found == {
        "2025-12": None,
        "2026-01": "2026-01",
        "2026-03": "2026-01",
        "2026-04": "2026-04",
        "2030-01": "2026-04",
    }
    assert plans.at("other", Month(2026, 1)) is None


@matrix(
    ("old", "new", "line", "words"),
    [
        ("from = 10", "from = 9", 14, "overlaps"),
        ("from = 10", "from = 12", 14, "between 10 and"),
        ("from = 0", "from = 1", 9, "between 0 and"),
        ("up_to = 10\n", "", 13, "overlaps the preceding one, which has no up_to"),
        ("from = 10\n", "from = 10\nup_to = 20\n", 14, "above 20"),
        ("up_to = 10", "up_to = 0", 11, "must be larger than"),
        ("price = 0.05", "price = -0.05", 16, "-0.05"),
        ("price = 0.05", "price = nan", 16, "price"),
        ("price = 0.05", 'price = "0.05"', 16, "a number from 0"),
        ("price = 0.05", "price = 0.00000000001", 16, "at most 10 decimal places"),
        ("price = 0.05", "price = 1e7", 16, "a number from 0 to 9,999,999"),
        ("price = 0.05", "prise = 0.05", 16, "unknown key prise"),
        ("price = 0.05", "", 14, "price is missing"),
        ("free = 5", "free = -5", 7, "not -5"),
        ("free = 5", "free = 5.5", 7, "not 5.5"),
        ("free = 5", "free = 99999999999999999999", 5, "too large to be counted"),
        ("unit = 1_000", "unit = 0", 6, "not 0"),
        ("unit = 1_000", "unit = true", 6, "not true"),
        ("unit = 1_000", 'unit = "GB"', 6, 'not "GB"'),
        ('currency = "EUR"', "", 1, "currency is missing"),
        ('currency = "EUR"', 'currency = "Euro"', 3, "three capitals"),
        ('currency = "EUR"', 'currency = "EUR"\nrounding = "odd"', 4, "half_up"),
        ('currency = "EUR"', 'currency = "EUR"\ndecimals = 9', 4, "0 to 4"),
        ('currency = "EUR"', 'currency = "EUR"\nminimum = 1.005', 4, "at most 2 decimal places"),
        ('"2026-01"', '"2026-13"', 2, "is not a month"),
        ('"2026-01"', "2026", 2, "a non-empty string in quotes"),
        ('plan = "standard"', 'plan = ""', 1, "a non-empty string in quotes"),
        ('plan = "standard"', 'plan = "standard"\nplan = "b"', 2, "overwrite"),
        ("[records]", "[recods]", 5, "unknown key recods"),
        ("free = 5", "free = ", 7, "value"),
    ],
)
def test_a_fault_is_refused_with_its_line(
    tmp_path: Path, old: str, new: str, line: int, words: str
) -> None:
    assert PLAN.count(old) >= 1
    faults = faults_of(tmp_path, PLAN.replace(old, new, 1))
    assert any(fault.startswith(f"{line}: ") and words in fault for fault in faults), faults


def test_tiers_on_one_line_each_are_distinguished(tmp_path: Path) -> None:
    text = (
        'plan = "a"\nvalid_from = "2026-01"\ncurrency = "EUR"\n[bytes]\ntier = [  # two\n'
        "  { from = 0, up_to = 10, price = 1 },\n  { from = 5, price = 0.5 },\n]\n"
    )
    faults = faults_of(tmp_path, text)
    assert [fault.partition(" ")[0] for fault in faults] == ["7:"]
    assert "overlaps the preceding one, up to 10" in faults[0]


def test_all_faults_of_all_files_are_reported_at_once(tmp_path: Path) -> None:
    (tmp_path / "one.toml").write_text(PLAN.replace("from = 10", "from = 9"))
    (tmp_path / "two.toml").write_text(PLAN.replace("EUR", "euro").replace("price", "cost"))
    faults = check_price_plans(tmp_path)[1]
    assert {Path(fault.split(":")[0]).name for fault in faults} == {"one.toml", "two.toml"}
    assert len(faults) >= 4
    with pytest.raises(ConfigError, match=re.escape(f"{tmp_path}/one.toml:14: ")):
        load_price_plans(tmp_path)


def test_a_version_cannot_be_there_twice(tmp_path: Path) -> None:
    (tmp_path / "one.toml").write_text(PLAN)
    (tmp_path / "two.toml").write_text(PLAN)
    faults = check_price_plans(tmp_path)[1]
    assert len(faults) == 1
    assert faults[0].startswith(f"{tmp_path}/two.toml:2: ")
    assert f"{tmp_path}/one.toml:2" in faults[0]


def test_a_directory_without_plans_is_refused(tmp_path: Path) -> None:
    for folder, words in ((tmp_path, "has no file"), (tmp_path / "x", "not a directory")):
        with pytest.raises(ConfigError, match=words):
            load_price_plans(folder)


def test_a_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_bytes(b"\xff\xfe")
    assert "not UTF-8" in check_price_plans(tmp_path)[1][0]


def test_the_plans_of_the_examples_are_right() -> None:
    plans = load_price_plans(ROOT / "examples" / "billing" / "plans")
    assert plans.names() == {"standard", "flat"}
