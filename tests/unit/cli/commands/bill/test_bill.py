"""``talos bill``: invoices, usage and price plans."""

import csv
import io
import json
import shutil
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner, Result

from opentalos.cli.main import talos
from opentalos.model.errors import NotFound
from opentalos.pipelines.billing.invoices.files import InvoiceFolder
from opentalos.pipelines.billing.pipeline import Bill, invoice_files
from opentalos.pipelines.billing.plans.price_plan import PricePlan, Rounding
from opentalos.pipelines.billing.plans.tenant_plans import Assigned
from opentalos.pipelines.billing.pricing import LINES
from opentalos.pipelines.lake.layout import Batch
from opentalos.pipelines.lake.opening import pipeline_table
from opentalos.pipelines.lake.periods.month import Month
from opentalos.pipelines.lake.tables import HourTable
from opentalos.pipelines.metering.usage_table import LAYOUT, SCHEMA

ROOT = Path(__file__).resolve().parents[5]
MONTH = Month(2026, 3)
PLAN = PricePlan(
    name="standard", valid_from=Month(2026, 1), currency="EUR", decimals=2,
    rounding=Rounding.HALF_UP, minimum=Decimal(5), rates={}, origin="",
)  # fmt: skip
TOPICS = pa.schema(
    [("tenant", pa.string()), ("topic", pa.string()), ("name", pa.string()),
     ("partitions", pa.int32()), ("records", pa.decimal128(20, 0)),
     ("bytes", pa.decimal128(20, 0))]
)  # fmt: skip


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("home")
    rows = [
        {"tenant": tenant, "topic": f"u-{tenant}", "name": "a,b", "partition": 0,
         "minute": begin, "records": 2, "bytes": 20, "first_offset": 0, "next_offset": 2}
        for tenant in ("CLshop", "CLnew")
        for begin in (MONTH.begin,)
    ]  # fmt: skip
    table = HourTable(folder, "usage", SCHEMA)
    table.replace(MONTH.begin_ms, pa.Table.from_pylist(rows, SCHEMA))
    after = [{**rows[0], "minute": MONTH.end, "first_offset": 2, "next_offset": 4}]
    table.replace(MONTH.end_ms, pa.Table.from_pylist(after, SCHEMA))
    line = {
        "tenant": "CLshop", "line": 1, "plan": "standard", "resource": "minimum", "tier": 0,
        "quantity": Decimal(1), "unit": Decimal(1), "unit_name": "", "price": Decimal(5),
        "from_count": Decimal(0), "amount": Decimal("5.1"), "period_begin": date(2026, 3, 1),
    }  # fmt: skip
    bill = Bill(
        MONTH,
        [Assigned("CLnew", None, problem="no plan"), Assigned("CLshop", PLAN)],
        pa.Table.from_pylist([line], LINES),
        pa.Table.from_pylist([], TOPICS),
        ["tenant CLnew: no plan"],
    )
    InvoiceFolder(folder, MONTH).publish(lambda revision: invoice_files(bill, revision))
    return folder


def run(home: Path, *argv: str) -> Result:
    return CliRunner().invoke(
        talos, ["bill", argv[0], "--home", str(home), *argv[1:]], standalone_mode=False
    )


def rows_of(result: Result) -> list[dict[str, Any]]:
    assert result.exception is None
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_all_invoices_of_a_month_are_listed(home: Path) -> None:
    rows = rows_of(run(home, "invoice", "--month", "2026-03", "--format", "json"))
    assert [(row["tenant"], row["amount"], row["problem"]) for row in rows] == [
        ("CLnew", None, "no plan"),
        ("CLshop", "5.1000", ""),
    ]


def test_an_invoice_shows_its_lines(home: Path) -> None:
    shown = run(home, "invoice", "CLshop", "--month", "2026-03").stdout
    assert "minimum" in shown
    assert "5.1000" in shown
    (row,) = rows_of(run(home, "invoice", "CLshop", "--month", "2026-03", "--format", "json"))
    assert (row["amount"], row["period_begin"]) == ("5.1000", "2026-03-01")


def test_the_page_of_an_invoice_can_be_found(home: Path) -> None:
    path = Path(run(home, "invoice", "CLshop", "--month", "2026-03", "--path").stdout.strip())
    assert "Invoice 2026-03" in path.read_text()


