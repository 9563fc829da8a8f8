"""Consumer groups in a browser: lag, owners, explanation and reset, as each role sees them."""

from collections.abc import Callable

from playwright.sync_api import expect
from tests.e2e.console.browsing import Look, Visitor, each_page
from tests.e2e.console.conftest import Served

from opentalos.sdk import Client, TalosConsumer

Visit = Callable[..., Visitor]
BILLING = "groups/CL1%2Forders/billing"
ARCHIVE = "groups/CL1%2Fpayments/archive"
PAGES = (
    ("groups", "groups", "archive"),
    ("group", BILLING, "Who owns what"),
    ("group-stuck", ARCHIVE, "What to do"),
    ("group-reset", f"{ARCHIVE}/reset", "Reset the offsets"),
)


@each_page(*PAGES)
def test_a_page_is_whole_and_accessible(
    visit: Visit, name: str, path: str, shown: str, look: Look
) -> None:
    window = visit("alice", look)
    page = window.go(path)
    expect(page.locator("main")).to_contain_text(shown)
    if "reset" not in name:
        expect(page.locator(".plot[data-ready]").first).to_be_visible()
    window.check_whole(f"{name}-{look}")


def test_the_lag_of_each_partition_is_a_heat_map(visit: Visit) -> None:
    window = visit("alice")
    page = window.go(ARCHIVE)
    heat = page.locator(".heatpicture rect[class^='h']")
    expect(heat.first).to_be_attached()
    window.picture("group-heat-wide-light")
    assert "messages behind" in (heat.first.locator("title").text_content() or "")
    expect(page.locator(".owners rect")).to_have_count(4)
    expect(page.locator("main")).to_contain_text("Nobody reads with this group")


def test_a_reset_is_tried_first_and_then_confirmed(visit: Visit, served: Served) -> None:
    with Client(served.client("alice")) as client:
        with TalosConsumer(client, "payments", "audit") as audit:
            for _ in zip(range(3), audit, strict=False):
                pass
    window = visit("alice")
    page = window.go("groups/CL1%2Fpayments/audit")
    page.click("text=Reset and delete")
    page.select_option("#field-to", "end")
    page.click("text=Show what would change")
    expect(page.locator("#preview")).to_be_visible()
    expect(page.locator(".moved")).to_have_count(4)
    expect(page.locator("main")).to_contain_text("left out")
    window.picture("group-dry-run-wide")
    assert window.violations() == []
    page.fill("#confirmed", "another")
    page.click("text=Reset the group >> nth=-1")
    expect(page.get_by_role("alert").first).to_contain_text("nothing was reset")
    page.fill("#confirmed", "audit")
    page.click("text=Reset the group >> nth=-1")
    expect(page.get_by_role("status").first).to_contain_text("4 partitions of group audit")
    page.click("text=Reset and delete")
    page.fill("#delete-confirmed", "audit")
    page.click("text=Delete the group >> nth=-1")
    expect(page.get_by_role("status").first).to_contain_text("Group audit was deleted")


def test_another_tenant_sees_no_group(visit: Visit) -> None:
    window = visit("bob")
    expect(window.go("groups").locator("main")).not_to_contain_text("billing")
    expect(window.go(BILLING).locator("h1")).to_have_text("Not found")
    expect(window.go("groups?topic=CL1%2Forders").locator("main")).not_to_contain_text("billing")


def test_a_viewer_may_not_reset(visit: Visit) -> None:
    window = visit("viewer")
    expect(window.go("groups").locator("h1")).to_have_text("Consumer groups")
    expect(window.go(f"{ARCHIVE}/reset").locator("h1")).to_have_text("Not found")
