"""The list of topics over a whole broker: amounts of what is shown, or of all if they order it."""

from collections.abc import AsyncIterator

import pytest
from tests.unit.gateway.console.support import Browser, browser


@pytest.fixture
async def root() -> AsyncIterator[Browser]:
    """Topics a to e, each with as many messages as its place; a page of the status has two."""
    async with browser() as made:
        for place, name in enumerate("abcde", 1):
            new = {"name": name, "partitions": 1}
            assert (await made.rest("POST", "topics", new)).status == 201
            sent = {"messages": [{"text": "x"}] * (900 + place)}
            path = f"topics/{name}/partitions/0/messages"
            assert (await made.rest("POST", path, sent)).status == 200
        yield made


@pytest.fixture(autouse=True)
def _short_status(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("opentalos.gateway.rest.cluster.status.TOPICS_MAX", 2)


async def test_the_last_topics_have_amounts(root: Browser) -> None:
    page = await root.get("/console/topics?rows=2&page=3")
    assert ">905<" in page.text
    assert "status?after=root/d&limit=1" in page.words.replace("%2F", "/")


async def test_topics_of_a_filter_have_amounts(root: Browser) -> None:
    page = await root.get("/console/topics?filter=e")
    assert (">905<" in page.text, ">904<" in page.text) == (True, False)
    assert "status?topics=root/e" in page.words.replace("%2F", "/")


async def test_more_rows_than_one_call_names_or_one_page_has(
    root: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("opentalos.gateway.console.pages.topic.topics.NAMED_MAX", 2)
    for query in ("", "?order=partitions", "?order=bytes"):
        page = await root.get(f"/console/topics{query}")
        assert all(f">{900 + place}<" in page.text for place in range(1, 6)), query


async def test_topics_are_ordered_by_the_amounts_of_all(root: Browser) -> None:
    page = await root.get("/console/topics?rows=1&order=messages")
    assert (">905<" in page.text, ">904<" in page.text) == (True, False)
    assert "status?after=root/b" in page.words.replace("%2F", "/")
