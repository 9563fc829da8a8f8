"""Overview and topics in a browser, as users of each role see them."""

from collections.abc import Callable

from playwright.sync_api import expect
from tests.e2e.console.browsing import BRIGHT, NIGHT, Look, Visitor, each_page
from tests.waiting import eventually

Visit = Callable[..., Visitor]
PAGES = (
    ("overview", "", "Busiest topics"),
    ("topics", "topics", "orders"),
    ("topic", "topics/CL1%2Forders", "Partitions"),
    ("permissions", "topics/CL1%2Forders/permissions", "Grant"),
    ("settings", "topics/CL1%2Forders/settings", "Delete the topic"),
    ("new-topic", "topics/new", "Retention"),
)


@each_page(*PAGES, looks=(BRIGHT, NIGHT))
def test_a_page_is_whole_and_accessible(
    visit: Visit, name: str, path: str, shown: str, look: Look
) -> None:
    window = visit("root", look)
    page = window.go(path)
    expect(page.locator("main")).to_contain_text(shown)
    window.check_whole(f"{name}-{look}")


def test_the_picture_of_the_readme(visit: Visit) -> None:
    """docs/console.png is a copy of this picture."""
    window = visit("root")
    page = window.go("?span=15m")

    def has_charts() -> bool:
        page.reload()
        return page.locator("#charts").count() > 0

    eventually("a new server has measured a step", has_charts)
    expect(page.locator("main")).to_contain_text("archive")  # a group that always lags
    window.picture("readme")


def test_a_topic_is_made_changed_and_deleted_by_forms(visit: Visit) -> None:
    window = visit("alice")
    page = window.go("topics")
    page.click("text=New topic")
    page.fill("#field-name", "made-here")
    page.fill("#field-partitions", "2")
    page.click("text=Create")
    expect(page.get_by_role("status")).to_contain_text("Topic made-here was created.")
    page.click("text=Settings")
    page.fill("#field-partitions", "3")
    page.click("text=Save")
    expect(page.get_by_role("status")).to_contain_text("was changed")
    expect(page.locator("table.rows tbody tr")).to_have_count(3)
    page.click("text=Settings")
    page.fill("#confirmed", "another")
    page.click("button.danger")
    expect(page.get_by_role("alert").first).to_contain_text("nothing was deleted")
    page.fill("#confirmed", "made-here")
    page.click("button.danger")
    expect(page.get_by_role("status")).to_contain_text("was deleted")


def test_the_slash_key_puts_the_cursor_into_the_filter(visit: Visit) -> None:
    page = visit("root").go("topics")
    page.keyboard.press("/")
    page.keyboard.type("pay")
    page.keyboard.press("Enter")
    page.wait_for_url("**/console/topics?filter=pay")
    expect(page.locator("table.rows")).to_contain_text("payments")
    expect(page.locator("table.rows")).not_to_contain_text("orders")


def test_a_tenant_sees_nothing_of_another(visit: Visit) -> None:
    window = visit("alice")
    page = window.go("topics")
    expect(page.locator("main")).to_contain_text("orders")
    expect(page.locator("main")).not_to_contain_text("secrets")
    page = window.go("topics/CL2%2Fsecrets")
    expect(page.locator("h1")).to_have_text("Not found")
    expect(window.go("").locator("main")).not_to_contain_text("Servers")


def test_a_viewer_is_offered_no_change(visit: Visit) -> None:
    window = visit("viewer")
    page = window.go("topics")
    expect(page.locator("main")).to_contain_text("secrets")
    expect(page.get_by_text("New topic")).to_have_count(0)
    page = window.go("topics/CL1%2Forders")
    expect(page.get_by_text("Settings")).to_have_count(0)
    expect(window.go("topics/new").locator("h1")).to_have_text("Not found")


def test_an_expired_login_leads_back_to_the_page(visit: Visit) -> None:
    window = visit("root")
    page = window.go("topics?filter=orders")
    login = window.context.cookies()
    window.context.clear_cookies()
    assert login
    page.reload()
    page.wait_for_url("**/console/login?next=**")
    page.fill("#key_id", "AKROOTTEST")
    page.fill("#secret", "root-secret-of-tests")
    page.click("text=Log in")
    page.wait_for_url("**/console/topics?filter=orders")


def test_light_and_dark_can_be_selected(visit: Visit) -> None:
    page = visit("root").go("topics")
    colour = "() => getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(colour)
    page.click("[data-theme-toggle]")
    dark = page.evaluate(colour)
    assert light != dark
    page.reload()
    assert page.evaluate(colour) == dark
