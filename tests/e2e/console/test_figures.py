"""What pages cost with 1,000 topics, one of them with 10,000 partitions: printed, and only bounded
by the size of what is drawn."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect
from tests.e2e.console.browsing import Login, Visitor, visitor
from tests.e2e.rest.client import rest
from tests.server_process import ROOT_KEY, ServerProcess

TOPICS = 1_000
WIDE_PARTITIONS = 10_000
FULL = 9_876  # the partition of the wide topic that has messages
WIDE = "topics/root%2Ftopic-0000"
TIMES = 5
PAINT = (
    "() => performance.getEntriesByType('paint')"
    ".find((entry) => entry.name === 'first-contentful-paint')?.startTime"
)
LOADED = "() => performance.getEntriesByType('navigation')[0].responseEnd"
CONFIG = (
    "[console]\nenabled = true\n"
    f"[topic]\npartitions_max = {WIDE_PARTITIONS}\n"
    f"[quota]\nuser_partitions = {WIDE_PARTITIONS + TOPICS}\n"
)


@pytest.fixture(scope="module")
def window(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Visitor]:
    """Of an administrator; the first topic is the wide one, the last one has a group."""
    server = ServerProcess(tmp_path_factory.mktemp("many"), config=CONFIG).start()
    for number in range(TOPICS):
        partitions = 1 if number else WIDE_PARTITIONS
        new = {"name": f"topic-{number:04}", "partitions": partitions}
        assert rest(server, "POST", "topics", new).status == 201
    sent = {"messages": [{"text": "found"}] * 3}
    assert rest(server, "POST", f"{WIDE}/partitions/{FULL}/messages", sent).status == 200
    for path in (f"{WIDE}/groups/wide", f"topics/topic-{TOPICS - 1:04}/groups/last"):
        assert rest(server, "POST", f"{path}/workers").status == 201
    made = visitor(browser, server.url, Login(ROOT_KEY.key_id, ROOT_KEY.secret))
    yield made
    made.context.close()
    server.stop()


@pytest.mark.parametrize(
    "path",
    ["", "topics", "topics?rows=500", "topics?filter=0500", "groups", WIDE, f"{WIDE}?page=200",
     f"{WIDE}?order=messages", f"{WIDE}/messages", "groups/root%2Ftopic-0000/wide"],
)  # fmt: skip
def test_a_page_is_drawn_with_many_topics(window: Visitor, path: str) -> None:
    paints, loads = [], []
    for _ in range(TIMES):
        page = window.go(path)
        expect(page.locator("table.rows tbody tr").first).to_be_visible()
        page.wait_for_function(PAINT)  # what is visible may still have to be painted
        paints.append(page.evaluate(PAINT))
        loads.append(page.evaluate(LOADED))
        assert page.locator("table.rows tbody tr").count() <= 500
    paint_ms, load_ms = sorted(paints)[TIMES // 2], sorted(loads)[TIMES // 2]
    shown = f"| /console/{path}: reply after {load_ms:.0f} ms, first paint after {paint_ms:.0f} ms"
    print(shown)  # noqa: T201


def test_the_group_of_the_last_topic_is_listed(window: Visitor) -> None:
    page = window.go("groups?order=group")
    rows = page.locator("table.rows tbody tr")
    expect(rows).to_have_count(2)
    expect(rows.first).to_contain_text(f"topic-{TOPICS - 1:04}")
    assert window.violations() == []


def test_partitions_of_a_wide_topic_are_paged_ordered_and_found(window: Visitor) -> None:
    page = window.go(WIDE)
    rows = page.locator("table.partitions tbody tr")
    expect(rows).to_have_count(50)
    page.get_by_role("link", name="next").first.click()
    expect(rows.first).to_contain_text("50")
    expect(page.locator("main")).to_contain_text(f"51-100 of {WIDE_PARTITIONS:,} partitions")
    page.get_by_role("link", name="Messages", exact=True).last.click()
    expect(rows.first.locator("a")).to_have_text(str(FULL))
    page.fill("[data-filter]", "9870-9879")
    page.keyboard.press("Enter")
    expect(rows).to_have_count(10)
    expect(rows.first.locator("a")).to_have_text(str(FULL))
    window.picture("topic-wide")
    assert window.violations() == []
    assert window.cut_columns() == []


def test_the_tail_of_a_wide_topic_follows_the_chosen_partitions(window: Visitor) -> None:
    page = window.go(f"{WIDE}/tail")
    expect(page.locator("main")).to_contain_text("128 partitions are followed at a time: 0 to 127")
    page.goto(f"{window.url}/console/{WIDE}/tail?page=78")
    expect(page.locator("main")).to_contain_text("9856 to 9983")
    expect(page.locator("[data-tail]")).to_have_attribute("data-tail", "/console/" + WIDE
                                                          + "/tail/rows?first=9856")  # fmt: skip
    window.picture("tail-wide")
    assert window.violations() == []


def test_a_group_of_a_wide_topic_shows_who_owns_what(window: Visitor) -> None:
    page = window.go("groups/root%2Ftopic-0000/wide?order=lag")
    partitions = page.locator("table.rows").last.locator("tbody tr")
    expect(partitions.first).to_contain_text(str(FULL))
    expect(page.locator(".owners rect")).to_have_count(1_000)
    window.picture("group-wide")
    assert window.violations() == []
