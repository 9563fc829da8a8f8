"""What the invoices of other months took of a credit is found in their files."""

import shutil
from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from opentalos.pipelines.billing.credits.credit import Credit, with_credits
from opentalos.pipelines.billing.credits.used import open_months, used_elsewhere
from opentalos.pipelines.billing.invoices.files import InvoiceFolder
from opentalos.pipelines.billing.pipeline import Bill, invoice_files
from opentalos.pipelines.billing.plans.price_plan import PricePlan, Resource, Rounding
from opentalos.pipelines.billing.plans.tenant_plans import Assigned
from opentalos.pipelines.billing.pricing import line_table
from opentalos.pipelines.lake.periods.month import Month

ROOT = Path(__file__).resolve().parents[5]
MARCH, APRIL, MAY = (Month(2026, number) for number in (3, 4, 5))
PLAN = PricePlan(
    name="p", valid_from=Month(2026, 1), currency="EUR", decimals=2, rounding=Rounding.HALF_UP,
    minimum=Decimal(0), rates={}, origin="",
)  # fmt: skip
CREDIT = Credit(
    kind=Resource.CREDIT, id="C1", tenant="t", day=date(2026, 3, 20), amount=Decimal(30),
    currency="EUR", reason="outage",
)  # fmt: skip
NO_TOPICS: dict[str, list[object]] = {
    "tenant": [],
    "name": [],
    "topic": [],
    "partitions": [],
    "records": [],
    "bytes": [],
}


@pytest.fixture(autouse=True)
def no_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    """Writing out all of a busy machine's files takes longer than a test may."""
    monkeypatch.setattr("os.sync", lambda: None)


def bill(home: Path, month: Month, charges: str, *, close: bool = False) -> Decimal:
    """Bill a month with these charges; returns its total."""
    charge = {
        "tenant": "t", "resource": Resource.RECORDS, "tier": 0, "from_count": 0, "quantity": 1,
        "unit": 1, "unit_name": "", "price": Decimal(charges), "amount": Decimal(charges),
        "id": None,
    }  # fmt: skip
    assigned = [Assigned("t", PLAN)]
    used = used_elsewhere(home, month, [CREDIT])
    rows, problems = with_credits([charge], assigned, [CREDIT], used, month)
    lines = line_table(rows)
    made = Bill(month, assigned, lines, pa.table(NO_TOPICS), problems)
    folder = InvoiceFolder(home, month)
    folder.publish(lambda revision: invoice_files(made, revision), reopen=True)
    if close:
        folder.close()
    return sum(lines.column("amount").to_pylist(), Decimal(0))


def used(home: Path, month: Month) -> Mapping[str, Decimal]:
    return used_elsewhere(home, month, [CREDIT])


def test_months_share_a_credit_and_billing_them_again_changes_nothing(tmp_path: Path) -> None:
    totals = [bill(tmp_path, MARCH, "20", close=True), bill(tmp_path, APRIL, "25", close=True),
              bill(tmp_path, MAY, "7")]  # fmt: skip
    assert totals == [Decimal(0), Decimal(15), Decimal(7)]
    versions = [InvoiceFolder(tmp_path, month).current for month in (MARCH, APRIL, MAY)]
    again = [bill(tmp_path, month, text) for month, text in
             ((MAY, "7"), (APRIL, "25"), (MARCH, "20"))]  # fmt: skip
    assert again[::-1] == totals
    assert [InvoiceFolder(tmp_path, month).current for month in (MARCH, APRIL, MAY)] == versions


def test_an_earlier_month_that_is_billed_late_takes_what_is_left(tmp_path: Path) -> None:
    assert bill(tmp_path, APRIL, "25", close=True) == Decimal(0)
    assert bill(tmp_path, MARCH, "20") == Decimal(15)
    assert used(tmp_path, MARCH) == {"C1": Decimal(25)}


def test_an_open_later_month_takes_nothing_from_an_earlier_one(tmp_path: Path) -> None:
    bill(tmp_path, APRIL, "25")
    assert used(tmp_path, MARCH) == {}
    assert bill(tmp_path, MARCH, "20") == Decimal(0)
    assert bill(tmp_path, APRIL, "25") == Decimal(15)


def test_open_months_are_those_with_invoices_that_are_not_final(tmp_path: Path) -> None:
    assert open_months(tmp_path, MARCH, MAY) == []
    bill(tmp_path, MARCH, "20")
    bill(tmp_path, APRIL, "20", close=True)
    (tmp_path / "invoices" / "notes.txt").write_text("")
    assert open_months(tmp_path, MARCH, MAY) == [MARCH]
    assert open_months(tmp_path, APRIL, MAY) == []


@pytest.mark.parametrize("month", [MARCH, APRIL])
def test_invoices_of_format_1_took_nothing(tmp_path: Path, month: Month) -> None:
    shutil.copytree(ROOT / "tests" / "golden" / "invoices_v1", tmp_path / "invoices", symlinks=True)
    assert used(tmp_path, month) == {}
