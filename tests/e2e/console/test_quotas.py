"""Quotas in a browser: use, requests, decisions, projections, as each role sees them."""

import time
from collections.abc import Callable

import pytest
from playwright.sync_api import expect
from tests.e2e.console.browsing import Visitor
from tests.e2e.console.conftest import Served

pytestmark = pytest.mark.timeout(240)
Visit = Callable[..., Visitor]
HOSTILE = "<img src=x onerror=alert(1)>"
MS = 1_000


@pytest.fixture(scope="module")
def projected(served: Served) -> Served:
    """CL1 has a grant for its traffic, which grows to that within some weeks."""
    projection = {
        "tenant": "CL1", "made_ms": int(time.time() * MS), "days": 60, "level": 3_000_000,
        "trend_per_day": 60_000, "season": [1_100, 1_050, 1_000, 1_000, 950, 700, 650],
        "spread": 200_000, "peak": 3_600_000,
    }  # fmt: skip
    served.rest("PUT", "quota-projections", {"projections": [projection]})
    wanted = {"total": 4, "auto": True, "reason": "orders grow"}
    served.rest("POST", "quota-requests", wanted, by="alice")
    return served


@pytest.mark.parametrize("phone", [False, True], ids=["wide", "phone"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(
    ("name", "path", "shown"),
    [
        ("quotas", "quotas", "Your limits"),
        ("organisation", "quotas/CL1", "Expected traffic"),
    ],
)
def test_a_page_is_whole_and_accessible(
    visit: Visit, projected: Served, name: str, path: str, shown: str, scheme: str, phone: bool
) -> None:
    assert projected.url
    window = visit("alice", phone=phone, color_scheme=scheme)
    page = window.go(path)
    expect(page.locator("main")).to_contain_text(shown)
    if name == "organisation":
        expect(page.locator(".outlook .expected")).to_be_attached()
    window.picture(f"{name}-{'phone' if phone else 'wide'}-{scheme}")
    assert window.violations() == []
    assert window.cut_columns() == []


def test_a_request_is_decided_with_a_reason_and_approved_by_an_administrator(
    visit: Visit, projected: Served
) -> None:
    assert projected.url
    bob = visit("bob")
    page = bob.go("quotas")
    page.get_by_role("link", name="Request more").click()
    page.fill("#field-total", "900000")
    page.fill("#field-reason", HOSTILE)
    page.get_by_role("button", name="Request", exact=True).click()
    expect(page.locator("#decision")).to_be_visible()
    expect(page.locator(".decision")).to_contain_text("you requested 900000")
    bob.picture("organisation-decision-wide-light")
    assert bob.violations() == []
    page.fill("#field-total", "40")
    page.check("input[name=by_person]")
    page.get_by_role("button", name="Request", exact=True).click()
    expect(page.locator("#decision")).to_contain_text("needs an administrator")
    root = visit("root", color_scheme="dark")
    page = root.go("quotas")
    expect(page.locator("main")).to_contain_text("Requests that wait for a decision")
    root.picture("quotas-root-wide-dark")
    page.get_by_role("link", name="Decide").click()
    expect(page.locator("main")).to_contain_text(HOSTILE)
    page.fill("#grant-reason", f"agreed {HOSTILE}")
    root.picture("organisation-decide-wide-dark")
    assert root.violations() == []
    page.get_by_role("button", name="Approve", exact=True).click()
    expect(page.get_by_role("status").first).to_contain_text("Partitions were granted to CL2")
    page = bob.go("quotas/CL2")
    expect(page.locator("main")).to_contain_text("of 40")
    expect(page.locator("main")).to_contain_text(f"agreed {HOSTILE}")


def test_another_tenant_sees_no_quota(visit: Visit, projected: Served) -> None:
    assert projected.url
    window = visit("bob")
    expect(window.go("quotas").locator("main")).not_to_contain_text("CL1")
    expect(window.go("quotas/CL1").locator("h1")).to_have_text("Not found")
    expect(window.go("quotas/CL9").locator("h1")).to_have_text("Not found")


def test_a_viewer_sees_and_decides_nothing(visit: Visit, projected: Served) -> None:
    assert projected.url
    page = visit("viewer").go("quotas/CL1")
    expect(page.locator("h1")).to_have_text("Quota of CL1")
    expect(page.locator("form.panel")).to_have_count(0)
