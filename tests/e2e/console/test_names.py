"""Long names in a browser: they break after separators only, and no page is wider than a phone."""

from collections.abc import Iterator
from typing import Any, Final

import pytest
from playwright.sync_api import Browser, expect
from tests.e2e.console.browsing import NIGHT, Login, Visitor, visitor
from tests.e2e.rest.client import rest
from tests.published_invoices import publish
from tests.server_process import ROOT_KEY, ServerProcess

from opentalos.gateway.console.page import ROOT, url

ORGANISATION: Final = "CLacme-payments_platform-europe-west"
PRINCIPAL: Final = "reconciliation.service-account_production@payments.acme.example"
TOPIC: Final = "settlement-events.reconciliation_completed-europe-west.v2"
SOLID: Final = "paymentsreconciliationeventsofeveryorganisationofthegroup"  # without separators
GROUP: Final = "fraud-detection.scoring_pipeline-europe-west-production"
TABLE: Final = "customer_profiles-enriched_with-loyalty_points"
OWNED: Final = f"{ORGANISATION}/{TOPIC}"
LAG: Final = 10_500  # messages; above what the overview makes an alarm of
TABS_MAX: Final = 60  # of the keyboard, until a link is reached
CONFIG: Final = """
[console]
enabled = true
[billing]
invoices = "{home}"
"""
PAGES: Final = (
    (), ("topics",), ("topics", "new"), ("topics", OWNED), ("topics", f"{ORGANISATION}/{SOLID}"),
    *(("topics", OWNED, tab) for tab in ("messages", "tail", "produce", "permissions", "settings")),
    ("topics", OWNED, "messages", "0", "0"), ("groups",), ("groups", OWNED, GROUP),
    ("groups", OWNED, GROUP, "reset"), ("tables",), ("tables", "new"),
    *(("tables", f"{ORGANISATION}/{TABLE}", *tab)
      for tab in ((), ("rows",), ("streams",), ("settings",))),
    ("bills",), ("bills", ORGANISATION), ("bills", ORGANISATION, "2026-03"), ("usage", OWNED),
    ("quotas",), ("servers",), ("servers", "weights"),
    ("principals",), ("principals", "new"), ("principals", PRINCIPAL),
    ("principals", PRINCIPAL, "permissions"), ("audit",), ("encryption",),
)  # fmt: skip
PATHS: Final = [url(*parts).removeprefix(ROOT) for parts in PAGES]
PATHS.append(url("groups", topic=OWNED).removeprefix(ROOT))

PICTURED: Final = ("", PATHS[3], "groups", "topics")


