"""Bills, tables, principals and the audit log in a browser, as users of each role see them."""

from collections.abc import Callable

from playwright.sync_api import expect
from tests.e2e.console.browsing import BRIGHT, DARK, NIGHT, Look, Visitor, each_page
from tests.e2e.console.conftest import Served

Visit = Callable[..., Visitor]
PAGES = (
    ("bills", "bills", "CL1"),
    ("bill", "bills/CL1", "Cost per day"),
    ("invoice", "bills/CL1/2026-03", "Total"),
    ("usage", "usage/CL1%2Forders", "Partitions over time"),
    ("tables", "tables", "customers"),
    ("table", "tables/CL1%2Fcustomers", "placed"),
    ("rows", "tables/CL1%2Fcustomers/rows?rows=12", "customer-001"),
    ("streams", "tables/CL1%2Fcustomers/streams", "payments"),
    ("table-settings", "tables/CL1%2Fcustomers/settings", "Drop the table"),
    ("new-table", "tables/new", "Entity group"),
    ("principals", "principals", "alice"),
    ("principal", "principals/alice", "New key"),
    ("principal-permissions", "principals/alice/permissions", "orders"),
    ("audit", "audit", "create a topic"),
    ("encryption", "encryption", "not encrypted"),
)


@each_page(*PAGES, looks=(BRIGHT, NIGHT))
def test_a_page_is_whole_and_accessible(
    visit: Visit, name: str, path: str, shown: str, look: Look
) -> None:
    window = visit("root", look)
    page = window.go(path)
    expect(page.locator("main")).to_contain_text(shown)
    window.check_whole(f"{name}-{look}")


def test_usage_leads_from_the_month_to_the_minute(visit: Visit) -> None:
    window = visit("alice")
    page = window.go("bills")
    expect(page.locator("main")).to_contain_text("Bill of CL1")
    page.click("table.rows a:has(:text-is('orders'))")
    expect(page.locator("main")).to_contain_text("Messages per day")
    for title in ("Messages per hour", "Messages per minute"):
        bars = page.locator("svg a:has(rect.p0)")
        bars.last.click()
        expect(page.locator("main")).to_contain_text(title)
    expect(page.locator("table.rows tbody tr").first).to_contain_text("20")
    window.picture("usage-minutes")
    assert window.violations() == []


def test_an_invoice_can_be_printed(visit: Visit) -> None:
    window = visit("alice", DARK)
    page = window.go("bills/CL1/2026-03")
    expect(page.locator(".due")).to_have_text("1.50 EUR")
    page.emulate_media(media="print")
    expect(page.locator("header.top")).to_be_hidden()
    expect(page.locator(".due")).to_be_visible()
    window.picture("invoice-print")


def test_rows_of_a_table_are_read_page_by_page(visit: Visit) -> None:
    window = visit("alice")
    page = window.go("tables/customers/rows?rows=50")
    expect(page.locator("table.rows tbody tr")).to_have_count(50)
    expect(page.locator("main")).not_to_contain_text("4111111111111111")
    page.click("a[rel=next]")
    expect(page.locator("table.rows")).to_contain_text("customer-050")
    page.click("text=first")
    page.fill("[name=filter]", "vip = true")
    page.click("text=Show")
    expect(page.locator("table.rows tbody tr")).to_have_count(18)
    page.locator("text=whole").first.click()
    expect(page.locator("main")).to_contain_text("<script>alert(1)</script>")
    window.picture("row")
    assert window.violations() == []


def test_a_table_is_made_and_dropped_by_forms(visit: Visit) -> None:
    page = visit("bob").go("tables/new")
    page.fill("#field-name", "made-here")
    page.fill("#field-columns", "id string\nsum int64")
    page.fill("#field-key", "id")
    page.click("text=Create")
    expect(page.get_by_role("status")).to_contain_text("Table made-here was created.")
    page.click("text=Settings")
    page.fill("#confirmed", "another")
    page.click("button:text-is('Drop the table')")
    expect(page.get_by_role("alert").first).to_contain_text("nothing was dropped")
    page.fill("#confirmed", "made-here")
    page.click("button:text-is('Drop the table')")
    expect(page.get_by_role("status")).to_contain_text("was dropped")


def test_a_secret_is_shown_once_and_logs_in(visit: Visit, served: Served) -> None:
    served.rest("POST", "principals", {"id": "service", "organisation": "CL3"})
    window = visit("root")
    page = window.go("principals/service")
    page.click("text=Create the key")
    expect(page.locator("main")).to_contain_text("shown only this once")
    key_id, secret = (page.locator(".secret code").nth(index).inner_text() for index in (0, 1))
    window.picture("secret")
    assert window.violations() == []
    page.click("text=Done, I have copied it")
    expect(page.locator("main")).to_contain_text(key_id)
    expect(page.locator("main")).not_to_contain_text(secret)
    window.context.clear_cookies()
    page.goto(f"{served.url}/console/login")
    page.fill("#key_id", key_id)
    page.fill("#secret", secret)
    page.click("text=Log in")
    expect(page.locator(".who")).to_contain_text("service")


def test_a_login_that_ends_in_a_form_loses_nothing(visit: Visit, served: Served) -> None:
    window = visit("root")
    page = window.go("principals/new")
    page.fill("#field-id", "typed-before")
    page.fill("#field-team", "CI7")
    window.context.clear_cookies()
    page.click("button.main")
    expect(page.locator("h1")).to_have_text("Your login ended")
    window.picture("login-ended")
    assert window.violations() == []
    with window.context.expect_page() as opened:
        page.click("text=Log in in a new tab")
    other = opened.value
    login = served.logins["root"]
    other.fill("#key_id", login.key_id)
    other.fill("#secret", login.secret)
    other.click("text=Log in")
    other.wait_for_selector("nav.menu")
    page.click("button:text-is('Show the form again')")
    expect(page.locator("#field-id")).to_have_value("typed-before")
    expect(page.get_by_role("alert").first).to_contain_text("Nothing was changed yet")
    page.click("button.main")
    expect(page.get_by_role("status")).to_contain_text("Principal typed-before was created")


def test_a_tenant_sees_nothing_of_another(visit: Visit) -> None:
    window = visit("bob")
    for path in ("tables/CL1%2Fcustomers", "tables/CL1%2Fcustomers/rows", "usage/CL1%2Forders",
                 "bills/CL1/2026-03", "principals/alice", "encryption", "audit/none"):  # fmt: skip
        expect(window.go(path).locator("h1")).to_have_text("Not found")
    words = ("customers", "orders", "alice")
    for path in ("bills", "tables", "principals", "bills/CL1"):
        page = window.go(path)
        for word in (*words, "1.50 EUR" if path == "bills/CL1" else "CL1 "):
            expect(page.locator("main")).not_to_contain_text(word)
    # An owner sees who was denied what is the owner's.
    events = window.go("audit?span=30d").locator("main tbody tr").filter(has_not_text="CL2/")
    for word in (*words, "CL1 "):
        expect(events.filter(has_text=word)).to_have_count(0)


def test_a_viewer_sees_everything_and_changes_nothing(visit: Visit) -> None:
    window = visit("viewer")
    for path, shown, missing in (
        ("tables", "customers", "New table"),
        ("tables/CL1%2Fcustomers/streams", "payments", "Publish from now on"),
        ("principals", "alice", "New principal"),
        ("principals/alice", "Keys", "Create the key"),
        ("bills", "CL2", "nothing-else"),
        ("encryption", "Server key", "Rotate data keys"),
    ):
        main = window.go(path).locator("main")
        expect(main).to_contain_text(shown)
        expect(main).not_to_contain_text(missing)
