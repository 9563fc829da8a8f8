"""The list of topics over a whole broker: amounts of what is shown, or of all if they order it."""

from collections.abc import AsyncIterator

import pytest
from tests.unit.gateway.console.support import Browser, browser

CONSUMERS = "/console/groups?topic=root%2Fa"


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


async def test_a_topic_leads_to_its_consumers(root: Browser) -> None:
    empty = await root.get("/console/topics/root%2Fa")
    assert "No consumer group reads this topic" in empty.words
    for group in ("ahead", "behind"):
        made = await root.rest("POST", f"topics/a/groups/{group}/workers")
        path = f"topics/a/groups/{group}/workers/{made.document['worker']}/commits"
        offset = 900 if group == "ahead" else 0  # of 901 messages
        assert (await root.rest("POST", path, {"offsets": {"0": offset}})).status < 400
    page = await root.get("/console/topics/root%2Fa")
    links = [f'href="/console/groups/root%2Fa/{group}"' for group in ("behind", "ahead")]
    assert page.text.index(links[0]) < page.text.index(links[1])
    assert "behind 900 " in page.words
    assert "2 groups with state and workers" in page.words
    for tab in ("", "/messages", "/permissions"):
        assert f'href="{CONSUMERS}"' in (await root.get(f"/console/topics/root%2Fa{tab}")).text
    listed = await root.get(CONSUMERS)
    assert "1-2 of 2 groups" in listed.words
    assert 'href="/console/topics/root%2Fa"' in listed.text


async def test_consumers_of_a_topic_that_nobody_knows_are_said(root: Browser) -> None:
    made = await root.rest("POST", "topics/a/groups/g/workers")
    assert made.status == 201
    topic = root.rest.world.broker.context.topics.record("root", "a")
    assert topic is not None
    await root.rest.world.damage(topic, 0)
    page = await root.get("/console/topics/root%2Fa")
    assert (page.status, "g not known" in page.words) == (200, True)
