"""Servers, ring, weights and drain in a browser: of a cluster of three, and of a single server."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest
from playwright.sync_api import Browser, expect
from tests.e2e.console.browsing import BRIGHT, DARK, Login, Look, Visitor, each_page, visitor
from tests.e2e.console.cluster import PARTITIONS, running_cluster
from tests.e2e.memory_cluster import MemoryServer
from tests.e2e.rest.client import rest
from tests.server_process import ROOT_KEY
from tests.waiting import eventually

Visit = Callable[..., Visitor]
ROOT = Login(ROOT_KEY.key_id, ROOT_KEY.secret)
PAGES = (
    ("servers", "servers", "Recent moves"),
    ("server", "servers/s2", "Weight by sector"),
    ("weights", "servers/weights", "Balance the load"),
)


@dataclass
class Windows:
    """Windows of root on one server of the cluster."""

    servers: list[MemoryServer]
    browser: Browser
    opened: list[Visitor] = field(default_factory=list)

    def __call__(self, look: Look = BRIGHT) -> Visitor:
        url = f"http://127.0.0.1:{self.servers[0].port}"
        self.opened.append(visitor(self.browser, url, ROOT, **look.options))
        return self.opened[-1]


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[MemoryServer]]:
    with running_cluster(tmp_path_factory.mktemp("cluster")) as found:
        yield found


@pytest.fixture
def open_window(servers: list[MemoryServer], browser: Browser) -> Iterator[Windows]:
    windows = Windows(servers, browser)
    yield windows
    complaints = [line for window in windows.opened for line in window.complaints]
    for window in windows.opened:
        window.context.close()
    assert complaints == []


@each_page(*PAGES)
def test_a_page_is_whole_and_accessible(
    open_window: Windows, name: str, path: str, shown: str, look: Look
) -> None:
    window = open_window(look)
    page = window.go(path)
    expect(page.locator("main")).to_contain_text(shown)
    if name != "server":
        expect(page.locator(".ring path").first).to_be_visible()
    window.check_whole(f"{name}-{look}")


def test_a_proposal_is_seen_beside_the_ring_and_applied(
    open_window: Windows, servers: list[MemoryServer]
) -> None:
    window = open_window()
    page = window.go("servers/weights")

    def is_proposed() -> bool:
        page.fill("#field-budget", "60")
        page.click("text=Propose weights")
        page.wait_for_load_state()
        return page.locator(".ring").count() == 2

    eventually("the traffic counts, since its interval is over", is_proposed)
    expect(page.locator(".ring")).to_have_count(2)
    expect(page.locator("#change")).to_be_visible()
    expect(page.locator(".pair")).to_have_count(3)
    window.picture("weights-proposal-wide-light")
    assert window.violations() == []
    page.fill("#confirmed", "no")
    page.click("button.danger")
    expect(page.get_by_role("alert").first).to_contain_text("nothing was set")
    expect(page.locator(".ring")).to_have_count(2)
    page.fill("#confirmed", "apply")
    page.click("button.danger")
    expect(page.get_by_role("status").first).to_contain_text("The weights were set")
    replied = rest(servers[1], "GET", "cluster")
    assert replied.status == 200
    assert replied.document["partitions"] >= PARTITIONS


def test_a_weight_is_set_by_a_number(open_window: Windows) -> None:
    window = open_window(DARK)
    page = window.go("servers/weights")
    page.select_option("#field-server", "s3")
    page.fill("#field-nodes", "96")
    page.click("text=Show what would change")
    expect(page.locator(".ring")).to_have_count(2)
    window.picture("weights-set-wide-dark")
    page.fill("#field-nodes", "0")
    page.click("text=Show what would change")
    expect(page.get_by_role("alert").first).to_contain_text("a number above 0")


def test_a_server_is_drained_and_comes_back(open_window: Windows) -> None:
    window = open_window()
    page = window.go("servers/s3")
    page.fill("#confirmed", "s2")
    page.click("button.danger")
    expect(page.get_by_role("alert").first).to_contain_text("nothing is drained")
    page.fill("#confirmed", "s3")
    page.click("button.danger")
    expect(page.get_by_role("status").first).to_contain_text("Server s3 is drained")
    expect(page.locator("#live")).to_contain_text("draining")
    expect(page.locator("#live .figure").nth(1)).to_contain_text("Partitions0")
    window.picture("server-drained-wide-light")
    page = window.go("servers")
    expect(page.locator("#live")).to_contain_text("draining")
    expect(page.locator("#recent + .rows")).to_contain_text("planned")
    window.picture("servers-drained-wide-light")
    page = window.go("servers/s3")
    page.click("text=End the drain >> nth=-1")
    expect(page.get_by_role("status").first).to_contain_text("gets partitions again")


def test_a_single_server_says_so(visit: Visit) -> None:
    assert visit("viewer").go("servers").locator("h1").text_content() == "Servers"
    expect(visit("alice").go("servers").locator("h1")).to_have_text("Not found")
    window = visit("root")
    page = window.go("servers")
    expect(page.locator("main")).to_contain_text("single server without a cluster")
    expect(page.locator("table.rows tbody tr")).to_have_count(1)
    assert window.violations() == []
    window.picture("servers-alone-wide-light")
    # A refresh copies no style to the new element: the policy of the page forbids that.
    page.evaluate("document.querySelector('#live').style.outline = '0'")
    with page.expect_response(lambda reply: reply.url.endswith("/console/servers")):
        pass
    page.wait_for_function("!document.querySelector('#live').style.outline")
