"""Quotas in a browser: use, requests, decisions, projections, as each role sees them."""

import time
from collections.abc import Callable

import pytest
from playwright.sync_api import expect
from tests.e2e.console.browsing import DARK, Login, Look, Visitor, each_page
from tests.e2e.console.conftest import Served

Visit = Callable[..., Visitor]
HOSTILE = "<img src=x onerror=alert(1)>"
MS = 1_000


@pytest.fixture(scope="module")
def projected(served: Served) -> Served:
    """CL1 has a grant for its traffic, which grows to that within some weeks."""
    projection = projection_of("CL1", 3_000_000, int(time.time() * MS))
    served.rest("PUT", "quota-projections", {"projections": [projection]})
    wanted = {"total": 4, "auto": True, "reason": "orders grow"}
    served.rest("POST", "quota-requests", wanted, by="alice")
    return served


def projection_of(tenant: str, level: int, made_ms: int) -> dict[str, object]:
    return {
        "tenant": tenant, "made_ms": made_ms, "days": 60, "level": level,
        "trend_per_day": 60_000, "season": [1_100, 1_050, 1_000, 1_000, 950, 700, 650],
        "spread": 200_000, "peak": level,
    }  # fmt: skip


@pytest.fixture(scope="module")
def full(served: Served) -> Served:
    """dora's CL4 uses all of its 4 partitions, and more traffic is expected than granted for."""
    served.rest("POST", "principals", {"id": "dora", "organisation": "CL4"})
    key = served.rest("POST", "principals/dora/keys")
    assert isinstance(key, dict)
    served.logins["dora"] = Login(key["key_id"], key["secret"])
    now_ms = int(time.time() * MS)
    lower = {"total": 1, "reason": "to begin with"}
    served.rest("POST", "quota-requests/CL4/approve", lower)
    first = projection_of("CL4", 3_000_000, now_ms - MS)
    served.rest("PUT", "quota-projections", {"projections": [first]})
    wanted = {"total": 4, "auto": True, "reason": "it begins"}
    served.rest("POST", "quota-requests", wanted, by="dora")
    served.rest("POST", "topics", {"name": "full", "partitions": 4}, by="dora")
    grown = projection_of("CL4", 300_000_000, now_ms)
    served.rest("PUT", "quota-projections", {"projections": [grown]})
    return served


@each_page(("organisation-full", "quotas/CL4", "Partitions in use"))
def test_an_organisation_at_its_limit_sees_it(
    visit: Visit, full: Served, name: str, path: str, shown: str, look: Look
) -> None:
    assert full.url
    window = visit("dora", look)
    page = window.go(path)
    used = page.locator("dl.figures > div", has_text=shown)
    expect(used).to_contain_text("4 of 4")
    expect(used).to_contain_text("100 %")
    expect(used).to_have_class("figure bad")
    reached = page.locator("dl.figures > div", has_text="Limit reached")
    expect(reached).to_contain_text("now")
    window.check_whole(f"{name}-{look}")


def test_more_than_the_limit_is_refused_with_the_reason(visit: Visit, full: Served) -> None:
    assert full.url
    window = visit("dora")
    page = window.go("topics/new")
    page.fill("#field-name", "too-many")
    page.fill("#field-partitions", "1")
    page.click("text=Create")
    expect(page.get_by_role("alert").first).to_contain_text("limit 4")
    page = window.go("quotas/CL4")
    page.fill("#field-total", "900000")
    page.get_by_role("button", name="Request", exact=True).click()
    expect(page.locator(".decision")).to_contain_text("Without an administrator the organisation")
    expect(page.locator(".decision")).to_contain_text("in total, of which 4 are in use")
    window.picture("organisation-full-decision")
    assert window.violations() == []


@each_page(("quotas", "quotas", "Your limits"), ("organisation", "quotas/CL1", "Expected traffic"))
def test_a_page_is_whole_and_accessible(
    visit: Visit, projected: Served, name: str, path: str, shown: str, look: Look
) -> None:
    assert projected.url
    window = visit("alice", look)
    page = window.go(path)
    expect(page.locator("main")).to_contain_text(shown)
    if name == "organisation":
        expect(page.locator(".outlook .expected")).to_be_attached()
    window.check_whole(f"{name}-{look}")


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
    root = visit("root", DARK)
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
