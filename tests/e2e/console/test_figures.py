"""What pages cost with 1,000 topics: printed, and only bounded by the size of what is drawn."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect
from tests.e2e.console.browsing import Login, Visitor, visitor
from tests.e2e.rest.client import rest
from tests.server_process import ROOT_KEY, ServerProcess

pytestmark = pytest.mark.timeout(300)
TOPICS = 1_000
WIDE_PARTITIONS = 1_000
TIMES = 5
PAINT = (
    "() => performance.getEntriesByType('paint')"
    ".find((entry) => entry.name === 'first-contentful-paint').startTime"
)
LOADED = "() => performance.getEntriesByType('navigation')[0].responseEnd"
CONFIG = f"[console]\nenabled = true\n[topic]\npartitions_max = {WIDE_PARTITIONS}\n"


@pytest.fixture(scope="module")
def window(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Visitor]:
    """Of an administrator, on a server with 1,000 topics, one of them with 1,000 partitions."""
    server = ServerProcess(tmp_path_factory.mktemp("many"), config=CONFIG).start()
    for number in range(TOPICS):
        partitions = 1 if number else WIDE_PARTITIONS
        new = {"name": f"topic-{number:04}", "partitions": partitions}
        assert rest(server, "POST", "topics", new).status == 201
    worked = rest(server, "POST", f"topics/topic-{TOPICS - 1:04}/groups/last/workers")
    assert worked.status == 201
    made = visitor(browser, server.url, Login(ROOT_KEY.key_id, ROOT_KEY.secret))
    yield made
    made.context.close()
    server.stop()


@pytest.mark.parametrize(
    "path",
    ["", "topics", "topics?rows=500", "topics?filter=0500", "groups", "topics/root%2Ftopic-0000"],
)
def test_a_page_is_drawn_with_many_topics(window: Visitor, path: str) -> None:
    paints, loads = [], []
    for _ in range(TIMES):
        page = window.go(path)
        expect(page.locator("table.rows tbody tr").first).to_be_visible()
        paints.append(page.evaluate(PAINT))
        loads.append(page.evaluate(LOADED))
        assert page.locator("table.rows tbody tr").count() <= 500
    paint_ms, load_ms = sorted(paints)[TIMES // 2], sorted(loads)[TIMES // 2]
    shown = f"| /console/{path}: reply after {load_ms:.0f} ms, first paint after {paint_ms:.0f} ms"
    print(shown)  # noqa: T201


def test_the_group_of_the_last_topic_is_listed(window: Visitor) -> None:
    page = window.go("groups")
    row = page.locator("table.rows tbody tr")
    expect(row).to_have_count(1)
    expect(row).to_contain_text(f"topic-{TOPICS - 1:04}")
    assert window.violations() == []
