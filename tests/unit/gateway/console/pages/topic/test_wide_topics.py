"""Pages of a topic with 2,100 partitions over a whole broker: they read what they show."""

import json
from collections.abc import AsyncIterator

import pytest
from tests.unit.gateway.console.support import Browser, browser

from opentalos.gateway.console.pages.topic.states import wanted_of
from opentalos.model.limits import TopicLimits

PARTITIONS = 2_100
TOPIC = "/console/topics/root%2Fwide"
REST = "/rest/v1/topics/root%2Fwide"
FULL = 1_987  # the partition with messages


@pytest.fixture
async def root() -> AsyncIterator[Browser]:
    async with browser({"topic": TopicLimits(partitions_max=PARTITIONS)}) as made:
        new = {"name": "wide", "partitions": PARTITIONS}
        assert (await made.rest("POST", "topics", new)).status == 201
        sent = {"messages": [{"text": "found"}] * 3}
        path = f"topics/wide/partitions/{FULL}/messages"
        assert (await made.rest("POST", path, sent)).status == 200
        yield made


async def test_a_page_reads_the_states_that_it_shows(root: Browser) -> None:
    first = await root.get(TOPIC)
    assert f"1-50 of {PARTITIONS:,} partitions" in first.words
    assert f"GET {REST}?from_partition=0&limit=50" in first.words
    last = await root.get(f"{TOPIC}?page=42")
    assert f"GET {REST}?from_partition=2050&limit=50" in last.words
    assert "messages?partition=2099" in last.text
    assert "order by messages to count them" in last.words


async def test_partitions_are_ordered_by_what_they_hold(root: Browser) -> None:
    page = await root.get(f"{TOPIC}?order=messages&rows=3")
    assert page.text.index(f"partition={FULL}") < page.text.index("partition=0")
    assert "Retained 3 " in page.words
    assert f"1-3 of {PARTITIONS:,} partitions" in page.words


async def test_partitions_are_found_by_number_and_range(root: Browser) -> None:
    one = await root.get(f"{TOPIC}?filter={FULL}")
    assert "1-1 of 1 partition " in one.words
    assert f"messages?partition={FULL}" in one.text
    some = await root.get(f"{TOPIC}?filter=1900-1999&order=messages")
    assert "1-50 of 100 partitions" in some.words
    assert some.text.index(f"partition={FULL}") < some.text.index("partition=1900")
    assert f"GET {REST}?from_partition=1900&limit=100" in some.words
    assert "has no such partition" in (await root.get(f"{TOPIC}?filter=2100")).words


def test_what_is_no_number_and_no_range_finds_all() -> None:
    everything = range(20)
    for text in ("", "x", "-", "-5", "1-x", "٣", "1,2", "9" * 6):
        assert wanted_of(text, 20) == everything, text
    assert wanted_of("7", 20) == range(7, 8)
    assert wanted_of(" 7 - 9 ", 20) == range(7, 10)
    assert wanted_of("18-", 20) == range(18, 20)
    assert wanted_of("18-99", 20) == range(18, 20)
    for nothing in ("20", "9-8", "99-"):
        assert not wanted_of(nothing, 20)


async def test_other_pages_of_the_topic_read_no_states(root: Browser) -> None:
    for path in ("settings", "permissions", "produce", "tail", "messages"):
        page = await root.get(f"{TOPIC}/{path}")
        assert page.status == 200
        assert f"GET {REST}?limit=0 " in f"{page.words} ", path
    assert "found" in (await root.get(f"{TOPIC}/messages")).words


async def test_a_tail_follows_a_part_of_the_partitions(root: Browser) -> None:
    page = await root.get(f"{TOPIC}/tail")
    assert "128 partitions are followed at a time: 0 to 127." in page.words
    assert f'data-tail="{TOPIC}/tail/rows"' in page.text
    start = json.loads((await root.get(f"{TOPIC}/tail/rows")).text)["after"]
    assert start.split(",")[-1] == "127:0"
    page = await root.get(f"{TOPIC}/tail?page=16&rows=500")
    assert f'data-tail="{TOPIC}/tail/rows?first=1920"' in page.text
    start = json.loads((await root.get(f"{TOPIC}/tail/rows?first=1920")).text)["after"]
    assert start.split(",")[0] == "1920:0"
    assert f",{FULL}:3," in start
    sent = {"messages": [{"text": "new"}]}
    await root.rest("POST", f"topics/wide/partitions/{FULL}/messages", sent)
    came = json.loads((await root.get(f"{TOPIC}/tail/rows?first=1920&after={start}")).text)
    assert [row[1:5] for row in came["rows"]] == [[FULL, 3, "", "new"]]


async def test_pages_with_the_lag_of_a_wide_topic_are_refreshed_as_others(root: Browser) -> None:
    joined = await root.rest("POST", "topics/wide/groups/g/workers")
    assert joined.status == 201
    for path, every in (("", "5s"), ("topics", "10s"), ("groups/root%2Fwide/g", "5s")):
        assert f"every {every}" in (await root.get(f"/console/{path}")).text, path
    page = await root.get("/console/groups/root%2Fwide/g?order=lag")
    assert page.text.index(f"partition={FULL}") < page.text.index("partition=0")