def test_invoices_of_format_1_are_shown(tmp_path: Path) -> None:
    golden = ROOT / "tests" / "golden" / "invoices_v1"
    shutil.copytree(golden, tmp_path / "invoices", symlinks=True)
    rows = rows_of(run(tmp_path, "invoice", "--month", "2026-03", "--format", "json"))
    assert [(row["tenant"], row["amount"], row["charges"]) for row in rows] == [
        ("CLflat", "99.0000", None), ("CLshop", "402.9700", None), ("CLsmall", "5.0000", None),
    ]  # fmt: skip
    lines = rows_of(run(tmp_path, "invoice", "CLshop", "--month", "2026-03", "--format", "json"))
    assert len(lines) == 7
    assert lines[0]["id"] is None


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (("invoice", "--month", "2026-04"), "no invoices of 2026-04"),
        (("invoice", "CLother", "--month", "2026-03"), "CLother has no invoice of 2026-03"),
    ],
)
def test_missing_invoices_are_reported(home: Path, argv: tuple[str, ...], words: str) -> None:
    error = run(home, *argv).exception
    assert isinstance(error, NotFound)
    assert words in str(error)


def test_a_month_must_be_valid(home: Path) -> None:
    assert "write YYYY-MM" in str(run(home, "export", "--month", "March").exception)


def test_usage_of_a_month_and_tenant_is_exported(home: Path) -> None:
    text = run(home, "export", "--month", "2026-03", "--tenant", "CLshop").stdout
    (row,) = csv.DictReader(io.StringIO(text))
    assert row == {
        "tenant": "CLshop", "topic": "u-CLshop", "name": "a,b", "partition": "0",
        "minute": "2026-03-01T00:00Z", "records": "2", "bytes": "20", "first_offset": "0",
        "next_offset": "2",
    }  # fmt: skip
    rows = rows_of(run(home, "export", "--format", "json"))
    assert [(item["tenant"], item["minute"]) for item in rows] == [
        ("CLnew", "2026-03-01T00:00Z"),
        ("CLshop", "2026-03-01T00:00Z"),
        ("CLshop", "2026-04-01T00:00Z"),
    ]


def test_usage_of_a_lake_is_exported(home: Path, tmp_path: Path) -> None:
    lake = f"delta+file://{tmp_path}/lake"
    missing = run(tmp_path, "export", "--lake", lake).exception
    assert isinstance(missing, NotFound)
    assert not (tmp_path / "lake").exists()
    usage = pipeline_table(home, "", LAYOUT).read()
    pipeline_table(tmp_path, lake, LAYOUT, create=True).merge(Batch("q", 0), usage)
    for month in ("2026-03", "2026-04"):
        given = ("export", "--month", month)
        assert run(tmp_path, *given, "--lake", lake).stdout == run(home, *given).stdout


def test_no_usage_is_a_table_without_lines(tmp_path: Path) -> None:
    assert run(tmp_path, "export").stdout.count("\n") == 1


def check(*argv: str) -> Result:
    return CliRunner().invoke(talos, ["bill", "plan", "check", *argv], standalone_mode=False)


def test_valid_plans_are_listed() -> None:
    folder = ROOT / "examples" / "billing"
    result = check(str(folder / "plans"), "--tenants", str(folder / "tenants.toml"),
                   "--format", "json")  # fmt: skip
    assert result.return_value == 0
    assert [row["plan"] for row in rows_of(result)] == ["flat", "standard", "standard"]


def test_faults_of_plans_have_file_and_line(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text('plan = "a"\nvalid_from = "2026"\ncurrency = "EUR"\n')
    result = check(str(tmp_path), "--format", "tsv")
    assert result.return_value == 1
    assert result.stdout.splitlines()[1].startswith(f"{tmp_path}/a.toml:2: ")


def test_faults_of_credits_have_file_and_line(tmp_path: Path) -> None:
    plans = str(ROOT / "examples" / "billing" / "plans")
    right = ROOT / "examples" / "billing" / "credits.toml"
    assert check(plans, "--credits", str(right)).return_value == 0
    wrong = tmp_path / "credits.toml"
    wrong.write_text(right.read_text().replace("12.50", "0"))
    result = check(plans, "--credits", str(wrong), "--format", "tsv")
    assert result.return_value == 1
    assert result.stdout.splitlines()[1].endswith("credits.toml:7: amount must be above 0")
