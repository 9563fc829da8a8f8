"""The status page: escaped, with strict headers, and only for those with a key."""

import re
from html.parser import HTMLParser
from types import SimpleNamespace
from typing import Any

import pytest

from opentalos.broker.admin.overview import Amounts, Rate, TopicOverview
from opentalos.broker.cluster.service import ClusterStatus, ServerState, ServerStatus
from opentalos.broker.tables.api.values import StreamState, Table
from opentalos.gateway.session.forms import HEADERS as _HEADERS
from opentalos.gateway.session.forms import STYLE as _STYLE
from opentalos.gateway.status_page import _size, render
from opentalos.model.table import KeyPart, TableSchema

EVIL = "<script>alert('x')</script>\"&"
VOID = {"meta", "link", "br"}


class Strict(HTMLParser):
    """Fails on what is not closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.seen.append(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def topic(
    name: str, *, lags: dict[str, int | None] | None, rate: Rate | None = None, damaged: int = 0
) -> TopicOverview:
    found: Any = SimpleNamespace(name=name, owner=EVIL, partitions=2)
    return TopicOverview(found, Amounts(3_000, 4_096, 3_000, 4_096, damaged), rate, lags)


def cluster(name: str) -> ClusterStatus:
    server = ServerStatus(name=name, state=ServerState.SERVING, address=EVIL, partitions=3)
    return ClusterStatus(
        leader=name, ring_number=1, servers=[server], partitions=3, unassigned=1, moving=[],
        recent=[],
    )  # fmt: skip


def table(number: int) -> Table:
    states = {
        EVIL: StreamState(1, "u", "o", EVIL, since_ms=1),
        "late": StreamState(2, "u", "o", "late", since_ms=1, gap_ms=2),
    }
    schema = TableSchema(primary=(KeyPart("k"),), shards=8)
    return Table(uuid="0" * 32, owner=EVIL, name=f"{EVIL}{number}", schema=schema, streams=states)


def checked(page: str) -> str:
    parser = Strict()
    parser.feed(page)
    parser.close()
    assert parser.open == []
    assert "script" not in parser.seen
    assert EVIL not in page
    return page


def test_texts_of_others_are_escaped() -> None:
    found = [topic(EVIL, lags={EVIL: 3})]
    page = checked(render(EVIL, EVIL, found, 0, cluster(EVIL)))
    assert page.count("&lt;script&gt;") >= 6


def test_amounts_rates_and_lags_are_shown() -> None:
    page = render("s1", "root", [topic("t", lags={"g": 7}, rate=Rate(12.34, 3e6))], 1_234, None)
    for text in ("3,000", "4.0 KiB", "12.3", "2.9 MiB", "g: 7", "1,234 further topics"):
        assert f"{text}" in checked(page)
    assert "Cluster" not in page


def test_unknown_figures_are_not_shown_as_zero() -> None:
    page = render("s1", "root", [topic("t", lags=None)], 0, cluster("s1"))
    assert "unavailable now" in checked(page)
    assert "1 partitions have no server" in page


def test_amounts_and_lags_of_a_damaged_topic_are_not_shown_as_numbers() -> None:
    page = checked(render("s1", "root", [topic("t", lags={"g": None}, damaged=1)], 0, None))
    assert page.count(">damaged<") == 3
    assert "3,000" not in page


def test_tables_are_shown_with_their_streams() -> None:
    page = checked(render("s1", "root", [], 0, None, [table(number) for number in range(52)]))
    assert page.count("late: stopped, changes are missing") == 50
    assert "2 further tables are not shown" in page
    assert "Tables" not in render("s1", "root", [], 0, None)


def test_an_empty_page_says_so() -> None:
    assert "No topics that you may see" in checked(render("s1", "alice", [], 0, None))


def test_the_page_may_load_nothing_and_run_nothing() -> None:
    page = render("s1", "root", [topic("t", lags={})], 0, None)
    assert re.findall(r"(?:src|href)=\"(?!data:)", page) == []
    assert f"<style>{_STYLE}</style>" in page
    headers = _HEADERS.decode()
    assert "default-src 'none'" in headers
    assert "unsafe" not in headers
    assert "Cache-Control: no-store" in headers


@pytest.mark.parametrize(
    ("count", "shown"),
    [(0, "0 B"), (1023, "1,023 B"), (1024, "1.0 KiB"), 
     (5 << 40, "5.0 TiB"), (1 << 50, "1,024.0 TiB")],
)  # fmt: skip
def test_sizes(count: float, shown: str) -> None:
    assert _size(count) == shown
