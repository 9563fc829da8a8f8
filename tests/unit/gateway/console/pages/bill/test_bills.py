"""Pages of bills and invoices: each tenant its own, no figure without an invoice."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.published_invoices import publish
from tests.unit.gateway.console.support import Browser, browser

from opentalos.adapters.local.invoice_folder import InvoiceDocuments

pytestmark = pytest.mark.real_time  # files are read on threads
HOSTILE = "<script>alert(1)</script>"


@pytest.fixture
async def root(tmp_path: Path) -> AsyncIterator[Browser]:
    publish(tmp_path, topic=HOSTILE)
    async with browser(broker={"invoices": InvoiceDocuments(tmp_path)}) as made:
        yield made


async def test_all_tenants_of_a_month(root: Browser) -> None:
    words = (await root.get("/console/bills")).words
    for text in ("CLshop", "CLbank", "Invoices of 2026-04 3.00 EUR", "1.50 EUR"):
        assert text in words
    march = (await root.get("/console/bills?month=2026-03")).words
    assert "final" in march
    assert "Tenants 2" in march


async def test_a_tenant_sees_its_bill_with_a_cost_for_each_day(root: Browser) -> None:
    anna = await root.as_user("anna", organisation="CLshop")
    page = await anna.get("/console/bills")
    for text in ("Bill of CLshop", "Newest invoice 1.50 EUR", "Cost per day, 2026-04"):
        assert text in page.words
    assert "2026-04-30" in page.text
    assert "CLbank" not in page.words
    assert "GET /rest/v1/invoices?tenant=CLshop" in page.words


async def test_an_invoice_can_be_read(root: Browser) -> None:
    anna = await root.as_user("anna", organisation="CLshop")
    page = await anna.get("/console/bills/CLshop/2026-03")
    assert page.status == 200
    for text in (
        "Invoice 2026-03 1.50 EUR",
        "2026-03-01 00:00 to before 2026-04-01 00:00, UTC",
        "In Europe/Berlin 2026-03-01 01:00 to before 2026-04-01 02:00",
        "Messages stored 40 0.03 per message 1.20",
        "Charges 2.00",
        "c-1, 2026-03-01: late <b>delivery</b>",
        "Total 1.50 EUR",
        "final",
    ):
        assert text in page.words, text
    assert HOSTILE not in page.text


@pytest.mark.parametrize("path", ["CLbank/2026-03", "CLnone/2026-03", "CLshop/1999-01"])
async def test_of_another_tenant_and_unknown_look_alike(root: Browser, path: str) -> None:
    anna = await root.as_user("anna", organisation="CLshop")
    page = await anna.get(f"/console/bills/{path}")
    tenant, month = path.split("/")
    assert page.status == 404
    assert f"tenant {tenant} has no invoice of {month} that you may see" in page.words
    own = (await anna.get(f"/console/bills/{tenant}")).words
    assert (tenant == "CLshop") == ("Newest invoice" in own)


async def test_without_invoices_pages_say_how_to_get_them() -> None:
    async with browser() as root:
        for path in ("bills", "bills/root"):
            page = await root.get(f"/console/{path}")
            assert "No prices on this server" in page.words
            assert "EUR" not in page.words
        assert (await root.get("/console/bills/root/2026-03")).status == 404


async def test_damaged_invoices_are_said_to_be_missing(root: Browser, tmp_path: Path) -> None:
    version = next((tmp_path / "invoices" / "2026-04" / ".versions").iterdir())
    (version / "summary.json").write_text("[")
    page = await root.get("/console/bills")
    assert (page.status, "invoices cannot be read now" in page.words) == (200, True)