def fill(server: ServerProcess) -> None:
    """Things of each kind with long names: a group that lags, a table with a stream."""

    def called(method: str, path: str, document: object = None) -> Any:
        replied = rest(server, method, path, document)
        assert replied.status < 400, replied
        return replied.document

    new = {"id": PRINCIPAL, "organisation": ORGANISATION, "team": "CIreconciliation_platform-team"}
    called("POST", "principals", new)
    called("POST", f"principals/{PRINCIPAL}/keys")
    for name in (TOPIC, SOLID):
        called("POST", "topics", {"name": f"{ORGANISATION}/{name}", "partitions": 2})
        topic = url("topics", f"{ORGANISATION}/{name}").removeprefix(ROOT)
        for _ in range(LAG // 700):
            called("POST", f"{topic}/partitions/0/messages", {"messages": [{"text": "x"}] * 700})
        group = f"{topic}/groups/{GROUP if name == TOPIC else SOLID}"
        worker = called("POST", f"{group}/workers")["worker"]
        called("POST", f"{group}/workers/{worker}/commits", {"offsets": {"0": 0}})
    columns = {"customer_identifier-of_the_bank": "string", "loyalty_points-balance": "int64"}
    table = {
        "name": f"{ORGANISATION}/{TABLE}", "key": ["customer_identifier-of_the_bank"],
        "columns": columns, "streams": {OWNED: {"view": "keys-only"}},
    }  # fmt: skip
    called("POST", "tables", table)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    home = tmp_path_factory.mktemp("home")
    publish(home, tenants=(ORGANISATION,), topic=TOPIC)
    folder = tmp_path_factory.mktemp("names")
    started = ServerProcess(folder, config=CONFIG.format(home=home)).start()
    try:
        fill(started)
        yield started
    finally:
        started.stop()


def window_of(browser: Browser, server: ServerProcess, **options: Any) -> Visitor:
    return visitor(browser, server.url, Login(ROOT_KEY.key_id, ROOT_KEY.secret), **options)


def test_the_names_are_long() -> None:
    assert min(map(len, (OWNED, PRINCIPAL, TOPIC, SOLID, GROUP, TABLE))) > 40


@pytest.mark.parametrize("width", [1440, 1920])
def test_no_name_breaks_inside_a_word(browser: Browser, server: ServerProcess, width: int) -> None:
    window = window_of(browser, server, viewport={"width": width, "height": 1000})
    found = {}
    for path in PATHS:
        page = window.go(path)
        absent = [text for text in page.locator("h1").all_inner_texts() if text == "Not found"]
        found[path] = absent + window.broken_words() + window.cut_columns()
        if path in PICTURED:
            window.picture(f"names-{width}-{PICTURED.index(path)}")
    window.context.close()
    assert {path: broken for path, broken in found.items() if broken} == {}
    assert window.complaints == []


def test_no_page_is_wider_than_a_phone(browser: Browser, server: ServerProcess) -> None:
    window = window_of(browser, server, **NIGHT.options)
    found = {}
    for path in PATHS:
        window.go(path)
        found[path] = (window.sideways(), window.cut_columns())
        if path in PICTURED:
            window.picture(f"names-phone-{PICTURED.index(path)}")
    window.context.close()
    assert {path: wide for path, wide in found.items() if wide != (0, [])} == {}


def test_a_word_without_a_place_is_cut_and_whole_on_focus(
    browser: Browser, server: ServerProcess
) -> None:
    window = window_of(browser, server)
    page = window.go("topics")
    name = page.locator("table.rows .long", has_text=SOLID)
    cut = "(element) => element.scrollWidth > element.clientWidth"
    assert name.evaluate(cut)
    assert name.get_attribute("title") == SOLID
    page.locator("table.rows a", has_text=SOLID).focus()
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Tab")  # the focus of the keyboard is visible
    assert not name.evaluate(cut)
    assert window.violations() == []
    window.context.close()


def test_alarms_and_groups_of_the_overview_are_reached_by_keyboard(
    browser: Browser, server: ServerProcess
) -> None:
    window = window_of(browser, server)
    for place in (".alarms a", "section:has(#lags) a", "section:has(#busiest) a"):
        page = window.go("")
        wanted = page.locator(place, has_text=TOPIC if "busiest" in place else GROUP).first
        for _ in range(TABS_MAX):
            page.keyboard.press("Tab")
            if wanted.evaluate("(link) => link === document.activeElement"):
                break
        page.keyboard.press("Enter")
        expect(page.locator("h1")).to_have_text(TOPIC if "busiest" in place else GROUP)
    consumers = page.locator("section:has(#consumers) tbody tr")
    expect(consumers).to_have_count(1)
    expect(consumers.locator("[data-label='Messages behind']")).to_have_text(f"{LAG - 1:,}")
    consumers.get_by_role("link").click()
    expect(page.locator("h1")).to_have_text(GROUP)
    page = window.go(url("topics", OWNED, "messages").removeprefix(ROOT))
    page.get_by_role("link", name="Consumers", exact=True).click()
    expect(page.locator("table.rows tbody tr")).to_have_count(1)
    expect(page.locator("table.rows tbody")).to_contain_text(GROUP)
    window.context.close()
    assert window.complaints == []
