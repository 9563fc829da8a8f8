"""Closed invoices of every format are read, and stay as they were billed."""

import shutil
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from opentalos.model.errors import ConfigError
from opentalos.pipelines.billing.invoices.files import InvoiceFolder
from opentalos.pipelines.billing.invoices.tables import FORMAT, LINES, read_rows, to_parquet
from opentalos.pipelines.billing.pipeline import Bill, invoice_files
from opentalos.pipelines.billing.plans.price_plan_files import load_price_plans
from opentalos.pipelines.billing.plans.tenant_plans import Assigned
from opentalos.pipelines.billing.pricing import line_table, priced_rows
from opentalos.pipelines.lake.periods.month import Month

ROOT = Path(__file__).resolve().parents[5]
GOLDEN = ROOT / "tests" / "golden" / "invoices_v1"
MARCH = Month(2026, 3)


@pytest.fixture(autouse=True)
def no_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    """Writing out all of a busy machine's files takes longer than a test may."""
    monkeypatch.setattr("os.sync", lambda: None)


@pytest.fixture
def folder(tmp_path: Path) -> InvoiceFolder:
    shutil.copytree(GOLDEN, tmp_path / "invoices", symlinks=True)
    return InvoiceFolder(tmp_path, MARCH)


def bill_again(folder: InvoiceFolder, *, more: int = 0, reserved: int = 10) -> Path:
    """Bill the usage of the golden month, with some records more."""
    assert folder.current is not None
    topics = pq.read_table(folder.current / "topics.parquet")
    plans = load_price_plans(ROOT / "examples" / "billing" / "plans")
    standard, flat = (plans.at(name, MARCH) for name in ("standard", "flat"))
    assigned = [Assigned("CLflat", flat), Assigned("CLshop", standard, reserved),
                Assigned("CLsmall", standard)]  # fmt: skip
    spans = [{**row, "day": 0} for row in topics.to_pylist()]
    spans[0]["records"] += more
    lines = line_table(priced_rows(assigned, spans, MARCH))
    bill = Bill(MARCH, assigned, lines, topics, [])
    return folder.publish(lambda revision: invoice_files(bill, revision))


def test_a_month_that_was_closed_in_format_1_stays_as_it_is(folder: InvoiceFolder) -> None:
    closed, ledger = folder.current, folder.ledger()
    assert bill_again(folder) == closed == folder.current
    assert folder.ledger() == ledger
    assert list((folder.folder / ".versions").iterdir()) == [closed]


@pytest.mark.parametrize("change", [{"more": 10**6}, {"reserved": 11}])
def test_a_bill_that_differs_from_a_closed_one_is_refused(
    folder: InvoiceFolder, change: dict[str, int]
) -> None:
    with pytest.raises(ConfigError, match="2026-03 is closed"):
        bill_again(folder, **change)


def test_columns_that_a_format_lacks_are_null(folder: InvoiceFolder) -> None:
    assert folder.current is not None
    rows = read_rows(folder.current / LINES, ("tenant", "amount", "period_begin", "id"))
    assert rows[0] == {
        "tenant": "CLflat", "amount": Decimal("99.0000"), "period_begin": None, "id": None,
    }  # fmt: skip


def test_a_format_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / LINES
    path.write_bytes(to_parquet(pa.table({"amount": [1]})))
    assert read_rows(path, ("amount", "id")) == [{"amount": 1, "id": None}]
    table = pq.read_table(path).replace_schema_metadata(
        {"opentalos.invoices.format": str(FORMAT + 1)}
    )
    pq.write_table(table, path)
    with pytest.raises(ConfigError, match=r"has format 3, but this version reads up to 2"):
        read_rows(path, ("amount",))
