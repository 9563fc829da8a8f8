"""REST shows the invoices that billing published, each tenant its own."""

from collections.abc import AsyncIterator
from decimal import Decimal
from pathlib import Path

import pytest
from tests.published_invoices import publish
from tests.unit.gateway.rest.support import Rest, rest

from opentalos.adapters.local.invoice_folder import InvoiceDocuments

pytestmark = pytest.mark.real_time  # files are read on threads


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Rest]:
    publish(tmp_path)
    async with rest(invoices=InvoiceDocuments(tmp_path)) as made:
        await made.user("anna", organisation="CLshop")
        await made.user("money", role="billing")
        yield made


async def test_a_tenant_sees_its_own_invoices(client: Rest) -> None:
    found = (await client("GET", "invoices", by="anna")).document
    assert found["configured"] is True
    assert [(row["month"], row["tenant"]) for row in found["invoices"]] == [
        ("2026-04", "CLshop"), ("2026-03", "CLshop"),
    ]  # fmt: skip
    newest, closed = found["invoices"]
    assert (newest["closed"], closed["closed"]) == (False, True)
    assert (closed["amount"], closed["currency"], closed["records"]) == ("1.5000", "EUR", 40)


async def test_an_invoice_has_lines_and_a_cost_for_each_day(client: Rest) -> None:
    shown = (await client("GET", "invoices/2026-03/CLshop", by="anna")).document
    assert (shown["time_zone"], shown["total"], shown["closed"]) == (
        "Europe/Berlin",
        "1.5000",
        True,
    )
    assert len(shown["days"]) == 31
    assert sum(Decimal(day["cost"]) for day in shown["days"]) == Decimal(shown["charges"])
    costs = [Decimal(day["cost"]) for day in shown["days"]]
    assert costs[1] > costs[0] > 0  # the second day has three times the messages
    assert shown["lines"][0]["resource"] == "records"


@pytest.mark.parametrize("path", ["2026-03/CLbank", "2026-03/nobody", "2026-05/CLshop"])
async def test_unknown_and_of_another_tenant_look_alike(client: Rest, path: str) -> None:
    reply = await client("GET", f"invoices/{path}", by="anna")
    month, tenant = path.split("/")
    assert reply.status == 404
    expected = f"tenant {tenant} has no invoice of {month} that you may see"
    assert reply.document["detail"] == expected
    listed = await client("GET", "invoices?tenant=CLbank", by="anna")
    unknown = await client("GET", "invoices?tenant=nobody", by="anna")
    assert listed.document == unknown.document == {"configured": True, "invoices": []}


@pytest.mark.parametrize("by", ["root", "money"])
async def test_billing_and_administrators_see_every_tenant(client: Rest, by: str) -> None:
    found = (await client("GET", "invoices?month=2026-03", by=by)).document["invoices"]
    assert {row["tenant"] for row in found} == {"CLshop", "CLbank"}
    assert (await client("GET", "invoices/2026-03/CLbank", by=by)).status == 200


@pytest.mark.parametrize("path", ["2026-13/CLshop", "..%2F2026-03/CLshop", "2026-03/..%2F..%2Fx"])
async def test_paths_that_are_no_month_or_tenant(client: Rest, path: str) -> None:
    assert (await client("GET", f"invoices/{path}")).status == 404


async def test_damage_is_no_other_figure(client: Rest, tmp_path: Path) -> None:
    version = next((tmp_path / "invoices" / "2026-03" / ".versions").iterdir())
    (version / "documents" / "CLshop.json").write_text("{")
    reply = await client("GET", "invoices/2026-03/CLshop", by="anna")
    assert reply.status == 503
    assert "cannot be read" in reply.document["detail"]


async def test_without_the_setting_none_are_shown() -> None:
    async with rest() as client:
        assert (await client("GET", "invoices")).document == {"configured": False, "invoices": []}
        assert (await client("GET", "invoices/2026-03/alice")).status == 404
